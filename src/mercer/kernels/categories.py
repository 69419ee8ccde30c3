"""Kernels on categories: equal or not, and levels in an order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.checks import check_parameter
from mercer.domains import MISSING, Categories, CategoryCollection, codes_of
from mercer.errors import InvalidInput, users_level
from mercer.kernels.base import DEFAULT_BOUNDS, Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.laplacian import LaplacianBound

HIGHEST = 1 - 1e-6  # similarity up to which it is tuned: of many columns each counts little
APART = 800.0  # exp(−800) is 0: how far from all levels a missing one is put


class Categorical(Kernel):
    r"""Categories that are equal or not: Πₖ (1 if xₖ = x′ₖ else ρ) over the columns.

    With ρ = 0 it is 1 for equal rows and 0 for others (Dirac); with ρ > 0 it is
    :math:`\rho^{h(x, x')}`, h the number of columns that differ (Hamming).

    *Valid when* 0 ≤ ρ < 1: for one column the matrix is a principal submatrix, with repeats, of
    ρ11ᵀ + (1 − ρ)I, which is positive semidefinite; over columns it is a product of such.

    Values may be text, numbers, truth values or tuples; 1 and 1.0 are equal, "1" is another.
    Missing (None, NaN, NA) is a category of its own. A category that did not occur in training is
    one that differs from all that did. A tile costs one comparison for each entry and column.

    Parameters
    ----------
    similarity : float, default=0.0
        ρ, how alike two different categories are. It is tuned where it is > 0.

    Examples
    --------
    >>> from mercer import Categorical
    >>> Categorical()(["a", "b", "a"])
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    >>> Categorical(0.5)([["a", 1], ["b", 2], ["a", 2]])
    array([[1.  , 0.25, 0.5 ],
           [0.25, 1.  , 0.5 ],
           [0.5 , 0.5 , 1.  ]])
    """

    domain = Categories()
    #: It is ρ^c plus kernels of subsets of the columns, all of them with (1 − ρ)^c > 0: strictly
    #: positive definite on rows of categories.
    characteristic = True
    _tunable = ("similarity",)

    def __init__(self, similarity: float = 0.0):
        super().__init__(similarity=similarity)

    def _check_params(self) -> None:
        check_parameter("similarity", self.similarity, 0, open=False)
        if not self.similarity < 1:
            raise InvalidInput(
                f"Categorical: similarity={self.similarity!r}; it must be < 1, as with 1 all "
                "categories would be one."
            )

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`: ρ stays below 1."""
        rows = [(np.log(DEFAULT_BOUNDS[0]), np.log(HIGHEST))] * len(self.theta)
        return np.array(rows).reshape(-1, 2)

    def with_missing(self, fill: Any = None, agreement: float | None = None) -> Kernel:
        """Return this kernel itself: missing is a category already."""
        return _takes_missing(self, fill=fill, agreement=agreement)

    def _bind(self, X: CategoryCollection, Y: CategoryCollection | None = None) -> Bound:
        return CategoricalBound(self, X, Y)

    def _diag(self, X: CategoryCollection) -> np.ndarray:
        return np.ones(len(X))

    def _pull_diag(self, X: CategoryCollection, c: Any) -> np.ndarray:
        return np.zeros(len(self.theta))


class Agreement:
    """ρ to the number of columns in which rows of X and Y differ, ready for tiles.

    Codes become small whole numbers, columns that are constant are left out, and for ρ = 0 all
    columns become one: rows are equal or they are not.
    """

    def __init__(self, X: np.ndarray, Y: np.ndarray | None, rho: float):
        self.rho = rho
        both = X if Y is None else np.concatenate([X, Y])
        columns = [np.unique(both[:, k], return_inverse=True)[1] for k in range(both.shape[1])]
        columns = [c.reshape(-1) for c in columns if c.size and c.max() > 0]
        if rho == 0 and len(columns) > 1:
            whole = columns[0]
            for column in columns[1:]:
                pairs = whole * (int(column.max()) + 1) + column
                whole = np.unique(pairs, return_inverse=True)[1].reshape(-1)
            columns = [whole]
        #: Whether all rows agree.
        self.one = not columns
        small = np.stack(columns or [np.zeros(len(both), int)], axis=1).astype(np.int32)
        self._x = small[: len(X)]
        self._yt = np.ascontiguousarray((small if Y is None else small[len(X) :]).T)

    def _codes(self, rows: slice, cols: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return those of a tile; a loop over memory without gaps takes a quarter of the time."""
        return self._x[rows], np.ascontiguousarray(self._yt[:, cols])

    def fill(self, out: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Write the values of a tile."""
        from mercer.jit import fill_agreement

        fill_agreement(*self._codes(rows, cols), out.dtype.type(self.rho), out)
        return out

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile by the values, in place."""
        from mercer.jit import times_agreement

        if not self.one:
            times_agreement(*self._codes(rows, cols), tile.dtype.type(self.rho), tile)
        return tile

    def differences(self, rows: slice, cols: slice) -> np.ndarray:
        """Return the number of columns in which rows differ."""
        from mercer.jit import count_differences

        x, yt = self._codes(rows, cols)
        out = np.empty((len(x), yt.shape[1]))
        count_differences(x, yt, out)
        return out


class CategoricalBound(Bound):
    """Tiles ρ^h of rows of codes."""

    fresh = True

    def __init__(
        self, kernel: Categorical, X: CategoryCollection, Y: CategoryCollection | None = None
    ):
        super().__init__(kernel, X, Y)
        self._agreement = Agreement(
            X.codes, None if Y is None else Y.codes, float(kernel.similarity)
        )

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return ρ^h on a tile."""
        out = self.empty((rows.stop - rows.start, cols.stop - cols.start))
        return self._agreement.fill(out, rows, cols)

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile by ρ^h, in place."""
        return self._agreement.times(tile, rows, cols)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ hᵢⱼ ρ^hᵢⱼ, the derivative in log ρ."""
        if not len(self.kernel.theta):
            return self.zeros((0,), wide=True)
        h = self._agreement.differences(rows, cols)
        return np.sum(C * h * self.tile(rows, cols), dtype=np.float64).reshape(1)


class Ordinal(Kernel):
    r"""Levels in an order: exp(−Σₖ |rₖ − r′ₖ|/ℓ), r the rank of a level, 0, 1, 2, ….

    *Valid when* ℓ > 0: it is the Laplacian kernel of the ranks. Missing (None, NaN, NA) is a point
    of its own, with k(missing, missing) = 1 and 0 to all levels, which is a block of its own.

    Parameters
    ----------
    order : sequence, optional
        The levels from low to high. By default they are taken from the data: the order that a
        frame declares (ordered categories of pandas, Enum of polars), or else the sorted values.
        A level that is not among them is an error, also at prediction: say all that may come.
    length_scale : float, default=1.0
        ℓ, in levels: neighbours have the value e^(−1/ℓ).

    Examples
    --------
    >>> from mercer import Ordinal
    >>> Ordinal(["low", "middle", "high"])(["low", "middle", "high"]).round(3)
    array([[1.   , 0.368, 0.135],
           [0.368, 1.   , 0.368],
           [0.135, 0.368, 1.   ]])
    """

    domain = Categories()
    #: The Laplacian kernel is, and missing is a block of its own in each column.
    characteristic = True
    _tunable = ("length_scale",)

    def __init__(self, order: Sequence | None = None, length_scale: float = 1.0):
        super().__init__(order=order, length_scale=length_scale)

    def _check_params(self) -> None:
        check_parameter("length_scale", self.length_scale, 0)
        if self.order is None:
            return
        listed = hasattr(self.order, "__len__") and hasattr(self.order, "__getitem__")
        if not listed or isinstance(self.order, str | bytes | Mapping):
            raise InvalidInput(
                f"Ordinal: order={self.order!r}; give a list of levels, from low to high."
            )
        levels = list(self.order)
        try:
            codes = codes_of(levels)
        except InvalidInput as error:
            text = str(error).replace("the label", "the level").replace("labels are", "levels are")
            raise InvalidInput(f"Ordinal: {text}") from None
        if not levels or len(set(codes.tolist())) < len(levels) or MISSING in codes:
            raise InvalidInput(
                f"Ordinal: order={levels!r}; give one level or more, each of them once and none "
                "missing."
            )

    def with_missing(self, fill: Any = None, agreement: float | None = None) -> Kernel:
        """Return this kernel itself: missing is a point of its own already."""
        return _takes_missing(self, fill=fill, agreement=agreement)

    def _words(self) -> list[str]:
        return ["order"] if self.order is None else []

    def _resolve(self, X: CategoryCollection, sample_weight: Any) -> dict[str, Any]:
        if X.order is not None:
            return {"order": X.order}
        occurs = np.isin(X.keys, X.codes) & (X.keys != MISSING)
        levels = X.values[occurs].tolist()
        try:
            levels = sorted(levels)
        except TypeError:
            kinds = " and ".join(sorted({type(v).__name__ for v in levels}))
            raise InvalidInput(
                f"Ordinal: levels of kind {kinds} have no order; say it: Ordinal(order=[...])."
            ) from None
        if not levels:
            raise InvalidInput("Ordinal: all values are missing; say the levels: order=[...].")
        if len(levels) > 2 and any(isinstance(v, str) for v in levels):
            warnings.warn(
                f"Ordinal takes its levels in the order of the alphabet: {_listed(levels)}; say "
                "another order with Ordinal(order=[...]), or this one, to have no warning.",
                UserWarning,
                stacklevel=users_level(),
            )
        return {"order": tuple(levels)}

    def _ranks(self, X: CategoryCollection) -> np.ndarray:
        """Return the ranks of all entries in units of ℓ; missing ones far from all levels."""
        levels = list(self.order)
        known = codes_of(levels)
        sorter = np.argsort(known)
        at = sorter[np.minimum(np.searchsorted(known, X.keys, sorter=sorter), len(levels) - 1)]
        ranks = at / float(self.length_scale)
        ranks[X.keys == MISSING] = len(levels) / float(self.length_scale) + APART
        strange = (known[at] != X.keys) & (X.keys != MISSING)
        if strange.any():
            strange &= np.isin(X.keys, X.codes)
            for key, value in zip(X.keys[strange].tolist(), X.values[strange], strict=True):
                raise InvalidInput(
                    f"Ordinal: {value!r} is not a level; the levels are {_listed(levels)}. "
                    f"{_capital(X.where(key))}. Add it to order=[...] in its place, make it "
                    "missing (None), or choose RBF() where levels are numbers."
                )
        return ranks[np.searchsorted(X.keys, X.codes)]

    def _bind(self, X: CategoryCollection, Y: CategoryCollection | None = None) -> Bound:
        return OrdinalBound(self, X, Y)

    def _diag(self, X: CategoryCollection) -> np.ndarray:
        self._ranks(X)  # an unknown level is an error here too
        return np.ones(len(X))

    def _pull_diag(self, X: CategoryCollection, c: Any) -> np.ndarray:
        return np.zeros(len(self.theta))

    def _to_metric(self, X: CategoryCollection) -> np.ndarray:
        return self._ranks(X)


class OrdinalBound(LaplacianBound):
    """Tiles of the Laplacian kernel of ranks; there is no gradient in a level."""

    fresh = True
    pull_points = Bound.pull_points


def _takes_missing(kernel: Kernel, **given: Any) -> Any:
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{kernel}.with_missing({name}={value!r}): missing is a category of its own "
                f"here; leave {name} out."
            )
    return kernel._copied()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(levels: Sequence, most: int = 8) -> str:
    shown = ", ".join(map(repr, levels[:most]))
    return shown + (f" and {len(levels) - most} more" if len(levels) > most else "")
