"""Problems on one set of rows and what they come to, before an estimator stores it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.solvers import SMO, BoxQP, Rows, Solution

__all__ = ["Machine", "MarginData", "merged", "solve_all"]


@dataclass(frozen=True, eq=False)
class MarginData:
    """Checked data of a fit. Rows of weight zero are left out of all but `n`.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : collection
        The points; for a precomputed kernel the square matrix of kernel values.
    y : ndarray
        Class numbers 0, 1, … or targets, one a point.
    weights : ndarray
        How much each point counts in the objective: sample weight times class weight.
    repeats : ndarray or None
        Sample weights alone, None where all are one: how often each point was given.
    kept : ndarray or None
        Positions of the points among the rows as given; None where all were kept.
    n : int
        Rows as given.
    classes : ndarray or None
        The classes, for a classifier.
    """

    kernel: Kernel
    X: Any
    y: np.ndarray
    weights: np.ndarray
    repeats: np.ndarray | None
    kept: np.ndarray | None
    n: int
    classes: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Machine:
    """One solved problem: the function Σᵢ coefᵢ k(xᵢ, ·) + intercept.

    Parameters
    ----------
    index : ndarray or None
        Which points of the data it is about; None for all.
    coef : ndarray
        Their coefficients; exactly 0 for those that are no support vectors.
    bound : ndarray of bool
        Which coefficients are at their bound.
    intercept : float
        The offset.
    square : float
        ‖f‖².
    solution : Solution
        The certificate, in the units of this function.
    """

    index: np.ndarray | None
    coef: np.ndarray
    bound: np.ndarray
    intercept: float
    square: float
    solution: Solution


def solve_all(
    problems: Sequence[BoxQP],
    rows: Rows,
    solver: SMO,
    starts: Sequence[Any] | None = None,
) -> list[Solution]:
    """Solve several problems on the same rows; `max_time` is for all of them together.

    Parameters
    ----------
    problems : sequence of BoxQP
        The problems, with ``rows.K`` as their matrix.
    rows : Rows
        The rows that they share.
    solver : SMO
        How.
    starts : sequence, optional
        Where to begin, one array or None for each problem.
    """
    began = time.monotonic()
    solutions = []
    for i, problem in enumerate(problems):
        if solver.max_time is not None and i:
            left = max(0.0, solver.max_time - (time.monotonic() - began))
            one = SMO(solver.tol, solver.max_iter, left, solver.callback)
        else:
            one = solver
        solutions.append(one.solve(problem, None if starts is None else starts[i], rows))
    return solutions


def merged(solutions: Sequence[Solution], value: Any) -> Solution:
    """Return one certificate for several problems: sums of values, the largest residual."""
    failed = [s for s in solutions if not s.converged]
    message = failed[0].message if failed else ""
    if len(failed) > 1:
        message = f"{len(failed)} of {len(solutions)} problems did not converge. First: {message}"
    if len(solutions) == 1:
        extra = {}
    else:
        extra = {
            name: tuple(getattr(s, name) for s in solutions)
            for name in ("primal", "dual", "gap", "residual")
        }
        extra = {f"{name}s": values for name, values in extra.items()}
    primal, dual = (float(sum(getattr(s, n) for s in solutions)) for n in ("primal", "dual"))
    return Solution(
        value=value,
        converged=not failed,
        n_iter=sum(s.n_iter for s in solutions),
        residual=max(float(s.residual) for s in solutions),  # type: ignore[arg-type]
        gap=float(sum(s.gap for s in solutions)),  # type: ignore[misc]
        primal=primal,
        dual=dual,
        message=message,
        extra=extra,
    )
