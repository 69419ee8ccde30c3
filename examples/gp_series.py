"""A series like that of carbon dioxide in the air: a trend, a season, and what they will be.

Run it with ``python examples/gp_series.py``; it takes a few seconds. With a file name it also draws
the picture: ``python examples/gp_series.py series.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np

from mercer import RBF, Function, GaussianProcessRegressor, Periodic

YEARS, AHEAD = 25, 8


def series(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times in years, the parts per million measured each month, and without the errors.

    Made up after the record of Mauna Loa: growth that quickens, a season that grows with it, slow
    irregularities, and an error of 0.3.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(0, YEARS + AHEAD, 1 / 12)
    trend = 315 + 0.9 * t + 0.014 * t**2
    season = (2.5 + 0.02 * t) * (np.sin(2 * np.pi * t) + 0.3 * np.sin(4 * np.pi * t + 1))
    slow = 0.5 * np.sin(2 * np.pi * t / 3.7 + 1) + 0.3 * np.sin(2 * np.pi * t / 1.9)
    truth = trend + season + slow
    return t[:, None], truth + 0.3 * rng.standard_normal(len(t)), truth


def main(picture: str | None = None) -> None:
    """Tell the story."""
    t, y, truth = series()
    known = t[:, 0] < YEARS
    models = rivals(t[known], y[known])
    for name, model in models.items():
        forecast(name, model, t[~known], y[~known])
    parts(models["composed"], t, truth, known)
    if picture is not None:
        draw(models, t, y, known, picture)


def rivals(t: np.ndarray, y: np.ndarray) -> dict[str, GaussianProcessRegressor]:
    """Fit three ideas of the series, and ask the evidence which is right."""
    trend = 1.0 * RBF(40.0)  # what bends over decades; its length is held, as is the year
    season = 1.0 * RBF(60.0) * Periodic(1.0, period=1.0)
    slow = 0.1 * RBF(1.0)
    kernels = {"smooth": trend, "seasonal": trend + season, "composed": trend + season + slow}
    print(
        "1. Which idea of the series is right? The log evidence, for parameters that make it large"
    )
    models = {}
    for name, kernel in kernels.items():
        names = kernel.theta_names
        fixed = [next(n for n in names if n.endswith("length_scale"))]
        fixed += [n for n in names if n.endswith("period")]
        model = GaussianProcessRegressor(kernel, mean="linear", fixed=fixed).fit(t, y)
        models[name] = model
        noise = model.noise_**0.5
        value = model.log_marginal_likelihood_value_
        print(f"   {name:9} {value:9.1f}   error {noise:.2f} ppm (true: 0.30)")
    print(f"   {models['composed'].kernel_}\n")
    return models


def forecast(name: str, model: GaussianProcessRegressor, t: np.ndarray, y: np.ndarray) -> None:
    """Look ahead, with bands, and count what is inside."""
    if name == "smooth":
        print(f"2. The next {AHEAD} years: error of the forecast, and the months that bands hold")
    mean, std = model.predict(t, return_std=True)
    off = np.abs(y - mean)
    inside = (off < 1.645 * std).mean()
    print(f"   {name:9} root mean square {np.sqrt((off**2).mean()):6.2f} ppm, 90% band ±", end="")
    print(f"{1.645 * std.mean():5.2f} holds {inside:4.0%}")


def parts(model: GaussianProcessRegressor, t: np.ndarray, truth: np.ndarray, known) -> None:
    """The mean of a sum is a sum: each kernel k has the part Σ aᵢ k(tᵢ, ·)."""
    print("\n3. The parts of the mean, every fifth year in January: a line, and what bends it")
    both, slow = model.kernel_.k1, model.kernel_.k2
    kernels = {"trend": both.k1, "season": both.k2, "slow": slow}
    now = t[known][:: 12 * 5]
    shares = {n: Function(k, model.X_fit_, model.dual_coef_)(now) for n, k in kernels.items()}
    line = model.intercept_ + now @ model.mean_coef_
    total = line + sum(shares.values())
    for i, when in enumerate(now[:, 0]):
        row = "  ".join(f"{n} {s[i]:+7.2f}" for n, s in shares.items())
        print(f"   year {when:4.0f}: line {line[i]:.1f}  {row} = {total[i]:.1f}")
    print(f"   they add up to the mean: {np.abs(total - model.predict(now)).max():.0e} apart")


def draw(models: dict, t: np.ndarray, y: np.ndarray, known: np.ndarray, path: str) -> None:
    """Draw the series and two forecasts."""
    from matplotlib.figure import Figure

    from mercer.plot import PosteriorDisplay

    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 1, sharex=True), ("smooth", "composed"), strict=True):
        PosteriorDisplay.from_estimator(models[name], t, with_noise=True, ax=axes)
        axes.plot(t[~known], y[~known], ".", ms=3, c="#D55E00", label="what came")
        axes.set(title=name, xlabel="years", ylabel="ppm")
        axes.legend(frameon=False, fontsize="small", loc="upper left")
    figure.savefig(path, dpi=150)
    print(f"   picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
