"""Clusters in the plane: points by cluster, and the regions that new points would fall in."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.errors import InvalidInput
from mercer.plot.base import (
    INK,
    axes_for,
    check_columns,
    legend,
    like,
    names_of,
    palette,
    plane_over,
    style,
)

__all__ = ["ClustersDisplay"]

OWNER = "ClustersDisplay"


class ClustersDisplay:
    """Points of two columns in the colours of their clusters.

    Make it with `from_estimator`.

    Parameters
    ----------
    X : array of shape (n, 2)
        The points.
    labels : array of shape (n,)
        Their clusters.
    centres : array of shape (k, 2), optional
        Centres in the plane, where there are such.
    grid : tuple of arrays (a, b, values), optional
        Axes of a grid and the cluster of each of its points.
    names : list of str, optional
        Of the columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    points_ : list of matplotlib artists
        The points, one entry a cluster.
    regions_ : matplotlib artist or None
        The regions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelKMeans
    >>> from mercer.plot import ClustersDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = KernelKMeans(3, random_state=0).fit(X)
    >>> shown = ClustersDisplay.from_estimator(model, X)    # doctest: +SKIP
    """

    def __init__(
        self,
        X: Any,
        labels: Any,
        centres: Any = None,
        grid: tuple[Any, Any, Any] | None = None,
        names: list[str] | None = None,
    ):
        self.X = X
        self.labels = labels
        self.centres = centres
        self.grid = grid
        self.names = names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, resolution: int = 200, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the clusters of a fitted model.

        Parameters
        ----------
        estimator : KernelKMeans, DPMeans, SpectralClustering or another clusterer
            Fitted to X.
        X : array of shape (n, 2)
            The points it was fitted to.
        resolution : int, default=200
            Points of each axis at which the model is asked for the regions.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `plot`.

        Returns
        -------
        ClustersDisplay
            What was drawn.
        """
        check_is_fitted(estimator)
        points = check_columns(X, OWNER)
        if points.shape[1] != 2:
            raise InvalidInput(f"{OWNER}: X has one column; clusters are drawn over two.")
        labels = getattr(estimator, "labels_", None)
        if labels is None:
            raise InvalidInput(
                f"{OWNER}: {type(estimator).__name__} has no clusters; give a clusterer."
            )
        if len(labels) != len(points):
            raise InvalidInput(
                f"{OWNER}: X has {len(points)} points, and the model was fitted to {len(labels)}; "
                "give the points of the fit."
            )
        grid = None
        if hasattr(estimator, "predict"):
            a, b, places = plane_over(points, resolution, OWNER)
            found = estimator.predict(like(X, places))
            grid = (a, b, np.asarray(found).reshape(len(b), len(a)))
        centres = getattr(estimator, "cluster_centers_", None)
        return cls(points, labels, centres, grid, names_of(X, 2)).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        point_kwargs: dict | None = None,
        region_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        point_kwargs, region_kwargs : dict, optional
            Keywords of matplotlib for the points and the regions.

        Returns
        -------
        ClustersDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = axes_for(ax, OWNER)
        X, labels = np.asarray(self.X), np.asarray(self.labels)
        kinds = np.unique(labels)
        colours = palette(len(kinds))
        self.regions_ = None
        if self.grid is not None:
            a, b, values = self.grid
            place = np.searchsorted(kinds, values)
            look = {"alpha": 0.18, "colors": colours, "levels": np.arange(len(kinds) + 1) - 0.5}
            look = style(look, region_kwargs, "region_kwargs", OWNER)
            self.regions_ = ax.contourf(a, b, place, **look)
        dots = style({"s": 16, "lw": 0}, point_kwargs, "point_kwargs", OWNER)
        self.points_ = [
            ax.scatter(*X[labels == kind].T, **{"color": colour, "label": str(kind), **dots})
            for kind, colour in zip(kinds, colours, strict=True)
        ]
        if self.centres is not None:
            ax.scatter(*np.asarray(self.centres).T, marker="x", color=INK, s=50, label="centres")
        if len(kinds) <= 12:
            legend(ax)
        names = self.names or ["x₁", "x₂"]
        ax.set(xlabel=names[0], ylabel=names[1])
        self.ax_, self.figure_ = ax, ax.figure
        return self
