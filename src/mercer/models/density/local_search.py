"""The factor of a bandwidth with the smallest left-out error: a grid, then Brent's method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["choose_factor"]

LOW, HIGH = 0.1, 4.0  # of the distance to nearest points, and of the largest distance
MOST = 80  # factors on the grid
FINE = 31  # factors between two steps below and two above the best, where errors jump
CLOSE = 1e-4  # relative width at which the search ends: the error is flat at its minimum


def choose_factor(
    errors: Callable[[Sequence[float]], np.ndarray], reach: tuple[float, float], smooth: bool = True
) -> tuple[float, float, np.ndarray]:
    """Return the best factor, its error, and all factors tried with their errors.

    From a bandwidth that takes in everything down to one that sees the nearest point only, in steps
    of √2; then between the neighbours of the best. Of equal errors the largest bandwidth is taken.

    Parameters
    ----------
    errors : callable
        Errors of several factors.
    reach : pair of floats
        The distance to nearest points and the largest distance, positive.
    smooth : bool, default=True
        Whether the error is a smooth function of the factor. With a kernel of bounded support it is
        not: points come in one by one, so a second grid is laid around the best of the first.
    """
    near, far = reach
    steps = int(min(MOST, 1 + np.ceil(2 * np.log2(HIGH * far / (LOW * near)))))
    grid = HIGH * far * 2.0 ** (-0.5 * np.arange(steps))
    tried: list[tuple[float, float]] = []

    def try_all(factors: np.ndarray) -> int:
        found = errors(factors.tolist())
        tried.extend(zip(factors.tolist(), found.tolist(), strict=True))
        return int(found.argmin())

    best = try_all(grid)
    if not smooth:
        low, high = grid[min(best + 2, steps - 1)], grid[max(best - 2, 0)]
        grid = np.geomspace(high, low, FINE)
        best = try_all(grid)
    ends = np.log(grid[[min(best + 1, len(grid) - 1), max(best - 1, 0)]])

    def error(log_factor: float) -> float:
        try_all(np.exp([log_factor]))
        return tried[-1][1]

    minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": CLOSE})
    path = np.array(sorted(tried))
    factor, least = path[len(path) - 1 - int(path[::-1, 1].argmin())]
    return float(factor), float(least), path
