"""The Hilbert-Schmidt independence criterion: how far a joint law is from independence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.statistics.contrast import check_estimator, require_observations
from mercer.statistics.factors import pivoted_factor
from mercer.statistics.samples import Pair, as_rng, paired
from mercer.statistics.shuffled_pairs import Factored, shuffles

__all__ = ["hsic"]


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
        Weights of the pairs; a weight of 2 is the pair given twice, 0 the pair left out.
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
    unbiased = check_estimator(estimator, owner)
    pair = present(paired(X, Y, kernel_x, kernel_y, sample_weight, owner), owner)
    w = np.ones(pair.n) if pair.weights is None else pair.weights
    require_observations(float(w.sum()), unbiased, owner)
    return float(ways(pair, unbiased, rank, as_rng(rng, owner), owner).observed)


def ways(pair: Pair, unbiased: bool, rank: Any, rng: np.random.Generator, owner: str) -> Any:
    """Return how a pair is measured and shuffled: by factors of a given rank, or exactly."""
    if rank is None:
        return shuffles(pair, unbiased)
    w = np.ones(pair.n) if pair.weights is None else pair.weights
    x = pivoted_factor(pair.kernel_x, pair.X, rank, rng, owner)
    y = pivoted_factor(pair.kernel_y, pair.Y, rank, rng, owner)
    return Factored(x, y, w, unbiased)


def present(pair: Pair, owner: str) -> Pair:
    """Return the pair without the rows of weight 0."""
    w = pair.weights
    if w is None or (w > 0).all():
        return pair
    kept = np.flatnonzero(w > 0)
    if not len(kept):
        raise InvalidInput(f"{owner}: all weights are 0; give at least one row a weight.")
    return replace(taken(pair, kept), weights=w[kept])


def taken(pair: Pair, index: np.ndarray) -> Pair:
    """Return the rows at some positions, any of them several times; without weights."""

    def part(kernel: Any, X: Any) -> Any:
        if isinstance(kernel.domain, GramRows):
            return X[np.ix_(index, index)]
        return kernel.domain.take(X, index)

    X, Y = part(pair.kernel_x, pair.X), part(pair.kernel_y, pair.Y)
    return Pair(pair.kernel_x, X, pair.kernel_y, Y, len(index), None)
