"""Tests of independence by the Hilbert-Schmidt independence criterion."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.memory import require_memory
from mercer.operators import joint
from mercer.statistics.base import TestResult, check_estimator
from mercer.statistics.dependence.cells import explain_pair
from mercer.statistics.dependence.moments import (
    gamma_tail,
    invariants,
    pearson_tail,
    permutation_moments,
)
from mercer.statistics.dependence.shuffled import (
    Contrast,
    DeviceGathered,
    Factored,
    bound_values,
    centred_matrix,
    gram_matrix,
    require_observations,
    shuffles,
)
from mercer.statistics.factors import pivoted_factor, rank_words
from mercer.statistics.observations import (
    Observations,
    draw_rescaled,
    labels_at,
    observations,
    rescaled,
)
from mercer.statistics.permutation import Shuffle, drawn_result, drawn_there, state_of
from mercer.statistics.samples import Pair, paired

# ---- The Hilbert-Schmidt independence criterion: how far a joint law is from independence ----


@speaks("hsic")
def hsic(
    X: Any,
    Y: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    estimator: str = "biased",
    *,
    sample_weight: Any = None,
    rank: int | None = None,
    rng: Any = None,
) -> float:
    r"""Return the Hilbert-Schmidt independence criterion of two variables.

    The squared distance, in the RKHS of the product of both kernels, between the joint law and the
    product of its marginals; 0 for independent variables, and for characteristic kernels, such as
    RBF, only for these. With K and L the kernel matrices of m pairs and H = I − 11ᵀ/m,

        biased:    tr(K H L H) / m²,
        unbiased:  (tr(K̃L̃) + 1ᵀK̃1 1ᵀL̃1/((m−1)(m−2)) − 2 1ᵀK̃L̃1/(m−2)) / (m(m−3)),

    K̃ and L̃ with zeros on their diagonals.

    Parameters
    ----------
    X, Y : collections of m points
        The variables; row i of both belongs together. Vectors, frames, or what the kernels accept;
        numbers in one dimension are one column. The Gram matrix when precomputed.
    kernel_x, kernel_y : Kernel, str or callable, optional
        The kernels; RBF at the median distance when left out.
    estimator : {"biased", "unbiased"}, default="biased"
        Which estimate. The biased one is never negative, the unbiased one needs four pairs.
    sample_weight : array of shape (m,), optional
        Weights of the pairs; a weight of 2 is the pair given twice, 0 the pair left out. Weights
        that are not whole numbers have no unit: they count as (Σw)²/Σw² pairs in all, and the bias
        of the unbiased estimate is then of the order of the inverse square of that number.
    rank : int, optional
        Approximate both kernels by so many features, from randomly pivoted Cholesky. For the biased
        estimate the answer is then at most the exact one.
    rng : None, int or Generator, optional
        Source of the pivots of `rank`.

    Returns
    -------
    float
        The criterion.

    References
    ----------
    Gretton, Bousquet, Smola, Schölkopf, "Measuring statistical dependence with Hilbert-Schmidt
    norms", ALT 2005; Song, Smola, Gretton, Bedo, Borgwardt, "Feature selection via dependence
    maximization", JMLR 13 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> bool(hsic(x, x**2) > 5 * hsic(x, np.roll(x, 50) ** 2))
    True
    """
    unbiased = check_estimator(estimator) == "unbiased"
    given = paired(X, Y, kernel_x, kernel_y, sample_weight)
    seen = observations(given, repeat=False)
    require_observations(float(seen.weights.sum()), unbiased)
    way = ways(seen.pair, unbiased, rank, as_rng(rng))
    return float(rescaled(way.observed, sum(seen.exponents)))


def ways(pair: Pair, unbiased: bool, rank: Any, rng: np.random.Generator) -> Any:
    """Return how a pair is measured and shuffled: by factors of a given rank, or exactly."""
    if rank is None:
        return shuffles(pair, unbiased)
    w = np.ones(pair.n) if pair.weights is None else pair.weights
    x = pivoted_factor(pair.kernel_x, pair.X, rank, rng)
    y = pivoted_factor(pair.kernel_y, pair.Y, rank, rng)
    return Factored(x, y, w, unbiased, place=pair.place)


# ---- independence ----


NULLS = ("permutation", "gamma", "moments")


@speaks("hsic_test")
def hsic_test(
    X: Any,
    Y: Any,
    kernel_x: Any = None,
    kernel_y: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "biased",
    null: str = "permutation",
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two variables are independent, by `hsic`.

    By default the rows of Y are shuffled against those of X, and the p-value is (k + 1)/(B + 1)
    with k the number of shuffles that reach the criterion of the data. Its level is exact for any
    kernel and any sample size, as long as rows, blocks, or rows within strata are exchangeable when
    the variables are independent. With tensors, or ``config(engine="torch")``, both matrices are
    made and shuffled on their device, in their precision.

    Parameters
    ----------
    X, Y : collections of n points
        The variables; row i of both belongs together. Vectors, frames, or what the kernels accept;
        numbers in one dimension are one column. The Gram matrix when precomputed.
    kernel_x, kernel_y : Kernel, str or callable, optional
        The kernels; RBF at the median distance when left out. They see each variable alone, which
        leaves the level as it is.
    n_permutations : int, default=999
        Number of shuffles B.
    rng : None, int or Generator, optional
        Source of randomness.
    estimator : {"biased", "unbiased"}, default="biased"
        The estimate that is the statistic.
    null : {"permutation", "gamma", "moments"}, default="permutation"
        Where the p-value comes from. "moments": the mean, variance and skewness over all n!
        shuffles, exactly, and the Pearson III law that has them; no shuffle is made, the tail is
        approximate. "gamma": the gamma law with estimates of the mean and variance of the biased
        estimate under independence (Gretton et al. 2007), for large n; the values of the kernels
        are never stored.
    blocks : int or array of shape (n,), optional
        Rows that move together, for dependent data: the length of runs of consecutive rows, as
        given, of a time series, several times as long as its memory, or a label for each row.
    strata : array of shape (n,), optional
        Labels; rows are exchanged only within a stratum. That tests independence given the
        stratum.
    sample_weight : array of shape (n,), optional
        Weights of the pairs. Whole numbers count repetitions, and the test is that of the repeated
        rows; a run of `blocks` is one of rows, with their copies. Other weights stay with the rows
        of X, a valid test where they depend on X alone, and have no unit, as in `hsic`; for
        null="permutation".
    early_stop : int, optional
        Stop at so many shuffles that reach the statistic: large p-values then cost few shuffles.
    rank : int, optional
        Approximate both kernels by so many features, for large n. The level does not suffer, as the
        features know nothing of the pairing.

    Returns
    -------
    TestResult
        ``statistic``, ``pvalue``, ``null`` and more. ``extra["kernel_x"]`` and
        ``extra["kernel_y"]`` are the kernels used, and ``extra["characteristic"]`` says whether
        together they see every dependence. With `rank`, ``extra["approximation_error"]`` is the
        most by which the statistic differs from that of the kernels themselves, and
        ``extra["rank"]`` and ``extra["trace_error"]`` are the features of each and the part of its
        trace that they miss. Without shuffles, ``extra`` has the mean and variance (and skewness)
        of the null.

    References
    ----------
    Gretton, Fukumizu, Teo, Song, Schölkopf, Smola, "A kernel statistical test of independence",
    NIPS 2007; Kazi-Aoual, Hitier, Sabatier, Lebreton, "Refined approximations to permutation tests
    for multivariate inference", Comput. Statist. Data Anal. 20 (1995).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> y = x**2 + 0.5 * rng.normal(size=100)
    >>> bool(abs(np.corrcoef(x, y)[0, 1]) < 0.2)
    True
    >>> hsic_test(x, y, rng=0).pvalue
    0.001
    """
    check_options(estimator, null, n_permutations, early_stop)
    generator = as_rng(rng)
    given = paired(X, Y, kernel_x, kernel_y, sample_weight)
    result = pair_test(
        given,
        n_permutations,
        generator,
        estimator=estimator,
        null=null,
        blocks=blocks,
        strata=strata,
        early_stop=early_stop,
        rank=rank,
    )
    return replace(result, origin=partial(result.origin, variables=(X, Y)))


def check_options(estimator: Any, null: Any, n_permutations: Any, early_stop: Any) -> None:
    """Refuse options that no test of independence knows.

    Parameters
    ----------
    estimator, null, n_permutations, early_stop : object
        As the user gave them.
    """
    check_estimator(estimator)
    if not (isinstance(null, str) and null in NULLS):
        raise InvalidInput(f"{who()}: null={null!r}; give one of {', '.join(map(repr, NULLS))}.")
    check_index(n_permutations, "n_permutations", 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", 1)


def pair_test(
    given: Pair,
    n_permutations: int,
    rng: np.random.Generator,
    *,
    estimator: str,
    null: str,
    blocks: Any,
    strata: Any,
    early_stop: int | None,
    rank: int | None = None,
) -> TestResult:
    """Return the test of a pair of variables; options as in `hsic_test`, checked.

    Parameters
    ----------
    given : Pair
        The variables.
    n_permutations : int
        Number of shuffles.
    rng : Generator
        Source of randomness.
    estimator, null, blocks, strata, early_stop, rank : object
        Options.
    """
    unbiased = estimator == "unbiased"
    extra = {
        "kernel_x": given.kernel_x,
        "kernel_y": given.kernel_y,
        "characteristic": bool(given.kernel_x.characteristic and given.kernel_y.characteristic),
    }
    origin = partial(
        explain_pair,
        given=given,
        variables=(None, None),
        unbiased=unbiased,
        null=null,
        n_permutations=n_permutations,
        state=state_of(rng),
        blocks=blocks,
        strata=strata,
        rank=rank,
        batch=n_permutations,
        place=None,
    )
    seen = observations(given)
    pair, exponent = seen.pair, sum(seen.exponents)
    require_observations(float(seen.weights.sum()), unbiased)
    if null != "permutation":
        shuffled = {"blocks": blocks, "strata": strata, "early_stop": early_stop, "rank": rank}
        _refuse(null, unbiased, pair, shuffled)
        found = _moments(pair, unbiased) if null == "moments" else _gamma(pair)
        with np.errstate(over="ignore", under="ignore"):
            mean, variance = (float(np.ldexp(m, k * exponent)) for k, m in enumerate(found[3], 1))
        extra |= {"mean": mean, "variance": variance} | found[4]
        notes = [f"{estimator} HSIC", found[2], *_weight_words(given, seen)]
        statistic = rescaled(found[0], exponent)
        words = ", ".join(notes)
        return TestResult(
            statistic, found[1], None, words, 0, (given.n,), extra=extra, origin=origin
        )
    design = Shuffle(
        pair.n,
        blocks=labels_at(blocks, seen.index, given.n, "blocks"),
        strata=labels_at(strata, seen.index, given.n, "strata"),
    )
    way = ways(pair, unbiased, rank, rng)
    there = way.place if isinstance(way, DeviceGathered) else None
    draws = drawn_there(design, there, n_permutations)
    drawn = draw_rescaled(way, draws, n_permutations, rng, early_stop, pair.n, exponent)
    notes = [f"{estimator} HSIC", *design_words(given, seen, blocks, strata)]
    if rank is not None:
        extra["approximation_error"] = rescaled(way.error, exponent)
        extra["rank"] = tuple(factor.rank for factor in way.factors)
        extra["trace_error"] = tuple(factor.share for factor in way.factors)
        notes.append(f"kernels of {rank_words(extra['rank'])}")
    notes += [way.words] if way.words else []
    result = drawn_result(drawn, ", ".join(notes), (given.n,), extra)
    return replace(result, origin=partial(origin, place=there))


def _refuse(null: str, unbiased: bool, pair: Pair, options: dict[str, Any]) -> None:
    """Refuse what only shuffles can do."""
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"{who()}: {name} is for null='permutation'; null={null!r} is a formula for all "
                "shuffles of single rows."
            )
    if pair.weights is not None:
        raise InvalidInput(
            f"{who()}: null={null!r} takes weights that are whole numbers; use "
            "null='permutation' for others."
        )
    if null == "gamma" and unbiased:
        raise InvalidInput(
            f"{who()}: null='gamma' is the law of the biased estimate; use estimator='biased', or "
            "null='moments'."
        )
    if null == "gamma" and pair.n < 6:
        raise InvalidInput(
            f"{who()}: null='gamma' needs at least 6 observations, got {pair.n}; use "
            "null='permutation'."
        )


def _gamma(pair: Pair) -> tuple[float, float, str, Any, dict]:
    """Return statistic, p-value, words, moments and more, of the law of Gretton et al. (2007).

    For kernels of any diagonal: the mean is (E k(x,x) − ‖μ‖²)(E l(y,y) − ‖ν‖²)/n, the variance
    2(n−4)(n−5)/(n(n−1)(n−2)(n−3)) times the mean of (Kc ∘ Lc)² off the diagonal, an estimate of
    ‖Cxx‖²‖Cyy‖².
    """
    words = "gamma approximation (asymptotic)"
    n, ones = pair.n, np.ones(pair.n)
    x, sums_x, diag_x = bound_values(pair.kernel_x, pair.X)
    y, sums_y, diag_y = bound_values(pair.kernel_y, pair.Y)
    a, b = Contrast.of(sums_x, diag_x, ones, False), Contrast.of(sums_y, diag_y, ones, False)
    if a.scale == 0.0 or b.scale == 0.0:
        return 0.0, 1.0, words, (0.0, 0.0), {}

    def step(tiles: list[np.ndarray], rows: slice, cols: slice) -> list[Any]:
        both = a.tile(tiles[0], rows, cols) * b.tile(tiles[1], rows, cols)
        return [both.sum(), np.vdot(both, both)]

    total, squares = joint([x, y], 2, step)  # of Kc ∘ Lc/n⁴ and its square
    own = (diag_x + 2 * a.shift) * (diag_y + 2 * b.shift)
    squares = squares * float(n) ** 8 - float(own @ own)
    apart = [
        float(d.mean() - (s.sum() - d.sum()) / (n * (n - 1.0)))
        for s, d in ((sums_x, diag_x), (sums_y, diag_y))
    ]
    mean = apart[0] * apart[1] / n
    factor = 2.0 * (n - 4.0) * (n - 5.0) / (n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    variance = float(factor * squares / (n * (n - 1.0)))
    statistic = float(total) * float(n) ** 2
    return statistic, gamma_tail(statistic, mean, variance), words, (mean, variance), {}


def _moments(pair: Pair, unbiased: bool) -> tuple[float, float, str, Any, dict]:
    """Return the same by the exact moments over all shuffles."""
    n = pair.n
    require_memory(
        24 * n * n,
        f"{who()}: the two {n} × {n} matrices for null='moments'",
        "Use null='gamma', or rank=… with null='permutation'",
    )
    K = gram_matrix(pair.kernel_x, pair.X)
    A = Contrast.of(K.sum(axis=1), K.diagonal().copy(), np.ones(n), unbiased).dense(K)
    L = centred_matrix(gram_matrix(pair.kernel_y, pair.Y))
    statistic = float(np.vdot(A, L))
    found = permutation_moments(invariants(A), invariants(L), n)
    words = "exact moments over all permutations, tail of the Pearson III law (approximate)"
    more = {"skewness": found.skewness}
    return statistic, pearson_tail(statistic, found), words, (found.mean, found.variance), more


def design_words(given: Pair, seen: Observations, blocks: Any, strata: Any) -> list[str]:
    """Say what was shuffled."""
    what = "blocks of rows" if blocks is not None else "rows"
    where = " within strata" if strata is not None else ""
    return [f"permutations of {what}{where}", *_weight_words(given, seen)]


def _weight_words(given: Pair, seen: Observations) -> list[str]:
    if seen.pair.weights is not None:
        return ["weights stay with X"]
    return [] if given.weights is None else ["weights count rows, which move on their own"]
