"""Which columns of a table a kernel looks at, to find them again, and tables in model files."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains import (
    Categories,
    Graph,
    Graphs,
    IncompleteCollection,
    IncompletePoints,
    Table,
    Tables,
    refuse_odd_arrays,
    to_host,
)
from mercer.domains.graphs import is_networkx
from mercer.errors import InvalidInput, ModelFileError, WrongType, who
from mercer.features.named_columns import refuse_absent
from mercer.kernels import Kernel, OnColumns

MOST = 5000  # values of a column of categories up to which they are kept

#: What a column holds, as far as a reader of text files must know it.
KINDS = ("number", "truth", "text", "object")


class TableColumns:
    """The columns that a model with a kernel on columns was fitted on.

    It stands where a `TableEncoder` stands when the kernel chooses its columns itself. Rows stay
    rows of the table, untouched: what a column holds is for the kernel on it to read.

    Parameters
    ----------
    columns_ : tuple of str
        Names of the columns, in order; positions as text where there are no names.
    kinds_ : tuple of str
        For each ``"number"``, ``"truth"``, ``"text"``, or ``"object"`` for all else.
    named_ : bool
        Whether the table had names; by position otherwise.
    known_ : tuple of tuple of str
        For each column of text that the kernel compares as categories the values in it, at most
        5000, so that a reader of files can tell when it meets others; () for all other columns.
    """

    def __init__(
        self,
        columns_: tuple[str, ...],
        kinds_: tuple[str, ...],
        named_: bool = True,
        known_: tuple[tuple[str, ...], ...] | None = None,
    ):
        self.columns_ = columns_
        self.kinds_ = kinds_
        self.named_ = named_
        self.known_ = ((),) * len(columns_) if known_ is None else known_

    @classmethod
    def of(cls, Z: Any, columns: tuple[str, ...] | None, kernel: Kernel | None = None) -> Self:
        """Return the columns of these names, or all of a canonical collection of rows.

        The kernel tells which of them are compared as categories.
        """
        if not isinstance(Z, Table):
            names = tuple(str(j) for j in range(Z.shape[1]))
            return cls(names, ("number",) * len(names), named_=False)
        if columns is not None:
            try:
                Z = Z.select(columns)
            except InvalidInput as error:
                raise InvalidInput(f"{who()}: {error}") from None
        kinds = tuple(map(_kind, Z.columns))
        compared = set() if kernel is None else _categories(kernel)
        known = tuple(
            _values(Z[name]) if kind == "text" and name in compared else ()
            for name, kind in zip(Z.names, kinds, strict=True)
        )
        return cls(Z.names, kinds, Z.named, known)

    @classmethod
    def from_parts(cls, columns_: Any, kinds_: Any, named_: Any, known_: Any) -> Self:
        """Return what a model file describes, or refuse what is malformed."""
        legal = (
            type(columns_) is tuple
            and type(kinds_) is tuple
            and all(isinstance(name, str) for name in columns_)
            and len(set(columns_)) == len(columns_) == len(kinds_)
            and all(kind in KINDS for kind in kinds_)
            and isinstance(named_, bool)
            and type(known_) is tuple
            and len(known_) == len(columns_)
            and all(type(values) is tuple for values in known_)
            and all(isinstance(v, str) for values in known_ for v in values)
        )
        if not legal:
            raise ModelFileError("the columns of a table model do not fit one another")
        return cls(columns_, kinds_, named_, known_)

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return len(self.columns_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns; absent when fitted on an array."""
        if not self.named_:
            raise AttributeError("the table had no column names")
        return np.asarray(self.columns_, dtype=object)

    def has(self, names: tuple[str, ...] | None) -> bool:
        """Whether columns of these names are among them, or None is asked for."""
        return names is None or (self.named_ and set(names) <= set(self.columns_))

    def transform(self, X: Any) -> Any:
        """Return these columns of a table, in the order of the fit; of an array, all of them."""
        Z = read_rows(X, self.columns_ if self.named_ else None)
        named = isinstance(Z, Table) and Z.named
        if named != self.named_:
            what, other = "with column names", "without"
            raise InvalidInput(
                f"{who()}: it was fitted on a table {what if self.named_ else other} and X is one "
                f"{what if named else other}; pass both as data frames, or both as arrays."
            )
        if named:
            refuse_absent(self.columns_, Z.names)
            return Z.select(self.columns_)
        if Z.shape[1] != len(self.columns_):
            raise InvalidInput(
                f"X has {Z.shape[1]} features, but {who()} is expecting {len(self.columns_)} "
                "features as input."
            )
        return Z


def read_rows(X: Any, columns: tuple[str, ...] | None) -> Any:
    """Return a table or array as a kernel on columns takes it, with the names that it looks at."""
    if sp.issparse(X):
        raise WrongType(f"{who()}: sparse input is not supported; pass X.toarray() or a frame.")
    refuse_odd_arrays(X, "X")
    X = to_host(X)
    try:
        Z = Tables(columns).check(X)
    except InvalidInput as error:
        raise InvalidInput(f"{who()}: {error}") from None
    for count, what in zip(Z.shape, ("rows", "columns"), strict=True):
        if not count:
            raise InvalidInput(f"{who()}: the table has 0 {what}; at least one is needed.")
    return Z


def _categories(kernel: Kernel) -> set[str]:
    """Return the names of the columns that a kernel compares as categories."""
    parts = kernel.get_params(deep=False).values()
    if isinstance(kernel, OnColumns):
        (inner,) = (part for part in parts if isinstance(part, Kernel))
        names = getattr(kernel.domain, "columns", None)
        return set(names or ()) if isinstance(inner.domain, Categories) else set()
    return set().union(*(_categories(part) for part in parts if isinstance(part, Kernel)))


def _values(column: np.ndarray) -> tuple[str, ...]:
    found = {str(v) for v in column.tolist() if v is not None}
    return tuple(sorted(found)) if len(found) <= MOST else ()


def _kind(column: np.ndarray) -> str:
    if column.dtype.kind in "fiu":
        return "number"
    present = [v for v in column.tolist() if v is not None]
    for kind, types in (("truth", bool | np.bool_), ("text", str)):
        if present and all(isinstance(v, types) for v in present):
            return kind
    return "object"


# ---- Tables in model files: columns of numbers and text as they are, of graphs packed ----


def table_params(item: Table) -> dict[str, Any]:
    """Return what a file holds of a table."""
    columns = tuple(_stored(column) for column in item.columns)
    declared = {n: item.declared[n] for n in item.names if n in item.declared}
    return {"names": item.names, "columns": columns, "named": item.named, "declared": declared}


def table(names: Any, columns: Any, named: Any = True, declared: Any = None) -> Table:
    """Return the table that a file describes, or refuse what is malformed."""
    if not all(isinstance(name, str) for name in names):
        raise ModelFileError("a table of it has a column whose name is not text")
    if len(set(names)) < len(names):
        raise ModelFileError("a table of it has two columns of one name")
    found = Table(dict(zip(names, map(_restored, columns), strict=True)))
    if not isinstance(named, bool):
        raise ModelFileError("a table of it does not say whether it has names")
    declared = {} if declared is None else declared
    legal = isinstance(declared, dict) and set(declared) <= set(names)
    if not legal or not all(type(levels) is tuple for levels in declared.values()):
        raise ModelFileError("a table of it declares levels of columns that it has not")
    found.named, found.declared = named, declared
    return found


def _stored(column: np.ndarray) -> Any:
    """Return a column as it is; of graphs packed; of arrays a tuple of them."""
    if column.dtype != object:
        return column
    present = [v for v in column if v is not None]
    if present and all(isinstance(v, Graph) or is_networkx(v) for v in present):
        return IncompletePoints(Graphs()).check(column.tolist())
    if any(isinstance(v, np.ndarray | list | tuple) for v in present):
        return tuple(map(_without_networkx, column))
    return column


def _without_networkx(value: Any) -> Any:
    """Return bags of networkx graphs as bags of our own, which a file can hold."""
    if is_networkx(value):
        return Graphs().check([value])[0]
    if isinstance(value, list):
        return [_without_networkx(v) for v in value]
    return tuple(map(_without_networkx, value)) if type(value) is tuple else value


def _restored(column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return column
    if isinstance(column, tuple | IncompleteCollection):
        return np.fromiter(column, dtype=object, count=len(column))
    raise ModelFileError("a table of it has a column that is not an array")
