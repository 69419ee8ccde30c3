"""Kernels seen through a map of the points: warp, metric, scaling, columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, Objects, Table, Tables, Vectors, beside, is_torch
from mercer.domains.tables import select
from mercer.errors import InvalidInput, speaks, who
from mercer.kernels.algebra import Combination, _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.geometry import Geometry
from mercer.kernels.metric import HUGE
from mercer.kernels.parameters import _short, check_callable
from mercer.kernels.spectral import Embedded, Projected, spectral_measure, stationary


class Mapped(Combination):
    """A kernel seen through a map of the points: whatever is asked of it is asked of f(X)."""

    _parts = ("kernel",)

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._diag(Z)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._pull_diag(Z, c)

    def _n_features(self, X: Any) -> int | None:
        ((k, Z),) = self._inside(X)  # all of X: one string may hold a letter without a column
        return k._n_features(Z)

    def _features(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._features(Z)


class MappedBound(CombinedBound):
    """Tiles of the kernel on the images of the points."""

    plain = True

    def __init__(self, kernel: Mapped, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.fresh = self.parts[0].fresh

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile by k, in place."""
        return self.parts[0].times(tile, rows, cols)

    def fused(self) -> Any:
        """Return what a device multiplies by: the matrix is that of the images."""
        return self.parts[0].fused()

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile, for which no kernel value is needed here."""
        return self.parts[0].pull_theta(rows, cols, C)

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> Any:
        """Return `pull_theta`, given the kernel values of the tile, which are those of the part."""
        return self.parts[0].pull_theta_with(rows, cols, C, tile)


class WarpedBound(CombinedBound):
    """Tiles of the kernel on f(X); its gradient would need the Jacobian of f."""

    plain = True

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Refuse."""
        raise InvalidInput(f"{self.name}: the gradient in x needs the Jacobian of the warp.")


class Warped(Mapped):
    """k(f(x), f(x′)) for a map f of collections."""

    _parts = ("kernel",)
    _bound = WarpedBound
    _pointwise = False

    def __init__(self, kernel: Kernel, function: Callable):
        super().__init__(kernel=kernel, function=function)

    @speaks("warp")
    def _check_params(self) -> None:
        super()._check_params()
        check_callable(self.function)

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Anything that f accepts."""
        return Objects()

    def _route(self, X: Any) -> Any:
        Z = self.function(X)
        size = self.kernel.domain.size(self.kernel.domain.check(Z, "f(X)"))
        if size != self.domain.size(X):
            raise InvalidInput(
                f"warp: f gave {size} points for {self.domain.size(X)}; it must map point by point."
            )
        return Z

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.warp({getattr(self.function, '__name__', 'f')})"


def _within_reach(X: Any) -> bool:
    """Whether points may be moved without an overflow."""
    values = X.detach() if is_torch(X) else X
    return bool(len(X)) and float(values.max()) < HUGE and float(values.min()) > -HUGE


def _moved(centre: Any, X: Any, Y: Any) -> tuple[Any, Any]:
    if centre is None:
        return X, Y
    return X - centre, None if Y is None else Y - centre


class InMetricBound(MappedBound):
    """Tiles of the kernel on AX."""

    def __init__(self, kernel: InMetric, X: Any, Y: Any = None):
        self._points, self._centre = X if Y is None else Y, kernel._centre(X)
        super().__init__(kernel, *_moved(self._centre, X, Y))

    def at(self, X: Any) -> Bound:
        """Return k at new points X, moved as those of Y were."""
        if self._centre is None or not _within_reach(X):
            return self.kernel._bind(X, self._points)
        return super().at(X - self._centre)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the gradient by the chain rule, AᵀG."""
        inner = self.parts[0].pull_points(rows, cols, C)
        return inner @ beside(self.kernel._array(), inner)


class InMetric(Mapped):
    r"""k(Ax, Ax′) for a matrix A: a kernel in the metric AᵀA, as ``kernel.in_metric(A)``.

    Of a radial kernel that is the profile of the Mahalanobis distance ‖A(x − x′)‖. A may have fewer
    rows than columns: then k looks at r directions only. Words such as ``"median"`` are resolved
    on AX. A is not tuned; `metric_vjp` tells how a sum of kernel values changes with it.

    *Valid when* k is a kernel on rows of numbers. Characteristic where k is and A loses no
    direction.

    Parameters
    ----------
    kernel : Kernel
        The kernel k of rows of r numbers.
    matrix : array of shape (r, d)
        The matrix A.

    Examples
    --------
    >>> from mercer import RBF
    >>> k = RBF().in_metric([[1.0, -1.0]])
    >>> k([[0.0, 0.0], [5.0, 5.0], [2.0, 0.0]]).round(4)
    array([[1.    , 1.    , 0.1353],
           [1.    , 1.    , 0.1353],
           [0.1353, 0.1353, 1.    ]])
    """

    _bound = InMetricBound
    _pointwise = False

    def __init__(self, kernel: Kernel, matrix: Any):
        super().__init__(kernel=kernel, matrix=matrix)

    @speaks("in_metric")
    def _check_params(self) -> None:
        super()._check_params()
        inner = self.kernel.domain
        if not isinstance(inner, Vectors | Tables | Objects):
            raise InvalidInput(
                f"{who()}: {self.kernel} compares {inner.name}; a matrix multiplies rows of "
                "numbers. Choose the columns of numbers with .on(columns) first."
            )
        try:
            A = self._array()
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"{who()}: matrix is not one of numbers ({error}).") from error
        if A.ndim != 2 or not A.size:
            raise InvalidInput(
                f"{who()}: matrix has shape {A.shape}; give one of shape (r, d), a column for each "
                "column of X. Scales alone are length_scale, one for each column."
            )
        if not np.isfinite(A).all():
            raise InvalidInput(
                f"{who()}: matrix has entries that are not finite (NaN or inf); give finite "
                "numbers."
            )

    def _array(self) -> np.ndarray:
        """Return the matrix A in float64."""
        return np.asarray(self.matrix, dtype=np.float64)

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Rows of numbers."""
        return Vectors()

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """Whether k is characteristic and x is known from Ax."""
        A = self._array()
        return self.kernel.characteristic and np.linalg.matrix_rank(A) == A.shape[1]

    def _route(self, X: Any) -> Any:
        A = self._array()
        if X.shape[1] != A.shape[1]:
            raise InvalidInput(
                f"in_metric: the matrix is {A.shape[0]} × {A.shape[1]} and X has {X.shape[1]} "
                "columns; it must have as many."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X @ beside(A, X).T
        if not bool((Z.isfinite() if is_torch(Z) else np.isfinite(Z)).all()):
            raise InvalidInput(
                "in_metric: A x overflows; the entries of the matrix are too large for these "
                "points. Divide the matrix, or the columns, by their size."
            )
        return Z

    def _centre(self, X: Any) -> Any:
        """Return what points are moved by where k sees differences alone; else None.

        Ax of far points is rounded relative to x, and A(x − centre) is not.
        """
        if sp.issparse(X) or not len(X) or not stationary(self.kernel) or not _within_reach(X):
            return None
        return X.mean(0)

    def metric_vjp(self, X: Any, W: Any, Y: Any = None) -> Any:
        """Return Σᵢⱼ Wᵢⱼ ∂k(Axᵢ, Ayⱼ)/∂A, shape (r, d), tile by tile.

        Parameters
        ----------
        X, Y : arrays of shape (n, d) and (m, d)
            Points; Y defaults to X.
        W : array of shape (n, m)
            Weights, such as the derivative of a loss in each kernel value.

        Examples
        --------
        >>> from mercer import Linear
        >>> k = Linear().in_metric([[3.0, 1.0]])
        >>> k.metric_vjp([[1.0, 2.0]], [[1.0]])  # of (3·1 + 1·2)²
        array([[10., 20.]])
        """
        kernel = self._ready(X, Y)
        X, Y = kernel._checked(X, Y)
        X, Y = _moved(kernel._centre(X), X, Y)
        W = W if is_torch(W) else np.asarray(W)
        shape = (X.shape[0], X.shape[0] if Y is None else Y.shape[0])
        if tuple(W.shape) != shape:
            raise InvalidInput(f"metric_vjp: W has shape {tuple(W.shape)}, expected {shape}.")
        inner, Z = kernel.kernel, kernel._route(X)
        if Y is None:
            return (X.T @ inner.gradient(Z, None, W + W.T)).T
        V = kernel._route(Y)
        return (X.T @ inner.gradient(Z, V, W) + Y.T @ inner.gradient(V, Z, W.T)).T

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        if g is None or g.key is None:
            return g
        A = self._array()
        return replace(g, key=("metric", A.shape, A.tobytes(), *g.key))

    def _spectral(self, columns: list) -> Projected:
        A = self._array()
        return Projected(spectral_measure(self.kernel, list(range(len(A)))), A)

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.in_metric({_short(self.matrix)})"


class ScaledByBound(CombinedBound):
    """Tiles f(x) K f(x′)."""

    def __init__(self, kernel: ScaledBy, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._fx = self.asarray(kernel._values(X))
        self._fy = self._fx if Y is None else self.asarray(kernel._values(Y))

    def _factors(self, rows: slice, cols: slice) -> Any:
        return self._fx[rows][:, None] * self._fy[cols][None, :]

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Scale rows and columns."""
        return tiles[0] * self._factors(rows, cols)

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Scale the cotangent."""
        return [C * self._factors(rows, cols)]

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Refuse."""
        raise InvalidInput(f"{self.name}: the gradient in x needs the gradient of f.")


class ScaledBy(Combination):
    """f(x) k(x, x′) f(x′) for a real function f."""

    _parts = ("kernel",)
    _bound = ScaledByBound
    _pointwise = False

    def __init__(self, kernel: Kernel, function: Callable):
        super().__init__(kernel=kernel, function=function)

    @speaks("scale_by")
    def _check_params(self) -> None:
        super()._check_params()
        check_callable(self.function)

    def _values(self, X: Any) -> Any:
        n = self.domain.size(X)
        f: Any = self.function(X)
        f = f if is_torch(f) else np.asarray(f, dtype=float)
        f = f.reshape(-1) if f.ndim == 2 and 1 in tuple(f.shape) else f
        if tuple(f.shape) != (n,):
            raise InvalidInput(
                f"scale_by: f gave shape {tuple(f.shape)} for {n} points; it takes the collection "
                "and returns one number a point."
            )
        if not bool((f.isfinite() if is_torch(f) else np.isfinite(f)).all()):
            raise InvalidInput("scale_by: f gave values that are not finite.")
        return f

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        d = k._diag(Z)
        f = self._values(X)
        return d * (f**2 if is_torch(d) else (f**2).astype(d.dtype))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._pull_diag(Z, c * self._values(X) ** 2)

    def _n_features(self, X: Any) -> int | None:
        ((k, Z),) = self._inside(X)
        return k._n_features(Z)

    def _features(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        phi, f = k._features(Z), self._values(X)
        return sp.diags_array(f) @ phi if sp.issparse(phi) else phi * f[:, None]

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.scale_by({getattr(self.function, '__name__', 'f')})"


class OnColumnsBound(MappedBound):
    """Tiles of the kernel on the chosen columns."""

    def __init__(self, kernel: OnColumns, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._width = X.shape[1]
        columns = kernel._index()
        if not isinstance(columns, slice):
            columns = [X.names.index(c) if isinstance(c, str) else c for c in columns]
        self._positions = np.arange(self._width)[columns]

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the gradient with zeros in the other columns."""
        inner = self.parts[0].pull_points(rows, cols, C)
        out = self.zeros((inner.shape[0], self._width), wide=True)
        out[:, self._positions] = inner
        return out


class OnColumns(Mapped):
    """k on chosen columns only; products over different columns are tensor products."""

    _parts = ("kernel",)
    _bound = OnColumnsBound

    def __init__(self, kernel: Kernel, columns: Any):
        super().__init__(kernel=kernel, columns=columns)

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.columns, slice):
            return
        columns = self._index()
        legal = all(
            isinstance(c, str | int | np.integer) and not isinstance(c, bool) for c in columns
        )
        if not legal or not len(columns):
            raise InvalidInput(
                f"on: columns={self.columns!r}; give a name, a position, a slice, or a list of "
                "them."
            )
        if len(set(columns)) < len(columns):
            raise InvalidInput(f"on: columns={self.columns!r} names a column twice.")

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Rows of a table."""
        columns = self._index()
        named = not isinstance(columns, slice) and all(isinstance(c, str) for c in columns)
        return Tables(tuple(columns) if named else None)

    def _index(self) -> Any:
        if isinstance(self.columns, slice):
            return self.columns
        if isinstance(self.columns, str | int | np.integer):
            return [self.columns]
        try:
            return list(self.columns)
        except TypeError as error:
            raise InvalidInput(f"on: columns={self.columns!r} is not a list of columns.") from error

    def _route(self, X: Any) -> Any:
        return select(X, self._index())

    def _seen_by(self, part: Kernel, X: Any, name: str = "X") -> Any:
        columns = self._index()

        def converted() -> Any:
            chosen = select(X, columns)
            try:
                return part.domain.check(chosen, name)
            except InvalidInput as error:
                raise InvalidInput(f"on({self.columns!r}): {error}") from None

        return X.converted(columns, part.domain, converted) if isinstance(X, Table) else converted()

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        if g is None or g.key is None:
            return g
        return replace(g, key=("on", repr(self._index()), *g.key))

    def _spectral(self, columns: list) -> Embedded:
        chosen, d = self._index(), len(columns)
        if not isinstance(chosen, slice):  # names to positions, where there are names
            chosen = [
                columns.index(c) if isinstance(c, str) and c in columns else c for c in chosen
            ]
        places = select(np.arange(d)[None], chosen)[0].tolist()
        inner = spectral_measure(self.kernel, [columns[i] for i in places])
        return Embedded(inner, places, d)

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.on({self.columns!r})"
