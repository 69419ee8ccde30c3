"""`ShortestPath`: graphs compared by the distances between their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.graphs.collection import GraphCollection, Graphs
from mercer.domains.labels import mixed
from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.graphs.edges import check_flag, negative_edge, runs
from mercer.kernels.graphs.vertex_histogram import VertexHistogram

__all__ = ["ShortestPath", "check_lengths", "joined_pairs"]

DIGITS = 12  # significant digits of a length; sums of the same edges in another order agree in them
STEP = 1_000_000  # nodes and edges that one call may visit, some milliseconds
FOUND = 64  # bytes for what is known of a pair: ends, distance, count, code


class ShortestPath(Counted):
    r"""Number of pairs of shortest paths with equal ends and equal length.

    .. math:: k(G, G') = \sum_{(u, v)} \sum_{(u', v')}
        1[\ell_u = \ell_{u'}]\, 1[\ell_v = \ell_{v'}]\, 1[d(u, v) = d(u', v')]

    over ordered pairs of different nodes that a path joins; :math:`\ell` are the node labels, and d
    is the length of a shortest path. Pairs that no path joins do not count, nor does a node with
    itself, so loops do not matter. Without labels, distances alone are compared. In directed graphs
    paths follow the arrows. Edge labels and attributes are not looked at. On labelled graphs these
    are the values of GraKeL's ``ShortestPath``, on graphs without labels those of
    ``with_labels=False``.

    *Valid when* lengths are not negative. It is the inner product of the counts of each
    (label, label, distance), hence positive semidefinite.

    Parameters
    ----------
    weighted : bool, default=True
        Whether the weight of an edge is its length. False makes every edge one long. Sums of real
        numbers depend on their order in the last digits: lengths are compared in 12 significant
        digits, whole numbers up to 10¹² exactly. Of the two directions of an undirected path the
        smaller sum is taken, so that the numbering of nodes does not matter; different paths whose
        lengths differ by rounding alone may, rarely, count as different.

    Notes
    -----
    Distances in edges take one breadth-first search from every node, O(n(n + m)) for n nodes and
    m edges, and memory only for the different (label, label, distance) that occur. Other lengths
    take Dijkstra's algorithm, O(n(m + n log n)), and memory for n² distances; what does not fit the
    budget is refused. A path of 10⁵ nodes without labels therefore runs, for minutes, while with
    real lengths it is refused.

    Examples
    --------
    >>> from mercer import Graph, ShortestPath
    >>> path = Graph(edges=[(0, 1), (1, 2)], labels=["C", "C", "O"])
    >>> ring = Graph(edges=[(0, 1), (1, 2), (2, 0)], labels=["C", "C", "O"])
    >>> ShortestPath()([path, ring])
    array([[ 8.,  8.],
           [ 8., 12.]])
    """

    domain = Graphs()

    def __init__(self, weighted: bool = True):
        super().__init__(weighted=weighted)

    def _check_params(self) -> None:
        check_flag("ShortestPath", "weighted", self.weighted)

    def _counts(self, X: GraphCollection) -> Counts:
        if self.weighted:
            check_lengths(X, "ShortestPath")
        if self.weighted and (X.weights != 1).any():
            return _counts_of_lengths(X)
        return _counts_of_edges(X)

    def collision_probability(self, X: Any) -> float:
        """Return a bound of the probability that two labels, or two kinds of paths, share a code.

        Parameters
        ----------
        X : list of graphs
            The graphs, training and new ones together where both are to be judged.
        """
        X = self.domain.check(X)
        return super().collision_probability(X) + VertexHistogram().collision_probability(X)


def check_lengths(X: GraphCollection, owner: str) -> None:
    """Refuse weights that are no lengths."""
    negative = negative_edge(X)
    if negative is not None:
        raise InvalidInput(
            f"{owner}: graph {negative[0]} has an edge of weight {negative[1]:g}, and a length is "
            f"never negative. Make the weights lengths, or use {owner}(..., weighted=False), which "
            "counts edges."
        )


def _counts_of_edges(X: GraphCollection) -> Counts:
    """Count distances where every edge is one long, kind of source by kind of source."""
    from mercer.jit.graphs import count_distances

    n, sizes, owner = len(X), X.sizes, X.owners
    order = np.lexsort((X.node_labels, owner)) if X.labelled else np.arange(len(owner))
    labels = X.node_labels[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (owner[1:] != owner[:-1]) | (labels[1:] != labels[:-1])
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(fresh) - 1
    graph_of, label_of = owner[fresh], labels[fresh]
    first = np.searchsorted(graph_of, np.arange(n))
    places = int((np.bincount(graph_of, minlength=n) * sizes).max(initial=0))
    require_memory(16 * places, "ShortestPath: counting distances", "Use fewer labels")

    arcs = np.diff(X.indptr[X.node_offsets])
    last = np.append(fresh[1:], True)
    distance, queue = np.full(len(owner), -1), np.empty(sizes.max(initial=0), dtype=np.int64)
    cells, used, n_used = np.zeros(places, dtype=np.int64), np.empty(places, dtype=np.int64), 0
    parts, total = [], 0
    for start, stop in runs((sizes + arcs)[owner], STEP):  # order keeps the graphs
        out = np.empty((n_used + int(sizes[owner[start:stop]].sum()), 3), dtype=np.int64)
        counts = np.empty(len(out))
        written, n_used = count_distances(
            X.indptr, X.indices, X.node_offsets, owner, kind, first, order[start:stop],
            last[start:stop], distance, queue, cells, used, n_used, out, counts,
        )  # fmt: skip
        parts.append((out[:written].copy(), counts[:written].copy()))
        total += written
        require_memory(FOUND * total, "ShortestPath: the distances", "Use smaller graphs")
    found = np.concatenate([np.empty((0, 3), dtype=np.int64), *(p for p, _ in parts)])
    values = np.concatenate([np.empty(0), *(c for _, c in parts)])
    codes = _codes(label_of[found[:, 0]], label_of[found[:, 1]], found[:, 2].astype(float))
    return Counts(n, graph_of[found[:, 0]], codes, values)


def _counts_of_lengths(X: GraphCollection) -> Counts:
    """Count distances where edges have lengths, graph by graph."""
    rows, codes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint64)]
    for g, u, v, d in joined_pairs(X, weighted=True, owner="ShortestPath"):
        codes.append(_codes(X.node_labels[u], X.node_labels[v], d))
        rows.append(np.full(len(u), g, dtype=np.int64))
    return Counts(len(X), np.concatenate(rows), np.concatenate(codes))


def joined_pairs(
    X: GraphCollection, weighted: bool, owner: str
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for each graph, in blocks, the pairs u ≠ v that a path joins, and its rounded length.

    Parameters
    ----------
    X : GraphCollection
        The graphs.
    weighted : bool
        Whether weights are lengths; otherwise every edge is one long.
    owner : str
        Who asks, for messages.
    """
    from scipy.sparse.csgraph import dijkstra

    sizes = X.sizes
    pairs = int(sizes @ sizes)
    require_memory(
        FOUND * pairs,
        f"{owner}: the distances of {pairs} pairs of nodes",
        "Use smaller graphs, or ShortestPath(weighted=False) on graphs with few labels",
    )
    weights = X.weights if weighted else np.ones(len(X.weights))
    for g in np.flatnonzero(sizes).tolist():
        begin, end = X.node_offsets[g : g + 2]
        indptr = X.indptr[begin : end + 1]
        inside = slice(indptr[0], indptr[-1])
        size = int(end - begin)
        parts = (weights[inside], X.indices[inside] - begin, indptr - indptr[0])
        lengths = sp.csr_array(parts, shape=(size, size))
        block = max(1, STEP // (size + lengths.nnz))
        blocks = [slice(start, min(start + block, size)) for start in range(0, size, block)]
        D = np.empty((size, size))
        for rows in blocks:
            D[rows] = dijkstra(lengths, directed=True, indices=np.arange(size)[rows])
        np.fill_diagonal(D, np.inf)
        for rows in blocks:
            d = D[rows] if X.directed else np.minimum(D[rows], D[:, rows].T)
            u, v = np.nonzero(np.isfinite(d))
            yield g, begin + rows.start + u, begin + v, _rounded(d[u, v])


def _rounded(d: np.ndarray) -> np.ndarray:
    """Return positive numbers to `DIGITS` significant digits, each the double nearest to it.

    A product and a quotient of doubles are rounded once, and powers of ten up to 10²² are exact, so
    that numbers on both sides of a power of ten meet in one double.
    """
    with np.errstate(divide="ignore"):
        shift = DIGITS - np.ceil(np.log10(d))
    shift = np.clip(np.where(d == 0, 0, shift), -300, 300)
    up, down = 10.0 ** np.maximum(shift, 0), 10.0 ** np.maximum(-shift, 0)
    return np.where(shift >= 0, np.rint(d * up) / up, np.rint(d / down) * down)


def _codes(source: np.ndarray, end: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return one number of 64 bits for (label, label, distance)."""
    return mixed(mixed(mixed(source) ^ end) + (d + 0.0).view(np.uint64))
