"""Moments of weighted points about their own means, for planes fitted at many places."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["local_moments"]

TINY = 1e-25  # weights below this part of the largest change no digit


@compiled
def local_moments(K, Z, Y, centre, mean, square, cross):
    """Fill means and second moments of the rows of Z and Y under the weights of each row of K.

    centre[i] = Σ kⱼzⱼ, mean[i] = Σ kⱼyⱼ, square[i] = Σ kⱼ(zⱼ − centre)(zⱼ − centre)ᵀ and
    cross[i] = Σ kⱼ(zⱼ − centre)(yⱼ − mean)ᵀ, with weights k = K[i]/ΣK[i]. Differences are taken
    before products, so nothing cancels where the points lie far from the origin.
    """
    n, m = K.shape
    d, t = Z.shape[1], Y.shape[1]
    gap = np.empty(d)
    for i in range(n):
        row, c, u = K[i], centre[i], mean[i]
        A, B = square[i], cross[i]
        c[:] = 0.0
        u[:] = 0.0
        A[:] = 0.0
        B[:] = 0.0
        total, least = 0.0, 0.0
        for j in range(m):
            least = max(least, row[j])
        least *= TINY
        for j in range(m):
            k = row[j]
            if k <= least:
                continue
            total += k
            for a in range(d):
                c[a] += k * Z[j, a]
            for q in range(t):
                u[q] += k * Y[j, q]
        for a in range(d):
            c[a] /= total
        for q in range(t):
            u[q] /= total
        for j in range(m):
            if row[j] <= least:
                continue
            k = row[j] / total
            for a in range(d):
                gap[a] = Z[j, a] - c[a]
            for a in range(d):
                g = k * gap[a]
                for e in range(a + 1):
                    A[a, e] += g * gap[e]
                for q in range(t):
                    B[a, q] += g * (Y[j, q] - u[q])
        for a in range(d):
            for e in range(a):
                A[e, a] = A[a, e]
