"""Graphs of networkx, read into plain parts: which attributes say what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from mercer.domains.graph_input import Part, attribute_rows
from mercer.domains.graph_rows import is_number
from mercer.domains.labels import LabelCodes, is_hashable, is_missing
from mercer.errors import InvalidInput

__all__ = ["part_of_networkx"]

SHOWN = 8  # names of attributes in a message


def part_of_networkx(
    G: Any,
    where: str,
    codes: LabelCodes,
    label: Any = "label",
    attributes: Any = None,
    weight: Any = "weight",
    edge_label: Any = "label",
) -> Part:
    """Read a Graph, DiGraph, MultiGraph or MultiDiGraph; parallel edges add their weights."""
    around = dict(G.adjacency())
    names = list(around)
    data = dict(G.nodes(data=True))
    if list(data) != names:
        data = {name: data[name] for name in names}
    rows = around.values()
    indices = list(chain.from_iterable(rows))
    if names != list(range(len(names))):
        position = dict(zip(names, range(len(names)), strict=True))
        indices = list(map(position.__getitem__, indices))
    weights = edge_codes = None
    said = any(chain.from_iterable([row.values() for row in rows]))  # more than that they are
    if said or (weight, edge_label) != ("weight", "label"):
        weights, edge_codes = _edge_data(G, around, where, codes, weight, edge_label)
    if label != "label":
        _check_known(data.values(), label, f"{where}: no node")
    labels = _labels(data.values(), label, where, names)
    node_codes = None
    if labels and (labels[0] is not None or any(x is not None for x in labels)):
        node_codes = codes.codes(labels, where, names)
    vectors = (
        None if attributes is None else _vectors(list(data.values()), attributes, where, names)
    )
    degrees = list(map(len, rows))
    directed = G.is_directed()
    return Part(len(names), degrees, indices, weights, node_codes, edge_codes, vectors, directed)


def _edge_data(
    G: Any, around: dict, where: str, codes: LabelCodes, weight: Any, edge_label: Any
) -> tuple[list, list[int] | None]:
    """Return the weights and the codes of the labels of all edges, row by row."""
    ends = [(u, v) for u, row in around.items() for v in row]
    edges = [edge for row in around.values() for edge in row.values()]
    several = G.is_multigraph()
    data = [d for edge in edges for d in edge.values()] if several else edges
    for key, default in ((weight, "weight"), (edge_label, "label")):
        if key != default:
            _check_known(data, key, f"{where}: no edge", whole=default == "weight")
    if several:
        weights = [_total([d.get(weight, 1.0) for d in edge.values()], where) for edge in edges]
        bundles = [
            _labels(edge.values(), edge_label, where, [end] * len(edge))
            for edge, end in zip(edges, ends, strict=True)
        ]
        labels = _one_label(bundles, ends, where)
    else:
        weights = [edge.get(weight, 1.0) for edge in edges]
        labels = _labels(edges, edge_label, where, ends)
    return weights, codes.codes(labels, where, ends)


def _check_known(data: Iterable[dict], key: Any, nobody: str, whole: bool = False) -> None:
    """Refuse a name that a user chose and nothing has; None chooses none."""
    data = list(data)
    if key is None or not data:
        return
    for name in [key] if whole or not isinstance(key, list | tuple) else key:
        if not is_hashable(name) or not any(name in d for d in data):
            raise InvalidInput(f"{nobody} has the attribute {name!r}; {_known(data)}.")


def _known(data: Iterable[Mapping]) -> str:
    """Return the names that there are, for messages."""
    names = list(dict.fromkeys(chain.from_iterable(data)))
    more = ", …" if len(names) > SHOWN else ""
    return f"there are {', '.join(map(repr, names[:SHOWN]))}{more}" if names else "there are none"


def _labels(data: Iterable[dict], key: Any, where: str, owners: list) -> list:
    """Return the label of each node or edge, the tuple of all where several names are given."""
    if not isinstance(key, list | tuple):
        return [d.get(key) for d in data]
    rows = [tuple(d.get(name) for name in key) for d in data]
    for owner, row in zip(owners, rows, strict=True):
        gone = [is_missing(value) for value in row]
        if any(gone) and not all(gone):
            raise InvalidInput(
                f"{where}: {owner!r} has no {key[gone.index(True)]!r}, which is a part of its "
                "label; give it one, for example 'none'."
            )
    return [None if all(map(is_missing, row)) else row for row in rows]


def _total(weights: list, where: str) -> float:
    """Return the weight of parallel edges together."""
    bad = [weight for weight in weights if not is_number(weight)]
    if bad:
        raise InvalidInput(
            f"{where}: the weight {repr(bad[0])[:60]} of an edge is a {type(bad[0]).__name__}; "
            "weights must be real numbers that a float can hold."
        )
    return float(sum(map(float, weights)))


def _one_label(bundles: list[list], ends: list[tuple], where: str) -> list:
    """Return the label that parallel edges share."""
    for bundle, (u, v) in zip(bundles, ends, strict=True):
        for label in bundle[1:]:
            if not _same_label(label, bundle[0]):
                raise InvalidInput(
                    f"{where}: the parallel edges between {u!r} and {v!r} have the labels "
                    f"{bundle[0]!r} and {label!r}; parallel edges become one edge, so give them "
                    "one label, or take labels away."
                )
    return [bundle[0] for bundle in bundles]


def _same_label(a: Any, b: Any) -> bool:
    if is_missing(a) or is_missing(b):
        return is_missing(a) and is_missing(b)
    if not (is_hashable(a) and is_hashable(b)):
        return not (is_hashable(a) or is_hashable(b))  # neither is a label, which is said later
    return bool(a == b)


def _vectors(data: list[dict], keys: Any, where: str, names: list) -> np.ndarray:
    """Return the named attributes of every node, side by side."""
    keys = [keys] if isinstance(keys, str) or not isinstance(keys, list | tuple) else list(keys)
    for i, d in enumerate(data):
        for key in keys:
            if key not in d:
                raise InvalidInput(
                    f"{where}: node {names[i]!r} has no attribute {key!r}; {_known(data)}."
                )
    rows = [[x for key in keys for x in np.ravel(d[key])] for d in data]
    return attribute_rows(rows, where, names)
