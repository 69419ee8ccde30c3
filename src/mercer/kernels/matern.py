"""The Matérn profile and its slope for every ν > 0, as functions of the squared distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import is_torch

__all__ = ["matern_profile", "matern_slope"]

# Above this order K_ν overflows for moderate arguments; Debye's expansion takes over.
LARGE_ORDER = 40.0


def matern_profile(s: Any, nu: float, xp: Any) -> Any:
    """Return κ(s) = 2^{1−ν}/Γ(ν) z^ν K_ν(z), z = √(2νs)."""
    if nu == np.inf:
        return xp.exp(-0.5 * s)
    if nu == 0.5:
        return xp.exp(-xp.sqrt(s))
    if nu == 1.5:
        z = xp.sqrt(3 * s)
        return (1 + z) * xp.exp(-z)
    if nu == 2.5:
        z = xp.sqrt(5 * s)
        return (1 + z + z * z / 3) * xp.exp(-z)
    return _through_numpy(lambda t: _bessel_form(nu, np.sqrt(2 * nu * t)), s)


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


def _through_numpy(formula: Any, s: Any) -> Any:
    """torch has no K_ν of general order: evaluate in main memory."""
    if not is_torch(s):
        return formula(s).astype(s.dtype, copy=False)
    import torch

    value = formula(s.detach().cpu().numpy().astype(float))
    return torch.as_tensor(value, dtype=s.dtype, device=s.device)


def _bessel_form(nu: float, z: np.ndarray) -> np.ndarray:
    """Return 2^{1−ν}/Γ(ν) z^ν K_ν(z), with its limit 1 at z = 0."""
    from scipy.special import gammaln, kve

    z = np.asarray(z, dtype=float)
    if nu > LARGE_ORDER:
        log = _log_bessel_large_order(nu, np.maximum(z, 1e-300))
    else:
        with np.errstate(divide="ignore", over="ignore"):
            log = np.log(kve(nu, z)) - z
    with np.errstate(divide="ignore", invalid="ignore"):
        log = (1 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(z) + log
    # z → 0: z^ν K_ν → its limit; there kve is inf and the sum above inf − inf.
    value = np.exp(np.minimum(log, 0.0))
    return np.where((z == 0) | np.isnan(log), 1.0, value)


def _bessel_slope(nu: float, z: np.ndarray) -> np.ndarray:
    # d/dz z^ν K_ν(z) = −z^ν K_{ν−1}(z) (DLMF 10.29.4) and dz/ds = ν/z.
    if nu > 1:
        return -nu / (2 * (nu - 1)) * _bessel_form(nu - 1, z)
    from scipy.special import gamma, kv

    safe = np.where(z > 0, z, 1.0)
    slope = -nu * 2 ** (1 - nu) / gamma(nu) * safe ** (nu - 1) * kv(1 - nu, safe)
    return np.where(z > 0, slope, 0.0)


def _log_bessel_large_order(nu: float, z: np.ndarray) -> np.ndarray:
    """Return log K_ν(z) by Debye's uniform expansion (DLMF 10.41.4), relative error < 1e-10."""
    x = z / nu
    root = np.hypot(1.0, x)
    t = 1 / root
    eta = root + np.log(x / (1 + root))
    t2 = t * t
    u1 = t * (3 - 5 * t2) / 24
    u2 = t2 * (81 + t2 * (-462 + 385 * t2)) / 1152
    u3 = t * t2 * (30375 + t2 * (-369603 + t2 * (765765 - 425425 * t2))) / 414720
    u4 = (
        t2
        * t2
        * (4465125 + t2 * (-94121676 + t2 * (349922430 + t2 * (-446185740 + 185910725 * t2))))
        / 39813120
    )
    series = 1 - u1 / nu + u2 / nu**2 - u3 / nu**3 + u4 / nu**4
    return 0.5 * np.log(np.pi / (2 * nu)) - nu * eta - 0.5 * np.log(root) + np.log(series)
