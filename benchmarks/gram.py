"""Symmetric RBF Gram matrix, n=8000, d=20, float64, against scikit-learn and the limit."""

from __future__ import annotations

import limits
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from timing import Row, best_of

from mercer import RBF

__all__ = ["rows"]


def rows(n: int = 8000, d: int = 20, rounds: int = 5) -> list[Row]:
    """Time the Gram matrix."""
    X = np.random.default_rng(0).standard_normal((n, d))
    k, gamma = RBF(4.0), 1 / 32
    error = np.abs(k(X[:500]) - rbf_kernel(X[:500], gamma=gamma)).max()
    ours, peer, touch, compute = best_of(
        rounds,
        lambda: k(X),
        lambda: rbf_kernel(X, gamma=gamma),
        lambda: limits.first_touch(n),
        lambda: limits.gemm_exp(n * n / 2, d),
    )
    limit, name = max((touch, "first touch"), (compute, "GEMM+exp"))
    note = f"max difference {error:.0e}; first touch {touch:.3f} s, in-cache {compute:.3f} s"
    return [Row(f"Gram RBF n={n} d={d}", ours, peer, "scikit-learn", limit, name, note)]
