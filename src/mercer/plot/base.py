"""What all pictures share: axes to draw on, grids over the data, colours that all tell apart."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.checks import check_index
from mercer.errors import InvalidInput, speaks

# Okabe and Ito's blue and vermilion, told apart also by people who do not see all colours.
COLOURS = ("#0072B2", "#D55E00")
INK = "#222222"
# More of their colours, for labels; yellow is left out, it drowns on white.
LABELS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
MOST = 12  # different labels that colours can tell apart
LONGEST = 24  # letters of a column's name
BESIDE = 5  # entries of a legend above which it stands beside the picture
MARGIN = 0.1  # how far beyond the data a picture reaches, in parts of their range


class Display:
    """A picture with its numbers: `plot` draws them and keeps the artists."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        """Return the axes given, or those of a new figure."""
        if ax is not None:
            return ax
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__}: drawing needs matplotlib; install it with `pip install "
                "'mercer[plot]'`."
            ) from error
        return pyplot.subplots(layout="constrained")[1]

    def _style(self, defaults: dict[str, Any], **given: Any) -> dict[str, Any]:
        """Return the keywords of an artist, those of the user's one argument in front."""
        ((name, own),) = given.items()
        if own is None:
            return defaults
        if not isinstance(own, dict):
            who = type(self).__name__
            raise InvalidInput(f"{who}: {name}={own!r}; give a dict of matplotlib's keywords.")
        return {**defaults, **own}

    def _signed_surface(
        self, ax: Any, grids: Any, values: np.ndarray, cmap: str, label: str, given: Any
    ) -> Any:
        """Draw values above and below 0 on a grid, with a scale of their colours."""
        reach = float(np.abs(values).max()) or 1.0
        look = {"levels": np.linspace(-reach, reach, 15), "cmap": cmap}
        surface = ax.contourf(*grids, values, **self._style(look, witness_kwargs=given))
        ax.figure.colorbar(surface, ax=ax, label=label)
        return surface

    def _by_label(
        self, ax: Any, Z: np.ndarray, labels: np.ndarray, kinds: list[Any], dots: dict[str, Any]
    ) -> list[Any]:
        """Draw points in the colours of their labels, of which some may have no point."""
        drawn = []
        for kind, colour in zip(kinds, palette(len(kinds)), strict=True):
            if len(part := Z[labels == kind]):
                look = {"color": colour, "label": plain(kind), **dots}
                drawn.append(ax.scatter(*part.T, **look))
        return drawn

    def _drawn_on(self, ax: Any) -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def _columns(cls, X: Any, most: int = 2, name: str = "X") -> np.ndarray:
        """Return points as numbers in one or two columns."""
        try:
            values = np.asarray(X, dtype=float)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"{cls.__name__}: {name} holds no numbers ({error}).") from error
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or not values.shape[0] or not 1 <= values.shape[1] <= most:
            legal = "one or two columns" if most == 2 else "one column"
            raise InvalidInput(
                f"{cls.__name__}: {name} has shape {np.shape(X)}; only points of {legal} can be "
                "drawn."
            )
        return values

    @classmethod
    @speaks
    def _steps(cls, x: np.ndarray, resolution: int, least: float = 0.0) -> np.ndarray:
        """Return even steps over the data, and a tenth or `least` beyond."""
        count = check_index(resolution, "resolution", 2)
        return np.linspace(*ends_of(x, least), count)

    @classmethod
    def _grid(
        cls, X: np.ndarray, resolution: int, least: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both axes of a grid over the data, and its points row by row."""
        a, b = (cls._steps(x, resolution, least) for x in X.T)
        return a, b, np.column_stack([m.ravel() for m in np.meshgrid(a, b)])


def palette(count: int) -> list[Any]:
    """Return colours for labels, the house's for a few, evenly spaced hues for more."""
    if count <= len(LABELS):
        return list(LABELS[:count])
    from matplotlib import colormaps

    return [colormaps["turbo"](place / (count - 1)) for place in range(count)]


def plain(text: Any) -> str:
    """Return text that matplotlib shows letter by letter: between dollars it reads formulas."""
    return str(text).replace("$", r"\$")


def cut(name: str) -> str:
    """Return a name without the middle where it is long: names often differ at their ends."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 10]}…{name[-9:]}"


def legend(ax: Any) -> None:
    """Add a legend: a few entries over the picture, more of them beside it."""
    look: dict[str, Any] = {"fontsize": "small", "edgecolor": "none", "framealpha": 0.8}
    if len(ax.get_legend_handles_labels()[1]) > BESIDE:
        look |= {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(**look)


def names_of(X: Any, count: int) -> list[str]:
    """Return the names of the columns of a frame, or x₁, x₂."""
    names = [str(name) for name in getattr(X, "columns", [])]
    if getattr(X, "name", None) is not None and np.ndim(X) == 1:
        names = [str(X.name)]
    return names if len(names) == count else ["x"] if count == 1 else ["x₁", "x₂"]


def like(X: Any, points: np.ndarray) -> Any:
    """Return new points in a frame with the columns of X, where X is one."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return points
    if hasattr(X, "iloc"):
        return type(X)(points, columns=columns)
    return type(X)(dict(zip(columns, points.T, strict=True)))


def ends_of(x: np.ndarray, least: float = 0.0) -> tuple[float, float]:
    """Return the range of the data with a tenth of it, or `least`, to both sides."""
    low, high = float(x.min()), float(x.max())
    reach = max(MARGIN * (high - low), least) or 1.0
    return low - reach, high + reach
