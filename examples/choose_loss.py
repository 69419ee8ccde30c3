"""Choosing a loss: one set of measurements, five questions, and a loss for each.

Run it with ``python examples/choose_loss.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, KernelERM, tune
from mercer.losses import EpsilonInsensitive, Huber, Pinball, ZeroOne

KERNEL = RBF(1.2)
REGRESSION = ["squared", Huber(0.3), "absolute", EpsilonInsensitive(0.2), Pinball(0.9)]
LABELS = ["hinge", "squared_hinge", "logistic", "exponential"]


def sensor(n: int, wrong: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, readings of which a share is far too high, and the truth."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 8, n))
    truth = np.sin(x) + 0.3 * x
    y = truth + 0.2 * rng.standard_normal(n) + 6.0 * (rng.random(n) < wrong)
    return x[:, None], y, truth


def crescents(n: int, flipped: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, labels of which a share is wrong, and the right ones."""
    rng = np.random.default_rng(seed)
    right = np.where(rng.random(n) < 0.5, 1, -1)
    angle = rng.uniform(0, np.pi, n)
    X = np.stack([np.cos(angle) + 0.5 * (right < 0), right * (np.sin(angle) - 0.25)], axis=1)
    X += 0.15 * rng.standard_normal((n, 2))
    return X, np.where(rng.random(n) < flipped, -right, right), right


def outliers() -> None:
    """How far do wrong readings pull the fit from the truth?"""
    print("1. Distance of the fit from the truth, as readings go wrong")
    print("   loss                              none     5%    15%   points with a pull")
    for loss in REGRESSION[:4]:
        errors = []
        for wrong in (0.0, 0.05, 0.15):
            X, y, truth = sensor(200, wrong, 0)
            model = KernelERM(KERNEL, loss, alpha=0.3).fit(X, y)
            errors.append(float(np.sqrt(np.mean((model.predict(X) - truth) ** 2))))
        pull = np.count_nonzero(np.abs(model.dual_coef_) > 1e-9)
        print(f"   {loss!s:31} " + "".join(f"{e:6.2f} " for e in errors) + f"{pull:10d} of 200")
    print()


def questions() -> None:
    """What does each loss answer? The share of readings below the fit tells."""
    X, y, _ = sensor(400, 0.0, 1)
    print("2. Share of the readings below the fit, and the certificate of the fit")
    for loss in REGRESSION:
        model = KernelERM(KERNEL, loss, alpha=0.3).fit(X, y)
        below, gap = (y < model.predict(X)).mean(), model.solution_.gap / model.solution_.primal
        print(f"   {loss!s:31} {below:5.2f}   relative duality gap {gap:.0e}")
    print()


def labels() -> None:
    """What do wrong labels do to a classifier?"""
    print("3. Mistakes on new points, as training labels go wrong")
    print("   loss              none    10%    25%")
    new, _, right = crescents(2000, 0.0, 7)
    for loss in LABELS:
        mistakes = []
        for flipped in (0.0, 0.1, 0.25):
            X, y, _ = crescents(300, flipped, 3)
            model = KernelERM(RBF(0.6), loss, alpha=0.3).fit(X, y)
            mistakes.append(ZeroOne().value(right, model.decision_function(new)).mean())
        print(f"   {loss:15}" + "".join(f" {m:6.3f}" for m in mistakes))
    print()


def chosen() -> None:
    """Let folds choose where they can: by one score for all losses, fair to readings gone wrong."""
    X, y, truth = sensor(120, 0.1, 2)
    print("4. Scale and penalty of each loss by folds, scored by the median absolute error")
    for loss in ("squared", Huber(0.3), "absolute"):
        model, score = KernelERM(KERNEL, loss), "neg_median_absolute_error"
        result = tune(model, X, y, scoring=score, over=["length_scale", "alpha"], max_iter=10)
        off = np.sqrt(np.mean((result.model.predict(X) - truth) ** 2))
        found = f"length scale {result.params['kernel__length_scale']:.2f}"
        print(f"   {loss!s:31} {found}, alpha {result.params['alpha']:.2g}: off by {off:.2f}")


if __name__ == "__main__":
    outliers()
    questions()
    labels()
    chosen()
