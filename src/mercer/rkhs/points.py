"""Collections of points put together, told apart, and searched for equal points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import Domain, Packed
from mercer.domains.points import concatenate

__all__ = ["apart", "concatenate", "first_equal", "same"]


def apart(domain: Domain, X: Any) -> Any:
    """Return the same points as another object, so that k(X, points) does not read as k(X)."""
    return list(X) if isinstance(X, tuple) else domain.take(X, slice(None))


def same(A: Any, B: Any) -> bool:
    """Whether two collections are one: the same object, or arrays of the same points."""
    if A is B:
        return True
    if isinstance(A, Packed):
        return A == B
    arrays = isinstance(A, np.ndarray) and isinstance(B, np.ndarray)
    return arrays and A.dtype.kind != "O" and np.array_equal(A, B)


def first_equal(X: Any) -> np.ndarray:
    """Return for each point the position of the first point equal to it.

    Points that cannot be compared (sparse rows, tables, tensors, unhashable objects) count as
    different.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    own = np.arange(n)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiubUS" and X.ndim in (1, 2) and n:
        _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
        return first[inverse.reshape(-1)]
    if isinstance(X, tuple | Packed):
        seen: dict[Any, int] = {}
        try:
            return np.array([seen.setdefault((type(x), x), i) for i, x in enumerate(X)], dtype=int)
        except TypeError:
            return own
    return own
