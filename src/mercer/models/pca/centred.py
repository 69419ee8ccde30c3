"""The Gram matrix of centred, weighted features: as an operator, and written into a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.threads import times
from mercer.operators import Dense, Operator
from mercer.operators.base import OnDevice

__all__ = ["CentredGram", "centre_in_place"]

SLAB = 2**18  # entries of the rows that are centred at a time
DEVICE_SLAB = 2**26  # the same on a device


class CentredGram(Operator):
    """D(I − 1pᵀ)K(I − p1ᵀ)D with D = diag(√w), p = w/Σw, never written out.

    Equal weights w = 1 make it (I − U)K(I − U). A row of weight 2 counts as the row given twice:
    the eigenvalues other than 0 are the same.

    Parameters
    ----------
    K : ndarray of shape (n, n), or Operator
        The Gram matrix.
    weights : ndarray of shape (n,) or None
        Positive; None means equal.
    """

    symmetric = psd = True

    def __init__(self, K: Any, weights: np.ndarray | None = None):
        self.K, self.shape = K, K.shape
        n = int(K.shape[0])
        self.roots = None if weights is None else np.sqrt(weights)[:, None]
        self.shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        self.means = self._times(self.shares)
        self.mean = float(self.shares @ self.means)

    def _times(self, V: np.ndarray) -> np.ndarray:
        return times(self.K, V) if isinstance(self.K, np.ndarray) else self.K.matmul(V)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        Y = V[:, None] if V.ndim == 1 else V
        if self.roots is not None:
            Y = Y * self.roots
        Y = self._times(Y - self.shares[:, None] * Y.sum(axis=0))
        Y = Y - self.shares @ Y
        if self.roots is not None:
            Y *= self.roots
        return Y[:, 0] if V.ndim == 1 else Y

    def diagonal(self) -> np.ndarray:
        """Return wᵢ‖φ(xᵢ) − μ‖²."""
        d = np.array(self.K.diagonal(), dtype=float) - 2 * self.means + self.mean
        return d if self.roots is None else d * self.roots[:, 0] ** 2


def centre_in_place(K: Any, centred: CentredGram) -> Operator:
    """Write D(I − 1pᵀ)K(I − p1ᵀ)D over K, and return it as an operator.

    Parameters
    ----------
    K : ndarray of shape (n, n), or OnDevice
        The Gram matrix that `centred` is of.
    centred : CentredGram
        Its means and weights.
    """
    A, means, roots = K, centred.means, None if centred.roots is None else centred.roots[:, 0]
    slab = SLAB
    if isinstance(K, OnDevice):
        A, slab = K.tensor, DEVICE_SLAB
        means, roots = A.new_tensor(means), None if roots is None else A.new_tensor(roots)
    n = len(A)
    step = max(1, slab // max(1, n))
    for i in range(0, n, step):
        rows = slice(i, i + step)
        # xᵢ + yⱼ first, so that the matrix stays symmetric to the bit
        A[rows] -= (means[rows, None] + means) - centred.mean
        if roots is not None:
            A[rows] *= roots[rows, None] * roots
    return K if isinstance(K, OnDevice) else Dense(A, symmetric=True)
