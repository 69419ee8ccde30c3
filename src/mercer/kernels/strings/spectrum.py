"""`Spectrum`: how often the same substrings of one length, or of several, occur."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels.checks import check_whole
from mercer.kernels.strings.alphabets import check_alphabet, kept
from mercer.kernels.strings.windows import View, ViewedWindows

__all__ = ["Spectrum"]


class Spectrum(ViewedWindows):
    r"""The spectrum kernel k(s, t) = Σᵤ nᵤ(s) nᵤ(t) over the substrings u of p letters.

    nᵤ(s) is how often u occurs in s, overlaps included. Several lengths are a blend,
    Σₚ wₚ Σ_{|u| = p} nᵤ(s) nᵤ(t). A string shorter than p has no such substrings and adds 0.

    *Valid when* always: it is the inner product of the counts (√wₚ nᵤ(s))ᵤ.

    Substrings are named by numbers of 64 bits: those of up to 7 letters below U+0100, and of up to
    2 of any letters, exactly; longer ones by a hash, and `collision_probability` bounds the chance
    that two of them are taken for one.

    Parameters
    ----------
    length : int ≥ 1 or sequence of them, default=3
        The number of letters p; several are added up.
    weights : sequence of floats ≥ 0, optional
        The weight wₚ of each length; one each by default.
    alphabet : str, bytes or list of letters, optional
        The letters that `features` has columns for, in this order; by default those that occur
        where the kernel is fitted. No value k(s, t) depends on it. A substring with another letter
        has no column: the features leave it out. Where the kernel is fitted to strings with other
        letters, these follow the given ones.

    Notes
    -----
    Time O(N) for N letters, whose substrings are numbered by a table of hashes, and one addition
    for every pair of points that share a substring. With an alphabet of a letters, `features` is a
    sparse matrix of Σₚ aᵖ columns, in lexicographic order, one length after another; models solve
    the smaller problem with it.

    References
    ----------
    C. Leslie, E. Eskin, W. S. Noble, "The spectrum kernel: a string kernel for SVM protein
    classification", Pacific Symposium on Biocomputing, 2002.

    Examples
    --------
    >>> from mercer import Spectrum
    >>> Spectrum(2)(["banana", "bandana", "ban"])
    array([[9., 7., 3.],
           [7., 8., 3.],
           [3., 3., 2.]])
    >>> Spectrum(2).features(["abab", "ba"]).toarray()  # aa, ab, ba, bb
    array([[0., 2., 1., 0.],
           [0., 0., 1., 0.]])
    """

    length: Any
    weights: Any
    alphabet: Any

    def __init__(self, length: Any = 3, *, weights: Any = None, alphabet: Any = None):
        super().__init__(length=length, weights=weights, alphabet=alphabet)

    def _check_params(self) -> None:
        # Kept as tuples: lists could be changed later, and ranges cannot be saved.
        self.length, self.weights = kept(self.length), kept(self.weights)
        for p in self.length if isinstance(self.length, tuple) else [self.length]:
            check_whole("Spectrum", "length", p, 1)
        lengths = self._lengths()
        if not lengths or len(set(lengths)) < len(lengths):
            raise InvalidInput(
                f"Spectrum: length={self.length!r}; give one whole number ≥ 1, or several, all "
                "different."
            )
        if self.weights is not None:
            try:
                w: np.ndarray = np.asarray(self.weights, dtype=np.float64)
                good = w.shape == (len(lengths),) and bool((np.isfinite(w) & (w >= 0)).all())
                good = good and bool((w > 0).any())
            except (TypeError, ValueError):
                good = False
            if not good:
                raise InvalidInput(
                    f"Spectrum: weights={self.weights!r}; give one finite number ≥ 0 for each of "
                    f"the {len(lengths)} lengths, not all 0."
                )
        self.alphabet = check_alphabet("Spectrum", self.alphabet)

    @property
    def _shortest(self) -> int:
        return min(self._lengths())

    def _lengths(self) -> list[int]:
        return [int(p) for p in np.ravel(np.asarray(self.length))]

    def _views(self) -> list[View]:
        weights = np.ones(len(self._lengths())) if self.weights is None else self.weights
        factors = np.sqrt(np.asarray(weights, dtype=float)).tolist()
        return [(p, range(p), f) for p, f in zip(self._lengths(), factors, strict=True)]
