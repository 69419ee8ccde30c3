"""`Graph`: one graph as an immutable value."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.graphs.read import (
    Part,
    attribute_rows,
    is_networkx,
    part_of_edges,
    part_of_matrix,
    part_of_networkx,
)
from mercer.domains.graphs.rows import (
    by_name,
    check_rows,
    entries,
    flat_weights,
    row_order,
    sources_of,
)
from mercer.domains.labels import LabelCodes
from mercer.errors import InvalidInput, ModelFileError, speaks, who


class Graph:
    """A graph: nodes, edges with weights, and labels or attribute vectors where there are any.

    Nodes are numbered 0 to n − 1. An undirected edge is given once. A self loop is an edge.
    Parallel edges become one edge and add their weights.

    Parameters
    ----------
    adjacency : square array or sparse matrix, optional
        Entry (i, j) is the weight of the edge from i to j; zero is no edge, while an edge of weight
        0 in ``edges`` is one. It must be symmetric unless ``directed=True``.
    edges : array-like of shape (m, 2) or (m, 3), optional
        The edges instead: rows (u, v) or (u, v, weight) of node numbers.
    n_nodes : int, optional
        Number of nodes; by default what the other arguments say.
    labels : sequence of n labels, or dict by node, optional
        Text, bytes, numbers, or tuples of these; equal labels are one label.
    attributes : array-like of shape (n, d), data frame, or dict by node, optional
        A vector of numbers for each node.
    weights : sequence of m numbers, optional
        For each row of ``edges``.
    edge_labels : sequence of m labels, or dict by (u, v), optional
        For each row of ``edges``.
    directed : bool, default=False
        Whether an edge runs from u to v only. A graph without edges has no directions.
    nodes : sequence of n ids, optional
        Names of the nodes, different from each other; 0 to n − 1 by default.

    Attributes
    ----------
    n_nodes, n_edges : int
        The numbers of nodes, and of edges, an undirected one counted once.
    nodes : tuple
        The names of the nodes.
    indptr, indices, weights : ndarray
        The neighbours of node i are ``indices[indptr[i] : indptr[i + 1]]``, in order, and the
        weights of these edges stand at the same places. An undirected edge stands in both rows.
    node_labels, edge_labels : ndarray of uint64 or None
        Codes of the labels, the same in every process.
    attributes : ndarray of shape (n, d) or None
        The vectors.

    Examples
    --------
    >>> import mercer
    >>> water = mercer.Graph(edges=[(0, 1), (0, 2)], labels=["O", "H", "H"])
    >>> water
    Graph(3 nodes, 2 edges, labelled)
    >>> water == mercer.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], labels=["O", "H", "H"])
    True
    """

    n_nodes: int
    directed: bool
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    node_labels: np.ndarray | None
    edge_labels: np.ndarray | None
    attributes: np.ndarray | None
    _nodes: tuple | None

    @speaks("Graph", unless_spoken=True)
    def __init__(
        self,
        adjacency: Any = None,
        *,
        edges: Any = None,
        n_nodes: int | None = None,
        labels: Any = None,
        attributes: Any = None,
        weights: Any = None,
        edge_labels: Any = None,
        directed: bool = False,
        nodes: Any = None,
    ):
        if is_networkx(adjacency):
            raise InvalidInput("Graph: for a graph of networkx, write Graph.from_networkx(G).")
        if not isinstance(directed, bool | np.bool_):
            raise InvalidInput(f"Graph: directed={directed!r}; give True or False.")
        directed = bool(directed)
        labels, attributes = entries(labels, "labels"), entries(attributes, "attributes")
        names = entries(nodes, "nodes")
        n_nodes = _size(n_nodes, names, labels, attributes)
        if adjacency is None:
            rows = [] if edges is None else edges
            bonds = entries(edge_labels, "edge_labels")
            part = part_of_edges(rows, "Graph", n_nodes, weights, bonds, directed)
        else:
            beside = {"edges": edges, "weights": weights, "edge_labels": edge_labels}
            for what, value in beside.items():
                if value is not None:
                    raise InvalidInput(
                        f"Graph: {what} goes with edges, and an adjacency is given; its entries "
                        "are the weights. Give edges instead."
                    )
            part = part_of_matrix(_matrix(adjacency), who(), directed)
        n = part.n
        names = by_name(names, range(n), "nodes")
        known = range(n) if names is None else names
        _check_length(known, n, "nodes")
        codes = None
        if labels is not None:
            _check_length(labels, n, "labels")
            labels = list(by_name(labels, known, "labels"))
            codes = LabelCodes().codes(labels, "Graph", known)
        if attributes is not None:
            _check_length(attributes, n, "attributes")
            attributes = by_name(attributes, known, "attributes")
            attributes = attribute_rows(attributes, "Graph", known)
        self._set(part._replace(labels=codes, attributes=attributes), names)

    @classmethod
    def from_networkx(
        cls,
        G: Any,
        label: Any = "label",
        attributes: Any = None,
        weight: Any = "weight",
        edge_label: Any = "label",
    ) -> Self:
        """Return a graph of networkx as a `Graph`; its node ids become `nodes`.

        Parameters
        ----------
        G : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
            The graph; parallel edges add their weights.
        label, edge_label : str or tuple of str, default="label"
            The attributes of nodes and edges that hold labels. Several names make one label of
            their values together. A name other than "label" must be that of an attribute; None
            reads no labels.
        attributes : str or list of str, optional
            The attributes of nodes that are numbers or vectors, side by side in `attributes`.
        weight : str, default="weight"
            The attribute of edges that holds weights; an edge without it has weight 1. A weight
            of 0 is that of an edge.

        Examples
        --------
        >>> import networkx as nx
        >>> import mercer
        >>> G = nx.Graph([("a", "b", {"bond": "double"})])
        >>> nx.set_node_attributes(G, {"a": "C", "b": "O"}, "element")
        >>> mercer.Graph.from_networkx(G, label="element", edge_label="bond")
        Graph(2 nodes, 1 edge, labelled, edges labelled)
        >>> mercer.Graph.from_networkx(G, label="elemnt")
        Traceback (most recent call last):
        mercer.errors.InvalidInput: Graph: no node has the attribute 'elemnt'; there are 'element'.
        """
        if not is_networkx(G):
            raise InvalidInput(
                f"Graph.from_networkx: G is a {type(G).__name__}; give a graph of networkx."
            )
        part = part_of_networkx(G, "Graph", LabelCodes(), label, attributes, weight, edge_label)
        return cls._of(part, list(G))

    @classmethod
    def from_arrays(
        cls,
        indptr: Any,
        indices: Any,
        weights: Any,
        node_labels: Any = None,
        edge_labels: Any = None,
        attributes: Any = None,
        directed: Any = False,
        nodes: Any = None,
    ) -> Self:
        """Return the graph that a model file describes, or refuse what is malformed."""
        n = indptr.size - 1 if isinstance(indptr, np.ndarray) else -1
        offsets = np.array([0, max(n, 0)], dtype=np.int64)
        if not isinstance(directed, bool):
            raise ModelFileError("a graph of it does not say whether it is directed")
        check_rows(
            offsets, indptr, indices, weights, node_labels, edge_labels, attributes, directed
        )
        if nodes is not None and (
            not isinstance(nodes, list | tuple) or len(_unique(nodes, ModelFileError)) != n
        ):
            raise ModelFileError("a graph of it has malformed names of nodes")
        degrees = np.diff(indptr)
        return cls._of(
            Part(n, degrees, indices, weights, node_labels, edge_labels, attributes, directed),
            nodes,
        )

    @classmethod
    def _of(cls, part: Part, nodes: Any = None) -> Self:
        """Return the graph that was read into a part."""
        graph = cls.__new__(cls)
        graph._set(part, nodes)
        return graph

    def _set(self, part: Part, nodes: Any) -> None:
        """Store a part, its rows in order, once and for all."""
        n = part.n
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.asarray(part.degrees, dtype=np.int64), out=indptr[1:])
        indices = np.asarray(part.indices, dtype=np.int64)
        weights = flat_weights([part.weights], [len(indices)], lambda i: "Graph")
        codes = part.edge_labels
        codes = None if codes is None or not len(codes) else np.asarray(codes, dtype=np.uint64)
        order = row_order(indptr, indices)
        if order is not None:
            indices, weights = indices[order], weights[order]
            codes = None if codes is None else codes[order]
        labels = None
        if part.labels is not None and n:
            labels = np.asarray(part.labels, dtype=np.uint64)
        vectors = None if part.attributes is None else np.asarray(part.attributes, dtype=np.float64)
        names = None
        if nodes is not None:
            names = tuple(nodes)
            _unique(names, InvalidInput)
            names = None if names == tuple(range(n)) else names
        held = {
            "n_nodes": n,
            "directed": bool(part.directed) and len(indices) > 0,
            "indptr": indptr,
            "indices": indices,
            "weights": weights,
            "node_labels": labels,
            "edge_labels": codes,
            "attributes": vectors if vectors is not None and vectors.size else None,
            "_nodes": names,
        }
        for array in held.values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        vars(self).update(held)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"Graph: {name} is not to be changed; make another graph.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Graph: {name} is not to be taken away; make another graph.")

    def __reduce__(self) -> tuple:
        return type(self)._of, (self._part(), self._nodes)

    @property
    def nodes(self) -> tuple:
        """The names of the nodes."""
        return tuple(range(self.n_nodes)) if self._nodes is None else self._nodes

    @property
    def n_edges(self) -> int:
        """The number of edges; an undirected edge counts once, a self loop too."""
        if self.directed:
            return len(self.indices)
        loops = int(np.count_nonzero(self.indices == sources_of(self.indptr)))
        return (len(self.indices) + loops) // 2

    @property
    def adjacency(self) -> sp.csr_array:
        """The weights as a sparse matrix of shape (n, n)."""
        shape = (self.n_nodes, self.n_nodes)
        return sp.csr_array((self.weights.copy(), self.indices, self.indptr), shape=shape)

    def _part(self) -> Part:
        degrees = np.diff(self.indptr)
        return Part(
            self.n_nodes, degrees, self.indices, self.weights, self.node_labels,
            self.edge_labels, self.attributes, self.directed,
        )  # fmt: skip

    def _arrays(self) -> dict[str, Any]:
        names = ("indptr", "indices", "weights", "node_labels", "edge_labels", "attributes")
        held = {name: getattr(self, name) for name in names}
        return {**held, "directed": self.directed, "nodes": self._nodes}

    def _key(self) -> tuple:
        arrays = self._arrays().values()
        held = [A.tobytes() if isinstance(A, np.ndarray) else A for A in arrays]
        width = None if self.attributes is None else self.attributes.shape
        return (*held, width)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        words = [_count(self.n_nodes, "node"), _count(self.n_edges, "edge")]
        words += ["directed"] if self.directed else []
        words += ["labelled"] if self.node_labels is not None else []
        words += ["edges labelled"] if self.edge_labels is not None else []
        words += [] if self.attributes is None else [_count(self.attributes.shape[1], "attribute")]
        return f"Graph({', '.join(words)})"


# ----------------------------------------------------------------------------------- helpers
def _size(n_nodes: Any, *sequences: Any) -> int | None:
    """Return the number of nodes that is told, if any."""
    if n_nodes is not None:
        if isinstance(n_nodes, bool) or not isinstance(n_nodes, int | np.integer) or n_nodes < 0:
            raise InvalidInput(f"Graph: n_nodes={n_nodes!r}; it must be a whole number ≥ 0.")
        return int(n_nodes)
    told = [s for s in sequences if s is not None]
    return len(told[0]) if told else None


def _matrix(adjacency: Any) -> Any:
    """Return a matrix, dense or sparse."""
    if isinstance(adjacency, np.ndarray) or sp.issparse(adjacency):
        return adjacency
    try:
        return np.asarray(adjacency)
    except ValueError:
        raise InvalidInput(
            f"{who()}: the rows of the adjacency have several lengths; give a square matrix, or "
            "edges=..."
        ) from None


def _check_length(values: Any, n: int, what: str) -> None:
    if len(values) != n:
        raise InvalidInput(f"Graph: {len(values)} {what} for {n} nodes; give one for each node.")


def _unique(names: Any, error: type[Exception]) -> set:
    """Return the names as a set; they must be hashable and different."""
    try:
        different = set(names)
    except TypeError:
        raise error("Graph: nodes must be hashable, such as numbers or text.") from None
    if len(different) < len(names):
        counts = Counter(names)
        twice = next(name for name in names if counts[name] > 1)
        raise error(f"Graph: two nodes are called {twice!r}; give every node its own name.")
    return different


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
