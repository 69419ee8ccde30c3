"""The only loop over tiles: Gram matrices, products and pull-backs inside the memory budget.

A bound kernel has ``shape``, ``symmetric``, ``dtype``, ``xp``, ``threads`` (whether tiles may be
computed side by side), ``flagged`` (whether NumPy's floating-point flags tell of an overflow),
``workspace`` (arrays of tile size alive at once), ``tile_entries`` (how many entries are a tile's
work, where an entry costs more than some arithmetic; None otherwise), ``tile(rows, cols)``,
``product(V)`` (K V where no tile is needed for it; None otherwise), and ``verify()``, which
refuses a function that is plainly no kernel before half of its matrix is taken for the other.
Rows are cut into bands and bands into tiles of about one second-level cache. NumPy tiles run in
Python threads with BLAS held to one thread, since a tile is too small for BLAS to split. Sums over
tiles are taken in an order that does not depend on the number of threads, so neither do the bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from mercer.engines.device import full_precision
from mercer.errors import InvalidInput
from mercer.memory import USUAL_TILE, free_memory, on_gpu, require_memory, smaller_tiles
from mercer.settings import get_config
from mercer.threads import Progress, keep_pages, shared_out, single_threaded_blas, threads_for

# Entries of a NumPy tile: with its temporaries it stays near the core, and its edge is no multiple
# of a power of two, which would send the rows of a transposed write to the same cache sets.
CACHED_ENTRIES = 360 * 360
LOW = 100  # rows of a strip of a matrix of one tile, of which then less than half is made twice
STRIP = 700  # columns of a tile of some hundred rows: narrower ones slow the product down
DEVICE_ENTRIES = USUAL_TILE  # a device wants few large tiles
LIGHT = 128  # columns of data up to which one tile is no work for several threads
IN_FLIGHT = 8  # tiles that a small budget is shared among; fixed, as bits depend on tile sizes
_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)  # of bands at work
UNSHARED = 2**18  # multiplications that BLAS does not share among its threads
LANES = 32  # partial sums of a symmetric product; fixed, so that bits do not depend on threads


# --------------------------------------------------------------------------------- threads
def run_tiles(
    bound: Any, tasks: Sequence[Any], work: Callable[[Any], None], threads: int, what: str
) -> None:
    """Apply ``work`` to every task, on several threads; Ctrl-C stops after the tiles in flight.

    Work that could be shared out runs with BLAS on one thread even when ``threads`` is 1: BLAS
    may round otherwise when it splits a product, and the bits must not depend on ``threads``.
    """
    if len(tasks) == 1:
        with _arithmetic(bound):
            return work(tasks[0])
    progress = Progress(len(tasks), what)
    if not _divisible(bound):
        with _arithmetic(bound):
            for task in tasks:
                work(task)
                progress.step()
        return None
    if threads == 1 or (_light(bound) and threads_for(bound.shape[0] * bound.shape[1]) == 1):
        with single_threaded_blas():
            for task in tasks:
                work(task)
                progress.step()
        return None
    keep_pages()
    stop = threading.Event()
    before = _stop.set(stop)
    try:
        with single_threaded_blas():
            shared_out(tasks, work, threads, stop, progress)
    finally:
        _stop.reset(before)
    return None


def _arithmetic(bound: Any) -> AbstractContextManager:
    """Return options of BLAS and torch for tiles that are computed one after the other."""
    if bound.xp is not np:
        return full_precision()
    return single_threaded_blas() if _light(bound) else nullcontext()


# ----------------------------------------------------------------------------------- tiles
def _divisible(bound: Any) -> bool:
    """Whether tiles may run side by side and there are enough of them to be worth it."""
    n, m = bound.shape
    return bool(bound.threads) and n * m > 2 * usual_entries(bound)


def usual_entries(bound: Any) -> int:
    """Return the entries of a tile when memory is no matter."""
    usual = CACHED_ENTRIES if bound.xp is np else DEVICE_ENTRIES
    own = getattr(bound, "tile_entries", None)
    return usual if own is None else max(1, min(usual, int(own)))


def _light(bound: Any) -> bool:
    """Whether waking the threads of BLAS takes longer than the product of one small tile."""
    shape: tuple[int, ...] = getattr(bound.collections[0], "shape", ())
    return bound.xp is np and len(shape) == 2 and shape[1] <= LIGHT


def plan_tiles(bound: Any, other: int = 0) -> tuple[list[slice], int, int]:
    """Return bands of rows, the width of a tile in them, and how many threads may work on them.

    Tiles are cache sized for NumPy and device sized for torch, and `IN_FLIGHT` of them fit half
    of what the budget leaves beside ``other`` bytes; more threads than that many tiles have to
    wait. So the tiles, and with them the bits, do not depend on the number of threads.
    """
    wanted = usual_entries(bound)
    allowed = max(0, free_memory(getattr(bound, "_like", None)) - other) // 2
    fits = allowed // (bound.itemsize * bound.workspace)
    if fits < 256:
        require_memory(
            other + 2 * 256 * bound.itemsize * bound.workspace,
            f"{bound.name}: the smallest tile of the {bound.shape[0]} × {bound.shape[1]} product",
            "Use fewer right-hand sides",
            getattr(bound, "_like", None),
        )
    share = fits // IN_FLIGHT if _divisible(bound) else fits
    entries = int(min(wanted, max(256, share)))
    threads = min(get_config().threads, max(1, fits // entries)) if _divisible(bound) else 1
    return *_bands(bound, entries), threads


def stopped() -> bool:
    """Whether the work at hand has failed or been interrupted elsewhere, so that it may end."""
    stop = _stop.get()
    return stop is not None and stop.is_set()


def cuts(n: int, step: int) -> list[slice]:
    """Return slices of so many positions each, and what is left, that cover n."""
    starts = range(0, n, step)
    return list(map(slice, starts, [*starts[1:], n]))


def tile_edge(entries: int) -> int:
    return max(1, int(entries**0.5))


def _bands(bound: Any, entries: int) -> tuple[list[slice], int]:
    """Bands of rows and the width of a tile in them; square tiles when symmetric."""
    n, m = bound.shape
    if bound.symmetric:
        edge = tile_edge(entries)
        return cuts(n, edge), edge
    width = max(2 * tile_edge(entries), entries // max(n, 1)) if bound.xp is np else 0
    width = min(m, max(tile_edge(entries), width)) or 1
    return cuts(n, max(1, entries // width)), width


def tile_columns(bound: Any, band: slice, width: int) -> Iterator[slice]:
    """Column tiles of a band; of a symmetric matrix only those from the diagonal on."""
    start, stop = band.start if bound.symmetric else 0, _stop.get()
    for j in range(start, bound.shape[1], width):
        if stop is not None and stop.is_set():  # nobody waits for the others
            return
        yield slice(j, min(j + width, bound.shape[1]))


def make_tile(bound: Any, rows: slice, cols: slice) -> Any:
    """Return a tile, all of it finite.

    NumPy's floating-point flags say when to look closely, where there are any: SciPy and torch
    raise none, nor does a BLAS that splits the product among threads of its own, as it may in a
    small problem. Under autograd the tile is the whole expression and is left alone.
    """
    if bound.xp is not np:
        T = bound.tile(rows, cols)
        # The sum is finite unless an entry is not, or it overflows: one reading of the tile.
        if bound.whole or bool(T.sum().isfinite()) or bool(T.isfinite().all()):
            return T
        finite = bound.xp.isfinite(T.detach()).cpu().numpy()
    else:
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                T = bound.tile(rows, cols)
            if bound.flagged and _divisible(bound):
                return T
        except FloatingPointError:
            with np.errstate(all="ignore"):
                T = bound.tile(rows, cols)
        finite = np.isfinite(T)
        if finite.all():
            return T
    i, j = np.argwhere(~finite)[0]
    raise InvalidInput(
        f"{bound.name}: k(x, y) is {float(T[i, j])} at row {rows.start + i} of X and row "
        f"{cols.start + j} of Y, not a finite number: the kernel overflows on these data. Scale "
        "the columns, for example with sklearn.preprocessing.StandardScaler."
    )


@lru_cache(maxsize=4)
def below_diagonal(m: int) -> np.ndarray:
    """Return the mask of the strict lower triangle of an m × m tile; not to be written to."""
    mask = np.tri(m, k=-1, dtype=bool)
    mask.flags.writeable = False
    return mask


def mirrored(T: Any, xp: Any) -> Any:
    """Copy the upper triangle of a diagonal tile to the lower, so that K = Kᵀ to the bit."""
    upper = xp.triu(T)
    return upper + xp.triu(T, 1).T


def refuse_overflow(name: str) -> None:
    """Refuse a product that is not finite."""
    raise InvalidInput(
        f"{name}: a product with the kernel matrix holds NaN or infinity: the kernel overflows on "
        "these data. Scale the columns, for example with sklearn.preprocessing.StandardScaler."
    )


# ------------------------------------------------------------------------------ operations
@smaller_tiles
def gram(bound: Any, out: Any = None) -> Any:
    """Return the whole matrix of a bound kernel, each symmetric pair of tiles computed once."""
    n, m = bound.shape
    size = n * m * bound.itemsize
    if bound.symmetric:
        bound.verify()
    if bound.whole:
        with _arithmetic(bound):
            return make_tile(bound, slice(0, n), slice(0, m))
    if _is_one_tile(bound):
        products = n * m * getattr(bound.collections[0], "shape", (0, 1))[-1]
        alone = products <= UNSHARED and bound.dtype == np.float64
        with nullcontext() if alone else _arithmetic(bound):
            return _little_gram(bound, out)
    bands, width, threads = plan_tiles(
        bound, 0 if on_gpu(out) else size
    )  # a GPU counts what it holds
    out = bound.empty((n, m)) if out is None else out

    def work(band: slice) -> None:
        for cols in tile_columns(bound, band, width):
            T = make_tile(bound, band, cols)
            if not bound.symmetric:
                out[band, cols] = T
            elif cols != band:
                out[band, cols] = T
                out[cols, band] = T.T
            elif bound.xp is np:
                corner = out[band, band]
                corner[...] = T
                np.copyto(corner, corner.T, where=below_diagonal(len(corner)))
            else:
                out[band, cols] = mirrored(T, bound.xp)

    run_tiles(bound, bands, work, threads, "Gram")
    return out


def rows_into(out: np.ndarray, slots: np.ndarray, bound: Any) -> None:
    """Write row i of a bound kernel to out[slots[i]], in the dtype of out; few rows, many columns.

    The columns are shared among the threads, as there may be fewer bands of rows than threads.
    """
    bands, width, threads = plan_tiles(bound, out.nbytes)
    n, m = bound.shape
    strip = threads * n * STRIP * bound.itemsize * bound.workspace
    light = getattr(bound, "tile_entries", None) is None
    if light and n <= STRIP and strip <= max(0, get_config().memory - out.nbytes) // 2:
        bands, width = [slice(0, n)], STRIP

    def work(cols: slice) -> None:
        for band in bands:
            out[slots[band], cols] = make_tile(bound, band, cols)

    run_tiles(bound, cuts(m, width), work, threads, "rows")


def matmul(bound: Any, V: Any) -> Any:
    """Return K V without storing K; V has one column or several."""
    fits = isinstance(V, np.ndarray) and V.ndim in (1, 2) and len(V) == bound.shape[1]
    if fits and _is_little(bound):
        return _little_product(bound, V)
    return _product_in_tiles(bound, V)


def _little_gram(bound: Any, out: Any) -> np.ndarray:
    """Return a matrix of one tile; of a symmetric one strips from the diagonal on, if they pay."""
    n, m = bound.shape
    if not bound.symmetric or n < 2 * LOW or bound.tile_entries is not None:
        T = make_tile(bound, slice(0, n), slice(0, m))
        if out is None and bound.fresh and T.dtype == bound.dtype:
            out = T
        else:
            out = bound.empty((n, m)) if out is None else out
            out[...] = T
        if bound.symmetric:
            np.copyto(out, out.T, where=below_diagonal(n))
        return np.asarray(out)
    out = bound.empty((n, n)) if out is None else out
    for rows in cuts(n, LOW):
        out[rows, rows.start :] = make_tile(bound, rows, slice(rows.start, n))
        corner = out[rows, rows]
        np.copyto(corner, corner.T, where=below_diagonal(len(corner)))
        out[rows.stop :, rows] = out[rows, rows.stop :].T
    return np.asarray(out)


def is_few(n: int, m: int) -> bool:
    """Whether an n × m matrix of numbers is one tile in main memory, with room for some more."""
    few, options = 0 < n * m <= CACHED_ENTRIES, get_config()
    return few and options.engine != "torch" and 512 * n * m <= options.memory


def _is_little(bound: Any) -> bool:
    """Whether K is one tile of arrays that are not the same, which needs no plan."""
    return not bound.symmetric and _is_one_tile(bound)


def _is_one_tile(bound: Any) -> bool:
    """Whether K is one tile of arrays, which needs no plan."""
    n, m = bound.shape
    if bound.xp is not np or not 0 < n * m <= usual_entries(bound):
        return False
    return bool(4 * n * m * bound.itemsize * bound.workspace <= get_config().memory)


def _little_product(bound: Any, V: np.ndarray) -> np.ndarray:
    n, m = bound.shape
    V = np.asarray(V, dtype=bound.dtype)
    whole = bound.product(V if V.ndim > 1 else V[:, None])
    if whole is not None:
        out = whole if V.ndim > 1 else whole[:, 0]
    else:
        work = n * m * max(V.size // m, getattr(bound.collections[0], "shape", (0, 1))[-1])
        with _arithmetic(bound) if work > UNSHARED else nullcontext():
            T = make_tile(bound, slice(0, n), slice(0, m))
            with np.errstate(over="ignore", invalid="ignore"):  # refused when all is there
                out = T @ V
    _require_finite(bound, out, V)
    return np.asarray(out)


@smaller_tiles
def _product_in_tiles(bound: Any, V: Any) -> Any:
    n, m = bound.shape
    V = bound.asarray(V)
    if V.ndim not in (1, 2) or V.shape[0] != m:
        raise InvalidInput(
            f"{bound.name}: a {n} × {m} matrix cannot multiply shape {tuple(V.shape)}; "
            f"give ({m},) or ({m}, t)."
        )
    if bound.symmetric:
        bound.verify()
    vector = V.ndim == 1
    V = V[:, None] if vector else V
    whole = bound.product(V)
    if whole is not None:
        _require_finite(bound, whole, V)
        return whole[:, 0] if vector else whole
    t = V.shape[1]
    lanes = min(LANES, max(1, get_config().memory // max(1, 16 * n * t * 8)))
    lanes = lanes if bound.xp is np else 1  # a device works on one tile at a time
    other = n * t * 8 * (lanes + 1 if bound.symmetric else 2)
    bands, width, threads = plan_tiles(bound, other)
    total = bound.empty((n, t), wide=True)
    if not bound.symmetric:

        def work(band: slice) -> None:
            part = bound.zeros((band.stop - band.start, t), wide=True)
            for cols in tile_columns(bound, band, width):
                T = make_tile(bound, band, cols)
                with np.errstate(over="ignore", invalid="ignore"):  # refused when all is there
                    part += T @ V[cols]
            total[band] = part

        run_tiles(bound, bands, work, threads, "product")
    else:
        # K v = Σ over i ≤ j of T_ij v_j into rows i and T_ijᵀ v_i into rows j.
        lanes = min(lanes, len(bands)) or 1
        sums = [bound.zeros((n, t), wide=True) for _ in range(lanes)]

        def work_lane(lane: int) -> None:
            out = sums[lane]
            for band in bands[lane::lanes]:
                for cols in tile_columns(bound, band, width):
                    T = make_tile(bound, band, cols)
                    with np.errstate(over="ignore", invalid="ignore"):  # refused when all is there
                        if cols == band:
                            out[band] += mirrored(T, bound.xp) @ V[cols]
                        else:
                            out[band] += T @ V[cols]
                            out[cols] += T.T @ V[band]

        run_tiles(bound, range(lanes), work_lane, threads, "product")
        total[:] = 0
        for part in sums:
            total += part
    total = bound.narrow(total)
    _require_finite(bound, total, V)
    return total[:, 0] if vector else total


def _require_finite(bound: Any, product: Any, V: Any) -> None:
    """Refuse a product that is not finite, of numbers that are."""
    isfinite = np.isfinite if bound.xp is np else bound.xp.isfinite
    if not bool(isfinite(product).all()) and bool(isfinite(V).all()):
        refuse_overflow(bound.name)


@smaller_tiles
def pull_theta(bound: Any, W: Any, p: int, other: int = 0) -> Any:
    """Return Σᵢⱼ Wᵢⱼ ∂Kᵢⱼ/∂θ for the p log-parameters θ, tile by tile.

    W is a matrix, or a function that makes ``W(rows, cols)`` when that tile comes, for weights that
    are not to be written out; of a symmetric kernel only tiles on and above the diagonal are asked
    for, and those above it must hold Wᵢⱼ + Wⱼᵢ. The caller holds `other` bytes of the budget.
    """
    bands, width, threads = plan_tiles(bound, other)
    parts: list[Any] = [None] * len(bands)

    def weights(band: slice, cols: slice) -> Any:
        if callable(W):
            return bound.asarray(W(band, cols))
        C = bound.asarray(W[band, cols])
        twice = bound.symmetric and cols != band
        return C + bound.asarray(W[cols, band]).T if twice else C

    def work(task: tuple[int, slice]) -> None:
        index, band = task
        total = bound.zeros((p,), wide=True)
        for cols in tile_columns(bound, band, width):
            total += bound.pull_theta(band, cols, weights(band, cols))
        parts[index] = total

    run_tiles(bound, list(enumerate(bands)), work, threads, "gradient")
    total = bound.zeros((p,), wide=True)
    for part in parts:
        total += part
    return total


@smaller_tiles
def pull_points(bound: Any, coef: Any, d: int) -> Any:
    """Return ∇ₓ Σⱼ cⱼ k(x, yⱼ) at every x of the first collection; c may differ from x to x."""
    n, m = bound.shape
    if tuple(coef.shape) not in ((m,), (n, m)):
        raise InvalidInput(
            f"{bound.name}: gradient takes one coefficient for each of the {m} points of Y, or "
            f"shape ({n}, {m}), got {tuple(coef.shape)}."
        )
    fused = bound.gradient(coef) if coef.ndim == 1 else None
    if fused is not None:
        return fused
    bands, width, threads = plan_tiles(bound, n * d * 8)
    out = bound.zeros((n, d), wide=True)

    def work(band: slice) -> None:
        for cols in tile_columns(bound, band, width):
            if coef.ndim == 2:
                C = coef[band, cols]
            else:
                C = bound.ones((band.stop - band.start, 1)) * coef[cols][None, :]
            out[band] += bound.pull_points(band, cols, C)

    run_tiles(bound, bands, work, threads, "gradient")
    return out


@contextmanager
def small_tiles(entries: int = 49) -> Iterator[None]:
    """Cut matrices into tiles of about this many entries, so that small data have many tiles."""
    global CACHED_ENTRIES, DEVICE_ENTRIES
    before = CACHED_ENTRIES, DEVICE_ENTRIES
    CACHED_ENTRIES = DEVICE_ENTRIES = entries
    try:
        yield
    finally:
        CACHED_ENTRIES, DEVICE_ENTRIES = before
