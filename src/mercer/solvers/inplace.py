"""One n×n Fortran array: factorise its lower triangle, and take that back from the upper one."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, spotrf

__all__ = ["fortran_float64", "mirror", "potrf", "restore"]

_PANEL = 64


def fortran_float64(K: np.ndarray, overwrite: bool) -> np.ndarray:
    """Return a symmetric K as a Fortran float64 array, in its own memory where that is allowed.

    The transpose of a C-ordered array is Fortran ordered, and of a symmetric matrix it is the
    same matrix: neither order needs a copy. LAPACK wrappers write into read-only arrays without
    complaint, so those are copied.
    """
    rows = K.flags.c_contiguous and not K.flags.f_contiguous
    usable = K.dtype == np.float64 and K.dtype.isnative and K.flags.aligned and K.flags.writeable
    if overwrite and usable and (rows or K.flags.f_contiguous):
        return K.T if rows else K
    if rows:
        return np.array(K, dtype=np.float64, order="C").T
    return np.array(K, dtype=np.float64, order="F")


def potrf(a: np.ndarray) -> bool:
    """Replace the lower triangle by L in place; False if the matrix is not positive definite."""
    if a.shape[0] == 0:
        return True
    with np.errstate(all="ignore"):
        factorise = dpotrf if a.dtype == np.float64 else spotrf
        _, info = factorise(a, lower=1, clean=0, overwrite_a=1)
    # OpenBLAS lets NaN pass with info = 0, but then some Lᵢᵢ is NaN or infinite.
    return info == 0 and bool(np.isfinite(np.diagonal(a)).all())


def restore(a: np.ndarray, diagonal: np.ndarray) -> None:
    """Undo `potrf`, which leaves the strict upper triangle as it was, and set the diagonal."""
    mirror(a)
    np.einsum("ii->i", a)[...] = diagonal


def mirror(a: np.ndarray) -> None:
    """Copy the strict upper triangle onto the lower one, a panel of columns at a time."""
    n = a.shape[0]
    for i in range(0, n, _PANEL):
        j = min(i + _PANEL, n)
        a[j:, i:j] = a[i:j, j:].T
        corner = a[i:j, i:j]
        below = np.tril_indices(j - i, -1)
        corner[below] = corner.T[below]
