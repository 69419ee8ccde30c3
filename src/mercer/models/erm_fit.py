"""What one regularised risk problem comes to, whichever solver solved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.models.machines import merged
from mercer.solvers import Solution

__all__ = ["ERMFit", "stacked"]


@dataclass(frozen=True, eq=False)
class ERMFit:
    """The minimiser of Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖², with its certificate.

    Every way to fit has the same form, for resolved kernels and rows of positive weight::

        fit(kernel, X, y, loss, alpha, weights, offset,
            *, tol, max_iter, max_time, owner, rows=None) -> ERMFit

    `rows` are those of the Gram matrix where several problems share them.

    Parameters
    ----------
    dual_coef : ndarray of shape (n,) or (n, c)
        The coefficients a of f = Σ aᵢ k(xᵢ, ·).
    intercept : float or ndarray of shape (c,)
        The offset b, 0 without one.
    solution : Solution
        The certificate: primal, dual, gap, residual; its messages begin with the owner.
    coef : ndarray of shape (D,) or (D, c), optional
        Weights of the kernel's explicit features, where the primal problem was solved.
    product : ndarray of shape (n,) or (n, c), optional
        K a, the values of f at the points without the offset.
    """

    dual_coef: np.ndarray
    intercept: Any
    solution: Solution
    coef: np.ndarray | None = None
    product: np.ndarray | None = None


def stacked(fits: list[ERMFit]) -> ERMFit:
    """Return one fit with a column for each problem."""
    a = np.stack([fit.dual_coef for fit in fits], axis=1)
    parts = [fit.coef for fit in fits if fit.coef is not None]
    coef = np.stack(parts, axis=1) if len(parts) == len(fits) else None
    intercept = np.array([fit.intercept for fit in fits])
    return ERMFit(a, intercept, merged([fit.solution for fit in fits], a), coef)
