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
from scipy.linalg import cho_factor, cho_solve, eigh

__all__ = [
    "MOST",
    "Descent",
    "Point",
    "box_step",
    "convex",
    "curvature",
    "descend",
    "expected_gain",
]

# First and largest radius of the trust region; in logarithms, factors of e and of e³.
FIRST, LARGEST = 1.0, 3.0
FLAT = 0.03  # the least curvature that is believed in
WIDE, MOST = 0.03, 60  # step of differences that rounding does not hide, and for how many variables


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
    slope: float = 1e-2,
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
    tol, slope : float
        Stop where no step inside the box is expected to gain more than `tol`, and no derivative
        that leads inwards is larger than `slope`.

    Returns
    -------
    Descent
        Its ``reason`` is "" for a minimum, "rounding" where values no longer tell points apart,
        and of a failure "wall" (f is not defined where it should go on), "slope" (values and
        gradients do not agree) or "max_iter".
    """
    now, low, high = start, box[:, 0], box[:, 1]
    given = known = B is not None
    tol = max(tol, 1e-12, 1e-11 * abs(start.value))  # what rounding leaves of a value
    if B is None:
        B = np.eye(len(start.x)) * max(_steepness(now, box), 1e-8)
    radius, wall, doubt, spare = FIRST, False, 0.0, not given
    for n_iter in range(max_iter + 1):
        d = box_step(B, now.gradient, low - now.x, high - now.x)
        gain, steep = _gain(B, now.gradient, d), _steepness(now, box)
        if steep == 0 or (gain <= tol and steep <= slope):
            return Descent(now, B, True, "", n_iter)
        if np.abs(d).max() > radius:
            near = np.maximum(low - now.x, -radius), np.minimum(high - now.x, radius)
            d = box_step(B, now.gradient, *near)
            gain = _gain(B, now.gradient, d)
        if doubt and gain <= 0.1 * tol:  # steps shrank until nothing can be gained by them
            # a curvature that was learned on the way may be far too large: measure it, once
            H = curvature(f, now, box, WIDE) if spare and len(d) <= MOST else None
            if H is None:
                even = doubt <= 10 * tol + 1e-8 * abs(now.value)
                why = "wall" if wall else "rounding" if even else "slope"
                return Descent(now, B, why == "rounding", why, n_iter)
            spare, doubt, radius, B = False, 0.0, FIRST, convex(H)
            continue
        if n_iter == max_iter:
            break
        x = np.clip(now.x + d, low, high)
        d = x - now.x
        length, new = float(np.abs(d).max()), f(x)
        wall = new is None
        if new is None:
            doubt, radius = max(doubt, gain), length / 4
            continue
        won, y = now.value - new.value, new.gradient - now.gradient
        if not known and d @ y > 0:  # a unit for what the first step did not see
            B = np.eye(len(d)) * float(y @ y) / float(d @ y)
        known = True
        B = _updated(B, d, y)
        if won < 0.1 * gain:
            radius = min(radius, length) / (2 if won > 0 else 4)
        elif won > 0.5 * gain and length > 0.9 * radius:
            radius = min(2 * radius, LARGEST)
        if won > 0:
            now, doubt, spare = new, 0.0, spare or (won > tol and not given)
        else:
            doubt = max(doubt, gain)
    return Descent(now, B, False, "max_iter", max_iter)


def box_step(B: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the d in a box, low ≤ 0 ≤ high, that minimises gᵀd + ½dᵀBd."""
    d, free = np.zeros(len(g)), high > low
    for _ in range(10 * len(g) + 10):
        # active sets (Nocedal & Wright, algorithm 16.3): to the first limit in the way, or on
        target = d.copy()
        if free.any():
            F, held = np.ix_(free, free), B[np.ix_(free, ~free)] @ d[~free]
            target[free] = -cho_solve(cho_factor(B[F], lower=True), g[free] + held)
        over = free & ((target < low) | (target > high))
        if over.any():
            limit = np.where(target > d, high, low)
            share = (limit[over] - d[over]) / (target[over] - d[over])
            first = np.flatnonzero(over)[share.argmin()]
            d[free] += share.min() * (target - d)[free]
            d[first], free[first] = limit[first], False
            continue
        d = target
        slope = g + B @ d
        inward = np.where(d >= high, slope, -slope) * (~free & (high > low))
        if inward.max(initial=0.0) <= 1e-12 * np.abs(g).max(initial=0.0):
            break
        free[inward.argmax()] = True
    return np.clip(d, low, high)


def curvature(
    f: Callable[[np.ndarray], Point | None], at: Point, box: np.ndarray, h: float = 1e-3
) -> np.ndarray | None:
    """Return the matrix of second derivatives by differences of gradients.

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
    H = np.zeros((len(at.x),) * 2)
    for i in range(len(at.x)):
        x = at.x.copy()
        x[i] = at.x[i] + h if at.x[i] + h <= box[i, 1] else max(at.x[i] - h, box[i, 0])
        if x[i] == at.x[i]:
            continue
        beside = f(x)
        if beside is None:
            return None
        H[i] = (beside.gradient - at.gradient) / (x[i] - at.x[i])
    return 0.5 * (H + H.T)


def convex(H: np.ndarray, least: float = FLAT) -> np.ndarray:
    """Return H with its eigenvalues by size, and at least so large."""
    values, vectors = eigh(H)
    return (vectors * np.maximum(np.abs(values), least)) @ vectors.T


def _updated(B: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return B after a step s that changed the gradient by y: damped BFGS, equation 18.16."""
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


def expected_gain(B: np.ndarray, at: Point, box: np.ndarray) -> float:
    """Return what the best step inside the box is expected to gain."""
    d = box_step(B, at.gradient, box[:, 0] - at.x, box[:, 1] - at.x)
    return _gain(B, at.gradient, d)


def _steepness(at: Point, box: np.ndarray) -> float:
    """Return the largest derivative, without those that lead out of the box."""
    out = ((at.x <= box[:, 0]) & (at.gradient > 0)) | ((at.x >= box[:, 1]) & (at.gradient < 0))
    return float(np.abs(np.where(out, 0.0, at.gradient)).max(initial=0.0))
