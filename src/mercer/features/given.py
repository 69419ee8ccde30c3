"""Points that a parameter holds: landmarks, centres and prototypes of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import GramRows, Vectors
from mercer.domains.blocks.rows import RowBlocks
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput
from mercer.kernels import Kernel

__all__ = ["given_points"]


def given_points(kernel: Kernel, X: Any, points: Any, name: str, owner: str) -> Any:
    """Return points of the user as a canonical collection that goes with the rows, in main memory.

    Parameters
    ----------
    kernel : Kernel
        What a point is.
    X : canonical collection, or RowBlocks
        The rows.
    points : collection
        The points; of a precomputed kernel positions of training points.
    name : str
        The parameter that holds them, for messages.
    owner : str
        The estimator, for messages.
    """
    domain = kernel.domain
    if isinstance(domain, GramRows):
        n, index = X.shape[1], np.asarray(points)
        whole = index.ndim == 1 and index.dtype.kind in "iu" and len(index) > 0
        if not whole or index.min() < 0 or index.max() >= n:
            raise InvalidInput(
                f"{owner}: with a precomputed kernel {name} are positions of training points, "
                f"one or more whole numbers from 0 to {n - 1}."
            )
        return index.astype(np.int64)
    none = isinstance(points, list | tuple) and not points
    none = points.size == 0 if isinstance(points, np.ndarray) else none
    try:
        points = points if none else domain.check(to_host(points, name), name)
        if none or domain.size(points) == 0:
            raise InvalidInput(f"{name} is empty; give one point or more.")
        if isinstance(domain, Vectors):
            points = points.astype(np.float64)
            width = X.n_columns if isinstance(X, RowBlocks) else X.shape[1]
            if points.shape[1] != width:
                raise InvalidInput(f"{name} has {points.shape[1]} columns, and X has {width}.")
        elif not isinstance(X, RowBlocks):
            domain.match(X, points)
    except InvalidInput as error:
        raise InvalidInput(f"{owner}: {str(error).removeprefix('Vectors: ')}") from error
    return points
