"""`Table`: named columns of mixed kinds, read from pandas, polars, pyarrow or a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from mercer.domains.base import Index
from mercer.errors import InvalidInput

__all__ = ["Table", "check_same_columns", "is_frame"]


def is_frame(X: Any) -> bool:
    """Whether X is a pandas, polars or pyarrow table, without importing any of them."""
    root = type(X).__module__.partition(".")[0]
    return (root in ("pandas", "polars") and type(X).__name__ == "DataFrame") or (
        root == "pyarrow" and type(X).__name__ in ("Table", "RecordBatch")
    )


class Table:
    """Named columns of equal length, each a 1-D array of any kind.

    Parameters
    ----------
    columns : mapping of str to 1-D array-like, or data frame
        The columns, in order: a dict, or a pandas, polars or pyarrow table.

    Notes
    -----
    ``table["age"]`` and ``table[0]`` are columns. A slice, an array of positions or a mask chooses
    rows, as scikit-learn's splitters do: ``table[:10]``, ``table[table["age"] > 40]``.

    Examples
    --------
    >>> from mercer.domains import Table
    >>> table = Table({"age": [31, 47], "site": ["a", "b"]})
    >>> table.names, len(table)
    (('age', 'site'), 2)
    >>> table[table["age"] > 40]
    Table(1 rows: age, site)
    """

    def __init__(self, columns: Any):
        if not isinstance(columns, Mapping):
            columns = _mapping(columns)
        self.names = tuple(str(name) for name in columns)
        self.columns = tuple(_column(values) for values in columns.values())
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise InvalidInput(f"Table: two columns are called {twice!r}; rename one.")
        lengths = {len(c) for c in self.columns}
        if len(lengths) > 1:
            raise InvalidInput(f"Table: columns have different lengths {sorted(lengths)}.")
        self._length = lengths.pop() if lengths else 0

    @classmethod
    def from_frame(cls, X: Any, name: str = "X") -> Table:
        """Read a pandas, polars or pyarrow table, a dict of columns, or return a `Table` as is."""
        if isinstance(X, Table):
            return X
        if isinstance(X, Mapping):
            return cls(X)
        if not is_frame(X):
            raise InvalidInput(
                f"Tables: {name} is a {type(X).__name__} without column names; "
                "pass a data frame, or choose columns by position."
            )
        return cls(_mapping(X, name))

    def __len__(self) -> int:
        return self._length

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._length, len(self.names)

    @overload
    def __getitem__(self, key: str | int) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: Any) -> Any: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2:  # scikit-learn writes X[rows, ...], X[:, cols]
            rows, columns = key
            out = self if _is_all(rows) else self._rows(rows)
            if _is_all(columns):
                return out
            return out.select(columns) if _is_many(columns) else out[columns]
        if not _is_many(key):
            return self.columns[self._position(key)]
        if not isinstance(key, slice) and len(key) and all(isinstance(k, str) for k in key):
            return self.select(key)
        return self._rows(key)

    def _rows(self, key: Any) -> Table:
        if isinstance(key, slice):
            return self.take(key)
        index = np.asarray(key)
        if index.size == 0 and index.dtype.kind == "f":  # an empty list
            index = index.astype(np.intp)
        legal = index.dtype.kind == "b" and index.shape == (self._length,)
        if index.dtype.kind in "iu":
            index = np.atleast_1d(index)
            inside = (index >= -self._length) & (index < self._length)
            legal = index.ndim == 1 and bool(inside.all())
        if not legal:
            raise InvalidInput(
                f"Table: {_short(key)} chooses no rows of {self._length}; give a slice, an array "
                "of positions, or a mask with one truth value a row."
            )
        return self.take(index)

    def _position(self, name: Any) -> int:
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            if not -len(self.names) <= name < len(self.names):
                raise InvalidInput(f"Table: no column {name}; it has {len(self.names)}.")
            return int(name)
        if not isinstance(name, str) or name not in self.names:
            known = ", ".join(map(repr, self.names[:12])) + (" …" if len(self.names) > 12 else "")
            raise InvalidInput(f"Table: no column {_short(name)}; the columns are {known}.")
        return self.names.index(name)

    def select(self, columns: Iterable[Any] | slice) -> Table:
        """Return the table of the given columns (names, positions or a slice)."""
        keys = self.names[columns] if isinstance(columns, slice) else columns
        index = [self._position(key) for key in keys]
        return Table({self.names[i]: self.columns[i] for i in index})

    def take(self, index: Index) -> Table:
        """Return the table of the given rows."""
        return Table({n: c[index] for n, c in zip(self.names, self.columns, strict=True)})

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(dict(zip(self.names, self.columns, strict=True)))

    def numeric(self, name: str = "X") -> np.ndarray:
        """Stack all columns to a float array; one that is not numeric is named in the error."""
        if not self.names:
            return np.empty((self._length, 0))
        for label, column in zip(self.names, self.columns, strict=True):
            if column.dtype.kind not in "fiub" and not _only_numbers(column):
                what = "text or categories" if column.dtype == object else f"{column.dtype} values"
                raise InvalidInput(
                    f"Vectors: column {label!r} of {name} holds {what} where numbers belong; "
                    "encode it, or choose numeric columns with kernel.on(columns)."
                )
        narrow = all(c.dtype.kind == "f" and c.dtype.itemsize <= 4 for c in self.columns)
        dtype = np.float32 if narrow else np.float64
        return np.column_stack([c.astype(dtype) for c in self.columns])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.names == other.names
            and all(np.array_equal(a, b) for a, b in zip(self.columns, other.columns, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Table({self._length} rows: {', '.join(self.names)})"


def check_same_columns(X: Any, Y: Any) -> None:
    """Refuse two frames whose columns differ in name or order, for kernels that use all of them."""
    names = [_names(Z) for Z in (X, Y)]
    if None in names or names[0] == names[1]:
        return
    raise InvalidInput(
        f"Vectors: the columns of X are {names[0]} and those of Y {names[1]}; both must have the "
        "same columns in the same order: Y = Y[X.columns]."
    )


def _names(X: Any) -> list[str] | None:
    if isinstance(X, Table):
        return list(X.names)
    if not is_frame(X):
        return None
    return [str(n) for n in (X.schema.names if _is_arrow(X) else X.columns)]


def _mapping(X: Any, name: str = "X") -> dict[str, Any]:
    """The columns of a frame or `Table` by name."""
    if isinstance(X, Table):
        return dict(zip(X.names, X.columns, strict=True))
    if not is_frame(X):
        raise InvalidInput(
            f"Table: {name} is a {type(X).__name__}; pass a dict of columns or a data frame."
        )
    names = list(X.schema.names) if _is_arrow(X) else list(X.columns)
    if len(set(map(str, names))) < len(names):
        raise InvalidInput(
            f"Tables: {name} has two columns of one name; rename one: {_short(names)}."
        )
    take = X.column if _is_arrow(X) else X.__getitem__
    return {str(n): take(n) for n in names}


def _is_all(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def _is_many(key: Any) -> bool:
    """Whether a key is a slice, a list or an array: not one name or position."""
    if hasattr(key, "ndim"):
        return bool(key.ndim)
    return isinstance(key, slice | list | tuple | range) or hasattr(key, "__array__")


def _short(key: Any) -> str:
    """A key as text that fits into a message."""
    text = " ".join(repr(key).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _is_arrow(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pyarrow"


def _column(values: Any) -> np.ndarray:
    if _is_arrow(values):
        values = np.asarray(values.to_pylist() if values.null_count else values)
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, list | tuple) and any(isinstance(v, str) for v in values):
        # NumPy would write a missing value among text as the text "nan"
        plain = all(isinstance(v, str) for v in values)
        values = np.array(values, dtype=str if plain else object)
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"Table: a column has {array.ndim} dimensions; one is expected.")
    if array.dtype == object and _only_numbers(array):
        array = array.astype(np.float64)
    return array


def _only_numbers(column: np.ndarray | Sequence) -> bool:
    return column.dtype == object and all(  # type: ignore[union-attr]
        v is None or isinstance(v, int | float | np.number) for v in column
    )
