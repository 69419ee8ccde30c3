"""Columns of any table as arrays of numbers, or as text keys of categories."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from mercer.domains import Table, is_missing, library_of, to_host, told_of_rows
from mercer.domains.tables import holds_dates, holds_spans, is_frame
from mercer.errors import InvalidInput, WrongType, users_level, who


class NamedColumn(NamedTuple):
    """A named column: its values, and the kind that is known of it."""

    name: str
    values: np.ndarray
    known: str = ""  # "number" or "category"; "" where the values tell it

    @property
    def kind(self) -> str:
        """The kind it would have on its own, "number" or "category"; other columns are refused."""
        return self.known or _kind(self.values, self.name)

    def labels(self) -> list[str | None]:
        """Text that identifies each value as a category; None where it is missing."""
        return [v if type(v) is str else _key(v) for v in self.values.tolist()]


def read_columns(X: Any) -> tuple[list[NamedColumn], bool]:
    """Return the columns of a frame, `Table`, dict or 2-D array, and whether they have names."""
    X = to_host(X)
    if hasattr(X, "tocsr"):  # before Mapping: scipy's DOK matrices are dicts
        raise WrongType(f"{who()}: sparse input is not supported; pass X.toarray() or a frame.")
    if isinstance(X, Table | Mapping) or is_frame(X):
        declared = _declared_categories(X)
        table = Table.from_frame(X)
        for count, what in ((len(table.names), "columns"), (len(table), "rows")):
            if not count:
                raise InvalidInput(f"{who()}: the table has 0 {what}; at least one is needed.")
        return [
            NamedColumn(name, declared[name], "category")
            if name in declared
            else NamedColumn(name, values)
            for name, values in zip(table.names, table.columns, strict=True)
        ], True
    try:
        if isinstance(X, list | tuple) and any(
            isinstance(v, str) for row in X for v in _cells(row)
        ):
            X = np.array(X, dtype=object)  # else NumPy turns the numbers among text into text
        A = check_array(X, dtype=None, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        raise told_of_rows(error, X, who()) from error
    names = [f"x{j}" for j in range(A.shape[1])]
    if A.dtype.kind == "b":
        A = A.astype(np.float64)
    return [NamedColumn(n, A[:, j]) for j, n in enumerate(names)], False


def ordered_columns(
    columns: list[NamedColumn],
    named: bool,
    known: tuple[str, ...],
    by_name: bool,
    unread: Collection[str] = (),
) -> list[NamedColumn]:
    """Return the columns that a model knows, in its order: by name where both have names.

    Those that it does not read need not be there.
    """
    if named and by_name:
        found = {c.name: c for c in columns}
        refuse_absent([name for name in known if name not in unread], found)
        return [found.get(name) or NamedColumn(name, columns[0].values) for name in known]
    if len(columns) != len(known):
        # the wording that scikit-learn's common checks look for
        raise InvalidInput(
            f"X has {len(columns)} features, but {who()} is expecting {len(known)} features as "
            "input."
        )
    return columns


def refuse_absent(known: Iterable[str], found: Iterable[str]) -> None:
    """Refuse a table without some of the columns of the fit, naming those and what is near."""
    found = list(found)
    missing = [name for name in known if name not in found]
    if not missing:
        return
    near = {n.lower(): n for n in found}
    same = [near[n.lower()] for n in missing if n.lower() in near]
    what, was = ("columns", "they were") if len(missing) > 1 else ("column", "it was")
    raise InvalidInput(
        f"{who()}: {listed(f'missing {what}', missing)}; {was} there in fit. "
        + (f"{listed('Did you mean', same)}?" if same else f"{listed('The table has', found)}.")
    )


def listed(what: str, names: Iterable[str], most: int = 8) -> str:
    """Return words and some names: ``"missing columns 'a', 'b' and 3 more"``."""
    names = list(names)
    shown = ", ".join(repr(n) for n in names[:most])
    return f"{what} {shown}" + (f" and {len(names) - most} more" if len(names) > most else "")


def numbers(column: NamedColumn, name: str | None = None) -> np.ndarray:
    """Return a column as float64, NaN where missing; text is refused, naming column and row."""
    name = column.name if name is None else name
    values = column.values
    if values.dtype.kind in "fiub":
        with np.errstate(over="ignore"):  # a long double beyond float64 is refused as inf
            x = values.astype(np.float64)
    else:
        x = np.empty(len(values))
        for i, value in enumerate(values.tolist()):
            if is_missing(value):
                x[i] = np.nan
            elif isinstance(value, str) or not hasattr(type(value), "__float__"):
                raise InvalidInput(
                    f"{who()}: column {name!r} holds {value!r} at row {i} where numbers belong; "
                    "correct the cell, or leave it empty if the number is not known."
                )
            else:
                x[i] = _as_float(value)
    if np.isinf(x).any():
        i = int(np.flatnonzero(np.isinf(x))[0])
        raise InvalidInput(
            f"{who()}: column {name!r} holds {x[i]} (infinity) at row {i}; "
            "give a finite number, or leave the cell empty."
        )
    return x


def category_codes(column: NamedColumn, categories: tuple[str | None, ...]) -> np.ndarray:
    """Position of each value among the categories, -1 where it is not one of them."""
    position = {c: i for i, c in enumerate(categories)}
    return np.array([position.get(key, -1) for key in column.labels()], dtype=np.intp)


def _declared_categories(X: Any) -> dict[str, np.ndarray]:
    """Columns that a frame declares categorical or boolean, whatever values they hold."""
    root = library_of(X)
    if isinstance(X, Table):
        return {n: X[n] for n in X.declared}
    if root == "pandas":
        names = [n for n, t in X.dtypes.items() if str(t) in ("category", "bool", "boolean")]
        return {str(n): X[n].to_numpy(dtype=object) for n in names}
    if root == "polars":
        kinds = ("Boolean", "Categorical", "Enum")
        names = [n for n, t in X.schema.items() if str(t).partition("(")[0] in kinds]
        return {n: np.fromiter(X[n].to_list(), dtype=object) for n in names}
    if root == "pyarrow":
        names = [f.name for f in X.schema if str(f.type).startswith(("bool", "dictionary"))]
        return {n: np.fromiter(X.column(n).to_pylist(), dtype=object) for n in names}
    return {}


def _cells(row: Any) -> Any:
    return row if isinstance(row, list | tuple) else ()


def _kind(values: np.ndarray, name: str) -> str:
    if values.dtype.kind in "fiu":
        return "number"
    if values.dtype.kind in "USbT":
        return "category"
    if values.dtype.kind == "c":
        raise InvalidInput(
            f"{who()}: column {name!r}: Complex data not supported; give two columns, its "
            "real and its imaginary part."
        )
    if holds_dates(values):
        what, number = "dates", "days since a fixed date"
        if holds_spans(values):
            what, number = "durations", "c / numpy.timedelta64(1, 'D') of a column c"
        raise InvalidInput(
            f"{who()}: column {name!r} holds {what}; turn it into a number first, "
            f"for example {number}, or drop it."
        )
    entries = values.tolist()
    types = {*map(type, entries)}
    if str in types and types <= {str, type(None)}:
        return "category"
    kind = "number"
    for i, value in enumerate(entries):
        if is_missing(value):
            continue
        if isinstance(value, str | bool | np.bool_):
            kind = "category"
        elif not hasattr(type(value), "__float__"):
            raise WrongType(
                f"{who()}: column {name!r} holds a {type(value).__name__} at row {i}; "
                "the argument must be a string or a number."
            )
    return kind


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the floats
        return np.inf


def _key(value: Any) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_ | str | int):
        return str(value)
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else repr(number)


# ---- remarks on a column that says little ----


_NAMED = 20  # rows from which a category of one row each is told of
_FAR = 1e8  # of the middle half of a column, from where a number is told of


def tell_of_names(column: str, categories: int, rows: int) -> None:
    """Warn of a column that names each row, as identifiers and dates written as text do."""
    if categories == rows >= _NAMED:
        warnings.warn(
            f"{who()}: column {column!r} holds {rows} texts, all of them different; as a category "
            "it says nothing of other rows. Leave it out, or turn it into numbers: of dates, for "
            "example, days since a fixed date.",
            UserWarning,
            stacklevel=users_level(),
        )


def tell_of_far_cell(column: NamedColumn) -> None:
    """Warn of a number beside which the others of a column are next to equal."""
    x = numbers(column)
    known = x[np.isfinite(x)]
    if not len(known):
        return
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(x - middle)
        i = int(np.nanargmax(away))
        far = high > low and away[i] / _FAR > high - low
    if far:
        warnings.warn(
            f"{who()}: column {column.name!r} holds {x[i]:g} at row {i}; beside it the other "
            f"values, half of them between {low:g} and {high:g}, are next to equal, so that the "
            "column says little. Correct the cell, or leave it empty.",
            UserWarning,
            stacklevel=users_level(),
        )
