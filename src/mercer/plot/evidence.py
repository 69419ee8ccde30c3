"""The log evidence of a process over one or two of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_bounds, entries
from mercer.errors import InvalidInput, MercerError
from mercer.plot.base import COLOURS, INK, axes_for, style
from mercer.solvers import check_index

__all__ = ["EvidenceDisplay"]

OWNER = "EvidenceDisplay"
REACH = 30.0  # how far from the fit the grid goes, to both sides
# How far below the best the lines are: parameters beyond a few nats are as good as ruled out.
DEPTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class EvidenceDisplay:
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
        check_index(resolution, "resolution", OWNER, 2)
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
        ax = axes_for(ax, OWNER)
        values = np.ma.masked_invalid(self.values)
        mark = {"color": COLOURS[1], "marker": "+", "s": 90, "zorder": 3, "label": "fitted"}
        self.best_ = None
        if len(self.names) == 1:
            solid = style({"color": COLOURS[0], "lw": 1.8}, line_kwargs, "line_kwargs", OWNER)
            (self.line_,) = ax.plot(self.grids[0], values, **solid)
            ax.set(xscale="log", xlabel=self.names[0], ylabel="log evidence")
            if self.best is not None:
                self.best_ = ax.axvline(self.best[0], color=COLOURS[1], lw=0.9, label="fitted")
        else:
            top = float(values.max())
            levels = sorted(top - depth for depth in DEPTHS)
            lines = {"levels": levels, "colors": INK, "linewidths": 0.9, "linestyles": "solid"}
            lines = style(lines, line_kwargs, "line_kwargs", OWNER)
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
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _chosen(estimator: Any, over: Any) -> list[int]:
    """Return the positions in theta of one or two parameters."""
    names = list(getattr(estimator, "theta_names_", []))
    if not names:
        raise InvalidInput(
            f"{OWNER}: this {type(estimator).__name__} has no parameters with an evidence; give a "
            "fitted Gaussian process whose kernel or noise may be tuned."
        )
    if over is None:
        over = names if len(names) < 3 else [names[0], names[-1]]
    asked = [over] if isinstance(over, str) else list(over)
    found = [entries(str(name), names) for name in asked]
    index = [at[0] for at in found if len(at) == 1]
    if len(asked) not in (1, 2) or len(set(index)) < len(asked):
        raise InvalidInput(f"{OWNER}: over={over!r}; give one or two of {names}.")
    return index


def _grid(name: str, log_value: float, ranges: Any, resolution: int) -> np.ndarray:
    value = float(np.exp(log_value))
    low, high = ranges.get(name, (value / REACH, value * REACH))
    return np.geomspace(low, high, resolution)


def _checked_ranges(ranges: Any, names: list[str]) -> dict[str, tuple[float, float]]:
    """Return the ranges by the full names of the parameters drawn."""
    if ranges is not None and not isinstance(ranges, Mapping):
        raise InvalidInput(f"{OWNER}: ranges={ranges!r}; give a dict of names to (low, high).")
    out = {}
    for given, pair in (ranges or {}).items():
        found = entries(given, names)
        if not found:
            raise InvalidInput(f"{OWNER}: ranges names {given!r}; drawn are {names}.")
        low, high = check_bounds(given, pair, "ranges", OWNER)
        if not low < high:
            raise InvalidInput(f"{OWNER}: ranges[{given!r}] = {pair!r}; give 0 < low < high.")
        out.update({names[i]: (low, high) for i in found})
    return out
