"""Ridge in the primal: normal equations of sparse features, dual coefficients of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import InvalidInput
from mercer.memory import require_memory
from mercer.solvers import factor

if TYPE_CHECKING:
    from mercer.models.ridge.exact import LeastSquares


REFINED = 2  # times that the gradient, computed from the features, corrects the weights


def solve_sparse(
    p: LeastSquares, phi: sp.csr_array, alpha: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return primal weights v, the mean features μ and the jitter of the factorisation.

    With weighted means taken off, (ΦᵀWΦ − ωμμᵀ + αI)v = ΦᵀW(T − 1m), ω the sum of the weights.
    The difference loses what digits μμᵀ and ΦᵀWΦ share; corrections by the gradient, which is
    computed from the features themselves, bring them back.
    """
    D = phi.shape[1]
    require_memory(
        3 * D * D * 8 + 3 * phi.nnz * 12,
        f"KernelRidge: the {D} × {D} normal equations of {p.kernel!r}",
        "Fit fewer rows or columns",
    )
    if not np.isfinite(phi.data).all():
        raise InvalidInput(
            f"{p.kernel!r}: its features are not finite on these data; scale the columns."
        )
    total = float(p.w.sum())
    weighted = sp.diags_array(p.w) @ phi
    mu = np.asarray(phi.T @ p.w) / total if p.offset else np.zeros(D)
    m: Any = p.w @ p.T / total if p.offset else np.zeros(p.T.shape[1])
    G = (phi.T @ weighted).toarray()
    G -= total * np.outer(mu, mu)
    f = factor(G, alpha, overwrite=True, owner=repr(p.kernel))
    v = np.zeros((D, p.T.shape[1]))
    for _ in range(1 + REFINED):
        e = p.T - m - (np.asarray(phi @ v) - mu @ v)
        slope = np.asarray(weighted.T @ e) - np.outer(mu, p.w @ e)
        v += f.solve(slope - alpha * v)
    return v, mu, f.jitter


def dual_of(p: LeastSquares, v: np.ndarray, phi: Any, b: np.ndarray, alpha: Any) -> np.ndarray:
    """Return coefficients a with Φᵀa = v: W(y − f)/α, or where α is too small a projection."""
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), (v.shape[1],))
    if (alpha > 0).all():
        a = p.w[:, None] * (p.T - np.asarray(phi @ v) - b) / alpha
        error = np.linalg.norm(np.asarray(phi.T @ a) - v)
        if error <= 1e-8 * np.linalg.norm(v):
            return a
    dense = phi.toarray() if sp.issparse(phi) else np.asarray(phi, dtype=float)
    return np.linalg.lstsq(dense.T, v, rcond=None)[0]
