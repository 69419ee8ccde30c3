"""Regularised risk with a smooth loss, solved by Newton's method in coefficients or features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import beside
from mercer.errors import InvalidInput, who
from mercer.estimator import JUDGED, Plan, Study, Ways, check_definite, choose, is_sparse
from mercer.kernels import Kernel, check_diagonal, unproven
from mercer.losses import Absolute, Huber, Loss, Squared
from mercer.memory import on_gpu, require_memory
from mercer.models.ridge import RidgeGram
from mercer.models.risk.fit import ERMFit, best_offset
from mercer.operators import Dense, Gram, LowRank, Operator
from mercer.settings import get_config
from mercer.solvers import (
    IRLS,
    ConjugateGradients,
    Linear,
    NewtonCG,
    NystromPreconditioner,
    SmoothERM,
    SoftmaxERM,
    Solution,
    rpcholesky,
)
from mercer.solvers.falkon import falkon_newton_cost
from mercer.solvers.linear import DevicePreconditioner, default_rank
from mercer.solvers.risk import (
    MOMENTS,
    SHARED,
    SharedGram,
    by_features,
    newton_cg_cost,
    newton_cost,
    shared_gram,
)

NEWTON_STEPS = 200
SMALL = 1000  # points up to which factorising each Newton matrix is as fast as any method
TINY = 1e-60  # targets below are measured in a unit of their size


def smooth_rows(kernel: Kernel, X: Any) -> Operator:
    """Return the Gram matrix for Newton's method, which several problems in turn may share.

    With D finite features, D < n, it is their product, unless only the matrix fits into memory;
    else the matrix with room for a factor. A matrix that only the user vouches for is tested where
    it is small enough.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        The points; for a precomputed kernel the square matrix of kernel values.
    """
    n = kernel.domain.size(X)
    with np.errstate(over="ignore", invalid="ignore"):
        check_diagonal(kernel, np.asarray(kernel._diag(X), dtype=float))
    D = kernel._n_features(X)
    if D is not None and D < n:
        sparse = is_sparse(kernel, X)
        needed, room = MOMENTS * D * D if sparse else 4 * n * D * 8, get_config().memory
        if needed <= room or SHARED * n * n > room:
            require_memory(needed, f"{who()}: the {n} × {D} features of {kernel}", "Fit fewer rows")
            return LowRank(_finite_features(kernel, X, sparse))
    K: Any = Gram(kernel, X, keep=False)
    if unproven(kernel) and n <= JUDGED and 3 * K.nbytes < get_config().memory:
        matrix = np.array(K.to_dense(), dtype=float)
        check_definite(kernel, matrix)
        K = Dense(matrix, symmetric=True)
    return shared_gram(K)


def _finite_features(kernel: Kernel, X: Any, sparse: bool) -> Any:
    phi = kernel._features(X)
    if sp.issparse(phi):
        phi = sp.csr_array(phi, dtype=np.float64) if sparse else phi.toarray()
    if not np.isfinite(phi.data if sparse else phi).all():
        raise InvalidInput(
            f"{kernel}: its features are not finite on these data; scale the columns."
        )
    return phi if sparse else np.asarray(phi, dtype=np.float64)


def centre_of(y: np.ndarray, loss: Loss, weights: np.ndarray, offset: bool) -> float:
    """Return what is taken off targets before a fit, so that adding to them changes no rounding."""
    if loss.kind != "regression" or not offset:
        return 0.0
    return best_offset(Absolute(), y, np.zeros(len(y)), weights)


def fit_smooth(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    *,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
    rows: Operator | None = None,
    start: Any = None,
) -> ERMFit:
    """Minimise Σ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖² for a smooth loss."""
    rows = smooth_rows(kernel, X) if rows is None else rows
    centre = centre_of(y, loss, weights, offset)
    loss, unit = in_units(loss, y - centre)
    problem = SmoothERM(rows, (y - centre) / unit, loss, alpha, weights, offset)
    solver = IRLS(tol, NEWTON_STEPS if max_iter is None else max_iter, max_time)
    begin = None if start is None else (start / unit, 0.0)
    return erm_fit_of(solver.solve(problem, begin, who()), centre, unit)


def in_units(loss: Loss, y: np.ndarray) -> tuple[Loss, float]:
    """Return a unit for tiny targets, whose squares underflow, and the loss in that unit.

    Squares and Huber's loss are homogeneous: ℓ_δ(uy, uf) = u² ℓ_{δ/u}(y, f).
    """
    top = float(np.abs(y).max(initial=0.0))
    if not 0 < top < TINY or not isinstance(loss, Squared | Huber):
        return loss, 1.0
    unit = float(2.0 ** np.floor(np.log2(top)))
    if isinstance(loss, Huber):  # beyond the largest error any δ is the same
        loss = Huber(min(loss.delta, 1e100 * unit) / unit)
    return loss, unit


def erm_fit_of(solution: Solution, centre: float = 0.0, unit: float = 1.0) -> ERMFit:
    """Return the fit of a Newton solver's solution, for targets less `centre`, in some unit."""
    extra = dict(solution.extra)
    if unit != 1:
        a = solution.value * unit
        of = {name: getattr(solution, name) * unit * unit for name in ("primal", "dual", "gap")}
        extra.update(
            {k: extra[k] * unit for k in extra if k in ("intercept", "product", "weights")}
        )
        solution = replace(solution, value=a, extra=extra, **of)
    return ERMFit(
        solution.value,
        extra["intercept"] + centre,
        solution,
        coef=extra.get("weights"),
        product=extra["product"],
    )


# ---- Regularised multi-class logistic risk: the softmax problem of a kernel and points ----


def fit_softmax(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    classes: int,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    *,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
    rows: Operator | None = None,
    start: Any = None,
) -> ERMFit:
    """Minimise Σ wᵢ (log Σ_c exp z_c(xᵢ) − z_yᵢ(xᵢ)) + (alpha/2) Σ_c ‖f_c‖², z = f + b."""
    rows = smooth_rows(kernel, X) if rows is None else rows
    problem = SoftmaxERM(rows, y, classes, alpha, weights, offset)
    solver = NewtonCG(tol, NEWTON_STEPS if max_iter is None else max_iter, max_time)
    return erm_fit_of(solver.solve(problem, None if start is None else (start, 0.0), who()))


# ---- The Gram matrix of Newton's method where systems are solved by conjugate gradients ----
# A factor K ≈ FᵀF of random pivots is made once. For weights S the preconditioner of ridge·I +
# SKS is ridge·I + SFᵀFS, by the Woodbury identity; so a step costs products with K, kept or made
# in tiles, and no n × n factor.


TOL = 1e-4  # relative residual of a Newton system; each step gains as many digits
SHARE = 4  # F and three matrices of its size take at most one part in so many of the budget
STEPS = 1000  # of conjugate gradients in a Newton step at most
ENOUGH = 1e-12  # of the trace: nothing but rounding is left


class IterativeGram(SharedGram):
    """K and solves with ridge·I + SKS by conjugate gradients, in place of a factor.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : canonical collection of n points
        In float64; worked on where they are.
    random_state : int, RandomState or None, default=None
        Source of the pivots; None stands for 0, as the answer does not depend on it.
    storage : str, optional
        How `RidgeGram` keeps K.
    """

    def __init__(
        self, kernel: Kernel, X: Any, random_state: Any = None, storage: str | None = None
    ):
        self.K = RidgeGram(kernel, X, storage)
        n = self.n = self.K.shape[0]
        self.shape, self.symmetric, self.psd = (n, n), True, True
        self.jitter = 0.0
        self._diagonal = np.asarray(self.K.diagonal(), dtype=float)
        check_diagonal(kernel, self._diagonal)
        seed = 0 if random_state is None else random_state
        rank = min(default_rank(n), max(1, get_config().memory // (SHARE * 32 * n)), n)
        self.F = rpcholesky(self.K, rank, seed, tol=ENOUGH).F
        if there := on_gpu(self.K.like):
            self.F = beside(self.F, self.K.like)
        self._kind: Any = DevicePreconditioner if there else NystromPreconditioner
        self._s, self._ridge, self._rough_only = np.zeros(n), 0.0, False
        self._preconditioner: Any = None

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        return self.K._block(rows, cols)

    def times(self, V: np.ndarray) -> np.ndarray:
        """Return K V, in float64."""
        return self.K.exact(V)

    def factor(self, s: np.ndarray, ridge: float, rough: bool = False) -> None:
        """Make the preconditioner of ridge·I + SKS; a rough solve is the preconditioner alone."""
        self._s, self._ridge, self._rough_only = s, ridge, rough
        self._preconditioner = self._kind(self.F * beside(s, self.F), ridge)

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return (ridge·I + SKS)⁻¹R up to a relative residual of 1e-4, 0 in the rows with s = 0."""
        used = self._s > 0
        R = np.where(used if R.ndim == 1 else used[:, None], R, 0.0)
        if self._rough_only:
            out = self._preconditioner.solve(R)
        else:
            solver = ConjugateGradients(
                tol=TOL, max_iter=STEPS, preconditioner=self._preconditioner
            )
            problem = Linear(ScaledGram(self.K, self._s), R, ridge=self._ridge)
            out = np.array(solver.solve(problem, sharp=False).value, dtype=float)
        out[~used] = 0.0
        return out


class ScaledGram(Operator):
    """SKS for a diagonal S."""

    symmetric, psd = True, True

    def __init__(self, K: RidgeGram, s: np.ndarray):
        self.K, self.s, self.shape, self.dtype = K, s, K.shape, K.dtype

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        s = self.s if V.ndim == 1 else self.s[:, None]
        return s * self.K._matmul(s * V)

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        at = np.arange(len(self.s))
        return self.s[at[rows], None] * self.K._block(rows, cols) * self.s[at[cols]]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of SKS."""
        return self.s**2 * np.asarray(self.K.diagonal(), dtype=float)


def plan_smooth(study: Study, alpha: float = 1.0, *, solver: str = "auto", **wanted: Any) -> Plan:
    """Return how a smooth risk, such as a logistic one, would be fitted.

    Methods: "primal" and "cholesky", a Newton method with one factorisation a step (of a common
    preconditioner, where there are several outputs), "cg", the same with systems solved by
    conjugate gradients, and "falkon", a Newton method on m centres. "newton" is another word for
    what "cholesky" stands for. Of several outputs "auto" does not take "cg".
    """
    solver = "cholesky" if solver == "newton" else solver
    direct = "primal" if by_features(study.facts) else "cholesky"
    ways: Ways = {direct: newton_cost, "falkon": falkon_newton_cost}
    if solver == "cg" or study.facts.outputs == 1:
        ways = {**ways, "cg": partial(newton_cg_cost, alpha=alpha)}
    return choose(study, ways, direct, solver=solver, small=SMALL, **wanted)
