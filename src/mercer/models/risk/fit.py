"""What one regularised risk problem comes to, whichever solver solved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Loss, Pinball
from mercer.solvers import Solution, merged


def dual_slopes(loss: Loss, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest slope of a loss of `DUAL_LOSSES` at each target."""
    if isinstance(loss, Hinge):
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)
    low, high = (-loss.quantile, 1.0 - loss.quantile) if isinstance(loss, Pinball) else (-1.0, 1.0)
    return np.full(len(y), low), np.full(len(y), high)


def best_offset(loss: Loss, y: np.ndarray, f: np.ndarray, weights: np.ndarray) -> float:
    """Return the b that minimises Σ wᵢ ℓ(yᵢ, fᵢ + b), the middle where an interval of them does.

    The sum is convex and straight but for kinks, and its slope is known before the first of them:
    the minimum is where the jumps at the kinks have raised the slope to 0.
    """
    lowest, highest = dual_slopes(loss, y)
    kinks, jumps = y - f, weights * (highest - lowest)
    if isinstance(loss, EpsilonInsensitive):
        kinks = np.concatenate([kinks - loss.epsilon, kinks + loss.epsilon])
        jumps = 0.5 * np.concatenate([jumps, jumps])
    order = np.argsort(kinks, kind="stable")
    slope = float(weights @ lowest) + np.cumsum(jumps[order])
    level = LEVEL * float(jumps.sum())
    ends = np.searchsorted(slope, [-level, level], side="left")
    low, high = kinks[order[np.minimum(ends, len(order) - 1)]]
    return float(low + 0.5 * (high - low))


def _not_dual(loss: Loss) -> InvalidInput:
    names = ", ".join(cls.__name__ for cls in DUAL_LOSSES)
    return InvalidInput(
        f"{who()}: a loss with kinks is fitted through its dual, which is known for {names} only, "
        f"not for {loss!r}; use one of these. A loss of your own whose gradient is continuous says "
        "smooth = True and is fitted by Newton's method."
    )


LEVEL = 1e-12  # part of all weights within which a slope counts as 0


DUAL_LOSSES = (Hinge, Absolute, Pinball, EpsilonInsensitive)


@dataclass(frozen=True, eq=False)
class ERMFit:
    """The minimiser of Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖², with its certificate.

    Every way to fit has the same form, for resolved kernels and rows of positive weight::

        fit(kernel, X, y, loss, alpha, weights, offset,
            *, tol, max_iter, max_time, rows=None, start=None) -> ERMFit

    Labels are −1 and 1, tol the largest duality gap relative to the objective. `rows` are those of
    the Gram matrix where several problems share them, `start` coefficients to begin with.

    Parameters
    ----------
    dual_coef : ndarray of shape (n,) or (n, c)
        The coefficients a of f = Σ aᵢ k(xᵢ, ·).
    intercept : float or ndarray of shape (c,)
        The offset b, 0 without one.
    solution : Solution
        The certificate: primal, dual, gap, residual; its messages begin with who speaks.
    coef : ndarray of shape (D,) or (D, c), optional
        Weights of the kernel's explicit features, where the primal problem was solved.
    product : ndarray of shape (n,) or (n, c), optional
        K a, the values of f at the points without the offset.
    centers : collection, optional
        The centres that the coefficients belong to, where they are not the points.
    """

    dual_coef: np.ndarray
    intercept: Any
    solution: Solution
    coef: np.ndarray | None = None
    product: np.ndarray | None = None
    centers: Any = None


def stacked(fits: list[ERMFit]) -> ERMFit:
    """Return one fit with a column for each problem."""
    a = np.stack([fit.dual_coef for fit in fits], axis=1)
    parts = [fit.coef for fit in fits if fit.coef is not None]
    coef = np.stack(parts, axis=1) if len(parts) == len(fits) else None
    intercept = np.array([fit.intercept for fit in fits])
    return ERMFit(a, intercept, merged([fit.solution for fit in fits], a), coef)
