"""Graphs: a collection of them in one block-diagonal matrix of neighbours, and its domain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.graph_input import (
    Part,
    is_networkx,
    part_of_edges,
    part_of_matrix,
    part_of_networkx,
)
from mercer.domains.graph_value import Graph, check_rows, flat_weights, row_order
from mercer.domains.labels import LabelCodes, is_missing
from mercer.domains.packed import Packed, as_positions, check_offsets, one_column, spans
from mercer.errors import InvalidInput, ModelFileError

__all__ = ["GraphCollection", "Graphs"]

FORMS = (
    "a graph of networkx, a square adjacency (array or sparse matrix), an integer array of edges "
    "of shape (m, 2), or a mercer.Graph"
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
        Vectors of the nodes; d = 0 where there are none.
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
        self.attributes = attributes
        self.labelled = bool(labelled) and len(node_labels) > 0
        self.edge_labelled = bool(edge_labelled) and len(edge_labels) > 0
        self.directed = bool(directed) and len(indices) > 0
        for name in self._arrays[:7]:
            getattr(self, name).flags.writeable = False

    @classmethod
    def pack(cls, parts: Sequence[Part], where: Any) -> Self:
        """Pack graphs that were read; ``where(i)`` names graph i in messages."""
        labelled = _all_or_none(parts, where, "labels", lambda p: p.n)
        edge_labelled = _all_or_none(parts, where, "edge_labels", lambda p: len(p.indices))
        _one_kind(parts, where)
        node_offsets = _offsets(np.fromiter((p.n for p in parts), np.int64, len(parts)))
        sizes = [len(p.indices) for p in parts]
        indptr = _offsets(_flat([p.degrees for p in parts], np.int64))
        indices = _flat([p.indices for p in parts], np.int64)
        indices += np.repeat(node_offsets[:-1], sizes)
        weights = flat_weights([p.weights for p in parts], sizes, where)
        N, E = int(node_offsets[-1]), len(indices)
        node_labels, edge_labels = np.zeros(N, np.uint64), np.zeros(E, np.uint64)
        if labelled:
            node_labels = _flat([p.labels for p in parts if p.n], np.uint64)
        if edge_labelled:
            edge_labels = _flat([p.edge_labels for p in parts if len(p.indices)], np.uint64)
        vectors = [p.attributes for p in parts if p.attributes is not None and p.n]
        attributes = np.concatenate(vectors) if vectors else np.zeros((N, 0))
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
        offsets = check_offsets(arrays["node_offsets"], len(indptr) - 1, "graphs")
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
    def adjacency(self) -> sp.csr_array:
        """The weights of all graphs as one sparse block-diagonal matrix."""
        N = len(self.indptr) - 1
        return sp.csr_array((self.weights.copy(), self.indices, self.indptr), shape=(N, N))

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
        """Return these graphs followed by those of another collection."""
        N, E = self.node_offsets[-1], self.indptr[-1]
        attributes = [c.attributes for c in (self, other) if len(c.attributes)]
        return type(self)(
            np.concatenate([self.node_offsets, N + other.node_offsets[1:]]),
            np.concatenate([self.indptr, E + other.indptr[1:]]),
            np.concatenate([self.indices, N + other.indices]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.node_labels, other.node_labels]),
            np.concatenate([self.edge_labels, other.edge_labels]),
            np.concatenate(attributes or [self.attributes]),
            self.labelled or other.labelled,
            self.edge_labelled or other.edge_labelled,
            self.directed or other.directed,
        )

    def _point(self, i: int) -> Graph:
        a, b = self.node_offsets[i], self.node_offsets[i + 1]
        rows = self.indptr[a : b + 1]
        edges = slice(rows[0], rows[-1])
        part = Part(
            int(b - a), np.diff(rows), self.indices[edges] - a, self.weights[edges],
            edge_labels=self.edge_labels[edges] if self.edge_labelled else None,
            directed=self.directed,
        )  # fmt: skip
        graph = Graph.__new__(Graph)
        labels = self.node_labels[a:b] if self.labelled else None
        graph._set(part, labels, self.attributes[a:b] if self.attributes.shape[1] else None, None)
        return graph


class Graphs(Domain):
    """Graphs: a list, array or column of them, in any of the forms that users have.

    A graph is a graph of networkx (labels of nodes and edges from the attribute "label", weights
    from "weight"), a square matrix of weights, dense or sparse, an integer array of edges of shape
    (m, 2), an array of edges and weights of shape (m, 3), or a `Graph`. A square array is always an
    adjacency, so two edges (2, 2) and three weighted edges (3, 3) must be written
    ``Graph(edges=...)``. A graph may have no edges or no nodes. Labels, edge labels and attributes
    are those of all graphs or of none, and all graphs are directed or none is.
    """

    name = "graphs"

    def check(self, X: Any, name: str = "X") -> GraphCollection:
        """Return the graphs packed, or say which of them is none."""
        if isinstance(X, GraphCollection):
            return X
        single = isinstance(X, Graph) or is_networkx(X) or sp.issparse(X)
        numeric = isinstance(X, np.ndarray) and X.dtype != object
        if single or (numeric and X.ndim == 2):
            what = "array" if numeric else type(X).__name__
            raise InvalidInput(
                f"Graphs: {name} is one {what}; give a list of graphs: [{name}] if it is one graph."
            )
        stack = numeric and X.ndim == 3
        points = list(X) if stack else one_column(X, name, "graphs")
        if not isinstance(points, list | tuple):
            raise InvalidInput(
                f"Graphs: {name} is a {type(X).__name__}; give a list, an array or a column of "
                "graphs."
            )
        codes = LabelCodes()
        parts = [_read(point, f"Graphs: {name}[{i}]", codes) for i, point in enumerate(points)]
        return GraphCollection.pack(parts, lambda i: f"Graphs: {name}[{i}]")

    def size(self, X: GraphCollection) -> int:
        """Return the number of graphs."""
        return len(X)

    def take(self, X: GraphCollection, index: Index) -> GraphCollection:
        """Return the graphs at the given positions."""
        return X.take(index)

    def match(self, X: GraphCollection, Y: GraphCollection) -> tuple[GraphCollection, ...]:  # type: ignore[override]
        """Return both, or refuse graphs with labels beside graphs without."""
        kinds = (
            ("labelled", "labels of nodes", "node_labels"),
            ("edge_labelled", "labels of edges", "edge_labels"),
            ("directed", "directions", "indices"),
        )
        for flag, what, needed in kinds:
            has, lacks = ("X", "Y") if getattr(X, flag) else ("Y", "X")
            differ = getattr(X, flag) != getattr(Y, flag)
            if differ and len(getattr(X, needed)) and len(getattr(Y, needed)):
                raise InvalidInput(
                    f"Graphs: the graphs of {has} have {what} and those of {lacks} have none; "
                    "give both the same."
                )
        widths = X.attributes.shape[1], Y.attributes.shape[1]
        if widths[0] != widths[1] and len(X.attributes) and len(Y.attributes):
            raise InvalidInput(
                f"Graphs: nodes of X have {widths[0]} attributes and nodes of Y {widths[1]}; give "
                "both the same."
            )
        return X, Y

    def sample(self, rng: np.random.Generator, n: int) -> list[Graph]:
        """Return n random small graphs with labelled nodes, some without nodes or edges."""
        graphs = []
        for _ in range(n):
            size = int(rng.integers(0, 8))
            pairs = np.array(list(itertools.combinations(range(size), 2)), dtype=int).reshape(-1, 2)
            edges = pairs[rng.random(len(pairs)) < rng.random()]
            labels = rng.choice(list("CNO"), size).tolist()
            graphs.append(Graph(edges=edges, n_nodes=size, labels=labels))
        return graphs


# ------------------------------------------------------------------------------------ reading
def _read(item: Any, where: str, codes: LabelCodes) -> Part:
    """Read one graph of a list."""
    if is_networkx(item):
        return part_of_networkx(item, where, codes)
    if isinstance(item, Graph):
        return item._part()
    if sp.issparse(item):
        return part_of_matrix(item, where)
    if isinstance(item, np.ndarray) and item.ndim == 2 and item.dtype.kind in "fiub":
        rows, columns = item.shape
        edges = rows != columns and item.dtype.kind in "iuf"
        if edges and (columns == 3 or (columns == 2 and item.dtype.kind in "iu")):
            return part_of_edges(item, where)
        if rows != columns:
            raise InvalidInput(
                f"{where} is an array of shape {item.shape} and type {item.dtype}; a square one is "
                "an adjacency, an integer one of shape (m, 2) holds edges, one of shape (m, 3) "
                "edges and weights."
            )
        return part_of_matrix(item, where)
    if is_missing(item):
        raise InvalidInput(
            f"{where} is missing ({item!r}); leave the row out, or let the kernel take missing "
            "values: kernel.with_missing()."
        )
    raise InvalidInput(f"{where} is a {type(item).__name__}; every point must be {FORMS}.")


def _all_or_none(parts: Sequence[Part], where: Any, field: str, size: Any) -> bool:
    """Return whether graphs have labels; all of those that need any, or none."""
    has = [getattr(p, field) is not None for p in parts if size(p)]
    if not any(has):
        return False
    if not all(has):
        at = [i for i, p in enumerate(parts) if size(p)]
        what = "labels on its nodes" if field == "labels" else "labels on its edges"
        raise InvalidInput(
            f"{where(at[has.index(False)])} has no {what}, and {where(at[has.index(True)])} has; "
            "label all graphs or none."
        )
    return True


def _one_kind(parts: Sequence[Part], where: Any) -> None:
    """Refuse directed beside undirected graphs, and attributes of different lengths."""
    ways: dict[bool, int] = {}
    widths: dict[int, int] = {}
    for i, part in enumerate(parts):
        if len(part.indices):
            ways.setdefault(part.directed, i)
        if part.n:
            widths.setdefault(0 if part.attributes is None else part.attributes.shape[1], i)
    if len(ways) > 1:
        raise InvalidInput(
            f"{where(ways[True])} is directed and {where(ways[False])} is not; convert one, for "
            "example with G.to_directed() of networkx."
        )
    if len(widths) > 1:
        (d, i), (e, j) = list(widths.items())[:2]
        raise InvalidInput(
            f"{where(i)} has {d} attributes a node and {where(j)} has {e}; give all nodes vectors "
            "of one length."
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
