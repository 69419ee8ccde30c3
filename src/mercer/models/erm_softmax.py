"""Regularised multi-class logistic risk: the softmax problem of a kernel and points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.models.erm_fit import ERMFit
from mercer.models.erm_smooth import NEWTON_STEPS, erm_fit_of, smooth_rows
from mercer.operators import Operator
from mercer.solvers.risk.softmax import NewtonCG, SoftmaxERM

__all__ = ["fit_softmax"]


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
    owner: str,
    rows: Operator | None = None,
    start: Any = None,
) -> ERMFit:
    """Minimise Σ wᵢ (log Σ_c exp z_c(xᵢ) − z_yᵢ(xᵢ)) + (alpha/2) Σ_c ‖f_c‖², z = f + b.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        Points of positive weight; the square matrix when precomputed.
    y : ndarray of shape (n,)
        Class numbers 0, …, classes − 1.
    classes : int
        How many there are.
    alpha : float
        The penalty, > 0.
    weights : ndarray of shape (n,)
        Weights, > 0.
    offset : bool
        Whether there are offsets.
    tol : float
        Largest duality gap relative to the objective.
    max_iter, max_time : number or None
        Limits on Newton steps (200 by default) and seconds.
    owner : str
        Who asks; messages begin with it.
    rows : Operator, optional
        What `smooth_rows` gave, where several problems share it.
    start : ndarray of shape (n, classes), optional
        Coefficients to begin with, such as those of a similar problem.

    Returns
    -------
    ERMFit
        With a column for each class.
    """
    rows = smooth_rows(kernel, X, owner) if rows is None else rows
    problem = SoftmaxERM(rows, y, classes, alpha, weights, offset)
    solver = NewtonCG(tol, NEWTON_STEPS if max_iter is None else max_iter, max_time)
    return erm_fit_of(solver.solve(problem, None if start is None else (start, 0.0), owner))
