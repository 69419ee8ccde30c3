"""Active learning: labels that are asked for teach more than labels that are drawn.

Run it with ``python examples/active_learning.py``; it takes a few seconds. With a file name it also
draws the picture: ``python examples/active_learning.py labels.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np

from mercer import RBF, FromFunction, KernelRidge, Linear
from mercer.selection import active

CRITERIA = ("a-optimal", "variance", "random")


def main(picture: str | None = None) -> None:
    """Tell the story."""
    line()
    curves = crowd()
    strings()
    if picture is not None:
        draw(curves, picture)


def line() -> None:
    """A line is best measured at its ends."""
    print("1. A line between −1 and 1, measured at both ends. Where next?")
    x = np.linspace(-1, 1, 5)[:, None]
    fit = KernelRidge(Linear(), alpha=0.0, fit_intercept=True).fit([[1.0], [-1.0]], [0.2, 0.1])
    for point, score in zip(x[:, 0], active.scores(fit, x), strict=True):
        print(f"   x = {point:+.1f}: the squared error of the weights falls by {score:.3f} σ²")
    print(f"   next: x = {x[active.next_point(fit, x), 0]:+.1f}\n")


def crowd(seeds: int = 10, queries: int = 48) -> dict[str, np.ndarray]:
    """A pool in which most points are in one place."""
    print("2. A pool of 200 points, 150 of them in a crowd: labels until the error is below 0.05")
    grid = np.linspace(-4, 4, 200)[:, None]
    test = {"X_test": grid, "y_test": np.sin(2 * grid[:, 0])}
    model, curves = KernelRidge(RBF(0.7), alpha=1e-2), {}
    for criterion in CRITERIA:
        errors = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            x = np.r_[rng.normal(0, 0.3, 150), rng.uniform(-4, 4, 50)][:, None]
            y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(200)
            options = {"criterion": criterion, "random_state": seed, **test}
            errors.append(active.learn(model, x, y, queries, **options).errors)
        curves[criterion] = np.array(errors)
        reached = np.argmax(curves[criterion] < 0.05, axis=1)
        never = ~(curves[criterion] < 0.05).any(axis=1)
        needed = np.where(never, queries + 2, reached + 2)
        more = "more than " if np.median(needed) == queries + 2 else ""
        print(f"   {criterion:9}: {more}{np.median(needed):.0f} labels (median of {seeds} runs)")
    print()
    return curves


def strings() -> None:
    """Words, with a kernel on their letters: which words tell most about the others?"""
    words = ["cat", "cart", "car", "care", "scare", "dog", "dig", "digs", "fig", "xylophone"]
    kernel = FromFunction(lambda s, t: len(set(s) & set(t)) / (len(s) * len(t)) ** 0.5)
    result = active.learn(KernelRidge(kernel, alpha=0.1), words, lambda w: [len(w[0])], 4)
    print("3. Ten words; labels are asked for in this order:")
    print("   " + ", ".join(words[i] for i in result.order))


def draw(curves: dict[str, np.ndarray], path: str) -> None:
    """Draw the median error against the number of labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for criterion, errors in curves.items():
        axes.semilogy(np.arange(2, 2 + errors.shape[1]), np.median(errors, 0), label=criterion)
    axes.set(xlabel="labels", ylabel="mean squared error")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
