"""Every kernel once more, as a formula of two points in plain Python: slow, and easy to believe.

A point is a 1-D array of numbers, a `Row` of a table, a `GramRow`, or any object. Two points are
*the same observation* when they are the same Python object; `double_loop` arranges that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import kernels as mk
from mercer.domains import Table, Vectors
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.testing.checks import matern_integral, to_numpy
from mercer.testing.examples import (
    ALIGNMENT_FORMULAS,
    COUNTED_STRING_FORMULAS,
    GRAPH_FORMULAS,
    NODE_TEXT_FORMULAS,
    SUBSEQUENCE_FORMULAS,
    TABLE_FORMULAS,
    WALK_FORMULAS,
    mean_map,
)


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a table: names and values, and what kernels on columns have taken of them."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    taken: list[tuple[Kernel, Any]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class GramRow:
    """A point of a precomputed kernel: its position, and its kernel values with all points."""

    position: int
    values: np.ndarray | None = None


# -------------------------------------------------------------------------------- formulas
def _dot(x: Any, y: Any) -> float:
    return math.fsum(float(a) * float(b) for a, b in zip(x, y, strict=True))


def _gaps(x: Any, y: Any) -> list[float]:
    return [float(a) - float(b) for a, b in zip(x, y, strict=True)]


def _scales(length_scale: Any, d: int) -> list[float]:
    values = [float(v) for v in np.atleast_1d(length_scale)]
    return values * d if len(values) == 1 else values


def _squared(k: Any, x: Any, y: Any) -> float:
    """Return Σ (xₖ−yₖ)²/ℓₖ²."""
    gaps = _gaps(x, y)
    return math.fsum(
        (g / s) ** 2 for g, s in zip(gaps, _scales(k.length_scale, len(gaps)), strict=True)
    )


def _linear(k: Any, x: Any, y: Any) -> float:
    if k.covariance is None:
        return _dot(x, y)
    A = np.asarray(k.covariance, dtype=float)
    return math.fsum(
        float(x[i]) * A[i, j] * float(y[j]) for i in range(len(x)) for j in range(len(y))
    )


def _rbf(k: Any, x: Any, y: Any) -> float:
    if k.covariance is None:
        return math.exp(-0.5 * _squared(k, x, y))
    gap = np.array(_gaps(x, y))
    return math.exp(-0.5 * float(gap @ np.linalg.solve(np.asarray(k.covariance, dtype=float), gap)))


def _matern(k: Any, x: Any, y: Any) -> float:
    nu, s = float(k.nu), _squared(k, x, y)
    if nu == math.inf:
        return math.exp(-0.5 * s)
    z = math.sqrt(2 * nu * s)
    if z == 0:
        return 1.0
    if nu > 20 or z < 1e-3:  # K_ν overflows
        return matern_integral(nu, z)
    from scipy.special import kv

    return 2 ** (1 - nu) / math.gamma(nu) * z**nu * float(kv(nu, z))


def _power_exponential(k: Any, x: Any, y: Any) -> float:
    p, gaps = float(k.norm), _gaps(x, y)
    scales = _scales(k.length_scale, len(gaps))
    distance = math.fsum(abs(g / s) ** p for g, s in zip(gaps, scales, strict=True)) ** (1 / p)
    return math.exp(-(distance ** float(k.power)))


def _periodic(k: Any, x: Any, y: Any) -> float:
    total = math.fsum(math.sin(math.pi * g / float(k.period)) ** 2 for g in _gaps(x, y))
    return math.exp(-2 * total / float(k.length_scale) ** 2)


def _spectral_mixture(k: Any, x: Any, y: Any) -> float:
    w = np.atleast_1d(k.weights)
    f, s = (np.reshape(v, (len(w), -1)) for v in (k.frequencies, k.bandwidths))
    total = []
    for q in range(len(w)):
        value = float(w[q])
        for i, gap in enumerate(_gaps(x, y)):
            turns, fades = (gap * float(v[q, i if v.shape[1] > 1 else 0]) for v in (f, s))
            value *= math.exp(-2 * (math.pi * fades) ** 2) * math.cos(2 * math.pi * turns)
        total.append(value)
    return math.fsum(total)


def _cosine(k: Any, x: Any, y: Any) -> float:
    lengths = math.hypot(*map(float, x)) * math.hypot(*map(float, y))
    return _dot(x, y) / lengths if lengths else 0.0


def _columnwise(formula: Callable[[float, float], float]) -> Callable[[Any, Any, Any], float]:
    """A kernel on numbers, multiplied over columns."""
    return lambda k, x, y: math.prod(formula(float(a), float(b)) for a, b in zip(x, y, strict=True))


def _min_max(a: float, b: float) -> float:
    return min(a, b) / max(a, b) if max(a, b) else 1.0


def _gcd(a: float, b: float) -> float:
    return float(math.gcd(int(a), int(b)))


def _gcd_over_lcm(a: float, b: float) -> float:
    return math.gcd(int(a), int(b)) / math.lcm(int(a), int(b))


def _coregion(k: Any, x: Any, y: Any) -> float:
    """Return the product over columns of ⟨wᵢ, wⱼ⟩, plus vᵢ where i = j, in spherical terms."""
    r = int(k.rank)

    def vector(i: int) -> tuple[list[float], float]:
        left, out = float(k.scales[i]), []
        for angle in k.angles[i * r : (i + 1) * r]:
            out.append(left * math.cos(angle))
            left *= math.sin(angle)
        return out, left * left

    total = 1.0
    for i, j in zip(map(int, x), map(int, y), strict=True):
        (w, own), (u, _) = vector(i), vector(j)
        total *= _dot(w, u) + (own if i == j else 0.0)
    return total


def _precomputed(k: Any, x: GramRow, y: GramRow) -> float:
    if x.values is None:
        raise InvalidInput("Precomputed: the first point has no kernel values.")
    return float(x.values[y.position])


def _phi(k: Any, x: Any) -> np.ndarray:
    return to_numpy(k._features(_collection(x)))[0]


# ------------------------------------------------------------------- kernels made of kernels
def _collection(x: Any) -> Any:
    """Return the collection of one point."""
    if isinstance(x, Row):
        return Table({n: [v] for n, v in zip(x.names, x.values, strict=True)})
    return x[None, :] if isinstance(x, np.ndarray) else (x,)


def _routed(move: Callable, x: Any, y: Any) -> tuple[Any, Any]:
    """Move two points; one observation stays one observation."""
    a = move(x)
    return a, a if x is y else move(y)


def _choose(columns: Any, x: Any) -> np.ndarray:
    values = list(x.values if isinstance(x, Row) else x)
    names = list(x.names) if isinstance(x, Row) else []
    if isinstance(columns, slice):
        return np.array(values[columns], dtype=float)
    keys = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    return np.array(
        [values[names.index(c) if isinstance(c, str) else c] for c in keys], dtype=float
    )


def _on_columns(k: Any, x: Any, y: Any) -> float:
    def chosen(p: Any) -> Any:
        if isinstance(k.kernel.domain, Vectors):
            return _choose(k.columns, p)
        taken = p.taken if isinstance(p, Row) else []
        if not any(kernel is k for kernel, _ in taken):
            taken.append((k, points(k.kernel, k._route(_collection(p)))[0]))
        return next(part for kernel, part in taken if kernel is k)

    return oracle(k.kernel, *_routed(chosen, x, y))


def _warped(k: Any, x: Any, y: Any) -> float:
    return oracle(k.kernel, *_routed(lambda p: k.function(_collection(p))[0], x, y))


def _in_metric(k: Any, x: Any, y: Any) -> float:
    def image(p: Any) -> np.ndarray:
        return np.array([_dot(row, p) for row in k.matrix])

    return oracle(k.kernel, *_routed(image, x, y))


def _scaled_by(k: Any, x: Any, y: Any) -> float:
    f, g = (float(np.ravel(k.function(_collection(p)))[0]) for p in (x, y))
    return f * oracle(k.kernel, x, y) * g


def _normalized(k: Any, x: Any, y: Any) -> float:
    a, b = oracle(k.kernel, x, x), oracle(k.kernel, y, y)
    return oracle(k.kernel, x, y) / math.sqrt(a) / math.sqrt(b) if a > 0 and b > 0 else 0.0


def _series(k: Any, x: Any, y: Any) -> float:
    value = oracle(k.kernel, x, y)
    return math.fsum(float(c) * value**m for m, c in enumerate(k.coefficients))


def _zero_mean(k: Any, x: Any, y: Any) -> float:
    """Return k(x, y) − c(x)c(y)/v, the means by sums over points of the measure."""
    nodes, weights, means, v = _means(k)

    def mean(p: Any) -> float:
        key = p.tobytes() if isinstance(p, np.ndarray) else p
        if key not in means:
            terms = (w * oracle(k.kernel, p, u) for u, w in zip(nodes, weights, strict=True))
            means[key] = math.fsum(terms)
        return means[key]

    value = oracle(k.kernel, x, y)
    return value - mean(x) * mean(y) / v if v else value


_KNOWN: list[tuple[Any, tuple]] = []  # kernels, and what they have in common for all points


def _means(k: Any) -> tuple[list[Any], list[float], dict[Any, float], float]:
    """Return points of the measure, their weights, mean values by points, and v, 0 for none."""
    for kernel, known in _KNOWN:
        if kernel is k:
            return known
    nodes, weights = _measure(k)
    pairs = [
        (w * u, oracle(k.kernel, a, b))
        for a, w in zip(nodes, weights, strict=True)
        for b, u in zip(nodes, weights, strict=True)
    ]
    v = math.fsum(share * value for share, value in pairs)
    largest = max(oracle(k.kernel, a, a) for a in nodes)
    _KNOWN.append((k, (nodes, weights, {}, v if v > 1e-12 * largest else 0.0)))
    del _KNOWN[:-16]
    return _KNOWN[-1][1]


def _measure(k: Any) -> tuple[list[Any], list[float]]:
    """Return points of a measure and their weights: its own, or Gauss's for one of numbers."""
    if k.measure == "empirical":
        nodes = points(k.kernel, k.points)
        return nodes, [1 / len(nodes)] * len(nodes) if k.weights is None else list(k.weights)
    a, b = map(float, k.points)
    if k.measure == "normal":
        t, w = np.polynomial.hermite_e.hermegauss(60)
        return [np.array([a + b * s]) for s in t], (w / w.sum()).tolist()
    t, w = np.polynomial.legendre.leggauss(60)
    return [np.array([a + (b - a) * (1 + s) / 2]) for s in t], (w / 2).tolist()


def _additive(k: Any, x: Any, y: Any) -> float:
    """Return the sum over all sets of up to Q columns of the products of their kernels."""
    values = [oracle(part, x, y) for part in k._kernels()]
    variances = np.ones(k.order + 1) if k.variances is None else k.variances
    return math.fsum(
        float(variances[q]) * math.prod(some)
        for q in range(k.order + 1)
        for some in combinations(values, q)
    )


#: Class → function(kernel, x, y): the definition, for one pair of points.
ORACLES: dict[type, Callable[[Any, Any, Any], float]] = {
    **COUNTED_STRING_FORMULAS,
    **ALIGNMENT_FORMULAS,
    **GRAPH_FORMULAS,
    **TABLE_FORMULAS,
    **WALK_FORMULAS,
    **NODE_TEXT_FORMULAS,
    mk.Linear: _linear,
    mk.Polynomial: lambda k, x, y: (
        (_dot(x, y) / float(k.length_scale or 1.0) ** 2 + float(k.offset)) ** int(k.degree)
    ),
    mk.Exponential: lambda k, x, y: math.exp(_dot(x, y) / float(k.length_scale) ** 2),
    mk.Cosine: _cosine,
    mk.RBF: _rbf,
    mk.Matern: _matern,
    mk.RationalQuadratic: lambda k, x, y: (1 + _squared(k, x, y) / (2 * k.alpha)) ** -k.alpha,
    mk.PowerExponential: _power_exponential,
    mk.Laplacian: lambda k, x, y: math.exp(
        -math.fsum(
            abs(g) / s for g, s in zip(_gaps(x, y), _scales(k.length_scale, len(x)), strict=True)
        )
    ),
    mk.Periodic: _periodic,
    mk.SpectralMixture: _spectral_mixture,
    mk.CosineDifference: _columnwise(lambda a, b: math.cos(a - b)),
    mk.Minimum: _columnwise(min),
    mk.MinMaxRatio: _columnwise(_min_max),
    mk.GCD: _columnwise(_gcd),
    mk.GCDOverLCM: _columnwise(_gcd_over_lcm),
    mk.Geometric: _columnwise(lambda a, b: 1 / (1 - a * b)),
    mk.ExpProduct: _columnwise(lambda a, b: 2 ** (a * b)),
    mk.Constant: lambda k, x, y: float(k.value),
    mk.White: lambda k, x, y: float(k.noise) if x is y else 0.0,
    mk.Coregion: _coregion,
    mk.Precomputed: _precomputed,
    mk.Sum: lambda k, x, y: oracle(k.k1, x, y) + oracle(k.k2, x, y),
    mk.Product: lambda k, x, y: oracle(k.k1, x, y) * oracle(k.k2, x, y),
    mk.Power: lambda k, x, y: oracle(k.kernel, x, y) ** int(k.degree),
    mk.Exp: lambda k, x, y: math.exp(oracle(k.kernel, x, y)),
    mk.Series: _series,
    mk.OnColumns: _on_columns,
    mk.Warped: _warped,
    mk.InMetric: _in_metric,
    mk.ScaledBy: _scaled_by,
    mk.Normalized: _normalized,
    mk.SetKernel: mean_map,
    mk.ZeroMean: _zero_mean,
    mk.Additive: _additive,
    **SUBSEQUENCE_FORMULAS,
}

#: For kernels of an author: what the one hook that was written says about two points.
HOOKS: dict[type, Callable[[Any, Any, Any], float]] = {
    mk.Radial: lambda k, x, y: float(k._profile(np.array([_squared(k, x, y)]), np)[0]),
    mk.Dot: lambda k, x, y: float(k._profile(np.array([_dot(x, y)]), np)[0]),
    mk.Scalar: lambda k, x, y: math.prod(
        float(k._value(np.array([float(a)]), np.array([float(b)]), np)[0])
        for a, b in zip(x, y, strict=True)
    ),
    mk.Pairwise: lambda k, x, y: float(k._pair(x, y)),
    mk.Counted: lambda k, x, y: math.fsum(
        value * k._count(y).get(part, 0.0) for part, value in k._count(x).items()
    ),
    mk.Explicit: lambda k, x, y: _dot(_phi(k, x), _phi(k, y)),
}


def oracle(kernel: Kernel, x: Any, y: Any) -> float:
    """Return k(x, y) for two points by the formula of `ORACLES`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.testing import oracle
    >>> round(oracle(RBF(), np.array([0.0]), np.array([1.0])), 4)
    0.6065
    """
    if type(kernel) in ORACLES:
        return ORACLES[type(kernel)](kernel, x, y)
    for base, formula in HOOKS.items():
        if isinstance(kernel, base):
            return formula(kernel, x, y)
    raise InvalidInput(
        f"oracle: no formula for {type(kernel).__name__}; add function(kernel, x, y) to "
        "mercer.testing.ORACLES."
    )


def points(kernel: Kernel, X: Any) -> list[Any]:
    """Return a collection as a list of points, in the form that `oracle` takes."""
    X = kernel.domain.check(X)
    if isinstance(X, Table):
        return [Row(X.names, tuple(c[i] for c in X.columns)) for i in range(len(X))]
    if kernel.domain.name == "kernel values":
        if X.ndim == 1:
            return [GramRow(int(i)) for i in X]
        return [GramRow(i, row) for i, row in enumerate(X)]
    if sp.issparse(X) or hasattr(X, "detach"):
        X = to_numpy(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        X = X.astype(float)
    return list(X)


def double_loop(kernel: Kernel, X: Any, Y: Any = None) -> np.ndarray:
    """Return the matrix k(xᵢ, yⱼ) by two Python loops over the definition.

    Parameters
    ----------
    kernel : Kernel
        Any kernel with a formula in `ORACLES`, or derived from `Radial`, `Dot`, `Scalar`,
        `Explicit` or `Pairwise`.
    X, Y : collections of points
        Y defaults to X.

    Examples
    --------
    >>> from mercer import Minimum
    >>> from mercer.testing import double_loop
    >>> double_loop(Minimum(), [1.0, 3.0])
    array([[1., 1.],
           [1., 3.]])
    """
    if kernel._words():
        kernel = kernel.fit_params(X)
    xs = points(kernel, X)
    ys = xs if Y is None else points(kernel, Y)
    return np.array([[oracle(kernel, x, y) for y in ys] for x in xs]).reshape(len(xs), len(ys))
