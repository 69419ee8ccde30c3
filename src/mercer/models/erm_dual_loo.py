"""Leave-one-out values of risks with kinks: the span rule, and fits where it does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.engines import pick
from mercer.kernels import Kernel
from mercer.losses import Hinge, Loss
from mercer.models.erm_dual import INSIDE, dual_slopes, fit_dual
from mercer.models.ridge_data import take_rows
from mercer.models.span import leaves_box, span_moves
from mercer.models.span_refits import (
    PER_FEATURE,
    SMALL,
    check_enough,
    only_one,
    refitted,
    rows_to_doubt,
)

__all__ = ["loo_dual"]

CHEAP, MANY = 10**6, 1000  # n D² of a quick fit; rows up to which such fits may all be made again
KINK = 1e-6  # part of the mean error within which a target lies on a kink of its loss


def loo_dual(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    dual_coef: np.ndarray,
    intercept: float,
    values: np.ndarray | None = None,
) -> np.ndarray:
    """Return what a fit of `fit_dual` would say at its own points without them, by the span rule.

    An approximation: exact where no other point reaches or leaves a kink of its loss when the
    point is taken away. Points with coefficient 0 keep their value, which is exact; those that
    the rule moves too far, or that break a bound, are fitted again without (see `refitted`).

    Parameters
    ----------
    kernel, X, y, loss, alpha, weights, offset
        The problem, as for `fit_dual`.
    dual_coef : ndarray of shape (n,)
        The coefficients of the fit.
    intercept : float
        Its offset.
    values : ndarray of shape (n,), optional
        Its values, where they are known better than by the coefficients.
    """
    n, hinge = len(y), isinstance(loss, Hinge)
    check_enough(n, offset, "loo")
    if values is None:
        engine = pick(X)
        values = engine.to_numpy(engine.matmul(kernel, X, None, dual_coef)) + float(intercept)
    lowest, highest = dual_slopes(loss, y)
    box = -weights * highest / alpha, -weights * lowest / alpha
    epsilon = float(getattr(loss, "epsilon", 0.0))
    a = _slopes_again(kernel, X, y, values, float(intercept), dual_coef, box, epsilon, offset)
    near = INSIDE * (box[1] - box[0])
    free = (a > box[0] + near) & (a < box[1] - near)
    if epsilon > 0:
        free &= a != 0  # inside the tube, not on its edge
        box = np.where(a > 0, 0.0, box[0]), np.where(a < 0, 0.0, box[1])

    def again(i: int) -> float:
        others = np.delete(np.arange(n), i)
        if not len(others):
            return 0.0
        if hinge and offset and len(np.unique(y[others])) < 2:
            raise only_one(i, "loo")
        part = take_rows(kernel, X, others)
        problem = (kernel, part, y[others], loss, alpha, weights[others], offset)
        limits: Any = {"tol": 1e-6, "max_iter": None, "max_time": None, "owner": "loo"}
        fit = fit_dual(*problem, **limits, start=a[others])
        if isinstance(kernel.domain, GramRows):
            return float(X[i, others] @ fit.dual_coef + fit.intercept)
        x = kernel.domain.take(X, [i])
        if fit.coef is not None:
            return float(np.asarray(kernel._features(x) @ fit.coef)[0] + fit.intercept)
        return float(np.asarray(kernel(x, part))[0] @ fit.dual_coef + fit.intercept)

    moves = span_moves(kernel, X, a, free, offset)
    spread = 1.0 if hinge else float(np.average(np.abs(y - values), weights=weights))
    D, leave = kernel._n_features(X), None
    small = SMALL
    if D is not None and n * D**2 <= CHEAP:
        small = max(SMALL, min(PER_FEATURE * D, MANY))
    if rows_to_doubt(n, int(free.sum()), D):
        leave = leaves_box(kernel, X, a, free, box, offset)
    both = (values - moves)[:, None], values[:, None]
    return refitted(*both, np.array([spread]), again, "loo", leave, small)[:, 0]


def _slopes_again(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    values: np.ndarray,
    intercept: float,
    a: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    epsilon: float,
    offset: bool,
) -> np.ndarray:
    """Return coefficients that are −1/alpha times slopes of the losses, if those given are not.

    Coefficients of a fit by weights of features have the function that the weights have; for a
    small alpha they need not be slopes. Off the kinks the slopes are known, and there are no more
    kinks than numbers to meet: Kₘₘaₘ = f − b − (the others' part), Σaᵢ = 0.
    """
    errors, largest = y - values, float(np.abs(y).max(initial=0.0))
    near = KINK * float(np.abs(errors).mean()) + 1e-3 * KINK * largest
    on = np.abs(np.abs(errors) - epsilon) <= near
    known = np.where(errors > epsilon, box[1], np.where(errors < -epsilon, box[0], 0.0))
    if not (np.abs(a - known)[~on] > KINK * (box[1] - box[0])[~on]).any():
        return a
    at, engine = np.flatnonzero(on), pick(X)
    out = np.where(on, 0.0, known)
    if not len(at):
        return out
    left = values - intercept - engine.to_numpy(engine.matmul(kernel, X, None, out))
    some = take_rows(kernel, X, at)
    K = np.asarray(some if isinstance(kernel.domain, GramRows) else kernel(some), dtype=float)
    rows, right = K, left[at]
    if offset:
        size = max(float(K.diagonal().mean()), float(np.finfo(float).tiny))
        rows = np.vstack([K, np.full(len(at), size)])
        right = np.append(right, -size * out.sum())
    out[at] = np.clip(np.linalg.lstsq(rows, right, rcond=1e-12)[0], box[0][at], box[1][at])
    return out
