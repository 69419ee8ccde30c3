"""Folds of the training rows of a margin classifier, solved on the rows of one Gram matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput
from mercer.models.machines import Machine, MarginData
from mercer.models.multiclass import Task
from mercer.solvers import Rows, Solution

__all__ = ["fold_machines", "splits", "spread", "stratified_folds", "values_at"]

FOLDS = 5
NOTHING = Solution(None, True, residual=0.0, gap=0.0, primal=0.0, dual=0.0)


def stratified_folds(
    y: np.ndarray, folds: int = FOLDS, random_state: Any = None, owner: str = "SVC"
) -> np.ndarray:
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
    owner : str, default="SVC"
        Who asks; messages begin with it.

    Returns
    -------
    ndarray of int of shape (n,)
        Numbers from 0 to folds − 1.
    """
    try:
        rng = check_random_state(0 if random_state is None else random_state)
    except ValueError as error:
        raise InvalidInput(f"{owner}: random_state: {error}") from None
    drawn = rng.permutation(len(y))
    _, first, label = np.unique(y[drawn], return_index=True, return_inverse=True)
    # one class after the other, in the order in which the draw meets them
    order = drawn[np.argsort(first[label], kind="stable")]
    out = np.empty(len(y), dtype=np.int64)
    out[order] = np.arange(len(y)) % max(1, min(folds, len(y)))
    return out


def splits(
    cv: Any, X: Any, y: Any, data: MarginData, random_state: Any, owner: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test positions, among the points kept, of every fold.

    Parameters
    ----------
    cv : int, splitter or iterable
        Number of stratified folds, a splitter of scikit-learn, or pairs of index arrays.
    X, y : data as given
        For the splitter.
    data : MarginData
        The checked data, without rows of weight zero.
    random_state : object
        Seed of stratified folds.
    owner : str
        Who asks; messages begin with it.

    Returns
    -------
    list of tuple
        Positions; folds without a test row of positive weight are left out.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if not 2 <= cv <= len(data.y):
            raise InvalidInput(
                f"{owner}: cv={cv!r}; give 2 to {len(data.y)} folds, the number of rows."
            )
        fold = stratified_folds(data.y, int(cv), random_state, owner)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]
    if not (hasattr(cv, "split") or isinstance(cv, Iterable)) or isinstance(cv, str):
        raise InvalidInput(
            f"{owner}: cv={cv!r}; give a number of folds, a splitter of scikit-learn, or pairs of "
            "training and test positions."
        )
    try:
        pairs = list(check_cv(cv, y, classifier=True).split(np.empty((data.n, 0)), y))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: cv: {error}") from error
    place = np.full(data.n, -1)
    place[np.arange(data.n) if data.kept is None else data.kept] = np.arange(len(data.y))
    try:
        both = [tuple(np.unique(place[np.asarray(part)]) for part in pair) for pair in pairs]
    except (IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: cv: {error}") from error
    kept = [(train[train >= 0], test[test >= 0]) for train, test in both]
    kept = [(train, test) for train, test in kept if len(test)]
    if not kept:
        raise InvalidInput(f"{owner}: cv has no fold with a test row of positive weight.")
    return kept


def spread(machine: Machine, n: int) -> np.ndarray:
    """Return the coefficients of a machine as a vector over all n points."""
    if machine.index is None:
        return machine.coef
    out = np.zeros(n)
    out[machine.index] = machine.coef
    return out


def fold_machines(
    model: Any,
    data: MarginData,
    rows: Rows,
    trains: Sequence[np.ndarray],
    starts: Sequence[Sequence[np.ndarray]],
) -> list[list[Machine]]:
    """Solve the problems of a model on several parts of the points, from starts over all of them.

    Where the training points of a problem are all of one class, its machine says that class:
    f = ±1, as LIBSVM's does; without any point it is 0.

    Parameters
    ----------
    model : SVC
        Whose problems; not changed.
    data : MarginData
        All points.
    rows : Rows
        Rows of their Gram matrix.
    trains : sequence of ndarray of int
        Positions of the training points of each fold, increasing.
    starts : sequence of sequence of ndarray of shape (n,)
        For each fold a start for each problem, such as the solution on all points; coefficients of
        other points are taken for 0, and the solver puts the sums right.

    Returns
    -------
    list of list of Machine
        For each fold one machine a problem.
    """
    tasks = model._tasks(data)
    if tasks[0].index is None and np.isfinite(getattr(model, "C", 1.0)):
        return [
            _without_weight(model, data, rows, tasks, train, given)
            for train, given in zip(trains, starts, strict=True)
        ]
    parts = [model._tasks(data, train) for train in trains]
    todo = [
        (task, start[task.index])
        for part, given in zip(parts, starts, strict=True)
        for task, start in zip(part, given, strict=True)
        if _two_sided(task.signs)
    ]
    solved = _solve(model, data, rows, todo)
    return [[next(solved) if _two_sided(t.signs) else _constant(t) for t in p] for p in parts]


def _without_weight(
    model: Any,
    data: MarginData,
    rows: Rows,
    tasks: Sequence[Task],
    train: np.ndarray,
    starts: Sequence[np.ndarray],
) -> list[Machine]:
    """Solve problems of all points, held-out ones without weight: rows are read as they lie."""
    weights = np.zeros(len(data.y))
    weights[train] = data.weights[train]
    todo = [
        (task, start)
        for task, start in zip(tasks, starts, strict=True)
        if _two_sided(task.signs[train])
    ]
    solved = _solve(model, replace(data, weights=weights), rows, todo)
    return [
        next(solved)
        if _two_sided(task.signs[train])
        else _constant(Task(task.positive, task.negative, train, task.signs[train]))
        for task in tasks
    ]


def _solve(
    model: Any, data: MarginData, rows: Rows, todo: Sequence[tuple[Task, np.ndarray]]
) -> Iterator[Machine]:
    if not todo:
        return iter(())
    tasks, starts = zip(*todo, strict=True)
    return iter(model._machines(data, rows, tasks=list(tasks), starts=list(starts)))


def _two_sided(signs: np.ndarray) -> bool:
    return bool(len(signs)) and signs.min() < signs.max()


def _constant(task: Task) -> Machine:
    m = len(task.signs)
    value = float(task.signs[0]) if m else 0.0
    none = np.zeros(m, dtype=bool)
    return Machine(task.index, np.zeros(m), none, value, 0.0, NOTHING)


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
        some = np.flatnonzero(machine.coef)
        f = np.zeros(len(at))
        rows.add(f, some if machine.index is None else machine.index[some], machine.coef[some], at)
        out[:, k] = f + machine.intercept
    return out
