"""The smallest entries of every row, kept while tiles of a matrix stream by.

A row keeps its k smallest entries as a heap with the worst on top: larger values are worse, and of
equal values the larger column. A chunk of a row costs one vectorised minimum (lanes side by side,
as in `mercer.jit.smo`); only a chunk that holds something better than the worst kept is looked at
entry by entry, about k·log(n/k) times a row.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["keep_smallest", "pair_squares", "sort_kept"]

LANES = 32
CHUNK = 4 * LANES


@compiled
def _lowest(row, c, sign, start, low):
    """Return the smallest sign·row[j] + c[j] of a chunk; low is a work array of `LANES`."""
    r, s = row[start : start + CHUNK], c[start : start + CHUNK]
    for k in range(LANES):
        a = sign * r[k] + s[k]
        b = sign * r[k + LANES] + s[k + LANES]
        d = sign * r[k + 2 * LANES] + s[k + 2 * LANES]
        e = sign * r[k + 3 * LANES] + s[k + 3 * LANES]
        a = a if a < b else b
        d = d if d < e else e
        low[k] = a if a < d else d
    for k in range(LANES // 2):
        a, b = low[k], low[k + LANES // 2]
        low[k] = a if a < b else b
    for k in range(LANES // 4):
        a, b = low[k], low[k + LANES // 4]
        low[k] = a if a < b else b
    lowest = low[0]
    for k in range(1, LANES // 4):
        lowest = min(lowest, low[k])
    return lowest


@compiled
def _sink(values, where, size, v, j):
    """Put (v, j) in the place of the top of a heap of the given size, and let it sink."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            values[right] > values[child]
            or (values[right] == values[child] and where[right] > where[child])
        ):
            child = right
        if values[child] < v or (values[child] == v and where[child] < j):
            break
        values[at], where[at] = values[child], where[child]
        at = child
    values[at], where[at] = v, j


@compiled
def keep_smallest(T, c, sign, first, skip, values, where):
    """Merge a tile into what the rows keep: v = sign·T[i, j] + c[j] at column first + j.

    values (r, k) and where (r, k) are heaps that begin with +inf and a column beyond all others;
    skip[i] is a column that row i does not count, or −1. Tiles must come from left to right: then
    of equal values the first stays.
    """
    n, m = T.shape
    k = values.shape[1]
    low = np.empty(LANES)
    whole = m // CHUNK
    for i in range(n):
        row, kept, at = T[i], values[i], where[i]
        for chunk in range(whole + 1):
            start = chunk * CHUNK
            stop = start + CHUNK
            if chunk == whole:
                stop = m
            elif not _lowest(row, c, sign, start, low) < kept[0]:
                continue
            for j in range(start, stop):
                v = sign * row[j] + c[j]
                if v < kept[0] and first + j != skip[i]:
                    _sink(kept, at, k, v, first + j)


@compiled
def sort_kept(values, where):
    """Sort every row by value, equal values by column: the second half of heapsort."""
    n, k = values.shape
    for i in range(n):
        kept, at = values[i], where[i]
        for size in range(k - 1, 0, -1):
            v, j = kept[size], at[size]
            kept[size], at[size] = kept[0], at[0]
            _sink(kept, at, size, v, j)


@compiled
def pair_squares(X, Y, where, out):
    """Fill out[i, q] = Σ_k (X[i, k] − Y[where[i, q], k])²: by differences, so that 0 is 0."""
    n, k = where.shape
    d = X.shape[1]
    for i in range(n):
        for q in range(k):
            x, y = X[i], Y[where[i, q]]
            total = 0.0
            for t in range(d):
                gap = x[t] - y[t]
                total += gap * gap
            out[i, q] = total
