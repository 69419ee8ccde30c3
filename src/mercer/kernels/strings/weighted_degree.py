"""`WeightedDegree`: the same substrings in the same places of two strings."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.kernels.checks import check_whole
from mercer.kernels.counted import Counts, Naming
from mercer.kernels.strings.windows import (
    HASHED,
    CountedWindows,
    letters_in,
    places,
    tagged,
    window_codes,
)

__all__ = ["WeightedDegree"]

APART = 32  # the first lengths that are each a part of its own; longer ones share the last part


class WeightedDegree(CountedWindows):
    r"""The weighted degree kernel k(s, t) = Σ_d β_d Σᵢ [the d letters from place i are the same].

    d runs from 1 to p, and β_d = 2(p − d + 1)/(p(p + 1)), which add up to 1. It is for strings that
    are aligned: the same place means the same thing. Strings of different lengths are compared over
    the places that both have.

    *Valid when* always: √β_d for each substring of d letters at each place is a feature, and k is
    the inner product of these.

    Parameters
    ----------
    length : int ≥ 1, default=3
        Letters p of the longest substrings compared.

    Notes
    -----
    Time O(pN) for N letters, and one addition for every pair of strings that share a
    substring at a place. Substrings of more than 3 letters, or with letters from U+0100 on, are
    hashed together with their place; see `collision_probability`.

    References
    ----------
    G. Rätsch, S. Sonnenburg, "Accurate splice site detection for Caenorhabditis elegans", in
    Kernel Methods in Computational Biology, MIT Press, 2004.

    Examples
    --------
    >>> from mercer import WeightedDegree
    >>> WeightedDegree(2)(["ACGT", "ACTT", "AC"]).round(4)
    array([[3.6667, 2.3333, 1.6667],
           [2.3333, 3.6667, 1.6667],
           [1.6667, 1.6667, 1.6667]])
    """

    def __init__(self, length: int = 3):
        super().__init__(length=length)

    def _check_params(self) -> None:
        check_whole("WeightedDegree", "length", self.length, 1)

    @property
    def _shortest(self) -> int:
        return 1

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        p, longest = int(self.length), int(X.lengths.max(initial=0))
        for d in range(1, min(p, APART)):
            yield self._same(X, d)
        # Codes of different lengths differ too, so that all the others may be one part.
        others = [self._same(X, d) for d in range(min(p, APART), min(p, longest) + 1)]
        rows, codes, values = (
            np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in others)])
            for name, kind in (("rows", np.int64), ("codes", np.uint64), ("values", np.float64))
        )
        order = np.argsort(rows, kind="stable")
        yield Counts(len(X), rows[order], codes[order], values[order])

    def _namings(self) -> list[Naming]:
        return [names_at_places] * min(int(self.length), APART)

    def _same(self, X: StringCollection, d: int) -> Counts:
        p = int(self.length)
        starts, rows = places(X, d)
        codes = tagged(window_codes(X.codes, d)[starts], starts - X.offsets[rows])
        beta = 2 * (p - d + 1) / (p * (p + 1))
        return Counts(len(X), rows, codes, np.full(len(rows), sqrt(beta)))


def names_at_places(codes: np.ndarray) -> list[str]:
    """Return the substrings that codes stand for and their places, such as "AC@7", from 0."""
    return [
        f"hash:{code:016x}" if code >= int(HASHED) else f"{letters_in(code % 2**32)}@{code >> 32}"
        for code in codes.tolist()
    ]
