"""`WeightedDegree`: the same substrings in the same places of two strings."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.kernels.checks import check_whole
from mercer.kernels.counted import Counts
from mercer.kernels.strings.windows import CountedWindows, places, tagged, window_codes

__all__ = ["WeightedDegree"]


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
    Time O(pN log N) for N letters, and one addition for every pair of strings that share a
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

    def _parts(self, X: StringCollection) -> Iterator[Counts]:
        p = int(self.length)
        for d in range(1, p + 1):
            starts, rows = places(X, d)
            codes = tagged(window_codes(X.codes, d)[starts], starts - X.offsets[rows])
            beta = 2 * (p - d + 1) / (p * (p + 1))
            yield Counts(len(X), rows, codes, np.full(len(rows), sqrt(beta)))
            if not len(rows):  # no string is so long
                return
