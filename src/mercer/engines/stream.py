"""Sums over bands of whole rows of a kernel matrix that is never stored.

`fold` cuts the rows of an n × m matrix, n large and m moderate, into bands of about a cache, and
lets a step add what each band has to say to a few arrays. Bands are dealt out to a fixed number of
lanes, each with arrays of its own; lanes are summed in their order. So the bits depend on neither
the number of threads nor on which thread was first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.engines import blocks
from mercer.engines.budget import require_memory
from mercer.engines.progress import Progress
from mercer.settings import get_config

__all__ = ["fold", "spread"]

LANES = 16  # arrays of partial sums; fixed, so that bits do not depend on threads
ENTRIES = 2**17  # of a band: the products want it long, the passes over it want it near the core
ROUND = 64  # bands of a lane between two looks at the keyboard
ROWS = 128  # at least so many rows, or the products with m × m matrices are slow


def _bands(bound: Any, arrays: int, other: int, state: int) -> tuple[list[slice], int, int]:
    """Return bands of rows, how many lanes share them, and how many threads.

    A band has `arrays` arrays of its size alive beside the kernel's own; a lane takes `state` bytes
    and `other` are taken by the caller. What fits the budget decides; at least one row must.
    """
    n, m = bound.shape
    row = max(1, m) * bound.itemsize * (bound.workspace + arrays)
    allowed = get_config().memory - other
    require_memory(
        other + 2 * state + 2 * row,
        f"{bound.name}: a pass over the rows of the {n} × {m} matrix",
        "Use fewer inducing points",
    )
    rows = max(ROWS, ENTRIES // max(1, m))
    lanes = LANES
    if (LANES + 1) * state + blocks.IN_FLIGHT * rows * row > allowed:
        # Half of what is left for bands, half for lanes; bits may depend on the budget.
        lanes = int(min(LANES, max(1, (allowed // 2) // max(1, state) - 1)))
        left = allowed - (lanes + 1) * state
        rows = int(min(rows, max(1, left // (row * min(lanes, blocks.IN_FLIGHT)))))
    bands = blocks._cuts(n, rows)
    lanes = min(lanes, len(bands)) or 1
    threads = get_config().threads
    if (lanes + 1) * state + threads * rows * row > allowed:
        threads = max(1, (allowed - (lanes + 1) * state) // (rows * row))
    return bands, lanes, int(min(threads, lanes))


def fold(
    bound: Any,
    shapes: Sequence[tuple[int, ...]],
    step: Callable[[list[np.ndarray], slice, np.ndarray], None],
    *,
    arrays: int = 2,
    other: int = 0,
    what: str = "pass",
) -> list[np.ndarray]:
    """Return arrays of sums over all bands of rows of K.

    Parameters
    ----------
    bound : Bound
        The kernel on n rows and m columns, of NumPy's.
    shapes : sequence of tuples
        Shapes of the sums; they are float64, in Fortran order, and start at zero.
    step : callable
        ``step(sums, rows, T)`` adds the share of the rows, of which T, row by row in memory, is the
        part of K, the step's own to overwrite.
    arrays : int, default=2
        Arrays of the size of T that a step makes.
    other : int, default=0
        Bytes of the budget that the caller has taken.
    what : str, default="pass"
        What progress calls it.

    Returns
    -------
    list of ndarray
        The sums.
    """
    state = 8 * sum(int(np.prod(shape)) for shape in shapes)
    bands, lanes, threads = _bands(bound, arrays, other, state)
    columns = slice(0, bound.shape[1])
    sums = [[np.zeros(shape, order="F") for shape in shapes] for _ in range(lanes)]

    # Ctrl-C waits for the tasks in flight: some bands at a time.
    rounds = [bands[i : i + lanes * ROUND] for i in range(0, len(bands), lanes * ROUND)]
    progress = Progress(len(rounds), what)
    for part in rounds:

        def work(lane: int, part: list[slice] = part) -> None:
            for rows in part[lane::lanes]:
                T = blocks._tile(bound, rows, columns)
                if T.dtype != np.float64 or not T.flags.c_contiguous or T.base is not None:
                    T = np.array(T, dtype=np.float64, order="C")
                with np.errstate(over="ignore", invalid="ignore"):  # a sum shows it, to its owner
                    step(sums[lane], rows, T)

        blocks._run(bound, range(lanes), work, threads, what)
        progress.step()
    total = sums[0]
    for other_lane in sums[1:]:
        for whole, share in zip(total, other_lane, strict=True):
            whole += share
    return total


def spread(
    bound: Any, out: np.ndarray, step: Callable[[slice, np.ndarray], Any], *, arrays: int = 2
) -> np.ndarray:
    """Write to each row of `out` what a step makes of that row of K.

    Parameters
    ----------
    bound : Bound
        The kernel on n rows and m columns, of NumPy's.
    out : ndarray of shape (n, ...)
        Where to.
    step : callable
        ``step(rows, T)`` returns the values of those rows; T is its own to overwrite.
    arrays : int, default=2
        Arrays of the size of T that a step makes.

    Returns
    -------
    ndarray
        `out`.
    """

    def write(sums: list[np.ndarray], rows: slice, T: np.ndarray) -> None:
        out[rows] = step(rows, T)

    fold(bound, (), write, arrays=arrays, other=out.nbytes, what="rows")
    return out
