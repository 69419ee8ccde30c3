"""What every kernel must be for lengths and distances to exist: symmetric, with k(x, x) ≥ 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Kernel

__all__ = ["check_lengths"]

PROBED = 48  # points between which symmetry is tried
TINY = 1e-290  # squared lengths below this have lost digits to underflow
NO_SQUARE = 1e-145  # entries below this have no square with all its digits


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
    if (diagonal < 0).any():
        i = int(np.argmax(diagonal < 0))
        raise NotAKernel(
            f"{owner}: k(x, x) = {diagonal[i]:.6g} at {rows} {i}, but it is a squared length. "
            f"{kernel!r} is not a kernel; mercer.check_kernel shows a counter-example."
        )
    if not isinstance(kernel.domain, GramRows):
        n = len(diagonal)
        some = np.unique(np.linspace(0, n - 1, min(n, PROBED)).astype(int))
        kernel._bind(kernel.domain.take(X, some)).verify()
    if underflow and 0 < _largest(X) < NO_SQUARE and diagonal.max(initial=0.0) < TINY:
        raise InvalidInput(
            f"{owner}: the largest k(x, x) is {diagonal.max(initial=0.0):.3g}: {kernel!r} "
            "underflows on such small numbers. Multiply them, so that the largest is near 1."
        )
    return diagonal


def _largest(X: Any) -> float:
    """Return the largest entry of rows of numbers, 0 for other points."""
    values = X.data if sp.issparse(X) else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return 0.0
    return float(np.abs(values).max(initial=0.0))
