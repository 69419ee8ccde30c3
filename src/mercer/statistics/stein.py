"""Goodness of fit by the kernel Stein discrepancy: do points follow a given density?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Vectors
from mercer.errors import InvalidInput
from mercer.features.base import check_weights
from mercer.operators.gram import Gram
from mercer.settings import get_config
from mercer.statistics.base import TestResult
from mercer.statistics.permutation import Signs, resample
from mercer.statistics.samples import as_counts, as_rng, one_sample
from mercer.statistics.scores import as_score
from mercer.statistics.stein_kernel import SteinKernel

__all__ = ["ksd", "ksd_test"]

ESTIMATORS = ("unbiased", "biased")


def ksd(
    X: Any,
    score: Any,
    kernel: Any = None,
    estimator: str = "unbiased",
    *,
    sample_weight: Any = None,
) -> float:
    r"""Return the squared kernel Stein discrepancy between a sample and a density.

    The mean of u(x, x′) = s(x)ᵀs(x′) k + s(x)ᵀ∇ₓ′k + s(x′)ᵀ∇ₓk + tr ∇ₓ∇ₓ′ᵀk over pairs, with the
    score s = ∇ log p. It is 0 in the mean when the points follow p, and needs no constant of p.

    Parameters
    ----------
    X : array of shape (n, d)
        The sample; numbers in one dimension are one column.
    score : callable, or density
        X ↦ ∇ log p(X) of shape (n, d); or an object with ``logpdf`` (scipy.stats, frozen) or
        ``score_samples``. Of a multivariate normal the score is exact; of other densities it is
        taken by central differences, with about ten correct digits for smooth ones.
    kernel : Kernel or str, optional
        RBF, rational quadratic, Matérn with ν > 1, or sums, products and powers of these; RBF at
        the median distance when left out.
    estimator : {"unbiased", "biased"}, default="unbiased"
        Over pairs of distinct points, or over all pairs.
    sample_weight : array of shape (n,), optional
        A weight of 2 counts a point twice.

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
    """
    data = _prepared(X, score, kernel, estimator, sample_weight, "ksd")
    return float(data.statistic(data.weights[None, :])[0])


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
) -> TestResult:
    r"""Test whether points follow a density, by the kernel Stein discrepancy.

    The null is drawn by the wild bootstrap, Σ rᵢrⱼu(xᵢ, xⱼ) with random signs r. Its level is right
    for large samples; from some fifty points on it is close.

    Parameters
    ----------
    X : array of shape (n, d)
        The sample; numbers in one dimension are one column.
    score : callable, or density
        X ↦ ∇ log p(X), or an object with ``logpdf`` or ``score_samples``, as for `ksd`.
    kernel : Kernel or str, optional
        As for `ksd`; RBF at the median distance when left out.
    n_permutations : int, default=999
        Draws of signs.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"unbiased", "biased"}, default="unbiased"
        Over pairs of distinct points, or over all pairs.
    blocks : int or array of shape (n,), optional
        For dependent rows: the length of runs of rows that share a sign, or a label for each row.
        Runs want to be longer than the dependence reaches.
    sample_weight : array of shape (n,), optional
        Whole numbers are counts, and the test is that of the repeated rows; other weights stay
        with their rows.
    early_stop : int, optional
        Stop at so many draws that reach the statistic.

    Returns
    -------
    TestResult
        ``extra`` holds the kernel.

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
    """
    owner = "ksd_test"
    generator = as_rng(rng, owner)
    data = _prepared(X, score, kernel, estimator, sample_weight, owner)
    counts = as_counts(data.weights)
    copies = np.ones(len(data.weights), dtype=np.int64) if counts is None else counts
    if blocks is not None and np.ndim(blocks):
        labels = np.asarray(blocks)
        if labels.shape != (data.given,):
            raise InvalidInput(
                f"{owner}: blocks has shape {labels.shape}, expected ({data.given},): a label for "
                "each row, or one number, the length of runs of rows."
            )
        blocks = np.repeat(labels[data.rows], copies)
    design = Signs(int(copies.sum()), blocks=blocks, owner=owner)
    first = np.cumsum(copies) - copies

    def evaluate(signs: np.ndarray) -> np.ndarray:
        if counts is None:
            return data.statistic(signs * data.weights)
        # Copies of a row have signs of their own; only their sum meets the rows of u.
        repeated = signs.shape[1] > len(first)
        return data.statistic(np.add.reduceat(signs, first, axis=1) if repeated else signs)

    observed = float(data.statistic(data.weights[None, :])[0])
    null = resample(
        observed,
        evaluate,
        design,
        n_permutations,
        generator,
        early_stop=early_stop,
        largest_batch=max(1, get_config().memory // (64 * design.n)),
        owner=owner,
    )
    method = "kernel Stein discrepancy, wild bootstrap (asymptotic)"
    if sample_weight is not None:
        method += ", weights as counts" if counts is not None else ", weights stay with rows"
    return TestResult(
        observed,
        float(null.pvalue),  # type: ignore[arg-type]
        null.values,
        method,
        null.n_drawn,
        (data.given,),
        null.exceedances,
        null.stopped,
        {"kernel": data.kernel.kernel},
    )


@dataclass
class _Sample:
    """A sample, its Stein kernel, and the sums that both estimators are made of."""

    kernel: SteinKernel
    gram: Gram
    weights: np.ndarray
    rows: np.ndarray  # those of weight above 0
    given: int
    unbiased: bool
    own: float  # Σ wᵢ u(xᵢ, xᵢ)

    def statistic(self, V: np.ndarray) -> np.ndarray:
        """Return the estimator with the rows of V in the place of the weights."""
        forms = np.einsum("bi,ib->b", V, self.gram @ V.T)
        total = float(self.weights.sum())
        return (forms - self.own) / (total * (total - 1)) if self.unbiased else forms / total**2


def _prepared(
    X: Any, score: Any, kernel: Any, estimator: str, sample_weight: Any, owner: str
) -> _Sample:
    if estimator not in ESTIMATORS:
        raise InvalidInput(f"{owner}: estimator={estimator!r}; legal are {', '.join(ESTIMATORS)}.")
    k, points = one_sample(X, kernel, owner)
    if not isinstance(k.domain, Vectors):
        raise InvalidInput(
            f"{owner}: {k!r} is not a kernel on rows of numbers, and a score is a gradient; use "
            "RBF, RationalQuadratic or Matern(nu=2.5)."
        )
    points = points.toarray() if sp.issparse(points) else points
    points = np.ascontiguousarray(points, dtype=np.float64)
    n = len(points)
    given = check_weights(sample_weight, n, owner)
    weights = np.ones(n) if given is None else given
    rows = np.flatnonzero(weights > 0)
    points, weights = points[rows], weights[rows]
    unbiased, total = estimator == "unbiased", float(weights.sum())
    if unbiased and not total > 1:
        raise InvalidInput(
            f"{owner}: the unbiased estimator needs two points or more, got a weight of "
            f"{total:g} in all; give more points, or use estimator='biased'."
        )
    # The score is taken once: rows of the Gram matrix and its diagonal share it.
    gradient = as_score(score, owner)(points)
    stein = SteinKernel(k.fit_params(points, weights), lambda _: gradient)
    gram = Gram(stein, points)
    own = float(weights @ gram.diagonal()) if unbiased else 0.0
    return _Sample(stein, gram, weights, rows, n, unbiased, own)
