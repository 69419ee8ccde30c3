"""Natural-gradient ascent of a variational bound over Gaussian sites, class by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from mercer.models.gp.approximation import SiteFactor, square_buffer

__all__ = ["Bound", "Likelihood", "SitePoint", "ascend"]

#: (mean, var), both (n, C), to Σ w E log p, its gradient in the means, and −2 × that in the
#: variances.
Likelihood = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]

TOL = 1e-10  # relative residual to aim at
ENOUGH = 1e-7  # relative residual that still counts as converged where rounding is in the way
MAX_ITER = 300
_MEMORY = 8  # earlier steps that an extrapolation looks at
_SHORTEST = 2.0**-20
_SAFE = 1e-4  # relative size of 1 − diag(B⁻¹) below which variances come from K instead


@dataclass(eq=False)
class SitePoint:
    """q(f) = Π_c N(mean_c, (K⁻¹ + Λ_c)⁻¹) with (K⁻¹ + Λ_c) mean_c = ν_c, and the bound there."""

    nu: np.ndarray  # ν, shape (n, C)
    lam: np.ndarray  # Λ ≥ 0
    coef: np.ndarray  # K⁻¹ mean
    mean: np.ndarray
    var: np.ndarray
    bound: float
    size: float  # the sum of the absolute terms of the bound, for its rounding
    slope: np.ndarray  # g = d Σ w E log p/d mean; coef at the optimum
    bend: np.ndarray  # h = −2 d Σ w E log p/d var; Λ at the optimum

    def residual(self) -> float:
        """Return the larger relative residual of K⁻¹ mean = g and Λ = h."""
        return max(
            _relative(self.coef - self.slope, self.slope),
            _relative(self.lam - self.bend, self.bend),
        )

    def target(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sites that one full natural-gradient step leads to."""
        return self.slope + self.bend * self.mean, self.bend


class _Factor(SiteFactor):
    """The factor of I + Λ^½KΛ^½ that ends as variances."""

    def spread(self, K: np.ndarray) -> tuple[np.ndarray, float]:
        """Return diag((K⁻¹ + Λ)⁻¹) and tr B⁻¹ in the memory of the factor; n³/3 flops.

        With B⁻¹ = I − Λ^½SΛ^½ the variances are (1 − diag B⁻¹)/Λ. Where that cancels they are
        kᵢᵢ − ‖L⁻¹Λ^½kᵢ‖².
        """
        self.spent = True
        dtrtri(self._a, lower=1, overwrite_c=1)
        inverse = np.array([r @ r for r in _columns(self._a)])
        lam, prior = np.square(self.root), np.diagonal(K)
        gone = 1.0 - inverse
        sure = gone > _SAFE
        var = np.empty(len(lam))
        var[sure] = gone[sure] / lam[sure]
        rest = np.flatnonzero(~sure)
        if len(rest):
            V = np.asfortranarray(self.root[:, None] * K[:, rest])
            V = dtrmm(1.0, self._a, V, lower=1, overwrite_b=1)
            var[rest] = prior[rest] - np.einsum("ij,ij->j", V, V)
        return np.clip(var, 0.0, prior), float(inverse.sum())


def _columns(a: np.ndarray) -> Any:
    """Yield the columns of a lower triangle from the diagonal down; contiguous in Fortran order."""
    return (a[i:, i] for i in range(len(a)))


class Bound:
    """L(ν, Λ) = Σᵢ wᵢ E log p(tᵢ|fᵢ) − Σ_c KL(q_c ‖ N(0, K)), evaluated in one reused n×n array.

    KL = ½(coefᵀ mean + tr B⁻¹ − n + log |B|) with B = I + Λ^½KΛ^½: K is never inverted. A class
    costs 2n³/3 flops.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; not changed.
    likelihood : callable
        The expected log-likelihood with its derivatives.
    """

    def __init__(self, K: np.ndarray, likelihood: Likelihood):
        self.K = K
        self.likelihood = likelihood
        self.n_factors = 0
        self._buffer = square_buffer(len(K))

    def prior(self, classes: int) -> SitePoint:
        """Return the point where q is the prior, which needs no factor."""
        zero = np.zeros((len(self.K), classes))
        var = np.tile(np.diagonal(self.K)[:, None], (1, classes)).astype(float)
        value, slope, bend = self.likelihood(zero, var)
        return SitePoint(zero, zero, zero, zero, var, value, abs(value), slope, bend)

    def at(self, nu: np.ndarray, lam: np.ndarray) -> SitePoint:
        """Return the point of given sites."""
        K, n = self.K, len(self.K)
        coef, var = np.empty(nu.shape), np.empty(nu.shape)
        divergence = size = 0.0
        prior_mean = K @ nu
        for c in range(nu.shape[1]):
            factor = _Factor(K, np.sqrt(lam[:, c]), self._buffer)
            self.n_factors += 1
            coef[:, c] = nu[:, c] - factor.apply(prior_mean[:, c])
            logdet = factor.logdet()
            var[:, c], trace = factor.spread(K)
            divergence += 0.5 * (trace - n + logdet)
            size += 0.5 * (abs(trace - n) + logdet)
        mean = K @ coef
        fit = 0.5 * float(np.sum(coef * mean))
        value, slope, bend = self.likelihood(mean, var)
        size += abs(fit) + abs(value)
        bound = value - fit - divergence
        return SitePoint(nu, lam, coef, mean, var, bound, size, slope, bend)


def ascend(bound: Bound, start: SitePoint, max_iter: int = MAX_ITER) -> tuple[SitePoint, int, list]:
    """Climb until both conditions of a stationary point hold; the bound never falls.

    A step of length ρ takes the sites to (1 − ρ)(ν, Λ) + ρ(g + h mean, h): the natural gradient of
    the bound (Khan & Lin 2017, eq. 12–13), for ρ = 1 the fixed point of Opper & Archambeau (2009,
    eq. 9–10). It is shortened until the bound rises. Anderson's extrapolation of the last steps is
    tried first, and kept only if the bound rises as well.

    Returns
    -------
    tuple
        The last point, the number of iterations, and the bound after each of them.
    """
    x, history = start, [start.bound]
    past: list[tuple[np.ndarray, np.ndarray]] = []
    best, idle = x.residual(), 0
    steps = 0
    while steps < max_iter and best > TOL and idle < 5:
        nu, lam = x.target()
        past = [*past[-_MEMORY:], (_flat(x.nu, x.lam), _flat(nu - x.nu, lam - x.lam))]
        found = _extrapolate(bound, x, past) if len(past) > 1 else None
        if found is None:
            past = past[-1:]
            found = _damped(bound, x, nu, lam)
        if found is None:
            break
        x = found
        steps += 1
        history.append(x.bound)
        now = x.residual()
        idle = 0 if now < 0.7 * best or now > 1e-6 else idle + 1
        best = min(best, now)
    return x, steps, history


def _damped(bound: Bound, x: SitePoint, nu: np.ndarray, lam: np.ndarray) -> SitePoint | None:
    step = 1.0
    while step > _SHORTEST:
        y = bound.at(x.nu + step * (nu - x.nu), x.lam + step * (lam - x.lam))
        if _rises(x, y):
            return y
        step *= 0.5
    return None


def _extrapolate(bound: Bound, x: SitePoint, past: list) -> SitePoint | None:
    """Return the point of Anderson's mixing (Walker & Ni 2011), where it is better than x."""
    sites = np.stack([s for s, _ in past], axis=1)
    steps = np.stack([d for _, d in past], axis=1)
    # In units of the posterior deviation, so that means and precisions count alike.
    unit = _flat(np.sqrt(x.var), x.var)[:, None]
    moved = np.diff(steps, axis=1)
    gamma = np.linalg.lstsq(moved * unit, steps[:, -1] * unit[:, 0], rcond=1e-10)[0]
    new = sites[:, -1] + steps[:, -1] - (np.diff(sites, axis=1) + moved) @ gamma
    nu, lam = new.reshape(2, *x.nu.shape)
    lam = np.maximum(lam, 0.1 * np.minimum(x.lam, x.bend))
    if not np.isfinite(new).all():
        return None
    y = bound.at(nu, lam)
    return y if _rises(x, y) else None


def _rises(x: SitePoint, y: SitePoint) -> bool:
    """Whether the bound is higher, or equal to rounding with smaller residuals."""
    if not np.isfinite(y.bound):
        return False
    slack = 1e-14 * (len(x.nu) ** 0.5 + 10.0) * max(x.size, y.size)
    gain = y.bound - x.bound
    return gain > slack or (gain >= -slack and y.residual() < x.residual())


def _flat(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([a.reshape(-1), b.reshape(-1)])


def _relative(difference: np.ndarray, scale: np.ndarray) -> float:
    size = float(np.linalg.norm(scale))
    gap = float(np.linalg.norm(difference))
    return gap / size if size > 0.0 else float(gap > 0.0)
