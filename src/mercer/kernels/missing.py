"""Missing values inside a kernel, positive definite by construction."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.checks import check_parameter
from mercer.domains import (
    Categories,
    Domain,
    GramRows,
    IncompleteCollection,
    IncompletePoints,
    IncompleteVectors,
    Numbers,
    Tables,
    Vectors,
    concatenate,
    is_missing,
    to_host,
)
from mercer.errors import InvalidInput, speaks
from mercer.kernels.algebra import INCOMPLETE, Combination, _factor
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.categories import HIGHEST, Agreement
from mercer.kernels.constant import Constant, White
from mercer.kernels.few import FewPoints
from mercer.kernels.parameters import _short
from mercer.kernels.scales import CONSTANT, HALVES, point_weights, weighted_median
from mercer.kernels.transforms import OnColumns

WORDS = ("median", "mean")
ALIKE = 0.5  # what a point that is missing as a whole shares with one that is there


def allow_missing(kernel: Kernel, fill: Any, agreement: float | None) -> Kernel:
    """Return a kernel that takes missing values; of one on columns, each part that does not yet."""
    if not isinstance(kernel.domain, Tables) or isinstance(kernel, Constant | White):
        return WithMissing(kernel._copied(), fill, agreement)
    if isinstance(kernel, OnColumns):
        inner = kernel.kernel
        if isinstance(inner.domain, INCOMPLETE):
            return kernel._copied()
        if isinstance(inner.domain, Categories):  # there, missing is a category
            agreement = None
        return OnColumns(inner.with_missing(fill, agreement), kernel.columns)
    parts = {n: getattr(kernel, n) for n in getattr(kernel, "_parts", ())}
    if not parts:
        raise InvalidInput(
            f"{kernel}.with_missing(): no part of it says which columns it takes; write "
            "k.with_missing().on(columns)."
        )
    free = (Constant, White)
    changed = {
        n: k._copied() if isinstance(k, free) else allow_missing(k, fill, agreement)
        for n, k in parts.items()
    }
    return kernel._replace(changed)


class WithMissing(Combination):
    r"""A kernel that takes points with missing values; written ``k.with_missing()``.

    **Rows of numbers.** With z the row x whose missing entries are replaced by `fill`, and rⱼ
    whether xⱼ is missing,

    .. math:: \tilde k(x, x') = k(z, z') \prod_j \kappa(r_j, r'_j), \qquad
        \kappa = 1 \text{ if } r_j = r'_j \text{ else } \rho.

    *Valid when* 0 ≤ ρ ≤ 1: k(z, z′) is k seen through the map x ↦ z; κ is [[1, ρ], [ρ, 1]], which
    is positive semidefinite; and products of kernels are kernels. On complete rows it is k. By
    default ρ is ½^(1/d) for d columns: a row of which all is missing has ½ with a complete one,
    and a few gaps cost little however many columns there are.

    **Other points** (strings, graphs, documents, …), where a point is missing as a whole. Without
    `fill`, missing is a direction of its own: k̃(missing, missing) = 1, k̃(x, missing) = 0. *Valid*
    as the matrix has two blocks, that of k and one of ones. With a point as `fill`, as for rows.

    None, NaN and NA of pandas are missing. Costs what k costs, and one pass where any is missing.
    Values are NumPy's also for tensors of torch, and tensors that ask for a gradient are refused.

    Parameters
    ----------
    kernel : Kernel
        k, on any domain but rows of kernel values. Kernels on categories need no help: there,
        missing is a category. Of a kernel on columns, ``.with_missing()`` changes each part.
    fill : "median", "mean", number, array of shape (d,), or a point, optional
        What stands in for a missing value. For rows the default is "median", of each column, taken
        from the data by `fit_params`, as estimators do; a column without any value gets 0.
    agreement : float, optional
        ρ, what a known value and a missing one share, from 0 to 1; by default ½^(1/d) for rows of
        d columns and ½ for other points. A number between 0 and 1 is tuned with the parameters of
        k, and it says nothing where missing is a direction of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, Spectrum
    >>> k = RBF(2.0).with_missing(fill=0.0)
    >>> k([[1.0, np.nan], [1.0, 0.0], [np.nan, np.nan]]).round(3)
    array([[1.   , 0.707, 0.624],
           [0.707, 1.   , 0.441],
           [0.624, 0.441, 1.   ]])
    >>> Spectrum(1).with_missing()(["ab", None, "b"])
    array([[2., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """

    _parts = ("kernel",)
    _pointwise = False
    _tunable = ("agreement",)

    def __init__(self, kernel: Kernel, fill: Any = None, agreement: float | None = None):
        super().__init__(kernel=kernel, fill=fill, agreement=agreement)

    @speaks("with_missing")
    def _check_params(self) -> None:
        super()._check_params()
        if self.agreement is not None:
            check_parameter("agreement", self.agreement, 0, open=False)
            if self.agreement > 1:
                raise InvalidInput(
                    f"with_missing: agreement={self.agreement!r}; it must be a number from 0 to 1."
                )
        inner = self.kernel.domain
        if isinstance(inner, GramRows | Tables | Categories | IncompleteVectors | IncompletePoints):
            raise InvalidInput(f"{self}: {_refusal(inner)}")
        if self._numeric:
            self._check_fill()
        elif self.fill is not None and is_missing(self.fill):
            raise InvalidInput(f"with_missing: fill={self.fill!r} is missing itself; give a point.")

    def _check_fill(self) -> None:
        if self.fill is None or (isinstance(self.fill, str) and self.fill in WORDS):
            return
        try:
            values: np.ndarray = np.asarray(self.fill, dtype=np.float64)
            good = values.ndim <= 1 and values.size > 0 and bool(np.isfinite(values).all())
        except (OverflowError, TypeError, ValueError):
            good = False
        if not good:
            raise InvalidInput(
                f"with_missing: fill={self.fill!r}; give 'median', 'mean', a finite number, or one "
                "for each column."
            )

    @property
    def _numeric(self) -> bool:
        return isinstance(self.kernel.domain, Vectors)

    @property
    def _star(self) -> bool:
        """Whether missing is a direction of its own."""
        return not self._numeric and self.fill is None

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """As that of the kernel, with missing values."""
        inner = self.kernel.domain
        return IncompleteVectors(inner) if self._numeric else IncompletePoints(inner)

    def _own(self) -> list[tuple[str, np.ndarray]]:
        """ρ, where it is given, values depend on it, and it is not at an end."""
        tuned = self.agreement is not None and 0 < self.agreement < 1 and not self._star
        return super()._own() if tuned else []

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`: ρ stays below 1."""
        rows = super().bounds
        if self._own():
            rows[-1, 1] = np.log(HIGHEST)
        return rows

    def _words(self) -> list[str]:
        own = (
            ["fill"] if self._numeric and (self.fill is None or isinstance(self.fill, str)) else []
        )
        return own + super()._words()

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return the kernel with `fill` and the words of the inner kernel taken from X."""
        if not self._asks():
            return self
        X = self.domain.check(X)
        fixed = self
        if self._numeric and (self.fill is None or isinstance(self.fill, str)):
            whole = getattr(self.kernel.domain, "integer", False)
            fill = _column_fill(X, self.fill or "median", sample_weight, whole)
            fixed = self._replace({"fill": fill})
        if fixed._star and sample_weight is not None:
            sample_weight = point_weights(len(X), sample_weight)[~X.missing]
        inner = fixed.kernel.fit_params(fixed._seen_by(fixed.kernel, X), sample_weight)
        return fixed._replace({"kernel": inner})

    def _seen_by(self, part: Kernel, X: Any, name: str = "X") -> Any:
        """Return the points that are there, or all of them with the missing ones filled in."""
        if self._numeric:
            gone = np.isnan(X)
            if not gone.any():
                return part.domain.check(X, name)
            fill = np.asarray(self.fill, dtype=X.dtype)
            if fill.ndim and fill.size not in (1, X.shape[1]):
                raise InvalidInput(
                    f"with_missing: fill has {fill.size} numbers for {X.shape[1]} columns; give "
                    "one number or one for each column."
                )
            if isinstance(part.domain, Numbers):
                self._check_number(part.domain, fill)
            return part.domain.check(np.where(gone, fill, X), name)
        if self._star or not X.missing.any():
            return X.points
        stand_in = part.domain.check([self.fill], "fill")
        points = concatenate(part.domain, X.points, stand_in) if len(X.points) else stand_in
        return part.domain.take(points, np.where(X.missing, len(X.points), X.places[:-1]))

    def _check_number(self, domain: Numbers, fill: np.ndarray) -> None:
        """Say it of `fill`, not of X, where it is no point of the kernel."""
        try:
            domain.check(fill.reshape(-1, 1), "fill")
        except InvalidInput as error:
            raise InvalidInput(
                f"{_factor(self.kernel, '.')}.with_missing: {str(error).removesuffix('.')}; say "
                "what stands in for a missing number: with_missing(fill=...)."
            ) from None

    def _gone(self, X: Any) -> np.ndarray:
        """Return what is missing, entry by entry."""
        return np.isnan(X) if self._numeric else X.missing[:, None]

    def _rho(self, columns: int) -> float:
        return ALIKE ** (1 / columns) if self.agreement is None else float(self.agreement)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        X, Y = (to_host(Z) for Z in (X, Y))
        return (ApartBound if self._star else FilledBound)(self, X, Y)

    def _of_pairs(self, pairs: FewPoints) -> Any:
        complete = self._numeric and not self._words()  # as pairs of rows are
        return self.kernel._of_pairs(pairs) if complete else None

    def _diag(self, X: Any) -> Any:
        X = to_host(X)
        ((k, Z),) = self._inside(X)
        d = k._diag(Z)
        if not self._star:
            return d
        out = np.ones(len(X))
        out[~X.missing] = d
        return out

    def _pull_diag(self, X: Any, c: Any) -> Any:
        ((k, Z),) = self._inside(X)
        pulled = k._pull_diag(Z, np.asarray(c)[~X.missing] if self._star else c)
        return np.append(pulled, np.zeros(len(self._own())))  # in ρ: a point agrees with itself

    def _n_features(self, X: Any) -> int | None:
        if not self._star:
            return None
        ((k, Z),) = self._inside(X)
        count = k._n_features(Z)
        return None if count is None else count + 1

    def _features(self, X: Any) -> Any:
        if not self._star:
            return super()._features(X)
        ((k, Z),) = self._inside(X)
        phi = sp.csr_array(k._features(Z))
        n, there = len(X), np.flatnonzero(~X.missing)
        spread = sp.csr_array(
            (np.ones(len(there)), (there, np.arange(len(there)))), (n, len(there))
        )
        alone = sp.csr_array(X.missing.astype(float)[:, None])
        return sp.hstack([spread @ phi, alone]).tocsr()

    def __repr__(self) -> str:
        fill = self.fill.tolist() if isinstance(self.fill, np.ndarray) else self.fill
        shown = [] if fill is None else [f"fill={_short(fill)}"]
        shown += [] if self.agreement is None else [f"agreement={_short(self.agreement)}"]
        return f"{_factor(self.kernel, '.')}.with_missing({', '.join(shown)})"


class FilledBound(CombinedBound):
    """Tiles of k on filled points, times ρ to the number of entries missing in one point only."""

    fresh = True

    def __init__(self, kernel: WithMissing, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._gone = kernel._gone(X)
        others = None if Y is None else kernel._gone(Y)
        self._agreement = Agreement(self._gone, others, kernel._rho(self._gone.shape[1]))

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile."""
        tile = self.parts[0].tile(rows, cols)
        if not self.writes_to(self.parts[0]):
            tile = tile.astype(self.dtype)
        return self._agreement.times(tile, rows, cols)

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile of another kernel, in place."""
        return self._agreement.times(self.parts[0].times(tile, rows, cols), rows, cols)

    def _weighted(self, C: Any, rows: slice, cols: slice) -> Any:
        return self._agreement.times(np.array(C, dtype=self.dtype), rows, cols)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile; ∂ρʰ/∂log ρ is hρʰ."""
        weighted = self._weighted(C, rows, cols)
        pulled = self.parts[0].pull_theta(rows, cols, weighted)
        if not self.kernel._own():
            return pulled
        h = self._agreement.differences(rows, cols)
        tile = self.parts[0].tile(rows, cols)
        return np.append(pulled, np.sum(weighted * h * tile, dtype=np.float64))

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the gradient in the entries that are there, 0 in those that are not."""
        pulled = self.parts[0].pull_points(rows, cols, self._weighted(C, rows, cols))
        return np.where(self._gone[rows], 0.0, pulled)


class ApartBound(CombinedBound):
    """Tiles of two blocks: k on the points that are there, ones on those that are missing."""

    fresh = True

    def __init__(self, kernel: WithMissing, X: IncompleteCollection, Y: Any = None):
        super().__init__(kernel, X, Y)
        self._missing = X.missing, X.missing if Y is None else Y.missing
        self._places = X.places, X.places if Y is None else Y.places

    def _split(self, side: int, part: slice) -> tuple[np.ndarray, np.ndarray, slice]:
        """Return which of some points are there, which are not, and the former in the part."""
        gone, places = self._missing[side][part], self._places[side]
        inner = slice(int(places[part.start]), int(places[part.stop]))
        return np.flatnonzero(~gone), np.flatnonzero(gone), inner

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile."""
        here, gone, inner_rows = self._split(0, rows)
        there, lost, inner_cols = self._split(1, cols)
        out = self.zeros((rows.stop - rows.start, cols.stop - cols.start))
        if len(here) and len(there):
            tile = self.parts[0].tile(inner_rows, inner_cols)
            if not len(gone) and not len(lost):
                return tile if self.writes_to(self.parts[0]) else tile.astype(self.dtype)
            out[np.ix_(here, there)] = tile
        out[np.ix_(gone, lost)] = 1
        return out

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over the points that are there."""
        here, _, inner_rows = self._split(0, rows)
        there, _, inner_cols = self._split(1, cols)
        if not len(here) or not len(there):
            return self.zeros((len(self.kernel.theta),), wide=True)
        return self.parts[0].pull_theta(inner_rows, inner_cols, C[np.ix_(here, there)])

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Refuse: points of this kind have no gradient."""
        return Bound.pull_points(self, rows, cols, C)


def _column_fill(X: np.ndarray, word: str, sample_weight: Any, whole: bool) -> Any:
    """Return the median or mean of each column over what is there; a `whole` number below it."""
    w = point_weights(len(X), sample_weight)
    fill = np.zeros(X.shape[1])
    for j, column in enumerate(X.T.astype(float)):
        there = ~np.isnan(column) & (w > 0)
        if there.any():
            x, v = column[there], w[there]
            fill[j] = weighted_median(x, v) if word == "median" else np.average(x, weights=v)
    fill = np.floor(fill) if whole else fill
    return float(fill[0]) if len(fill) == 1 else fill


def _refusal(domain: Domain) -> str:
    if isinstance(domain, GramRows):
        return "kernel values cannot be missing; leave out the point, row and column."
    if isinstance(domain, Categories):
        return "missing is a category of its own already; use the kernel as it is."
    if isinstance(domain, Tables):
        return "say it of the parts: k.with_missing().on(columns)."
    return "it takes missing values already."


# ---- Columns in blocks, whose missing values are set to the median ----


class StreamedMoments:
    """`moments` of a column that comes in blocks: give all of them at each of `PASSES` passes.

    The first pass finds the range, the next two mean and deviation. The median is exact too:
    doubles are sorted as their bits are, sign first, and each pass counts rows by the next bits of
    those that agree with the median so far, as a radix sort does.
    """

    #: The bits that a pass counts by, from the left; none at the first.
    BITS = (0, 11, 11, 11, 11, 11, 9)
    PASSES = len(BITS)

    def __init__(self) -> None:
        self.turn = 0
        self.low, self.high = np.inf, -np.inf
        self.present = self.absent = 0.0  # weights
        self.sum = self.squares = 0.0  # in units of the largest value
        self.below = [0.0, 0.0]  # weight below the lower and the upper median
        self.prefix = [0, 0]  # their bits so far
        self.hist: dict[int, np.ndarray] = {}
        self.left = 64  # bits that are still open

    def add(self, x: np.ndarray, weight: np.ndarray | None) -> None:
        """Take in a block: numbers, NaN where missing."""
        w = np.ones_like(x) if weight is None else np.asarray(weight, dtype=np.float64)
        lost = np.isnan(x)
        use = ~lost & (w > 0)
        if self.turn == 0:
            self.absent += float(w[lost].sum())
        x, w = x[use], w[use]
        if not len(x):
            return
        if self.turn == 0:
            self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
            self.present += float(w.sum())
            return
        if self.turn == 1:
            self.sum += float(w @ (x / self.unit))
        elif self.turn == 2:
            self.squares += float(w @ (x / self.unit - self._mean()) ** 2)
        key = np.ascontiguousarray(x).view(np.uint64)
        key = np.where(key >> 63 != 0, ~key, key | np.uint64(2**63))
        width = self.BITS[self.turn]
        digit = ((key >> np.uint64(self.left - width)) & np.uint64(2**width - 1)).astype(np.intp)
        head = key >> np.uint64(self.left) if self.left < 64 else np.zeros_like(key)
        for prefix in set(self.prefix):
            here = head == np.uint64(prefix)
            found = np.bincount(digit[here], weights=w[here], minlength=2**width)
            self.hist[prefix] = self.hist.get(prefix, 0.0) + found

    def end_of_pass(self) -> None:
        """Draw the conclusion of a pass."""
        width = self.BITS[self.turn]
        if width and self.present:
            # as `weighted_median`: where the weight reaches a half, and where it is beyond
            halves = (0.5 * self.present * (1 - HALVES), 0.5 * self.present * (1 + HALVES))
            for i, half in enumerate(halves):
                hist = self.hist[self.prefix[i]]
                some = np.flatnonzero(hist)
                reached = self.below[i] + np.cumsum(hist[some])
                at = int(np.searchsorted(reached, half, side="right" if i else "left"))
                at = min(at, len(some) - 1)
                self.below[i] = float(reached[at] - hist[some[at]])
                self.prefix[i] = (self.prefix[i] << width) + int(some[at])
        self.left -= width
        self.hist = {}
        self.turn += 1

    @property
    def unit(self) -> float:
        """The largest absolute value."""
        return max(-self.low, self.high) or 1.0

    def _mean(self) -> float:
        return self.sum / self.present

    def result(self) -> tuple[float, float, float]:
        """Return median, mean and standard deviation, after the last pass."""
        if not self.present:
            return 0.0, 0.0, 0.0
        low, high = (_from_bits(prefix) for prefix in self.prefix)
        fill, unit, total = 0.5 * low + 0.5 * high, self.unit, self.present + self.absent
        mean = (self.sum + self.absent * (fill / unit)) / total
        squares = self.squares + self.present * (self._mean() - mean) ** 2
        squares += self.absent * (fill / unit - mean) ** 2
        constant = (self.high - self.low) / unit <= CONSTANT
        return fill, unit * mean, 0.0 if constant else unit * float(np.sqrt(squares / total))


def _from_bits(key: int) -> float:
    bits = key - 2**63 if key >= 2**63 else 2**64 - 1 - key
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])
