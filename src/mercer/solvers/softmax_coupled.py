"""The Newton matrix of softmax with all classes coupled, by C + 1 factorisations of n×n matrices.

The curvature of a row with probabilities p is W = w(diag p − ppᵀ). With D_c = w p_c and
E_c = (K/alpha + D_c⁻¹)⁻¹ the matrix Q = (K/alpha ⊗ I + W⁺)⁻¹ on vectors whose rows sum to 0 has the
blocks E_c δ_cd − E_c (Σ E)⁻¹ E_d (Rasmussen and Williams 2006, section 3.5).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl
from scipy.linalg.lapack import dpotrf, dpotri

from mercer.errors import NotPositiveDefinite

__all__ = ["CoupledFactor", "contrasts", "coupled_bytes"]

RARE = 1e-12  # probabilities below are taken as this


def coupled_bytes(n: int, classes: int) -> int:
    """Return the memory of a `CoupledFactor` while it is made."""
    return 8 * (classes + 3) * n * n


def contrasts(classes: int) -> np.ndarray:
    """Return an orthonormal basis of the vectors that sum to 0, shape (C, C − 1)."""
    return np.asarray(sl.helmert(classes).T)


class CoupledFactor:
    """Q of a Gram matrix, and what Newton steps need of it.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    p : ndarray of shape (n, C)
        Probabilities, rows with the sum 1.
    w : ndarray of shape (n,)
        Weights.
    alpha : float
        The penalty.
    """

    def __init__(self, K: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float):
        n, C = p.shape
        p = np.maximum(p, RARE)
        p = p / p.sum(axis=1, keepdims=True)
        self.alpha, self.D = alpha, w[:, None] * p
        self.E = np.empty((C, n, n))
        for c in range(C):
            root = np.sqrt(self.D[:, c])
            B = np.multiply(K, root / alpha, order="F")
            B *= root[:, None]
            B.flat[:: n + 1] += 1.0
            L, info = dpotrf(B, lower=1, overwrite_a=1)
            B, bad = dpotri(L, lower=1, overwrite_c=1)
            if info or bad:
                raise NotPositiveDefinite("The Newton matrix of a class is not positive definite.")
            np.multiply(np.tril(B), root, out=self.E[c])
            self.E[c] *= root[:, None]
            self.E[c] += np.tril(self.E[c], -1).T
        both = self.E.sum(axis=0)
        self.L, info = dpotrf(both, lower=1)
        if info:
            raise NotPositiveDefinite("The Newton matrix of the classes is not positive definite.")
        self.ones = self.E.sum(axis=2).T  # E_c 1, shape (n, C)
        self._sums: np.ndarray | None = None

    def times(self, V: np.ndarray) -> np.ndarray:
        """Return Q V for V of shape (n, C)."""
        EV = np.stack([E @ v for E, v in zip(self.E, V.T, strict=True)], axis=1)
        common = sl.cho_solve((self.L, True), EV.sum(axis=1), check_finite=False)
        return EV - np.stack([E @ common for E in self.E], axis=1)

    def of_constants(self) -> np.ndarray:
        """Return Q(1 ⊗ I), shape (n, C, C): the last axis says which class has the ones."""
        common = sl.cho_solve((self.L, True), self.ones, check_finite=False)
        out = -np.stack([E @ common for E in self.E], axis=1)
        at = np.arange(out.shape[1])
        out[:, at, at] += self.ones
        return out

    def step(self, r: np.ndarray, sums: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return (δ, δb) with alpha δ + W(Kδ + 1δbᵀ) = −r, and Σδ = −sums if there are offsets.

        δ = −Q(W⁺r + 1δbᵀ)/alpha, and r/D is a W⁺r as the rows of r sum to 0.
        """
        alpha, C = self.alpha, r.shape[1]
        r = r - r.mean(axis=1, keepdims=True)
        delta = -self.times(r / self.D) / alpha
        if sums is None:
            return delta, np.zeros(C)
        if self._sums is None:
            self._sums = self.of_constants()
        H = contrasts(C)
        middle = H.T @ self._sums.sum(axis=0) @ H
        want = alpha * (delta.sum(axis=0) + sums)
        shift = H @ np.linalg.solve(middle, H.T @ want)
        return delta - (self._sums @ shift) / alpha, shift
