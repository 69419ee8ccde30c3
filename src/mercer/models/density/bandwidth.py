"""Bandwidths: a number, one a column, or a matrix H, as a map that makes all of them a number.

A density smoothed by H is κ(H⁻¹(x − xᵢ))/|H|. Points are whitened, z = H⁻¹(x − centre) up to a
rotation, and from then on the bandwidth is 1. The rim of a kernel of bounded support asks for more:
there points one bandwidth apart must not be in or out by rounding. So of a number h the power of
two next to it is taken out, without rounding, and what is left of h stays a bandwidth.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from mercer.domains import Vectors, moderate
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels import RBF, Matern
from mercer.models.density.norms import (
    FAR,
    as_metric,
    directions,
    distances,
    log_sphere,
    log_sums_by,
    mean_square,
    nearest,
    order_of,
)
from mercer.operators import log_sums, nearest_squares, rim

# ---- Smoothing kernels: radial densities κ(u) = c φ(‖u‖²) on ℝᵈ, normalised for every d ----
# ∫κ = 1, ∫uκ = 0 and ∫uuᵀκ is a positive multiple of the identity. In one dimension these are the
# kernels of the textbooks; in several they are spheres, not products, as scikit-learn's are. Other
# norms have other balls, and "product" is the product of the kernels of the line.


#: Names of smoothing kernels; "linear" is another name of "triangular".
SMOOTHINGS = (
    "gaussian",
    "epanechnikov",
    "tophat",
    "triangular",
    "biweight",
    "cosine",
    "exponential",
)
_ALIASES = {"linear": "triangular"}
#: Kernels of which the product over the columns is radial in a norm.
_PRODUCTS = {"gaussian": "euclidean", "exponential": "manhattan", "tophat": "chebyshev"}
TERMS = 24  # of the series of ∫ rᵈ⁻¹ cos(πr/2): more than floats can tell apart


class Smoothing:
    """A density κ(u) = c φ(‖u‖²) on ℝᵈ with φ(0) = 1, or the product of c φ(uₖ²).

    Attributes
    ----------
    name : str
        Its name.
    metric : str or float
        The norm, see `norms`; products that are radial in a norm have the name of that.
    code : int
        Its number in compiled loops: its place in `SMOOTHINGS`.
    radius : float
        κ(u) = 0 for ‖u‖ ≥ radius: 1, or infinity for "gaussian" and "exponential". So the rim of
        the ball is outside, as scikit-learn has it.
    domain : Vectors
        What it is a density of.
    """

    def __init__(self, name: str, metric: str | float = "euclidean"):
        self.name = name
        self.metric = _PRODUCTS.get(name, metric) if metric == "product" else metric
        self.code = SMOOTHINGS.index(name)
        self.radius = math.inf if name in ("gaussian", "exponential") else 1.0
        self.domain = Vectors()

    def __repr__(self) -> str:
        return f"Smoothing({self.name!r})"

    @property
    def compact(self) -> bool:
        """Whether κ is 0 outside a ball."""
        return self.radius < math.inf

    def profile(self, s: Any, bandwidth: float = 1.0) -> np.ndarray:
        """Return φ(s/h²) at squared lengths s ≥ 0.

        Parameters
        ----------
        s : array
            Squared lengths ‖u‖².
        bandwidth : float, default=1
            h. A length √s, rounded, that is not below h is outside of a bounded support.
        """
        s = np.asarray(s, dtype=float)
        if not self.compact:
            return np.exp(self.log_profile(s, bandwidth))
        inside = s < rim(bandwidth)
        if self.name == "tophat":
            return inside.astype(float)
        t = np.where(inside, np.minimum(s / bandwidth**2, 1.0), 1.0)
        if self.name == "triangular":
            return 1.0 - np.sqrt(t)
        if self.name == "cosine":
            return np.where(t < 1.0, np.cos(0.5 * math.pi * np.sqrt(t)), 0.0)
        return (1.0 - t) ** (1 if self.name == "epanechnikov" else 2)

    def log_profile(self, s: Any, bandwidth: float = 1.0) -> np.ndarray:
        """Return log φ(s/h²); −inf outside the support, without a warning."""
        s = np.asarray(s, dtype=float)
        if self.name == "gaussian":
            return s * (-0.5 / bandwidth**2)
        if self.name == "exponential":
            return np.sqrt(s) * (-1.0 / bandwidth)
        with np.errstate(divide="ignore"):
            return np.log(self.profile(s, bandwidth))

    def fall(self, s: np.ndarray, values: np.ndarray, bandwidth: float) -> np.ndarray:
        """Return −2 dφ(s/h²)/ds at squared lengths s, where φ has these values, or multiples.

        Multiples of φ, the same along a row, are for kernels of unbounded support; a kernel with a
        tip has no slope there, and 0 stands for it.
        """
        if self.name == "gaussian":
            return values / bandwidth**2
        r = np.sqrt(s)
        inverse = np.divide(1.0 / bandwidth, r, out=np.zeros_like(r), where=r > 0)
        if self.name == "exponential":
            return values * inverse
        if self.name == "triangular":
            return np.where(values > 0, inverse, 0.0)
        if self.name == "cosine":
            turned = np.sinc(0.5 * np.minimum(r / bandwidth, 1.0))  # sin(πr/2h)/(πr/2h)
            return np.where(values > 0, (0.5 * math.pi / bandwidth) ** 2 * turned, 0.0)
        power = self._power  # φ = (1 − u)ᵖ
        root = np.sqrt(values) if power == 2 else np.where(values > 0, 1.0, 0.0)
        return 2.0 * power / bandwidth**2 * root

    def log_normaliser(self, d: int) -> float:
        """Return log c in d dimensions: ∫ c φ(‖u‖²) du = 1.

        In polar coordinates the integral is 2πᵈᐟ²/Γ(d/2) ∫ rᵈ⁻¹ φ(r²) dr; in other norms dV, with V
        the volume of the ball, is in place of the first factor.
        """
        if self.metric == "product":
            return d * Smoothing(self.name).log_normaliser(1)
        if self.metric == "euclidean":
            sphere = math.log(2.0) + 0.5 * d * math.log(math.pi) - gammaln(0.5 * d)
        else:
            sphere = log_sphere(order_of(self.metric), d)
        return -float(sphere + self._log_radial(d))

    def _log_radial(self, d: int) -> float:
        """Return log ∫ rᵈ⁻¹ φ(r²) dr."""
        if self.name == "gaussian":
            return (0.5 * d - 1) * math.log(2.0) + float(gammaln(0.5 * d))
        if self.name == "exponential":
            return float(gammaln(d))
        if self.name == "triangular":
            return float(betaln(d, 2))
        if self.name == "cosine":
            # With t = 1 − r: ∫ (1−t)ᵈ⁻¹ sin(πt/2) dt, the sine as a series; no term is larger
            # than the one before it, so nothing is lost for any d.
            k = np.arange(TERMS)
            logs = (2 * k + 1) * math.log(0.5 * math.pi) + gammaln(d) - gammaln(2 * k + 2 + d)
            terms = np.where(k % 2, -1.0, 1.0) * np.exp(logs - logs[0])
            return float(logs[0] + np.log(terms.sum()))
        return float(betaln(0.5 * d, self._power + 1) - math.log(2.0))

    def deviation(self, d: int) -> float:
        """Return the standard deviation of one coordinate of a draw of κ in d dimensions.

        The mean of ‖u‖² is the ratio of ∫ rᵈ⁺¹ φ(r²) dr and ∫ rᵈ⁻¹ φ(r²) dr, and d coordinates
        share it. In other norms the share is that of a draw from the ball.
        """
        if self.metric == "product":
            return Smoothing(self.name).deviation(1)
        mean = math.exp(self._log_radial(d + 2) - self._log_radial(d))
        if self.metric == "euclidean":
            return math.sqrt(mean / d)
        return math.sqrt(mean * mean_square(order_of(self.metric), d))

    @property
    def _power(self) -> int:
        """p of φ(s) = (1 − s)ᵖ."""
        return {"tophat": 0, "epanechnikov": 1, "biweight": 2}[self.name]

    def sample(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        """Return n independent draws of κ as rows.

        A direction at random times a length of density ∝ rᵈ⁻¹ φ(r²).
        """
        if self.metric == "product":
            return np.hstack([Smoothing(self.name).sample(rng, n, 1) for _ in range(d)])
        if self.metric != "euclidean":
            U = directions(rng, n, d, order_of(self.metric))
            return U * self._lengths(rng, n, d)[:, None]
        U = rng.standard_normal((n, d))
        if self.name == "gaussian":
            return U
        length = np.sqrt(np.einsum("ij,ij->i", U, U))
        length[length == 0] = 1.0
        return U * (self._lengths(rng, n, d) / length)[:, None]

    def _lengths(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        if self.name == "gaussian":
            return np.sqrt(2.0 * rng.gamma(0.5 * d, size=n))
        if self.name == "exponential":
            return rng.gamma(d, size=n)
        if self.name == "triangular":
            return rng.beta(d, 2.0, size=n)
        if self.name == "cosine":
            # Rejection from the parabola: cos(πr/2)/(1 − r²) is between π/4 and 1.
            out = np.empty(n)
            todo = np.arange(n)
            while len(todo):
                s = rng.beta(0.5 * d, 2.0, size=len(todo))
                r = np.sqrt(s)
                taken = rng.random(len(todo)) * (1.0 - s) <= np.cos(0.5 * math.pi * r)
                out[todo[taken]] = r[taken]
                todo = todo[~taken]
            return out
        return np.sqrt(rng.beta(0.5 * d, self._power + 1.0, size=n))

    # -- pairs of points ----------------------------------------------------------------------
    def tile(
        self, Q: np.ndarray, X: np.ndarray, bandwidth: float, slopes: bool
    ) -> tuple[np.ndarray, Any]:
        """Return log κ/c of all pairs of rows, and the derivatives by log h where asked for."""
        if self.metric == "product":
            with np.errstate(over="ignore"):
                squares = [
                    np.minimum(np.subtract.outer(q, x) ** 2, FAR)
                    for q, x in zip(Q.T, X.T, strict=True)
                ]
        else:
            squares = [distances(Q, X, order_of(self.metric)) ** 2]
        logs, ratios = np.zeros(squares[0].shape), np.zeros(squares[0].shape) if slopes else None
        for s in squares:
            values = self.profile(s, bandwidth) if self.compact else np.ones_like(s)
            with np.errstate(divide="ignore"):
                logs += np.log(values) if self.compact else self.log_profile(s, bandwidth)
            if slopes:
                rise = s * self.fall(s, values, bandwidth)
                ratios += np.divide(rise, values, out=np.zeros_like(s), where=values > 0)
        return logs, ratios

    def log_sums(
        self,
        Q: Any,
        X: np.ndarray,
        w: Any,
        *,
        radius: float,
        slopes: bool = False,
        frame: Any = None,
    ) -> Any:
        """Return `mercer.operators.log_sums` in the metric of the kernel."""
        if self.metric == "euclidean" or X.shape[1] == 1:
            return log_sums(Q, X, w, self.code, radius=radius, slopes=slopes, frame=frame)
        tile = partial(self.tile, bandwidth=radius, slopes=slopes)
        return log_sums_by(tile, Q, X, w, slopes, frame)

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """Return the distance of each row to the nearest other one."""
        if self.metric == "euclidean":
            return np.sqrt(nearest_squares(X))
        return nearest(X, order_of(self.metric))

    def distances(self, Q: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the distances of all pairs of rows."""
        return distances(Q, X, order_of(self.metric))

    def heights(self, Z: np.ndarray) -> np.ndarray:
        """Return κ/c at rows."""
        if self.metric == "euclidean":
            return self.profile(np.einsum("ij,ij->i", Z, Z))
        return np.exp(self.tile(Z, np.zeros((1, Z.shape[1])), 1.0, False)[0][:, 0])


def is_smoothing(name: Any) -> bool:
    """Whether this is the name of a smoothing kernel."""
    return isinstance(name, str) and _ALIASES.get(name, name) in SMOOTHINGS


@speaks("KernelDensity", unless_spoken=True)
def smoothing(name: Any, metric: Any = "euclidean") -> Smoothing:
    """Return the smoothing kernel of that name, in that metric."""
    if isinstance(name, Smoothing):
        return name
    if not is_smoothing(name):
        rbf = isinstance(name, RBF) or (isinstance(name, str) and name == "rbf")
        known = "gaussian" if rbf else None
        if isinstance(name, Matern):
            known = {0.5: "exponential", math.inf: "gaussian"}.get(
                name.get_params(deep=False)["nu"]
            )
        same = f" It is kernel={known!r}, with the length scale as bandwidth." if known else ""
        raise InvalidInput(
            f"{who()}: kernel={name!r} is no smoothing kernel; give one of "
            f"{', '.join(repr(n) for n in SMOOTHINGS)}.{same}"
        )
    return Smoothing(_ALIASES.get(name, name), as_metric(metric))


# ---- bandwidth ----


#: Rules that make a bandwidth from the data.
RULES = ("scott", "silverman")
ASYMMETRY = 1e-10  # relative, beyond which a matrix is not taken for symmetric
HUGE = 2.0**1021  # whitened coordinates stop here: differences of theirs are numbers
ALONE = 1e-9  # rows more than one, up to which one row has all of the weight
MOST = 1e300  # rows, beyond which numbers of rows are alike


@dataclass(frozen=True, eq=False)
class Bandwidth:
    """A bandwidth H on ℝᵈ."""

    value: Any
    d: int

    def __post_init__(self) -> None:
        if np.ndim(self.value) == 2:
            # ‖H⁻¹u‖ = ‖Λ⁻¹Vᵀu‖ for H = VΛVᵀ: the rotation V need not be undone.
            lengths, axes = np.linalg.eigh(self.value)
            object.__setattr__(self, "_lengths", lengths)
            object.__setattr__(self, "_axes", axes)

    @property
    def log_det(self) -> float:
        """log |H|."""
        if np.ndim(self.value) == 0:
            return self.d * math.log(self.value)
        lengths = self._lengths if np.ndim(self.value) == 2 else self.value  # type: ignore[attr-defined]
        return float(np.log(lengths).sum())

    def whiten(self, X: np.ndarray, centre: Any = 0.0) -> np.ndarray:
        """Return coordinates of rows in which H is 1, up to a rotation.

        Parameters
        ----------
        X : array of shape (n, d)
            Rows.
        centre : float or array of shape (d,), default=0
            Subtracted first; give the same one for all rows that are to be compared.
        """
        with np.errstate(over="ignore"):
            Z = X - centre
            if np.ndim(self.value) == 2:
                # A product of huge entries may be inf − inf: keep them from overflowing.
                (Z,), shift = moderate([np.clip(Z, -HUGE, HUGE)])
                Z = np.ldexp((Z @ self._axes) / self._lengths, shift)  # type: ignore[attr-defined]
            else:
                Z /= self.value
        return np.clip(Z, -HUGE, HUGE, out=Z)

    def frame(self, kernel: Smoothing, X: np.ndarray) -> Frame:
        """Return coordinates in which the bandwidth is a number."""
        H = np.asarray(self.value, dtype=float)
        h = float(H.flat[0])
        if not (kernel.compact and (H.size == 1 or (H.ndim == 1 and np.all(h == H)))):
            return Frame(self, centre_of(X), 1.0)
        power = max(math.frexp(h)[1], -1000)
        return Frame(Bandwidth(2.0**power, self.d), 0.0, math.ldexp(h, -power))

    def spread(self, U: np.ndarray) -> np.ndarray:
        """Return H u for the rows u of U."""
        return U @ self.value if np.ndim(self.value) == 2 else U * self.value

    def pull(self, G: np.ndarray) -> np.ndarray:
        """Return gradients by x, of shape (m, d, t), of gradients by whitened coordinates."""
        if np.ndim(self.value) == 2:
            return self._axes @ (G / self._lengths[:, None])  # type: ignore[attr-defined]
        return G / np.broadcast_to(np.asarray(self.value, dtype=float), (self.d,))[:, None]

    def scaled(self, factor: float) -> Bandwidth:
        """Return the bandwidth times a number."""
        return Bandwidth(_plain(np.multiply(self.value, factor)), self.d)


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates in which a bandwidth is a number."""

    unit: Bandwidth
    centre: Any
    radius: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows."""
        return self.unit.whiten(X, self.centre)


@speaks("KernelDensity", unless_spoken=True)
def as_bandwidth(
    bandwidth: Any,
    X: np.ndarray,
    weights: np.ndarray | None = None,
    kernel: Smoothing | None = None,
) -> Bandwidth:
    """Return the bandwidth that a parameter asks for on these rows.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "scott" or "silverman"
        A number, one a column, a symmetric positive definite matrix, or a rule.
    X : array of shape (n, d)
        Rows, finite.
    weights : array of shape (n,), optional
        Repetitions of the rows.
    kernel : Smoothing, optional
        What a rule is to find a bandwidth for; by default the gaussian.
    """
    d = X.shape[1]
    if not isinstance(bandwidth, str):
        return Bandwidth(_checked(bandwidth, d), d)
    check_word(bandwidth)
    scales, total = column_scales(X, weights, bandwidth)
    with np.errstate(over="ignore", under="ignore"):
        value = rule_factor(bandwidth, total, d, kernel) * scales
    if not np.isfinite(value).all():
        raise InvalidInput(f"{who()}: bandwidth={bandwidth!r} overflows; scale the columns.")
    if not (value > 0).all():
        raise InvalidInput(f"{who()}: bandwidth={bandwidth!r} underflows; scale the columns.")
    return Bandwidth(float(value[0]) if d == 1 else value, d)


def check_word(bandwidth: str, *more: str) -> None:
    """Refuse a word that is no bandwidth."""
    if bandwidth not in (*RULES, "loo", *more):
        legal = ", ".join(map(repr, (*RULES, "loo", *more)))
        raise InvalidInput(f"{who()}: bandwidth={bandwidth!r}; give {legal}, or numbers > 0.")


def centre_of(X: np.ndarray) -> np.ndarray:
    """Return a point near the middle of the rows, of few digits.

    Distances of rows far from 0 keep their digits when it is subtracted first, and whole numbers
    stay whole: it is a multiple of the power of two next to the width of the column.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        width = high - low
        middle = 0.5 * low + 0.5 * high
        unit = np.ldexp(1.0, np.frexp(np.where(width > 0, width, 1.0))[1])
        steps = np.rint(middle / unit)
        centre = steps * unit
    return np.where(np.isfinite(width) & np.isfinite(centre), centre, 0.0)


def rule_factor(rule: str, total: float, d: int, kernel: Smoothing | None = None) -> float:
    """Return what a rule multiplies the standard deviations with.

    n^(−1/(d+4)) for Scott's rule, (n(d+2)/4)^(−1/(d+4)) for Silverman's: of least mean squared
    error for normal data and the gaussian kernel. Other kernels are to smooth as widely as the
    gaussian does: over the standard deviation of a coordinate of κ, which is 1 for the gaussian.
    """
    n = total if rule == "scott" else total * (d + 2) / 4
    return float(n ** (-1 / (d + 4))) / (1.0 if kernel is None else kernel.deviation(d))


def row_number(weights: np.ndarray) -> float:
    """Return the number of rows that weighted rows count for, (Σw)²/Σ w min(1, w).

    Of whole weights it is their sum, as a weight of 2 is a row given twice. Of weights below 1,
    such as shares, it is Kish's effective number, which does not depend on their scale.
    """
    size = float(weights.max())
    share, least = weights / size, np.minimum(weights, 1.0) / min(1.0, size)
    total = float(share.sum())
    return min(total / float(share @ least) * total * max(1.0, size), MOST)


def sums_of_others(values: np.ndarray) -> np.ndarray:
    """Return for each row the sum of the other rows; nothing is subtracted, so nothing cancels."""
    out = np.zeros_like(values)
    out[1:] = np.cumsum(values[:-1], axis=0)
    out[:-1] += np.cumsum(values[:0:-1], axis=0)[::-1]
    return out


def column_scales(X: np.ndarray, weights: np.ndarray | None, rule: str) -> tuple[np.ndarray, float]:
    """Return the standard deviation of each column and the number of rows.

    With n as in `row_number`, s² = Σ w(x − x̄)²/Σw · n/(n − 1).
    """
    w = np.ones(len(X)) if weights is None else weights
    used, w = X[w > 0], w[w > 0]
    if len(used) < 2:
        raise InvalidInput(
            f"{who()}: bandwidth={rule!r} needs two rows that differ, and there is one; n_samples "
            "= 1 has no spread. Give the bandwidth as a number."
        )
    (Z,), shift = moderate([used])
    total = row_number(w)
    share = (w / w.max())[:, None]
    share /= share.sum()
    mean = Z[0] + (share * (Z - Z[0])).sum(axis=0)  # exactly Z[0] where a column is constant
    gaps = Z - mean
    variance = (share * gaps * gaps).sum(axis=0)
    if total - 1 > ALONE:
        variance *= total / (total - 1)
    flat = (used == used[0]).all(axis=0)
    scales = np.ldexp(np.sqrt(variance), shift)
    flat |= ~(scales > 0)
    if flat.any():
        j = int(flat.argmax())
        raise InvalidInput(
            f"{who()}: column {j} is constant, so bandwidth={rule!r} would be 0 there, and a "
            "density has no meaning. Drop the column, or give bandwidths as numbers."
        )
    return scales, total


def _checked(bandwidth: Any, d: int) -> Any:
    """Return a bandwidth given in numbers, as a float or an array."""
    if isinstance(bandwidth, bool | np.bool_) or bandwidth is None:
        raise InvalidInput(_refusal(bandwidth))
    try:
        H = np.array(bandwidth, dtype=float)
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput(_refusal(bandwidth)) from None
    if H.shape == (1,) and d == 1:
        return _positive(H)
    if H.shape not in ((), (d,), (d, d)):
        raise InvalidInput(
            f"{who()}: bandwidth of shape {H.shape} for {d} columns; give a number, {d} numbers, "
            f"or a {d} × {d} matrix."
        )
    if not np.isfinite(H).all():
        raise InvalidInput(f"{who()}: bandwidth={bandwidth!r} is not finite; give numbers > 0.")
    if H.ndim < 2:
        return _plain(_positive(H))
    if np.abs(H - H.T).max() > ASYMMETRY * np.abs(H).max():
        raise InvalidInput(
            f"{who()}: the bandwidth matrix is not symmetric; give H with H = Hᵀ, for instance "
            "scipy.linalg.sqrtm of a covariance matrix."
        )
    H = 0.5 * H + 0.5 * H.T
    least, most = np.linalg.eigvalsh(H)[[0, -1]]
    if not least > np.finfo(float).eps * d * most:
        raise InvalidInput(
            f"{who()}: the bandwidth matrix has the eigenvalue {least:.3g}, so it is not positive "
            "definite; a density has no meaning where a bandwidth is 0. Add a small multiple of "
            "the identity."
        )
    return H


def _positive(H: np.ndarray) -> np.ndarray:
    if not (H > 0).all():
        raise InvalidInput(
            f"{who()}: bandwidth={H.tolist()!r}; bandwidths are > 0, as a density has no meaning "
            "at bandwidth 0."
        )
    return H


def _plain(value: Any) -> Any:
    """Return a number as a float, an array as it is."""
    return float(value) if np.ndim(value) == 0 else value


def _refusal(bandwidth: Any) -> str:
    kind = "" if isinstance(bandwidth, numbers.Number) else f" ({type(bandwidth).__name__})"
    return (
        f"{who()}: bandwidth={bandwidth!r}{kind}; give a number > 0, one for each column, a "
        "symmetric positive definite matrix, or 'scott', 'silverman' or 'loo'."
    )
