"""Few points: kernel values of all pairs at once, each pair of a symmetric matrix computed once.

Of some hundred points the steps around a product take longer than the product: plans, prepared
coordinates, checks. Here a kernel is asked for its values as a function of what two points have in
common, their squared distance or inner product, in one array. Distances are sums of differences as
long as these cost little, and do not round where points are near one another or far from 0; parts
of a sum or a product of kernels share them. What a kernel cannot tell in this way, or what is not
finite, is None, and goes the way of all matrices.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from mercer.engines import is_few
from mercer.threads import single_threaded_blas

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
DIFFERENCES = 2**19  # multiplications up to which differences are taken, pair by pair
SQUARE = 100 * 100  # pairs up to which all of them are compared: SciPy's half begins slowly
PAIRS = 2**18  # multiplications of two collections up to which nothing need be prepared
ALONE = 2**24  # multiplications of one collection that one thread of BLAS does
UNSHARED = 2**18  # multiplications of two matrices that BLAS does not share among its threads
SINGLY = 2**13  # and of a matrix or a row with a row: who shares them waits for a core that is busy
LEAST, MOST = 1e-300, 1e300  # squares beyond have no inverse, or overflow when added up
CANCELLATION = 1e-10  # the largest error of squared distances, as parts of the length scale's


class FewPoints:
    """All pairs of few points, in one array of entries.

    Of two collections it is the matrix. Of one it begins with the diagonal, and the entries above
    follow row by row.

    Parameters
    ----------
    X, Y : array of shape (n, d) or (m, d)
        The points; Y None means X.
    energy : float
        The sum of their squared lengths; distances squared are at most four times it.
    """

    def __init__(self, X: np.ndarray, Y: np.ndarray | None, energy: float):
        self.X, self.Y, self.energy, self.n = X, Y, energy, len(X)
        self.shared = False  # whether several kernels may ask for the same distances
        self._gaps: np.ndarray | None = None
        self._error = 0.0  # of the squared distances, by rounding

    def squares(self, length_scale: Any, rough: bool = False) -> np.ndarray | None:
        """Return Σₖ (xₖ−yₖ)²/ℓₖ², in an array of its own; None where that is not exact enough.

        Parameters
        ----------
        length_scale : float or array of shape (d,)
            The scales ℓ.
        rough : bool
            Whether small distances must have all their digits.
        """
        if not isinstance(length_scale, float):
            scale = np.asarray(length_scale, dtype=np.float64)
            if scale.shape != (self.X.shape[1],) or not self._light:
                return None
            units = scale * scale
            usual = self._in_range(float(units.min())) and float(units.max()) < MOST
            return self._compared(1.0 / units) if usual else None
        unit = length_scale * length_scale
        if not (length_scale > 0 and self._in_range(unit)):
            return None
        if self._gaps is None:
            if not self._light and (rough or self.X.dtype != DOUBLE):
                return None
            self._gaps = self._compared() if self._light else self._multiplied()
        if self._error and (rough or not self._error < CANCELLATION * unit):
            return None
        unit = 1.0 / unit
        return self._gaps * unit if self.shared else np.multiply(self._gaps, unit, out=self._gaps)

    def inner(self, x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Return xᵀy of the points, or of what a kernel maps them to, in an array of its own."""
        if y is None:
            return self._taken(_product(x, x))
        return _product(x, y)

    def diagonal(self, value: float) -> np.ndarray:
        """Return what is a value where a point meets itself, and else 0."""
        if self.Y is not None:
            return np.zeros((self.n, len(self.Y)))
        out = np.zeros(self.n * (self.n + 1) // 2)
        out[: self.n] = value
        return out

    def matrix(self, values: np.ndarray) -> np.ndarray:
        """Return the matrix of such entries, symmetric to the bit."""
        if self.Y is not None:
            return values
        n = self.n
        if n == 1:
            return values.reshape(1, 1)
        K: np.ndarray = _scipy().squareform(values[n:], checks=False)
        K.reshape(-1)[:: n + 1] = values[:n]
        return K

    def _in_range(self, unit: float) -> bool:
        """Whether no distance in a length scale overflows."""
        return LEAST < unit < MOST and 4 * self.energy < MOST * min(unit, 1.0)

    @property
    def _light(self) -> bool:
        """Whether differences cost little."""
        n, d = self.X.shape
        if self.Y is None:
            return n * n * d <= 2 * DIFFERENCES
        return n * len(self.Y) * d <= PAIRS

    def _compared(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return squared distances by differences, columns weighted."""
        how: Any = {} if weights is None else {"w": weights}
        if self.Y is not None:
            return _scipy().cdist(self.X, self.Y, "sqeuclidean", **how)
        if self.n * self.n <= SQUARE:
            return self._taken(_scipy().cdist(self.X, self.X, "sqeuclidean", **how))
        out = np.empty(self.n * (self.n + 1) // 2)
        out[: self.n] = 0.0
        _scipy().pdist(self.X, "sqeuclidean", out=out[self.n :], **how)
        return out

    def _multiplied(self) -> np.ndarray:
        """Return squared distances by one product, ‖x‖² + ‖y‖² − 2xᵀy."""
        x = self.X - np.add.reduce(self.X, 0) / self.n
        s = _product(x, x)
        xx = s.diagonal().copy()
        s *= -2.0
        s += xx[:, None]
        s += xx
        self._error = 2.0 * float(xx.max()) * float(np.finfo(x.dtype).eps)
        s = self._taken(s)
        s[: self.n] = 0.0
        return np.abs(s, out=s)

    def _taken(self, A: np.ndarray) -> np.ndarray:
        """Return the entries of a symmetric matrix."""
        return A.take(_places(self.n))


@lru_cache(maxsize=1)
def _scipy() -> Any:
    """Return SciPy's distances, which are loaded when they are first used."""
    from scipy.spatial import distance

    return distance


@lru_cache(maxsize=16)
def _places(n: int) -> np.ndarray:
    """Return where in an n × n matrix the entries of pairs are."""
    rows, columns = np.triu_indices(n, 1)
    return np.concatenate([np.arange(n) * (n + 1), rows * n + columns])


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return xyᵀ; large products by one thread of BLAS, so that bits do not depend on threads."""
    alone = SINGLY if min(len(x), len(y)) == 1 else UNSHARED
    if len(x) * y.size <= alone:
        return x @ y.T
    with single_threaded_blas():
        return x @ y.T


def are_usual(kernel: Any) -> bool:
    """Whether no part of a kernel has hooks of its own that its values of few points leave out."""
    kind: Any = type(kernel)
    return _is_usual(kind) and all(
        are_usual(part) for part in vars(kernel).values() if hasattr(part, "_of_pairs")
    )


@lru_cache(maxsize=256)
def _is_usual(kind: type) -> bool:
    """Whether `_of_pairs` was written beside the hooks in force, not above one of them."""

    def owner(hook: str) -> int:
        places = [i for i, cls in enumerate(kind.__mro__) if hook in vars(cls)]
        return places[0] if places else len(kind.__mro__)

    bound = () if hasattr(kind, "_euclidean") else ("_bind",)  # radial kernels look themselves
    return all(owner("_of_pairs") <= owner(hook) for hook in (*bound, "_scale", "_diag"))


def _energy(X: np.ndarray) -> float:
    """Return the sum of squares, in parts that BLAS does not share among its threads."""
    x = X.reshape(-1)
    return sum(float(np.vdot(p, p)) for p in (x[i : i + SINGLY] for i in range(0, len(x), SINGLY)))


def gram_of_few(kernel: Any, X: Any, Y: Any = None) -> np.ndarray | None:
    """Return the matrix k(X, Y) of few rows of numbers; None where a kernel or points are others.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X, Y : collections of points
        Y None means X. They need not have been checked.
    """
    if not _is_plain(X) or len(X) * X.size > ALONE:
        return None
    if Y is not None:
        alike = _is_plain(Y) and X.dtype == Y.dtype and X.shape[1] == Y.shape[1]
        if not alike or len(X) * Y.size > PAIRS:
            return None
    if not is_few(len(X), len(X if Y is None else Y)):
        return None
    with np.errstate(all="ignore"):  # what is not finite is looked at by others
        energy = _energy(X) + (0.0 if Y is None else _energy(Y))
        if not energy < MOST:
            return None
        pairs = FewPoints(X, Y, energy)
        values = kernel._of_pairs(pairs) if are_usual(kernel) else None
        if not isinstance(values, np.ndarray):
            return None
        K = pairs.matrix(values)
        if X.dtype == SINGLE:
            values = K = K.astype(np.float32)
        return K if math.isfinite(np.add.reduce(values, None)) else None


def _is_plain(X: Any) -> bool:
    """Whether X is an array of rows as kernels compute with them, of whatever numbers."""
    if type(X) is not np.ndarray or X.ndim != 2:
        return False
    return (X.dtype == DOUBLE or X.dtype == SINGLE) and X.flags.c_contiguous and X.size > 0
