"""The Laplacian kernel, a profile of the ℓ₁ distance, and profiles of ℓₚ distances."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.device import fused_form
from mercer.kernels.bound import Bound, dense_rows
from mercer.kernels.geometry import Geometry, radial
from mercer.kernels.metric import LARGEST, SCALED, Radial, RadialBound, as_they_came
from mercer.kernels.scales import median_distance, standard_deviation
from mercer.kernels.spectral import Independent


class Laplacian(Radial):
    r"""Laplacian kernel exp(−‖x−x′‖₁/ℓ), with the ℓ₁ distance.

    With one length scale for each column, exp(−Σₖ |xₖ−x′ₖ|/ℓₖ).

    *Valid when* ℓ > 0. Characteristic. Costs d passes over the matrix instead of one product.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        "median": the median ℓ₁ distance; "scale": d times the standard deviation of the entries.

    Examples
    --------
    >>> from mercer import Laplacian
    >>> Laplacian()([[0.0, 0.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    characteristic = True

    def __init__(self, length_scale: Any = 1.0):
        super().__init__(length_scale=length_scale)

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        if self.length_scale == "median":
            return {"length_scale": median_distance(X, sample_weight, "cityblock")}
        return {"length_scale": X.shape[1] * standard_deviation(X, sample_weight)}

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(-s)

    def at_gaps(self, gap: np.ndarray) -> np.ndarray:
        """Return k of points of one column, from their differences, which are overwritten."""
        gap /= float(np.ravel(self.length_scale)[0])
        return self.at_squares(np.abs(gap, out=gap))

    def _geometry(self) -> Geometry:
        return radial(self, lambda s: -np.expm1(-np.sqrt(s)), norm=1)

    def _spectral(self, columns: list) -> Independent:
        # exp(−|t|) is the characteristic function of a Cauchy variable
        like = np.empty((0, len(columns)))

        def frequencies(U: np.ndarray) -> np.ndarray:
            return self._from_metric(np.tan(np.pi * (U[..., 0] - 0.5)), like)

        return Independent(len(columns), frequencies)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return LaplacianBound(self, X, Y)


class LaplacianBound(Bound):
    """Tiles of exp(−s), s the scaled ℓ₁ distance."""

    def __init__(self, kernel: Any, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._X = X
        self._x = kernel._to_metric(X)
        self._y = self._x if Y is None else kernel._to_metric(Y)
        self._unit = self.ones((self._x.shape[1],))
        self._scaled = not (getattr(kernel, "_by_columns", False) and self._is_far())
        if not self._scaled:
            self._x, self._y, self._unit = as_they_came(self)

    def _is_far(self) -> bool:
        """Whether the rounding of x/ℓ would show in differences."""
        values = (z.data if sp.issparse(z) else z for z in (self._x, self._y))
        values = (v if self.xp is np else v.detach() for v in values)
        far = max((float(abs(v).max()) for v in values if prod(v.shape)), default=0.0)
        kind = str(self.dtype).rpartition(".")[2]
        return not float(self.xp.finfo(self.dtype).eps) * far < SCALED[kind]

    def fused(self) -> Any:
        """Return what a device multiplies by without tiles."""
        if self.xp is np:
            return None
        unit = None if self._scaled else self._unit
        return fused_form("absolutes", self._x, self._y, self.kernel._profile, unit)

    def _both(self, rows: slice, cols: slice) -> tuple[Any, Any]:
        return dense_rows(self._x, rows), dense_rows(self._y, cols)

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return exp(−Σₖ |xₖ−yₖ|) on a tile."""
        return self.xp.exp(-self.distances(rows, cols))

    def distances(self, rows: slice, cols: slice) -> Any:
        """Return Σₖ |xₖ−yₖ|/ℓₖ on a tile."""
        x, y = self._both(rows, cols)
        if self.xp is np:
            from mercer.jit import manhattan

            s = self.empty((len(x), len(y)))
            manhattan(x, np.ascontiguousarray(y.T), self._unit, s)
        else:
            s = sum(
                (x[:, k, None] - y[None, :, k]).abs() * self._unit[k] for k in range(x.shape[1])
            )
            s = s if x.shape[1] else self.zeros((len(x), len(y)))
        return s

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂log ℓ: each |xₖ−yₖ|/ℓₖ shrinks in proportion."""
        G = C * self.tile(rows, cols)
        x, y = self._both(rows, cols)
        if self.xp is np:
            from mercer.jit import manhattan_by_column

            out = np.empty(x.shape[1])
            manhattan_by_column(x, np.ascontiguousarray(y.T), np.ascontiguousarray(G), out)
        else:
            terms = [(G * (x[:, k, None] - y[None, :, k]).abs()).sum() for k in range(x.shape[1])]
            out = self.xp.stack(terms).to(self.xp.float64)
        out = out * self._unit
        own = self.kernel._own()
        return out if own and own[0][1].size > 1 else out.sum().reshape(1)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return −Σⱼ Cᵢⱼ Kᵢⱼ sign(xᵢ−yⱼ)/ℓ, the gradient wherever it exists."""
        G = C * self.tile(rows, cols)
        x, y = self._both(rows, cols)
        columns = [
            -(G * self.xp.sign(x[:, k, None] - y[None, :, k])).sum(1) for k in range(x.shape[1])
        ]
        return self.kernel._from_metric(self.xp.stack(columns, 1), self._X)


class PowerBound(RadialBound):
    """Tiles of κ(s), s = Σₖ |(xₖ−yₖ)/ℓₖ|^p with p < 2."""

    rows_of, at = Bound.rows_of, Bound.at

    def __init__(self, kernel: Any, X: Any, Y: Any = None):
        Bound.__init__(self, kernel, X, Y)
        self._X, self.degree = X, float(kernel.norm)
        # Of a small power of it a difference must have its digits: none is of rounded x/ℓ.
        self._exact = True
        self._x, self._y, self._unit = as_they_came(self)

    def fused(self) -> Any:
        """Return what a device multiplies by without tiles."""
        if self.xp is np:
            return None
        form = "absolutes" if self.degree == 1 else "powers"
        return fused_form(form, self._x, self._y, self.kernel._profile, self._unit, self.degree)

    def squared(self, rows: slice, cols: slice) -> Any:
        """Return Σₖ |(xₖ−yₖ)/ℓₖ|^p on a tile."""
        s = self.zeros((rows.stop - rows.start, cols.stop - cols.start))
        if self.degree == 1 and self.xp is np:
            from mercer.jit import manhattan

            x, y = dense_rows(self._x, rows), dense_rows(self._y, cols)
            manhattan(x, np.ascontiguousarray(y.T), self._unit, s)
        else:
            with np.errstate(over="ignore"):
                for gap in self._gaps(rows, cols):
                    s += self._raised(gap, self.degree)
        return s.clip(max=LARGEST[self._type])

    def _gaps(self, rows: slice, cols: slice) -> Iterator[Any]:
        """Yield (xₖ−yₖ)/ℓₖ on a tile, column by column; arrays are one, which may be changed."""
        if self.xp is not np:
            yield from super()._gaps(rows, cols)
            return
        x, yt = dense_rows(self._x, rows), np.ascontiguousarray(dense_rows(self._y, cols).T)
        gap = np.empty((len(x), yt.shape[1]), x.dtype)
        for k in range(len(yt)):
            np.subtract(x[:, k, None], yt[k], out=gap)
            gap *= self._unit[k]
            yield gap

    def _raised(self, gap: Any, p: float) -> Any:
        """Return |Δ|^p, and 0 where Δ = 0: infinite powers and slopes there multiply 0."""
        if self.xp is np:
            np.abs(gap, out=gap)
            return np.power(gap, p, out=gap, where=True if p > 0 else gap > 0)
        size = gap.abs()
        if p > 0 and not self.whole:
            return size**p
        there = size > 0
        return self.xp.where(there, size, self.xp.ones_like(size)) ** p * there

    def _by_column(self, rows: slice, cols: slice, G: Any) -> Any:
        gaps = self._gaps(rows, cols)
        return self.xp.stack([(G * self._raised(gap, self.degree)).sum() for gap in gaps])

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ κ′(sᵢⱼ) p|xₖ−yₖ|^(p−1) sign(xₖ−yₖ), 0 of coordinates that coincide."""
        _, G = self._weighted_slope(rows, cols, self.degree * C)
        columns = []
        for gap in self._gaps(rows, cols):
            sign = self.xp.sign(gap)
            sign *= self._raised(gap, self.degree - 1)
            columns.append(self.xp.einsum("ij,ij->i", G, sign))
        return self.kernel._from_metric(self.xp.stack(columns, 1), self._X)
