"""The factor of a bandwidth with the smallest left-out error: a grid, then Brent's method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["choose_factor"]

LOW, HIGH = 0.1, 4.0  # of the distance to nearest points, and of the largest distance
MOST = 80  # factors on the grid
CLOSE = 1e-4  # relative width at which the search ends: the error is flat at its minimum


def choose_factor(
    errors: Callable[[Sequence[float]], np.ndarray], reach: tuple[float, float]
) -> tuple[float, float, np.ndarray]:
    """Return the best factor, its error, and all factors tried with their errors.

    From a bandwidth that takes in everything down to one that sees the nearest point only, in steps
    of √2; then between the neighbours of the best. Of equal errors the largest bandwidth is taken.
    Points that are given several times do not count as near to themselves, so the bandwidth stays
    above 0 whatever is repeated.

    Parameters
    ----------
    errors : callable
        Errors of several factors.
    reach : pair of floats
        The distance to nearest points and the largest distance; 0 where all points are one, where
        every bandwidth says the same, and the factor is 1.
    """
    near, far = reach
    if not far > 0:
        only = float(errors([1.0])[0])
        return 1.0, only, np.array([[1.0, only]])
    steps = int(min(MOST, 1 + np.ceil(2 * np.log2(HIGH * far / (LOW * near)))))
    grid = HIGH * far * 2.0 ** (-0.5 * np.arange(steps))
    found = errors(list(grid))
    best = int(found.argmin())
    tried = list(zip(grid.tolist(), found.tolist(), strict=True))

    def error(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        tried.append((factor, float(errors([factor])[0])))
        return tried[-1][1]

    ends = np.log(grid[[min(best + 1, steps - 1), max(best - 1, 0)]])
    minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": CLOSE})
    path = np.array(sorted(tried))
    factor, least = path[len(path) - 1 - int(path[::-1, 1].argmin())]
    return float(factor), float(least), path
