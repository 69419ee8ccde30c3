"""Entries for the nodes or edges of a graph: lists, arrays, columns, frames, or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.packed import one_column
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput

__all__ = ["by_name", "entries"]


def entries(values: Any, what: str) -> Any:
    """Return entries as a list, as an array of rows, or as a mapping by name; None stays None.

    Parameters
    ----------
    values : any
        What a user passed.
    what : str
        The argument, for messages: "labels".
    """
    if values is None or isinstance(values, Mapping | list | tuple):
        return values
    if is_frame(values):
        values = values.to_numpy()
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return values
    unordered = isinstance(values, AbstractSet | Iterator) or sp.issparse(values)
    single = not hasattr(values, "__iter__") or getattr(values, "shape", (1,)) == ()
    if unordered or single:
        raise InvalidInput(
            f"Graph: {what} is a {type(values).__name__}; give a list or an array with one entry "
            "after another, or a dict."
        )
    rows = getattr(values, "ndim", 1) > 1
    return list(values if rows else one_column(values, what, what))


def by_name(values: Any, names: Sequence[Any], what: str, mirrored: bool = False) -> Any:
    """Return a mapping as the list of its entries in the order of names; others as they are.

    Parameters
    ----------
    values : list, array or mapping
        What `entries` returned.
    names : sequence
        The nodes, or the edges as pairs of nodes.
    what : str
        The argument, for messages.
    mirrored : bool
        Whether names are undirected edges, which may be given from either end.
    """
    if not isinstance(values, Mapping):
        return values
    keys = [name[::-1] if mirrored and name not in values else name for name in names]
    for key, name in zip(keys, names, strict=True):
        if key not in values:
            raise InvalidInput(
                f"Graph: {what} has no entry for {name!r}; give one for each, by the names in "
                f"{'edges' if what == 'edge_labels' else 'nodes=...'}."
            )
    unknown = values.keys() - set(keys)
    if unknown:
        raise InvalidInput(
            f"Graph: {what} has an entry for {next(iter(unknown))!r}, which is not in the graph."
        )
    return [values[key] for key in keys]
