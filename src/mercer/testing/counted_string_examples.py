"""The kernels that count substrings: examples of them, and their definitions over two strings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from mercer import kernels as mk
from mercer.kernels import Kernel

__all__ = ["COUNTED_STRING_FORMULAS", "counted_string_kernels"]


def counted_string_kernels() -> dict[str, Kernel]:
    """Return an instance or several of each class, by name; their domain samples the strings."""
    return {
        "Spectrum": mk.Spectrum(2),
        "Spectrum-blend": mk.Spectrum((1, 2, 4), weights=(0.5, 0.0, 2.0)),
        "Spectrum-long": mk.Spectrum(8),
        "Spectrum-foreign": mk.Spectrum((1, 2), alphabet="bc"),
        "Spectrum-normalized": mk.Spectrum(2).normalized(),
        "Mismatch": mk.Mismatch(2, 1),
        "Mismatch-foreign": mk.Mismatch(3, 2, alphabet="ba"),
        "GappedKmer": mk.GappedKmer(4, 2),
        "GappedKmer-alphabet": mk.GappedKmer(3, 2, alphabet="abcé😀"),
        "WeightedDegree": mk.WeightedDegree(3),
        "WeightedDegree-long": mk.WeightedDegree(6),
    }


def _windows(s: Any, length: int) -> list[Any]:
    return [s[i : i + length] for i in range(len(s) - length + 1)]


def _gaps(u: Any, v: Any) -> int:
    """Return the number of places where two windows differ."""
    return sum(a != b for a, b in zip(u, v, strict=True))


def _spectrum(k: Any, s: Any, t: Any) -> float:
    lengths = [k.length] if isinstance(k.length, int) else list(k.length)
    weights = [1.0] * len(lengths) if k.weights is None else k.weights
    return math.fsum(
        w * sum(u == v for u in _windows(s, p) for v in _windows(t, p))
        for p, w in zip(lengths, weights, strict=True)
    )


def _mismatch(k: Any, s: Any, t: Any) -> float:
    total = 0
    for word in itertools.product(k.alphabet, repeat=k.length):
        near = [sum(_gaps(u, word) <= k.mismatches for u in _windows(z, k.length)) for z in (s, t)]
        total += near[0] * near[1]
    return float(total)


def _gapped(k: Any, s: Any, t: Any) -> float:
    pairs = itertools.product(_windows(s, k.length), _windows(t, k.length))
    return float(sum(math.comb(k.length - _gaps(u, v), k.matches) for u, v in pairs))


def _weighted_degree(k: Any, s: Any, t: Any) -> float:
    p = k.length
    return math.fsum(
        2 * (p - d + 1) / (p * (p + 1))
        for d in range(1, p + 1)
        for i in range(min(len(s), len(t)) - d + 1)
        if s[i : i + d] == t[i : i + d]
    )


#: Class → function(kernel, s, t): the definition, for one pair of strings.
COUNTED_STRING_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.Spectrum: _spectrum,
    mk.Mismatch: _mismatch,
    mk.GappedKmer: _gapped,
    mk.WeightedDegree: _weighted_degree,
}
