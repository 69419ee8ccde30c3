"""Canonical collections put one after the other, and taken apart, whatever they hold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain
from mercer.domains.packed import Packed
from mercer.domains.tables import Table
from mercer.domains.vectors import is_torch, to_host
from mercer.errors import InvalidInput


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


# ---- Which points of a collection are equal: a hashable key for every point ----


def point_keys(X: Any) -> list[Hashable] | None:
    """Return a key for each point of a canonical collection, equal for equal points.

    Lists, dicts and arrays among objects count as equal when what they hold is. None when some
    point is of a kind that cannot be compared.

    Examples
    --------
    >>> from mercer.domains.points import point_keys
    >>> keys = point_keys(([1, 2], "a", [1, 2]))
    >>> keys[0] == keys[2], keys[0] == keys[1]
    (True, False)
    """
    X = to_host(X)
    X = X.toarray() if sp.issparse(X) else X
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and X.ndim >= 1:
        numbers = X.astype(np.float64) + 0.0  # of one kind; and −0.0 and 0.0 are one number
        return [row.tobytes() for row in np.ascontiguousarray(numbers)]
    points = X
    if isinstance(X, Table):
        points = list(zip(*(column.tolist() for column in X.columns), strict=True))
    elif not isinstance(X, Packed):
        points = list(X)
    try:
        return [_key(point) for point in points]
    except TypeError:
        return None


def _key(point: Any) -> Hashable:
    if isinstance(point, np.ndarray):
        return "array", point.shape, point.dtype.str, tuple(point.reshape(-1).tolist())
    if isinstance(point, list | tuple):
        return type(point).__name__, tuple(map(_key, point))
    if isinstance(point, Mapping):
        return "mapping", frozenset((name, _key(value)) for name, value in point.items())
    hash(point)
    return point
