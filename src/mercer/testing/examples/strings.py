"""Kernels that sum over alignments, and repaired similarities, for the laws, with definitions."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import kernels as mk
from mercer.kernels import Kernel


def sample_short(rng: np.random.Generator, n: int) -> list[str]:
    """Return n random strings over four letters, some of them empty."""
    return ["".join(rng.choice(list("ACGT"), rng.integers(0, 8))) for _ in range(n)]


def sample_plain(rng: np.random.Generator, n: int) -> list[list[float]]:
    """Return n random series of numbers, of one to six steps."""
    return [rng.standard_normal(rng.integers(1, 7)).tolist() for _ in range(n)]


def overlap(a: Any, b: Any) -> float:
    """Return the share of letters that two words have in common; not positive definite."""
    common, fewer = set(a) & set(b), min(len(set(a)), len(set(b)))
    return len(common) / fewer if fewer else float(not a and not b)


def alignment_kernels() -> list[tuple]:
    """Return names, kernels and, where the domain does not serve, samplers of points."""
    scores = np.array([[2.0, -1.0, 0.5, -1], [-1, 2, -1, 0.5], [0.5, -1, 2, -1], [-1, 0.5, -1, 2]])
    similar = mk.FromFunction(overlap)
    return [
        ("GlobalAlignment", mk.GlobalAlignment()),
        ("GlobalAlignment-short", mk.GlobalAlignment(0.4)),
        ("GlobalAlignment-band", mk.GlobalAlignment(2.0, triangular=3)),
        ("GlobalAlignment-numbers", mk.GlobalAlignment(1.5), sample_plain),
        ("GlobalAlignment-normalized", mk.GlobalAlignment().normalized()),
        ("LocalAlignment", mk.LocalAlignment()),
        ("LocalAlignment-steep", mk.LocalAlignment(2.0, 1.0, -2.0, 1.5, 0.0)),
        ("LocalAlignment-normalized", mk.LocalAlignment(0.8).normalized()),
        (
            "LocalAlignment-scores",
            mk.LocalAlignment(0.7, substitution=scores, alphabet="ACGT"),
            sample_short,
        ),
        ("Repaired", similar.repaired("clip"), sample_short),
        ("Repaired-shift", similar.repaired("shift"), sample_short),
        ("Repaired-strings", mk.EditDistance(3.0).repaired("clip")),
        ("Repaired-shift-strings", 2.0 * mk.EditDistance(3.0).repaired("shift") + 1.0),
    ]


# ------------------------------------------------------------------------------- definitions
def _steps(n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all alignments of series of n and m steps, as lists of matched pairs."""
    if n == 0 or m == 0:
        if n == m:
            yield []
        return
    for a, b in ((n - 1, m - 1), (n - 1, m), (n, m - 1)):
        for path in _steps(a, b):
            yield [*path, (n - 1, m - 1)]


def align_globally(k: Any, x: Any, y: Any, *, listed: bool = False) -> float:
    """Return the global alignment kernel: by its table, or listing all alignments."""
    T, scale = int(k.triangular), float(k.length_scale)

    def local(i: int, j: int) -> float:
        gap = np.subtract(x[i], y[j])
        w = math.exp(-float(np.sum(gap * gap)) / (2 * scale**2))
        w *= max(0.0, 1 - abs(i - j) / T) if T else 1.0
        return w / (2 - w)

    n, m = len(x), len(y)
    if listed:
        return math.fsum(math.prod(local(i, j) for i, j in path) for path in _steps(n, m))
    table = np.zeros((n + 1, m + 1))
    table[0, 0] = 1.0
    for i in range(n):
        for j in range(m):
            table[i + 1, j + 1] = local(i, j) * (table[i, j] + table[i, j + 1] + table[i + 1, j])
    return float(table[n, m])


def align_locally(k: Any, x: Any, y: Any) -> float:
    """Return the local alignment kernel: of every pair of letters all pairs that may precede it."""

    def score(a: Any, b: Any) -> float:
        if k.substitution is None:
            return k.match if a == b else k.mismatch
        return k.substitution[k.alphabet.index(a)][k.alphabet.index(b)]

    def gap(g: int) -> float:
        return math.exp(-k.beta * (k.opening + k.extension * (g - 1))) if g else 1.0

    ended: dict[tuple[int, int], float] = {}
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            before = [
                value * gap(i - p - 1) * gap(j - q - 1)
                for (p, q), value in ended.items()
                if p < i and q < j
            ]
            ended[i, j] = math.exp(k.beta * score(a, b)) * (1 + math.fsum(before))
    return 1 + math.fsum(ended.values())


_known: list[Any] = [None, None, None]  # the last points and kernel, and what is known of them


def _similar(k: Any) -> tuple[list, np.ndarray, np.ndarray, dict]:
    """Return the points of a repaired kernel, eigenvalues and vectors, and rows known so far."""
    from mercer.testing.oracles import double_loop, points

    if _known[0] is not k.points or _known[1] != k.kernel:
        values, U = np.linalg.eigh(double_loop(k.kernel, k.points))
        _known[:] = k.points, clone(k.kernel), (points(k.kernel, k.points), values, U, {})
    return _known[2]


def _repaired(k: Any, x: Any, y: Any) -> float:
    """Return c(x)ᵀ A⁺ c(y), A the clipped or the shifted matrix of similarities of the points.

    A point equal to none of them is as like itself as the similarity says, at least.
    """
    from mercer.testing.oracles import oracle

    Z, values, U, rows = _similar(k)
    shift = max(0.0, -float(values[0])) if k.method == "shift" else 0.0

    def same(x: Any, z: Any) -> bool:
        return np.array_equal(x, z) if isinstance(x, np.ndarray) else x == z

    def similarities(x: Any) -> np.ndarray:
        key = x.tobytes() if isinstance(x, np.ndarray) else x
        if key not in rows:
            equal = np.array([same(x, z) for z in Z])
            rows[key] = np.array([oracle(k.kernel, x, z) for z in Z]), equal
        return rows[key][0] + shift * rows[key][1]

    values = values + shift
    kept = values > 1e-10 * np.abs(values).max()
    left, right = (similarities(p) @ U[:, kept] for p in (x, y))
    value = float(left / values[kept] @ right)
    if same(x, y) and not any(same(x, z) for z in Z):
        return max(value, oracle(k.kernel, x, x) + shift)
    return value


#: Class → function(kernel, x, y): the definition, for one pair of points.
ALIGNMENT_FORMULAS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.GlobalAlignment: align_globally,
    mk.LocalAlignment: align_locally,
    mk.Repaired: _repaired,
}


# ---- The kernels that count substrings: examples of them, and their definitions over two
# strings.


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
    near = (_near_words(z, k.alphabet, k.length, k.mismatches) for z in (s, t))
    return float(sum(a * b for a, b in zip(*near, strict=True)))


@functools.lru_cache(maxsize=4096)
def _near_words(s: Any, alphabet: str, length: int, mismatches: int) -> list[int]:
    """Return of every word how many windows differ from it in so many places at most."""
    words = itertools.product(alphabet, repeat=length)
    return [sum(_gaps(u, word) <= mismatches for u in _windows(s, length)) for word in words]


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


# ---- Kernels that compare strings letter by letter, for the laws: examples, and their
# definitions.


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
