"""What kernels that follow edges share: weights that are none, and work cut into short calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.domains.graphs import GraphCollection

__all__ = ["negative_edge", "runs"]


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
