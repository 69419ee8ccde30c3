"""`VertexHistogram`: graphs compared by how often each node label occurs."""

from __future__ import annotations

from typing import Any

from mercer.domains.graphs.collection import Graphs
from mercer.kernels.counted import Counted, Counts

__all__ = ["VertexHistogram"]


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
