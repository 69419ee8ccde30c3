"""The last step of a dual fit: the coefficients between their bounds, from their linear equations.

Once it is known which coefficients are at a bound (or 0, in a tube), the others solve

    Σⱼ K_ij aⱼ + b = tᵢ  for every free i,   Σⱼ aⱼ = 0 with an offset b,

with tᵢ the kink that point i sits on. Solving that leaves no trace of where the descent stopped,
so that answers do not depend, beyond rounding, on the order of the rows or a constant in y.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from mercer.solvers import Rows

__all__ = ["polished"]

MOST = 1500  # free coefficients up to which their equations are solved
NEAR = 1e-9  # part of the box, or of all coefficients, within which one counts as at its end


def polished(
    rows: Rows,
    a: np.ndarray,
    targets: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    offset: bool,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return better coefficients and their Ka, or None where the equations have no answer inside.

    Parameters
    ----------
    rows : Rows
        Rows of K; only where all are there in float64.
    a : ndarray of shape (n,)
        Coefficients near the optimum.
    targets : ndarray of shape (n,)
        The kink tᵢ of every point.
    lower, upper : ndarray of shape (n,)
        The box.
    offset : bool
        Whether there is an offset.
    """
    if not (rows.whole and rows.exact):
        return None
    near = NEAR * np.minimum(upper - lower, np.abs(a).max(initial=0.0))
    a = np.where(a <= lower + near, lower, np.where(a >= upper - near, upper, a))
    free = np.flatnonzero((a > lower) & (a < upper))
    m = len(free)
    if not 0 < m <= MOST:
        return None
    K = rows.store
    border = 1 if offset else 0
    system = np.zeros((m + border, m + border))
    system[:m, :m] = K[np.ix_(free, free)]
    system[m:, :m] = system[:m, m:] = border
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular system gives no finite answer
        factors = lu_factor(system, check_finite=False)
        b = 0.0
        for _ in range(2):  # the second is a step of iterative refinement
            residual = np.full(m + border, -a.sum())
            residual[:m] = targets[free] - K[free] @ a - b
            step = lu_solve(factors, residual, check_finite=False)
            a[free] += step[:m]
            b += float(step[m:].sum())
    if not np.isfinite(a).all() or (a < lower).any() or (a > upper).any():
        return None
    return a, K @ a
