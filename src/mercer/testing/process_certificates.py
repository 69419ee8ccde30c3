"""Certificates of Gaussian process regression, recomputed by dense algebra and by differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.testing.checks import require

__all__ = ["certify_process", "dense_evidence"]

STEP = 1e-3  # of a logarithm, for central differences
GAIN = 0.05  # nats that a converged search may leave in one direction


def certify_process(model: Any, X: Any, y: Any) -> float:
    """Return the residual of C·a = y − mean, relative to y, and require that θ is optimal.

    C is made of the kernel and the noise anew. Where a search says that it has converged, no
    parameter that is not at a bound may gain evidence by a Newton step, from differences of
    `dense_evidence`.
    """
    points = _points(model, X)
    K, scale = np.asarray(model.kernel_(points), dtype=float), model.y_scale_
    w = 1.0 if model.sample_weight_ is None else model.sample_weight_
    K[np.diag_indices_from(K)] += model.scaled_noise_ / w
    a = model.dual_coef_.reshape(len(K), -1)
    H = basis_columns(model, points)
    mean = model.y_mean_ if H is None else model.y_mean_ + scale * (H @ model.basis_coef_)
    targets = model.y_fit_.reshape(len(K), -1)
    size = np.linalg.norm(targets - model.y_mean_, axis=0)
    rest = K @ a - (targets - mean)
    residual = np.linalg.norm(rest, axis=0) / np.where(size > 0, size, 1.0)
    search = model.search_
    searched = search is not None and "did not begin" not in search.message
    if searched and search.converged and not model.priors:
        for i, name in enumerate(model.theta_names_):
            gain, slope = _gain(model, points, i)
            at = {side: f"{side} bound" in search.message for side in ("lower", "upper")}
            held = (slope < 0 and at["lower"]) or (slope > 0 and at["upper"])
            held = held and name in search.message
            require(gain <= GAIN or held, f"{model!r}: {name} could gain {gain:.3g} nats")
    return float(residual.max())


def dense_evidence(model: Any, X: Any, theta: np.ndarray) -> float:
    """Return the log evidence of y at log-parameters θ, by its definition in the units of y."""
    points = _points(model, X)
    kernel, level = model._current_parameters().read(theta)
    K = np.asarray(kernel(points), dtype=float)
    scale, n = model.y_scale_, len(K)
    scaled = model.scaled_noise_ if level is None else level / np.mean(scale**2)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    H, total = _user_basis(model, points), 0.0
    for j in range(len(scale)):
        noise = np.broadcast_to(scaled * scale[j] ** 2, (n,))
        C = scale[j] ** 2 * K + np.diag(noise / w)
        t = model.y_fit_.reshape(n, -1)[:, j] - (model.y_mean_[j] if H is None else 0.0)
        square, dimension = t @ np.linalg.solve(C, t), n
        total -= 0.5 * np.linalg.slogdet(C)[1]
        if H is not None:
            A, b = H.T @ np.linalg.solve(C, H), H.T @ np.linalg.solve(C, t)
            square, dimension = square - b @ np.linalg.solve(A, b), n - H.shape[1]
            total -= 0.5 * np.linalg.slogdet(A)[1]
        total -= 0.5 * (square + dimension * np.log(2 * np.pi))
        some = noise > 0  # without noise a row given twice counts once
        v, r = w[some], noise[some]
        total -= 0.5 * float(((v - 1) * np.log(2 * np.pi * r) + np.log(v)).sum())
    return float(total)


def basis_columns(model: Any, points: Any) -> np.ndarray | None:
    """Return the centred and scaled basis of the mean of a model at points."""
    if model.basis_coef_ is None:
        return None
    ones = np.ones((len(model.y_fit_), 1))
    if model.basis_scale_ is None:
        return ones
    used = model.basis_scale_ > 0
    rows = points.toarray() if sp.issparse(points) else points
    return np.hstack([ones, (rows - model.basis_center_)[:, used] / model.basis_scale_[used]])


def _user_basis(model: Any, points: Any) -> np.ndarray | None:
    H = basis_columns(model, points)
    if H is None or model.basis_scale_ is None:
        return H
    used = model.basis_scale_ > 0
    return np.hstack([H[:, :1], H[:, 1:] * model.basis_scale_[used] + model.basis_center_[used]])


def _gain(model: Any, points: Any, i: int) -> tuple[float, float]:
    """Return what a Newton step in parameter i alone would gain, and the slope there."""
    e = STEP * np.eye(len(model.theta_))[i]
    low, mid, high = (dense_evidence(model, points, model.theta_ + s * e) for s in (-1, 0, 1))
    slope, bend = (high - low) / (2 * STEP), (high - 2 * mid + low) / STEP**2
    return slope**2 / (2 * max(-bend, 1.0)), slope


def _points(model: Any, X: Any) -> Any:
    if isinstance(model.kernel_.domain, GramRows):
        return np.asarray(X, dtype=float)[np.ix_(model.X_fit_, model.X_fit_)]
    return model.X_fit_
