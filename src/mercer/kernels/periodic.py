"""The periodic kernel, an RBF on the circle."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_parameter
from mercer.domains import is_torch
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.metric import CANCELLATION
from mercer.kernels.spectral import Independent

SHORTEST = 1e-140  # a shorter length scale gives the same values, and ℓ² would underflow
MANY = 1e6  # turns squared beyond which their number is as good as Gaussian


class Periodic(Kernel):
    r"""Periodic kernel exp(−2 Σₖ sin²(π(xₖ−x′ₖ)/p)/ℓ²): one factor a coordinate.

    *Valid when* ℓ > 0 and p > 0.

    Parameters
    ----------
    length_scale : float, default=1.0
        The scale ℓ, in units of the circle.
    period : float, default=1.0
        The period p, in the units of x.

    Examples
    --------
    >>> from mercer import Periodic
    >>> Periodic(period=2.0)([[0.0], [1.0], [2.0]]).round(4)
    array([[1.    , 0.1353, 1.    ],
           [0.1353, 1.    , 0.1353],
           [1.    , 0.1353, 1.    ]])
    """

    _tunable = ("length_scale", "period")
    workspace = 6

    def __init__(self, length_scale: float = 1.0, period: float = 1.0):
        super().__init__(length_scale=length_scale, period=period)

    def _check_params(self) -> None:
        check_parameter("length_scale", self.length_scale, 0.0)
        check_parameter("period", self.period, 0.0)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PeriodicBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        if is_torch(X):
            return X.new_ones(len(X))
        return np.ones(X.shape[0], X.dtype)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.zeros(len(self.theta))

    def _spectral(self, columns: list) -> Independent:
        # exp(a cos t − a) = Σⱼ e^−a Iⱼ(a) cos jt, a = 1/ℓ²: j is the difference of two Poisson
        # variables of mean a/2 each (Skellam), and nearly Gaussian where a is large.
        from scipy.special import ndtri
        from scipy.stats import poisson

        a = 1.0 / max(float(self.length_scale), SHORTEST) ** 2

        def frequencies(U: np.ndarray) -> np.ndarray:
            if a > MANY:
                j = np.rint(np.sqrt(a) * ndtri(U[..., 0]))
            else:
                j = poisson.ppf(U[..., 0], a / 2) - poisson.ppf(U[..., 1], a / 2)
            return j * (2 * np.pi / float(self.period))

        return Independent(len(columns), frequencies, 2)


class PeriodicBound(Bound):
    """Tiles by 2 sin²(a−b) = 1 − cos 2a cos 2b − sin 2a sin 2b: one product.

    The product is off by some units of rounding; where a short length scale would let that show,
    the sines are taken of differences, column by column. Positions on the circle are remainders
    of x in float64: the remainder is exact, so that it does not matter how far out x is.
    """

    def __init__(self, kernel: Periodic, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        dense = [Z.toarray() if sp.issparse(Z) else Z for Z in (X, X if Y is None else Y)]
        wide = [Z.astype(np.float64) if self.xp is np else Z.double() for Z in dense]
        self._x, self._width = wide, X.shape[1]
        self._rest = [self.xp.fmod(Z, float(kernel.period)) for Z in wide]
        angles = [Z * (2 * np.pi / kernel.period) for Z in self._rest]
        self._cos = [self.narrow(self.xp.cos(a)) for a in angles]
        self._sin = [self.narrow(self.xp.sin(a)) for a in angles]
        self._circle = [self.xp.hstack([c, s]) for c, s in zip(self._cos, self._sin, strict=True)]
        self._scale = max(float(kernel.length_scale), SHORTEST)
        error = 2 * X.shape[1] * float(self.xp.finfo(self.dtype).eps) / self._scale**2
        self._exact = not error < CANCELLATION[str(self.dtype).rpartition(".")[2]]
        if self._exact:
            self.workspace = 2 * kernel.workspace  # differences are float64

    def _gap(self, rows: slice, cols: slice, k: int) -> Any:
        """Return xₖ−yₖ on a tile, less the nearest number of periods."""
        gap = self._rest[0][rows, k][:, None] - self._rest[1][cols, k][None, :]
        return gap - self.kernel.period * self.xp.round(gap / self.kernel.period)

    def distance(self, rows: slice, cols: slice) -> Any:
        """Return u = 2 Σₖ sin²(π(xₖ−yₖ)/p), exactly 0 on the diagonal."""
        d = self._width
        if self._exact:
            u: Any = 0.0
            for k in range(d):
                half = self.xp.sin(self._gap(rows, cols, k) * (np.pi / self.kernel.period))
                u = u + 2 * half * half
            return u
        u = (d - self._circle[0][rows] @ self._circle[1][cols].T).clip(0)
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            u[diagonal] = 0
        return u

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return exp(−u/ℓ²) on a tile."""
        return self.narrow(self.xp.exp(-self._scaled(rows, cols)))

    def _scaled(self, rows: slice, cols: slice) -> Any:
        return self.distance(rows, cols) / self._scale**2

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the derivatives in log ℓ and log p."""
        scale = self._scale
        v = self._scaled(rows, cols)
        G = C * self.xp.exp(-v)  # ∂K/∂v = −G, v = u/ℓ²
        in_length = 2 * (G * v).sum()
        # ∂u/∂log p = −Σₖ sin(aₖ−bₖ)(aₖ−bₖ), a and b the angles 2πx/p and 2πy/p.
        turn = 2 * np.pi / self.kernel.period
        sums = self.zeros((1,), wide=True)
        for k in range(self._width):
            gap = self._x[0][rows, k][:, None] - self._x[1][cols, k][None, :]
            sine = self.xp.sin(self._gap(rows, cols, k) * turn)
            sums += (G * (sine / scale) * (gap * turn / scale)).sum()
        out = self.zeros((2,), wide=True)
        out[0], out[1] = in_length, sums[0]
        return out

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ ∇ₓ k: ∂u/∂xₖ = (2π/p) sin(aₖ−bₖ)."""
        turn, scale = 2 * np.pi / self.kernel.period, self._scale
        G = C * self.xp.exp(-self._scaled(rows, cols)) * (-turn / scale)
        if self._exact:
            sines = (self.xp.sin(self._gap(rows, cols, k) * turn) for k in range(self._width))
            return self.xp.stack([(G * (sine / scale)).sum(1) for sine in sines], 1)
        # sin(a−b) = sin a cos b − cos a sin b
        G = G / scale
        sin_a, cos_a = self._sin[0][rows], self._cos[0][rows]
        return sin_a * (G @ self._cos[1][cols]) - cos_a * (G @ self._sin[1][cols])
