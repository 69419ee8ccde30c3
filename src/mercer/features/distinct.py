"""The different points of a collection, with their weights, in an order of their own."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows, Table
from mercer.kernels import Kernel
from mercer.rkhs.function import first_equal

__all__ = ["distinct"]

# Columns of kernel values of one point differ by rounding where tiles end, relative to the largest.
ROUNDING = 1e-14


def distinct(kernel: Kernel, X: Any, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a position of each different point of positive weight, and its total weight.

    Points are equal when their numbers or their objects are; of a Gram matrix, when their columns
    are. Objects that cannot be compared count as different. Vectors come in lexicographic order,
    whatever the order of the rows; other points in the order of their first rows.

    Parameters
    ----------
    kernel : Kernel
        What a point is.
    X : canonical collection
        The points; the Gram matrix of a precomputed kernel.
    weights : ndarray or None
        Their weights.
    """
    n = kernel.domain.size(X)
    w = np.ones(n) if weights is None else weights
    kept = np.flatnonzero(w > 0)
    matrix = isinstance(kernel.domain, GramRows)
    part = X if len(kept) == n else (X[:, kept] if matrix else kernel.domain.take(X, kept))
    first = _equal_columns(part) if matrix else _equal_points(part)
    total = np.zeros(len(kept))
    np.add.at(total, first, w[kept])
    index = np.flatnonzero(first == np.arange(len(kept)))
    if not matrix:
        index = index[_order(kernel.domain.take(part, index))]
    return kept[index], total[index]


def _equal_points(X: Any) -> np.ndarray:
    """Return for each point the position of the first point equal to it."""
    if sp.issparse(X):
        rows = _entries(X)
        return first_equal(tuple((a.tobytes(), b.tobytes()) for a, b in rows))
    if isinstance(X, Table):
        return first_equal(tuple(zip(*(column.tolist() for column in X.columns), strict=True)))
    return first_equal(X)


def _order(X: Any) -> np.ndarray:
    """Return positions that sort vectors by their first number, then by their second, …"""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub":
        return np.lexsort(X.T[::-1])
    if sp.issparse(X):
        rows = _entries(X)
        key = cmp_to_key(_compare)
        return np.array(sorted(range(len(rows)), key=lambda i: key(rows[i])), dtype=int)
    return np.arange(len(X) if isinstance(X, tuple) else X.shape[0])


def _entries(X: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return columns and values of the entries of each sparse row that are not zero."""
    X = sp.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    ends = X.indptr
    return [(X.indices[a:b].astype(np.int64), X.data[a:b]) for a, b in pairwise(ends)]


def _compare(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> int:
    """Compare two sparse rows as the dense rows that they stand for."""
    (i, x), (j, y) = a, b
    short = min(len(i), len(j))
    differ = np.flatnonzero((i[:short] != j[:short]) | (x[:short] != y[:short]))
    p = int(differ[0]) if len(differ) else short
    left = i[p] if p < len(i) else np.inf
    right = j[p] if p < len(j) else np.inf
    u = x[p] if left <= right and left < np.inf else 0.0
    v = y[p] if right <= left and right < np.inf else 0.0
    return int(u > v) - int(u < v)


def _equal_columns(K: np.ndarray) -> np.ndarray:
    """Return for each column of K the first one equal to it, up to rounding.

    Equal columns have almost equal projections, so they are neighbours when sorted by one;
    neighbours are compared number by number.
    """
    n = K.shape[1]
    projection = np.random.default_rng(0).uniform(0.5, 1.5, len(K)) @ K
    order = np.argsort(projection, kind="stable")
    slack = ROUNDING * float(np.abs(K).max(initial=0.0))
    first = np.arange(n)
    for a, b in pairwise(order):
        near = projection[b] - projection[a] <= 2 * len(K) * slack
        if near and np.abs(K[:, a] - K[:, b]).max() <= slack:
            first[b] = first[a]
    lowest = np.full(n, n)
    np.minimum.at(lowest, first, np.arange(n))
    return lowest[first]
