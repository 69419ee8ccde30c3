"""One column as a 1-D array: what frames, lists and arrays hold, entry by entry."""

from __future__ import annotations

import sys
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from mercer.domains.labels import is_missing
from mercer.errors import InvalidInput

__all__ = [
    "as_column",
    "declared",
    "equal_columns",
    "holds_dates",
    "is_arrow",
    "only_numbers",
    "short",
]

NUMBERS = (int, float, np.integer, np.floating)
LABELS = (str, bytes, tuple, np.bool_, *NUMBERS)  # what may be a category as it is
LARGEST = sys.float_info.max
EXACT = 2**53  # from here on whole numbers have gaps among floats


def as_column(values: Any, name: str) -> np.ndarray:
    """Return a column as a 1-D array; what is missing among objects is None."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidInput(
                f"Table: column {name!r} has {values.ndim} dimensions; one is expected. A list of "
                "arrays is a column of arrays."
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
        raise InvalidInput(
            f"Table: column {name!r} is {short(values)}, a {type(values).__name__}; give a list "
            "or an array, an entry for each row."
        ) from None
    if isinstance(values, str | bytes | dict):
        raise InvalidInput(
            f"Table: column {name!r} is a {type(values).__name__}; give a list or an array, an "
            "entry for each row."
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
    if _root(values) == "polars":
        return bool(values.dtype.is_integer() and values.null_count())
    whole = _root(values) == "pandas" and getattr(values.dtype, "kind", "") in ("i", "u")
    return whole and bool(values.isna().any())


def declared(values: Any) -> tuple | None:
    """Return the order of a column that a frame declares to be a category, () where it has none.

    Levels that cannot be categories as they are, such as intervals, are written as text, as
    `as_column` does. None where nothing is declared.
    """
    dtype = getattr(values, "dtype", None)
    kind, root = type(dtype).__name__, _root(values)
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
    if _root(values) != "pandas" or type(dtype).__name__ != "CategoricalDtype":
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
    return column.dtype == object and all(
        v is None
        or (isinstance(v, (*NUMBERS, np.bool_)) and not (isinstance(v, int) and abs(v) > LARGEST))
        for v in column
    )


def holds_dates(column: np.ndarray) -> bool:
    """Whether a column holds dates, times or spans of time, and missing entries."""
    if column.dtype.kind in "mM":
        return True
    present = [v for v in column if v is not None] if column.dtype == object else []
    kinds = (date, time, timedelta, np.datetime64, np.timedelta64)
    return bool(present) and all(
        isinstance(v, kinds) or type(v).__name__ == "Period" for v in present
    )


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
    return _root(X) == "pyarrow"


def _root(X: Any) -> str:
    return type(X).__module__.partition(".")[0]
