"""Logarithms of sums of a radial profile over all points on a device: a streaming log-sum-exp.

As `mercer.operators.profiles`, tile by tile with torch. Exponentials are taken relative to the
nearest point seen so far; when a nearer one comes, the sums so far shrink by as much (Milakov,
Gimelshein, arXiv:1805.02867). So no sum loses terms, and no second pass is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from mercer.domains import Vectors, is_torch, namespace
from mercer.engines import TorchEngine, chosen_device, cuts, gram, run_tiles, to_device
from mercer.engines.device import full_precision
from mercer.errors import InvalidInput, who
from mercer.memory import free_memory, free_on, named_when_full, require_memory, run_within_memory
from mercer.operators.gram import gram_of
from mercer.settings import get_config

# ---- Quadratic forms of symmetric matrices on a device, and sums over shuffled matrices there ----
# The twins of `many` and `joint` for tensors. A device wants few large products: matrices are made
# in bands of rows, all columns from the diagonal on at once, and no loop runs over vectors.


ROWS = 2048  # of a band: long products, and little below the diagonal is computed in vain
FORM_LEAST = 16  # rows that a band is not cut below
FORM_ENTRIES = 2**26  # of shuffled matrices at a time


@full_precision()  # type: ignore[has-type]
def device_forms(
    sources: Sequence[Any],
    n: int,
    V: Any,
    t: Any = None,
    *,
    places: Sequence[tuple[int, int, float]] = ((0, 0, 1.0),),
) -> tuple[Any, Any, Any]:
    """Return vᵀTv for every column v of V, T t and the diagonal of T, of each matrix in turn.

    As `many_forms`: the diagonal is left out of the forms and of T t; products are in the dtype of
    V, sums in float64.

    Parameters
    ----------
    sources : sequence
        What makes tiles: with `count`, `workspace` and `tiles(rows, cols, dtype)`, which yields
        tensors that may be written to.
    n : int
        T is n × n.
    V : tensor of shape (n, b)
        The vectors.
    t : tensor of shape (n, c), optional
        Further vectors, of which T t is wanted.
    places : sequence of (int, int, float)
        T is the sum of blocks of the matrices of the sources that begin at a row and a column,
        times a number; T must be symmetric.

    Returns
    -------
    forms : tensor of shape (q, b)
    sums : tensor of shape (q, n, c)
    diagonals : tensor of shape (q, n)
    """
    import torch

    b, c = V.shape[1], 0 if t is None else t.shape[1]
    q = sum(source.count for source in sources)
    wide: dict[str, Any] = {"dtype": torch.float64, "device": V.device}
    forms, sums = torch.zeros((q, b), **wide), torch.zeros((q, n, c), **wide)
    diagonals = torch.zeros((q, n), **wide)
    t = None if t is None else t.to(V.dtype)
    workspace = max(source.workspace for source in sources) + 2
    row = V.element_size() * (len(places) * workspace * n + 3 * b)

    def work(rows: slice) -> None:
        # On and below the diagonal of its first columns a band is 0.
        cols, corner = slice(rows.start, n), slice(0, rows.stop - rows.start)
        found = []
        for source in sources:
            streams = [
                source.tiles(_moved(rows, i), _moved(cols, j), V.dtype) for i, j, _ in places
            ]
            for parts in zip(*streams, strict=True):
                T = _combined(parts, places)
                own = T.diagonal().to(torch.float64, copy=True)
                T[:, corner] = T[:, corner].triu(1)
                P = (T @ V[cols]).mul_(V[rows]).sum(0, dtype=torch.float64) if b else forms[0]
                right = below = None
                if t is not None:
                    right, below = (T @ t[cols]).double(), (T.T @ t[rows]).double()
                found.append((own, P, right, below))
        # A band for which there was no memory has left nothing behind.
        for k, (own, P, right, below) in enumerate(found):
            diagonals[k, rows] = own
            forms[k].add_(P, alpha=2.0)
            if t is not None:
                sums[k, rows].add_(right)
                sums[k, cols].add_(below)

    run_within_memory(work, n, _band(n, row, V), FORM_LEAST, f"{n} × {n} quadratic forms", V)
    return forms, sums, diagonals


def _band(n: int, row: int, like: Any) -> int:
    """Return the rows of a band, of so many bytes a row."""
    rows = min(n, ROWS, free_memory(like) // (2 * row))
    if rows < min(n, FORM_LEAST):
        require_memory(
            2 * min(n, FORM_LEAST) * row,
            f"quadratic forms of {like.shape[1]} vectors of {n} numbers",
            "Use fewer permutations, or a rank",
            like,
        )
    return int(max(1, rows))


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _combined(tiles: Sequence[Any], places: Sequence[tuple[int, int, float]]) -> Any:
    total = tiles[0]
    if places[0][2] != 1.0:
        total *= places[0][2]
    for tile, (_, _, factor) in zip(tiles[1:], places[1:], strict=True):
        total.add_(tile, alpha=factor)
    return total


def gathered_sums(A: Sequence[Any], L: Any, P: Any) -> Any:
    """Return Σᵢⱼ Aᵢⱼ L[pᵢ, pⱼ] for every permutation p, a row of P, and every matrix A.

    Parameters
    ----------
    A : sequence of q tensors of shape (n, n)
        What is multiplied with.
    L : tensor of shape (n, n)
        What is shuffled.
    P : tensor of int of shape (b, n)
        The permutations.

    Returns
    -------
    tensor of shape (b, q), float64
    """
    import torch

    n = len(L)
    out = torch.zeros((len(P), len(A)), dtype=torch.float64, device=L.device)

    def work(part: slice) -> None:
        p = P[part]
        if len(p) == 1:  # rows, then columns: both are read in the order they lie
            moved = L.index_select(0, p[0]).index_select(1, p[0])[None]
        else:
            moved = L[p[:, :, None], p[:, None, :]]
        for k, a in enumerate(A):
            out[part, k] = (moved * a).sum((1, 2), dtype=torch.float64)

    step = max(1, FORM_ENTRIES // max(1, n * n))
    run_within_memory(work, len(P), step, 1, f"{n} × {n} matrices, shuffled", L)
    return out


@full_precision()  # type: ignore[has-type]
def shuffled_products(F: Any, G: Any, P: Any) -> Any:
    """Return ‖Fᵀ G[p]‖² for every permutation p, a row of P.

    Parameters
    ----------
    F, G : tensors of shapes (n, r) and (n, s)
        Features.
    P : tensor of int of shape (b, n)
        The permutations.
    """
    import torch

    out = torch.zeros(len(P), dtype=torch.float64, device=F.device)

    def work(part: slice) -> None:
        C = F.T @ G[P[part]]
        out[part] = (C * C).sum((1, 2), dtype=torch.float64)

    step = max(1, FORM_ENTRIES // max(1, G.numel()))
    run_within_memory(work, len(P), step, 1, f"{G.shape[1]} features of {len(G)} rows, shuffled", G)
    return out


# ---- device sums ----


ENTRIES = 2**24  # of a tile: enough for a device, and a few of them are little memory
WIDTH = 2**14  # points of a tile, where there are as many queries
LEAST = 256  # entries of the smallest tile
WORKSPACE = 6  # arrays of tile size alive at once
FAR = 1e300  # a squared distance beyond which all are alike
NONE = 1e301  # stands for the distance of a point that does not count
# Largest ε(‖q‖² + ‖x‖²) at which ‖q‖² + ‖x‖² − 2qᵀx tells the exponent of a gaussian.
CANCELLATION = 1e-12


class _Tiles:
    """Points on the device, and tiles of squared distances to bands of queries."""

    def __init__(
        self, Q: np.ndarray | None, X: np.ndarray, unit: float, what: str, frame: Any, smooth: bool
    ):
        import torch

        self.torch, self.what, self.unit = torch, what, unit
        self.leave, self.frame = Q is None, None if Q is None else frame
        self.Q, self.n = (X if Q is None else Q), len(X)
        self.m, d = len(self.Q), X.shape[1]
        self.X = self._moved(X)
        held = 8 * (2 * d * self.n + 4 * self.m)  # the points and their squares, and the answers
        require_memory(
            held + 8 * WORKSPACE * LEAST,
            f"a sum over {self.n} points for each of {self.m}",
            "Ask about fewer points at a time",
            self.X,
        )
        left = (free_memory(self.X) - held) // (2 * 8 * WORKSPACE)
        entries = max(LEAST, min(ENTRIES, left))
        self.width = max(1, min(self.n, WIDTH, entries))
        self.height = max(1, entries // self.width)
        self.smooth = smooth
        self.norms = (self.X * self.X).sum(1)
        self.reach = float(self.norms.max()) if self.n else 0.0

    def _moved(self, Z: np.ndarray) -> Any:
        with np.errstate(over="ignore"):
            scaled = np.multiply(Z, self.unit)
        return TorchEngine().asarray(np.asarray(scaled, dtype=np.float64))

    def run(self, work: Callable[[slice, Any], None]) -> None:
        """Call ``work(rows, band)`` for bands of queries in the unit of the profile."""
        bound = SimpleNamespace(
            shape=(self.m, self.n), threads=False, xp=self.torch, collections=(self.X,)
        )

        def step(rows: slice) -> None:
            Q = self.Q[rows]
            work(rows, self._moved(Q if self.frame is None else self.frame(Q)))

        def task(rows: slice) -> None:
            def some(part: slice) -> None:
                step(slice(rows.start + part.start, rows.start + part.stop))

            what = f"a sum over {self.n} points"
            run_within_memory(some, rows.stop - rows.start, self.height, 1, what, self.X)

        run_tiles(bound, cuts(self.m, self.height), task, 1, self.what)

    def squares(self, rows: slice, band: Any) -> Any:
        """Yield columns, their squared distances to a band, and where a query meets itself."""
        norms = (band * band).sum(1)
        reach = self.reach + float(norms.max())
        product = self.smooth and np.finfo(float).eps * reach < CANCELLATION
        for cols in cuts(self.n, self.width):
            if product:
                s = self.torch.addmm(self.norms[None, cols], band, self.X[cols].T, alpha=-2)
                s = s.add_(norms[:, None]).clamp_(min=0.0)
            else:
                s = self._by_differences(band, self.X[cols])
            low, high = max(rows.start, cols.start), min(rows.stop, cols.stop)
            if not self.leave or low >= high:
                yield cols, s, None
                continue
            own = s[low - rows.start : high - rows.start, low - cols.start : high - cols.start]
            yield cols, s, own.diagonal()

    @staticmethod
    def _by_differences(band: Any, X: Any) -> Any:
        """Return Σₖ(qₖ − xₖ)²: nothing cancels, at the price of a pass for each column."""
        total: Any = 0.0
        for k in range(X.shape[1]):
            gap = band[:, k, None] - X[None, :, k]
            total = gap.mul_(gap).add_(total)
        return total.clamp_(max=FAR)


@named_when_full("sums over all points", "Fit fewer points")
def log_sums_on_device(
    Q: np.ndarray | None,
    X: np.ndarray,
    w: np.ndarray | None,
    code: int,
    *,
    unit: float | None,
    rim: float,
    shrink: float,
    slopes: bool,
    frame: Callable[[np.ndarray], np.ndarray] | None,
) -> Any:
    """Return what `profiles.log_sums` does, computed on the device of ``config(device=...)``.

    Parameters
    ----------
    Q, X, w, code, slopes, frame
        As there.
    unit : float or None
        What multiplies coordinates, so that φ is 2^(−s) or 2^(−√s); None for bounded supports.
    rim, shrink : float
        Of a bounded support: the least s outside, and 1/h².

    Returns
    -------
    ndarray of shape (m,), or a pair of them
        The logarithms, and with `slopes` their derivatives by log h.
    """
    import torch

    job = _Tiles(Q, X, 1.0 if unit is None else unit, "density", frame, code == 0)
    top = 1.0 if w is None else float(w.max())
    share = None if w is None else TorchEngine().asarray(w / top)
    out = np.zeros((2, job.m))

    def weighed(A: Any, cols: slice) -> Any:
        return A.sum(1) if share is None else A @ share[cols]

    def work(rows: slice, band: Any) -> None:
        sums = band.new_zeros((2, len(band)))
        off = band.new_full((len(band),), NONE if unit is not None else 0.0)
        for cols, s, own in job.squares(rows, band):
            if unit is not None:
                t = s.sqrt_() if code == 6 else s
                if own is not None:
                    own.fill_(NONE)
                nearer = torch.minimum(off, t.amin(1))
                sums *= torch.exp2(nearer - off)
                off = nearer
                v = torch.exp2(off[:, None] - t)
                lean = t
            else:
                v, lean = _bounded(s, code, rim, shrink, slopes)
            if own is not None:
                v.diagonal(rows.start - cols.start).zero_()
            sums[0] += weighed(v, cols)
            if slopes and unit is not None:
                sums[1] += weighed(v.mul_(lean), cols)
            elif slopes and lean is not None:
                sums[1] += weighed(lean, cols)
        found = sums.log() if not slopes else torch.stack([sums[0].log(), sums[1] / sums[0]])
        found[0] -= off * math.log(2.0)
        out[:, rows] = found.cpu().numpy()

    job.run(work)
    out[0] += math.log(top)
    if not slopes:
        return out[0]
    # Of 2^(−s) the slope is 2s log 2, of 2^(−√s) it is √s log 2.
    out[1] *= {0: 2.0 * math.log(2.0), 6: math.log(2.0)}.get(code, 1.0)
    return out[0], np.where(np.isneginf(out[0]), 0.0, out[1])


def _bounded(s: Any, code: int, rim: float, shrink: float, slopes: bool) -> tuple[Any, Any]:
    """Return φ(u), u = s/h², of a bounded support, and −2u φ′(u), which is 0 at u = 0, if wanted.

    None stands for 0, as that of "tophat" is.
    """
    inside = s < rim
    if code == 2:
        return inside.to(s.dtype), None
    u = s.mul_(shrink).clamp_(max=1.0)
    u.masked_fill_(~inside, 1.0)
    if code == 1:
        return 1.0 - u, (2.0 * u).mul_(inside) if slopes else None
    if code == 4:
        v = 1.0 - u
        return v * v, 4.0 * u * v if slopes else None
    r = u.sqrt()
    if code == 3:
        return 1.0 - r, r * inside if slopes else None
    # cos(πr/2) = sin(π(1 − r)/2), with 1 − r = (1 − u)/(1 + r): to the last bits also near 1.
    v = ((1.0 - u) / (1.0 + r)).mul_(0.5 * math.pi).sin_()
    r *= 0.5 * math.pi
    return v, (r * r.sin()).mul_(inside) if slopes else None


@named_when_full("distances of all points", "Fit fewer points")
def least_squares_apart(X: np.ndarray) -> np.ndarray:
    """Return the squared distance of each row of X to the nearest other row; inf without one.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Points.
    """
    job = _Tiles(None, X, 1.0, "nearest", None, False)
    out = np.empty(job.m)

    def work(rows: slice, band: Any) -> None:
        low = band.new_full((len(band),), math.inf)
        for _, s, own in job.squares(rows, band):
            if own is not None:
                own.fill_(math.inf)
            low = job.torch.minimum(low, s.amin(1))
        out[rows] = low.cpu().numpy()

    job.run(work)
    return out


# ---- Where the matrices of a test are computed ----


moved = named_when_full("points, draws or features of a test", "Use fewer rows, or a smaller rank")


@dataclass(frozen=True)
class Place:
    """A device, and the precision of kernel values on it.

    Points, labels and draws are looked at by NumPy first, as everywhere; what is n × n is made on
    the device and stays there.

    Parameters
    ----------
    device : str
        As torch calls it.
    single : bool
        Whether kernel values are float32, as the data are; sums are float64 either way.
    """

    device: str
    single: bool

    @property
    def dtype(self) -> Any:
        """The dtype of kernel values."""
        import torch

        return torch.float32 if self.single else torch.float64

    @property
    def eps(self) -> float:
        """The rounding of kernel values."""
        return float(np.finfo(np.float32 if self.single else np.float64).eps)

    @property
    def remote(self) -> bool:
        """Whether the device has memory of its own."""
        return not self.device.startswith("cpu")

    def memory(self) -> int:
        """Return the bytes that may be taken: of a GPU what is free, else the memory budget."""
        return free_on(self.device)

    def takes(self, kernel: Any, Z: Any) -> bool:
        """Whether kernel values of these points can be computed here: they are arrays."""
        dense = isinstance(Z, np.ndarray) and Z.ndim == 2
        return dense and (isinstance(kernel.domain, Vectors) or not kernel.domain.holds_points)

    def points(self, Z: Any) -> Any:
        """Return points, or a Gram matrix, in the precision of kernel values."""
        return self.tensor(Z).to(self.dtype)

    @moved
    def tensor(self, A: Any) -> Any:
        """Return an array on the device, its dtype as it is."""
        return to_device(A, self.device)

    @moved
    def wide(self, A: Any) -> Any:
        """Return an array on the device in float64."""
        return self.tensor(A).double()

    def gram(self, kernel: Any, X: Any) -> Any:
        """Return the kernel matrix of points as a tensor of its own."""
        return gram(gram_of(kernel, self.points(X)).bound)

    def orders(self, size: int, n: int, seed: int) -> Any:
        """Return random orders of n rows, by 63 random bits each, one a row of shape (size, n)."""
        import torch

        keys = torch.empty((size, n), dtype=torch.int64, device=self.device)
        return keys.random_(generator=self._generator(seed)).argsort(dim=1)

    def signs(self, size: int, n: int, seed: int) -> Any:
        """Return random signs, of shape (size, n)."""
        import torch

        signs = torch.empty((size, n), dtype=torch.int8, device=self.device)
        return signs.random_(0, 2, generator=self._generator(seed)).mul_(2).sub_(1)

    def _generator(self, seed: int) -> Any:
        import torch

        return torch.Generator(device=self.device).manual_seed(seed)

    def vectors(self, V: Any) -> Any:
        """Return label vectors, a column each, in the precision of kernel values.

        Parameters
        ----------
        V : ndarray or tensor of shape (n, b)
            The vectors; rows of the transpose are contiguous, and small numbers travel as such.
        """
        return self.tensor(V.T).to(self.dtype).T


def place_of(*collections: Any) -> Place | None:
    """Return where matrices of these collections are computed; None for NumPy's memory.

    That is the device of tensors, or with ``config(engine="torch")`` the device chosen there. In
    single precision where all collections are.
    """
    tensors = [X for X in collections if is_torch(X)]
    engine = get_config().engine
    if engine == "numpy" or not (tensors or engine == "torch"):
        return None
    devices = {str(X.device) for X in tensors}
    if len(devices) > 1:
        raise InvalidInput(
            f"{who()}: the samples are on {' and '.join(sorted(devices))}; move them to one device "
            "with .to(...)."
        )
    single = all(str(getattr(X, "dtype", "")).endswith(("float32", "float16")) for X in collections)
    return Place(devices.pop() if devices else chosen_device(), single)


def with_first(first: np.ndarray, rows: Any) -> Any:
    """Return rows with one more before them, as an array or where the rows are."""
    if isinstance(rows, np.ndarray):
        return np.concatenate([first[None], rows])
    head = namespace(rows).as_tensor(np.array(first), device=rows.device)
    return namespace(rows).cat([head[None].to(rows.dtype), rows])
