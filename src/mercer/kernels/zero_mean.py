"""`ZeroMean`: the kernel of the functions of mean zero under a measure of the points."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.domains import (
    Domain,
    GramRows,
    beside,
    is_torch,
    namespace,
    point_keys,
    to_host,
)
from mercer.errors import InvalidInput, who
from mercer.kernels.algebra import Combination
from mercer.kernels.base import Kernel, between
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.metric import Radial
from mercer.kernels.parameters import _short
from mercer.kernels.radial import RBF
from mercer.kernels.scales import point_weights
from mercer.kernels.spectral import stationary

MEASURES = ("empirical", "normal", "uniform")
MOST = 128  # values that stand for those of a column
ENTRIES = 2**18  # kernel values at a time, of points with these
FEW = 6  # points that are printed
GAUSS = 100  # nodes for means under a normal or uniform measure
NOTHING = 1e-12  # of E k(u, u): a mean function of this squared norm is none

# ---- Measures of a column ----


def distribution(domain: Domain, X: Any, weight: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the different points and their shares; values of their own for many numbers.

    More than `MOST` numbers are divided into as many groups of equal weight, in their order, and
    each group is told by its mean. Of other points those stand for all in which the middles of such
    groups lie.
    """
    there = np.flatnonzero(weight > 0)
    X, w = domain.take(X, there), weight[there] / weight[there].sum()
    X = X.toarray() if hasattr(X, "toarray") else to_host(X)
    numbers = isinstance(X, np.ndarray) and X.dtype.kind == "f" and (X.ndim == 1 or X.shape[1] == 1)
    if numbers:
        x = np.asarray(X, dtype=np.float64).ravel()
        values, codes = np.unique(x, return_inverse=True)  # one NaN, the last
        shares = np.bincount(codes.ravel(), weights=w, minlength=len(values))
        if len(values) > MOST:
            gone = np.isnan(values)
            lost = shares[gone]
            values, shares = _grouped(values[~gone], shares[~gone])
            values = np.append(values, [np.nan] * len(lost))
            shares = np.append(shares, lost)
        return (values[:, None] if X.ndim == 2 else values), shares
    keys = point_keys(X)
    if keys is None:
        raise InvalidInput(
            "ZeroMean: the points are of a kind that cannot be told apart, so there is no "
            "distribution of theirs; give points= and weights= yourself."
        )
    order: dict[Any, int] = {}
    codes = np.array([order.setdefault(key, len(order)) for key in keys])
    first = np.unique(codes, return_index=True)[1]
    shares = np.bincount(codes, weights=w)
    if len(shares) > MOST:
        ranked = sorted(range(len(first)), key=lambda i: repr(keys[first[i]]))
        reached = np.cumsum(shares[ranked])
        middles = (np.arange(MOST) + 0.5) / MOST * reached[-1]
        chosen = np.array(ranked)[np.searchsorted(reached, middles)]
        some, counts = np.unique(chosen, return_counts=True)
        return domain.take(X, first[some]), counts / MOST
    return domain.take(X, first), shares


def _grouped(values: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of groups of equal weight; a value on a border is in both, by shares."""
    total, middle = shares.sum(), values[len(values) // 2]
    reached = np.concatenate([[0.0], np.cumsum(shares)])
    sums = np.concatenate([[0.0], np.cumsum(shares * (values - middle))])
    ends = np.linspace(0.0, reached[-1], MOST + 1)
    means = middle + np.diff(np.interp(ends, reached, sums)) / np.diff(ends)
    return np.clip(means, values[0], values[-1]), np.full(MOST, total / MOST)


# ---- Mean functions c(x) = E k(x, u) of RBF kernels in closed form ----


class Means(NamedTuple):
    """c(x), and what it changes by: ∂c/∂log ℓ and ∂c/∂x."""

    value: Any
    in_scale: Any
    in_point: Any


def _normal_means(x: Any, mean: float, std: float, scale: float, xp: Any) -> Means:
    square, wide = scale * scale, scale * scale + std * std
    gap = x - mean
    c = (scale / wide**0.5) * xp.exp(-0.5 * gap * gap / wide)
    in_scale = c * (std * std / wide + gap * gap * (square / wide**2))
    return Means(c, in_scale, -c * gap / wide)


def _uniform_means(x: Any, low: float, high: float, scale: float, xp: Any) -> Means:
    from scipy.special import erf

    erf = erf if xp is np else xp.erf
    unit, width = 2**0.5 * scale, high - low
    p, q = (x - low) / unit, (high - x) / unit
    c = (scale / width) * (math.pi / 2) ** 0.5 * (erf(p) + erf(q))
    ep, eq = xp.exp(-p * p), xp.exp(-q * q)
    return Means(c, c - (unit / width) * (p * ep + q * eq), (ep - eq) / width)


def _normal_mass(std: float, scale: float) -> tuple[float, float]:
    """Return v = E k(u, u′) and ∂v/∂log ℓ."""
    wide = scale * scale + 2 * std * std
    v = scale / wide**0.5
    return v, v * 2 * std * std / wide


def _uniform_mass(width: float, scale: float) -> tuple[float, float]:
    r = width / (2**0.5 * scale)
    bell = math.pi**0.5 * math.erf(r)
    v = (math.expm1(-r * r) + r * bell) / (r * r)
    return v, 2 * v - bell / r


# ---- Functions of mean zero ----


class ZeroMeanBound(CombinedBound):
    """Tiles k(x, y) − a(x)a(y) with a = c/√v."""

    fresh = plain = True

    def __init__(self, kernel: ZeroMean, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.mass = kernel._mass()
        self.rows = _Side(self, self.parts[0].collections[0])
        self.cols = self.rows if Y is None else _Side(self, self.parts[0].collections[1])

    def at(self, X: Any) -> Bound:
        """Return k at new points X; of Y the mean function is known."""
        new: Any = super().at(X)
        if new.rows is self.rows:
            new.rows = _Side(new, new.parts[0].collections[0])
        return new

    def follow(self, lead: Bound) -> None:
        """Take over the kind of array of another bound kernel."""
        super().follow(lead)
        self.rows.a, self.cols.a = self.asarray(self.rows.a), self.asarray(self.cols.a)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile, in the memory of the part's where that is its own."""
        tile = self.parts[0].tile(rows, cols)
        away = self.rows.a[rows][:, None] * self.cols.a[cols][None, :]
        own = self.writes_to(self.parts[0])
        tile = np.subtract(tile, away, out=tile) if own else tile - away
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            tile[diagonal] = tile[diagonal].clip(0.0)  # rounding, where a function is 0
        return tile

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile: of k, of both mean functions and of v."""
        return self._with_means(self.parts[0].pull_theta(rows, cols, C), rows, cols, C)

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> Any:
        """Return `pull_theta`, given the kernel values of the tile; those of k follow."""
        whole = tile + self.rows.a[rows][:, None] * self.cols.a[cols][None, :]
        pulled = self.parts[0].pull_theta_with(rows, cols, C, whole)
        return self._with_means(pulled, rows, cols, C)

    def _with_means(self, total: Any, rows: slice, cols: slice, C: Any) -> Any:
        if not self.mass.value or not len(self.kernel.theta):
            return total
        gx, gy = -(C @ self.cols.a[cols]), -(self.rows.a[rows] @ C)
        through_v = -float((gx * self.rows.a[rows]).sum()) / self.mass.value
        total = total + self.rows.pull_theta(rows, gx) + self.cols.pull_theta(cols, gy)
        return total + self._as_pulled(through_v * self.mass.slopes)

    def _as_pulled(self, values: np.ndarray) -> Any:
        return values if self.xp is np else self.xp.as_tensor(values, device=self._like.device)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ ∇ₓ(k(x, yⱼ) − a(x)a(yⱼ))."""
        pulled = self.parts[0].pull_points(rows, cols, C)
        if not self.mass.value:
            return pulled
        return pulled - self.rows.pull_points(rows, C @ self.cols.a[cols])


class Mass(NamedTuple):
    """v = E k(u, u′), 0 where it is none, and its derivatives in θ."""

    value: float
    slopes: np.ndarray


class _Side:
    """The mean function a = c/√v at the points of one side of a bound kernel."""

    def __init__(self, bound: ZeroMeanBound, X: Any):
        self.kernel, self.mass = bound.kernel, bound.mass
        self.X = X.toarray() if hasattr(X, "toarray") else X
        self._slopes: Any = None
        self.closed: Means | None = None
        self.root = self.mass.value**0.5
        n = bound.parts[0].kernel.domain.size(X)
        if not self.root:
            self.a = bound.zeros((n,))
            return
        if self.kernel.measure != "empirical":
            self.closed = self.kernel._closed(self.X)
            self.a = bound.asarray(self.closed.value / self.root)
            return
        part = self.kernel.kernel
        X, U = part.domain.match(self.X, _like(self.kernel._points(), self.X))
        self.seen = between(part, X, U)
        self.weights = self.seen.asarray(self.kernel.weights)
        self.every = slice(0, len(self.weights))
        step = max(1, ENTRIES // len(self.weights))
        sums = [
            self.seen.tile(slice(i, min(n, i + step)), self.every) @ self.weights
            for i in range(0, n, step)
        ]
        whole = bound.zeros((0,)) if not sums else sums[0]
        if len(sums) > 1:
            whole = np.concatenate(sums) if bound.xp is np else bound.xp.cat(sums)
        self.a = bound.asarray(whole / self.root)

    def pull_theta(self, some: slice, g: Any) -> Any:
        """Return Σᵢ gᵢ ∂cᵢ/∂θ/√v over some points."""
        if self.closed is not None:
            return (g * self.closed.in_scale[some]).sum().reshape(1) / self.root
        if self._slopes is None:
            self._slopes = self._by_rows()
        if self._slopes is not False:
            return (g @ self._slopes[some]) / self.root
        return self.seen.pull_theta(some, self.every, g[:, None] * self.weights) / self.root

    def _by_rows(self) -> Any:
        """Return ∂c/∂θ at each point, (n, p), of a radial kernel of numbers; False of others."""
        k, X = self.kernel.kernel, self.X
        if not isinstance(k, Radial) or type(X) is not np.ndarray or X.shape[1] > 1:
            return False
        u, w, n = self.kernel.nodes()[0][:, 0], self.kernel.weights, len(X)
        step = max(1, ENTRIES // len(u))
        parts = []
        for i in range(0, n, step):
            part = k.slopes_at_gaps(X[i : i + step].astype(np.float64) - u, w)
            if part is None:
                return False
            parts.append(part)
        return np.concatenate(parts) if parts else np.zeros((0, len(k.theta)))

    def pull_points(self, some: slice, g: Any) -> Any:
        """Return gᵢ ∇a at some points."""
        if self.closed is not None:
            return (g * self.closed.in_point[some] / self.root)[:, None]
        pulled = self.seen.pull_points(some, self.every, g[:, None] * self.weights)
        return pulled / self.root


def _like(points: Any, X: Any) -> Any:
    """Return numbers in the kind of those of X; other points as they are."""
    numbers = isinstance(points, np.ndarray) and points.dtype.kind == "f" and hasattr(X, "dtype")
    return beside(points, X) if numbers else points


class ZeroMean(Combination):
    r"""The kernel of the functions of mean zero among those of k.

    .. math:: \tilde k(x, x') = k(x, x') - \frac{c(x)\,c(x')}{v}, \qquad
        c(x) = \mathrm E\,k(x, u), \quad v = \mathrm E\,k(u, u')

    under a measure of the points. Every function f of its space has :math:`\mathrm E f(u) = 0`; a
    Gaussian process with this covariance is one with covariance k, given that its mean is 0
    (Durrande et al. 2013).

    *Valid when* always: it is k on the complement of one function, c. Characteristic where k is and
    depends on differences alone.

    Costs what k costs, and k of all points with those of the measure, 128 of them at most.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    measure : {"empirical", "normal", "uniform"}, default="empirical"
        That of the points: as in the data; or a normal or a uniform one of numbers, by the closed
        forms that `RBF` has.
    points : collection, or array of shape (2,), optional
        The points u of the empirical measure; mean and standard deviation of the normal; ends of
        the uniform. Taken from the data where they are not given. More than 128 numbers are taken
        in as many groups of equal weight, each at its mean.
    weights : array, optional
        The weights of the points u, which sum to 1; a point that occurs twice has twice the weight.

    See Also
    --------
    Additive : Sums of effects, made of such kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.kernels import ZeroMean
    >>> k = ZeroMean(RBF()).fit_params([[0.0], [1.0], [1.0]])
    >>> k.weights.round(3)
    array([0.333, 0.667])
    >>> f = k([[0.0], [1.0]], [[0.3]])[:, 0]  # a function of its space
    >>> bool(abs(f @ k.weights) < 1e-15)
    True
    """

    _parts = ("kernel",)
    _bound = ZeroMeanBound
    _pointwise = False

    def __init__(
        self,
        kernel: Kernel,
        measure: str = "empirical",
        points: Any = None,
        weights: Any = None,
    ):
        super().__init__(kernel=kernel, measure=measure, points=points, weights=weights)

    def _check_params(self) -> None:
        super()._check_params()
        check_measure(self.measure)
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                f"{who()}: a precomputed kernel does not say k(x, u) of new points; take the "
                "kernel itself."
            )
        if self.measure == "empirical":
            self._check_weights()
            return
        closed = type(self.kernel) is RBF and self.kernel.covariance is None
        if not closed or np.size(self.kernel.length_scale) > 1:
            raise InvalidInput(
                f"{who()}: measure={self.measure!r} is for RBF kernels of one column, and not for "
                f"{self.kernel}; take measure='empirical'."
            )
        if self.points is None:
            return
        try:
            a, b = map(float, self.points)
            good = math.isfinite(a) and math.isfinite(b) and b >= (0 if self._normal else a)
        except (OverflowError, TypeError, ValueError):
            good = False
        if not good:
            want = "mean and standard deviation" if self._normal else "both ends, low ≤ high"
            raise InvalidInput(f"{who()}: points={self.points!r}; give {want}: two numbers.")

    def _check_weights(self) -> None:
        if self.points is None and self.weights is None:
            return
        if self.points is None:
            raise InvalidInput(f"{who()}: weights without points; give both, or none.")
        if self.weights is None:
            return
        try:
            w: np.ndarray = np.asarray(self.weights, dtype=float)
            good = w.ndim == 1 and (w >= 0).all() and abs(w.sum() - 1) < 1e-6
            good = good and len(w) == self.kernel.domain.size(self._points())
        except (OverflowError, TypeError, ValueError):
            good = False
        if not good:
            raise InvalidInput(
                f"{who()}: weights={_short(self.weights)}; give one number ≥ 0 for each of points, "
                "with a sum of 1, or none for equal ones."
            )

    @property
    def _normal(self) -> bool:
        return self.measure == "normal"

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """As that of the kernel."""
        return self.kernel.domain

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """Where the kernel is, as one of differences: of two distributions neither is c alone."""
        return self.kernel.characteristic and stationary(self.kernel)

    def _words(self) -> list[str]:
        given = self.points is not None and (
            self.measure != "empirical" or self.weights is not None
        )
        return ([] if given else ["points"]) + super()._words()

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return the kernel with the measure, and the words of the kernel inside, taken from X."""
        if not self._asks():
            return self
        X = self.domain.check(X)
        inner = self.kernel.fit_params(X, sample_weight)
        return self._replace({"kernel": inner, **self._measured(X, sample_weight)})

    def _measured(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        domain = self.kernel.domain
        if self.points is not None:
            n = domain.size(self._points()) if self.measure == "empirical" else 0
            even = self.measure == "empirical" and self.weights is None
            return {"weights": np.full(n, 1.0 / n)} if even else {}
        w = point_weights(domain.size(X), sample_weight)
        if not (w > 0).any():
            raise InvalidInput(
                f"{self}: it has no points to take its measure from; give some rows."
            )
        if self.measure == "empirical":
            points, shares = distribution(domain, X, w)
            return {"points": points, "weights": shares}
        X = X.toarray() if hasattr(X, "toarray") else to_host(X)
        x = np.asarray(X, dtype=np.float64)
        if x.shape[1] != 1:
            raise InvalidInput(
                f"ZeroMean: measure={self.measure!r} is of one column, and X has {x.shape[1]}; put "
                "the kernel on one, by .on(column), or take measure='empirical'."
            )
        x, w = x[w > 0, 0], w[w > 0] / w.sum()
        if not self._normal:
            return {"points": np.array([x.min(), x.max()])}
        mean = float(w @ x)
        return {"points": np.array([mean, math.sqrt(float(w @ (x - mean) ** 2))])}

    def _points(self) -> Any:
        """Return the points of the empirical measure, in the form of the kernel's domain."""
        return self.kernel.domain.check(self.points, "points")

    def nodes(self) -> tuple[Any, np.ndarray]:
        """Return points and weights by which means under the measure are taken.

        Those of the empirical measure; of the others Gauss's, exact for smooth functions.

        Returns
        -------
        tuple of a collection and an array
            Points, and weights that sum to 1.
        """
        if self.measure == "empirical":
            return self._points(), np.asarray(self.weights, dtype=np.float64)
        a, b = map(float, self.points)
        if self._normal:
            t, w = np.polynomial.hermite_e.hermegauss(GAUSS)
            return (a + b * t)[:, None], w / w.sum()
        t, w = np.polynomial.legendre.leggauss(GAUSS)
        return (a + (b - a) * (0.5 + 0.5 * t))[:, None], 0.5 * w

    def _closed(self, X: Any) -> Means:
        """Return the mean function of an RBF kernel at points."""
        xp, scale = namespace(X), float(np.ravel(self.kernel.length_scale)[0])  # type: ignore[attr-defined]
        x = X[:, 0] if is_torch(X) else X[:, 0].astype(np.float64)
        a, b = map(float, self.points)
        if self._normal or a == b:
            return _normal_means(x, a, b if self._normal else 0.0, scale, xp)
        return _uniform_means(x, a, b, scale, xp)

    def _mass(self) -> Mass:
        """Return v = E k(u, u′), and its derivatives."""
        k = self.kernel
        if self.measure != "empirical":
            scale, (a, b) = float(np.ravel(k.length_scale)[0]), map(float, self.points)  # type: ignore[attr-defined]
            width = b if self._normal else b - a
            own = _uniform_mass if width and not self._normal else _normal_mass
            v, slope = own(width, scale)
            return Mass(v, np.array([slope]))
        U, w = self._points(), np.asarray(self.weights, dtype=np.float64)
        seen, every = between(k, U, k.domain.take(U, slice(None))), slice(0, len(w))
        v = float(w @ seen.tile(every, every) @ w)
        if not v > NOTHING * float(w @ k._diag(U)):
            return Mass(0.0, np.zeros(len(k.theta)))
        return Mass(v, seen.pull_theta(every, every, np.outer(w, w)))

    def __repr__(self) -> str:
        given, names = self.get_params(deep=False), ["kernel", "measure"]
        shown = [f"{name}={_short(given[name])}" for name in names]
        if self.points is not None and self.measure != "empirical":
            shown.append(f"points={_short(self.points)}")
        elif self.points is not None:
            n = self.domain.size(self._points())
            few = n <= FEW and isinstance(self.points, np.ndarray | list)
            shown.append(f"points={_short(self.points)}" if few else f"points=<{n} points>")
            if few and self.weights is not None:
                shown.append(f"weights={_short(self.weights)}")
        return f"ZeroMean({', '.join(shown)})"

    def _diag(self, X: Any) -> Any:
        bound: Any = self._bind(X)
        d = self.kernel._diag(bound.parts[0].collections[0]) - bound.rows.a**2
        return d.clip(0.0)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        bound: Any = self._bind(X)
        pulled = self.kernel._pull_diag(bound.parts[0].collections[0], c)
        v, a = bound.mass.value, bound.rows.a
        if not v or not len(self.theta):
            return pulled
        through_v = float((c * a * a).sum()) / v
        return (
            pulled
            - bound.rows.pull_theta(slice(0, len(a)), 2 * c * a)
            + through_v * bound.mass.slopes
        )


def check_measure(measure: Any) -> None:
    """Refuse what is none of the measures."""
    if measure not in MEASURES:
        raise InvalidInput(
            f"{who()}: measure={measure!r}; legal are {', '.join(map(repr, MEASURES))}."
        )
