"""Goodness of fit by the kernel Stein discrepancy: do points follow a given density?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.checks import as_rng, check_index
from mercer.domains import Vectors
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import check_weights
from mercer.memory import require_memory
from mercer.operators import Gram
from mercer.settings import config, get_config
from mercer.solvers import PartialCholesky, rpcholesky
from mercer.statistics.base import TestResult, check_estimator, check_finite
from mercer.statistics.observations import labels_at, rows_at
from mercer.statistics.permutation import Signs, drawn_result, resample
from mercer.statistics.samples import one_sample
from mercer.statistics.stein.kernel import ScoredStein, SteinKernel, as_score, refuse_rough


@speaks("ksd")
def ksd(
    X: Any,
    score: Any,
    kernel: Any = None,
    estimator: str = "unbiased",
    *,
    sample_weight: Any = None,
    rank: int | None = None,
    rng: Any = None,
) -> float:
    r"""Return the squared kernel Stein discrepancy between a sample and a density.

    The mean of u(x, x′) = s(x)ᵀs(x′) k + s(x)ᵀ∇ₓ′k + s(x′)ᵀ∇ₓk + tr ∇ₓ∇ₓ′ᵀk over pairs, with the
    score s = ∇ log p. It is 0 in the mean when the points follow p, and needs no constant of p.

    For this p must be smooth and go to 0 at the boundary of its support, at least as a straight
    line. Where it does not (exponential, uniform, truncated laws; scales and rates), transform the
    points to the whole line, by log or logit, and add the log-Jacobian to log p. Densities of
    scipy.stats on an interval or half-line are checked; of a function nothing can be.

    Parameters
    ----------
    X : array of shape (n, d)
        The sample; numbers in one dimension are one column.
    score : callable, or density
        X ↦ ∇ log p(X) of shape (n, d), the slope and not log p; or an object with ``logpdf``
        (scipy.stats, frozen) or ``score_samples``. Of a multivariate normal the score is exact; of
        other densities it is taken by central differences, with about ten correct digits for smooth
        ones.
    kernel : Kernel or str, optional
        RBF, rational quadratic, Matérn with ν > 1, or sums, products and powers of these; RBF at
        the median distance when left out.
    estimator : {"unbiased", "biased"}, default="unbiased"
        Over pairs of distinct points, or over all pairs.
    sample_weight : array of shape (n,), optional
        A weight of 2 counts a point twice, 0 leaves it out. Weights that are not whole numbers have
        no unit; the unbiased estimator is then Σ wᵢwⱼu(xᵢ, xⱼ)/Σ wᵢwⱼ over i ≠ j.
    rank : int, optional
        Approximate u by so many features, from randomly pivoted Cholesky, for large n. `ksd_test`
        reports what they leave out.
    rng : None, int or Generator
        Source of the pivots when `rank` is given.

    Returns
    -------
    float
        The squared discrepancy; the unbiased one may be below 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import ksd
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> ksd(x, lambda x: -x) < ksd(x, lambda x: -(x - 1))
    True

    An exponential law on the log scale: u = log x has log p(u) = −eᵘ + u, the u from the Jacobian.

    >>> u = np.log(np.random.default_rng(0).exponential(size=200))
    >>> bool(abs(ksd(u, lambda u: 1 - np.exp(u))) < 0.01)
    True
    """
    data = _prepared(X, score, kernel, estimator, sample_weight, rank, as_rng(rng))
    return float(data.statistic(data.weights[None, :])[0])


@speaks("ksd_test")
def ksd_test(
    X: Any,
    score: Any,
    kernel: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "unbiased",
    blocks: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether points follow a density, by the kernel Stein discrepancy.

    The null is drawn by the wild bootstrap, Σ rᵢrⱼu(xᵢ, xⱼ) with random signs r. Its level is right
    for large samples; from some fifty points on it is close.

    As for `ksd`, p must go to 0 at the boundary of its support; else transform first. Rows are
    taken as independent: the states of a Markov chain are not, and without `blocks` the test
    rejects far too often.

    Parameters
    ----------
    X : array of shape (n, d)
        The sample; numbers in one dimension are one column.
    score : callable, or density
        X ↦ ∇ log p(X), the slope and not log p; or an object with ``logpdf`` or
        ``score_samples``, as for `ksd`.
    kernel : Kernel or str, optional
        As for `ksd`; RBF at the median distance when left out.
    n_permutations : int, default=999
        Draws of signs.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"unbiased", "biased"}, default="unbiased"
        Over pairs of distinct points, or over all pairs.
    blocks : int or array of shape (n,), optional
        For dependent rows, such as a chain: the length of runs of rows, as given, that share a
        sign, or a label for each row. Runs want to be longer than the dependence reaches.
    sample_weight : array of shape (n,), optional
        Whole numbers are counts, and the test is that of the repeated rows; a run of `blocks` is
        one of rows, with their copies. Other weights stay with their rows and have no unit, as in
        `ksd`.
    early_stop : int, optional
        Stop at so many draws that reach the statistic.
    rank : int, optional
        Approximate u by so many features, for large n: a draw then costs rank·n. Features are
        combinations of the u(z, ·) of some points z, whose means are 0 when the points follow p, so
        the statistic is a discrepancy again and the level as right as before, where the rank is
        far below n; it sees less.

    Returns
    -------
    TestResult
        ``extra["kernel"]`` is the kernel used. With `rank`, ``extra["rank"]`` and
        ``extra["trace_error"]`` are the number of features and the part of Σ u(xᵢ, xᵢ) that they
        leave out, and ``extra["approximation_error"]`` is the most by which the statistic is off.

    Notes
    -----
    There are no strata, as nothing changes places.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from mercer.statistics import ksd_test
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> p = stats.multivariate_normal([0.0, 0.0])
    >>> bool(ksd_test(x, p, rng=0).pvalue > 0.05)
    True
    >>> ksd_test(x + 0.5, p, rng=0).pvalue
    0.001

    An exponential law, with the points and the score on the log scale (see `ksd`):

    >>> u = np.log(np.random.default_rng(0).exponential(size=200))
    >>> bool(ksd_test(u, lambda u: 1 - np.exp(u), rng=0).pvalue > 0.05)
    True
    """
    generator = as_rng(rng)
    check_index(n_permutations, "n_permutations", 1)
    data = _prepared(X, score, kernel, estimator, sample_weight, rank, generator)
    copies = np.arange(len(data.rows))
    if data.counted:
        counts = data.weights.astype(np.int64)
        require_memory(
            64 * int(counts.sum()),
            f"{who()}: signs of the {int(counts.sum())} rows that the weights count",
            "Give weights that are not whole numbers, which stay with their rows",
        )
        copies = np.repeat(copies, counts)
    labels = labels_at(blocks, data.rows[copies], data.given, "blocks")
    design = Signs(len(copies), blocks=labels)
    first = np.searchsorted(copies, np.arange(len(data.rows)))

    def evaluate(signs: np.ndarray) -> np.ndarray:
        # Copies of a row have signs of their own; only their sum meets the rows of u.
        summed = np.add.reduceat(signs, first, axis=1) if data.counted else signs * data.weights
        return data.statistic(summed)

    drawn = resample(
        float(data.statistic(data.weights[None, :])[0]),
        evaluate,
        design,
        n_permutations,
        generator,
        early_stop=early_stop,
        largest_batch=max(1, get_config().memory // (64 * design.n)),
    )
    method = f"{estimator} kernel Stein discrepancy, wild bootstrap (asymptotic)"
    method += ", blocks share a sign" if blocks is not None else ""
    if data.counted:
        method += ", weights as counts"
    elif (data.weights != 1).any():
        method += ", weights stay with rows"
    extra = {"kernel": data.kernel.kernel}
    if data.low is not None:
        method += f", u of rank {data.low.rank}"
        extra |= {"rank": data.low.rank, "trace_error": data.low.trace_error}
        extra["approximation_error"] = data.approximation_error()
    return drawn_result(drawn, method, (data.given,), extra)


@dataclass
class _Sample:
    """A sample, its Stein kernel, and the sums that both estimators are made of.

    The mean over pairs is (Σ wᵢwⱼuᵢⱼ − Σ oᵢuᵢᵢ)/(W² − Σ o): for the biased one o = 0. For counts
    o = w, as a copy meets the other w − 1; else o = w², as a row of any weight is one point.
    """

    kernel: SteinKernel
    gram: Gram
    weights: np.ndarray
    rows: np.ndarray  # those of weight above 0
    given: int
    counted: bool
    own: np.ndarray
    low: PartialCholesky | None = None

    def statistic(self, V: np.ndarray) -> np.ndarray:
        """Return the estimator with the rows of V in the place of the weights."""
        total = float(self.weights.sum())  # divided by first, or sums of large u overflow
        with np.errstate(over="ignore", invalid="ignore"):
            W = V.T / total
            share = self.own / total**2
            if self.low is None:
                forms = np.einsum("ib,ib->b", W, self.gram @ W)
                diagonal = self.gram.diagonal()
            else:
                G = self.low.F @ W
                forms = np.einsum("rb,rb->b", G, G)
                diagonal = np.einsum("ri,ri->i", self.low.F, self.low.F)
            forms = (forms - float(share @ diagonal)) / (1.0 - float(share.sum()))
        check_finite(forms)
        return forms

    def approximation_error(self) -> float:
        """Return a bound of |exact − approximate statistic| of the data.

        E = u − FᵀF is positive semidefinite, so |Eᵢⱼ| ≤ √(Eᵢᵢ Eⱼⱼ), and its diagonal is known.
        """
        low: Any = self.low
        total = float(self.weights.sum())
        error = np.maximum(self.gram.diagonal() - np.einsum("ri,ri->i", low.F, low.F), 0.0)
        w, share = self.weights / total, self.own / total**2
        reach = float(w @ error**0.5) ** 2 + float((np.abs(w**2 - share) - w**2) @ error)
        return reach / (1.0 - float(share.sum()))


def _prepared(
    X: Any,
    score: Any,
    kernel: Any,
    estimator: str,
    sample_weight: Any,
    rank: int | None,
    rng: np.random.Generator,
) -> _Sample:
    check_estimator(estimator)
    k, points = one_sample(X, kernel)
    if not isinstance(k.domain, Vectors):
        raise InvalidInput(
            f"{who()}: {k} is not a kernel on rows of numbers, and a score is a gradient; use "
            "RBF, RationalQuadratic or Matern(nu=2.5)."
        )
    refuse_rough(k)
    points = points.toarray() if sp.issparse(points) else points
    points = np.ascontiguousarray(points, dtype=np.float64)
    n = len(points)
    rows, weights, counted = rows_at(check_weights(sample_weight, n), n, False)
    w = np.ones(len(rows)) if weights is None else weights
    points = points[rows]
    own = np.zeros(len(w))
    if estimator == "unbiased":
        own = w**2 if weights is not None and not counted else w
        if len(w) < 2 and not (counted and w[0] > 1):
            raise InvalidInput(
                f"{who()}: the unbiased estimator needs two points or more, got {len(rows)} of "
                f"weight {w.sum():g}; give more points, or use estimator='biased'."
            )
    # The score is taken once: rows of the Gram matrix and its diagonal share it.
    gradient = as_score(score)(points)
    stein = SteinKernel(k.fit_params(points, w), lambda _: gradient)
    if rank is None:
        gram = _in_main_memory(stein, points)
        return _Sample(stein, gram, w, rows, n, counted, own)
    rank = min(check_index(rank, "rank", 1), len(points))
    require_memory(
        3 * 8 * rank * len(points),
        f"{who()}: {rank} features of {len(points)} points",
        "Use a smaller rank",
    )
    # Rows of u at some points: these bring their scores along.
    stein = ScoredStein(stein.kernel)
    gram = _in_main_memory(stein, np.hstack([points, gradient]), keep=False)
    low = rpcholesky(gram, rank, random_state=int(rng.integers(2**31)))
    return _Sample(stein, gram, w, rows, n, counted, own, low)


def _in_main_memory(kernel: SteinKernel, points: np.ndarray, keep: bool | None = None) -> Gram:
    """Return the matrix u, computed by NumPy whatever the engine: scores are arrays."""
    with config(engine="numpy"):
        return Gram(kernel, points, keep=keep)
