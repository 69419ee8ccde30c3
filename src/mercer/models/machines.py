"""Problems on one set of rows and what they come to, before an estimator stores it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.engines.threads import single_threaded_blas
from mercer.kernels import Kernel
from mercer.settings import config, get_config
from mercer.solvers import SMO, BoxQP, Rows, Solution

__all__ = [
    "Machine",
    "MarginData",
    "merged",
    "one_by_one",
    "solve_all",
    "solve_in_own_unit",
    "square_norm",
]

SMALL = 500  # variables up to which a problem is solved to FINE if that takes few steps
FINE, STEPS = 1e-10, 2000
WORTH_THREADS = 10**6  # entries of all the problems' matrices from which threads share them
FIRST_PORTION, MOST_STEPS = 20_000, 10**7


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

    Small problems are solved to `FINE` where that takes few steps, so that the answer does not
    depend on the order of the rows, or on a row being given twice, in any digit that matters.

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
    deadline = None if solver.max_time is None else time.monotonic() + solver.max_time

    def solve(i: int, callback: Callable[[dict], Any] | None) -> Solution:
        problem, start, taken = problems[i], None if starts is None else starts[i], 0
        if len(problem.p) <= SMALL and (solver.max_iter is None or solver.max_iter > STEPS):
            fine = SMO(min(FINE, solver.tol), STEPS, _left(deadline), callback)
            solution = fine.solve(problem, start, rows)
            if solution.converged:
                return solution
            if _is_good(solution, solver.tol):
                return replace(solution, converged=True, message="")
            start, taken = solution.value, solution.n_iter
        limit = None if solver.max_iter is None else solver.max_iter - taken
        solution = SMO(solver.tol, limit, _left(deadline), callback).solve(problem, start, rows)
        return replace(solution, n_iter=solution.n_iter + taken)

    if len(problems) > 1 and sum(len(problem.p) for problem in problems) > 1.5 * rows.n:
        rows.fill()  # before any thread starts, so that all find the same rows
    entries = sum(len(problem.p) ** 2 for problem in problems)
    threads = min(get_config().threads, len(problems))
    if threads < 2 or entries < WORTH_THREADS or not rows.whole:
        return [solve(i, solver.callback) for i in range(len(problems))]
    return _side_by_side(solve, len(problems), threads, solver.callback)


def _side_by_side(
    solve: Callable, count: int, threads: int, callback: Callable | None
) -> list[Solution]:
    """Solve on several threads, one each; an interrupt stops them all at their next step."""
    stopped = threading.Event()

    def watch(info: dict) -> bool:
        return stopped.is_set() or (callback is not None and bool(callback(info)))

    def work(i: int) -> Solution:
        with config(threads=1):
            return solve(i, watch)

    with single_threaded_blas, ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(copy_context().run, work, i) for i in range(count)]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def solve_in_own_unit(
    problem_in: Callable[[float], BoxQP],
    unit_of: Callable[[BoxQP, Solution], float],
    unit: float,
    rows: Rows,
    solver: SMO,
) -> tuple[BoxQP, Solution]:
    """Solve a problem without a linear term in the unit that its own answer sets.

    Such a problem, its box and sums multiplied by u, has u times the answer; a tolerance means
    something only where the answer is the function wanted. Steps are taken in growing portions, and
    after each `unit_of` may raise if there is no such unit.

    Parameters
    ----------
    problem_in : callable
        Returns the problem in a unit.
    unit_of : callable
        Returns the unit wanted, from a problem and its solution; raises where there is none.
    unit : float
        The unit to begin with.
    rows : Rows
        Rows of the matrix.
    solver : SMO
        Tolerance and limits.

    Returns
    -------
    tuple of BoxQP and Solution
        In the unit wanted, up to a factor of two.
    """
    deadline = None if solver.max_time is None else time.monotonic() + solver.max_time
    start, taken = None, 0
    most = MOST_STEPS if solver.max_iter is None else solver.max_iter
    portion = FIRST_PORTION
    while True:
        problem = problem_in(unit)
        limit = min(portion, max(1, most - taken))
        one = SMO(solver.tol, limit, _left(deadline), solver.callback)
        solution = solve_all([problem], rows, one, [start])[0]
        taken += solution.n_iter
        better = unit_of(problem, solution)
        settled = solution.converged and 0.5 * better <= unit <= 2.0 * better
        stuck = not solution.converged and (solution.n_iter < limit or taken >= most)
        if settled or stuck:
            return problem, replace(solution, n_iter=taken)
        start, unit, portion = solution.value * (better / unit), better, 4 * portion


def one_by_one(solver: SMO, tasks: Sequence[Any]) -> Iterator[tuple[Any, SMO]]:
    """Yield every task with a solver for it, whose `max_time` is what the others have left."""
    deadline = None if solver.max_time is None else time.monotonic() + solver.max_time
    for task in tasks:
        yield task, SMO(solver.tol, solver.max_iter, _left(deadline), solver.callback)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _is_good(solution: Solution, tol: float) -> bool:
    """Whether a certificate meets a tolerance, as `SMO` judges it."""
    size = max(abs(solution.primal), abs(solution.dual))  # type: ignore[arg-type]
    return bool(solution.residual <= tol and solution.gap <= tol * size)  # type: ignore[operator]


def square_norm(problem: BoxQP, solution: Solution) -> float:
    """Return ‖f‖² = aᵀQa of a solved problem; its points come once, in order, or in two rows."""
    a, product = solution.value, solution.extra["product"]
    if problem.signs is not None:
        a = a * problem.signs
    if len(product) != len(a):
        index = problem.index
        points, at = np.unique(index, return_inverse=True)
        product = product[at if len(product) == len(points) else index]
    return float(a @ product)


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
