"""Distance correlation: the HSIC of distances, a number between 0 and 1, and its test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from mercer.checks import as_rng, check_number
from mercer.errors import speaks, who
from mercer.kernels import RBF, Precomputed, exponent_of
from mercer.memory import require_memory
from mercer.statistics.base import TestResult, check_estimator
from mercer.statistics.dependence.shuffled import Gathered, require_observations
from mercer.statistics.dependence.test import check_options, pair_test
from mercer.statistics.observations import Observations, observations
from mercer.statistics.samples import Pair, paired

COPIES = 8  # matrices of the size of the distances that a correlation makes


@speaks("distance_correlation")
def distance_correlation(
    X: Any,
    Y: Any,
    estimator: str = "biased",
    *,
    exponent: float = 1.0,
    sample_weight: Any = None,
) -> float:
    r"""Return the distance correlation of two variables, of any numbers of columns.

    With a and b the matrices of Euclidean distances among the rows of X and of Y, to the power of
    `exponent`, A and B these centred by rows and columns,

        dCov²(X, Y) = Σᵢⱼ AᵢⱼBᵢⱼ / n²   and   dCor² = dCov²(X, Y) / (dCov(X, X) dCov(Y, Y)).

    It is between 0 and 1: 0 in the population for independent variables, and only for these; 1 for
    rows of Y that are those of X moved, turned, mirrored and scaled. A quarter of dCov² is `hsic`
    with the kernel that distances induce, k(x, x′) = (|x − o| + |x′ − o| − |x − x′|)/2.

    Parameters
    ----------
    X, Y : arrays of n rows
        The variables; row i of both belongs together. Numbers in one dimension are one column.
    estimator : {"biased", "unbiased"}, default="biased"
        "biased" is dCor itself, of the sample; among few rows, or many columns, it is far from 0
        for independent variables too. "unbiased" is the bias-corrected estimate of *dCor²* by
        U-centred matrices: about 0 for independent variables, and negative as often as not. It
        needs four rows.
    exponent : float, default=1
        Of the distances, between 0 and 2.
    sample_weight : array of shape (n,), optional
        Weights of the pairs; a weight of 2 is the pair given twice, 0 the pair left out.

    Returns
    -------
    float
        The correlation; 0 where a variable does not vary.

    References
    ----------
    Székely, Rizzo, Bakirov, "Measuring and testing dependence by correlation of distances", Ann.
    Statist. 35, 2007; Székely, Rizzo, "Partial distance correlation with methods for
    dissimilarities", Ann. Statist. 42, 2014; Sejdinovic, Sriperumbudur, Gretton, Fukumizu,
    "Equivalence of distance-based and RKHS-based statistics in hypothesis testing", Ann. Statist.
    41, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import distance_correlation
    >>> x = np.linspace(-1, 1, 200)
    >>> round(distance_correlation(x, x**2), 3)  # their correlation is 0
    0.491
    >>> round(distance_correlation(x, 3 - 2 * x), 12)
    1.0
    """
    unbiased = check_estimator(estimator) == "unbiased"
    seen = observations(_of_distances(X, Y, exponent, sample_weight), repeat=False)
    require_observations(float(seen.weights.sum()), unbiased)
    found = Gathered(seen.pair.X.copy(), seen.pair.Y.copy(), seen.weights, unbiased).observed
    return float(_correlations(found, seen, unbiased))


@speaks("distance_correlation_test")
def distance_correlation_test(
    X: Any,
    Y: Any,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    estimator: str = "biased",
    exponent: float = 1.0,
    blocks: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    early_stop: int | None = None,
) -> TestResult:
    r"""Test whether two variables are independent, by `distance_correlation`.

    The rows of Y are shuffled against those of X, as in `hsic_test`: the level is exact at any
    sample size.

    Parameters
    ----------
    X, Y : arrays of n rows
        The variables; row i of both belongs together. Numbers in one dimension are one column.
    n_permutations : int, default=999
        Number of shuffles B.
    rng : None, int or Generator
        Source of randomness.
    estimator : {"biased", "unbiased"}, default="biased"
        The estimate that is the statistic.
    exponent : float, default=1
        Of the distances, between 0 and 2.
    blocks, strata, sample_weight, early_stop : optional
        As in `hsic_test`.

    Returns
    -------
    TestResult
        ``statistic`` and ``null`` are distance correlations; ``extra["exponent"]`` is that of the
        distances.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import distance_correlation_test
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 2))
    >>> y = x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=100)
    >>> distance_correlation_test(x, y, rng=0).pvalue
    0.001
    """
    check_options(estimator, "permutation", n_permutations, early_stop)
    generator = as_rng(rng)
    given = _of_distances(X, Y, exponent, sample_weight)
    result = pair_test(
        given,
        n_permutations,
        generator,
        estimator=estimator,
        null="permutation",
        blocks=blocks,
        strata=strata,
        early_stop=early_stop,
    )
    seen, unbiased = observations(given, repeat=False), estimator == "unbiased"
    return replace(
        result,
        statistic=float(_correlations(result.statistic, seen, unbiased)),
        null=_correlations(result.null, seen, unbiased),
        method=result.method.replace("HSIC", "distance correlation", 1),
        extra={"exponent": float(exponent)},
        origin=None,
    )


def _of_distances(X: Any, Y: Any, exponent: Any, sample_weight: Any) -> Pair:
    """Return the variables as Gram matrices of the kernels that distances induce, in any unit."""
    check_number(exponent, "exponent", 0.0, 2.0)
    given = paired(X, Y, RBF(1.0), RBF(1.0), sample_weight)
    require_memory(
        8 * COPIES * given.n**2,
        f"{who()}: distances among {given.n} rows of X and of Y",
        "Test a sample of the rows, or use hsic_test with rank=",
    )
    K, L = _induced(given.X, exponent), _induced(given.Y, exponent)
    return Pair(Precomputed(), K, Precomputed(), L, given.n, given.weights)


def _induced(X: Any, exponent: float) -> np.ndarray:
    """Return (|xᵢ − x₀| + |xⱼ − x₀| − |xᵢ − xⱼ|)/2, times a number: correlations have no unit."""
    if sp.issparse(X):
        X = X[:, np.unique(X.indices)].toarray()
    # Differences of huge numbers are no numbers: all are halved.
    X = np.ldexp(np.asarray(X, dtype=float), -1 - exponent_of(np.abs(X).max(initial=0.0)))
    D = cdist(X, X)
    D = np.ldexp(D, -exponent_of(D.max())) ** exponent
    return 0.5 * (D[0] + D[0][:, None] - D)


def _correlations(values: Any, seen: Observations, unbiased: bool) -> Any:
    """Return HSIC of one pair, or of shuffled ones, over that of each variable with itself."""
    X, Y, w = seen.pair.X, seen.pair.Y, seen.weights
    own = [Gathered(K.copy(), K.copy(), w, unbiased).observed for K in (X, Y)]
    if not min(own) > 0:
        return np.zeros_like(values)
    squared = values / (own[0] ** 0.5 * own[1] ** 0.5)
    return squared if unbiased else np.sqrt(np.maximum(squared, 0.0))
