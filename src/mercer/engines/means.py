"""Means of a bound kernel over runs of rows and columns: kernels of bags and graphs are such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.engines import tiles
from mercer.settings import get_config

# ---- Means of a bound kernel over runs of rows and of columns, in tiles inside the memory
# budget.


TOGETHER = 64  # points of runs whose own means are taken from one tile


def tile_entries(bound: Any, row_ends: np.ndarray, col_ends: np.ndarray) -> int:
    """Return how many means are the work of one tile of the kernel itself."""
    pairs = bound.shape[0] * bound.shape[1] / max(1, (len(row_ends) - 1) * (len(col_ends) - 1))
    return max(1, int(tiles.usual_entries(bound) / max(1.0, pairs)))


def run_means(
    bound: Any, rows: slice, cols: slice, row_ends: np.ndarray, col_ends: np.ndarray
) -> np.ndarray:
    """Return the means of k over runs × runs, in float64; the mean of no points is zero.

    Parameters
    ----------
    bound : Bound
        The kernel, bound to all points.
    rows, cols : slice
        Which runs.
    row_ends, col_ends : ndarrays of shape (runs + 1,)
        Run i of the rows is ``row_ends[i] : row_ends[i + 1]``, and so for the columns.
    """
    out = np.zeros((rows.stop - rows.start, cols.stop - cols.start))
    for high, wide in _pieces(bound, rows, cols, row_ends, col_ends):
        tile = bound.tile(high, wide)
        down, starts = _runs(row_ends, high)
        sums = np.add.reduceat(tile, starts, axis=0, dtype=np.float64)
        across, starts = _runs(col_ends, wide)
        sums = np.add.reduceat(sums, starts, axis=1)
        out[np.ix_(down - rows.start, across - cols.start)] += sums
    return out * _shares(row_ends, rows)[:, None] * _shares(col_ends, cols)


def pull_means(
    bound: Any, rows: slice, cols: slice, row_ends: np.ndarray, col_ends: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """Return Σ Cᵢⱼ ∂Mᵢⱼ/∂θ of the means M of `run_means`."""
    C = C * _shares(row_ends, rows)[:, None] * _shares(col_ends, cols)
    total = bound.zeros((len(bound.kernel.theta),), wide=True)
    for high, wide in _pieces(bound, rows, cols, row_ends, col_ends):
        i, j = _owners(row_ends, high) - rows.start, _owners(col_ends, wide) - cols.start
        total += bound.pull_theta(high, wide, bound.asarray(C[np.ix_(i, j)]))
    return total


def own_means(bound: Any, ends: np.ndarray) -> np.ndarray:
    """Return for each run the mean of k over its points × its points."""
    parts = [run_means(bound, g, g, ends, ends).diagonal() for g in _groups(bound, ends)]
    return np.concatenate(parts) if parts else np.zeros(0)


def pull_own(bound: Any, ends: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return Σᵢ cᵢ ∂Mᵢᵢ/∂θ of the means of `own_means`."""
    total = bound.zeros((len(bound.kernel.theta),), wide=True)
    for group in _groups(bound, ends):
        total += pull_means(bound, group, group, ends, ends, np.diag(c[group]))
    return total


# -------------------------------------------------------------------------------------- parts
def _pieces(
    bound: Any, rows: slice, cols: slice, row_ends: np.ndarray, col_ends: np.ndarray
) -> Iterator[tuple[slice, slice]]:
    """Yield tiles of points that cover the runs; they may cut through a run."""
    fits = get_config().memory // (2 * tiles.IN_FLIGHT * bound.itemsize * bound.workspace)
    entries = int(min(tiles.usual_entries(bound), max(256, fits)))
    top, bottom = int(row_ends[rows.start]), int(row_ends[rows.stop])
    left, right = int(col_ends[cols.start]), int(col_ends[cols.stop])
    width = min(max(1, right - left), 2 * tiles.tile_edge(entries))
    height = max(1, entries // width)
    for i in range(top, bottom, height):
        for j in range(left, right, width):
            yield slice(i, min(i + height, bottom)), slice(j, min(j + width, right))


def _owners(ends: np.ndarray, part: slice) -> np.ndarray:
    """Return the run of each point."""
    return np.searchsorted(ends, np.arange(part.start, part.stop), side="right") - 1


def _runs(ends: np.ndarray, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs that have points in a part, and where in it each begins."""
    return np.unique(_owners(ends, part), return_index=True)


def _shares(ends: np.ndarray, runs: slice) -> np.ndarray:
    sizes = np.diff(ends[runs.start : runs.stop + 1])
    return np.where(sizes > 0, 1.0 / np.maximum(sizes, 1), 0.0)


def _groups(bound: Any, ends: np.ndarray) -> Iterator[slice]:
    """Yield runs that are looked at together: one tile of small ones costs less than many."""
    together = TOGETHER if getattr(bound, "tile_entries", None) is None else 1
    first, runs = 0, len(ends) - 1
    while first < runs:
        stop = int(np.searchsorted(ends, ends[first] + together, side="right")) - 1
        stop = min(max(stop, first + 1), runs)
        yield slice(first, stop)
        first = stop
