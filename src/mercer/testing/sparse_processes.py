"""Certificates of sparse Gaussian process regression, recomputed by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.testing.checks import require

__all__ = ["certify_sparse_process", "dense_sparse_evidence"]


def _matrices(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K_uu, K_fu and the diagonal of K for the training rows X."""
    kernel, U = model.kernel_, model.X_fit_
    if isinstance(kernel.domain, GramRows):
        K = np.asarray(X, dtype=float)
        return K[np.ix_(U, U)], K[:, U], K.diagonal()
    if isinstance(X, np.ndarray):
        X = X.astype(float)
    elif sp.issparse(X):
        X = X.toarray()
    U = U.toarray() if sp.issparse(U) else U
    return kernel(U), kernel(X, U), kernel.diag(X)


def certify_sparse_process(model: Any, X: Any, y: Any) -> float:
    """Return the relative residual of K_uf P(z − K_fu α) = K_uu α, of a fit without weights.

    The objective that the model tells must be that of its definition, where n × n matrices give it
    to some digits.
    """
    corner, cross, diagonal = _matrices(model, X)
    Z = (np.reshape(y, (len(cross), -1)) - model.y_mean_) / model.y_scale_
    a = model.dual_coef_.reshape(len(corner), -1) / model.y_scale_
    p = np.broadcast_to(1.0 / np.asarray(model.scaled_noise_), len(cross))
    L = np.asarray(model.inducing_factor_)
    if model.method == "fitc":
        A = np.linalg.solve(L, cross.T)
        p = 1.0 / (np.maximum(diagonal - (A * A).sum(0), 0.0) + model.scaled_noise_)
    right = np.abs(cross).T @ (p[:, None] * np.abs(Z))
    gap = cross.T @ (p[:, None] * (Z - cross @ a)) - corner @ a
    size = np.linalg.norm(right, axis=0)
    residual = np.linalg.norm(gap, axis=0) / np.where(size > 0, size, 1.0)
    value, told = dense_sparse_evidence(model, X, y), model.log_marginal_likelihood_value_
    limit = 1e-6 * max(1.0, abs(value), float(np.sum(diagonal * p)))
    require(abs(value - told) <= limit, f"{model!r}: says {told}, the objective is {value}")
    upper = model.log_evidence_upper_
    require(upper is None or upper >= told - limit, f"{model!r}: {upper} is below {told}")
    return float(residual.max())


def dense_sparse_evidence(model: Any, X: Any, y: Any) -> float:
    """Return Titsias' bound or FITC's log evidence of y from n × n matrices, without weights."""
    _, cross, diagonal = _matrices(model, X)
    n = len(cross)
    A = np.linalg.solve(np.asarray(model.inducing_factor_), cross.T)
    Q = A.T @ A
    left = np.maximum(diagonal - Q.diagonal(), 0.0)
    noise = np.broadcast_to(model.scaled_noise_, (n,))
    C = Q + np.diag(noise + (left if model.method == "fitc" else 0.0))
    total = 0.0
    for z, mean, scale in zip(np.reshape(y, (n, -1)).T, model.y_mean_, model.y_scale_, strict=True):
        z = (z - mean) / scale
        total -= 0.5 * (z @ np.linalg.solve(C, z) + np.linalg.slogdet(C)[1])
        total -= 0.5 * n * np.log(2 * np.pi) + n * np.log(scale)
        total -= 0.5 * float((left / noise).sum()) if model.method == "vfe" else 0.0
    return float(total)
