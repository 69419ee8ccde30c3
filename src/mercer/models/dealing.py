"""Folds that see points and weights, not rows: the same for repeated and for permuted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.models.folds import FOLDS, generator
from mercer.models.machines import MarginData
from mercer.solvers import Rows

__all__ = ["deal_folds"]

GOLDEN = 0.6180339887498949
EQUAL = 1e-9  # relative difference up to which keys are the same number
SAME = 1e-9, 1e-6  # the same for squared distances in feature space, of rows in float64 and float32


def deal_folds(
    data: MarginData, rows: Rows, random_state: Any = None, owner: str = "SVC"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of each row, and the number of different points of each class.

    Inside a class the points are sorted by their mean kernel value with the class, plus a part of
    that with all points, both weighted. It depends neither on the order of the rows nor on whether
    a point is given twice or has weight two, and unlike a decision value it needs no solver and
    is not the same for all points on the margin. Points are dealt to the folds five by five, in an
    order drawn for every five; copies of a point go together.

    Names and order of the classes make no difference. Points that a symmetry of the data exchanges
    have the same key, and are dealt in the order of the rows.

    Parameters
    ----------
    data : MarginData
        The points.
    rows : Rows
        Rows of their Gram matrix.
    random_state : int, RandomState or None, default=None
        Seed of the draw; None stands for 0.
    owner : str, default="SVC"
        Who asks; messages begin with it.

    Returns
    -------
    tuple of ndarray
        Numbers from 0 to 4, one a row; and numbers of points, one a class.
    """
    rng = generator(random_state, owner)
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
