"""Leave-one-out densities, and the bandwidth at which their likelihood is largest.

A row is left out with all its weight:

    p₋ᵢ(xᵢ) = Σⱼ≠ᵢ wⱼ κ(xᵢ − xⱼ) / Σⱼ≠ᵢ wⱼ.

Where every row has a copy, Σ wᵢ log p₋ᵢ(xᵢ) has no maximum: it grows without bound as the bandwidth
goes to 0. Where a single row has none, it falls there, as −1/h² for the gaussian kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from mercer.errors import InvalidInput, speaks, who
from mercer.memory import row_blocks
from mercer.models.density.bandwidth import Smoothing, sums_of_others
from mercer.solvers import Solution

STEP = math.log(1.5)  # of the logarithm of the bandwidth, on the first grid
KINKS = 40  # steps at least, and once more around the best, where the slope jumps
INSIDE = 1e-6  # relative distance of the least bandwidth to that at which a likelihood is 0
FLAT = 1e-6  # slope of the mean log-likelihood at which it counts as largest
CELLS, ROUNDS = 512, 20  # of a likelihood that jumps itself: cells at a time, and how often


def left_out(
    Z: np.ndarray, w: np.ndarray | None, kernel: Smoothing, radius: float = 1.0
) -> np.ndarray:
    """Return log p₋ᵢ(xᵢ) of every row of the density in these coordinates."""
    return _Left(Z, w, kernel).at(math.log(radius), radius)[0] + kernel.log_normaliser(Z.shape[1])


def has_lone_rows(X: np.ndarray) -> bool:
    """Whether some row has no copy among the others."""
    return bool((np.unique(X, axis=0, return_counts=True)[1] == 1).any())


class _Left:
    """log p₋ᵢ(xᵢ), but for the normaliser, at any bandwidth."""

    def __init__(self, Z: np.ndarray, w: np.ndarray | None, kernel: Smoothing):
        self.Z, self.w, self.kernel = Z, w, kernel
        weights = np.ones(len(Z)) if w is None else w
        # In units of the largest weight: the sum of huge ones is no number.
        size = max(1.0, float(weights.max()))
        self.share = weights / size / float((weights / size).sum())
        with np.errstate(divide="ignore"):
            self.log_left = np.log(sums_of_others(weights / size)) + math.log(size)
        self.n_evaluations = 0

    def at(
        self, log_radius: float, radius: float | None = None, slopes: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log p₋ᵢ of the rows, and their derivatives by the logarithm of the bandwidth."""
        self.n_evaluations += 1
        n, d = self.Z.shape
        radius = math.exp(log_radius) if radius is None else radius
        found = self.kernel.log_sums(None, self.Z, self.w, radius=radius, slopes=slopes)
        logs, slope = found if slopes else (found, np.zeros(n))
        out = np.full(n, -np.inf)  # where nothing is left, too
        np.subtract(logs, self.log_left, out=out, where=~np.isneginf(logs))
        return out - d * log_radius, slope - d

    def mean(self, log_radius: float) -> tuple[float, float]:
        """Return the mean of log p₋ᵢ, and its derivative."""
        logs, slopes = self.at(log_radius, slopes=True)
        return float(self.share @ logs), float(self.share @ slopes)

    def means_of_jumps(self, edges: np.ndarray) -> np.ndarray:
        """Return the mean of log p₋ᵢ of "tophat" at many bandwidths, in one pass over the pairs."""
        (n, d), m = self.Z.shape, len(edges)
        weights = np.ones(n) if self.w is None else self.w
        size = float(weights.max())
        out = -d * np.log(edges)
        for rows in row_blocks(n, 8 * (5 * n + 3 * m)):
            D = self.kernel.distances(self.Z[rows], self.Z)
            D[np.arange(len(D)), np.arange(rows.start, rows.stop)] = np.inf
            cell = np.searchsorted(edges, D, side="right")
            cell += (m + 1) * np.arange(len(D))[:, None]
            counts = np.bincount(
                cell.ravel(), np.broadcast_to(weights / size, D.shape).ravel(), len(D) * (m + 1)
            )
            near = np.cumsum(counts.reshape(len(D), m + 1)[:, :m], axis=1)
            with np.errstate(divide="ignore"):
                out += self.share[rows] @ (np.log(near) + math.log(size))
            out -= self.share[rows] @ self.log_left[rows]
        return out


@speaks("KernelDensity", unless_spoken=True)
def best_factor(
    Z: np.ndarray, w: np.ndarray | None, kernel: Smoothing, log_unit: float = 0.0
) -> Solution:
    """Return the factor h at which Σ wᵢ log p₋ᵢ(xᵢ) of the density with bandwidth h is largest.

    Between bounds that hold all maxima the slope is taken on a grid; wherever it falls through 0,
    Brent's method finds the place, and the best of these is the answer. The likelihood of "tophat"
    jumps and has no slope to follow; of it see `_best_jump`.

    Z : array of shape (n, d)
        Rows, in units of the scales of the columns.
    w : array of shape (n,), optional
        Their weights, positive.
    kernel : Smoothing
        The kernel.
    log_unit : float, default=0
        Logarithm of the volume of a unit of Z, for the likelihood that is told.
    """
    left = _Left(Z, w, kernel)
    near = kernel.nearest(Z)
    if not (near > 0).any():
        raise InvalidInput(
            f"{who()}: every row has a copy of itself among the others, and then the leave-one-out "
            "likelihood grows without bound as the bandwidth goes to 0. Use bandwidth='silverman', "
            "or drop copies."
        )
    low, high = _bounds(left, near, kernel)
    if kernel.name == "tophat":
        best, residual = _best_jump(left.means_of_jumps, low, high, Z.shape[1])
    else:
        best, residual = _best_root(left.mean, low, high, Z.shape[1], kernel.compact)
    score = left.mean(best)[0] + kernel.log_normaliser(Z.shape[1]) - log_unit
    flat = residual <= FLAT
    told = (
        f"{who()}: the search for a bandwidth ended where the mean log-likelihood still has the "
        f"slope {residual:.3g}. Try kernel='gaussian'."
    )
    return Solution(
        value=math.exp(best),
        converged=flat,
        message="" if flat else told,
        n_iter=left.n_evaluations,
        residual=residual,
        extra={"score": score},
    )


def _bounds(left: _Left, near: np.ndarray, kernel: Smoothing) -> tuple[float, float]:
    """Return logarithms between which the likelihood has its maximum.

    Of the gaussian kernel the slope is Σ wᵢ(E[s]/h² − d), E a mean of squared distances from xᵢ:
    it is 0 where h² is a mean of E[s]/d, so between those of nearest and farthest points. Likewise
    of the exponential kernel for h and E[√s]/d, in every norm. Of the others the likelihood is 0 up
    to the largest of the nearest distances, and falls once h is three times the largest distance.
    """
    d = left.Z.shape[1]
    gaps = left.Z - left.Z.mean(axis=0)
    widest = 2.0 * float(kernel.distances(gaps, np.zeros((1, d))).max())
    if kernel.name == "gaussian":
        least, most = math.sqrt(float(left.share @ near**2) / d), widest / math.sqrt(d)
    elif kernel.name == "exponential":
        least, most = float(left.share @ near) / d, widest / d
    else:
        least, most = float(near.max()) * (1 + INSIDE), 3.0 * widest
    return math.log(least), math.log(max(most, least * (1 + INSIDE)))


def _best_root(
    mean: Callable[[float], tuple[float, float]], low: float, high: float, d: int, kinks: bool
) -> tuple[float, float]:
    """Return where a mean is largest of all places at which its slope falls through 0; its slope.

    With kinks there are many such places, and cells that may hold the largest (see `_cells`) are
    divided once more. The slope is + on the left and − on the right of what Brent's method looks
    at, throughout: jumps of the slope all go up, so what is found is a maximum.
    """
    steps = max(KINKS if kinks else 1, math.ceil((high - low) / STEP))
    grid = np.linspace(low, high, steps + 1)
    values, slopes = np.array([mean(t) for t in grid]).T
    if kinks:
        ends = np.column_stack([grid[:-1], grid[1:]])
        finer = np.setdiff1d(_cells(ends, values[1:], values.max(), d, KINKS), grid)
        added = np.array([mean(t) for t in finer]).reshape(-1, 2).T
        order = np.argsort(np.r_[grid, finer])
        grid, values, slopes = (
            np.r_[old, new][order]
            for old, new in zip((grid, values, slopes), (finer, *added), strict=True)
        )
    # Rounding may leave the maximum at an end.
    found = [
        (values[i], grid[i], abs(slopes[i]))
        for i, here in ((0, slopes[0] <= 0), (-1, slopes[-1] > 0))
        if here
    ]
    for k in np.flatnonzero((slopes[:-1] > 0) & (slopes[1:] <= 0)):
        at = brentq(lambda t: mean(t)[1], grid[k], grid[k + 1], xtol=1e-13, rtol=1e-13)
        value, slope = mean(at)
        found.append((value, at, abs(slope)))
    _, at, slope = max(found)
    return float(at), float(slope)


def _cells(ends: np.ndarray, values: np.ndarray, best: float, d: int, parts: int) -> np.ndarray:
    """Return edges that divide the cells which may hold more than the best, in so many parts.

    φ falls, so that every sum within h is below that within k > h, and the mean at h below that at
    k plus d log(k/h). `values` are those at the upper ends, and all are logarithms.
    """
    kept = ends[values + d * (ends[:, 1] - ends[:, 0]) > best]
    if not len(kept):
        return np.empty(0)
    return np.linspace(kept[:, 0], kept[:, 1], max(2, parts // len(kept)) + 1, axis=1)


def _best_jump(
    means: Callable[[np.ndarray], np.ndarray], low: float, high: float, d: int
) -> tuple[float, float]:
    """Return where the mean of "tophat" is largest, and by how much it may be larger elsewhere.

    Cells that cannot hold the maximum are dropped, and the others divided, again and again.
    """
    edges = np.linspace(low, high, CELLS + 1)
    ends = np.column_stack([edges[:-1], edges[1:]])
    best, at, spare = -math.inf, low, math.inf
    for _ in range(ROUNDS):
        values = means(np.exp(ends[:, 1]))
        k = int(np.argmax(values))
        if values[k] > best:
            best, at = float(values[k]), float(ends[k, 1])
        bounds = values + d * (ends[:, 1] - ends[:, 0])
        spare = max(0.0, float(bounds.max()) - best)
        if spare <= FLAT:
            break
        cuts = _cells(ends, values, best, d, CELLS)
        ends = np.column_stack([cuts[:, :-1].ravel(), cuts[:, 1:].ravel()])
    return at, spare
