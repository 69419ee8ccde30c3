"""`Radial`: kernels that are a profile κ(s) of the scaled squared distance s = Σ (xₖ−yₖ)²/ℓₖ²."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains import Vectors, beside, namespace
from mercer.engines.device import fused_form
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.few import FewPoints
from mercer.kernels.geometry import geometry_of
from mercer.kernels.parameters import check_scale
from mercer.kernels.scales import scale_meant

# ---- Derivatives of a formula that its author did not write: complex-step differentiation ----


# f(x + ih) = f(x) + ih f′(x) + O(h²): no cancellation, so h may be tiny and f′ is exact to
# rounding (Squire & Trapp, SIAM Review 40, 1998).
STEP = 1e-30


def belongs(kernel: Any, hook: str) -> bool:
    """Whether a hook was written for the profile in force, not for one that a subclass replaced."""

    kind: Any = type(kernel)
    return _belongs(kind, hook)


@lru_cache(maxsize=256)
def _belongs(kind: type, hook: str) -> bool:
    def owner(name: str) -> type:
        return next(c for c in kind.__mro__ if name in c.__dict__)

    return issubclass(owner(hook), owner("_profile"))


def _complex(s: Any, xp: Any) -> Any:
    return s.astype(np.complex128) if xp is np else s.to(xp.complex128)


def slope(formula: Callable, s: Any, xp: Any) -> Any:
    """Return the derivative of ``formula(s, xp)`` in s, zero where it is not finite."""
    d = _imaginary(formula(_complex(s, xp) + 1j * STEP, xp), "_slope") / STEP
    return xp.where(xp.isfinite(d), d, xp.zeros_like(d))


def in_log_parameter(kernel: Any, name: str, s: Any, xp: Any) -> Any:
    """Return the derivative of ``kernel._profile(s, xp)`` in the logarithm of a parameter."""
    moved = copy.copy(kernel)
    object.__setattr__(moved, name, getattr(kernel, name) * (1 + 1j * STEP))
    return _imaginary(moved._profile(_complex(s, xp), xp), "_shape_slopes") / STEP


def _imaginary(value: Any, hook: str) -> Any:
    """Return the imaginary part, unless the formula has dropped it."""
    kept = np.iscomplexobj(value) if isinstance(value, np.ndarray) else value.is_complex()
    if not kept:
        raise InvalidInput(
            "a profile with abs, real or a comparison in it cannot be differentiated by a complex "
            f"step; write {hook} as well (see the guide, How to add a kernel)."
        )
    return value.imag


# ---- metric ----


# s = ‖x‖²+‖y‖²−2xᵀy loses about eps·max‖x‖²; beyond this absolute error differences are taken.
CANCELLATION = {"float64": 1e-10, "float32": 1e-4}
FINEST = {name: float(np.finfo(name).eps) for name in CANCELLATION}
# Of a rough profile (√s at 0, say) that error shows where s is small: below this part of the
# radius differences are taken too.
NEAR = 1e-3
# Coordinates x/ℓ of far points are rounded, by eps·|x|/ℓ; beyond this differences of the points
# themselves are taken, and then scaled.
SCALED = {"float64": 1e-12, "float32": 1e-6}
# Squared distances that overflow are as good as this; profiles there are 0 and stay finite.
LARGEST = {"float64": 1e300, "float32": 1e36}
HUGE = 1e150  # coordinates beyond this are not moved, lest the move overflow
HALVED = 100  # columns from which half a product saves more than three passes over a tile cost
# Columns of sparse rows made dense at a time.
STRIP = 512


class Radial(Kernel):
    """A kernel κ(s) of the scaled squared distance s.

    An author writes ``_profile(s, xp)``, a formula that numpy and torch (``xp``) both understand.
    Optional: ``_slope(s, xp)`` = κ′(s) and ``_shape_slopes(s, xp)``, the derivatives in the
    logarithm of further parameters named in ``_tunable``; without them complex-step
    differentiation of the formula is used.
    """

    _tunable: tuple[str, ...] = ("length_scale",)
    length_scale: Any
    #: c where κ′ = −cκ, so that a value gives its slope.
    _decay: float | None = None
    #: Whether κ has an infinite slope at 0, so that s must be exact to more than rounding there.
    _rough: bool = False

    def _profile(self, s: Any, xp: Any) -> Any:
        raise InvalidInput(f"{type(self).__name__}: define _profile(s, xp).")

    def _profile_in_place(self, s: Any) -> Any:
        """Return κ(s), with leave to overwrite s; a tile and its temporaries must fit the cache."""
        return self._profile(s, namespace(s))

    def _true_slope(self, s: Any, xp: Any) -> Any:
        """Return κ′(s), by complex step where a subclass changed the profile alone."""
        right = belongs(self, "_slope")
        return self._slope(s, xp) if right else Radial._slope(self, s, xp)

    def _true_shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        right = belongs(self, "_shape_slopes")
        return self._shape_slopes(s, xp) if right else Radial._shape_slopes(self, s, xp)

    def _slope(self, s: Any, xp: Any) -> Any:
        d = slope(self._profile, s, xp)
        # It multiplies (x−y)² or x−y: at s = 0 any finite value serves, an infinite one does not.
        return xp.where(s > 0, d, xp.zeros_like(d))

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        names = [n for n in self._tunable if n != "length_scale"]
        return {n: in_log_parameter(self, n, s, xp) for n in names}

    def _check_params(self) -> None:
        check_scale("length_scale", self.length_scale)

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        return {"length_scale": scale_meant(self.length_scale, X, sample_weight)}

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return RadialBound(self, X, Y)

    def _of_pairs(self, pairs: FewPoints) -> Any:
        usual = type(self.domain) is Vectors and self._euclidean and self._by_columns
        if not usual or isinstance(self.length_scale, str):
            return None
        s = pairs.squares(self.length_scale, self._rough)
        if s is None:
            return None
        if belongs(self, "_profile_in_place"):
            return self._profile_in_place(s)
        return self._profile(s, np)

    def _diag(self, X: Any) -> Any:
        self._scale(X)  # a wrong number of length scales is an error here too
        return self._profile(beside(np.zeros(X.shape[0]), X), namespace(X))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        zero = np.zeros(1)
        slopes = self._true_shape_slopes(zero, np)
        out = []
        for name, value in self._own():
            slope = 0.0 if name == "length_scale" else float(slopes[name][0]) * float(np.sum(c))
            out.append(np.full(value.size, slope))
        return np.concatenate(out) if out else np.zeros(0)

    # -- the metric: x ↦ scaled coordinates, and back for gradients ---------------------------
    def _scale(self, X: Any) -> Any:
        """Return the length scale as a number or a row, in the kind of X."""
        if isinstance(self.length_scale, float):
            return self.length_scale
        scale = np.asarray(self.length_scale, dtype=float)
        if scale.ndim and scale.size not in (1, X.shape[1]):
            raise InvalidInput(
                f"{type(self).__name__}: {scale.size} length scales for {X.shape[1]} columns; "
                "give one number or one for each column."
            )
        if scale.ndim == 0 or scale.size == 1:
            return float(scale.reshape(-1)[0])
        return beside(scale, X)

    def _to_metric(self, X: Any) -> Any:
        """Return coordinates in which s is the plain squared distance."""
        scale = self._scale(X)
        if sp.issparse(X):
            return (
                X / scale if isinstance(scale, float) else (X @ sp.diags_array(1 / scale)).tocsr()
            )
        return X / scale

    def _from_metric(self, G: Any, X: Any) -> Any:
        """Return a gradient in the coordinates of the user."""
        return G / self._scale(X)

    def at_squares(self, s: np.ndarray) -> np.ndarray:
        """Return κ(s) of scaled squared distances."""
        return np.asarray(self._profile(s, np))

    def at_gaps(self, gap: np.ndarray) -> np.ndarray:
        """Return k of points of one column, from their differences, which are overwritten."""
        gap /= float(np.ravel(self.length_scale)[0])
        s = np.square(gap, out=gap)
        own = belongs(self, "_profile_in_place")
        return self._profile_in_place(s) if own else self.at_squares(s)

    def slopes_at_gaps(self, gap: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Return Σⱼ wⱼ ∂k/∂θ at differences of points of one column, one row for each of them.

        Parameters
        ----------
        gap : ndarray of shape (n, m)
            The differences, which are overwritten.
        weights : ndarray of shape (m,)
            The weights w.

        Returns
        -------
        ndarray of shape (n, len(theta)) or None
            None where the metric is not one length scale.
        """
        if not (self._by_columns and self._euclidean) or np.size(self.length_scale) > 1:
            return None
        gap /= float(np.ravel(self.length_scale)[0])
        s = np.square(gap, out=gap)
        shapes = self._true_shape_slopes(s, np)
        if "length_scale" in self._tunable:
            shapes["length_scale"] = -2 * s * self._true_slope(s, np)
        own = [shapes[name] for name, _ in self._own()]
        return np.stack([part @ weights for part in own], axis=1) if own else np.zeros((len(s), 0))

    @property
    def _by_columns(self) -> bool:
        """Whether the metric is one length scale for all columns, or one for each."""
        return type(self)._to_metric is Radial._to_metric

    @property
    def _euclidean(self) -> bool:
        """Whether s is the squared Euclidean distance in the metric, as `RadialBound` takes it."""
        return type(self)._bind is Radial._bind


def as_they_came(bound: Any) -> tuple[Any, Any, Any]:
    """Return both collections for differences, and what multiplies the differences of a column.

    A difference of floats is rounded once, relative to itself; x − centre and x/ℓ of far points are
    rounded relative to x. Of a metric that is not one of columns, coordinates are in float64.
    """
    kernel, (X, Y) = bound.kernel, bound.collections
    if kernel._by_columns:
        kernel._scale(X)  # refuses scales that are not as many as the columns
        scale = np.broadcast_to(np.asarray(kernel.length_scale, dtype=float), (X.shape[1],))
        x = np.array(X, order="C") if isinstance(X, np.ndarray) else X
        y = x if bound.symmetric else np.array(Y, order="C") if isinstance(Y, np.ndarray) else Y
        return x, y, beside(1.0 / scale, X)
    X, Y = (Z.astype(np.float64) if bound.xp is np else Z.double() for Z in (X, Y))
    centre = 0.0 if sp.issparse(X) else X.mean(0)
    x, y = (kernel._to_metric(Z if sp.issparse(Z) else Z - centre) for Z in (X, Y))
    return x, y, beside(np.ones(x.shape[1]), x)


class RadialBound(Bound):
    """Tiles of a radial kernel: one product for the squared distances, then the profile."""

    fresh = True
    degree: float = 2  # of the differences in s

    def __init__(self, kernel: Radial, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._X = X
        self._centre: Any = None  # what points were moved by
        self._rough = kernel._rough
        self._left: Any = None
        self._unit: Any = None  # what multiplies differences; None for 1
        if self.xp is np and self.flagged and self._laid_out(X, Y):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            if not sp.issparse(X) and X.shape[0]:
                # Distances do not change when all points move; near the origin less cancels.
                # First move, then scale: x/ℓ of a far point is rounded, x − centre is not.
                values = X if self.xp is np else X.detach()
                if float(values.max()) < HUGE and float(values.min()) > -HUGE:
                    self._centre = X.mean(0)
                    X = X - self._centre
                    Y = None if Y is None else Y - self._centre
            self._x = x = kernel._to_metric(X)
            self._y = y = x if Y is None else kernel._to_metric(Y)
            self._sparse = sp.issparse(x)
            self._xx = xx = _squared_norms(x)
            self._yy = yy = xx if Y is None else _squared_norms(y)
        self._exact = self.slow = self._must_be_exact(xx, yy)
        if self._exact and not (self._rough and self._small):
            self._x, self._y, self._unit = as_they_came(self)
            self._sparse = sp.issparse(self._x)
            self.workspace *= 1 if self._x.dtype == self.dtype else 2
        if self.xp is np and not self._sparse and not self._exact:
            self._augment()

    def _laid_out(self, X: np.ndarray, Y: np.ndarray | None) -> bool:
        """Prepare arrays for products where these are exact enough; the usual case, in few steps.

        False leaves everything to do: points that overflow, are far from one another, or are in a
        metric of their own.
        """
        kernel, n = self.kernel, self.shape[0]
        if not kernel._by_columns or not n or not self.shape[1] or X.dtype != self.dtype:
            return False
        scale = kernel._scale(X)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = np.add.reduce(X, 0)
            centre /= n
            self._left, self._x, xx = _lifted(X, centre, scale)
            self._y, yy = self._x, xx
            if Y is not None:
                _, self._y, yy = _lifted(Y, centre, scale)
            finite = math.isfinite(np.add.reduce(xx)) and math.isfinite(np.add.reduce(yy))
        if not finite or self._must_be_exact(xx, yy):
            self._left = None
            return False
        right = self._right = np.empty((len(yy), self._left.shape[1]), self.dtype)
        np.multiply(self._y, -2, out=right[:, :-2])
        right[:, -2], right[:, -1] = 1, yy
        self._centre, self._xx, self._yy = centre, xx, yy
        self._sparse = self._exact = self.slow = False
        return True

    def _augment(self) -> None:
        """[x, ‖x‖², 1]·[−2y, 1, ‖y‖²] = ‖x−y‖²: one product, no passes to add the norms."""
        stack = np.concatenate if self.xp is np else self.xp.cat
        one_x, one_y = self.ones((len(self._x), 1)), self.ones((len(self._y), 1))
        self._left = stack([self._x, self._xx[:, None], one_x], 1)
        self._right = stack([-2 * self._y, one_y, self._yy[:, None]], 1)

    def fused(self) -> Any:
        """Return what a device multiplies by without tiles: κ of products, or of differences."""
        if self.xp is np:
            return None
        form = "differences" if self._exact else "squares"
        return fused_form(form, self._x, self._y, self.kernel._profile, self._unit)

    def gradient(self, coef: Any) -> Any:
        """Return Σⱼ cⱼ κ′(s)∇ₓs, with ∇ₓs = 2(x−y): products of κ′ with c and with c times y.

        Both are sums of the same entries in float64, so that near points cancel as they should.
        """
        if self.xp is np or self.whole or coef.requires_grad or self._rough or self._exact:
            return None
        slope = fused_form("squares", self._x, self._y, self.kernel._true_slope)
        if slope is None:
            return None
        c = coef.double()[:, None]
        sums = slope.times(self.xp.cat([c, c * self._y.double()], 1))
        moved = sums[:, :1] * self._x.double() - sums[:, 1:]
        return self.kernel._from_metric(2 * moved, self._X)

    def rows_of(self, index: np.ndarray) -> Bound:
        """Return k on some of the rows; the other side is used as it was prepared."""
        left = None if self._left is None else self._left[index]
        some = self._X[index], self._x[index], self._xx[index]
        return copy.copy(self).with_rows(*some, left)

    def with_rows(self, X: Any, x: Any, xx: Any, left: Any, radius: float | None = None) -> Self:
        """Take points, prepared, as rows; other ones with how far two may be from one another."""
        if radius is not None:
            self._radius = radius
        self.symmetric, self.shape = False, (X.shape[0], self.shape[1])
        self.collections, self._like = (X, self.collections[1]), X
        self._X, self._x, self._xx, self._left = X, x, xx, left
        return self

    def at(self, X: Any) -> Bound:
        """Return k at new points X; Y keeps its place, norms and scaled coordinates."""
        Y = self.collections[1]
        if self._left is None or self._centre is None or X.dtype != Y.dtype:
            return type(self)(self.kernel, X, Y)
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = self.kernel
            scale = kernel._scale(X) if kernel._by_columns else kernel
            left, x, xx = _lifted(X, self._centre, scale)
            radius = float(xx.max(initial=0.0)) + float(self._yy.max(initial=0.0))
        eps = FINEST[self._type]
        if not eps * radius < CANCELLATION[self._type]:  # far points; those that overflow too
            return type(self)(self.kernel, X, Y)
        return copy.copy(self).with_rows(X, x, xx, left, radius)

    def _must_be_exact(self, xx: Any, yy: Any) -> bool:
        self._radius = 0.0
        if not len(xx) or not len(yy):
            return False
        if self.xp is not np:
            xx, yy = xx.detach(), yy.detach()
        self._radius = float(xx.max()) + float(yy.max())
        if not np.isfinite(self._radius):
            self._check_finite()
        # Where they are so near to their centre, rounding does not show.
        kind = self._type
        self._small = FINEST[kind] * self._radius < CANCELLATION[kind]
        if self._rough and self.xp is not np:
            return True
        return not self._small

    @property
    def _type(self) -> str:
        if self.xp is np:
            return "float32" if self.dtype == np.float32 else "float64"
        return str(self.dtype).rpartition(".")[2]

    def _check_finite(self) -> None:
        for Z in (self._x, self._y):
            values = Z.data if self._sparse else Z
            if not bool(self.xp.isfinite(values).all()):
                raise InvalidInput(
                    f"{self.name}: x/length_scale overflows; the length scale is too small for "
                    "these points. Scale the columns, or use a larger length scale."
                )

    def squared(self, rows: slice, cols: slice) -> Any:
        """Return the scaled squared distances of a tile, exactly 0 on the diagonal."""
        if self._exact:
            s = self._by_differences(rows, cols)
        elif self._sparse:
            s = (self._x[rows] @ self._y[cols].T).toarray()
            s *= -2
            s += self._xx[rows, None]
            s += self._yy[None, cols]
        else:
            if self._left is None:  # of tensors, which a device may multiply by without tiles
                self._augment()
            if self.xp is np and self.symmetric and rows == cols and self._x.shape[1] >= HALVED:
                return self._on_corner(rows)
            s = self._left[rows] @ self._right[cols].T
        if self._rough and not self._exact:
            s = self._refined(s, rows, cols)
        # Rounding may leave −ε for a distance near 0; |−ε| is as near, and cheaper than clipping.
        s = np.abs(s, out=s) if self.xp is np else s.abs() if self.whole else s.abs_()
        if not self.symmetric:
            return s
        if self.xp is np:
            low, high = max(rows.start, cols.start), min(rows.stop, cols.stop)
            if low < high:
                i, j = low - rows.start, low - cols.start
                np.einsum("ii->i", s[i : i + high - low, j : j + high - low])[...] = 0
            return s
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            s[diagonal] = 0
        elif diagonal is not None:  # autograd: multiply, do not write
            s = s * (1 - self.xp.eye(len(s), dtype=s.dtype, device=s.device))
        return s

    def _on_corner(self, rows: slice) -> np.ndarray:
        """Return a tile on the diagonal, of which BLAS multiplies one half."""
        x, xx = self._x[rows], self._xx[rows]
        s: np.ndarray = x @ x.T
        s *= -2
        s += xx[:, None]
        s += xx
        if self._rough:
            s = self._refined(s, rows, rows)
        np.abs(s, out=s)
        np.einsum("ii->i", s)[...] = 0
        return s

    def _by_differences(self, rows: slice, cols: slice) -> Any:
        """Return Σₖ (xₖ−yₖ)²/ℓₖ²: nothing cancels, at the price of d passes."""
        shape = (rows.stop - rows.start, cols.stop - cols.start)
        largest = LARGEST[self._type]
        if self.xp is not np:
            total = 0.0
            for gap in self._gaps(rows, cols):
                total = total + gap.square()
            return total.clip(max=largest)
        from mercer.jit import squared_euclidean

        x, y = self._x[rows], self._y[cols]
        unit = np.ones(x.shape[1], x.dtype) if self._unit is None else self._unit
        s = np.empty(shape, x.dtype)
        if not self._sparse:
            squared_euclidean(x, np.ascontiguousarray(y.T), unit, s)
            return np.minimum(s, largest, out=s)
        s[...] = 0
        part = np.empty_like(s)
        for k in range(0, x.shape[1], STRIP):
            strip = slice(k, k + STRIP)
            yt = np.ascontiguousarray(y[:, strip].toarray().T)
            squared_euclidean(x[:, strip].toarray(), yt, unit[strip], part)
            s += part
        return np.minimum(s, largest, out=s)

    def _refined(self, s: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Return s with the small entries taken by differences."""
        i, j = np.nonzero(s < NEAR * self._radius)
        if len(i) > s.size // 8:
            return self._by_differences(rows, cols)
        for k in range(0, len(i), STRIP):
            a, b = i[k : k + STRIP], j[k : k + STRIP]
            s[a, b] = _squared_norms(self._x[rows][a] - self._y[cols][b])
        return s

    def _gaps(self, rows: slice, cols: slice) -> Iterator[Any]:
        """Yield (xₖ−yₖ)/ℓₖ on a tile, column by column."""
        x, y = self._rows(self._x, rows), self._rows(self._y, cols)
        for k in range(x.shape[1]):
            gap = x[:, k, None] - y[None, :, k]
            yield gap if self._unit is None else gap * self._unit[k]

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return κ(s) on a tile."""
        s = self.squared(rows, cols)
        if not self.whole and belongs(self.kernel, "_profile_in_place"):
            return self.narrow(self.kernel._profile_in_place(s))
        return self.narrow(self.kernel._profile(s, self.xp))

    def _weighted_slope(self, rows: slice, cols: slice, C: Any) -> tuple[Any, Any]:
        s = self.squared(rows, cols)
        return s, C * self.kernel._true_slope(s, self.xp)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂κ(sᵢⱼ)/∂θ, all length scales from one product G·Y."""
        if self._by_decay():
            return self.pull_theta_with(rows, cols, C, self.tile(rows, cols))
        s, G = self._weighted_slope(rows, cols, C)
        shape = self.kernel._true_shape_slopes(s, self.xp)
        out = []
        for name, value in self.kernel._own():
            if name != "length_scale":
                out.append((C * shape[name]).sum().reshape(1))
            elif value.size == 1:
                out.append((-self.degree * (G * s).sum()).reshape(1))  # ∂s/∂log ℓ = −2s
            else:
                out.append(-self.degree * self._by_column(rows, cols, G))
        if not out:
            return self.zeros((0,), wide=True)
        return np.concatenate(out) if self.xp is np else self.xp.cat(out).to(self.xp.float64)

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> Any:
        """Return `pull_theta`; κ′ = −cκ and a length scale a column need the values alone."""
        if not self._by_decay():
            return self.pull_theta(rows, cols, C)
        pulled = 2 * self.kernel._decay * self._by_column(rows, cols, C * tile)
        return pulled if self.xp is np else pulled.to(self.xp.float64)

    def _by_decay(self) -> bool:
        if self.kernel._decay is None or not belongs(self.kernel, "_decay"):
            return False
        own = self.kernel._own()
        return len(own) == 1 and own[0][0] == "length_scale" and own[0][1].size > 1

    def _by_column(self, rows: slice, cols: slice, G: Any) -> Any:
        if self._exact:
            return self.xp.stack([(G * gap * gap).sum() for gap in self._gaps(rows, cols)])
        # Σᵢⱼ Gᵢⱼ(xᵢₖ−yⱼₖ)² = (G1)ᵀx² + (Gᵀ1)ᵀy² − 2 Σᵢ xᵢₖ(Gy)ᵢₖ
        x, y = self._rows(self._x, rows), self._rows(self._y, cols)
        return G.sum(1) @ (x * x) + G.sum(0) @ (y * y) - 2 * (x * (G @ y)).sum(0)

    @staticmethod
    def _rows(A: Any, rows: slice) -> Any:
        return A[rows].toarray() if sp.issparse(A) else A[rows]

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ κ′(sᵢⱼ) ∇ₓsᵢⱼ, with ∇ₓs = 2(x−y) in scaled coordinates."""
        _, G = self._weighted_slope(rows, cols, C)
        if self._exact:
            moved = self.xp.stack([(G * gap).sum(1) for gap in self._gaps(rows, cols)], 1)
            return self.kernel._from_metric(2 * moved, self._X)
        x, y = self._rows(self._x, rows), self._rows(self._y, cols)
        return self.kernel._from_metric(2 * (G.sum(1)[:, None] * x - G @ y), self._X)


def _lifted(X: np.ndarray, centre: np.ndarray, scale: Any) -> tuple[Any, Any, Any]:
    """Return [x, ‖x‖², 1], its part x and ‖x‖² of rows of numbers, moved and scaled.

    X : array of shape (n, d)
        The rows.
    centre : array of shape (d,)
        What to move them by.
    scale : float, array of shape (d,), or Radial
        What to divide by afterwards, or a kernel that knows.
    """
    left = np.empty((len(X), X.shape[1] + 2), X.dtype)
    x = left[:, :-2]
    np.subtract(X, centre, out=x)
    if isinstance(scale, Radial):
        x[...] = scale._to_metric(x)
    else:
        np.divide(x, scale, out=x)
    xx = _squared_norms(x)
    left[:, -2], left[:, -1] = xx, 1
    return left, x, xx


def _squared_norms(X: Any) -> Any:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.add.reduce(X * X, 1) if isinstance(X, np.ndarray) else (X * X).sum(1)


# ---- Points far from the origin: where only distances matter, they are moved to their mean ----


FAR = 1e4  # times their spread, both squared, that rows are long from which they are moved


def _far_out(X: np.ndarray) -> bool:
    """Whether rows are so much longer than they spread that their products lose digits."""
    if not len(X):
        return False
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        far, wide = np.maximum(-low, high), high - low
        return bool(far @ far > FAR * (wide @ wide) > 0)


def around_mean(kernel: Any, X: Any) -> Any:
    """Return rows moved to their mean, if that saves digits and changes no distance of features.

    Of xᵀx′ + κ(x − x′), for one, what is centred in feature space stays as it is. Where rows are
    not moved, they are returned themselves.
    """
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f" or not _far_out(X):
        return X
    geometry = geometry_of(kernel)
    if geometry is None or geometry.key is None or geometry.level is not None:
        return X
    Z = X - X[:1]
    Z -= Z.mean(axis=0)
    return Z
