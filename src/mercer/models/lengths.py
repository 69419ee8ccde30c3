"""What every kernel must be for lengths and distances to exist: symmetric, with k(x, x) ≥ 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.engines.budget import largest
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Kernel

__all__ = ["beyond_features", "check_lengths", "refuse_negative"]

PROBED = 48  # points between which symmetry is tried
TINY = 1e-290  # squared lengths below this have lost digits to underflow
NO_SQUARE = 1e-145  # entries below this have no square with all its digits
ROUNDING = 1e-13  # part of k(x, x) that the sum of the squares of features may miss


def check_lengths(
    kernel: Kernel, X: Any, owner: str, *, underflow: bool = False, rows: str = "row"
) -> np.ndarray:
    """Return k(x, x) of canonical points, if this can be a kernel there.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words.
    X : canonical collection
        The points.
    owner : str
        Who asks; messages begin with it.
    underflow : bool, default=False
        Whether to refuse points so near 0 that k(x, x) has no digits left.
    rows : str, default="row"
        What a point is called.
    """
    diagonal = np.array(kernel.diag(X), dtype=float)
    refuse_negative(kernel, diagonal, owner, rows)
    if not isinstance(kernel.domain, GramRows):
        n = len(diagonal)
        some = np.unique(np.linspace(0, n - 1, min(n, PROBED)).astype(int))
        kernel._bind(kernel.domain.take(X, some)).verify()
    if underflow and 0 < _size(X) < NO_SQUARE and diagonal.max(initial=0.0) < TINY:
        raise InvalidInput(
            f"{owner}: the largest k(x, x) is {diagonal.max(initial=0.0):.3g}: {kernel!r} "
            "underflows on such small numbers. Multiply them, so that the largest is near 1."
        )
    return diagonal


def refuse_negative(kernel: Kernel, diagonal: np.ndarray, owner: str, rows: str = "row") -> None:
    """Refuse a k(x, x) < 0."""
    if (diagonal < 0).any():
        i = int(np.argmax(diagonal < 0))
        raise NotAKernel(
            f"{owner}: k(x, x) = {diagonal[i]:.6g} at {rows} {i}, but it is a squared length. "
            f"{kernel!r} is not a kernel; mercer.check_kernel shows a counter-example."
        )


def beyond_features(kernel: Kernel, X: Any, phi: Any) -> np.ndarray:
    """Return k(x, x) − ‖φ(x)‖², which is 0 unless new points have parts without a column.

    Such are strings with letters that no training point has. Those parts are orthogonal to all
    that was learned: values of functions do not miss them, squared distances do.

    Parameters
    ----------
    kernel : Kernel
        A kernel with finite features of its training points.
    X : canonical collection of n points
        New points.
    phi : array or sparse array of shape (n, D)
        Their features.
    """
    if kernel._n_features(X) is not None:
        return np.zeros(phi.shape[0])
    squares = phi.multiply(phi) if sp.issparse(phi) else phi * phi
    lengths = np.asarray(kernel.diag(X), dtype=float)
    rest = lengths - np.asarray(squares.sum(axis=1), dtype=float).reshape(-1)
    return np.where(rest > ROUNDING * lengths, rest, 0.0)


def _size(X: Any) -> float:
    """Return the largest entry of rows of numbers, 0 for other points."""
    numbers = sp.issparse(X) or isinstance(X, np.ndarray)
    return largest(X) if numbers and X.dtype.kind == "f" else 0.0
