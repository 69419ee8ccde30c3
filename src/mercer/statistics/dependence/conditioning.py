"""Kernel ridge regression on what is conditioned on: length scale, metric, ridge by leaving out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_index
from mercer.errors import who
from mercer.kernels import RBF, Kernel, around_mean
from mercer.lapack import heard
from mercer.memory import require_memory, row_blocks
from mercer.operators import Dense, Gram, Operator, gram_of
from mercer.solvers import DenseEigen, Eigen, rpcholesky
from mercer.statistics.dependence.shuffled import centred_matrix, gram_matrix
from mercer.statistics.factors import Factor, factor_of
from mercer.statistics.observations import points_at

LEAST, MOST, STEPS = 1e-8, 1e2, 26  # ridges that are tried, in units of the largest eigenvalue
STRIDE = 3  # every third is tried first, then those beside the best
MISSING = 1e-3  # part of the targets that the choice of a ridge may leave out
FACTORS = (1.0, 0.25, 0.5, 2.0, 4.0, 8.0)  # of the median distance; of equals the first is taken
ALIGNED = (1.0, 0.5, 2.0)  # the same in a metric, which has a scale of its own
ROUNDS = 5  # metrics that are learnt at most, each from the fit before
WIDEST = 50  # columns up to which a metric is learnt
BETTER = 1e-9  # part by which an error must be less


class Target:
    """Features to be regressed, by their kernel matrix, centred and times √wᵢwⱼ."""

    def __init__(self, K: np.ndarray, weights: np.ndarray, counted: bool):
        self.weights, self.root = weights, weights**0.5
        self.copies = weights if counted else np.ones(len(weights))
        self.mean = self.root / np.linalg.norm(self.root)
        self.K = self.turned(K)
        self.F = rpcholesky(self.K, len(K), 0, tol=MISSING).F.T
        own = 1.0 - self.mean**2 / self.copies
        self.spread = float((np.einsum("ij,ij->i", self.F, self.F) / own**2).sum())

    def turned(self, K: np.ndarray) -> np.ndarray:
        """Centre K and multiply it by √wᵢwⱼ, in place."""
        K = centred_matrix(K, self.weights)
        K *= self.root[:, None]
        K *= self.root
        return K

    def residuals(self, fit: Fit) -> np.ndarray:
        """Return the kernel matrix of the residuals of a fit; the target is spent."""
        K = self.K
        if np.isfinite(fit.ridge):
            U, values = fit.regression.vectors, fit.regression.values
            R = (U * (fit.ridge / (values + fit.ridge))) @ U.T - np.outer(self.mean, self.mean)
            K = R @ K @ R
            K = 0.5 * (K + K.T)
        K /= self.root[:, None]
        K /= self.root
        return K


class Regression:
    """Kernel ridge regression with a mean that is not penalised, for weighted rows.

    A row of weight w is like w rows: with D = diag(w), residuals are F − K_Z D (K_Z D + λI)⁻¹ F,
    and those times √w are R√D F, R = U diag(λ/(Λ + λ)) Uᵀ − vvᵀ, with the eigenvalues Λ and vectors
    U of √D K_Z √D after centring and v = √w/|√w|, the direction of the mean.
    """

    def __init__(self, K: np.ndarray, target: Target):
        problem = Eigen(Dense(target.turned(K), symmetric=True))
        pairs = DenseEigen().solve(problem).unwrap()
        self.values, self.vectors = np.maximum(pairs.values, 0.0), pairs.vectors

    def left_out(self, target: Target, ridge: float | None) -> tuple[float, float]:
        """Return the λ of least leave-one-out error Σᵢ ‖(RF)ᵢ‖²/rᵢ², and that error.

        rᵢ = Rᵢᵢ leaves out the row; of a row that is repeated one copy is left out, and what the
        fit gives to itself, 1 − Rᵢᵢ, is shared among the copies.
        """
        if self.values.max() <= 0.0:  # all points are one and explain nothing
            return np.inf, target.spread
        turned, squares = self.vectors.T @ target.F, self.vectors**2

        def error(at: float) -> float:
            r = at / (self.values + at)
            left = self.vectors @ (r[:, None] * turned)
            own = 1.0 - (1.0 - squares @ r + target.mean**2) / target.copies
            return float((np.einsum("ij,ij->i", left, left) / own**2).sum())

        return best_ridge(error, float(self.values.max()), ridge)


def best_ridge(
    error: Callable[[float], float], largest: float, ridge: float | None
) -> tuple[float, float]:
    """Return the λ of least error on a grid, the largest of equals, and that error."""
    ridges = largest * np.geomspace(MOST, LEAST, STEPS) if ridge is None else np.array([ridge])
    errors = np.full(len(ridges), np.inf)

    def look(at: range) -> int:
        for i in at:
            errors[i] = error(float(ridges[i]))
        return int(np.argmin(errors))

    best = look(range(0, len(ridges), STRIDE))
    best = look(range(max(0, best - STRIDE + 1), min(len(ridges), best + STRIDE)))
    return float(ridges[best]), float(errors[best])


@dataclass(frozen=True, eq=False)
class Fit:
    """A regression of one target, chosen by leaving out.

    Parameters
    ----------
    regression : Regression, or another with its methods
        On the points times `map`.
    ridge, error, explained : float
        λ, the leave-one-out error, and 1 less its part of the error of the mean alone.
    scale : float
        Length scale on the mapped points; 0 where the kernel was given.
    map : ndarray of shape (d, d) or None
        None for the points as they are.
    """

    regression: Any
    ridge: float
    error: float
    explained: float
    scale: float
    map: np.ndarray | None


def regress(
    targets: list[Target],
    kernel: Kernel,
    Z: Any,
    ridge: float | None,
    *,
    tuned: bool,
    standard: bool = False,
) -> list[Fit]:
    """Return for each target the regression on Z of least leave-one-out error.

    Parameters
    ----------
    targets : list of Target
        Of the same weights.
    kernel : Kernel
        Of Z, without words.
    Z : canonical collection
        The points.
    ridge : float or None
        λ; None chooses it.
    tuned : bool
        Whether the kernel, an RBF, is a start only: length scales, and for several columns a
        metric, are then chosen.
    standard : bool, default=False
        Whether columns of Z have unit variance already.
    """
    if not tuned:
        K = gram_matrix(kernel, around_mean(kernel, Z))
        return _better([None] * len(targets), targets, K, ridge, 0.0, None)
    scaled = standard or not isinstance(Z, np.ndarray)
    points = Z if scaled else standardised(Z, targets[0].weights)
    best: list[Any] = [None] * len(targets)
    unit = _median(points, targets[0].weights)
    for factor in FACTORS:
        K = gram_matrix(RBF(factor * unit), points)
        best = _better(best, targets, K, ridge, factor * unit, None)
    if isinstance(Z, np.ndarray) and 1 < Z.shape[1] <= WIDEST:
        best = [_aligned(f, t, points, ridge) for f, t in zip(best, targets, strict=True)]
    return best


# -------------------------------------------------------------------------------------- parts
def _better(
    best: list[Any],
    targets: list[Target],
    K: np.ndarray,
    ridge: float | None,
    scale: float,
    map: np.ndarray | None,
) -> list[Any]:
    """Return the fits with a kernel matrix where these have less error, else those before."""
    regression, out = Regression(K, targets[0]), []
    for before, target in zip(best, targets, strict=True):
        chosen, error = regression.left_out(target, ridge)
        if before is None or error < (1.0 - BETTER) * before.error:
            explained = 1.0 - error / target.spread if target.spread > 0.0 else 0.0
            before = Fit(regression, chosen, error, explained, scale, map)
        out.append(before)
    return out


def _aligned(fit: Fit, target: Target, Z: np.ndarray, ridge: float | None) -> Fit:
    """Return the better of a fit and those in the metric of its mean squared gradient.

    With M = Σᵢ wᵢ Σ_q ∇f_q(zᵢ) ∇f_q(zᵢ)ᵀ, distances (z−z′)ᵀM(z−z′) follow the directions in which
    the target changes: columns without effect fall out, and a function of few directions is learnt
    as one of few variables (Radhakrishnan, Beaglehole, Pandit, Belkin, Science 383, 2024).
    """
    for _ in range(ROUNDS):
        if not np.isfinite(fit.ridge):
            return fit
        A = np.eye(Z.shape[1]) if fit.map is None else fit.map
        P, U = Z @ A, fit.regression.vectors
        K = gram_matrix(RBF(fit.scale), P)
        shrunk = (U.T @ target.F) / (fit.regression.values + fit.ridge)[:, None]
        alpha = target.root[:, None] * (U @ shrunk)
        at = K @ alpha
        slopes = np.empty((P.shape[1], at.size))
        for a, column in enumerate(P.T):
            slope = K @ (column[:, None] * alpha) - column[:, None] * at
            slopes[a] = (target.root[:, None] * slope).ravel()
        M = A @ (slopes @ slopes.T) @ A.T
        total = float(np.trace(M))
        if not total > 0.0:
            return fit
        values, vectors = np.linalg.eigh(M / total)
        A = vectors * np.sqrt(np.maximum(values, 0.0))
        P = Z @ A
        unit, before = _median(P, target.weights), fit
        for factor in ALIGNED:
            K = gram_matrix(RBF(factor * unit), P)
            [fit] = _better([fit], [target], K, ridge, factor * unit, A)
        if fit is before:
            return fit
    return fit


def standardised(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 and variance 1, constant ones 0."""
    size = np.abs(Z).max(0)
    Z = Z / np.where(size > 0.0, size, 1.0)
    Z = Z - np.average(Z, axis=0, weights=weights)
    spread = np.sqrt(np.average(Z * Z, axis=0, weights=weights))
    constant = spread <= 1e-14
    Z[:, constant] = 0.0
    return Z / np.where(constant, 1.0, spread)


def _median(points: Any, weights: np.ndarray) -> float:
    return float(RBF("median").fit_params(points, weights).length_scale)


# ---- Conditional dependence from features of low rank: nothing is n × n, all grows with n·rank².


TUNED = 1000  # rows on which length scale and metric are chosen
NARROWER = (1.0, 0.5, 0.25)  # parts of the length scale chosen there that are tried on all rows
LAW = 2000  # rows of the law that stand for all of them


class FeatureTarget:
    """Features to be regressed, centred and times √w; as `Target`, without their matrix."""

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
    """

    def __init__(self, factor: Factor, target: FeatureTarget):
        centred = target.root[:, None] * factor.centred(target.weights)
        self.vectors, roots, _ = heard(np.linalg.svd, centred, full_matrices=False)
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
    """
    n, rank = pair.n, check_index(rank, "rank", 1)
    w = np.ones(n) if pair.weights is None else pair.weights
    require_memory(
        8 * 10 * n * min(n, rank),
        f"{who()}: {rank} features of {n} points for three kernels",
        "Use a smaller rank",
    )
    operator = _Hadamard(gram_of(pair.kernel_x, pair.X), gram_of(kernel, Z))

    def factor(K: Operator) -> Factor:
        return factor_of(rpcholesky(K, rank, int(rng.integers(2**31))), K.diagonal())

    targets = [
        FeatureTarget(factor(K), w, counted) for K in (operator, gram_of(pair.kernel_y, pair.Y))
    ]
    if not tuned:
        conditions = [factor(gram_of(kernel, around_mean(kernel, Z)))]
        candidates = [[(conditions[0], 0.0)] for _ in targets]
    else:
        points = standardised(Z, w) if isinstance(Z, np.ndarray) else Z
        candidates = [
            [
                (factor(Gram(RBF(scale * part), at, keep=False)), scale * part)
                for part in (NARROWER if n > TUNED else (1.0,))
            ]
            for scale, at in _chosen(pair, kernel, Z, points, w, counted, ridge, rng)
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
) -> list[tuple[float, Any]]:
    """Return for each target the length scale, and Z in the metric, that some rows choose."""
    some = np.arange(pair.n)
    if pair.n > TUNED:
        some = np.sort(rng.choice(pair.n, TUNED, replace=False))
    own = points_at(kernel, Z, some)
    K = gram_matrix(pair.kernel_x, points_at(pair.kernel_x, pair.X, some))
    K *= gram_matrix(kernel, own)
    L = gram_matrix(pair.kernel_y, points_at(pair.kernel_y, pair.Y, some))
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
