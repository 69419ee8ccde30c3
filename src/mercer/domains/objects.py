"""Objects: any Python sequence of points, for kernels given as a function of two objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.base import Domain, Index
from mercer.domains.packed import Packed
from mercer.domains.tables import Table, is_frame
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["Objects"]


class Objects(Domain):
    """Points of any kind: a list of anything, or the rows of an array.

    A list of lists of numbers, all of one length, is an array; tuples of numbers stay what they
    are. The points of a frame or table of one column, and of an (n, 1) array of objects or text,
    are its entries; rows of several columns are tuples.
    """

    name = "objects"

    def check(self, X: Any, name: str = "X") -> Any:
        """Return an array (rows are points) or a tuple of objects."""
        if isinstance(X, Table) or is_frame(X):
            table = Table.from_frame(X, name)
            return _entries(table.columns[0]) if len(table.names) == 1 else table
        if isinstance(X, Packed) or is_torch(X):
            return X
        if isinstance(X, np.ndarray) and X.ndim >= 1:
            single = X.ndim == 2 and X.shape[1] == 1 and X.dtype.kind in "OUST"
            return _entries(X[:, 0]) if single else X
        if hasattr(X, "tocsr"):
            return X.tocsr()
        sequence = hasattr(X, "__len__") and hasattr(X, "__getitem__")
        if not sequence or isinstance(X, str | bytes | dict | np.ndarray):
            raise InvalidInput(
                f"Objects: {name} is a {type(X).__name__}; give a list or an array of points."
            )
        rows = _rows(X) if isinstance(X, list) else None
        return tuple(X) if rows is None else rows

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return both; lists of one length beside lists of several are no array after all."""
        if _are_lists(X) and _is_matrix(Y):
            return X, tuple(Y.tolist())
        if _is_matrix(X) and _are_lists(Y):
            return tuple(X.tolist()), Y
        return X, Y

    def size(self, X: Any) -> int:
        """Return the number of points."""
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)

    def take(self, X: Any, index: Index) -> Any:
        """Return the points at the given positions."""
        if isinstance(X, tuple):
            if isinstance(index, slice):
                return X[index]
            index = np.asarray(index) if np.size(index) else np.zeros(0, dtype=int)
            return tuple(X[int(i)] for i in np.arange(len(X))[index])
        if isinstance(X, Table):
            return X.take(index)
        return X[index]

    def keep(self, X: Any) -> Any:
        """Return a copy of an array; other objects are kept themselves."""
        return X.copy() if isinstance(X, np.ndarray) else X

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n standard normal vectors of ℝ³."""
        return rng.standard_normal((n, 3))


def _entries(column: np.ndarray) -> tuple:
    """Return what stands in a column; dates stay dates, of which `tolist` may make numbers."""
    return tuple(column if column.dtype.kind in "mM" else column.tolist())


def _rows(X: list) -> np.ndarray | None:
    """Return a list of lists of numbers, all of one length, as a float array; else None."""
    if not _are_lists(X) or len({len(x) for x in X}) > 1 or not X[0]:
        return None
    if not all(isinstance(v, int | float | np.number) for x in X for v in x):
        return None
    try:
        return np.array(X, dtype=np.float64)
    except (OverflowError, TypeError):  # a whole number beyond the floats, or a complex one
        return None


def _are_lists(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(x, list) for x in X)


def _is_matrix(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64
