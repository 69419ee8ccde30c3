"""Shares of a product game: what each factor of Π a adds to Π c, averaged over all orders.

The integral over the diagonal of the multilinear extension, by Gauss's nodes: for each node t the
mixed factors c + t(a − c) are multiplied up from both ends, so that no division is needed.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

LANE = 32  # points side by side, whose factors stay in a cache


@compiled
def product_shares(A, C, b, nodes, weights, out):
    """Add Σ_b Σ_t b·w (a_j − c_j) Π_{l≠j} (c_l + t(a_l − c_l)) to out, for each row and point.

    A has shape (rows, players, n), C (background, players, n), b (background,), out that of A.
    """
    rows, players, n = A.shape
    mixed = np.empty((players, LANE))
    before = np.empty((players, LANE))
    after = np.empty(LANE)
    for r in range(rows):
        for start in range(0, n, LANE):
            width = min(LANE, n - start)
            for k in range(len(b)):
                for node in range(len(nodes)):
                    t, w = nodes[node], weights[node] * b[k]
                    for i in range(width):
                        after[i] = w
                    for p in range(players):
                        for i in range(width):
                            c = C[k, p, start + i]
                            mixed[p, i] = c + t * (A[r, p, start + i] - c)
                        if p == 0:
                            for i in range(width):
                                before[0, i] = 1.0
                        else:
                            for i in range(width):
                                before[p, i] = before[p - 1, i] * mixed[p - 1, i]
                    for back in range(players):
                        p = players - 1 - back
                        for i in range(width):
                            gain = A[r, p, start + i] - C[k, p, start + i]
                            out[r, p, start + i] += gain * before[p, i] * after[i]
                            after[i] *= mixed[p, i]


@compiled
def product_pairs(A, C, b, nodes, weights, coef, out):
    """Add the interactions Σ coef Σ_b Σ_t b·w (a_j − c_j)(a_k − c_k) Π_{l≠j,k} (…) to out.

    coef has shape (n, outputs), out (rows, players, players, outputs), whose part j < k is filled.
    """
    rows, players, n = A.shape
    outputs = coef.shape[1]
    mixed = np.empty((players, LANE))
    after = np.empty((players + 1, LANE))
    lead = np.empty(LANE)
    inner = np.empty(LANE)
    value = np.empty(LANE)
    for r in range(rows):
        for start in range(0, n, LANE):
            width = min(LANE, n - start)
            for k in range(len(b)):
                for node in range(len(nodes)):
                    t, w = nodes[node], weights[node] * b[k]
                    for p in range(players):
                        for i in range(width):
                            c = C[k, p, start + i]
                            mixed[p, i] = c + t * (A[r, p, start + i] - c)
                    for i in range(width):
                        after[players, i] = 1.0
                        lead[i] = w
                    for back in range(players):
                        p = players - 1 - back
                        for i in range(width):
                            after[p, i] = after[p + 1, i] * mixed[p, i]
                    for j in range(players):
                        for i in range(width):
                            gain = A[r, j, start + i] - C[k, j, start + i]
                            inner[i] = lead[i] * gain
                        for q in range(j + 1, players):
                            for i in range(width):
                                gain = A[r, q, start + i] - C[k, q, start + i]
                                value[i] = inner[i] * gain * after[q + 1, i]
                                inner[i] *= mixed[q, i]
                            for o in range(outputs):
                                total = 0.0
                                for i in range(width):
                                    total += value[i] * coef[start + i, o]
                                out[r, j, q, o] += total
                        for i in range(width):
                            lead[i] *= mixed[j, i]
