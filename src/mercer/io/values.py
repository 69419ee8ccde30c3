"""Values in model files that are no estimators: tables, and frozen distributions of scipy."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import stats

from mercer.domains import Graph, Graphs, IncompleteCollection, IncompletePoints, Table
from mercer.domains.graphs import is_networkx
from mercer.errors import InvalidInput, ModelFileError

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


# ---- Frozen distributions of scipy.stats in model files: a name of scipy's list, and plain
# numbers.
# A prior such as ``scipy.stats.gamma(2.0, scale=0.5)`` is its name and the numbers it was made
# with. Distributions that users derive are code, which a model file never holds.


FROZEN = type(stats.norm())


@functools.cache
def _named() -> dict[str, Any]:
    """Return the continuous distributions of scipy.stats by name."""
    found = {}
    for name in dir(stats):
        item = getattr(stats, name)
        if isinstance(item, stats.rv_continuous) and item.name == name:
            found[name] = item
    return found


def distribution_params(item: Any, where: str) -> dict[str, Any]:
    """Return what a file holds of a frozen distribution."""
    law = _named().get(item.dist.name)
    mine = item.dist
    if law is None or type(law) is not type(mine) or (law.a, law.b) != (mine.a, mine.b):
        raise InvalidInput(
            f"save: {where} is a distribution {item.dist.name!r} that is not one of scipy.stats, "
            "and a model file never holds code. Use one that scipy.stats has."
        )
    try:
        args = [_number(value) for value in item.args]
        kwds = {name: _number(value) for name, value in item.kwds.items()}
    except (TypeError, ValueError):
        raise InvalidInput(
            f"save: {where} is a distribution {item.dist.name!r} of arrays; give it numbers."
        ) from None
    return {"name": item.dist.name, "args": args, "kwds": kwds}


def distribution(**params: Any) -> Any:
    """Return the frozen distribution that a file describes, or refuse what is malformed."""
    if set(params) != {"name", "args", "kwds"}:
        raise ModelFileError("a distribution of it is malformed")
    name, args, kwds = params["name"], params["args"], params["kwds"]
    law = _named().get(name) if isinstance(name, str) else None
    if law is None:
        raise ModelFileError(
            f"it names the distribution {str(name)[:60]!r}, which scipy.stats does not have"
        )
    try:
        return law(*map(_number, args), **{key: _number(v) for key, v in kwds.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the distribution {name!r} of it is malformed: {error}") from error


def _number(value: Any) -> float:
    if isinstance(value, bool | str) or math.isnan(number := float(value)):
        raise ValueError("a parameter is not a number")
    return number
