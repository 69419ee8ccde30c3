"""`GappedKmer`: windows that agree in a number of places, wherever in the window these are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.engines.budget import require_memory
from mercer.kernels.checks import check_whole, warn_all_zero
from mercer.kernels.counted import Counts
from mercer.kernels.strings.alphabets import LARGEST, check_alphabet, words_of
from mercer.kernels.strings.matches import OCCURRENCE_BYTES, MatchedWindows, as_float, windows_of
from mercer.kernels.strings.windows import View, ViewedWindows

__all__ = ["GappedKmer"]

CHOICE_BYTES = 1000  # of a choice of places, though no window be there


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
        Places q that must agree. With more than ℓ there are none, and all values are 0.
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

    alphabet: Any

    def __init__(self, length: int = 6, matches: int = 4, *, alphabet: Any = None):
        super().__init__(length=length, matches=matches, alphabet=alphabet)

    def _check_params(self) -> None:
        check_whole("GappedKmer", "length", self.length, 1)
        check_whole("GappedKmer", "matches", self.matches, 1)
        self.alphabet = check_alphabet("GappedKmer", self.alphabet)

    def _found_in(self, X: StringCollection) -> dict[str, Any]:
        if self.matches > self.length:
            why = "a window cannot agree in more places than it has"
            warn_all_zero(self, why, "use fewer matches or a larger length")
        return super()._found_in(X)

    def _choices(self) -> int:
        return comb(int(self.length), int(self.matches))

    def _views(self) -> Iterator[View]:
        for chosen in combinations(range(self.length), self.matches):
            yield self.length, chosen, 1.0

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        choices = self._choices()
        require_memory(
            choices * (CHOICE_BYTES + OCCURRENCE_BYTES * windows_of(X, self.length)),
            f"{self!r}: {choices:.3g} choices of places in every window",
            "Use the kernel itself, which compares windows pair by pair",
        )
        if not choices:
            none = np.zeros(0, dtype=np.int64)
            yield Counts(len(X), none, none.astype(np.uint64))
        yield from super()._parts(X)

    def _width(self, alphabet: Any) -> int | None:
        words = words_of(alphabet, int(self.matches))
        columns = None if words is None else self._choices() * words
        return columns if columns is not None and columns <= LARGEST else None

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        choices = as_float(self._choices())
        return choices, choices * float(len(np.unique(X.codes))) ** self.matches

    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int]:
        return X.codes, 2**31

    def _table(self, foreign: bool) -> np.ndarray:
        table = [as_float(comb(e, int(self.matches))) for e in range(self.length + 1)]
        return np.array(table).reshape(1, 1, 1, -1)
