"""Sums of groups of rows of a stored matrix, in one read of those rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mercer.engines import blocks
from mercer.settings import get_config

__all__ = ["group_sums", "member_sums"]

PANEL = 5000  # columns summed at a time: their sums stay next to the core
LIGHT = 2**18  # entries up to which threads take longer to start than to add


def group_sums(
    K: np.ndarray, rows: np.ndarray, factors: np.ndarray, groups: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Add factors[t]·K[rows[t]] to out[groups[t]] for all t.

    Columns are shared among threads and each is summed in one order, so the bits do not depend on
    the number of threads.

    Parameters
    ----------
    K : ndarray of shape (m, n), C order
        The matrix; not copied.
    rows, groups : ndarrays of int, factors : ndarray
        Which rows, the sums that they are added to, and their factors.
    out : ndarray of shape (g, n), float64, C order
        The sums, added to in place.

    Returns
    -------
    ndarray
        `out`.
    """
    from mercer.jit.segments import add_groups

    order = np.argsort(groups, kind="stable")
    rows = np.ascontiguousarray(rows[order], dtype=np.int64)
    factors = np.ascontiguousarray(factors[order], dtype=np.float64)
    ends = np.searchsorted(groups[order], np.arange(len(out) + 1)).astype(np.int64)
    threads, columns = get_config().threads, out.shape[1]
    rounds = -(-columns // (PANEL * threads)) * threads  # as many panels for each thread
    panels = blocks._cuts(columns, max(64, -(-columns // max(1, rounds))))

    def work(cols: slice) -> None:
        add_groups(K, rows, factors, ends, out, cols.start, cols.stop)

    threads = min(threads, len(panels))
    if threads < 2 or len(rows) * columns < LIGHT:
        for cols in panels:
            work(cols)
        return out
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, panels))
    return out


def member_sums(
    F: np.ndarray, groups: np.ndarray, factors: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Add factors[i]·F[i] to out[groups[i]] for all rows i of F, which are short.

    Parameters
    ----------
    F : ndarray of shape (n, d), C order
        The rows; not copied.
    groups, factors : ndarrays of shape (n,)
        The sum that each is added to, and its factor.
    out : ndarray of shape (g, d), float64
        The sums, added to in place.

    Returns
    -------
    ndarray
        `out`.
    """
    from mercer.jit.segments import add_members

    add_members(F, groups, np.ascontiguousarray(factors, dtype=np.float64), out)
    return out
