"""Kernels on numbers, over several columns multiplied, and on the number of an output."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.domains import Domain, Numbers
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


# ---- Which output a row speaks of: the covariance of several outputs ----


# Angles this near to 0 and π are not searched: cos is ±1 there to six digits.
EDGE = 1e-3


class Coregion(Scalar):
    r"""Covariance between outputs: k(i, j) = (WWᵀ + diag(v))ᵢⱼ for whole numbers i, j.

    Beside a kernel on x it makes one function of several that are correlated, the intrinsic model
    of coregionalisation: ``RBF().on([0, 1]) * Coregion(2).on([2])`` has the covariance
    k(x, x′)·k(i, j) between output i at x and output j at x′. See `mercer.stack_outputs`.

    *Valid when* always: WWᵀ + diag(v) with v ≥ 0 is positive semidefinite.

    W and v are given by the standard deviation sᵢ of each output and by angles: the vector
    (wᵢ, √vᵢ)/sᵢ has length 1, its spherical coordinates are φᵢ₁ … φᵢᵣ in (0, π), so that
    wᵢₖ = sᵢ cos φᵢₖ Π_{l<k} sin φᵢₗ and vᵢ = sᵢ² Π sin² φᵢₗ. Every W and v can be written so, all
    parameters are positive, and correlations of either sign are found by moving inside a box. Of
    rank 1, outputs i ≠ j have the correlation cos φᵢ cos φⱼ.

    Parameters
    ----------
    n_outputs : int, default=2
        How many outputs; points are 0, 1, …, n_outputs − 1.
    rank : int, default=1
        Columns r of W, at most n_outputs.
    scales : array of shape (n_outputs,), optional
        Standard deviations s > 0; ones by default.
    angles : array of shape (n_outputs · rank,), optional
        The angles φ > 0, output after output. By default the first outputs have a share of one
        column of W each, and all outputs are uncorrelated.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Coregion
    >>> Coregion.from_weights([[1.0], [-2.0]], [0.5, 0.0])([[0], [1]]).round(6)
    array([[ 1.5, -2. ],
           [-2. ,  4. ]])
    """

    _tunable = ("scales", "angles")

    def __init__(
        self, n_outputs: int = 2, rank: int = 1, scales: Any = None, angles: Any = None
    ) -> None:
        if scales is None and _is_count(n_outputs):
            scales = np.ones(int(n_outputs))
        if angles is None and _is_count(n_outputs) and _is_count(rank):
            angles = _start(int(n_outputs), int(rank))
        Kernel.__init__(self, n_outputs=n_outputs, rank=rank, scales=scales, angles=angles)

    @classmethod
    def from_weights(cls, weights: Any, variances: Any = 0.0) -> Self:
        """Return the kernel of given W and v.

        Parameters
        ----------
        weights : array of shape (n_outputs, rank)
            W, of any sign.
        variances : float or array of shape (n_outputs,), default=0.0
            v ≥ 0, what each output has for itself.

        Returns
        -------
        Coregion
            With k(i, j) = (WWᵀ + diag(v))ᵢⱼ.

        Examples
        --------
        >>> from mercer import Coregion
        >>> Coregion.from_weights([[3.0], [4.0]], 1.0).output_covariance().round(6)
        array([[10., 12.],
               [12., 17.]])
        """
        try:
            W = np.asarray(weights, dtype=float)
            v = np.asarray(variances, dtype=float)
            W, v = np.atleast_2d(W), np.broadcast_to(v, W.shape[:1])
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"Coregion: weights and variances are no arrays of shape (n_outputs, rank) and "
                f"(n_outputs,) ({error})."
            ) from error
        if W.ndim != 2 or not (np.isfinite(W).all() and np.isfinite(v).all() and (v >= 0).all()):
            raise InvalidInput(
                f"Coregion: weights of shape {W.shape} and variances {v!r}; give a matrix "
                "(n_outputs, rank) of finite numbers and variances ≥ 0."
            )
        U = np.column_stack([W, np.sqrt(v)])
        s = np.linalg.norm(U, axis=1)
        if not (s > 0).all():
            i = int(np.argmin(s))
            raise InvalidInput(
                f"Coregion: output {i} has weights and variance 0, so it is constant; give it a "
                "variance > 0, or leave it out."
            )
        behind = np.sqrt(np.cumsum(U[:, ::-1] ** 2, axis=1)[:, ::-1])
        # 1e-8 away from 0 and π the cosine is ±1 to the last bit.
        angles = np.clip(np.arctan2(behind[:, 1:], U[:, :-1]), 1e-8, np.pi - 1e-8)
        return cls(W.shape[0], W.shape[1], s, angles.ravel())

    def output_covariance(self) -> np.ndarray:
        """Return the matrix WWᵀ + diag(v) of all outputs, shape (n_outputs, n_outputs)."""
        W, v = self.weights()
        B = W @ W.T
        B = 0.5 * (B + B.T)
        np.einsum("ii->i", B)[...] += v
        return B

    def output_correlation(self) -> np.ndarray:
        """Return the correlations of the outputs, shape (n_outputs, n_outputs)."""
        s = np.asarray(self.scales, dtype=np.float64)
        return self.output_covariance() / np.outer(s, s)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return W of shape (n_outputs, rank) and v of shape (n_outputs,)."""
        s = np.asarray(self.scales, dtype=np.float64)
        U = _spherical(*self._waves())
        return s[:, None] * U[:, :-1], (s * U[:, -1]) ** 2

    # -- what the base class asks -------------------------------------------------------------
    def _check_params(self) -> None:
        for name in ("n_outputs", "rank"):
            if not _is_count(getattr(self, name)):
                raise InvalidInput(
                    f"Coregion: {name}={getattr(self, name)!r}; give a whole number ≥ 1."
                )
        if self.rank > self.n_outputs:
            raise InvalidInput(
                f"Coregion: rank={self.rank} for {self.n_outputs} outputs; a rank of "
                f"{self.n_outputs} gives every covariance already."
            )
        for name, size in (("scales", self.n_outputs), ("angles", self.n_outputs * self.rank)):
            value = getattr(self, name)
            try:
                array = np.asarray(value, dtype=float)
                good = array.shape == (size,) and np.isfinite(array).all() and (array > 0).all()
            except (OverflowError, TypeError, ValueError):
                good = False
            if not good:
                raise InvalidInput(
                    f"Coregion: {name}={value!r}; give {size} positive numbers for n_outputs="
                    f"{self.n_outputs} and rank={self.rank}, or None."
                )

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The numbers of the outputs."""
        return Numbers(0, int(self.n_outputs) - 1, integer=True)

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`; those of angles keep between 0 and π."""
        rows = super().bounds.copy()
        rows[len(self.scales) :] = np.log([EDGE, np.pi - EDGE])
        return rows

    def _waves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and sines of the angles, one row an output."""
        angles = np.reshape(np.asarray(self.angles, dtype=np.float64), (-1, int(self.rank)))
        return np.cos(angles), np.sin(angles)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        B = self.output_covariance()
        if xp is np:
            return B.astype(x.dtype)[x.astype(np.intp), y.astype(np.intp)]
        return xp.as_tensor(B, dtype=x.dtype, device=x.device)[x.long(), y.long()]

    def _slope(self, x: Any, y: Any, xp: Any) -> Any:
        # The number of an output does not move: a gradient in the other columns leaves it alone.
        return 0 * self._value(x, y, xp)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return CoregionBound(self, X, Y)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        x = np.asarray(X).astype(np.intp)
        return self._pull(_gathered(self.output_covariance(), x, x, np.asarray(c, dtype=float)))

    def _pull(self, G: np.ndarray) -> np.ndarray:
        """Return Σᵢⱼ Gᵢⱼ ∂Bᵢⱼ/∂θ for B = WWᵀ + diag(v), by the chain rule through U = (W, √v)/s."""
        s, angles = (
            np.asarray(self.scales, dtype=np.float64),
            np.asarray(self.angles, dtype=np.float64),
        )
        c, d = self._waves()
        U = _spherical(c, d)
        # L = Σ Gᵢⱼ Bᵢⱼ: ∂L/∂(W, √v) is (G + Gᵀ)W beside 2√v diag(G).
        pulled = (G + G.T) @ (s[:, None] * U)
        pulled[:, -1] = 2 * s * U[:, -1] * np.diagonal(G)
        in_angles = np.empty(c.shape)
        for k in range(c.shape[1]):
            turned_c, turned_d = c.copy(), d.copy()
            turned_c[:, k], turned_d[:, k] = -d[:, k], c[:, k]
            turned = _spherical(turned_c, turned_d)
            turned[:, :k] = 0  # coordinates before the k-th do not know its angle
            in_angles[:, k] = s * (pulled * turned).sum(1)
        in_scales = (pulled * U).sum(1)
        return np.concatenate([s * in_scales, angles * in_angles.ravel()])


class CoregionBound(ScalarBound):
    """Tiles looked up in the covariance of the outputs."""

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ: cotangents of equal pairs of outputs are added up first."""
        x, y = self._x[rows], self._y[cols]
        if self.xp is not np:
            x, y, C = (A.detach().cpu().numpy() for A in (x, y, C))
        x, y = x.astype(np.intp)[:, None, :], y.astype(np.intp)[None, :, :]
        kernel = self.kernel
        pulled = kernel._pull(_gathered(kernel.output_covariance(), x, y, C))
        if self.xp is np:
            return pulled
        return self.xp.as_tensor(pulled, device=self._like.device)


def _gathered(B: np.ndarray, x: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return G with Gₐᵦ the sum of C where x = a and y = b; over columns, by the product rule."""
    t, columns = len(B), x.shape[-1]
    G = np.zeros(t * t)
    for k in range(columns):
        weight = C
        for other in range(columns):
            if other != k:
                weight = weight * B[x[..., other], y[..., other]]
        pairs = np.broadcast_to(x[..., k] * t + y[..., k], weight.shape)
        G += np.bincount(pairs.ravel(), weight.ravel(), minlength=t * t)
    return G.reshape(t, t)


def _spherical(c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return unit vectors, one a row, of the cosines and sines of their angles."""
    ahead = np.cumprod(np.column_stack([np.ones(len(c)), d]), axis=1)
    return ahead * np.column_stack([c, np.ones(len(c))])


def _start(n_outputs: int, rank: int) -> np.ndarray:
    """Return angles of uncorrelated outputs, of which the first `rank` ones hold a column of W.

    All at π/2 would be W = 0, a saddle point: no correlation would have a slope.
    """
    angles = np.full((n_outputs, rank), 0.5 * np.pi)
    held = np.arange(min(n_outputs, rank))
    angles[held, held] = 0.25 * np.pi
    return angles.ravel()


def _is_count(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and value >= 1)
