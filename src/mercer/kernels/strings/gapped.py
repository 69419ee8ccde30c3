"""`GappedKmer`: windows that agree in a number of places, wherever in the window these are."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.errors import InvalidInput
from mercer.kernels.checks import check_whole
from mercer.kernels.strings.alphabets import check_alphabet
from mercer.kernels.strings.matches import MatchedWindows
from mercer.kernels.strings.windows import View, ViewedWindows

__all__ = ["GappedKmer"]


class GappedKmer(MatchedWindows, ViewedWindows):
    r"""The gapped k-mer kernel k(s, t) = Σᵤᵥ C(ℓ − h(u, v), q) over windows u of s and v of t.

    Windows have ℓ letters and h counts the places where two of them differ, so the binomial
    coefficient is the number of ways to choose q places at which they agree. With q = ℓ it is
    `Spectrum`. A string shorter than ℓ has no windows and all its values are 0.

    *Valid when* always: each choice of q places of a window, with the letters found there, is a
    feature, and k is the inner product of the counts of these.

    Parameters
    ----------
    length : int ≥ 1, default=6
        Letters ℓ of a window.
    matches : int ≥ 1, default=4
        Places q that must agree, at most ℓ.
    alphabet : str, bytes or list of letters, optional
        The letters that `features` has columns for, as in `Spectrum`; no value depends on it.

    Notes
    -----
    Either the C(ℓ, q) choices of every window are counted, or windows are compared pair by pair in
    time |s|·|t|, whichever takes less time. With an alphabet of a letters, `features` has
    C(ℓ, q)·a^q columns. As in `Spectrum`, more than 7 letters below U+0100 or 2 of any kind are
    hashed.

    References
    ----------
    M. Ghandi, D. Lee, M. Mohammad-Noori, M. A. Beer, "Enhanced regulatory sequence prediction using
    gapped k-mer features", PLoS Computational Biology 10(7), 2014.

    Examples
    --------
    >>> from mercer import GappedKmer
    >>> GappedKmer(3, 2)(["cat", "car", "dog"])
    array([[3., 1., 0.],
           [1., 3., 0.],
           [0., 0., 3.]])
    """

    def __init__(self, length: int = 6, matches: int = 4, *, alphabet: Any = None):
        super().__init__(length=length, matches=matches, alphabet=alphabet)

    def _check_params(self) -> None:
        check_whole("GappedKmer", "length", self.length, 1)
        check_whole("GappedKmer", "matches", self.matches, 1)
        if self.matches > self.length:
            raise InvalidInput(
                f"GappedKmer: matches={self.matches!r} is more than length={self.length!r}; a "
                "window cannot agree in more places than it has."
            )
        check_alphabet("GappedKmer", self.alphabet)

    def _views(self) -> list[View]:
        return [(self.length, c, 1.0) for c in combinations(range(self.length), self.matches)]

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        choices = float(comb(self.length, self.matches))
        return choices, choices * float(len(np.unique(X.codes))) ** self.matches

    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int, np.ndarray]:
        table = [float(comb(e, self.matches)) for e in range(self.length + 1)]
        return X.codes, 2**31, np.array(table).reshape(1, 1, 1, -1)
