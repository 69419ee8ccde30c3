"""Different rows with their weights, in an order that neither their order nor repetition changes.

Rows of numbers are told apart by a hash of their bits, so that it takes one pass over them and a
sort of n whole numbers; two different rows of n count as one with probability n²/2⁶⁵.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.features.distinct import distinct
from mercer.kernels import Kernel

__all__ = ["different_rows", "race"]

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, a common multiplier of hashes
HALF = np.uint64(32)
CHUNK = 2**13  # rows hashed while they are in the cache


def different_rows(
    kernel: Kernel, X: Any, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a position of each different point of positive weight, and its total weight.

    Rows of numbers come in the order of their hashes, whatever their order in X; other points as
    `mercer.features.distinct.distinct` has them.

    Parameters
    ----------
    kernel : Kernel
        What a point is.
    X : canonical collection
        The points; the Gram matrix of a precomputed kernel.
    weights : ndarray or None
        Their weights.
    """
    if not _is_numeric(kernel, X):
        return distinct(kernel, X, weights)
    codes = _sparse_codes(X) if sp.issparse(X) else _codes(X)
    kept = None if weights is None or weights.all() else np.flatnonzero(weights > 0)
    codes = codes if kept is None else codes[kept]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    w = None if weights is None else weights if kept is None else weights[kept]
    total = np.bincount(inverse.reshape(-1), weights=w, minlength=len(first)).astype(np.float64)
    return (first if kept is None else kept[first]), total


def _is_numeric(kernel: Kernel, X: Any) -> bool:
    """Whether points are rows of numbers, in an array or a sparse matrix, and not of a Gram."""
    rows = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub"
    return (rows or sp.issparse(X)) and not isinstance(kernel.domain, GramRows)


def race(rates: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Return `count` different positions, each drawn in proportion to the rates that are left.

    The first arrivals of exponential clocks are such draws (Efraimidis and Spirakis 2006). A rate
    of 0 never comes.
    """
    with np.errstate(divide="ignore"):
        arrival = rng.exponential(size=len(rates)) / rates
    count = min(count, int(np.count_nonzero(rates)))
    if count < len(rates):
        first = np.argpartition(arrival, count)[:count]
    else:
        first = np.arange(len(rates))
    return first[np.argsort(arrival[first], kind="stable")]


def _codes(X: np.ndarray) -> np.ndarray:
    """Return a hash of each row's numbers."""
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    bits = np.uint32 if X.dtype == np.float32 else np.uint64
    out = np.empty(len(X), dtype=np.uint64)
    for start in range(0, len(X), CHUNK):
        # + 0 makes −0 and 0 one number
        part = np.ascontiguousarray((X[start : start + CHUNK] + 0.0).T).view(bits)
        code = np.zeros(part.shape[1], dtype=np.uint64)
        for column in part:
            code ^= column
            code *= ODD
            code ^= code >> HALF
        out[start : start + CHUNK] = code
    return out


def _sparse_codes(X: Any) -> np.ndarray:
    """Return a code of each sparse row: its product with fixed random numbers, bit by bit."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return (X @ np.random.RandomState(0).uniform(0.5, 1.5, X.shape[1]) + 0.0).view(np.uint64)
