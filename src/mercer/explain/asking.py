"""Models that are asked: rows with columns, rows mixed of others, and what a model says of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Table, Tables, to_host
from mercer.errors import InvalidInput, who
from mercer.estimator import NAMELESS

Places = tuple[int, ...]


def rows_of(X: Any, name: str = "X") -> Any:
    """Return rows as an array of numbers or as a table.

    Parameters
    ----------
    X : data frame, Table, dict of columns or 2-D array
        The rows.
    name : str, default="X"
        What messages call them.
    """
    if sp.issparse(X):
        raise InvalidInput(f"{who()}: {name} is sparse; give its columns as {name}.toarray().")
    X = to_host(X, name)
    if isinstance(X, list | np.ndarray) and np.ndim(X) < 2:
        raise InvalidInput(f"{who()}: {name} has {np.ndim(X)} axes; give rows and columns.")
    rows = Tables().check(X, name)
    if rows.shape[0] == 0:
        raise InvalidInput(f"{who()}: {name} has 0 rows; give at least one.")
    return rows


def names_of(model: Any, rows: Any) -> tuple[str, ...]:
    """Return what columns are called: as rows call them, as the model does, or x0, x1, …."""
    own = rows.names if isinstance(rows, Table) and rows.named else None
    told = own if own is not None else getattr(model, "feature_names_in_", None)
    count = rows.shape[1]
    if told is None or len(told) != count:
        return tuple(f"x{j}" for j in range(count))
    return tuple(map(str, told))


def places_of(one: Any, names: tuple[str, ...]) -> Places:
    """Return the positions of a column, or of several in a tuple or list, by name or position."""
    parts = [one] if isinstance(one, str | int | np.integer) else list(one)
    out = []
    for part in parts:
        if isinstance(part, str):
            if part not in names:
                raise InvalidInput(f"{who()}: no column {part!r}; there are {', '.join(names)}.")
            part = names.index(part)
        elif isinstance(part, bool) or not isinstance(part, int | np.integer):
            raise InvalidInput(f"{who()}: column {part!r}; give its name or its position.")
        if not 0 <= int(part) < len(names):
            raise InvalidInput(f"{who()}: no column {part}; there are 0 to {len(names) - 1}.")
        out.append(int(part))
    if not out or len(set(out)) < len(out):
        raise InvalidInput(f"{who()}: columns={one!r}; give different columns, at least one.")
    return tuple(out)


def mixed(rows: Any, own: np.ndarray, places: Places, others: np.ndarray) -> Any:
    """Return some rows with the values of other rows in some columns.

    Parameters
    ----------
    rows : ndarray or Table
        All rows.
    own : ndarray of shape (m,) of int
        Those that are taken.
    places : tuple of int
        The columns.
    others : ndarray of shape (m,) of int
        The rows whose values are in these.
    """
    if isinstance(rows, Table):
        index = np.repeat(own[:, None], rows.shape[1], axis=1)
        index[:, list(places)] = others[:, None]
        return rows.mixed(index)
    out, columns = rows[own], np.array(places, dtype=int)
    out[:, columns] = rows[np.ix_(others, columns)]
    return out


class AskedModel:
    """What a model says of rows, in the form in which it takes them.

    Parameters
    ----------
    model : estimator
        Fitted.
    given : collection
        Rows as the user gave them.
    """

    def __init__(self, model: Any, given: Any):
        self.model = model
        # models of others want the frame again, with its own types of columns
        own = type(model).__module__.partition(".")[0] == "mercer"
        self.types = getattr(given, "dtypes", None) if hasattr(given, "iloc") and not own else None

    def __call__(self, verb: str, rows: Any) -> np.ndarray:
        """Return ``model.verb(rows)`` as an array."""
        if self.types is not None and isinstance(rows, Table):
            rows = rows.to_pandas()
            rows.columns = self.types.index
            rows = rows.astype(self.types.to_dict())
        with warnings.catch_warnings():  # columns of arrays are in the order of the fit
            warnings.filterwarnings("ignore", message=NAMELESS)
            return np.asarray(to_host(getattr(self.model, verb)(rows)))
