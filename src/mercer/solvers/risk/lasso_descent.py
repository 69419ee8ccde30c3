"""Sparse weights by working sets of coordinate descent, with a duality gap."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from mercer.checks import Clock
from mercer.errors import InvalidInput, speaks, who
from mercer.settings import get_config
from mercer.solvers.base import IterativeSolver, Solution
from mercer.solvers.linear import factor_with_ridge
from mercer.solvers.risk.lasso import CheckedSparse, SparseERM, SparsePoint

# ---- The quadratic model of a risk on a few weights: passes of coordinate descent, Newton at the
# end.
# Coordinate descent finds which weights are zero quickly and their values slowly, since kernel
# values with neighbouring prototypes are almost proportional. With the signs known the values are
# one linear system. Both work on the block Q of the weights' curvatures, which is computed once.


RIDGE = 1e-14  # relative to the mean of the diagonal: a singular block still gives a descent
STRIP = 64  # rows of the data whose part in Q is added at a time
WORK = 2e7  # operations between looks at the clock
BLOCK_ROUNDS = 5  # of passes and Newton steps
GROWTH = 1e3  # of the violation, beyond which steps follow the rounding of a singular block


class CurvatureBlock:
    """Curvatures Q = ĀᵀHĀ of some columns; Ā has its weighted means taken out for an offset.

    With curvatures h of the loss an offset follows every step δ of a weight by −δ·mean, so columns
    act as if they were centred. `rows`, of shape (m, n), holds all columns of A; h has the weights.
    """

    def __init__(self, rows: np.ndarray, index: np.ndarray, h: np.ndarray, offset: bool):
        self.index, self.h, self.rows = index, h, rows
        q, n = len(index), rows.shape[1]
        total = float(h.sum())
        self.mean = np.zeros(q)
        if offset and total > 0:
            for j in range(0, n, STRIP):
                self.mean += rows[index, j : j + STRIP] @ h[j : j + STRIP]
            self.mean /= total
        self.Q = np.zeros((q, q))
        for j in range(0, n, STRIP):
            part = rows[index, j : j + STRIP] - self.mean[:, None]
            part *= np.sqrt(h[j : j + STRIP])
            self.Q += part @ part.T
        self.diagonal = self.Q.diagonal().copy()

    def values(self, d: np.ndarray) -> np.ndarray:
        """Return Ād, the change of the values after a change d of the weights and of the offset."""
        change = np.zeros(len(self.rows))
        change[self.index] = d
        return change @ self.rows - float(self.mean @ d)


def minimise(
    block: CurvatureBlock,
    p: np.ndarray,
    v: np.ndarray,
    l1: float,
    l2: float,
    goal: float,
    passes_left: int,
    clock: Clock,
) -> tuple[np.ndarray, int]:
    """Return weights that minimise the model, and the passes made.

    It begins from v, where the risk has the slopes p, and ends where the optimality conditions are
    violated by no more than `goal`.
    """
    from mercer.jit import passes

    Q, v, p = block.Q, v.copy(), p.copy()
    q, made = len(v), 0
    batch = int(np.clip(WORK / max(1, q * q), 1, 20))
    for _ in range(BLOCK_ROUNDS):
        most = min(batch, passes_left - made)
        if most <= 0 or clock.late:
            break
        made += passes(Q, block.diagonal, p, v, l1, l2, most, goal)
        if _active_set(Q, p, v, l1, l2, goal, clock):
            break
    return v, made


def _active_set(
    Q: np.ndarray,
    p: np.ndarray,
    v: np.ndarray,
    l1: float,
    l2: float,
    goal: float,
    clock: Clock,
) -> bool:
    """Minimise over the weights that are not zero, then over these and the worst other, and so on.

    The active-set method of Lawson & Hanson (1974, ch. 23) with signs. In place; returns whether
    the goal was reached, and stops when rounding ends the descent, back where least was violated.
    """
    least, kept = np.inf, (v.copy(), p.copy())
    for _ in range(len(v) + 20):
        joins = -1
        bend = p + l2 * v
        off = np.where(v != 0, np.abs(bend + l1 * np.sign(v)), np.abs(bend) - l1)
        worst = float(off.max(initial=0.0))
        if worst <= goal:
            return True
        if worst > GROWTH * least:
            v[:], p[:] = kept
            return False
        if worst < least:
            least, kept = worst, (v.copy(), p.copy())
        if l1 > 0:
            idle = np.where(v != 0, 0.0, off)
            if off[v != 0].max(initial=0.0) <= max(goal, 1e-3 * idle.max()):
                joins = int(idle.argmax())
        if not _step(Q, p, v, l1, l2, joins):
            return False
        if clock.late:
            return False
    return False


def _step(Q: np.ndarray, p: np.ndarray, v: np.ndarray, l1: float, l2: float, joins: int) -> bool:
    """Make one Newton step over the weights that are not zero, signs kept, and one that joins them.

    In place; returns whether it was a descent. With l1 = 0 there are no signs to keep, and all
    weights are free.
    """
    free = v != 0
    signs = np.sign(v)
    if joins >= 0:
        free[joins], signs[joins] = True, -np.sign(p[joins])
    S = np.flatnonzero(free) if l1 > 0 else np.arange(len(v))
    if not len(S):
        return False
    part = Q if len(S) == len(v) else Q[np.ix_(S, S)]
    signs, old = signs[S], v[S]
    slope = p[S] + l2 * old + l1 * signs
    d = _newton(part, l2, slope)
    if d is None or not slope @ d < 0:
        return False
    new = old + d
    crossed = signs * new < 0 if l1 > 0 else np.zeros(len(S), dtype=bool)
    if crossed.any():
        new = _stopped_at_zero(part, l2, slope, old, d, crossed)
    e = new - old
    if not _change(part, l2, slope, e) < 0:
        return False
    moved = np.zeros(len(v))
    moved[S] = e
    p += moved @ Q
    v[S] = new
    return True


def _change(Q: np.ndarray, l2: float, slope: np.ndarray, e: np.ndarray) -> float:
    """Return the change of the objective by a step e that keeps signs."""
    return float(slope @ e + 0.5 * (e @ (Q @ e)) + 0.5 * l2 * (e @ e))


def _stopped_at_zero(
    Q: np.ndarray,
    l2: float,
    slope: np.ndarray,
    v: np.ndarray,
    d: np.ndarray,
    crossed: np.ndarray,
) -> np.ndarray:
    """Return where a step d leads that may change no sign.

    Either every weight that would change its sign stops at zero and the others go all the way, or
    all go until the first is zero; the better of the two. The second is always a descent.
    """
    reach = np.full(len(v), np.inf)
    reach[crossed] = -v[crossed] / d[crossed]
    first = float(reach.min())
    ends = [np.where(crossed, 0.0, v + d), np.where(reach == first, 0.0, v + first * d)]
    ends[1][v * ends[1] < 0] = 0.0
    return min(ends, key=lambda end: _change(Q, l2, slope, end - v))


def _newton(Q: np.ndarray, l2: float, slope: np.ndarray) -> np.ndarray | None:
    """Return −(Q + l2·I)⁻¹ slope, with a ridge that is larger where that is singular; Q is kept."""
    ridge = RIDGE * float(Q.trace()) / len(Q)
    C = factor_with_ridge(Q, (l2 + ridge, l2 + 100 * ridge, l2 + 10_000 * ridge))
    if C is None:
        return None
    d = -cho_solve(C, slope, check_finite=False)
    return d if np.isfinite(d).all() and np.abs(d).max(initial=0.0) < 1e150 else None


# ---- lasso ----


FIRST = 16  # weights that join a working set at first
ROUNDS = 150
FINE = 1e-15  # violation below which there is nothing left to polish
PATIENCE = 3  # rounds without progress that end the work
FLAT = 1e-9  # least curvature of a point, relative to the largest: a flat model has no minimum
MOST_PASSES = 100_000


class CoordinateDescent(IterativeSolver):
    r"""Solver of `SparseERM` by coordinate descent on working sets of weights.

    Each round takes the weights that are not zero and those that violate the optimality conditions
    most, models the loss by its curvature there (the squared loss is its own model), and minimises
    the model by passes of coordinate descent and, the signs known, by Newton steps. A line search
    makes the step a descent. So m columns cost one product Aᵀθ a round, and only those of the
    working set anything more.

    Stops when the duality gap is below `tol` times the objective and no optimality condition is
    violated by more than `tol`, relative to the terms that it is the sum of; then polishes as long
    as that takes few rounds. All of it is recomputed from A in float64.

    Parameters
    ----------
    tol : float, default=1e-6
        The largest gap relative to the objective, and the largest relative violation.
    max_iter : int, optional
        Limit on passes of coordinate descent over a working set; 100 000 by default.
    max_time : float, optional
        Limit in seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import CoordinateDescent, SparseERM
    >>> A = np.array([[1.0, 0.9], [0.0, 0.1], [1.0, 1.0]])
    >>> solution = CoordinateDescent().solve(SparseERM(A, [2.0, 0.0, 2.1], alpha=0.1))
    >>> solution.value.round(3), round(solution.extra["offset"], 3), solution.converged
    (array([1.9, 0. ]), 0.1, True)
    """

    def __init__(
        self, tol: float = 1e-6, max_iter: int | None = None, max_time: float | None = None
    ):
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time

    @speaks("CoordinateDescent", unless_spoken=True)
    def solve(self, problem: SparseERM | CheckedSparse, start: Any = None) -> Solution:
        """Solve, from 0 or from given weights.

        Parameters
        ----------
        problem : SparseERM
            What to minimise.
        start : ndarray of shape (m,), optional
            Weights to begin from, such as the answer for a larger penalty.

        Returns
        -------
        Solution
            `value` is v; ``extra["offset"]`` is b. ``residual`` is the largest violation.
        """
        if not isinstance(problem, SparseERM | CheckedSparse):
            raise InvalidInput(f"{who()}: got a {type(problem).__name__}; it solves SparseERM.")
        self._check_limits(least=0)
        checked = problem.checked(who()) if isinstance(problem, SparseERM) else problem
        m = len(checked.rows)
        v = np.zeros(m) if start is None else np.array(start, dtype=float)
        if v.shape != (m,) or not np.isfinite(v).all():
            raise InvalidInput(f"{who()}: start has shape {v.shape}; give {m} finite numbers.")
        return _LassoDescent(self, checked, v).run()


class _LassoDescent:
    """One run of the solver."""

    def __init__(self, solver: CoordinateDescent, problem: CheckedSparse, v: np.ndarray):
        self.problem, self.tol = problem, float(solver.tol)
        self.limit = MOST_PASSES if solver.max_iter is None else int(solver.max_iter)
        self.clock = Clock(solver.max_time)
        self.passes, self.rounds, self.size, self.short = 0, 0, FIRST, 0
        self.unit = problem.sizes(np.zeros(len(v)), 0.0)[0]
        self.point = problem.judge(v)
        self.block: CurvatureBlock | None = None

    def run(self) -> Solution:
        best, idle, cause = self.point, 0, "rounds"
        while self.rounds < ROUNDS and self.point.worst > FINE * self.unit:
            if self.passes >= self.limit:
                cause = "iterations"
                break
            if self.clock.late:
                cause = "time"
                break
            before, self.point = self.point, self._round()
            self.rounds += 1
            good = self._good(best)
            progress = self.point.worst < 0.7 * best.worst
            if not good:
                progress = progress or self.point.primal < (1 - 1e-3) * before.primal
            if (self._good(self.point), -self.point.worst) > (good, -best.worst):
                best = self.point
            idle = 0 if progress else idle + 1
            if idle >= (PATIENCE if good else 4 * PATIENCE):
                cause = "memory" if self.short else "rounds"
                break
        return self._solution(best, cause)

    def _violation(self, point: SparsePoint) -> float:
        """Return the largest violation, relative to the terms that it is the sum of."""
        weights, offset = self.problem.sizes(point.v, point.b)
        return max(point.worst / weights, point.tilt / offset)

    def _good(self, point: SparsePoint) -> bool:
        size = max(abs(point.primal), abs(point.dual))
        small = point.gap <= max(self.tol * size, self.problem.nothing)
        return small and (point.worst <= self.tol * self.unit or self._violation(point) <= self.tol)

    # -- one round ----------------------------------------------------------------------------
    def _round(self) -> SparsePoint:
        problem, point = self.problem, self.point
        index = self._working_set()
        block = self._curvatures(index)
        goal = max(1e-3 * float(point.off[index].max(initial=0.0)), 0.1 * FINE * self.unit)
        penalties, left = (problem.l1, problem.l2), self.limit - self.passes
        slopes, old = point.gradient[index], point.v[index]
        new, made = minimise(block, slopes, old, *penalties, goal, left, self.clock)
        self.passes += made
        d = new - old
        if not d.any():
            self.size = min(2 * self.size, len(point.v))
            return point
        step = 1.0 if problem.exact else self._line_search(index, d, block)
        v = point.v.copy()
        v[index] = new if step == 1.0 else old + step * d
        return problem.judge(v, point.b)

    def _working_set(self) -> np.ndarray:
        """Return the weights that are not zero and the worst others, as many as fit the budget."""
        point, m = self.point, len(self.point.v)
        room = get_config().memory - self.problem.rows.nbytes
        most = max(FIRST, int(np.sqrt(max(0, room) / 26)))  # Q, a part of it, and its factor
        off, used = point.off, point.v != 0
        self.size = min(m, max(self.size, 2 * int(used.sum())))
        self.short = most if most < min(m, int(used.sum()) + self.size) else 0
        order = np.argsort(-np.where(used, off + 1e-3 * self.unit, off), kind="stable")
        if int(used.sum()) <= most:
            order = np.argsort(-np.where(used, np.inf, off), kind="stable")
        chosen = order[: min(most, int(used.sum()) + self.size)]
        return np.sort(chosen[used[chosen] | (off[chosen] > 0)])

    def _curvatures(self, index: np.ndarray) -> CurvatureBlock:
        problem = self.problem
        if problem.exact:
            if self.block is None or not np.array_equal(self.block.index, index):
                self.block = None  # before the next one: both may not fit the budget
                self.block = CurvatureBlock(problem.rows, index, problem.w, problem.offset)
            return self.block
        h = problem.w * problem.loss._curvature(problem.y, self.point.z)
        h = np.maximum(h, FLAT * float(h.max(initial=0.0)))
        return CurvatureBlock(problem.rows, index, h, problem.offset)

    def _line_search(self, index: np.ndarray, d: np.ndarray, block: CurvatureBlock) -> float:
        """Return a step that lowers the objective by a part of what its slope promises (Armijo)."""
        problem, point = self.problem, self.point
        values = block.values(d)
        before, step = point.v[index], 1.0
        slope = float(point.slopes @ values)
        was = problem.penalty(before)
        slope += problem.penalty(before + d) - was
        risk = problem.risk(point.z)
        slack = 1e-15 * (risk + was)
        for _ in range(40):
            change = problem.risk(point.z + step * values) - risk
            change += problem.penalty(before + step * d) - was
            if change <= 1e-4 * step * slope + slack:
                break
            step *= 0.5
        return step

    # -- the answer ---------------------------------------------------------------------------
    def _solution(self, point: SparsePoint, cause: str) -> Solution:
        converged, violation = self._good(point), self._violation(point)
        left = f"gap {point.gap:.2g} of an objective of {point.primal:.3g}, violation "
        left += f"{violation:.2g}, tolerance {self.tol:g}"
        message = {
            "iterations": f"stopped by max_iter after {self.passes} passes ({left}). Raise "
            "max_iter, or alpha.",
            "time": f"stopped by max_time ({left}). Allow more time, or raise alpha.",
            "memory": f"the memory budget has room for {self.short} of {len(point.v)} weights at a "
            f"time, and progress is slow ({left}). Raise it with mercer.config(memory=...), or "
            "give fewer columns.",
            "rounds": f"no further progress after {self.rounds} rounds ({left}): "
            "rounding, or columns that are nearly alike, stop it. Raise alpha or tol.",
        }[cause]
        return Solution(
            value=point.v,
            converged=converged,
            n_iter=self.passes,
            residual=violation,
            gap=point.gap,
            primal=point.primal,
            dual=point.dual,
            message="" if converged else f"{who()}: {message}",
            extra={
                "offset": point.b + self.problem.shift,
                "nonzero": int(np.count_nonzero(point.v)),
                "rounds": self.rounds,
            },
        )
