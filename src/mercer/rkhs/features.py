"""Features of points, where they are few: sums of features do not cancel as kernel values do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import as_reals
from mercer.domains import (
    Vectors,
    to_host,
)
from mercer.errors import InvalidInput, who
from mercer.kernels import Kernel, Sum
from mercer.memory import row_blocks
from mercer.operators import gram_of
from mercer.settings import get_config

MOST = 4096  # features that are taken for few
CANCELS = 1e-3  # part of the lengths of its terms that is left of a sum which has lost digits


def check_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights that sum to one."""
    if n == 0:
        raise InvalidInput(f"{who()}: there are no points; a mean needs at least one.")
    if weights is None:
        return np.full(n, 1.0 / n)
    try:
        w = as_reals(weights)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: weights are not numbers ({error}).") from error
    if w.shape != (n,):
        raise InvalidInput(f"{who()}: weights have shape {w.shape}, expected ({n},): one a point.")
    if not np.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
        raise InvalidInput(f"{who()}: weights must be finite, ≥ 0, and not all zero.")
    w = w / w.max()
    return w / w.sum()


def few_features(kernel: Kernel, X: Any, others: int = 0) -> Any:
    """Return explicit features of points, where they are few; None otherwise.

    Far from the origin of feature space k(x, x) + k(y, y) − 2k(x, y) is a small difference of large
    numbers, and ‖φ(x) − φ(y)‖² is not.

    kernel : Kernel
        The kernel, words resolved.
    X : canonical collection
        The points.
    others : int, default=0
        Points that there are beside these, for the memory budget.
    """
    if not kernel.domain.holds_points:
        return None
    K, n = gram_of(kernel, X), kernel.domain.size(X) + others
    D = K.n_features
    if D is None or D > MOST or 4 * 8 * D * n > get_config().memory // 4:
        return None
    return K.features()


def mean_of_rows(F: Any, w: Any) -> Any:
    """Return Σ wᵢFᵢ for weights of sum one, or some of them as columns; far rows keep digits."""
    if sp.issparse(F):
        return np.asarray((F.T @ w).T)
    first = F[0]
    return first + (w if w.ndim == 1 else w.T) @ (F - first)


def linear_weights(X: Any, coef: np.ndarray) -> np.ndarray:
    """Return Σ coefᵢ xᵢ, correct to rounding of the spread of the rows, not of their length.

    Σ coefᵢ xᵢ = Σ coefᵢ (xᵢ − x₀) + x₀ Σ coefᵢ, the last sum without rounding errors.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Rows.
    coef : ndarray of shape (n,) or (n, outputs)
        Coefficients.
    """
    X = np.asarray(X, dtype=float)
    if not len(X):
        return np.zeros((X.shape[1], *coef.shape[1:]))
    near = (X - X[0]).T @ coef
    if coef.ndim == 1:
        return near + X[0] * math.fsum(coef)
    return near + np.outer(X[0], [math.fsum(column) for column in coef.T])


def feature_values(kernel: Kernel, X: Any, weights: np.ndarray) -> np.ndarray:
    """Return φ(x)ᵀv at checked points, in blocks of rows that fit the budget."""
    X, domain = to_host(X), kernel.domain
    rows = row_blocks(domain.size(X), len(weights) * 16)
    parts = (kernel._features(domain.take(X, r)) @ weights for r in rows)
    return np.concatenate([np.asarray(part) for part in parts])


def sums_of_features(kernel: Kernel, points: Any, coef: Any, X: Any) -> np.ndarray | None:
    """Return Σ αᵢk(xᵢ, x) from Σ αᵢφ(xᵢ), where the terms of this sum cancel; None otherwise.

    Far from the origin such values are small differences of large kernel values. A kernel without
    features may be a sum of others, of which one has them.

    kernel : Kernel
        The kernel, words resolved.
    points : canonical collection of m points
        The points xᵢ, rows of numbers.
    coef : ndarray of shape (m,) or (m, t)
        The coefficients.
    X : canonical collection
        Where.
    """
    arrays = isinstance(points, np.ndarray) and isinstance(X, np.ndarray)
    if type(kernel.domain) is not Vectors or not arrays or points.dtype != np.float64:
        return None
    F = few_features(kernel, points)
    if F is None:
        if type(kernel) is not Sum:
            return None
        several = kernel.get_params(deep=False).values()
        parts = [(k, sums_of_features(k, points, coef, X)) for k in several]
        if all(values is None for _, values in parts):
            return None
        both = (k.matmul(X, points, coef) if f is None else f for k, f in parts)
        return np.asarray(sum(both))
    F = np.asarray(F.toarray() if sp.issparse(F) else F, dtype=float)
    v = linear_weights(F, coef)
    terms = np.sqrt(np.einsum("ij,ij->i", F, F)) @ np.abs(coef)
    small = np.sqrt(np.square(v).sum(axis=0)) <= CANCELS * terms
    if not bool(np.any(small & (terms > 0))):
        return None
    return feature_values(kernel, X.astype(np.float64, copy=False), v)
