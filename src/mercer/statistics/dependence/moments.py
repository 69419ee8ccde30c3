"""Exact moments of Σᵢⱼ Aᵢⱼ L[pᵢ, pⱼ] over all permutations p, without drawing any.

The power q of the sum is a sum over 2q indices. Sort its terms by which of the indices are equal: a
partition π of the 2q places into |π| classes. A permutation sends different indices to different
ones, all equally likely, so

    E (Σ A ∘ L_p)^q = Σ_π S_π(A) S_π(L) / (n (n − 1) … (n − |π| + 1)),

S_π the sum over indices that are equal exactly as π says. By Möbius inversion over coarser
partitions, S_π is a combination of sums T_σ over indices that are equal at least as σ says. Such a
sum is a graph, an edge for each factor, and rows of a centred matrix sum to 0: where a vertex has
but one edge T_σ = 0. With trace 0 too (A − tr(A) H/(n−1) has it, and the sum only moves by a
constant) no loop may stand alone. What is left:

    q = 2:  T2 = Σ Aᵢⱼ², S2 = Σ Aᵢᵢ²;
    q = 3:  T3 = tr A³, S3 = Σ Aᵢᵢ³, R = Σ Aᵢᵢ Aᵢⱼ², B = Σ Aᵢᵢ Aᵢⱼ Aⱼⱼ, U = Σ Aᵢⱼ³.

These are the moments of Kazi-Aoual, Hitier, Sabatier, Lebreton (Comput. Statist. Data Anal. 20,
1995), about the mean from the start, so that nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import gamma, pearson3

from mercer.memory import row_blocks

TINY = float(np.finfo(float).tiny)  # a formula may underflow, a p-value is never 0


@dataclass(frozen=True)
class ShuffleMoments:
    """Mean, variance and third central moment over all permutations."""

    mean: float
    variance: float
    third: float

    @property
    def skewness(self) -> float:
        """The third moment in units of the standard deviation."""
        return self.third / self.variance**1.5 if self.variance > 0 else 0.0


def permutation_moments(a: dict[str, float], b: dict[str, float], n: int) -> ShuffleMoments:
    """Return the moments of Σᵢⱼ Aᵢⱼ L[pᵢ, pⱼ] over all permutations of n rows."""
    mean = a["T"] * b["T"] / (n - 1) if n > 1 else 0.0
    found = []
    for power, names in ((2, ("T2", "S2")), (3, ("T3", "S3", "R", "B", "U"))):
        x, y = (np.array([side[name] for name in names]) for side in (a, b))
        found.append(float(x @ _form(power, n) @ y))
    return ShuffleMoments(mean, max(found[0], 0.0), found[1])


def invariants(A: np.ndarray) -> dict[str, float]:
    """Return the trace of a centred symmetric matrix, and sums over A − tr(A) H/(n−1).

    A is overwritten by that matrix. About 2n³ operations, for tr A³.
    """
    n = len(A)
    trace = float(np.trace(A))
    if n > 1:
        A += trace / (n - 1) / n
        A[np.diag_indices(n)] -= trace / (n - 1)
    d = A.diagonal().copy()
    squares, U, T3 = np.empty(n), 0.0, 0.0
    for rows in row_blocks(n, 24 * n):
        part = A[rows]
        square = part * part
        squares[rows] = square.sum(axis=1)
        U += float(np.vdot(square, part))
        T3 += float(np.vdot(np.matmul(part, A, out=square), part))
    return {
        "T": trace,
        "T2": float(squares.sum()),
        "S2": float(d @ d),
        "T3": T3,
        "S3": float((d**3).sum()),
        "R": float(d @ squares),
        "B": float(d @ (A @ d)),
        "U": U,
    }


def pearson_tail(value: float, moments: ShuffleMoments) -> float:
    """Return P(Z ≥ value) for the Pearson type III law with these moments."""
    if not moments.variance > 0:
        return 1.0
    z = (value - moments.mean) / moments.variance**0.5
    return float(max(pearson3.sf(z, moments.skewness), TINY))


def gamma_tail(value: float, mean: float, variance: float) -> float:
    """Return P(Z ≥ value) for the gamma law with this mean and variance."""
    if not (mean > 0 and variance > 0):
        return 1.0
    return float(max(gamma.sf(value, mean**2 / variance, scale=variance / mean), TINY))


# ------------------------------------------------------------------------------- the formula
def _partitions(places: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every partition of some places into classes."""
    if not places:
        yield ()
        return
    first, rest = places[0], places[1:]
    for partition in _partitions(rest):
        yield ((first,), *partition)
        for i, old in enumerate(partition):
            yield (*partition[:i], (first, *old), *partition[i + 1 :])


def _name(partition: tuple[tuple[int, ...], ...]) -> str | None:
    """Return which invariant T_σ is, or None where it is 0; places 2e and 2e+1 are edge e."""
    vertex = {place: v for v, members in enumerate(partition) for place in members}
    edges = [(vertex[e], vertex[e + 1]) for e in range(0, len(vertex), 2)]
    degree = [len(members) for members in partition]
    loops = [u for u, v in edges if u == v]
    if min(degree) < 2 or any(degree[u] == 2 for u in loops):
        return None
    power = len(edges)
    if len(loops) == power:
        return f"S{power}" if len(degree) == 1 else None
    if not loops:
        return {1: None, 2: "T2" if power == 2 else "U", 3: "T3"}[len(degree)]
    return "R" if len(loops) == 1 else "B"


@lru_cache(maxsize=2)
def _exact_sums(power: int) -> list[tuple[int, np.ndarray]]:
    """Return, for every π, |π| and the coefficients of S_π in the invariants."""
    names = ("T2", "S2") if power == 2 else ("T3", "S3", "R", "B", "U")
    out = []
    for partition in _partitions(tuple(range(2 * power))):
        row = np.zeros(len(names))
        for merging in _partitions(tuple(range(len(partition)))):
            coarser = tuple(tuple(p for c in group for p in partition[c]) for group in merging)
            name = _name(coarser)
            if name is not None:  # Möbius function of the lattice of partitions
                sign = math.prod((-1) ** (len(g) - 1) * math.factorial(len(g) - 1) for g in merging)
                row[names.index(name)] += sign
        out.append((len(partition), row))
    return out


def _form(power: int, n: int) -> np.ndarray:
    """Return C with E(Σ A ∘ L_p)^power = a(A)ᵀ C a(L), for matrices of trace 0."""
    size = 2 if power == 2 else 5
    C = np.zeros((size, size))
    for classes, row in _exact_sums(power):
        if classes <= n:  # of fewer rows there are not so many different indices
            C += np.outer(row, row) / math.perm(n, classes)
    return C
