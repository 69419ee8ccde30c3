"""Which points span what all of them span, and the Cholesky factor of their kernel matrix."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpstrf

from mercer.errors import NotPositiveDefinite
from mercer.kernels import Kernel

__all__ = ["spanning_factor"]

EPS = float(np.finfo(np.float64).eps)
#: Of the largest k(z, z) this must be left beside the points before, for no pivots to be needed.
CLEAR = 1e-11


def spanning_factor(K: np.ndarray, kernel: Kernel, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Return L and positions p with LLᵀ = K[p][:, p], as far as K has rank.

    Points stay in their order where each adds to those before; else LAPACK chooses pivots.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        k(Z, Z) in float64.
    kernel : Kernel
        The kernel, for messages.
    owner : str
        Who asks, for messages.
    """
    d, m = np.diagonal(K), len(K)
    top = float(d.max())
    if not top > 0:  # k is 0 everywhere: one feature, of zeros
        return np.ones((1, 1)), np.zeros(1, dtype=np.intp)
    L, failed = dpotrf(K, lower=1)
    if not failed and np.diagonal(L).min() ** 2 > CLEAR * top:
        return L, np.arange(m)
    L, pivots, rank, _ = dpstrf(K, tol=4 * m**0.5 * EPS * top, lower=1)
    kept, dropped = pivots[:rank] - 1, pivots[rank:] - 1
    below = L[rank:, :rank]
    left = d[dropped] - np.einsum("ij,ij->i", below, below)
    if len(left) and left.min() < -100 * np.sqrt(EPS) * top:
        raise NotPositiveDefinite(
            f"{owner}: {kernel!r} is not positive semidefinite on the landmarks: after {rank} "
            f"pivots {left.min():.3g} is left of k(z, z). Test it with mercer.check_kernel."
        )
    return np.asfortranarray(np.tril(L[:rank, :rank])), kept.astype(np.intp)
