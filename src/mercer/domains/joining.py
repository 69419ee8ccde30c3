"""Canonical collections put one after the other, and taken apart, whatever they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain
from mercer.domains.packed import Packed
from mercer.domains.tables import Table
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["concatenate", "some_points"]


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
        return A.joined(B)
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
        f"Points: points held as {type(A).__name__} and as {type(B).__name__} do not go "
        "together; bring both to one form first."
    )


def some_points(points: Any, index: Any) -> Any:
    """Return the points at a slice or at positions."""
    if isinstance(points, Packed | Table):
        return points.take(index)
    if isinstance(points, tuple) and not isinstance(index, slice):
        return tuple(points[int(i)] for i in index)
    return points[index]
