"""Graphs compared by labels of nodes, refined by what is around them: counted, paired, hashed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer.checks import check_whole
from mercer.domains import Domain, GraphCollection, Graphs, mixed
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.counted import Counted, Counts

# ---- `VertexHistogram`: graphs compared by how often each node label occurs ----


class VertexHistogram(Counted):
    r"""Common node labels: k(G, G′) = Σ_ℓ c_ℓ(G) c_ℓ(G′), with c_ℓ the number of nodes labelled ℓ.

    Edges, weights and attributes do not enter. Graphs without labels have one common label, so that
    k is the product of their numbers of nodes. A graph without nodes has the value 0 with all.

    *Valid when* always: it is the inner product of the vectors of counts.

    Notes
    -----
    O(N log N) for N nodes in all, and a product of sparse counts.

    Examples
    --------
    >>> import mercer
    >>> water = mercer.Graph(edges=[(0, 1), (0, 2)], labels=["O", "H", "H"])
    >>> oxygen = mercer.Graph(edges=[(0, 1)], labels=["O", "O"])
    >>> mercer.VertexHistogram()([water, oxygen])
    array([[5., 2.],
           [2., 4.]])
    """

    domain = Graphs()

    def __init__(self) -> None:
        super().__init__()

    def _counts(self, X: Any) -> Counts:
        return Counts(len(X), X.owners, X.node_labels)


# ---- Refinement of node labels by their neighbours, on codes of 64 bits ----


FULL = np.uint64(2**64 - 1)


def refinements(X: GraphCollection, rounds: int, mask: np.uint64 = FULL) -> Iterator[np.ndarray]:
    """Yield the codes of all nodes before the first round and after each.

    One round of Weisfeiler and Leman gives a node the pair of its code and the multiset of codes
    around it. Here the multiset is the sum of mixed codes modulo 2⁶⁴, which does not depend on
    their order, and a key for each round keeps rounds apart. ``mask`` keeps some bits of each code.

    Parameters
    ----------
    X : GraphCollection
        The graphs. Neighbours are the nodes that an edge leads to; labels of edges, where there
        are any, are part of what is around.
    rounds : int
        Number of rounds.
    mask : uint64
        Bits that are kept.
    """
    codes = X.node_labels & mask
    yield codes
    for r in range(1, rounds + 1):
        key = np.uint64(2 * r)
        around = mixed(codes + mixed(np.array([key + np.uint64(1)])))[X.indices]
        if X.edge_labelled:
            around = mixed(around ^ mixed(X.edge_labels))
        # Differences of running sums: exact, since sums modulo 2⁶⁴ have inverses.
        running = np.zeros(len(around) + 1, dtype=np.uint64)
        np.cumsum(around, out=running[1:])
        total = running[X.indptr[1:]] - running[X.indptr[:-1]]
        codes = mixed(mixed(codes ^ mixed(np.array([key]))) + total) & mask
        yield codes


# ---- `WeisfeilerLehman`: graphs compared by the neighbourhoods of their nodes, round by round ----


class WeisfeilerLehman(Counted):
    r"""Common subtrees: k(G, G′) = Σ_{r=0}^{h} Σ_ℓ c_{r,ℓ}(G) c_{r,ℓ}(G′).

    Round 0 has the labels of the nodes. In each round a node gets a new label for its old one and
    the multiset of old labels around it, so that after r rounds it stands for all that can be seen
    within r steps. c_{r,ℓ} counts the nodes with label ℓ after r rounds (Shervashidze and others,
    2011). With h = 0 it is `VertexHistogram`.

    *Valid when* always: it is the inner product of the vectors of counts. Graphs that refinement
    cannot tell apart, such as two triangles and one hexagon without labels, are one point.

    Parameters
    ----------
    iterations : int, default=5
        The number h ≥ 0 of rounds.

    Notes
    -----
    New labels are numbers of 64 bits computed from the old ones, the same in every process, so new
    graphs need no dictionary of the training graphs. Two different neighbourhoods share a number
    with probability at most ``collision_probability(X)``.

    Labels of edges, where there are any, belong to what is around a node. Weights and attributes do
    not enter. In directed graphs the nodes around are those that edges lead to. Graphs without
    labels begin with one common label, so that round 1 tells degrees. O(h(N + E)) for N nodes and E
    edges, and a product of sparse counts.

    Examples
    --------
    >>> import networkx as nx
    >>> import mercer
    >>> k = mercer.WeisfeilerLehman(iterations=2)
    >>> k([nx.path_graph(3), nx.cycle_graph(3), nx.star_graph(3)])
    array([[19., 12., 18.],
           [12., 27., 12.],
           [18., 12., 36.]])
    """

    domain = Graphs()

    def __init__(self, iterations: int = 5):
        super().__init__(iterations=iterations)

    def _check_params(self) -> None:
        check_whole("iterations", self.iterations, 0)

    def _counts(self, X: Any) -> Counts:
        return Counts(len(X), *all_refinements(X, self.iterations))


def all_refinements(X: GraphCollection, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of all nodes in all rounds, graph by graph, and the graph of each."""
    levels = list(refinements(X, rounds))
    return np.repeat(X.owners, len(levels)), np.stack(levels, axis=1).reshape(-1)


# ---- `WeisfeilerLehmanOptimalAssignment`: nodes paired so that they agree for most rounds ----


class WeisfeilerLehmanOptimalAssignment(Counted):
    r"""The best pairing of nodes: k(G, G′) = max_B Σ_{(u,v) ∈ B} κ(u, v), B pairs each node once.

    κ(u, v) is the number of rounds r = 0, …, h after which u and v have the same label, in the
    refinement of `WeisfeilerLehman`; of graphs of different sizes, the larger has nodes left over.
    Labels that differ stay different, so that the rounds make a hierarchy, and the best pairing is
    an intersection of histograms (Kriege, Giscard and Wilson, 2016):

        k(G, G′) = Σ_{r=0}^{h} Σ_ℓ min(c_{r,ℓ}(G), c_{r,ℓ}(G′))

    with c_{r,ℓ} the number of nodes with label ℓ after r rounds. Values grow as the number of
    nodes, those of `WeisfeilerLehman` as its square, so that there common labels outweigh rare
    ones. A graph without nodes has the value 0 with all.

    *Valid when* always: min(c, c′) = Σ_i [c ≥ i][c′ ≥ i] is the inner product of indicators of the
    first, second, … occurrence of a label. Optimal assignments by other κ need not be kernels.

    Parameters
    ----------
    iterations : int, default=5
        The number h ≥ 0 of rounds.

    Notes
    -----
    No assignment is solved: O(h(N + E)) for N nodes and E edges, a sort, and a product of sparse
    indicators. Labels of edges, weights, directions and graphs without labels are as in
    `WeisfeilerLehman`. The values are those of GraKeL's kernel of this name with
    ``n_iter=iterations``.

    Examples
    --------
    >>> import networkx as nx
    >>> import mercer
    >>> k = mercer.WeisfeilerLehmanOptimalAssignment(iterations=2)
    >>> k([nx.path_graph(3), nx.cycle_graph(3), nx.star_graph(3)])
    array([[ 9.,  4.,  5.],
           [ 4.,  9.,  3.],
           [ 5.,  3., 12.]])
    """

    domain = Graphs()

    def __init__(self, iterations: int = 5):
        super().__init__(iterations=iterations)

    def _check_params(self) -> None:
        check_whole("iterations", self.iterations, 0)

    def _counts(self, X: Any) -> Counts:
        return occurrences(len(X), *all_refinements(X, self.iterations))


# ---- neighborhood hash ----


class NeighborhoodHash(Kernel):
    r"""Agreement of hashed neighbourhoods: k(G, G′) = ¹⁄ₕ Σ_{r=1}^{h} m_r/(n + n′ − m_r).

    After r rounds every node has a hash of its label and of the hashes around it, as in
    `WeisfeilerLehman`. m_r is how many nodes of G and G′ can be paired with equal hashes, and n and
    n′ are the numbers of nodes, so that each term is the share of agreement, from 0 to 1 (Hido and
    Kashima, 2009). A graph without nodes has the value 0 with all.

    *Valid when* always: m_r = Σ_ℓ min(c_ℓ, c′_ℓ) and n + n′ − m_r = Σ_ℓ max(c_ℓ, c′_ℓ) for the
    counts c of hashes, and the ratio of the sums of minima and of maxima is a kernel (it is the
    Jaccard index of sets of numbered occurrences).

    Parameters
    ----------
    iterations : int, default=3
        The number h ≥ 1 of rounds.
    bits : int, default=64
        Bits of a hash, 1 to 64. Fewer bits let different neighbourhoods agree by chance, at most
        with ``collision_probability(X)``; the function stays a kernel.

    Notes
    -----
    The hashes mix and add what is around a node where Hido and Kashima rotate bits and combine them
    by exclusive or, so that no table of random labels is needed and neighbourhoods are not confused
    by rule: with their hashes a node a beside one b is the same as b beside one a. Values are
    therefore at most those of GraKeL's ``NeighborhoodHash(R=iterations)``. Labels of edges, weights
    and directions enter as in `WeisfeilerLehman`. O(h(N + E)) for N nodes and E edges, and h
    products of sparse indicators.

    Examples
    --------
    >>> import networkx as nx
    >>> import mercer
    >>> k = mercer.NeighborhoodHash(iterations=1)
    >>> k([nx.path_graph(3), nx.path_graph(4), nx.cycle_graph(4)]).round(3)
    array([[1.   , 0.75 , 0.167],
           [0.75 , 1.   , 0.333],
           [0.167, 0.333, 1.   ]])
    """

    domain = Graphs()

    def __init__(self, iterations: int = 3, bits: int = 64):
        super().__init__(iterations=iterations, bits=bits)

    def _check_params(self) -> None:
        check_whole("iterations", self.iterations, 1)
        check_whole("bits", self.bits, 1)
        if self.bits > 64:
            raise InvalidInput(f"NeighborhoodHash: bits={self.bits!r}; there are at most 64.")

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return AgreementBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        return (X.sizes > 0).astype(float)

    def collision_probability(self, X: Any) -> float:
        """Return a bound of the probability that two different neighbourhoods of X share a hash.

        N different ones collide with probability at most N(N − 1)/2^(bits + 1), labels and all
        rounds added, and 1 where that is more. They are told apart by hashes of 64 bits.

        Parameters
        ----------
        X : list of graphs
            The graphs, training and new ones together where both are to be judged.
        """
        different = [
            len(np.unique(codes)) for codes in refinements(self.domain.check(X), self.iterations)
        ]
        pairs = sum(n * (n - 1) for n in different)
        return min(1.0, pairs / 2.0 ** (int(self.bits) + 1))


class AgreementBound(Bound):
    """Tiles of ¹⁄ₕ Σ m_r/(n + n′ − m_r), from products that give m_r."""

    def __init__(self, kernel: NeighborhoodHash, X: GraphCollection, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.flagged = False
        sides = [hashes_of(kernel, Z) for Z in ((X,) if Y is None else (X, Y))]
        self._rounds = [Occurrences()._bind(*both) for both in zip(*sides, strict=True)]
        self._sizes = [points.sizes.astype(float) for points in self.collections]
        costs = [bound.tile_entries for bound in self._rounds if bound.tile_entries is not None]
        self.tile_entries = min(costs) // len(self._rounds) or 1 if costs else None

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return the mean agreement of the rounds on a tile."""
        left, right = self._sizes
        nodes = left[rows, None] + right[None, cols]
        total = np.zeros_like(nodes)
        for bound in self._rounds:
            common = bound.tile(rows, cols)
            total += common / np.maximum(nodes - common, 1.0)  # 0/1 for two graphs without nodes
        return total / len(self._rounds)


class Hashes(NamedTuple):
    """The hashes of all nodes of n graphs after a round."""

    n: int
    owners: np.ndarray
    codes: np.ndarray


def hashes_of(kernel: NeighborhoodHash, X: GraphCollection) -> list[Hashes]:
    """Return the hashes after each round but the first, which has the labels."""
    levels = refinements(X, int(kernel.iterations), np.uint64(2 ** int(kernel.bits) - 1))
    return [Hashes(len(X), X.owners, codes) for codes in levels][1:]


class HashedGraphs(Domain):
    """Graphs of which the hashes of one round are known."""

    name = "hashed graphs"

    def size(self, X: Hashes) -> int:
        """Return the number of graphs."""
        return X.n


class Occurrences(Counted):
    """Numbered occurrences of hashes in a round: their product counts Σ min(c, c′).

    min(c, c′) = Σ_k [c ≥ k][c′ ≥ k], so the k-th occurrence of a hash is a part of its own.
    """

    domain = HashedGraphs()

    def __init__(self) -> None:
        super().__init__()

    def _counts(self, X: Hashes) -> Counts:
        return occurrences(*X)


def occurrences(n: int, rows: np.ndarray, codes: np.ndarray) -> Counts:
    """Count the first, second, … occurrence of a code in a point as different parts."""
    order = np.lexsort((codes, rows))
    codes = codes[order]  # the rows are in order already
    new = np.append(True, (np.diff(codes) != 0) | (np.diff(rows) != 0))[: len(codes)]
    starts = np.flatnonzero(new)
    rank = np.arange(len(codes)) - starts[np.cumsum(new) - 1]
    return Counts(n, rows, mixed(mixed(codes) + rank.astype(np.uint64)))
