"""A Gram matrix and the Cholesky factor of a weighted one, in the memory of one matrix.

The strict upper triangle of a Fortran array holds K and is never written; the lower one holds the
factor of B = ridge·I + SKS, made anew for every S. Only the diagonal serves both: K's own is in its
place for products, that of the factor for solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsymv
from scipy.linalg.lapack import dpotrs, spotrs

from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput
from mercer.operators import Operator
from mercer.settings import get_config
from mercer.solvers.checks import check_finite_symmetric
from mercer.solvers.cholesky import _dense
from mercer.solvers.cholesky_factor import CholeskyFactor
from mercer.solvers.diagnosis import not_positive_definite
from mercer.solvers.inplace import fortran_float64, mirror, potrf

__all__ = ["SHARED", "SharedGram"]

_PANEL, _THIN = 192, 64  # columns at a time: in place, and with temporary arrays
_BELOW = np.tri(_PANEL, k=-1, dtype=bool)
# Rungs of jitter, relative to the mean of the diagonal: see `factor`. A Newton step stays a descent
# whatever is added, and the certificate does not see it.
_RUNGS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
SHARED = 8.4  # bytes for each entry of K: the array, and panels of it
ROOM = 4.0  # matrices that must fit for both triangles of K to be kept for products
TAME, EVEN = 1e5, 1e-2  # trace over ridge, and least over largest s, for which float32 will do
COMPACT = 0.6  # part of the rows up to which those with S > 0 are factorised by themselves


class SharedGram(Operator):
    """K and a factor of ridge·I + SKS, S = diag(s) ≥ 0.

    Parameters
    ----------
    K : Operator
        Symmetric; copied unless it makes its matrix afresh.
    owner : str
        Whose matrix it is; messages begin with it.
    """

    def __init__(self, K: Operator, owner: str):
        n = self.n = K.shape[0]
        self.shape, self.symmetric, self.psd = (n, n), True, True
        require_memory(
            int(SHARED * n * n),
            f"{owner}: the {n} × {n} Gram matrix and its factor",
            "Fit fewer rows, or use a kernel with finite features",
        )
        dense, ours = _dense(K, owner)
        if not np.isfinite(np.diagonal(dense)).all():
            i = int(np.argmin(np.isfinite(np.diagonal(dense))))
            raise InvalidInput(
                f"{owner}: k(x, x) is {dense[i, i]} at row {i}; the kernel overflows on these "
                "data. Scale the columns, for example with sklearn.preprocessing.StandardScaler."
            )
        check_finite_symmetric(dense, owner)
        self.owner, self.jitter = owner, 0.0
        self._a = fortran_float64(dense, ours)
        self._diagonal = np.diagonal(self._a).copy()
        self._lower = np.zeros(n)  # the diagonal of the factor, while that of K is in its place
        self._index: np.ndarray | None = None
        self._part: np.ndarray | None = None
        self._whole: np.ndarray | None = None
        self._intact = True  # no factor has been written over the lower triangle of K yet
        self._kind: type = np.float64
        self._rough: np.ndarray | None = None  # memory of the factors in float32
        self._s = np.zeros(n)
        self._ridge = 0.0

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K."""
        return self._diagonal

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        at = np.arange(self.n)
        i, j = at[rows][:, None], at[cols][None, :]
        out = self._a[np.minimum(i, j), np.maximum(i, j)]
        return np.where(i == j, self._diagonal[i], out)

    def _matmul(self, V: np.ndarray) -> np.ndarray:
        """Return K V for V of shape (n,) or (n, c), by SciPy's BLAS.

        The threads of another BLAS would disturb the factorisation that follows.
        """
        self._show(self._diagonal)
        if V.ndim == 1:
            return dsymv(1.0, self._a, V, lower=0)
        if self._intact:
            return dgemm(1.0, self._a, V)
        if self._whole is None and ROOM * 8 * self.n**2 < get_config().memory:
            self._whole = self._a.copy(order="F")
            mirror(self._whole)
        if self._whole is not None:  # dsymm takes twice as long for a few columns
            return dgemm(1.0, self._whole, V)
        return dsymm(1.0, self._a, V, lower=0)

    def _show(self, diagonal: np.ndarray) -> None:
        if self._part is None:
            np.einsum("ii->i", self._a)[...] = diagonal

    def factor(self, s: np.ndarray, ridge: float, rough: bool = False) -> None:
        """Factorise ridge·I + SKS over the rows with s > 0; in float32 if that may be `rough`."""
        used = np.flatnonzero(s > 0)
        self._s, self._ridge, self._part = s, ridge, None
        fits = 9 * (self.n**2 + len(used) ** 2) < get_config().memory
        tame = float(s**2 @ self._diagonal) < TAME * ridge and s.min() > EVEN * s.max()
        self._kind = np.float32 if rough and fits and tame else np.float64
        small = len(used) <= COMPACT * self.n or self._kind is np.float32
        self._index = used if fits and small else None
        self._intact &= self._index is not None
        if self._index is not None:
            self._show(self._diagonal)
            self._s = s[used]
        for rung in _RUNGS:
            B = self._filled()
            diagonal = np.einsum("ii->i", B)
            self.jitter = rung * float(diagonal.mean()) if len(B) else 0.0
            diagonal += self.jitter
            if potrf(B):
                if self._index is None:
                    self._lower = diagonal.copy()
                else:
                    self._part = B
                return
        B = self._filled()
        if self._index is None:  # K in the upper triangle is still needed by nobody
            upper = np.triu_indices(self.n, 1)
            B[upper] = B.T[upper]
        raise not_positive_definite(B, "jitter does not help", self.owner)

    def _filled(self) -> np.ndarray:
        """Write SKS and the ridge to the lower triangle, or for few rows to an array of theirs."""
        a, s, d = self._a, self._s, self._diagonal
        if self._index is not None:
            m, at = len(self._index), self._index
            B = self._fresh(m)
            for i in range(0, m, _THIN):
                j = min(i + _THIN, m)
                if self._intact and m == self.n:
                    np.multiply(a[i:, i:j] * s[i:, None], s[i:j], out=B[i:, i:j])
                    continue
                # Columns of K above the diagonal, as rows of the lower triangle of B.
                part = np.take(a[: at[j - 1] + 1, at[i:j]], at[:j], axis=0)
                np.multiply(part.T * s[i:j, None], s[:j], out=B[i:j, :j])
            d = d[at]
        else:
            B, n = a, self.n
            for i in range(0, n, _PANEL):
                j = min(i + _PANEL, n)
                for k in range(i, n, _PANEL):
                    end = min(k + _PANEL, n)
                    scale = np.multiply.outer(s[k:end], s[i:j])
                    if k > i:
                        np.multiply(a[i:j, k:end].T, scale, out=B[k:end, i:j])
                        continue
                    corner = B[i:j, i:j]
                    np.copyto(corner, corner.T * scale, where=_BELOW[: j - i, : j - i])
        np.einsum("ii->i", B)[...] = s * s * d + self._ridge
        return B

    def _fresh(self, m: int) -> np.ndarray:
        """Return memory for a factor of m rows; that of float32 ones is used again."""
        if self._kind is np.float64:
            return np.empty((m, m), order="F")
        if self._rough is None:
            self._rough = np.empty((self.n, self.n), np.float32, order="F")
        return self._rough

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return B⁻¹ R for R of shape (n,) or (n, c), 0 in the rows with s = 0."""
        if self._index is not None:
            out = np.zeros(R.shape)
            if len(self._index):
                potrs = dpotrs if self._kind is np.float64 else spotrs
                out[self._index] = potrs(self._part, R[self._index], lower=1)[0]
            return out
        self._show(self._lower)
        out = dpotrs(self._a, R, lower=1)[0]
        out[self._s == 0] = 0.0
        return out

    def squares(self, R: np.ndarray) -> np.ndarray:
        """Return RᵀB⁻¹R column by column, for R of shape (n, c) that is 0 where s is."""
        R = R if self._index is None else R[self._index]
        return (self._cholesky().half_solve(R) ** 2).sum(axis=0)

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of B⁻¹; one more matrix for a while."""
        out = np.full(self.n, 1.0 / self._ridge)
        at: Any = slice(None) if self._index is None else self._index
        out[at] = self._cholesky().inverse_diagonal()
        return out

    def _cholesky(self) -> CholeskyFactor:
        self._show(self._lower)
        L: Any = self._a if self._index is None else self._part
        return CholeskyFactor(L, self.jitter, np.diagonal(L))
