"""Gaussian processes: the posterior on a line, and the log evidence over parameters."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_bounds, check_index, entries
from mercer.errors import InvalidInput, MercerError, speaks
from mercer.plot.base import COLOURS, INK, Display, ends_of

STYLES = {"line_kwargs", "band_kwargs", "sample_kwargs", "point_kwargs"}
REACH = 30.0  # how far from the fit the grid of parameters goes, to both sides
# How far below the best the lines are: parameters beyond a few nats are as good as ruled out.
DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class PosteriorDisplay(Display):
    """Mean, band and samples of a Gaussian process of one variable.

    Make it with `from_estimator`.

    Parameters
    ----------
    x : array of shape (m,)
        Where the curves are known, ascending.
    mean, lower, upper : arrays of shape (m,)
        The mean and the ends of the band.
    samples : array of shape (m, n_samples), optional
        Functions drawn from the posterior.
    X_fit, y_fit : arrays of shape (n,), optional
        The data.
    coverage : float, default=0.9
        The probability that the band holds.
    with_noise : bool, default=False
        Whether the band is that of new observations; else that of the function.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    line_, band_, points_ : matplotlib artists
        The mean, the band and the data; `points_` is None without data.
    sample_lines_ : list of matplotlib artists
        The samples.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, GaussianProcessRegressor
    >>> from mercer.plot import PosteriorDisplay
    >>> X = np.linspace(0, 6, 12)[:, None]
    >>> model = GaussianProcessRegressor(RBF(1.0)).fit(X, np.sin(X[:, 0]))
    >>> shown = PosteriorDisplay.from_estimator(model, n_samples=3)    # doctest: +SKIP
    >>> shown.figure_.savefig("posterior.png")    # doctest: +SKIP
    """

    def __init__(
        self,
        x: Any,
        mean: Any,
        lower: Any,
        upper: Any,
        *,
        samples: Any = None,
        X_fit: Any = None,
        y_fit: Any = None,
        coverage: float = 0.9,
        with_noise: bool = False,
    ):
        self.x = x
        self.mean = mean
        self.lower = lower
        self.upper = upper
        self.samples = samples
        self.X_fit = X_fit
        self.y_fit = y_fit
        self.coverage = coverage
        self.with_noise = with_noise

    @classmethod
    @speaks
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        coverage: float = 0.9,
        with_noise: bool = False,
        n_samples: int = 0,
        n_points: int = 400,
        output: int = 0,
        random_state: Any = 0,
        ax: Any = None,
        **styles: Any,
    ) -> Self:
        """Compute the curves of a process and draw them; before its fit those of the prior.

        Parameters
        ----------
        estimator : GaussianProcessRegressor or SparseGaussianProcessRegressor
            Fitted on one column, or not fitted.
        X : array of shape (m,) or (m, 1), optional
            Where to look; by default evenly over the data and a tenth beyond. Needed before a fit.
        coverage : float, default=0.9
            The probability that the band is to hold, between 0 and 1.
        with_noise : bool, default=False
            Draw the band of new observations, which is wider; else that of the function.
        n_samples : int, default=0
            How many functions of the posterior to draw.
        n_points : int, default=400
            How many points the curves have where X is not given.
        output : int, default=0
            Which output, of a model with several.
        random_state : int, RandomState or None, default=0
            For the samples.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **styles
            `line_kwargs`, `band_kwargs`, `sample_kwargs`, `point_kwargs`: see `plot`.

        Returns
        -------
        PosteriorDisplay
            What was drawn.
        """
        _check(estimator, coverage, X)
        check_index(n_points, "n_points", 2)
        check_index(n_samples, "n_samples", 0)
        if set(styles) - STYLES:
            raise InvalidInput(
                f"PosteriorDisplay: {', '.join(sorted(set(styles) - STYLES))} is no argument; "
                f"styles are {', '.join(sorted(STYLES))}."
            )
        points, targets = _data(estimator)
        given = np.linspace(*ends_of(points), n_points) if X is None else np.asarray(X)  # type: ignore[arg-type]
        try:
            x = np.sort(np.asarray(given, dtype=float).reshape(-1))
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"PosteriorDisplay: X holds no numbers ({error}).") from error
        if not x.size or (X is not None and x.size != len(given)):
            raise InvalidInput(
                f"PosteriorDisplay: X has shape {np.shape(X)}; give (m,) or (m, 1), m ≥ 1."
            )
        column = x[:, None]
        samples: Any = None
        with warnings.catch_warnings():  # a column without the name that it had in training
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            mean, std = estimator.predict(column, return_std=True, with_noise=with_noise)
            if n_samples:
                samples = estimator.sample_y(column, n_samples, random_state, with_noise=False)
        mean, std = (A.reshape(len(x), -1) for A in (mean, std))
        at = check_index(output, "output", 0, mean.shape[1] - 1)
        if samples is not None and samples.ndim == 3:
            samples = samples[:, at]
        mean, std = mean[:, at], std[:, at]
        half = ndtri(0.5 + coverage / 2) * std
        display = cls(
            x,
            mean,
            mean - half,
            mean + half,
            samples=samples,
            X_fit=None if targets is None else points,
            y_fit=None if targets is None else targets[:, at],
            coverage=coverage,
            with_noise=bool(np.any(with_noise)),
        )
        return display.plot(ax, **styles)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kwargs: dict | None = None,
        band_kwargs: dict | None = None,
        sample_kwargs: dict | None = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        line_kwargs, band_kwargs, sample_kwargs, point_kwargs : dict, optional
            Keywords of matplotlib for the mean, the band, the samples and the data.

        Returns
        -------
        PosteriorDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = self._axes(ax)
        what = "a new observation" if self.with_noise else "the function"
        label = f"{self.coverage:.0%} of {what}"
        fill = {"color": COLOURS[0], "alpha": 0.18, "lw": 0, "label": label}
        self.band_ = ax.fill_between(
            self.x, self.lower, self.upper, **self._style(fill, band_kwargs=band_kwargs)
        )
        thin = self._style({"lw": 0.9, "color": COLOURS[1]}, sample_kwargs=sample_kwargs)
        self.sample_lines_ = []
        if self.samples is not None:
            self.sample_lines_ = ax.plot(self.x, self.samples, **thin)
            self.sample_lines_[0].set_label("samples")
        solid = {"color": COLOURS[0], "lw": 1.8, "label": "mean"}
        (self.line_,) = ax.plot(self.x, self.mean, **self._style(solid, line_kwargs=line_kwargs))
        self.points_ = None
        if self.X_fit is not None:
            dots = {"s": 14, "color": INK, "linewidths": 0, "label": "data", "zorder": 3}
            dots = self._style(dots, point_kwargs=point_kwargs)
            self.points_ = ax.scatter(self.X_fit, self.y_fit, **dots)
        ax.set(xlabel="x", ylabel="y", xlim=(self.x[0], self.x[-1]) if len(self.x) > 1 else None)
        ax.legend(frameon=False, fontsize="small")
        return self._drawn_on(ax)


def _data(estimator: Any) -> tuple[Any, Any]:
    """Return the x and y that a model was fitted to, or inducing points and None; None before."""
    if not hasattr(estimator, "dual_coef_"):
        return None, None
    points = estimator.X_fit_
    points = np.asarray(points.toarray() if hasattr(points, "toarray") else points)[:, 0]
    y = getattr(estimator, "y_fit_", None)
    return points, None if y is None else np.asarray(y).reshape(len(points), -1)


def _check(estimator: Any, coverage: float, X: Any) -> None:
    """Refuse what has no curve on a line."""
    name = type(estimator).__name__
    if not hasattr(estimator, "sample_y"):
        raise InvalidInput(
            f"PosteriorDisplay: a {name} has no posterior; give a fitted GaussianProcessRegressor "
            "or SparseGaussianProcessRegressor."
        )
    if X is None:
        check_is_fitted(
            estimator,
            "dual_coef_",
            msg=f"PosteriorDisplay: this {name} is not fitted; give X for its prior.",
        )
    points = getattr(estimator, "X_fit_", None)
    rows = points is None or hasattr(points, "toarray") or isinstance(points, np.ndarray)
    several = getattr(estimator, "n_features_in_", 1) != 1
    domain = getattr(getattr(estimator, "kernel_", None), "domain", None)
    if several or not rows or (domain is not None and not domain.holds_points):
        raise InvalidInput(
            f"PosteriorDisplay: this {name} was not fitted on one column, so that there is no line "
            "to draw along; predict(X, return_std=True) has the numbers."
        )
    if not (isinstance(coverage, int | float | np.number) and 0 < coverage < 1):
        raise InvalidInput(
            f"PosteriorDisplay: coverage={coverage!r}; give a number between 0 and 1."
        )


class EvidenceDisplay(Display):
    """Log evidence over one parameter (a curve) or two (lines of equal height).

    Make it with `from_estimator`.

    Parameters
    ----------
    names : sequence of one or two str
        The parameters.
    grids : sequence of arrays
        Their values.
    values : array of shape (m,) or (m2, m1)
        The log evidence; one row for each value of the second parameter. −inf or nan where it
        could not be computed.
    best : sequence of float, optional
        The parameters of the fit.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib artist
        The curve, or the lines of equal height.
    best_ : matplotlib artist or None
        The mark at the parameters of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, GaussianProcessRegressor
    >>> from mercer.plot import EvidenceDisplay
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> model = GaussianProcessRegressor(RBF(1.0)).fit(X, y)
    >>> shown = EvidenceDisplay.from_estimator(model, ["length_scale", "noise"])  # doctest: +SKIP
    """

    def __init__(self, names: Any, grids: Any, values: Any, *, best: Any = None):
        self.names = names
        self.grids = grids
        self.values = values
        self.best = best

    @classmethod
    @speaks
    def from_estimator(
        cls,
        estimator: Any,
        over: str | Sequence[str] | None = None,
        *,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        resolution: int = 30,
        ax: Any = None,
        line_kwargs: dict | None = None,
    ) -> Self:
        """Compute the evidence of a fitted process on a grid and draw it.

        The other parameters stay as they were fitted. Every point of the grid is one evaluation
        of the evidence.

        Parameters
        ----------
        estimator : GaussianProcessRegressor, SparseGaussianProcessRegressor or classifier
            Fitted.
        over : str or sequence of one or two str, optional
            Names as in ``estimator.theta_names_``, or their ends where these say enough; by
            default the first and the last.
        ranges : dict of str to (low, high), optional
            Where to look; by default a factor of 30 to both sides of the fit.
        resolution : int, default=30
            Values a parameter.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        line_kwargs : dict, optional
            Keywords of matplotlib for the curve or the lines of equal height.

        Returns
        -------
        EvidenceDisplay
            What was drawn.
        """
        check_is_fitted(estimator, "dual_coef_")
        check_index(resolution, "resolution", 2)
        index = _chosen(estimator, over)
        theta = np.asarray(estimator.theta_, dtype=float)
        names = [estimator.theta_names_[i] for i in index]
        ranges = _checked_ranges(ranges, names)
        grids = [_grid(names[k], theta[i], ranges, resolution) for k, i in enumerate(index)]
        mesh = np.meshgrid(*grids)
        values = np.empty(mesh[0].shape)
        for place in np.ndindex(values.shape):
            there = theta.copy()
            there[index] = [np.log(m[place]) for m in mesh]
            try:
                values[place] = estimator.log_marginal_likelihood(there)
            except MercerError:  # no evidence there, such as a matrix that is singular
                values[place] = np.nan
        return cls(names, grids, values, best=np.exp(theta[index])).plot(
            ax, line_kwargs=line_kwargs
        )

    def plot(self, ax: Any = None, *, line_kwargs: dict | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        line_kwargs : dict, optional
            Keywords of matplotlib for the curve or the lines of equal height.

        Returns
        -------
        EvidenceDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = self._axes(ax)
        values = np.ma.masked_invalid(self.values)
        mark = {"color": COLOURS[1], "marker": "+", "s": 90, "zorder": 3, "label": "fitted"}
        self.best_ = None
        if len(self.names) == 1:
            solid = self._style({"color": COLOURS[0], "lw": 1.8}, line_kwargs=line_kwargs)
            (self.line_,) = ax.plot(self.grids[0], values, **solid)
            ax.set(xscale="log", xlabel=self.names[0], ylabel="log evidence")
            if self.best is not None:
                self.best_ = ax.axvline(self.best[0], color=COLOURS[1], lw=0.9, label="fitted")
        else:
            top = float(values.max())
            levels = sorted(top - depth for depth in DEPTHS)
            lines = {"levels": levels, "colors": INK, "linewidths": 0.9, "linestyles": "solid"}
            lines = self._style(lines, line_kwargs=line_kwargs)
            # Levels are dense near the top: one tint a level, however far apart they are.
            tints = [str(g) for g in np.linspace(0.55, 1.0, len(levels))]
            bands = [*levels, top + 1.0]
            ax.contourf(*self.grids, values, levels=bands, colors=tints, extend="min")
            self.line_ = ax.contour(*self.grids, values, **lines)
            ax.clabel(
                self.line_, fmt=lambda v: f"{v - top:.0f}", fontsize="x-small", inline_spacing=2
            )
            ax.set(xscale="log", yscale="log", xlabel=self.names[0], ylabel=self.names[1])
            ax.set_title(f"log evidence less its largest value, {top:.4g}", fontsize="medium")
            if self.best is not None:
                self.best_ = ax.scatter(*self.best, **mark)
        if self.best is not None:
            ax.legend(frameon=False, fontsize="small")
        return self._drawn_on(ax)


def _chosen(estimator: Any, over: Any) -> list[int]:
    """Return the positions in theta of one or two parameters."""
    names = list(getattr(estimator, "theta_names_", []))
    if not names:
        raise InvalidInput(
            f"EvidenceDisplay: this {type(estimator).__name__} has no parameters with an evidence; "
            "give a fitted Gaussian process whose kernel or noise may be tuned."
        )
    if over is None:
        over = names if len(names) < 3 else [names[0], names[-1]]
    asked = [over] if isinstance(over, str) else list(over)
    found = [entries(str(name), names) for name in asked]
    index = [at[0] for at in found if len(at) == 1]
    if len(asked) not in (1, 2) or len(set(index)) < len(asked):
        raise InvalidInput(f"EvidenceDisplay: over={over!r}; give one or two of {names}.")
    return index


def _grid(name: str, log_value: float, ranges: Any, resolution: int) -> np.ndarray:
    value = float(np.exp(log_value))
    low, high = ranges.get(name, (value / REACH, value * REACH))
    return np.geomspace(low, high, resolution)


@speaks("EvidenceDisplay")
def _checked_ranges(ranges: Any, names: list[str]) -> dict[str, tuple[float, float]]:
    """Return the ranges by the full names of the parameters drawn."""
    if ranges is not None and not isinstance(ranges, Mapping):
        raise InvalidInput(
            f"EvidenceDisplay: ranges={ranges!r}; give a dict of names to (low, high)."
        )
    out = {}
    for given, pair in (ranges or {}).items():
        found = entries(given, names)
        if not found:
            raise InvalidInput(f"EvidenceDisplay: ranges names {given!r}; drawn are {names}.")
        low, high = check_bounds(given, pair, "ranges")
        if not low < high:
            raise InvalidInput(
                f"EvidenceDisplay: ranges[{given!r}] = {pair!r}; give 0 < low < high."
            )
        out.update({names[i]: (low, high) for i in found})
    return out
