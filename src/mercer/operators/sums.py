"""What is summed over the tiles of K: quadratic forms, bands of rows, groups, nearest columns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from mercer.engines import (
    IN_FLIGHT,
    LANES as TILE_LANES,
    cuts,
    make_tile,
    mirrored,
    plan_tiles,
    run_tiles,
    tile_columns,
)
from mercer.memory import require_memory
from mercer.settings import get_config
from mercer.threads import Progress, single_threaded_blas, threads_for, workers

# ---- Quadratic forms and row sums of a symmetric kernel matrix in one pass over half of its
# tiles.


def quadratic(
    bound: Any,
    V: np.ndarray,
    t: np.ndarray | None = None,
    shift: np.ndarray | None = None,
    unit: float = 1.0,
    other: int = 0,
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Return vᵀKv for every column v of V, K t, and Σᵢⱼ tᵢtⱼ((kᵢⱼ − sᵢ − sⱼ)/unit)².

    From half of the entries of K, which is symmetric and not stored; sums are float64. V may be of
    any real dtype, and is brought to float64 tile by tile. The squares are found where the shift s
    is given. The caller holds `other` bytes of the budget. A band of rows i gives
    2 Vᵢᵀ(½ Tᵢᵢ Vᵢ + Σ over j > i of Tᵢⱼ Vⱼ).
    """
    n, b = V.shape
    bound.verify()
    wide = bound.xp.float64
    lanes = min(TILE_LANES, max(1, get_config().memory // max(1, 16 * n * 8)))
    bands, width, threads = plan_tiles(bound, other + (lanes + 1) * n * 8)
    band_bytes = 3 * width * b * 8
    threads = int(max(1, min(threads, (get_config().memory - other) // max(1, 2 * band_bytes))))
    lanes = min(lanes, len(bands)) or 1
    forms: list[Any] = [None] * len(bands)
    second = [0.0] * len(bands)
    sums = [np.zeros(n if t is not None else 0) for _ in range(lanes)]

    def columns(A: np.ndarray, part: slice) -> Any:
        values = np.asarray(A[part], dtype=np.float64)
        return values if bound.xp is np else bound.xp.as_tensor(values, device=bound._like.device)

    def numpy(A: Any) -> np.ndarray:
        return np.asarray(A if bound.xp is np else A.detach().cpu().numpy())

    def work_band(index: int, out: np.ndarray) -> None:
        band = bands[index]
        own = columns(V, band)
        P = bound.zeros((band.stop - band.start, b), wide=True)
        for cols in tile_columns(bound, band, width):
            T = make_tile(bound, band, cols)
            T = T.astype(wide, copy=False) if bound.xp is np else T.to(wide)
            # The upper half of the diagonal tile counts: K = Kᵀ to the bit, as in `gram`.
            T = mirrored(T, bound.xp) if cols == band else T
            if b:
                P += T @ (own if cols == band else columns(V, cols))
                if cols == band:
                    P *= 0.5
            if t is not None:
                u = columns(t, cols)
                out[band] += numpy(T @ u)
                if cols != band:
                    out[cols] += numpy(T.T @ columns(t, band))
                if shift is not None:
                    twice = 1.0 if cols == band else 2.0
                    A = T - columns(shift, band)[:, None]
                    A -= columns(shift, cols)
                    A /= unit
                    second[index] += twice * float(columns(t, band) @ ((A * A) @ u))
        forms[index] = 2.0 * numpy((own * P).sum(0))

    def work_lane(lane: int) -> None:
        for index in range(lane, len(bands), lanes):
            work_band(index, sums[lane])

    run_tiles(bound, range(lanes), work_lane, threads, "quadratic forms")
    q = np.zeros(b)
    for form in forms:
        q += form
    if t is None:
        return q, None, 0.0
    total = np.zeros(n)
    for part in sums:
        total += part
    return q, total, float(sum(second))


# ---- Sums over bands of whole rows of a kernel matrix that is never stored ----
# `fold` cuts the rows of an n × m matrix, n large and m moderate, into bands of about a cache,
# and lets a step add what each band has to say to a few arrays. Bands are dealt out to a fixed
# number of lanes, each with arrays of its own; lanes are summed in their order. So the bits
# depend on neither the number of threads nor on which thread was first.


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
    if (LANES + 1) * state + IN_FLIGHT * rows * row > allowed:
        # Half of what is left for bands, half for lanes; bits may depend on the budget.
        lanes = int(min(LANES, max(1, (allowed // 2) // max(1, state) - 1)))
        left = allowed - (lanes + 1) * state
        rows = int(min(rows, max(1, left // (row * min(lanes, IN_FLIGHT)))))
    bands = cuts(n, rows)
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
                T = make_tile(bound, rows, columns)
                if T.dtype != np.float64 or not T.flags.c_contiguous or T.base is not None:
                    T = np.array(T, dtype=np.float64, order="C")
                with np.errstate(over="ignore", invalid="ignore"):  # a sum shows it, to its owner
                    step(sums[lane], rows, T)

        run_tiles(bound, range(lanes), work, threads, what)
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


# ---- Sums of groups of rows in one read of those rows, and which of their means is nearest ----


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
    from mercer.jit import add_groups

    order = np.argsort(groups, kind="stable")
    rows = np.ascontiguousarray(rows[order], dtype=np.int64)
    factors = np.ascontiguousarray(factors[order], dtype=np.float64)
    ends = np.searchsorted(groups[order], np.arange(len(out) + 1)).astype(np.int64)
    threads, columns = get_config().threads, out.shape[1]
    rounds = -(-columns // (PANEL * threads)) * threads  # as many panels for each thread
    panels = cuts(columns, max(64, -(-columns // max(1, rounds))))

    def work(cols: slice) -> None:
        add_groups(K, rows, factors, ends, out, cols.start, cols.stop)

    _share(work, panels, len(rows) * columns)
    return out


def _share(work: Callable[[slice], None], parts: list[slice], entries: int) -> None:
    """Do the work on all parts, on several threads where there are many entries."""
    threads = 1 if entries < LIGHT else min(threads_for(entries), len(parts))
    if threads < 2:
        for part in parts:
            work(part)
        return

    stop = threading.Event()

    def some(first: int) -> None:
        for part in parts[first::threads]:
            if stop.is_set():
                return
            work(part)

    with workers(threads - 1, stop) as pool:
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
    from mercer.jit import add_members

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
    from mercer.jit import judge, judge_rows

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
    with nullcontext() if isinstance(inner, np.ndarray) else single_threaded_blas():
        _share(work, cuts(n, step if callable(inner) else 8 * step), n * k)
    return answers


# ---- The nearest columns of every row, while the tiles of K stream by ----
# Each band of rows keeps its best columns so far, and tiles come from left to right. A band belongs
# to one thread, so the bits do not depend on how many there are.


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
    if 2 * kept > get_config().memory:
        who = f"{bound.name}: {k} neighbours of {n} points"
        require_memory(2 * kept, who, "Ask about fewer points at a time")
    bands, width, threads = plan_tiles(bound, kept)
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
            T = make_tile(bound, band, cols)
            T = T if bound.xp is np else T.detach().cpu().numpy()
            merge(T, band, cols)
            if half and cols != band:
                merge(T.T, cols, band)
        sort_kept(values[band], where[band])

    run_tiles(bound, bands, work, threads, "neighbours")
    return values, where
