"""The posterior of a process on a line: mean, band, samples and the data."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.plot.base import COLOURS, INK, axes_for, style
from mercer.solvers import check_index

__all__ = ["PosteriorDisplay"]

OWNER = "PosteriorDisplay"
STYLES = {"line_kwargs", "band_kwargs", "sample_kwargs", "point_kwargs"}
MARGIN = 0.1  # how far beyond the data the curve is drawn, in parts of their range


class PosteriorDisplay:
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
        check_index(n_points, "n_points", OWNER, 2)
        check_index(n_samples, "n_samples", OWNER, 0)
        if set(styles) - STYLES:
            raise InvalidInput(
                f"{OWNER}: {', '.join(sorted(set(styles) - STYLES))} is no argument; styles are "
                f"{', '.join(sorted(STYLES))}."
            )
        points, targets = _data(estimator)
        given = np.linspace(*_ends(points), n_points) if X is None else np.asarray(X)  # type: ignore[arg-type]
        try:
            x = np.sort(np.asarray(given, dtype=float).reshape(-1))
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{OWNER}: X holds no numbers ({error}).") from error
        if not x.size or (X is not None and x.size != len(given)):
            raise InvalidInput(f"{OWNER}: X has shape {np.shape(X)}; give (m,) or (m, 1), m ≥ 1.")
        column = x[:, None]
        samples: Any = None
        with warnings.catch_warnings():  # a column without the name that it had in training
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            mean, std = estimator.predict(column, return_std=True, with_noise=with_noise)
            if n_samples:
                samples = estimator.sample_y(column, n_samples, random_state, with_noise=False)
        mean, std = (A.reshape(len(x), -1) for A in (mean, std))
        at = check_index(output, "output", OWNER, 0, mean.shape[1] - 1)
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
        ax = axes_for(ax, OWNER)
        what = "a new observation" if self.with_noise else "the function"
        label = f"{self.coverage:.0%} of {what}"
        fill = {"color": COLOURS[0], "alpha": 0.18, "lw": 0, "label": label}
        self.band_ = ax.fill_between(
            self.x, self.lower, self.upper, **style(fill, band_kwargs, "band_kwargs", OWNER)
        )
        thin = style({"lw": 0.9, "color": COLOURS[1]}, sample_kwargs, "sample_kwargs", OWNER)
        self.sample_lines_ = []
        if self.samples is not None:
            self.sample_lines_ = ax.plot(self.x, self.samples, **thin)
            self.sample_lines_[0].set_label("samples")
        solid = {"color": COLOURS[0], "lw": 1.8, "label": "mean"}
        (self.line_,) = ax.plot(
            self.x, self.mean, **style(solid, line_kwargs, "line_kwargs", OWNER)
        )
        self.points_ = None
        if self.X_fit is not None:
            dots = {"s": 14, "color": INK, "linewidths": 0, "label": "data", "zorder": 3}
            dots = style(dots, point_kwargs, "point_kwargs", OWNER)
            self.points_ = ax.scatter(self.X_fit, self.y_fit, **dots)
        ax.set(xlabel="x", ylabel="y", xlim=(self.x[0], self.x[-1]) if len(self.x) > 1 else None)
        ax.legend(frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


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
            f"{OWNER}: a {name} has no posterior; give a fitted GaussianProcessRegressor or "
            "SparseGaussianProcessRegressor."
        )
    if X is None:
        check_is_fitted(
            estimator,
            "dual_coef_",
            msg=f"{OWNER}: this {name} is not fitted; give X for its prior.",
        )
    points = getattr(estimator, "X_fit_", None)
    rows = points is None or hasattr(points, "toarray") or isinstance(points, np.ndarray)
    several = getattr(estimator, "n_features_in_", 1) != 1
    if several or not rows or isinstance(_domain(estimator), GramRows):
        raise InvalidInput(
            f"{OWNER}: this {name} was not fitted on one column, so that there is no line to draw "
            "along; predict(X, return_std=True) has the numbers."
        )
    if not (isinstance(coverage, int | float | np.number) and 0 < coverage < 1):
        raise InvalidInput(f"{OWNER}: coverage={coverage!r}; give a number between 0 and 1.")


def _domain(estimator: Any) -> Any:
    return getattr(getattr(estimator, "kernel_", None), "domain", None)


def _ends(x: np.ndarray) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    beyond = MARGIN * (high - low) or 1.0
    return low - beyond, high + beyond
