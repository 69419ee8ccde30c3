"""Variables of a box QP that are moved, with what belongs to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.solvers.box import CheckedBox
from mercer.solvers.rows import Rows

__all__ = ["View"]


class View:
    """Variables that are moved, with the points they need: all of a problem, or part of it."""

    def __init__(self, box: CheckedBox, rows: Rows, columns: np.ndarray | None, at: np.ndarray):
        self.rows, self.columns, self.at = rows, columns, at
        self.p, self.lower, self.upper = box.p, box.lower, box.upper
        self.groups, self.signs, self.n_groups = box.groups, box.signs, len(box.totals)
        self.variables: np.ndarray | None = None
        self.idle = np.zeros(len(at), dtype=np.int64)
        self.a = self.f = np.zeros(0)
        self.last_block: tuple[np.ndarray, Any] = np.zeros(0, dtype=np.int64), None

    def restrict(self, keep: np.ndarray) -> View:
        """Return a view of the variables in `keep`, with rows of their points only."""
        part = object.__new__(View)
        points, part.at = np.unique(self.at[keep], return_inverse=True)
        for name in ("p", "lower", "upper", "groups", "a"):
            setattr(part, name, getattr(self, name)[keep])
        part.signs = None if self.signs is None else self.signs[keep]
        part.n_groups, part.f = self.n_groups, self.f[points]
        part.rows = self.rows.restricted(self.places(points))
        part.columns, part.variables = None, keep
        part.idle = np.zeros(len(keep), dtype=np.int64)
        part.last_block = np.zeros(0, dtype=np.int64), None
        return part

    def places(self, at: np.ndarray) -> np.ndarray:
        """Return the rows, in `rows`, of positions in f."""
        return at if self.columns is None else self.columns[at]

    def gradient(self) -> np.ndarray:
        """Return Qa + p."""
        out = self.f[self.at]
        if self.signs is not None:
            out *= self.signs
        out += self.p
        return out

    def add(self, variables: np.ndarray, delta: np.ndarray, pool: Any) -> None:
        """Bring f up to date with a change of some coefficients."""
        if self.signs is not None:
            delta = delta * self.signs[variables]
        points, where = np.unique(self.at[variables], return_inverse=True)
        total = np.bincount(where, weights=delta)
        some = total != 0
        self.rows.add(self.f, self.places(points[some]), total[some], self.columns, pool)
