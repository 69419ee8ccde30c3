"""A dense quasi-Newton method in a box, for few variables and costly evaluations.

Minimises f over low ≤ x ≤ high. Each step minimises the model gᵀd + ½dᵀBd in the intersection of
the box and of |dᵢ| ≤ Δ, a trust region of the same shape; B is updated by BFGS, damped where the
curvature seen is not positive (Nocedal & Wright, Numerical Optimization, 2006, procedure 18.2), and
also after steps that are not taken, since their gradients are paid for. A start for B, from a
cheaper problem of the same shape, saves most evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular
from scipy.optimize import lsq_linear

__all__ = ["Descent", "Point", "box_step", "curvature", "descend"]

# Steepness, in the unit of f for each unit of x, below which no variable may be left.
SLOPE = 0.01
# First and largest radius of the trust region, in logarithms: factors of e and of e³.
FIRST, LARGEST, SMALLEST = 1.0, 3.0, 1e-9
FLAT = 0.03  # the least curvature that is believed in


@dataclass(frozen=True)
class Point:
    """A point, the value of f there and its gradient."""

    x: np.ndarray
    value: float
    gradient: np.ndarray


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: the best point, the model of the curvature there, and why."""

    point: Point
    B: np.ndarray
    converged: bool
    reason: str
    n_iter: int


def descend(
    f: Callable[[np.ndarray], Point | None],
    start: Point,
    box: np.ndarray,
    B: np.ndarray | None = None,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Descent:
    """Minimise f in a box from a start that was evaluated.

    Parameters
    ----------
    f : callable
        Returns a `Point`, or None where f is not defined: a step too far.
    start : Point
        Inside the box.
    box : ndarray of shape (p, 2)
        Limits.
    B : ndarray of shape (p, p), optional
        The curvature at the start, positive definite.
    max_iter : int
        Evaluations at most.
    tol : float
        Stop where no step inside the box is expected to gain more, and no slope is over 0.01.
    """
    now, low, high = start, box[:, 0], box[:, 1]
    known = B is not None
    if B is None:
        B = np.eye(len(start.x)) * max(float(np.abs(_inward(now, box)).max(initial=0.0)), 1e-8)
    radius, wall, noisy = FIRST, False, False
    for n_iter in range(max_iter + 1):
        d = box_step(B, now.gradient, low - now.x, high - now.x)
        gain = _gain(B, now.gradient, d)
        steep = float(np.abs(_inward(now, box)).max(initial=0.0))
        if steep == 0.0 or (gain <= tol and steep <= SLOPE):
            return Descent(now, B, True, "", n_iter)
        if radius < SMALLEST:
            why = "wall" if wall else "rounding" if noisy else "slope"
            return Descent(now, B, why == "rounding", why, n_iter)
        if n_iter == max_iter:
            break
        if np.abs(d).max() > radius:
            d = box_step(
                B, now.gradient, np.maximum(low - now.x, -radius), np.minimum(high - now.x, radius)
            )
            gain = _gain(B, now.gradient, d)
        x = np.clip(now.x + d, low, high)
        d, length = x - now.x, float(np.abs(d).max())
        new = f(x)
        if new is None:
            wall, radius = True, length / 4
            continue
        won = now.value - new.value
        y = new.gradient - now.gradient
        if not known and d @ y > 0:  # a unit for what the first step did not see
            B = np.eye(len(d)) * float(y @ y) / float(d @ y)
        known = True
        B = _updated(B, d, y)
        if won < 0.1 * gain:
            noisy = abs(won) <= 1e-9 * max(1.0, abs(now.value))
            radius = min(radius, length) / (2 if won > 0 else 4)
        elif won > 0.5 * gain and length > 0.9 * radius:
            radius = min(2 * radius, LARGEST)
        if won > 0 or (won == 0 and gain <= tol):
            now, wall = new, False
    return Descent(now, B, False, "max_iter", max_iter)


def box_step(B: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the d in a box, low ≤ 0 ≤ high, that minimises gᵀd + ½dᵀBd."""
    d = np.zeros(len(g))
    free = (low < 0) | (high > 0)
    free &= ~((low >= 0) & (g > 0)) | (high > low)
    free &= high > low
    if not free.any():
        return d
    low, high, g, B = low[free], high[free], g[free], B[np.ix_(free, free)]
    factor = cho_factor(B, lower=True)
    newton = -cho_solve(factor, g)
    if not ((newton >= low) & (newton <= high)).all():
        # ½‖Lᵀd + L⁻¹g‖², B = LLᵀ, by active sets (Stark & Parker 1995)
        L = np.tril(factor[0])
        target = -solve_triangular(L, g, lower=True)
        newton = lsq_linear(L.T, target, bounds=(low, high), method="bvls", tol=1e-12).x
    d[free] = np.clip(newton, low, high)
    return d


def curvature(
    f: Callable[[np.ndarray], Point | None], at: Point, box: np.ndarray, h: float = 1e-3
) -> np.ndarray | None:
    """Return the matrix of second derivatives by differences of gradients, made positive definite.

    None where f is not defined beside the point.

    Parameters
    ----------
    f : callable
        As for `descend`.
    at : Point
        Where.
    box : ndarray of shape (p, 2)
        Steps go inwards.
    h : float
        The step.
    """
    p = len(at.x)
    H = np.zeros((p, p))
    for i in range(p):
        if box[i, 0] == box[i, 1]:
            continue
        x = at.x.copy()
        x[i] += h if x[i] + h <= box[i, 1] else -h
        beside = f(x)
        if beside is None:
            return None
        H[i] = (beside.gradient - at.gradient) / (x[i] - at.x[i])
    values, vectors = eigh(0.5 * (H + H.T))
    return (vectors * np.maximum(np.abs(values), FLAT)) @ vectors.T


def _updated(B: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return B after a step s that changed the gradient by y (Nocedal & Wright, (18.14)-(18.16))."""
    Bs = B @ s
    sBs, sy = float(s @ Bs), float(s @ y)
    if not sBs > 0:
        return B
    if sy < 0.1 * sBs:
        share = 0.9 * sBs / (sBs - sy)
        y = share * y + (1 - share) * Bs
        sy = float(s @ y)
    new = B - np.outer(Bs, Bs / sBs) + np.outer(y, y / sy)
    new = 0.5 * (new + new.T)
    least = np.linalg.eigvalsh(new)[0] if np.isfinite(new).all() else -1.0
    return new if least > 1e-10 * max(1.0, float(np.abs(new).max())) else B


def _gain(B: np.ndarray, g: np.ndarray, d: np.ndarray) -> float:
    return -float(g @ d + 0.5 * d @ B @ d)


def _inward(at: Point, box: np.ndarray) -> np.ndarray:
    """Return the gradient without what would lead out of the box."""
    out = ((at.x <= box[:, 0]) & (at.gradient > 0)) | ((at.x >= box[:, 1]) & (at.gradient < 0))
    return np.where(out, 0.0, at.gradient)
