"""Sums over the tiles of several symmetric matrices at once, none of which is stored.

And sums over shuffled matrices, the permutations shared among threads. As everywhere, the bits do
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.engines import blocks
from mercer.settings import get_config

__all__ = ["inverses", "joint", "joint_rows", "shuffled", "shuffled_factors"]

GROUP = 16  # permutations that share a row of the second matrix while it is near the core


def joint(
    bounds: Sequence[Any],
    size: int,
    step: Callable[[list[np.ndarray], slice, slice], Any],
    *,
    other: int = 0,
    what: str = "pass",
) -> np.ndarray:
    """Return the sum over all places of what a step makes of the tiles there.

    Parameters
    ----------
    bounds : sequence of Bound
        Symmetric kernel matrices of one shape, of NumPy's.
    size : int
        How many numbers a step returns.
    step : callable
        ``step(tiles, rows, cols)`` returns the sums over one tile of each matrix, which it must
        not overwrite. Tiles above the diagonal are counted twice, those on it once.
    other : int, default=0
        Bytes of the budget that the caller has taken.
    what : str, default="pass"
        What progress calls it.
    """
    several = _several(bounds, symmetric=True)
    bands, width, threads = blocks._plan(several, other)
    parts = np.zeros((len(bands), size))

    def work(task: int) -> None:
        rows = bands[task]
        for cols in blocks._columns(several, rows, width):
            tiles = [blocks._tile(bound, rows, cols) for bound in bounds]
            parts[task] += (1.0 if cols == rows else 2.0) * np.asarray(step(tiles, rows, cols))

    blocks._run(several, range(len(bands)), work, threads, what)
    return parts.sum(axis=0)


def joint_rows(
    bounds: Sequence[Any],
    size: int,
    step: Callable[[list[np.ndarray], slice, slice], np.ndarray],
    *,
    what: str = "pass",
) -> np.ndarray:
    """Return the sums along rows of what a step makes of the tiles, shape (n, size).

    Parameters
    ----------
    bounds : sequence of Bound
        Symmetric kernel matrices of one shape, of NumPy's.
    size : int
        How many numbers a step returns for a row.
    step : callable
        ``step(tiles, rows, cols)`` returns the sums along the rows of one tile of each matrix,
        which it must not overwrite. It may hold a second tile of each.
    what : str, default="pass"
        What progress calls it.
    """
    several = _several(bounds, symmetric=False)
    several.workspace += len(bounds)
    out = np.zeros((several.shape[0], size))
    bands, width, threads = blocks._plan(several, out.nbytes)

    def work(rows: slice) -> None:
        for cols in blocks._columns(several, rows, width):
            tiles = [blocks._tile(bound, rows, cols) for bound in bounds]
            out[rows] += step(tiles, rows, cols)

    blocks._run(several, bands, work, threads, what)
    return out


def _several(bounds: Sequence[Any], symmetric: bool) -> SimpleNamespace:
    """Return what a plan of tiles has to know of several matrices, all of which are kernels."""
    for bound in bounds:
        bound.verify()
    lead = bounds[0]
    return SimpleNamespace(
        shape=lead.shape,
        symmetric=symmetric,
        threads=all(bound.threads for bound in bounds),
        xp=np,
        itemsize=8,
        workspace=sum(bound.workspace for bound in bounds) + 3,
        collections=lead.collections,
        name=lead.name,
    )


def shuffled(A: np.ndarray, L: np.ndarray, P: np.ndarray, first: int = 0) -> np.ndarray:
    """Return Σ_{j<i} Aᵢⱼ L[pᵢ, pⱼ] for every permutation p, a row of P.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, float64, row major; only the strict lower half is read.
    L : ndarray of shape (n, n) or (r, n)
        As A; or r of its rows, and the sum is that of the i with pᵢ among them.
    P : ndarray of int of shape (b, n)
        The permutations.
    first : int, default=0
        Which row of the whole the first row of L is.
    """
    from mercer.jit.shuffled import add_shuffled

    P = np.ascontiguousarray(P, dtype=np.int64)
    out = np.zeros(len(P))

    def work(group: slice) -> None:
        add_shuffled(A, L, first, P[group], inverses(P[group]), out[group])

    _share(len(P), L.size, work)
    return out


def shuffled_factors(F: np.ndarray, G: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return ‖Fᵀ G[p]‖² for every permutation p, a row of P.

    Parameters
    ----------
    F, G : ndarrays of shapes (n, r) and (n, s)
        Features.
    P : ndarray of int of shape (b, n)
        The permutations.
    """
    out = np.zeros(len(P))
    transposed = np.ascontiguousarray(F.T)

    def work(group: slice) -> None:
        moved = np.empty_like(G)
        for t in range(group.start, group.stop):
            np.take(G, P[t], axis=0, out=moved, mode="clip")  # other modes copy first
            C = transposed @ moved
            out[t] = float(np.vdot(C, C))

    _share(len(P), F.shape[0] * F.shape[1] * G.shape[1], work)
    return out


def inverses(P: np.ndarray) -> np.ndarray:
    """Return the inverse of every row of P, a permutation."""
    Q = np.empty_like(P)
    np.put_along_axis(Q, P, np.arange(P.shape[1], dtype=P.dtype)[None, :], axis=1)
    return Q


def _share(size: int, each: int, work: Callable[[slice], None]) -> None:
    """Share so many permutations, of so many operations each, among the threads."""
    plan = SimpleNamespace(shape=(size, each), threads=True, xp=np, collections=(None,))
    blocks._run(plan, blocks._cuts(size, GROUP), work, get_config().threads, "permutations")
