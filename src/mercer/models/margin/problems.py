"""The problems of margin machines, solved on one set of rows, and what an estimator keeps of them.

A fit reads: `_prepare` the data, `gram_rows` of them, a list of `BoxQP`, `solve` of them on these
rows, one `Machine` for each, `store`. Everything but the storing leaves the estimator alone, so
that paths and folds can do it again on the same data and rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from mercer import checks
from mercer.checks import Clock
from mercer.errors import InvalidInput, speaks
from mercer.estimator import JUDGED, Sample, check_definite
from mercer.kernels import Kernel, around_mean, check_diagonal, unproven
from mercer.operators import Dense, Gram
from mercer.rkhs import Function
from mercer.settings import config, get_config
from mercer.solvers import SMO, BoxQP, Rows, Solution, merged
from mercer.solvers.box import descend_together, halves, meets, rows_for
from mercer.threads import inheriting, single_threaded_blas, workers

SMALL = 500  # variables up to which a problem is solved to FINE if that takes few steps
FINE, STEPS = 1e-10, 2000
WORTH_THREADS = 10**6  # entries of all the problems' matrices from which threads share them
HUGE = 1e150  # the square of more is no float64


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


def spread(coef: np.ndarray, index: np.ndarray | None, n: int) -> np.ndarray:
    """Return coefficients of some of the points as a vector over all n."""
    if index is None:
        return coef
    out = np.zeros(n)
    out[index] = coef
    return out


def solve_all(
    problems: Sequence[BoxQP],
    rows: Rows,
    solver: SMO,
    starts: Sequence[Any] | None = None,
) -> list[Solution]:
    """Solve several problems on the same rows; `max_time` is for all of them together.

    Small problems are solved to `FINE` where that takes few steps, so that the answer does not
    depend on the order of the rows, or on a row being given twice, in any digit that matters.

    `starts` has an array or None for each problem.
    """
    clock = Clock(solver.max_time)
    found = None
    single = solver.max_iter is not None or solver.callback is not None  # they count one's steps
    if not single and not rows.in_memory:
        found = descend_together(problems, rows, solver.tol, clock, starts)
        starts = starts if found is None else found.starts

    def solve(i: int, callback: Callable[[dict], Any] | None) -> Solution:
        if found is None:
            return go_on(i, callback)
        small = len(problems[i].p) <= SMALL
        proven = None if small else found.solutions[i]
        solution = proven or go_on(i, callback)
        return solution if proven else replace(solution, n_iter=solution.n_iter + found.steps[i])

    def go_on(i: int, callback: Callable[[dict], Any] | None) -> Solution:
        problem, start, taken = problems[i], None if starts is None else starts[i], 0
        if len(problem.p) <= SMALL and (solver.max_iter is None or solver.max_iter > STEPS):
            fine = SMO(min(FINE, solver.tol), STEPS, clock.rest(), callback)
            solution = fine.solve(problem, start, rows, sharp=solver.tol <= FINE)
            if solution.converged:
                return solution
            if is_good(solution, solver.tol):
                return replace(solution, converged=True, message="")
            start, taken = solution.value, solution.n_iter
        limit = None if solver.max_iter is None else solver.max_iter - taken
        solution = SMO(solver.tol, limit, clock.rest(), callback).solve(problem, start, rows)
        said = solution.extra["text"]  # the model puts its name before it
        return replace(solution, n_iter=solution.n_iter + taken, message=said)

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

    with single_threaded_blas(), workers(threads, stopped) as pool:
        jobs = [pool.submit(inheriting(work), i) for i in range(count)]
        return [job.result() for job in jobs]


def one_by_one(solver: SMO, tasks: Sequence[Any]) -> Iterator[tuple[Any, SMO]]:
    """Yield every task with a solver for it, whose `max_time` is what the others have left."""
    clock = Clock(solver.max_time)
    for task in tasks:
        yield task, SMO(solver.tol, solver.max_iter, clock.rest(), solver.callback)


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


# ---- Rows of a Gram matrix and the box problem with a tube, for all that is fitted in the dual.


OFTEN = 12_000  # rows up to which a matrix that serves many problems is kept in float64


def gram_rows(kernel: Kernel, X: Any, often: bool = False) -> Rows:
    """Return the rows of a Gram matrix, which several problems may share.

    A matrix that only the user vouches for is tested where it is small enough.

    For many problems in turn (`often`) they are kept in float64, where that fits: then no
    certificate needs the kernel again.
    """
    K: Any = Gram(kernel, X, keep=False)
    n = K.shape[0]
    often = often and n <= OFTEN and 4 * K.nbytes < get_config().memory
    if unproven(kernel) and n <= JUDGED and 2 * K.nbytes < get_config().memory:
        matrix = np.asarray(K.to_dense(), dtype=float)
        check_definite(kernel, matrix)
        K = Dense(matrix, symmetric=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = rows_for(K, single=not often)
        check_diagonal(kernel, rows.diagonal)
        if often:
            rows.fill()
    return rows


def moved(data: Sample, offset: bool) -> Sample:
    """Return the data of a machine with its points `around_mean`; `store` moves the offset back.

    With an offset nothing else changes: of f = Σ aᵢ k(xᵢ, ·) + b with Σaᵢ = 0 only b is another.
    """
    X = around_mean(data.kernel, data.X) if offset else data.X
    return data if X is data.X else replace(data, X=X, given=data.X)


def way_back(kernel: Kernel, points: np.ndarray, near: np.ndarray, coef: np.ndarray) -> Any:
    """Return what the offsets of functions of moved points have more than those of the points."""
    far, mine = (Function(kernel, Z, coef)(Z[:1])[0] for Z in (points, near))
    return far - mine


def tube_problem(
    rows: Any, y: np.ndarray, lower: np.ndarray, upper: np.ndarray, epsilon: float, offset: bool
) -> BoxQP:
    """Return the problem min ½aᵀKa − yᵀa + ε Σ|aᵢ| over a box around 0, with Σaᵢ = 0 for an offset.

    Where ε > 0 a point has two variables, a = rise + fall with rise ≥ 0 ≥ fall. K is that of the
    rows.
    """
    totals = (0.0,) if offset else ()
    if epsilon == 0:
        return BoxQP(rows.K, -y, lower, upper, totals)
    none, both = np.zeros(len(y)), np.tile(np.arange(len(y)), 2)
    p = np.concatenate([epsilon - y, -epsilon - y])
    low, high = np.concatenate([none, lower]), np.concatenate([upper, none])
    return BoxQP(rows.K, p, low, high, totals, index=both)


def split(a: Any, epsilon: float) -> Any:
    """Return the variables of a tube problem that stand for coefficients a (None for None)."""
    if a is None or epsilon == 0:
        return a
    return np.concatenate([np.maximum(a, 0.0), np.minimum(a, 0.0)])


def joined(variables: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the coefficients that the variables of a tube problem stand for."""
    return variables if epsilon == 0 else np.add(*halves(variables))


# ---- What is said of a machine once it is in its final form: verdict and warning.


def is_good(solution: Any, tol: float, floor: float = 0.0) -> bool:
    """Whether a certificate meets a tolerance as `SMO` judges; a gap up to `floor` is rounding."""
    s = solution
    return bool(meets(tol, s.residual, s.gap, s.primal, s.dual, floor))


def stopped(cause: str, solution: Solution, tol: float, cure: str) -> str:
    """Return the warning of a machine that is not good: cause, its own numbers, and a cure.

    The model puts its name before it; "allow more time", "raise max_iter" or "raise tol" comes
    before the cure.
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


# ---- Two-class problems that make up a problem of many classes, and how their answers are
# combined.


@dataclass(frozen=True, eq=False)
class Task:
    """One problem of two sides."""

    positive: int
    negative: int
    index: np.ndarray | None
    signs: np.ndarray


def binary_tasks(
    codes: np.ndarray, classes: int, kind: str, among: np.ndarray | None = None
) -> list[Task]:
    """Return the problems: one for two classes, else one a pair ("ovo") or one a class ("ovr").

    Of two classes the second is the positive one, of a pair the first: scikit-learn's signs.

    Codes are class numbers 0, 1, …; `among` are positions of the points to use, increasing, all by
    default.
    """
    mine = codes if among is None else codes[among]
    if classes == 2:
        return [Task(1, 0, among, np.where(mine == 1, 1.0, -1.0))]
    if kind == "ovr":
        return [Task(c, -1, among, np.where(mine == c, 1.0, -1.0)) for c in range(classes)]
    tasks = []
    for i, j in combinations(range(classes), 2):
        index = np.flatnonzero((mine == i) | (mine == j))
        signs = np.where(mine[index] == i, 1.0, -1.0)
        tasks.append(Task(i, j, index if among is None else among[index], signs))
    return tasks


def n_tasks(classes: int, kind: str) -> int:
    """Return how many problems there are."""
    if classes == 2:
        return 1
    return classes if kind == "ovr" else classes * (classes - 1) // 2


def pair_layout(columns: Sequence[np.ndarray], owners: np.ndarray, classes: int) -> np.ndarray:
    """Return coefficients of pairs in LIBSVM's layout, shape (classes − 1, n_SV).

    A support vector of class c has one coefficient for each other class, in their order: that of
    the pair with class j is in row j, or j − 1 where j > c.

    The columns are the coefficients of the pairs in their order, `owners` the classes of the
    support vectors.
    """
    out = np.zeros((classes - 1, len(owners)))
    for (i, j), column in zip(combinations(range(classes), 2), columns, strict=True):
        first, second = owners == i, owners == j
        out[j - 1, first] = column[first]
        out[i, second] = column[second]
    return out


def pair_columns(layout: np.ndarray, owners: np.ndarray, classes: int) -> np.ndarray:
    """Return the coefficients of every pair, shape (n_SV, pairs), from LIBSVM's layout."""
    out = np.zeros((len(owners), classes * (classes - 1) // 2))
    for p, (i, j) in enumerate(combinations(range(classes), 2)):
        first, second = owners == i, owners == j
        out[first, p] = layout[j - 1, first]
        out[second, p] = layout[i, second]
    return out


def votes(values: np.ndarray, classes: int) -> np.ndarray:
    """Return votes plus bounded confidences, shape (n, classes), from the values of the pairs.

    Each pair gives a vote to one of its classes. The sum s of a class's values over its pairs adds
    s/(3(|s| + 1)), less than a third of a vote, which orders classes with as many votes; so does
    scikit-learn's ``decision_function_shape="ovr"``.

    Values have a column for each pair, positive for its first class.
    """
    first, second = np.array(list(combinations(range(classes), 2))).T
    pairs = np.arange(len(first))
    plus, minus = np.zeros((2, len(first), classes))
    plus[pairs, first] = minus[pairs, second] = 1.0
    total = values @ (plus - minus)
    won = (values >= 0).astype(float)
    return won @ plus + (1.0 - won) @ minus + total / (3.0 * (np.abs(total) + 1.0))


# ---- Machines of an estimator: what its parameters ask for, the problems with a price C, what
# is stored.


#: A share ν of the points.
SHARE = checks.Number(above=0, most=1, says="give a number in (0, 1]")


def check_price(model: Any, C: float, data: Sample, rows: Rows) -> None:
    """Refuse a C for which squares of values of f would overflow."""
    size = float(rows.diagonal.max(initial=0.0)) * float(data.weights.max(initial=0.0))
    if C * max(size, HUGE**-1) > HUGE:
        hard = ", or C=numpy.inf for the hard margin" if hasattr(model, "class_weight") else ""
        raise InvalidInput(
            f"{type(model).__name__}: C={C:g} times the largest k(x, x) and weight, {size:.3g}, "
            f"is more than float64 can square; give C < {HUGE / max(size, 1):.0e}{hard}."
        )


@speaks
def solver_of(model: Any) -> SMO:
    """Return the solver that the parameters ask for; −1 iterations stand for no limit."""
    return SMO(**checks.solver_limits(model))


@speaks
def solve(
    model: Any, problems: Sequence[BoxQP], rows: Rows, starts: Any = None, solver: SMO | None = None
) -> list[Solution]:
    """Solve problems with the solver that a model asks for, with errors in its name."""
    return solve_all(problems, rows, solver or solver_of(model), starts)


def soft_machines(
    model: Any,
    data: Sample,
    rows: Rows,
    tasks: Sequence[Task],
    prices: Sequence[float],
    starts: Any = None,
    solver: SMO | None = None,
) -> list[Machine]:
    """Solve two-class problems, each with its own finite C.

    Offset, tolerance and limits are those of the model; a `solver` in place of its own, and a start
    for each problem, may be given.
    """
    offset = bool(model.fit_intercept)
    check_price(model, max(prices, default=0.0), data, rows)
    problems = [soft_problem(data, rows, *both, offset) for both in zip(tasks, prices, strict=True)]
    solutions = solve(model, problems, rows, starts, solver)
    return [soft_machine(*each) for each in zip(tasks, problems, solutions, strict=True)]


def soft_problem(data: Sample, rows: Rows, task: Task, C: float, offset: bool) -> BoxQP:
    """Return the dual problem in a = yα: minimise ½aᵀKa − yᵀa, a between 0 and C w y."""
    y = task.signs
    box = float(C) * (data.weights if task.index is None else data.weights[task.index]) * y
    low, high = np.minimum(box, 0.0), np.maximum(box, 0.0)
    return BoxQP(rows.K, -y, low, high, (0.0,) if offset else (), index=task.index)


def soft_machine(task: Task, problem: BoxQP, solution: Solution) -> Machine:
    """Return what a solved problem says."""
    a, multipliers = solution.value, solution.extra["multipliers"]
    bound = (a != 0) & (a == np.where(task.signs > 0, problem.upper, problem.lower))
    square = square_norm(problem, solution)
    return Machine(task.index, a, bound, -multipliers[0] if multipliers else 0.0, square, solution)


def store(model: Any, data: Sample, machines: Sequence[Machine]) -> None:
    """Store the machines: the points that any of them uses, class by class, and coefficients."""
    m, domain = len(data.y), data.kernel.domain
    used, bound = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
    for machine in machines:
        at: Any = slice(None) if machine.index is None else machine.index
        used[at] |= machine.coef != 0
        bound[at] |= machine.bound
    support = np.flatnonzero(used)
    classes = 0 if data.classes is None else len(data.classes)
    if classes:
        support = support[np.argsort(data.y[support], kind="stable")]
    given = support if data.kept is None else data.kept[support]
    model.kernel_ = data.kernel
    model.support_ = given
    X = data.X if data.given is None else data.given
    model.support_vectors_ = domain.keep_at(X, support) if domain.holds_points else given.copy()
    model.support_kind_ = np.where(bound[support], "bound", "margin")
    columns = [spread(machine.coef, machine.index, m)[support] for machine in machines]
    pairs = classes > 2 and model.multi_class == "ovo"
    model.dual_coef_ = (
        pair_layout(columns, data.y[support], classes) if pairs else np.stack(columns)
    )
    model.intercept_ = np.array([machine.intercept for machine in machines])
    if data.given is not None and len(support):
        near, coef = data.X[support], np.stack(columns, axis=1)
        model.intercept_ -= way_back(data.kernel, X[support], near, coef)
    solution = merged([machine.solution for machine in machines], model.dual_coef_)
    message = f"{type(model).__name__}: {solution.message}" if solution.message else ""
    model.solution_ = replace(solution, message=message)
    if "y_fit_" in model._learned:
        _keep_targets(model, data)


def _keep_targets(model: Any, data: Sample) -> None:
    """Keep targets and weights, which leave-one-out needs to fit without a row."""
    model.y_fit_, model.weights_fit_ = data.spread(data.y).astype(data.y.dtype), None
    if data.kept is not None or (data.weights != 1).any():
        model.weights_fit_ = data.spread(data.weights).astype(float)


def store_one(model: Any, data: Sample, machine: Machine) -> None:
    """Store the only machine, and say what a fit of one problem says."""
    store(model, data, [machine])
    model.n_support_ = np.array([len(model.support_)], dtype=np.int32)
    model.n_iter_ = max(1, machine.solution.n_iter)
    model.solution_.unwrap()
