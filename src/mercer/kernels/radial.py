"""Radial kernels: RBF, Matérn, rational quadratic."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput
from mercer.kernels.checks import check_covariance, check_number
from mercer.kernels.geometry import Geometry, radial
from mercer.kernels.matern import matern_drop, matern_profile, matern_slope
from mercer.kernels.metric import Radial
from mercer.kernels.spectral import RotationInvariant

__all__ = ["RBF", "Matern", "RationalQuadratic"]


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
            check_covariance("RBF", self.covariance, definite=True)

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
        inverse = np.linalg.inv(np.linalg.cholesky(sigma))
        if is_torch(X):
            import torch

            return torch.as_tensor(inverse, dtype=X.dtype, device=X.device)
        return inverse.astype(X.dtype)

    def _to_metric(self, X: Any) -> Any:
        if self.covariance is None:
            return super()._to_metric(X)
        Z = X @ self._whitener(X).T
        return Z.toarray() if sp.issparse(Z) else Z

    def _from_metric(self, G: Any, X: Any) -> Any:
        return super()._from_metric(G, X) if self.covariance is None else G @ self._whitener(X)


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
            check_number("Matern", "nu", self.nu, 0.0)

    @property
    def _rough(self) -> bool:  # type: ignore[override]
        # κ(s) = 1 − O(s^min(ν, 1)), with a large second coefficient until ν = 3/2
        return self.nu < 1.5

    def _profile(self, s: Any, xp: Any) -> Any:
        return matern_profile(s, float(self.nu), xp)

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
        check_number("RationalQuadratic", "alpha", self.alpha, 0.0)

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(-self.alpha * xp.log1p(s / (2 * self.alpha)))

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
