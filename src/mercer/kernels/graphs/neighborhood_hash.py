"""`NeighborhoodHash`: graphs compared by the share of nodes whose hashed neighbourhoods agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.graphs import GraphCollection, Graphs
from mercer.domains.labels import mixed
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.graphs.refinement import check_rounds, refinements

__all__ = ["NeighborhoodHash"]


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
        Bits of a hash, 1 to 64. Fewer bits let different neighbourhoods agree by chance; the
        function stays a kernel.

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
        check_rounds("NeighborhoodHash", self.iterations, 1)
        whole = isinstance(self.bits, int | np.integer) and not isinstance(self.bits, bool)
        if not whole or not 1 <= self.bits <= 64:
            raise InvalidInput(
                f"NeighborhoodHash: bits={self.bits!r}; it must be a whole number from 1 to 64."
            )

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return AgreementBound(self, X, Y)

    def _diag(self, X: Any) -> np.ndarray:
        return (X.sizes > 0).astype(float)


class AgreementBound(Bound):
    """Tiles of ¹⁄ₕ Σ m_r/(n + n′ − m_r), from products that give m_r."""

    def __init__(self, kernel: NeighborhoodHash, X: GraphCollection, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.flagged = False
        rounds = [Occurrences(r, kernel.bits) for r in range(1, kernel.iterations + 1)]
        self._rounds = [common._bind(X, Y) for common in rounds]
        self._sizes = [points.sizes.astype(float) for points in self.collections]
        costs = [bound.tile_entries for bound in self._rounds if bound.tile_entries is not None]
        self.tile_entries = min(costs) // len(rounds) or 1 if costs else None

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return the mean agreement of the rounds on a tile."""
        left, right = self._sizes
        nodes = left[rows, None] + right[None, cols]
        total = np.zeros_like(nodes)
        for bound in self._rounds:
            common = bound.tile(rows, cols)
            total += common / np.maximum(nodes - common, 1.0)  # 0/1 for two graphs without nodes
        return total / len(self._rounds)


class Occurrences(Counted):
    """Numbered occurrences of hashes after some rounds: their product counts Σ min(c, c′).

    min(c, c′) = Σ_k [c ≥ k][c′ ≥ k], so the k-th occurrence of a hash is a part of its own.
    """

    domain = Graphs()

    def __init__(self, rounds: int, bits: int):
        super().__init__(rounds=rounds, bits=bits)

    def _counts(self, X: Any) -> Counts:
        mask = np.uint64(2**self.bits - 1)
        *_, codes = refinements(X, self.rounds, mask)
        rows = X.owners
        order = np.lexsort((codes, rows))
        codes = codes[order]  # the rows are in order already
        new = np.append(True, (np.diff(codes) != 0) | (np.diff(rows) != 0))[: len(codes)]
        starts = np.flatnonzero(new)
        rank = np.arange(len(codes)) - starts[np.cumsum(new) - 1]
        return Counts(len(X), rows, mixed(mixed(codes) + rank.astype(np.uint64)))
