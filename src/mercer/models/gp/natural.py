"""Ascent of a variational bound by natural gradients and Newton steps, none of which lowers it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.models.gp.approximation import SiteFactor
from mercer.models.gp.variational import Bound, SitePoint, Step

__all__ = ["Ascent", "WarmSites", "ascend"]

TOL = 1e-10  # relative residual to aim at
ENOUGH = 1e-6  # relative residual that counts as converged where rounding is in the way
MAX_ITER = 300
_QUICK = 20  # steps after which all of S is worth its cost
_SHORTEST = 2.0**-20
_MODERATE = 4.0  # prior variance beyond which the prior is a poor start
_PATIENCE = 3  # steps near the end that may not improve the residual


class WarmSites:
    """What one call leaves to the next: sites to start from, and memory to work in.

    Parameters
    ----------
    nu, lam : ndarray of shape (n, C)
        ν and Λ.
    factors : list of C SiteFactors
        Whose memory may be taken over.
    """

    def __init__(self, nu: np.ndarray, lam: np.ndarray, factors: list[SiteFactor]):
        self.nu, self.lam = nu, lam
        self._factors = factors

    def take(self, shape: tuple[int, int]) -> list | None:
        """Return the memory of the factors, which are spent from then on, if it is for (n, C)."""
        if self.nu.shape != shape:
            return None
        factors, self._factors = self._factors, []
        for factor in factors:
            factor.spent = True
        return [factor.buffer for factor in factors] or None


class Ascent:
    """Where an ascent ended.

    Parameters
    ----------
    bound : Bound
        What was maximised.
    point : SitePoint
        The last point.
    bounds : list of float
        The bound at the start and after each step.
    """

    def __init__(self, bound: Bound, point: SitePoint, bounds: list[float]):
        self.point, self.bounds = point, bounds
        self.n_factors = bound.n_factors
        self.factors = [
            SiteFactor(bound.K, np.sqrt(point.lam[:, c]), a) for c, a in enumerate(bound.buffers)
        ]

    def facts(self) -> dict[str, Any]:
        """Return what an `Approximation` says of how it went."""
        x, steps = self.point, len(self.bounds) - 1
        residual = x.residual()
        converged = residual <= ENOUGH
        return {
            "log_evidence": x.bound,
            "converged": converged,
            "n_iter": steps,
            "residual": residual,
            "message": ""
            if converged
            else (
                f"variational inference stopped after {steps} steps with a relative residual of "
                f"{residual:.2g}; bound the scale of the kernel, or scale the inputs."
            ),
            "start": WarmSites(x.nu, x.lam, self.factors),
            "bounds": self.bounds,
            "extra": {"n_factors": self.n_factors},
        }


def ascend(bound: Bound, start: WarmSites | None = None) -> Ascent:
    """Climb until both conditions of a stationary point hold; the bound never falls.

    A step is Newton's with a diagonal approximation. Where the bound does not rise on it, and after
    many of them, it is Newton's with all of S from then on. Where that does not help either it goes
    along the natural gradient, to (1 − ρ)(ν, Λ) + ρ(g + h mean, h), on which the bound rises for
    small ρ (Khan & Lin 2017; ρ = 1 is the fixed point of Opper & Archambeau 2009).

    Parameters
    ----------
    bound : Bound
        What to maximise.
    start : WarmSites, optional
        Where to start, if that is better than the prior and fits.
    """
    x = _first(bound, start)
    bounds = [x.bound]
    best, idle, hard = x.residual(), 0, False
    while best > TOL and len(bounds) <= MAX_ITER and idle < _PATIENCE:
        found = None
        if not hard:
            found = _try(bound, x, x.newton(), 0.5)
            hard = found is None or len(bounds) > _QUICK
        if found is None:
            found = _try(bound, x, bound.newton(x), 0.25)
        if found is None and best > ENOUGH:
            found = _try(bound, x, x.natural(), _SHORTEST)
        if found is None:
            break
        x = found
        bounds.append(x.bound)
        now = x.residual()
        idle = 0 if now < 0.5 * best or now > ENOUGH else idle + 1
        best = min(best, now)
    return Ascent(bound, x, bounds)


def _first(bound: Bound, start: WarmSites | None) -> SitePoint:
    x = bound.prior()
    if start is not None and start.nu.shape == x.lam.shape:
        # The sites of a class give its mean, whatever the other classes.
        y = bound.move(replace(x, cross=None), (start.nu, start.lam))
    elif x.var.max(initial=0.0) > _MODERATE:
        cut = bound.prior(_MODERATE)
        y = bound.move(cut, cut.natural())
    else:
        return x
    return y if y.bound >= x.bound else x


def _try(bound: Bound, x: SitePoint, step: Step, shortest: float) -> SitePoint | None:
    """Return the point after the longest part of a step, by halves, on which the bound rises."""
    length = 1.0
    while length >= shortest:
        y = bound.move(x, step, length)
        if _rises(x, y):
            return y
        length *= 0.5
    return None


def _rises(x: SitePoint, y: SitePoint) -> bool:
    """Whether the bound is higher, or the same to rounding with a smaller residual."""
    if not np.isfinite(y.bound):
        return False
    slack, gain = max(x.rounding, y.rounding), y.bound - x.bound
    return gain > slack or (gain >= -slack and y.residual() < x.residual())
