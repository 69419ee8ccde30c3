"""Columns of any table as arrays of numbers or as text keys of categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from mercer.domains import Table
from mercer.domains.labels import is_missing
from mercer.domains.tables.table import is_frame
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput

__all__ = [
    "Column",
    "category_codes",
    "is_missing",
    "listed",
    "numbers",
    "ordered_columns",
    "read_columns",
    "refuse_absent",
]


@dataclass(frozen=True)
class Column:
    """A named column: its values, and the kind it would have on its own."""

    name: str
    values: np.ndarray
    kind: str  # "number" or "category"

    def __len__(self) -> int:
        return len(self.values)

    def labels(self) -> list[str | None]:
        """Text that identifies each value as a category; None where it is missing."""
        return [_key(v) for v in self.values.tolist()]


def read_columns(X: Any, owner: str) -> tuple[list[Column], bool]:
    """Return the columns of a frame, `Table`, dict or 2-D array, and whether they have names."""
    X = to_host(X)
    if hasattr(X, "tocsr"):  # before Mapping: scipy's DOK matrices are dicts
        raise InvalidInput(f"{owner}: sparse input is not supported; pass X.toarray() or a frame.")
    if isinstance(X, Table | Mapping) or is_frame(X):
        declared = _declared_categories(X)
        table = Table.from_frame(X)
        if not table.names:
            raise InvalidInput(f"{owner}: the table has 0 columns; at least one is needed.")
        if not len(table):
            raise InvalidInput(f"{owner}: the table has 0 rows; at least one is needed.")
        return [
            Column(name, declared[name], "category")
            if name in declared
            else Column(name, values, _kind(values, name, owner))
            for name, values in zip(table.names, table.columns, strict=True)
        ], True
    try:
        if isinstance(X, list | tuple) and any(
            isinstance(v, str) for row in X for v in _cells(row)
        ):
            X = np.array(X, dtype=object)  # else NumPy turns the numbers among text into text
        A = check_array(X, dtype=None, ensure_all_finite=False)
    except ValueError as error:
        raise InvalidInput(f"{owner}: {error}") from error
    names = [f"x{j}" for j in range(A.shape[1])]
    if A.dtype.kind == "b":
        A = A.astype(np.float64)
    return [Column(n, A[:, j], _kind(A[:, j], n, owner)) for j, n in enumerate(names)], False


def ordered_columns(
    columns: list[Column], named: bool, known: tuple[str, ...], by_name: bool, owner: str
) -> list[Column]:
    """Return the columns that a model knows, in its order: by name where both have names.

    Parameters
    ----------
    columns : list of Column
        Those of the table.
    named : bool
        Whether the table has names.
    known : tuple of str
        Names of the columns of the fit.
    by_name : bool
        Whether these were names of a table.
    owner : str
        For messages.
    """
    if named and by_name:
        found = {c.name: c for c in columns}
        refuse_absent(known, found, owner)
        return [found[name] for name in known]
    if len(columns) != len(known):
        # the wording that scikit-learn's common checks look for
        raise InvalidInput(
            f"X has {len(columns)} features, but {owner} is expecting {len(known)} features as "
            "input."
        )
    return columns


def refuse_absent(known: Iterable[str], found: Iterable[str], owner: str) -> None:
    """Refuse a table without some of the columns of the fit, naming those and what is near."""
    found = list(found)
    missing = [name for name in known if name not in found]
    if not missing:
        return
    near = {n.lower(): n for n in found}
    same = [near[n.lower()] for n in missing if n.lower() in near]
    what, was = ("columns", "they were") if len(missing) > 1 else ("column", "it was")
    raise InvalidInput(
        f"{owner}: {listed(f'missing {what}', missing)}; {was} there in fit. "
        + (f"{listed('Did you mean', same)}?" if same else f"{listed('The table has', found)}.")
    )


def listed(what: str, names: Iterable[str], most: int = 8) -> str:
    """Return words and some names: ``"missing columns 'a', 'b' and 3 more"``."""
    names = list(names)
    shown = ", ".join(repr(n) for n in names[:most])
    return f"{what} {shown}" + (f" and {len(names) - most} more" if len(names) > most else "")


def numbers(column: Column, owner: str, name: str | None = None) -> np.ndarray:
    """Return a column as float64, NaN where missing; text is refused, naming column and row."""
    name = column.name if name is None else name
    values = column.values
    if values.dtype.kind in "fiub":
        x = values.astype(np.float64)
    else:
        x = np.empty(len(values))
        for i, value in enumerate(values.tolist()):
            if is_missing(value):
                x[i] = np.nan
            elif isinstance(value, str) or not hasattr(type(value), "__float__"):
                raise InvalidInput(
                    f"{owner}: column {name!r} holds {value!r} at row {i} where numbers belong; "
                    "correct the cell, or leave it empty if the number is not known."
                )
            else:
                x[i] = float(value)
    if np.isinf(x).any():
        i = int(np.flatnonzero(np.isinf(x))[0])
        raise InvalidInput(
            f"{owner}: column {name!r} holds {x[i]} (infinity) at row {i}; "
            "give a finite number, or leave the cell empty."
        )
    return x


def category_codes(column: Column, categories: tuple[str | None, ...]) -> np.ndarray:
    """Position of each value among the categories, -1 where it is not one of them."""
    position = {c: i for i, c in enumerate(categories)}
    return np.array([position.get(key, -1) for key in column.labels()], dtype=np.intp)


def _declared_categories(X: Any) -> dict[str, np.ndarray]:
    """Columns that a frame declares categorical or boolean, whatever values they hold."""
    root = type(X).__module__.partition(".")[0]
    if root == "pandas":
        names = [n for n, t in X.dtypes.items() if str(t) in ("category", "bool", "boolean")]
        return {str(n): X[n].to_numpy(dtype=object) for n in names}
    if root == "polars":
        kinds = ("Boolean", "Categorical", "Enum")
        names = [n for n, t in X.schema.items() if str(t).partition("(")[0] in kinds]
        return {n: _objects(X[n].to_list()) for n in names}
    if root == "pyarrow":
        names = [f.name for f in X.schema if str(f.type).startswith(("bool", "dictionary"))]
        return {n: _objects(X.column(n).to_pylist()) for n in names}
    return {}


def _cells(row: Any) -> Any:
    return row if isinstance(row, list | tuple) else ()


def _objects(values: list) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _kind(values: np.ndarray, name: str, owner: str) -> str:
    if values.dtype.kind in "fiu":
        return "number"
    if values.dtype.kind in "USbT":
        return "category"
    if values.dtype.kind == "c":
        raise InvalidInput(f"{owner}: column {name!r}: Complex data not supported.")
    if values.dtype.kind in "mM":
        raise InvalidInput(
            f"{owner}: column {name!r} holds dates; turn it into a number first, "
            "for example days since a fixed date, or drop it."
        )
    kind = "number"
    for i, value in enumerate(values.tolist()):
        if is_missing(value):
            continue
        if isinstance(value, str | bool | np.bool_):
            kind = "category"
        elif not hasattr(type(value), "__float__"):
            raise TypeError(
                f"{owner}: column {name!r} holds a {type(value).__name__} at row {i}; "
                "the argument must be a string or a number."
            )
    return kind


def _key(value: Any) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_ | str | int):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else repr(number)
