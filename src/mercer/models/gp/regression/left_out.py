"""Leave-one-out of Gaussian process regression, exact and from one factorisation.

Rows S of targets z given all the others are normal with covariance (Q_SS)⁻¹ and mean
z_S − (Q_SS)⁻¹a_S, where a = Qz and Q = C⁻¹ − C⁻¹H(HᵀC⁻¹H)⁻¹HᵀC⁻¹ (Rasmussen & Williams, section
5.4.2; with a flat prior on the coefficients of H the same algebra, since log p(z) differs from
−½zᵀQz by a constant). With R = L⁻¹ and the projection P that takes RH away, Q = FᵀF for F = PR: no
difference of squares is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dtrtri

from mercer.errors import InvalidInput
from mercer.memory import require_memory
from mercer.solvers import CholeskyFactor

if TYPE_CHECKING:
    from mercer.models.gp.regression.evidence import GaussianFit

# Rows of which less than this is left beside the basis decide a coefficient of it alone.
ALONE = 1e-12


def leave_out(
    fit: GaussianFit, Z: np.ndarray, H: np.ndarray, groups: np.ndarray | None, owner: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, t) and variance (n,) of each row of Z given the rows of other groups.

    The variance is that of z itself, the noise σ²/w of its row in C included.

    Parameters
    ----------
    fit : GaussianFit
        The fit to all rows.
    Z : array of shape (n, t)
        Its targets.
    H : array of shape (n, q)
        Its basis; q may be 0.
    groups : array of n ints, or None
        The group of each row; None leaves out each row alone.
    owner : str
        Who asks, for messages.
    """
    n = fit.factor.n
    require_memory(16 * n * n, f"{owner}: the inverse of the {n} × {n} factor", "Use fewer rows")
    if isinstance(fit.factor, CholeskyFactor):
        F = dtrtri(fit.factor.lower().T, lower=0, overwrite_c=1)[0].T  # (Lᵀ)⁻¹ is (L⁻¹)ᵀ, in place
    else:  # the n³ flops are the device's
        F = fit.factor.half_solve(np.eye(n))
    whole = np.einsum("ij,ij->j", F, F)  # (C⁻¹)ᵢᵢ
    if H.shape[1]:
        U = qr(F @ H, mode="economic", check_finite=False)[0]
        for _ in range(2):  # the second time takes away what rounding left
            F -= U @ (U.T @ F)
    if groups is None:
        free = np.einsum("ij,ij->j", F, F)
        _require_others(np.flatnonzero(free <= ALONE * whole), owner)
        return Z - fit.dual / free[:, None], 1.0 / free
    mean, variance = np.empty(Z.shape), np.empty(len(Z))
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        upper = qr(F[:, rows], mode="r", check_finite=False)[0][: len(rows)]  # Q_SS = upperᵀupper
        least = np.abs(np.diagonal(upper)) ** 2
        _require_others(rows[least <= ALONE * whole[rows]], owner)
        inner = solve_triangular(upper, fit.dual[rows], trans="T")
        mean[rows] = Z[rows] - solve_triangular(upper, inner)
        root = solve_triangular(upper, np.eye(len(rows)))
        variance[rows] = np.einsum("ij,ij->i", root, root)
    return mean, variance


def _require_others(rows: np.ndarray, owner: str) -> None:
    if len(rows):
        raise InvalidInput(
            f"{owner}: without row {int(rows[0])} the others do not determine the coefficients of "
            "the mean; use mean='zero', or fewer columns of X."
        )
