"""Rows of a table whose columns are chosen by name or position (for ``kernel.on``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.tables.table import Table, is_frame
from mercer.domains.vectors import Vectors, check_rows, is_torch
from mercer.errors import InvalidInput, refusal


class Tables(Domain):
    """Rows whose columns are chosen: a frame becomes a `Table`, an array of numbers stays one.

    Missing numbers are let through: whether a column may have some is for the kernel on it to say.

    Parameters
    ----------
    columns : tuple of str, optional
        The names of the columns that are looked at, so that their order and further ones do not
        matter; None where all may be.
    """

    name = "tables"

    def __init__(self, columns: tuple[str, ...] | None = None):
        self.columns = columns

    def check(self, X: Any, name: str = "X") -> Any:
        """Return a `Table` for frames, dicts and rows of objects, else vectors."""
        if isinstance(X, Table):
            return X
        if is_frame(X) or (isinstance(X, dict) and not sp.issparse(X)):
            table = Table.from_frame(X, name, self.columns)
            table._converted = []  # it lives no longer than what it is checked for
            return table
        rows = rows_of_objects(X)
        if rows is None:
            return check_rows(X, name, missing=True)
        table = Table.from_rows(rows)
        if all(column.dtype.kind in "fiub" for column in table.columns):
            return check_rows(table.numeric(name), name, missing=True)
        table._converted = []
        return table

    def size(self, X: Any) -> int:
        """Return the number of rows."""
        return int(X.shape[0])

    def take(self, X: Any, index: Index) -> Any:
        """Return the rows at the given positions."""
        return X.take(index) if isinstance(X, Table) else X[index]

    def keep(self, X: Any) -> Any:
        """Return a copy of what is looked at, so that a fitted model does not change with X."""
        if not isinstance(X, Table):
            return Vectors().keep(X)
        return (X if self.columns is None else X.select(self.columns)).kept()

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Bring two collections to one form; tables are matched column by column when chosen."""
        X, Y = _without_names(X, Y), _without_names(Y, X)
        if isinstance(X, Table) and isinstance(Y, Table) and X.named == Y.named:
            if not X.named and len(X.names) != len(Y.names):
                raise refusal(
                    "Tables",
                    f"X has {len(X.names)} columns and Y has {len(Y.names)}; columns "
                    "without names must be the same in both, in the same order.",
                )
            return X, Y
        if isinstance(X, Table) or isinstance(Y, Table):
            raise refusal(
                "Tables",
                "one of X and Y has column names and the other has not; pass both as frames.",
            )
        return Vectors().match(X, Y)

    def sample(self, rng: np.random.Generator, n: int) -> Table:
        """Return n rows of three numeric columns a, b, c."""
        values = rng.standard_normal((3, n))
        return Table(dict(zip("abc", values, strict=True)))


def rows_of_objects(X: Any) -> np.ndarray | None:
    """Return rows that are not all of numbers as a 2-D array of objects; None for other input.

    Such rows come as an array of objects or of text (``frame.to_numpy()``), or as a list of rows.
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUST":
        return X
    if not isinstance(X, list | tuple) or not X or not all(isinstance(r, list | tuple) for r in X):
        return None
    width = len(X[0])
    if not width or any(len(row) != width for row in X):
        return None
    if all(isinstance(v, int | float | np.number) for row in X for v in row):
        return None
    flat = np.fromiter((v for row in X for v in row), dtype=object, count=len(X) * width)
    return flat.reshape(len(X), width)


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
    places = [int(c) % d for c in columns]
    if len(set(places)) < len(places):
        raise InvalidInput(f"on: columns={list(columns)} of {d} chooses a column twice.")
    return X[:, places]


def _without_names(X: Any, other: Any) -> Any:
    """Return numbers as a table without names where the other collection is one."""
    beside = isinstance(other, Table) and not other.named
    if not beside or isinstance(X, Table) or is_torch(X):
        return X
    return Table.from_rows(X.toarray() if sp.issparse(X) else X)
