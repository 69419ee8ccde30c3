"""Why a matrix could not be factorised: its smallest eigenvalue, the cause, the knob to turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal, eigvalsh
from scipy.linalg.lapack import dpotrs

from mercer.errors import NotPositiveDefinite
from mercer.solvers.inplace import potrf, restore

__all__ = ["lanczos_top", "not_positive_definite"]

_DENSE = 2000  # up to this n the spectrum is computed, above it λ_min by inverse Lanczos
_STEPS = 40


def not_positive_definite(
    a: np.ndarray, tried: str, owner: str, knob: str = "alpha"
) -> NotPositiveDefinite:
    """Return the exception for a symmetric Fortran array that has no Cholesky factor.

    Parameters
    ----------
    a : ndarray of shape (n, n)
        The matrix, both triangles; destroyed.
    tried : str
        What was tried before giving up, a clause for the message.
    owner : str
        Whose matrix it is; the message begins with it.
    knob : str, default="alpha"
        What the user calls the ridge.

    Returns
    -------
    NotPositiveDefinite
        To be raised by the caller.
    """
    n = a.shape[0]
    smallest, largest = _dense_ends(a) if n <= _DENSE else _lanczos_ends(a)
    about = "" if n <= _DENSE else "about "
    if smallest < -1e-8 * abs(largest):
        cause = "It is indefinite, so it is not the Gram matrix of a positive definite kernel"
        cure = f"test the kernel with mercer.check_kernel, or raise {knob} by {-smallest:.3g}"
    else:
        cause = "It is singular to working precision, as with duplicate points"
        cure = f"use a larger {knob}, drop duplicate points, or test the kernel by check_kernel"
    return NotPositiveDefinite(
        f"{owner}: the {n}×{n} matrix K + ridge is not positive definite: smallest eigenvalue "
        f"{about}{smallest:.6g}, largest {about}{largest:.6g}; {tried}. {cause}; {cure}.",
        smallest_eigenvalue=smallest,
    )


def _dense_ends(a: np.ndarray) -> tuple[float, float]:
    values = eigvalsh(a, overwrite_a=True, check_finite=False)
    return float(values[0]), float(values[-1])


def _lanczos_ends(a: np.ndarray) -> tuple[float, float]:
    """Lanczos on A for λ_max, then on (A + sI)⁻¹ for λ_min, s the first shift that factorises.

    Plain Lanczos cannot see a small negative eigenvalue next to the cluster at zero that every
    Gram matrix has; inverted, it is the largest: λ_min = 1/μ − s.
    """
    n = a.shape[0]
    diagonal = np.diagonal(a).copy()
    top = float(np.abs(a).max()) or 1.0
    largest = lanczos_top(lambda v: a @ v, n)
    shift = 1e-14 * max(largest, top)
    while True:
        restore(a, diagonal + shift)
        if potrf(a):
            break
        shift *= 100.0  # ends, since A + sI is diagonally dominant from s = n·max|A| on
    mu = lanczos_top(lambda v: dpotrs(a, v, lower=1)[0], n)
    return 1.0 / mu - shift, largest


def lanczos_top(product: Callable[[np.ndarray], np.ndarray], n: int, steps: int = _STEPS) -> float:
    """Return the largest Ritz value of a symmetric matrix, a lower bound of its top eigenvalue.

    Parameters
    ----------
    product : callable
        Multiplies by the matrix.
    n : int
        Order of the matrix.
    steps : int, default=40
        Lanczos steps, with full reorthogonalisation, from a fixed start.

    Returns
    -------
    float
        The Ritz value.
    """
    steps = min(steps, n)
    Q = np.zeros((steps, n))
    alpha, beta = np.zeros(steps), np.zeros(steps)
    q = np.random.default_rng(0).standard_normal(n)
    q /= np.linalg.norm(q)
    for j in range(steps):
        Q[j] = q
        w = product(q)
        alpha[j] = q @ w
        for _ in range(2):
            w = w - Q[: j + 1].T @ (Q[: j + 1] @ w)
        beta[j] = np.linalg.norm(w)
        if beta[j] <= 1e-14 * np.abs(alpha[: j + 1]).max():
            break
        q = w / beta[j]
    return float(eigh_tridiagonal(alpha[: j + 1], beta[:j], eigvals_only=True)[-1])
