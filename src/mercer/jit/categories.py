"""Rows of small codes compared column by column: ρ to the number of columns that differ."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["count_differences", "fill_agreement", "times_agreement"]


@compiled
def fill_agreement(X, Yt, rho, out):
    """Fill out[i, j] = Π_k (1 if X[i, k] = Yt[k, j] else rho); Yt is (c, m), j the fast axis."""
    n, c = X.shape
    m = Yt.shape[1]
    one = rho / rho if rho != 0 else rho + 1  # in the type of rho, as both arms of a choice
    for i in range(n):
        row, x, y = out[i], X[i, 0], Yt[0]
        for j in range(m):
            row[j] = one if x == y[j] else rho
        for k in range(1, c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] *= one if x == y[j] else rho


@compiled
def times_agreement(X, Yt, rho, out):
    """Multiply out[i, j] by Π_k (1 if X[i, k] = Yt[k, j] else rho)."""
    n, c = X.shape
    m = Yt.shape[1]
    one = rho / rho if rho != 0 else rho + 1
    for i in range(n):
        row = out[i]
        for k in range(c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] *= one if x == y[j] else rho


@compiled
def count_differences(X, Yt, out):
    """Fill out[i, j] with the number of columns k with X[i, k] ≠ Yt[k, j]."""
    n, c = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] += 0.0 if x == y[j] else 1.0
