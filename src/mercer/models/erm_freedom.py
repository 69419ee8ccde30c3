"""Effective degrees of freedom of regularised risks: the trace of the last step's hat matrix.

A Newton step at the solution is a ridge regression with the curvatures h as weights. The part of
its fitted values that row i has in its own is the leverage hᵢκᵢ, where κ is the diagonal of
(alpha K⁻¹ + H)⁻¹ with the offset fitted, and their sum counts the parameters that were spent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.models.erm_smooth import smooth_rows
from mercer.operators import Operator
from mercer.solvers.risk.metric import metric_of
from mercer.solvers.risk.smooth import SmoothERM
from mercer.solvers.risk.softmax import SoftmaxERM

__all__ = ["freedom_smooth", "freedom_softmax"]


def freedom_smooth(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    values: np.ndarray,
    rows: Operator | None = None,
) -> float:
    """Return Σ hᵢκᵢ at the solution of a smooth risk.

    Parameters
    ----------
    kernel, X, y, loss, alpha, weights, offset
        The problem, as for `fit_smooth`.
    values : ndarray of shape (n,)
        Values of the fit at its points, with the offset.
    rows : Operator, optional
        What `smooth_rows` gave, where several problems share it.
    """
    rows = smooth_rows(kernel, X, "degrees_of_freedom") if rows is None else rows
    p = SmoothERM(rows, y, loss, alpha, weights, offset).checked("degrees_of_freedom")
    return _trace(metric_of(p, "degrees_of_freedom"), p.curvatures(values))


def freedom_softmax(
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
    """Return the share of each class, its curvature being w p(1 − p); shape (classes,).

    How classes are coupled is left out, but for the factor (C − 1)/C: of C functions that are
    defined up to a common one, C − 1 are free.

    Parameters
    ----------
    kernel, X, y, classes, alpha, weights, offset
        The problem, as for `fit_softmax`.
    values : ndarray of shape (n, classes)
        Values of the fit at its points, with the offsets.
    rows : Operator, optional
        What `smooth_rows` gave.
    """
    rows = smooth_rows(kernel, X, "degrees_of_freedom") if rows is None else rows
    p = SoftmaxERM(rows, y, classes, alpha, weights, offset).checked("degrees_of_freedom")
    own = np.abs(p.rates(values))
    h = p.weighted(own * (1.0 - own))
    metric = metric_of(p, "degrees_of_freedom")
    found = np.array([_trace(metric, h[:, c]) for c in range(classes)])
    return found * (classes - 1) / classes


def _trace(metric: Any, h: np.ndarray) -> float:
    used = h > 0
    if not used.any():
        return 0.0
    _, rest = metric.leverage(np.where(used, h, 0.0))
    return float(np.clip(1.0 - rest[used], 0.0, 1.0).sum())
