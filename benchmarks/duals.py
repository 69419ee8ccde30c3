"""Dual objectives of fitted machines, recomputed from their coefficients: is the answer equal?"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

__all__ = ["classification_dual", "regression_dual"]

BLOCK = 2000  # support vectors whose kernel rows are held at a time


def _squared_norms(S: np.ndarray, A: np.ndarray, gamma: float) -> np.ndarray:
    """Return aᵀKa for each column a of A, K the RBF matrix of S, in float64 and in blocks."""
    S, out = np.asarray(S, dtype=float), np.zeros(A.shape[1])
    for i in range(0, len(S), BLOCK):
        rows = slice(i, i + BLOCK)
        out += (A[rows] * (rbf_kernel(S[rows], S, gamma=gamma) @ A)).sum(axis=0)
    return out


def classification_dual(model: Any, gamma: float) -> float:
    """Return Σ|a| − ½aᵀKa, added up over the pairs of classes (LIBSVM's layout of coefficients)."""
    coef = np.asarray(model.dual_coef_, dtype=float)
    ends = np.cumsum(model.n_support_)
    members = [slice(end - n, end) for end, n in zip(ends, model.n_support_, strict=True)]
    pairs = list(combinations(range(len(members)), 2))
    A = np.zeros((coef.shape[1], len(pairs)))
    for column, (i, j) in enumerate(pairs):
        A[members[i], column] = coef[j - 1, members[i]]
        A[members[j], column] = coef[i, members[j]]
    squared = _squared_norms(model.support_vectors_, A, gamma)
    return float((np.abs(A).sum(axis=0) - 0.5 * squared).sum())


def regression_dual(model: Any, gamma: float, y: np.ndarray, epsilon: float) -> float:
    """Return yᵀa − εΣ|a| − ½aᵀKa."""
    a = np.ravel(np.asarray(model.dual_coef_, dtype=float))
    squared = _squared_norms(model.support_vectors_, a[:, None], gamma)[0]
    return float(y[model.support_] @ a - epsilon * np.abs(a).sum() - 0.5 * squared)
