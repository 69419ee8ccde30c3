"""Leave-one-out values of softmax: one Newton step without each row, with its classes coupled.

Without row i the step from the solution has the value zᵢ + (Σᵢᵢ⁻¹ − Wᵢ)⁻¹gᵢ at xᵢ, with the slopes
gᵢ = w(p − Y) of the row, its curvature Wᵢ = w(diag p − ppᵀ), and Σᵢᵢ the C×C block of
(alpha K⁻¹ + W)⁻¹ of all rows and classes, with the offsets fitted.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from mercer.engines.budget import require_memory
from mercer.engines.tiles import row_blocks
from mercer.solvers.risk.softmax import CoupledFactor, contrasts, coupled_bytes

__all__ = ["left_out_values", "variances_of_coefficients", "variances_of_features"]

_DIGITS = 1e6  # a rest 1 − leverage must be so many times its rounding error


def left_out_values(
    z: np.ndarray, p: np.ndarray, g: np.ndarray, w: np.ndarray, S: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return z + (Σᵢᵢ⁻¹ − Wᵢ)⁻¹ gᵢ row by row, and which rows have lost their digits.

    Parameters
    ----------
    z, p, g : ndarray of shape (n, C)
        Values, probabilities, and slopes w(p − Y).
    w : ndarray of shape (n,)
        Weights.
    S : ndarray of shape (n, C, C)
        The blocks Σᵢᵢ.
    noise : ndarray of shape (n,)
        About how large the rounding error of a block is.
    """
    H = contrasts(z.shape[1])
    W = H.T @ (w[:, None, None] * (p[:, :, None] * np.eye(p.shape[1]) - _outer(p))) @ H
    S = H.T @ S @ H
    rate, turn = np.linalg.eigh(W)
    root = turn * np.sqrt(np.maximum(rate, 0.0))[:, None, :]
    rest = np.eye(H.shape[1]) - root.transpose(0, 2, 1) @ S @ root
    lost = ~(np.linalg.eigvalsh(rest)[:, 0] > _DIGITS * noise * rate[:, -1])
    rest[lost] = np.eye(H.shape[1])
    # (Σ⁻¹ − W)⁻¹ = Σ + ΣR(I − RᵀΣR)⁻¹RᵀΣ with W = RRᵀ
    u = (g @ H)[:, :, None]
    side = root.transpose(0, 2, 1) @ S
    moved = S @ u + side.transpose(0, 2, 1) @ np.linalg.solve(rest, side @ u)
    return z + moved[:, :, 0] @ H.T, lost


def variances_of_coefficients(
    K: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float, offset: bool
) -> np.ndarray:
    """Return the blocks Σᵢᵢ from C + 1 factorisations of n×n matrices.

    With Q of `CoupledFactor` Σ = K/alpha − (K/alpha) Q (K/alpha); offsets without a penalty add
    U(1ᵀQ1)⁺Uᵀ, U = 1 − (K/alpha)Q1.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    p : ndarray of shape (n, C)
        Probabilities.
    w : ndarray of shape (n,)
        Weights.
    alpha : float
        The penalty.
    offset : bool
        Whether there are offsets.
    """
    n, C = p.shape
    require_memory(coupled_bytes(n, C), f"loo: {C + 3} matrices of {n} × {n}", "Use folds")
    Q = CoupledFactor(K, p, w, alpha)
    H, U = contrasts(C), np.zeros((0, 0, 0))
    if offset:
        Q1 = Q.of_constants()
        U = (np.eye(C) - np.einsum("ij,jcd->icd", K, Q1) / alpha) @ H
        middle = np.linalg.pinv(H.T @ Q1.sum(axis=0) @ H, hermitian=True)
    out = np.zeros((n, C, C))
    for c in range(C):
        EK = Q.E[c] @ K
        out[:, c, c] = np.diagonal(K) / alpha - np.einsum("ij,ij->j", K, EK) / alpha**2
        Q.E[c] = sl.solve_triangular(Q.L, EK, lower=True, check_finite=False)
    for c in range(C):
        for d in range(c, C):
            cross = np.einsum("ij,ij->j", Q.E[c], Q.E[d]) / alpha**2
            out[:, c, d] += cross
            out[:, d, c] += cross if d > c else 0.0
    return out + U @ middle @ U.transpose(0, 2, 1) if offset else out


def variances_of_features(
    F: np.ndarray, p: np.ndarray, w: np.ndarray, alpha: float, offset: bool
) -> np.ndarray:
    """Return the blocks Σᵢᵢ from one factorisation of a matrix of (C − 1)D rows.

    Parameters
    ----------
    F : ndarray of shape (n, D)
        The features, K = FFᵀ.
    p, w, alpha, offset
        As for `variances_of_coefficients`.
    """
    (n, C), m = p.shape, p.shape[1] - 1
    F = F - w @ F / w.sum() if offset else F
    if offset:
        F = np.column_stack([F, np.ones(n)])
    D, H = F.shape[1], contrasts(p.shape[1])
    require_memory(
        8 * (2 * (m * D) ** 2 + 2 * n * D), f"loo: a matrix of {m * D} features", "Use folds"
    )
    W = H.T @ (w[:, None, None] * (p[:, :, None] * np.eye(C) - _outer(p))) @ H
    M = np.empty((m, D, m, D))
    for c in range(m):
        for d in range(c, m):
            M[c, :, d, :] = F.T @ (W[:, c, d, None] * F)
            M[d, :, c, :] = M[c, :, d, :].T
    M = M.reshape(m * D, m * D)
    ridge = np.full((m, D), alpha)
    if offset:
        ridge[:, -1] = 1e-14 * np.trace(M) / len(M)  # the offsets have no penalty
    M.flat[:: m * D + 1] += ridge.ravel()
    L = np.linalg.cholesky(M)
    out = np.empty((n, C, C))
    for rows in row_blocks(n, 3 * 8 * m * m * D):
        k = rows.stop - rows.start
        half = sl.solve_triangular(
            L, np.einsum("cd,if->cfid", np.eye(m), F[rows]).reshape(m * D, k * m), lower=True
        ).reshape(m * D, k, m)
        blocks = np.einsum("aic,aid->icd", half, half)
        out[rows] = H @ blocks @ H.T
    return out


def _outer(p: np.ndarray) -> np.ndarray:
    return p[:, :, None] * p[:, None, :]
