"""Sequential minimal optimisation on batched working sets, for the box QP of the margin machines.

One outer step: choose a working set by the gradient, fetch its kernel rows in one product, solve
the small problem on the cached block by compiled second-order steps (and Newton steps where those
are slow), then bring the gradient of all points up to date in one pass over the rows. Rows may be
float32; gradient and coefficients are float64, and the gradient is recomputed from the kernel
before the answer is called converged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.engines import Rates
from mercer.errors import InvalidInput, speaks
from mercer.solvers.base import IterativeSolver, Solution
from mercer.solvers.box.block import Budget, Direct
from mercer.solvers.box.descent import WORKING_SET, BoxDescent
from mercer.solvers.box.problem import BoxPoint, BoxQP, CheckedBox
from mercer.solvers.box.rows import LEAST, SHARE, SINGLE_FROM, Rows, rows_for
from mercer.solvers.cost import Cost, Facts, seconds_of

PILOT = 512  # points of the small problem that tells how many points will matter
MANY = 0.3  # part of them from which all rows are computed at once
ROUGH = 0.1  # part of a gap that may be hidden before the certificate is computed once more
ROUNDS = 30  # times the gradient is recomputed and the descent goes on


class SMO(IterativeSolver):
    r"""Solver of `BoxQP` by decomposition: batched working sets, cached rows, shrinking.

    Stops when no pair of variables violates the KKT conditions by more than `tol` and the duality
    gap is below `tol` times the objective, both recomputed from the kernel in float64.

    Parameters
    ----------
    tol : float, default=1e-3
        The largest KKT violation, and the largest gap relative to the objective.
    max_iter : int, optional
        Limit on the steps that move two variables (one, without a sum to hold); by default the
        larger of 10⁷ and 100 times the number of variables.
    max_time : float, optional
        Limit in seconds. The answer when it runs out is feasible and has its certificate.
    callback : callable, optional
        Called as ``callback(info)`` after every outer step with a dictionary of ``n_iter``,
        ``violation``, ``active`` and ``seconds``; a true return value stops the solver.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import SMO, BoxQP
    >>> y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> lower, upper = np.minimum(0, 10 * y), np.maximum(0, 10 * y)
    >>> solution = SMO().solve(BoxQP(np.outer(x, x), -y, lower, upper, totals=(0.0,)))
    >>> solution.value.round(3) + 0.0
    array([ 0. , -0.5,  0.5,  0. ])
    """

    def __init__(
        self,
        tol: float = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        callback: Callable[[dict], Any] | None = None,
    ):
        self.tol, self.max_iter, self.max_time, self.callback = tol, max_iter, max_time, callback

    @speaks("SMO", unless_spoken=True)
    def solve(
        self, problem: BoxQP, start: Any = None, rows: Rows | None = None, sharp: bool = True
    ) -> Solution:
        """Solve, from 0 or from a feasible start.

        Parameters
        ----------
        problem : BoxQP
            What to minimise.
        start : ndarray of shape (m,), optional
            Where to begin, such as the answer to a similar problem. It is moved into the box, and
            its sums are put right.
        rows : Rows, optional
            Rows of K that several problems share.
        sharp : bool, default=True
            Whether the certificate is computed in longer numbers where rounding hides it.

        Returns
        -------
        Solution
            `value` is a. ``dual`` is −(½aᵀQa + pᵀa) and ``primal`` − ``dual`` = ``gap`` ≥ 0, as a
            support vector machine counts them; what rounding may hide of the gap is part of it.
            ``residual`` is the largest KKT violation. `extra` has ``multipliers`` (of the sums) and
            ``product``, Ka at every point; ``text`` is the message without a name before it,
            ``why`` what it begins with, and ``cause`` what ended the steps, if not the tolerance.
        """
        if not isinstance(problem, BoxQP):
            raise InvalidInput(f"SMO: got a {type(problem).__name__}; it solves BoxQP.")
        self._check_limits(least=0)
        if self.callback is not None and not callable(self.callback):
            raise InvalidInput(f"SMO: callback={self.callback!r}; give a function of one argument.")
        box = problem.checked("SMO")
        limit = max(10**7, 100 * len(box.p)) if self.max_iter is None else int(self.max_iter)
        clock = Clock(self.max_time)
        rows = rows_for(box.K) if rows is None else rows
        if start is None and rows.empty and box.n > 4 * PILOT and self._will_need_all(box):
            rows.fill()
        budget = Budget(limit, clock, self.callback)
        kind = Direct if Direct.suits(box, rows, WORKING_SET) else BoxDescent
        descent = kind(box, rows, budget)
        try:
            descent.begin(start)
            return self._solve(descent, float(self.tol), sharp)
        finally:
            budget.ticker.close()
            descent.close()

    def _will_need_all(self, box: CheckedBox) -> bool:
        """Whether most points will have a coefficient, from the same problem on a few of them.

        With the box scaled up accordingly the few stand for the many.
        """
        sample = np.unique(np.linspace(0, box.n - 1, PILOT).astype(int))
        few = np.flatnonzero(np.isin(box.index, sample))
        factor = len(box.p) / max(1, len(few))
        lower, upper = factor * box.lower[few], factor * box.upper[few]
        groups, totals = box.groups[few], []
        for g, total in enumerate(box.totals):
            mine = groups == g
            totals.append(float(np.clip(total, lower[mine].sum(), upper[mine].sum())))
        signs = None if box.signs is None else box.signs[few]
        index = np.searchsorted(sample, box.index[few])
        K = box.K.block(sample, sample)
        problem = BoxQP(K, box.p[few], lower, upper, tuple(totals), groups, index, signs)
        a = SMO(tol=0.05, max_iter=20 * PILOT).solve(problem).value
        return len(np.unique(index[a != 0])) > MANY * len(np.unique(index))

    def _solve(self, descent: BoxDescent | Direct, tol: float, sharp: bool) -> Solution:
        goal, before = tol, np.inf
        for _ in range(ROUNDS):
            cause = descent.run(goal)
            point = descent.judge()
            if cause or point.is_good(tol):
                break
            if point.violation <= goal:  # the gap asks for more: it shrinks with the violation
                size = max(abs(point.value), abs(point.gap - point.value))
                share = 0.5 * tol * size / point.gap
                goal = min(0.3 * goal, max(share, 1e-3) * point.violation)
            elif point.violation > 0.5 * before and not descent.refine():
                cause = "rounding"
                break
            before = point.violation
        converged = point.is_proven(tol)
        if sharp and not converged and point.hidden > ROUGH * point.gap:
            point = descent.judge_sharply() or point
            converged = point.is_proven(tol)
        done = {"outer": descent.outer, "rows": descent.rows.computed}
        return told(point, *descent.answer, descent.budget.steps, converged, tol, cause, done)


def told(
    point: BoxPoint,
    a: np.ndarray,
    product: np.ndarray,
    steps: int,
    converged: bool,
    tol: float,
    cause: str,
    done: dict[str, int],
) -> Solution:
    """Return the solution that a point is, with its certificate; `product` is Ka at the points."""
    gap = point.gap + point.hidden
    more: dict[str, Any] = {"cause": cause, "multipliers": point.multipliers, "product": product}
    more.update(done, why="", text="")
    solution = Solution(
        value=a,
        converged=converged,
        n_iter=steps,
        residual=point.violation,
        gap=gap,
        primal=gap - point.value,
        dual=-point.value,
        extra=more,
    )
    if converged:
        return solution
    text = stopped_by(cause, solution, tol)
    more.update(why=_why(cause, solution.n_iter)[0], text=text)
    return replace(solution, message=f"SMO: {text}")


def stopped_by(cause: str, solution: Solution, tol: float) -> str:
    """Return what is said of a solution that a cause kept from its tolerance."""
    why, more = _why(cause, solution.n_iter)
    return (
        f"{why} (KKT violation {solution.residual:.2g}, gap {solution.gap:.2g} of an objective of "
        f"{solution.primal:.3g}, tolerance {tol:g}){more}"
    )


def _why(cause: str, steps: int) -> tuple[str, str]:
    """Return what ended the steps, and what may help."""
    return {
        "iterations": (
            f"stopped by max_iter after {steps} steps",
            ". Scale the columns, lower C, or raise max_iter.",
        ),
        "time": (
            "stopped by max_time",
            ". The answer is feasible; allow more time, or scale the columns and lower C.",
        ),
        "callback": ("stopped by the callback", "."),
    }.get(
        cause,
        (
            "rounding hides any further progress",
            ": coefficients and kernel values are too large for float64. Scale the columns, lower "
            "C, or raise tol.",
        ),
    )


# ---- What it costs ----


LARGE_SET = 1500  # points that it works on at a time, as a rule
PAIR_SECONDS = 1e-5  # a point that pairwise steps take, as a rule; they depend on the data


def rows_kept(facts: Facts) -> int:
    """Return how many rows of the matrix have room; all where they are given."""
    n = facts.n
    return n if facts.given else min(n, int(SHARE * facts.budget) // (_item(n) * n))


def smo_cost(
    facts: Facts, rates: Rates | None, sketch: Any = None, *, multipliers: int = 1
) -> Cost:
    """Rows of the matrix, kept as far as they fit, and the block of a working set."""
    n, item, rows = facts.n, _item(facts.n), rows_kept(facts)
    least = int(min(n, LEAST) * item * n / SHARE)
    kept = 0 if facts.given else item * n * rows
    several = 0 if rows == n else multipliers // 2  # of a working set; else the rows are the block
    sets = (2 + several) * 8 * min(n, LARGE_SET) ** 2
    again = 1.0 if rows == n else 4.0
    entries = 0.0 if facts.given else 0.7 * n * n * again
    reads = 2.0 * item * n * n * again
    seconds = seconds_of(facts, rates, sketch, entries=entries, reads=reads)
    if seconds is not None:
        seconds += PAIR_SECONDS * multipliers * n
    return Cost(max(least, kept), seconds, sets + facts.tiles + facts.vectors)


def _item(n: int) -> int:
    """Return the bytes of a value of a row."""
    return 4 if n >= SINGLE_FROM else 8
