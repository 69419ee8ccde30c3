"""Sums of groups of rows of a matrix, read once, and which of their means is nearest."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_groups", "add_members", "judge", "judge_rows"]

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
    low, place = np.empty(WIDTH), np.empty(WIDTH, dtype=np.int64)
    for start in range(first, stop, WIDTH):
        m = min(WIDTH, stop - start)
        at = start - shift
        low[:] = np.inf
        for c in range(len(squares)):
            s = squares[c]
            if s < np.inf:
                row = inner[c, at : at + m]
                for j in range(m):
                    t = 2.0 * row[j]
                    upper = (s - t) + rounding * (s + abs(t))
                    low[j] = upper if upper < low[j] else low[j]
        for j in range(m):
            low[j] += 2.0 * rounding * sizes[start + j]
        place[:] = 0
        for c in range(len(squares) - 1, -1, -1):
            s = squares[c]
            if s < np.inf:
                row = inner[c, at : at + m]
                for j in range(m):
                    t = 2.0 * row[j]
                    lower = (s - t) - rounding * (s + abs(t))
                    place[j] = c if lower <= low[j] else place[j]
        for j in range(m):
            i, c = start + j, place[j]
            b = labels[i] if labels[i] >= 0 else c
            s, t = squares[c], 2.0 * inner[c, at + j]
            x, y = squares[b], 2.0 * inner[b, at + j]
            e, f = rounding * (s + abs(t)), rounding * (x + abs(y))
            nearest[i] = c
            own[i] = max((x - y) + lengths[i], 0.0)
            least[i] = max((s - t) + lengths[i], 0.0)
            wrong[i] = (x - y) - f > low[j]
            doubt[i] = (max(e, f) if f < np.inf else e) + rounding * (3.0 * lengths[i] + sizes[i])


@compiled
def judge_rows(
    F, C, step, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt, wrong,
    first, stop,
):  # fmt: skip
    """Compare rows first to stop of F with the rows of C as `judge` does, `step` at a time."""
    for start in range(first, stop, step):
        last = min(start + step, stop)
        inner = np.dot(C, F[start:last].T)
        judge(
            inner, start, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt,
            wrong, start, last,
        )  # fmt: skip
