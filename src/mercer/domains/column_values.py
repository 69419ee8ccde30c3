"""One column as a 1-D array: what frames, lists and arrays hold, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.labels import is_missing
from mercer.errors import InvalidInput

__all__ = ["as_column", "declared_order", "is_arrow", "only_numbers", "short"]


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
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
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
        if array.ndim == 1:
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
    numbers = all(isinstance(v, int | float | np.number) for v in present)
    if numbers and not (len(present) and all(isinstance(v, bool) for v in present)):
        out = np.full(len(column), np.nan)
        try:
            out[~missing] = present
            return out
        except OverflowError:  # a whole number beyond the floats
            pass
    if not any(column[i] is not None for i in np.flatnonzero(missing)):
        return column
    out = column.copy()
    out[missing] = None
    return out


def declared_order(values: Any) -> tuple | None:
    """Return the levels of a column that a frame declares to be an ordered category."""
    dtype = getattr(values, "dtype", None)
    root = type(values).__module__.partition(".")[0]
    if root == "pandas" and getattr(dtype, "ordered", False):
        return tuple(dtype.categories.tolist())  # type: ignore[union-attr]
    if root == "polars" and type(dtype).__name__ == "Enum":
        return tuple(dtype.categories)  # type: ignore[union-attr]
    return None


def only_numbers(column: np.ndarray) -> bool:
    """Whether an array of objects holds numbers, truth values and missing entries alone."""
    return column.dtype == object and all(
        v is None or isinstance(v, int | float | np.number | np.bool_) for v in column
    )


def short(key: Any) -> str:
    """A key as text that fits into a message."""
    text = " ".join(repr(key).split())
    return text if len(text) <= 60 else text[:57] + "..."


def is_arrow(X: Any) -> bool:
    """Whether X is of pyarrow, without importing it."""
    return type(X).__module__.partition(".")[0] == "pyarrow"
