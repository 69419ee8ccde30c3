"""One n×n Fortran array: factorise its lower triangle, and take that back from the upper one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, lapack

from mercer.domains import to_host
from mercer.errors import InvalidInput, NotPositiveDefinite, who
from mercer.lapack import MANY, cho_factor, dpotrf, dpotrs, eigh
from mercer.solvers.linear.krylov import lanczos_top

_PANEL = 64


def finite(entries: Any) -> np.ndarray:
    """Return entries of a matrix in float64, or refuse those that are not finite."""
    out = np.asarray(entries, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InvalidInput(
            f"{who()}: the matrix holds NaN or infinity; check the data for NaN and the kernel's "
            "parameters for overflow."
        )
    return out


def cuts(n: int, step: int, start: int = 0) -> list[tuple[int, int]]:
    """Return the ends of the blocks of `step` places that start to n are cut into."""
    return [(i, min(i + step, n)) for i in range(start, n, step)]


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
        factorise = dpotrf if len(a) > MANY else lapack.dpotrf
        factorise = factorise if a.dtype == np.float64 else lapack.spotrf
        _, info = factorise(a, lower=1, clean=0, overwrite_a=1)
    # OpenBLAS lets NaN pass with info = 0, but then some Lᵢᵢ is NaN or infinite.
    return info == 0 and bool(np.isfinite(np.diagonal(a)).all())


def restore(a: np.ndarray, diagonal: np.ndarray) -> None:
    """Undo `potrf`, which leaves the strict upper triangle as it was, and set the diagonal."""
    mirror(a)
    np.einsum("ii->i", a)[...] = diagonal


def mirror(a: np.ndarray) -> None:
    """Copy the strict upper triangle onto the lower one, a panel of columns at a time."""
    for i, j in cuts(len(a), _PANEL):
        a[j:, i:j] = a[i:j, j:].T
        corner = a[i:j, i:j]
        below = np.tril_indices(j - i, -1)
        corner[below] = corner.T[below]


# ---- How much is added to the diagonal of a matrix whose factorisation fails ----


# Rungs of jitter="auto", relative to the mean of the diagonal. Rounding in the factorisation of a
# singular Gram matrix is of order n·eps·mean(diag) (Higham, Accuracy and Stability of Numerical
# Algorithms, 2nd ed., §10.1), which the first two rungs cover. The mean of the diagonal is the mean
# eigenvalue, hence at most λ_max: what the last rung repairs has λ_min ≥ −1e-8·λ_max up to
# rounding, so a matrix that is indefinite beyond 1e-8 can never be jittered into an answer.
_RUNGS = (1e-14, 1e-12, 1e-10, 1e-8)


def jittered(
    a: Any, diagonal: Any, jitter: str | float, potrf: Callable, restore: Callable
) -> float | None:
    """Factorise what has no factor with the least jitter that helps, and return that.

    None where nothing helps; then `restore` has made the matrix with this diagonal again.
    """
    for amount in jitter_amounts(to_host(diagonal), jitter):
        restore(a, diagonal + amount)
        if potrf(a):
            return amount
    restore(a, diagonal)
    return None


def factor_with_ridge(H: np.ndarray, ridges: Iterable[float]) -> Any:
    """Return what `cho_solve` takes for H plus the first of some ridges that helps, or None."""
    for ridge in ridges:
        M = np.array(H, dtype=np.float64)
        M.flat[:: len(M) + 1] += ridge
        try:
            # LAPACK works in place on Fortran order, and M is symmetric.
            return cho_factor(M.T, lower=True, overwrite_a=True)
        except (LinAlgError, ValueError):
            continue
    return None


def jitter_amounts(diagonal: np.ndarray, jitter: str | float) -> list[float]:
    """Return what to add to a diagonal, in the order of trying: "auto", or the one amount."""
    if jitter != "auto":
        return [float(jitter)] if float(jitter) > 0 else []
    mean = float(np.mean(diagonal / diagonal.size)) * diagonal.size  # no overflow at 1e308
    hopeless = mean <= 0 or float(diagonal.min()) < -_RUNGS[-1] * mean
    return [] if hopeless else [rung * mean for rung in _RUNGS]


def jitter_tried(jitter: str | float) -> str:
    """Return in words what has been tried."""
    if jitter == "auto":
        return f"jitter up to {_RUNGS[-1]:g} of the mean diagonal does not help"
    return f"jitter {float(jitter):g} does not help" if float(jitter) > 0 else "jitter is off"


# ---- Why a matrix could not be factorised: its smallest eigenvalue, the cause, the knob to turn.


_DENSE = 2000  # up to this n the spectrum is computed, above it λ_min by inverse Lanczos


def not_positive_definite(a: np.ndarray, tried: str, knob: str = "alpha") -> NotPositiveDefinite:
    """Return the exception for a symmetric Fortran array that has no Cholesky factor.

    The array is destroyed. `tried` says what was tried before giving up, `knob` is what the user
    calls the ridge.
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
        f"{who()}: the {n}×{n} matrix K + ridge is not positive definite: smallest eigenvalue "
        f"{about}{smallest:.4g}, largest {about}{largest:.4g}; {tried}. {cause}; {cure}.",
        smallest_eigenvalue=smallest,
    )


def _dense_ends(a: np.ndarray) -> tuple[float, float]:
    values = eigh(a, eigvals_only=True, overwrite_a=True, check_finite=False)
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
