"""Columns of numbers by their ranks: normal scores, for columns far from normal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.special import ndtri

#: What a member sees: columns of numbers as they are, ranks of those far from normal, ranks of all.
VIEWS = ("", "ranks of some", "ranks")
KNOTS = 100
REACH = 2.5  # scores of the smallest and the largest value
SKEWED = 1.0  # from this skewness on a column is far from normal
DISTINCT = 3  # values that a column must have for its ranks to differ from itself


def numbers_of(encoder: Any) -> np.ndarray:
    """Return which encoded columns are numbers, not categories, coordinates or marks of gaps."""
    column = np.repeat(np.arange(len(encoder.kinds_)), encoder.widths)
    begins = np.diff(column, prepend=-1) > 0  # behind a number stands the mark of its gaps
    return begins & np.array([kind == "number" for kind in encoder.kinds_])[column]


def groups_of(encoder: Any) -> np.ndarray:
    """Return for each encoded column the number of its factor; coordinates of a kernel have one."""
    same = np.repeat([kind == "kernel" for kind in encoder.kinds_], encoder.widths)
    column = np.repeat(np.arange(len(encoder.kinds_)), encoder.widths)
    begins = ~same | (np.diff(column, prepend=-1) > 0)
    return np.cumsum(begins) - 1


def fingerprint(Z: np.ndarray) -> str:
    """Return what tells encoded rows from others, and from the same in another order."""
    return blake2b(np.ascontiguousarray(Z + 0.0).tobytes(), digest_size=16).hexdigest()


def by_contents(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Return the order of rows by the first column, of equal ones by the next, and so on."""
    order, begins = np.zeros(0, dtype=int), np.zeros(0, dtype=bool)
    for j, column in enumerate(columns):
        if j == 0:
            order, begins = np.arange(len(column)), np.arange(len(column)) == 0
        tied = ~begins  # a row is as the one before, so far; and so is the one before
        tied[:-1] |= tied[1:]
        if not (at := np.flatnonzero(tied)).size:
            break
        sorted_ = np.lexsort((column[order[at]], np.cumsum(begins)[at]))
        order[at] = order[at[sorted_]]
        values = column[order[at]]
        begins[at[1:]] |= values[1:] != values[:-1]
    return order


@dataclass(frozen=True)
class NormalScores:
    """For each column values and their scores, ascending; NaN for columns that stay as they are.

    Between values scores are on the lines between them, beyond them those of the ends.
    """

    knots: np.ndarray  # (2, d, KNOTS): values and scores
    ranked: np.ndarray  # columns far from normal

    @classmethod
    def of(cls, Z: np.ndarray, weights: np.ndarray | None, numbers: np.ndarray) -> NormalScores:
        """Return the scores of columns of numbers."""
        d = Z.shape[1]
        knots = np.full((2, d, KNOTS), np.nan)
        ranked = np.zeros(d, dtype=bool)
        w = np.ones(len(Z)) if weights is None else weights
        for j in np.flatnonzero(numbers):
            values, where = np.unique(Z[:, j], return_inverse=True)
            if len(values) < DISTINCT:
                continue
            mass = np.bincount(where, weights=w, minlength=len(values))
            middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            score = np.clip(ndtri(middle), -REACH, REACH)
            # knots at equal steps of the score, so that tails have as many as the middle
            at = np.linspace(score[0], score[-1], KNOTS) if len(values) > KNOTS else None
            if at is None:
                x = np.append(values, np.full(KNOTS - len(values), values[-1]))
                at = np.append(score, np.full(KNOTS - len(values), score[-1]))
            else:
                x = np.interp(at, score, values)
            knots[0, j], knots[1, j] = x, at
            centred = Z[:, j] - np.average(Z[:, j], weights=w)
            spread = np.sqrt(np.average(centred**2, weights=w))
            ranked[j] = abs(np.average((centred / spread) ** 3, weights=w)) > SKEWED
        return cls(knots, ranked)

    @property
    def views(self) -> list[str]:
        """The views that differ."""
        known = ~np.isnan(self.knots[0, :, 0])
        out = [VIEWS[0]]
        if (self.ranked & known).any():
            out.append(VIEWS[1])
        if (known & ~self.ranked).any():
            out.append(VIEWS[2])
        return out

    def view(self, Z: np.ndarray, view: str) -> np.ndarray:
        """Return rows as a view shows them."""
        if view == VIEWS[0]:
            return Z
        known = ~np.isnan(self.knots[0, :, 0])
        chosen = known & self.ranked if view == VIEWS[1] else known
        out = np.array(Z)
        for j in np.flatnonzero(chosen):
            out[:, j] = np.interp(Z[:, j], *self.knots[:, j])
        return out
