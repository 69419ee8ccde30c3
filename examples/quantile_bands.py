"""Bands of quantiles: how many waiting times will be longer than the model says?

Run it with ``python examples/quantile_bands.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, KernelQuantileRegressor, KernelRidge
from mercer.losses import Pinball

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def waiting_times(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hours of a day and minutes waited: longer and less certain at noon, skewed upwards."""
    rng = np.random.default_rng(seed)
    hour = rng.uniform(8, 18, n)
    rush = np.exp(-0.5 * ((hour - 12) / 1.5) ** 2)
    return hour[:, None], rng.gamma(2.0, 2.0 + 6.0 * rush)


def main() -> None:
    """Tell the story."""
    X, y = waiting_times(600, 0)
    new, later = waiting_times(4000, 1)
    model = KernelQuantileRegressor(RBF(2.0), LEVELS, alpha=0.05).fit(X, y)
    shares(model, X, y, new, later)
    bands(model)
    order(X, y)
    mean(X, y, new, later)


def shares(model: KernelQuantileRegressor, X, y, new, later) -> None:
    """Count who is below, among those seen and those to come."""
    print("1. How many waits are below each quantile?")
    print("   level  of those seen  of those to come  D² to come")
    seen, coming = model.predict(X), model.predict(new)
    for j, level in enumerate(LEVELS):
        loss = Pinball(level)
        constant = loss.value(later, np.quantile(y, level)).mean()
        saved = 1 - loss.value(later, coming[:, j]).mean() / constant
        below = (y < seen[:, j] - 1e-9).mean()
        print(f"   {level:5.2f} {below:14.3f} {(later < coming[:, j]).mean():17.3f} {saved:11.3f}")
    inside = (later > coming[:, 0]) & (later < coming[:, -1])
    print(f"   between the outermost two: {inside.mean():.3f}")
    gap = model.solution_.gap / model.solution_.primal
    print(f"   certificate: duality gap {gap:.0e} of the objective\n")


def bands(model: KernelQuantileRegressor) -> None:
    """Show the day."""
    print("2. Minutes waited: half of all waits are inside the box, nine in ten inside the line")
    hours = np.arange(8, 18.5, 1.0)
    for hour, row in zip(hours, model.predict(hours[:, None]), strict=True):
        cells = np.clip(np.round(2 * row).astype(int), 0, 66)
        line = [" "] * 67
        line[cells[0] : cells[4] + 1] = "-" * (cells[4] + 1 - cells[0])
        line[cells[1] : cells[3] + 1] = "█" * (cells[3] + 1 - cells[1])
        line[cells[2]] = "┃"
        print(f"   {hour:4.0f} h  {''.join(line).rstrip()}")
    print()


def order(X: np.ndarray, y: np.ndarray) -> None:
    """Fit few points nearly without penalty, and see that levels do not cross."""
    few = KernelQuantileRegressor(RBF(1.0), LEVELS, alpha=1e-3).fit(X[:60], y[:60])
    x = np.linspace(8, 18, 2001)[:, None]
    fitted = (np.diff(few.function_(x), axis=1) < 0).any(axis=1).mean()
    answered = (np.diff(few.predict(x), axis=1) < 0).any(axis=1).mean()
    print("3. Sixty points, hardly any penalty: where do quantiles cross?")
    print(f"   as fitted, on {fitted:.0%} of the day; as answered, on {answered:.0%}\n")


def mean(X: np.ndarray, y: np.ndarray, new: np.ndarray, later: np.ndarray) -> None:
    """A mean with a spread of one size misses both ends."""
    ridge = KernelRidge(RBF(2.0), alpha="loo", fit_intercept=True).fit(X, y)
    spread = np.std(y - ridge.predict(X))
    f = ridge.predict(new)
    print("4. The mean ± 1.645 standard deviations instead, for nine in ten")
    print(f"   below it {(later < f - 1.645 * spread).mean():.3f}, wanted 0.050")
    print(f"   above it {(later > f + 1.645 * spread).mean():.3f}, wanted 0.050")


if __name__ == "__main__":
    main()
