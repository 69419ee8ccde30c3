"""Quadratic forms of many symmetric matrices at once, which share what is dear about their tiles.

A source makes the tiles of several matrices from one computation, such as that of distances. It
has ``bound`` (whose threads and points they are), ``count`` and ``tiles(rows, cols, dtype)``, which
yields one fresh tile after the other. Half of each matrix is looked at and none is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.engines import cuts, make_tile, plan_tiles, run_tiles, stopped, tile_columns
from mercer.kernels import (
    RBF,
    Bound,
    Kernel,
    Laplacian,
    LaplacianBound,
    Radial,
    RadialBound,
    belongs,
)
from mercer.memory import require_memory
from mercer.operators.gram import gram_of
from mercer.settings import get_config

# Of a tile: the product wants it wide, the passes over it near the core. At least as many columns
# as rows, so that the diagonal of a band lies in its first tile.
ROWS, COLUMNS = 256, 1024
LANES = 16  # partial sums; fixed, so that bits do not depend on threads


def many_forms(
    sources: Sequence[Any],
    n: int,
    V: np.ndarray,
    t: np.ndarray | None = None,
    *,
    places: Sequence[tuple[int, int, float]] = ((0, 0, 1.0),),
    other: int = 0,
    what: str = "quadratic forms",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return vᵀTv for every column v of V, T t and the diagonal of T, of each matrix in turn.

    The diagonal is left out of the forms and of T t. Products are in the dtype of V, sums over
    tiles in float64.

    Parameters
    ----------
    sources : sequence
        What makes tiles.
    n : int
        T is n × n.
    V : ndarray of shape (n, b), float32 or float64
        The vectors.
    t : ndarray of shape (n, c), optional
        Further vectors, of which T t is wanted.
    places : sequence of (int, int, float)
        T is the sum of blocks of the matrices of the sources that begin at a row and a column,
        times a number; T must be symmetric.
    other : int, default=0
        Bytes of the budget that the caller has taken.
    what : str
        What progress calls it.

    Returns
    -------
    forms : ndarray of shape (q, b)
    sums : ndarray of shape (q, n, c)
    diagonals : ndarray of shape (q, n)
    """
    t = np.zeros((n, 0), V.dtype) if t is None else t.astype(V.dtype, copy=False)
    b, c, q = V.shape[1], t.shape[1], sum(source.count for source in sources)
    state = 8 * q * (b + n * c)
    plan = SimpleNamespace(
        shape=(n, max(n, b)),
        threads=all(source.bound.threads for source in sources),
        xp=np,
        collections=sources[0].bound.collections,
    )
    rows, cols, lanes, threads = _sizes(sources, len(places), n, b, V.itemsize, state, other)
    tasks = [
        (slice(i, min(i + rows, n)), slice(j, min(j + cols, n)))
        for i in range(0, n, rows)
        for j in range(i, n, cols)
    ]
    lanes = min(lanes, len(tasks)) or 1
    forms = np.zeros((lanes, q, b))
    sums = np.zeros((lanes, q, n, c))
    diagonals = np.zeros((q, n))
    for source in sources:
        source.bound.verify()

    def work(lane: int) -> None:
        for band, strip in tasks[lane::lanes]:
            below = _below(band, strip)
            k = 0
            for source in sources:
                streams = [
                    source.tiles(_moved(band, a), _moved(strip, c), V.dtype) for a, c, _ in places
                ]
                for tiles in zip(*streams, strict=True):
                    if stopped():
                        return
                    T = _combined(tiles, places)
                    if below is not None:
                        diagonals[k, band] = T.diagonal()
                        T[below] = 0
                    _add(T, band, strip, V, t, forms[lane, k], sums[lane, k])
                    k += 1

    run_tiles(plan, range(lanes), work, threads, what)
    return forms.sum(0), sums.sum(0), diagonals


def _sizes(
    sources: Sequence[Any], places: int, n: int, b: int, itemsize: int, state: int, other: int
) -> tuple[int, int, int, int]:
    """Return rows and columns of a tile, lanes and threads, as the budget allows."""
    allowed = get_config().memory - other
    tiles = max(source.bound.workspace for source in sources) + 2 * places + 1
    lanes = int(min(LANES, max(1, (allowed // 4) // max(1, state))))
    rows, cols = min(ROWS, n), min(COLUMNS, n)

    def taken(rows: int, cols: int) -> int:
        return 8 * tiles * rows * cols + 2 * itemsize * rows * b

    while rows > 8 and lanes * state + taken(rows, cols) > allowed // 2:
        rows, cols = max(8, rows // 2), max(8, cols // 2)
    require_memory(
        other + lanes * state + taken(rows, cols),
        f"quadratic forms of {b} vectors of {n} numbers",
        "Use fewer permutations or kernels",
    )
    each = max(1, taken(rows, cols))
    threads = int(max(1, min(get_config().threads, (allowed - lanes * state) // each)))
    return rows, cols, lanes, threads


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _combined(tiles: Sequence[np.ndarray], places: Sequence[tuple[int, int, float]]) -> np.ndarray:
    total = tiles[0]
    if places[0][2] != 1.0:
        total *= total.dtype.type(places[0][2])
    for tile, (_, _, c) in zip(tiles[1:], places[1:], strict=True):
        if c in (1.0, -1.0):
            (np.add if c > 0 else np.subtract)(total, tile, out=total)
        else:
            tile *= tile.dtype.type(c)
            total += tile
    return total


def _below(band: slice, strip: slice) -> np.ndarray | None:
    """Return where a tile that begins on the diagonal is on or below it."""
    if strip.start != band.start:
        return None
    return np.tri(band.stop - band.start, strip.stop - strip.start, dtype=bool)


def _add(
    T: np.ndarray,
    band: slice,
    strip: slice,
    V: np.ndarray,
    t: np.ndarray,
    forms: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add what a tile strictly above the diagonal says of both halves."""
    if V.shape[1]:
        P = T @ V[strip]
        P *= V[band]
        forms += 2.0 * (np.ones(len(P), P.dtype) @ P)
    if t.shape[1]:
        sums[band] += T @ t[strip]
        sums[strip] += T.T @ t[band]


# ---- Sums over the tiles of several symmetric matrices at once, none of which is stored ----
# And sums over shuffled matrices, the permutations shared among threads. As everywhere, the bits
# do not depend on the number of threads.


CELL_ROWS = 64  # rows of a tile of several matrices
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
    bands, width, threads = plan_tiles(several, other)
    parts = np.zeros((len(bands), size))

    def work(task: int) -> None:
        rows = bands[task]
        for cols in tile_columns(several, rows, width):
            tiles = [make_tile(bound, rows, cols) for bound in bounds]
            parts[task] += (1.0 if cols == rows else 2.0) * np.asarray(step(tiles, rows, cols))

    run_tiles(several, range(len(bands)), work, threads, what)
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
    bands, width, threads = plan_tiles(several, out.nbytes)

    def work(rows: slice) -> None:
        for cols in tile_columns(several, rows, width):
            tiles = [make_tile(bound, rows, cols) for bound in bounds]
            out[rows] += step(tiles, rows, cols)

    run_tiles(several, bands, work, threads, what)
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
    from mercer.jit import add_shuffled

    P = np.ascontiguousarray(P, dtype=np.int64)
    out = np.zeros(len(P))

    def work(group: slice) -> None:
        add_shuffled(A, L, first, P[group], inverses(P[group]), out[group])

    _share(len(P), L.size, work)
    return out


def shuffled_together(K: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return Σ_{j<i} K⁰ᵢⱼ Πₖ Kᵏ[pᵢ, pⱼ] for draws of a permutation p for each matrix but the first.

    Parameters
    ----------
    K : ndarray of shape (q, n, n)
        Symmetric matrices, float64.
    P : ndarray of int of shape (b, q − 1, n)
        The permutations.
    """
    from mercer.jit import multiply_shuffled

    P = np.ascontiguousarray(P, dtype=np.int64)
    out = np.zeros(len(P))

    def work(group: slice) -> None:
        multiply_shuffled(K, P[group], np.empty(K.shape[1]), out[group])

    _share(len(P), K.size, work)
    return out


def shuffled_cells(
    tile: Callable[[slice, slice], np.ndarray], count: int, M: np.ndarray, P: np.ndarray
) -> np.ndarray:
    """Return Σᵢⱼ Aᵢⱼ M[pᵢ, pⱼ] of every two of several symmetric matrices, for every permutation p.

    Parameters
    ----------
    tile : callable
        ``tile(rows, cols)`` returns a tile of each A, shape (a, rows, columns), a new array.
    count : int
        How many A there are.
    M : ndarray of shape (n, n, m)
        The matrices that are shuffled.
    P : ndarray of int of shape (b, n)
        The permutations.

    Returns
    -------
    ndarray of shape (b, a, m)
    """
    n, m = len(M), M.shape[2]
    out = np.zeros((len(P), count, m))
    for band in cuts(n, CELL_ROWS):
        strip = slice(band.start, n)
        T = tile(band, strip)
        own = np.arange(band.stop - band.start)
        T *= 2.0  # what is above the diagonal stands for both halves
        T[:, own, own] *= 0.5
        T[:, own[:, None] > np.arange(n - band.start)] = 0.0
        A = T.reshape(len(T), -1)

        def work(group: slice, A: np.ndarray = A, band: slice = band, strip: slice = strip) -> None:
            for t in range(group.start, group.stop):
                if stopped():
                    return
                some = np.take(M, P[t, band], axis=0)
                moved = np.take(some, P[t, strip], axis=1)
                out[t] += A @ moved.reshape(-1, m)

        _share(len(P), A.shape[1] * m, work)
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
    run_tiles(plan, cuts(size, GROUP), work, get_config().threads, "permutations")


# ---- Tiles of several kernels that are profiles of one distance ----


class TileSource:
    """Tiles of kernels that are profiles of one distance, or of one kernel that is not."""

    def __init__(self, kernels: list[Any], Z: Any):
        self.kernels = kernels
        self.count = len(kernels)
        kind = _kind(kernels[0])
        self.shared = kind is not None
        self.bound: Bound
        if kind is None:
            self.bound = gram_of(kernels[0], Z).bound
            return
        # In units of the smallest length scale: rounding of distances is judged by that.
        self.unit: float = min(float(k.length_scale) for k in self.kernels)
        self.power = 2 if kind == "rbf" else 1
        if kind == "rbf":
            self.bound = RadialBound(RBF(self.unit), Z)
        else:
            self.bound = LaplacianBound(Laplacian(self.unit), Z)

    def levels(self) -> list[float]:
        """Return the largest k(x, x) of each kernel."""
        Z = self.bound.collections[0]
        Z = Z[:1] if self.shared else Z  # a profile of a distance has one k(x, x)
        with np.errstate(over="ignore"):  # named by the tiles
            return [float(np.abs(gram_of(k, Z).diagonal()).max(initial=0.0)) for k in self.kernels]

    @property
    def workspace(self) -> int:
        """Arrays of the size of a tile that are alive at once."""
        return int(self.bound.workspace) + 2

    def tiles(self, rows: slice, cols: slice, dtype: Any) -> Iterator[Any]:
        """Yield the tile of each kernel, an array of its own."""
        if self.bound.xp is not np:
            yield from self._tensors(rows, cols, dtype)
            return
        if not self.shared:
            T = make_tile(self.bound, rows, cols)
            yield T.astype(dtype) if T.dtype != dtype or not self.bound.fresh else T
            return
        with np.errstate(over="ignore", under="ignore"):
            bound: Any = self.bound
            s = bound.squared(rows, cols) if self.power == 2 else bound.distances(rows, cols)
            s = s.astype(dtype, copy=False)
            for k in self.kernels:
                t = s * s.dtype.type((self.unit / float(k.length_scale)) ** self.power)
                if self.power == 1:
                    yield np.exp(np.negative(t, out=t), out=t)
                elif belongs(k, "_profile_in_place"):
                    yield k._profile_in_place(t)
                else:
                    yield np.asarray(k._profile(t, np), dtype=dtype)

    def _tensors(self, rows: slice, cols: slice, dtype: Any) -> Iterator[Any]:
        if not self.shared:
            T = make_tile(self.bound, rows, cols)
            yield T.to(dtype) if self.bound.fresh else T.to(dtype, copy=True)
            return
        bound: Any = self.bound
        s = bound.squared(rows, cols) if self.power == 2 else bound.distances(rows, cols)
        s = s.to(dtype)
        for k in self.kernels:
            c = (self.unit / float(k.length_scale)) ** self.power
            if self.power == 1 or type(k) is RBF:
                yield (s * (-c if self.power == 1 else -0.5 * c)).exp_()
            else:
                yield k._profile(s * c, bound.xp).to(dtype)


def sources_of(kernels: Sequence[Kernel], Z: Any) -> tuple[list[TileSource], np.ndarray]:
    """Return sources of tiles, and the position of each of their kernels in the list given.

    Parameters
    ----------
    kernels : sequence of Kernel
        Without words.
    Z : canonical collection, or a list of them
        The points, one collection for all kernels or one for each.
    """
    points = Z if isinstance(Z, list) else [Z] * len(kernels)
    groups: dict[Any, list[int]] = {}
    for i, (k, z) in enumerate(zip(kernels, points, strict=True)):
        kind = _kind(k)
        groups.setdefault((kind, id(z)) if kind else i, []).append(i)
    made = [TileSource([kernels[i] for i in part], points[part[0]]) for part in groups.values()]
    return made, np.concatenate([np.array(part) for part in groups.values()])


def _kind(kernel: Any) -> str | None:
    """Return which distance a kernel is a profile of, where its tiles may be shared."""
    if not isinstance(kernel, Radial) or np.ndim(kernel.length_scale) > 0:
        return None
    if type(kernel) is Laplacian:
        return "laplacian"
    own_metric = not kernel._euclidean or not kernel._by_columns
    return None if own_metric or kernel._rough else "rbf"
