"""Certificates of principal components: residuals of the eigenproblem, from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["certify_axes", "certify_components"]


def certify_components(model: Any, X: Any, y: Any) -> float:
    """Return the largest ‖A u − λ u‖/λ₁, A = √W(I − U)K(I − U)√W written out.

    What a low-rank approximation may leave out of A is subtracted: its trace bounds its norm.

    Parameters
    ----------
    model : KernelPCA
        Fitted.
    X : collection
        The training points, or their Gram matrix.
    y : ignored
        There are no targets.
    """
    points: Any = X if isinstance(X, tuple | list) else np.asarray(X, dtype=float)
    n = len(points)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    H, root = np.eye(n) - w / w.sum(), np.sqrt(w)
    if model.axes_ is None:
        A = root[:, None] * (H @ np.asarray(model.kernel_(points)) @ H.T) * root
    else:  # centred before they are multiplied, features far from 0 keep their digits
        F = root[:, None] * _centred(model.kernel_.features(points), w)
        A = F @ F.T
    values, U = model.eigenvalues_, model.eigenvectors_
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(A @ U - U * values, axis=0).max(initial=0.0)) / top
    left_out = model.approximation_error_ * float(np.trace(A)) / top
    return max(0.0, residual - left_out)


def certify_axes(model: Any, X: Any, y: Any = None, weights: Any = None) -> float:
    """Return the largest ‖S v − σ² v‖/σ₁² over the components, S = Σ w(x − μ)(x − μ)ᵀ written out.

    Besides, how far the components are from orthonormal, and their shares from σ²/tr S.

    Parameters
    ----------
    model : PCA
        Fitted.
    X : array of shape (n, d)
        The training rows.
    y : ignored
        There are no targets.
    weights : array of shape (n,), optional
        Their weights.
    """
    points = np.asarray(X, dtype=float)
    w = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    near = np.sqrt(w)[:, None] * _centred(points, w)
    V, squares = model.components_.T, model.singular_values_**2
    total = float(np.einsum("ij,ij->", near, near))
    V, squares, shares = V[:, squares > 0], squares[squares > 0], model.explained_variance_ratio_
    if not len(squares):
        return 0.0
    apart = near.T @ (near @ V) - V * squares
    worst = float(np.linalg.norm(apart, axis=0).max()) / squares[0]
    worst = max(worst, float(np.abs(V.T @ V - np.eye(len(squares))).max()))
    return max(worst, float(np.abs(shares[: len(squares)] - squares / total).max()))


def _centred(rows: Any, w: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)
    near = rows - rows[0]
    return np.asarray(near - w / w.sum() @ near)
