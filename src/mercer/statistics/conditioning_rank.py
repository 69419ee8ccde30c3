"""Conditional dependence from features of low rank: nothing is n × n, all grows with n·rank²."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.budget import require_memory
from mercer.engines.tiles import row_blocks
from mercer.kernels import RBF, Kernel
from mercer.operators import Gram, Operator
from mercer.solvers import rpcholesky
from mercer.solvers.base import check_index
from mercer.statistics.conditioning import Fit, Target, best_ridge, regress, standardised
from mercer.statistics.factors import Factor, factor_of, gram_operator
from mercer.statistics.observations import points_at
from mercer.statistics.shuffled_pairs import gram_matrix

__all__ = ["RankedResiduals", "residual_factors"]

TUNED = 1000  # rows on which length scale and metric are chosen
NARROWER = (1.0, 0.5, 0.25)  # parts of the length scale chosen there that are tried on all rows
LAW = 2000  # rows of the law that stand for all of them


class FeatureTarget:
    """Features to be regressed, centred and times √w; as `Target`, without their matrix.

    Parameters
    ----------
    factor : Factor
        The features.
    weights : ndarray of shape (n,)
        Weights of the rows.
    counted : bool
        Whether weights count copies of a row.
    """

    def __init__(self, factor: Factor, weights: np.ndarray, counted: bool):
        self.factor, self.weights, self.root = factor, weights, weights**0.5
        self.copies = weights if counted else np.ones(len(weights))
        self.mean = self.root / np.linalg.norm(self.root)
        self.F = self.root[:, None] * factor.centred(weights)
        own = 1.0 - self.mean**2 / self.copies
        self.spread = float((np.einsum("ij,ij->i", self.F, self.F) / own**2).sum())


class FeatureRegression:
    """Ridge regression on features Φ of Z, with a mean that is not penalised.

    With √DΦ = U√Λ Vᵀ after centring, residuals times √w are F − U diag(Λ/(Λ + λ)) UᵀF: what Φ does
    not hold is left in them whole.

    Parameters
    ----------
    factor : Factor
        Φ.
    target : FeatureTarget
        Whose weights are used.
    """

    def __init__(self, factor: Factor, target: FeatureTarget):
        centred = target.root[:, None] * factor.centred(target.weights)
        self.vectors, roots, _ = np.linalg.svd(centred, full_matrices=False)
        self.values = roots**2

    def left_out(self, target: FeatureTarget, ridge: float | None) -> tuple[float, float]:
        """Return the λ of least leave-one-out error, and that error, as `Regression` does."""
        if self.values.max(initial=0.0) <= 0.0:  # all points are one and explain nothing
            return np.inf, target.spread
        turned, squares = self.vectors.T @ target.F, self.vectors**2

        def error(at: float) -> float:
            s = self.values / (self.values + at)
            left = target.F - self.vectors @ (s[:, None] * turned)
            own = 1.0 - (squares @ s + target.mean**2) / target.copies
            return float((np.einsum("ij,ij->i", left, left) / own**2).sum())

        return best_ridge(error, float(self.values.max()), ridge)

    def residuals(self, target: FeatureTarget, ridge: float) -> np.ndarray:
        """Return the residuals of the features, one row each, no longer times √w."""
        left = target.F
        if np.isfinite(ridge):
            s = self.values / (self.values + ridge)
            left = left - self.vectors @ (s[:, None] * (self.vectors.T @ left))
        return left / target.root[:, None]


class _Hadamard(Operator):
    """A ∘ B of two kernel matrices, of which some rows are read."""

    symmetric = psd = True

    def __init__(self, A: Operator, B: Operator):
        self.A, self.B, self.shape, self.dtype = A, B, A.shape, np.dtype(np.float64)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        return np.asarray(self.A.block(rows, cols) * self.B.block(rows, cols), dtype=np.float64)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return np.asarray(self.A.diagonal() * self.B.diagonal(), dtype=np.float64)


def residual_factors(
    pair: Any,
    kernel: Kernel,
    Z: Any,
    counted: bool,
    ridge: float | None,
    tuned: bool,
    rank: Any,
    rng: np.random.Generator,
    owner: str,
) -> tuple[list[np.ndarray], list[Fit], dict[str, Any]]:
    """Return the residuals of both targets given Z, the fits, and what is told of the features.

    Parameters
    ----------
    pair : Pair
        X and Y, with the weights that are used.
    kernel : Kernel
        Of Z, without words.
    Z : canonical collection
        What is conditioned on.
    counted : bool
        Whether weights count copies of a row.
    ridge : float or None
        λ; None chooses it.
    tuned : bool
        Whether the kernel of the regressions is chosen, on some of the rows.
    rank : int
        Most features of each kernel.
    rng : Generator
        Source of pivots and of the rows that choose.
    owner : str
        Whose arguments they are.
    """
    n, rank = pair.n, check_index(rank, "rank", owner, 1)
    w = np.ones(n) if pair.weights is None else pair.weights
    require_memory(
        8 * 10 * n * min(n, rank),
        f"{owner}: {rank} features of {n} points for three kernels",
        "Use a smaller rank",
    )
    operator = _Hadamard(gram_operator(pair.kernel_x, pair.X), gram_operator(kernel, Z))

    def factor(K: Operator) -> Factor:
        return factor_of(rpcholesky(K, rank, int(rng.integers(2**31))), K.diagonal())

    targets = [
        FeatureTarget(factor(K), w, counted)
        for K in (operator, gram_operator(pair.kernel_y, pair.Y))
    ]
    if not tuned:
        conditions = [factor(gram_operator(kernel, Z))]
        candidates = [[(conditions[0], 0.0)] for _ in targets]
    else:
        points = standardised(Z, w) if isinstance(Z, np.ndarray) else Z
        candidates = [
            [
                (factor(Gram(RBF(scale * part), at, keep=False)), scale * part)
                for part in (NARROWER if n > TUNED else (1.0,))
            ]
            for scale, at in _chosen(pair, kernel, Z, points, w, counted, ridge, rng, owner)
        ]
    fits, residuals = [], []
    for target, several in zip(targets, candidates, strict=True):
        best = None
        for condition, scale in several:
            regression = FeatureRegression(condition, target)
            chosen, error = regression.left_out(target, ridge)
            if best is None or error < best[0].error:
                explained = 1.0 - error / target.spread if target.spread > 0.0 else 0.0
                fit = Fit(regression, chosen, error, explained, scale, None)
                best = fit, condition
        fits.append(best[0])  # type: ignore[index]
        residuals.append(best[0].regression.residuals(target, best[0].ridge))  # type: ignore[index]
    factors = [targets[0].factor, targets[1].factor, candidates[0][0][0]]
    told = {
        "rank": tuple(f.rank for f in factors),
        "trace_error": tuple(f.share for f in factors),
    }
    return residuals, fits, told


def _chosen(
    pair: Any,
    kernel: Kernel,
    Z: Any,
    points: Any,
    w: np.ndarray,
    counted: bool,
    ridge: float | None,
    rng: np.random.Generator,
    owner: str,
) -> list[tuple[float, Any]]:
    """Return for each target the length scale, and Z in the metric, that some rows choose."""
    some = np.arange(pair.n)
    if pair.n > TUNED:
        some = np.sort(rng.choice(pair.n, TUNED, replace=False))
    own = points_at(kernel, Z, some, owner)
    K = gram_matrix(pair.kernel_x, points_at(pair.kernel_x, pair.X, some, owner))
    K *= gram_matrix(kernel, own)
    L = gram_matrix(pair.kernel_y, points_at(pair.kernel_y, pair.Y, some, owner))
    parts = [Target(M, w[some], counted) for M in (K, L)]
    at = points[some] if isinstance(points, np.ndarray) else own
    found = regress(parts, kernel, at, ridge, tuned=True, standard=isinstance(points, np.ndarray))
    return [(fit.scale, points if fit.map is None else points @ fit.map) for fit in found]


class RankedResiduals:
    """The statistic of residuals and the law of independent ones, from features of both.

    Parameters
    ----------
    first, second : ndarrays of shapes (n, r) and (n, s)
        Residuals.
    w : ndarray of shape (n,)
        Weights.
    counted : bool
        Whether they count copies.
    rng : Generator
        Draws the rows of the law, if there are many.
    """

    def __init__(
        self,
        first: np.ndarray,
        second: np.ndarray,
        w: np.ndarray,
        counted: bool,
        rng: np.random.Generator,
    ):
        self.total = float(w.sum())
        C = first.T @ (w[:, None] * second)
        self.statistic = float((C * C).sum()) / self.total
        scale = (w**0.25 if counted else w**0.5)[:, None]
        self.first, self.second, self.n = scale * first, scale * second, len(w)
        self.some = np.arange(self.n)
        if self.n > LAW:
            self.some = np.sort(rng.choice(self.n, LAW, replace=False))

    def moments(self) -> tuple[float, float]:
        """Return the mean and the variance of the law: the trace of a matrix, and twice its square.

        Of many rows some stand for all, for the second.
        """
        own = [np.einsum("ij,ij->i", F, F) for F in (self.first, self.second)]
        trace = float(own[0] @ own[1]) / self.total
        squares = 0.0
        first, second = self.first[self.some], self.second[self.some]
        for rows in row_blocks(self.n, 32 * len(self.some)):
            T = self.first[rows] @ first.T
            T *= self.second[rows] @ second.T
            squares += float(np.vdot(T, T))
        return trace, 2.0 * squares * self.n / len(self.some) / self.total**2

    def law(self) -> np.ndarray:
        """Return a matrix with the eigenvalues of the law, or nearly so where rows are many."""
        first, second = self.first[self.some], self.second[self.some]
        law = first @ first.T
        law *= second @ second.T
        law *= self.n / len(self.some) / self.total
        return law
