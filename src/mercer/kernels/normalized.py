"""`Normalized`: every point of length 1 in feature space, by values of k or by their logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import GramRows, is_torch
from mercer.errors import InvalidInput
from mercer.kernels.algebra import Combination, _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import CombinedBound
from mercer.kernels.geometry import Geometry
from mercer.kernels.parameters import check_diagonal
from mercer.kernels.spectral import Atom, Convolution, spectral_measure


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
                f"{self}: rows of kernel values do not say k(x, x) of a new point. Normalise the "
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

    def _spectral(self, columns: list) -> Convolution:
        inner = spectral_measure(self.kernel, columns)  # k(x, x) is its mass, the same everywhere
        scale = 1 / inner.mass if inner.mass > 0 else 0.0
        return Convolution([Atom(scale, len(columns)), inner])

    def collision_probability(self, X: Any) -> float:
        """Return that of the kernel inside: the chance that two different parts share a code.

        Parameters
        ----------
        X : collection of points
            The points, training and new ones together where both are to be judged.
        """
        inner = getattr(self.kernel, "collision_probability", None)
        if inner is None:
            raise InvalidInput(
                f"{self}: {self.kernel} says nothing about collisions; kernels that hash parts "
                "of points do, such as WeisfeilerLehman."
            )
        return inner(X)

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.normalized()"
