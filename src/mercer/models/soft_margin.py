"""The two-class problem with a price C on margin violations, and the machine it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.models.machines import Machine, MarginData, square_norm
from mercer.models.multiclass import Task
from mercer.solvers import SMO, BoxQP, Rows, Solution

__all__ = ["soft_machines"]


def soft_machines(
    model: Any,
    data: MarginData,
    rows: Rows,
    tasks: Sequence[Task],
    prices: Sequence[float],
    starts: Any = None,
    solver: SMO | None = None,
) -> list[Machine]:
    """Solve two-class problems, each with its own finite C.

    Parameters
    ----------
    model : MarginClassifier
        Whose offset, tolerance and limits; errors are in its name.
    data : MarginData
        The points.
    rows : Rows
        Rows of their Gram matrix.
    tasks : sequence of Task
        The problems.
    prices : sequence of float
        The C of each.
    starts : sequence, optional
        Where to begin, one array or None for each problem.
    solver : SMO, optional
        In place of the one that the model's parameters ask for.

    Returns
    -------
    list of Machine
        One for each problem.
    """
    offset = bool(model.fit_intercept)
    model._check_price(max(prices, default=0.0), data, rows)
    problems = [_problem(data, rows, *both, offset) for both in zip(tasks, prices, strict=True)]
    solutions = model._solved(problems, rows, starts, solver)
    return [_machine(*each) for each in zip(tasks, problems, solutions, strict=True)]


def _problem(data: MarginData, rows: Rows, task: Task, C: float, offset: bool) -> BoxQP:
    """Return the dual problem in a = yα: minimise ½aᵀKa − yᵀa, a between 0 and C w y."""
    y = task.signs
    box = float(C) * (data.weights if task.index is None else data.weights[task.index]) * y
    low, high = np.minimum(box, 0.0), np.maximum(box, 0.0)
    return BoxQP(rows.K, -y, low, high, (0.0,) if offset else (), index=task.index)


def _machine(task: Task, problem: BoxQP, solution: Solution) -> Machine:
    a, multipliers = solution.value, solution.extra["multipliers"]
    bound = (a != 0) & (a == np.where(task.signs > 0, problem.upper, problem.lower))
    square = square_norm(problem, solution)
    return Machine(task.index, a, bound, -multipliers[0] if multipliers else 0.0, square, solution)
