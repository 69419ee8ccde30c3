"""Changed factorisations: rows of a matrix added and taken out at n² flops each, not n³/3."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmv

from mercer.engines.budget import require_memory
from mercer.solvers.cholesky import factor
from mercer.solvers.cholesky_factor import CholeskyFactor
from mercer.solvers.inplace import potrf, restore

__all__ = ["append_rows", "delete_rows", "drift", "factor_again"]

# A row taken out streams the factor through memory, a factorisation reuses what is in the cache:
# beyond this part of the rows it is quicker to factorise what is left.
_FEW = 1 / 64
_RUNS = 32  # of rows that stay together: fewer are copied as blocks
_CHUNK = 2**24  # entries that a compiled loop visits before it returns to Python


def append_rows(
    f: CholeskyFactor, C12: np.ndarray, C22: np.ndarray, owner: str, knob: str = "alpha"
) -> CholeskyFactor:
    """Return the factor of the matrix with k more rows and columns; n²k + k³/3 flops.

    Where that fails, or the factor holds jitter, the whole matrix is factorised again.

    Parameters
    ----------
    f : CholeskyFactor
        Of the matrix so far, of order n; not changed.
    C12 : ndarray of shape (n, k)
        The new columns.
    C22 : ndarray of shape (k, k)
        The new corner, what is added to its diagonal included.
    owner, knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of order n + k.
    """
    n, k = C12.shape
    require_memory(8 * (n + k) ** 2, f"{owner}: the {n + k} × {n + k} factor", "Use fewer points")
    a = np.empty((n + k, n + k), order="F")
    a[:n, :n] = f._a
    a[:n, n:] = C12
    corner = np.array(C22, dtype=np.float64, order="F")
    diagonal = np.concatenate([f._diagonal, np.diagonal(corner)])
    # [C₁₁ C₁₂; · C₂₂] has the factor [L₁₁ 0; L₂₁ L₂₂], L₂₁ᵀ = L₁₁⁻¹C₁₂, L₂₂L₂₂ᵀ = C₂₂ − L₂₁L₂₁ᵀ.
    half = f.half_solve(C12)
    a[n:, :n] = half.T
    a[n:, n:] = corner
    low = np.array(corner - half.T @ half, order="F")
    if f.jitter == 0.0 and potrf(low):
        below = np.tril_indices(k)
        a[n:, n:][below] = low[below]
        return CholeskyFactor(a, 0.0, diagonal)
    return _factorised(a, diagonal, owner, knob)


def delete_rows(
    f: CholeskyFactor, index: np.ndarray, owner: str, knob: str = "alpha"
) -> CholeskyFactor:
    """Return the factor of the matrix without some rows and columns; 2n² flops each.

    Many rows at once, or rows of a factor with jitter, are left out by a new factorisation.

    Parameters
    ----------
    f : CholeskyFactor
        Of order n; not changed.
    index : array of int
        Distinct positions ≥ 0, fewer than n of them.
    owner, knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of order n − len(index).
    """
    keep = np.delete(np.arange(f.n), index)
    require_memory(8 * f.n**2, f"{owner}: the {f.n} × {f.n} factor", "Use fewer points")
    if f.jitter or len(index) > max(1, int(_FEW * f.n)):
        return _factorised(_part(f._a, keep), f._diagonal[keep], owner, knob)
    from mercer.jit.steps import rank_one

    rows = f._a.T.copy()  # row j holds column j of L; K is behind the diagonal
    for i in np.sort(index)[::-1]:
        # Without row i the columns behind it lose the column below Lᵢᵢ: L₃₃L₃₃ᵀ + l₃₂l₃₂ᵀ.
        x = np.zeros(f.n)
        x[i + 1 :] = rows[i, i + 1 :]
        rows[i, i + 1 :] = 0  # the row stays until the end, and must not act on those before it
        rows[:i, i] = 0
        step = max(1, _CHUNK // f.n)
        for first in range(int(i) + 1, f.n, step):
            rank_one(rows, x, first, min(first + step, f.n))
    return CholeskyFactor(_part(rows.T, keep), 0.0, f._diagonal[keep])


def drift(f: CholeskyFactor) -> float:
    """Return ‖(A − LLᵀ)v‖/‖Av‖ for one v of plus and minus one: what rounding has added up to."""
    if f.n == 0:
        return 0.0
    v = np.where(np.random.default_rng(f.n).random(f.n) < 0.5, -1.0, 1.0)
    exact = f.matmul(v) + f.jitter * v
    product = dtrmv(f._a, dtrmv(f._a, v, lower=1, trans=1), lower=1)
    size = max(float(np.linalg.norm(exact)), 1e-300)
    return float(np.linalg.norm(exact - product)) / size


def factor_again(f: CholeskyFactor, owner: str, knob: str = "alpha") -> CholeskyFactor:
    """Return a fresh factor of the matrix that f is a factor of.

    Parameters
    ----------
    f : CholeskyFactor
        Not changed.
    owner, knob : str
        Whose matrix this is, and the parameter that would make it definite, for messages.

    Returns
    -------
    CholeskyFactor
        Of the same matrix.
    """
    require_memory(8 * f.n**2, f"{owner}: the {f.n} × {f.n} factor", "Use fewer points")
    return _factorised(f._a.copy(order="F"), f._diagonal, owner, knob)


def _part(a: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return chosen rows and columns of a Fortran array, as another one; runs of them by copies."""
    cuts = np.flatnonzero(np.diff(keep) > 1) + 1
    if len(cuts) > _RUNS:
        return a.T[np.ix_(keep, keep)].T
    out = np.empty((len(keep), len(keep)), order="F")
    runs = [slice(r[0], r[-1] + 1) for r in np.split(np.arange(len(keep)), cuts)]
    for to_cols in runs:
        cols = slice(keep[to_cols.start], keep[to_cols.stop - 1] + 1)
        for to_rows in runs:
            rows = slice(keep[to_rows.start], keep[to_rows.stop - 1] + 1)
            out[to_rows, to_cols] = a[rows, cols]
    return out


def _factorised(a: np.ndarray, diagonal: np.ndarray, owner: str, knob: str) -> CholeskyFactor:
    restore(a, diagonal)
    return factor(a, overwrite=True, owner=owner, knob=knob)
