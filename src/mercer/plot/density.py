"""A density over one or two columns: a curve, or lines of equal height."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.errors import InvalidInput
from mercer.plot.base import (
    COLOURS,
    INK,
    axes_for,
    check_columns,
    like,
    line_over,
    names_of,
    plane_over,
    style,
)

__all__ = ["DensityDisplay"]

OWNER = "DensityDisplay"
FINEST = 20_000  # steps along a line, at most


class DensityDisplay:
    """A density over one or two columns, with the points.

    Make it with `from_estimator`.

    Parameters
    ----------
    grids : list of arrays
        One axis or two.
    values : array
        The density on the line, or on the grid with the second axis along its rows.
    X : array of shape (n, d), optional
        The points.
    names : list of str, optional
        Of the columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    density_ : matplotlib artist
        The curve or the surface.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelDensity
    >>> from mercer.plot import DensityDisplay
    >>> X = np.random.default_rng(0).normal(size=(80, 1))
    >>> model = KernelDensity().fit(X)
    >>> shown = DensityDisplay.from_estimator(model, X)    # doctest: +SKIP
    """

    def __init__(self, grids: list[Any], values: Any, X: Any = None, names: Any = None):
        self.grids = grids
        self.values = values
        self.X = X
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, resolution: int = 200, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Evaluate a density over the range of points and draw it.

        Parameters
        ----------
        estimator : KernelDensity or another density with score_samples
            Fitted on one or two columns.
        X : array of shape (n,), (n, 1) or (n, 2)
            Points, which are drawn too.
        resolution : int, default=200
            Points of each axis; on one axis more, where the bandwidth is small.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `plot`.

        Returns
        -------
        DensityDisplay
            What was drawn.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "score_samples") or hasattr(estimator, "transform"):
            raise InvalidInput(
                f"{OWNER}: {type(estimator).__name__} is no density; give one with score_samples, "
                "such as KernelDensity."
            )
        points = check_columns(X, OWNER)
        width = np.abs(np.asarray(getattr(estimator, "bandwidth_", 0.0), dtype=float))
        reach = 3.0 * float(width.max(initial=0.0))
        if points.shape[1] == 1:
            if reach > 0:  # steps of a quarter of the bandwidth show every bump
                span = float(np.ptp(points)) + 2 * reach
                resolution = max(resolution, int(min(span / (reach / 12) + 2, FINEST)))
            grids = [line_over(points[:, 0], resolution, OWNER, reach)]
            places = grids[0][:, None]
        else:
            *grids, places = plane_over(points, resolution, OWNER, reach)
        heights = estimator.score_samples(like(X, places))
        values = np.exp(heights).reshape([len(g) for g in grids[::-1]])
        return cls(grids, values, points, names_of(X, points.shape[1])).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        density_kwargs: dict | None = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        density_kwargs, point_kwargs : dict, optional
            Keywords of matplotlib for the density and for the points.

        Returns
        -------
        DensityDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = axes_for(ax, OWNER)
        if len(self.grids) == 1:
            line = {"color": COLOURS[0], "lw": 1.8}
            line = style(line, density_kwargs, "density_kwargs", OWNER)
            (self.density_,) = ax.plot(self.grids[0], self.values, **line)
            ax.fill_between(self.grids[0], self.values, color=COLOURS[0], alpha=0.15, lw=0)
            if self.X is not None:
                ticks = {
                    "color": INK,
                    "marker": "|",
                    "ls": "",
                    "ms": 8,
                    "alpha": min(0.5, 200 / len(self.X)),
                }
                ticks = style(ticks, point_kwargs, "point_kwargs", OWNER)
                ax.plot(self.X[:, 0], np.zeros(len(self.X)), **ticks)
            ax.set(xlabel=(self.names or ["x"])[0], ylabel="density")
        else:
            surface = style(
                {"levels": 12, "cmap": "Blues"}, density_kwargs, "density_kwargs", OWNER
            )
            self.density_ = ax.contourf(*self.grids, self.values, **surface)
            ax.figure.colorbar(self.density_, ax=ax, label="density")
            if self.X is not None:
                dots = {"color": INK, "s": 5, "lw": 0, "alpha": min(0.6, 300 / len(self.X))}
                ax.scatter(*self.X.T, **style(dots, point_kwargs, "point_kwargs", OWNER))
            names = self.names or ["x₁", "x₂"]
            ax.set(xlabel=names[0], ylabel=names[1])
        self.ax_, self.figure_ = ax, ax.figure
        return self
