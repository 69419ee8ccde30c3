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

    A has shape (rows, players, n), C (background, players, n), b (background,), out that of A;
    n is a multiple of LANE, so that each loop over points has a length that is known.
    """
    rows, players, n = A.shape
    gain = np.empty((players, LANE))
    base = np.empty((players, LANE))
    mixed = np.empty((players, LANE))
    before = np.empty((players, LANE))
    total = np.zeros((players, LANE))
    product = np.empty(LANE)
    for r in range(rows):
        for start in range(0, n, LANE):
            for k in range(len(b)):
                for p in range(players):
                    for i in range(LANE):
                        base[p, i] = C[k, p, start + i]
                        gain[p, i] = A[r, p, start + i] - base[p, i]
                for node in range(len(nodes)):
                    t, w = nodes[node], weights[node] * b[k]
                    for i in range(LANE):
                        product[i] = w
                    for p in range(players):
                        for i in range(LANE):
                            before[p, i] = product[i]
                            mixed[p, i] = base[p, i] + t * gain[p, i]
                            product[i] *= mixed[p, i]
                    for i in range(LANE):
                        product[i] = 1.0
                    for back in range(players):
                        p = players - 1 - back
                        for i in range(LANE):
                            total[p, i] += before[p, i] * product[i]
                            product[i] *= mixed[p, i]
                for p in range(players):
                    for i in range(LANE):
                        out[r, p, start + i] += total[p, i] * gain[p, i]
                        total[p, i] = 0.0


@compiled
def product_pairs(A, C, b, nodes, weights, coef, out):
    """Add the interactions Σ coef Σ_b Σ_t b·w (a_j − c_j)(a_k − c_k) Π_{l≠j,k} (…) to out.

    coef has shape (n, outputs), out (rows, players, players, outputs), whose part j < k is filled;
    n is a multiple of LANE.
    """
    rows, players, n = A.shape
    outputs = coef.shape[1]
    gain = np.empty((players, LANE))
    mixed = np.empty((players, LANE))
    after = np.empty((players + 1, LANE))
    total = np.zeros((players, players, LANE))
    lead = np.empty(LANE)
    inner = np.empty(LANE)
    for r in range(rows):
        for start in range(0, n, LANE):
            for k in range(len(b)):
                for p in range(players):
                    for i in range(LANE):
                        gain[p, i] = A[r, p, start + i] - C[k, p, start + i]
                for node in range(len(nodes)):
                    t, w = nodes[node], weights[node] * b[k]
                    for i in range(LANE):
                        after[players, i] = 1.0
                        lead[i] = w
                    for back in range(players):
                        p = players - 1 - back
                        for i in range(LANE):
                            mixed[p, i] = C[k, p, start + i] + t * gain[p, i]
                            after[p, i] = after[p + 1, i] * mixed[p, i]
                    for j in range(players):
                        for i in range(LANE):
                            inner[i] = lead[i] * gain[j, i]
                            lead[i] *= mixed[j, i]
                        for q in range(j + 1, players):
                            for i in range(LANE):
                                total[j, q, i] += inner[i] * gain[q, i] * after[q + 1, i]
                                inner[i] *= mixed[q, i]
            for j in range(players):
                for q in range(j + 1, players):
                    for o in range(outputs):
                        value = 0.0
                        for i in range(LANE):
                            value += total[j, q, i] * coef[start + i, o]
                        out[r, j, q, o] += value
                    for i in range(LANE):
                        total[j, q, i] = 0.0


@compiled
def double_shares(own, cross, apart, b, nodes, weights, out):
    """Add ∫∫ Σ_bc b·b′ (a − c_b − c_c + d_bc)_j Π_{l≠j} m_l ds dt to out, (rows, players).

    m = st a + t(1 − s) c_c + (1 − t)s c_b + (1 − t)(1 − s) d_bc, with own a of shape (rows,
    players), cross c (rows, players, background) and apart d (players, background, background).
    """
    rows, players = own.shape
    size = len(b)
    mixed = np.empty((players, size))
    before = np.empty((players, size))
    product = np.empty(size)
    for r in range(rows):
        for i in range(size):
            for pair in range(len(nodes) ** 2):
                first, second = divmod(pair, len(nodes))
                t, s = nodes[first], nodes[second]
                w = weights[first] * weights[second] * b[i]
                for k in range(size):
                    product[k] = w * b[k]
                for p in range(players):
                    a, c = s * t * own[r, p], (1.0 - t) * s * cross[r, p, i]
                    for k in range(size):
                        before[p, k] = product[k]
                        rest = t * cross[r, p, k] + (1.0 - t) * apart[p, i, k]
                        mixed[p, k] = a + c + (1.0 - s) * rest
                        product[k] *= mixed[p, k]
                for k in range(size):
                    product[k] = 1.0
                for back in range(players):
                    p = players - 1 - back
                    lead = own[r, p] - cross[r, p, i]
                    total = 0.0
                    for k in range(size):
                        gain = lead - cross[r, p, k] + apart[p, i, k]
                        total += gain * before[p, k] * product[k]
                        product[k] *= mixed[p, k]
                    out[r, p] += total


@compiled
def product_entries(A, weight, nodes, weights, at, out):
    """Add the shares of factors, and of pairs of them, in w·Π A to out, each number by itself.

    A has shape (players, n); a factor that is left out is 1. Row at[p, p] of out receives the
    share of factor p, row at[p, q] with p < q what the pair does together; −1 is none of them.
    """
    players, n = A.shape
    mixed = np.empty((players, LANE))
    after = np.empty((players + 1, LANE))
    lead = np.empty(LANE)
    inner = np.empty(LANE)
    last = np.zeros(players, np.int64)  # the last pair that is wanted of each factor
    for j in range(players):
        for q in range(j, players):
            if at[j, q] >= 0:
                last[j] = q + 1
    for start in range(0, n, LANE):
        width = min(LANE, n - start)
        for node in range(len(nodes)):
            t, w = nodes[node], weights[node] * weight
            for p in range(players):
                for i in range(width):
                    mixed[p, i] = 1.0 + t * (A[p, start + i] - 1.0)
            for i in range(width):
                after[players, i] = 1.0
                lead[i] = w
            for back in range(players):
                p = players - 1 - back
                for i in range(width):
                    after[p, i] = after[p + 1, i] * mixed[p, i]
            for j in range(players):
                if last[j] > 0:
                    row = at[j, j]
                    for i in range(width):
                        inner[i] = lead[i] * (A[j, start + i] - 1.0)
                    if row >= 0:
                        for i in range(width):
                            out[row, start + i] += inner[i] * after[j + 1, i]
                    for q in range(j + 1, last[j]):
                        row = at[j, q]
                        if row >= 0:
                            for i in range(width):
                                gain = A[q, start + i] - 1.0
                                out[row, start + i] += inner[i] * gain * after[q + 1, i]
                        for i in range(width):
                            inner[i] *= mixed[q, i]
                for i in range(width):
                    lead[i] *= mixed[j, i]
