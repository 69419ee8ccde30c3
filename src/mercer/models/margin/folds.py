"""Folds of the training rows of a margin classifier, solved on the rows of one Gram matrix."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import Clock, random_source
from mercer.errors import InvalidInput, NotConverged, speaks, users_level, who
from mercer.estimator import Sample
from mercer.models.margin.problems import (
    Machine,
    Task,
    check_price,
    soft_machine,
    soft_problem,
    solve,
)
from mercer.solvers import BoxQP, Rows, Solution

FOLDS = 5
NOTHING = Solution(None, True, residual=0.0, gap=0.0, primal=0.0, dual=0.0)


@speaks("SVC", unless_spoken=True)
def stratified_folds(y: np.ndarray, folds: int = FOLDS, random_state: Any = None) -> np.ndarray:
    """Return the fold of each row: classes spread evenly, drawn at random.

    Names and order of the classes make no difference. A class with fewer rows than there are folds
    is absent from some folds, and a class with one row from the training part of one.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class labels.
    folds : int, default=5
        How many folds; as many as rows at most.
    random_state : int, RandomState or None, default=None
        Seed of the draw; None stands for 0, so that a fit can be repeated.

    Returns
    -------
    ndarray of int of shape (n,)
        Numbers from 0 to folds − 1.
    """
    drawn = generator(random_state).permutation(len(y))
    _, first, label = np.unique(y[drawn], return_index=True, return_inverse=True)
    # one class after the other, in the order in which the draw meets them
    order = drawn[np.argsort(first[label], kind="stable")]
    out = np.empty(len(y), dtype=np.int64)
    out[order] = np.arange(len(y)) % max(1, min(folds, len(y)))
    return out


def generator(random_state: Any) -> np.random.RandomState:
    """Return the generator of a seed; None stands for 0, so that a fit can be repeated."""
    return random_source(0 if random_state is None else random_state)


def splits(cv: Any, y: Any, data: Sample, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test positions, among the points kept, of every fold.

    `cv` is a number of stratified folds, a splitter of scikit-learn, or pairs of index arrays.
    Folds without a test row of positive weight are left out.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if not 2 <= cv <= len(data.y):
            raise InvalidInput(
                f"{who()}: cv={cv!r}; give 2 to {len(data.y)} folds, the number of rows."
            )
        fold = stratified_folds(data.y, int(cv), random_state)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]
    if not (hasattr(cv, "split") or isinstance(cv, Iterable)) or isinstance(cv, str):
        raise InvalidInput(
            f"{who()}: cv={cv!r}; give a number of folds, a splitter of scikit-learn, or pairs of "
            "training and test positions."
        )
    from sklearn.model_selection import check_cv

    try:
        pairs = list(check_cv(cv, y, classifier=True).split(np.empty((data.n, 0)), y))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: cv: {error}") from error
    place = np.full(data.n, -1)
    place[np.arange(data.n) if data.kept is None else data.kept] = np.arange(len(data.y))
    try:
        both = [tuple(np.unique(place[np.asarray(part)]) for part in pair) for pair in pairs]
    except (IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: cv: {error}") from error
    kept = [(train[train >= 0], test[test >= 0]) for train, test in both]
    kept = [(train, test) for train, test in kept if len(test)]
    if not kept:
        raise InvalidInput(f"{who()}: cv has no fold with a test row of positive weight.")
    return kept


def fold_machines(
    model: Any, data: Sample, rows: Rows, train: np.ndarray, starts: Sequence[np.ndarray]
) -> list[Machine]:
    """Solve the problems of a model on some of the points, from starts over all of them.

    Where the training points of a problem are all of one class, its machine says that class:
    f = ±1, as LIBSVM's does; without any point it is 0. A `NuSVC` has the problems of `SVC` with
    the C that its ν came to on all points: on some of them ν might be infeasible.

    Parameters
    ----------
    model : SVC or fitted NuSVC
        Whose problems; not changed.
    data : Sample
        All points.
    rows : Rows
        Rows of their Gram matrix.
    train : ndarray of int
        Positions of the training points, increasing.
    starts : sequence of ndarray of shape (n,)
        A start for each problem, such as the solution on all points; coefficients of other points
        are taken for 0, and the solver puts the sums right.

    Returns
    -------
    list of Machine
        One for each problem.
    """
    return machines_of_folds([(model, data, train, starts)], rows)[0]


def machines_of_folds(
    folds: Sequence[tuple[Any, Sample, np.ndarray, Sequence[np.ndarray] | None]], rows: Rows
) -> list[list[Machine]]:
    """Solve the problems of several folds, or of one with several C, as `fold_machines` does one.

    On a device they are solved side by side.

    Parameters
    ----------
    folds : sequence of tuple
        Model, points, positions of training points and starts; the models differ in C alone.
    rows : Rows
        Rows of the Gram matrix.

    Returns
    -------
    list of lists of Machine
        One for each problem of each fold.
    """
    solved: list[dict[int, Machine]] = []
    soft: list[tuple[int, int, Task, BoxQP]] = []
    begins: list[Any] = []
    all_parts = []
    for model, data, train, starts in folds:
        mine: dict[int, Machine] = {}
        solved.append(mine)
        tasks, parts = model._tasks(data), model._tasks(data, train)
        all_parts.append(parts)
        whole = [k for k, part in enumerate(parts) if _two_sided(part.signs)]
        C = model.C if hasattr(model, "C") else model.C_
        prices = np.broadcast_to(C, len(tasks))
        if not np.isfinite(prices[whole]).all():
            hard = model._machines(data, rows, tasks=[parts[k] for k in whole])
            mine.update(zip(whole, hard, strict=True))
            continue
        check_price(model, float(prices[whole].max(initial=0.0)), data, rows)
        chosen = parts
        if tasks[0].index is None:
            # Problems of all points, the others without weight: rows are read as they lie, and
            # values at the others come with the solution.
            weights = np.zeros(len(data.y))
            weights[train] = data.weights[train]
            chosen, data = tasks, replace(data, weights=weights)
        for k in whole:
            task = chosen[k]
            problem = soft_problem(data, rows, task, float(prices[k]), bool(model.fit_intercept))
            soft.append((len(solved) - 1, k, task, problem))
            start = None if starts is None else starts[k]
            begins.append(start if start is None or task.index is None else start[task.index])
    if soft:
        solutions = solve(folds[0][0], [each[3] for each in soft], rows, begins)
        for (i, k, task, problem), solution in zip(soft, solutions, strict=True):
            solved[i][k] = soft_machine(task, problem, solution)
    return [
        [mine[k] if k in mine else _constant(part) for k, part in enumerate(parts)]
        for mine, parts in zip(solved, all_parts, strict=True)
    ]


def _two_sided(signs: np.ndarray) -> bool:
    return bool(len(signs)) and signs.min() < signs.max()


def _constant(task: Task) -> Machine:
    m = len(task.signs)
    value = float(task.signs[0]) if m else 0.0
    none = np.zeros(m, dtype=bool)
    return Machine(task.index, np.zeros(m), none, value, 0.0, NOTHING)


class Tally:
    """Counts the problems of folds, and those that did not converge, for one warning."""

    def __init__(self) -> None:
        self.total, self.failed, self.first = 0, 0, ""

    def count(self, machines: Iterable[Machine]) -> None:
        """Add the problems of one fold."""
        for machine in machines:
            self.total += 1
            if not machine.solution.converged:
                self.failed += 1
                self.first = self.first or machine.solution.message

    def add(self, other: Tally) -> None:
        """Add what another has counted."""
        self.total, self.failed = self.total + other.total, self.failed + other.failed
        self.first = self.first or other.first

    def warn(self, where: str, so: str) -> None:
        """Say how many did not converge, if any, and what that means."""
        if self.failed:
            warnings.warn(
                f"{who()}: {self.failed} of {self.total} problems {where} did not converge, so "
                f"{so}. First: {self.first}",
                NotConverged,
                stacklevel=users_level(),
            )


def with_time_left(model: Any, clock: Clock) -> Any:
    """Return a model with what is left of its `max_time`."""
    if model.max_time is None:
        return model
    part = copy.copy(model)
    part.max_time = clock.rest(1e-9)
    return part


def values_at(rows: Rows, machines: Sequence[Machine], at: np.ndarray) -> np.ndarray:
    """Return the values of machines at some of the points, shape (len(at), machines).

    Parameters
    ----------
    rows : Rows
        Rows of the Gram matrix of all points.
    machines : sequence of Machine
        The functions.
    at : ndarray of int
        Positions of points.

    Returns
    -------
    ndarray
        One column a machine.
    """
    out = np.empty((len(at), len(machines)))
    for k, machine in enumerate(machines):
        product = machine.solution.extra.get("product")
        if not rows.in_memory and machine.index is None and product is not None:
            out[:, k] = product[at] + machine.intercept
            continue
        some = np.flatnonzero(machine.coef)
        f = np.zeros(len(at))
        rows.add(f, some if machine.index is None else machine.index[some], machine.coef[some], at)
        out[:, k] = f + machine.intercept
    return out


# ---- Folds that see points and weights, not rows: the same for repeated and for permuted rows ----


GOLDEN = 0.6180339887498949
EQUAL = 1e-9  # relative difference up to which keys are the same number
SAME = 1e-9, 1e-6  # the same for squared distances in feature space, of rows in float64 and float32


@speaks("SVC", unless_spoken=True)
def deal_folds(data: Sample, rows: Rows, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of each row, and the number of different points of each class.

    Inside a class the points are sorted by their mean kernel value with the class, plus a part of
    that with all points, both weighted. It depends neither on the order of the rows nor on whether
    a point is given twice or has weight two, and unlike a decision value it needs no solver and
    is not the same for all points on the margin. Points are dealt to the folds five by five, in an
    order drawn for every five; copies of a point go together.

    Names and order of the classes make no difference. Points that a symmetry of the data exchanges
    have the same key, and are dealt in the order of the rows.
    """
    rng = generator(random_state)
    members = [np.flatnonzero(data.y == c) for c in range(len(data.classes))]  # type: ignore[arg-type]
    means = np.stack([rows.product(m, data.weights[m]) for m in members])
    total = GOLDEN * means.sum(axis=0)
    keys = [mean[m] + total[m] for mean, m in zip(means, members, strict=True)]
    weights = [data.weights[m] for m in members]
    centre = [float(np.average(k, weights=w)) for k, w in zip(keys, weights, strict=True)]
    fold = np.empty(len(data.y), dtype=np.int64)
    load, counts = np.zeros(FOLDS), np.zeros(len(members), dtype=np.int64)
    for c in np.argsort(centre, kind="stable"):
        point = _points(keys[c], members[c], rows)
        counts[c] = point.max() + 1
        dealt = np.empty(counts[c], dtype=np.int64)
        for first in range(0, counts[c], FOLDS):
            order = rng.permutation(FOLDS)
            if first + FOLDS > counts[c]:  # too few for all folds: those with the fewest points
                order = order[np.argsort(load[order], kind="stable")]
            dealt[first : first + FOLDS] = order[: counts[c] - first]
        load += np.bincount(dealt, minlength=FOLDS)
        fold[members[c]] = dealt[point]
    return fold, counts


def _points(keys: np.ndarray, members: np.ndarray, rows: Rows) -> np.ndarray:
    """Number the points by ascending key; copies of a point have the same number."""
    order = np.argsort(keys, kind="stable")
    size = float(np.abs(keys).max())
    begins = np.flatnonzero(np.r_[True, np.diff(keys[order]) > EQUAL * size])
    out, number = np.empty(len(keys), dtype=np.int64), 0
    for begin, end in zip(begins, np.r_[begins[1:], len(keys)], strict=True):
        left = np.sort(order[begin:end])
        while len(left):
            same = np.ones(1, dtype=bool) if len(left) == 1 else _coincide(members[left], rows)
            out[left[same]] = number
            left, number = left[~same], number + 1
    return out


def _coincide(points: np.ndarray, rows: Rows) -> np.ndarray:
    """Tell which points are, for the kernel, the first one."""
    to_first = np.zeros(len(points))
    rows.add(to_first, points[:1], np.ones(1), points)
    own = rows.diagonal[points]
    same = own + own[0] - 2 * to_first <= SAME[not rows.exact] * np.maximum(own, own[0])
    same[0] = True
    return same
