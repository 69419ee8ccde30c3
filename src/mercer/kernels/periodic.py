"""Kernels of what repeats: the periodic kernel, an RBF on the circle, and mixtures of spectra."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_parameter, check_whole
from mercer.domains import Vectors, is_torch
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.metric import CANCELLATION
from mercer.kernels.spectral import Atom, Convolution, Independent, Mixture

SHORTEST = 1e-140  # a shorter length scale gives the same values, and ℓ² would underflow
MANY = 1e6  # turns squared beyond which their number is as good as Gaussian


class Periodic(Kernel):
    r"""Periodic kernel exp(−2 Σₖ sin²(π(xₖ−x′ₖ)/p)/ℓ²): one factor a coordinate.

    *Valid when* ℓ > 0 and p > 0.

    Parameters
    ----------
    length_scale : float, default=1.0
        The scale ℓ, in units of the circle.
    period : float, default=1.0
        The period p, in the units of x.

    Examples
    --------
    >>> from mercer import Periodic
    >>> Periodic(period=2.0)([[0.0], [1.0], [2.0]]).round(4)
    array([[1.    , 0.1353, 1.    ],
           [0.1353, 1.    , 0.1353],
           [1.    , 0.1353, 1.    ]])
    """

    _tunable = ("length_scale", "period")
    workspace = 6

    def __init__(self, length_scale: float = 1.0, period: float = 1.0):
        super().__init__(length_scale=length_scale, period=period)

    def _check_params(self) -> None:
        check_parameter("length_scale", self.length_scale, 0.0)
        check_parameter("period", self.period, 0.0)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PeriodicBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        if is_torch(X):
            return X.new_ones(len(X))
        return np.ones(X.shape[0], X.dtype)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.zeros(len(self.theta))

    def _spectral(self, columns: list) -> Independent:
        # exp(a cos t − a) = Σⱼ e^−a Iⱼ(a) cos jt, a = 1/ℓ²: j is the difference of two Poisson
        # variables of mean a/2 each (Skellam), and nearly Gaussian where a is large.
        from scipy.special import ndtri
        from scipy.stats import poisson

        a = 1.0 / max(float(self.length_scale), SHORTEST) ** 2

        def frequencies(U: np.ndarray) -> np.ndarray:
            if a > MANY:
                j = np.rint(np.sqrt(a) * ndtri(U[..., 0]))
            else:
                j = poisson.ppf(U[..., 0], a / 2) - poisson.ppf(U[..., 1], a / 2)
            return j * (2 * np.pi / float(self.period))

        return Independent(len(columns), frequencies, 2)


class PeriodicBound(Bound):
    """Tiles by 2 sin²(a−b) = 1 − cos 2a cos 2b − sin 2a sin 2b: one product.

    The product is off by some units of rounding; where a short length scale would let that show,
    the sines are taken of differences, column by column. Positions on the circle are remainders
    of x in float64: the remainder is exact, so that it does not matter how far out x is.
    """

    def __init__(self, kernel: Periodic, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        dense = [Z.toarray() if sp.issparse(Z) else Z for Z in (X, X if Y is None else Y)]
        wide = [Z.astype(np.float64) if self.xp is np else Z.double() for Z in dense]
        self._x, self._width = wide, X.shape[1]
        self._rest = [self.xp.fmod(Z, float(kernel.period)) for Z in wide]
        angles = [Z * (2 * np.pi / kernel.period) for Z in self._rest]
        self._cos = [self.narrow(self.xp.cos(a)) for a in angles]
        self._sin = [self.narrow(self.xp.sin(a)) for a in angles]
        self._circle = [self.xp.hstack([c, s]) for c, s in zip(self._cos, self._sin, strict=True)]
        self._scale = max(float(kernel.length_scale), SHORTEST)
        error = 2 * X.shape[1] * float(self.xp.finfo(self.dtype).eps) / self._scale**2
        self._exact = not error < CANCELLATION[str(self.dtype).rpartition(".")[2]]
        if self._exact:
            self.workspace = 2 * kernel.workspace  # differences are float64

    def _gap(self, rows: slice, cols: slice, k: int) -> Any:
        """Return xₖ−yₖ on a tile, less the nearest number of periods."""
        gap = self._rest[0][rows, k][:, None] - self._rest[1][cols, k][None, :]
        return gap - self.kernel.period * self.xp.round(gap / self.kernel.period)

    def distance(self, rows: slice, cols: slice) -> Any:
        """Return u = 2 Σₖ sin²(π(xₖ−yₖ)/p), exactly 0 on the diagonal."""
        d = self._width
        if self._exact:
            u: Any = 0.0
            for k in range(d):
                half = self.xp.sin(self._gap(rows, cols, k) * (np.pi / self.kernel.period))
                u = u + 2 * half * half
            return u
        u = (d - self._circle[0][rows] @ self._circle[1][cols].T).clip(0)
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            u[diagonal] = 0
        return u

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return exp(−u/ℓ²) on a tile."""
        return self.narrow(self.xp.exp(-self._scaled(rows, cols)))

    def _scaled(self, rows: slice, cols: slice) -> Any:
        return self.distance(rows, cols) / self._scale**2

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the derivatives in log ℓ and log p."""
        scale = self._scale
        v = self._scaled(rows, cols)
        G = C * self.xp.exp(-v)  # ∂K/∂v = −G, v = u/ℓ²
        in_length = 2 * (G * v).sum()
        # ∂u/∂log p = −Σₖ sin(aₖ−bₖ)(aₖ−bₖ), a and b the angles 2πx/p and 2πy/p.
        turn = 2 * np.pi / self.kernel.period
        sums = self.zeros((1,), wide=True)
        for k in range(self._width):
            gap = self._x[0][rows, k][:, None] - self._x[1][cols, k][None, :]
            sine = self.xp.sin(self._gap(rows, cols, k) * turn)
            sums += (G * (sine / scale) * (gap * turn / scale)).sum()
        out = self.zeros((2,), wide=True)
        out[0], out[1] = in_length, sums[0]
        return out

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ ∇ₓ k: ∂u/∂xₖ = (2π/p) sin(aₖ−bₖ)."""
        turn, scale = 2 * np.pi / self.kernel.period, self._scale
        G = C * self.xp.exp(-self._scaled(rows, cols)) * (-turn / scale)
        if self._exact:
            sines = (self.xp.sin(self._gap(rows, cols, k) * turn) for k in range(self._width))
            return self.xp.stack([(G * (sine / scale)).sum(1) for sine in sines], 1)
        # sin(a−b) = sin a cos b − cos a sin b
        G = G / scale
        sin_a, cos_a = self._sin[0][rows], self._cos[0][rows]
        return sin_a * (G @ self._cos[1][cols]) - cos_a * (G @ self._sin[1][cols])


# ---- mixtures of spectra ----


MOST_ROWS = 2000  # that a periodogram is made of
FREQUENCIES, TOGETHER = 4096, 128  # at most, at which it is looked at, so many at once


class SpectralMixture(Kernel):
    r"""Mixture of Gaussian spectra Σ_q w_q Πₖ exp(−2π²s²τ²) cos(2πfτ), τ = xₖ − x′ₖ.

    Each component q is a wave of frequency f in each column that loses its phase over a distance of
    1/2πs; its spectral density is Gaussian around ±f with the standard deviation s. Sums of them
    come near to any stationary kernel.

    *Valid when* w, f and s > 0. Characteristic.

    Parameters
    ----------
    weights : array of shape (q,), default=(1.0,)
        The variances w of the components.
    frequencies : array of shape (q,), (q, d) or (q·d,), default=(1.0,)
        The frequencies f, waves for each unit of x: of a component the same for all columns, or
        one for each of d columns, component after component.
    bandwidths : array of shape (q,), (q, d) or (q·d,), default=(0.1,)
        The standard deviations s of the frequencies.

    See Also
    --------
    SpectralMixture.from_data : Starts that a search can find the way from.

    References
    ----------
    Wilson and Adams, "Gaussian process kernels for pattern discovery and extrapolation", 2013.

    Examples
    --------
    >>> from mercer import SpectralMixture
    >>> k = SpectralMixture([1.0, 0.5], frequencies=[0.5, 2.0], bandwidths=[0.01, 0.01])
    >>> k([[0.0], [1.0], [2.0]]).round(2)
    array([[ 1.5 , -0.5 ,  1.49],
           [-0.5 ,  1.5 , -0.5 ],
           [ 1.49, -0.5 ,  1.5 ]])
    """

    characteristic = True
    _tunable = ("weights", "frequencies", "bandwidths")
    workspace = 12

    def __init__(self, weights: Any = (1.0,), frequencies: Any = (1.0,), bandwidths: Any = (0.1,)):
        frequencies, bandwidths = (
            np.ravel(value) if np.ndim(value) == 2 else value for value in (frequencies, bandwidths)
        )
        super().__init__(weights=weights, frequencies=frequencies, bandwidths=bandwidths)

    @classmethod
    @speaks
    def from_data(cls, X: Any, y: Any, n_components: int = 3) -> Self:
        """Return a mixture to start from: the largest peaks of the periodogram of y.

        The evidence of such a kernel has a hill for each wave in y, and a search climbs the one it
        starts at. Peaks are found one after another, each in what the waves before it leave; the
        weights add up to 1, as a `GaussianProcessRegressor` expects that normalises y, and each
        wave keeps its phase over half of the range of x.

        Parameters
        ----------
        X : array of shape (n, d)
            Points. Of several columns each has a periodogram of its own.
        y : array of shape (n,)
            Their targets.
        n_components : int, default=3
            How many waves.

        Returns
        -------
        SpectralMixture
            With n_components waves, or fewer where less is left of y than rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import SpectralMixture
        >>> t = np.arange(100.0)[:, None]
        >>> y = np.sin(2 * np.pi * t[:, 0] / 25) + 0.3 * np.sin(2 * np.pi * t[:, 0] / 7)
        >>> k = SpectralMixture.from_data(t, y, 2)
        >>> (1 / k.frequencies).round()
        array([25.,  7.])
        """
        check_whole("n_components", n_components, 1)
        X = Vectors().check(X)
        X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
        try:
            z = np.asarray(y, dtype=float)
        except (TypeError, ValueError):
            z = np.zeros((0, 0))
        if z.shape != (len(X),) or not np.isfinite(z).all():
            raise InvalidInput(
                f"{who()}: y has shape {z.shape} for {len(X)} points; give one finite number for "
                "each."
            )
        if not z.size or np.ptp(z) == 0 or not np.ptp(X, axis=0).all():
            raise InvalidInput(
                f"{who()}: y or a column of X is constant, which has no frequency; leave the "
                "column out, or use RBF."
            )
        z = (z - z.mean()) / z.std()
        found = [_peaks(column, z, n_components) for column in X.T]
        count = min(len(peaks) for peaks in found)
        table = np.array([peaks[:count] for peaks in found])  # columns, components, (f, power)
        weights = table[:, :, 1].mean(axis=0)
        span = np.broadcast_to(np.ptp(X, axis=0), (count, X.shape[1]))
        return cls(weights / weights.sum(), table[:, :, 0].T, 1 / (np.pi * span))

    def _check_params(self) -> None:
        sizes = {}
        for name in self._tunable:
            given = getattr(self, name)
            try:
                value = np.atleast_1d(np.asarray(given, dtype=float))
                good = value.ndim == 1 and value.size and np.isfinite(value).all()
                good = good and (value > 0).all() and not isinstance(given, str | bool)
            except (TypeError, ValueError):
                good = False
            if not good:
                raise InvalidInput(f"{who()}: {name}={given!r}; give one or more numbers > 0.")
            sizes[name] = value.size
        count = sizes["weights"]
        for name in ("frequencies", "bandwidths"):
            if sizes[name] % count:
                raise InvalidInput(
                    f"{who()}: {sizes[name]} {name} for {count} weights; give one for each, or one "
                    "for each and each column."
                )

    def _by_column(self, name: str, d: int) -> np.ndarray:
        """Return frequencies or bandwidths of shape (q, d)."""
        value = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
        each = value.reshape(np.size(self.weights), -1)
        if each.shape[1] not in (1, d):
            raise InvalidInput(
                f"{self}: {name} are of {each.shape[1]} columns, and X has {d}; give "
                f"{len(each)} of them, or {len(each)} × {d}."
            )
        return np.broadcast_to(each, (len(each), d))

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return SpectralMixtureBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        self._by_column("frequencies", X.shape[1])  # refuses what is of other columns
        total = float(np.sum(self.weights))
        if is_torch(X):
            return X.new_full((len(X),), total)
        return np.full(X.shape[0], total, X.dtype)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        out = np.zeros(len(self.theta))
        weights = np.atleast_1d(np.asarray(self.weights, dtype=np.float64))
        out[: len(weights)] = weights * float(np.sum(np.asarray(c)))
        return out

    def _spectral(self, columns: list) -> Mixture:
        from scipy.special import ndtri

        d = len(columns)
        f, s = self._by_column("frequencies", d), self._by_column("bandwidths", d)

        def part(q: int, weight: float) -> Convolution:
            def frequencies(U: np.ndarray) -> np.ndarray:
                side = np.where(U[..., 1] < 0.5, -1.0, 1.0)
                return 2 * np.pi * (side * f[q] + s[q] * ndtri(U[..., 0]))

            return Convolution([Atom(weight, d), Independent(d, frequencies, 2)])

        return Mixture([part(q, float(w)) for q, w in enumerate(np.atleast_1d(self.weights))])


class SpectralMixtureBound(Bound):
    """Tiles by differences of coordinates, in float64, so that it does not matter how far x is."""

    def __init__(self, kernel: SpectralMixture, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        dense = [Z.toarray() if sp.issparse(Z) else Z for Z in (X, X if Y is None else Y)]
        self._x = [Z.astype(np.float64) if self.xp is np else Z.double() for Z in dense]
        self._d = X.shape[1]
        self._w = np.atleast_1d(np.asarray(kernel.weights, dtype=np.float64))
        self._f = 2 * np.pi * kernel._by_column("frequencies", self._d)
        self._s = 2 * np.pi * kernel._by_column("bandwidths", self._d)
        self.workspace = kernel.workspace + 4 * self._d

    def _gaps(self, rows: slice, cols: slice) -> list:
        x, y = self._x
        return [x[rows, k][:, None] - y[cols, k][None, :] for k in range(self._d)]

    def _fade(self, q: int, gaps: list, like: Any) -> Any:
        """Return w·exp(−½ Σₖ (2πsₖτₖ)²)."""
        square: Any = 0.0 * like
        for k, gap in enumerate(gaps):
            square = square + (float(self._s[q, k]) * gap) ** 2
        return float(self._w[q]) * self.xp.exp(-0.5 * square)

    def _waves(self, q: int, gaps: list) -> list:
        return [self.xp.cos(float(self._f[q, k]) * gap) for k, gap in enumerate(gaps)]

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return k on a tile."""
        gaps, out = self._gaps(rows, cols), self._nothing(rows, cols)
        for q in range(len(self._w)):
            out = out + reduce(mul, self._waves(q, gaps), self._fade(q, gaps, out))
        return self.narrow(out)

    def _nothing(self, rows: slice, cols: slice) -> Any:
        shape = len(self._x[0][rows]), len(self._x[1][cols])
        return self.zeros(shape, wide=True)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the derivatives in log w, log f and log s."""
        gaps, nothing = self._gaps(rows, cols), self._nothing(rows, cols)
        count, d = self._f.shape
        parts = [self.zeros((count,), True), self.zeros((count, d), True)]
        in_weights, in_waves, in_bands = *parts, self.zeros((count, d), True)
        for q in range(count):
            fade, waves = C * self._fade(q, gaps, nothing), self._waves(q, gaps)
            whole = reduce(mul, waves, fade)
            in_weights[q] = whole.sum()
            for k, gap in enumerate(gaps):
                in_bands[q, k] = -(whole * (float(self._s[q, k]) * gap) ** 2).sum()
                turn = float(self._f[q, k]) * gap
                rest = reduce(mul, waves[:k] + waves[k + 1 :], fade)
                in_waves[q, k] = -(rest * self.xp.sin(turn) * turn).sum()
        out = [in_weights]
        for name, part in (("frequencies", in_waves), ("bandwidths", in_bands)):
            alike = np.size(getattr(self.kernel, name)) == count  # one for all columns
            out.append(part.sum(1) if alike else part.reshape(-1))
        return np.concatenate(out) if self.xp is np else self.xp.cat(out)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ ∇ₓ k."""
        gaps, nothing = self._gaps(rows, cols), self._nothing(rows, cols)
        slopes: list[Any] = [0.0] * self._d
        for q in range(len(self._w)):
            fade, waves = C * self._fade(q, gaps, nothing), self._waves(q, gaps)
            whole = reduce(mul, waves, fade)
            for k, gap in enumerate(gaps):
                f, s = float(self._f[q, k]), float(self._s[q, k])
                rest = reduce(mul, waves[:k] + waves[k + 1 :], fade)
                slope = whole * (s * s) * gap + rest * f * self.xp.sin(f * gap)
                slopes[k] = slopes[k] - slope.sum(1)
        return self.narrow(self.xp.stack(slopes, 1))


def _peaks(x: np.ndarray, z: np.ndarray, count: int) -> list[tuple[float, float]]:
    """Return frequencies of the largest waves in z, and the mean square of each."""
    if len(x) > MOST_ROWS:
        rows = np.linspace(0, len(x) - 1, MOST_ROWS).astype(int)
        order = np.argsort(x, kind="stable")[rows]
        x, z = x[order], z[order]
    span, gaps = float(np.ptp(x)), np.diff(np.unique(x))
    highest = max(0.5 / float(np.median(gaps)), 1.0 / span)
    step = max(0.25 / span, highest / FREQUENCIES)
    grid, rest = np.arange(0.5 / span, highest + step, step), z.copy()
    found: list[tuple[float, float]] = []
    for _ in range(count):
        f = _peak(grid, x, rest)
        f = _peak(np.maximum(f + step * np.linspace(-1, 1, 41), 0.25 / span), x, rest)
        waves = np.column_stack([np.cos(2 * np.pi * f * x), np.sin(2 * np.pi * f * x)])
        wave = waves @ np.linalg.lstsq(waves, rest, rcond=None)[0]
        if found and np.mean(wave**2) < 1e-12:
            break
        found.append((f, float(np.mean(wave**2))))
        rest = rest - wave
    return found


def _peak(grid: np.ndarray, x: np.ndarray, z: np.ndarray) -> float:
    """Return the frequency of a grid of which z holds most."""
    parts = np.array_split(grid, 1 + len(grid) // TOGETHER)
    power = [np.abs(np.exp(-2j * np.pi * np.outer(part, x)) @ z) for part in parts]
    return float(grid[np.argmax(np.concatenate(power))])
