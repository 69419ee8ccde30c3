"""Where the statistic of a test lies among those of shuffled data."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.errors import InvalidInput
from mercer.plot.base import COLOURS, Display, legend


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
        if not hasattr(result, "null"):
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
