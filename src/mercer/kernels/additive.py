"""Kernels of functions that are sums of effects: of one column, of two together, and so on.

With k̃ⱼ the kernel of the functions of column j that have mean zero, products of k̃ⱼ over different
columns are orthogonal to one another under the product of the measures. So a function of the kernel
Σ_q σ_q² e_q(k̃₁, …, k̃_d) is a sum of effects that nothing can be moved between (Durrande et al.
2013; Lu, Boukouvalas & Hensman 2022).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from mercer.checks import check_parameter
from mercer.domains import Domain, GramRows, IncompleteVectors, Tables, Vectors
from mercer.errors import InvalidInput, who
from mercer.kernels.algebra import Combination, Product, _all_columns
from mercer.kernels.base import Kernel, from_logs
from mercer.kernels.bound import CombinedBound
from mercer.kernels.constant import Constant
from mercer.kernels.radial import RBF
from mercer.kernels.transforms import OnColumns
from mercer.kernels.zero_mean import ZeroMean, check_measure


def zero_mean(kernel: Kernel, measure: str) -> Kernel:
    """Return the kernel of the functions of mean zero, on its columns and in its scale."""
    if isinstance(kernel, ZeroMean):
        return kernel
    if isinstance(kernel, OnColumns):
        return OnColumns(zero_mean(kernel.kernel, measure), kernel.columns)
    if isinstance(kernel, Constant):
        raise InvalidInput(f"Additive: of {kernel} no function but 0 has mean zero; leave it out.")
    scaled = kernel._kernels() if isinstance(kernel, Product) else []
    if len(scaled) == 2 and isinstance(scaled[0], Constant):
        return scaled[0] * zero_mean(scaled[1], measure)
    return ZeroMean(kernel, measure)


def with_factor(sums: Sequence[Any], t: Any) -> list[Any]:
    """Return e₀ … e_q of one number more, t: eᵣ grows by t·eᵣ₋₁."""
    return [sums[0], *(sums[r] + t * sums[r - 1] for r in range(1, len(sums)))]


class AdditiveBound(CombinedBound):
    """Tiles Σ_q σ_q² e_q of the tiles of the columns."""

    fresh = plain = True

    def __init__(self, kernel: Additive, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.workspace += 2 * len(self.parts) + kernel.order
        self._variances = [float(v) for v in kernel.variances]

    def _sums(self, tiles: Iterable[Any]) -> list[Any]:
        """Return e₀ … e_q of tiles; those of fewer parts than q are the number 0."""
        sums: list[Any] = [1.0, *[0.0] * self.kernel.order]
        for tile in tiles:
            if self.xp is np and not isinstance(sums[-1], float):
                for r in range(len(sums) - 1, 1, -1):
                    sums[r] += tile * sums[r - 1]
                sums[1] += tile
            else:
                sums = with_factor(sums, tile)
        return sums

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile, from those of one column after the other."""
        sums = self._sums(part.tile(rows, cols) for part in self.parts)
        out: Any = self._variances[0]
        for v, e in zip(self._variances[1:], sums[1:], strict=True):
            out = out + v * e
        return out

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile: of each column, and of the variances."""
        tiles = self._tiles(rows, cols)
        sums, places = self._sums(tiles), self.kernel._tuned()
        own = [self._variances[q] * (C * sums[q]).sum() for q in places]
        shares = self.share(tiles, C, rows, cols)
        pulled = [
            part.pull_theta_with(rows, cols, c, tile)
            for part, c, tile in zip(self.parts, shares, tiles, strict=True)
        ]
        return self._strung([*pulled, self._in_a_row(own)])

    def _in_a_row(self, own: list[Any]) -> Any:
        """Return numbers as one row of float64, where the others are."""
        out = self.empty((len(own),), wide=True)
        for i, value in enumerate(own):
            out[i] = value
        return out

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return C times ∂k/∂k̃ⱼ = Σ_q σ_q² e_{q−1} of the others, from both ends."""
        few = self.kernel.order
        none: list[Any] = [1.0, *[0.0] * (few - 1)]
        after = [none]
        for t in reversed(tiles[1:]):
            after.append(with_factor(after[-1], t))
        before, out = none, []
        for t in tiles:
            behind, slope = after.pop(), 0.0
            for r in range(few):
                e = sum(before[a] * behind[r - a] for a in range(r + 1))
                slope = slope + self._variances[r + 1] * e
            out.append(C * slope)
            before = with_factor(before, t)
        return out


class Additive(Combination):
    r"""Sums of effects: of one column, of two columns together, and so on up to an order.

    .. math:: k = \sum_{q=0}^{Q} \sigma_q^2\, e_q(\tilde k_1, \ldots, \tilde k_d)

    with :math:`\tilde k_j` the kernel of the functions of column j of mean zero (`ZeroMean`) and
    :math:`e_q` the elementary symmetric polynomial: the sum of the products of q of them. A
    function of k is

    .. math:: f(x) = f_0 + \sum_j f_j(x_j) + \sum_{j < l} f_{jl}(x_j, x_l) + \dots

    and as each part has mean zero in each of its columns, no part can be moved into another: they
    are the effects of the columns, told by `mercer.effects`. This is the orthogonal additive
    kernel of Lu, Boukouvalas & Hensman (2022). A column that does not matter has a long length
    scale in the end, and its effect is 0.

    *Valid when* always, as sums of products of kernels.

    Costs the kernels of all columns, and d·Q multiplications an entry.

    Parameters
    ----------
    kernels : Kernel or list of Kernel, default=RBF("median")
        One for all columns, each with parameters of its own after a fit; or one for each column;
        or, of tables, kernels on their columns by ``.on(column)``. ``1.0 * RBF()`` has a variance
        of its own in each column.
    order : int, default=2
        Q, the most columns of an effect.
    measure : {"empirical", "normal", "uniform"}, default="empirical"
        By which effects have mean zero: that of the data of each column; or a normal or uniform
        one, for `RBF` kernels.
    variances : array of shape (order + 1,), optional
        :math:`\sigma_0^2, \ldots, \sigma_Q^2`; ones by default. Those above 0 are tuned.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, Additive, KernelRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    >>> model = KernelRidge(Additive(RBF(), order=2)).fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    >>> len(model.kernel_.kernels), model.kernel_.variances
    (3, array([1., 1., 1.]))
    """

    _bound = AdditiveBound
    _tunable = ("variances",)
    kernels: Any
    order: Any
    measure: Any
    variances: Any

    def __init__(
        self,
        kernels: Any = None,
        order: int = 2,
        measure: str = "empirical",
        variances: Any = None,
    ):
        if kernels is None:
            kernels = RBF("median")
        super().__init__(kernels=kernels, order=order, measure=measure, variances=variances)

    def _check_params(self) -> None:
        check_parameter("order", self.order, 1, open=False)
        if isinstance(self.order, bool) or int(self.order) != self.order:
            raise InvalidInput(f"{who()}: order={self.order!r}; give a whole number ≥ 1.")
        check_measure(self.measure)
        if not self._open_kernel:
            listed = isinstance(self.kernels, list | tuple)
            if not listed or not self.kernels:
                raise InvalidInput(
                    f"{who()}: kernels={self.kernels!r}; give a kernel, or a list of one for each "
                    "column."
                )
            for i, kernel in enumerate(self.kernels):
                if not isinstance(kernel, Kernel):
                    raise InvalidInput(f"{who()}: kernels[{i}]={kernel!r} is not a Kernel.")
        elif isinstance(self.kernels.domain, Tables):
            raise InvalidInput(
                f"{who()}: {self.kernels} chooses its columns, and would do so for each of them; "
                "give a list of kernels on columns."
            )
        for kernel in self._kernels():
            if isinstance(kernel.domain, GramRows):
                raise InvalidInput(
                    f"{who()}: a precomputed kernel has no columns; give kernels of the columns."
                )
        if self.variances is None:
            return
        try:
            v: np.ndarray = np.asarray(self.variances, dtype=float)
            good = v.shape == (self.order + 1,) and np.isfinite(v).all() and (v >= 0).all()
        except (OverflowError, TypeError, ValueError):
            good = False
        if not good:
            raise InvalidInput(
                f"{who()}: variances={self.variances!r}; give {self.order + 1} numbers ≥ 0 for "
                f"order={self.order}: of the constant, of effects of one column, of two and so on."
            )

    # -- the kernels of the columns -----------------------------------------------------------
    @property
    def _open_kernel(self) -> bool:
        """Whether one kernel stands for those of all columns."""
        return isinstance(self.kernels, Kernel)

    def _kernels(self) -> list[Kernel]:
        if self._open_kernel:
            return [self.kernels]
        return [
            k if isinstance(k.domain, Tables) else OnColumns(k, [j])
            for j, k in enumerate(self.kernels)
        ]

    def _of(self, kernels: list[Kernel]) -> Self:
        if self._open_kernel:
            return self._replace({"kernels": kernels[0]})
        own = zip(self.kernels, kernels, strict=True)
        return self._replace(
            {"kernels": tuple(k if isinstance(o.domain, Tables) else k.kernel for o, k in own)}  # type: ignore[attr-defined]
        )

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """Rows of numbers, with missing ones where a kernel takes them, or of a table."""
        kinds = [k.domain for k in ([self.kernels] if self._open_kernel else self.kernels)]
        if all(isinstance(kind, Vectors) for kind in kinds):
            return Vectors()
        if all(isinstance(kind, Vectors | IncompleteVectors) for kind in kinds):
            return IncompleteVectors(Vectors())
        if all(isinstance(kind, Tables) for kind in kinds):
            return _all_columns(kinds)
        return Tables()

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """Of one column as its kernel; of more it is not known to be."""
        alone = not self._open_kernel and len(self.kernels) == 1
        return alone and bool(min(self._variances()) > 0) and self.kernels[0].characteristic

    def _seen_by(self, part: Kernel, X: Any, name: str = "X") -> Any:
        return X if not self._open_kernel else super()._seen_by(part, X, name)

    def _words(self) -> list[str]:
        done = not self._open_kernel and all(map(_has_mean_zero, self.kernels))
        return ([] if done else ["kernels"]) + super()._words()

    def _asks(self) -> bool:
        return self.variances is None or super()._asks()

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return the kernel with one for each column, and their measures and words from X."""
        if not self._asks():
            return self
        X = self.domain.check(X)
        width = X.shape[1]
        kernels = self.kernels
        if self._open_kernel:
            kernels = tuple(self.kernels._copied() for _ in range(width))
        alone = [k for k in kernels if not isinstance(k.domain, Tables)]
        if len(alone) == len(kernels) and len(kernels) != width:
            raise InvalidInput(
                f"Additive: {len(kernels)} kernels for {width} columns; give one for each, or put "
                "them on columns by .on(column)."
            )
        made = self._replace(
            {
                "kernels": tuple(zero_mean(k, self.measure) for k in kernels),
                "variances": self._variances() if self.variances is None else self.variances,
            }
        )
        return made._of([k.fit_params(X, sample_weight) for k in made._kernels()])

    def _variances(self) -> np.ndarray:
        given = self.variances
        return np.ones(int(self.order) + 1) if given is None else np.asarray(given, dtype=float)

    # -- parameters ---------------------------------------------------------------------------
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; ``deep``: of the kernels too, as ``kernels__0__length_scale``."""
        params = super().get_params(deep)
        if deep and not self._open_kernel:
            for i, k in enumerate(self.kernels):
                params[f"kernels__{i}"] = k
                params |= {f"kernels__{i}__{n}": v for n, v in k.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters in place; all are checked before any is kept."""
        kernels = params.get("kernels", self.kernels)
        inner = [key for key in params if key.startswith("kernels__")]
        if isinstance(kernels, Kernel) or not inner:
            return super().set_params(**params)
        changed: list[Any] = list(kernels)
        nested: dict[int, dict[str, Any]] = {}
        for key in inner:
            place, _, rest = key.removeprefix("kernels__").partition("__")
            if not place.isdigit() or not int(place) < len(changed):
                raise InvalidInput(
                    f"Additive: invalid parameter {key!r}; there are kernels__0 to "
                    f"kernels__{len(changed) - 1}."
                )
            if rest:
                nested.setdefault(int(place), {})[rest] = params[key]
            else:
                changed[int(place)] = params[key]
        for i, names in nested.items():
            if not isinstance(changed[i], Kernel):
                raise InvalidInput(f"Additive: kernels[{i}]={changed[i]!r} is not a Kernel.")
            changed[i] = copy.copy(changed[i]).set_params(**names)
        own = {key: value for key, value in params.items() if key not in inner}
        return super().set_params(**{**own, "kernels": type(kernels)(changed)})

    def _copied(self) -> Self:
        twin = super()._copied()
        if not self._open_kernel:
            twin.kernels = type(self.kernels)(k._copied() for k in self.kernels)
        return twin

    def _tuned(self) -> list[int]:
        """Return the orders whose variance is tuned."""
        given = [] if self.variances is None else list(self.variances)
        return [q for q, v in enumerate(given) if v > 0]

    def _own(self) -> list[tuple[str, np.ndarray]]:
        return [("variances", self._variances()[self._tuned()])] if self._tuned() else []

    @property
    def theta_names(self) -> list[str]:
        """Names such as ``kernels__0__length_scale`` and ``variances[1]``."""
        if self._open_kernel:
            names = [f"kernels__{n}" for n in self.kernels.theta_names]
        else:
            parts = enumerate(self.kernels)
            names = [f"kernels__{i}__{n}" for i, k in parts for n in k.theta_names]
        return names + [f"variances[{q}]" for q in self._tuned()]

    def _at_theta(self, theta: np.ndarray) -> Self:
        kernels, start = [], 0
        for k in self._kernels():
            kernels.append(k.with_theta(theta[start : (start := start + len(k.theta))]))
        if not self._tuned():
            return self._of(kernels)
        variances = self._variances().copy()
        variances[self._tuned()] = from_logs(theta[start:], variances[self._tuned()])
        return self._replace({"variances": variances})._of(kernels)

    # -- values -------------------------------------------------------------------------------
    def _diag(self, X: Any) -> Any:
        sums: list[Any] = [1.0, *[0.0] * self.order]
        for d in self._diagonals(X):
            sums = with_factor(sums, d)
        pairs = zip(self._variances().tolist()[1:], sums[1:], strict=True)
        return float(self._variances()[0]) + sum(v * e for v, e in pairs)

    def _pull_diag(self, X: Any, c: Any) -> Any:
        bound: Any = self._bind(X)
        inside, tiles = self._inside(X), self._diagonals(X)
        none = slice(0, 0)
        shares = bound.share(tiles, c, none, none)
        pulled = [k._pull_diag(Z, g) for (k, Z), g in zip(inside, shares, strict=True)]
        sums: list[Any] = [1.0, *[0.0] * self.order]
        for d in tiles:
            sums = with_factor(sums, d)
        own = [float(self._variances()[q]) * float((c * sums[q]).sum()) for q in self._tuned()]
        return np.concatenate([*pulled, own])


def _has_mean_zero(kernel: Kernel) -> bool:
    """Whether a kernel is, on its columns and in its scale, one of functions of mean zero."""
    if isinstance(kernel, ZeroMean):
        return True
    inner = [k for k in kernel._kernels() if not isinstance(k, Constant)]
    return isinstance(kernel, OnColumns | Product) and len(inner) == 1 and _has_mean_zero(inner[0])
