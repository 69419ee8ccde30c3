"""Whether a sparse approximation comes from a kernel: what a positive semidefinite K cannot do.

Where K is positive semidefinite so is K − Q, Q = K_fu K_uu⁻¹ K_uf, of which the diagonal k − q and
the trace are known. s = kᵢ − qᵢ is the Schur complement of K_uu in the matrix K of the inducing
points and row i, so K has the eigenvalue s/(1 + ‖K_uu⁻¹kᵢ‖²) or a smaller one.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpocon

from mercer.errors import NotPositiveDefinite
from mercer.estimator import repair
from mercer.features import distinct
from mercer.kernels import Kernel, has_white, unproven
from mercer.lapack import eigh
from mercer.operators import Gram, gram_of
from mercer.settings import get_config
from mercer.solvers import CholeskyFactor, factor, rpcholesky

# ---- Inducing points: kernel matrices with them, and their choice by randomly pivoted Cholesky.


CANDIDATES = 20_000  # rows, drawn at random, among which pivots are looked for
EACH = 10  # but at least so many for each inducing point
# Pivots end where what is left, tr(K − Q), is this part of the noise: F ≥ evidence − n·PART/2.
PART = 1e-9


def cross(kernel: Kernel, X: Any, U: Any) -> Any:
    """Return the kernel bound to all rows and the inducing points."""
    return gram_of(kernel, *kernel.domain.match(X, U), host=True).bound


def corner(kernel: Kernel, X: Any, U: Any) -> Gram:
    """Return the Gram matrix of the inducing points.

    White noise belongs to an observation; the function at an inducing point has none.
    """
    if not kernel.domain.holds_points:
        return gram_of(kernel, kernel.domain.subset(X, U), host=True)
    return gram_of(kernel, U, U if has_white(kernel) else None, host=True)


def subset(n: int, most: int, rng: np.random.RandomState) -> np.ndarray:
    """Return at most `most` of n positions, in their order, drawn without replacement."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def pivoted(
    kernel: Kernel, X: Any, m: int, noise: float, rng: np.random.RandomState
) -> tuple[np.ndarray, float]:
    """Return the positions of at most m inducing points among the rows, and the trace left over.

    Candidates are the different points, sorted, so that neither order nor repetition of rows plays
    a part; of very many, some drawn at random. The rank-m Cholesky factor of their Gram matrix
    needs m numbers a candidate, and at most an eighth of the memory budget.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : canonical collection
        The rows.
    m : int
        Number of points wanted; there are fewer where the kernel matrix has no larger rank.
    noise : float
        Variance of the noise: what is far below it is not looked for.
    rng : RandomState
        Source of the pivots.

    Returns
    -------
    positions : ndarray of int
        In the order of their choice.
    error : float
        tr(K − Q)/tr(K) over the candidates.
    """
    rows, _ = distinct(kernel, X, None)
    m = min(m, len(rows))
    most = min(max(CANDIDATES, EACH * m), get_config().memory // (64 * max(1, m)))
    rows = rows[subset(len(rows), max(m, int(most)), rng)]
    points = kernel.domain.subset(X, rows)
    if not kernel.domain.holds_points and is_single(points):  # then so is its rounding
        points = points.astype(np.float32)
    K = gram_of(kernel, points)
    mean = float(np.mean(K.diagonal())) if len(rows) else 0.0
    tol = PART * min(1.0, noise / mean) if mean > 0 else 0.0
    chosen = rpcholesky(K, m, rng, tol)
    if not len(chosen.pivots):  # a kernel that is 0 everywhere on these rows
        return rows[:1], 0.0
    # Blocks of pivots go past the tolerance; the last of a block would make K_uu singular.
    left = 1.0 - np.cumsum(np.einsum("ij,ij->i", chosen.F, chosen.F)) / (mean * len(rows))
    size = min(int(np.searchsorted(-left, -tol)) + 1, chosen.rank)
    return rows[chosen.pivots[:size]], max(0.0, float(left[size - 1]))


# ---- sparse checks ----


EPS = float(np.finfo(float).eps)
SINGLE = float(np.finfo(np.float32).eps)
SAMPLE = 200  # rows whose matrix is judged by its eigenvalues
CHECKED_PART = (
    1e-6  # of the largest k(x, x), and of the noise: a negative k − q up to it is harmless
)
INDEFINITE = 1e-8  # part of the trace that a negative eigenvalue needs to be no rounding


def check_sample(kernel: Kernel, X: Any, seed: int) -> None:
    """Refuse a kernel that only its user vouches for, and whose matrix of some rows is indefinite.

    Few inducing points may see nothing of it; see the head of the file.
    """
    if not unproven(kernel):
        return
    most = min(SAMPLE, isqrt(get_config().memory // 64))
    rows = subset(kernel.domain.size(X), most, np.random.RandomState(seed))
    if not len(rows):
        return
    K = gram_of(kernel, kernel.domain.subset(X, rows), host=True).to_dense()
    K = np.array(K, dtype=float)
    low, trace = float(eigh(K, eigvals_only=True)[0]), float(np.abs(np.diagonal(K)).sum())
    if low < -INDEFINITE * trace:
        raise NotPositiveDefinite(
            f"{kernel}: the matrix of {len(rows)} rows has an eigenvalue of {low:.4g} in the "
            "units of kernel_, so it is not positive semidefinite and not that of a kernel, "
            f"whatever the noise. {repair(kernel)}",
            low,
        )


def corner_factor(K: np.ndarray, kernel: str) -> CholeskyFactor:
    """Return the Cholesky factor of K_uu, which is destroyed.

    Raises
    ------
    NotPositiveDefinite
        In words of inducing points.
    """
    m, trace = len(K), float(np.trace(K))
    try:
        return factor(K, overwrite=True, owner=kernel)
    except NotPositiveDefinite as error:
        low = error.smallest_eigenvalue
        if low is None:
            raise
        what = (
            f"{kernel}: the kernel matrix of the {m} inducing points is not positive definite: its "
            f"smallest eigenvalue is {low:.4g}, in the units of kernel_"
        )
        if low < -INDEFINITE * abs(trace):
            what += ". So it is indefinite, and not that of a kernel, whatever the noise. "
            what += repair(kernel)
        else:
            what += (
                ", and jitter does not help. It is singular to rounding, as with points given "
                "twice; use fewer inducing points, or inducing='pivoted'."
            )
        raise NotPositiveDefinite(what, low) from None


def is_single(K: np.ndarray) -> bool:
    """Whether kernel values have the digits of float32, whatever their type."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(K, K.astype(np.float32)))


def conditioned(lower: np.ndarray, norm: float, single: bool) -> tuple[float, float]:
    """Return 1/cond(K_uu), and the relative error that rounding leaves in q."""
    rcond = float(dpocon(lower, norm, uplo="L")[0])
    return rcond, (SINGLE if single else EPS) / max(rcond, EPS)


def check_trace(first: Any, trace: float) -> None:
    """Refuse tr P(K − Q) below 0 by more than rounding; ``trace`` is tr PK."""
    slack = trace - float(np.trace(first.S))
    if slack < -(CHECKED_PART + first.rounding) * trace - CHECKED_PART * len(first.diagonal):
        raise NotPositiveDefinite(
            f"{first.bound.name}: tr P(K − Q) = {slack:.4g}, P the precisions of the rows and Q "
            "what the inducing points explain of K; it is never below 0 where the kernel is "
            f"positive semidefinite. {repair(first.bound.name)}"
        )


def check_rows(first: Any, noise: Any) -> None:
    """Refuse a k(x, x) of which the inducing points explain more than there is.

    Parameters
    ----------
    first : Pass
        What one pass over whitened rows found; ``explained`` holds q.
    noise : float or ndarray of shape (n,)
        Variance of the noise of the rows.
    """
    k, q = first.diagonal, first.explained
    rounding = EPS if first.null else first.rounding
    harmless = (CHECKED_PART + rounding) * float(np.max(k, initial=0.0)) + CHECKED_PART * noise
    left = k - q + harmless
    i = int(np.argmin(left)) if len(k) else 0
    if not len(k) or left[i] >= 0:
        return
    if first.null:
        raise NotPositiveDefinite(
            f"{first.bound.name}: k(u, u) = 0 at all inducing points u, and yet k(x, u) is not 0 "
            f"at row {i}; a positive semidefinite kernel has k(x, u)² ≤ k(x, x)·k(u, u). "
            f"{repair(first.bound.name)}"
        )
    every = slice(0, first.bound.shape[1])
    row = np.array(first.bound.tile(slice(i, i + 1), every), dtype=float)[0]
    v = dtrsv(first.lower, dtrsv(first.lower, row, lower=1), lower=1, trans=1)
    low = float((k[i] - q[i]) / (1.0 + v @ v))
    raise NotPositiveDefinite(
        f"{first.bound.name}: at row {i} the inducing points explain {q[i]:.4g} of k(x, x) = "
        f"{k[i]:.4g}, so that K − Q has the diagonal entry {k[i] - q[i]:.4g} and K an eigenvalue "
        f"of {low:.4g} or less, in the units of kernel_: it is not positive semidefinite and not "
        f"that of a kernel, whatever the noise. {repair(first.bound.name)}",
        low,
    )
