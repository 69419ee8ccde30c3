"""The figures of all losses: of classifiers against the margin, of regression against the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plane

from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Squared,
    SquaredHinge,
    ZeroOne,
)

__all__ = ["classification", "regression"]

# Okabe and Ito's colours, and a stroke for each, for people who do not see all of them.
INKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
STROKES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (3, 1.5)))


def classification(path: Path) -> None:
    """Draw the losses of classifiers, and their slopes, against the margin y f."""
    m = np.linspace(-2.6, 3.2, 1161)
    curves: dict[str, tuple[Loss, float]] = {
        "Hinge": (Hinge(), 1.0),
        "SquaredHinge": (SquaredHinge(), 1.0),
        "Logistic, divided by log 2": (Logistic(), 1 / np.log(2)),
        "Exponential": (Exponential(), 1.0),
    }
    figure, (left, right) = plane.new(2, 8.4, 3.6)
    step = ZeroOne().value(1, m)
    for piece in (m <= 0, m > 0):
        left.plot(m[piece], step[piece], color=plane.INK, lw=2.2)
    left.plot([], [], color=plane.INK, lw=2.2, label="ZeroOne")
    for (name, (loss, factor)), ink, stroke in zip(curves.items(), INKS, STROKES, strict=False):
        left.plot(m, factor * loss.value(1, m), color=ink, ls=stroke, lw=1.7, label=name)
        _pieces(right, m, factor * loss.gradient(1, m), ink, stroke)
    left.set(ylim=(-0.1, 4.6), xlabel="margin $y f$", title="loss")
    right.set(ylim=(-4.6, 0.35), xlabel="margin $y f$", title="slope, its derivative by $y f$")
    _finish(figure, (left, right))
    plane.save(figure, path)


def regression(path: Path) -> None:
    """Draw the losses of regression, and their slopes, against the error f − y."""
    e = np.linspace(-3.0, 3.0, 1201)
    curves: dict[str, Loss] = {
        "Squared": Squared(),
        "Absolute": Absolute(),
        "Huber(0.7)": Huber(0.7),
        "EpsilonInsensitive(0.4)": EpsilonInsensitive(0.4),
        "Pinball(0.8)": Pinball(0.8),
    }
    figure, (left, right) = plane.new(2, 8.4, 3.6)
    for (name, loss), ink, stroke in zip(curves.items(), INKS, STROKES, strict=True):
        left.plot(e, loss.value(0.0, e), color=ink, ls=stroke, lw=1.7, label=name)
        _pieces(right, e, loss.gradient(0.0, e), ink, stroke)
    left.set(ylim=(-0.08, 3.1), xlabel="error $f - y$", title="loss")
    right.set(ylim=(-1.6, 1.6), xlabel="error $f - y$", title="slope, its derivative by $f$")
    _finish(figure, (left, right))
    plane.save(figure, path)


def _pieces(axes: Any, x: np.ndarray, y: np.ndarray, ink: str, stroke: Any) -> None:
    """Draw a curve without the vertical strokes of its jumps; a slope at a kink is left out."""
    jumps = np.flatnonzero(np.abs(np.diff(y)) > 0.1)
    for piece in np.split(np.arange(len(x)), jumps + 1):
        if len(piece) > 2:
            axes.plot(x[piece], y[piece], color=ink, ls=stroke, lw=1.7)


def _finish(figure: Any, row: tuple[Any, Any]) -> None:
    for axes in row:
        axes.axhline(0.0, color="#BBBBBB", lw=0.7, zorder=0)
        axes.axvline(0.0, color="#BBBBBB", lw=0.7, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(axes.get_title(), loc="center", fontsize="medium")
    figure.legend(
        ncols=5,
        frameon=False,
        loc="outside lower center",
        handlelength=2.6,
        columnspacing=1.4,
        fontsize="small",
    )
