"""Tables in model files: columns of numbers and text as they are, of graphs packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import Graph, Graphs, IncompleteCollection, IncompletePoints, Table
from mercer.domains.graphs.read import is_networkx
from mercer.errors import ModelFileError

__all__ = ["table", "table_params"]


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
