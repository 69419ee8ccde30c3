"""Products of float32 matrices with float64 vectors, in float64, without a copy of the matrix."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_rows", "times_columns"]

LANES = 32  # partial sums of a row: enough for the units that multiply, and a fixed order


@compiled
def times_columns(T, V, out):
    """Fill out[i, c] = Σ_j T[i, j] V[c, j]; V has a row for each right-hand side."""
    n, m = T.shape
    whole = m - m % LANES
    part = np.empty((4, LANES))
    p0, p1, p2, p3 = part[0], part[1], part[2], part[3]
    for c in range(V.shape[0]):
        v = V[c]
        for i in range(0, n, 4):
            # Four sums side by side hide the time that one addition waits for the last.
            last = n - 1
            r0, r1, r2, r3 = T[i], T[min(i + 1, last)], T[min(i + 2, last)], T[min(i + 3, last)]
            part[:] = 0.0
            for j in range(0, whole, LANES):
                for lane in range(LANES):
                    p0[lane] += r0[j + lane] * v[j + lane]
                    p1[lane] += r1[j + lane] * v[j + lane]
                    p2[lane] += r2[j + lane] * v[j + lane]
                    p3[lane] += r3[j + lane] * v[j + lane]
            for k in range(min(4, n - i)):
                total = 0.0
                for lane in range(LANES):
                    total += part[k, lane]
                for j in range(whole, m):
                    total += T[i + k, j] * v[j]
                out[i + k, c] = total


@compiled
def add_rows(T, G, out):
    """Add Σ_i T[i, j] G[i, c] to out[c, j], four rows at a time."""
    n, m = T.shape
    whole = n - n % 4
    for c in range(G.shape[1]):
        sums = out[c]
        for i in range(0, whole, 4):
            g0, g1, g2, g3 = G[i, c], G[i + 1, c], G[i + 2, c], G[i + 3, c]
            r0, r1, r2, r3 = T[i], T[i + 1], T[i + 2], T[i + 3]
            for j in range(m):
                sums[j] += (r0[j] * g0 + r1[j] * g1) + (r2[j] * g2 + r3[j] * g3)
        for i in range(whole, n):
            g0 = G[i, c]
            r0 = T[i]
            for j in range(m):
                sums[j] += r0[j] * g0
