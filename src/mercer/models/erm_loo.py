"""Leave-one-out values of regularised risks: one Newton step without each row, from one factor.

At the solution f of a smooth risk, with slopes g and curvatures h, the objective without row i is,
to second order, that of a ridge regression. Its minimum has the value fᵢ + gᵢκᵢ/(1 − hᵢκᵢ) at xᵢ,
where κ is the diagonal of (alpha K⁻¹ + H)⁻¹ with the offset fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.erm_fit import ERMFit
from mercer.models.erm_smooth import fit_smooth, smooth_rows
from mercer.models.erm_softmax import fit_softmax
from mercer.models.erm_softmax_loo import (
    left_out_values,
    variances_of_coefficients,
    variances_of_features,
)
from mercer.models.ridge_data import take_rows
from mercer.operators import LowRank, Operator
from mercer.solvers.risk.metric import PrimalMetric, metric_of
from mercer.solvers.risk.smooth import EPS, SmoothERM
from mercer.solvers.risk.softmax import SoftmaxERM, log_softmax

__all__ = ["loo_smooth", "loo_softmax"]

# Of features 1 − hκ is a difference; where it is this small too few digits are left of it.
ALONE = 1e-8
REFITS, SMALL = 50, 200  # so many rows are fitted again instead; of small problems, all


def loo_smooth(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    values: np.ndarray,
    coef: np.ndarray,
    rows: Operator | None = None,
) -> np.ndarray:
    """Return what the fit would say at its own points without them, to one Newton step.

    Parameters
    ----------
    kernel, X, y, loss, alpha, weights, offset
        The problem, as for `fit_smooth`.
    values : ndarray of shape (n,)
        Values of the fit at its points, with the offset.
    coef : ndarray of shape (n,)
        Its coefficients a.
    rows : Operator, optional
        What `smooth_rows` gave, where several problems share it.
    """
    _enough(len(y), offset)
    rows = smooth_rows(kernel, X, "loo") if rows is None else rows
    p = SmoothERM(rows, y, loss, alpha, weights, offset).checked("loo")
    h = p.curvatures(values)
    h = np.where(h > 0, h, 0.0)
    metric = metric_of(p, "loo")
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
        problem = (kernel, part, y[others], loss, alpha, weights[others], offset)
        return fit_smooth(*problem, tol=1e-8, max_iter=None, max_time=None, owner="loo")

    labels = y if loss.kind == "classification" and offset else None
    return _refitted(kernel, X, out, np.flatnonzero(lost), again, labels)


def loo_softmax(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    classes: int,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    values: np.ndarray,
    rows: Operator | None = None,
) -> np.ndarray:
    """Return left-out values of softmax, to one Newton step, shape (n, classes).

    Of D features it costs a factorisation of (C − 1)D rows where these are at most n; else that of
    C + 1 matrices of n rows and about 5Cn³ flops in all, in the memory of C + 3 such matrices.

    Parameters
    ----------
    kernel, X, y, classes, alpha, weights, offset
        The problem, as for `fit_softmax`.
    values : ndarray of shape (n, classes)
        Values of the fit at its points, with the offsets.
    rows : Operator, optional
        What `smooth_rows` gave.
    """
    _enough(len(y), offset)
    rows = smooth_rows(kernel, X, "loo") if rows is None else rows
    p = SoftmaxERM(rows, y, classes, alpha, weights, offset).checked("loo")
    shares = np.exp(log_softmax(values))
    problem = (shares, p.w, alpha, offset)
    if isinstance(rows, LowRank) and (classes - 1) * rows.F.shape[1] <= p.n:
        F = rows.F.toarray() if sp.issparse(rows.F) else rows.F
        S = variances_of_features(F, *problem)
    else:
        S = variances_of_coefficients(np.asarray(rows.to_dense(), dtype=float), *problem)
    noise = EPS * np.asarray(rows.diagonal(), dtype=float) / alpha
    out, lost = left_out_values(values, shares, p.weighted(p.rates(values)), p.w, S, noise)

    def again(part: Any, others: np.ndarray) -> ERMFit:
        left = (kernel, part, y[others], classes, alpha, weights[others], offset)
        return fit_softmax(*left, tol=1e-8, max_iter=None, max_time=None, owner="loo")

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
    if len(lost) > (n if n <= SMALL else REFITS):
        raise InvalidInput(
            f"loo: at {len(lost)} of {n} rows, the first row {lost[0]}, the fit depends on that "
            "row alone, and rounding leaves no digits of what it would be without; use a larger "
            "alpha, or mercer.search with folds."
        )
    for i in lost:
        others = np.delete(np.arange(n), i)
        if labels is not None and len(np.unique(labels[others])) < 2:
            raise _only_one(int(i))
        part = take_rows(kernel, X, others)
        fit = again(part, others)
        if isinstance(kernel.domain, GramRows):
            cross = np.asarray(X[[i]][:, others])[0]
        else:
            cross = np.asarray(kernel(kernel.domain.take(X, [int(i)]), part))[0]
        out[i] = cross @ fit.dual_coef + fit.intercept
    return out


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
