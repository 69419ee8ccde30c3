"""Operators made of operators: sums, multiples, diagonal, low rank, centred."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.operators.base import Index, Operator, as_operator

__all__ = ["Centered", "Diagonal", "LowRank", "Scaled", "Sum"]


class Sum(Operator):
    """A + B.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import Diagonal, Sum
    >>> Sum(np.ones((2, 2)), Diagonal([1.0, 2.0])).to_dense()
    array([[2., 1.],
           [1., 3.]])
    """

    def __init__(self, A: Any, B: Any):
        self.A, self.B = as_operator(A), as_operator(B)
        if self.A.shape != self.B.shape:
            raise InvalidInput(f"Sum: shapes {self.A.shape} and {self.B.shape} differ.")
        self.shape = self.A.shape
        self.dtype = np.result_type(self.A.dtype, self.B.dtype)
        self.symmetric = self.A.symmetric and self.B.symmetric
        self.psd = self.A.psd and self.B.psd

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.A._matmul(V) + self.B._matmul(V)

    def _rmatmul(self, V: np.ndarray) -> np.ndarray:
        return self.A.T._matmul(V) + self.B.T._matmul(V)

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.A._block(rows, cols) + self.B._block(rows, cols)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.A.diagonal() + self.B.diagonal()


class Scaled(Operator):
    """c·A."""

    def __init__(self, A: Any, factor: float):
        self.A, self.factor = as_operator(A), float(factor)
        if not np.isfinite(self.factor):
            raise InvalidInput(f"Scaled: factor={factor!r}; give a finite number.")
        self.shape, self.dtype = self.A.shape, self.A.dtype
        self.symmetric = self.A.symmetric
        self.psd = self.A.psd and self.factor >= 0

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.factor * self.A._matmul(V)

    def _rmatmul(self, V: np.ndarray) -> np.ndarray:
        return self.factor * self.A.T._matmul(V)

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.factor * self.A._block(rows, cols)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.factor * self.A.diagonal()


class Diagonal(Operator):
    """A diagonal matrix."""

    def __init__(self, values: Any):
        self.values = np.asarray(values, dtype=float)
        if self.values.ndim != 1:
            raise InvalidInput(f"Diagonal: give a vector, got shape {self.values.shape}.")
        self.shape = (len(self.values), len(self.values))
        self.symmetric = True
        self.psd = bool((self.values >= 0).all())

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.values[:, None] * V if V.ndim == 2 else self.values * V

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        every = np.arange(len(self.values))
        i, j = every[rows], every[cols]
        return np.where(i[:, None] == j[None, :], self.values[i][:, None], 0.0)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.values.copy()


class LowRank(Operator):
    """F Fᵀ for a tall matrix F of shape (n, r), an array or a sparse one."""

    def __init__(self, F: Any):
        self.F: Any = sp.csr_array(F) if sp.issparse(F) else np.asarray(F)
        if self.F.ndim != 2:
            raise InvalidInput(f"LowRank: F has shape {self.F.shape}, expected (n, r).")
        self.F = self.F if self.F.dtype in (np.float32, np.float64) else self.F.astype(float)
        self.shape = (self.F.shape[0], self.F.shape[0])
        self.dtype = self.F.dtype
        self.symmetric = self.psd = True

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.F @ (self.F.T @ V)

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        block = self.F[rows] @ self.F[cols].T
        return block.toarray() if sp.issparse(block) else block

    def diagonal(self) -> np.ndarray:
        """Return the squared row lengths of F."""
        return (self.F * self.F).sum(1)


class Centered(Operator):
    """(I − U) A (I − U) with U = 11ᵀ/n: the Gram matrix of centred features."""

    def __init__(self, A: Any):
        self.A = as_operator(A)
        if not self.A.symmetric:
            raise InvalidInput("Centered: only a symmetric operator can be centred.")
        self.shape, self.dtype = self.A.shape, self.A.dtype
        self.symmetric, self.psd = True, self.A.psd
        n = self.shape[0]
        self._means = self.A.matmul(np.ones(n)) / n if n else np.zeros(0)
        self._mean = float(self._means.mean()) if n else 0.0

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        out = self.A._matmul(V - V.mean(0))
        return out - out.mean(0)

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        means = self._means[rows][:, None] + self._means[cols][None, :]
        return self.A._block(rows, cols) - means + self._mean

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.A.diagonal() - 2 * self._means + self._mean
