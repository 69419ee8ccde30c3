"""How two variables depend on one another, where a correlation may be silent."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.errors import InvalidInput
from mercer.plot.base import INK, axes_for, check_columns, line_over, style
from mercer.statistics import hsic_test, paired

__all__ = ["DependenceDisplay"]

OWNER = "DependenceDisplay"


class DependenceDisplay:
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
        a, b = check_columns(x, OWNER, 1, "x"), check_columns(y, OWNER, 1, "y")
        if len(a) != len(b):
            raise InvalidInput(f"{OWNER}: x has {len(a)} values and y has {len(b)}.")
        pair = paired(a, b, kernel_x, kernel_y, None, OWNER)
        result = hsic_test(a, b, pair.kernel_x, pair.kernel_y, n_permutations, rng)
        grids = tuple(line_over(v[:, 0], resolution, OWNER) for v in (a, b))
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
        ax = axes_for(ax, OWNER)
        reach = float(np.abs(self.values).max()) or 1.0
        surface = {"levels": np.linspace(-reach, reach, 15), "cmap": "PuOr_r"}
        surface = style(surface, witness_kwargs, "witness_kwargs", OWNER)
        self.witness_ = ax.contourf(*self.grids, self.values, **surface)
        ax.figure.colorbar(self.witness_, ax=ax, label="pairs beyond independence")
        dots = style({"color": INK, "s": 10, "lw": 0}, point_kwargs, "point_kwargs", OWNER)
        self.points_ = ax.scatter(self.x, self.y, **dots)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.set_title(
            f"correlation {self.correlation:.2f}, HSIC p = {self.pvalue:.3g}", fontsize="medium"
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self
