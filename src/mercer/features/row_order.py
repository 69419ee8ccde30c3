"""Different rows with their weights, in an order that neither their order nor repetition changes.

Rows of numbers are told apart by a hash of their bits, the same for dense and sparse rows and in
both precisions, so that it takes two passes over them and two sorts of n whole numbers. Two of n
different rows count as one with probability below n²/2⁵⁸.
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
CHUNK = 2**16  # numbers hashed while they are in the cache


def different_rows(
    kernel: Kernel, X: Any, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a position of each different point of positive weight, and its total weight.

    Rows of numbers come in the order of hashes of their values in float32, whatever their order in
    X, so that rows and the same rows rounded to float32 come alike; other points as
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
    X = _canonical(X) if sp.issparse(X) else X
    codes = _codes(X, np.float64)
    kept = None if weights is None or weights.all() else np.flatnonzero(weights > 0)
    codes = codes if kept is None else codes[kept]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    w = None if weights is None else weights if kept is None else weights[kept]
    total = np.bincount(inverse.reshape(-1), weights=w, minlength=len(first)).astype(np.float64)
    index = first if kept is None else kept[first]
    if X.dtype == np.float32:
        return index, total
    order = np.argsort(_codes(X, np.float32)[index], kind="stable")
    return index[order], total[order]


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


def _codes(X: Any, precision: type) -> np.ndarray:
    """Return Σⱼ cⱼ v(xⱼ) mod 2⁶⁴ of each row, of its values in a precision.

    v mixes the bits of a number one to one, with v(0) = 0, and the cⱼ are fixed random odd
    numbers. Two rows have one code where Σ cⱼ Δⱼ = 0, Δ being whole numbers with few factors 2.
    """
    c = np.random.RandomState(0).randint(2**64, size=X.shape[1], dtype=np.uint64) | np.uint64(1)
    if sp.issparse(X):
        return sp.csr_array((_mixed(X.data, precision), X.indices, X.indptr), shape=X.shape) @ c
    out = np.empty(len(X), dtype=np.uint64)
    step = max(1, CHUNK // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        out[start : start + step] = _mixed(X[start : start + step], precision) @ c
    return out


def _mixed(values: np.ndarray, precision: type) -> np.ndarray:
    """Return the bits of numbers, mixed; equal numbers have equal ones, −0 and 0 too, and NaNs."""
    with np.errstate(over="ignore"):
        values = np.asarray(values).astype(precision).astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    code = values.view(np.uint64)
    code *= ODD
    code ^= code >> HALF
    return code


def _canonical(X: Any) -> Any:
    """Return sparse rows that name each column once."""
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
