"""`GraphCollection`: graphs in one block-diagonal matrix of neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mercer.domains.base import Index
from mercer.domains.graph_input import Part
from mercer.domains.graph_rows import check_rows, flat_weights, row_order, sources_of
from mercer.domains.graph_value import Graph
from mercer.domains.packed import Packed, as_positions, check_offsets, spans
from mercer.errors import InvalidInput, ModelFileError

__all__ = ["GraphCollection", "check_kinds", "widths_of"]

READ = (
    "Of networkx the attribute 'label' is read; Graph.from_networkx(G, label=..., edge_label=...) "
    "reads others."
)


class GraphCollection(Packed):
    """Graphs one after another: graph i has the nodes ``node_offsets[i]`` to ``[i + 1]`` − 1.

    Parameters
    ----------
    node_offsets : ndarray of int64 of shape (n + 1,)
        Where the nodes of each graph begin, and the end of the last.
    indptr, indices, weights : ndarrays
        Rows of neighbours of all N nodes: int64 (N + 1,), int64 (E,) in order within a row, and
        float64 (E,). Neighbours are numbers among all nodes. An undirected edge stands in both
        rows, a self loop once.
    node_labels, edge_labels : ndarray of uint64
        Codes of the labels of nodes (N,) and of edges (E,); zeros where there are none.
    attributes : ndarray of float64 of shape (N, d)
        Vectors of the nodes; d = 0 where there are none. Graphs may have vectors of several
        lengths, which only kernels that look at them refuse: ∞ stands behind the shorter ones.
    labelled, edge_labelled, directed : bool
        What the graphs are, all of them.
    """

    _arrays = (
        "node_offsets", "indptr", "indices", "weights", "node_labels", "edge_labels", "attributes",
        "labelled", "edge_labelled", "directed",
    )  # fmt: skip

    def __init__(
        self,
        node_offsets: np.ndarray,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray,
        node_labels: np.ndarray,
        edge_labels: np.ndarray,
        attributes: np.ndarray,
        labelled: bool = False,
        edge_labelled: bool = False,
        directed: bool = False,
    ):
        self.node_offsets = node_offsets
        self.indptr = indptr
        self.indices = indices
        self.weights = weights
        self.node_labels = node_labels
        self.edge_labels = edge_labels
        widest = widths_of(attributes).max(initial=0)
        self.attributes = np.ascontiguousarray(attributes[:, :widest])
        self.labelled = bool(labelled) and len(node_labels) > 0
        self.edge_labelled = bool(edge_labelled) and len(edge_labels) > 0
        self.directed = bool(directed) and len(indices) > 0
        for name in self._arrays[:7]:
            getattr(self, name).flags.writeable = False

    @classmethod
    def pack(cls, parts: Sequence[Part], name: str) -> Self:
        """Pack graphs that were read; ``name`` is that of the list in messages."""
        labelled = _all_or_none(parts, name, "labels", lambda p: p.n)
        edge_labelled = _all_or_none(parts, name, "edge_labels", lambda p: len(p.indices))
        _one_way(parts, name)
        node_offsets = _offsets(np.fromiter((p.n for p in parts), np.int64, len(parts)))
        sizes = [len(p.indices) for p in parts]
        indptr = _offsets(_flat([p.degrees for p in parts], np.int64))
        indices = _flat([p.indices for p in parts], np.int64)
        indices += np.repeat(node_offsets[:-1], sizes)
        weights = flat_weights([p.weights for p in parts], sizes, lambda i: f"Graphs: {name}[{i}]")
        N, E = int(node_offsets[-1]), len(indices)
        node_labels, edge_labels = np.zeros(N, np.uint64), np.zeros(E, np.uint64)
        if labelled:
            node_labels = _flat([p.labels for p in parts if p.n], np.uint64)
        if edge_labelled:
            edge_labels = _flat([p.edge_labels for p in parts if len(p.indices)], np.uint64)
        vectors = [np.zeros((p.n, 0)) if p.attributes is None else p.attributes for p in parts]
        attributes = _stacked(vectors)
        order = row_order(indptr, indices)
        if order is not None:
            indices, weights, edge_labels = indices[order], weights[order], edge_labels[order]
        directed = any(p.directed for p in parts)
        return cls(
            node_offsets, indptr, indices, weights, node_labels, edge_labels, attributes,
            labelled, edge_labelled, directed,
        )  # fmt: skip

    @classmethod
    def from_arrays(cls, **arrays: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        if set(arrays) != set(cls._arrays):
            raise ModelFileError("graphs of it do not have the arrays of graphs")
        flags = [arrays[name] for name in cls._arrays[7:]]
        indptr = arrays["indptr"]
        if not all(isinstance(f, bool) for f in flags) or not isinstance(indptr, np.ndarray):
            raise ModelFileError("graphs of it are malformed")
        offsets = check_offsets(arrays["node_offsets"], indptr.size - 1, "graphs")
        held = {name: arrays[name] for name in cls._arrays[1:7]}
        check_rows(offsets, **held, directed=flags[2])
        for flag, name in zip(flags, ("node_labels", "edge_labels"), strict=False):
            if arrays[name] is None or (not flag and arrays[name].any()):
                raise ModelFileError("graphs of it hold labels that they say they do not have")
        if arrays["attributes"] is None:
            raise ModelFileError("graphs of it are malformed")
        return cls(**arrays)

    def __len__(self) -> int:
        return len(self.node_offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of nodes of each graph."""
        return np.diff(self.node_offsets)

    @property
    def owners(self) -> np.ndarray:
        """The graph that each node belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def sources(self) -> np.ndarray:
        """The node in whose row each edge stands."""
        return sources_of(self.indptr)

    def take(self, index: Index) -> Self:
        """Return the graphs at the given positions."""
        index = as_positions(index, len(self))
        nodes, node_offsets = spans(self.node_offsets, index)
        edges, indptr = spans(self.indptr, nodes)
        shift = np.repeat(node_offsets[:-1] - self.node_offsets[:-1][index], np.diff(node_offsets))
        indices = self.indices[edges] + np.repeat(shift, np.diff(indptr))
        return type(self)(
            node_offsets, indptr, indices, self.weights[edges], self.node_labels[nodes],
            self.edge_labels[edges], self.attributes[nodes],
            self.labelled, self.edge_labelled, self.directed,
        )  # fmt: skip

    def joined(self, other: Self) -> Self:
        """Return these graphs followed by those of another collection of the same kind."""
        check_kinds(self, other, "the first", "the second")
        N, E = self.node_offsets[-1], self.indptr[-1]
        return type(self)(
            np.concatenate([self.node_offsets, N + other.node_offsets[1:]]),
            np.concatenate([self.indptr, E + other.indptr[1:]]),
            np.concatenate([self.indices, N + other.indices]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.node_labels, other.node_labels]),
            np.concatenate([self.edge_labels, other.edge_labels]),
            _stacked([self.attributes, other.attributes]),
            self.labelled or other.labelled,
            self.edge_labelled or other.edge_labelled,
            self.directed or other.directed,
        )

    def _point(self, i: int) -> Graph:
        a, b = self.node_offsets[i], self.node_offsets[i + 1]
        rows = self.indptr[a : b + 1]
        edges = slice(rows[0], rows[-1])
        attributes = self.attributes[a:b, : widths_of(self.attributes[a:b]).max(initial=0)]
        return Graph._of(
            Part(
                int(b - a), np.diff(rows), self.indices[edges] - a, self.weights[edges],
                labels=self.node_labels[a:b] if self.labelled else None,
                edge_labels=self.edge_labels[edges] if self.edge_labelled else None,
                attributes=attributes if attributes.size else None,
                directed=self.directed,
            )
        )  # fmt: skip


def check_kinds(X: GraphCollection, Y: GraphCollection, first: str, second: str) -> None:
    """Refuse graphs with labels or directions beside graphs without."""
    kinds = (
        ("labelled", "labels of nodes", "node_labels"),
        ("edge_labelled", "labels of edges", "edge_labels"),
        ("directed", "directions", "indices"),
    )
    for flag, what, needed in kinds:
        has, lacks = (first, second) if getattr(X, flag) else (second, first)
        differ = getattr(X, flag) != getattr(Y, flag)
        if differ and len(getattr(X, needed)) and len(getattr(Y, needed)):
            raise InvalidInput(
                f"Graphs: the graphs of {has} have {what} and those of {lacks} have none; "
                f"give both the same. {READ if 'labels' in needed else ''}".rstrip()
            )


def widths_of(attributes: np.ndarray) -> np.ndarray:
    """Return how many attributes each node has."""
    return np.isfinite(attributes).sum(axis=1)


def _stacked(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows of several lengths one after another, ∞ behind the shorter ones."""
    offsets = _offsets(np.array([len(rows) for rows in vectors], dtype=np.int64))
    width = max((rows.shape[1] for rows in vectors if len(rows)), default=0)
    out = np.full((int(offsets[-1]), width), np.inf)
    for start, stop, rows in zip(offsets, offsets[1:], vectors, strict=False):
        out[start:stop, : rows.shape[1]] = rows
    return out


def _all_or_none(parts: Sequence[Part], name: str, field: str, size: Any) -> bool:
    """Return whether graphs have labels; all of those that need any, or none."""
    has = [getattr(p, field) is not None for p in parts if size(p)]
    if not any(has):
        return False
    if not all(has):
        at = [i for i, p in enumerate(parts) if size(p)]
        what = "labels on its nodes" if field == "labels" else "labels on its edges"
        raise InvalidInput(
            f"Graphs: {name}[{at[has.index(False)]}] has no {what}, and "
            f"{name}[{at[has.index(True)]}] has; label all graphs or none. {READ}"
        )
    return True


def _one_way(parts: Sequence[Part], name: str) -> None:
    """Refuse directed beside undirected graphs."""
    ways: dict[bool, int] = {}
    for i, part in enumerate(parts):
        if len(part.indices):
            ways.setdefault(part.directed, i)
    if len(ways) > 1:
        raise InvalidInput(
            f"Graphs: {name}[{ways[True]}] is directed and {name}[{ways[False]}] is not; convert "
            "one, for example with G.to_directed() of networkx."
        )


def _flat(pieces: list, dtype: Any) -> np.ndarray:
    """Return lists and arrays one after another."""
    if all(isinstance(piece, list) for piece in pieces):
        return np.fromiter(itertools.chain.from_iterable(pieces), dtype, sum(map(len, pieces)))
    arrays = [np.asarray(piece, dtype=dtype) for piece in pieces]
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
