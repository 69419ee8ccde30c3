"""Rows of neighbours, of one graph or of many: their order, their weights, their soundness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.packed import check_offsets, one_column
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput, ModelFileError


def sources_of(indptr: np.ndarray) -> np.ndarray:
    """Return the node in whose row each edge stands."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def is_number(value: Any) -> bool:
    """Whether a value is one real number; text that reads as one is none."""
    if isinstance(value, str | bytes | complex | np.complexfloating) or np.ndim(value):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def row_order(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """Return the order that sorts every row of neighbours, or None when they are sorted."""
    rising = np.diff(indices) > 0
    starts = indptr[1:-1]
    rising[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    if rising.all():
        return None
    n = len(indptr) - 1
    width = int(indices.max()) + 1
    numbered = sp.csr_array((np.arange(len(indices)), indices.copy(), indptr), shape=(n, width))
    numbered.sort_indices()
    return numbered.data


def flat_weights(parts: list, sizes: list[int], where: Any) -> np.ndarray:
    """Return the weights of several graphs in one array; None is ones.

    ``where(i)`` names graph i in messages.
    """
    if all(part is None for part in parts):
        return np.ones(sum(sizes))
    pieces = []
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        piece = np.ones(size) if part is None else _numbers(part, where(i))
        if not np.isfinite(piece).all():
            bad = piece[~np.isfinite(piece)][0]
            raise InvalidInput(f"{where(i)}: an edge has the weight {bad}; weights must be finite.")
        pieces.append(piece)
    return np.concatenate(pieces) + 0.0  # −0 becomes 0, so that equal graphs have equal bytes


def _numbers(weights: Any, where: str) -> np.ndarray:
    """Return the weights of a graph as an array, or name the one that is no number."""
    try:
        array = np.asarray(weights)
    except ValueError:  # a list among them
        array = np.zeros(0, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        for weight in weights:
            if not is_number(weight):
                raise InvalidInput(
                    f"{where}: the weight {repr(weight)[:60]} of an edge is a "
                    f"{type(weight).__name__}; weights must be real numbers that a float can hold."
                )
        array = np.array([float(weight) for weight in weights])
    return array.astype(np.float64, copy=False)


def check_rows(
    offsets: np.ndarray,
    indptr: Any,
    indices: Any,
    weights: Any,
    node_labels: Any,
    edge_labels: Any,
    attributes: Any,
    directed: bool,
) -> None:
    """Refuse arrays of a model file that are no graphs; the nodes of graph i are a run of them."""
    N = int(offsets[-1])
    kinds = [(indptr, "i8", N + 1)]
    m = indices.size if isinstance(indices, np.ndarray) else -1
    kinds += [(indices, "i8", m), (weights, "f8", m)]
    kinds += [] if node_labels is None else [(node_labels, "u8", N)]
    kinds += [] if edge_labels is None else [(edge_labels, "u8", m)]
    for array, kind, size in kinds:
        legal = isinstance(array, np.ndarray) and array.dtype == np.dtype(kind)
        if not legal or array.shape != (size,):
            raise ModelFileError("a graph of it has a malformed array")
    if attributes is not None and (
        not isinstance(attributes, np.ndarray)
        or attributes.dtype != np.float64
        or attributes.ndim != 2
        or len(attributes) != N
        or not _has_widths(attributes, offsets)
    ):
        raise ModelFileError("a graph of it has malformed attributes")
    check_offsets(indptr, m, "rows of graphs")
    rows = sources_of(indptr)
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    low, high = offsets[:-1][owner][rows], offsets[1:][owner][rows]
    if ((indices < low) | (indices >= high)).any() or not np.isfinite(weights).all():
        raise ModelFileError("a graph of it has an edge to nowhere, or a weight that is no number")
    keys = rows * max(N, 1) + indices
    if (np.diff(keys) <= 0).any():
        raise ModelFileError("a graph of it has neighbours out of order")
    if not directed:
        mirror = np.argsort(indices * max(N, 1) + rows)
        same = np.array_equal(keys, (indices * max(N, 1) + rows)[mirror])
        same = same and np.array_equal(weights, weights[mirror])
        if not same or (edge_labels is not None and (edge_labels != edge_labels[mirror]).any()):
            raise ModelFileError("an undirected graph of it has an edge in one direction")


def _has_widths(attributes: np.ndarray, offsets: np.ndarray) -> bool:
    """Whether the nodes of each graph have vectors of one length, with ∞ behind shorter ones."""
    widths = np.isfinite(attributes).sum(axis=1)
    d = attributes.shape[1]
    behind = np.where(np.arange(d) < widths[:, None], attributes, np.inf)
    begin = np.repeat(offsets[:-1], np.diff(offsets))
    alike = np.array_equal(widths, widths[begin])
    return alike and np.array_equal(attributes, behind) and (d in widths or not len(widths))


# ---- Entries for the nodes or edges of a graph: lists, arrays, columns, frames, or by name ----


def entries(values: Any, what: str) -> Any:
    """Return entries as a list, as an array of rows, or as a mapping by name; None stays None."""
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
