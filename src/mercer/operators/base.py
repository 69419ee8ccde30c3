"""The protocol of an operator: a matrix known by what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.domains import to_host
from mercer.errors import InvalidInput

Index = Any


class Operator:
    """A real matrix A that can be multiplied by, cut into blocks and, if need be, written out.

    A subclass defines ``shape``, ``_matmul(V)``, ``_block(rows, cols)`` and, where cheaper,
    ``diagonal``. ``symmetric`` and ``psd`` are facts that solvers rely on.
    """

    shape: tuple[int, int]
    dtype: np.dtype = np.dtype(np.float64)
    symmetric: bool = False
    psd: bool = False

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.to_dense() @ V

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _block(rows, cols).")

    def matmul(self, V: Any) -> np.ndarray:
        """Return A V for a vector or a matrix of columns."""
        V = np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[1]:
            raise InvalidInput(
                f"{type(self).__name__} of shape {self.shape}: cannot multiply by shape {V.shape}."
            )
        return self._matmul(V)

    def __matmul__(self, V: Any) -> np.ndarray:
        return self.matmul(V)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        n = min(self.shape)
        return np.array([self._block(slice(i, i + 1), slice(i, i + 1))[0, 0] for i in range(n)])

    def block(self, rows: Index, cols: Index) -> np.ndarray:
        """Return A[rows][:, cols] for slices or integer arrays."""
        return self._block(_positions(rows, self.shape[0]), _positions(cols, self.shape[1]))

    def rows(self, index: Index) -> np.ndarray:
        """Return whole rows."""
        return self._block(_positions(index, self.shape[0]), slice(0, self.shape[1]))

    def to_dense(self) -> np.ndarray:
        """Return the matrix itself."""
        return self._block(slice(0, self.shape[0]), slice(0, self.shape[1]))

    @property
    def T(self) -> Operator:
        """The transpose."""
        return self if self.symmetric else Transposed(self)

    def __add__(self, other: Any) -> Operator:
        from mercer.operators.algebra import Sum

        return Sum(self, as_operator(other))

    def __mul__(self, factor: float) -> Operator:
        from mercer.operators.algebra import Scaled

        return Scaled(self, factor)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"


class Dense(Operator):
    """A matrix in memory.

    Parameters
    ----------
    array : array of shape (n, m)
        The matrix; not copied.
    symmetric, psd : bool, optional
        Facts about it; symmetry is looked up when not given.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.operators import Dense
    >>> Dense(np.eye(2)) @ np.array([1.0, 2.0])
    array([1., 2.])
    """

    def __init__(self, array: Any, symmetric: bool | None = None, psd: bool = False):
        A = np.asarray(array)
        if A.dtype not in (np.float32, np.float64):
            try:
                A = A.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"Dense: not a matrix of numbers ({error}).") from error
        if A.ndim != 2:
            raise InvalidInput(f"Dense: an operator has 2 dimensions, got shape {A.shape}.")
        self.array = A
        self.shape = A.shape  # type: ignore[assignment]
        self.dtype = A.dtype
        if symmetric is None:
            symmetric = A.shape[0] == A.shape[1] and bool(np.array_equal(A, A.T))
        self.symmetric = symmetric
        self.psd = psd

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.array @ V

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.array[rows][:, cols]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.array.diagonal().copy()

    def to_dense(self) -> np.ndarray:
        """Return the array itself, not a copy."""
        return self.array

    def square(self) -> Dense:
        """Return A Aᵀ."""
        return Dense(self.array @ self.array.T, symmetric=True)


class Transposed(Operator):
    """Aᵀ of an operator that is not symmetric."""

    def __init__(self, operator: Operator):
        self.operator = operator
        self.shape = operator.shape[::-1]
        self.dtype = operator.dtype

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return (
            self.operator._rmatmul(V) if hasattr(self.operator, "_rmatmul") else super()._matmul(V)
        )

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        return self.operator._block(cols, rows).T

    @property
    def T(self) -> Operator:
        """The operator itself."""
        return self.operator


def as_operator(A: Any) -> Operator:
    """Return an Operator as it is and an array as `Dense`."""
    return A if isinstance(A, Operator) else Dense(A)


def _positions(index: Index, n: int) -> Index:
    """Return a slice with bounds, or an array of checked positions."""
    if isinstance(index, slice):
        start, stop, step = index.indices(n)
        return slice(start, stop) if step == 1 else np.arange(start, stop, step)
    index = np.atleast_1d(np.asarray(index))
    if index.dtype == bool:
        if index.shape != (n,):
            raise InvalidInput(f"a mask of {index.size} entries does not fit {n} rows.")
        return np.flatnonzero(index)
    if index.dtype.kind not in "iu":
        if index.size:
            raise InvalidInput(f"positions must be whole numbers, got dtype {index.dtype}.")
        index = index.astype(int)
    if index.size and (index.min() < -n or index.max() >= n):
        raise InvalidInput(f"position {int(index.max())} is outside 0 to {n - 1}.")
    return index % n if n else index


# ---- A matrix on a device of torch, multiplied there; vectors come and go as arrays ----


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

    def square(self) -> OnDevice:
        """Return A Aᵀ."""
        return OnDevice(self.tensor @ self.tensor.T, symmetric=True)

    def _like(self, V: np.ndarray) -> Any:
        return self.tensor.new_tensor(np.ascontiguousarray(V, dtype=np.float64))
