"""The Cholesky factor: solves, log-determinant, inverse, and products with what was factorised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from mercer.errors import InvalidInput
from mercer.lapack import MANY, dpotri, dpotrs, dtrsm, dtrtri
from mercer.memory import require_memory
from mercer.solvers.base import as_columns
from mercer.solvers.linear.inplace import cuts, mirror, restore
from mercer.solvers.linear.krylov import lanczos_top

_BLOCK = 256


class TriangularFactor(ABC):
    """What a Cholesky factor is wherever it lives: L below the diagonal of one n × n matrix.

    K itself is in the strict upper triangle; the diagonal of K + D, without jitter, lies beside it.
    """

    def __init__(self, a: Any, jitter: float, diagonal: Any):
        self._a, self._diagonal = a, diagonal
        self.n = int(a.shape[0])
        self.jitter = float(jitter)

    @abstractmethod
    def solve(self, B: Any) -> Any:
        """Return (L Lᵀ)⁻¹ B."""

    def smallest_eigenvalue(self, steps: int = 20) -> float:
        """Return about the smallest eigenvalue of K + D, by inverse Lanczos; never below it.

        Each step costs one `solve`. Of a matrix with a clearly isolated smallest eigenvalue a few
        steps suffice, which is the case that matters: an indefinite K behind a large ridge.

        Parameters
        ----------
        steps : int, default=20
            Lanczos steps.

        Returns
        -------
        float
            The estimate, ``inf`` for n = 0.
        """
        if self.n == 0:
            return float("inf")
        return 1.0 / lanczos_top(self.solve, self.n, steps) - self.jitter

    def trace(self) -> float:
        """Return the trace of K + D, without jitter.

        Returns
        -------
        float
            0.0 for n = 0.
        """
        return float(self._diagonal.sum())

    def _checked(self, B: Any) -> Any:
        if B.ndim not in (1, 2) or B.shape[0] != self.n:
            raise InvalidInput(
                f"{type(self).__name__}: B has shape {tuple(B.shape)}; give ({self.n},) or "
                f"({self.n}, t)."
            )
        return B


class CholeskyFactor(TriangularFactor):
    """The lower triangular L with L Lᵀ = K + D + jitter·I, and what follows from it.

    Made by `factor`. Everything is float64.

    Parameters
    ----------
    a : ndarray of shape (n, n), Fortran order
        L in the lower triangle, K itself in the strict upper one.
    jitter : float
        What was added to the diagonal to make the factorisation succeed.
    diagonal : ndarray of shape (n,)
        The diagonal of K + D, without jitter.

    Attributes
    ----------
    n : int
        Order of the matrix.
    jitter : float
        As above; 0.0 when nothing was added.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import factor
    >>> factor(np.diag([4.0, 16.0])).half_solve(np.array([2.0, 4.0]))
    array([1., 1.])
    """

    def __repr__(self) -> str:
        return f"<CholeskyFactor n={self.n} jitter={self.jitter:g}>"

    def solve(self, B: Any) -> np.ndarray:
        """Return (L Lᵀ)⁻¹ B; 2n² flops a column.

        Parameters
        ----------
        B : array-like of shape (n,) or (n, t)
            Right-hand sides; not changed.

        Returns
        -------
        ndarray
            Same shape as B, float64.
        """
        return self._triangular(B, both=True)

    def half_solve(self, B: Any, overwrite: bool = False) -> np.ndarray:
        """Return L⁻¹ B, whose columns have squared norms diag(Bᵀ(L Lᵀ)⁻¹B); n² flops a column.

        Parameters
        ----------
        B : array-like of shape (n,) or (n, t)
            Right-hand sides; not changed unless allowed.
        overwrite : bool, default=False
            Permission to destroy B; one in Fortran order then holds the result.

        Returns
        -------
        ndarray
            Same shape as B, float64.
        """
        return self._triangular(B, both=False, overwrite=overwrite)

    def matmul(self, B: Any, wide: bool = False) -> np.ndarray:
        """Return (K + D) B, without jitter, from the entries of K that the factorisation leaves.

        With it a residual can be computed although K was overwritten; 2n² flops a column.

        Parameters
        ----------
        B : array-like of shape (n,) or (n, t)
            What to multiply; not changed.
        wide : bool, default=False
            Whether to sum in the longest floating-point numbers of the machine, some fifty times
            slower: for a residual of which rounding would be a part.

        Returns
        -------
        ndarray
            Same shape as B, float64, or longdouble with `wide`.
        """
        B = self._checked(np.asarray(B, dtype=np.float64))
        diagonal = self._diagonal if B.ndim == 1 else self._diagonal[:, None]
        number = np.longdouble if wide else np.float64
        a, B, diagonal = self._a, B.astype(number, copy=False), diagonal.astype(number, copy=False)
        out = np.ascontiguousarray(diagonal * B)
        for i in range(0, self.n, _BLOCK):
            j = min(i + _BLOCK, self.n)
            band = a[i:j, i:].astype(number, copy=False)
            corner, right = np.triu(band[:, : j - i], 1), band[:, j - i :]
            out[i:j] += corner @ B[i:j] + corner.T @ B[i:j] + right @ B[j:]
            out[j:] += right.T @ B[i:j]
        return out

    def computing_there(self) -> AbstractContextManager:
        """Return options under which is computed where the factor is: main memory changes none."""
        return nullcontext()

    def on_host(self) -> CholeskyFactor:
        """Return the factor in main memory, where it is.

        Returns
        -------
        CholeskyFactor
            Itself.
        """
        return self

    def matrix(self) -> np.ndarray:
        """Return K + D itself, without jitter, an array of its own.

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric.
        """
        out = self._copy()
        restore(out, self._diagonal)
        return out

    def logdet(self) -> float:
        """Return log det(L Lᵀ) = 2 Σᵢ log Lᵢᵢ.

        Returns
        -------
        float
            0.0 for n = 0.
        """
        return float(2.0 * np.log(np.diagonal(self._a)).sum())

    def lower(self) -> np.ndarray:
        """Return L itself with zeros above the diagonal, as a new array.

        Returns
        -------
        ndarray of shape (n, n)
            Lower triangular.
        """
        return np.tril(self._a)

    def inverse(self) -> np.ndarray:
        """Return (L Lᵀ)⁻¹, both triangles, as a new array; 2n³/3 flops (LAPACK potri).

        Returns
        -------
        ndarray of shape (n, n)
            Symmetric to the last bit.
        """
        if self.n == 0:
            return np.zeros((0, 0))
        invert = dpotri if self.n > MANY else lapack.dpotri
        out, _ = invert(self._copy(), lower=1, overwrite_c=1)
        mirror(out.T)
        return np.asarray(out)

    def into_inverse(self) -> np.ndarray:
        """Turn the factor into (L Lᵀ)⁻¹ where it lies; 2n³/3 flops, and the factor is spent.

        Returns
        -------
        ndarray of shape (n, n), Fortran order
            The inverse in the lower triangle; K still in the strict upper one.
        """
        a, self._a = self._a, np.zeros((0, 0), order="F")
        if self.n:
            invert = dpotri if self.n > MANY else lapack.dpotri
            invert(a, lower=1, overwrite_c=1)
        return a

    def inverse_diagonal(self, last: int | None = None) -> np.ndarray:
        """Return diag((L Lᵀ)⁻¹), the squared column norms of L⁻¹, or its last entries alone.

        m³/3 flops for the last m (LAPACK trtri), of all of them half of what `inverse` needs; one
        m×m array for a while.

        Parameters
        ----------
        last : int, optional
            How many of the last entries; all by default.

        Returns
        -------
        ndarray of shape (last,)
            Positive.
        """
        size = self.n if last is None else last
        out = np.empty(size)
        if size == 0:
            return out
        invert = dtrtri if size > MANY else lapack.dtrtri
        inverse, _ = invert(self._copy(size), lower=1, overwrite_c=1)
        for i, j in cuts(size, _BLOCK):
            corner, below = np.tril(inverse[i:j, i:j]), inverse[j:, i:j]
            out[i:j] = np.einsum("ij,ij->j", corner, corner) + np.einsum("ij,ij->j", below, below)
        return out

    def _copy(self, last: int | None = None) -> np.ndarray:
        part = self._a if last is None else self._a[self.n - last :, self.n - last :]
        what = f"CholeskyFactor: the inverse of the {len(part)} × {len(part)} matrix"
        require_memory(part.nbytes, what, "Use fewer points")
        return part.copy(order="F")

    def _triangular(self, B: Any, both: bool, overwrite: bool = False) -> np.ndarray:
        B = self._checked(np.asarray(B, dtype=np.float64))
        if B.size == 0:
            return np.zeros(B.shape)
        if B.size == self.n:  # one column needs no blocks
            b = np.ascontiguousarray(B).reshape(-1)
            x = blas.dtrsv(self._a, b, lower=1)
            x = blas.dtrsv(self._a, x, lower=1, trans=1, overwrite_x=1) if both else x
            return np.asarray(x).reshape(B.shape)
        trsm = dtrsm if self.n > MANY else blas.dtrsm
        if B.ndim == 2 and B.shape[1] > 1 and B.flags.c_contiguous:
            # Bᵀ is Fortran ordered as it stands: solve Xᵀ Lᵀ = Bᵀ from the right, no transposition.
            out = trsm(1.0, self._a, B.T, side=1, lower=1, trans_a=1)
            out = trsm(1.0, self._a, out, side=1, lower=1, overwrite_b=1) if both else out
            return np.asarray(out.T)
        columns = as_columns(B)
        if both:
            solve = dpotrs if self.n > MANY else lapack.dpotrs
            out, _ = solve(self._a, columns, lower=1)
        else:
            # BLAS wrappers write into read-only arrays without complaint.
            own = int(overwrite and columns.flags.writeable)
            out = trsm(1.0, self._a, columns, lower=1, overwrite_b=own)
        return np.asarray(out.reshape(B.shape, order="F"))
