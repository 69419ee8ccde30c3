"""Certificates of fitted models, recomputed from scratch: what a law compares `solution_` with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import models as mm
from mercer.domains import GramRows
from mercer.models.labels import class_weights
from mercer.models.multiclass import binary_tasks

__all__ = ["CERTIFICATES"]


def _ridge_residual(model: Any, X: Any, y: Any) -> float:
    """Return how far a fit is from the minimum of the penalised squares, relatively.

    The larger of the gradients by the function and by the offset. With β = W(y − f − b), dual, they
    are β − αa relative to Wy and, since αa = β, Σa relative to Σ|a|; primal, Φᵀβ − αv relative to
    |Φ|ᵀW|y| and Σβ relative to ΣW|y|.
    """
    points = X if isinstance(model.kernel_.domain, GramRows) else model.X_fit_
    points, targets = np.asarray(points, dtype=float), model.y_fit_
    W = np.ones((len(targets), 1))
    if model.sample_weight_ is not None:
        W = model.sample_weight_[:, None]
    a = np.reshape(model.dual_coef_, (len(targets), -1))
    if model.coef_ is None:
        f = np.asarray(model.kernel_(points), dtype=float) @ a
        beta = W * (targets - f - np.atleast_1d(model.intercept_))
        gradient, scale = beta - model.alpha_ * a, W * targets
        slope = abs(a.sum(0)) / abs(a).sum(0)
    else:
        phi = model.kernel_.features(points)
        phi = phi.toarray() if sp.issparse(phi) else phi
        v = np.reshape(model.coef_, (phi.shape[1], -1))
        beta = W * (targets - phi @ v - np.atleast_1d(model.intercept_))
        gradient, scale = phi.T @ beta - model.alpha_ * v, abs(phi).T @ (W * abs(targets))
        slope = abs(beta.sum(0)) / (W * abs(targets)).sum(0)
    residual = np.linalg.norm(gradient, axis=0) / np.linalg.norm(scale, axis=0)
    return float(np.maximum(residual, slope).max() if model.fit_intercept else residual.max())


def _share_of_mistakes(model: Any, X: Any, y: Any) -> float:
    """Return the share of training points (times classes) that a perceptron's rule calls mistakes.

    From the definition: values by the whole Gram matrix, the norm by aᵀKa + b².
    """
    K = np.asarray(model.kernel_(np.asarray(X, dtype=float)))
    rows = model.support_
    a = np.reshape(model.dual_coef_, (len(rows), -1))
    b, half = np.atleast_1d(model.intercept_), np.atleast_1d(model.target_margin_) / 2
    positive = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(np.asarray(y)[:, None] == positive, 1.0, -1.0)
    if model.variant == "margin":
        half = half * np.sqrt((a * (K[np.ix_(rows, rows)] @ a)).sum(0) + b**2)
    return float((signs * (K[:, rows] @ a + b) <= half).mean())


def _margin_violation(model: Any, X: Any, y: Any) -> float:
    """Return the largest violation of the optimality conditions of a support vector classifier.

    From the definition: with G = f − y over the rows of a two-class problem, no row that may gain
    coefficient has a smaller G than one that may lose some; without an offset no row has a G that
    asks for a change its bounds allow.
    """
    precomputed = isinstance(model.kernel_.domain, GramRows)
    X = np.asarray(X, dtype=float)
    K = X if precomputed else np.asarray(model.kernel_(X))
    codes, k = np.searchsorted(model.classes_, y), len(model.classes_)
    prices = np.atleast_1d(model.C_ if hasattr(model, "C_") else model.C)
    columns, worst = model.function_.coef.reshape(len(model.support_), -1).T, 0.0
    weights = class_weights(model.class_weight or {}, codes, None, "certificate")
    for task, column, C in zip(
        binary_tasks(codes, k, model.multi_class),
        columns,
        np.broadcast_to(prices, len(columns)),
        strict=True,
    ):
        full = np.zeros(len(K))
        full[model.support_] = column
        index = np.arange(len(K)) if task.index is None else task.index
        a, G = full[index], (K @ full)[index] - task.signs
        bound = C * (weights[index] if np.isfinite(C) else 1.0) * task.signs
        up, down = a < np.maximum(bound, 0) * (1 - 1e-12), a > np.minimum(bound, 0) * (1 - 1e-12)
        if model.fit_intercept:
            worst = max(worst, G[down].max(initial=-np.inf) - G[up].min(initial=np.inf))
        else:
            worst = max(worst, G[down].max(initial=0.0), -G[up].min(initial=0.0))
    return float(worst)


def _tube_violation(model: Any, X: Any, y: Any) -> float:
    """Return the largest violation of the optimality conditions of support vector regression.

    From the definition: f − y ± ε are the slopes of ½aᵀKa − yᵀa + ε Σ|aᵢ| to either side.
    """
    a, f, bound = _expanded(model, X, model.C)
    epsilon = model.epsilon_ if isinstance(model, mm.NuSVR) else model.epsilon
    G = f - np.asarray(y)
    rise = (G + np.where(a >= 0, epsilon, -epsilon))[a < bound]
    fall = (G + np.where(a > 0, epsilon, -epsilon))[a > -bound]
    if model.fit_intercept:
        return float(max(0.0, fall.max(initial=-np.inf) - rise.min(initial=np.inf)))
    return float(max(fall.max(initial=0.0), -rise.min(initial=0.0)))


def _level_violation(model: Any, X: Any, y: Any) -> float:
    """Return by how much a point that counts fully is above one that does not, in f."""
    a, f, bound = _expanded(model, X, 1.0)
    return float(max(0.0, f[a > 0].max(initial=-np.inf) - f[a < bound].min(initial=np.inf)))


def _expanded(model: Any, X: Any, C: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the coefficients of all rows, f without its offset, and C a little below itself."""
    X = np.asarray(X, dtype=float)
    K = X if isinstance(model.kernel_.domain, GramRows) else np.asarray(model.kernel_(X))
    a = np.zeros(len(K))
    a[model.support_] = model.dual_coef_[0]
    return a, K @ a, C * (1 - 1e-12)


#: Class → function(fitted model, training X, training y): the residual, recomputed from scratch.
CERTIFICATES: dict[type, Callable[[Any, Any, Any], float]] = {
    mm.KernelPerceptron: _share_of_mistakes,
    mm.KernelRidge: _ridge_residual,
    mm.KernelRidgeClassifier: _ridge_residual,
    mm.NuSVC: _margin_violation,
    mm.NuSVR: _tube_violation,
    mm.OneClassSVM: _level_violation,
    mm.SVC: _margin_violation,
    mm.SVR: _tube_violation,
}
