"""Collections of kernels: a grid of bandwidths for the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer.checks import check_index
from mercer.errors import InvalidInput, who
from mercer.kernels import (
    RBF,
    Kernel,
    Laplacian,
    Pairs,
    exponent_of,
    median_distance,
    select_distance,
    spread_rows,
)
from mercer.settings import get_config
from mercer.statistics.observations import effective
from mercer.statistics.samples import as_counts, named_kernel

SUBSAMPLE = 1000  # points whose distances decide
LOW = 0.05  # quantile of the distances that half of is the smallest bandwidth, and less where
NEIGHBOURS = 5  # so many others lie nearer to a point on average: clusters have scales of their own
SHARE = 8  # part of the memory budget that distances may take is one in so many
RANGE = (1e-300, 1e300)  # of a length scale
FAMILIES = ("rbf", "laplacian")
METRICS = {"rbf": "euclidean", "laplacian": "cityblock"}


def bandwidths(
    X: Any, count: int, metric: str = "euclidean", weights: np.ndarray | None = None
) -> np.ndarray:
    """Return lengths from half a small quantile of the distances to twice the largest.

    They are a geometric sequence, as in Schrab et al., MMD aggregated two-sample test (JMLR 2023),
    who begin at the 5 % quantile. Of points in many clusters that is a distance between clusters:
    so where a point has more than five neighbours within it, on average, the sequence begins at the
    quantile of five neighbours, 5/N. One alone is the median distance. Points that coincide do not
    count; where all do, powers of two around 1. Of many points the subset decides that
    `median_distance` takes, which knows neither their order nor their copies, so that permutations
    of the rows leave the kernels alone.
    """
    if count == 1:
        return np.array([median_distance(X, weights, metric)])
    w = np.ones(X.shape[0]) if weights is None else weights
    rows = np.flatnonzero(w > 0)
    number = w.sum() if as_counts(w) is not None else effective(w[rows]).sum()
    share = min(LOW, NEIGHBOURS / min(SUBSAMPLE, max(1.0, number)))
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
    low = select_distance(pairs, share * total * (1 - 1e-12), least, high)
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.ldexp(np.geomspace(0.5 * low, 2 * high, count), exponent), *RANGE)


def grid(X: Any, n_bandwidths: int, families: Any, weights: np.ndarray | None) -> list[Kernel]:
    """Return kernels of some families, each at bandwidths for the data."""
    count = check_index(n_bandwidths, "n_bandwidths", 1)
    several = np.iterable(families) and not isinstance(families, str)
    names = list(families) if several else [families]
    if not names or any(name not in FAMILIES for name in names):
        raise InvalidInput(
            f"{who()}: families={families!r}; legal are {', '.join(FAMILIES)}, one or both."
        )
    out: list[Kernel] = []
    for name in dict.fromkeys(names):
        scales = bandwidths(X, count, METRICS[name], weights)
        # exp(−(r/λ)²) is RBF at ℓ = λ/√2.
        out += [RBF(float(s) * 0.5**0.5) if name == "rbf" else Laplacian(float(s)) for s in scales]
    return out


def listed(kernels: Any) -> list[Kernel]:
    """Return a collection of kernels as a list, words not yet resolved."""
    single = isinstance(kernels, Kernel | str) or callable(kernels)
    several = [kernels] if single else list(kernels) if np.iterable(kernels) else None
    if not several:
        raise InvalidInput(
            f"{who()}: kernels={kernels!r}; give a list of kernels, such as "
            "[mercer.RBF(0.1), mercer.RBF(1.0)]."
        )
    if any(kernel is None for kernel in several):
        raise InvalidInput(
            f"{who()}: kernels holds None; leave kernels out for a collection made for the data, "
            "or list kernels."
        )
    return [named_kernel(kernel) for kernel in several]
