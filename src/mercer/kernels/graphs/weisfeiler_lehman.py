"""`WeisfeilerLehman`: graphs compared by the neighbourhoods of their nodes, round by round."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.graphs.collection import Graphs
from mercer.kernels.checks import check_whole
from mercer.kernels.counted import Counted, Counts
from mercer.kernels.graphs.refinement import refinements

__all__ = ["WeisfeilerLehman"]


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
        check_whole("WeisfeilerLehman", "iterations", self.iterations, 0)

    def _counts(self, X: Any) -> Counts:
        levels = list(refinements(X, self.iterations))
        codes = np.stack(levels, axis=1).reshape(-1)
        return Counts(len(X), np.repeat(X.owners, len(levels)), codes)
