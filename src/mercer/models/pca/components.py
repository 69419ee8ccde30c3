"""What a decomposition finds: variances, directions and where the mean is, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.solvers import Solution

__all__ = ["Components", "Wanted", "flip_signs", "padded"]

EPS = float(np.finfo(np.float64).eps)
RANK = 1e-12  # eigenvalues below this part of the largest are rounding


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of weighted points in feature space.

    The j-th is the function fⱼ(x) = Σᵢ coefᵢⱼ k(pointᵢ, x) + interceptⱼ, the coordinate of φ(x) − μ
    along the j-th axis; the mean is μ = Σᵢ centreᵢ φ(pointᵢ).

    Parameters
    ----------
    values : ndarray of shape (k,)
        Eigenvalues, descending, 0 beyond the rank.
    vectors : ndarray of shape (n, k) or None
        Eigenvectors of the centred, weighted Gram matrix; None where points are not kept.
    points : collection of m points, or None
        In which axes and mean are written; None where only features are kept.
    coef, intercept, centre : ndarrays of shape (m, k), (k,), (m,)
        The functions and the mean.
    square : float
        ‖μ‖².
    total : float
        The trace of the centred, weighted Gram matrix.
    solution : Solution
        The certificate; its value is `values`.
    method : str
        How it was found.
    axes, origin : ndarrays of shapes (D, k) and (D,), or None
        The axes and the mean in the kernel's own finite features.
    error : float
        Trace of what a low-rank approximation left out, over `total`.
    """

    values: np.ndarray
    vectors: np.ndarray | None
    points: Any
    coef: np.ndarray | None
    intercept: np.ndarray
    centre: np.ndarray | None
    square: float
    total: float
    solution: Solution
    method: str
    axes: np.ndarray | None = None
    origin: np.ndarray | None = None
    error: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """How many components: a number, a share of the variance, or all (both None)."""

    count: int | None = None
    share: float | None = None

    def cut(self, values: np.ndarray, total: float, drop: bool) -> int:
        """Return how many of some eigenvalues (descending, rounding set to 0) are kept.

        Parameters
        ----------
        values : ndarray
            The eigenvalues.
        total : float
            The sum of all there are.
        drop : bool
            Whether components of no variance are dropped, though a number was given.
        """
        rank = int((values > 0).sum())
        if self.share is not None:
            reached = np.cumsum(values) >= self.share * total * (1 - 8 * EPS)
            return max(1, int(np.argmax(reached)) + 1 if reached.any() else rank)
        if self.count is None or drop:
            rank = rank if self.count is None else min(rank, self.count)
            return max(1, rank)
        return min(self.count, len(values))


def flip_signs(table: np.ndarray) -> np.ndarray:
    """Return ±1 a column: the first entry of (nearly) largest modulus shall be positive.

    Parameters
    ----------
    table : ndarray of shape (n, k)
        Entries; where several are the largest up to 1e-6 the first decides.
    """
    if not table.size:
        return np.ones(table.shape[1])
    size = np.abs(table)
    first = np.argmax(size >= (1.0 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(table[first, np.arange(table.shape[1])] < 0, -1.0, 1.0)


def padded(k: int, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return arrays with columns of 0 behind, k columns in all: components beyond the rank.

    Parameters
    ----------
    k : int
        How many.
    *arrays : ndarrays
        Of components along the last axis, all of the same number.
    """
    short = max(0, k - arrays[0].shape[-1])
    return [np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, short)]) for a in arrays]
