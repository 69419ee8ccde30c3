"""Points on two components, by cluster and under their density; the null of a test.

The null knows results by what they have, so that `mercer.statistics` may draw them.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_index
from mercer.domains import is_missing
from mercer.errors import InvalidInput, speaks
from mercer.plot.base import COLOURS, INK, MOST, Display, legend, like, names_of, palette

FINEST = 20_000  # steps along a line, at most


class ProjectionDisplay(Display):
    """Points on two of the components that a transformer found.

    Make it with `from_estimator`.

    Parameters
    ----------
    Z : array of shape (n, 2)
        The points.
    labels : array of shape (n,), optional
        Colours: few different labels get one each, other numbers a scale.
    axes : pair of str, default=("component 1", "component 2")
        What the axes say.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    points_ : list of matplotlib artists
        The points, one entry a label.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelPCA
    >>> from mercer.plot import ProjectionDisplay
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = KernelPCA(2, RBF(1.0)).fit(X)
    >>> shown = ProjectionDisplay.from_estimator(model, X)    # doctest: +SKIP
    """

    def __init__(
        self, Z: Any, labels: Any = None, axes: tuple[str, str] = ("component 1", "component 2")
    ):
        self.Z = Z
        self.labels = labels
        self.axes = axes

    @classmethod
    @speaks
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        labels: Any = None,
        *,
        components: tuple[int, int] = (0, 1),
        ax: Any = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Transform points and draw them.

        Parameters
        ----------
        estimator : KernelPCA, PCA or another transformer
            Fitted, with two components or more.
        X : collection of points
            What to draw.
        labels : array of shape (n,), optional
            For colours.
        components : pair of int, default=(0, 1)
            Which components, counted from 0.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        point_kwargs : dict, optional
            Keywords of matplotlib for the points.

        Returns
        -------
        ProjectionDisplay
            What was drawn.
        """
        check_is_fitted(estimator)
        Z = np.asarray(estimator.transform(X), dtype=float)
        if np.ndim(components) != 1 or len(components) != 2:
            raise InvalidInput(f"ProjectionDisplay: components={components!r}; give two numbers.")
        if Z.shape[1] < 2:
            raise InvalidInput(
                f"ProjectionDisplay: the transformer has {Z.shape[1]} component; fit two or more "
                "to draw two."
            )
        at = [check_index(c, "components", 0, Z.shape[1] - 1) for c in components]
        if labels is not None and np.shape(labels) != (len(Z),):
            raise InvalidInput(
                f"ProjectionDisplay: labels have shape {np.shape(labels)}, expected ({len(Z)},): "
                "one a point."
            )
        share = getattr(estimator, "explained_variance_ratio_", None)
        names = [f"component {i + 1}" + ("" if share is None else f" ({share[i]:.0%})") for i in at]
        return cls(Z[:, at], labels, (names[0], names[1])).plot(ax, point_kwargs=point_kwargs)

    def plot(self, ax: Any = None, *, point_kwargs: dict | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        point_kwargs : dict, optional
            Keywords of matplotlib for the points.

        Returns
        -------
        ProjectionDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = self._axes(ax)
        Z = np.asarray(self.Z)
        dots = self._style({"s": 16, "lw": 0}, point_kwargs=point_kwargs)
        self.points_ = []
        if self.labels is None:
            self.points_.append(ax.scatter(*Z.T, **{"color": palette(1)[0], **dots}))
        else:
            labels = np.asarray(self.labels)
            unknown = np.array([is_missing(label) for label in labels.tolist()], dtype=bool)
            if unknown.any():
                look = {"color": "#BBBBBB", "label": "no label", **dots}
                self.points_.append(ax.scatter(*Z[unknown].T, **look))
            known, Z = labels[~unknown], Z[~unknown]
            kinds = _kinds(known)
            if len(kinds) <= MOST:
                self.points_ += self._by_label(ax, Z, known, kinds, dots)
                legend(ax)
            elif labels.dtype.kind in "fiu":
                shown = ax.scatter(*Z.T, c=known, **{"cmap": "viridis", **dots})
                ax.figure.colorbar(shown, ax=ax)
                self.points_.append(shown)
            else:
                raise InvalidInput(
                    f"ProjectionDisplay: {len(kinds)} different labels; colours tell {MOST} apart. "
                    "Give numbers for a scale of colours, or fewer labels."
                )
        ax.axhline(0.0, color=INK, lw=0.4, zorder=0)
        ax.axvline(0.0, color=INK, lw=0.4, zorder=0)
        ax.set(xlabel=self.axes[0], ylabel=self.axes[1])
        return self._drawn_on(ax)


def _kinds(labels: np.ndarray) -> list[Any]:
    """Different labels in order; of kinds that have none, in that of their texts."""
    kinds = set(labels.tolist())
    try:
        return sorted(kinds)
    except TypeError:
        return sorted(kinds, key=str)


class ClustersDisplay(Display):
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
        points = cls._columns(X)
        if points.shape[1] != 2:
            raise InvalidInput("ClustersDisplay: X has one column; clusters are drawn over two.")
        labels = getattr(estimator, "labels_", None)
        if labels is None:
            raise InvalidInput(
                f"ClustersDisplay: {type(estimator).__name__} has no clusters; give a clusterer."
            )
        if len(labels) != len(points):
            raise InvalidInput(
                f"ClustersDisplay: X has {len(points)} points, and the model was fitted to "
                f"{len(labels)}; give the points of the fit."
            )
        grid = None
        if hasattr(estimator, "predict"):
            a, b, places = cls._grid(points, resolution)
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
        ax = self._axes(ax)
        X, labels = np.asarray(self.X), np.asarray(self.labels)
        kinds = np.unique(labels)
        colours = palette(len(kinds))
        self.regions_ = None
        if self.grid is not None:
            a, b, values = self.grid
            place = np.searchsorted(kinds, values)
            look = {"alpha": 0.18, "colors": colours, "levels": np.arange(len(kinds) + 1) - 0.5}
            look = self._style(look, region_kwargs=region_kwargs)
            self.regions_ = ax.contourf(a, b, place, **look)
        dots = self._style({"s": 16, "lw": 0}, point_kwargs=point_kwargs)
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
        return self._drawn_on(ax)


class DensityDisplay(Display):
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
                f"DensityDisplay: {type(estimator).__name__} is no density; give one with "
                "score_samples, such as KernelDensity."
            )
        points = cls._columns(X)
        width = np.abs(np.asarray(getattr(estimator, "bandwidth_", 0.0), dtype=float))
        reach = 3.0 * float(width.max(initial=0.0))
        if points.shape[1] == 1:
            if reach > 0:  # steps of a quarter of the bandwidth show every bump
                span = float(np.ptp(points)) + 2 * reach
                resolution = max(resolution, int(min(span / (reach / 12) + 2, FINEST)))
            grids = [cls._steps(points[:, 0], resolution, reach)]
            places = grids[0][:, None]
        else:
            *grids, places = cls._grid(points, resolution, reach)
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
        ax = self._axes(ax)
        if len(self.grids) == 1:
            line = {"color": COLOURS[0], "lw": 1.8}
            line = self._style(line, density_kwargs=density_kwargs)
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
                ticks = self._style(ticks, point_kwargs=point_kwargs)
                ax.plot(self.X[:, 0], np.zeros(len(self.X)), **ticks)
            ax.set(xlabel=(self.names or ["x"])[0], ylabel="density")
        else:
            surface = self._style({"levels": 12, "cmap": "Blues"}, density_kwargs=density_kwargs)
            self.density_ = ax.contourf(*self.grids, self.values, **surface)
            ax.figure.colorbar(self.density_, ax=ax, label="density")
            if self.X is not None:
                dots = {"color": INK, "s": 5, "lw": 0, "alpha": min(0.6, 300 / len(self.X))}
                ax.scatter(*self.X.T, **self._style(dots, point_kwargs=point_kwargs))
            names = self.names or ["x₁", "x₂"]
            ax.set(xlabel=names[0], ylabel=names[1])
        return self._drawn_on(ax)


class NullDisplay(Display):
    """How the statistic of the data lies among those of shuffled data.

    Make it with `from_result`, or by ``result.plot()``.

    Parameters
    ----------
    null : array of shape (n_permutations,)
        Statistics of shuffled data.
    statistic : float
        That of the data.
    pvalue : float
        What the title says.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    bars_, line_ : matplotlib artists
        The histogram, and the line at the statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.statistics import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> result = mmd_test(rng.normal(size=(30, 2)), rng.normal(1.0, size=(30, 2)), rng=0)
    >>> shown = result.plot()    # doctest: +SKIP
    >>> shown.figure_.savefig("null.png")    # doctest: +SKIP
    """

    def __init__(self, null: Any, statistic: float, pvalue: float):
        self.null = null
        self.statistic = statistic
        self.pvalue = pvalue

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the null of a result.

        Parameters
        ----------
        result : TestResult
            Of a test whose null was drawn.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `plot`.

        Returns
        -------
        NullDisplay
            What was drawn.
        """
        if not (hasattr(result, "null") and hasattr(result, "pvalue")):
            raise InvalidInput(
                f"NullDisplay: result is a {type(result).__name__}; give the result of a test."
            )
        if result.null is None:
            raise InvalidInput(
                f"NullDisplay: this result has no null to draw ({result.method}); test with "
                'null="permutation".'
            )
        return cls(np.asarray(result.null), result.statistic, result.pvalue).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        bins: Any = "auto",
        bar_kwargs: dict | None = None,
        line_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        bins : int or str, default="auto"
            Bars of the histogram, as numpy's.
        bar_kwargs, line_kwargs : dict, optional
            Keywords of matplotlib for the histogram and for the line at the statistic.

        Returns
        -------
        NullDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = self._axes(ax)
        bars = {"color": COLOURS[0], "alpha": 0.45, "lw": 0}
        bars = self._style(bars, bar_kwargs=bar_kwargs)
        line = {"color": COLOURS[1], "lw": 1.8, "label": f"data, p = {self.pvalue:.3g}"}
        line = self._style(line, line_kwargs=line_kwargs)
        null = np.asarray(self.null, dtype=float)
        spread = np.ptp(null) > 1e-12 * np.abs(null).max(initial=0.0)
        edges = np.histogram_bin_edges(null, bins if spread else 1)
        heights = np.histogram(null, edges)[0]
        label = f"{len(null)} shuffled data sets"
        self.bars_ = ax.bar(
            edges[:-1], heights, np.diff(edges), align="edge", **{"label": label, **bars}
        )
        self.line_ = ax.axvline(self.statistic, **line)
        ax.set(xlabel="statistic", ylabel="draws")
        legend(ax)
        return self._drawn_on(ax)
