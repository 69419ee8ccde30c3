"""Passes over the rows of K = k(X, Z), many rows by m centres: Σ over rows of Kᵀ g(K V).

K is never stored. A pass makes F = K V at some rows, lets a step turn F, the targets and the
weights of those rows into G, and adds Kᵀ G. With steps wF, wy, w(F − y) or w ℓ′(y, F) this is all
that least squares and smooth losses in the span of m centres ask of n rows, be they in memory, on
a device, in files or on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.domains import RowBlocks, is_torch
from mercer.engines import tiles
from mercer.engines.base import pick
from mercer.lapack import add_square, solve_rows
from mercer.memory import require_memory
from mercer.settings import get_config
from mercer.threads import Progress

BYTES = 2**21  # of a band of whole rows: long products, and what exp reads is still in a cache
ROWS = 32  # at least so many rows, or the products are slow
LANES = 16  # partial sums; fixed, so that bits do not depend on threads
WIDE = 2**26  # bytes of all partial sums, beyond which there are fewer
FEWEST = 4  # but so many, if the budget has room
EACH = 2**18  # bytes of sums from which another lane is worth its memory
FILLS = 2**13  # for so many rows
FEW = 4  # columns that compiled loops take one by one
COMPILED = 2**26  # entries of K from which loops are worth their compilation
STORED = 2**30  # bytes that K may have to be kept
SHARE = 4  # and the part of the budget
ROUND = 64  # bands of a lane between two looks at the keyboard


class Step(Protocol):
    """What a pass makes of the values F = K V at some rows; frozen and picklable.

    ``width`` is the number of columns of G and ``n_sums`` that of the sums.
    """

    @property
    def width(self) -> int:
        """Columns of G."""
        ...

    @property
    def n_sums(self) -> int:
        """How many sums there are."""
        ...

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return (G, sums): G of shape (rows, width), float64, or None for none, and a vector.

        F is float64 of shape (rows, columns of V), None where V is; y has shape (rows, t), w shape
        (rows,), None where there are none. xp is numpy or torch, of which all arrays are. With
        numpy G may be a `Scattered` or `RowSquares`.
        """
        ...


@dataclass(frozen=True, eq=False)
class Scattered:
    """A sparse G: each row has as many entries as there are `starts`, in consecutive columns.

    Row i has the entry ``values[k, i]`` in the column (starts[k] + i) mod width, for every k.

    Parameters
    ----------
    width : int
        Columns.
    starts : ndarray of int
        The column of the first row.
    values : ndarray of shape (len(starts), rows)
        The entries.
    """

    width: int
    starts: np.ndarray
    values: np.ndarray

    def _runs(self) -> Iterator[tuple[np.ndarray, slice, slice]]:
        """Yield entries with the rows and the columns that they fill, one after the other."""
        rows = self.values.shape[1]
        for start, values in zip(self.starts, self.values, strict=True):
            first, column = 0, int(start) % self.width
            while first < rows:
                last = min(rows, first + self.width - column)
                yield values[first:last], slice(first, last), slice(column, column + last - first)
                first, column = last, 0

    def add_to(self, out: np.ndarray, T: np.ndarray) -> None:
        """Add TᵀG to `out`, which is best in Fortran order."""
        for values, rows, cols in self._runs():
            out.T[cols] += values[:, None] * T[rows]

    def total(self) -> np.ndarray:
        """Return the sums of the columns."""
        out = np.zeros(self.width)
        for values, _, cols in self._runs():
            out[cols] += values
        return out

    def dense(self) -> np.ndarray:
        """Return all of G."""
        out = np.zeros((self.values.shape[1], self.width))
        for values, rows, cols in self._runs():
            out[np.arange(rows.start, rows.stop), np.arange(cols.start, cols.stop)] += values
        return out


@dataclass(frozen=True, eq=False)
class RowSquares:
    """A G whose first columns are the rows T of K, or T L⁻ᵀ, times W; `rest` are those behind.

    So Kᵀ G begins with KᵀWK, or with L⁻¹KᵀWK L⁻ᵀ, of which only the lower triangle is added up.

    Parameters
    ----------
    w : ndarray or None
        The weights W, at least 0; None are ones.
    rest : ndarray
        Other columns.
    lower : ndarray or None
        L, lower triangular and in Fortran order; None is the identity.
    """

    w: np.ndarray | None
    rest: np.ndarray
    lower: np.ndarray | None = None

    def add_to(self, square: np.ndarray, out: np.ndarray, T: np.ndarray, room: np.ndarray) -> None:
        """Add to both parts, which are in Fortran order; the square may be float32, as the room."""
        if self.rest.shape[1]:
            out += T.T @ self.rest
        copy = room[: len(T)]  # blocks that are new each time cost more than what fills them
        if self.w is None:
            np.copyto(copy, T, casting="same_kind")
        else:
            np.multiply(T, np.sqrt(self.w)[:, None], out=copy, casting="same_kind")
        if self.lower is not None:
            solve_rows(self.lower, copy)
        add_square(copy, square)


class RowPass:
    """K of n rows and m centres, known by passes over its rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection of m points
        The centres.
    """

    n: int
    m: int
    single: bool = False  # whether kernel values are float32
    rounds: bool = False  # whether V is rounded to float32 in a pass
    repeated: bool = False  # set by who will make many passes
    squares: bool = False  # whether a step may return `RowSquares`

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ over all rows of Kᵀ G, shape (m, width), and the sums, in float64.

        Parameters
        ----------
        V : ndarray of shape (m, columns), or None
            What K is multiplied by; None where the step wants no values.
        step : Step
            From values to G.
        """
        raise TypeError("a RowPass defines pull(V, step)")

    def sample(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return √(w/p) times rows of K drawn with probabilities p, and the factors, or None.

        With A and u returned, AᵀA is KᵀWK and Aᵀu is Kᵀw in the mean, but for a common factor. Of
        rows in blocks the weights are not looked at. None stands for rows that cannot be had.

        Parameters
        ----------
        size : int
            How many rows at most, and at most n.
        seed : int
            Of the draw.
        """
        blocks_ = getattr(self, "rows", None)
        if not isinstance(blocks_, RowBlocks):
            return None
        kernel: Any = self.kernel  # type: ignore[attr-defined]
        X = kernel.domain.check(blocks_.take(_drawn(self.n, size, seed)), "X")
        return MemoryPass(kernel, X, self.Z).sample(size, seed)  # type: ignore[attr-defined]


def pull_rows(
    bound: Any, V: Any, y: Any, w: Any, step: Step, store: Store | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return Kᵀ G and the sums over the rows of one bound kernel in memory.

    Bands of rows are dealt out to lanes, each with sums of its own, and lanes are added in their
    order. Values in float32 are multiplied and added up in float64: coefficients may be large and
    cancel, and rounding them or their products would make KᵀK indefinite.
    """
    if bound.xp is not np:
        from mercer.engines.passes.device import pull_on_device

        return pull_on_device(bound, V, y, w, step)
    m = bound.shape[1]
    V = None if V is None else np.asarray(V, dtype=np.float64)
    times, add = _products(bound, 0 if V is None else V.shape[1], step.width)
    held = 0 if store is None else store.K.nbytes
    bands, lanes, threads = _bands(bound, 8 * (m * step.width + step.n_sums), held)
    kind = getattr(step, "squares", None)  # of the first m columns, where they are sums of squares
    first = 0 if kind is None else m
    whole = np.zeros((m, step.width), order="F")
    outs = [
        whole[:, first:],
        *(np.zeros((m, step.width - first), order="F") for _ in range(1, lanes)),
    ]
    squares = [np.zeros((m, first), kind, order="F") for _ in range(lanes)]
    longest = max((band.stop - band.start for band in bands), default=0)
    rooms = [np.empty((longest, first), kind) for _ in range(lanes)]
    sums = [np.zeros(step.n_sums) for _ in range(lanes)]
    columns = slice(0, m)

    def work(task: tuple[int, list[slice]]) -> None:
        lane, mine = task
        for rows in mine:
            T = (
                tiles.make_tile(bound, rows, columns)
                if store is None
                else store.tile(rows, columns)
            )
            T = T if times is _times_mixed else T.astype(np.float64, copy=False)
            F = None if V is None else times(T, V)
            G, s = step(F, None if y is None else y[rows], None if w is None else w[rows], np)
            sums[lane] += s
            if isinstance(G, RowSquares):
                G.add_to(squares[lane], outs[lane], T, rooms[lane])
            elif isinstance(G, Scattered):
                G.add_to(outs[lane], T)
            elif G is not None:
                add(outs[lane], T, G)

    # Ctrl-C waits for the tasks in flight: some bands at a time.
    rounds = [bands[i : i + lanes * ROUND] for i in range(0, len(bands), lanes * ROUND)]
    progress = Progress(len(rounds), "pass")
    for part in rounds:
        tasks = [(lane, part[lane::lanes]) for lane in range(lanes)]
        tiles.run_tiles(bound, tasks, work, threads, "pass")
        progress.step()
    for lane in range(1, lanes):
        outs[0] += outs[lane]
        sums[0] += sums[lane]
    if store is not None:
        store.full = True
    for square in squares:
        whole[:, :first] += square
    return whole, sums[0]


def _products(bound: Any, columns: int, width: int) -> tuple[Any, Any]:
    """Return T V and out += TᵀG; compiled ones for float32 and few columns, if worth it."""
    n, m = bound.shape
    if bound.dtype == np.float32 and max(columns, width) <= FEW and n * m >= COMPILED:
        return _times_mixed, _add_mixed
    return np.matmul, _add


def _add(out: np.ndarray, T: np.ndarray, G: np.ndarray) -> None:
    out += T.T @ G


def _times_mixed(T: np.ndarray, V: np.ndarray) -> np.ndarray:
    from mercer.jit import times_columns

    F = np.empty((len(T), V.shape[1]))
    times_columns(np.ascontiguousarray(T), np.ascontiguousarray(V.T), F)
    return F


def _add_mixed(out: np.ndarray, T: np.ndarray, G: np.ndarray) -> None:
    from mercer.jit import add_tile_rows

    add_tile_rows(np.ascontiguousarray(T), np.ascontiguousarray(G, dtype=np.float64), out.T)


def _bands(bound: Any, state: int, other: int = 0) -> tuple[list[slice], int, int]:
    """Return bands of rows, how many lanes share them, and how many threads; `state` is a lane's.

    Lanes and bands take at most half each of what the budget leaves beside `other` bytes.
    """
    n, m = bound.shape
    row = max(1, m) * bound.itemsize * (bound.workspace + 1)
    half = max(0, get_config().memory - other) // 2
    require_memory(
        other + 2 * state + 2 * row,
        f"{bound.name}: a pass over the rows of the {n} × {m} matrix",
        "Use fewer centres",
    )
    rows = max(ROWS, tiles.usual_entries(bound) // max(1, m) if bound.tile_entries else 0)
    rows = max(rows, BYTES // (bound.itemsize * max(1, m)))
    rows = int(max(1, min(rows, half // (tiles.IN_FLIGHT * row))))
    bands = tiles.cuts(n, rows)
    room = min(half // max(1, state) - 1, max(FEWEST, WIDE // max(1, state)))
    most = LANES if state < EACH else min(LANES, max(FEWEST, n // FILLS))
    lanes = int(max(1, min(most, len(bands), room)))
    threads = int(max(1, min(get_config().threads, lanes, half // (rows * row))))
    return bands, lanes, threads


def _drawn(n: int, size: int, seed: int) -> np.ndarray:
    """Return so many of n positions, in their order."""
    if size == n:
        return np.arange(n)
    return np.unique(np.random.default_rng(seed).choice(n, size, replace=False))


def _drawn_by_weight(w: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions drawn with probabilities pᵢ = min(1, c wᵢ), and √(wᵢ/pᵢ).

    c is such that `size` are drawn, or all of positive weight: a heavy row is in every sample, and
    Σ wᵢ/pᵢ over a sample is Σw. The draw is systematic, in random order.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(w > 0))
    if len(order) <= size:
        order.sort()
        return order, np.sqrt(w[order])
    falling = np.sort(w[order])[::-1]
    rest = falling.sum() - np.concatenate([[0.0], np.cumsum(falling)[: size - 1]])
    # of k rows that are always drawn the lightest has c w ≥ 1, the heaviest of the others less
    light = falling[:size] * (size - np.arange(size)) < rest
    k = int(light.argmax()) if light.any() else size - 1
    p = np.minimum(w[order] * ((size - k) / max(rest[k], np.finfo(float).tiny)), 1.0)
    ends = np.floor(np.cumsum(p) + 0.5)
    chosen = np.diff(ends, prepend=0.0) > 0
    index, p = order[chosen], p[chosen]
    sort = np.argsort(index)
    return index[sort], np.sqrt(w[index] / p)[sort]


class Store:
    """All of K, written in one pass and read in those that follow."""

    def __init__(self, bound: Any):
        self.bound, self.full = bound, False
        self.K = np.empty(bound.shape, bound.dtype)

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        """Return some rows of K."""
        if not self.full:
            self.K[rows] = tiles.make_tile(self.bound, rows, columns)
        return self.K[rows]


class MemoryPass(RowPass):
    """Rows in memory, or on a device.

    Where K is small beside the budget and passes are repeated it is kept. That changes no bit.
    """

    def __init__(self, kernel: Any, X: Any, Z: Any, y: Any = None, w: Any = None):
        X, Z = kernel.domain.match(X, Z)
        self.bound = kernel._bind(X, Z)
        self.n, self.m = self.bound.shape
        self.single = self.bound.itemsize < 8
        self.y, self.w = y, w
        self.squares = self.bound.xp is np
        self._store: Store | None = None

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums."""
        size = self.n * self.m * self.bound.itemsize
        fits = self.bound.xp is np and size <= min(STORED, get_config().memory // SHARE)
        if not (fits and self.repeated):
            self._store = None
        elif self._store is None:
            self._store = Store(self.bound)
        return pull_rows(self.bound, V, self.y, self.w, step, self._store)

    def sample(self, size: int, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return scaled rows of K, drawn at random."""
        if self.bound.xp is not np:
            return None
        if self.w is None:
            index = _drawn(self.n, size, seed)
            u = np.full(len(index), np.sqrt(self.n / size))
        else:
            index, u = _drawn_by_weight(np.asarray(self.w, dtype=np.float64), size, seed)
        A = np.empty((len(index), self.m))
        np.multiply(tiles.gram(self.bound.rows_of(index)), u[:, None], out=A)
        return A, u


def row_pass(kernel: Any, data: Any, Z: Any, y: Any = None, w: Any = None) -> RowPass:
    """Return the pass for `RowBlocks`, here or on a cluster, or for points on a device or here."""
    if isinstance(data, RowBlocks):
        from mercer.engines.passes.cluster import ClusterPass, client_for
        from mercer.engines.passes.stream import StreamPass

        client = client_for(data)
        return (
            StreamPass(kernel, data, Z) if client is None else ClusterPass(kernel, data, Z, client)
        )
    engine = pick(data, Z)
    if engine.name == "torch" and is_torch(engine.asarray(Z)):
        from mercer.engines.passes.device import DevicePass

        return DevicePass(kernel, data, Z, y, w)
    return MemoryPass(kernel, data, Z, y, w)
