"""Features of few pivots that stand for a Gram matrix too large to be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.operators import Operator
from mercer.operators.base import Index
from mercer.solvers import rpcholesky

__all__ = ["Pivoted", "pivoted_features"]

ENOUGH = 1e-12  # part of the trace that need not be explained: the mean may be most of it


@dataclass(frozen=True, eq=False)
class Pivoted:
    """k(x, x′) ≈ φ(x)ᵀφ(x′) with φ(x) = L⁻¹ k(P, x).

    Parameters
    ----------
    F : ndarray of shape (r, n)
        φ of all points, less their weighted mean.
    mean : ndarray of shape (r,)
        The mean.
    pivots : ndarray of int, shape (r,)
        Positions of the points P.
    L : ndarray of shape (r, r)
        Lower triangular, LLᵀ = k(P, P).
    error : float
        Σ wᵢ(k(xᵢ, xᵢ) − ‖φ(xᵢ)‖²), what the features leave out.
    share : float
        That, as a part of Σ wᵢk(xᵢ, xᵢ).
    """

    F: np.ndarray
    mean: np.ndarray
    pivots: np.ndarray
    L: np.ndarray
    error: float
    share: float

    def coefficients(self, C: np.ndarray) -> np.ndarray:
        """Return centres (k, r) as combinations of the φ(p): a column of coefficients each."""
        whole = C + self.mean
        return solve_triangular(self.L, whole.T, lower=True, trans="T", check_finite=False)


class _Weighted(Operator):
    """W^½ A W^½: its pivots are those of A with every row repeated as its weight says."""

    symmetric = psd = True

    def __init__(self, A: Operator, roots: np.ndarray):
        self.A, self.roots, self.shape, self.dtype = A, roots, A.shape, A.dtype

    def _block(self, rows: Index, cols: Index) -> np.ndarray:
        part = self.roots[rows][:, None] * self.A.block(rows, cols)
        part *= self.roots[cols]
        return part

    def diagonal(self) -> np.ndarray:
        """Return the diagonal."""
        return self.roots**2 * self.A.diagonal()


def pivoted_features(
    A: Operator, lengths: np.ndarray, weights: np.ndarray, rank: int, rng: Any
) -> Pivoted:
    """Return features by randomly pivoted Cholesky, the error of which is known.

    Parameters
    ----------
    A : Operator
        The Gram matrix, of which some rows are read.
    lengths, weights : ndarrays of shape (n,)
        k(x, x), and the weights.
    rank : int
        Most pivots.
    rng : RandomState
        Source of the pivots.
    """
    roots = np.sqrt(weights / weights.max())
    low = rpcholesky(_Weighted(A, roots), rank, rng, ENOUGH)
    F, pivots = low.F, low.pivots
    counted = roots > 0
    F /= np.where(counted, roots, 1.0)
    L = np.tril(F[:, pivots].T)
    absent = np.flatnonzero(~counted)
    if len(absent) and len(pivots):
        values = np.asarray(A.block(pivots, absent), dtype=np.float64)
        F[:, absent] = solve_triangular(L, values, lower=True, check_finite=False)
    left = np.maximum(lengths - np.einsum("ij,ij->j", F, F), 0.0)
    error, all_of_it = float(weights @ left), float(weights @ lengths)
    mean = F @ (weights / weights.sum())
    F -= mean[:, None]
    return Pivoted(F, mean, pivots, L, error, error / all_of_it if all_of_it > 0 else 0.0)
