"""The nearest columns of every row of a kernel matrix, while its tiles stream by.

The matrix is never stored: each band of rows keeps its best columns so far, and tiles come from
left to right. A band belongs to one thread, so the bits do not depend on how many there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines import tiles
from mercer.engines.budget import require_memory


def nearest(
    bound: Any, k: int, sign: float, c: np.ndarray, skip: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k smallest values sign·Kᵢⱼ + cⱼ of each row, sorted, and their columns.

    Equal values are sorted by column, and where not all of them fit the smaller columns stay.

    Parameters
    ----------
    bound : Bound
        The kernel on rows and columns.
    k : int
        How many; at most the number of columns a row may choose from.
    sign : float
        −2 for squared distances k(x, x) + k(y, y) − 2k(x, y), less k(x, x).
    c : ndarray
        What is added to each column.
    skip : ndarray of int, optional
        A column that each row leaves out, −1 for none.

    Returns
    -------
    values, columns : ndarrays of shape (n, k)
    """
    from mercer.jit import keep_smallest, sort_kept

    n, m = bound.shape
    kept = 16 * n * k
    require_memory(
        2 * kept, f"{bound.name}: {k} neighbours of {n} points", "Ask about fewer points at a time"
    )
    bands, width, threads = tiles._plan(bound, kept)
    values, where = np.full((n, k), np.inf), np.full((n, k), m, dtype=np.int64)
    skip = np.full(n, -1) if skip is None else skip
    c = np.ascontiguousarray(c, dtype=np.float64)
    if bound.symmetric:
        bound.verify()

    # Where tiles run one after another anyway, a symmetric pair of them is computed once: by the
    # time a row's own band comes, all columns to its left have come, in their order.
    half = bound.symmetric and not bound.threads

    def merge(T: Any, rows: slice, cols: slice) -> None:
        T = np.ascontiguousarray(T, dtype=np.float64)
        keep_smallest(T, c[cols], sign, cols.start, skip[rows], values[rows], where[rows])

    def work(band: slice) -> None:
        for start in range(band.start if half else 0, m, width):
            cols = slice(start, min(start + width, m))
            T = tiles.make_tile(bound, band, cols)
            T = T if bound.xp is np else T.detach().cpu().numpy()
            merge(T, band, cols)
            if half and cols != band:
                merge(T.T, cols, band)
        sort_kept(values[band], where[band])

    tiles._run(bound, bands, work, threads, "neighbours")
    return values, where
