"""Sums of groups of rows of a matrix, read once, and which of their means is nearest."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_groups", "add_members", "judge"]

WIDTH = 256  # points compared at a time


@compiled
def add_groups(K, rows, factors, ends, out, first, stop):
    """Add Σ factors[t]·K[rows[t]] over the t of each group c to out[c], in columns first to stop.

    The t of group c run from ends[c] to ends[c + 1]. Few enough columns let out[c] stay next to
    the core while the rows stream by.
    """
    for c in range(len(ends) - 1):
        total = out[c, first:stop]
        t, last = ends[c], ends[c + 1]
        while t + 4 <= last:
            a, b = K[rows[t], first:stop], K[rows[t + 1], first:stop]
            d, e = K[rows[t + 2], first:stop], K[rows[t + 3], first:stop]
            u, v, x, y = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
            for j in range(stop - first):
                total[j] += (u * a[j] + v * b[j]) + (x * d[j] + y * e[j])
            t += 4
        while t < last:
            a, u = K[rows[t], first:stop], factors[t]
            for j in range(stop - first):
                total[j] += u * a[j]
            t += 1


@compiled
def add_members(F, groups, factors, out):
    """Add factors[i]·F[i] to out[groups[i]] for all i: short rows, in the order they come."""
    n, d = F.shape
    for i in range(n):
        total, row, u = out[groups[i]], F[i], factors[i]
        for j in range(d):
            total[j] += u * row[j]


@compiled
def judge(
    inner, shift, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt, wrong,
    first, stop,
):  # fmt: skip
    """Compare points first to stop with k centres; ⟨φ(x_j), μ_c⟩ is inner[c, j − shift].

    v = ‖μ‖² − 2⟨φ(x), μ⟩ is known up to e = rounding·(‖μ‖² + 2|⟨φ(x), μ⟩| + size): the nearest is
    the first c with v_c − e_c ≤ min(v + e). A centre with ‖μ‖² = ∞ is none. A label −1 asks for the
    nearest alone.
    """
    low, apart = np.empty(WIDTH), np.empty(WIDTH)
    for start in range(first, stop, WIDTH):
        m = min(WIDTH, stop - start)
        low[:] = np.inf
        for c in range(len(squares)):
            s = squares[c]
            if s == np.inf:
                continue
            row = inner[c, start - shift : start - shift + m]
            for j in range(m):
                t = 2.0 * row[j]
                upper = (s - t) + rounding * (s + abs(t))
                low[j] = upper if upper < low[j] else low[j]
        for j in range(m):
            i = start + j
            low[j] += 2.0 * rounding * sizes[i]
            nearest[i], own[i], apart[j] = 0, np.inf, 0.0
        for c in range(len(squares) - 1, -1, -1):
            s = squares[c]
            if s == np.inf:
                continue
            row = inner[c, start - shift : start - shift + m]
            for j in range(m):
                i = start + j
                t = 2.0 * row[j]
                v, e = s - t, rounding * (s + abs(t))
                if v - e <= low[j]:
                    nearest[i], least[i], doubt[i] = c, v, e
                if labels[i] == c:
                    own[i], apart[j] = v, e
        for j in range(m):
            i = start + j
            if labels[i] < 0:
                own[i], apart[j] = least[i], doubt[i]
            wrong[i] = own[i] - apart[j] > low[j]
            doubt[i] = max(doubt[i], apart[j]) + rounding * (3.0 * lengths[i] + sizes[i])
            own[i] = max(own[i] + lengths[i], 0.0)
            least[i] = max(least[i] + lengths[i], 0.0)
