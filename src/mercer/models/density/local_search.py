"""The factor of a bandwidth with the smallest left-out error: a grid, then a closer look."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["choose_factor"]

LOW, HIGH = 0.1, 4.0  # of the distance to nearest points, and of the largest distance
MOST = 80  # factors on the first grid
FINE, ZOOMS = 25, 2  # factors on grids around the best, and how many there are, where errors jump
CLOSE = 1e-4  # relative width at which the search ends: the error is flat at its minimum
EQUAL = 1e-11  # relative difference of errors that is rounding


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
        Whether the error is a smooth function of the factor, and Brent's method ends the search.
        With a kernel of bounded support it is not: points come in one by one, so finer grids are
        laid around the best.
    """
    near, far = reach
    steps = int(min(MOST, 1 + np.ceil(2 * np.log2(HIGH * far / (LOW * near)))))
    grid = HIGH * far * 2.0 ** (-0.5 * np.arange(steps))
    tried = np.empty((0, 2))

    def evaluate(factors: np.ndarray) -> np.ndarray:
        nonlocal tried
        found = errors(factors.tolist())
        tried = np.vstack([tried, np.column_stack([factors, found])])
        return found

    best = _least(evaluate(grid))
    if smooth:
        ends = np.log(grid[[min(best + 1, steps - 1), max(best - 1, 0)]])
        minimize_scalar(
            lambda log_factor: float(evaluate(np.exp([log_factor]))[0]),
            bounds=ends,
            method="bounded",
            options={"xatol": CLOSE},
        )
    else:
        for width in (2,) + (1,) * (ZOOMS - 1):
            high, low = grid[max(best - width, 0)], grid[min(best + width, len(grid) - 1)]
            grid = np.geomspace(high, low, FINE)
            best = _least(evaluate(grid))
    path = tried[np.argsort(-tried[:, 0], kind="stable")]
    factor, error = path[_least(path[:, 1])]
    return float(factor), float(error), path[::-1].copy()


def _least(errors: np.ndarray) -> int:
    """Return the first position of the smallest error, up to rounding."""
    return int(np.argmax(errors <= (1 + EQUAL) * errors.min()))
