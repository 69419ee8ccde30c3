"""Which points of a collection are equal: a hashable key for every point."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.packed import Packed
from mercer.domains.tables import Table
from mercer.domains.vectors import to_host

__all__ = ["point_keys"]


def point_keys(X: Any) -> list[Hashable] | None:
    """Return a key for each point of a canonical collection, equal for equal points.

    Lists, dicts and arrays among objects count as equal when what they hold is. None when some
    point is of a kind that cannot be compared.

    Examples
    --------
    >>> from mercer.domains.equality import point_keys
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
