"""`AttributedPath`: shortest paths whose ends are compared by a kernel of their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import Domain, GramRows
from mercer.domains.graphs.collection import GraphCollection, Graphs, widths_of
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.combination import Combination
from mercer.kernels.graphs.edges import PACE, check_flag, pull_own
from mercer.kernels.graphs.shortest_path import check_lengths, joined_pairs

__all__ = ["AttributedPath"]


class Groups:
    """The joined pairs of nodes of all graphs, in groups of one graph and one distance."""

    def __init__(self, X: GraphCollection, weighted: bool):
        blocks = list(joined_pairs(X, weighted, "AttributedPath"))
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
        from mercer.jit.graphs import common_paths

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
        check_flag("AttributedPath", "weighted", self.weighted)
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                "AttributedPath: a precomputed kernel knows no attributes; give one of vectors."
            )

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Graphs, whatever κ compares."""
        return Graphs()

    def _route(self, X: GraphCollection) -> np.ndarray:
        if not len(X.attributes):  # no nodes
            return np.zeros((0, 1))
        widths = widths_of(X.attributes)
        odd = np.flatnonzero(widths != widths[0])
        if len(odd):
            raise InvalidInput(
                f"AttributedPath: graph {X.owners[0]} has {widths[0]} attributes a node and graph "
                f"{X.owners[odd[0]]} has {widths[odd[0]]}; give all nodes vectors of one length."
            )
        if widths[0] == 0:
            raise InvalidInput(
                "AttributedPath: the nodes of these graphs have no attributes; give them with "
                "mercer.Graph(..., attributes=...), or use ShortestPath, which compares labels."
            )
        return X.attributes

    def _bind(self, X: GraphCollection, Y: GraphCollection | None = None) -> Bound:
        both = (X,) if Y is None else (X, Y)
        widths = [self._route(Z).shape[1] for Z in both if len(Z.attributes)]
        if len(set(widths)) > 1:
            raise InvalidInput(
                f"AttributedPath: nodes of X have {widths[0]} attributes and nodes of Y (of a "
                f"model: the training graphs) {widths[1]}; give both the same."
            )
        if self.weighted:
            for Z in both:
                check_lengths(Z, "AttributedPath")
        return (PathBound if all(len(Z.attributes) for Z in both) else NoNodes)(self, X, Y)

    def _diag(self, X: GraphCollection) -> np.ndarray:
        return Kernel._diag(self, X)

    def _pull_diag(self, X: GraphCollection, c: Any) -> np.ndarray:
        return pull_own(self._bind(X), c)
