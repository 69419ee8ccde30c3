"""The Hilbert-Schmidt independence criterion: how far a joint law is from independence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.statistics.base import check_estimator
from mercer.statistics.contrast import require_observations
from mercer.statistics.factors import pivoted_factor
from mercer.statistics.observations import observations, rescaled
from mercer.statistics.samples import Pair, as_rng, paired
from mercer.statistics.shuffled_pairs import Factored, shuffles

__all__ = ["hsic", "ways"]


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
    owner = "hsic"
    unbiased = check_estimator(estimator, owner) == "unbiased"
    given = paired(X, Y, kernel_x, kernel_y, sample_weight, owner)
    seen = observations(given, owner, repeat=False)
    require_observations(float(seen.weights.sum()), unbiased, owner)
    way = ways(seen.pair, unbiased, rank, as_rng(rng, owner), owner)
    return float(rescaled(way.observed, sum(seen.exponents), owner))


def ways(pair: Pair, unbiased: bool, rank: Any, rng: np.random.Generator, owner: str) -> Any:
    """Return how a pair is measured and shuffled: by factors of a given rank, or exactly.

    Parameters
    ----------
    pair : Pair
        The variables.
    unbiased : bool
        Which estimator.
    rank : int or None
        Number of features.
    rng : Generator
        Source of their pivots.
    owner : str
        Whose arguments they are.
    """
    if rank is None:
        return shuffles(pair, unbiased)
    w = np.ones(pair.n) if pair.weights is None else pair.weights
    x = pivoted_factor(pair.kernel_x, pair.X, rank, rng, owner)
    y = pivoted_factor(pair.kernel_y, pair.Y, rank, rng, owner)
    return Factored(x, y, w, unbiased, place=pair.place)
