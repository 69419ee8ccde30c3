"""A matrix on a device of torch, multiplied there; vectors come and go as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.domains.vectors import to_host
from mercer.operators.base import Index, Operator

__all__ = ["OnDevice"]


class OnDevice(Operator):
    """A matrix in the memory of a device.

    Parameters
    ----------
    tensor : tensor of shape (n, m)
        The matrix, float64; not copied.
    symmetric : bool, default=False
        Whether it is symmetric.
    """

    def __init__(self, tensor: Any, symmetric: bool = False):
        self.tensor = tensor
        self.shape = tuple(tensor.shape)  # type: ignore[assignment]
        self.symmetric = symmetric

    @property
    def device(self) -> Any:
        """Where it is."""
        return self.tensor.device

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return to_host(self.tensor @ self._like(V))

    def _rmatmul(self, V: np.ndarray) -> np.ndarray:
        return to_host(self.tensor.T @ self._like(V))

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        return to_host(self.tensor[rows][:, cols])

    def rows_there(self) -> Callable[[np.ndarray], Any]:
        """Return a function of positions that takes those rows as a tensor."""
        return self.tensor.__getitem__

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return to_host(self.tensor.diagonal()).copy()

    def _like(self, V: np.ndarray) -> Any:
        return self.tensor.new_tensor(np.ascontiguousarray(V, dtype=np.float64))
