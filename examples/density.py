"""A density from points: how wide, how sure, and what Bayes' rule and local averages make of it.

Run it with ``python examples/density.py``; it takes a few seconds. With a file name it also draws
the picture: ``python examples/density.py density.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from mercer import KDEClassifier, KernelDensity, NadarayaWatson, bayes_rule

N = 500


def truth(x: np.ndarray) -> np.ndarray:
    """Return the density: two normal ones, one wide and one narrow."""
    return 0.6 * stats.norm.pdf(x, -1.5, 1.0) + 0.4 * stats.norm.pdf(x, 1.5, 0.25)


def draw_points(rng: np.random.Generator, n: int = N) -> np.ndarray:
    """Return points of that density."""
    wide = rng.random(n) < 0.6
    return np.where(wide, rng.normal(-1.5, 1.0, n), rng.normal(1.5, 0.25, n))[:, None]


def main(picture: str | None = None) -> None:
    """Tell the story."""
    X = draw_points(np.random.default_rng(0))
    models = bandwidths(X)
    samples(models["loo"])
    classes()
    averages()
    if picture is not None:
        draw(X, models, picture)


def bandwidths(X: np.ndarray) -> dict[str, KernelDensity]:
    """Compare bandwidths by what they say of points they have not seen."""
    print("1. The bandwidth: mean log-density of left-out points, of new ones, and the true error")
    new = draw_points(np.random.default_rng(1), 5000)
    grid = np.linspace(-6, 4, 2001)
    models = {}
    for name in (2.0, "scott", "silverman", "loo", 0.02):
        model = KernelDensity(name).fit(X)
        left_out, fresh = model.loo().mean(), model.score(new) / len(new)
        error = np.abs(np.exp(model.score_samples(grid[:, None])) - truth(grid)).sum() * 0.005
        width = float(np.ravel(model.bandwidth_)[0])
        row = f"   {name!s:10} h = {width:.3f}   left out {left_out:.3f}   new {fresh:.3f}"
        print(f"{row}   ∫|p − truth| = {error:.3f}")
        models[str(name)] = model
    return models


def samples(model: KernelDensity) -> None:
    """Draw from the estimate."""
    drawn = model.sample(100_000, random_state=0)[:, 0]
    right = (drawn > 0.75).mean()
    print("\n2. 100,000 new points drawn from the estimate")
    print(f"   beyond 0.75: {right:.3f} of them; of the true density: ", end="")
    exact = 0.6 * stats.norm.sf(0.75, -1.5, 1.0) + 0.4 * stats.norm.sf(0.75, 1.5, 0.25)
    print(f"{exact:.3f}")


def classes() -> None:
    """Put estimated densities into Bayes' rule, beside the known ones."""
    rng = np.random.default_rng(2)
    densities = {"a": stats.norm(0, 1), "b": stats.norm(0, 3)}
    y = rng.choice(["a", "b"], 2000, p=[0.5, 0.5])
    x = np.where(y == "a", densities["a"].rvs(2000, rng), densities["b"].rvs(2000, rng))[:, None]
    train, test = slice(0, 400), slice(400, None)
    learned = KDEClassifier("loo").fit(x[train], y[train])
    best = bayes_rule(densities, [0.5, 0.5])
    print("\n3. Two classes that differ in spread only: share of new points told right")
    print(f"   known densities      {(best.predict(x[test, 0]) == y[test]).mean():.3f}")
    print(f"   densities of 400 points {learned.score(x[test], y[test]):.3f}")


def averages() -> None:
    """Average targets of near points; a line through them does better at the ends."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (150, 1))
    y = 3 * X[:, 0] + np.sin(12 * X[:, 0]) + 0.3 * rng.normal(size=150)
    new = np.linspace(0, 1, 400)[:, None]
    exact = 3 * new[:, 0] + np.sin(12 * new[:, 0])
    print("\n4. Local averages and local lines: error inside and in the outer tenths")
    for name, degree in (("averages", 0), ("lines", 1)):
        model = NadarayaWatson("loo", degree=degree).fit(X, y)
        off = (model.predict(new) - exact) ** 2
        ends = (new[:, 0] < 0.1) | (new[:, 0] > 0.9)
        print(f"   {name:9} {np.sqrt(off[~ends].mean()):.3f}   {np.sqrt(off[ends].mean()):.3f}")


def draw(X: np.ndarray, models: dict[str, KernelDensity], path: str) -> None:
    """Draw the estimates over the truth."""
    from matplotlib.figure import Figure

    from mercer.plot import DensityDisplay

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    grid = np.linspace(-6, 4, 600)
    for axes, name in zip(figure.subplots(1, 3, sharey=True), ("2.0", "loo", "0.02"), strict=True):
        DensityDisplay.from_estimator(models[name], X, resolution=600, ax=axes)
        axes.plot(grid, truth(grid), "--", color="#D55E00", lw=1.2, label="truth")
        axes.set_title(f"bandwidth {name}", loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
