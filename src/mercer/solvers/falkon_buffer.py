"""Two triangular factors in one m × m array of NumPy's, by LAPACK in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm, dtrsm
from scipy.linalg.lapack import dlauum, dpotrf

from mercer.solvers.inplace import fortran_float64, potrf, restore

__all__ = ["HostBuffer"]

PANEL = 64


class HostBuffer:
    """L with L Lᵀ = K + δI below the diagonal, U with UᵀU = LᵀDL + αI above it.

    Parameters
    ----------
    gram : ndarray of shape (m, m)
        K; destroyed where it is float64 and contiguous.
    """

    def __init__(self, gram: Any):
        self.a = fortran_float64(np.asarray(gram), overwrite=True)
        self._kept = np.diagonal(self.a).copy()
        self._low = self._up = self._kept
        self._fresh = True

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K."""
        return self._kept

    def factor_gram(self, jitter: float) -> bool:
        """Make L; False where K + jitter·I has none."""
        if not self._fresh:
            restore(self.a, self._kept)
        self._set(self._kept + jitter)
        self._fresh = False
        done = potrf(self.a)
        self._low = np.diagonal(self.a).copy()
        return done

    def factor_inner(self, root: np.ndarray, alpha: float) -> bool:
        """Make U with UᵀU = LᵀDL + alpha·I, D = diag(root)²; False where there is none."""
        a, m = self.a, len(self.a)
        for i in range(0, m, PANEL):  # above the diagonal, (D^½ L)ᵀ
            j = min(i + PANEL, m)
            corner = np.tril(a[i:j, i:j], -1)
            a[i:j, i:j] = corner + np.triu((corner * root[i:j, None]).T, 1)
            a[i:j, j:] = (a[j:, i:j] * root[j:, None]).T
        self._set(self._low * root)
        if m == 0:
            return True
        _, info = dlauum(a, lower=0, overwrite_c=1)
        self._set(np.diagonal(a) + alpha)
        _, info = dpotrf(a, lower=0, clean=0, overwrite_a=1)
        self._up = np.diagonal(a).copy()
        return info == 0 and bool(np.isfinite(self._up).all())

    def lower(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return L V or LᵀV."""
        self._set(self._low)
        return np.asarray(dtrmm(1.0, self.a, V, lower=1, trans_a=int(transpose)))

    def solve_lower(
        self, V: np.ndarray, transpose: bool = False, overwrite: bool = False
    ) -> np.ndarray:
        """Return L⁻¹V or L⁻ᵀV; in the place of V if that may be, and is in Fortran order."""
        self._set(self._low)
        done = dtrsm(1.0, self.a, V, lower=1, trans_a=int(transpose), overwrite_b=int(overwrite))
        return np.asarray(done)

    def solve_upper(self, V: np.ndarray, transpose: bool = False) -> np.ndarray:
        """Return U⁻¹V or U⁻ᵀV."""
        self._set(self._up)
        return np.asarray(dtrsm(1.0, self.a, V, lower=0, trans_a=int(transpose)))

    def _set(self, diagonal: np.ndarray) -> None:
        np.einsum("ii->i", self.a)[...] = diagonal
