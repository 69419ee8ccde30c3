"""The figure of active learning: which labels are asked for, and how many fewer that takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane

from mercer import RBF, KernelRidge
from mercer.selection import active

__all__ = ["queries"]

MODEL = KernelRidge(RBF(0.7), alpha=1e-2)
QUERIES, SEEDS = 28, 20


def pool(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points that crowd around 0, some further out, and noisy values."""
    rng = np.random.default_rng(seed)
    x = np.r_[rng.normal(0, 0.3, 150), rng.uniform(-4, 4, 50)]
    return x[:, None], np.sin(2 * x) + 0.1 * rng.standard_normal(200)


def queries(path: Path) -> None:
    """Draw what was asked for, and the error against the number of labels."""
    figure, (left, right) = plane.new(2, 8.4, 3.4)
    X, y = pool(0)
    result = active.learn(MODEL, X, y, 10)
    new = np.linspace(-4, 4, 400)[:, None]
    f = result.model.predict(new)
    spread = 2 * np.sqrt(active.scores(result.model, new, "variance"))
    left.fill_between(
        new[:, 0], f - spread, f + spread, color=plane.PALE[0], lw=0, label="± 2 std. deviations"
    )
    left.plot(new, f, color=plane.INK, lw=1.4, label="fit")
    left.plot(X[:, 0], np.full(len(X), -2.4), "|", color="#888888", ms=7, mew=0.6, label="pool")
    asked = X[result.order, 0], y[result.order]
    first, then = result.order[:2], result.order[2:]
    left.plot(X[first, 0], y[first], "s", c=plane.COLOURS[1], ms=5, label="first two, at random")
    left.plot(X[then, 0], y[then], "o", c=plane.COLOURS[0], ms=5, label="asked for")
    style = {"ha": "center", "fontsize": "small", "color": plane.COLOURS[0]}
    for i, (a, b) in enumerate(zip(*asked, strict=True)):
        if i >= 2:
            left.annotate(str(i - 1), (a, b), (0, 8), textcoords="offset points", **style)
    left.set(xlim=(-4.1, 4.1), ylim=(-2.6, 3.9), xlabel="$x$")
    left.legend(frameon=False, fontsize="x-small", ncols=2, loc="upper left")
    left.set_title("ten labels asked for, in order", loc="left", fontsize="medium")

    test = np.linspace(-4, 4, 200)[:, None]
    styles = {
        "random": (plane.COLOURS[1], (0, (4, 2)), "drawn at random"),
        "variance": (plane.COLOURS[0], (0, (1, 1.2)), "largest variance"),
        "a-optimal": (plane.COLOURS[0], "-", "A-optimal"),
    }
    for criterion, (colour, line, label) in styles.items():
        curves = [
            active.learn(
                MODEL,
                *pool(seed),
                QUERIES,
                criterion=criterion,
                X_test=test,
                y_test=np.sin(2 * test[:, 0]),
                random_state=seed,
            )
            for seed in range(SEEDS)
        ]
        middle = np.median([c.errors for c in curves], axis=0)
        right.plot(curves[0].n_labels, middle, color=colour, ls=line, lw=1.6, label=label)
    right.set(yscale="log", xlabel="labels", ylabel="mean squared error")
    right.set_title(f"median of {SEEDS} runs", loc="left", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    plane.save(figure, path)
