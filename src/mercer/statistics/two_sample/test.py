"""The kernel two-sample test: have X and Y one distribution?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import gamma, norm

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.statistics.base import TestResult, check_estimator, check_finite, check_null
from mercer.statistics.permutation import (
    Design,
    drawn_result,
    drawn_there,
    resample,
    state_of,
)
from mercer.statistics.two_sample.discrepancy import Discrepancy, Wild
from mercer.statistics.two_sample.explaining import explain_samples
from mercer.statistics.two_sample.forms import FeatureForms, LowRankForms, choose_forms
from mercer.statistics.two_sample.labels import Labelled, labelled

# ---- Nulls of MMD² without draws: a gamma law with exact moments, and a normal cross-statistic.


SMALLEST = float(np.finfo(np.float64).tiny)  # a p-value is never 0


def label_moments(
    size: tuple[float, float], estimator: str, sums: tuple[float, float, float]
) -> tuple[float, float]:
    """Return mean and variance of MMD² over all permutations of the labels.

    MMD² = Σ over i ≠ j of aᵢⱼ b(labels of i and j), with aᵢⱼ = kᵢⱼ − (kᵢᵢ + kⱼⱼ)/2, which is minus
    half of a squared distance: adding terms of i or of j alone changes neither estimator. Mantel
    (Cancer Research 27, 1967) gives the moments of such a sum in terms of S = Σ aᵢⱼ, Q = Σ aᵢⱼ² and
    R = Σᵢ (Σⱼ aᵢⱼ − S/N)², and of those of b.
    """
    n, m = size
    N = n + m
    less = 1 if estimator == "unbiased" else 0
    x, y, z = 1 / (n * (n - less)), 1 / (m * (m - less)), -1 / (n * m)
    S_b = n * (n - 1) * x + m * (m - 1) * y + 2 * n * m * z
    Q_b = n * (n - 1) * x**2 + m * (m - 1) * y**2 + 2 * n * m * z**2
    R_b = n * ((n - 1) * x + m * z) ** 2 + m * ((m - 1) * y + n * z) ** 2
    if estimator == "unbiased":
        S_b = R_b = 0.0  # exactly: every row of b sums to zero
    S, Q, R = sums
    pairs = N * (N - 1)
    mean = S * S_b / pairs
    # Centre both, which moves the sum by a constant and keeps digits: then S = 0.
    Q = max(Q - S**2 / pairs, 0.0)
    Q_b, R_b = Q_b - S_b**2 / pairs, R_b - S_b**2 / N
    variance = 2 * Q * Q_b / pairs
    if N > 2:
        variance += 4 * (R - Q) * (R_b - Q_b) / (pairs * (N - 2))
    if N > 3:
        variance += (2 * Q - 4 * R) * (2 * Q_b - 4 * R_b) / (pairs * (N - 2) * (N - 3))
    return mean, max(variance, 0.0)


def gamma_pvalue(statistic: Discrepancy) -> tuple[float, float, dict[str, float]]:
    """Return the statistic, its p-value under a gamma law, and the moments that law has.

    The biased MMD² is positive; its law has two moments, hence a shape. A statistic with other
    moments is brought to that shape by its own mean and deviation (a Pearson law of type III).
    """
    points, forms = statistic.points, statistic.forms
    if not points.unit and points.counts is None:
        raise InvalidInput(
            f"{who()}: null='gamma' takes weights that are whole numbers, the counts of "
            "rows; use null='permutation'."
        )
    observed = statistic.checked(statistic.observed(squares=True))
    unit = np.float64(forms.unit)  # S, Q and R are of kernel values over this
    t, d = points.weights, forms.diagonal / unit
    N, trace = t.sum(), t @ d
    rows = forms.sums / unit - (N * d + trace) / 2
    S = float(t @ rows)
    sums = S, forms.squares, float(t @ (rows - S / N) ** 2)
    n, m = points.totals()
    mean, variance = label_moments((n, m), statistic.estimator, sums)
    center, spread = label_moments((n, m), "biased", sums)
    with np.errstate(over="ignore", under="ignore"):
        moments = {"mean": float(mean * unit), "variance": float(variance * unit * unit)}
    if min(np.sqrt(variance), center) <= forms.resolution / unit:
        forms.refuse_lost(points.totals())
        return observed, 1.0, moments  # every permutation has one value
    shape = center**2 / spread
    score = (observed / unit - mean) / np.sqrt(variance)
    pvalue = gamma.sf(shape + score * np.sqrt(shape), shape)
    return observed, float(max(pvalue, SMALLEST)), moments


def cross_normal(points: Labelled, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the studentised cross-MMD, its p-value, and the cross-MMD² itself.

    With the witness f of one half of both samples, (mean f(X) − mean f(Y))/s over the other half,
    s² = var f(X)/n + var f(Y)/m, is standard normal in the limit when the distributions are equal:
    given f it is a sum of independent terms.
    """
    index = [rng.permutation(np.flatnonzero(points.labels == label)) for label in (0, 1)]
    for name, part in zip("XY", index, strict=True):
        if len(part) < 4:
            raise InvalidInput(
                f"{who()}: null='normal' splits each sample in two and needs at least 4 points in "
                f"each, but {name} has {len(part)}. Use null='permutation'."
            )
    half = [len(part) // 2 for part in index]
    make = np.concatenate([part[h:] for part, h in zip(index, half, strict=True)])
    judge = np.concatenate([part[:h] for part, h in zip(index, half, strict=True)])
    labels = points.labels[make]
    coef = np.where(labels == 0, 1.0 / (labels == 0).sum(), -1.0 / (labels == 1).sum())
    gram_of(points.kernel, points.Z).bound.verify()
    f = gram_of(points.kernel, *points.kernel.domain.pair(points.Z, judge, make)) @ coef
    check_finite(f)
    unit = float(np.ldexp(1.0, np.frexp(np.abs(f).max())[1]))  # squares stay in range
    f = f / unit
    x, y = f[: half[0]], f[half[0] :]
    square = float(x.mean() - y.mean())
    error = float(np.sqrt(x.var(ddof=1) / len(x) + y.var(ddof=1) / len(y)))
    scale = float(np.abs(points.kernel.diag(points.Z)).max()) / unit
    if error <= 1e-13 * scale:
        forms = choose_forms(points.kernel, points.Z, points.weights)
        forms(np.zeros((len(points), 0)))
        forms.refuse_lost(points.totals())
        return 0.0, 1.0, square * unit
    statistic = square / error
    return statistic, float(max(norm.sf(statistic), SMALLEST)), square * unit


# ---- two sample ----


NULLS = ("permutation", "wild", "gamma", "normal")


@speaks("mmd_test", unless_spoken=True)
def mmd_test(
    X: Any,
    Y: Any,
    kernel: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "unbiased",
    null: str = "permutation",
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two samples come from one distribution, by their squared MMD.

    If they do, every way to share the pooled points out to two samples of these sizes is equally
    likely. The p-value is (k + 1)/(B + 1), where k of B random ways give an MMD at least as large:
    it is valid at any sample size. The statistic is `mmd`, up to rounding. All permutations
    together take one product with the pooled Gram matrix, of which half is computed, tile by tile,
    and nothing is stored that the memory budget does not allow. With tensors, or
    ``config(engine="torch")``, that is done on their device, in their precision.

    Parameters
    ----------
    X, Y : collections of n and m points
        The samples. With ``kernel="precomputed"`` the rows K[:n] and K[n:] of the Gram matrix of
        all points.
    kernel : Kernel, str or callable, optional
        The kernel; RBF at the median distance of all points when left out. A name such as
        "matern" has the median distance for its scale, too. It must not depend on which sample a
        point is from.
    n_permutations : int, default=999
        Number of draws B.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"unbiased", "biased"}, default="unbiased"
        The statistic, as in `mmd`. For samples of one size both give the same p-value.
    null : {"permutation", "wild", "gamma", "normal"}, default="permutation"
        "wild": x_i and y_i change places with probability ½ (Rademacher signs). Needs n = m; valid
        when x_i and y_i are exchangeable pair by pair, so also for pairs whose law differs from
        pair to pair, but not for samples that were sorted, or come in any other order that ties
        x_i to its neighbours. A quarter of the work of permutations. "gamma": no draws; exact mean
        and variance of the statistic over all permutations, and a gamma distribution with these
        (approximate). "normal": half of the points make the witness function, the other half a
        studentised difference of its means, standard normal under the hypothesis (approximate, for
        large samples; less power; the fastest). Its statistic is that difference.
    blocks : int, array of n + m labels, or pair of arrays, optional
        Rows that belong together, such as of one patient, or runs of a time series of this
        length: runs of the rows as given, begun anew in each sample. They move whole, and only
        blocks of one length change places: others stay, as a shorter last run does. Where lengths
        differ much, test one row a block, such as its mean. In a pair of arrays a label that both
        have is two blocks; in one array it is refused, and `strata` compares within it. For
        "wild": pairs that share a sign; a label for each of the n pairs will do.
    strata : array of n + m labels, or pair of arrays, optional
        Rows change places only within their stratum.
    sample_weight : pair of arrays, optional
        Weights of X and of Y. Whole numbers are counts: the test is that of the repeated rows, and
        either of the pair may be None. Other weights move with their rows, which is valid if
        weights have one law in both samples; they are refused for one sample alone. Weights of
        surveys, of which one row stands for 1523 people, are no counts even where they are whole
        numbers: divide them by their mean. Counts above 20 on average give a warning.
    early_stop : int, optional
        Stop drawing at this many draws that reach the statistic; large p-values then cost few.
    rank : int, optional
        Approximate the Gram matrix by this rank. The test stays valid, since the approximation
        does not know the samples. ``extra["approximation_error"]`` bounds the error of the
        statistic.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null`, `method`; ``extra["kernel"]`` is the kernel used and
        ``extra["characteristic"]`` says whether it sees every difference between distributions.

    See Also
    --------
    witness : where the samples differ.
    k_sample_test : several samples.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test", JMLR 13, 2012; Shekhar,
    Kim, Ramdas, "A permutation-free kernel two-sample test", arXiv:2211.14908 (null="normal").

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(50, 2)), rng.normal(scale=2.0, size=(40, 2))
    >>> statistic, pvalue = mmd_test(X, Y, rng=0)
    >>> pvalue
    0.001
    """
    options = {
        "estimator": estimator,
        "null": null,
        "blocks": blocks,
        "strata": strata,
        "sample_weight": sample_weight,
        "early_stop": early_stop,
        "rank": rank,
    }
    return compare_samples(X, Y, kernel, n_permutations, rng, **options)


def compare_samples(
    X: Any,
    Y: Any,
    kernel: Any,
    n_permutations: int,
    rng: Any,
    *,
    estimator: str,
    null: str,
    blocks: Any,
    strata: Any,
    sample_weight: Any,
    early_stop: int | None,
    rank: int | None = None,
) -> TestResult:
    """Return what `mmd_test` does, for a test of any name.

    X, Y, kernel, n_permutations, rng :
        See `mmd_test`.
    estimator, null, blocks, strata, sample_weight, early_stop, rank :
        See `mmd_test`.
    """
    estimator = check_estimator(estimator)
    check_null(null, NULLS)
    generator = as_rng(rng)
    B = check_index(n_permutations, "n_permutations", 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", 1)
    points = labelled([X, Y], kernel, sample_weight, ["X", "Y"])
    points.require_weights()
    extra = {"kernel": points.kernel, "characteristic": bool(points.kernel.characteristic)}
    origin = partial(
        explain_samples,
        samples=(X, Y),
        names=("X", "Y"),
        sample_weight=sample_weight,
        statistic=partial(discrepancy, estimator=estimator),
        null=null,
        n_permutations=B,
        kernel=points.kernel,
        state=state_of(generator),
        blocks=blocks,
        strata=strata,
        rank=rank,
        batch=B,
        place=None,
    )
    points = points.centred()
    if null in ("gamma", "normal"):
        points = replace(points, place=None)
        _refuse(null, blocks=blocks, strata=strata, early_stop=early_stop)
    if null == "normal":
        _refuse(null, sample_weight=None if points.unit else sample_weight, rank=rank)
        statistic, pvalue, square = cross_normal(points, generator)
        return TestResult(
            statistic,
            pvalue,
            None,
            "studentised cross-MMD on halves drawn at random, standard normal null (approximate)",
            sizes=points.sizes,
            extra=extra | {"mmd": square},
            origin=origin,
        )
    if null == "wild":
        _refuse(null, strata=strata)
    batch = largest_batch(points, B)
    keep = null == "permutation" and (B > batch or early_stop is not None)
    statistic_of = Discrepancy(points, estimator, rank=rank, rng=generator, keep=keep)
    forms = statistic_of.forms
    method = f"{estimator} MMD², "
    if isinstance(forms, LowRankForms):
        extra |= {"approximation_error": statistic_of.approximation_error()} | forms.about()
        method = f"{estimator} MMD² of a Gram matrix of rank {forms.low.rank}, "
    if null == "gamma":
        observed, pvalue, moments = gamma_pvalue(statistic_of)
        return TestResult(
            observed,
            pvalue,
            None,
            method + "gamma null with the exact moments of all permutations (approximate)",
            sizes=points.sizes,
            extra=extra | moments,
            origin=origin,
        )
    if null == "wild":
        wild = Wild(statistic_of, blocks)
        method += "wild bootstrap of Rademacher signs"
        method += ", blocks share a sign" if blocks is not None else ""
        evaluate = wild.evaluate
        data: np.ndarray = np.ones(wild.n)
        design: Design = wild.design
    else:
        labels = points.design(blocks, strata)
        method += "permutations" + points.words(blocks, strata, labels)
        evaluate, design, data = statistic_of.evaluate, labels, labels.labels
    there = forms.place if not isinstance(forms, FeatureForms) or null != "wild" else None
    drawn = resample(
        None,
        evaluate,
        design if there is None else drawn_there(design, there, B),
        B,
        generator,
        early_stop=early_stop,
        largest_batch=batch,
        resolution=forms.resolution,
        data=data,
    )
    statistic_of.checked(drawn.observed)
    found = drawn_result(drawn, method, points.sizes, extra)
    return replace(found, origin=partial(origin, batch=batch, place=there))


def discrepancy(points: Labelled, forms: Any, estimator: str) -> Discrepancy:
    """Return the statistic of given forms."""
    return Discrepancy(points, estimator, forms=forms)


def largest_batch(points: Labelled, n_permutations: int) -> int:
    """Return how many draws at a time a quarter of the memory budget holds."""
    copies = len(points) if points.counts is None else int(points.counts.sum())
    copies = len(points.sizes) * len(points) if points.crowded else copies
    row = 4 * copies + (len(points) if points.unit else 8 * len(points))
    memory = get_config().memory
    if points.place is not None:  # vectors in both precisions, and keys to draw them by
        row, memory = row + 64 * len(points), points.place.memory()
    return int(min(n_permutations, max(1, memory // (4 * row))))


def _refuse(null: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"{who()}: null={null!r} does not go with {name}; use null='permutation', which "
                "does."
            )
