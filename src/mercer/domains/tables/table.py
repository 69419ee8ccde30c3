"""`Table`: named columns of mixed kinds, read from pandas, polars, pyarrow or a dict."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Self, overload

import numpy as np

from mercer.domains.base import Index, library_of
from mercer.domains.labels import is_missing
from mercer.errors import refusal

# ---- One column as a 1-D array: what frames, lists and arrays hold, entry by entry ----


NUMBERS = (int, float, np.integer, np.floating)
LABELS = (str, bytes, tuple, np.bool_, *NUMBERS)  # what may be a category as it is
LARGEST = sys.float_info.max
EXACT = 2**53  # from here on whole numbers have gaps among floats


def as_column(values: Any, name: str) -> np.ndarray:
    """Return a column as a 1-D array; what is missing among objects is None."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise refusal(
                "Table",
                f"column {name!r} has {values.ndim} dimensions; one is expected. A list of "
                "arrays is a column of arrays.",
            )
        return _tidy(values) if values.dtype == object else values
    if is_arrow(values):
        nested = str(values.type).startswith(
            ("dictionary", "list", "large_list", "fixed", "struct")
        )
        values = values.to_pylist() if values.null_count or nested else np.asarray(values)
    elif _is_whole_with_gaps(values):
        values = list(values)  # to_numpy would make floats of them
    elif hasattr(values, "to_numpy"):
        values = _as_text(values) if _is_odd_category(values) else values.to_numpy()
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return _tidy(values) if values.dtype == object else values
    try:
        entries = list(values)
    except TypeError:
        raise refusal(
            "Table",
            f"column {name!r} is {short(values)}, a {type(values).__name__}; give a list "
            "or an array, an entry for each row.",
        ) from None
    if isinstance(values, str | bytes | dict):
        raise refusal(
            "Table",
            f"column {name!r} is a {type(values).__name__}; give a list or an array, an "
            "entry for each row.",
        )
    plain = all(isinstance(v, int | float | np.number | np.bool_) for v in entries)
    if plain or (entries and all(isinstance(v, np.datetime64 | np.timedelta64) for v in entries)):
        array = np.asarray(entries) if entries else np.zeros(0)
        if array.ndim == 1 and (array.dtype.kind != "f" or _is_exact(entries, array)):
            return array
    # Entry by entry: NumPy would take graphs and arrays apart, write a missing value among text
    # as the text "nan", and make all strings as long as the longest.
    return _tidy(np.fromiter(entries, dtype=object, count=len(entries)))


def _tidy(column: np.ndarray) -> np.ndarray:
    """Return objects that are numbers as numbers, NaN where missing; else None where missing."""
    kinds = set(map(type, column.tolist()))
    if str in kinds and kinds <= {str, type(None)}:
        return column
    if not len(column):
        return column
    missing = np.fromiter(map(is_missing, column), dtype=bool, count=len(column))
    present = column[~missing]
    numbers = all(isinstance(v, (*NUMBERS, Decimal)) for v in present)
    if numbers and not (len(present) and all(isinstance(v, bool) for v in present)):
        out = np.full(len(column), np.nan)
        try:
            out[~missing] = present
            if _is_exact(present, out[~missing]):
                return out
        except (OverflowError, ValueError):  # a whole number beyond the floats
            pass
    if not any(column[i] is not None for i in np.flatnonzero(missing)):
        return column
    out = column.copy()
    out[missing] = None
    return out


def _is_exact(entries: Any, floats: np.ndarray) -> bool:
    """Whether no whole number became another one: keys of databases have 18 digits."""
    return all(
        not isinstance(entries[i], int | np.integer) or int(floats[i]) == entries[i]
        for i in np.flatnonzero(np.abs(floats) >= EXACT)
    )


def _is_whole_with_gaps(values: Any) -> bool:
    """Whether a column of pandas or polars holds whole numbers, some of them missing."""
    if library_of(values) == "polars":
        return bool(values.dtype.is_integer() and values.null_count())
    whole = library_of(values) == "pandas" and getattr(values.dtype, "kind", "") in ("i", "u")
    return whole and bool(values.isna().any())


def declared(values: Any) -> tuple | None:
    """Return the order of a column that a frame declares to be a category, () where it has none.

    Levels that cannot be categories as they are, such as intervals, are written as text, as
    `as_column` does. None where nothing is declared.
    """
    dtype = getattr(values, "dtype", None)
    kind, root = type(dtype).__name__, library_of(values)
    if root == "pandas" and kind == "CategoricalDtype":
        levels = dtype.categories.tolist() if dtype.ordered else ()  # type: ignore[union-attr]
        return tuple(map(str, levels) if _is_odd_category(values) else levels)
    if root == "polars" and kind in ("Categorical", "Enum"):
        return tuple(dtype.categories) if kind == "Enum" else ()  # type: ignore[union-attr]
    if is_arrow(values) and str(values.type).startswith("dictionary"):
        return _arrow_levels(values) if values.type.ordered else ()
    return None


def _is_odd_category(values: Any) -> bool:
    """Whether values are categories of pandas with levels such as intervals."""
    dtype = getattr(values, "dtype", None)
    if library_of(values) != "pandas" or type(dtype).__name__ != "CategoricalDtype":
        return False
    return not all(isinstance(v, LABELS) for v in dtype.categories.tolist())  # type: ignore[union-attr]


def _as_text(values: Any) -> np.ndarray:
    """Return the levels of categories of pandas as text, None where one is missing (code −1)."""
    texts = np.array([*map(str, values.dtype.categories.tolist()), None], dtype=object)
    return texts[np.asarray(getattr(values, "cat", values).codes)]


def _arrow_levels(values: Any) -> tuple:
    """Return the levels of a column of arrow, which may come in pieces."""
    pieces = values.unify_dictionaries().chunks if hasattr(values, "chunks") else [values]
    return tuple(pieces[0].dictionary.to_pylist()) if pieces else ()


def only_numbers(column: np.ndarray) -> bool:
    """Whether an array of objects holds numbers, truth values and missing entries alone.

    Whole numbers beyond all floats are none.
    """
    legal = (*NUMBERS, np.bool_, type(None))
    if column.dtype != object or not all(issubclass(t, legal) for t in set(map(type, column))):
        return False
    return not any(isinstance(v, int) and abs(v) > LARGEST for v in column)


def holds_dates(column: np.ndarray) -> bool:
    """Whether a column holds dates, times or spans of time, and missing entries."""
    if column.dtype.kind in "mM":
        return True
    if column.dtype != object:
        return False
    types = set(map(type, column.tolist())) - {type(None)}
    kinds = (date, time, timedelta, np.datetime64, np.timedelta64)
    return bool(types) and all(issubclass(t, kinds) or t.__name__ == "Period" for t in types)


def holds_spans(column: np.ndarray) -> bool:
    """Whether a column of `holds_dates` holds spans of time."""
    first = next((v for v in column if v is not None), None)
    return isinstance(first, timedelta | np.timedelta64)


def is_date(cell: Any) -> bool:
    """Whether a cell is text, and an ISO date with or without a time."""
    if not isinstance(cell, str) or not re.match(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}", cell):
        return False
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def equal_columns(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two columns hold equal entries; what is missing is equal."""
    if object in (a.dtype, b.dtype):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind in "fiub"))


def _same(a: Any, b: Any) -> bool:
    """Whether two entries are equal; arrays and lists are when what they hold is."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        alike = type(a) is type(b) and a.shape == b.shape
        return alike and equal_columns(a.reshape(-1), b.reshape(-1))
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a is b or a == b or (a != a and b != b))


def short(key: Any) -> str:
    """A key as text that fits into a message."""
    text = " ".join(repr(key).split())
    return text if len(text) <= 60 else text[:57] + "..."


def is_arrow(X: Any) -> bool:
    """Whether X is of pyarrow, without importing it."""
    return library_of(X) == "pyarrow"


# ---- tables ----


def is_frame(X: Any) -> bool:
    """Whether X is a pandas, polars or pyarrow table, without importing any of them."""
    root, kind = type(X).__module__.partition(".")[0], type(X).__name__
    if root == "pyarrow":
        return kind in ("Table", "RecordBatch")
    return root in ("pandas", "polars") and kind == "DataFrame"


class Table:
    """Named columns of equal length, each a 1-D array of any kind.

    Parameters
    ----------
    columns : mapping of str to 1-D array-like, or data frame
        The columns, in order: a dict, or a pandas, polars or pyarrow table. An entry may be
        anything: a number, a string, a document, a graph, an array.

    Attributes
    ----------
    names : tuple of str
        Names of the columns; their positions where they have none.
    columns : tuple of ndarray
        The columns. Numbers with missing ones among them are float64 with NaN; in columns of other
        values None is what is missing.
    declared : dict of str to tuple
        Columns that a frame declares to be categories, whatever values they hold, and the order of
        their levels from low to high, () where they have none.
    named : bool
        Whether columns have names, not positions alone.

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

    #: Whether the frame's own names are whole numbers, other than 0, 1, … in this order.
    _numbered = False
    #: Columns in the form that a domain asked for; None where the columns may still change.
    _converted: list[tuple[Any, Any, Any]] | None = None

    def __init__(self, columns: Any):
        if isinstance(columns, Table):
            self._set(columns.names, columns.columns, columns.declared, columns.named)
            self._numbered = columns._numbered
            return
        if not isinstance(columns, Mapping):
            columns = _mapping(columns)
        own = list(columns)
        names = tuple(str(name) for name in own)
        self._numbered = any(map(_is_whole, own)) and own != list(range(len(own)))
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise refusal("Table", f"two columns are called {twice!r}; rename one.")
        arrays = tuple(
            as_column(values, name) for name, values in zip(names, columns.values(), strict=True)
        )
        lengths = {len(c) for c in arrays}
        if len(lengths) > 1:
            raise refusal("Table", f"columns have different lengths {sorted(lengths)}.")
        orders = {n: declared(v) for n, v in zip(names, columns.values(), strict=True)}
        self._set(names, arrays, {n: order for n, order in orders.items() if order is not None})

    def _set(
        self,
        names: tuple[str, ...],
        columns: tuple[np.ndarray, ...],
        declared: dict[str, tuple],
        named: bool = True,
    ) -> Self:
        self.names, self.columns, self.declared, self.named = names, columns, declared, named
        self._length = len(columns[0]) if columns else 0
        return self

    def _like(self, index: Iterable[int], change: Callable[[np.ndarray], np.ndarray]) -> Table:
        """Return a table of some columns of this one, each of them changed."""
        index = list(index)
        names = tuple(self.names[i] for i in index)
        declared = {n: self.declared[n] for n in names if n in self.declared}
        columns = tuple(change(self.columns[i]) for i in index)
        out = Table.__new__(Table)._set(names, columns, declared, self.named)
        out._converted = None if self._converted is None else []
        out._numbered = self._numbered
        return out

    @classmethod
    def from_rows(cls, rows: np.ndarray) -> Table:
        """Return a table without names whose rows are those of a 2-D array of objects or text."""
        columns = tuple(as_column(rows[:, j].tolist(), str(j)) for j in range(rows.shape[1]))
        names = tuple(str(j) for j in range(rows.shape[1]))
        return cls.__new__(cls)._set(names, columns, {}, named=False)

    def kept(self) -> Table:
        """Return a copy that the user's arrays do not change, and that remembers conversions."""
        out = self._like(range(len(self.names)), np.copy)
        out._converted = []
        return out

    def converted(self, columns: Any, domain: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, once for each choice of columns and domain."""
        if self._converted is None:
            return make()
        for chosen, known, value in self._converted:
            if chosen == columns and known == domain:
                return value
        value = make()
        self._converted.append((columns, domain, value))
        return value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_converted": None if self._converted is None else []}

    @classmethod
    def from_frame(cls, X: Any, name: str = "X", columns: tuple[str, ...] | None = None) -> Table:
        """Read a pandas, polars or pyarrow table, a dict of columns, or return a `Table` as is.

        With `columns`, only these are read, where all of them are there.
        """
        if isinstance(X, Table):
            return X
        if isinstance(X, Mapping):
            return cls(_some(X, columns))
        if not is_frame(X):
            raise refusal(
                "Tables",
                f"{name} is a {type(X).__name__} without column names; "
                "pass a data frame, or choose columns by position.",
            )
        return cls(_some(_mapping(X, name), columns))

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
            raise refusal(
                "Table",
                f"{short(key)} chooses no rows of {self._length}; give a slice, an array "
                "of positions, or a mask with one truth value a row.",
            )
        return self.take(index)

    def _position(self, name: Any) -> int:
        if _is_whole(name):
            if self._numbered:
                known = ", ".join(map(repr, self.names[:12]))
                raise refusal(
                    "Table",
                    f"column {name} is a name or a position, as names of this table are "
                    f"whole numbers; names are text: write {str(name)!r}. The columns are {known}.",
                )
            if not -len(self.names) <= name < len(self.names):
                raise refusal("Table", f"no column {name}; it has {len(self.names)}.")
            return int(name)
        if not self.named:
            raise refusal(
                "Table",
                f"no column {short(name)}: the columns have no names; choose them by "
                f"position, 0 to {len(self.names) - 1}, or pass a data frame.",
            )
        if not isinstance(name, str) or name not in self.names:
            known = ", ".join(map(repr, self.names[:12])) + (" …" if len(self.names) > 12 else "")
            near = self._near(name) if isinstance(name, str) else None
            guess = f" Did you mean {near!r}?" if near is not None else ""
            raise refusal("Table", f"no column {short(name)}; the columns are {known}.{guess}")
        return self.names.index(name)

    def _near(self, name: str) -> str | None:
        """Return the column whose name is nearest to one that is not there."""
        plain = {n.strip().lower(): n for n in reversed(self.names)}
        found = get_close_matches(name.strip().lower(), plain, n=1, cutoff=0.75)
        return plain[found[0]] if found else None

    def select(self, columns: Iterable[Any] | slice) -> Table:
        """Return the table of the given columns (names, positions or a slice)."""
        if isinstance(columns, slice):
            return self._like(range(len(self.names))[columns], _itself)
        index = [self._position(key) % max(1, len(self.names)) for key in columns]
        if len(set(index)) < len(index):
            twice = next(self.names[i] for i in index if index.count(i) > 1)
            raise refusal("Table", f"column {twice!r} is chosen twice.")
        return self._like(index, _itself)

    def take(self, index: Index) -> Table:
        """Return the table of the given rows."""
        return self._like(range(len(self.names)), lambda column: column[index])

    def mixed(self, index: np.ndarray) -> Table:
        """Return rows whose columns come from rows of their own: those that `index` has for each.

        Parameters
        ----------
        index : ndarray of shape (m, n_columns) of int
            Positions of rows, column by column.
        """
        places = iter(index.T)
        return self._like(range(len(self.names)), lambda column: column[next(places)])

    def joined(self, other: Table) -> Table:
        """Return these rows followed by those of another table, which has the same columns."""
        if set(self.names) != set(other.names) or self.named != other.named:
            raise refusal(
                "Points",
                f"points with columns {list(self.names)} and {list(other.names)} do not go "
                "together; choose the same columns first.",
            )
        pairs = {n: np.concatenate([self._by(n), other._by(n)]) for n in self.names}
        return Table.__new__(Table)._set(
            self.names, tuple(pairs.values()), {**other.declared, **self.declared}, self.named
        )

    @property
    def orders(self) -> dict[str, tuple]:
        """The levels, from low to high, of columns that are declared to be ordered categories."""
        return {name: order for name, order in self.declared.items() if order}

    def _by(self, name: str) -> np.ndarray:
        return self.columns[self.names.index(name)]

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(dict(zip(self.names, self.columns, strict=True)))

    def numeric(self, name: str = "X") -> np.ndarray:
        """Stack all columns to a float array; one that is not numeric is named in the error."""
        if not self.names:
            return np.empty((self._length, 0))
        for label, column in zip(self.names, self.columns, strict=True):
            if column.dtype.kind in "fiub" or only_numbers(column):
                continue
            if holds_dates(column):
                raise refusal(
                    "Vectors",
                    f"column {label!r} of {name} holds dates or times where numbers "
                    "belong; convert it to numbers of a unit of your choice, such as (column - "
                    "column.min()) / numpy.timedelta64(1, 'D').",
                )
            what = _odd(column)
            raise refusal(
                "Vectors",
                f"column {label!r} of {name} holds {what} where numbers belong; "
                "encode it, leave it out, or choose numeric columns with kernel.on(columns).",
            )
        narrow = all(c.dtype.kind == "f" and c.dtype.itemsize <= 4 for c in self.columns)
        dtype = np.float32 if narrow else np.float64
        return np.column_stack([c.astype(dtype) for c in self.columns])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.names == other.names
            and self.named == other.named
            and self.declared == other.declared
            and all(equal_columns(a, b) for a, b in zip(self.columns, other.columns, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Table({self._length} rows: {', '.join(self.names)})"


def check_same_columns(X: Any, Y: Any) -> None:
    """Refuse two frames whose columns differ in name or order, for kernels that use all of them."""
    names = [_names(Z) for Z in (X, Y)]
    if None in names or names[0] == names[1]:
        return
    raise refusal(
        "Vectors",
        f"the columns of X are {names[0]} and those of Y {names[1]}; both must have the "
        "same columns in the same order: Y = Y[X.columns].",
    )


def _names(X: Any) -> list[str] | None:
    if isinstance(X, Table):
        return list(X.names)
    if not is_frame(X):
        return None
    return [str(n) for n in (X.schema.names if is_arrow(X) else X.columns)]


def _mapping(X: Any, name: str = "X") -> dict[Any, Any]:
    """The columns of a frame by name."""
    if not is_frame(X):
        raise refusal(
            "Table", f"{name} is a {type(X).__name__}; pass a dict of columns or a data frame."
        )
    names = list(X.schema.names) if is_arrow(X) else list(X.columns)
    if len(set(told := [str(n) for n in names])) < len(names):
        twice = next(n for n in told if told.count(n) > 1)
        raise refusal("Tables", f"{name} has two columns {twice!r}; rename one.")
    take = X.column if is_arrow(X) else X.__getitem__
    return {n: take(n) for n in names}


def _some(columns: Mapping[Any, Any], names: tuple[str, ...] | None) -> Mapping[Any, Any]:
    """Return the columns of these names, or all where one is not there."""
    known = {str(name): values for name, values in columns.items()}
    if names is None or len(known) < len(columns) or not all(name in known for name in names):
        return columns
    return {name: known[name] for name in names}


def _is_all(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def _is_many(key: Any) -> bool:
    """Whether a key is a slice, a list or an array: not one name or position."""
    if hasattr(key, "ndim"):
        return bool(key.ndim)
    return isinstance(key, slice | list | tuple | range) or hasattr(key, "__array__")


def _is_whole(name: Any) -> bool:
    return isinstance(name, int | np.integer) and not isinstance(name, bool)


def _itself(column: np.ndarray) -> np.ndarray:
    return column


def _odd(column: np.ndarray) -> str:
    """Return what a column holds that are no numbers."""
    if column.dtype != object:
        return "text or categories" if column.dtype.kind in "UST" else f"{column.dtype} values"
    kinds = (type(v) for v in column if v is not None and not isinstance(v, int | float))
    kind = next(kinds, None)
    if kind is None:
        return "whole numbers beyond all floats"
    return "text or categories" if issubclass(kind, str) else f"values of the kind {kind.__name__}"
