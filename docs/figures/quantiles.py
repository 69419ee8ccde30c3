"""The figures of quantile regression: bands, and levels before and after they are put in order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane
from scipy.stats import gamma

from mercer import RBF, KernelQuantileRegressor

__all__ = ["bands", "crossing"]


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on a line and targets with a spread that grows, skewed upwards."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, n))
    return x, np.sin(x) + (0.1 + 0.12 * x) * (rng.gamma(2.0, 0.7, n) - 1.0)


def bands(path: Path) -> None:
    """Draw five levels as bands, the true ones dashed, with the share of points below each."""
    x, y = noisy(400, 0)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    model = KernelQuantileRegressor(RBF(1.5), levels, alpha=0.3).fit(x[:, None], y)
    new = np.linspace(0, 10, 600)
    q = model.predict(new[:, None])
    below = (y[:, None] < model.predict(x[:, None])).mean(axis=0)
    figure, (axes,) = plane.new(1, 8.4, 3.9)
    axes.fill_between(new, q[:, 0], q[:, 4], color="#E3EFF7", lw=0, label="5% to 95%")
    axes.fill_between(new, q[:, 1], q[:, 3], color="#A9CFE6", lw=0, label="25% to 75%")
    axes.plot(new, q[:, 2], color=plane.COLOURS[0], lw=1.8, label="median")
    true = np.sin(new)[:, None] + (0.1 + 0.12 * new[:, None]) * (gamma.ppf(levels, 2, 0, 0.7) - 1)
    dashed = {"color": plane.COLOURS[1], "ls": (0, (5, 3))}
    axes.plot(new, true, lw=0.9, **dashed)
    axes.plot([], [], lw=0.9, **dashed, label="the true quantiles")
    axes.scatter(x, y, s=9, c=plane.INK, linewidths=0, alpha=0.6)
    for j, level in enumerate(levels):
        said = f"{level:.0%}: {below[j]:.1%} below"
        axes.annotate(said, (10.08, q[-1, j]), fontsize="small", va="center")
    axes.set(xlim=(0, 11.7), xlabel="$x$", xticks=range(0, 11, 2))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    plane.save(figure, path)


def crossing(path: Path) -> None:
    """Draw levels fitted one by one, which cross where there are few points, and put in order."""
    x, y = noisy(110, 3)
    keep = (x < 4.5) | (x > 6.5)
    x, y = x[keep], y[keep]
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    model = KernelQuantileRegressor(RBF(0.9), levels, alpha=0.1).fit(x[:, None], y)
    new = np.linspace(0, 10, 600)
    figure, row = plane.new(2, 8.4, 3.3, sharey=True)
    inks = ("#56B4E9", "#0072B2", plane.INK, "#D55E00", "#E69F00")
    both = (model.function_(new[:, None]), "as fitted"), (model.predict(new[:, None]), "in order")
    for axes, (values, title) in zip(row, both, strict=True):
        for j, level in enumerate(levels):
            axes.plot(new, values[:, j], color=inks[j], lw=1.5, label=f"{level:.0%}")
        axes.scatter(x, y, s=12, c=plane.INK, linewidths=0, alpha=0.6)
        axes.set(xlim=(0, 10), xlabel="$x$")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = row[0].get_legend_handles_labels()
    place = {"frameon": False, "loc": "outside lower center", "fontsize": "small"}
    figure.legend(handles, labels, ncols=5, **place)
    plane.save(figure, path)
