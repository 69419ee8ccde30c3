"""Power series of a kernel: the exponential, and any with non-negative coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels.algebra import _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.combination import Combination
from mercer.kernels.geometry import Geometry

__all__ = ["Exp", "Series"]


class ExpBound(CombinedBound):
    """Tiles exp(K)."""

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Exponentiate."""
        return self.xp.exp(tiles[0])

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return C exp(K)."""
        return [C * self.xp.exp(tiles[0])]


class Exp(Combination):
    """exp(k) = Σₘ kᵐ/m!."""

    _parts = ("kernel",)
    _bound = ExpBound

    def __init__(self, kernel: Kernel):
        super().__init__(kernel=kernel)

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """As the kernel itself."""
        return self.kernel.characteristic

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return Bound(self, X).xp.exp(k._diag(Z))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._pull_diag(Z, c * self._diag(X))

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        return None if g is None else g.exp()

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.exp()"


class SeriesBound(CombinedBound):
    """Tiles Σ cₘKᵐ by Horner's rule."""

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Evaluate the polynomial."""
        return _horner(self.kernel.coefficients, tiles[0])

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return C Σ m cₘKᵐ⁻¹."""
        slopes = [m * c for m, c in enumerate(self.kernel.coefficients)][1:]
        return [C * _horner(slopes, tiles[0])]


class Series(Combination):
    """Σₘ cₘkᵐ with coefficients cₘ ≥ 0, the first one for m = 0."""

    _parts = ("kernel",)
    _bound = SeriesBound

    def __init__(self, kernel: Kernel, coefficients: tuple[float, ...]):
        super().__init__(kernel=kernel, coefficients=coefficients)

    def _check_params(self) -> None:
        super()._check_params()
        try:
            values = np.asarray(self.coefficients, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"series: coefficients must be numbers ({error}).") from error
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise InvalidInput("series: give a list of finite numbers, c0, c1, …")
        if (values < 0).any():
            m = int(np.argmax(values < 0))
            raise NotAKernel(
                f"series: coefficient c{m} = {values[m]:g} is negative; a power series of a kernel "
                "is a kernel when all its coefficients are ≥ 0."
            )

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """When the kernel is and some power m ≥ 1 has a coefficient cₘ > 0.

        A sum is characteristic when one of its terms is, and powers of a characteristic kernel
        count as such.
        """
        return self.kernel.characteristic and any(c > 0 for c in tuple(self.coefficients)[1:])

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return _horner(self.coefficients, k._diag(Z))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        slopes = [m * a for m, a in enumerate(self.coefficients)][1:]
        return k._pull_diag(Z, c * _horner(slopes, k._diag(Z)))

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.series({[float(c) for c in self.coefficients]!r})"


def _horner(coefficients: Any, K: Any) -> Any:
    out = K * 0
    for c in reversed(tuple(coefficients)):
        out = out * K + float(c)
    return out
