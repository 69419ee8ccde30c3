"""Find a few rows and columns on which a symmetric matrix is not positive semidefinite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from typing import Any, TypeVar

import numpy as np
import scipy.linalg

__all__ = ["lowest", "search"]

Found = TypeVar("Found")

FEW = 5  # points that a person can still check by hand
EXHAUSTIVE = 50_000  # subsets of one size tried one by one: all of five out of 24
POOL = 256  # points among which subsets of three to five are improved
RESTARTS = 8  # random starts of the descent, for each size
ROUNDS = 20  # swaps of one descent; it nearly always stops after a few


def lowest(A: np.ndarray, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the k smallest eigenvalues of A and their eigenvectors, as columns."""
    return scipy.linalg.eigh(A, subset_by_index=[0, min(k, len(A)) - 1])


def search(
    A: np.ndarray,
    judge: Callable[[np.ndarray], Found | None],
    threshold: float,
    rng: np.random.Generator,
) -> Found | None:
    """Return what ``judge`` makes of the fewest points found on which A is negative.

    By interlacing, the smallest eigenvalue of a principal submatrix is never below that of A, so
    nothing is looked for when A itself is not below the threshold. Sizes one and two are settled by
    closed forms; sizes three to five by trying every subset where there are few, else by exchange
    descent from the heaviest entries of the lowest eigenvectors, from the best smaller subset, and
    from random ones. If all fail, the lowest eigenvector is pruned to as few points as will do.

    Parameters
    ----------
    A : array of shape (n, n)
        A symmetric matrix with a diagonal of about one.
    judge : callable
        Takes positions; returns None when A on them is not certainly negative.
    threshold : float
        Eigenvalues at or above this one are not pursued.
    rng : numpy.random.Generator
        For the random starts.
    """
    values, vectors = lowest(A, 4)
    if not values[0] < threshold:
        return None
    vectors = vectors[:, values < threshold]
    for size in range(1, min(FEW, len(A)) + 1):
        for index in _proposals(A, size, vectors, rng):
            if _smallest(A, index[None])[0] < threshold:
                found = judge(np.sort(index))
                if found is not None:
                    return found
    return _prune(A, judge, threshold)


def _smallest(A: np.ndarray, subsets: np.ndarray) -> np.ndarray:
    """Return the smallest eigenvalue of A on each row of positions."""
    return np.linalg.eigvalsh(A[subsets[:, :, None], subsets[:, None, :]])[:, 0]


def _proposals(
    A: np.ndarray, size: int, vectors: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield subsets of one size, the most promising first."""
    n = len(A)
    if size == 1:
        yield np.array([A.diagonal().argmin()])
    elif size == 2:
        # Smallest eigenvalue of [[p, c], [c, q]]: (p + q − √((p − q)² + 4c²))/2.
        p = A.diagonal()
        rows, cols = np.triu_indices(n, 1)
        low = p[rows] + p[cols] - np.hypot(p[rows] - p[cols], 2 * A[rows, cols])
        best = np.argpartition(low, min(RESTARTS, len(low)) - 1)[:RESTARTS]
        for j in best[np.argsort(low[best])]:
            yield np.array([rows[j], cols[j]])
    elif comb(n, size) <= EXHAUSTIVE:
        subsets = np.array(list(combinations(range(n), size)))
        yield from subsets[np.argsort(_smallest(A, subsets))[:RESTARTS]]
    else:
        yield from _descents(A, size, vectors, rng)


def _descents(
    A: np.ndarray, size: int, vectors: np.ndarray, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    weight = np.abs(vectors).max(axis=1)
    pool = np.argsort(-weight)
    if len(pool) > POOL:  # the heaviest, and some of the others lest those be misleading
        heavy = 3 * POOL // 4
        pool = np.r_[pool[:heavy], rng.choice(pool[heavy:], POOL - heavy, replace=False)]
    starts = [np.argsort(-np.abs(v))[:size] for v in vectors.T]
    chance = weight[pool] + 1e-3 * weight.max()
    chance /= chance.sum()
    starts += [rng.choice(pool, size, replace=False, p=chance) for _ in range(RESTARTS)]
    ends = np.unique([np.sort(_descend(A, start, pool)) for start in starts], axis=0)
    yield from ends[np.argsort(_smallest(A, ends))]


def _descend(A: np.ndarray, subset: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Exchange one point at a time for the one that lowers the smallest eigenvalue most."""
    best = _smallest(A, subset[None])[0]
    for _ in range(ROUNDS):
        others = np.setdiff1d(pool, subset)
        trials = np.tile(subset, (len(subset), len(others), 1))
        for position in range(len(subset)):
            trials[position, :, position] = others
        trials = trials.reshape(-1, len(subset))
        values = _smallest(A, trials)
        j = int(values.argmin())
        if not values[j] < best - 1e-12 * abs(best):
            break
        subset, best = trials[j], values[j]
    return subset


def _prune(A: np.ndarray, judge: Callable[[np.ndarray], Any], threshold: float) -> Any:
    """Drop the lightest points of the lowest eigenvector, many at a time, then one by one."""
    index = np.arange(len(A))
    found = judge(index)
    drop = len(index) // 2
    while found is not None and drop >= 1:
        order = np.argsort(np.abs(lowest(A[np.ix_(index, index)])[1][:, 0]))
        # A block may be wanted back; single points are tried in turn, the lightest first.
        for first in range(len(order) if drop == 1 else 1):
            rest = np.sort(index[np.delete(order, slice(first, first + drop))])
            fewer = None
            if len(rest) and lowest(A[np.ix_(rest, rest)])[0][0] < threshold:
                fewer = judge(rest)
            if fewer is not None:
                index, found = rest, fewer
                drop = min(drop, max(1, len(index) // 2))
                break
        else:
            drop //= 2
    return found
