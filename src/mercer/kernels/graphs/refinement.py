"""Refinement of node labels by their neighbours, on codes of 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.domains.graphs.collection import GraphCollection
from mercer.domains.labels import mixed

__all__ = ["refinements"]

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
