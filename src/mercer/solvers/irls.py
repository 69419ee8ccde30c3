"""Newton for smooth regularised risks: every step is one weighted ridge regression."""

from __future__ import annotations

import numpy as np

from mercer.solvers.smooth_descent import Descent, Point
from mercer.solvers.smooth_solver import SmoothSolver

__all__ = ["IRLS"]

STEEP = 1e-12  # curvature, relative to the largest, below which a steep row is taken as straight


class _Reweighted(Descent):
    """The steps of IRLS: one factorisation with the curvatures as weights."""

    def newton(self, x: Point) -> Point:
        """Take one damped Newton step."""
        p = self.p
        h = p.curvatures(x.z)
        h[~(h > 0)] = 0.0
        # A row far on the wrong side of a logistic loss: its slope is all, its curvature nothing,
        # and S⁻¹g would drown the others. Without its curvature the step is still a descent.
        rate, slope = h / p.w, np.abs(x.g) / p.w
        h[(rate < STEEP * rate.max(initial=0.0)) & (slope > 1e-3 * slope.max())] = 0.0
        self.metric.factor(h)
        self.jitter = max(self.jitter, self.metric.jitter)
        return self.along(x, *self.direction(x))


class IRLS(SmoothSolver):
    r"""Solver of `SmoothERM` by iteratively reweighted least squares, that is, damped Newton.

    At values f with slopes g = wℓ' and curvatures h = wℓ'' a step is the ridge regression with
    weights h on the working targets f − g/h, from one factorisation: of alpha·I + H^½KH^½ over the
    rows with h > 0, or of a D×D matrix of D features. Along a step the values are linear, so the
    line search costs O(n) a trial, and the offset is brought to its optimum in between. A very
    small alpha is come to from larger ones.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest duality gap, relative to the objective; or what rounding leaves, at most 1e-6.
    max_iter : int, default=100
        Limit on Newton steps.
    max_time : float, optional
        Limit in seconds; checked between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import IRLS, SmoothERM
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> problem = SmoothERM(np.outer(x, x), [-1, 1, -1, 1], Logistic(), alpha=0.1)
    >>> solution = IRLS().solve(problem)
    >>> solution.converged, bool(abs(solution.value.sum()) < 1e-12)
    (True, True)
    """

    _descent = _Reweighted
