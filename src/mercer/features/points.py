"""Different rows with their weights, in an order that neither their order nor repetition changes.

Rows of numbers are told apart by a hash of their bits, the same for dense and sparse rows and in
both precisions, so that it takes two passes over them and two sorts of n whole numbers. Two of n
different rows count as one with probability below n²/2⁵⁸.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, RowBlocks, Table, Vectors, is_torch, namespace, to_host
from mercer.domains.blocks import Block
from mercer.engines.passes import each_block
from mercer.errors import InvalidInput, said, who
from mercer.kernels import Kernel
from mercer.rkhs import first_equal

# ---- Points that a parameter holds: landmarks, centres and prototypes of the user's own ----


def given_points(kernel: Kernel, X: Any, points: Any, name: str) -> Any:
    """Return points of the user as a canonical collection that goes with the rows, in main memory.

    Parameters
    ----------
    kernel : Kernel
        What a point is.
    X : canonical collection, or RowBlocks
        The rows.
    points : collection
        The points; of a precomputed kernel positions of training points.
    name : str
        The parameter that holds them, for messages.
    """
    domain = kernel.domain
    if not domain.holds_points:
        n, index = X.shape[1], np.asarray(points)
        whole = index.ndim == 1 and index.dtype.kind in "iu" and len(index) > 0
        if not whole or index.min() < 0 or index.max() >= n:
            raise InvalidInput(
                f"{who()}: with a precomputed kernel {name} are positions of training points, "
                f"one or more whole numbers from 0 to {n - 1}."
            )
        return index.astype(np.int64)
    none = isinstance(points, list | tuple) and not points
    none = points.size == 0 if isinstance(points, np.ndarray) else none
    try:
        points = points if none else domain.check(to_host(points, name), name)
        if none or domain.size(points) == 0:
            raise InvalidInput(f"{name} is empty; give one point or more.")
        if isinstance(domain, Vectors):
            points = points.astype(np.float64)
            width = X.n_columns if isinstance(X, RowBlocks) else X.shape[1]
            if points.shape[1] != width:
                raise InvalidInput(f"{name} has {points.shape[1]} columns, and X has {width}.")
        elif not isinstance(X, RowBlocks):
            domain.match(X, points)
    except InvalidInput as error:
        raise InvalidInput(f"{who()}: {said(error, 'Vectors')}") from error
    return points


# ---- The different points of a collection, with their weights, in an order of their own ----


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
    matrix = not kernel.domain.holds_points
    part = X if len(kept) == n else (X[:, kept] if matrix else kernel.domain.take(X, kept))
    first = _equal_columns(part) if matrix else equal_points(part)
    total = np.zeros(len(kept))
    np.add.at(total, first, w[kept])
    index = np.flatnonzero(first == np.arange(len(kept)))
    if not matrix:
        index = index[_order(kernel.domain.take(part, index))]
    return kept[index], total[index]


def equal_points(X: Any) -> np.ndarray:
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
    with np.errstate(over="ignore", invalid="ignore"):
        projection = np.random.default_rng(0).uniform(0.5, 1.5, len(K)) @ K
    order = np.argsort(projection, kind="stable")
    slack = ROUNDING * float(np.abs(K).max(initial=0.0))
    first = np.arange(n)
    for a, b in pairwise(order):
        with np.errstate(over="ignore", invalid="ignore"):  # inf − inf is not near
            near = projection[b] - projection[a] <= 2 * len(K) * slack
        if near and np.abs(K[:, a] - K[:, b]).max() <= slack:
            first[b] = first[a]
    lowest = np.full(n, n)
    np.minimum.at(lowest, first, np.arange(n))
    return lowest[first]


# ---- row order ----


ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, a common multiplier of hashes
HALF = np.uint64(32)
CHUNK = 2**16  # numbers hashed while they are in the cache
THERE = 2**22  # numbers hashed at once on a device


def different_rows(
    kernel: Kernel, X: Any, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a position of each different point of positive weight, and its total weight.

    Rows of numbers come in the order of hashes of their values in float32, whatever their order in
    X, so that rows and the same rows rounded to float32 come alike, and rows in memory, in blocks
    and on a device; other points as `mercer.features.points.distinct` has them. Of other points
    in blocks all count as different.
    """
    if isinstance(X, RowBlocks):
        found = each_block(X, _BlockCodes(kernel.domain))
        codes, rounded, given = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return _merged(codes, rounded, given if X.has_weight else None)
    if is_torch(X):
        return _merged(_codes(X, np.float64), _codes(X, np.float32), weights)
    if not _is_numeric(kernel, X):
        return distinct(kernel, X, weights)
    X = _canonical(X) if sp.issparse(X) else X
    rounded = _codes(X, np.float32)
    alone = _all_different(rounded, weights)
    if alone is not None:
        return alone
    return _merged(rounded if X.dtype == np.float32 else _codes(X, np.float64), rounded, weights)


def _all_different(
    rounded: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what `_merged` returns where no two rounded rows are equal; else None."""
    kept = None if weights is None or weights.all() else np.flatnonzero(weights > 0)
    codes = rounded if kept is None else rounded[kept]
    order = np.argsort(codes)
    codes = codes[order]
    if (codes[1:] == codes[:-1]).any():
        return None
    index = order if kept is None else kept[order]
    return index, np.ones(len(index)) if weights is None else weights[index].astype(np.float64)


def _merged(
    codes: np.ndarray, rounded: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a position of each different code of positive weight, and its total weight.

    They come in the order of the codes of rounded rows.
    """
    kept = None if weights is None or weights.all() else np.flatnonzero(weights > 0)
    codes = codes if kept is None else codes[kept]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    w = None if weights is None else weights if kept is None else weights[kept]
    total = np.bincount(inverse.reshape(-1), weights=w, minlength=len(first)).astype(np.float64)
    index = first if kept is None else kept[first]
    if rounded is codes:
        return index, total
    order = np.argsort(rounded[index], kind="stable")
    return index[order], total[order]


@dataclass(frozen=True, eq=False)
class _BlockCodes:
    """The codes of the rows of a block in both precisions, and their weights.

    Of points that are no rows of numbers the codes are their positions.
    """

    domain: Domain

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, n = block.points(self.domain), len(block)
        w = np.ones(n) if block.weight is None else np.asarray(block.weight, dtype=np.float64)
        if not _are_numbers(X):
            codes = np.arange(block.start, block.start + n, dtype=np.uint64)
            return codes, codes, w
        X = _canonical(X) if sp.issparse(X) else X
        return _codes(X, np.float64), _codes(X, np.float32), w


def _is_numeric(kernel: Kernel, X: Any) -> bool:
    """Whether points are rows of numbers, in an array or a sparse matrix, and not of a Gram."""
    return _are_numbers(X) and kernel.domain.holds_points


def _are_numbers(X: Any) -> bool:
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub")


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
    if is_torch(X):
        return _codes_there(X, precision, c)
    for start in range(0, len(X), step):
        out[start : start + step] = _mixed(X[start : start + step], precision) @ c
    return out


def _codes_there(X: Any, precision: type, c: np.ndarray) -> np.ndarray:
    """Return what `_codes` returns of an array, computed where a tensor is."""
    torch, out = namespace(X), np.empty(len(X), dtype=np.uint64)
    odd, low = int(ODD.view(np.int64)), 2**32 - 1
    factors = torch.as_tensor(c.view(np.int64), device=X.device)
    step = max(1, THERE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        values = X[start : start + step].detach().to(getattr(torch, np.dtype(precision).name))
        values = values.double() + 0.0
        values[values.isnan()] = torch.nan
        code = values.view(torch.int64) * odd
        code ^= (code >> 32) & low  # a shift of signed numbers brings their sign along
        out[start : start + step] = to_host((code * factors).sum(1)).view(np.uint64)
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
