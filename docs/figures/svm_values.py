"""The figures of the page on support vector machines that show a regression and a density."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane

from mercer import RBF, SVR, OneClassSVM

__all__ = ["one_class", "tube"]


def tube(path: Path) -> None:
    """Draw the tube of a regression, wide and narrow, beside an outlier."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 10, 70))
    y = np.sin(x) + 0.15 * rng.standard_normal(70)
    y[20] += 1.6
    figure, row = plane.new(2, 8.4, 3.23, sharey=True)
    new = np.linspace(0, 10, 500)
    for axes, epsilon in zip(row, (0.1, 0.3), strict=True):
        model = SVR(RBF(1.2), C=10.0, epsilon=epsilon).fit(x[:, None], y)
        f = model.predict(new[:, None])
        axes.fill_between(new, f - epsilon, f + epsilon, color=plane.PALE[0], lw=0)
        axes.plot(new, f, color=plane.INK, lw=1.4)
        kind = np.full(len(x), "none", dtype=object)
        kind[model.support_] = model.support_kind_
        inside, bound = kind == "none", kind == "bound"
        colour = plane.COLOURS[0]
        axes.scatter(x[inside], y[inside], s=20, c=colour, alpha=0.5, linewidths=0)
        axes.scatter(x[~inside], y[~inside], s=20, c=colour, edgecolors=plane.INK, linewidths=0.9)
        edge = ~inside & ~bound
        axes.scatter(x[edge], y[edge], s=95, facecolors="none", edgecolors=plane.INK, lw=0.9)
        axes.set(xlim=(-0.1, 10.1), xlabel="$x$")
        count = f"{len(model.support_)} support vectors, {bound.sum()} at the bound"
        axes.set_title(f"epsilon = {epsilon:g}: {count}", loc="left", fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    _explain(figure)
    plane.save(figure, path)


def _explain(figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    style = {"color": "none", "marker": "o"}
    dark = {"markeredgecolor": plane.INK, "markeredgewidth": 0.9}
    blue = plane.COLOURS[0]
    figure.legend(
        handles=[
            Line2D([], [], **style, markerfacecolor=blue, alpha=0.5, label="inside the tube"),
            Line2D([], [], **style, **dark, markerfacecolor="none", ms=10, label="on its edge"),
            Line2D([], [], **style, **dark, markerfacecolor=blue, label="outside, at the bound"),
            Line2D([], [], color=plane.INK, lw=1.4, label="$f + b$"),
            Patch(color=plane.PALE[0], label="$f + b \\pm \\varepsilon$"),
        ],
        ncols=5,
        frameon=False,
        loc="outside lower center",
        handletextpad=0.5,
        columnspacing=1.3,
        fontsize="small",
    )


def one_class(path: Path) -> None:
    """Draw the region of a one-class machine for three shares of outliers."""
    rng = np.random.default_rng(5)
    turn = rng.uniform(0, 1.4 * np.pi, 130)
    X = np.stack([np.cos(turn), np.sin(turn)], 1) * 1.6 + 0.22 * rng.standard_normal((130, 2))
    X = np.vstack([X, rng.uniform(-2.6, 2.6, (10, 2))])
    box = (-2.9, 2.9, -2.7, 2.7)
    figure, row = plane.new(3, 8.4, 2.98)
    for axes, nu in zip(row, (0.1, 0.25, 0.5), strict=True):
        model = OneClassSVM(RBF(0.6), nu=nu).fit(X)
        plane.regions(axes, model, box, margins=False, tints=("#FFFFFF", plane.PALE[0]))
        kind = np.full(len(X), "none", dtype=object)
        kind[model.support_] = model.support_kind_
        out = kind == "bound"
        axes.scatter(*X[~out].T, s=16, c=plane.COLOURS[0], linewidths=0, alpha=0.7)
        axes.scatter(*X[out].T, s=22, c=plane.COLOURS[1], marker="X", linewidths=0)
        ring = X[kind == "margin"]
        axes.scatter(*ring.T, s=80, facecolors="none", edgecolors=plane.INK, linewidths=0.8)
        said = f"{out.mean():.0%} outside, {len(model.support_) / len(X):.0%} support"
        axes.set_title(f"nu = {nu:g}: {said}", loc="left", fontsize="small")
    plane.save(figure, path)
