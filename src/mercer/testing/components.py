"""Certificates of principal components: residuals of the eigenproblem, from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["certify_components"]


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
    K = np.asarray(model.kernel_(X if isinstance(X, tuple | list) else np.asarray(X, dtype=float)))
    n = len(K)
    w = np.ones(n) if model.sample_weight_ is None else model.sample_weight_
    H = np.eye(n) - w / w.sum()
    root = np.sqrt(w)
    A = root[:, None] * (H @ K @ H.T) * root
    values, U = model.eigenvalues_, model.eigenvectors_
    top = float(values.max(initial=0.0)) or 1.0
    residual = float(np.linalg.norm(A @ U - U * values, axis=0).max(initial=0.0)) / top
    left_out = model.approximation_error_ * float(np.trace(A)) / top
    return max(0.0, residual - left_out)
