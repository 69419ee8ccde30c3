"""Sums of groups of rows of a matrix, read once."""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["add_groups", "add_members"]


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
