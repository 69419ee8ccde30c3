"""How the figures of the margin machines look: points in the plane, decision regions, margins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["COLOURS", "INK", "PALE", "blend", "legend", "new", "points", "regions", "save"]

# Okabe and Ito's blue and vermilion, told apart also by people who do not see all colours.
COLOURS = ("#0072B2", "#D55E00")
PALE = ("#D6E8F4", "#FBE3D3")
INK = "#222222"
MARKERS = ("o", "^")
GRID = 241


def new(columns: int, width: float, height: float, rows: int = 1, **options: Any):
    """Return a figure and its axes, row after row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(wspace=0.04, hspace=0.04)
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


def save(figure: Any, path: Path) -> None:
    """Write a PNG file whose bytes depend on nothing but the picture."""
    figure.savefig(path, dpi=160, metadata={"Software": None})


def regions(
    axes: Any,
    model: Any,
    box: tuple[float, float, float, float],
    margins: bool = True,
    tints: tuple[str, str] = PALE,
) -> None:
    """Tint the side of each class, draw f = 0 and, dashed, f = ±1."""
    x, y = np.linspace(box[0], box[1], GRID), np.linspace(box[2], box[3], GRID)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    f = model.decision_function(grid).reshape(GRID, GRID)
    axes.contourf(x, y, f, levels=[-np.inf, 0, np.inf], colors=tints, zorder=0)
    axes.contour(x, y, f, levels=[0], colors=INK, linewidths=1.4, zorder=1)
    if margins:
        axes.contour(
            x, y, f, levels=[-1, 1], colors=INK, linewidths=0.8, linestyles=[(0, (5, 3))], zorder=1
        )
    axes.set(xlim=box[:2], ylim=box[2:], xticks=[], yticks=[], aspect="equal")


def blend() -> Any:
    """Return the colours from one class to the other, through white."""
    from matplotlib.colors import LinearSegmentedColormap

    pale = ["#7FB8D8", "#FFFFFF", "#EAAE80"]
    return LinearSegmentedColormap.from_list("classes", pale)


def points(axes: Any, X: np.ndarray, y: np.ndarray, model: Any = None, size: float = 22.0) -> None:
    """Draw the points of two classes, by colour and by shape.

    With a model, points that are no support vectors fade, those at the bound have a dark edge,
    and those on the margin a ring besides.
    """
    kind = np.full(len(X), "plain" if model is None else "none", dtype=object)
    if model is not None:
        kind[model.support_] = model.support_kind_
    styles = {
        "plain": {"edgecolors": "white", "linewidths": 0.5},
        "none": {"edgecolors": "white", "linewidths": 0.5, "alpha": 0.45},
        "bound": {"edgecolors": INK, "linewidths": 0.9},
        "margin": {"edgecolors": INK, "linewidths": 0.9},
    }
    for name, style in styles.items():
        for c, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
            mine = X[(y == c) & (kind == name)]
            axes.scatter(*mine.T, s=size, c=colour, marker=marker, **style)
    ringed = X[kind == "margin"]
    axes.scatter(*ringed.T, s=4.5 * size, facecolors="none", edgecolors=INK, linewidths=0.9)


def legend(target: Any, kinds: bool = True, margins: bool = True, **options: Any) -> None:
    """Explain the marks, below the picture."""
    from matplotlib.lines import Line2D

    def mark(marker: str, label: str, **more: Any) -> Any:
        return Line2D([], [], color="none", marker=marker, label=label, **more)

    entries = [
        mark(m, f"class {'−+'[c]}1", markerfacecolor=COLOURS[c], markeredgecolor="white")
        for c, m in enumerate(MARKERS)
    ]
    if kinds:
        dark = {"markeredgecolor": INK, "markeredgewidth": 0.9}
        ring = {"markerfacecolor": "none", "markersize": 10}
        entries += [
            mark("o", "on the margin", **ring, **dark),
            mark("o", "at the bound", markerfacecolor="#BBBBBB", **dark),
        ]
    entries.append(Line2D([], [], color=INK, lw=1.4, label="$f + b = 0$"))
    if margins:
        entries.append(Line2D([], [], color=INK, lw=0.8, ls=(0, (5, 3)), label="$f + b = \\pm 1$"))
    target.legend(
        handles=entries,
        ncols=len(entries),
        frameon=False,
        loc="outside lower center",
        handletextpad=0.5,
        columnspacing=1.3,
        fontsize="small",
        **options,
    )
