"""The Gram matrix of Newton's method on a GPU, and beside it the factor of a weighted one."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import namespace, to_host
from mercer.errors import who
from mercer.memory import named_when_full, on_gpu, require_memory
from mercer.operators import Gram, Operator
from mercer.solvers.linear import CholeskyFactor, factor
from mercer.solvers.risk.metric import COMPACT, SharedGram

FROM = 2000  # points from which a GPU factorises sooner than the CPU


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

    def _matmul(self, V: np.ndarray) -> np.ndarray:
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
    there = isinstance(K, Gram) and K.shape[0] > FROM and on_gpu(K.like)
    return DeviceGram(K) if there else SharedGram(K)
