"""Points on two components: what principal components see of the data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains import is_missing
from mercer.errors import InvalidInput
from mercer.plot.base import INK, axes_for, legend, palette, style
from mercer.solvers import check_index

__all__ = ["ProjectionDisplay"]

OWNER = "ProjectionDisplay"
MOST = 12  # different labels that colours can tell apart


class ProjectionDisplay:
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
            raise InvalidInput(f"{OWNER}: components={components!r}; give two numbers.")
        if Z.shape[1] < 2:
            raise InvalidInput(
                f"{OWNER}: the transformer has {Z.shape[1]} component; fit two or more to draw two."
            )
        at = [check_index(c, "components", OWNER, 0, Z.shape[1] - 1) for c in components]
        if labels is not None and np.shape(labels) != (len(Z),):
            raise InvalidInput(
                f"{OWNER}: labels have shape {np.shape(labels)}, expected ({len(Z)},): one a point."
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
        ax = axes_for(ax, OWNER)
        Z = np.asarray(self.Z)
        dots = style({"s": 16, "lw": 0}, point_kwargs, "point_kwargs", OWNER)
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
                for kind, colour in zip(kinds, palette(len(kinds)), strict=True):
                    part = Z[known == kind]
                    look = {"color": colour, "label": str(kind), **dots}
                    self.points_.append(ax.scatter(*part.T, **look))
                legend(ax)
            elif labels.dtype.kind in "fiu":
                shown = ax.scatter(*Z.T, c=known, **{"cmap": "viridis", **dots})
                ax.figure.colorbar(shown, ax=ax)
                self.points_.append(shown)
            else:
                raise InvalidInput(
                    f"{OWNER}: {len(kinds)} different labels; colours tell {MOST} apart. Give "
                    "numbers for a scale of colours, or fewer labels."
                )
        ax.axhline(0.0, color=INK, lw=0.4, zorder=0)
        ax.axvline(0.0, color=INK, lw=0.4, zorder=0)
        ax.set(xlabel=self.axes[0], ylabel=self.axes[1])
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _kinds(labels: np.ndarray) -> list[Any]:
    """Different labels in order; of kinds that have none, in that of their texts."""
    kinds = set(labels.tolist())
    try:
        return sorted(kinds)
    except TypeError:
        return sorted(kinds, key=str)
