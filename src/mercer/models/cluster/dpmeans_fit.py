"""Squared distances to means and to points, in the space of the data and in feature space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from mercer.domains import is_torch
from mercer.errors import NotAKernel, who
from mercer.estimator import INDEFINITE, check_lengths
from mercer.kernels import Kernel
from mercer.memory import row_blocks
from mercer.operators import gram_of
from mercer.settings import get_config
from mercer.solvers import Solution

EPS = float(np.finfo(float).eps)


@dataclass
class Nearest:
    """Of every point the squared distance to its own mean, the nearest mean, and that distance."""

    own: np.ndarray
    index: np.ndarray
    squares: np.ndarray


class DistanceSpace(Protocol):
    """Where n weighted points live.

    `least` is the squared distance below which two points are the same up to rounding, `slack` the
    error of a squared distance, `scale` the size that errors are told relative to.
    """

    n: int
    weights: np.ndarray
    least: float
    slack: float
    scale: float

    def to_means(self, labels: np.ndarray, count: int) -> Nearest:
        """Compare the points with the means of all clusters."""

    def to_point(self, i: int) -> np.ndarray:
        """Return the squared distance of every point to point i."""


def averages(labels: np.ndarray, weights: np.ndarray, count: int) -> sp.csr_array:
    """Return the matrix of shape (count, n) that takes the weighted mean of each cluster."""
    totals = np.bincount(labels, weights, count)
    kept = np.flatnonzero(weights > 0)
    shares = weights[kept] / totals[labels[kept]]
    return sp.csr_array((shares, (labels[kept], kept)), shape=(count, len(labels)))


class _Running:
    """The nearest of means that come some at a time; of equally near ones the first."""

    def __init__(self, labels: np.ndarray):
        n = len(labels)
        self.labels = labels
        self.found = Nearest(np.full(n, np.inf), np.zeros(n, dtype=np.intp), np.full(n, np.inf))

    def add(self, rows: slice, first: int, squares: np.ndarray) -> None:
        """Take in squared distances of some rows to the means from number `first` on."""
        index = squares.argmin(axis=1)
        every = np.arange(len(index))
        least = squares[every, index]
        near = self.found.squares[rows]
        better = least < near
        self.found.index[rows][better] = index[better] + first
        near[better] = least[better]
        mine = self.labels[rows] - first
        here = np.flatnonzero((mine >= 0) & (mine < squares.shape[1]))
        self.found.own[rows][here] = squares[here, mine[here]]


class InputSpace:
    """Rows of numbers with Euclidean distances, taken by differences: exact at any offset."""

    def __init__(self, X: Any, weights: np.ndarray):
        self.n, self.weights = X.shape[0], weights
        share = weights / weights.max()
        share = share / share.sum()
        self.sparse = sp.issparse(X)
        mean = np.asarray(share @ X).ravel()
        self.X: Any = X if self.sparse else np.ascontiguousarray(X - mean)
        self.offset = np.zeros_like(mean) if self.sparse else mean
        self.scale = float(self.square_lengths().max(initial=0.0))
        # The mean of n equal points is off by their number times eps, at worst.
        self.least = (2 * EPS * (self.n + 4)) ** 2 * self.scale
        self.slack = 8 * EPS * X.shape[1] * self.scale
        if self.sparse:
            self.least = self.slack = (8 + self.n**0.5) * EPS * self.scale

    def square_lengths(self) -> np.ndarray:
        """Return the squared length of each row."""
        if self.sparse:
            return np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", self.X, self.X)

    def centres(self, labels: np.ndarray, count: int) -> np.ndarray:
        """Return the means in the coordinates of the data."""
        return np.asarray(self._means(labels, count)) + self.offset

    def _means(self, labels: np.ndarray, count: int) -> np.ndarray:
        means = averages(labels, self.weights, count) @ self.X
        return means.toarray() if sp.issparse(means) else np.asarray(means)

    def to_means(self, labels: np.ndarray, count: int) -> Nearest:
        """Compare the points with the means of all clusters."""
        means, running = self._means(labels, count), _Running(labels)
        for rows in row_blocks(self.n, 32 * count):
            running.add(rows, 0, square_distances(self.X[rows], means))
        return running.found

    def to_point(self, i: int) -> np.ndarray:
        """Return the squared distance of every point to point i."""
        point = self.X[i : i + 1]
        point = point.toarray() if self.sparse else point
        return square_distances(self.X, point)[:, 0]


def square_distances(X: Any, centres: np.ndarray) -> np.ndarray:
    """Return the matrix of squared distances of rows to centres: by differences where dense."""
    if sp.issparse(X):
        lengths = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        squares = lengths[:, None] - 2 * (X @ centres.T) + (centres * centres).sum(axis=1)
        return np.maximum(squares, 0.0)
    from mercer.jit import squared_euclidean

    out = np.empty((len(X), len(centres)))
    squared_euclidean(X, np.ascontiguousarray(centres.T), np.ones(X.shape[1]), out)
    return out


class KernelSpace:
    """Points φ(x) of a kernel, known by its values alone.

    ‖φ(xᵢ) − μ‖² = kᵢᵢ − 2(Km)ᵢ + mᵀKm for the mean μ = Σⱼ mⱼφ(xⱼ): one pass over K for all means.
    """

    def __init__(self, kernel: Kernel, X: Any, weights: np.ndarray):
        self.kernel = kernel
        self.diagonal = check_lengths(kernel, X)
        self.n, self.weights = len(self.diagonal), weights
        self.gram = gram_of(kernel, X, keep=None)
        K = self.gram.kept()
        self.K = None if is_torch(K) else K  # on a device it is multiplied there
        self.scale = float(self.diagonal[weights > 0].max(initial=0.0))
        self.least = self.slack = (8 + self.n**0.5) * EPS * self.scale

    def to_means(self, labels: np.ndarray, count: int) -> Nearest:
        """Compare the points with the means of all clusters."""
        means, running = averages(labels, self.weights, count), _Running(labels)
        for first, some in self._some(means):
            values = self._product(some)
            lengths = some.multiply(values).sum(axis=1)
            values *= -2
            values += np.reshape(lengths, (-1, 1))
            values += self.diagonal
            running.add(slice(0, self.n), first, values.T)
        found = running.found
        self._refuse_indefinite(found.own)
        for squares in (found.own, found.squares):
            np.maximum(squares, 0.0, out=squares)
        return found

    def lengths(self, labels: np.ndarray, count: int) -> np.ndarray:
        """Return the squared length of each mean."""
        means, out = averages(labels, self.weights, count), np.empty(count)
        for first, some in self._some(means):
            out[first : first + some.shape[0]] = some.multiply(self._product(some)).sum(axis=1)
        return np.maximum(out, 0.0)

    def _some(self, means: sp.csr_array) -> Iterator[tuple[int, sp.csr_array]]:
        """Yield means, as many at a time as their products have room for."""
        several = int(max(1, get_config().memory // (64 * self.n)))
        for first in range(0, means.shape[0], several):
            yield first, means[first : first + several]

    def _product(self, means: sp.csr_array) -> np.ndarray:
        """Return m K of shape (means, n)."""
        if self.K is not None:  # one read of K, whatever the number of means
            return np.asarray(means @ self.K)
        return np.ascontiguousarray((self.gram @ means.T.toarray()).T)

    def to_point(self, i: int) -> np.ndarray:
        """Return the squared distance of every point to point i."""
        row = self.K[i] if self.K is not None else self.gram.rows(slice(i, i + 1))[0]
        squares = self.diagonal + (self.diagonal[i] - 2 * row)
        self._refuse_indefinite(squares)
        return np.maximum(squares, 0.0, out=squares)

    def _refuse_indefinite(self, squares: np.ndarray) -> None:
        i = int(squares.argmin())
        if squares[i] < -INDEFINITE * max(self.scale, self.diagonal[i]):
            raise NotAKernel(
                f"{who()}: a squared distance from row {i} is {squares[i]:.3g} < 0. "
                f"{self.kernel} is not a kernel; mercer.check_kernel shows a counter-example."
            )


# ---- The alternating minimisation of DP-means, with clusters opened at the farthest points
# first.


GROWTH = 4  # a sweep opens one cluster for so many that there are, whatever the rims


@dataclass
class Partition:
    """Labels of all points, how many clusters, and the sum of weighted squared distances."""

    labels: np.ndarray
    count: int
    inertia: float


def partition(space: DistanceSpace, penalty: float, max_iter: int) -> Solution:
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
                f"{who()}: points still change their clusters after {sweeps} sweeps; raise "
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
    space: DistanceSpace, labels: np.ndarray, count: int, found: Nearest, penalty: float
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


def _violation(space: DistanceSpace, found: Nearest, penalty: float) -> float:
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


def farthest_first(space: DistanceSpace, rounds: int) -> tuple[np.ndarray, np.ndarray]:
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
