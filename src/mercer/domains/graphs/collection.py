"""`GraphCollection`: graphs in one block-diagonal matrix of neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.graphs.read import (
    Part,
    is_networkx,
    part_of_edges,
    part_of_matrix,
    part_of_networkx,
)
from mercer.domains.graphs.rows import check_rows, flat_weights, row_order, sources_of
from mercer.domains.graphs.value import Graph
from mercer.domains.labels import LabelCodes, is_missing
from mercer.domains.packed import Packed, as_positions, check_offsets, one_column, spans
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, refusal

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
            raise refusal(
                "Graphs",
                f"the graphs of {has} have {what} and those of {lacks} have none; "
                f"give both the same. {READ if 'labels' in needed else ''}".rstrip(),
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
        raise refusal(
            "Graphs",
            f"{name}[{at[has.index(False)]}] has no {what}, and "
            f"{name}[{at[has.index(True)]}] has; label all graphs or none. {READ}",
        )
    return True


def _one_way(parts: Sequence[Part], name: str) -> None:
    """Refuse directed beside undirected graphs."""
    ways: dict[bool, int] = {}
    for i, part in enumerate(parts):
        if len(part.indices):
            ways.setdefault(part.directed, i)
    if len(ways) > 1:
        raise refusal(
            "Graphs",
            f"{name}[{ways[True]}] is directed and {name}[{ways[False]}] is not; convert "
            "one, for example with G.to_directed() of networkx.",
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


# ---- Graphs: a list of them, in any of the forms that users have, read and packed once ----


FORMS = (
    "a graph of networkx, a square adjacency (array or sparse matrix), an integer array of edges "
    "of shape (m, 2), or a mercer.Graph. Lists and dicts go into mercer.Graph(edges=..., "
    "labels=...)"
)


class Graphs(Domain):
    """Graphs: a list, array or column of them, in any of the forms that users have.

    A graph is a graph of networkx (labels of nodes and edges from the attribute "label", weights
    from "weight"), a square matrix of weights, dense or sparse, an integer array of edges of shape
    (m, 2), an array of edges and weights of shape (m, 3), or a `Graph`. A square array is an
    adjacency; one of two rows, or of three, that could also be edges is refused, so two edges and
    three weighted edges are written ``Graph(edges=...)``. A graph may have no edges or no nodes.
    Labels of nodes and of edges are those of all graphs or of none, and all graphs are directed or
    none is.
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
            raise refusal(
                "Graphs",
                f"{name} is one {what}; give a list of graphs: [{name}] if it is one graph.",
            )
        if isinstance(X, np.ndarray) and X.dtype == object and X.ndim > 1 and X.shape[1] != 1:
            raise refusal(
                "Graphs",
                f"{name} is an array of shape {X.shape}. NumPy takes a graph for a list of "
                "its nodes when it makes an array of graphs; give a list.",
            )
        stack = numeric and X.ndim == 3
        points = list(X) if stack else one_column(X, name, "graphs")
        if not isinstance(points, list | tuple):
            raise refusal(
                "Graphs",
                f"{name} is a {type(X).__name__}; give a list, an array or a column of graphs.",
            )
        codes = LabelCodes()
        parts = [_read(point, f"Graphs: {name}[{i}]", codes) for i, point in enumerate(points)]
        return GraphCollection.pack(parts, name)

    def size(self, X: GraphCollection) -> int:
        """Return the number of graphs."""
        return len(X)

    def take(self, X: GraphCollection, index: Index) -> GraphCollection:
        """Return the graphs at the given positions."""
        return X.take(index)

    def match(self, X: GraphCollection, Y: GraphCollection) -> tuple[GraphCollection, ...]:  # type: ignore[override]
        """Return both, or refuse graphs with labels beside graphs without."""
        check_kinds(X, Y, "X", "Y (of a model: the training graphs)")
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
        return _read_array(item, where)
    if is_missing(item):
        raise InvalidInput(
            f"{where} is missing ({item!r}); leave the row out, or let the kernel take missing "
            "values: kernel.with_missing()."
        )
    raise InvalidInput(f"{where} is a {type(item).__name__}; every point must be {FORMS}.")


def _read_array(item: np.ndarray, where: str) -> Part:
    """Read a square adjacency, or edges, and refuse what may be either."""
    rows, columns = item.shape
    kinds = {2: "iu", 3: "iuf"}.get(columns, "")
    if rows != columns:
        if item.dtype.kind in kinds:
            return part_of_edges(item, where)
        raise InvalidInput(
            f"{where} is an array of shape {item.shape} and type {item.dtype}; a square one is an "
            "adjacency, an integer one of shape (m, 2) holds edges, one of shape (m, 3) edges and "
            "weights."
        )
    part = part_of_matrix(item, where)
    # A symmetric array with zeros on its diagonal would be edges (0, b), (b, 0), one edge twice,
    # or nothing but loops at node 0 and an edge of weight 0.
    if item.dtype.kind in kinds and item.diagonal().any():
        try:
            part_of_edges(item, where)
        except (InvalidInput, MemoryBudgetExceeded):
            return part
        raise InvalidInput(
            f"{where} is an array of shape {item.shape} that may be an adjacency with self loops "
            f"or {rows} edges; say mercer.Graph(A) for an adjacency, mercer.Graph(edges=A) for "
            "edges."
        )
    return part
