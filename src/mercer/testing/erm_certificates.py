"""Certificates of regularised risk estimators from their definitions: residuals, values, gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.losses import Hinge, Logistic, Pinball, Squared
from mercer.testing.margins import FULL

__all__ = ["feature_values", "risk_objective", "risk_residual"]


def risk_residual(model: Any, X: Any, y: Any) -> float:
    """Return how far a fitted model is from its optimality conditions, relatively.

    Of smooth losses ‖alpha a + wℓ'‖/‖wℓ'‖, or where weights v of features were found
    ‖alpha v + Φᵀwℓ'‖/‖\\|Φ\\|ᵀ\\|wℓ'\\|‖, for the squared loss with wy below the line, y less its
    median if there is an offset. Of losses with kinks the largest violation of the dual's
    conditions, relative to the largest target, or where weights v of features were found
    ‖v − Φᵀa‖/‖\\|Φ\\|ᵀ\\|a\\|‖ if that is larger. The largest over one-against-the-rest problems.

    Parameters
    ----------
    model : estimator
        KernelERM, KernelLogisticRegression or KernelHuberRegressor, fitted to what follows.
    X, y : training data
        As given to ``fit``; the Gram matrix when precomputed.
    """
    at, K, W = _parts(model, X)
    a = _columns(model)[at]
    targets, softmax = _targets(model, at)
    z = K @ a + np.atleast_1d(model.intercept_)
    if not model.loss_.smooth:
        f, apart = K @ a, 0.0
        if vars(model)["coef_"] is not None:
            f, apart = feature_values(model, at, a)
        columns = zip(f.T, a.T, targets.T, strict=True)
        return max(apart, *(_violation(model, *column, W[:, 0]) for column in columns))
    if vars(model)["coef_"] is None:
        G = _slopes(model, targets, z, W, softmax)
        lack, scale = model.alpha_ * a + G, _size(model, targets, W, G)
    else:
        phi, v = _features(model, at)
        z = phi @ v + np.atleast_1d(model.intercept_)
        G = _slopes(model, targets, z, W, softmax)
        if model.fit_intercept_:
            phi = phi - W[:, 0] @ phi / W.sum()
        lack = model.alpha_ * v + phi.T @ G
        scale = abs(phi).T @ abs(_size(model, targets, W, G))
    axis = None if softmax else 0
    return float(np.max(np.linalg.norm(lack, axis=axis) / np.linalg.norm(scale, axis=axis)))


def _size(model: Any, targets: np.ndarray, W: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Return what residuals are relative to: slopes, or for the squared loss targets."""
    if not isinstance(model.loss_, Squared):
        return G
    return W * (targets - np.median(targets) * model.fit_intercept_)


def risk_objective(model: Any, X: Any) -> float:
    """Return the objective of a fitted model, summed over one-against-the-rest problems.

    Parameters
    ----------
    model : estimator
        KernelERM, KernelLogisticRegression or KernelHuberRegressor.
    X : training data
        As given to ``fit``; the Gram matrix when precomputed.
    """
    at, K, W = _parts(model, X)
    a = _columns(model)[at]
    targets, softmax = _targets(model, at)
    f = K @ a
    z = f + np.atleast_1d(model.intercept_)
    if softmax:
        top = z.max(1)
        each = np.log(np.exp(z - top[:, None]).sum(1)) + top - (targets * z).sum(1)
        risk = float(W[:, 0] @ each)
    else:
        risk = float((W * model.loss_.value(targets, z)).sum())
    return risk + 0.5 * model.alpha_ * float((a * f).sum())


def feature_values(model: Any, at: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the values Φv of some rows, and how far v is from Φᵀa relative to |Φ|ᵀ|a|.

    Parameters
    ----------
    model : estimator
        A fitted model with ``coef_``.
    at : ndarray of int
        The rows.
    a : ndarray of shape (rows, problems)
        Their coefficients.
    """
    phi, v = _features(model, at)
    values = phi @ v
    if model.fit_intercept_:
        phi = phi - phi.mean(axis=0)
    scale = np.linalg.norm(np.abs(phi).T @ np.abs(a), axis=0)
    lack = np.linalg.norm(v - phi.T @ a, axis=0)
    return values, float(np.max(lack / np.maximum(scale, 1e-300)))


def _slopes(
    model: Any, targets: np.ndarray, z: np.ndarray, W: np.ndarray, softmax: bool
) -> np.ndarray:
    """Return wℓ'; of softmax w(p − Y), 1 − p of the own class as the sum of the others."""
    if not softmax:
        return W * model.loss_.gradient(targets, z)
    p = np.exp(z - z.max(1, keepdims=True))
    others = p / p.sum(1, keepdims=True) * (1 - targets)
    return W * (others - targets * others.sum(1, keepdims=True))


def _parts(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of positive weight, their Gram matrix and weights (a column)."""
    n = len(model.y_fit_)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    at = np.flatnonzero(w)
    if isinstance(model.kernel_.domain, GramRows):
        K = np.asarray(X, dtype=float)[np.ix_(at, at)]
    else:
        K = np.asarray(model.kernel_(model.kernel_.domain.take(model.X_fit_, at)), dtype=float)
    return at, K, w[at, None]


def _features(model: Any, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of some rows and their weights, a column for each problem."""
    phi = model.kernel_._features(model.kernel_.domain.take(model.X_fit_, at))
    phi = np.asarray(phi.toarray() if sp.issparse(phi) else phi, dtype=float)
    return phi, np.reshape(model.coef_, (-1, phi.shape[1])).T


def _columns(model: Any) -> np.ndarray:
    return np.reshape(model.dual_coef_, (len(model.y_fit_), -1))


def _targets(model: Any, at: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return a column of targets for each problem, or the indicators of softmax."""
    y = model.y_fit_[at]
    if model.loss_.kind != "classification":
        return y[:, None], False
    k = len(model.classes_)
    own = (y[:, None] == np.arange(k)).astype(float)
    if k > 2 and isinstance(model.loss_, Logistic):
        return own, True
    return (2 * own - 1)[:, 1:] if k == 2 else 2 * own - 1, False


def _violation(model: Any, f: np.ndarray, a: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Return by how much a coefficient that may fall has a larger slope than one that may rise."""
    lowest, highest = -np.ones(len(y)), np.ones(len(y))
    if isinstance(model.loss_, Hinge):  # φ' is −1 or 0 of the margin y f
        lowest, highest = np.minimum(-y, 0.0), np.maximum(-y, 0.0)
    elif isinstance(model.loss_, Pinball):  # τ for each unit above f, 1 − τ below
        lowest, highest = model.loss_.quantile * lowest, (1.0 - model.loss_.quantile) * highest
    epsilon = getattr(model.loss_, "epsilon", 0.0)
    up = model.alpha_ * a < -w * lowest * FULL - 1e-300
    down = model.alpha_ * a > -w * highest * FULL + 1e-300
    rise = f - y + np.where(a >= 0, epsilon, -epsilon)
    fall = f - y + np.where(a > 0, epsilon, -epsilon)
    high = float(fall[down].max(initial=-np.inf if model.fit_intercept_ else 0.0))
    low = float(rise[up].min(initial=np.inf if model.fit_intercept_ else 0.0))
    centre = np.median(y) if model.fit_intercept_ and model.loss_.kind == "regression" else 0.0
    worst = max(0.0, high - low) if model.fit_intercept_ else max(0.0, high, -low)
    return worst / float(np.abs(y - centre).max())
