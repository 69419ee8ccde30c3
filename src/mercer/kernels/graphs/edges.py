"""What kernels that follow edges share: checks, derivatives, and work cut into short calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.domains.graphs.collection import GraphCollection
from mercer.errors import InvalidInput
from mercer.kernels.bound import Bound

__all__ = ["LARGEST", "PACE", "check_flag", "negative_edge", "pull_own", "runs"]

LARGEST = 700.0  # exponent; exp of it is near the largest float
PACE = 1e7  # products that make a tile: some 10 ms


def check_flag(owner: str, name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{owner}: {name}={value!r}; give True or False.")


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
