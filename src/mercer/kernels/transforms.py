"""Kernels seen through a map of the points: warp, scaling, columns, normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, GramRows, Objects, Table, Tables
from mercer.domains.columns import select
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput
from mercer.kernels.algebra import Combination, _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import CombinedBound
from mercer.kernels.checks import check_callable, check_diagonal
from mercer.kernels.geometry import Geometry

__all__ = ["Normalized", "OnColumns", "ScaledBy", "Warped"]


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
        ((k, Z),) = self._inside(self.domain.take(X, slice(0, 1)))
        return k._n_features(Z)

    def _features(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._features(Z)


class WarpedBound(CombinedBound):
    """Tiles of the kernel on f(X); its gradient would need the Jacobian of f."""

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

    def _check_params(self) -> None:
        super()._check_params()
        check_callable("warp", self.function)

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

    def _check_params(self) -> None:
        super()._check_params()
        check_callable("scale_by", self.function)

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


class OnColumnsBound(CombinedBound):
    """Tiles of the kernel on the chosen columns."""

    def __init__(self, kernel: OnColumns, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.fresh = self.parts[0].fresh
        self._width = X.shape[1]
        columns = kernel._index()
        if not isinstance(columns, slice):
            columns = [X.names.index(c) if isinstance(c, str) else c for c in columns]
        self._positions = np.arange(self._width)[columns]

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile by k, in place."""
        return self.parts[0].times(tile, rows, cols)

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

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.on({self.columns!r})"


class NormalizedBound(CombinedBound):
    """Tiles K_ij/√(d_i d_j), exactly 1 on the diagonal."""

    def __init__(self, kernel: Normalized, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._X, self._Y = X, Y
        self._rx = self.asarray(kernel._inverse_root(X))
        self._ry = self._rx if Y is None else self.asarray(kernel._inverse_root(Y))

    def _factors(self, rows: slice, cols: slice) -> Any:
        return self._rx[rows][:, None] * self._ry[cols][None, :]

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Divide by the lengths."""
        return self._with_diagonal(tiles[0] * self._factors(rows, cols), self._rx > 0, rows, cols)

    def _with_diagonal(self, out: Any, positive: Any, rows: slice, cols: slice) -> Any:
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            out[diagonal] = self.asarray(positive[rows][diagonal[0]])
        return out

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return the part of the cotangent that acts on K_ij; `pull_theta` adds the lengths."""
        return [C * self._factors(rows, cols)]

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ C ∂K̂, K̂ = K r_i r_j: ∂K̂ = r_i r_j ∂K − ½K̂(∂d_i/d_i + ∂d_j/d_j)."""
        through_k = super().pull_theta(rows, cols, C)
        weighted = C * self.tile(rows, cols)
        inner, Y = self.kernel.kernel, self._X if self._Y is None else self._Y
        total = through_k
        for Z, part, sums, root in (
            (self._X, rows, weighted.sum(1), self._rx[rows]),
            (Y, cols, weighted.sum(0), self._ry[cols]),
        ):
            points = inner.domain.check(self.kernel.domain.take(Z, part))
            pulled = inner._pull_diag(points, -0.5 * sums * root**2)
            total = total + (
                pulled if self.xp is np else self.xp.as_tensor(pulled, device=self._like.device)
            )
        return total

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ C ∇ₓK̂; the length of x moves too: ∇ₓk(x, x) = 2∇₁k(x, x′) at x′ = x."""
        through_k = super().pull_points(rows, cols, C)
        inner = self.kernel.kernel
        points = inner.domain.check(self.kernel.domain.take(self._X, rows))
        weights = -(C * self.tile(rows, cols)).sum(1) * self._rx[rows] ** 2
        every = slice(0, rows.stop - rows.start)
        return through_k + inner._bind(points, points).pull_points(
            every, every, self.xp.diag(weights)
        )


class LogNormalizedBound(NormalizedBound):
    """Tiles exp(log K_ij − ½log d_i − ½log d_j): no value of k itself is needed."""

    def __init__(self, kernel: Normalized, X: Any, Y: Any = None):
        CombinedBound.__init__(self, kernel, X, Y)
        self._X, self._Y = X, Y
        self._lx = kernel._log_lengths(X)
        self._ly = self._lx if Y is None else kernel._log_lengths(Y)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return the normalised tile."""
        logs = self.parts[0].log_tile(rows, cols)
        logs -= self._lx[rows][:, None]
        logs -= self._ly[cols][None, :]
        return self._with_diagonal(np.exp(logs, out=logs), self._lx < np.inf, rows, cols)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ C ∂K̂ = Σ C K̂ (∂log K − ½∂log d_i − ½∂log d_j)."""
        if not len(self.kernel.theta):
            return self.zeros((0,), wide=True)
        weighted = C * self.tile(rows, cols)
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None:
            weighted[diagonal] = 0.0  # K̂ is 1 there whatever the parameters
        total = self.parts[0].pull_log_theta(rows, cols, weighted)
        inner, Y = self.kernel.kernel, self._X if self._Y is None else self._Y
        for Z, part, sums in ((self._X, rows, weighted.sum(1)), (Y, cols, weighted.sum(0))):
            points = inner.domain.check(self.kernel.domain.take(Z, part))
            total = total + inner._pull_log_diag(points, -0.5 * sums)
        return total


class Normalized(Combination):
    """k(x, x′)/√(k(x, x) k(x′, x′)), zero where a length is zero.

    Of a kernel that is known by its logarithm, such as `GlobalAlignment`, the logarithms are
    subtracted, so that values of k beyond the range of floats are no obstacle.
    """

    _parts = ("kernel",)
    _bound = NormalizedBound
    _pointwise = False

    def __init__(self, kernel: Kernel):
        super().__init__(kernel=kernel)

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.kernel.domain, GramRows):
            raise InvalidInput(
                f"{self!r}: rows of kernel values do not say k(x, x) of a new point. Normalise the "
                "matrix itself: r = np.sqrt(K.diagonal()), then K / r[:, None] / r."
            )

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """As the kernel itself: ∫∫ f(x)k(x, y)f(y) dμdμ is that of k for the measure f·μ, f > 0."""
        return self.kernel.characteristic

    @property
    def _in_logs(self) -> bool:
        return hasattr(self.kernel, "_log_diag")

    def _bind(self, X: Any, Y: Any = None) -> CombinedBound:
        return (LogNormalizedBound if self._in_logs else NormalizedBound)(self, X, Y)

    def _log_lengths(self, X: Any) -> np.ndarray:
        """Return ½log k(x, x), ∞ where k(x, x) = 0."""
        ((k, Z),) = self._inside(X)
        half = 0.5 * k._log_diag(Z)
        return np.where(half == -np.inf, np.inf, half)

    def _inverse_root(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        with np.errstate(over="ignore", invalid="ignore"):
            d = check_diagonal(k, k._diag(Z))
        if is_torch(d):
            return (d > 0) * d.clamp(min=1e-300 if d.itemsize == 8 else 1e-38) ** -0.5
        d = np.asarray(d, dtype=float)
        return np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1.0)), 0.0)

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        if self._in_logs:
            return (self._log_lengths(X) < np.inf).astype(float)
        d = check_diagonal(k, k._diag(Z))
        return (d > 0).to(d.dtype) if is_torch(d) else (d > 0).astype(d.dtype)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.zeros(len(self.theta))

    def _n_features(self, X: Any) -> int | None:
        ((k, Z),) = self._inside(X)
        return k._n_features(Z)

    def _features(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        phi, r = k._features(Z), self._inverse_root(X)
        return sp.diags_array(r) @ phi if sp.issparse(phi) else phi * r[:, None]

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        return None if g is None else g.normalized()

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.normalized()"
