"""Kernel matrices as products of a few features, exact up to rounding or with a known remainder.

K = FFᵀ + E with E positive semidefinite, and L = GGᵀ + D. Then

    tr(K H L H) − tr(FFᵀ H GGᵀ H) = tr(E H L H) + tr(FFᵀ H D H),

both terms ≥ 0 and at most tr(E)·(λ(HGGᵀH) + tr(D)) + tr(D)·λ(HFFᵀH), λ the largest eigenvalue. No
shuffling of the rows changes any of these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite, who
from mercer.kernels import Kernel
from mercer.memory import require_memory
from mercer.operators import gram_of
from mercer.solvers import rpcholesky

FLOOR = 64 * np.finfo(float).eps  # part of k(x, x) that rpcholesky takes for rounding
LOOKS = 8  # rows of K that a factor is compared with
ENOUGH = 1e-11  # part of the centred trace that a remainder may have and count as rounding


@dataclass(frozen=True, eq=False)
class Factor:
    """Features of n points."""

    F: np.ndarray
    missing: float
    share: float = 0.0

    @property
    def rank(self) -> int:
        """Number of features."""
        return int(self.F.shape[1])

    def centred(self, weights: np.ndarray) -> np.ndarray:
        """Return the features less their weighted mean."""
        away = self.F - self.F[:1]  # equal rows become 0 exactly
        return away - (weights @ away) / weights.sum()


def exact_factor(kernel: Kernel, X: Any, most: int, search: bool = True) -> Factor | None:
    """Return at most so many features that are the kernel up to rounding, or None.

    Parameters
    ----------
    kernel : Kernel
        Without words.
    X : canonical collection
        The points.
    most : int
        Largest number of features.
    search : bool, default=True
        Whether to look for features where the kernel has none of its own, at the cost of as many
        rows of K.
    """
    if most < 1:
        return None
    D = kernel._n_features(X)
    if D is not None and D <= most:
        F = kernel._features(X)
        F = np.asarray(F.toarray() if sp.issparse(F) else F, dtype=float)
        return Factor(F, 0.0) if np.isfinite(F).all() else None
    if not search:
        return None
    K = gram_of(kernel, X)
    try:
        low = rpcholesky(K, most + 1, 0, tol=0.01 * ENOUGH)
    except (NotPositiveDefinite, MemoryBudgetExceeded):  # there are ways without factors
        return None
    if low.rank > most:
        return None
    factor = factor_of(low, kernel.diag(X))
    # What a user gave may be indefinite, with nothing left on the diagonal and much beside it.
    some = np.linspace(0, K.shape[0] - 1, min(K.shape[0], LOOKS)).astype(int)
    gap = np.abs(factor.F[some] @ factor.F.T - K.rows(some)).max()
    if not gap <= 1e-9 * float(np.abs(K.diagonal()).max()):
        return None
    spread = factor.F - factor.F.mean(axis=0)
    return factor if factor.missing <= ENOUGH * float((spread**2).sum()) else None


def pivoted_factor(kernel: Kernel, X: Any, rank: Any, rng: np.random.Generator) -> Factor:
    """Return features by randomly pivoted Cholesky, and what they miss."""
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise InvalidInput(
            f"{who()}: rank={rank!r}; give a whole number ≥ 1, or None for no approximation."
        )
    n = kernel.domain.size(X)
    require_memory(
        8 * 4 * n * min(n, int(rank)),
        f"{who()}: {rank} features of {n} points",
        "Use a smaller rank",
    )
    low = rpcholesky(gram_of(kernel, X), int(rank), int(rng.integers(2**31)))
    return factor_of(low, kernel.diag(X))


def factor_of(low: Any, diagonal: Any) -> Factor:
    """Return the features of a partial Cholesky factor of a matrix with this diagonal."""
    trace = float(np.asarray(diagonal, dtype=float).sum())
    share = float(low.trace_error)
    return Factor(np.ascontiguousarray(low.F.T), (share + FLOOR) * trace, share)


def error_bound(x: Factor, y: Factor, weights: np.ndarray, unbiased: bool) -> float:
    """Return how far an estimate from factors may be from that of the kernels.

    A weighted estimate is that of points φ(x) √w, and no w is above the largest; that holds however
    the weights are dealt out to the rows. With centred matrices, κ and ℓ their diagonals, W(W − 3)
    times the unbiased one is

        Σ wᵢwⱼ KᵢⱼLᵢⱼ − W/(W − 2) Σ wκℓ + Σ wκ Σ wℓ/((W − 1)(W − 2)).

    Each sum grows by what the factors miss. The first by at most J, the bound above; the second
    too, as no κ exceeds λ, or 2λ where it was centred by a weighted mean; the third by T, that
    with traces in the place of λ. The terms of J and T enlarge the estimate, the other one not.
    """
    W, most = float(weights.sum()), float(weights.max())
    missing_x, missing_y = most * x.missing, most * y.missing

    def joint(size_x: float, size_y: float) -> float:
        return missing_x * (most * size_y + missing_y) + missing_y * most * size_x

    grams = [F.T @ F for F in (f.centred(np.ones_like(weights)) for f in (x, y))]
    J = joint(*(float(np.linalg.norm(G, 2)) if G.size else 0.0 for G in grams))
    if not unbiased:
        return J / W**2
    T = joint(*(float(np.trace(G)) for G in grams))
    own = J if (weights == weights[0]).all() else 2 * J
    return max(J + T / ((W - 1) * (W - 2)), own * W / (W - 2)) / (W * (W - 3))


def rank_words(ranks: Any) -> str:
    """Return the ranks that factors have, which may be less than that asked for, in words."""
    ranks = np.ravel(ranks)
    return f"rank {ranks.max()}" + (" and less" if ranks.min() < ranks.max() else "")
