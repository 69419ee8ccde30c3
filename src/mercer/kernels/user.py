"""Kernels of one's own: from a function of two objects, or from a feature map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains import Objects, Table, is_torch, namespace, to_host
from mercer.errors import InvalidInput, NotAKernel, figure
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.parameters import check_callable

# ---- What `check_kernel` answers: a verdict, and points that show the fault ----


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Points on which a function fails to be a kernel.

    Attributes
    ----------
    points : list
        The points xᵢ, as they were given.
    indices : array of int
        Their positions in the collection.
    matrix : array of shape (m, m)
        The values k(xᵢ, xⱼ), computed anew for these points.
    coefficients : array of shape (m,) or None
        A vector a of length 1 with aᵀKa < 0; None when k is not symmetric.
    value : float or None
        Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ), correctly rounded from the matrix; None when k is not symmetric.
    """

    points: list
    indices: np.ndarray
    matrix: np.ndarray
    coefficients: np.ndarray | None = None
    value: float | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        shown = [_show(point) for point in self.points]
        if self.coefficients is None or self.value is None:
            x, y = shown
            return (
                "counterexample: two values that should be equal\n"
                f"    x = {x},  y = {y}\n"
                f"    k(x, y) = {self.matrix[0, 1]:.10g}\n"
                f"    k(y, x) = {self.matrix[1, 0]:.10g}"
            )
        lines = [
            f"counterexample: {len(self)} point{'s' * (len(self) > 1)} xᵢ and coefficients aᵢ with "
            f"Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) = {figure(self.value)} < 0"
        ]
        for a, point in zip(self.coefficients, shown, strict=True):
            lines.append(f"    a = {a:+.8f}   x = {point}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class KernelReport:
    """What `check_kernel` found; true in a condition when no fault was found.

    Attributes
    ----------
    valid : bool
        Whether k is symmetric and positive semidefinite on the points, up to rounding.
    symmetric : bool
        Whether k(x, y) = k(y, x).
    smallest_eigenvalue : float
        Of the Gram matrix (of its symmetric part); slightly negative from rounding when valid.
    counterexample : Counterexample or None
        Points that show the fault.
    n_points : int
        How many points were looked at.
    message : str
        The verdict in a sentence.
    """

    valid: bool
    symmetric: bool
    smallest_eigenvalue: float
    counterexample: Counterexample | None
    n_points: int
    message: str

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        lines = [
            self.message,
            f"  points              {self.n_points}",
            f"  symmetric           {'yes' if self.symmetric else 'no'}",
            f"  smallest eigenvalue {figure(self.smallest_eigenvalue)}",
        ]
        if self.counterexample is not None:
            lines += ["  " + line for line in str(self.counterexample).splitlines()]
        return "\n".join(lines)

    def raise_if_invalid(self) -> Self:
        """Raise `NotAKernel`, which carries the counterexample; return the report when valid."""
        if not self.valid:
            raise NotAKernel(f"{self.message}\n{self.counterexample}", self.counterexample)
        return self


def _show(point: Any) -> str:
    if isinstance(point, np.generic):
        point = point.item()
    if isinstance(point, np.ndarray):
        return np.array2string(point, separator=", ", threshold=8, edgeitems=3, max_line_width=80)
    text = repr(point)
    return text if len(text) <= 80 else text[:77] + "…"


# ---- user ----


PROBED = 64  # pairs of points that are evaluated both ways round
ROUNDING = 16  # units of rounding that any value may be off, relative to the largest


class Pairwise(Kernel):
    """A kernel evaluated one pair at a time.

    An author writes ``_pair(x, y)`` for two points; the base class does every loop. Python speed:
    n²/2 calls for k(X), and some 64 pairs the other way round: a function that is not symmetric is
    refused.
    """

    _proven = False

    domain = Objects()

    def _pair(self, x: Any, y: Any) -> float:
        raise InvalidInput(f"{type(self).__name__}: define _pair(x, y).")

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PairwiseBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        values = [_number(self, self._pair(x, x), i, i) for i, x in enumerate(_points(to_host(X)))]
        return PairwiseBound(self, X).asarray(np.array(values))


class PairwiseBound(Bound):
    """Tiles of a function of two objects, each checked to be a finite number.

    The function is called in main memory; the values go where the points are.
    """

    threads = False  # a Python function holds the interpreter; threads would only wait

    def __init__(self, kernel: Pairwise, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        if self.whole:
            raise InvalidInput(
                f"{kernel}: a Python function of two objects does not run on torch tensors, so "
                "autograd has no gradient of it; give X.detach(), or write a Radial, Dot or "
                "Explicit kernel."
            )
        self._x = _points(to_host(X))
        self._y = self._x if Y is None else _points(to_host(Y))

    def verify(self) -> None:
        """Refuse a function with k(x, y) ≠ k(y, x) on some pairs, always the same ones."""
        largest = 0.0
        for i, j in _probes(self.shape[0]) if self.symmetric else ():
            there, back = self._value(i, j), self._value(j, i)
            a, b = float(there), float(back)
            largest = max(largest, abs(a), abs(b))
            eps = max(_resolution(self.dtype), _resolution(getattr(there, "dtype", None)))
            gap = 0.5 * a - 0.5 * b
            if 2 * abs(gap) <= math.sqrt(eps) * max(abs(a), abs(b)):
                continue
            # Values far below √(k(x, x) k(y, y)) may be all rounding.
            d, e = float(self._value(i, i)), float(self._value(j, j))
            size = math.sqrt(abs(d)) * math.sqrt(abs(e))
            if 2 * abs(gap) > math.sqrt(eps) * size + ROUNDING * eps * largest:
                matrix = np.array([[d, a], [b, e]])
                points = [self._x[i], self._x[j]]
                raise NotAKernel(
                    f"{self.name}: k(point {i}, point {j}) = {a!r} but k(point {j}, point {i}) = "
                    f"{b!r}; a kernel is symmetric. (f(x, y) + f(y, x)) / 2 would be; ask "
                    "mercer.check_kernel whether it is positive definite.",
                    Counterexample(points, np.array([i, j]), matrix),
                )

    def _value(self, i: int, j: int) -> Any:
        with np.errstate(over="warn", invalid="warn", divide="warn"):
            value = self.kernel._pair(self._x[i], self._y[j])
        _number(self.kernel, value, i, j)
        return value

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return k(x, y) on a tile; a diagonal tile of k(X) is computed by halves."""
        with np.errstate(over="warn", invalid="warn", divide="warn"):  # the user's function, as is
            return self._pairs(rows, cols)

    def _pairs(self, rows: slice, cols: slice) -> Any:
        out = np.empty((rows.stop - rows.start, cols.stop - cols.start))
        mirrored = self.symmetric and rows == cols
        for a, i in enumerate(range(rows.start, rows.stop)):
            for b in range(a if mirrored else 0, out.shape[1]):
                j = cols.start + b
                value = _number(self.kernel, self.kernel._pair(self._x[i], self._y[j]), i, j)
                out[a, b] = value
                if mirrored:
                    out[b, a] = value
        return self.asarray(out)


class FromFunction(Pairwise):
    r"""The kernel k(x, x′) = f(x, x′) for a Python function of two objects.

    The function must be symmetric and positive definite: `mercer.check_kernel` looks for a
    counter-example. Points may be anything a list can hold.

    Parameters
    ----------
    function : callable
        ``f(x, y)`` → number.

    Examples
    --------
    >>> from mercer import FromFunction
    >>> FromFunction(lambda a, b: float(len(set(a) & set(b))))(["cat", "car"])
    array([[3., 2.],
           [2., 3.]])
    """

    def __init__(self, function: Callable):
        super().__init__(function=function)

    def _check_params(self) -> None:
        check_callable(self.function)

    def _pair(self, x: Any, y: Any) -> float:
        return self.function(x, y)


class Explicit(Kernel):
    """A kernel with a finite feature map: k(x, x′) = φ(x)ᵀφ(x′).

    An author writes ``_features(X)`` for a collection, one row a point.
    """

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return ExplicitBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        phi = _checked_features(self, X)
        return (
            np.asarray(phi.multiply(phi).sum(1)).ravel() if sp.issparse(phi) else (phi * phi).sum(1)
        )

    def _n_features(self, X: Any) -> int | None:
        one = self.domain.take(X, slice(0, 1))
        return int(self._features(one).shape[1])


class ExplicitBound(Bound):
    """Tiles ΦΨᵀ of explicit features."""

    def __init__(self, kernel: Explicit, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._phi = _checked_features(kernel, X)
        self._psi = self._phi
        if Y is not None:
            self._psi = _checked_features(kernel, Y)
            if self._psi.shape[1] != self._phi.shape[1]:
                raise InvalidInput(
                    f"{kernel}: the feature map gave {self._phi.shape[1]} columns for X and "
                    f"{self._psi.shape[1]} for Y; it must not depend on the collection."
                )
        if self.xp is np:
            self.flagged = not (sp.issparse(self._phi) or sp.issparse(self._psi))
            self.dtype = np.dtype(self._phi.dtype)
            self.itemsize = self.dtype.itemsize

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return ΦΨᵀ on a tile."""
        T = self._phi[rows] @ self._psi[cols].T
        return T.toarray() if sp.issparse(T) else T


class FromFeatures(Explicit):
    r"""The kernel k(x, x′) = φ(x)ᵀφ(x′) of a feature map.

    *Valid when* always: an inner product is positive definite.

    Parameters
    ----------
    function : callable
        Maps a collection of n points to an array of shape (n, D), dense or sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import FromFeatures
    >>> FromFeatures(lambda X: np.hstack([X, X**2]))(np.array([[1.0], [2.0]]))
    array([[ 2.,  6.],
           [ 6., 20.]])
    """

    domain = Objects()

    def __init__(self, function: Callable):
        super().__init__(function=function)

    def _check_params(self) -> None:
        check_callable(self.function)

    def _features(self, X: Any) -> Any:
        try:
            return self.function(X)
        except TypeError:  # of a map of arrays, to which torch gives no tensor of a GPU
            if not is_torch(X):
                raise
        return self.function(to_host(X))


def _probes(n: int) -> list[tuple[int, int]]:
    """Return pairs i ≠ j: all of a few points; of many, neighbours and opposites, spread evenly."""
    if n * (n - 1) // 2 <= PROBED:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    spread = np.linspace(0, n - 2, PROBED // 2).astype(int).tolist()
    pairs = [(i, i + 1) for i in spread] + [(i, n - 1 - i) for i in spread]
    return [(i, j) for i, j in pairs if i != j]


def _resolution(dtype: Any) -> float:
    """Return the unit of rounding of a dtype, that of float64 for what is no dtype."""
    bits = {"float32": 23, "float16": 10, "bfloat16": 7}
    return 2.0 ** -bits.get(str(dtype).rpartition(".")[2], 52)


def _points(X: Any) -> Any:
    if isinstance(X, Table):
        return [tuple(c[i] for c in X.columns) for i in range(len(X))]
    return X.toarray() if sp.issparse(X) else X


def _number(kernel: Kernel, value: Any, i: int, j: int) -> float:
    try:
        if isinstance(value, np.ndarray) and value.ndim:  # NumPy before 2.4 takes one of one entry
            raise TypeError
        number = float(value)
    except OverflowError as error:
        raise InvalidInput(
            f"{kernel}: k(point {i}, point {j}) is too large for a float; scale the points."
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{kernel}: k(point {i}, point {j}) is {value!r}, not a number; the function takes "
            "two points, not two collections."
        ) from error
    if not math.isfinite(number):
        raise InvalidInput(
            f"{kernel}: k(point {i}, point {j}) is {number}; a kernel has finite values. "
            "Look at these two points."
        )
    return number


def _checked_features(kernel: Kernel, X: Any) -> Any:
    """Return the features of points, where these are."""
    phi, n = kernel._features(X), kernel.domain.size(X)
    if is_torch(X) and not is_torch(phi):
        phi = namespace(X).as_tensor(
            phi.toarray() if sp.issparse(phi) else np.asarray(phi), dtype=X.dtype, device=X.device
        )
    if is_torch(phi):
        finite = bool(phi.isfinite().all())
    else:
        try:
            phi = phi.tocsr() if sp.issparse(phi) else np.asarray(phi)
            if phi.dtype not in (np.float32, np.float64):
                phi = phi.astype(
                    np.float64, casting="same_kind" if phi.dtype.kind == "c" else "unsafe"
                )
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{kernel}: the feature map gave no matrix of real numbers ({error})."
            ) from error
        finite = bool(np.isfinite(phi.data if sp.issparse(phi) else phi).all())
    if phi.ndim != 2 or phi.shape[0] != n:
        raise InvalidInput(
            f"{kernel}: the feature map gave shape {tuple(phi.shape)} for {n} points; "
            "expected one row for each point."
        )
    if not finite:
        raise InvalidInput(f"{kernel}: the feature map gave values that are not finite.")
    return phi
