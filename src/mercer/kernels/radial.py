"""Radial kernels: RBF, Matérn, rational quadratic, powered exponential."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.polynomial import Polynomial

from mercer.checks import check_parameter
from mercer.domains import beside, is_torch, namespace
from mercer.errors import InvalidInput, NotAKernel, who
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.constant import Constant, White
from mercer.kernels.geometry import Geometry, radial
from mercer.kernels.laplacian import PowerBound
from mercer.kernels.metric import Radial
from mercer.kernels.parameters import check_covariance
from mercer.kernels.scales import median_distance, standard_deviation
from mercer.kernels.spectral import (
    LONGEST,
    Independent,
    Measure,
    RotationInvariant,
    positive_stable,
    symmetric_stable,
)

# ---- The Matérn profile and its slope for every ν > 0, as functions of the squared distance ----


# Above this order K_ν overflows for moderate arguments; Debye's expansion takes over.
LARGE_ORDER = 30.0
# 1 − κ below this is integrated from the slope, with so many nodes.
NEAR = 1e-3
NODES = 40


def matern_profile(s: Any, nu: float, xp: Any) -> Any:
    """Return κ(s) = 2^{1−ν}/Γ(ν) z^ν K_ν(z), z = √(2νs)."""
    if nu == np.inf:
        return xp.exp(-0.5 * s)
    if is_torch(s) and s.requires_grad:
        return _with_slope(s, matern_profile, matern_slope, nu, xp)
    if nu == 0.5:
        return xp.exp(-xp.sqrt(s))
    if nu == 1.5:
        z = xp.sqrt(3 * s)
        return (1 + z) * xp.exp(-z)
    if nu == 2.5:
        z = xp.sqrt(5 * s)
        return (1 + z + z * z / 3) * xp.exp(-z)
    return _through_numpy(lambda t: _bessel_form(nu, np.sqrt(2 * nu * t)), s)


def _with_slope(s: Any, profile: Any, slope: Any, shape: float, torch: Any) -> Any:
    """Return κ(s) with κ′ for autograd: through √s it would be 0·∞ where two points coincide."""

    class Profile(torch.autograd.Function):
        @staticmethod
        def forward(ctx, s):
            ctx.save_for_backward(s)
            return profile(s.detach(), shape, torch)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, cotangent):
            (s,) = ctx.saved_tensors
            return cotangent * slope(s, shape, torch)

    return Profile.apply(s)


def matern_slope(s: Any, nu: float, xp: Any) -> Any:
    """Return κ′(s); 0 at s = 0 where it is infinite (ν ≤ 1), since it multiplies (x−x′) = 0."""
    if nu == np.inf:
        return -0.5 * xp.exp(-0.5 * s)
    if nu == 0.5:
        positive = s > 0
        r = xp.sqrt(xp.where(positive, s, xp.ones_like(s)))
        return xp.where(positive, -xp.exp(-r) / (2 * r), xp.zeros_like(s))
    if nu == 1.5:
        return -1.5 * xp.exp(-xp.sqrt(3 * s))
    if nu == 2.5:
        z = xp.sqrt(5 * s)
        return -(5 / 6) * (1 + z) * xp.exp(-z)
    return _through_numpy(lambda t: _bessel_slope(nu, np.sqrt(2 * nu * t)), s)


def matern_drop(s: np.ndarray, nu: float) -> np.ndarray:
    """Return 1 − κ(s), to all its digits where s is small."""
    from scipy.special import gammainc

    if nu == np.inf:
        return -np.expm1(-0.5 * s)
    if nu == 0.5:
        return -np.expm1(-np.sqrt(s))
    # P(n, z) = 1 − (1 + z + … + z^{n−1}/(n−1)!)exp(−z) (DLMF 8.4.9)
    if nu == 1.5:
        return gammainc(2.0, np.sqrt(3 * s))
    if nu == 2.5:
        z = np.sqrt(5 * s)
        return gammainc(3.0, z) + z * (z * np.exp(-z)) / 6
    out = 1 - matern_profile(s, nu, np)
    near = (out < NEAR) & (s > 0)
    if near.any():
        # ∫₀ˢ −κ′ dt, t = s·w^q: −κ′ behaves like t^min(ν−1, 0), and w takes that away.
        q = min(200, max(4, int(np.ceil(8 / nu))))
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        w = 0.5 + 0.5 * nodes
        total = np.zeros(int(near.sum()))
        for a, c in zip(w, 0.5 * weights, strict=True):
            total -= c * q * a ** (q - 1) * matern_slope(s[near] * a**q, nu, np)
        out[near] = s[near] * total
    return out


def _through_numpy(formula: Any, s: Any) -> Any:
    """torch has no K_ν of general order: evaluate in main memory."""
    if not is_torch(s):
        return formula(s).astype(s.dtype, copy=False)
    return beside(formula(s.detach().cpu().numpy().astype(float)), s)


def _bessel_form(nu: float, z: np.ndarray) -> np.ndarray:
    """Return 2^{1−ν}/Γ(ν) z^ν K_ν(z), with its limit 1 at z = 0."""
    from scipy.special import gammaln, kve

    z = np.asarray(z, dtype=float)
    if nu > LARGE_ORDER:
        return _large_order_form(nu, z)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = (1 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(z) + np.log(kve(nu, z)) - z
    # z → 0: kve is inf and the sum above inf − inf; z → ∞: kve gives up with NaN. Both limits:
    value = np.exp(np.minimum(log, 0.0))
    return np.where((z == 0) | np.isnan(log), np.where(z < 1, 1.0, 0.0), value)


def _bessel_slope(nu: float, z: np.ndarray) -> np.ndarray:
    # d/dz z^ν K_ν(z) = −z^ν K_{ν−1}(z) (DLMF 10.29.4) and dz/ds = ν/z.
    if nu > 1:
        return -nu / (2 * (nu - 1)) * _bessel_form(nu - 1, z)
    from scipy.special import gamma, kv

    safe = np.where(z > 0, z, 1.0)
    slope = -nu * 2 ** (1 - nu) / gamma(nu) * safe ** (nu - 1) * kv(1 - nu, safe)
    return np.where(z > 0, slope, 0.0)


def _large_order_form(nu: float, z: np.ndarray) -> np.ndarray:
    """Return z^ν K_ν(z) over its limit at 0, by Debye's uniform expansion (DLMF 10.41.4).

    With x = z/ν and w = √(1+x²) − 1 the ratio is exp(−ν(w − log(1+w/2))) (1+w)^−½ U(t)/U(1),
    t = 1/(1+w): it is 1 at z = 0 to the bit, and no term grows with ν.
    """
    x = z / nu
    root = np.hypot(1.0, x)
    w = x * (x / (1 + root))
    exponent = -nu * (w - np.log1p(0.5 * w)) - 0.5 * np.log(root)
    return np.exp(exponent) * _debye(nu, 1 / root) / _debye(nu, np.ones(()))


def _debye(nu: float, t: np.ndarray) -> np.ndarray:
    """Return U(t) = Σ (−1)ᵏ uₖ(t)/νᵏ."""
    t2 = t * t
    total = np.ones_like(t)
    for k, coefficients in enumerate(_debye_polynomials(), start=1):
        total += (-t / nu) ** k * np.polynomial.polynomial.polyval(t2, coefficients)
    return total


@lru_cache(maxsize=1)
def _debye_polynomials(count: int = 8) -> list[np.ndarray]:
    """Return the coefficients of uₖ(t)/tᵏ in t², k = 1, …, by the recursion DLMF 10.41.9."""
    weight = Polynomial([0, 0, 0.5, 0, -0.5])  # ½t²(1−t²)
    u, out = Polynomial([1.0]), []
    for k in range(1, count + 1):
        u = weight * u.deriv() + 0.125 * (Polynomial([1, 0, -5]) * u).integ()
        out.append(u.coef[k::2])
    return out


# ---- radial ----


class RBF(Radial):
    r"""Gaussian kernel exp(−‖x−x′‖²/2ℓ²).

    With one length scale for each column, exp(−½ Σₖ (xₖ−x′ₖ)²/ℓₖ²); with a covariance Σ,
    exp(−½ (x−x′)ᵀΣ⁻¹(x−x′)).

    *Valid when* ℓ > 0, Σ positive definite. Characteristic, infinitely smooth.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        "median": the median distance between points; "scale": scikit-learn's ``gamma="scale"``,
        ℓ = √(d·Var X/2).
    covariance : array of shape (d, d), optional
        Full metric Σ; then `length_scale` must stay at 1.0.

    Examples
    --------
    >>> from mercer import RBF
    >>> RBF(length_scale=2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    characteristic = True
    _decay = 0.5

    def __init__(self, length_scale: Any = 1.0, covariance: Any = None):
        super().__init__(length_scale=length_scale, covariance=covariance)

    def _check_params(self) -> None:
        super()._check_params()
        if self.covariance is not None:
            if not (np.ndim(self.length_scale) == 0 and self.length_scale == 1.0):
                raise InvalidInput(
                    "RBF: length_scale and covariance were both given; the covariance holds the "
                    "scales, so leave length_scale at 1.0."
                )
            check_covariance(self.covariance, definite=True)

    def _own(self) -> list:
        return [] if self.covariance is not None else super()._own()

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(-0.5 * s)

    def _profile_in_place(self, s: Any) -> Any:
        s *= -0.5
        return s.exp_() if is_torch(s) else np.exp(s, out=s)

    def _slope(self, s: Any, xp: Any) -> Any:
        return -0.5 * xp.exp(-0.5 * s)

    def _geometry(self) -> Geometry:
        return radial(self, lambda s: -np.expm1(-0.5 * s))

    def _spectral(self, columns: list) -> RotationInvariant:
        return RotationInvariant(self, len(columns))

    # With Σ = LLᵀ the metric coordinates are L⁻¹x.
    def _whitener(self, X: Any) -> Any:
        sigma = np.asarray(self.covariance, dtype=np.float64)
        if sigma.shape[0] != X.shape[1]:
            raise InvalidInput(
                f"RBF: covariance is {sigma.shape[0]} × {sigma.shape[0]} but X has "
                f"{X.shape[1]} columns."
            )
        return beside(np.linalg.inv(np.linalg.cholesky(sigma)), X)

    def _to_metric(self, X: Any) -> Any:
        if self.covariance is None:
            return super()._to_metric(X)
        Z = X @ self._whitener(X).T
        return Z.toarray() if sp.issparse(Z) else Z

    def _from_metric(self, G: Any, X: Any) -> Any:
        return super()._from_metric(G, X) if self.covariance is None else G @ self._whitener(X)

    @property
    def _by_columns(self) -> bool:
        return type(self)._to_metric is RBF._to_metric and self.covariance is None


class Matern(Radial):
    r"""Matérn kernel 2^{1−ν}/Γ(ν) (√(2ν) r)^ν K_ν(√(2ν) r) with r = ‖x−x′‖/ℓ.

    Closed forms at ν = ½ (exp(−r)), 3/2, 5/2 and ∞ (the RBF); any other ν > 0 by the Bessel
    function K_ν. Functions are ⌈ν⌉−1 times differentiable.

    *Valid when* ℓ > 0 and ν > 0. Characteristic.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        As for `RBF`.
    nu : float, default=1.5
        Smoothness; ``numpy.inf`` gives the RBF. Not tuned.

    Examples
    --------
    >>> from mercer import Matern
    >>> Matern(nu=0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    characteristic = True
    workspace = 8

    def __init__(self, length_scale: Any = 1.0, nu: float = 1.5):
        super().__init__(length_scale=length_scale, nu=nu)

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.nu, int | float | np.number) and self.nu == np.inf):
            check_parameter("nu", self.nu, 0.0)

    @property
    def _rough(self) -> bool:  # type: ignore[override]
        # κ(s) = 1 − O(s^min(ν, 1)), with a large second coefficient until ν = 3/2
        return self.nu < 1.5

    def _profile(self, s: Any, xp: Any) -> Any:
        return matern_profile(s, float(self.nu), xp)

    def _profile_in_place(self, s: Any) -> Any:
        nu = float(self.nu)
        if nu not in (0.5, 1.5, 2.5) or not isinstance(s, np.ndarray):
            return self._profile(s, namespace(s))
        if nu > 0.5:
            s *= 2 * nu
        np.sqrt(s, out=s)
        if nu == 0.5:
            return np.exp(np.negative(s, out=s), out=s)
        decay = np.exp(np.negative(s))
        if nu == 1.5:
            s += 1
        else:  # 1 + z + z²/3
            square = s * s
            square *= 1 / 3
            s += 1
            s += square
        s *= decay
        return s

    def _slope(self, s: Any, xp: Any) -> Any:
        return matern_slope(s, float(self.nu), xp)

    def _geometry(self) -> Geometry:
        return radial(self, lambda s: matern_drop(s, float(self.nu)))

    def _spectral(self, columns: list) -> RotationInvariant:
        # Student's t of 2ν degrees of freedom: a Gaussian over the root of a gamma variable
        from scipy.special import gammaincinv

        nu = float(self.nu)
        mixing = None if nu == np.inf else lambda u: nu / gammaincinv(nu, u)
        return RotationInvariant(self, len(columns), mixing)


class RationalQuadratic(Radial):
    r"""Rational quadratic kernel (1 + ‖x−x′‖²/2αℓ²)^−α, a scale mixture of RBF kernels.

    *Valid when* ℓ > 0 and α > 0. Characteristic.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        As for `RBF`.
    alpha : float, default=1.0
        Weight of the tails; α → ∞ is the RBF.

    Examples
    --------
    >>> from mercer import RationalQuadratic
    >>> RationalQuadratic(alpha=1.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    characteristic = True
    _tunable = ("length_scale", "alpha")

    def __init__(self, length_scale: Any = 1.0, alpha: float = 1.0):
        super().__init__(length_scale=length_scale, alpha=alpha)

    def _check_params(self) -> None:
        super()._check_params()
        check_parameter("alpha", self.alpha, 0.0)

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(-self.alpha * xp.log1p(s / (2 * self.alpha)))

    def _profile_in_place(self, s: Any) -> Any:
        if not isinstance(s, np.ndarray):
            return self._profile(s, namespace(s))
        s /= 2 * self.alpha
        np.log1p(s, out=s)
        s *= -self.alpha
        return np.exp(s, out=s)

    def _slope(self, s: Any, xp: Any) -> Any:
        return -0.5 * xp.exp(-(self.alpha + 1) * xp.log1p(s / (2 * self.alpha)))

    def _geometry(self) -> Geometry:
        a = float(self.alpha)
        return radial(self, lambda s: -np.expm1(-a * np.log1p(s / (2 * a))))

    def _spectral(self, columns: list) -> RotationInvariant:
        # E exp(−τs/2) = (1 + s/2α)^−α for a gamma variable τ of shape α and mean 1
        from scipy.special import gammaincinv

        a = float(self.alpha)
        return RotationInvariant(self, len(columns), lambda u: gammaincinv(a, u) / a)

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        u = s / (2 * self.alpha)
        log = xp.log1p(u)
        return {"alpha": self.alpha * (u / (1 + u) - log) * xp.exp(-self.alpha * log)}


# ---- Powers of a distance ----


LEAST_POWER = 1e-2  # of the norm, for tuning: below, all points but the nearest look alike
ROUNDING = 1e-12  # by which exp(log p) may exceed p


def power_profile(s: Any, e: float, xp: Any) -> Any:
    """Return κ(s) = exp(−sᵉ)."""
    if is_torch(s) and s.requires_grad:
        return _with_slope(s, power_profile, power_slope, e, xp)
    return xp.exp(-_raised(s, e, xp))


def power_slope(s: Any, e: float, xp: Any) -> Any:
    """Return κ′(s); 0 at s = 0 where it is infinite (e < 1), and where it would overflow."""
    if e == 1:
        return -xp.exp(-s)
    positive = s > 0
    t = xp.where(positive, s, xp.ones_like(s))
    with np.errstate(over="ignore"):
        d = -e * t ** (e - 1) * xp.exp(-_raised(t, e, xp))
    return xp.where(positive & xp.isfinite(d), d, xp.zeros_like(d))


def _raised(s: Any, e: float, xp: Any) -> Any:
    return s if e == 1 else xp.sqrt(s) if e == 0.5 else s**e


class PowerExponential(Radial):
    r"""Powered exponential kernel exp(−(‖x−x′‖ₚ/ℓ)^q), of the Euclidean distance or another.

    With one length scale for each column, exp(−(Σₖ |(xₖ−x′ₖ)/ℓₖ|^p)^{q/p}). p = q is a product over
    columns. p = 2, the default, gives `Matern` of ν = ½ at q = 1 and `RBF` of length scale ℓ/√2 at
    q = 2; p = q = 1 is `Laplacian`.

    *Valid when* ℓ > 0 and 0 < q ≤ p ≤ 2. Characteristic. Functions are continuous, and smooth only
    at q = p = 2. With p < 2 it costs d passes over the matrix instead of one product.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        "median": the median distance between points in the norm p; "scale": d^(1/p) times the
        standard deviation of the entries.
    power : float, default=1.0
        The exponent q of the distance, up to `norm`; smaller is rougher. It is tuned.
    norm : float, default=2.0
        Which distance: p = 2 is the Euclidean one, 1 the sum of absolute differences. Not tuned.

    Examples
    --------
    >>> from mercer import PowerExponential
    >>> PowerExponential(power=1.5)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.0591],
           [0.0591, 1.    ]])
    """

    characteristic = True
    workspace = 6
    _tunable = ("length_scale", "power")

    def __init__(self, length_scale: Any = 1.0, power: float = 1.0, norm: float = 2.0):
        super().__init__(length_scale=length_scale, power=power, norm=norm)

    def _check_params(self) -> None:
        super()._check_params()
        check_parameter("power", self.power, 0.0)
        check_parameter("norm", self.norm, 0.0)
        if self.norm > 2:
            raise NotAKernel(
                f"{who()}: norm={self.norm!r}; distances of a norm p > 2 give no kernel. Use "
                "0 < norm ≤ 2."
            )
        if self.power > self.norm * (1 + ROUNDING):
            raise NotAKernel(
                f"{who()}: power={self.power!r} with norm={self.norm!r}; exp(−distance^power) is a "
                "kernel for 0 < power ≤ norm only. Use a smaller power, or a larger norm, up to 2."
            )

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`: the power stays within the norm."""
        rows = super().bounds
        rows[-1] = np.log([LEAST_POWER * self.norm, self.norm])
        return rows

    @property
    def _exponent(self) -> float:
        """The power of s = Σ|Δ/ℓ|^p."""
        return min(float(self.power) / float(self.norm), 1.0)

    @property
    def _rough(self) -> bool:  # type: ignore[override]
        return self._exponent < 1

    @property
    def _euclidean(self) -> bool:
        return self.norm == 2 and type(self)._bind is PowerExponential._bind

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        p = float(self.norm)
        if self.length_scale == "median":
            return {"length_scale": median_distance(X, sample_weight, p)}
        return {"length_scale": X.shape[1] ** (1 / p) * standard_deviation(X, sample_weight)}

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return super()._bind(X, Y) if self.norm == 2 else PowerBound(self, X, Y)

    def _profile(self, s: Any, xp: Any) -> Any:
        return power_profile(s, self._exponent, xp)

    def _slope(self, s: Any, xp: Any) -> Any:
        return power_slope(s, self._exponent, xp)

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        t = _raised(s, self._exponent, xp)
        log = xp.log(xp.where(t > 0, t, xp.ones_like(t)))
        return {"power": -t * log * xp.exp(-t)}

    def at_gaps(self, gap: np.ndarray) -> np.ndarray:
        """Return k of points of one column, from their differences, which are overwritten."""
        gap /= float(np.ravel(self.length_scale)[0])
        return self.at_squares(np.abs(gap, out=gap) ** float(self.norm))

    def _geometry(self) -> Geometry | None:
        if self.norm not in (1, 2):
            return None
        half = 0.5 * float(self.power)
        return radial(self, lambda s: -np.expm1(-(s**half)), norm=int(self.norm))

    def _spectral(self, columns: list) -> Measure:
        # exp(−Sᵉ) = E exp(−τS) for a positive stable variable τ of index e, S = Σ|Δ/ℓ|^p, and
        # exp(−τ|t|^p) is the characteristic function of τ^(1/p) times a symmetric stable variable
        d, p, e = len(columns), float(self.norm), self._exponent
        if p == 2:
            return RotationInvariant(self, d, lambda U: 2 * positive_stable(U, e), 2)
        like = np.empty((0, d))

        def frequencies(U: np.ndarray, shared: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore"):
                omega = positive_stable(shared, e)[:, None] ** (1 / p) * symmetric_stable(U, p)
            return self._from_metric(np.clip(omega, -(LONGEST**0.5), LONGEST**0.5), like)

        return Independent(d, frequencies, 2, shared=2)


# ---- Where a sum of radial kernels is largest: what pre-images and mean shifts ask for ----


def radial_part(kernel: Kernel) -> Any:
    """Return the kernel κ(‖x − y‖²), up to scales, in a kernel aκ + b with a > 0; None without one.

    Neither a nor b, nor noise on the diagonal, changes where Σᵢ γᵢ k(z, xᵢ) is largest. The profile
    of `Laplacian` is of ‖x − y‖₁, and will not do.
    """
    if isinstance(kernel, Sum):
        rest = [k for k in kernel._kernels() if not isinstance(k, Constant | White)]
        return radial_part(rest[0]) if len(rest) == 1 else None
    if isinstance(kernel, Product):
        rest = [k for k in kernel._kernels() if not (isinstance(k, Constant) and k.value > 0)]
        return radial_part(rest[0]) if len(rest) == 1 else None
    return kernel if isinstance(kernel, Radial) and kernel._euclidean else None


class Attraction:
    """Σᵢ γᵢ κ(s(z, xᵢ)) at z for points x of a radial kernel, and what pulls z to its maximum."""

    def __init__(self, kernel: Any, points: Any):
        self.kernel, self.points, self.xp = kernel, points, namespace(points)
        self.centre = points.mean(0)  # far from 0 squared lengths would cancel
        self.metric = kernel._to_metric(points - self.centre)
        self.squares = (self.metric * self.metric).sum(1)

    def __call__(self, z: Any, coef: Any) -> tuple[Any, Any, Any, Any]:
        """Return the sum, mass Σγg, size Σ|γg| and Σγgx with g = −κ′, a row of coefficients a z."""
        a = self.kernel._to_metric(z - self.centre)
        s = (a * a).sum(1)[:, None] + self.squares - 2 * a @ self.metric.T
        s = s.clip(0.0)
        value = (coef * self.kernel._profile(s, self.xp)).sum(1)
        pull = coef * -self.kernel._true_slope(s, self.xp)
        return value, pull.sum(1), abs(pull).sum(1), pull @ self.points

    def lengths(self, steps: np.ndarray) -> np.ndarray:
        """Return how long steps are in length scales."""
        return np.linalg.norm(np.asarray(self.kernel._to_metric(steps)), axis=1)
