"""Nearest points of two hulls from explicit features, to the last digits (Wolfe's algorithm).

A Gram matrix holds squares: what is 10⁻⁸ of the longest point is rounding there. Least squares on
the points themselves see down to 10⁻¹⁶ (P. Wolfe, Finding the nearest point in a polytope, 1976).
"""

from __future__ import annotations

import time

import numpy as np

__all__ = ["nearest_points"]

ROUNDS = 1000
ROUNDING = 4 * float(np.finfo(float).eps)


def nearest_points(
    Z: np.ndarray, y: np.ndarray, offset: bool, guess: np.ndarray, seconds: float | None = None
) -> np.ndarray | None:
    """Return the convex weights of the nearest points, None if they were not found.

    The weights are as exact as ``numpy.longdouble``, for whoever multiplies them before rounding.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        The points.
    y : ndarray
        +1 or −1, the side of each.
    offset : bool
        Whether the segment runs between the hulls of the sides; else from 0 to that of yᵢzᵢ.
    guess : ndarray
        A direction to begin with.
    seconds : float, optional
        Limit on the time.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)

    def lowest(w: np.ndarray) -> tuple[int, ...]:
        """Return the vertex of the polytope that is lowest in a direction."""
        if not offset:
            return (int(np.argmin(y * (Z @ w))),)
        values = Z @ w
        return int(positive[values[positive].argmin()]), int(negative[values[negative].argmax()])

    def point(vertex: tuple[int, ...]) -> np.ndarray:
        return Z[vertex[0]] - Z[vertex[1]] if offset else y[vertex[0]] * Z[vertex[0]]

    corral = [lowest(guess)]
    P, weights = point(corral[0])[None], np.ones(1)
    for _ in range(ROUNDS):
        w = weights @ P
        new = lowest(w)
        p = point(new)
        least = ROUNDING * float(np.abs(w) @ np.abs(P).max(axis=0))
        if float(w @ w) - float(w @ p) <= least or new in corral:
            return _spread(corral, _more_digits(P, weights), len(y))
        if deadline is not None and time.monotonic() > deadline:
            return None
        corral, P, weights = [*corral, new], np.vstack([P, p]), np.append(weights, 0.0)
        while True:
            goal = _affine(P)
            if goal is None:
                return None
            if (goal > 0).all():
                weights = goal
                break
            falls = goal <= 0
            ratios = weights[falls] / np.maximum(weights[falls] - goal[falls], 1e-300)
            step = float(ratios.min())
            weights = (1 - step) * weights + step * goal
            keep = weights > ROUNDING
            keep[np.flatnonzero(falls)[int(ratios.argmin())]] = False
            if not keep.any():
                return None
            corral = [vertex for vertex, stays in zip(corral, keep, strict=True) if stays]
            P, weights = P[keep], weights[keep] / weights[keep].sum()
    return None


def _affine(P: np.ndarray) -> np.ndarray | None:
    """Return the weights, of sum 1 and any sign, of the point nearest to 0 in the span of rows."""
    if len(P) == 1:
        return np.ones(1)
    try:
        t = np.linalg.lstsq((P[1:] - P[0]).T, -P[0], rcond=None)[0]
    except np.linalg.LinAlgError:
        return None
    return np.r_[1.0 - t.sum(), t]


def _more_digits(P: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights after steps of refinement, with residuals in longer numbers."""
    first, t = P[0].astype(np.longdouble), weights[1:].astype(np.longdouble)
    B = (P[1:] - P[0]).astype(np.longdouble)
    for _ in range(2 if len(t) else 0):
        lack = np.asarray(-(first + t @ B), dtype=float)
        t = t + np.linalg.lstsq(B.T.astype(float), lack, rcond=None)[0]
    better = np.concatenate([[1 - t.sum()], t])
    return better if (better > 0).all() else weights


def _spread(corral: list[tuple[int, ...]], weights: np.ndarray, n: int) -> np.ndarray:
    """Return a weight for each point from those of the vertices."""
    out = np.zeros(n, dtype=weights.dtype)
    for vertex, weight in zip(corral, weights, strict=True):
        out[list(vertex)] += weight
    return out
