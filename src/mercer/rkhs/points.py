"""Collections of points put together, told apart, and searched for equal points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, Packed, Table
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["apart", "concatenate", "first_equal", "same"]


def concatenate(domain: Domain, A: Any, B: Any) -> Any:
    """Return the points of A followed by those of B, two canonical collections of one domain.

    Parameters
    ----------
    domain : Domain
        What a point is.
    A, B : canonical collections
        As returned by ``domain.check``.
    """
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.ndim == B.ndim == 1:
        return np.concatenate([A, B])  # positions, or numbers as objects
    A, B = domain.match(A, B)
    if isinstance(A, Packed) and type(A) is type(B):
        return A.joined(B)
    if isinstance(A, Table) and isinstance(B, Table):
        if set(A.names) != set(B.names):
            raise InvalidInput(
                f"Function: points with columns {list(A.names)} and {list(B.names)} do not go "
                "together; choose the same columns first."
            )
        return Table({name: np.concatenate([A[name], B[name]]) for name in A.names})
    if is_torch(A) and is_torch(B):
        import torch

        return torch.cat([A, B])
    if sp.issparse(A) and sp.issparse(B):
        return sp.vstack([A, B]).tocsr()
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.shape[1:] == B.shape[1:]:
        return np.concatenate([A, B])
    if isinstance(A, tuple | np.ndarray) and isinstance(B, tuple | np.ndarray):
        return (*A, *B)
    raise InvalidInput(
        f"Function: points held as {type(A).__name__} and as {type(B).__name__} do not go "
        "together; bring both to one form first."
    )


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
