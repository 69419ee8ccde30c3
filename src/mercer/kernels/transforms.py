"""Kernels seen through a map of the points: warp, scaling, columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, Objects, Table, Tables, is_torch
from mercer.domains.tables import select
from mercer.errors import InvalidInput, speaks
from mercer.kernels.algebra import Combination, _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import CombinedBound
from mercer.kernels.geometry import Geometry
from mercer.kernels.parameters import check_callable
from mercer.kernels.spectral import Embedded, spectral_measure


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
