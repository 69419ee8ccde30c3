"""The hard margin: nearest points of two convex hulls, or the proof that the hulls meet.

The widest strip between two classes stands upright on the shortest segment between their convex
hulls in feature space. With convex weights a of the two classes that minimise v² = ‖Σ aᵢyᵢφ(xᵢ)‖²,
the solution of the margin problem is α = 2a/v² and its margin v/2. Without an offset the segment
runs from 0 to the hull of the points yᵢφ(xᵢ), α = a/v², and the margin is v. If v = 0 no function
separates the classes, and a proves it; if v² is below what rounding makes of sums over the points,
float64 cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mercer.checks import Clock
from mercer.errors import NotSeparable, speaks, who
from mercer.estimator import Sample
from mercer.models.margin.hulls import HullSpace, common_point, nearest_points, side_name, space_of
from mercer.models.margin.problems import (
    Machine,
    Task,
    is_good,
    one_by_one,
    solve_all,
    square_norm,
    stopped,
)
from mercer.solvers import SMO, BoxQP, Rows, Solution

#: Part of (Σ aᵢ√k(xᵢ, xᵢ))² below which v² counts as 0: it is a sum of terms of that size.
COINCIDE = 16 * float(np.finfo(float).eps)
ATTEMPTS = 50
FIRST_PORTION, MOST_STEPS = 20_000, 10**7
NEAR = 16.0  # ratio of units up to which an answer keeps its digits
FINER = 0.25  # part of tol to solve to: stretching may double the violation, and again the gap


def solve_in_own_unit(
    problem_in: Callable[[float], BoxQP],
    unit_of: Callable[[BoxQP, Solution], float],
    unit: float,
    rows: Rows,
    solver: SMO,
    start: np.ndarray | None = None,
) -> tuple[BoxQP, Solution]:
    """Solve a problem without a linear term in the unit that its own answer sets.

    Such a problem, its box and sums multiplied by u, has u times the answer; a tolerance means
    something only where the answer is the function wanted. Steps are taken in growing portions, and
    after each `unit_of` may raise if there is no such unit.

    `problem_in` returns the problem in a unit, `start` is in the first; what is returned is within
    the tolerance in the unit wanted, and in a smaller unit by a factor of `NEAR` at most.
    """
    clock, taken = Clock(solver.max_time), 0
    most = MOST_STEPS if solver.max_iter is None else solver.max_iter
    portion = FIRST_PORTION
    while True:
        problem = problem_in(unit)
        limit = min(portion, max(1, most - taken))
        one = SMO(solver.tol, limit, clock.rest(), solver.callback)
        solution = solve_all([problem], rows, one, [start])[0]
        taken += solution.n_iter
        better = unit_of(problem, solution)
        ratio = better / unit
        near = 0.5 <= ratio <= 2.0
        if solution.converged and ratio <= NEAR:  # violations grow with the unit, gaps stay
            near = near or ratio * float(solution.residual) <= float(solver.tol)  # type: ignore[arg-type]
        settled = solution.converged and near
        stuck = not solution.converged and (solution.n_iter < limit or taken >= most)
        if settled or stuck:
            return problem, replace(solution, n_iter=taken)
        start, unit, portion = solution.value * ratio, better, 4 * portion


def kkt_violation(
    f: np.ndarray, y: np.ndarray, coef: np.ndarray, bound: np.ndarray, offset: bool
) -> float:
    """Return by how much a classifier with margin 1 violates the optimality conditions, at worst.

    With G = f − y: G is the same, −b, at all aᵢ inside their bounds, not less where aᵢ can only
    grow and not more where it can only shrink. Without an offset it is 0.
    """
    grow, shrink = (y > 0) & ~bound, (y > 0) & (coef != 0)
    grow, shrink = grow | ((y < 0) & (coef != 0)), shrink | ((y < 0) & ~bound)
    G = f - y
    low, high = G[grow].min(initial=np.inf), G[shrink].max(initial=-np.inf)
    if offset:
        return float(max(0.0, high - low))
    return float(max(0.0, high, -low))


def hull_problem(space: HullSpace, most: np.ndarray, total: float, offset: bool) -> BoxQP:
    """Return the problem min ½‖Σ aᵢφ(xᵢ)‖² over weights yᵢaᵢ from 0 to `most`.

    With an offset those of each side sum to `total`, else all of them, and the variables are yᵢaᵢ.
    """
    y, K, zero = space.task.signs, space.rows.K, np.zeros(len(most))
    if not offset:
        return BoxQP(K, zero, zero, most, (total,), index=space.index, signs=y)
    low, high = np.minimum(most * y, 0.0), np.maximum(most * y, 0.0)
    groups = (y < 0).astype(np.int64)
    return BoxQP(K, zero, low, high, (total, -total), groups, space.index)


def certified(
    coef: np.ndarray,
    primal: float,
    square: float,
    violation: float,
    n_iter: int,
    tol: float,
    why: Callable[[Solution], str],
    hidden: float,
) -> Solution:
    """Return the certificate of a machine as it is stored; `why` tells why it is not good.

    What rounding may hide of the gap is added to it.
    """
    dual = float(np.abs(coef).sum()) - 0.5 * square
    gap = max(0.0, primal - dual) + hidden
    primal = dual + gap
    final = Solution(coef, False, n_iter, residual=violation, gap=gap, primal=primal, dual=dual)
    if is_good(final, tol):
        return replace(final, converged=True)
    return replace(final, message=why(final))


def hard_machines(
    data: Sample, rows: Rows, tasks: Sequence[Task], solver: SMO, offset: bool
) -> list[Machine]:
    """Return the machine of largest margin for each task, or raise `NotSeparable`.

    The limits of the solver are of steps for each task, of time for all together.
    """
    return [
        _Hulls(data, rows, task, one, offset).machine() for task, one in one_by_one(solver, tasks)
    ]


@speaks("SVC")
def hard_where_possible(
    data: Sample, rows: Rows, tasks: Sequence[Task], solver: SMO, offset: bool, C: float
) -> dict[int, Machine]:
    """Return the machines of largest margin of those tasks of which they solve that of a finite C.

    They do where no coefficient exceeds C wᵢ: then no price up to C buys a margin violation. Each
    may take half of the time that is left, so that there is some for another way.
    """
    found: dict[int, Machine] = {}
    for (i, task), one in one_by_one(solver, list(enumerate(tasks))):
        seconds = None if one.max_time is None else 0.5 * one.max_time
        half = SMO(one.tol, one.max_iter, seconds, one.callback)
        try:
            machine = _Hulls(data, rows, task, half, offset, C).machine()
        except NotSeparable:
            continue
        weights = data.weights if task.index is None else data.weights[task.index]
        if machine.solution.converged and bool((np.abs(machine.coef) < C * weights).all()):
            found[i] = machine
    return found


class _Hulls:
    """The problem of one task."""

    def __init__(
        self,
        data: Sample,
        rows: Rows,
        task: Task,
        solver: SMO,
        offset: bool,
        price: float = np.inf,
    ):
        self.data, self.task, self.offset, self.price = data, task, offset, price
        self.solver, self.clock = solver, Clock(solver.max_time)
        self.space = space_of(data, rows, task, offset)

    def problem(self, unit: float) -> BoxQP:
        """Return the problem with weights that sum to `unit` instead of 1.

        The box is twice as large as the sums allow, so that even a single weight is inside it and
        says what the multiplier is.
        """
        most = np.full(len(self.task.signs), 2 * unit)
        return hull_problem(self.space, most, unit, self.offset)

    def unit(self, problem: BoxQP, solution: Solution) -> float:
        """Return the sum of the weights for which Σ aᵢyᵢφ(xᵢ) is the solution itself."""
        total = problem.totals[0]
        square = square_norm(problem, solution) / total**2
        size = float(np.abs(solution.value) @ self.space.lengths) / total
        if square <= COINCIDE * size**2 or not np.isfinite(1.0 / square):
            raise self.refusal(solution.value / total)
        return (2.0 if self.offset else 1.0) / square

    def machine(self) -> Machine:
        """Solve, then shift and stretch the function until no point is inside the margin."""
        space, solver, tol = self.space, self.solver, float(self.solver.tol)
        largest = space.radius**2
        first = 1.0 / largest if largest > 0 else 1.0
        fine = SMO(FINER * tol, solver.max_iter, self.clock.rest(), solver.callback)
        problem, solution = solve_in_own_unit(self.problem, self.unit, first, space.rows, fine)
        total, best = problem.totals[0], self.unit(problem, solution)
        weights, cause = np.abs(solution.value) / total, solution.message
        machine = self.stretched(weights, best, solution, tol)
        rounded = np.finfo(float).eps * float(weights @ space.lengths) ** 2 * best
        if "stopped" not in cause and (rounded > 0.01 * tol or not machine.solution.converged):
            better = self.refined(weights, best, solution)
            if better is not None and better.solution.gap < machine.solution.gap:  # type: ignore[operator]
                machine = better
        if not np.isfinite(machine.solution.primal) and "stopped" not in cause:  # type: ignore[arg-type]
            raise self.refusal(weights)
        return machine

    def refined(self, weights: np.ndarray, unit: float, solution: Solution) -> Machine | None:
        """Return the machine from the points themselves, for the linear kernel."""
        y, Z, tol = self.task.signs, self.space.columns(), float(self.solver.tol)
        if Z is None:
            return None
        found = nearest_points(Z, y, self.offset, (weights * y) @ Z, self.clock.rest())
        if found is None:
            return None
        best = None
        for attempt in range(ATTEMPTS):  # of scales of which one may round well
            more = 1.0 + 1e-3 * tol * attempt
            machine = self.stretched(found, unit, solution, tol, more)
            if best is None or machine.solution.gap < best.solution.gap:  # type: ignore[operator]
                best = machine
            if best.solution.converged or not np.isfinite(best.solution.gap):  # type: ignore[arg-type]
                break
        return best

    def stretched(
        self, weights: np.ndarray, unit: float, solution: Solution, tol: float, more: float = 1.0
    ) -> Machine:
        """Return the machine of convex weights, moved and scaled to have no margin violations."""
        y, space = self.task.signs, self.space
        coef = np.asarray(weights * y * unit, dtype=float)
        width, _ = self.strip(space.values(coef))
        if np.isfinite(self.price) and width > 0:
            more *= 1.0 + 4.0 * float(space.rounding(coef)[0].max(initial=0.0)) / width
        unit = more * unit / width if width > 0 else unit
        coef = np.asarray(weights * y * unit, dtype=float)
        f = space.values(coef)
        width, middle = self.strip(f)
        square = space.square(coef)
        square = float(coef @ f) if square is None else square
        none = np.zeros(len(coef), dtype=bool)
        errors, unsure = space.rounding(coef)
        sure = width - float(errors.max(initial=0.0))
        primal = 0.5 * square / sure**2 if sure > 0 else np.inf
        if np.isfinite(self.price):  # violations cost something, so there must be none for sure
            primal = 0.5 * square if sure >= 1 else np.inf
        violation = kkt_violation(f, y, coef, none, self.offset)
        why = partial(self.warning, solution.message, tol)
        final = certified(coef, primal, square, violation, solution.n_iter, tol, why, unsure)
        return Machine(self.task.index, coef, none, -middle, square, final)

    def strip(self, f: np.ndarray) -> tuple[float, float]:
        """Return half the distance between the values of the two sides, and what is midway."""
        y = self.task.signs
        if not self.offset:
            return float((y * f).min()), 0.0
        low, high = float(f[y > 0].min()), float(f[y < 0].max())
        return 0.5 * (low - high), 0.5 * (low + high)

    def warning(self, cause: str, tol: float, solution: Solution) -> str:
        """Return why the machine is not the one asked for."""
        if np.isfinite(solution.primal):  # type: ignore[arg-type]
            cure = "scale the columns, or use a finite C."
            text = stopped(cause, solution, tol, cure)
            return f"{text} The classes are separated, if not yet with the largest margin."
        names = {"max_iter": "raise max_iter", "max_time": "allow more time"}
        name = next((name for name in names if name in cause), "")
        return (
            f"stopped by {name or 'the callback'} after {solution.n_iter} steps "
            "before it was known whether the classes can be separated: so far they are not (KKT "
            f"violation {solution.residual:.2g}). C=inf has no other answer; "
            f"{names.get(name, 'let it go on')}, or use a finite C."
        )

    def refusal(self, weights: np.ndarray) -> NotSeparable:
        """Return the error for weights whose combinations cannot be told apart."""
        task = self.task
        certificate = common_point(self.space, weights, self.offset)
        rows = f"{len(certificate.positive)} and {len(certificate.negative)} rows"
        sides = [side_name(self.data, number) for number in (task.positive, task.negative)]
        if self.offset:
            what = f"a weighted mean of rows of {sides[0]} and one of {sides[1]}"
        else:
            what = f"weighted sums of rows of {sides[0]} and of {sides[1]}"
        where = f"in the feature space of {self.data.kernel}"
        if certificate.exact:
            return NotSeparable(
                f"{who()}: C=inf asks for a function without margin violations, but {what} "
                f"({rows}) coincide {where}; the certificate has them. Use a finite C, or a kernel "
                "that separates more, such as one of a shorter length scale.",
                certificate,
            )
        part = certificate.distance / certificate.radius if certificate.radius > 0 else 0.0
        apart = f"{certificate.distance:.2g} apart" + ("" if part > 0 else " (to rounding)")
        return NotSeparable(
            f"{who()}: C=inf asks for a function without margin violations, but the classes "
            f"are numerically not separable beyond rounding: {what} ({rows}) are {apart} "
            f"{where}, {part:.1g} of the radius of the data, and "
            "float64 cannot tell that from 0. The certificate has them. Use a finite C, scale the "
            "columns, or take a kernel that separates more, such as one of a shorter length scale.",
            certificate,
        )
