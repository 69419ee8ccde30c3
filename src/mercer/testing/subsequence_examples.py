"""Kernels that compare strings letter by letter, for the laws: examples, and their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

from mercer import kernels as mk

__all__ = [
    "SUBSEQUENCE_FORMULAS",
    "common_substring",
    "edit_distance",
    "subsequence_kernels",
    "weighted_subsequences",
]


def subsequence_kernels() -> dict[str, mk.Kernel]:
    """Return kernels by name; points are sampled from their domain."""
    return {
        "Subsequence": mk.Subsequence(),
        "Subsequence-one": mk.Subsequence(1, 0.3),
        "Subsequence-three": mk.Subsequence(3, 0.75),
        "Subsequence-normalized": mk.Subsequence(2, 0.6).normalized(),
        "Subsequence-sum": 2.0 * mk.Subsequence(1, 0.4) + mk.Subsequence(2, 0.7),
        "EditDistance": mk.EditDistance(1.5),
        "LongestCommonSubstring": mk.LongestCommonSubstring(),
    }


def weighted_subsequences(s: Any, t: Any, length: int, decay: float) -> float:
    """Return Σ_u φ_u(s) φ_u(t) over all choices of positions: exponential, and the definition."""

    def features(word: Any) -> dict[tuple, float]:
        phi: dict[tuple, float] = {}
        for i in combinations(range(len(word)), length):
            u = tuple(word[k] for k in i)
            phi[u] = phi.get(u, 0.0) + decay ** (i[-1] - i[0] + 1)
        return phi

    left, right = features(s), features(t)
    return math.fsum(left[u] * right[u] for u in left.keys() & right.keys())


def edit_distance(s: Any, t: Any) -> int:
    """Return Levenshtein's distance by the table of distances of beginnings."""
    row = list(range(len(t) + 1))
    for i, a in enumerate(s, 1):
        above, row = row, [i]
        for j, b in enumerate(t, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def common_substring(s: Any, t: Any) -> int:
    """Return the length of the longest substring of s that t contains."""
    pieces = (s[i:j] for i in range(len(s)) for j in range(i + 1, len(s) + 1))
    return max((len(piece) for piece in pieces if piece in t), default=0)


#: Class → function(kernel, x, y): the definition, for one pair of strings.
SUBSEQUENCE_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.Subsequence: lambda k, x, y: weighted_subsequences(x, y, int(k.length), float(k.decay)),
    mk.EditDistance: lambda k, x, y: math.exp(-edit_distance(x, y) / float(k.length_scale)),
    mk.LongestCommonSubstring: lambda k, x, y: float(common_substring(x, y)),
}
