"""Collections of kernels: a grid of bandwidths for the data, and tiles that share a distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer.engines import make_tile, pick
from mercer.errors import InvalidInput
from mercer.kernels import (
    RBF,
    Bound,
    Kernel,
    Laplacian,
    LaplacianBound,
    Pairs,
    Radial,
    RadialBound,
    belongs,
    exponent_of,
    median_distance,
    select_distance,
    spread_rows,
)
from mercer.settings import get_config
from mercer.solvers import check_index
from mercer.statistics.samples import named_kernel

SUBSAMPLE = 1000  # points whose distances decide
LOW = 0.05  # quantile of the distances that half of is the smallest bandwidth
SHARE = 8  # part of the memory budget that distances may take is one in so many
RANGE = (1e-300, 1e300)  # of a length scale
FAMILIES = ("rbf", "laplacian")
METRICS = {"rbf": "euclidean", "laplacian": "cityblock"}


def bandwidths(
    X: Any, count: int, metric: str = "euclidean", weights: np.ndarray | None = None
) -> np.ndarray:
    """Return lengths from half the 5 % quantile of the distances to twice the largest.

    They are a geometric sequence, as in Schrab et al., MMD aggregated two-sample test (JMLR 2023);
    one alone is the median distance. Points that coincide do not count; where all do, powers of two
    around 1. Of many points the subset decides that `median_distance` takes, which knows neither
    their order nor their copies, so that permutations of the rows leave the kernels alone.
    """
    if count == 1:
        return np.array([median_distance(X, weights, metric)])
    w = np.ones(X.shape[0]) if weights is None else weights
    rows = np.flatnonzero(w > 0)
    rows, w = (rows, w[rows]) if len(rows) <= SUBSAMPLE else spread_rows(X, w, SUBSAMPLE)
    Z = X[rows]
    Z = Z[:, np.unique(Z.indices)].toarray() if sp.issparse(Z) else Z
    exponent = exponent_of(np.abs(Z).max(initial=0.0))
    Z = np.ldexp(np.asarray(Z, dtype=np.float64), -exponent)
    pairs: Any = Pairs(Z, w, metric)
    if 64 * len(w) ** 2 <= get_config().memory // SHARE:  # computed once for all passes
        i, j = np.triu_indices(len(w), 1)
        pairs = [(pdist(Z, metric), w[i] * w[j])]
    high = max((float(d.max(initial=0.0)) for d, _ in pairs), default=0.0)
    if not high > 0:
        return 2.0 ** (np.arange(count) - (count - 1) / 2)
    least = 1e-12 * high
    total = sum(float(v[d > least].sum()) for d, v in pairs)
    low = select_distance(pairs, LOW * total * (1 - 1e-12), least, high)
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.ldexp(np.geomspace(0.5 * low, 2 * high, count), exponent), *RANGE)


def grid(
    X: Any, n_bandwidths: int, families: Any, weights: np.ndarray | None, owner: str
) -> list[Kernel]:
    """Return kernels of some families, each at bandwidths for the data."""
    count = check_index(n_bandwidths, "n_bandwidths", owner, 1)
    several = np.iterable(families) and not isinstance(families, str)
    names = list(families) if several else [families]
    if not names or any(name not in FAMILIES for name in names):
        raise InvalidInput(
            f"{owner}: families={families!r}; legal are {', '.join(FAMILIES)}, one or both."
        )
    out: list[Kernel] = []
    for name in dict.fromkeys(names):
        scales = bandwidths(X, count, METRICS[name], weights)
        # exp(−(r/λ)²) is RBF at ℓ = λ/√2.
        out += [RBF(float(s) * 0.5**0.5) if name == "rbf" else Laplacian(float(s)) for s in scales]
    return out


def listed(kernels: Any, owner: str) -> list[Kernel]:
    """Return a collection of kernels as a list, words not yet resolved."""
    single = isinstance(kernels, Kernel | str) or callable(kernels)
    several = [kernels] if single else list(kernels) if np.iterable(kernels) else None
    if not several:
        raise InvalidInput(
            f"{owner}: kernels={kernels!r}; give a list of kernels, such as "
            "[mercer.RBF(0.1), mercer.RBF(1.0)]."
        )
    if any(kernel is None for kernel in several):
        raise InvalidInput(
            f"{owner}: kernels holds None; leave kernels out for a collection made for the data, "
            "or list kernels."
        )
    return [named_kernel(kernel, owner) for kernel in several]


class Source:
    """Tiles of kernels that are profiles of one distance, or of one kernel that is not."""

    def __init__(self, kernels: list[Any], Z: Any):
        self.kernels = kernels
        self.count = len(kernels)
        kind = _kind(kernels[0])
        self.shared = kind is not None
        self.bound: Bound
        if kind is None:
            self.bound = kernels[0]._bind(Z)
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
        bring = pick(Z).to_numpy
        with np.errstate(over="ignore"):  # named by the tiles
            return [float(np.abs(bring(k._diag(Z))).max(initial=0.0)) for k in self.kernels]

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


def sources_of(kernels: Sequence[Kernel], Z: Any) -> tuple[list[Source], np.ndarray]:
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
    made = [Source([kernels[i] for i in part], points[part[0]]) for part in groups.values()]
    return made, np.concatenate([np.array(part) for part in groups.values()])


def _kind(kernel: Any) -> str | None:
    """Return which distance a kernel is a profile of, where its tiles may be shared."""
    if not isinstance(kernel, Radial) or np.ndim(kernel.length_scale) > 0:
        return None
    if type(kernel) is Laplacian:
        return "laplacian"
    own_metric = (
        type(kernel)._bind is not Radial._bind or type(kernel)._to_metric is not Radial._to_metric
    )
    if type(kernel) is RBF:
        own_metric = getattr(kernel, "covariance", None) is not None
    return None if own_metric or kernel._rough else "rbf"
