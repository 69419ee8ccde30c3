"""The hard margin: nearest points of two convex hulls, or the proof that the hulls meet.

The widest strip between two classes stands upright on the shortest segment between their convex
hulls in feature space. With convex weights a of the two classes that minimise v² = ‖Σ aᵢyᵢφ(xᵢ)‖²,
the solution of the margin problem is α = 2a/v² and its margin v/2. Without an offset the segment
runs from 0 to the hull of the points yᵢφ(xᵢ), α = a/v², and the margin is v. If v = 0 no function
separates the classes, and a proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import NotSeparable
from mercer.models.machines import (
    Machine,
    MarginData,
    one_by_one,
    solve_in_own_unit,
    square_norm,
)
from mercer.models.multiclass import Task
from mercer.solvers import SMO, BoxQP, Rows, Solution

__all__ = [
    "COINCIDE",
    "CommonPoint",
    "common_point",
    "hard_if_possible",
    "hard_machines",
    "side_name",
]

#: Part of the largest k(x, x) below which v² counts as 0: coefficients of order 1/v² would leave
#: f(x) no digit but rounding.
COINCIDE = 1e-12


@dataclass(frozen=True, eq=False)
class CommonPoint:
    """Why two classes cannot be separated: a point that both hulls share, to rounding.

    Σᵢ uᵢφ(xᵢ) over the positive rows equals Σⱼ vⱼφ(xⱼ) over the negative ones. With an offset u and
    v each sum to 1; without one they sum to 1 together.

    Parameters
    ----------
    positive, negative : ndarray of int
        Rows, as given to fit.
    positive_weights, negative_weights : ndarray
        The weights u and v, all > 0.
    distance : float
        How far apart the two combinations are in feature space.
    radius : float
        The largest √k(x, x), to compare the distance with.
    """

    positive: np.ndarray
    positive_weights: np.ndarray
    negative: np.ndarray
    negative_weights: np.ndarray
    distance: float
    radius: float


def hard_machines(
    data: MarginData,
    rows: Rows,
    tasks: Sequence[Task],
    solver: SMO,
    offset: bool,
    owner: str,
) -> list[Machine]:
    """Return the machine of largest margin for each task, or raise `NotSeparable`.

    Parameters
    ----------
    data : MarginData
        The data.
    rows : Rows
        Rows of their Gram matrix.
    tasks : sequence of Task
        Which sides to separate.
    solver : SMO
        Tolerance and limits: of steps for each task, of time for all together.
    offset : bool
        Whether there is an offset.
    owner : str
        Who asks; messages begin with it.
    """
    return [
        _Hulls(data, rows, task, offset, owner).machine(one)
        for task, one in one_by_one(solver, tasks)
    ]


def hard_if_possible(
    data: MarginData,
    rows: Rows,
    task: Task,
    solver: SMO,
    offset: bool,
    C: float,
) -> Machine | None:
    """Return the machine of largest margin if it is also the solution for a finite C, else None.

    It is where no coefficient exceeds C wᵢ: then no price up to C buys a margin violation.

    Parameters
    ----------
    data : MarginData
        The data.
    rows : Rows
        Rows of their Gram matrix.
    task : Task
        Which sides to separate.
    solver : SMO
        Tolerance and limits.
    offset : bool
        Whether there is an offset.
    C : float
        The price.
    """
    try:
        machine = _Hulls(data, rows, task, offset, "SVC").machine(solver)
    except NotSeparable:
        return None
    weights = data.weights if task.index is None else data.weights[task.index]
    inside = bool((np.abs(machine.coef) < C * weights).all())
    return machine if machine.solution.converged and inside else None


class _Hulls:
    """The problem of one task."""

    def __init__(self, data: MarginData, rows: Rows, task: Task, offset: bool, owner: str):
        self.data, self.rows, self.task = data, rows, task
        self.offset, self.owner = offset, owner
        y = task.signs
        diagonal = rows.diagonal if task.index is None else rows.diagonal[task.index]
        self.largest = float(diagonal.max())
        self.zero, self.groups = np.zeros(len(y)), (y < 0).astype(np.int64)

    def problem(self, unit: float) -> BoxQP:
        """Return the problem with weights that sum to `unit` instead of 1.

        The box is twice as large as the sums allow, so that even a single weight is inside it and
        says what the multiplier is.
        """
        y, index, K = self.task.signs, self.task.index, self.rows.K
        if self.offset:
            low, high = np.minimum(2 * unit * y, 0.0), np.maximum(2 * unit * y, 0.0)
            return BoxQP(K, self.zero, low, high, (unit, -unit), self.groups, index)
        high = np.full(len(y), 2 * unit)
        return BoxQP(K, self.zero, self.zero, high, (unit,), index=index, signs=y)

    def unit(self, problem: BoxQP, solution: Solution) -> float:
        """Return the sum of the weights for which Σ aᵢyᵢφ(xᵢ) is the solution itself."""
        total = problem.totals[0]
        square = square_norm(problem, solution) / total**2
        if square <= COINCIDE * self.largest:
            raise self.refusal(solution.value / total, square)
        return (2.0 if self.offset else 1.0) / square

    def machine(self, solver: SMO) -> Machine:
        """Solve, then shift and stretch the function until no point is inside the margin."""
        first = 1.0 / self.largest if self.largest > 0 else 1.0
        problem, solution = solve_in_own_unit(self.problem, self.unit, first, self.rows, solver)
        total = problem.totals[0]
        square = square_norm(problem, solution) / total**2
        y, f = self.task.signs, solution.extra["product"] / total
        f = f[self.task.index] if len(f) != len(y) else f
        if self.offset:
            low, high = float(f[y > 0].min()), float(f[y < 0].max())
            width, middle = 0.5 * (low - high), 0.5 * (low + high)
        else:
            width, middle = float((y * f).min()), 0.0
        best = self.unit(problem, solution)  # 1/width at the solution itself
        scale = 1.0 / width if width > 0 else best
        sums = 2.0 if self.offset else 1.0
        primal = 0.5 * scale**2 * square if width > 0 else np.inf
        dual = sums * scale - 0.5 * scale**2 * square
        coef = solution.value * (scale / total)
        return Machine(
            self.task.index,
            coef if self.offset else coef * y,
            np.zeros(len(coef), dtype=bool),
            -scale * middle,
            scale**2 * square,
            Solution(
                value=coef,
                converged=solution.converged and width > 0,
                n_iter=solution.n_iter,
                residual=float(solution.residual) * scale / total,  # type: ignore[arg-type]
                gap=max(0.0, primal - dual),
                primal=max(primal, dual),
                dual=dual,
                message=solution.message,
            ),
        )

    def refusal(self, weights: np.ndarray, square: float) -> NotSeparable:
        task = self.task
        certificate = common_point(self.data, task, weights, square, self.largest)
        rows = f"{len(certificate.positive)} and {len(certificate.negative)} rows"
        sides = [side_name(self.data, number) for number in (task.positive, task.negative)]
        if self.offset:
            what = f"a weighted mean of rows of {sides[0]} and one of {sides[1]}"
        else:
            what = f"weighted sums of rows of {sides[0]} and of {sides[1]}"
        return NotSeparable(
            f"{self.owner}: C=inf asks for a function without margin violations, but {what} "
            f"({rows}) coincide in the feature space of {self.data.kernel!r}: they are "
            f"{certificate.distance:.2g} apart, the points being up to {certificate.radius:.3g} "
            "long. The certificate has them. Use a finite C, or a kernel that separates more, such "
            "as one of a shorter length scale.",
            certificate,
        )


def common_point(
    data: MarginData, task: Task, weights: np.ndarray, square: float, largest: float
) -> CommonPoint:
    """Return the certificate for weights of the points of a task.

    Parameters
    ----------
    data : MarginData
        The data.
    task : Task
        The two sides.
    weights : ndarray
        A weight for each point of the task; the sign does not matter.
    square : float
        The squared distance of the two combinations.
    largest : float
        The largest k(x, x).
    """
    points = np.arange(len(data.y)) if task.index is None else task.index
    given = points if data.kept is None else data.kept[points]
    u, positive = np.abs(weights), task.signs > 0
    mine, theirs = positive & (u > 0), ~positive & (u > 0)
    distance, radius = float(np.sqrt(max(0.0, square))), float(np.sqrt(largest))
    return CommonPoint(given[mine], u[mine], given[theirs], u[theirs], distance, radius)


def side_name(data: MarginData, number: int) -> str:
    """Return how a message calls a side of a task."""
    classes: Any = data.classes
    return f"class {classes[number]}" if number >= 0 else "the other classes"
