"""Leave-one-out values of regularised risks: one Newton step without each row, from one factor.

At the solution f of a smooth risk, with slopes g and curvatures h, the objective without row i is,
to second order, that of a ridge regression. Its minimum has the value fᵢ + gᵢκᵢ/(1 − hᵢκᵢ) at xᵢ,
where κ is the diagonal of (alpha K⁻¹ + H)⁻¹ with the offset fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import class_signs
from mercer.kernels import Kernel
from mercer.losses import Hinge, Logistic, Loss
from mercer.memory import require_memory, row_blocks
from mercer.models.margin import (
    PER_FEATURE,
    SMALL,
    check_enough,
    leaves_box,
    only_one,
    refitted,
    rows_to_doubt,
    span_moves,
)
from mercer.models.risk.fit import ERMFit, dual_slopes
from mercer.models.risk.kinked import INSIDE, fit_dual
from mercer.models.risk.smooth import fit_smooth, fit_softmax
from mercer.operators import LowRank, Operator, gram_of
from mercer.rkhs import feature_values
from mercer.solvers import SmoothERM, SoftmaxERM, Solution
from mercer.solvers.risk import (
    EPS,
    CoupledFactor,
    PrimalMetric,
    contrasts,
    coupled_bytes,
    log_softmax,
    metric_of,
)

# ---- Leave-one-out values of softmax: one Newton step without each row, with its classes
# coupled.
# Without row i the step from the solution has the value zᵢ + (Σᵢᵢ⁻¹ − Wᵢ)⁻¹gᵢ at xᵢ, with the
# slopes gᵢ = w(p − Y) of the row, its curvature Wᵢ = w(diag p − ppᵀ), and Σᵢᵢ the C×C block of
# (alpha K⁻¹ + W)⁻¹ of all rows and classes, with the offsets fitted.


_DIGITS = 1e6  # a rest 1 − leverage must be so many times its rounding error


def left_out_values(
    z: np.ndarray, p: np.ndarray, g: np.ndarray, w: np.ndarray, S: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return z + (Σᵢᵢ⁻¹ − Wᵢ)⁻¹ gᵢ row by row, and which rows have lost their digits.

    Parameters
    ----------
    z, p, g : ndarray of shape (n, C)
        Values, probabilities, and slopes w(p − Y).
    w : ndarray of shape (n,)
        Weights.
    S : ndarray of shape (n, C, C)
        The blocks Σᵢᵢ.
    noise : ndarray of shape (n,)
        About how large the rounding error of a block is.
    """
    H = contrasts(z.shape[1])
    W = H.T @ (w[:, None, None] * (p[:, :, None] * np.eye(p.shape[1]) - _outer(p))) @ H
    S = H.T @ S @ H
    rate, turn = np.linalg.eigh(W)
    root = turn * np.sqrt(np.maximum(rate, 0.0))[:, None, :]
    rest = np.eye(H.shape[1]) - root.transpose(0, 2, 1) @ S @ root
    lost = ~(np.linalg.eigvalsh(rest)[:, 0] > _DIGITS * noise * rate[:, -1])
    rest[lost] = np.eye(H.shape[1])
    # (Σ⁻¹ − W)⁻¹ = Σ + ΣR(I − RᵀΣR)⁻¹RᵀΣ with W = RRᵀ
    u = (g @ H)[:, :, None]
    side = root.transpose(0, 2, 1) @ S
    moved = S @ u + side.transpose(0, 2, 1) @ np.linalg.solve(rest, side @ u)
    return z + moved[:, :, 0] @ H.T, lost


def variances_of_coefficients(
    K: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float, offset: bool
) -> np.ndarray:
    """Return the blocks Σᵢᵢ from C + 1 factorisations of n×n matrices.

    With Q of `CoupledFactor` Σ = K/alpha − (K/alpha) Q (K/alpha); offsets without a penalty add
    U(1ᵀQ1)⁺Uᵀ, U = 1 − (K/alpha)Q1.
    """
    n, C = p.shape
    require_memory(coupled_bytes(n, C), f"loo: {C + 3} matrices of {n} × {n}", "Use folds")
    Q = CoupledFactor(K, p, w, alpha)
    H, U = contrasts(C), np.zeros((0, 0, 0))
    if offset:
        Q1 = Q.of_constants()
        U = (np.eye(C) - np.einsum("ij,jcd->icd", K, Q1) / alpha) @ H
        middle = np.linalg.pinv(H.T @ Q1.sum(axis=0) @ H, hermitian=True)
    out = np.zeros((n, C, C))
    for c in range(C):
        EK = Q.E[c] @ K
        out[:, c, c] = np.diagonal(K) / alpha - np.einsum("ij,ij->j", K, EK) / alpha**2
        Q.E[c] = sl.solve_triangular(Q.L, EK, lower=True, check_finite=False)
    for c in range(C):
        for d in range(c, C):
            cross = np.einsum("ij,ij->j", Q.E[c], Q.E[d]) / alpha**2
            out[:, c, d] += cross
            out[:, d, c] += cross if d > c else 0.0
    return out + U @ middle @ U.transpose(0, 2, 1) if offset else out


def variances_of_features(
    F: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float, offset: bool
) -> np.ndarray:
    """Return the blocks Σᵢᵢ from one factorisation of a matrix of (C − 1)D rows."""
    (n, C), m = p.shape, p.shape[1] - 1
    F = F - w @ F / w.sum() if offset else F
    if offset:
        F = np.column_stack([F, np.ones(n)])
    D, H = F.shape[1], contrasts(p.shape[1])
    require_memory(
        8 * (2 * (m * D) ** 2 + 2 * n * D), f"loo: a matrix of {m * D} features", "Use folds"
    )
    W = H.T @ (w[:, None, None] * (p[:, :, None] * np.eye(C) - _outer(p))) @ H
    M = np.empty((m, D, m, D))
    for c in range(m):
        for d in range(c, m):
            M[c, :, d, :] = F.T @ (W[:, c, d, None] * F)
            M[d, :, c, :] = M[c, :, d, :].T
    M = M.reshape(m * D, m * D)
    ridge = np.full((m, D), alpha)
    if offset:
        ridge[:, -1] = 1e-14 * np.trace(M) / len(M)  # the offsets have no penalty
    M.flat[:: m * D + 1] += ridge.ravel()
    L = np.linalg.cholesky(M)
    out = np.empty((n, C, C))
    for rows in row_blocks(n, 3 * 8 * m * m * D):
        k = rows.stop - rows.start
        half = sl.solve_triangular(
            L, np.einsum("cd,if->cfid", np.eye(m), F[rows]).reshape(m * D, k * m), lower=True
        ).reshape(m * D, k, m)
        blocks = np.einsum("aic,aid->icd", half, half)
        out[rows] = H @ blocks @ H.T
    return out


def _outer(p: np.ndarray) -> np.ndarray:
    return p[:, :, None] * p[:, None, :]


# ---- erm loo ----


# Of features 1 − hκ is a difference; where it is this small too few digits are left of it.
ALONE = 1e-8
REFITS, SMALL_PROBLEM = 50, 200  # so many rows are fitted again instead; of small problems, all


@speaks("loo")
def loo_smooth(
    kernel: Kernel, X: Any, problem: SmoothERM, values: np.ndarray, coef: np.ndarray
) -> np.ndarray:
    """Return what the fit would say at its own points without them, to one Newton step.

    It has the values (with the offset) and coefficients of the fit at its points.
    """
    y, loss, alpha, weights = problem.y, problem.loss, problem.alpha, problem.weights
    offset = problem.offset
    _enough(len(y), offset)
    p = problem.checked("loo")
    h = p.curvatures(values)
    h = np.where(h > 0, h, 0.0)
    metric = metric_of(p)
    kappa, rest = metric.leverage(h)
    features = isinstance(metric, PrimalMetric)
    # For a small alpha y − f cancels; the coefficients have kept its digits.
    g = p.slopes(values) if features else -alpha * coef
    with np.errstate(all="ignore"):
        out = values + g * kappa / rest
        if p.quadratic and not features:
            out = y + g / (h * rest)
    lost = ~((rest > (ALONE if features else 0.0)) & np.isfinite(out)) | (metric.jitter > 0)

    def again(part: Any, others: np.ndarray) -> ERMFit:
        left = (kernel, part, y[others], loss, alpha, weights[others], offset)
        return fit_smooth(*left, tol=1e-8, max_iter=None, max_time=None)

    labels = y if loss.kind == "classification" and offset else None
    return _refitted(kernel, X, out, np.flatnonzero(lost), again, labels)


@speaks("loo")
def loo_softmax(kernel: Kernel, X: Any, problem: SoftmaxERM, values: np.ndarray) -> np.ndarray:
    """Return left-out values of softmax, to one Newton step, shape (n, classes).

    Of D features it costs a factorisation of (C − 1)D rows where these are at most n; else that of
    C + 1 matrices of n rows and about 5Cn³ flops in all, in the memory of C + 3 such matrices.
    """
    rows, y, classes, alpha = problem.K, problem.y, problem.classes, problem.alpha
    weights, offset = problem.weights, problem.offset
    _enough(len(y), offset)
    p = problem.checked("loo")
    shares = np.exp(log_softmax(values))
    parts = (shares, p.w, alpha, offset)
    if isinstance(rows, LowRank) and (classes - 1) * rows.F.shape[1] <= p.n:
        F = rows.F.toarray() if sp.issparse(rows.F) else rows.F
        S = variances_of_features(F, *parts)
    else:
        S = variances_of_coefficients(np.asarray(rows.to_dense(), dtype=float), *parts)
    noise = EPS * np.asarray(rows.diagonal(), dtype=float) / alpha
    out, lost = left_out_values(values, shares, p.weighted(p.rates(values)), p.w, S, noise)

    def again(part: Any, others: np.ndarray) -> ERMFit:
        left = (kernel, part, y[others], classes, alpha, weights[others], offset)
        return fit_softmax(*left, tol=1e-8, max_iter=None, max_time=None)

    alone = np.bincount(y, minlength=classes)[y] == 1
    if (lost & alone).any():
        raise _only_one(int(np.flatnonzero(lost & alone)[0]))
    return _refitted(kernel, X, out, np.flatnonzero(lost), again)


def _refitted(
    kernel: Kernel,
    X: Any,
    out: np.ndarray,
    lost: np.ndarray,
    again: Callable[[Any, np.ndarray], ERMFit],
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """Return the values, those of some rows from fits without them."""
    n = len(out)
    if len(lost) > (n if n <= SMALL_PROBLEM else REFITS):
        raise InvalidInput(
            f"loo: at {len(lost)} of {n} rows, the first row {lost[0]}, the fit depends on that "
            "row alone, and rounding leaves no digits of what it would be without; use a larger "
            "alpha, or mercer.search with folds."
        )
    for i in lost:
        others = np.delete(np.arange(n), i)
        if labels is not None and len(np.unique(labels[others])) < 2:
            raise _only_one(int(i))
        fit = again(kernel.domain.subset(X, others), others)
        out[i] = _row(kernel, X, int(i), others) @ fit.dual_coef + fit.intercept
    return out


def _row(kernel: Kernel, X: Any, i: int, others: np.ndarray) -> np.ndarray:
    """Return the kernel values of a point with others."""
    return gram_of(kernel, *kernel.domain.pair(X, [i], others)).to_dense()[0]


def _only_one(i: int) -> InvalidInput:
    return InvalidInput(
        f"loo: row {i} is the only one of its class, so there is no fit without it; give more rows "
        "of that class."
    )


def _enough(n: int, offset: bool) -> None:
    if n < 2 and offset:
        raise InvalidInput(
            f"loo: with an offset it needs at least 2 rows of positive weight, got {n}; give more "
            "rows."
        )


# ---- Effective degrees of freedom of regularised risks: the trace of the last step's hat matrix.
# A Newton step at the solution is a ridge regression with the curvatures h as weights. The part of
# its fitted values that row i has in its own is the leverage hᵢκᵢ, where κ is the diagonal of
# (alpha K⁻¹ + H)⁻¹ with the offset fitted, and their sum counts the parameters that were spent.


@speaks("degrees_of_freedom")
def freedom_smooth(problem: SmoothERM, values: np.ndarray) -> float:
    """Return Σ hᵢκᵢ at the solution of a smooth risk, with these values at its points."""
    p = problem.checked("degrees_of_freedom")
    return _trace(metric_of(p), p.curvatures(values))


@speaks("degrees_of_freedom")
def freedom_softmax(problem: SoftmaxERM, values: np.ndarray) -> np.ndarray:
    """Return the share of each class, its curvature being w p(1 − p); shape (classes,).

    How classes are coupled is left out, but for the factor (C − 1)/C: of C functions that are
    defined up to a common one, C − 1 are free.
    """
    p, classes = problem.checked("degrees_of_freedom"), problem.classes
    own = np.abs(p.rates(values))
    h = p.weighted(own * (1.0 - own))
    metric = metric_of(p)
    found = np.array([_trace(metric, h[:, c]) for c in range(classes)])
    return found * (classes - 1) / classes


def _trace(metric: Any, h: np.ndarray) -> float:
    used = h > 0
    if not used.any():
        return 0.0
    _, rest = metric.leverage(np.where(used, h, 0.0))
    return float(np.clip(1.0 - rest[used], 0.0, 1.0).sum())


# ---- Leave-one-out values of risks with kinks: the span rule, and fits where it does not hold ----


CHEAP, MANY = 10**6, 1000  # n D² of a quick fit; rows up to which such fits may all be made again
KINK = 1e-6  # part of the mean error within which a target lies on a kink of its loss


@speaks("loo")
def loo_dual(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    dual_coef: np.ndarray,
    intercept: float,
    values: np.ndarray | None = None,
) -> np.ndarray:
    """Return what a fit of `fit_dual` would say at its own points without them, by the span rule.

    An approximation: exact where no other point reaches or leaves a kink of its loss when the
    point is taken away. Points with coefficient 0 keep their value, which is exact; those that
    the rule moves too far, or that break a bound, are fitted again without (see `refitted`).

    Parameters
    ----------
    kernel, X, y, loss, alpha, weights, offset
        The problem, as for `fit_dual`.
    dual_coef : ndarray of shape (n,)
        The coefficients of the fit.
    intercept : float
        Its offset.
    values : ndarray of shape (n,), optional
        Its values, where they are known better than by the coefficients.
    """
    n, hinge = len(y), isinstance(loss, Hinge)
    check_enough(n, offset)
    if values is None:
        values = gram_of(kernel, X) @ dual_coef + float(intercept)
    lowest, highest = dual_slopes(loss, y)
    box = -weights * highest / alpha, -weights * lowest / alpha
    epsilon = float(getattr(loss, "epsilon", 0.0))
    a = _slopes_again(kernel, X, y, values, float(intercept), dual_coef, box, epsilon, offset)
    near = INSIDE * (box[1] - box[0])
    free = (a > box[0] + near) & (a < box[1] - near)
    if epsilon > 0:
        free &= a != 0  # inside the tube, not on its edge
        box = np.where(a > 0, 0.0, box[0]), np.where(a < 0, 0.0, box[1])

    def again(i: int) -> float:
        others = np.delete(np.arange(n), i)
        if not len(others):
            return 0.0
        if hinge and offset and len(np.unique(y[others])) < 2:
            raise only_one(i)
        part = kernel.domain.subset(X, others)
        problem = (kernel, part, y[others], loss, alpha, weights[others], offset)
        limits: Any = {"tol": 1e-6, "max_iter": None, "max_time": None}
        fit = fit_dual(*problem, **limits, start=a[others])
        if fit.coef is not None:
            x = kernel.domain.take(X, [i])
            return float(feature_values(kernel, x, fit.coef)[0] + fit.intercept)
        return float(_row(kernel, X, i, others) @ fit.dual_coef + fit.intercept)

    moves = span_moves(kernel, X, a, free, offset)
    spread = 1.0 if hinge else float(np.average(np.abs(y - values), weights=weights))
    D, leave = kernel._n_features(X), None
    small = SMALL
    if D is not None and n * D**2 <= CHEAP:
        small = max(SMALL, min(PER_FEATURE * D, MANY))
    if rows_to_doubt(n, int(free.sum()), D):
        leave = leaves_box(kernel, X, a, free, box, offset)
    both = (values - moves)[:, None], values[:, None]
    return refitted(*both, np.array([spread]), again, leave, small)[:, 0]


def _slopes_again(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    values: np.ndarray,
    intercept: float,
    a: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    epsilon: float,
    offset: bool,
) -> np.ndarray:
    """Return coefficients that are −1/alpha times slopes of the losses, if those given are not.

    Coefficients of a fit by weights of features have the function that the weights have; for a
    small alpha they need not be slopes. Off the kinks the slopes are known, and there are no more
    kinks than numbers to meet: Kₘₘaₘ = f − b − (the others' part), Σaᵢ = 0.
    """
    errors, largest = y - values, float(np.abs(y).max(initial=0.0))
    near = KINK * float(np.abs(errors).mean()) + 1e-3 * KINK * largest
    on = np.abs(np.abs(errors) - epsilon) <= near
    known = np.where(errors > epsilon, box[1], np.where(errors < -epsilon, box[0], 0.0))
    if not (np.abs(a - known)[~on] > KINK * (box[1] - box[0])[~on]).any():
        return a
    at = np.flatnonzero(on)
    out = np.where(on, 0.0, known)
    if not len(at):
        return out
    left = values - intercept - gram_of(kernel, X) @ out
    K = np.asarray(gram_of(kernel, kernel.domain.subset(X, at)).to_dense(), dtype=float)
    rows, right = K, left[at]
    if offset:
        size = max(float(K.diagonal().mean()), float(np.finfo(float).tiny))
        rows = np.vstack([K, np.full(len(at), size)])
        right = np.append(right, -size * out.sum())
    out[at] = np.clip(np.linalg.lstsq(rows, right, rcond=1e-12)[0], box[0][at], box[1][at])
    return out


# ---- The training rows of a fitted risk once more ----


OTHER = 1e-3  # relative residual that no rounding explains


@dataclass(frozen=True, eq=False)
class RowsAgain:
    """Rows of positive weight of a fit, and what the fit is there."""

    kernel: Kernel
    X: Any
    y: np.ndarray
    weights: np.ndarray
    losses: list[Loss]
    alpha: float
    offset: bool
    coef: np.ndarray
    intercept: Any
    f: np.ndarray
    classes: int
    gram: Operator | None

    @property
    def values(self) -> np.ndarray:
        """Values of the fit, f(x) + b."""
        return self.f + self.intercept

    @property
    def _is_softmax(self) -> bool:
        return self.f.ndim == 2 and isinstance(self.losses[0], Logistic)

    def _targets(self) -> np.ndarray:
        """Return the targets of each problem, one row a problem."""
        if self.classes:
            return class_signs(self.y, np.arange(self.classes))
        return np.tile(self.y, (len(self.losses), 1))

    def _problems(self) -> Iterator[tuple[Loss, np.ndarray, np.ndarray, float, np.ndarray]]:
        """Yield loss, targets, coefficients, offset and values of each problem."""
        n = len(self.y)
        a, b = self.coef.reshape(n, -1), np.atleast_1d(self.intercept)
        z = self.values.reshape(n, -1)
        for j, (loss, target) in enumerate(zip(self.losses, self._targets(), strict=True)):
            yield loss, target, a[:, j], float(b[j]), z[:, j]

    def _smooth(self, loss: Loss, y: np.ndarray) -> SmoothERM:
        return SmoothERM(self.gram, y, loss, self.alpha, self.weights, self.offset)

    def _softmax(self) -> SoftmaxERM:
        rest = (self.alpha, self.weights, self.offset)
        return SoftmaxERM(self.gram, self.y.astype(int), self.classes, *rest)

    def left_out(self) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) + b₋ᵢ at each row."""
        kernel, X = self.kernel, self.X
        if self._is_softmax:
            return loo_softmax(kernel, X, self._softmax(), self.values)
        columns = [
            loo_dual(kernel, X, y, loss, self.alpha, self.weights, self.offset, a, b, z)
            if self.gram is None
            else loo_smooth(kernel, X, self._smooth(loss, y), z, a)
            for loss, y, a, b, z in self._problems()
        ]
        return columns[0] if self.f.ndim == 1 else np.stack(columns, axis=1)

    def degrees_of_freedom(self) -> Any:
        """Return the trace of the last hat matrix, of each problem."""
        if self._is_softmax:
            return freedom_softmax(self._softmax(), self.values)
        found = [freedom_smooth(self._smooth(loss, y), z) for loss, y, _, _, z in self._problems()]
        return found[0] if self.f.ndim == 1 else np.array(found)

    def check_matrix(self, found: Solution) -> None:
        """Refuse a matrix with which the coefficients do not solve the problem of the fit.

        Of smooth losses alpha a = −wℓ' at the values, of others the objective tells.
        """
        if not self.classes and self.f.ndim == 2:
            return  # each column has a loss of its own
        n, w, a, z = len(self.y), self.weights, self.coef, self.values
        if self.losses[0].smooth:
            if self._is_softmax:
                G = w[:, None] * (np.exp(log_softmax(z)) - (self._targets().T > 0))
            else:
                slopes = [w * loss.gradient(y, v) for loss, y, _, _, v in self._problems()]
                G = np.stack(slopes, axis=1)
            lack = float(np.abs(self.alpha * a.reshape(n, -1) + G).max())
            size, allowed = float(np.abs(G).max()), max(OTHER, 10 * float(found.residual or 0.0))
        else:
            risk = sum(float(w @ loss.value(y, v)) for loss, y, _, _, v in self._problems())
            size, allowed = abs(float(found.primal or 0.0)), 1e-3 * OTHER
            norm = float((a * self.f).sum())
            lack = abs(risk + 0.5 * self.alpha * norm - float(found.primal or 0.0))
        if not lack <= allowed * size:
            raise InvalidInput(
                f"{who()}: this is not the matrix the model was fitted on; pass the training "
                "matrix again."
            )
