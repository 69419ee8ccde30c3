"""Kernels made of kernels: sums, products and powers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import namespace
from mercer.engines.device.fused import FusedScaled, FusedSum
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels.base import Kernel
from mercer.kernels.bound import CombinedBound
from mercer.kernels.combination import Combination
from mercer.kernels.constant import Constant, ConstantBound
from mercer.kernels.geometry import Geometry
from mercer.kernels.spectral import Convolution, Mixture, spectral_measure

__all__ = ["Combination", "Power", "Product", "Sum", "lift"]


def lift(value: Any, sign: str) -> Kernel:
    """Return a copy of a kernel, and a number c ≥ 0 as the constant kernel."""
    if isinstance(value, Kernel):
        return value._copied()
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInput(
            f"k {sign} {type(value).__name__}: a kernel combines with kernels and numbers."
        )
    if value != value:
        raise InvalidInput(f"k {sign} ({value}): not a number; use a number ≥ 0.")
    if not value >= 0:
        raise NotAKernel(
            f"k {sign} ({value}): a negative multiple or constant destroys positive definiteness, "
            "since k(x, x) must stay ≥ 0. Use a number ≥ 0."
        )
    return Constant(float(value))


class SumBound(CombinedBound):
    """Tiles K₁ + K₂."""

    fresh = True

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return the sum of the tiles, in the memory of one of them where that is its own."""
        a, b = self._tiles(rows, cols)
        for part, mine, other in ((self.parts[0], a, b), (self.parts[1], b, a)):
            if self.writes_to(part):
                return np.add(mine, other, out=mine)
        return a + b

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Add."""
        return tiles[0] + tiles[1]

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Both parts see the same cotangent."""
        return [C, C]

    def fused(self) -> Any:
        """Return the sum of what a device multiplies by, where both parts are such."""
        parts = tuple(part.fused() for part in self.parts)
        return None if None in parts else FusedSum(parts)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile, for which no kernel value is needed."""
        return self._strung(part.pull_theta(rows, cols, C) for part in self.parts)


class Sum(Combination):
    """k₁ + k₂."""

    _bound = SumBound

    def __init__(self, k1: Kernel, k2: Kernel):
        super().__init__(k1=k1, k2=k2)

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """MMD² of a sum is the sum of both, so one characteristic part is enough."""
        return any(k.characteristic for k in self._kernels())

    def _diag(self, X: Any) -> Any:
        d1, d2 = self._diagonals(X)
        return d1 + d2

    def _pull_diag(self, X: Any, c: Any) -> Any:
        return np.concatenate([k._pull_diag(Z, c) for k, Z in self._inside(X)])

    def _geometry(self) -> Geometry | None:
        g, h = self._geometries()
        return None if g is None or h is None else g.plus(h)

    def _spectral(self, columns: list) -> Mixture:
        return Mixture([spectral_measure(k, columns) for k in self._kernels()])

    def _n_features(self, X: Any) -> int | None:
        counts = [k._n_features(Z) for k, Z in self._inside(X)]
        return None if None in counts else sum(counts)  # type: ignore[arg-type]

    def _features(self, X: Any) -> Any:
        phi = self._alike([k._features(Z) for k, Z in self._inside(X)])
        if any(sp.issparse(p) for p in phi):
            return sp.hstack([sp.csr_array(p) for p in phi]).tocsr()
        return namespace(phi[0]).hstack(phi)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        right = f"({self.k2!r})" if isinstance(self.k2, Sum) else repr(self.k2)
        return f"{self.k1!r} + {right}"


class ProductBound(CombinedBound):
    """Tiles K₁ ∘ K₂, or c·K where one factor is a constant."""

    fresh = True

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return the product of the factors' tiles; of a constant no tile is made."""
        scaled = self._scaled()
        if scaled is None:
            for lead, other in (self.parts, self.parts[::-1]):
                if self.writes_to(lead):
                    return other.times(lead.tile(rows, cols), rows, cols)
            return super().tile(rows, cols)
        value, part = float(self.parts[scaled[0]].kernel.value), self.parts[scaled[1]]
        tile = part.tile(rows, cols)
        return np.multiply(tile, value, out=tile) if part.fresh and self.xp is np else tile * value

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile by both factors, in place."""
        for part in self.parts:
            tile = part.times(tile, rows, cols)
        return tile

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile; ∂(cK)/∂log c is cK itself."""
        scaled = self._scaled()
        if scaled is None:
            return super().pull_theta(rows, cols, C)
        constant, other = scaled
        C = C * float(self.parts[constant].kernel.value)
        tile = self.parts[other].tile(rows, cols)
        pulled = [self.zeros((0,), wide=True)] * 2
        if self.parts[constant].kernel._own():
            pulled[constant] = (C * tile).sum().reshape(1)
        pulled[other] = self.parts[other].pull_theta_with(rows, cols, C, tile)
        return self._strung(pulled)

    def fused(self) -> Any:
        """Return c times what a device multiplies by, where one factor is a constant c."""
        scaled = self._scaled()
        part = None if scaled is None else self.parts[scaled[1]].fused()
        if scaled is None or part is None:
            return None
        return FusedScaled(part, float(self.parts[scaled[0]].kernel.value))

    def _scaled(self) -> tuple[int, int] | None:
        """Return which factor is a constant and which is not."""
        first, second = (type(part) is ConstantBound for part in self.parts)
        return None if first == second else (0, 1) if first else (1, 0)

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Multiply."""
        return tiles[0] * tiles[1]

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Each part sees the other as a factor."""
        return [C * tiles[1], C * tiles[0]]


class Product(Combination):
    """k₁ · k₂."""

    _bound = ProductBound

    def __init__(self, k1: Kernel, k2: Kernel):
        super().__init__(k1=k1, k2=k2)

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """Products of characteristic translation-invariant kernels, and positive multiples."""
        return all(
            k.characteristic or (isinstance(k, Constant) and k.value > 0) for k in self._kernels()
        ) and any(k.characteristic for k in self._kernels())

    def _diag(self, X: Any) -> Any:
        d1, d2 = self._diagonals(X)
        return d1 * d2

    def _pull_diag(self, X: Any, c: Any) -> Any:
        (k1, X1), (k2, X2) = self._inside(X)
        d1, d2 = self._diagonals(X)
        return np.concatenate([k1._pull_diag(X1, c * d2), k2._pull_diag(X2, c * d1)])

    def _geometry(self) -> Geometry | None:
        g, h = self._geometries()
        return None if g is None or h is None else g.times(h)

    def _spectral(self, columns: list) -> Convolution:
        return Convolution([spectral_measure(k, columns) for k in self._kernels()])

    def _n_features(self, X: Any) -> int | None:
        counts = [k._n_features(Z) for k, Z in self._inside(X)]
        return None if None in counts else counts[0] * counts[1]  # type: ignore[operator]

    def _features(self, X: Any) -> Any:
        # Row by row Kronecker product: ⟨a⊗b, a′⊗b′⟩ = ⟨a, a′⟩⟨b, b′⟩.
        a, b = self._alike([_densified(k._features(Z)) for k, Z in self._inside(X)])
        return (a[:, :, None] * b[:, None, :]).reshape(a.shape[0], -1)

    def __repr__(self) -> str:
        if isinstance(self.k1, Constant) and isinstance(self.k2, Constant):
            return f"{self.k1!r} * {self.k2!r}"
        right = f"({self.k2!r})" if isinstance(self.k2, Product) else _factor(self.k2)
        return f"{_factor(self.k1)} * {right}"


class PowerBound(CombinedBound):
    """Tiles Kᵖ, entry by entry."""

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Raise to the power."""
        return tiles[0] ** int(self.kernel.degree)

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return C p Kᵖ⁻¹."""
        p = int(self.kernel.degree)
        return [C * (p * tiles[0] ** (p - 1))]


class Power(Combination):
    """kᵖ for a whole number p ≥ 1 (other powers need not be kernels)."""

    _parts = ("kernel",)
    _bound = PowerBound

    def __init__(self, kernel: Kernel, degree: int):
        super().__init__(kernel=kernel, degree=degree)

    def _check_params(self) -> None:
        super()._check_params()
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not whole or self.degree < 1:
            raise NotAKernel(
                f"k ** {self.degree!r}: only whole powers of 1 or more are sure to be kernels."
            )

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """As the kernel itself."""
        return self.kernel.characteristic

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._diag(Z) ** int(self.degree)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        p = int(self.degree)
        return k._pull_diag(Z, c * (p * k._diag(Z) ** (p - 1)))

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        return None if g is None else g.power(int(self.degree))

    def _spectral(self, columns: list) -> Convolution:
        return Convolution([spectral_measure(self.kernel, columns)] * int(self.degree))

    def _n_features(self, X: Any) -> int | None:
        ((k, Z),) = self._inside(X)
        count = k._n_features(Z)
        return None if count is None else count ** int(self.degree)

    def _features(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        phi = out = _densified(k._features(Z))
        for _ in range(int(self.degree) - 1):
            out = (out[:, :, None] * phi[:, None, :]).reshape(out.shape[0], -1)
        return out

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '**')} ** {self.degree}"


def _densified(phi: Any) -> Any:
    return phi.toarray() if sp.issparse(phi) else phi


def _factor(kernel: Kernel, operation: str = "*") -> str:
    """Print a factor, in brackets where precedence asks for them."""
    if isinstance(kernel, Constant) and operation == "*":
        return repr(float(kernel.value))
    loose = isinstance(kernel, Sum) or (operation != "*" and isinstance(kernel, Product | Power))
    return f"({kernel!r})" if loose else repr(kernel)
