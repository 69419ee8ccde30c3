"""The Gram matrix of Newton's method and a factor of a weighted one: in one array, or on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm, dsymv
from scipy.linalg.lapack import spotrs

from mercer.domains import namespace, to_host
from mercer.errors import InvalidInput, who
from mercer.lapack import dgemm, dpotrs
from mercer.memory import named_when_full, on_gpu, require_memory
from mercer.operators import Gram, Operator
from mercer.settings import get_config
from mercer.solvers.base import check_finite_symmetric
from mercer.solvers.linear import (
    CholeskyFactor,
    cuts,
    dense_copy,
    factor,
    fortran_float64,
    mirror,
    not_positive_definite,
    potrf,
)

# ---- A Gram matrix and the Cholesky factor of a weighted one, in the memory of one matrix ----
# The strict upper triangle of a Fortran array holds K and is never written; the lower one holds
# the factor of B = ridge·I + SKS, made anew for every S. Only the diagonal serves both: K's own
# is in its place for products, that of the factor for solves.


_PANEL, _THIN = 192, 64  # columns at a time: in place, and with temporary arrays
_BELOW = np.tri(_PANEL, k=-1, dtype=bool)
# Rungs of jitter, relative to the mean of the diagonal: see `factor`. A Newton step stays a descent
# whatever is added, and the certificate does not see it.
RUNGS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
SHARED = 8.4  # bytes for each entry of K: the array, and panels of it
ROOM = 4.0  # matrices that must fit for both triangles of K to be kept for products
TAME, EVEN = 1e5, 1e-2  # trace over ridge, and least over largest s, for which float32 will do
SINGLE = 1e37  # what float32 holds, with room for sums
COMPACT = 0.6  # part of the rows up to which those with S > 0 are factorised by themselves


class SharedGram(Operator):
    """K and a factor of ridge·I + SKS, S = diag(s) ≥ 0.

    K : Operator
        Symmetric; copied unless it makes its matrix afresh.
    """

    def __init__(self, K: Operator):
        n = self.n = K.shape[0]
        self.shape, self.symmetric, self.psd = (n, n), True, True
        require_memory(
            int(SHARED * n * n),
            f"{who()}: the {n} × {n} Gram matrix and its factor",
            "Fit fewer rows, or use a kernel with finite features",
        )
        dense, ours = dense_copy(K)
        if not np.isfinite(np.diagonal(dense)).all():
            i = int(np.argmin(np.isfinite(np.diagonal(dense))))
            raise InvalidInput(
                f"{who()}: k(x, x) is {dense[i, i]} at row {i}; the kernel overflows on these "
                "data. Scale the columns, for example with sklearn.preprocessing.StandardScaler."
            )
        check_finite_symmetric(dense)
        self.jitter = 0.0
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
        return self.times(V)

    def times(self, V: np.ndarray) -> np.ndarray:
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
        tame = float(s**2 @ self._diagonal) < min(TAME * ridge, SINGLE)
        tame = tame and s.min() > EVEN * s.max()
        self._kind = np.float32 if rough and fits and tame else np.float64
        small = len(used) <= COMPACT * self.n or self._kind is np.float32
        self._index = used if fits and small else None
        self._intact &= self._index is not None
        if self._index is not None:
            self._show(self._diagonal)
            self._s = s[used]
        for rung in RUNGS:
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
        raise not_positive_definite(B, "jitter does not help")

    def _filled(self) -> np.ndarray:
        """Write SKS and the ridge to the lower triangle, or for few rows to an array of theirs."""
        a, s, d = self._a, self._s, self._diagonal
        if self._index is not None:
            m, at = len(self._index), self._index
            B = self._fresh(m)
            for i, j in cuts(m, _THIN):
                if self._intact and m == self.n:
                    np.multiply(a[i:, i:j] * s[i:, None], s[i:j], out=B[i:, i:j])
                    continue
                # Columns of K above the diagonal, as rows of the lower triangle of B.
                part = np.take(a[: at[j - 1] + 1, at[i:j]], at[:j], axis=0)
                np.multiply(part.T * s[i:j, None], s[:j], out=B[i:j, :j])
            d = d[at]
        else:
            B = a
            for i, j in cuts(self.n, _PANEL):
                for k, end in cuts(self.n, _PANEL, i):
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


# ---- The same on a device ----


DEVICE_FROM = 2000  # points from which a GPU factorises sooner than the CPU


class DeviceGram(SharedGram):
    """K and a factor of ridge·I + SKS on a device; coefficients and values come and go as arrays.

    Two matrices in float64, which a GPU factorises as soon as in float32.

    K : Gram
        Symmetric, computed on the device.
    """

    def __init__(self, K: Gram):
        n = self.n = K.shape[0]
        self.shape, self.symmetric, self.psd = (n, n), True, True
        what = f"{who()}: the {n} × {n} Gram matrix and its factor"
        cure = "Fit fewer rows, or use solver='falkon'"
        require_memory(16 * n * n, what, cure, K.like)
        with named_when_full(what, cure):
            self._K = K.matrix_there().double()
        self._diagonal = to_host(self._K.diagonal())
        self.jitter = 0.0
        self._s = np.zeros(n)
        self._index: np.ndarray | None = None
        self._factor: Any = None

    def _block(self, rows: Any, cols: Any) -> np.ndarray:
        return to_host(self._K[rows][:, cols])

    def times(self, V: np.ndarray) -> np.ndarray:
        """Return K V."""
        return to_host(self._K @ self._there(V))

    def _there(self, V: np.ndarray) -> Any:
        return self._K.new_tensor(np.ascontiguousarray(V, dtype=np.float64))

    def factor(self, s: np.ndarray, ridge: float, rough: bool = False) -> None:
        """Factorise ridge·I + SKS over the rows with s > 0."""
        used = np.flatnonzero(s > 0)
        self._s, self._ridge, self._factor = s, ridge, None
        self._index = used if len(used) <= COMPACT * self.n else None
        if self._index is None:
            B, scale = self._K.clone(), self._there(s)
        else:
            at = self._K.new_tensor(used, dtype=namespace(self._K).int64)
            B, scale = self._K[at][:, at], self._there(s[used])
        B *= scale[:, None]
        B *= scale
        with named_when_full(f"{who()}: a factor of the Gram matrix", "Fit fewer rows"):
            self._factor = factor(B, ridge, overwrite=True)
        self.jitter = self._factor.jitter

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return B⁻¹ R for R of shape (n,) or (n, c), 0 in the rows with s = 0."""
        if self._index is None:
            out = np.asarray(self._factor.solve(R))
            out[self._s == 0] = 0.0
            return out
        out = np.zeros(R.shape)
        if len(self._index):
            out[self._index] = self._factor.solve(R[self._index])
        return out

    def _cholesky(self) -> CholeskyFactor:
        return self._factor


def shared_gram(K: Operator) -> SharedGram:
    """Return a matrix with room for a factor: on the GPU that computes it, if it is large."""
    if isinstance(K, Gram) and K.shape[0] > DEVICE_FROM and on_gpu(K.like):
        return DeviceGram(K)
    return SharedGram(K)
