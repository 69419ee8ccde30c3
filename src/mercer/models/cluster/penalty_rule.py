"""Which penalty makes DP-means find about k clusters: a look at the farthest points first."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.models.cluster.dpmeans import DPMeans
from mercer.models.cluster.dpmeans_solver import farthest_first, partition
from mercer.models.cluster.dpmeans_space import Space

__all__ = ["penalty_from_k"]

TRIALS, SWEEPS = 8, 300  # of DP-means, and in each
ABOUT = 10  # k is missed where the number found is off by more than one in so many
SMALLEST = float(np.finfo(float).tiny)  # squares below this have lost digits


def penalty_from_k(X: Any, k: int, kernel: Any = None, *, sample_weight: Any = None) -> float:
    r"""Return a penalty λ with which DP-means finds about k clusters.

    Starting from the mean of all points, the point farthest from all chosen ones is chosen, over
    and over; d₁² ≥ d₂² ≥ … are its squared distances (Kulis and Jordan, 2012, take λ = d_k²). A
    penalty in [d²_{j+1}, d_j²) makes the first sweep of DP-means open j clusters beside that of the
    mean, which may lose all its points to them. Of j = k − 1 and j = k, those that leave k clusters
    come into question; the wider gap d_j²/d²_{j+1} wins and λ is the geometric mean of its ends, or
    a quarter of the upper one where the lower one is zero. If neither is left, λ = d_k².

    Where clusters are apart DP-means then finds k of them. Elsewhere means move and another number
    may come out: λ is doubled or halved until k lies between two numbers of clusters, and the
    interval is halved in logarithms; the λ whose number has the ratio nearest to 1 with k is
    returned. At most 8 fits are tried. Some data have no λ near, since the number jumps there; a
    warning tells where that is off by more than a tenth of k. In feature space it jumps where the
    kernel is narrower than the clusters: every point then is about √k(x, x) from all means. The
    length scale must be of the size of the clusters, of their diameter rather than less.

    Parameters
    ----------
    X : collection of n points
        What `DPMeans` is to be fitted on; the Gram matrix when precomputed.
    k : int
        How many clusters, 1 ≤ k ≤ n.
    kernel : Kernel, str or callable, optional
        That of the DP-means; None for the space of the data.
    sample_weight : float or array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        λ, in units of squared distances.

    References
    ----------
    B. Kulis, M. I. Jordan, Revisiting k-means: new algorithms via Bayesian nonparametrics,
    International Conference on Machine Learning (2012), section 3.

    Examples
    --------
    >>> from mercer import DPMeans, penalty_from_k
    >>> X = [[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]]
    >>> DPMeans(penalty_from_k(X, 3)).fit(X).n_clusters_
    3
    """
    owner = "penalty_from_k"
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise InvalidInput(f"{owner}: k={k!r}; give a whole number ≥ 1.")
    space, shift = DPMeans(kernel=kernel)._space(X, sample_weight, owner)[1:]
    n = int((space.weights > 0).sum())
    if k > n:
        raise InvalidInput(f"{owner}: k={k} clusters of {n} points; give at most {n}.")
    squares, left = farthest_first(space, int(k) + 1)
    squares = np.where(squares > space.least, squares, 0.0)
    penalty = _choose(squares, left, int(k))
    trials: dict[float, int] = {}
    if penalty > 0:
        penalty, trials = _tried(space, penalty, int(k), owner)
    out = DPMeans._in_units(penalty, 2 * shift, owner)
    if penalty > 0 and out < SMALLEST:
        raise InvalidInput(
            f"{owner}: the squares of distances are below the range of floats; multiply the "
            "columns, for example by sklearn.preprocessing.StandardScaler."
        )
    if trials and abs(trials[penalty] - k) > k / ABOUT:
        found = {DPMeans._in_units(p, 2 * shift, owner): count for p, count in trials.items()}
        warnings.warn(_advice(found, int(k), kernel, owner), UserWarning, stacklevel=2)
    return out


def _tried(space: Space, penalty: float, k: int, owner: str) -> tuple[float, dict[float, int]]:
    """Return the penalty with which DP-means finds a number nearest to k, and all numbers found."""
    low, high = 0.0, np.inf  # with too many clusters, and with too few
    trials: dict[float, int] = {}
    for _ in range(TRIALS):
        count = trials[penalty] = partition(space, penalty, SWEEPS, owner).value.count
        if count == k:
            break
        low, high = (penalty, high) if count > k else (low, penalty)
        if low == 0.0 or high == np.inf:
            penalty = penalty / 2 if low == 0.0 else penalty * 2
        else:
            penalty = (low**0.5) * (high**0.5)
    return min(trials, key=lambda p: abs(float(np.log(trials[p] / k)))), trials


def _advice(trials: dict[float, int], k: int, kernel: Any, owner: str) -> str:
    """Return what to say where no number of clusters was near k: those next to it, and a cure."""
    many = [p for p, count in trials.items() if count > k]
    few = [p for p, count in trials.items() if count < k]
    ends = ([max(many)] if many else []) + ([min(few)] if few else [])
    cure = (
        "Ask for another number, or use KernelKMeans, which takes it as given."
        if kernel is None
        else "The number jumps where the kernel is narrower than the clusters: a wider one, with "
        "a length scale of their size, has smaller jumps."
    )
    told = ", ".join(f"{p:.6g} gives {trials[p]}" for p in ends)
    return f"{owner}: no penalty that was tried gives about {k} clusters: {told}. {cure}"


def _choose(squares: np.ndarray, left: np.ndarray, k: int) -> float:
    """Return λ for k clusters from d²_1 … d²_{k+1} and what is left to the mean before each."""
    best, chosen = 1.0, float(squares[k - 1])
    for j in (k - 1, k):
        low = float(squares[j])
        if j == 0 or j + int(left[j]) != k:
            continue
        high = float(squares[j - 1])
        gap = high / low if low > 0 else (np.inf if high > 0 else 1.0)
        if gap > best:
            best, chosen = gap, (low**0.5) * (high**0.5) if low > 0 else high / 4
    return chosen
