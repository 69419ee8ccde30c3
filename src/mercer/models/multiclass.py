"""Two-class problems that make up a problem of many classes, and how their answers are combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

__all__ = ["Task", "binary_tasks", "n_tasks", "pair_columns", "pair_layout", "votes"]


@dataclass(frozen=True, eq=False)
class Task:
    """One problem of two sides.

    Parameters
    ----------
    positive, negative : int
        Numbers of the classes; −1 for "all others".
    index : ndarray or None
        Which points take part; None for all.
    signs : ndarray
        +1 or −1 for each of them.
    """

    positive: int
    negative: int
    index: np.ndarray | None
    signs: np.ndarray


def binary_tasks(
    codes: np.ndarray, classes: int, kind: str, among: np.ndarray | None = None
) -> list[Task]:
    """Return the problems: one for two classes, else one a pair ("ovo") or one a class ("ovr").

    Of two classes the second is the positive one, of a pair the first: scikit-learn's signs.

    Parameters
    ----------
    codes : ndarray
        Class numbers 0, 1, …, one a point.
    classes : int
        How many classes there are.
    kind : {"ovo", "ovr"}
        One against one, or one against the rest.
    among : ndarray, optional
        Positions of the points to use, in increasing order; all by default.
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

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_SV,)
        The coefficients of each pair, in the order of the pairs.
    owners : ndarray of shape (n_SV,)
        The class of each support vector.
    classes : int
        How many classes there are.
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

    Parameters
    ----------
    values : ndarray of shape (n, pairs)
        Positive for the first class of the pair.
    classes : int
        How many classes there are.
    """
    first, second = np.array(list(combinations(range(classes), 2))).T
    pairs = np.arange(len(first))
    plus, minus = np.zeros((2, len(first), classes))
    plus[pairs, first] = minus[pairs, second] = 1.0
    total = values @ (plus - minus)
    won = (values >= 0).astype(float)
    return won @ plus + (1.0 - won) @ minus + total / (3.0 * (np.abs(total) + 1.0))
