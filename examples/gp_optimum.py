"""The lowest point of a function that is dear to evaluate: where to look next?

Run it with ``python examples/gp_optimum.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, GaussianProcessRegressor
from mercer.selection import active

SEEDS, QUERIES = 4, 20


def cost(X: np.ndarray) -> np.ndarray:
    """Branin's function: three lowest points of the same depth, 0.398, between hills."""
    x, y = X.T
    bowl = (y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def main() -> None:
    """Tell the story."""
    grid = np.stack(np.meshgrid(np.linspace(-5, 10, 46), np.linspace(0, 15, 46)), -1).reshape(-1, 2)
    value = cost(grid)
    print(f"1. A grid of {len(grid)} places; the lowest value on it is {value.min():.3f}")
    model = GaussianProcessRegressor(
        1.0 * RBF([3.0, 6.0]), noise=1e-4, bounds={"length_scale": (0.5, 30.0)}
    )
    print(f"   after {4 + QUERIES} evaluations, the best seen (median and worst of {SEEDS} runs):")
    for criterion in ("expected-improvement", "variance", "random"):
        best = []
        for seed in range(SEEDS):
            found = active.learn(
                model, grid, value, QUERIES, n_initial=4, criterion=criterion, random_state=seed
            )
            best.append(value[found.order].min())
        print(f"   {criterion:20} {np.median(best):7.3f} {np.max(best):7.3f}")
    path(model, grid, value)


def path(model: GaussianProcessRegressor, grid: np.ndarray, value: np.ndarray) -> None:
    """Follow one search."""
    print("\n2. One search: a number where an evaluation was made, * at the three lowest points")
    found = active.learn(model, grid, value, 20, n_initial=4, criterion="expected-improvement")
    canvas = [[" "] * 46 for _ in range(23)]
    for x, y in ((-np.pi, 12.275), (np.pi, 2.275), (9.425, 2.475)):
        canvas[22 - int(y / 15 * 22 + 0.5)][int((x + 5) / 15 * 45 + 0.5)] = "*"
    for step, i in enumerate(found.order):
        x, y = grid[i]
        mark = "0123456789abcdefghijklmnop"[step]
        canvas[22 - int(y / 15 * 22 + 0.5)][int((x + 5) / 15 * 45 + 0.5)] = mark
    print("\n".join("   |" + "".join(row) + "|" for row in canvas))
    low = int(found.order[np.argmin(value[found.order])])
    print(f"   lowest: {value[low]:.3f} at ({grid[low, 0]:.2f}, {grid[low, 1]:.2f})")


if __name__ == "__main__":
    main()
