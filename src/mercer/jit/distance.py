"""Pairwise distances by differences: exact where the product form ‖x‖²+‖y‖²−2xᵀy would cancel."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["manhattan", "manhattan_by_column", "squared_euclidean"]


@compiled
def squared_euclidean(X, Yt, out):
    """Fill out[i, j] = Σ_k (X[i, k] − Yt[k, j])²; Yt is (d, m) so that j is the fast axis."""
    n, d = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(d):
            x = X[i, k]
            y = Yt[k]
            for j in range(m):
                gap = x - y[j]
                row[j] += gap * gap


@compiled
def manhattan(X, Yt, out):
    """Fill out[i, j] = Σ_k |X[i, k] − Yt[k, j]|."""
    n, d = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(d):
            x = X[i, k]
            y = Yt[k]
            for j in range(m):
                row[j] += abs(x - y[j])


@compiled
def manhattan_by_column(X, Yt, C, out):
    """Fill out[k] = Σ_ij C[i, j] |X[i, k] − Yt[k, j]|."""
    n, d = X.shape
    m = Yt.shape[1]
    for k in range(d):
        total = 0.0
        y = Yt[k]
        for i in range(n):
            x = X[i, k]
            part = 0.0
            for j in range(m):
                part += C[i, j] * abs(x - y[j])
            total += part
        out[k] = total
