"""What estimators with a choice of solver share: rows as it wants them, values of a function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.domains import RowBlocks, Vectors, is_torch
from mercer.engines.passes import values_on_device
from mercer.errors import speaks
from mercer.estimator.blocks import note_columns
from mercer.estimator.options import SolverOptions, asks_centers
from mercer.estimator.rows import as_stream
from mercer.kernels import Kernel, Linear
from mercer.operators import product_at
from mercer.rkhs import feature_values
from mercer.settings import get_config
from mercer.solvers.risk import log_softmax


def is_plain_linear(kernel: Kernel) -> bool:
    """Whether a kernel is the inner product of its rows."""
    return type(kernel) is Linear and kernel.get_params(deep=False)["covariance"] is None


# ---- fits in the span of centres, from rows in blocks too ----


def row_precision(model: Any, fit: bool) -> Any:
    """Return the precision of rows; centres may be sought for those in single precision."""
    single = fit and (getattr(model, "solver", "") == "auto" or asks_centers(model))
    return [np.float64, np.float32] if single else np.float64


@speaks
def stream_of(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Kernel, RowBlocks]:
    """Return the kernel, and rows in blocks with their targets; note their columns."""
    rows = as_stream(X, y, sample_weight)
    note_columns(model, rows)
    return model._kernel(), rows


def named_centers(model: Any, options: SolverOptions, kernel: Kernel) -> SolverOptions:
    """Return options whose centres, where a frame holds them, have the columns of the rows."""
    return replace(options, centers=model._by_name(options.centers, kernel, "centers"))


# ---- values of a fitted function ----


def feature_weights(model: Any) -> np.ndarray | None:
    """Return weights of the kernel's D features that give the function of a fitted model.

    None where there are no finite features, or more than the memory budget allows.

    Parameters
    ----------
    model : estimator
        Fitted, with ``dual_coef_`` of shape (n,) or (n, outputs).

    Returns
    -------
    array of shape (D,) or (D, outputs), or None
    """
    D = model.kernel_._n_features(model.X_fit_)
    if D is None or 16 * D * len(model.dual_coef_) > get_config().memory:
        return None
    return np.asarray(model.kernel_._features(model.X_fit_).T @ model.dual_coef_)


def in_rows(model: Any, weights: np.ndarray | None) -> np.ndarray | None:
    """Return weights of features in the shape of scikit-learn: a row for each output.

    Parameters
    ----------
    model : estimator
        Fitted; a classifier has one row for two classes.
    weights : ndarray of shape (D,) or (D, outputs), or None
        The weights.
    """
    if weights is None:
        return None
    return np.atleast_2d(weights.T) if "classes_" in vars(model) else weights.T


def values_of(model: Any, X: Any, weights: np.ndarray | None) -> np.ndarray:
    """Return f(x) + b of a fitted model at new points, in tiles.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : collection of n points
        The points, as they were given.
    weights : ndarray of shape (D,) or (D, outputs), or None
        Weights of the kernel's features; None for the function of ``dual_coef_``.
    """
    kernel = model.kernel_
    X = model._check_X(X, kernel, reset=False)
    with np.errstate(over="ignore", invalid="ignore"):
        if weights is not None:
            out = feature_values(kernel, X, weights)
        elif is_torch(X) and type(kernel.domain) is Vectors:
            out = values_on_device(kernel, X, model.X_fit_, model.dual_coef_)
        else:
            new, points = kernel.domain.match(X, model.X_fit_)
            out = product_at(model, kernel, new, points, model.dual_coef_)
        values: np.ndarray = model._finite(out + model.intercept_)
        return values


def log_probabilities(values: np.ndarray) -> np.ndarray:
    """Return log-probabilities of the classes for decision values, with all their digits.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, classes)
        Log-odds of the second of two classes, or a column for each class.
    """
    if values.ndim == 2:
        return log_softmax(values)
    return 0.0 - np.stack([np.logaddexp(0.0, values), np.logaddexp(0.0, -values)], axis=1)
