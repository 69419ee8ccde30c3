"""The columns of a table as a kernel on columns takes them: found again, each of its kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.domains import Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.cells import Column, numbers, ordered_columns, read_columns

__all__ = ["TableColumns"]


class TableColumns:
    """Which columns a model was fitted on, and whether each holds numbers or text.

    It stands where a `TableEncoder` stands when the kernel chooses its columns itself: rows stay
    rows of a table. Numbers become float64, NaN where missing; all else becomes text, None where
    missing.

    Parameters
    ----------
    columns_ : tuple of str
        Names, in order.
    kinds_ : tuple of str
        For each ``"number"`` or ``"text"``.
    named_ : bool
        Whether the table had names; by position otherwise.
    """

    def __init__(self, columns_: tuple[str, ...], kinds_: tuple[str, ...], named_: bool = True):
        self.columns_ = columns_
        self.kinds_ = kinds_
        self.named_ = named_

    @classmethod
    def read(cls, X: Any, categorical: Any, owner: str) -> Self:
        """Return the columns of a table, those named `categorical` as text."""
        columns, named = read_columns(X, owner)
        names = [c.name for c in columns]
        forced = set()
        for key in categorical if categorical is not None else ():
            position = names.index(key) if key in names else key
            if not isinstance(position, int | np.integer) or not -len(names) <= position < len(
                names
            ):
                raise InvalidInput(f"{owner}: categorical names no column {key!r} of the table.")
            forced.add(names[position])
        kinds = ["number" if _is_number(c) and c.name not in forced else "text" for c in columns]
        return cls(tuple(names), tuple(kinds), named)

    @classmethod
    def from_parts(cls, columns_: Any, kinds_: Any, named_: Any) -> Self:
        """Return what a model file describes, or refuse what is malformed."""
        legal = (
            type(columns_) is tuple
            and type(kinds_) is tuple
            and len(set(columns_)) == len(columns_) == len(kinds_)
            and all(isinstance(name, str) for name in columns_)
            and all(kind in ("number", "text") for kind in kinds_)
            and isinstance(named_, bool)
        )
        if not legal:
            raise ModelFileError("the columns of a table model do not fit one another")
        return cls(columns_, kinds_, named_)

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return len(self.columns_)

    @property
    def categories_(self) -> tuple[tuple, ...]:
        """No categories are kept: every text is one."""
        return ((),) * len(self.columns_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns; absent when fitted on an array."""
        if not self.named_:
            raise AttributeError("the table had no column names")
        return np.asarray(self.columns_, dtype=object)

    def transform(self, X: Any, owner: str) -> Table:
        """Return a table of these columns, each of its kind."""
        columns = ordered_columns(*read_columns(X, owner), self.columns_, self.named_, owner)
        out: dict[str, np.ndarray] = {}
        for name, kind, column in zip(self.columns_, self.kinds_, columns, strict=True):
            out[name] = numbers(column, owner, name) if kind == "number" else _texts(column)
        return Table(out)


def _is_number(column: Column) -> bool:
    return column.kind == "number"


def _texts(column: Column) -> np.ndarray:
    out = np.empty(len(column), dtype=object)
    out[:] = column.labels()
    return out
