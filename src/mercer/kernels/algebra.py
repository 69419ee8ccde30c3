"""Kernels made of kernels: sums, products and powers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains import (
    Domain,
    GramRows,
    IncompleteCollection,
    IncompletePoints,
    IncompleteVectors,
    Numbers,
    Objects,
    RowBlocks,
    Tables,
    Vectors,
    beside,
    namespace,
)
from mercer.errors import InvalidInput, MercerError, NotAKernel
from mercer.kernels.base import Kernel, from_logs
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.constant import Constant, ConstantBound, Precomputed
from mercer.kernels.few import FewPoints
from mercer.kernels.geometry import Geometry, geometry_of
from mercer.kernels.scales import median_distance
from mercer.kernels.spectral import Convolution, Mixture, spectral_measure

# ---- `Combination`: a kernel made of other kernels, and the domain that serves all of them ----


INCOMPLETE = (IncompleteVectors, IncompletePoints)


class Combination(Kernel):
    """A kernel made of other kernels, whose log-parameters it strings together."""

    _parts: tuple[str, ...] = ("k1", "k2")
    _bound: type[CombinedBound] = CombinedBound
    #: Whether the combination is one of kernel values alone, and brings no arrays of its own.
    _pointwise: bool = True
    #: Whether a point holds several points of the parts, one after another, `X.sizes` in number.
    _grouped: bool = False

    def _kernels(self) -> list[Kernel]:
        return [getattr(self, name) for name in self._parts]

    def _of(self, kernels: list[Kernel]) -> Self:
        """Return the same combination of other kernels."""
        return self._replace(dict(zip(self._parts, kernels, strict=True)))

    def _check_params(self) -> None:
        for name in self._parts:
            if not isinstance(getattr(self, name), Kernel):
                raise InvalidInput(
                    f"{type(self).__name__}: {name}={getattr(self, name)!r} is not a Kernel."
                )
        self._join([k.domain for k in self._kernels()])

    def _join(self, domains: list[Domain]) -> Domain:
        """Return the domain that serves all parts."""
        kinds = [d for d in domains if not isinstance(d, Objects)]
        if not kinds:
            return Objects()
        if all(type(d) is Vectors for d in kinds):  # the usual case
            return kinds[0]
        for kind in (Tables, GramRows):
            if any(isinstance(d, kind) for d in kinds):
                if kind is GramRows and not all(isinstance(d, GramRows) for d in kinds):
                    raise InvalidInput(
                        f"{type(self).__name__}: a precomputed kernel has no points to share with "
                        "other kernels; combine the matrices instead."
                    )
                return _all_columns(kinds) if kind is Tables else GramRows()
        whole = [d.inner if isinstance(d, INCOMPLETE) else d for d in kinds]
        if whole != kinds:
            inner = self._join(whole)
            rows = isinstance(inner, Vectors)
            return IncompleteVectors(inner) if rows else IncompletePoints(inner)
        if all(isinstance(d, Numbers) for d in kinds):
            return kinds[0] if all(d == kinds[0] for d in kinds) else Numbers()
        if all(isinstance(d, Vectors) for d in kinds):
            return Vectors()
        if all(d == kinds[0] for d in kinds):
            return kinds[0]
        names = " and ".join(sorted({d.name for d in kinds}))
        raise InvalidInput(
            f"{type(self).__name__}: kernels on {names} share no points; choose the column of each "
            "with .on(column)."
        )

    @property
    def psd(self) -> bool:  # type: ignore[override]
        """Whether all parts are positive semidefinite."""
        return all(k.psd for k in self._kernels())

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """What a point is for all parts."""
        return self._join([k.domain for k in self._kernels()])

    def _route(self, X: Any) -> Any:
        """Return what the parts see of X."""
        return X

    def _seen_by(self, part: Kernel, X: Any, name: str = "X") -> Any:
        """Return the canonical collection that a part sees of X."""
        X = self._route(X)
        takes_missing = isinstance(part.domain, IncompletePoints) or part._indifferent
        if isinstance(X, IncompleteCollection) and not takes_missing:
            X = X.complete(name)
        return part.domain.check(X, name)

    def _inside(self, X: Any) -> list[tuple[Kernel, Any]]:
        return [(k, self._seen_by(k, X)) for k in self._kernels()]

    def _diagonals(self, X: Any) -> list:
        """Return k(xᵢ, xᵢ) of the parts, all of one kind of array."""
        return self._alike([k._diag(Z) for k, Z in self._inside(X)])

    def _alike(self, arrays: list) -> list:
        """Return arrays of the parts, those of indifferent parts in the kind of the others."""
        follows = [k._indifferent for k in self._kernels()]
        lead = next((a for a, f in zip(arrays, follows, strict=True) if not f), None)
        if lead is None:
            return arrays
        return [beside(a, lead) if f else a for a, f in zip(arrays, follows, strict=True)]

    def _checked(self, X: Any, Y: Any) -> tuple[Any, Any]:
        if isinstance(self.domain, GramRows):
            return Precomputed()._checked(X, Y)
        return super()._checked(X, Y)

    @property
    def _indifferent(self) -> bool:  # type: ignore[override]
        return self._pointwise and all(k._indifferent for k in self._kernels())

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return self._bound(self, X, Y)

    def _joined(self, operation: np.ufunc, pairs: FewPoints) -> Any:
        """Return the entries of both parts, joined in the memory of one."""
        parts = self._kernels()
        if any(type(k)._of_pairs is Kernel._of_pairs for k in parts):  # before any work
            return None
        pairs.shared = True
        first, second = (part._of_pairs(pairs) for part in parts)
        if first is None or second is None or type(self)._bind is not Combination._bind:
            return None
        own = [a for a in (first, second) if isinstance(a, np.ndarray)]
        if not own:
            return float(operation(first, second))
        return operation(first, second, out=own[0])

    def _geometries(self) -> list[Geometry | None]:
        """Return those of the parts, as seen from the points of the combination."""

        def seen(k: Kernel, g: Geometry | None) -> Geometry | None:
            def image(X: Any) -> Any:
                return g.image(self._seen_by(k, X))  # type: ignore[union-attr]

            return None if g is None else replace(g, image=image)

        return [seen(k, geometry_of(k)) for k in self._kernels()]

    def _words(self) -> list[str]:
        return [word for k in self._kernels() for word in k._words()]

    def _open(self) -> list[str]:
        return [name for k in self._kernels() for name in k._open()]

    def _asks(self) -> bool:
        return super()._asks() or any(k._asks() for k in self._kernels())

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return the combination with the words of its parts replaced by numbers taken from X."""
        if not self._asks():
            return self
        X = self.domain.check(X)
        if self._grouped and sample_weight is not None:
            sample_weight = np.repeat(sample_weight, X.sizes)  # each has the weight of its group
        fitted = [k.fit_params(self._seen_by(k, X), sample_weight) for k in self._kernels()]
        return self._of(fitted)

    def _fit_blocks(self, rows: RowBlocks, some: Callable[..., tuple[Any, Any]]) -> Self:
        if self._grouped or type(self).fit_params is not Combination.fit_params:
            return super()._fit_blocks(rows, some)
        rows = rows.with_points(self.domain.check)
        seen = [(k, rows.with_points(partial(self._seen_by, k))) for k in self._kernels()]
        return self._of([k._fit_blocks(part, some) for k, part in seen])

    @property
    def theta(self) -> np.ndarray:
        """Log-parameters of the parts, one after another, and those of the combination itself."""
        return np.concatenate([*(k.theta for k in self._kernels()), super().theta])

    @property
    def theta_names(self) -> list[str]:
        """Names such as ``k1__length_scale``."""
        parts = [f"{p}__{n}" for p in self._parts for n in getattr(self, p).theta_names]
        return parts + super().theta_names

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`."""
        return np.concatenate([*(k.bounds for k in self._kernels()), super().bounds])

    def _at_theta(self, theta: np.ndarray) -> Self:
        changes: dict[str, Any] = {}
        start = 0
        for name, part in zip(self._parts, self._kernels(), strict=True):
            size = len(part.theta)
            changes[name] = part.with_theta(theta[start : start + size])
            start += size
        own = zip(self._own(), theta[start:], strict=True)  # numbers, not arrays
        return self._replace(changes | {name: float(from_logs(t, v)[0]) for (name, v), t in own})


def _all_columns(domains: list[Domain]) -> Tables:
    """Return rows of a table that some kernels look at, each at columns of its own."""
    names: dict[str, None] = {}
    for domain in domains:
        if not isinstance(domain, Tables) or domain.columns is None:
            return Tables()
        names |= dict.fromkeys(domain.columns)
    return Tables(tuple(names))


# ---- algebra ----


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

    fresh = plain = True

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
        first, second = (part.fused() for part in self.parts)
        return None if first is None or second is None else first.plus(second)

    def gradient(self, coef: Any) -> Any:
        """Return the sum of the gradients, where both parts need no tiles."""
        first, second = (part.gradient(coef) for part in self.parts)
        return None if first is None or second is None else first + second

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

    def _of_pairs(self, pairs: FewPoints) -> Any:
        return self._joined(np.add, pairs)

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
        return namespace(phi[0]).hstack(phi)

    def __repr__(self) -> str:
        right = f"({self.k2!r})" if isinstance(self.k2, Sum) else repr(self.k2)
        return f"{self.k1!r} + {right}"


class ProductBound(CombinedBound):
    """Tiles K₁ ∘ K₂, or c·K where one factor is a constant."""

    fresh = plain = True

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
        """Return c times what a device multiplies by, or the product of two of them."""
        scaled = self._scaled()
        if scaled is not None:
            part = self.parts[scaled[1]].fused()
            return None if part is None else part.scaled(float(self.parts[scaled[0]].kernel.value))
        first, second = (part.fused() for part in self.parts)
        return None if first is None or second is None else first.by(second)

    def gradient(self, coef: Any) -> Any:
        """Return c times the gradient of the other factor, where it needs no tiles."""
        scaled = self._scaled()
        part = None if scaled is None else self.parts[scaled[1]].gradient(coef)
        if scaled is None or part is None:
            return None
        return part * float(self.parts[scaled[0]].kernel.value)

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

    def _of_pairs(self, pairs: FewPoints) -> Any:
        return self._joined(np.multiply, pairs)

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


class EntrywiseBound(CombinedBound):
    """Tiles f(K), entry by entry."""

    plain = True

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Apply f."""
        return self.kernel._value(tiles[0])

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return C f′(K)."""
        return [C * self.kernel._slope(tiles[0])]


class Entrywise(Combination):
    """f(k) of one kernel; `_value` is f and `_slope` f′."""

    _parts = ("kernel",)
    _bound = EntrywiseBound
    _value: Callable[[Any], Any]
    _slope: Callable[[Any], Any]

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """As the kernel itself."""
        return self.kernel.characteristic

    def _of_pairs(self, pairs: FewPoints) -> Any:
        values = self.kernel._of_pairs(pairs)
        return self._value(values) if isinstance(values, np.ndarray) else None

    def _diag(self, X: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return self._value(k._diag(Z))

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        return k._pull_diag(Z, c * self._slope(k._diag(Z)))


class Power(Entrywise):
    """kᵖ for a whole number p ≥ 1 (other powers need not be kernels)."""

    def __init__(self, kernel: Kernel, degree: int):
        super().__init__(kernel=kernel, degree=degree)

    def _check_params(self) -> None:
        super()._check_params()
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not whole or self.degree < 1:
            raise NotAKernel(
                f"k ** {self.degree!r}: only whole powers of 1 or more are sure to be kernels."
            )

    def _value(self, K: Any) -> Any:
        return K ** int(self.degree)

    def _slope(self, K: Any) -> Any:
        p = int(self.degree)
        return p * K ** (p - 1)

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


# ---- Power series of a kernel: the exponential, and any with non-negative coefficients ----


class Exp(Entrywise):
    """exp(k) = Σₘ kᵐ/m!."""

    def __init__(self, kernel: Kernel):
        super().__init__(kernel=kernel)

    def _value(self, K: Any) -> Any:
        return namespace(K).exp(K)

    _slope = _value

    def _geometry(self) -> Geometry | None:
        (g,) = self._geometries()
        return None if g is None else g.exp()

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.exp()"


class Series(Entrywise):
    """Σₘ cₘkᵐ with coefficients cₘ ≥ 0, the first one for m = 0."""

    def __init__(self, kernel: Kernel, coefficients: tuple[float, ...]):
        super().__init__(kernel=kernel, coefficients=coefficients)

    def _check_params(self) -> None:
        super()._check_params()
        try:
            values = np.asarray(self.coefficients, dtype=np.float64)
        except (OverflowError, TypeError, ValueError) as error:
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

    def _value(self, K: Any) -> Any:
        return _horner(self.coefficients, K)

    def _slope(self, K: Any) -> Any:
        return _horner([m * c for m, c in enumerate(self.coefficients)][1:], K)

    def __repr__(self) -> str:
        return f"{_factor(self.kernel, '.')}.series({[float(c) for c in self.coefficients]!r})"


def _horner(coefficients: Any, K: Any) -> Any:
    out = K * 0
    for c in reversed(tuple(coefficients)):
        out = out * K + float(c)
    return out


def with_median(kernel: Kernel, X: Any, weights: np.ndarray | None) -> Kernel:
    """Return the kernel with its length scales at median distances, of each column if it has many.

    Length scales that distances do not decide, such as that of a periodic kernel, stay.
    """
    if isinstance(kernel, Combination):
        return kernel._of([with_median(k, Z, weights) for k, Z in kernel._inside(X)])
    if "length_scale" not in dict(kernel._own()):
        return kernel
    try:
        if np.ndim(kernel.length_scale) == 0:  # type: ignore[attr-defined]
            return kernel._replace({"length_scale": "median"}).fit_params(X, weights)
        X = X.tocsc() if sp.issparse(X) else X
        each = [median_distance(X[:, [j]], weights) for j in range(X.shape[1])]
        with np.errstate(over="ignore"):  # inf is no length scale: the kernel stays
            return kernel._replace({"length_scale": np.sqrt(len(each)) * np.array(each)})
    except (MercerError, TypeError, IndexError):  # no word of its, or no points with distances
        return kernel
