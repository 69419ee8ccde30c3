"""`check_kernel`: is this function a positive definite kernel? If not, here is why."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import as_number, as_rng
from mercer.domains import GramRows, Table, is_torch
from mercer.engines import gram, pick
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.names import as_kernel
from mercer.kernels.repaired import lowest, search
from mercer.kernels.user import Counterexample, FromFunction, KernelReport
from mercer.memory import require_memory

ROUNDING = 16  # units of rounding that any kernel value may be off, relative to the largest
NUDGED = 4  # safety on the change of a kernel value when its points move by one unit of rounding


def check_kernel(
    k: Any, X: Any, *, tol: float | None = None, random_state: Any = 0
) -> KernelReport:
    r"""Check that a function is symmetric and positive semidefinite on given points.

    k is a kernel when k(x, y) = k(y, x) and Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) ≥ 0 for all points and coefficients.
    A fault that is found is proved by the counterexample: a few points, and coefficients a with
    aᵀKa < 0 by more than rounding can explain. A valid report is evidence on these points, not a
    proof for others: give many and varied ones.

    Multiplying rows and columns by positive numbers does not change definiteness, so kernel values
    are first divided by √(k(x, x) k(y, y)) and the verdict does not depend on the scale of k. The
    counterexample has five points or fewer whenever such a one is found: all subsets of up to five
    are tried for up to 24 points; beyond, subsets are improved by exchange from many starts.

    Parameters
    ----------
    k : Kernel, str or callable
        A kernel, a short name such as "rbf", or a function of two objects that returns a number.
        With `Precomputed` X is the square matrix of values.
    X : list, array or frame
        The points. Values are computed in float64 also where X is float32.
    tol : float, optional
        How exactly values of k are known, relative to √(k(x, x) k(y, y)); the default is half of
        the digits, 1.5e-8 in float64. Smaller faults count as rounding, and so do values below
        3.6e-15 of the largest.
    random_state : int or numpy.random.Generator, default=0
        For the search for a small counterexample.

    Returns
    -------
    KernelReport
        ``valid``, ``symmetric``, ``smallest_eigenvalue``, ``counterexample``, ``message``.

    Notes
    -----
    Costs n² kernel values and O(n³) for eigenvalues.

    Examples
    --------
    >>> import math
    >>> from mercer import check_kernel
    >>> bool(check_kernel(math.gcd, range(1, 30)))
    True
    >>> report = check_kernel(max, [1, 2, 3])
    >>> print(report)
    max is not a kernel: it is not positive semidefinite.
      points              3
      symmetric           yes
      smallest eigenvalue -1.178
      counterexample: 2 points xᵢ and coefficients aᵢ with Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) = -1.162 < 0
          a = +0.81124219   x = 1
          a = -0.58471028   x = 3
    """
    kernel = k if isinstance(k, Kernel) else as_kernel(k)
    rng = as_rng(random_state, "random_state")
    values = _Values(kernel, X, tol)
    name = _name(kernel)
    K = values.gram(values.points)
    _check_finite(K, name)
    scale = float(np.abs(K).max())
    report = KernelReport(True, True, 0.0, None, len(K), "")
    if scale == 0.0:
        return replace(report, message=f"{name} is 0 on these points; 0 is a kernel.")
    values.floor = ROUNDING * values.eps * scale
    pair = _asymmetry(K, values)
    K = 0.5 * K + 0.5 * K.T
    smallest = float(lowest(K / scale)[0][0]) * scale
    report = replace(report, smallest_eigenvalue=smallest)
    if pair is not None:
        return replace(
            report,
            valid=False,
            symmetric=False,
            counterexample=pair,
            message=f"{name} is not a kernel: it is not symmetric.",
        )
    found = _indefinite(K, values, rng)
    if found is not None:
        message = f"{name} is not a kernel: it is not positive semidefinite."
        return replace(report, valid=False, counterexample=found, message=message)
    message = f"{name} is symmetric and positive semidefinite on these points, up to rounding."
    return replace(report, message=message)


# ------------------------------------------------------------------------------------ values
class _Unmirrored:
    """A bound kernel of k(X) whose matrix is computed entry by entry, without using symmetry."""

    symmetric = False

    def __init__(self, bound: Any):
        self._bound = bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bound, name)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile; one on the diagonal in two halves, since bound kernels may mirror it."""
        if rows != cols or rows.stop - rows.start < 2:
            return self._bound.tile(rows, cols)
        middle = (rows.start + rows.stop) // 2
        halves = slice(rows.start, middle), slice(middle, rows.stop)
        return self._bound.xp.concatenate([self._bound.tile(half, cols) for half in halves])


class _Values:
    """The values of k on a collection and on parts of it, and how exact they are."""

    def __init__(self, kernel: Kernel, X: Any, tol: float | None):
        self.original = X
        self.matrix_given = isinstance(kernel.domain, GramRows)
        points = kernel.domain.check(X)
        if kernel.domain.size(points) < 1:
            raise InvalidInput("check_kernel: X has no points; give at least one.")
        if self.matrix_given and (points.ndim != 2 or points.shape[0] != points.shape[1]):
            raise InvalidInput(
                f"check_kernel: the precomputed matrix has shape {points.shape}; give the square "
                "matrix of kernel values."
            )
        self.points = points if self.matrix_given else _widened(points)
        self.kernel = kernel.fit_params(self.points)
        self.eps = self._resolution()
        self.tol = _check_tol(tol, self.eps)
        self.floor = 0.0

    def _resolution(self) -> float:
        """Return the unit of rounding of the values, by looking at the first one."""
        one = self.take(np.array([0]))
        if isinstance(self.kernel, FromFunction) and isinstance(one, tuple | np.ndarray):
            dtype = getattr(self.kernel._pair(one[0], one[0]), "dtype", None)
        else:
            dtype = self.kernel._bind(one).dtype
        single = str(dtype).rpartition(".")[2] in ("float32", "float16", "bfloat16")
        return float(np.finfo(np.float32 if single else np.float64).eps)

    def take(self, index: np.ndarray) -> Any:
        """Return the canonical collection of some of the points."""
        if self.matrix_given:
            return self.points[np.ix_(index, index)]
        return self.kernel.domain.take(self.points, index)

    def gram(self, points: Any) -> np.ndarray:
        """Return the matrix of k in float64, both halves computed."""
        size = self.kernel.domain.size(points)
        require_memory(
            64 * size**2,
            f"check_kernel: the {size} × {size} matrix and its eigenvalues",
            "Give fewer points, such as a sample of X",
        )
        engine = pick(points)
        bound = self.kernel._bind(engine.asarray(points))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            K = engine.to_numpy(gram(_Unmirrored(bound)))
        return K.astype(np.float64)

    def noise(self, index: np.ndarray, K: np.ndarray) -> np.ndarray:
        """Return how much each value in K, on the points at index, may be wrong.

        Three sources: the accuracy asked for; rounding relative to the largest value of all, for
        functions that subtract large values; and the change of k when the points move by one unit
        of rounding, for functions that are ill conditioned where they are evaluated.
        """
        length = np.sqrt(np.maximum(K.diagonal(), 0.0))
        noise = self.tol * np.outer(length, length) + self.floor
        for part in (slice(0, None, 2), slice(1, None, 2)):
            moved = _nudged(self.take(index), part, 0.5 * self.eps)
            if self.matrix_given or moved is None:
                continue
            try:
                noise = np.maximum(noise, NUDGED * np.abs(self.gram(moved) - K))
            except Exception:  # a function known at the given points only need not answer here
                continue
        return noise

    def shown(self, index: np.ndarray) -> list:
        """Return points as the user knows them."""
        if self.matrix_given:
            return [int(i) for i in index]
        if isinstance(self.original, list | tuple | range | np.ndarray):
            return [self.original[int(i)] for i in index]
        some = self.kernel.domain.take(self.points, index)
        if isinstance(some, Table):
            rows = zip(*some.columns, strict=True)
            return [dict(zip(some.names, row, strict=True)) for row in rows]
        return list(some.toarray() if sp.issparse(some) else some)


# ------------------------------------------------------------------------------------ faults
def _asymmetry(K: np.ndarray, values: _Values) -> Counterexample | None:
    """Return the pair with the largest difference of k(x, y) and k(y, x) beyond rounding."""
    length = np.sqrt(np.abs(K.diagonal()))
    size = np.maximum(np.outer(length, length), np.maximum(np.abs(K), np.abs(K.T)))
    with np.errstate(over="ignore"):
        excess = np.abs(K - K.T) - values.tol * size - values.floor
    i, j = np.unravel_index(int(excess.argmax()), K.shape)
    if not excess[i, j] > 0:
        return None
    index = np.array(sorted((int(i), int(j))))
    return Counterexample(values.shown(index), index, K[np.ix_(index, index)])


def _indefinite(K: np.ndarray, values: _Values, rng: np.random.Generator) -> Counterexample | None:
    """Return points and coefficients a with aᵀKa certainly negative, if they can be found."""
    # Each point on its own scale, except that below half the digits of the largest value k may be
    # all rounding, which must not be blown up.
    largest = float(np.abs(K).max())
    root = np.sqrt(np.maximum(np.abs(K.diagonal()), math.sqrt(values.eps) * largest))
    return search((K / root[:, None]) / root, partial(_certified, values), -values.tol, rng)


def _certified(values: _Values, index: np.ndarray) -> Counterexample | None:
    """Return the counterexample on these points when aᵀKa < 0 whatever the rounding was."""
    matrix = values.gram(values.take(index))
    K = 0.5 * matrix + 0.5 * matrix.T
    scale = float(np.abs(K).max())
    if not 0 < scale < np.inf:
        return None
    noise = values.noise(index, K)
    # Divided by a power of two, so that no partial sum overflows.
    unit = math.ldexp(1.0, math.frexp(scale)[1] - 1)
    a = lowest(K / unit)[1][:, 0]
    a /= np.linalg.norm(a)
    a *= np.sign(a[np.abs(a).argmax()])
    value = math.fsum((np.outer(a, a) * (K / unit)).ravel())
    bound = float((np.abs(np.outer(a, a)) * (noise / unit)).sum())
    if not value < -bound:
        return None
    return Counterexample(values.shown(index), index, matrix, a, value * unit)


def _check_finite(K: np.ndarray, name: str) -> None:
    if not np.isfinite(K).all():
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise InvalidInput(
            f"check_kernel: {name} is {K[i, j]} at points {i} and {j}; a kernel has finite values. "
            "Look at these two points, or leave them out."
        )


def _check_tol(tol: float | None, eps: float) -> float:
    if tol is None:
        return math.sqrt(eps)
    if not 0 <= as_number(tol) < 1:
        raise InvalidInput(f"check_kernel: tol={tol!r}; give a number in [0, 1) or None.")
    return max(float(tol), 4 * eps)


# ------------------------------------------------------------------------------------ points
def _widened(X: Any) -> Any:
    """Return the same points in float64, so that k is judged and not its rounding."""
    if is_torch(X):
        return X.detach().double() if X.is_floating_point() else X
    if isinstance(X, tuple):
        return tuple(_widened(x) if isinstance(x, np.ndarray | np.floating) else x for x in X)
    narrow = getattr(X, "dtype", None) in (np.float16, np.float32)
    return X.astype(np.float64) if narrow else X


def _nudged(X: Any, part: slice, step: float) -> Any:
    """Return X with some points moved towards zero by a relative step, or None if none can move.

    Whole numbers stay where they are: they are exact, and may be meant as integers.
    """
    if isinstance(X, tuple):
        moved = list(X)
        moved[part] = [_closer(x, step) for x in X[part]]
        return tuple(moved)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        X = X.copy()
        X[part] = _closer(X[part], step)
        return X
    return None


def _closer(x: Any, step: float) -> Any:
    if isinstance(x, float | np.floating):
        return x if x == np.round(x) else type(x)(x * (1 - step))
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return np.where(x == np.round(x), x, x * (1 - step))
    return x


# ------------------------------------------------------------------------------------ words
def _name(kernel: Kernel) -> str:
    if isinstance(kernel, FromFunction):
        name = getattr(kernel.get_params()["function"], "__name__", "<lambda>")
        return "the function" if name == "<lambda>" else name
    return repr(kernel)
