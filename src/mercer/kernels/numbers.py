"""Kernels on numbers; on several columns, the product over columns (their tensor product)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains import Numbers
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.spectral import Independent


class Scalar(Kernel):
    """A kernel k(x, x′) of two numbers; vectors are multiplied over columns.

    An author writes ``_value(x, y, xp)`` for broadcast arrays of numbers; where k is
    differentiable also ``_slope(x, y, xp)`` = ∂k/∂x.
    """

    domain = Numbers()
    workspace = 5

    def __init__(self) -> None:
        super().__init__()

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        raise InvalidInput(f"{type(self).__name__}: define _value(x, y, xp).")

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return ScalarBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        xp = Bound(self, X).xp
        out = self._value(X[:, 0], X[:, 0], xp)
        for k in range(1, X.shape[1]):
            out = out * self._value(X[:, k], X[:, k], xp)
        return out


class ScalarBound(Bound):
    """Tiles of a kernel on numbers, one column at a time."""

    def __init__(self, kernel: Scalar, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._x = X
        self._y = X if Y is None else Y

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return Πₖ k(xₖ, yₖ) on a tile."""
        x, y = self._x[rows], self._y[cols]
        out = self.kernel._value(x[:, :1], y[:, 0][None, :], self.xp)
        for k in range(1, x.shape[1]):
            out = out * self.kernel._value(x[:, k : k + 1], y[:, k][None, :], self.xp)
        return out

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the product rule over columns."""
        if not hasattr(self.kernel, "_slope"):
            return super().pull_points(rows, cols, C)
        x, y, xp = self._x[rows], self._y[cols], self.xp
        pairs = [(x[:, k : k + 1], y[:, k][None, :]) for k in range(x.shape[1])]
        values = [self.kernel._value(a, b, xp) for a, b in pairs]
        out = self.zeros(tuple(x.shape))
        for k, (a, b) in enumerate(pairs):
            term = C * self.kernel._slope(a, b, xp)
            for other in values[:k] + values[k + 1 :]:
                term = term * other
            out[:, k] = term.sum(1)
        return out


class Minimum(Scalar):
    r"""min(x, x′), the covariance of Brownian motion.

    *Valid when* x ≥ 0.

    Examples
    --------
    >>> from mercer import Minimum
    >>> Minimum()([1.0, 3.0])
    array([[1., 1.],
           [1., 3.]])
    """

    domain = Numbers(low=0.0)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        return xp.minimum(x, y)


class MinMaxRatio(Scalar):
    r"""min(x, x′)/max(x, x′), with value 1 at x = x′ = 0.

    *Valid when* x ≥ 0: for positive numbers it is exp(−|log x − log x′|).

    Examples
    --------
    >>> from mercer import MinMaxRatio
    >>> MinMaxRatio()([1.0, 4.0])
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    domain = Numbers(low=0.0)
    characteristic = True

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        low, high = xp.minimum(x, y), xp.maximum(x, y)
        safe = xp.where(high > 0, high, xp.ones_like(high))
        return xp.where(high > 0, low / safe, xp.ones_like(high))


class GCD(Scalar):
    r"""Greatest common divisor of two positive whole numbers.

    *Valid when* x ∈ {1, 2, …}: gcd(x, x′) = Σ over common divisors d of φ(d), Euler's function.

    Examples
    --------
    >>> from mercer import GCD
    >>> GCD()([4, 6])
    array([[4., 2.],
           [2., 6.]])
    """

    domain = Numbers(low=1.0, high=2.0**53 - 1, integer=True)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        return _gcd(x, y, xp)


class GCDOverLCM(Scalar):
    r"""gcd(x, x′)/lcm(x, x′) = gcd²/(x x′) of two positive whole numbers.

    *Valid when* x ∈ {1, 2, …}: the square of the gcd kernel, scaled by f(x) = 1/x.

    Examples
    --------
    >>> from mercer import GCDOverLCM
    >>> GCDOverLCM()([2, 4])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    domain = Numbers(low=1.0, high=2.0**53 - 1, integer=True)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        common = _gcd(x, y, xp)
        return (common / x) * (common / y)


class Geometric(Scalar):
    r"""1/(1 − x x′) = Σₘ (x x′)ᵐ.

    *Valid when* −1 < x < 1.

    Examples
    --------
    >>> from mercer import Geometric
    >>> Geometric()([0.0, 0.5]).round(4)
    array([[1.    , 1.    ],
           [1.    , 1.3333]])
    """

    domain = Numbers(low=-1.0, high=1.0, open=True)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        return 1 / (1 - x * y)

    def _slope(self, x: Any, y: Any, xp: Any) -> Any:
        return y / (1 - x * y) ** 2


class ExpProduct(Scalar):
    r"""2^{x x′}, a power series in x x′ with positive coefficients.

    *Valid when* always.

    Examples
    --------
    >>> from mercer import ExpProduct
    >>> ExpProduct()([1.0, 2.0])
    array([[ 2.,  4.],
           [ 4., 16.]])
    """

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        return xp.exp2(x * y)

    def _slope(self, x: Any, y: Any, xp: Any) -> Any:
        return np.log(2.0) * y * xp.exp2(x * y)


class CosineDifference(Scalar):
    r"""cos(x − x′) = cos x cos x′ + sin x sin x′.

    *Valid when* always. Features: (cos x, sin x), multiplied out over columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import CosineDifference
    >>> CosineDifference()([0.0, np.pi]).round(4)
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        # Not cos(x − x′): for large x the rounding of the difference breaks definiteness.
        return xp.cos(x) * xp.cos(y) + xp.sin(x) * xp.sin(y)

    def _slope(self, x: Any, y: Any, xp: Any) -> Any:
        return xp.cos(x) * xp.sin(y) - xp.sin(x) * xp.cos(y)

    def _spectral(self, columns: list) -> Independent:
        return Independent(len(columns), lambda U: np.where(U[..., 0] < 0.5, -1.0, 1.0))

    def _n_features(self, X: Any) -> int | None:
        return 2 ** int(X.shape[1])

    def _features(self, X: Any) -> Any:
        xp = Bound(self, X).xp
        out = xp.ones_like(X[:, :1])
        for k in range(X.shape[1]):
            c, s = xp.cos(X[:, k : k + 1]), xp.sin(X[:, k : k + 1])
            out = xp.hstack([out * c, out * s])
        return out


def _gcd(x: Any, y: Any, xp: Any) -> Any:
    if xp is np:
        return np.gcd(x.astype(np.int64), y.astype(np.int64)).astype(x.dtype)
    return xp.gcd(x.to(xp.int64), y.to(xp.int64)).to(x.dtype)
