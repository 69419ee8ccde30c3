"""The maximum mean discrepancy of two samples, and the function that tells them apart best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.rkhs import Function
from mercer.statistics.base import check_estimator
from mercer.statistics.gram_forms import LowRankForms, TiledForms, choose_forms, transposed_product
from mercer.statistics.label_vectors import Labelled, labelled
from mercer.statistics.permutation import Relabel
from mercer.statistics.samples import as_rng

__all__ = ["Discrepancy", "mmd", "witness"]


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
        Weights of X and of Y, either of which may be None. A weight of 2 is a point given twice.
    rank : int, optional
        Use an approximation of the Gram matrix of this rank, by randomly pivoted Cholesky.
        `mmd_test` reports its error.
    rng : None, int or Generator
        Source of the pivots when `rank` is given.

    Returns
    -------
    float
        The squared MMD.

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
    owner = "mmd"
    estimator = check_estimator(estimator, owner)
    points = labelled([X, Y], kernel, sample_weight, owner, ["X", "Y"])
    return Discrepancy(points, estimator, owner, rank=rank, rng=as_rng(rng, owner)).observed()


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
    points = labelled([X, Y], kernel, sample_weight, "witness", ["X", "Y"])
    share = points.weights / points.totals()[points.labels]
    coef = np.where(points.labels == 0, share, -share)
    kept = points.given if isinstance(points.kernel.domain, GramRows) else points.Z
    return Function(points.kernel, kept, coef)


@dataclass(frozen=True)
class Sums:
    """What the statistic needs of label vectors v: weight Σv, Σ vᵢkᵢᵢ, vᵀKv and vᵀKt.

    Parameters
    ----------
    weight, diagonal, form, cross : ndarrays of shape (b,)
        A number for each vector.
    """

    weight: np.ndarray
    diagonal: np.ndarray
    form: np.ndarray
    cross: np.ndarray


class Discrepancy:
    """MMD² of two labelled samples, for the labels given and for many others.

    With t the weights of all points and v those of the points in one sample,
    Σ_XX = vᵀKv, Σ_XY = vᵀKt − vᵀKv and Σ_YY = tᵀKt − 2vᵀKt + vᵀKv: one product with K for each v.
    v is the smaller sample, whose sums have less to lose in these differences.

    Parameters
    ----------
    points : Labelled
        The samples.
    estimator : {"unbiased", "biased"}
        Which estimator.
    owner : str
        Whose arguments they are.
    rank, rng, keep :
        See `choose_forms`.
    """

    def __init__(
        self,
        points: Labelled,
        estimator: str,
        owner: str,
        *,
        rank: int | None = None,
        rng: np.random.Generator | None = None,
        keep: bool = False,
    ):
        self.points, self.estimator, self.owner = points, estimator, owner
        totals = points.totals()
        self.own = int(totals[1] < totals[0])
        self.check_sizes(totals)
        self.forms: TiledForms | LowRankForms = choose_forms(
            points.kernel, points.Z, points.weights, rank=rank, rng=rng, keep=keep, owner=owner
        )

    def check_sizes(self, least: np.ndarray) -> None:
        """Refuse samples that the unbiased estimator cannot judge.

        Parameters
        ----------
        least : ndarray of shape (2,)
            Total weights of the samples, or the least that a draw can give them.
        """
        if self.estimator == "unbiased" and least.min() <= 1:
            name = "XY"[int(np.argmin(least))]
            raise InvalidInput(
                f"{self.owner}: the unbiased estimator needs more than one point in each sample, "
                f"and {name} has a total weight of {least.min():g}, or may have after shuffling. "
                "Use estimator='biased', or more points."
            )

    def sums(self, V: np.ndarray, squares: bool = False) -> Sums:
        """Return what the statistics of some label vectors need.

        Parameters
        ----------
        V : ndarray of shape (N, b)
            Label vectors.
        squares : bool
            Whether to find the sum of the squares of K, too.
        """
        form = self.forms(V, squares)
        parts = np.column_stack([np.ones(len(V)), self.forms.diagonal, self.forms.sums])
        weight, diagonal, cross = transposed_product(V, parts).T
        return Sums(weight, diagonal, form, cross)

    def values(self, V: np.ndarray, squares: bool = False) -> np.ndarray:
        """Return the statistic of each label vector; rounding around zero is zero.

        Parameters
        ----------
        V : ndarray of shape (N, b)
            Label vectors.
        squares : bool
            Whether to find the sum of the squares of K, too.
        """
        s = self.sums(V, squares)
        t, sums, d = self.points.weights, self.forms.sums, self.forms.diagonal
        total, trace, whole = t.sum(), t @ d, t @ sums
        n, m = s.weight, total - s.weight
        between = s.cross - s.form
        first, second = s.form, whole - 2 * s.cross + s.form
        if self.estimator == "unbiased":
            value = (first - s.diagonal) / (n * (n - 1))
            value += (second - (trace - s.diagonal)) / (m * (m - 1))
        else:
            value = first / n**2 + second / m**2
        value -= 2 * between / (n * m)
        return np.where(np.abs(value) <= self.forms.resolution, 0.0, value)

    def observed(self, squares: bool = False) -> float:
        """Return the statistic of the data.

        Parameters
        ----------
        squares : bool
            Whether to find the sum of the squares of K, too.
        """
        v = np.where(self.points.labels == self.own, self.points.weights, 0.0)
        return float(self.values(v[:, None], squares)[0])

    def evaluate(self, draws: np.ndarray) -> np.ndarray:
        """Return the statistic of each draw.

        Parameters
        ----------
        draws : ndarray of shape (b, …)
            Labels.
        """
        return self.values(self.points.vectors(draws, self.own))

    def check_design(self, design: Relabel) -> None:
        """Refuse designs of which some draw has no unbiased statistic.

        Parameters
        ----------
        design : Relabel
            What is drawn.
        """
        self.check_sizes(self.points.lightest(design))

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
            if self.estimator == "unbiased":
                # Off the diagonal √(Eᵢᵢ Eⱼⱼ), on it |vᵢ² − vᵢ| Eᵢᵢ.
                square += float((np.abs(v * v - v) - v * v) @ error)
            own.append(square / (n * (n - 1) if self.estimator == "unbiased" else n**2))
            means.append(reach / n)
        return own[0] + own[1] + 2 * means[0] * means[1] + self.forms.resolution
