"""The factor of a bandwidth with the smallest left-out error: a grid, then a closer look."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["choose_factor"]

LOW, HIGH = 0.1, 4.0  # of the distance to nearest points, and of the largest distance
MOST = 80  # factors on the first grid
HALVINGS = 8  # of the steps of the grid, about the best, where the error is smooth
FINE, ZOOMS = 25, 2  # factors on grids around the best, and how many there are, where errors jump
EQUAL = 1e-11  # difference of errors, relative to the largest, that is rounding


def choose_factor(
    errors: Callable[[Sequence[float]], np.ndarray], reach: tuple[float, float], smooth: bool = True
) -> tuple[float, float, np.ndarray]:
    """Return the best factor, its error, and all factors tried with their errors.

    From a bandwidth that takes in everything down to one that sees the nearest point only, in steps
    of √2; then closer around the best. Of equal errors the largest bandwidth is taken. All factors
    but the last are fixed by the reach and by which errors are smaller, so that rounding does not
    show in the answer.

    Parameters
    ----------
    errors : callable
        Errors of several factors.
    reach : pair of floats
        The distance to nearest points and the largest distance, positive.
    smooth : bool, default=True
        Whether the error is a smooth function of the factor: then steps are halved, and a parabola
        ends the search. With a kernel of bounded support it is not: points come in one by one, so
        finer grids are laid around the best.
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

    best = _least(first := evaluate(grid))
    if smooth:
        _halve(lambda logs: evaluate(np.exp(logs)), np.log(grid), first, best)
    else:
        for width in (2,) + (1,) * (ZOOMS - 1):
            high, low = grid[max(best - width, 0)], grid[min(best + width, len(grid) - 1)]
            grid = np.geomspace(high, low, FINE)
            best = _least(evaluate(grid))
    path = tried[np.argsort(-tried[:, 0], kind="stable")]
    factor, error = path[_least(path[:, 1])]
    return float(factor), float(error), path[::-1].copy()


def _halve(
    evaluate: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, errors: np.ndarray, best: int
) -> None:
    """Try what is half a step from the best, again and again, and the bottom of a parabola."""
    at, error, step = grid[best], errors[best], 0.25 * np.log(2.0)
    for _ in range(HALVINGS):
        near = np.clip([at + step, at - step], grid[-1], grid[0])
        places, found = np.insert(near, 1, at), np.insert(evaluate(near), 1, error)
        choice = _least(found)
        at, error, step = places[choice], found[choice], 0.5 * step
    near = np.clip([at + step, at - step], grid[-1], grid[0])
    above, below = evaluate(near)
    bend = above - 2.0 * error + below
    if near[0] - near[1] > 1.5 * step and bend > EQUAL * max(above, below):
        shift = np.clip(0.5 * step * (below - above) / bend, -step, step)
        evaluate(np.array([at + shift]))


def _least(errors: np.ndarray) -> int:
    """Return the first position of the smallest error, up to rounding."""
    return int(np.argmax(errors <= errors.min() + EQUAL * errors.max()))
