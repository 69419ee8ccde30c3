"""The Gram matrix as conjugate gradients multiply by it: kept in double or single, or made anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, ssymv

from mercer.domains import GramRows
from mercer.domains.vectors import is_torch
from mercer.engines import pick
from mercer.engines.device.memory import free_memory
from mercer.engines.tiles import gram, matmul
from mercer.kernels import Kernel
from mercer.operators import Operator
from mercer.operators.gram import rows_on_device
from mercer.solvers.base import check_finite_symmetric
from mercer.solvers.linear.cg import default_rank

__all__ = ["RidgeGram", "beside_gram", "storage_for"]

VECTORS = 14  # numbers a row and right-hand side that are alive at once
LEAST_TILE = 2**14  # bytes of each array of the smallest tile
SYMMETRIC_COLUMNS = 2  # up to which products that read half of K win over one that reads all of it


def beside_gram(n: int, columns: int, workspace: int, memory: int) -> tuple[int, int, int]:
    """Return the rank of the preconditioner, its bytes with all vectors, and those of a tile.

    The last two together are what conjugate gradients cannot do without; K has what is left.

    Parameters
    ----------
    n : int
        Points.
    columns : int
        Right-hand sides, the one of the offset too.
    workspace : int
        Arrays of the size of a tile that the kernel holds.
    memory : int
        Bytes of the budget.
    """
    vectors, tile = 8 * n * VECTORS * columns, LEAST_TILE * workspace
    rank = max(1, min(default_rank(n), (memory - vectors - tile) // (6 * 8 * n)))
    return rank, vectors + 3 * 8 * n * rank, tile


def storage_for(n: int, like: Any = None) -> str:
    """Return how K is kept: the first of "double" and "single" in half the budget, or "none".

    The budget is that of the device of the tensor `like`, if it is on one.
    """
    half = free_memory(like) // 2
    return "double" if 8 * n * n <= half else "single" if 4 * n * n <= half else "none"


class RidgeGram(Operator):
    """K(X, X), on the device of the engine.

    ``matmul`` multiplies by what is kept: K in float64, K rounded to float32, or tiles made anew.
    ``exact`` multiplies by K in float64 whatever is kept, so that residuals are true.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection of n points
        The points, in float64; a precomputed matrix is used where it is.
    storage : {"double", "single", "none"}, optional
        How to keep it; by default what half the budget allows.
    """

    symmetric = True

    def __init__(self, kernel: Kernel, X: Any, storage: str | None = None):
        self.kernel, self.X = kernel, X
        self.engine = pick(X)
        n = kernel.domain.size(X)
        self.shape = (n, n)
        self.psd = kernel.psd
        self.bound = self.engine.bound(kernel, X)
        self.storage = storage_for(n, self._like()) if storage is None else storage
        if isinstance(kernel.domain, GramRows) and not is_torch(self.bound.collections[0]):
            self.storage = "given"
        self.dtype = np.dtype(np.float32 if self.storage == "single" else np.float64)
        self._K = self._kept()

    @property
    def device(self) -> Any:
        """The device of torch that computes it; None in main memory."""
        return None if self.bound.xp is np else self.bound._like.device

    def rows_there(self) -> Callable[[np.ndarray], Any]:
        """Return a function of positions that makes those rows as a tensor on the device."""
        return rows_on_device(self.bound, self._K)

    def _like(self) -> Any:
        """Return a tensor where K would be, or None for NumPy."""
        return None if self.bound.xp is np else self.bound.empty((0,))

    def _kept(self) -> Any:
        if self.storage == "none":
            return None
        if self.storage == "given":
            check_finite_symmetric(self.X, repr(self.kernel))
            return self.X
        out = None
        if self.storage == "single":
            like = self.bound.empty((0,))
            place = {} if self.bound.xp is np else {"device": like.device}
            out = self.bound.xp.empty(self.shape, dtype=self.bound.xp.float32, **place)
        return gram(self.bound, out)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        K = self._K
        if K is None:
            return self.exact(V)
        if is_torch(K):
            return self.engine.to_numpy(K @ K.new_tensor(V))
        V = np.asarray(V, dtype=K.dtype)
        if V.ndim == 2 and V.shape[1] <= SYMMETRIC_COLUMNS and K.flags.c_contiguous:
            symv = ssymv if K.dtype == np.float32 else dsymv
            return np.stack([symv(1.0, K.T, v, lower=1) for v in V.T], axis=1)
        return K @ V

    def exact(self, V: np.ndarray) -> np.ndarray:
        """Return K V in float64.

        Parameters
        ----------
        V : ndarray of shape (n,) or (n, t)
            What K is multiplied by.
        """
        if self.storage in ("double", "given"):
            return self._matmul(V)
        return self.engine.to_numpy(matmul(self.bound, V))

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        index = np.arange(self.shape[0])
        rows, cols = index[rows], index[cols]
        if self._K is not None:
            return np.asarray(self.engine.to_numpy(self._K[rows][:, cols]))
        return self._some(rows, cols)

    def rows(self, index: Any) -> np.ndarray:
        """Return whole rows.

        Parameters
        ----------
        index : array of int
            Which.
        """
        if self._K is not None:
            return self.engine.to_numpy(self._K[index])
        return self._some(np.asarray(index), None)

    def _some(self, rows: np.ndarray, cols: np.ndarray | None) -> np.ndarray:
        """Return entries made anew; noise lives on the diagonal, where other points do not see it.

        They are those of k on two collections of points, so the diagonal is put in place.
        """
        take = self.kernel.domain.take
        columns = self.X if cols is None else take(self.X, cols)
        out = self.engine.to_numpy(self.engine.gram(self.kernel, take(self.X, rows), columns))
        out = np.array(out, dtype=np.float64)
        at = np.arange(self.shape[0]) if cols is None else cols
        i, j = np.nonzero(rows[:, None] == at[None, :])
        out[i, j] = self.diagonal()[rows[i]]
        return out

    def diagonal(self) -> np.ndarray:
        """Return k(xᵢ, xᵢ)."""
        return np.asarray(self.engine.to_numpy(self.engine.diag(self.kernel, self.X)))

    def __repr__(self) -> str:
        return f"RidgeGram({self.kernel!r}, shape={self.shape}, storage={self.storage!r})"
