"""The figures of the page on choosing a model: too simple, right, too rich, and what tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import plane

from mercer import RBF, KernelRidge, Polynomial, bic, evidence
from mercer.datasets import make_sine
from mercer.selection import regression_bound

__all__ = ["degrees", "errors", "scales"]

DRAWS = 200
WORDS = ("too simple", "right", "too rich")


def truth(x: np.ndarray) -> np.ndarray:
    """Return the parabola of the example."""
    return 4 * x**2 - 2 * x + 3


def parabola(seed: int, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return the parabola at equal steps from −2 to 2, with noise of variance one."""
    x = np.linspace(-2, 2, n)
    return x, truth(x) + np.random.default_rng(seed).standard_normal(n)


def _panel(axes: Any, x: np.ndarray, y: np.ndarray, new: np.ndarray, f: Any, real: Any) -> None:
    axes.plot(new, real, color=plane.COLOURS[1], lw=1.2, ls=(0, (4, 3)), label="truth")
    axes.plot(new, f, color=plane.INK, lw=1.4, label="fit")
    axes.scatter(x, y, s=22, c=plane.COLOURS[0], zorder=3, label="data")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("$x$")


def _below(figure: Any, axes: Any, **options: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        ncols=len(labels),
        frameon=False,
        loc="outside lower center",
        fontsize="small",
        **options,
    )


def degrees(path: Path) -> None:
    """Draw least squares polynomials of degree 1, 2 and 9 through ten points."""
    x, y = parabola(23)
    new = np.linspace(-2, 2, 400)
    figure, row = plane.new(3, 8.4, 2.9, sharey=True)
    for axes, degree, word in zip(row, (1, 2, 9), WORDS, strict=True):
        model = KernelRidge(Polynomial(degree), alpha=1e-9).fit(x[:, None], y)
        _panel(axes, x, y, new, model.predict(new[:, None]), truth(new))
        error = np.mean((model.predict(x[:, None]) - y) ** 2)
        axes.set_title(
            f"degree {degree}: {word}\ntraining error {abs(error):.2f}",
            loc="left",
            fontsize="small",
        )
        axes.set(ylim=(-6, 34))
    _below(figure, row[0])
    plane.save(figure, path)


def scales(path: Path) -> None:
    """Draw ridge with an RBF kernel whose length scale is too long, right and too short."""
    X, y = make_sine(40, noise=0.25, random_state=3)
    new = np.linspace(X.min(), X.max(), 600)
    figure, row = plane.new(3, 8.4, 2.9, sharey=True)
    for axes, scale, word in zip(row, (3.0, 0.25, 0.01), WORDS, strict=True):
        model = KernelRidge(RBF(scale), alpha=0.05).fit(X, y)
        _panel(axes, X[:, 0], y, new, model.predict(new[:, None]), np.sin(2 * np.pi * new))
        train, left = np.mean((model.predict(X) - y) ** 2), np.mean((model.loo() - y) ** 2)
        axes.set_title(
            f"RBF({scale:g}): {word}\ntraining {train:.3f}, leave-one-out {left:.3f}",
            loc="left",
            fontsize="small",
        )
    _below(figure, row[0])
    plane.save(figure, path)


def errors(path: Path) -> None:
    """Draw errors and criteria as functions of the degree, medians over many draws."""
    orders = np.arange(1, 9)
    names = ("training", "new points", "leave-one-out", "five folds", "bound", "evidence", "bic")
    found = {name: np.empty((DRAWS, len(orders))) for name in names}
    new = np.linspace(-2, 2, 201)
    for seed in range(DRAWS):
        x, y = parabola(seed, 20)
        folds = np.random.default_rng(seed).permutation(20) % 5
        for j, degree in enumerate(orders):
            model = KernelRidge(Polynomial(int(degree)), alpha=1e-9).fit(x[:, None], y)
            rss = float(np.sum((model.predict(x[:, None]) - y) ** 2))
            likelihood = -0.5 * (rss + len(x) * np.log(2 * np.pi))
            values = (
                rss / len(x),
                np.mean((model.predict(new[:, None]) - truth(new)) ** 2) + 1.0,
                np.mean((model.loo() - y) ** 2),
                np.mean((model.loo(groups=folds) - y) ** 2),
                regression_bound(rss / len(x), len(x), degree + 1),
                evidence(x[:, None], y, 1.0, 10.0, kernel=model.kernel_).log_evidence,
                bic(likelihood, degree + 1, len(x)),
            )
            for name, value in zip(names, values, strict=True):
                found[name][seed, j] = value
    middle = {name: np.median(values, axis=0) for name, values in found.items()}
    figure, (left, right) = plane.new(2, 8.4, 3.3)
    _curves(left, orders, middle, names[:5], np.argmin)
    left.set(yscale="log", ylabel="mean squared error", ylim=(0.4, 200))
    left.set_yticks([1, 10, 100], ["1", "10", "100"])
    left.set_title("errors: the least is chosen", loc="left", fontsize="medium")
    _curves(right, orders, middle, names[5:], np.argmax)
    right.set(ylabel="score", ylim=(-66, -28))
    right.set_title("scores: the largest is chosen", loc="left", fontsize="medium")
    plane.save(figure, path)


def _curves(axes: Any, orders: Any, middle: Any, names: Any, best: Any) -> None:
    styles = {
        "training": (plane.COLOURS[0], "-", "o"),
        "new points": (plane.COLOURS[1], "-", "s"),
        "leave-one-out": (plane.COLOURS[1], (0, (4, 2)), "^"),
        "five folds": (plane.COLOURS[0], (0, (4, 2)), "v"),
        "bound": (plane.INK, (0, (1, 1.5)), "D"),
        "evidence": (plane.COLOURS[0], "-", "o"),
        "bic": (plane.COLOURS[1], (0, (4, 2)), "^"),
    }
    for name in names:
        colour, line, marker = styles[name]
        label = {"evidence": "log evidence", "bic": "BIC"}.get(name, name)
        axes.plot(
            orders, middle[name], color=colour, ls=line, marker=marker, ms=4, lw=1.4, label=label
        )
        i = best(middle[name])
        if name != "training":
            axes.plot(orders[i], middle[name][i], "o", ms=11, mfc="none", mec=plane.INK, mew=1.1)
    axes.legend(frameon=False, fontsize="small")
    axes.set(xlabel="degree", xticks=orders)
    axes.spines[["top", "right"]].set_visible(False)
