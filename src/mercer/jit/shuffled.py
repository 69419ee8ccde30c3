"""Sums of products of one matrix with the shuffled rows and columns of another.

Row r of the second matrix stays near the core while the permutations take their turns with it, so
it is read once for a whole group of them, and of the first matrix only the lower half is read.
"""

from __future__ import annotations

from mercer.jit.compile import compiled

__all__ = ["add_shuffled"]


@compiled
def add_shuffled(A, rows, first, P, Q, out):
    """Add to out[t] the terms Aᵢⱼ L[pᵢ, pⱼ], j < i, of the rows first ≤ pᵢ of L that are given.

    rows holds consecutive rows of L from `first` on; P[t] is a permutation p and Q[t] its inverse.
    Over all rows of L the sum is that of the strict lower half.
    """
    for r in range(rows.shape[0]):
        other = rows[r]
        for t in range(P.shape[0]):
            p = P[t]
            i = Q[t, first + r]
            row = A[i]
            # Four sums side by side, or each addition would wait for the one before.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            even = i // 4 * 4
            for j in range(0, even, 4):
                a += row[j] * other[p[j]]
                b += row[j + 1] * other[p[j + 1]]
                c += row[j + 2] * other[p[j + 2]]
                d += row[j + 3] * other[p[j + 3]]
            for j in range(even, i):
                a += row[j] * other[p[j]]
            out[t] += (a + b) + (c + d)
