"""Regularised risk with a smooth loss, solved by Newton's method in coefficients or features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.kernels.parameters import check_diagonal
from mercer.losses import Absolute, Huber, Loss, Squared
from mercer.models.definite import JUDGED, check_definite
from mercer.models.erm_dual import best_offset
from mercer.models.erm_fit import ERMFit
from mercer.models.primal_ridge import is_sparse
from mercer.models.ridge_data import unproven
from mercer.operators import Dense, Gram, LowRank, Operator
from mercer.settings import get_config
from mercer.solvers import Solution
from mercer.solvers.risk.metric import MOMENTS, SHARED, SharedGram
from mercer.solvers.risk.newton import IRLS
from mercer.solvers.risk.smooth import SmoothERM

__all__ = ["NEWTON_STEPS", "centre_of", "erm_fit_of", "fit_smooth", "smooth_rows"]

NEWTON_STEPS = 200
TINY = 1e-60  # targets below are measured in a unit of their size


def smooth_rows(kernel: Kernel, X: Any, owner: str) -> Operator:
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
    owner : str
        Who asks; messages begin with it.
    """
    n = kernel.domain.size(X)
    with np.errstate(over="ignore", invalid="ignore"):
        check_diagonal(kernel, np.asarray(kernel._diag(X), dtype=float))
    D = kernel._n_features(X)
    if D is not None and D < n:
        sparse = is_sparse(kernel, X)
        needed, room = MOMENTS * D * D if sparse else 4 * n * D * 8, get_config().memory
        if needed <= room or SHARED * n * n > room:
            require_memory(
                needed, f"{owner}: the {n} × {D} features of {kernel!r}", "Fit fewer rows"
            )
            return LowRank(_finite_features(kernel, X, sparse))
    K: Any = Gram(kernel, X, keep=False)
    if unproven(kernel) and n <= JUDGED and 3 * K.nbytes < get_config().memory:
        matrix = np.array(K.to_dense(), dtype=float)
        check_definite(kernel, matrix, owner)
        K = Dense(matrix, symmetric=True)
    return SharedGram(K, owner)


def _finite_features(kernel: Kernel, X: Any, sparse: bool) -> Any:
    phi = kernel._features(X)
    if sp.issparse(phi):
        phi = sp.csr_array(phi, dtype=np.float64) if sparse else phi.toarray()
    if not np.isfinite(phi.data if sparse else phi).all():
        raise InvalidInput(
            f"{kernel!r}: its features are not finite on these data; scale the columns."
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
    owner: str,
    rows: Operator | None = None,
    start: Any = None,
) -> ERMFit:
    """Minimise Σ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖² for a smooth loss.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        Points of positive weight; the square matrix when precomputed.
    y : ndarray of shape (n,)
        Targets; −1 and 1 for a classification loss.
    loss : Loss
        With ``smooth = True``.
    alpha : float
        The penalty, > 0.
    weights : ndarray of shape (n,)
        Weights, > 0.
    offset : bool
        Whether there is an offset b.
    tol : float
        Largest duality gap relative to the objective.
    max_iter, max_time : number or None
        Limits on Newton steps (200 by default) and seconds.
    owner : str
        Who asks; messages begin with it.
    rows : Operator, optional
        What `smooth_rows` gave, where several problems share it.
    start : ndarray of shape (n,), optional
        Coefficients to begin with, such as those of a similar problem.
    """
    rows = smooth_rows(kernel, X, owner) if rows is None else rows
    centre = centre_of(y, loss, weights, offset)
    loss, unit = in_units(loss, y - centre)
    problem = SmoothERM(rows, (y - centre) / unit, loss, alpha, weights, offset)
    solver = IRLS(tol, NEWTON_STEPS if max_iter is None else max_iter, max_time)
    begin = None if start is None else (start / unit, 0.0)
    return erm_fit_of(solver.solve(problem, begin, owner), centre, unit)


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
