"""Tests of independence over pairs of kernels: no bandwidth to choose, and a valid level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index
from mercer.domains import namespace
from mercer.errors import speaks, who
from mercer.kernels import Kernel
from mercer.memory import require_memory
from mercer.operators import gathered_sums, shuffled
from mercer.settings import get_config
from mercer.statistics.base import TestResult, check_estimator, combined, combined_result
from mercer.statistics.dependence.shuffled import (
    ROUNDING,
    Contrast,
    Factored,
    centred_matrix,
    centred_on_device,
    contrast_on_device,
    fits_device,
    gram_matrix,
    require_observations,
    rounding,
    shuffles,
)
from mercer.statistics.dependence.test import design_words
from mercer.statistics.factors import pivoted_factor, rank_words
from mercer.statistics.kernels import grid, listed
from mercer.statistics.observations import labels_at, observations, rescaled
from mercer.statistics.permutation import Shuffle, resample
from mercer.statistics.samples import Pair, paired


@speaks("hsic_agg_test")
def hsic_agg_test(
    X: Any,
    Y: Any,
    kernels_x: Any = None,
    kernels_y: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "biased",
    n_bandwidths: int = 5,
    families: Any = ("rbf",),
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    rank: int | None = None,
) -> TestResult:
    r"""Test whether two variables are independent, with many pairs of kernels at once.

    Every pair of a kernel for X and one for Y sees the same shuffles. Its criterion is studentised
    by the mean and the deviation over the shuffles and the data, and the statistic of a shuffle is
    the largest over pairs. The p-value is the rank of the data among the shuffles: valid at any
    sample size, with no correction for the number of kernels.

    Parameters
    ----------
    X, Y : collections of n points
        The variables; row i of both belongs together. The Gram matrix when precomputed.
    kernels_x, kernels_y : sequence of Kernel, str or callable, optional
        The collections. When left out, and for vectors only: Gaussian kernels at bandwidths from
        half the 5 % quantile of the distances, or the quantile of five neighbours where that is
        smaller, to twice the largest.
    n_permutations : int, default=999
        Number of shuffles B.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"biased", "unbiased"}, default="biased"
        The statistic of each pair, as in `hsic`.
    n_bandwidths : int, default=5
        Bandwidths of each family of a collection that is made for the data.
    families : sequence of {"rbf", "laplacian"}, default=("rbf",)
        Its families.
    blocks, strata, sample_weight : optional
        As in `hsic_test`. Its `early_stop` and `null` are not offered, as deviations of the
        criteria take all shuffles.
    rank : int, optional
        Approximate every kernel by so many features, for large n. The level does not suffer, at any
        rank, as the features know nothing of the pairing; the power of narrow kernels does, which
        have no small rank.

    Returns
    -------
    TestResult
        The statistic is the largest studentised criterion. ``extra["kernel"]`` is the pair of
        kernels that it is of, ``extra["kernels"]`` are all pairs, with ``extra["statistics"]``,
        their criteria, and ``extra["pvalues"]``, what each alone would say. With `rank`,
        ``extra["rank"]`` and ``extra["trace_error"]`` are the features of the kernels of each pair
        and the parts of their traces that are missed, of shape (pairs, 2), and
        ``extra["approximation_error"]`` is the most by which each criterion is off.

    References
    ----------
    Albert, Laurent, Marrel, Meynaoui, "Adaptive test of independence based on HSIC measures", Ann.
    Statist. 50, 2022; Schrab, Kim, Guedj, Gretton, "Efficient aggregated kernel tests using
    incomplete U-statistics", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import hsic_agg_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=200)
    >>> y = np.sin(12 * x) + 0.3 * rng.normal(size=200)
    >>> hsic_agg_test(x, y, n_permutations=199, rng=0).pvalue
    0.005
    """
    unbiased = check_estimator(estimator) == "unbiased"
    generator = as_rng(rng)
    first, second = paired_collections(
        X, Y, kernels_x, kernels_y, n_bandwidths, families, sample_weight
    )
    given = first[0]
    kernels = [(x.kernel_x, y.kernel_y) for x in first for y in second]
    xs = [observations(pair) for pair in first]
    ys = [observations(pair) for pair in second]
    seen = xs[0]
    require_observations(float(seen.weights.sum()), unbiased)
    design = Shuffle(
        seen.pair.n,
        blocks=labels_at(blocks, seen.index, given.n, "blocks"),
        strata=labels_at(strata, seen.index, given.n, "strata"),
    )
    sides = [x.pair for x in xs], [y.pair for y in ys]
    way: Any
    if rank is None:
        way = _Pairs(*sides, unbiased)
    else:
        way = _RankedPairs(*sides, unbiased, rank, generator)
    drawn = resample(
        None,
        way.evaluate,
        design,
        n_permutations,
        generator,
        largest_batch=int(max(16, get_config().memory // (128 * seen.pair.n))),
        data=np.arange(seen.pair.n),
    )
    T = np.vstack([drawn.observed, drawn.values])
    found = combined(T, way.resolution)
    exponents = [x.exponents[0] + y.exponents[1] for x in xs for y in ys]
    statistics = rescaled(T[0], np.array(exponents))
    notes = [f"largest studentised {estimator} HSIC of {len(kernels)} pairs of kernels"]
    notes += design_words(given, seen, blocks, strata)
    told: dict[str, Any] = {} if rank is None else way.about()
    notes += [f"kernels of {rank_words(told['rank'])}"] if told else []
    result = combined_result(found, kernels, statistics, ", ".join(notes), (given.n,))
    if told:
        error = rescaled(told["approximation_error"], np.array(exponents))
        result.extra.update(told | {"approximation_error": error})
    return result


def paired_collections(
    X: Any,
    Y: Any,
    kernels_x: Any,
    kernels_y: Any,
    n_bandwidths: int,
    families: Any,
    sample_weight: Any,
) -> tuple[list[Pair], list[Pair]]:
    """Return a pair for each kernel of X, and one for each kernel of Y.

    X, Y : collections of n points
        The variables.
    kernels_x, kernels_y : sequence or None
        As the user gave them.
    n_bandwidths, families : object
        Of collections that are made for the data.
    sample_weight : array or None
        Weights.
    """
    several = [None if k is None else listed(k) for k in (kernels_x, kernels_y)]
    heads = [None if k is None else k[0] for k in several]
    pair = paired(X, Y, heads[0], heads[1], sample_weight)

    def made(points: Any, given: list[Kernel] | None) -> list[Kernel]:
        if given is None:
            return grid(points, n_bandwidths, families, pair.weights)
        return given

    firsts, seconds = [], []
    for kernel in made(pair.X, several[0]):
        if kernel.domain == pair.kernel_x.domain:
            firsts.append(replace(pair, kernel_x=kernel.fit_params(pair.X, pair.weights)))
        else:
            firsts.append(paired(X, Y, kernel, heads[1], sample_weight))
    for kernel in made(pair.Y, several[1]):
        if kernel.domain == pair.kernel_y.domain:
            seconds.append(replace(pair, kernel_y=kernel.fit_params(pair.Y, pair.weights)))
        else:
            seconds.append(paired(X, Y, heads[0], kernel, sample_weight))
    return firsts, seconds


class _Pairs:
    """The criteria of all pairs of kernels, matrices stored once where they fit the budget."""

    def __init__(self, xs: list[Pair], ys: list[Pair], unbiased: bool):
        n = xs[0].n
        w = np.ones(n) if xs[0].weights is None else xs[0].weights
        self.stored = 8 * n * n * (len(xs) + len(ys) + 2) <= get_config().memory
        # Else one pair after the other, each in the way that fits, and forgotten.
        self.pairs = [replace(x, kernel_y=y.kernel_y, Y=y.Y) for x in xs for y in ys]
        self.unbiased, self.resolution = unbiased, np.zeros(len(self.pairs))
        self.there = fits_device(xs[0], len(xs) + len(ys)) and all(
            xs[0].place.takes(k, z)  # type: ignore[union-attr]
            for k, z in [(x.kernel_x, x.X) for x in xs] + [(y.kernel_y, y.Y) for y in ys]
        )
        if self.there:
            place: Any = xs[0].place
            self.A = [contrast_on_device(x.kernel_x, x.X, w, unbiased, place) for x in xs]
            self.L = [centred_on_device(y.kernel_y, y.Y, place) for y in ys]
            self.resolution = np.array([rounding(a, b) for a in self.A for b in self.L])
        elif self.stored:
            self.A = []
            for x in xs:
                K = gram_matrix(x.kernel_x, x.X)
                self.A.append(Contrast.of(K @ w, K.diagonal().copy(), w, unbiased).dense(K))
            self.L = [centred_matrix(gram_matrix(y.kernel_y, y.Y)) for y in ys]
            a, b = (np.array([np.linalg.norm(M) for M in side]) for side in (self.A, self.L))
            self.resolution = ROUNDING * np.outer(a, b).ravel()

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the criteria of shuffles, a row for each and a column for each pair."""
        if self.there:
            P = self.L[0].new_tensor(P, dtype=namespace(self.L[0]).int64)
            each = [gathered_sums(self.A, L, P).cpu().numpy() for L in self.L]
            return np.stack(each, axis=2).reshape(len(P), -1)
        if not self.stored:
            columns = np.empty((len(P), len(self.pairs)))
            for k, pair in enumerate(self.pairs):
                way = shuffles(pair, self.unbiased)
                columns[:, k], self.resolution[k] = way.evaluate(P), way.resolution
            return columns
        out = np.empty((len(P), len(self.A), len(self.L)))
        for b, L in enumerate(self.L):
            ends = L.diagonal()[P]
            for a, A in enumerate(self.A):
                out[:, a, b] = 2.0 * shuffled(A, L, P) + ends @ A.diagonal()
        return out.reshape(len(P), -1)


class _RankedPairs:
    """The criteria of all pairs of kernels, each kernel by its own features."""

    def __init__(
        self, xs: list[Pair], ys: list[Pair], unbiased: bool, rank: int, rng: np.random.Generator
    ):
        n = xs[0].n
        w = np.ones(n) if xs[0].weights is None else xs[0].weights
        check_index(rank, "rank", 1)
        require_memory(
            8 * n * min(n, rank) * (2 * len(xs) * len(ys) + len(xs) + len(ys)),
            f"{who()}: {rank} features of {n} points for {len(xs)} and {len(ys)} kernels",
            "Use a smaller rank or fewer kernels",
        )
        first = [pivoted_factor(x.kernel_x, x.X, rank, rng) for x in xs]
        second = [pivoted_factor(y.kernel_y, y.Y, rank, rng) for y in ys]
        place = xs[0].place
        self.ways = [Factored(x, y, w, unbiased, place=place) for x in first for y in second]
        self.resolution = np.array([way.resolution for way in self.ways])

    def evaluate(self, P: np.ndarray) -> np.ndarray:
        """Return the criteria of shuffles, a row for each and a column for each pair."""
        return np.column_stack([way.evaluate(P) for way in self.ways])

    def about(self) -> dict[str, np.ndarray]:
        """Return what is told of the approximation."""
        return {
            "rank": np.array([[f.rank for f in way.factors] for way in self.ways]),
            "trace_error": np.array([[f.share for f in way.factors] for way in self.ways]),
            "approximation_error": np.array([way.error for way in self.ways]),
        }
