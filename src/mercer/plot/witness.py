"""Where two samples differ: their densities and the witness between them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.models.density import KernelDensity
from mercer.plot.base import (
    COLOURS,
    INK,
    axes_for,
    check_columns,
    legend,
    line_over,
    names_of,
    plane_over,
    style,
)
from mercer.rkhs import Function
from mercer.statistics import witness

__all__ = ["WitnessDisplay"]

OWNER = "WitnessDisplay"


class WitnessDisplay:
    """The witness μ_X − μ_Y over one or two columns, with the samples.

    Positive where X is denser, negative where Y is. Make it with `from_samples`.

    Parameters
    ----------
    function : Function
        The witness.
    X, Y : arrays of shape (n, d) and (m, d)
        The samples; d is 1 or 2.
    names : list of str, optional
        Of the columns.
    labels : pair of str, default=("X", "Y")
        Of the samples.
    resolution : int, default=200
        Points of each axis at which the witness is evaluated.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    witness_ : matplotlib artist
        The line, or the coloured surface.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.plot import WitnessDisplay
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=200), rng.laplace(size=200)
    >>> shown = WitnessDisplay.from_samples(x, y)    # doctest: +SKIP
    """

    def __init__(
        self,
        function: Function,
        X: Any,
        Y: Any,
        *,
        names: list[str] | None = None,
        labels: tuple[str, str] = ("X", "Y"),
        resolution: int = 200,
    ):
        self.function = function
        self.X = X
        self.Y = Y
        self.names = names
        self.labels = labels
        self.resolution = resolution

    @classmethod
    def from_samples(
        cls,
        X: Any,
        Y: Any,
        kernel: Any = None,
        *,
        labels: tuple[str, str] = ("X", "Y"),
        resolution: int = 200,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compute the witness of two samples and draw it.

        Parameters
        ----------
        X, Y : arrays of shape (n,), (n, 1) or (n, 2)
            The samples.
        kernel : Kernel, str, callable or None
            The kernel; RBF at the median distance when left out.
        labels : pair of str, default=("X", "Y")
            Of the samples.
        resolution : int, default=200
            Points of each axis at which the witness is evaluated.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `plot`.

        Returns
        -------
        WitnessDisplay
            What was drawn.
        """
        A, B = check_columns(X, OWNER), check_columns(Y, OWNER, name="Y")
        f = witness(A, B, kernel)
        names = names_of(X, A.shape[1])
        shown = cls(f, A, B, names=names, labels=labels, resolution=resolution)
        return shown.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        witness_kwargs: dict | None = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        witness_kwargs, point_kwargs : dict, optional
            Keywords of matplotlib for the witness and for the points (or, of one column, the
            densities).

        Returns
        -------
        WitnessDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = axes_for(ax, OWNER)
        if np.shape(self.X)[1] == 1:
            self._line(ax, witness_kwargs, point_kwargs)
        else:
            self._plane(ax, witness_kwargs, point_kwargs)
        legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _line(self, ax: Any, witness_kwargs: Any, point_kwargs: Any) -> None:
        x = line_over(np.concatenate([self.X[:, 0], self.Y[:, 0]]), self.resolution, OWNER)
        top = 0.0
        for sample, colour, label in zip((self.X, self.Y), COLOURS, self.labels, strict=True):
            density = np.exp(
                KernelDensity(_bandwidth(sample)).fit(sample).score_samples(x[:, None])
            )
            top = max(top, float(density.max()))
            line = {"color": colour, "lw": 1.2, "label": f"density of {label}"}
            line = style(line, point_kwargs, "point_kwargs", OWNER)
            ax.plot(x, density, **line)
            ax.fill_between(x, density, color=colour, alpha=0.15, lw=0)
        values = self.function(x[:, None])
        height = float(np.abs(values).max()) or 1.0
        # Its own height says nothing beside a density: drawn half as high as these.
        line = {"color": "#009E73", "lw": 2.0, "label": "witness, rescaled"}
        line = style(line, witness_kwargs, "witness_kwargs", OWNER)
        (self.witness_,) = ax.plot(x, 0.5 * top / height * values, **line)
        ax.axhline(0.0, color=INK, lw=0.6)
        ax.set(xlabel=(self.names or ["x"])[0], ylabel="density")

    def _plane(self, ax: Any, witness_kwargs: Any, point_kwargs: Any) -> None:
        a, b, points = plane_over(np.concatenate([self.X, self.Y]), self.resolution, OWNER)
        values = self.function(points).reshape(len(b), len(a))
        reach = float(np.abs(values).max()) or 1.0
        surface = {"levels": np.linspace(-reach, reach, 15), "cmap": "RdBu"}
        surface = style(surface, witness_kwargs, "witness_kwargs", OWNER)
        self.witness_ = ax.contourf(a, b, values, **surface)
        ax.figure.colorbar(self.witness_, ax=ax, label="witness")
        marks = zip((self.X, self.Y), COLOURS, "ox", self.labels, strict=True)
        for sample, colour, marker, label in marks:
            dots = {"color": colour, "s": 12, "marker": marker, "lw": 0.8, "label": label}
            ax.scatter(*sample.T, **style(dots, point_kwargs, "point_kwargs", OWNER))
        names = self.names or ["x₁", "x₂"]
        ax.set(xlabel=names[0], ylabel=names[1])


def _bandwidth(sample: np.ndarray) -> float:
    """Scott's rule, or 1 where the sample has no spread."""
    spread = float(np.std(sample)) * len(sample) ** -0.2
    return spread or 1.0
