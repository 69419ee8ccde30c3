"""Certificate of variational inference: both conditions of its maximum, by dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models.gp.classes.expectations import expected, expected_softmax
from mercer.models.gp.classes.sites import as_link

__all__ = ["stationarity"]


def stationarity(
    K: np.ndarray, labels: np.ndarray, w: np.ndarray, link: Any, coef: np.ndarray, sites: np.ndarray
) -> float:
    """Return the larger relative residual of coef = w E ∂ log p and sites = −w E ∂² log p.

    The averages are over N(K coef, (K⁻¹ + Λ)⁻¹) with Λ the sites, class by class.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    labels : ndarray of shape (n,) or (n, C)
        −1 and 1, or one column a class with 1 for that of the row; then the likelihood is softmax.
    w : ndarray of shape (n,)
        Weights.
    link : {"logit", "probit"} or Link
        The likelihood of two classes.
    coef, sites : ndarray like `labels`
        Coefficients of the posterior mean, and precisions of the sites.
    """
    columns = sites.reshape(len(K), -1)
    var = np.stack([_variances(K, column) for column in columns.T], axis=1)
    if labels.ndim == 1:
        _, first, second, *_ = expected(as_link(link), labels, K @ coef, var[:, 0])
        return max(_relative(coef, w * first), _relative(sites, -w * second))
    _, p, bend, *_ = expected_softmax(K @ coef, var)
    return max(
        _relative(coef, w[:, None] * (labels - p)),
        _relative(sites, w[:, None] * np.einsum("icc->ic", bend)),
    )


def _variances(K: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Return diag((K⁻¹ + Λ)⁻¹); of 1 − Λv and kᵢᵢ − v the larger has more digits."""
    root = np.sqrt(sites)
    B = np.eye(len(K)) + root[:, None] * K * root
    kept = np.diagonal(np.linalg.inv(B))
    V = np.linalg.solve(np.linalg.cholesky(B), root[:, None] * K)
    direct = np.diagonal(K) - np.square(V).sum(axis=0)
    return np.where(kept < 0.5, (1.0 - kept) / np.where(sites > 0, sites, 1.0), direct)


def _relative(value: np.ndarray, target: np.ndarray) -> float:
    gap, size = float(np.linalg.norm(value - target)), float(np.linalg.norm(target))
    return gap / (size or gap) if gap else 0.0
