"""Rows of a table whose columns are chosen by name or position (for ``kernel.on``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.tables import Table, is_frame
from mercer.domains.vectors import Vectors
from mercer.errors import InvalidInput

__all__ = ["Tables", "select"]


class Tables(Domain):
    """Rows whose columns are chosen: a frame becomes a `Table`, an array stays vectors."""

    name = "tables"

    def check(self, X: Any, name: str = "X") -> Any:
        """Return a `Table` for frames and dicts, else vectors."""
        if isinstance(X, Table) or is_frame(X) or (isinstance(X, dict) and not sp.issparse(X)):
            return Table.from_frame(X, name)
        return Vectors().check(X, name)

    def size(self, X: Any) -> int:
        """Return the number of rows."""
        return int(X.shape[0])

    def take(self, X: Any, index: Index) -> Any:
        """Return the rows at the given positions."""
        return X.take(index) if isinstance(X, Table) else X[index]

    def keep(self, X: Any) -> Any:
        """Return a copy, so that a fitted model does not change when the user's table does."""
        if isinstance(X, Table):
            return Table({n: c.copy() for n, c in zip(X.names, X.columns, strict=True)})
        return Vectors().keep(X)

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Bring two collections to one form; tables are matched column by column when chosen."""
        if isinstance(X, Table) and isinstance(Y, Table):
            return X, Y
        if isinstance(X, Table) or isinstance(Y, Table):
            raise InvalidInput(
                "Tables: one of X and Y has column names and the other has not; "
                "pass both as frames."
            )
        return Vectors().match(X, Y)

    def sample(self, rng: np.random.Generator, n: int) -> Table:
        """Return n rows of three numeric columns a, b, c."""
        values = rng.standard_normal((3, n))
        return Table(dict(zip("abc", values, strict=True)))


def select(X: Any, columns: Any) -> Any:
    """Return the chosen columns of a `Table` or of vectors."""
    if isinstance(X, Table):
        return X.select(columns)
    if isinstance(columns, slice):
        return X[:, columns]
    d = X.shape[1]
    for c in columns:
        if isinstance(c, str):
            raise InvalidInput(
                f"on: column {c!r} is a name, but X is an array without column names; "
                "pass a data frame or choose columns by position."
            )
        if not -d <= c < d:
            raise InvalidInput(f"on: no column {c}; X has {d} columns, 0 to {d - 1}.")
    return X[:, [int(c) for c in columns]]
