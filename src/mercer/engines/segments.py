"""Sums of groups of rows in one read of those rows, and which of their means is nearest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from mercer.engines import blocks
from mercer.engines.blas import single_threaded_blas
from mercer.settings import get_config

__all__ = ["group_sums", "judge_points", "member_sums"]

PANEL = 5000  # columns summed at a time: their sums stay next to the core
LIGHT = 2**18  # entries up to which threads take longer to start than to add
POINTS = 2048  # compared with centres at a time, or fewer:
NEAR = 2**17  # inner products that stay near the core


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

    _share(work, panels, len(rows) * columns)
    return out


def _share(work: Callable[[slice], None], parts: list[slice], entries: int) -> None:
    """Do the work on all parts, on several threads where there are many entries."""
    threads = min(get_config().threads, len(parts))
    if threads < 2 or entries < LIGHT:
        for part in parts:
            work(part)
        return

    def some(first: int) -> None:
        for part in parts[first::threads]:
            work(part)

    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(some, t) for t in range(1, threads)]
        some(0)
        for other in others:
            other.result()


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


def judge_points(
    inner: np.ndarray | tuple[np.ndarray, np.ndarray] | Callable[[slice], np.ndarray],
    squares: np.ndarray,
    lengths: np.ndarray,
    labels: np.ndarray | None,
    rounding: float,
    sizes: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compare n points with k centres by ⟨φ(x), μ⟩, ‖μ‖² and ‖φ(x)‖².

    Parameters
    ----------
    inner : ndarray of shape (k, n), pair of ndarrays (n, D) and (k, D), or callable
        ⟨φ(x), μ⟩; or φ(x) and μ, in C order; or what tells the inner products of a slice of the
        points.
    squares : ndarray of shape (k,)
        ‖μ‖²; infinite where there is no centre.
    lengths : ndarray of shape (n,)
        ‖φ(x)‖².
    labels : ndarray of int, shape (n,), optional
        The own centre of each point.
    rounding : float
        The relative error of sums.
    sizes : ndarray of shape (n,), optional
        Size of numbers that cancelled before.

    Returns
    -------
    nearest, own, least, doubt, wrong : ndarrays of shape (n,)
        The first of the centres that are nearest up to rounding; the squared distances to the own
        and to the nearest one, and the error of these; whether another centre than the own one is
        nearer beyond rounding.
    """
    from mercer.jit.segments import judge, judge_rows

    n, k = len(lengths), len(squares)
    sizes = np.zeros(n) if sizes is None else sizes
    labels = np.full(n, -1) if labels is None else labels
    nearest, wrong = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    own, least, doubt = np.empty((3, n))
    answers = nearest, own, least, doubt, wrong
    given = squares, lengths, labels, sizes, rounding, *answers
    step = max(64, min(POINTS, NEAR // k))

    def work(part: slice) -> None:
        first, stop = part.start, part.stop
        if isinstance(inner, tuple):
            judge_rows(*inner, step, *given, first, stop)
        elif callable(inner):
            judge(inner(part), first, *given, first, stop)
        else:
            judge(inner, 0, *given, first, stop)

    # A product of few rows is too small for BLAS to split.
    with nullcontext() if isinstance(inner, np.ndarray) else single_threaded_blas:
        _share(work, blocks._cuts(n, step if callable(inner) else 8 * step), n * k)
    return answers
