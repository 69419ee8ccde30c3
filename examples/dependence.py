"""Dependence that correlation misses, and dependence that goes away when a cause is known.

Run it with ``python examples/dependence.py``; it takes a few seconds. With a file name it also
draws the picture: ``python examples/dependence.py dependence.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from mercer.statistics import hsic_test, kci_test

N = 200


def shapes(seed: int = 0, n: int = N) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return pairs of variables, each of a shape of its own; the last are independent."""
    rng = np.random.default_rng(seed)
    u, noise = rng.uniform(-1, 1, n), rng.normal(size=(2, n))
    angle = np.pi * u
    return {
        "a line": (u, u + 0.3 * noise[0]),
        "a parabola": (u, u**2 + 0.1 * noise[0]),
        "a circle": (np.cos(angle) + 0.1 * noise[0], np.sin(angle) + 0.1 * noise[1]),
        "a wave": (u, np.sin(3 * np.pi * u) + 0.3 * noise[0]),
        "its variance": (u, np.abs(u) * noise[0]),
        "nothing": (u, noise[0]),
    }


def main(picture: str | None = None) -> None:
    """Tell the story."""
    data = shapes()
    print(f"1. {N} pairs, the p-values of two tests of independence")
    print("                   correlation   Pearson   HSIC")
    for name, (x, y) in data.items():
        r, p = stats.pearsonr(x, y)
        found = hsic_test(x, y, n_permutations=999, rng=0)
        print(f"   {name:14}    {r:+8.2f}   {p:8.3f}  {found.pvalue:6.3f}")
    causes()
    series()
    if picture is not None:
        draw(data, picture)


def causes(seed: int = 3, n: int = N) -> None:
    """Test two effects of one cause, without and with knowing it."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = np.sin(z) + 0.3 * rng.normal(size=n)
    y = z**2 / 2 + 0.3 * rng.normal(size=n)
    print("\n2. Two effects of one cause: x = sin z + error, y = z²/2 + error")
    print(f"   x and y:         p = {hsic_test(x, y, rng=0).pvalue:.3f}")
    print(f"   x and y given z: p = {kci_test(x, y, z, rng=0).pvalue:.3f}")


def series(seed: int = 1, n: int = 400, runs: int = 40) -> None:
    """Shuffle single rows, then runs of rows, of two unrelated series."""
    rng = np.random.default_rng(seed)
    print(
        "\n3. Two independent series that drift slowly: how often are they called dependent at 5 %?"
    )
    for name, blocks in (("rows shuffled one by one", None), ("runs of 40 rows shuffled", 40)):
        found = 0
        for run in range(runs):
            x, y = (walk(rng, n) for _ in range(2))
            found += hsic_test(x, y, n_permutations=199, rng=run, blocks=blocks).pvalue <= 0.05
        print(f"   {name}: {found / runs:4.0%}")


def walk(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a series in which each value remembers nine tenths of the one before."""
    x = rng.normal(size=n)
    for i in range(1, n):
        x[i] += 0.9 * x[i - 1]
    return x


def draw(data: dict[str, tuple[np.ndarray, np.ndarray]], path: str) -> None:
    """Draw the pairs over the witness of their dependence."""
    from matplotlib.figure import Figure

    from mercer.plot import DependenceDisplay

    figure = Figure(figsize=(10, 6), layout="constrained")
    for axes, (name, (x, y)) in zip(figure.subplots(2, 3).flat, data.items(), strict=True):
        shown = DependenceDisplay.from_samples(x, y, ax=axes)
        axes.set_title(f"{name}: {shown.ax_.get_title()}", fontsize="small")
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
