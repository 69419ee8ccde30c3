"""The periodic kernel, an RBF on the circle."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.vectors import is_torch
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.checks import check_number

__all__ = ["Periodic"]


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
        check_number("Periodic", "length_scale", self.length_scale, 0.0)
        check_number("Periodic", "period", self.period, 0.0)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return PeriodicBound(self, X, Y)

    def _diag(self, X: Any) -> Any:
        if is_torch(X):
            return X.new_ones(len(X))
        return np.ones(X.shape[0], X.dtype)


class PeriodicBound(Bound):
    """Tiles by 2 sin²(a−b) = 1 − cos 2a cos 2b − sin 2a sin 2b: one product."""

    def __init__(self, kernel: Periodic, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        dense = [Z.toarray() if sp.issparse(Z) else Z for Z in (X, X if Y is None else Y)]
        angle = [Z * (2 * np.pi / kernel.period) for Z in dense]
        self._angle = angle
        self._cos = [self.xp.cos(a) for a in angle]
        self._sin = [self.xp.sin(a) for a in angle]
        self._circle = [self.xp.hstack([c, s]) for c, s in zip(self._cos, self._sin, strict=True)]

    def distance(self, rows: slice, cols: slice) -> Any:
        """Return u = 2 Σₖ sin²(π(xₖ−yₖ)/p), exactly 0 on the diagonal."""
        d = self._angle[0].shape[1]
        u = (d - self._circle[0][rows] @ self._circle[1][cols].T).clip(0)
        diagonal = self.on_diagonal(rows, cols)
        if diagonal is not None and not self.whole:
            u[diagonal] = 0
        return u

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return exp(−u/ℓ²) on a tile."""
        return self.xp.exp(-self.distance(rows, cols) / self.kernel.length_scale**2)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the derivatives in log ℓ and log p."""
        scale = self.kernel.length_scale**2
        u = self.distance(rows, cols)
        G = C * self.xp.exp(-u / scale) / scale  # ∂K/∂u = −G
        in_length = 2 * (G * u).sum()
        # ∂u/∂log p = −Σₖ sin(aₖ−bₖ)(aₖ−bₖ), a and b the angles 2πx/p and 2πy/p.
        sums = self.zeros((1,), wide=True)
        for k in range(self._angle[0].shape[1]):
            gap = self._angle[0][rows, k][:, None] - self._angle[1][cols, k][None, :]
            sums += (G * self.xp.sin(gap) * gap).sum()
        out = self.zeros((2,), wide=True)
        out[0], out[1] = in_length, sums[0]
        return out

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σⱼ Cᵢⱼ ∇ₓ k: ∂u/∂xₖ = (2π/p) sin(aₖ−bₖ)."""
        kernel = self.kernel
        G = C * self.tile(rows, cols) * (-(2 * np.pi / kernel.period) / kernel.length_scale**2)
        # sin(a−b) = sin a cos b − cos a sin b
        sin_a, cos_a = self._sin[0][rows], self._cos[0][rows]
        return sin_a * (G @ self._cos[1][cols]) - cos_a * (G @ self._sin[1][cols])
