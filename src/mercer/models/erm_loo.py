"""Leave-one-out values of regularised risks: one Newton step without each row, from one factor.

At the solution f of a smooth risk, with slopes g and curvatures h, the objective without row i is,
to second order, that of a ridge regression. Its minimum has the value fᵢ + gᵢκᵢ/(1 − hᵢκᵢ) at xᵢ,
where κ is the diagonal of (alpha K⁻¹ + H)⁻¹ with the offset fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.erm_smooth import fit_smooth, smooth_rows
from mercer.models.least_squares import take_rows
from mercer.operators import Operator
from mercer.solvers.smooth import SmoothERM
from mercer.solvers.smooth_metric import metric_of
from mercer.solvers.softmax import SoftmaxERM

__all__ = ["loo_smooth", "loo_softmax"]

# A rest of 1 − hκ this small leaves too few digits; so few rows are fitted again instead.
ALONE, REFITS = 1e-8, 50


def loo_smooth(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    values: np.ndarray,
    rows: Operator | None = None,
) -> np.ndarray:
    """Return what the fit would say at its own points without them, to one Newton step.

    Parameters
    ----------
    kernel, X, y, loss, alpha, weights, offset
        The problem, as for `fit_smooth`.
    values : ndarray of shape (n,)
        Values of the fit at its points, with the offset.
    rows : Operator, optional
        What `smooth_rows` gave, where several problems share it.
    """
    _enough(len(y), offset)
    rows = smooth_rows(kernel, X, "loo") if rows is None else rows
    p = SmoothERM(rows, y, loss, alpha, weights, offset).checked("loo")
    g, h = p.slopes(values), p.curvatures(values)
    kappa, rest = metric_of(p, "loo").leverage(np.where(h > 0, h, 0.0))
    alone = np.flatnonzero(~(rest > ALONE) | ~np.isfinite(kappa))
    with np.errstate(divide="ignore", invalid="ignore"):
        out = values + g * kappa / np.maximum(rest, ALONE)
    for i in alone[:REFITS]:
        others = np.delete(np.arange(len(y)), i)
        if loss.kind == "classification" and len(np.unique(y[others])) < 2 and offset:
            continue
        part = take_rows(kernel, X, others)
        fit = fit_smooth(
            kernel,
            part,
            y[others],
            loss,
            alpha,
            weights[others],
            offset,
            tol=1e-8,
            max_iter=None,
            max_time=None,
            owner="loo",
        )
        if kernel.domain.name == "kernel values":
            cross = np.asarray(X)[i, others]
        else:
            cross = np.asarray(kernel(kernel.domain.take(X, [int(i)]), part))[0]
        out[i] = float(cross @ fit.dual_coef) + fit.intercept
    return np.where(np.isfinite(out), out, values)


def loo_softmax(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    classes: int,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    values: np.ndarray,
) -> np.ndarray:
    """Return left-out values of softmax, class by class, shape (n, classes).

    The curvature of a class is w p(1 − p); how classes are coupled through other rows is left out.

    Parameters
    ----------
    kernel, X, y, classes, alpha, weights, offset
        The problem, as for `fit_softmax`.
    values : ndarray of shape (n, classes)
        Values of the fit at its points, with the offsets.
    """
    _enough(len(y), offset)
    rows = smooth_rows(kernel, X, "loo")
    p = SoftmaxERM(rows, y, classes, alpha, weights, offset).checked("loo")
    rates = p.rates(values)
    g = p.weighted(rates)
    own = np.abs(rates)
    h = p.weighted(own * (1.0 - own))
    metric, out = metric_of(p, "loo"), values.copy()
    for c in range(classes):
        kappa, rest = metric.leverage(h[:, c])
        out[:, c] += g[:, c] * kappa / np.maximum(rest, ALONE)
    return out


def _enough(n: int, offset: bool) -> None:
    if n < 2 and offset:
        raise InvalidInput(
            f"loo: with an offset it needs at least 2 rows of positive weight, got {n}; give more "
            "rows."
        )
