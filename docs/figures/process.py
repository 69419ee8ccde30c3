"""The figures of Gaussian processes: prior and posterior, evidence, a series, classes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import plane

from mercer import RBF, GaussianProcessClassifier, GaussianProcessRegressor
from mercer.plot import EvidenceDisplay, PosteriorDisplay

__all__ = ["classes", "evidence", "posterior", "series"]

EXAMPLES = Path(__file__).parents[2] / "examples"


def posterior(path: Path) -> None:
    """Draw functions of the prior, and of the posterior after seven points."""
    rng = np.random.default_rng(3)
    X = np.array([0.4, 1.3, 1.9, 3.0, 5.6, 6.3, 7.4])[:, None]
    y = np.sin(1.2 * X[:, 0]) + 0.3 * np.cos(2.9 * X[:, 0]) + 0.05 * rng.standard_normal(7)
    new = np.linspace(-0.5, 9, 400)
    figure, (left, right) = plane.new(2, 8.4, 3.3, sharey=True)
    model = GaussianProcessRegressor(RBF(0.8), 0.01, optimizer=None, normalize_y=False)
    prior = model.sample_y(new[:, None], 5, 4, with_noise=False)
    left.fill_between(new, -1.645, 1.645, color=plane.COLOURS[0], alpha=0.18, lw=0)
    left.plot(new, prior, color=plane.COLOURS[1], lw=0.9)
    left.axhline(0, color=plane.COLOURS[0], lw=1.8)
    left.set(xlim=(new[0], new[-1]), xlabel="$x$")
    left.set_title("before the data", loc="left", fontsize="medium")
    model.fit(X, y)
    PosteriorDisplay.from_estimator(model, new, n_samples=5, random_state=1, ax=right)
    right.set_title("after seven points", loc="left", fontsize="medium")
    right.set(ylabel="")
    right.legend(frameon=False, fontsize="x-small", loc="upper right")
    plane.save(figure, path)


def evidence(path: Path) -> None:
    """Draw the evidence of few noisy points: two hills, two readings of the same data."""
    rng = np.random.default_rng(26)
    X = np.sort(rng.uniform(0, 6, 12))[:, None]
    y = np.sin(2 * X[:, 0]) + 0.35 * rng.standard_normal(12)
    model = GaussianProcessRegressor(RBF(0.7), n_restarts=5, random_state=0).fit(X, y)
    ranges = {"length_scale": (0.08, 60.0), "noise": (3e-3, 6.0)}
    figure, (left, right) = plane.new(2, 8.4, 3.6)
    EvidenceDisplay.from_estimator(model, ["length_scale", "noise"], ranges=ranges, ax=left)
    PosteriorDisplay.from_estimator(model, ax=right)
    flat = GaussianProcessRegressor(RBF(30.0), bounds={"length_scale": (8.0, 60.0)})
    flat.fit(X, y)
    x = np.linspace(X.min() - 0.5, X.max() + 0.5, 200)
    dashed = {"color": plane.COLOURS[1], "ls": (0, (5, 3)), "lw": 1.4, "label": "all is noise"}
    right.plot(x, flat.predict(x[:, None]), **dashed)
    right.legend(frameon=False, fontsize="x-small")
    plane.save(figure, path)


def series(path: Path) -> None:
    """Draw two forecasts of the series of the example."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import gp_series
    finally:
        sys.path.remove(str(EXAMPLES))
    t, y, _ = gp_series.series()
    known = t[:, 0] < gp_series.YEARS
    models = gp_series.rivals(t[known], y[known])
    figure, rows = plane.new(1, 8.4, 5.2, rows=2, sharex=True)
    for axes, name in zip(rows, ("smooth", "composed"), strict=True):
        quiet = {"s": 3, "alpha": 0.6}
        display = PosteriorDisplay.from_estimator(
            models[name], t, with_noise=True, ax=axes, point_kwargs=quiet
        )
        display.line_.set_linewidth(1.0)
        axes.plot(t[~known], y[~known], ".", ms=3, c=plane.COLOURS[1], label="what came")
        axes.set(xlabel="" if name == "smooth" else "years", ylabel="ppm")
        axes.set_title(f"{name} kernel", loc="left", fontsize="medium")
        axes.legend(frameon=False, fontsize="small", loc="upper left")
    plane.save(figure, path)


def classes(path: Path) -> None:
    """Draw the probability of a class by the three methods."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((90, 2)) * 1.2
    y = (X[:, 1] > np.sin(2 * X[:, 0])).astype(int)
    flip = rng.random(90) < 0.06
    y[flip] = 1 - y[flip]
    x = np.linspace(-5, 5, 121)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    figure, row = plane.new(3, 8.4, 3.1, sharey=True)
    for axes, method in zip(row, ("laplace", "ep", "vi"), strict=True):
        model = GaussianProcessClassifier(1.0 * RBF(1.0), method).fit(X, y)
        p = model.predict_proba(grid)[:, 1].reshape(121, 121)
        levels = np.linspace(0, 1, 11)
        axes.contourf(x, x, p, levels=levels, cmap=plane.blend(), zorder=0)
        lines = axes.contour(x, x, p, levels=[0.1, 0.5, 0.9], colors=plane.INK, linewidths=0.8)
        axes.clabel(lines, fontsize="x-small")
        axes.plot(x, np.sin(2 * x), color=plane.INK, lw=0.9, ls=(0, (4, 3)))
        plane.points(axes, X, y, size=9)
        axes.set(xlim=(-5, 5), ylim=(-5, 5), xticks=[], yticks=[], aspect="equal")
        title = f"{method}: log evidence {model.log_marginal_likelihood_value_:.1f}"
        axes.set_title(title, loc="left", fontsize="small")
    plane.save(figure, path)
