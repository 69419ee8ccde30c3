"""Tests of independence by the Hilbert-Schmidt independence criterion."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.blocks import require_memory
from mercer.engines.joint import joint
from mercer.errors import InvalidInput
from mercer.settings import get_config
from mercer.statistics.base import TestResult
from mercer.statistics.contrast import Contrast, check_estimator, require_observations
from mercer.statistics.dependence import present, taken, ways
from mercer.statistics.moments import gamma_tail, invariants, pearson_tail, permutation_moments
from mercer.statistics.permutation import Shuffle, resample
from mercer.statistics.samples import Pair, as_counts, as_rng, paired
from mercer.statistics.shuffled_pairs import bound_values, centred_matrix, gram_matrix
from mercer.statistics.two_sample import drawn_result

__all__ = ["hsic_test"]

NULLS = ("permutation", "gamma", "moments")


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
    the variables are independent.

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
        estimate under independence (Gretton et al. 2008), for large n; the values of the kernels
        are never stored.
    blocks : int or array of shape (n,), optional
        Rows that move together, for dependent data: the length of runs of consecutive rows of a
        time series, several times as long as its memory, or a label for each row.
    strata : array of shape (n,), optional
        Labels; rows are exchanged only within a stratum. That tests independence given the
        stratum.
    sample_weight : array of shape (n,), optional
        Weights of the pairs. Whole numbers count repetitions, and the test is that of the repeated
        rows. Other weights stay with the rows of X, a valid test where they depend on X alone.
    early_stop : int, optional
        Stop at so many shuffles that reach the statistic: large p-values then cost few shuffles.
    rank : int, optional
        Approximate both kernels by so many features, for large n. The level does not suffer, as the
        features know nothing of the pairing.

    Returns
    -------
    TestResult
        ``statistic``, ``pvalue``, ``null`` and more. With `rank`, ``extra["approximation_error"]``
        is the most by which the statistic differs from that of the kernels themselves; without
        shuffles, ``extra`` has the mean and variance (and skewness) of the null.

    References
    ----------
    Gretton, Fukumizu, Teo, Song, Schölkopf, Smola, "A kernel statistical test of independence",
    NIPS 2008; Kazi-Aoual, Hitier, Sabatier, Lebreton, "Refined approximations to permutation tests
    for multivariate inference", Comput. Statist. Data Anal. 20 (1995).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> y = x**2 + 0.5 * rng.normal(size=100)
    >>> abs(np.corrcoef(x, y)[0, 1]) < 0.2
    np.True_
    >>> hsic_test(x, y, rng=0).pvalue
    0.001
    """
    owner = "hsic_test"
    unbiased = check_estimator(estimator, owner)
    if null not in NULLS:
        raise InvalidInput(f"{owner}: null={null!r}; give one of {', '.join(map(repr, NULLS))}.")
    generator = as_rng(rng, owner)
    given = paired(X, Y, kernel_x, kernel_y, sample_weight, owner)
    pair, blocks, strata = _repeated(given, blocks, strata, owner)
    total = float(pair.n if pair.weights is None else pair.weights.sum())
    require_observations(total, unbiased, owner)
    sizes = (given.n,)
    if null != "permutation":
        shuffled = {"blocks": blocks, "strata": strata, "early_stop": early_stop, "rank": rank}
        _refuse(null, unbiased, pair, shuffled, owner)
        return (_moments if null == "moments" else _gamma)(pair, unbiased, sizes, owner)
    design = Shuffle(pair.n, blocks=blocks, strata=strata, owner=owner)
    way = ways(pair, unbiased, rank, generator, owner)
    batch = max(16, get_config().memory // (128 * pair.n))
    drawn = resample(
        way.observed,
        way.evaluate,
        design,
        n_permutations,
        generator,
        early_stop=early_stop,
        largest_batch=int(batch),
        resolution=way.resolution,
        owner=owner,
    )
    extra = {} if rank is None else {"approximation_error": way.error}
    method = _words(pair, given, estimator, blocks, strata, rank, way.words)
    return drawn_result(drawn, method, sizes, extra)


def _repeated(pair: Pair, blocks: Any, strata: Any, owner: str) -> tuple[Pair, Any, Any]:
    """Return the pair of repeated rows where weights are counts, else that of the rows present."""
    n, counts = pair.n, as_counts(pair.weights)
    if pair.weights is None or (counts is not None and (counts == 1).all()):
        return Pair(pair.kernel_x, pair.X, pair.kernel_y, pair.Y, n, None), blocks, strata
    if counts is None:
        index, kept = np.flatnonzero(pair.weights > 0), present(pair, owner)
    else:
        index = np.repeat(np.arange(n), counts)
        if not len(index):
            raise InvalidInput(f"{owner}: all weights are 0; give at least one row a weight.")
        kept = taken(pair, index)
    if isinstance(blocks, int | np.integer) and not isinstance(blocks, bool) and blocks > 0:
        blocks = np.arange(n) // int(blocks)  # runs of the rows as they were given

    def follow(labels: Any) -> Any:
        array = np.asarray(labels)
        return array[index] if array.shape[:1] == (n,) else labels

    strata = None if strata is None else follow(strata)
    return kept, None if blocks is None else follow(blocks), strata


def _refuse(null: str, unbiased: bool, pair: Pair, options: dict[str, Any], owner: str) -> None:
    """Refuse what only shuffles can do."""
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"{owner}: {name} is for null='permutation'; null={null!r} is a formula for all "
                "shuffles of single rows."
            )
    if pair.weights is not None:
        raise InvalidInput(
            f"{owner}: null={null!r} takes weights that are whole numbers; use "
            "null='permutation' for others."
        )
    if null == "gamma" and unbiased:
        raise InvalidInput(
            f"{owner}: null='gamma' is the law of the biased estimate; use estimator='biased', or "
            "null='moments'."
        )
    if null == "gamma" and pair.n < 6:
        raise InvalidInput(
            f"{owner}: null='gamma' needs at least 6 observations, got {pair.n}; use "
            "null='permutation'."
        )


def _gamma(pair: Pair, unbiased: bool, sizes: tuple[int, ...], owner: str) -> TestResult:
    """Return the test by the gamma law of Gretton et al. (2008), for kernels of any diagonal.

    The mean is (E k(x,x) − ‖μ‖²)(E l(y,y) − ‖ν‖²)/n, the variance 2(n−4)(n−5)/(n(n−1)(n−2)(n−3))
    times the mean of (Kc ∘ Lc)² off the diagonal, an estimate of ‖Cxx‖²‖Cyy‖².
    """
    n, ones = pair.n, np.ones(pair.n)
    x, sums_x, diag_x = bound_values(pair.kernel_x, pair.X)
    y, sums_y, diag_y = bound_values(pair.kernel_y, pair.Y)
    a, b = Contrast.of(sums_x, diag_x, ones, False), Contrast.of(sums_y, diag_y, ones, False)

    def step(tiles: list[np.ndarray], rows: slice, cols: slice) -> list[Any]:
        both = a.tile(tiles[0], rows, cols) * b.tile(tiles[1], rows, cols)
        return [both.sum(), np.vdot(both, both)]

    total, squares = joint([x, y], 2, step)  # of Kc ∘ Lc/n⁴ and its square
    if a.scale == 0.0 or b.scale == 0.0:
        return TestResult(0.0, 1.0, None, "gamma approximation (asymptotic)", 0, sizes)
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
    return TestResult(
        statistic,
        gamma_tail(statistic, mean, variance),
        None,
        "gamma approximation (asymptotic)",
        0,
        sizes,
        extra={"mean": mean, "variance": variance},
    )


def _moments(pair: Pair, unbiased: bool, sizes: tuple[int, ...], owner: str) -> TestResult:
    """Return the test by the exact moments over all shuffles."""
    n = pair.n
    require_memory(
        24 * n * n,
        f"{owner}: the two {n} × {n} matrices for null='moments'",
        "Use null='gamma', or rank=… with null='permutation'",
    )
    K = gram_matrix(pair.kernel_x, pair.X)
    A = Contrast.of(K.sum(axis=1), K.diagonal().copy(), np.ones(n), unbiased).dense(K)
    L = centred_matrix(gram_matrix(pair.kernel_y, pair.Y))
    statistic = float(np.vdot(A, L))
    moments = permutation_moments(invariants(A), invariants(L), n)
    return TestResult(
        statistic,
        pearson_tail(statistic, moments),
        None,
        "exact moments over all permutations, tail of the Pearson III law (approximate)",
        0,
        sizes,
        extra={
            "mean": moments.mean,
            "variance": moments.variance,
            "skewness": moments.skewness,
        },
    )


def _words(
    pair: Pair, given: Pair, estimator: str, blocks: Any, strata: Any, rank: Any, more: str
) -> str:
    """Say how the null was drawn."""
    what = "blocks of rows" if blocks is not None else "rows"
    where = " within strata" if strata is not None else ""
    notes = [f"{estimator} HSIC", f"permutations of {what}{where}"]
    if pair.weights is not None:
        notes.append("weights stay with X")
    elif given.weights is not None:
        notes.append("weights count rows, which move on their own")
    if rank is not None:
        notes.append(f"kernels of rank {int(rank)}")
    return ", ".join([*notes, more] if more else notes)
