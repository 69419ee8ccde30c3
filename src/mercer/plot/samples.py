"""What tests see in samples: where two differ, and how two variables depend."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.errors import InvalidInput, speaks
from mercer.models.density import KernelDensity
from mercer.plot.base import COLOURS, INK, Display, legend, names_of
from mercer.rkhs import Function
from mercer.statistics import hsic_test, paired, witness


class WitnessDisplay(Display):
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
        A, B = cls._columns(X), cls._columns(Y, name="Y")
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
        ax = self._axes(ax)
        if np.shape(self.X)[1] == 1:
            self._line(ax, witness_kwargs, point_kwargs)
        else:
            self._plane(ax, witness_kwargs, point_kwargs)
        legend(ax)
        return self._drawn_on(ax)

    def _line(self, ax: Any, witness_kwargs: Any, point_kwargs: Any) -> None:
        x = self._steps(np.concatenate([self.X[:, 0], self.Y[:, 0]]), self.resolution)
        top = 0.0
        for sample, colour, label in zip((self.X, self.Y), COLOURS, self.labels, strict=True):
            density = np.exp(
                KernelDensity(_bandwidth(sample)).fit(sample).score_samples(x[:, None])
            )
            top = max(top, float(density.max()))
            line = {"color": colour, "lw": 1.2, "label": f"density of {label}"}
            line = self._style(line, point_kwargs=point_kwargs)
            ax.plot(x, density, **line)
            ax.fill_between(x, density, color=colour, alpha=0.15, lw=0)
        values = self.function(x[:, None])
        height = float(np.abs(values).max()) or 1.0
        # Its own height says nothing beside a density: drawn half as high as these.
        line = {"color": "#009E73", "lw": 2.0, "label": "witness, rescaled"}
        line = self._style(line, witness_kwargs=witness_kwargs)
        (self.witness_,) = ax.plot(x, 0.5 * top / height * values, **line)
        ax.axhline(0.0, color=INK, lw=0.6)
        ax.set(xlabel=(self.names or ["x"])[0], ylabel="density")

    def _plane(self, ax: Any, witness_kwargs: Any, point_kwargs: Any) -> None:
        a, b, points = self._grid(np.concatenate([self.X, self.Y]), self.resolution)
        values = self.function(points).reshape(len(b), len(a))
        self.witness_ = self._signed_surface(ax, (a, b), values, "RdBu", "witness", witness_kwargs)
        marks = zip((self.X, self.Y), COLOURS, "ox", self.labels, strict=True)
        for sample, colour, marker, label in marks:
            dots = {"color": colour, "s": 12, "marker": marker, "lw": 0.8, "label": label}
            ax.scatter(*sample.T, **self._style(dots, point_kwargs=point_kwargs))
        names = self.names or ["x₁", "x₂"]
        ax.set(xlabel=names[0], ylabel=names[1])


def _bandwidth(sample: np.ndarray) -> float:
    """Scott's rule, or 1 where the sample has no spread."""
    spread = float(np.std(sample)) * len(sample) ** -0.2
    return spread or 1.0


class DependenceDisplay(Display):
    """Pairs (x, y) over the witness of their dependence.

    The witness of HSIC is the embedding of the pairs less that of independent ones,
    f(x, y) = mean of k(x, xᵢ)l(y, yᵢ) − mean of k(x, xᵢ) · mean of l(y, yᵢ): positive where pairs
    are more frequent than the two variables alone explain. Make it with `from_samples`.

    Parameters
    ----------
    x, y : arrays of shape (n,)
        The variables.
    grids : pair of arrays
        Axes of the grid.
    values : array
        The witness on it, the second axis along its rows.
    correlation, pvalue : float
        What the title says.
    names : pair of str, default=("x", "y")
        Of the variables.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    witness_, points_ : matplotlib artists
        The surface and the pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.plot import DependenceDisplay
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    >>> shown = DependenceDisplay.from_samples(np.cos(angle), np.sin(angle))    # doctest: +SKIP
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        grids: tuple[Any, Any],
        values: Any,
        correlation: float,
        pvalue: float,
        names: tuple[str, str] = ("x", "y"),
    ):
        self.x = x
        self.y = y
        self.grids = grids
        self.values = values
        self.correlation = correlation
        self.pvalue = pvalue
        self.names = names

    @classmethod
    @speaks
    def from_samples(
        cls,
        x: Any,
        y: Any,
        kernel_x: Any = None,
        kernel_y: Any = None,
        *,
        n_permutations: int = 999,
        rng: Any = 0,
        resolution: int = 100,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Test two variables for independence and draw how they depend.

        Parameters
        ----------
        x, y : arrays of shape (n,) or (n, 1)
            The variables.
        kernel_x, kernel_y : Kernel, str, callable or None
            Their kernels; RBF at the median distance when left out.
        n_permutations : int, default=999
            Of the test.
        rng : None, int or Generator, default=0
            For the permutations.
        resolution : int, default=100
            Points of each axis.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        **kwargs
            Keywords of `plot`.

        Returns
        -------
        DependenceDisplay
            What was drawn.
        """
        a, b = cls._columns(x, 1, "x"), cls._columns(y, 1, "y")
        if len(a) != len(b):
            raise InvalidInput(f"DependenceDisplay: x has {len(a)} values and y has {len(b)}.")
        pair = paired(a, b, kernel_x, kernel_y, None)
        result = hsic_test(a, b, pair.kernel_x, pair.kernel_y, n_permutations, rng)
        grids = tuple(cls._steps(v[:, 0], resolution) for v in (a, b))
        K = pair.kernel_x(grids[0][:, None], a)
        L = pair.kernel_y(grids[1][:, None], b)
        values = L @ K.T / len(a) - np.outer(L.mean(1), K.mean(1))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = float(np.corrcoef(a[:, 0], b[:, 0])[0, 1])
        names = (str(getattr(x, "name", None) or "x"), str(getattr(y, "name", None) or "y"))
        shown = cls(a[:, 0], b[:, 0], grids, values, correlation, result.pvalue, names)  # type: ignore[arg-type]
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
            Keywords of matplotlib for the witness and for the pairs.

        Returns
        -------
        DependenceDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        ax = self._axes(ax)
        label = "pairs beyond independence"
        self.witness_ = self._signed_surface(
            ax, self.grids, self.values, "PuOr_r", label, witness_kwargs
        )
        dots = self._style({"color": INK, "s": 10, "lw": 0}, point_kwargs=point_kwargs)
        self.points_ = ax.scatter(self.x, self.y, **dots)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.set_title(
            f"correlation {self.correlation:.2f}, HSIC p = {self.pvalue:.3g}", fontsize="medium"
        )
        return self._drawn_on(ax)
