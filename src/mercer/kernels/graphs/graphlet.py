"""`Graphlet`: graphs compared by their small induced subgraphs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from mercer.domains import GraphCollection, Graphs
from mercer.errors import InvalidInput, who
from mercer.kernels.bound import Bound
from mercer.kernels.user import Explicit

# ---- What kernels that follow edges share: checks, derivatives, and work cut into short calls ----


LARGEST = 700.0  # exponent; exp of it is near the largest float
PACE = 1e7  # products that make a tile: some 10 ms


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{who()}: {name}={value!r}; give True or False.")


def negative_edge(X: GraphCollection) -> tuple[int, float] | None:
    """Return the graph and the weight of the first edge of negative weight, or None."""
    bad = X.weights < 0
    if not bad.any():
        return None
    e = int(np.argmax(bad))
    node = int(np.searchsorted(X.indptr, e, side="right")) - 1
    return int(X.owners[node]), float(X.weights[e])


def runs(work: np.ndarray, step: int) -> Iterator[tuple[int, int]]:
    """Cut items into runs of about `step` work, at least one each, so that Ctrl-C is heard."""
    ends, start = np.cumsum(work), 0
    while start < len(ends):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + step, side="right")))
        yield start, stop
        start = stop


def pull_own(bound: Bound, c: Any) -> np.ndarray:
    """Return Σᵢ cᵢ ∂k(xᵢ, xᵢ)/∂θ from tiles of one entry."""
    total = np.zeros(len(bound.kernel.theta))
    for i, weight in enumerate(np.asarray(c, dtype=float)):
        one = slice(i, i + 1)
        total += bound.pull_theta(one, one, np.full((1, 1), weight))
    return total


# ---- graphlet ----


STEP = 5_000_000  # visits of a node in one call, some 10 ms
KINDS = {  # connected ones first: (connected, all)
    3: (2, 4),
    4: (6, 11),
    5: (21, 34),
}


class Graphlet(Explicit):
    r"""Inner product of the numbers of induced subgraphs of each kind with a given number of nodes.

    .. math:: k(G, G') = \sum_g \#_g(G)\, \#_g(G')

    where #_g(G) counts the sets of nodes of G on which its edges form a graph isomorphic to g.
    Weights, labels and loops are not looked at; directed graphs are refused. Large graphs have
    large counts: ``Graphlet().normalized()`` compares their shares instead.

    *Valid when* always: an inner product is positive semidefinite.

    Parameters
    ----------
    size : {3, 4, 5}, default=4
        The number of nodes of a subgraph.
    connected : bool, default=True
        Whether only connected graphs g count: 2, 6 or 21 kinds. False counts all 4 or 11 graphs
        of 3 or 4 nodes; of 5 nodes only connected ones are counted. In sparse graphs most sets of
        nodes have no edge, and outweigh the others.

    Notes
    -----
    Counts are exact. Sizes 3 and 4 are computed from degrees, triangles, 4-cycles and 4-cliques:
    O(Σ d²), for size 4 also the time to list the triangles and, for each, the neighbours that make
    it a clique. Size 5 lists all connected sets of 5 nodes. A complete graph of n nodes takes n³/6,
    n⁴/24 and n⁵/120 steps. Features are the counts, in the order: path,
    triangle; star, path, paw, cycle, diamond, clique; for 5 nodes by rising number of edges.
    Disconnected kinds come after: one edge, none; triangle and node, path and node, two edges, one
    edge, none.

    Examples
    --------
    >>> from mercer import Graph, Graphlet
    >>> ring = Graph(edges=[(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> kite = Graph(edges=[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> Graphlet(3).features([ring, kite])  # paths, triangles
    array([[4., 0.],
           [2., 2.]])
    >>> Graphlet(3)([ring, kite])
    array([[16.,  8.],
           [ 8.,  8.]])
    """

    domain = Graphs()

    def __init__(self, size: int = 4, connected: bool = True):
        super().__init__(size=size, connected=connected)

    def _check_params(self) -> None:
        whole = isinstance(self.size, int | np.integer) and not isinstance(self.size, bool)
        if not whole or self.size not in KINDS:
            raise InvalidInput(f"Graphlet: size={self.size!r}; legal are 3, 4 and 5.")
        check_flag("connected", self.connected)
        if self.size == 5 and not self.connected:
            raise InvalidInput(
                "Graphlet: size=5 counts connected graphs only; use connected=True, or size=4."
            )

    def _n_features(self, X: Any) -> int:
        return KINDS[int(self.size)][0 if self.connected else 1]

    def _features(self, X: GraphCollection) -> np.ndarray:
        if X.directed:
            raise InvalidInput(
                "Graphlet: the graphs are directed, and graphlets have no directions; make them "
                "undirected, for example with G.to_undirected() of networkx."
            )
        graphs = _Simple(X)
        if self.size == 5:
            return _listed(graphs, 5).astype(float)
        rows = _of_three(graphs) if self.size == 3 else _of_four(graphs)
        D = self._n_features(X)
        return np.array([row[:D] for row in rows], dtype=float).reshape(len(X), D)


class _Simple:
    """The neighbours of all nodes, without loops."""

    def __init__(self, X: GraphCollection):
        source = X.sources
        kept = source != X.indices
        self.source, self.indices = source[kept], X.indices[kept]
        self.n, self.sizes, self.owners = len(X), X.sizes, X.owners
        self.degrees = np.bincount(self.source, minlength=len(self.owners))
        self.indptr = np.concatenate([[0], np.cumsum(self.degrees)])

    @property
    def pairs(self) -> np.ndarray:
        """The number of pairs of edges that meet, in each graph."""
        return self.per_graph(self.degrees * (self.degrees - 1) // 2)

    def per_graph(self, values: np.ndarray) -> np.ndarray:
        """Return the sums of whole numbers, one a node, over each graph."""
        out = np.zeros(self.n, dtype=np.int64)
        np.add.at(out, self.owners, values)
        return out


def _of_three(graphs: _Simple) -> Iterator[list[int]]:
    """Yield for each graph the numbers of paths, triangles, single edges and empty triples."""
    from mercer.jit import count_triangles

    d, indices = graphs.degrees, graphs.indices
    triangles = np.zeros(graphs.n, dtype=np.int64)
    mark = np.zeros(len(d), dtype=np.int64)
    for first, stop in runs(d[graphs.source] + d[indices], STEP):
        count_triangles(
            graphs.indptr, indices, graphs.source, graphs.owners, first, stop, mark, triangles
        )
    columns = (graphs.sizes, graphs.per_graph(d) // 2, graphs.pairs, triangles)
    for n, m, pairs, triangle in (map(int, row) for row in zip(*columns, strict=True)):
        path = pairs - 3 * triangle
        edge = m * (n - 2) - 2 * path - 3 * triangle if n > 2 else 0
        yield [path, triangle, edge, comb(n, 3) - path - triangle - edge]


def _of_four(graphs: _Simple) -> Iterator[list[int]]:
    """Yield for each graph the numbers of graphlets of 4 nodes, connected ones first."""
    from mercer.jit import count_closed, count_squares

    N, d = len(graphs.owners), graphs.degrees
    indptr, indices, owners = graphs.indptr, graphs.indices, graphs.owners
    closed = np.zeros((graphs.n, 5), dtype=np.int64)
    squares = np.zeros(graphs.n, dtype=np.int64)
    mark, inside = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
    common = np.empty(d.max(initial=0), dtype=np.int64)
    du, dv = d[graphs.source], d[indices]
    for first, stop in runs(du + dv + np.minimum(du, dv) * d.max(initial=0), STEP):
        count_closed(
            indptr, indices, graphs.source, owners, first, stop, mark, inside, common, closed
        )
    ways = np.bincount(graphs.source, weights=dv, minlength=N)
    hits = np.zeros(N, dtype=np.int64)
    for first, stop in runs(ways + 1, STEP):
        count_squares(indptr, indices, owners, first, stop, hits, squares)
    triples = graphs.per_graph(d * (d - 1) // 2 * (d - 2) // 3)
    edges = graphs.per_graph(d) // 2
    columns = (graphs.sizes, edges, graphs.pairs, triples, *closed.T, squares // 2)
    return (_induced(*map(int, row)) for row in zip(*columns, strict=True))


def _induced(
    n: int, m: int, pairs: int, triples: int, ways: int, triangles: int, twins: int, leaving: int,
    full: int, squares: int,
) -> list[int]:  # fmt: skip
    """Numbers of induced subgraphs of four nodes, from the numbers of all subgraphs.

    Each line counts the copies of a graph in a graph of four nodes with more edges, and takes them
    off: a clique has 6 diamonds, 3 cycles, 12 paws, 4 stars, 12 paths, and so on.
    """
    clique = full
    diamond = twins - 6 * clique
    cycle = squares - diamond - 3 * clique
    paw = leaving - 4 * diamond - 12 * clique
    star = triples - paw - 2 * diamond - 4 * clique
    path = (ways - 3 * triangles) - 4 * cycle - 2 * paw - 6 * diamond - 12 * clique
    if n < 4:
        return [0] * 11
    lone = triangles * (n - 3) - paw - 2 * diamond - 4 * clique
    bent = pairs * (n - 3) - 3 * lone - 3 * star - 2 * path - 5 * paw - 4 * cycle
    bent -= 8 * diamond + 12 * clique
    two = comb(m, 2) - pairs - path - paw - 2 * cycle - 2 * diamond - 3 * clique
    held = 3 * (lone + star + path) + 2 * (bent + two) + 4 * (paw + cycle)
    edge = m * comb(n - 2, 2) - held - 5 * diamond - 6 * clique
    kinds = [star, path, paw, cycle, diamond, clique, lone, bent, two, edge]
    return [*kinds, comb(n, 4) - sum(kinds)]


def _listed(graphs: _Simple, size: int) -> np.ndarray:
    """Return the numbers of connected graphlets, by listing the sets of nodes."""
    from mercer.jit import count_connected

    kinds, n_kinds = _kinds(size)
    N, widest = len(graphs.owners), int(graphs.sizes.max(initial=0))
    out = np.zeros((graphs.n, n_kinds), dtype=np.int64)
    chosen, codes = np.zeros(size, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    open_ = np.empty((size + 1, widest), dtype=np.int64)
    n_open, kept, fresh = np.zeros((3, size + 1), dtype=np.int64)
    place, near = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=bool)
    state = np.zeros(2, dtype=np.int64)
    while not count_connected(
        graphs.indptr, graphs.indices, graphs.owners, kinds, chosen, codes, open_, n_open, kept,
        fresh, place, near, state, STEP, out,
    ):  # fmt: skip
        pass
    return out


@lru_cache(maxsize=4)
def _kinds(size: int) -> tuple[np.ndarray, int]:
    """Return the kind of every graph on `size` nodes, given by bits of its edges, and their number.

    The bit of edge (i, j), i < j, is j(j − 1)/2 + i. Kinds of connected graphs are numbered by
    edges; other graphs have −1.
    """
    pairs = [(i, j) for j in range(size) for i in range(j)]
    codes = np.arange(2 ** len(pairs))
    least = codes.copy()
    for order in itertools.permutations(range(size)):
        other = np.zeros_like(codes)
        for bit, (i, j) in enumerate(pairs):
            a, b = sorted((order[i], order[j]))
            other |= ((codes >> bit) & 1) << pairs.index((a, b))
        least = np.minimum(least, other)
    reach = [np.full(len(codes), 1 << i) for i in range(size)]  # what node i reaches, as bits
    for _ in range(size):
        for bit, (i, j) in enumerate(pairs):
            joined = np.where((codes >> bit) & 1, reach[i] | reach[j], 0)
            reach[i], reach[j] = reach[i] | joined, reach[j] | joined
    whole = reach[0] == 2**size - 1
    edges = np.array([int(c).bit_count() for c in codes])
    names = sorted({(int(edges[c]), int(least[c])) for c in codes[whole]})
    number = {name: i for i, (_, name) in enumerate(names)}
    kinds = np.array([number[int(least[c])] if whole[c] else -1 for c in codes])
    kinds.flags.writeable = False
    return kinds, len(names)
