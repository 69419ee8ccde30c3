"""The alternating minimisation of DP-means, with clusters opened at the farthest points first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.models.cluster.dpmeans_space import Nearest, Space
from mercer.solvers import Solution

__all__ = ["Partition", "farthest_first", "partition"]

GROWTH = 4  # a sweep opens one cluster for so many that there are, whatever the rims


@dataclass
class Partition:
    """Labels of all points, how many clusters, and the sum of weighted squared distances."""

    labels: np.ndarray
    count: int
    inertia: float


def partition(space: Space, penalty: float, max_iter: int, owner: str) -> Solution:
    r"""Return a partition that no step of DP-means improves.

    A sweep from a partition and its means: every point goes to the nearest mean; then, as long as
    some point has a squared distance above λ to all means, and above 4λ to the centres that this
    sweep opened, the farthest one becomes a centre, and all points that are nearer to it join it;
    clusters without points go; means are taken anew. A centre just opened is on the rim of its
    cluster, whose other rim is up to 2√λ away: hence 4λ until it has moved. Where no points are
    farther apart than 2√λ (φ(x) of length 1 are nowhere farther apart than 2) that would be one
    cluster a sweep: a sweep that has opened less than a quarter of the present number goes on with
    the points that wait. The first two steps lower the objective at fixed centres: opening at xᵢ by
    Σⱼ wⱼ max(0, dⱼ² − ‖xⱼ − xᵢ‖²) − λ, which is at least wᵢdᵢ² − λ > 0 for wᵢ ≥ 1 and is looked at
    before it is done for smaller weights. The third lowers it by λ a cluster, and means minimise it
    for given clusters. So it never rises; a sweep that does not lower it is the last, and there
    are finitely many partitions.

    Parameters
    ----------
    space : Space
        The points.
    penalty : float
        λ ≥ 0.
    max_iter : int
        Limit on the sweeps.
    owner : str
        Who asks; messages begin with it.

    Returns
    -------
    Solution
        Value is a `Partition`; ``residual`` how much nearer another mean, or how much farther than
        √λ in squares the own one is, relative to the largest square of a distance.
    """
    w = space.weights
    labels, count = np.zeros(space.n, dtype=np.intp), 1
    path: list[float] = []
    kept: tuple[np.ndarray, int, Nearest] | None = None
    sweeps = 0
    while True:
        found = space.to_means(labels, count)
        value = float(w @ found.own) + penalty * count
        if kept is not None and value >= path[-1]:
            labels, count, found = kept  # what rounding calls better is not
            message = ""
            break
        path.append(value)
        kept = labels, count, found
        new, centres = _sweep(space, labels, count, found, penalty)
        if centres == count and np.array_equal(new[w > 0], labels[w > 0]):
            message = ""
            break
        if sweeps == max_iter:
            message = (
                f"{owner}: points still change their clusters after {sweeps} sweeps; raise "
                "max_iter."
            )
            break
        sweeps += 1
        labels, count = _without_empty(new, w, centres)
    absent = w == 0
    labels[absent] = found.index[absent]
    inertia = float(w @ found.own)
    return Solution(
        Partition(labels, count, inertia),
        converged=not message,
        n_iter=sweeps,
        residual=_violation(space, found, penalty),
        primal=path[-1],
        message=message,
        extra={"objectives": path},
    )


def _sweep(
    space: Space, labels: np.ndarray, count: int, found: Nearest, penalty: float
) -> tuple[np.ndarray, int]:
    """Return new labels at fixed centres, and the number of centres with those opened."""
    w = space.weights
    moves = found.squares < found.own - space.slack
    labels = np.where(moves, found.index, labels)
    squares = np.where(moves, found.squares, found.own)
    # Rows of weight 0 are not there; a row that is not worth a cluster is not asked again.
    asked, waits = np.where(w > 0, squares, -1.0), np.zeros(space.n, dtype=bool)
    bound, enough = penalty + space.least, count + max(1, count // GROWTH)
    while True:
        candidates = np.where(waits, -1.0, asked)
        if candidates.max() <= bound and count < enough:
            candidates = asked
        i = int(candidates.argmax())
        if candidates[i] <= bound:
            return labels, count
        to_point = space.to_point(i)
        to_point[i] = 0.0
        closer = to_point < squares - space.slack
        closer[i] = True
        if float(w[closer] @ (squares[closer] - to_point[closer])) <= penalty:
            asked[i] = -1.0
            continue
        labels[closer], squares[closer] = count, to_point[closer]
        # Points within 2√λ may belong to a cluster of which this one is the rim: its mean decides.
        waits |= to_point <= 4 * penalty
        asked = np.minimum(asked, squares)
        count += 1


def _without_empty(labels: np.ndarray, w: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Return labels without gaps, in the same order; rows of weight 0 are in cluster 0."""
    full = np.bincount(labels[w > 0], minlength=count) > 0
    number = np.cumsum(full) - 1
    return np.where(w > 0, number[labels], 0), int(full.sum())


def _violation(space: Space, found: Nearest, penalty: float) -> float:
    """Return the largest violation of the conditions of DP-means, relative to the scale."""
    there = space.weights > 0
    nearer = float((found.own - found.squares)[there].max())
    asked = np.where(there & (found.own > penalty + space.least), found.own, -1.0)
    farther = 0.0
    while (i := int(asked.argmax())) >= 0 and asked[i] > penalty:
        gains = found.own - space.to_point(i)
        gains[i] = found.own[i]
        if float(space.weights @ np.maximum(gains, 0.0)) > penalty:
            farther = float(asked[i]) - penalty
            break
        asked[i] = -1.0
    return max(nearer, farther) / (space.scale or 1.0)


def farthest_first(space: Space, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances at which points are opened, and what is left to the mean.

    Starting from the mean of all points, `rounds` times the point farthest from all chosen ones is
    chosen. ``squares[j]`` is the squared distance of the (j + 1)-th, and ``left[j]`` tells whether
    some point is still nearest to the mean before it is chosen.
    """
    there = space.weights > 0
    near = space.to_means(np.zeros(space.n, dtype=np.intp), 1).own
    near = np.where(there, near, 0.0)
    mean = there.copy()
    squares, left = np.zeros(rounds), np.zeros(rounds, dtype=bool)
    for j in range(rounds):
        i = int(near.argmax())
        squares[j], left[j] = near[i], mean.any()
        to_point = space.to_point(i)
        to_point[i] = 0.0
        closer = to_point < near - space.slack
        closer[i] = True
        mean &= ~closer
        near[closer] = to_point[closer]
    return squares, left
