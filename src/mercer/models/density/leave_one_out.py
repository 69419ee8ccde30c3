"""Leave-one-out densities, and the bandwidth at which their likelihood is largest.

A weight of w is the row given w times, and one copy is left out:

    p₋ᵢ(xᵢ) = (Σⱼ≠ᵢ wⱼ κ(xᵢ − xⱼ) + (wᵢ − rᵢ) κ(0)) / (W − rᵢ),   rᵢ = min(1, wᵢ), W = Σ w.

Where every row has a copy, Σ wᵢ log p₋ᵢ(xᵢ) has no maximum: it grows without bound as the bandwidth
goes to 0. Where a single row has none, it falls there, as −1/h² for the gaussian kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from mercer.engines.profiles import log_sums, nearest_squares
from mercer.errors import InvalidInput
from mercer.models.density.bandwidth import rule_factor
from mercer.models.density.smoothing import Smoothing
from mercer.solvers import Solution

__all__ = ["best_factor", "left_out"]

STEP = math.log(1.5)  # of the logarithm of the bandwidth, until the slope changes its sign
INSIDE = 1e-6  # relative distance of the least bandwidth to that at which a likelihood is 0
FLAT = 1e-6  # slope of the mean log-likelihood at which it counts as largest
GRID, ZOOMS = 41, 4  # points of a grid for a likelihood of jumps, and how often it is refined


def left_out(Z: np.ndarray, w: np.ndarray | None, kernel: Smoothing) -> np.ndarray:
    """Return log p₋ᵢ(xᵢ) of every row, for rows in units of the bandwidth.

    Parameters
    ----------
    Z : array of shape (n, d)
        Rows.
    w : array of shape (n,), optional
        Their weights, positive.
    kernel : Smoothing
        The kernel κ.
    """
    return _Left(Z, w, kernel).at(0.0)[0] + kernel.log_normaliser(Z.shape[1])


class _Left:
    """log p₋ᵢ(xᵢ), but for the normaliser, at any multiple of the bandwidth."""

    def __init__(self, Z: np.ndarray, w: np.ndarray | None, kernel: Smoothing):
        self.Z, self.w, self.kernel = Z, w, kernel
        weights = np.ones(len(Z)) if w is None else w
        self.total = float(weights.sum())
        removed = np.minimum(weights, 1.0)
        self.share = weights / self.total
        with np.errstate(divide="ignore"):
            self.log_rest = np.log(weights - removed)
            self.log_left = np.log(self.total - removed)
        self.n_evaluations = 0

    def at(self, log_factor: float, slopes: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return log p₋ᵢ of the rows, and their derivatives by the logarithm of the factor."""
        self.n_evaluations += 1
        d = self.Z.shape[1]
        Z = self.Z * math.exp(-log_factor)
        found = log_sums(None, Z, self.w, self.kernel.code, slopes=slopes)
        logs, slope = found if slopes else (found, np.zeros(len(Z)))
        whole = np.logaddexp(logs, self.log_rest)
        # The copies that stay are at distance 0, where no bandwidth changes φ.
        part = np.zeros(len(Z))
        some = ~np.isneginf(logs)
        part[some] = np.exp(logs[some] - whole[some])
        out = np.full(len(Z), -np.inf)  # where nothing is left, too
        np.subtract(whole, self.log_left, out=out, where=~np.isneginf(whole))
        return out - d * log_factor, slope * part - d

    def value(self, log_factor: float) -> float:
        """Return the mean of log p₋ᵢ."""
        return float(self.share @ self.at(log_factor)[0])

    def slope(self, log_factor: float) -> float:
        """Return the derivative of the mean."""
        return float(self.share @ self.at(log_factor, slopes=True)[1])


def best_factor(
    Z: np.ndarray,
    w: np.ndarray | None,
    kernel: Smoothing,
    log_unit: float = 0.0,
    owner: str = "KernelDensity",
) -> Solution:
    """Return the factor h at which Σ wᵢ log p₋ᵢ(xᵢ) of the density with bandwidth h is largest.

    The search starts at Silverman's factor and walks uphill until the slope changes its sign; from
    there it is Brent's. It finds the maximum next to its start. The likelihood of "tophat" jumps
    and has no slope to follow: of it the best point of a grid is taken, refined several times.

    Parameters
    ----------
    Z : array of shape (n, d)
        Rows, in units of the scales of the columns.
    w : array of shape (n,), optional
        Their weights, positive.
    kernel : Smoothing
        The kernel.
    log_unit : float, default=0
        Logarithm of the volume of a unit of Z, for the likelihood that is told.
    owner : str, default="KernelDensity"
        Whose it is, for messages.
    """
    d = Z.shape[1]
    left = _Left(Z, w, kernel)
    near = np.sqrt(np.where(np.isneginf(left.log_rest), nearest_squares(Z), 0.0))
    if not (near > 0).any():
        raise InvalidInput(
            f"{owner}: every row has a copy of itself among the others, and then the leave-one-out "
            "likelihood grows without bound as the bandwidth goes to 0. Use bandwidth='silverman', "
            "or drop copies."
        )
    low, high = _bounds(left, near, kernel)
    if kernel.name == "tophat":
        best = _on_grid(left.value, low, high)
        residual = 0.0
    else:
        start = min(max(math.log(rule_factor("silverman", left.total, d)), low), high)
        best = _uphill(left.slope, start, low, high)
        residual = abs(left.slope(best))
    score = left.value(best) + kernel.log_normaliser(d) - log_unit
    flat = residual <= FLAT
    told = (
        f"{owner}: the search for a bandwidth ended at the least that reaches every point, where "
        f"the mean log-likelihood still has the slope {residual:.3g}. Try kernel='gaussian'."
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
    of the exponential kernel for h and E[√s]/d. Of the others the likelihood is 0 up to the largest
    of the nearest distances, and falls once h is three times the largest distance.
    """
    d = left.Z.shape[1]
    gaps = left.Z - left.Z.mean(axis=0)
    widest = 2.0 * math.sqrt(float(np.einsum("ij,ij->i", gaps, gaps).max()))
    if kernel.name == "gaussian":
        least, most = math.sqrt(float(left.share @ near**2) / d), widest / math.sqrt(d)
    elif kernel.name == "exponential":
        least, most = float(left.share @ near) / d, widest / d
    else:
        least, most = float(near.max()) * (1 + INSIDE), 3.0 * widest
    return math.log(least), math.log(max(most, least * (1 + INSIDE)))


def _uphill(slope: Callable[[float], float], start: float, low: float, high: float) -> float:
    """Return a zero of the slope at which it falls, next to the start."""
    at, g = start, slope(start)
    while g != 0.0:
        nxt = min(at + STEP, high) if g > 0 else max(at - STEP, low)
        if nxt == at:  # the end of the range: rounding alone decides
            break
        after = slope(nxt)
        if (after > 0) != (g > 0):
            # + on the left and − on the right throughout: jumps of the slope all go up, so what
            # is found is a maximum.
            return float(brentq(slope, min(at, nxt), max(at, nxt), xtol=1e-13, rtol=1e-13))
        at, g = nxt, after
    return at


def _on_grid(value: Callable[[float], float], low: float, high: float) -> float:
    best = low
    for _ in range(ZOOMS):
        grid = np.linspace(low, high, GRID)
        values = [value(t) for t in grid]
        i = int(np.argmax(values))
        best = float(grid[i])
        low, high = float(grid[max(i - 1, 0)]), float(grid[min(i + 1, GRID - 1)])
    return best
