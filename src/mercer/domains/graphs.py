"""Graphs: a list of them, in any of the forms that users have, read and packed once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.graph_collection import GraphCollection, check_kinds
from mercer.domains.graph_input import (
    Part,
    is_networkx,
    part_of_edges,
    part_of_matrix,
)
from mercer.domains.graph_networkx import part_of_networkx
from mercer.domains.graph_value import Graph
from mercer.domains.labels import LabelCodes, is_missing
from mercer.domains.packed import one_column
from mercer.errors import InvalidInput, MemoryBudgetExceeded

__all__ = ["GraphCollection", "Graphs"]

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
            raise InvalidInput(
                f"Graphs: {name} is one {what}; give a list of graphs: [{name}] if it is one graph."
            )
        if isinstance(X, np.ndarray) and X.dtype == object and X.ndim > 1 and X.shape[1] != 1:
            raise InvalidInput(
                f"Graphs: {name} is an array of shape {X.shape}. NumPy takes a graph for a list of "
                "its nodes when it makes an array of graphs; give a list."
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
