"""What the Newton solvers share: limits, and the way from a problem to its solution."""

from __future__ import annotations

import time
from typing import Any

from mercer.solvers.base import Solution
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.own_loss import fault_of
from mercer.solvers.smooth_descent import EASED, Descent
from mercer.solvers.smooth_metric import metric_of

__all__ = ["SmoothSolver"]

STAGE = 40  # steps for each of the larger penalties on the way to a small one


class SmoothSolver:
    """Base of the Newton solvers: limits, and the path from problem to solution."""

    #: The `Descent` that takes the steps.
    _descent: type[Descent]

    def __init__(self, tol: float = 1e-8, max_iter: int = 100, max_time: float | None = None):
        owner = type(self).__name__
        check_number(tol, "tol", owner, 0.0)
        check_index(max_iter, "max_iter", owner, 1)
        if max_time is not None:
            check_number(max_time, "max_time", owner, 0.0, closed=True)
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time

    def __repr__(self) -> str:
        limits = f"tol={self.tol!r}, max_iter={self.max_iter!r}, max_time={self.max_time!r}"
        return f"{type(self).__name__}({limits})"

    def solve(self, problem: Any, start: Any = None, owner: str = "") -> Solution:
        """Return the minimiser and its certificate.

        Parameters
        ----------
        problem : SmoothERM or SoftmaxERM
            The problem; nothing of it is changed.
        start : tuple (a, b), optional
            Coefficients and offset to begin with; by default no function and the best constant.
        owner : str, optional
            Whose fit it is; messages begin with it.

        Returns
        -------
        Solution
            ``value`` is a. ``extra`` has "intercept" b, "product" Ka, for `LowRank` problems solved
            in their features "weights" v with values Fv, and "jitter", the largest amount added to
            the diagonal of a Newton matrix.
        """
        owner = owner or type(self).__name__
        p = problem.checked(owner)
        run = self._descent(p, metric_of(p, owner), owner)
        fault = fault_of(p.loss, p.y) if hasattr(p, "loss") else ""
        if fault:
            return run.nothing(fault, self.tol)
        x = run.start(start)
        deadline = None if self.max_time is None else time.monotonic() + self.max_time
        steps = 0
        for alpha in run.larger_penalties(x):
            x = run.with_penalty(alpha, x)
            x, taken, _ = run.descend(x, min(STAGE, self.max_iter - steps), deadline, EASED)
            steps += taken
        x = run.with_penalty(p.alpha, x)
        x, taken, why = run.descend(x, self.max_iter - steps, deadline, self.tol)
        return run.solution(x, steps + taken, why)
