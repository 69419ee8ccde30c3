"""The protocol of an operator, a matrix known by what it does, and operators made of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import beside, is_torch, to_host
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
    #: Whether its numbers lie in main memory, so that one vector is soon multiplied.
    in_memory: bool = False

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        return self.to_dense() @ V

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        raise InvalidInput(f"{type(self).__name__}: define _block(rows, cols).")

    def _matmul_there(self, V: Any) -> Any:
        """Return A V for a tensor, beside it."""
        return beside(self._matmul(to_host(V)), V)

    def matmul(self, V: Any) -> Any:
        """Return A V for a vector or a matrix of columns: of an array an array, of a tensor one."""
        V = V if is_torch(V) else np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[1]:
            raise InvalidInput(
                f"{type(self).__name__} of shape {self.shape}: cannot multiply by shape "
                f"{tuple(V.shape)}."
            )
        return self._matmul_there(V) if is_torch(V) else self._matmul(V)

    def __matmul__(self, V: Any) -> Any:
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
        return Sum(self, as_operator(other))

    def __mul__(self, factor: float) -> Operator:
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

    in_memory = True

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
