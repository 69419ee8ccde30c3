"""Descents in a box for few variables and costly evaluations: with a known curvature, and without.

Both minimise f over low ≤ x ≤ high, where f may be undefined at some points: steps too far. Without
a curvature `follow` runs L-BFGS-B (Byrd, Lu, Nocedal & Zhu, SIAM J. Sci. Comput. 16, 1995). Where
the curvature was measured on a cheaper problem of the same shape, `descend` needs few evaluations:
each step minimises the model gᵀd + ½dᵀBd in the intersection of the box and of |dᵢ| ≤ Δ, a trust
region of the same shape; B is updated by BFGS, damped where the curvature seen is not positive
(Nocedal & Wright, Numerical Optimization, 2006, procedure 18.2), and also after steps that are not
taken, since their gradients are paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize

# First and largest radius of the trust region; in logarithms, factors of e and of e³.
FIRST, LARGEST = 1.0, 3.0
FLAT = 0.03  # the least curvature that is believed in
WIDE, MOST = 0.03, 60  # step of differences that rounding does not hide, and for how many variables
MEMORY = 30  # steps that tell L-BFGS-B the curvature
REACH = np.log(1e5)  # how far L-BFGS-B may go before it starts anew
EXACT = 1e-3  # gain of a step of L-BFGS-B at which it ends, of what is worth nothing
ROUNDS = 1e-15  # the same, of the value itself
STEEP = 50  # times tol: a slope, or a gain, that makes the end of L-BFGS-B doubtful


@dataclass(frozen=True)
class Point:
    """A point, the value of f there and its gradient."""

    x: np.ndarray
    value: float
    gradient: np.ndarray


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: the best point, and why."""

    point: Point
    converged: bool
    reason: str


Function = Callable[[np.ndarray], Point | None]


def follow(
    f: Function,
    start: Point,
    box: np.ndarray,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
    give_up: Callable[[Point], bool] | None = None,
    bold: bool = False,
) -> Descent:
    """Minimise f in a box from a start that was evaluated, by L-BFGS-B.

    Where all variables have two limits the first step of L-BFGS-B is the whole gradient, often to
    the edges of the box; a further variable, that has none, makes it a step of length 1.

    Parameters
    ----------
    f : callable
        Returns a `Point`, or None where f is not defined: a step too far.
    start : Point
        Inside the box.
    box : ndarray of shape (p, 2)
        Limits.
    max_iter : int
        Steps at most.
    tol : float
        Stop where no derivative that leads inwards is larger, or a step gains a thousandth of it.
    give_up : callable, optional
        Asked with the best point after each step; True ends the descent.
    bold : bool
        Whether the first step may be long. It may find what a short one does not, or lose it.

    Returns
    -------
    Descent
        Its ``reason`` is as that of `descend`, or "given up".
    """
    p, tol = len(start.x), _above_rounding(tol, start)
    near = np.clip(box, (start.x - REACH)[:, None], (start.x + REACH)[:, None]) if bold else box
    limits = [(float(low), float(high)) for low, high in near]
    best = base = last = start
    left = False

    def value_and_gradient(z: np.ndarray) -> tuple[float, np.ndarray]:
        x, zero = z[:p], np.zeros(len(z) - p)
        value, gradient = at(x)
        return value, np.concatenate([gradient, zero])

    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, last
        if np.array_equal(x, start.x):
            return start.value, start.gradient
        new = f(x.copy())
        if new is None:
            # values and slopes of a parabola whose minimum is a quarter of the way
            return base.value + abs(base.gradient @ (x - base.x)), -3 * base.gradient
        last = new
        if new.value < best.value:
            best = new
        return new.value, new.gradient

    def after_step(z: np.ndarray) -> None:
        nonlocal base, left
        base = last if np.array_equal(last.x, z[:p]) else best
        left = give_up is not None and give_up(best)
        if left:
            raise StopIteration

    end = minimize(
        value_and_gradient,
        start.x if bold else np.append(start.x, 0.0),
        jac=True,
        method="L-BFGS-B",
        bounds=limits if bold else [*limits, (None, None)],
        callback=after_step,
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter + 20,
            "ftol": max(EXACT * tol / max(1.0, abs(start.value)), ROUNDS),
            "gtol": tol,
            "maxcor": 10 if bold else MEMORY,
        },
    )
    if left or end.status == 1:
        return Descent(best, False, "given up" if left else "max_iter")
    if ((near == best.x[:, None]) & (near != box)).any():
        rest = max(max_iter - end.nit, 1)
        return follow(f, best, box, max_iter=rest, tol=tol, give_up=give_up)
    if end.status == 0 and _steepness(best, box) <= STEEP * float(tol):
        return Descent(best, True, "")
    return _judged(f, best, box, max_iter, tol)


def _judged(f: Function, at: Point, box: np.ndarray, max_iter: int, tol: float) -> Descent:
    """Return why a line search failed, after going on with a curvature measured there."""
    H = curvature(f, at, box, WIDE) if len(box) <= MOST else None
    B = np.eye(len(box)) * max(_steepness(at, box), FLAT) if H is None else convex(H)
    end = descend(f, at, box, B, max_iter=max_iter, tol=tol)
    if end.reason == "slope" and expected_gain(B, end.point, box) <= STEEP * tol:
        return Descent(end.point, True, "rounding")  # two methods have tried
    return end


def descend(
    f: Function,
    start: Point,
    box: np.ndarray,
    B: np.ndarray,
    *,
    max_iter: int = 25,
    tol: float = 1e-3,
) -> Descent:
    """Minimise f in a box from a start that was evaluated, with its curvature there.

    Parameters
    ----------
    f : callable
        Returns a `Point`, or None where f is not defined: a step too far.
    start : Point
        Inside the box.
    box : ndarray of shape (p, 2)
        Limits.
    B : ndarray of shape (p, p)
        The curvature at the start, positive definite.
    max_iter : int
        Evaluations at most.
    tol : float
        Stop where no step inside the box is expected to gain more, and no derivative that leads
        inwards is larger than ten times that: what levels off like ℓ⁻² gains half of it at most.

    Returns
    -------
    Descent
        Its ``reason`` is "" for a minimum, "rounding" where values no longer tell points apart,
        and of a failure "wall" (f is not defined where it should go on), "slope" (values and
        gradients do not agree) or "max_iter".
    """
    now, low, high = start, box[:, 0], box[:, 1]
    tol = _above_rounding(tol, start)
    radius, wall, doubt = FIRST, False, 0.0
    for n_iter in range(max_iter + 1):
        d = box_step(B, now.gradient, low - now.x, high - now.x)
        gain, steep = _gain(B, now.gradient, d), _steepness(now, box)
        if steep == 0 or (gain <= tol and steep <= 10 * tol):
            return Descent(now, True, "")
        if np.abs(d).max() > radius:
            near = np.maximum(low - now.x, -radius), np.minimum(high - now.x, radius)
            d = box_step(B, now.gradient, *near)
            gain = _gain(B, now.gradient, d)
        if doubt and gain <= 0.1 * tol:  # steps shrank until nothing can be gained by them
            even = doubt <= 10 * tol + 1e-8 * abs(now.value)
            why = "wall" if wall else "rounding" if even else "slope"
            return Descent(now, why == "rounding", why)
        if n_iter == max_iter:
            break
        x = np.clip(now.x + d, low, high)
        d = x - now.x
        length, new = float(np.abs(d).max()), f(x)
        wall = new is None
        if new is None:
            doubt, radius = max(doubt, gain), length / 4
            continue
        won = now.value - new.value
        B = _updated(B, d, new.gradient - now.gradient)
        if won < 0.1 * gain:
            radius = min(radius, length) / (2 if won > 0 else 4)
        elif won > 0.5 * gain and length > 0.9 * radius:
            radius = min(2 * radius, LARGEST)
        if won > 0:
            now, doubt = new, 0.0
        else:
            doubt = max(doubt, gain)
    return Descent(now, False, "max_iter")


def _above_rounding(tol: float, start: Point) -> float:
    return max(tol, 1e-12, 1e-11 * abs(start.value))


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
