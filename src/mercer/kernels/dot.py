"""Dot-product kernels: linear, polynomial, exponential, cosine."""

from __future__ import annotations

import copy
from math import comb, factorial, prod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_parameter
from mercer.domains import Vectors, beside, namespace
from mercer.engines.device import fused_form
from mercer.errors import InvalidInput, who
from mercer.kernels import metric
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.few import FewPoints
from mercer.kernels.geometry import Geometry
from mercer.kernels.parameters import check_covariance, check_scale
from mercer.kernels.scales import scale_meant


class Dot(Kernel):
    """A kernel κ(s) of the inner product s = xᵀx′.

    An author writes ``_profile(s, xp)``; optional are ``_slope`` and ``_shape_slopes``, as for
    `Radial`. κ must have non-negative Taylor coefficients to be a kernel in every dimension.
    """

    def _profile(self, s: Any, xp: Any) -> Any:
        raise InvalidInput(f"{type(self).__name__}: define _profile(s, xp).")

    def _true_slope(self, s: Any, xp: Any) -> Any:
        """Return κ′(s), by complex step where a subclass changed the profile alone."""
        right = metric.belongs(self, "_slope")
        return self._slope(s, xp) if right else Dot._slope(self, s, xp)

    def _true_shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        right = metric.belongs(self, "_shape_slopes")
        return self._shape_slopes(s, xp) if right else Dot._shape_slopes(self, s, xp)

    def _slope(self, s: Any, xp: Any) -> Any:
        return metric.slope(self._profile, s, xp)

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        return {n: metric.in_log_parameter(self, n, s, xp) for n, _ in self._own()}

    def _map(self, X: Any) -> Any:
        """Return the vectors whose inner product is s."""
        return X

    def _unmap(self, G: Any, X: Any) -> Any:
        """Return a gradient in the coordinates of the user, at the rows X."""
        return G

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return DotBound(self, X, Y)

    def _of_pairs(self, pairs: FewPoints) -> Any:
        if type(self)._bind is not Dot._bind or type(self.domain) is not Vectors or self._words():
            return None
        x, y = pairs.X, pairs.Y
        s = pairs.inner(self._map(x), None if y is None else self._map(y))
        return self._profile(s, np)

    def _diag(self, X: Any) -> Any:
        return self._profile(_squared_norms(self._map(X)), namespace(X))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        s = _squared_norms(self._map(X))
        slopes = self._true_shape_slopes(s, namespace(X))
        return np.array([float((c * slopes[name]).sum()) for name, _ in self._own()])


class DotBound(Bound):
    """Tiles of a dot-product kernel: one product, then the profile."""

    def __init__(self, kernel: Dot, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._X = X
        self._x = kernel._map(X)
        self._y = self._x if Y is None else kernel._map(Y)

    def at(self, X: Any) -> Bound:
        """Return k at new points X; Y is used as it was mapped."""
        Y = self.collections[1]
        if not (isinstance(X, np.ndarray) and isinstance(Y, np.ndarray) and X.dtype == Y.dtype):
            return super().at(X)
        new = copy.copy(self)
        new.symmetric, new.shape, new.collections = False, (len(X), self.shape[1]), (X, Y)
        return new.with_rows(X)

    def with_rows(self, X: Any) -> Self:
        """Take points as rows."""
        self._X, self._x, self._like = X, self.kernel._map(X), X
        return self

    def fused(self) -> Any:
        """Return what a device multiplies by without tiles: κ of inner products."""
        if self.xp is np:
            return None
        return fused_form("dot", self._x, self._y, self.kernel._profile)

    def inner(self, rows: slice, cols: slice) -> Any:
        """Return xᵀy on a tile."""
        s = self._x[rows] @ self._y[cols].T
        return s.toarray() if sp.issparse(s) else s

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return κ(xᵀy) on a tile."""
        return self.kernel._profile(self.inner(rows, cols), self.xp)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂κ/∂θ."""
        own = self.kernel._own()
        if not own:
            return self.zeros((0,), wide=True)
        slopes = self.kernel._true_shape_slopes(self.inner(rows, cols), self.xp)
        out = [(C * slopes[name]).sum().reshape(1) for name, _ in own]
        return np.concatenate(out) if self.xp is np else self.xp.cat(out).to(self.xp.float64)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ κ′(s) y."""
        G = C * self.kernel._true_slope(self.inner(rows, cols), self.xp)
        return self.kernel._unmap(G @ self._y[cols], self._X[rows])


class Linear(Dot):
    r"""Linear kernel xᵀx′, or xᵀAx′ with a positive semidefinite matrix A.

    *Valid when* A is symmetric positive semidefinite. Features: x, or A^½x.

    Parameters
    ----------
    covariance : array of shape (d, d), optional
        The matrix A.

    Examples
    --------
    >>> from mercer import Linear
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def __init__(self, covariance: Any = None):
        super().__init__(covariance=covariance)

    def _check_params(self) -> None:
        if self.covariance is not None:
            check_covariance(self.covariance, definite=False)

    def _profile(self, s: Any, xp: Any) -> Any:
        return s

    def _slope(self, s: Any, xp: Any) -> Any:
        return xp.ones_like(s)

    def _root(self, X: Any) -> Any:
        A = np.asarray(self.covariance, dtype=np.float64)
        if A.shape[0] != X.shape[1]:
            raise InvalidInput(
                f"Linear: covariance is {A.shape[0]} × {A.shape[0]} but X has {X.shape[1]} columns."
            )
        values, vectors = np.linalg.eigh(A)
        root = vectors * np.sqrt(np.maximum(values, 0))
        return beside(root, X)

    def _map(self, X: Any) -> Any:
        return X if self.covariance is None else X @ self._root(X)

    def _unmap(self, G: Any, X: Any) -> Any:
        return G if self.covariance is None else G @ self._root(X).T

    def _geometry(self) -> Geometry:
        A = self.covariance
        key = (2,) if A is None else ("root", np.asarray(A, dtype=float).tobytes())
        return Geometry(key, self._map, 1.0, lambda s: s, None)

    def _features(self, X: Any) -> Any:
        return self._map(X)

    def _n_features(self, X: Any) -> int | None:
        return int(X.shape[1])


class Polynomial(Dot):
    r"""Polynomial kernel (xᵀx′ + c)^m, or (xᵀx′/ℓ² + c)^m with a length scale ℓ.

    *Valid when* c ≥ 0 and m ≥ 1 is whole. Features: all monomials of degree ≤ m (= m when c = 0)
    weighted by the square root of their multinomial coefficient, C(d+m, m) of them.

    Parameters
    ----------
    degree : int, default=2
        The degree m.
    offset : float, default=1.0
        The offset c.
    length_scale : float, "median" or "scale", optional
        The scale ℓ, 1 where it is left out. "scale" is scikit-learn's ``gamma="scale"``: ℓ² is the
        number of columns times the variance of the entries.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> k = Polynomial(degree=2, offset=1.0)
    >>> k([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    >>> k.features([[1.0, 2.0]]).shape
    (1, 6)
    """

    _tunable = ("offset", "length_scale")
    length_scale: Any = None  # of pickles from before there was one

    def __init__(self, degree: int = 2, offset: float = 1.0, length_scale: Any = None):
        super().__init__(degree=degree, offset=offset, length_scale=length_scale)

    def _check_params(self) -> None:
        check_parameter("offset", self.offset, 0.0, open=False)
        _check_degree(self.degree)
        if self.length_scale is not None:
            check_scale("length_scale", self.length_scale)
            if np.size(self.length_scale) != 1:
                raise InvalidInput("Polynomial: length_scale must be one number or a word.")

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        word = self.length_scale
        if not isinstance(word, str):
            return {}
        # γ = 1/(d·Var X) is 1/ℓ² here, and 1/2ℓ² in the RBF
        factor = 2.0**0.5 if word == "scale" else 1.0
        return {"length_scale": factor * scale_meant(word, X, sample_weight)}

    def _scaled(self, s: Any) -> Any:
        return s if self.length_scale is None else s / (self.length_scale * self.length_scale)

    def _profile(self, s: Any, xp: Any) -> Any:
        return (self._scaled(s) + self.offset) ** int(self.degree)

    def _power(self, s: Any) -> Any:
        """Return m(s/ℓ² + c)^(m−1)."""
        m = int(self.degree)
        return m * (self._scaled(s) + self.offset) ** (m - 1)

    def _slope(self, s: Any, xp: Any) -> Any:
        return self._scaled(self._power(s))

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        power = self._power(s)
        slopes = {"offset": self.offset * power}
        if self.length_scale is not None:
            slopes["length_scale"] = -2 * self._scaled(s) * power
        return slopes

    def _geometry(self) -> Geometry | None:
        if int(self.degree) != 1:
            return None
        unit = 1.0 if self.length_scale is None else float(self.length_scale)
        return Geometry((2,), self._map, unit, lambda s: s, None)

    def _n_features(self, X: Any) -> int | None:
        d, m = int(X.shape[1]), int(self.degree)
        return comb(d + m, m) if self.offset > 0 else comb(d + m - 1, m)

    def _features(self, X: Any) -> Any:
        X = X.toarray() if sp.issparse(X) else X
        X = X if self.length_scale is None else X / self.length_scale
        d, m, c = X.shape[1], int(self.degree), float(self.offset)
        ones = X[:, :1] * 0 + 1 if d else np.ones((X.shape[0], 1), X.dtype)
        level: list[tuple[tuple[int, ...], Any]] = [((), ones[:, 0])]
        columns = []
        for total in range(m + 1):
            if total == m or c > 0:
                for powers, column in level:
                    counts = [powers.count(k) for k in set(powers)] + [m - total]
                    multinomial = factorial(m) // prod(factorial(a) for a in counts)
                    columns.append((multinomial * c ** (m - total)) ** 0.5 * column)
            if total < m:
                level = [
                    ((*powers, k), column * X[:, k])
                    for powers, column in level
                    for k in range(powers[-1] if powers else 0, d)
                ]
        if not columns:
            return X[:, :0]
        return namespace(X).stack(columns, 1)


class Exponential(Dot):
    r"""Exponential kernel exp(xᵀx′/ℓ²).

    *Valid when* ℓ > 0. Normalised, it is the RBF kernel of length scale ℓ.

    Parameters
    ----------
    length_scale : float, "median" or "scale", default=1.0
        The scale ℓ (written s in some texts); words as for `RBF`.

    Examples
    --------
    >>> from mercer import Exponential
    >>> Exponential()([[0.0], [1.0]]).round(4)
    array([[1.    , 1.    ],
           [1.    , 2.7183]])
    """

    _tunable = ("length_scale",)

    def __init__(self, length_scale: Any = 1.0):
        super().__init__(length_scale=length_scale)

    def _check_params(self) -> None:
        check_scale("length_scale", self.length_scale)
        if np.size(self.length_scale) != 1:
            raise InvalidInput("Exponential: length_scale must be one number or a word.")

    def _resolve(self, X: Any, sample_weight: Any) -> dict[str, Any]:
        return {"length_scale": scale_meant(self.length_scale, X, sample_weight)}

    def _profile(self, s: Any, xp: Any) -> Any:
        return xp.exp(s / (self.length_scale * self.length_scale))

    def _slope(self, s: Any, xp: Any) -> Any:
        return self._profile(s, xp) / (self.length_scale * self.length_scale)

    def _shape_slopes(self, s: Any, xp: Any) -> dict[str, Any]:
        u = s / (self.length_scale * self.length_scale)
        return {"length_scale": -2 * u * xp.exp(u)}


class Cosine(Dot):
    r"""Cosine kernel xᵀx′/‖x‖‖x′‖, zero for a zero vector.

    *Valid when* always. Features: x/‖x‖.

    Examples
    --------
    >>> from mercer import Cosine
    >>> Cosine()([[1.0, 0.0], [2.0, 2.0]]).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    def __init__(self) -> None:
        super().__init__()

    def _profile(self, s: Any, xp: Any) -> Any:
        return s

    def _slope(self, s: Any, xp: Any) -> Any:
        return xp.ones_like(s)

    def _map(self, X: Any) -> Any:
        return _unit(X)

    def _unmap(self, G: Any, X: Any) -> Any:
        # ∇ₓ gᵀx/‖x‖ = (g − x̂(x̂ᵀg))/‖x‖
        unit = _unit(X)
        unit = unit.toarray() if sp.issparse(X) else unit
        largest, relative = _norms(X)
        return (G - unit * (unit * G).sum(1)[:, None]) / largest[:, None] / relative[:, None]

    def _features(self, X: Any) -> Any:
        return self._map(X)

    def _n_features(self, X: Any) -> int | None:
        return int(X.shape[1])


def _squared_norms(X: Any) -> Any:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return (X * X).sum(1)


def _norms(X: Any) -> tuple[Any, Any]:
    """Return m and r with ‖x‖ = m r, m the largest entry: neither overflows; 1 and 1 for zero."""
    xp = namespace(X)
    if sp.issparse(X):
        X = _canonical(X)
        largest = np.maximum(X.max(axis=1).toarray(), -X.min(axis=1).toarray()).ravel()
    else:
        largest = xp.abs(X).max(1) if xp is np else xp.abs(X).amax(1)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    relative = _squared_norms(_divided(X, safe)) ** 0.5
    return safe, xp.where(largest > 0, relative, xp.ones_like(safe))


def _unit(X: Any) -> Any:
    """Return x/‖x‖, or zero for a zero vector."""
    largest, relative = _norms(X)
    return _divided(_divided(X, largest), relative)


def _divided(X: Any, by: Any) -> Any:
    """Return rows divided by one number each."""
    if not sp.issparse(X):
        return X / by[:, None]
    X = _canonical(X)
    return sp.csr_array((X.data / np.repeat(by, np.diff(X.indptr)), X.indices, X.indptr), X.shape)


def _canonical(X: Any) -> Any:
    """Return sparse rows without repeated entries."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_degree(degree: Any) -> None:
    whole = isinstance(degree, int | np.integer) and not isinstance(degree, bool)
    if not whole or degree < 1:
        raise InvalidInput(
            f"{who()}: degree={degree!r}; it must be a whole number of 1 or more, since other "
            "powers of a kernel need not be kernels."
        )
