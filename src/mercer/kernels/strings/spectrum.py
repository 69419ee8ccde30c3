"""`Spectrum`: how often the same substrings of one length, or of several, occur."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.strings import StringCollection
from mercer.errors import InvalidInput
from mercer.kernels.checks import check_whole
from mercer.kernels.counted import Counts, rows_of_counts
from mercer.kernels.strings.alphabets import check_alphabet, letters_of, numbered, words_of
from mercer.kernels.strings.windows import CountedStrings, places, window_codes

__all__ = ["Spectrum"]


class Spectrum(CountedStrings):
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
        has no column: the features leave it out, and strings that hold such letters are not fitted
        by features.

    Notes
    -----
    Time O(N log N) for N letters, and one addition for every pair of points that share a
    substring. With an alphabet of a letters, `features` is a sparse matrix of Σₚ aᵖ columns, in
    lexicographic order, one length after another; models solve the smaller problem with it.

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

    def __init__(self, length: Any = 3, *, weights: Any = None, alphabet: Any = None):
        super().__init__(length=length, weights=weights, alphabet=alphabet)

    def _check_params(self) -> None:
        several = np.ndim(self.length) == 1 and not isinstance(self.length, str | bytes)
        for p in self.length if several else [self.length]:
            check_whole("Spectrum", "length", p, 1)
        lengths = self._lengths()
        if not lengths or len(set(lengths)) < len(lengths):
            raise InvalidInput(
                f"Spectrum: length={self.length!r}; give one whole number ≥ 1, or several, all "
                "different."
            )
        if self.weights is not None:
            try:
                w = np.asarray(self.weights, dtype=float)
                good = w.shape == (len(lengths),) and bool((np.isfinite(w) & (w >= 0)).all())
            except (TypeError, ValueError):
                good = False
            if not good:
                raise InvalidInput(
                    f"Spectrum: weights={self.weights!r}; give one finite number ≥ 0 for each of "
                    f"the {len(lengths)} lengths."
                )
        check_alphabet("Spectrum", self.alphabet)

    def _lengths(self) -> list[int]:
        return [int(p) for p in np.ravel(np.asarray(self.length))]

    def _factors(self) -> list[float]:
        """Return √wₚ for each length."""
        if self.weights is None:
            return [1.0] * len(self._lengths())
        return np.sqrt(np.asarray(self.weights, dtype=float)).tolist()

    def _open(self) -> list[str]:
        return ["alphabet"] if self.alphabet is None else []

    def _resolve(self, X: StringCollection, sample_weight: Any) -> dict[str, Any]:
        return {"alphabet": letters_of(X)} if self.alphabet is None else {}

    # -- values -------------------------------------------------------------------------------
    def _counts(self, X: StringCollection) -> Counts:
        parts = []
        for p, factor in zip(self._lengths(), self._factors(), strict=True):
            if factor:
                starts, rows = places(X, p)
                values = None if factor == 1 else np.full(len(rows), factor)
                parts.append(Counts(len(X), rows, window_codes(X.codes, p)[starts], values))
        none = np.zeros(0, dtype=np.int64)
        return Counts.joined(parts or [Counts(len(X), none, none.astype(np.uint64))])

    # -- features -----------------------------------------------------------------------------
    def _n_features(self, X: Any) -> int | None:
        if self.alphabet is None:
            return None
        words = [words_of(self.alphabet, p) for p in self._lengths()]
        if None in words or sum(words) > 2**31 - 1:  # type: ignore[arg-type]
            return None
        known = numbered("Spectrum", self.alphabet, self.domain.check(X)) < len(self.alphabet)
        return sum(words) if bool(known.all()) else None  # type: ignore[arg-type]

    def _features(self, X: StringCollection) -> sp.csr_array:
        a = len(self.alphabet)
        words = [words_of(self.alphabet, p) for p in self._lengths()]
        if None in words:
            raise InvalidInput(
                f"Spectrum: there are {a} letters and so {a}^{max(self._lengths())} columns, more "
                "than a sparse matrix may have. Use the kernel itself, or shorter lengths."
            )
        letters = numbered("Spectrum", self.alphabet, X)
        blocks = []
        for p, factor, width in zip(self._lengths(), self._factors(), words, strict=True):
            starts, rows = places(X, p)
            columns, known = lexicographic(letters, p, a)
            if not known.all():
                kept = known[starts]
                starts, rows = starts[kept], rows[kept]
            values = np.full(len(rows), factor)
            blocks.append(rows_of_counts(len(X), rows, columns[starts], values, width or 0))
        return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.hstack(blocks, format="csr"))


def lexicographic(letters: np.ndarray, length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the word at each place, and whether all its letters are known."""
    n = max(0, len(letters) - length + 1)
    columns, known = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    for j in range(length):
        one = letters[j : j + n]
        columns *= size
        columns += one
        known &= one < size
    return columns, known
