"""What every kernel must be for lengths and distances to exist: symmetric, with k(x, x) ≥ 0."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import largest
from mercer.errors import InvalidInput, NotAKernel, NotPositiveDefinite, users_level, who
from mercer.kernels import Kernel
from mercer.operators import gram_of
from mercer.solvers import factor


def repair(kernel: Any) -> str:
    """Return what to do with a kernel, or its text, whose Gram matrix is indefinite."""
    cure = "kernel.repaired('clip') is a kernel near this one"
    if "Precomputed(" in str(kernel):
        cure = (
            "the nearest positive semidefinite matrix is (U * v.clip(0)) @ U.T, with v, U = "
            "numpy.linalg.eigh(K)"
        )
    return f"mercer.check_kernel shows a counter-example; {cure}."


def indefinite(
    kernel: Kernel, equal: bool, low: float, *, bound: bool = False
) -> NotPositiveDefinite:
    """Return the error for a Gram matrix, of equal weights or not, with a negative eigenvalue.

    Of some methods it is a `bound` of the smallest one.
    """
    what = "Gram matrix" if equal else "weighted Gram matrix"
    least = f"an eigenvalue of {low:.4g} or less" if bound else f"smallest eigenvalue {low:.4g}"
    return NotPositiveDefinite(
        f"{kernel}: its {what} has {least}, so it is not positive semidefinite and not that of a "
        f"kernel. {repair(kernel)}",
        low,
    )


# ---- Whether a matrix that only the user vouches for can be a Gram matrix ----


JUDGED = 2000  # rows up to which a matrix that only the user vouches for is tested
INDEFINITE = 1e-7  # an eigenvalue below minus this part of the trace is not even that of float32


def check_definite(kernel: Kernel, K: np.ndarray) -> None:
    """Refuse a matrix that is indefinite beyond rounding: one factorisation tells.

    Parameters
    ----------
    kernel : Kernel
        Whose matrix it is said to be.
    K : ndarray of shape (n, n)
        The matrix, in float64; not changed.
    """
    slack = INDEFINITE * float(np.trace(K))
    if not np.isfinite(slack):
        return  # the diagonal says it better
    try:
        factor(K, slack if slack > 0 else 1e-300, owner=kernel)
    except NotPositiveDefinite as error:
        low = float(error.smallest_eigenvalue or 0.0) - slack
        raise NotPositiveDefinite(
            f"{who()}: the Gram matrix of {kernel} has smallest eigenvalue {low:.4g}, so it is "
            f"not positive semidefinite and not that of a kernel. {repair(kernel)}",
            low,
        ) from None


# ---- lengths ----


PROBED = 48  # points between which symmetry is tried
TINY = 1e-290  # squared lengths below this have lost digits to underflow
NO_SQUARE = 1e-145  # entries below this have no square with all its digits
ROUNDING = 1e-13  # part of k(x, x) that the sum of the squares of features may miss
EPS = 8 * float(np.finfo(np.float64).eps)  # part of k(x, x) that a sum of kernel values may miss
BEYOND = 1e-3  # of that, below which some points need not be asked
DIGITS = 1e-4  # error of a squared distance, relative to the variance, that is told


def check_lengths(
    kernel: Kernel, X: Any, *, underflow: bool = False, rows: str = "row"
) -> np.ndarray:
    """Return k(x, x) of canonical points, if this can be a kernel there.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words.
    X : canonical collection
        The points.
    underflow : bool, default=False
        Whether to refuse points so near 0 that k(x, x) has no digits left.
    rows : str, default="row"
        What a point is called.
    """
    diagonal = np.array(kernel.diag(X), dtype=float)
    refuse_negative(kernel, diagonal, rows)
    if kernel.domain.holds_points:
        n = len(diagonal)
        some = np.unique(np.linspace(0, n - 1, min(n, PROBED)).astype(int))
        gram_of(kernel, kernel.domain.take(X, some)).bound.verify()
    if underflow and diagonal.max(initial=0.0) < TINY and 0 < _size(X) < NO_SQUARE:
        raise InvalidInput(
            f"{who()}: the largest k(x, x) is {diagonal.max(initial=0.0):.3g}: {kernel} "
            "underflows on such small numbers. Multiply them, so that the largest is near 1."
        )
    return diagonal


def tell_rounding(
    kernel: Kernel, X: Any, lengths: np.ndarray, variance: float | None = None
) -> bool:
    """Warn where squared distances have few digits left: kernel values are large, and alike.

    Some of the points tell. Where these do not differ at all, nothing is lost. Return whether
    there was something to tell.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without words.
    X : canonical collection
        The points.
    lengths : ndarray of shape (n,)
        k(x, x).
    variance : float, optional
        That of all points in feature space, where it is known: where it is large beyond doubt,
        nothing else is looked at.
    """
    n, domain = len(lengths), kernel.domain
    if variance is not None and EPS * lengths.max(initial=0.0) < BEYOND * DIGITS * variance:
        return False
    some = np.unique(np.linspace(0, n - 1, min(n, PROBED)).astype(int))
    error = EPS * float(lengths[some].max(initial=0.0))
    K = np.asarray(gram_of(kernel, domain.subset(X, some)).to_dense(), dtype=float)
    variance = float(lengths[some].mean() - K.mean())
    lost = bool(np.ptp(K) > error and error > DIGITS * variance)
    if lost:
        warnings.warn(
            f"{who()}: kernel values are about {error / EPS:.2g}, so that rounding leaves an error "
            f"of about {error**0.5:.2g} in the distances of points, which spread over "
            f"{max(variance, 0.0) ** 0.5:.2g}. Subtract the means of the columns, or use a kernel "
            "of the scale of the data.",
            UserWarning,
            stacklevel=users_level(),
        )
    return lost


def refuse_negative(kernel: Kernel, diagonal: np.ndarray, rows: str = "row") -> None:
    """Refuse a k(x, x) < 0."""
    if (diagonal < 0).any():
        i = int(np.argmax(diagonal < 0))
        raise NotAKernel(
            f"{who()}: k(x, x) = {diagonal[i]:.4g} at {rows} {i}, but it is a squared length. "
            f"{kernel} is not a kernel; mercer.check_kernel shows a counter-example."
        )


def beyond_features(kernel: Kernel, X: Any, phi: Any) -> np.ndarray:
    """Return k(x, x) − ‖φ(x)‖², which is 0 unless new points have parts without a column.

    Such are strings with letters that no training point has. Those parts are orthogonal to all
    that was learned: values of functions do not miss them, squared distances do.

    Parameters
    ----------
    kernel : Kernel
        A kernel with finite features of its training points.
    X : canonical collection of n points
        New points.
    phi : array or sparse array of shape (n, D)
        Their features.
    """
    if kernel._n_features(X) is not None:
        return np.zeros(phi.shape[0])
    squares = phi.multiply(phi) if sp.issparse(phi) else phi * phi
    lengths = np.asarray(kernel.diag(X), dtype=float)
    rest = lengths - np.asarray(squares.sum(axis=1), dtype=float).reshape(-1)
    return np.where(rest > ROUNDING * lengths, rest, 0.0)


def _size(X: Any) -> float:
    """Return the largest entry of rows of numbers, 0 for other points."""
    numbers = sp.issparse(X) or isinstance(X, np.ndarray)
    return largest(X) if numbers and X.dtype.kind == "f" else 0.0
