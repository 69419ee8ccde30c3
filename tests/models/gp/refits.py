"""Models of every kind, and what a fit to some of their rows with the same parameters says."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import RBF, GaussianProcessRegressor, Matern, White
from mercer.domains import GramRows

N, D = 16, 2


def study(name: str, rng: np.random.Generator) -> tuple[Any, Any, np.ndarray, Any]:
    """Return an unfitted model, X, y and sample weights."""
    X = rng.uniform(-2, 2, (N, D))
    y = 5.0 + 3.0 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(N)
    w = None
    kernel: Any = 1.5 * RBF(0.9)
    options: dict[str, Any] = {"optimizer": None, "noise": 0.3}
    if "tuned" in name:
        options = {}
    if "plain" in name:
        options["normalize_y"] = False
    if "constant" in name:
        options["mean"] = "constant"
    if "linear" in name:
        options["mean"] = "linear"
    if "weights" in name:
        w = rng.uniform(0.2, 3.0, N)
    if "vector" in name:
        options["noise"] = rng.uniform(0.1, 0.8, N)
    if "outputs" in name:
        y = np.column_stack([y, 100 * y**2, rng.standard_normal(N)])
    if "white" in name:
        kernel = Matern([1.0, 2.0], 1.5) + White(0.2)
    if "duplicates" in name:
        X[5:9] = X[1]
    return GaussianProcessRegressor(kernel, **options), X, y, w


NAMES = [
    "plain",
    "normalised",
    "tuned",
    "constant",
    "linear tuned",
    "plain linear weights vector outputs",
    "weights",
    "weights zero",
    "vector",
    "vector constant weights",
    "outputs",
    "outputs tuned",
    "outputs weights linear",
    "white",
    "duplicates",
]


def fitted(name: str, rng: np.random.Generator) -> Any:
    """Return a fitted model."""
    model, X, y, w = study(name, rng)
    if "zero" in name and w is not None:
        w[[2, 11]] = 0.0
    return model.fit(X, y, sample_weight=w)


def refit(model: Any, X: Any, Y: np.ndarray, weights: Any, scaled: Any) -> Any:
    """Return a model of the targets z of other rows, with the parameters of a fitted one."""
    Z = (Y - model.y_mean_) / model.y_scale_
    new = GaussianProcessRegressor(
        "precomputed" if isinstance(model.kernel_.domain, GramRows) else model.kernel_,
        scaled,
        optimizer=None,
        normalize_y=False,
        mean=model.mean,
    )
    return new.fit(X, Z, sample_weight=weights)


def part(values: Any, keep: np.ndarray) -> Any:
    """Return the rows `keep` of what may be None or one number for all."""
    return values[keep] if np.ndim(values) else values


def without(model: Any, rows: np.ndarray) -> Any:
    """Return the refit to the other rows."""
    keep = np.setdiff1d(np.arange(len(model.y_fit_)), rows)
    X = model.kernel_.domain.take(model.X_fit_, keep)
    weights, scaled = model.sample_weight_, model.scaled_noise_
    return refit(model, X, model.y_fit_[keep], part(weights, keep), part(scaled, keep))


def in_units(model: Any, new: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of the function of a refit at X, in the units of the model's y."""
    mean, std = new.predict(X, return_std=True, with_noise=False)
    return model.y_mean_ + mean * model.y_scale_, (std * model.y_scale_) ** 2
