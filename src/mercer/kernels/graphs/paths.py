"""`AttributedPath`: shortest paths whose ends are compared by a kernel of their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, GramRows, GraphCollection, Graphs, mixed
from mercer.domains.graphs import widths_of
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels.algebra import Combination
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.graphs.graphlet import PACE, check_flag, negative_edge, pull_own, runs
from mercer.kernels.graphs.histograms import VertexHistogram
from mercer.memory import require_memory

# ---- `ShortestPath`: graphs compared by the distances between their nodes ----


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
        check_flag("weighted", self.weighted)

    @speaks("ShortestPath")
    def _counts(self, X: GraphCollection) -> Counts:
        if self.weighted:
            check_lengths(X)
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


def check_lengths(X: GraphCollection) -> None:
    """Refuse weights that are no lengths."""
    negative = negative_edge(X)
    if negative is not None:
        raise InvalidInput(
            f"{who()}: graph {negative[0]} has an edge of weight {negative[1]:g}, and a length is "
            f"never negative. Make the weights lengths, or use {who()}(..., weighted=False), which "
            "counts edges."
        )


def _counts_of_edges(X: GraphCollection) -> Counts:
    """Count distances where every edge is one long, kind of source by kind of source."""
    from mercer.jit import count_distances

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
    for g, u, v, d in joined_pairs(X, weighted=True):
        codes.append(_codes(X.node_labels[u], X.node_labels[v], d))
        rows.append(np.full(len(u), g, dtype=np.int64))
    return Counts(len(X), np.concatenate(rows), np.concatenate(codes))


def joined_pairs(
    X: GraphCollection, weighted: bool
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for each graph, in blocks, the pairs u ≠ v that a path joins, and its rounded length.

    X : GraphCollection
        The graphs.
    weighted : bool
        Whether weights are lengths; otherwise every edge is one long.
    """
    from scipy.sparse.csgraph import dijkstra

    sizes = X.sizes
    pairs = int(sizes @ sizes)
    require_memory(
        FOUND * pairs,
        f"{who()}: the distances of {pairs} pairs of nodes",
        "Use smaller graphs, or ShortestPath(weighted=False) on graphs with few labels",
    )
    weights = X.weights if weighted else np.ones(len(X.weights))
    for g in np.flatnonzero(sizes).tolist():
        begin, end = X.node_offsets[g : g + 2]
        indptr = X.indptr[begin : end + 1]
        inside = slice(indptr[0], indptr[-1])
        size = int(end - begin)
        # dijkstra computes with indices of 32 bits; older SciPy refuses longer ones
        index = np.int32 if int(indptr[-1] - indptr[0]) < 2**31 else np.int64
        parts = ((X.indices[inside] - begin).astype(index), (indptr - indptr[0]).astype(index))
        lengths = sp.csr_array((weights[inside], *parts), shape=(size, size))
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


# ---- attributed path ----


UNLIKE = "use ShortestPath, which compares labels"


def node_vectors(X: GraphCollection, name: str, cure: str) -> np.ndarray:
    """Return the attributes of all nodes, which are vectors of one length; refuse others."""
    if not len(X.attributes):  # no nodes
        return np.zeros((0, 1))
    widths = widths_of(X.attributes)
    odd = np.flatnonzero(widths != widths[0])
    if len(odd):
        raise InvalidInput(
            f"{name}: graph {X.owners[0]} has {widths[0]} attributes a node and graph "
            f"{X.owners[odd[0]]} has {widths[odd[0]]}; give all nodes vectors of one length."
        )
    if widths[0] == 0:
        raise InvalidInput(
            f"{name}: the nodes of these graphs have no attributes; give them with "
            f"mercer.Graph(..., attributes=...), or {cure}."
        )
    return X.attributes


def check_vectors(X: GraphCollection, Y: GraphCollection | None, name: str, cure: str) -> None:
    """Refuse nodes without attributes, or with vectors of different lengths."""
    both = (X,) if Y is None else (X, Y)
    widths = [node_vectors(Z, name, cure).shape[1] for Z in both if len(Z.attributes)]
    if len(set(widths)) > 1:
        raise InvalidInput(
            f"{name}: nodes of X have {widths[0]} attributes and nodes of Y (of a "
            f"model: the training graphs) {widths[1]}; give both the same."
        )


class Groups:
    """The joined pairs of nodes of all graphs, in groups of one graph and one distance."""

    @speaks("AttributedPath")
    def __init__(self, X: GraphCollection, weighted: bool):
        blocks = list(joined_pairs(X, weighted))
        whole, real = np.empty(0, dtype=np.int64), np.empty(0)
        graph = np.concatenate([whole, *(np.full(len(u), g) for g, u, _, _ in blocks)])
        u, v, d = (
            np.concatenate([empty, *(block[i] for block in blocks)])
            for i, empty in ((1, whole), (2, whole), (3, real))
        )
        order = np.lexsort((v, u, d, graph))
        graph, d = graph[order], d[order]
        base = X.node_offsets[:-1][graph]
        self.sources, self.targets = u[order] - base, v[order] - base
        fresh = np.ones(len(d), dtype=bool)
        fresh[1:] = (d[1:] != d[:-1]) | (graph[1:] != graph[:-1])
        self.ends = np.append(np.flatnonzero(fresh), len(d))
        self.lengths = d[fresh]
        self.first = np.searchsorted(graph[fresh], np.arange(len(X) + 1))

    def arrays(self, g: int) -> tuple[Any, ...]:
        """Return what the loop takes for graph g."""
        first, stop = int(self.first[g]), int(self.first[g + 1])
        return self.lengths, self.ends, self.sources, self.targets, first, stop


class PathBound(CombinedBound):
    """Tiles of sums over pairs of paths, from the tiles of the kernel of the nodes."""

    def __init__(self, kernel: AttributedPath, X: GraphCollection, Y: GraphCollection | None):
        super().__init__(kernel, X, Y)
        left = Groups(X, kernel.weighted)
        self._groups = left, left if Y is None else Groups(Y, kernel.weighted)
        sizes = [float(Z.sizes.mean()) if len(Z) else 0.0 for Z in self.collections]
        self.tile_entries = max(1, int(PACE / max(1.0, sizes[0] * sizes[1] * sum(sizes))))
        self.flagged = False

    def _nodes(self, rows: slice, cols: slice) -> tuple[slice, slice]:
        a, b = (Z.node_offsets for Z in self.collections)
        return slice(a[rows.start], a[rows.stop]), slice(b[cols.start], b[cols.stop])

    def _summed(self, rows: slice, cols: slice, slopes: np.ndarray | None) -> np.ndarray:
        """Return the values of a tile; the derivatives of each in its κ go to `slopes`."""
        from mercer.jit import common_paths

        X, Y = self.collections
        over, across = self._nodes(rows, cols)
        M = np.asarray(self.parts[0].tile(over, across), dtype=float)
        if X.labelled or Y.labelled:
            M = M * (X.node_labels[over][:, None] == Y.node_labels[across])
        out = np.empty((rows.stop - rows.start, cols.stop - cols.start))
        T = np.empty((int(X.sizes[rows].max(initial=0)), int(Y.sizes[cols].max(initial=0))))
        S, none = np.empty_like(T), np.empty((0, 0))
        for i in range(rows.start, rows.stop):
            for j in range(cols.start, cols.stop):
                at, to = self._nodes(slice(i, i + 1), slice(j, j + 1))
                box = np.s_[
                    at.start - over.start : at.stop - over.start,
                    to.start - across.start : to.stop - across.start,
                ]
                graphs = (*self._groups[0].arrays(i), *self._groups[1].arrays(j))
                G, mine = none if slopes is None else slopes[box], M[box]
                n, m = mine.shape
                step = max(1, int(PACE / max(1, m * (n + m))))  # nodes of one call
                out[i - rows.start, j - cols.start] = sum(
                    common_paths(*graphs, mine, T, S, G, low, min(low + step, n))
                    for low in range(0, n, step)
                )
        return out

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on the given rows and columns."""
        return self._summed(rows, cols, None)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile, through every κ(u, u′) it is made of."""
        X, Y = self.collections
        over, across = self._nodes(rows, cols)
        slopes = np.zeros((over.stop - over.start, across.stop - across.start))
        self._summed(rows, cols, slopes)
        slopes *= np.repeat(np.repeat(C, X.sizes[rows], axis=0), Y.sizes[cols], axis=1)
        if X.labelled or Y.labelled:
            slopes *= X.node_labels[over][:, None] == Y.node_labels[across]
        return self.parts[0].pull_theta(over, across, slopes)

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> np.ndarray:
        """Return `pull_theta`."""
        return self.pull_theta(rows, cols, C)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Refuse."""
        raise InvalidInput(f"{self.name}: it has no gradient in x, since x is a graph.")


class NoNodes(Bound):
    """Tiles of zeros, where one side has no node."""

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return zeros."""
        return np.zeros((rows.stop - rows.start, cols.stop - cols.start))

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return zeros."""
        return np.zeros(len(self.kernel.theta))


class AttributedPath(Combination):
    r"""Shortest paths of equal length, their ends compared by a kernel of node attributes.

    .. math:: k(G, G') = \sum_{(u, v)} \sum_{(u', v')} 1[d(u, v) = d(u', v')]\,
        \kappa(a_u, a_{u'})\, \kappa(a_v, a_{v'})

    over ordered pairs of different nodes that a path joins, as in `ShortestPath`; a are the vectors
    of attributes of the nodes. Where nodes have labels too, ends must also have equal labels. With
    κ constant 1 it is `ShortestPath`; with κ = `Linear()` and no labels, GraKeL's
    ``ShortestPathAttr``.

    *Valid when* κ is a kernel: a sum over pairs of parts of products of kernels is one.

    Parameters
    ----------
    kernel : Kernel
        The kernel κ of the attributes; words such as ``"median"`` are resolved on all nodes.
    weighted : bool, default=True
        Whether the weight of an edge is its length; False makes every edge one long.

    Notes
    -----
    Graphs of n and m nodes take O(nm(n + m)) and the nm values of κ. Memory for the distances of
    all pairs of nodes is needed.

    Examples
    --------
    >>> from mercer import RBF, AttributedPath, Graph
    >>> near = Graph(edges=[(0, 1)], attributes=[[0.0], [1.0]])
    >>> far = Graph(edges=[(0, 1)], attributes=[[0.0], [9.0]])
    >>> AttributedPath(RBF())([near, far]).round(3)
    array([[2.736, 0.   ],
           [0.   , 2.   ]])
    """

    _parts = ("kernel",)
    _bound = PathBound  # type: ignore[assignment]
    _pointwise = False
    _grouped = True

    def __init__(self, kernel: Kernel, weighted: bool = True):
        super().__init__(kernel=kernel, weighted=weighted)

    def _check_params(self) -> None:
        super()._check_params()
        check_flag("weighted", self.weighted)
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                "AttributedPath: a precomputed kernel knows no attributes; give one of vectors."
            )

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Graphs, whatever κ compares."""
        return Graphs()

    def _route(self, X: GraphCollection) -> np.ndarray:
        return node_vectors(X, "AttributedPath", UNLIKE)

    @speaks("AttributedPath")
    def _bind(self, X: GraphCollection, Y: GraphCollection | None = None) -> Bound:
        both = (X,) if Y is None else (X, Y)
        check_vectors(X, Y, "AttributedPath", UNLIKE)
        if self.weighted:
            for Z in both:
                check_lengths(Z)
        return (PathBound if all(len(Z.attributes) for Z in both) else NoNodes)(self, X, Y)

    def _diag(self, X: GraphCollection) -> np.ndarray:
        return Kernel._diag(self, X)

    def _pull_diag(self, X: GraphCollection, c: Any) -> np.ndarray:
        return pull_own(self._bind(X), c)
