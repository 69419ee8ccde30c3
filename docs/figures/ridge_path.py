"""The figures of leave-one-out: ridge regression as its penalty falls, and intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane

from mercer import RBF, KernelRidge

__all__ = ["intervals", "path"]


def wave(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on a line and targets around a curve."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, n))
    return x, curve(x) + 0.5 * rng.standard_normal(n)


def curve(x: np.ndarray) -> np.ndarray:
    """Return the curve."""
    return np.sin(x) + 0.25 * x


def path(path: Path) -> None:
    """Draw the same fit for λ from 100 to 1e-7, and mark the one that leave-one-out prefers."""
    x, y = wave(40, 2)
    powers = np.arange(2, -8, -1)
    fits = [KernelRidge(RBF(0.8), alpha=10.0**p * len(x)).fit(x[:, None], y) for p in powers]
    errors = [float(np.mean((fit.loo() - y) ** 2)) for fit in fits]
    new = np.linspace(-0.3, 10.3, 500)
    figure, row = plane.new(5, 10.5, 4.7, rows=2, sharex=True, sharey=True)
    lines = {}
    for axes, power, fit, error in zip(row, powers, fits, errors, strict=True):
        best = error == min(errors)
        dots = axes.scatter(x, y, s=11, c=plane.INK, linewidths=0, alpha=0.75)
        (truth,) = axes.plot(new, curve(new), color="#999999", lw=1.0, ls=(0, (4, 3)))
        (line,) = axes.plot(new, fit.predict(new[:, None]), color=plane.COLOURS[best], lw=1.7)
        lines[best] = line
        name = f"$\\lambda = 10^{{{power}}}$" if power < -2 else f"$\\lambda = {10.0**power:g}$"
        freedom = fit.degrees_of_freedom()
        said = f"{freedom:.1f} degrees of freedom\nleave-one-out error {error:.2f}"
        axes.set_title(f"{name}\n{said}", loc="left", fontsize="small")
        if best:
            axes.spines[:].set(color=plane.COLOURS[1], linewidth=1.8)
        axes.set(xlim=(-0.3, 10.3), ylim=(-1.9, 4.9), xticks=[], yticks=[])
    names = {"training rows": dots, "curve they come from": truth, "fit": lines[False]}
    names["fit of least leave-one-out error"] = lines[True]
    place = {"frameon": False, "loc": "outside lower center", "fontsize": "small"}
    figure.legend(list(names.values()), list(names), ncols=4, **place)
    plane.save(figure, path)


def intervals(path: Path) -> None:
    """Draw jackknife+ intervals with data that leave a gap, and the residuals that they rest on."""
    rng = np.random.default_rng(5)
    x, y = wave(90, 5)
    keep = (x < 5.2) | (x > 7.0)
    x, y = x[keep], y[keep]
    model = KernelRidge(RBF(0.8), alpha="loo", fit_intercept=True).fit(x[:, None], y)
    new = np.linspace(-1.5, 11.5, 600)
    figure, (axes,) = plane.new(1, 8.4, 3.7)
    for coverage, tint in ((0.95, "#E3EFF7"), (0.8, "#A9CFE6")):
        lower, upper = model.predict_interval(new[:, None], coverage)
        axes.fill_between(new, lower, upper, color=tint, lw=0, label=f"coverage {coverage:.0%}")
    axes.plot(new, model.predict(new[:, None]), color=plane.COLOURS[0], lw=1.8, label="prediction")
    axes.scatter(x, y, s=11, c=plane.INK, linewidths=0, alpha=0.75, label="training rows")
    later = rng.uniform(0, 10, 200)
    seen = curve(later) + 0.5 * rng.standard_normal(200)
    lower, upper = model.predict_interval(later[:, None], 0.95)
    out = (seen < lower) | (seen > upper)
    style = {"marker": "x", "s": 16, "linewidths": 0.9}
    axes.scatter(later[~out], seen[~out], c="#777777", **style, label="new rows")
    axes.scatter(
        later[out], seen[out], c=plane.COLOURS[1], **style, label=f"{out.sum()} of 200 outside 95%"
    )
    axes.set(xlim=(-1.5, 11.5), xlabel="$x$")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    place = {"frameon": False, "loc": "outside lower center", "fontsize": "small"}
    figure.legend(handles, labels, ncols=6, columnspacing=1.2, handletextpad=0.5, **place)
    plane.save(figure, path)
