"""The maximum mean discrepancy of two samples, and the function that tells them apart best."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.checks import as_rng
from mercer.errors import speaks
from mercer.kernels import Bound
from mercer.operators import quadratic
from mercer.rkhs import Function
from mercer.statistics.base import check_estimator, check_finite
from mercer.statistics.two_sample.forms import (
    DeviceForms,
    FeatureForms,
    choose_forms,
    transposed_product,
)
from mercer.statistics.two_sample.labels import Labelled, labelled


@speaks("mmd")
def mmd(
    X: Any,
    Y: Any,
    kernel: Any = None,
    estimator: str = "unbiased",
    *,
    sample_weight: Any = None,
    rank: int | None = None,
    rng: Any = None,
) -> float:
    r"""Return the squared maximum mean discrepancy ‖μ_X − μ_Y‖² of two samples.

    The unbiased estimator leaves out the similarity of a point to itself,

    .. math:: \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j) + \frac{1}{m(m-1)} \sum_{i \ne j}
              k(y_i, y_j) - \frac{2}{nm} \sum_{i, j} k(x_i, y_j),

    so it is 0 on average when the samples have one distribution, and may be negative. The biased
    one keeps it and divides by n² and m²: it is the squared norm of `witness`, and never negative.
    For a characteristic kernel the MMD of two distributions is 0 only if they are equal. Computed
    in tiles from half of the Gram matrix, which is not stored.

    Parameters
    ----------
    X, Y : collections of points
        The samples. With ``kernel="precomputed"`` the rows K[:n] and K[n:] of the Gram matrix of
        all points.
    kernel : Kernel, str or callable, optional
        The kernel; RBF at the median distance of all points when left out.
    estimator : {"unbiased", "biased"}, default="unbiased"
        Which estimator.
    sample_weight : pair of arrays, optional
        Weights of X and of Y, either of which may be None. Whole numbers are counts: a weight of 2
        is a point given twice. Of other weights only the shares matter: the unbiased estimator
        then takes s Σ wᵢk(xᵢ, xᵢ)/W, with s = Σwᵢ²/W² and W = Σwᵢ, from Σ wᵢwⱼk(xᵢ, xⱼ)/W² and
        divides by 1 − s; where k(x, x) is constant that is the mean over i ≠ j.
    rank : int, optional
        Use an approximation of the Gram matrix of this rank, by randomly pivoted Cholesky.
        `mmd_test` reports its error.
    rng : None, int or Generator
        Source of the pivots when `rank` is given.

    Returns
    -------
    float
        The squared MMD.

    See Also
    --------
    mmd_test : whether the samples have one distribution.
    witness : where they differ.
    mercer.mean_embedding : μ_X itself.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test", JMLR 13, 2012.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.statistics import mmd
    >>> mmd([0.0, 2.0], [4.0, 6.0], Linear(), estimator="biased")
    16.0
    >>> mmd([0.0, 2.0], [4.0, 6.0], Linear())
    14.0
    """
    estimator = check_estimator(estimator)
    points = labelled([X, Y], kernel, sample_weight, ["X", "Y"])
    found = Discrepancy(points.centred(), estimator, rank=rank, rng=as_rng(rng))
    return found.checked(found.observed())


@speaks("witness", unless_spoken=True)
def witness(X: Any, Y: Any, kernel: Any = None, *, sample_weight: Any = None) -> Function:
    r"""Return the witness function μ_X − μ_Y, largest where X is denser than Y.

    Of all functions of one norm it is the one whose means over the two samples differ most. Its
    squared norm is the biased MMD².

    Parameters
    ----------
    X, Y : collections of points
        The samples.
    kernel : Kernel, str or callable, optional
        The kernel; RBF at the median distance of all points when left out.
    sample_weight : pair of arrays, optional
        Weights of X and of Y, either of which may be None.

    Returns
    -------
    Function
        μ_X − μ_Y; the points are those of X followed by those of Y. With a precomputed kernel
        they are positions, and it has values but no norm.

    Examples
    --------
    >>> from mercer import Linear
    >>> from mercer.statistics import witness
    >>> f = witness([0.0, 2.0], [4.0, 6.0], Linear())
    >>> float(f.norm() ** 2)
    16.0
    """
    points = labelled([X, Y], kernel, sample_weight, ["X", "Y"])
    share = points.weights / points.totals()[points.labels]
    coef = np.where(points.labels == 0, share, -share)
    kept = points.Z if points.kernel.domain.holds_points else points.given
    return Function(points.kernel, kept, coef)


class Discrepancy:
    """MMD² of two labelled samples, for the labels given and for many others.

    With t the weights of all points and v those of the points in one sample,
    Σ_XX = vᵀKv, Σ_XY = vᵀKt − vᵀKv and Σ_YY = tᵀKt − 2vᵀKt + vᵀKv: one product with K for each v.
    v is the smaller sample, whose sums have less to lose in these differences. The unbiased
    estimator is (Σ_XX − (o/n) Σ vᵢkᵢᵢ)/(n² − o), with n = Σvᵢ and o what points have of themselves:
    n for counts, and Σvᵢ² for other weights. It does not change when the kernel is centred.
    """

    def __init__(
        self,
        points: Labelled,
        estimator: str,
        *,
        rank: int | None = None,
        rng: np.random.Generator | None = None,
        keep: bool = False,
        forms: Any = None,
    ):
        self.points, self.estimator = points, estimator
        totals = points.totals()
        self.label = int(totals[1] < totals[0])
        if estimator == "unbiased":
            points.require_two()
        self.forms = forms or choose_forms(
            points.kernel,
            points.Z,
            points.weights,
            rank=rank,
            rng=rng,
            keep=keep,
            place=points.place,
        )
        self.reach = 1.0  # the statistic is made of means of kernel values, times this

    def values(self, V: Any, squares: bool = False) -> np.ndarray:
        """Return the statistic of each label vector; rounding around zero is zero."""
        V = self.forms.bring(V)
        first = self.forms(V, squares)
        t, sums, d, o = self.points.weights, self.forms.sums, self.forms.diagonal, self.points.own
        parts = np.column_stack([np.ones(len(V)), d, sums, o])
        n, mine, cross, own = transposed_product(V, parts).T
        m, other, second = t.sum() - n, t @ d - mine, t @ sums - 2 * cross + first
        if self.estimator == "unbiased":
            rest = t @ o - own
            value = (first - own / n * mine) / (n * n - own)
            value += (second - rest / m * other) / (m * m - rest)
        else:
            value = first / n**2 + second / m**2
        value -= 2 * (cross - first) / (n * m)
        return np.where(np.abs(value) <= self.forms.resolution, 0.0, value)

    def observed(self, squares: bool = False) -> float:
        """Return the statistic of the data."""
        v = np.where(self.points.labels == self.label, self.points.weights, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.values(v[:, None], squares)[0])

    def checked(self, value: float) -> float:
        """Return the statistic of the data, unless it overflows or is lost to rounding."""
        check_finite(value)
        if value == 0.0:
            if not len(self.forms.sums):
                self.forms(np.zeros((len(self.points), 0)))
            self.forms.refuse_lost(self.points.totals())
        return value

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        """Return the statistic of each draw."""
        return self.values(self.points.vectors(draws, self.label))

    def approximation_error(self) -> float:
        """Return a bound of |exact − approximate statistic| of the data.

        E = K − FᵀF is positive semidefinite, so |Eᵢⱼ| ≤ √(Eᵢᵢ Eⱼⱼ), and its diagonal is known.
        """
        error = self.forms.error
        if error is None:
            return 0.0
        root = np.sqrt(error)
        means, own = [], []
        for label in (0, 1):
            v = np.where(self.points.labels == label, self.points.weights, 0.0)
            n, reach = v.sum(), float(v @ root)
            square = reach**2
            less = float(v @ self.points.own) if self.estimator == "unbiased" else 0.0
            # Off the diagonal √(Eᵢᵢ Eⱼⱼ), on it |vᵢ² − vᵢ less/n| Eᵢᵢ.
            square += float((np.abs(v * v - v * less / n) - v * v) @ error)
            own.append(square / (n * n - less))
            means.append(reach / n)
        return own[0] + own[1] + 2 * means[0] * means[1] + self.forms.resolution


# ---- The wild bootstrap of MMD²: pairs (x_i, y_i) change places by random signs ----


class DifferenceBound(Bound):
    """Tiles of H = Kxx + Kyy − Kxy − Kyx, cut from tiles of the pooled matrix."""

    def __init__(self, inner: Any, n: int):
        super().__init__(inner.kernel, inner.collections[0])
        self.follow(inner)
        self.inner, self.flagged = inner, inner.flagged
        self.shape, self.workspace = (n, n), inner.workspace + 5
        # By tile: Σ (Kxx + Kyy), Σ (Kxy + Kyx) and tr Kxy. Tiles may come from several threads.
        self.seen: dict[tuple[int, int], tuple[float, float, float]] = {}

    def verify(self) -> None:
        """Refuse what is plainly no kernel."""
        self.inner.verify()

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return a tile of H."""
        n = self.shape[0]
        low, right = slice(rows.start + n, rows.stop + n), slice(cols.start + n, cols.stop + n)
        within = self.inner.tile(rows, cols) + self.inner.tile(low, right)
        between = self.inner.tile(rows, right)
        pairs = float(between.diagonal().sum()) if rows == cols else 0.0
        between = between + self.inner.tile(cols, low).T
        twice = 1.0 if rows == cols else 2.0
        self.seen[rows.start, cols.start] = (
            twice * float(within.sum()),
            twice * float(between.sum()),
            pairs,
        )
        return within - between


class Wild:
    """MMD² under signs s: a sign of −1 lets x_i and y_i change places.

    The sums over i ≠ j of Kxx + Kyy + Kxy + Kyx do not change, and those of H become sᵀHs, so both
    estimators are affine in sᵀHs, an n × n form: a quarter of the work of label vectors.
    """

    def __init__(self, statistic: Discrepancy, blocks: Any):
        self.design = statistic.points.pairs(blocks)
        n = self.n = self.design.n
        self.estimator = statistic.estimator
        self.forms = statistic.forms
        self.resolution = self.forms.resolution
        self.trace = float(self.forms.diagonal.sum())
        self.totals: tuple[float, ...] = ()
        self.there = isinstance(self.forms, DeviceForms)
        if isinstance(self.forms, FeatureForms):
            x, y = self.forms.F[:, :n], self.forms.F[:, n:]
            self.F = x - y
            with np.errstate(over="ignore", invalid="ignore"):  # named when a statistic has it
                a, b = x.sum(1), y.sum(1)
                self.totals = float(a @ a + b @ b), float(2 * a @ b), float((x * y).sum())
        elif not self.there:
            self.bound = DifferenceBound(self.forms.bound, n)

    def evaluate(self, draws: Any) -> np.ndarray:
        """Return the statistic of each row of signs."""
        if isinstance(self.forms, FeatureForms):
            G = np.asarray(draws) @ self.F.T
            q = (G * G).sum(1)
        elif self.there:
            q, self.totals = self.forms.paired(draws.T)
        else:
            q, _, _ = quadratic(self.bound, draws.T)
            if not self.totals:
                self.totals = tuple(np.sum([*self.bound.seen.values()], axis=0))
            self.bound.seen.clear()
        n = self.n
        if self.estimator == "biased":
            value = q / n**2
        else:
            within, between, pairs = self.totals
            whole = (within - self.trace) + (between - 2 * pairs)
            left = q - (self.trace - 2 * pairs)
            value = (whole + left) / (2 * n * (n - 1)) - ((whole - left) / 2 + 2 * pairs) / n**2
        return np.where(np.abs(value) <= self.resolution, 0.0, value)
