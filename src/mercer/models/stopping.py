"""What is said of a machine once it is in its final form: KKT violation, verdict, and warning."""

from __future__ import annotations

import numpy as np

from mercer.solvers import Solution

__all__ = ["is_good", "kkt_violation", "stopped"]


def kkt_violation(
    f: np.ndarray, y: np.ndarray, coef: np.ndarray, bound: np.ndarray, offset: bool
) -> float:
    """Return by how much a classifier with margin 1 violates the optimality conditions, at worst.

    With G = f − y: G is the same, −b, at all aᵢ inside their bounds, not less where aᵢ can only
    grow and not more where it can only shrink. Without an offset it is 0.

    Parameters
    ----------
    f : ndarray
        Values at the points; an offset does not matter if there is one.
    y : ndarray
        +1 or −1.
    coef : ndarray
        Signed coefficients.
    bound : ndarray of bool
        Which are at their upper bound.
    offset : bool
        Whether there is an offset.
    """
    grow, shrink = (y > 0) & ~bound, (y > 0) & (coef != 0)
    grow, shrink = grow | ((y < 0) & (coef != 0)), shrink | ((y < 0) & ~bound)
    G = f - y
    low, high = G[grow].min(initial=np.inf), G[shrink].max(initial=-np.inf)
    if offset:
        return float(max(0.0, high - low))
    return float(max(0.0, high, -low))


def is_good(solution: Solution, tol: float, floor: float = 0.0) -> bool:
    """Whether a certificate meets a tolerance, as `SMO` judges it.

    Parameters
    ----------
    solution : Solution
        The certificate.
    tol : float
        Of the violation, and of the gap relative to the objective.
    floor : float, default=0.0
        A gap that may be from rounding alone.
    """
    size = max(abs(solution.primal), abs(solution.dual))  # type: ignore[arg-type]
    small = solution.gap <= max(tol * size, floor)  # type: ignore[operator]
    return bool(solution.residual <= tol and small)  # type: ignore[operator]


def stopped(cause: str, solution: Solution, tol: float, cure: str) -> str:
    """Return the warning of a machine that is not good: cause, its own numbers, and a cure.

    The model puts its name before it.

    Parameters
    ----------
    cause : str
        What the solver said.
    solution : Solution
        The certificate as it is stored.
    tol : float
        What was asked for.
    cure : str
        What to do; "allow more time", "raise max_iter" or "raise tol" is put before it.
    """
    left = (
        f"KKT violation {solution.residual:.2g}, gap {solution.gap:.2g} of an objective of "
        f"{solution.primal:.3g}, tolerance {tol:g}"
    )
    if "max_iter" in cause and "stopped" in cause:
        steps = f"after {solution.n_iter} steps ({left})"
        return f"stopped by max_iter {steps}. Raise max_iter, {cure}"
    if "max_time" in cause and "stopped" in cause:
        return f"stopped by max_time ({left}). Allow more time, {cure}"
    if "callback" in cause:
        return f"stopped by the callback ({left})."
    return f"rounding hides any further progress ({left}). Raise tol, {cure}"
