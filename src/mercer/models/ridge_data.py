"""The checked data of a ridge fit; its points where, and as precise as, a method wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows
from mercer.domains.vectors import is_torch
from mercer.errors import NotPositiveDefinite
from mercer.kernels import Kernel, Pairwise, Precomputed

__all__ = [
    "FitData",
    "in_double",
    "indefinite",
    "kept_targets",
    "take_rows",
    "unproven",
]


@dataclass(frozen=True)
class FitData:
    """Checked data of a fit: resolved kernel, points, targets (n, t), weights, classes.

    Of rows in blocks X are the blocks, with targets and weights of their own: T is a matrix of no
    rows that says how many outputs there are.
    """

    kernel: Kernel
    X: Any
    T: Any
    weights: np.ndarray | None
    column: bool
    classes: np.ndarray | None = None

    @property
    def outputs(self) -> int:
        """Number of outputs, t."""
        return int(self.T.shape[1])


def in_double(X: Any) -> Any:
    """Return rows of numbers in float64 where they are; other points as they are."""
    if is_torch(X):
        return X.double()
    single = isinstance(X, np.ndarray) or sp.issparse(X)
    return X.astype(np.float64) if single and X.dtype == np.float32 else X


def kept_targets(y: Any, X: Any) -> bool:
    """Whether targets may stay the tensor they are: finite numbers, one row for each of X.

    Parameters
    ----------
    y : object
        Targets as given.
    X : canonical collection
        The points.
    """
    if not (is_torch(y) and is_torch(X)) or y.device != X.device or not y.is_floating_point():
        return False
    import torch

    return y.ndim in (1, 2) and len(y) == len(X) and bool(torch.isfinite(y).all())


def take_rows(kernel: Kernel, X: Any, index: np.ndarray) -> Any:
    """Return training points at the given positions; of a Gram matrix rows and columns."""
    if isinstance(kernel.domain, GramRows):
        return np.ascontiguousarray(X[np.ix_(index, index)])
    return kernel.domain.take(X, index)


def unproven(kernel: Kernel) -> bool:
    """Whether nothing but the user's word makes this a kernel."""
    return isinstance(kernel, Precomputed | Pairwise) or any(map(unproven, kernel._kernels()))


def indefinite(kernel: Kernel, equal: bool, low: float) -> NotPositiveDefinite:
    """Return the error for a Gram matrix, of equal weights or not, with a negative eigenvalue."""
    what = "Gram matrix" if equal else "weighted Gram matrix"
    return NotPositiveDefinite(
        f"{kernel!r}: its {what} has smallest eigenvalue {low:.6g}, so it is not positive "
        "semidefinite and not that of a kernel. mercer.check_kernel shows a counter-example; "
        "a repaired matrix can be passed as kernel='precomputed'.",
        low,
    )
