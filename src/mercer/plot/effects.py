"""Effects of columns: curves with their bands, and surfaces of two columns together."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from mercer.checks import check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.plot.base import COLOURS, INK, MOST, Display, cut, legend, palette, plain

BESIDE = 3  # pictures beside each other
SHORT = 3  # letters of a category that need not be turned
LEVELS = 15  # categories that an axis names


class EffectsDisplay(Display):
    """Effects of columns on what a model says: a curve for each column, a surface for each pair.

    Bands are those of the posterior, of a Gaussian process. Ticks below a curve are the values at
    which it is told, which lie where rows are. Make it with `from_effects`.

    Parameters
    ----------
    effects : sequence of effects
        Each with ``columns``, ``grid``, a tuple of the values of each, ``values``, of a Gaussian
        process ``std``, and perhaps ``share``, of the variance.
    label : str, default="effect"
        What axes and scales of the values say.
    coverage : float, default=0.9
        The probability that a band holds.

    Attributes
    ----------
    ax_ : matplotlib Axes
        That of the first effect.
    axes_ : list of matplotlib Axes
        One for each effect.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from mercer.plot import EffectsDisplay
    >>> x = np.linspace(0, 1, 20)
    >>> curve = SimpleNamespace(columns=("dose",), grid=(x,), values=x**2, std=None, share=None)
    >>> shown = EffectsDisplay([curve]).plot()    # doctest: +SKIP
    """

    def __init__(self, effects: Any, label: str = "effect", coverage: float = 0.9):
        self.effects = effects
        self.label = label
        self.coverage = coverage

    @classmethod
    @speaks
    def from_effects(
        cls,
        effects: Any,
        *,
        max_effects: int = 6,
        output: int = 0,
        ax: Any = None,
        line_kwargs: dict | None = None,
        surface_kwargs: dict | None = None,
    ) -> Self:
        """Draw effects.

        Parameters
        ----------
        effects : Effects or Effect
            What `mercer.effects` returns, or one of them.
        max_effects : int, default=6
            The most to draw, the first ones.
        output : int, default=0
            Which output, where there are several.
        ax : matplotlib axes or sequence of axes, optional
            Where to draw, one for each effect; a new figure by default.
        line_kwargs, surface_kwargs : dict, optional
            Keywords of matplotlib for curves and for surfaces.

        Returns
        -------
        EffectsDisplay
            What was drawn.
        """
        some = [effects] if hasattr(effects, "grid") else list(effects)
        if not some or not all(hasattr(e, "grid") and hasattr(e, "values") for e in some):
            raise InvalidInput(
                f"{who()}: effects is a {type(effects).__name__}; give what mercer.effects(model) "
                "returns, or one of its effects."
            )
        label = "mean of f" if getattr(effects, "kind", "") == "partial" else "effect"
        styles: dict[str, Any] = {"line_kwargs": line_kwargs, "surface_kwargs": surface_kwargs}
        return cls(some, label).plot(ax, max_effects=max_effects, output=output, **styles)

    @speaks
    def plot(
        self,
        ax: Any = None,
        *,
        max_effects: int = 6,
        output: int = 0,
        line_kwargs: dict | None = None,
        surface_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes or sequence of axes, optional
            Where to draw, one for each effect; a new figure by default.
        max_effects : int, default=6
            The most to draw, the first ones.
        output : int, default=0
            Which output, where there are several.
        line_kwargs, surface_kwargs : dict, optional
            Keywords of matplotlib for curves and for surfaces.

        Returns
        -------
        EffectsDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        some = list(self.effects)[: check_index(max_effects, "max_effects", 1)]
        told = [_of_output(effect, output) for effect in some]
        line = self._style({"color": COLOURS[0], "lw": 1.8}, line_kwargs=line_kwargs)
        surface = self._style({}, surface_kwargs=surface_kwargs)
        self.axes_ = self._places(ax, len(some))
        for effect, (values, spread), place in zip(some, told, self.axes_, strict=False):
            if len(effect.grid) == 1:
                self._curve(place, effect, values, spread, line)
            else:
                self._pair(place, effect, values, surface)
            share = getattr(effect, "share", None)
            if share is not None:
                share = np.ravel(share)[output if np.ndim(share) else 0]
                place.set_title(f"{share:.1%} of the variance", fontsize="medium")
        return self._drawn_on(self.axes_[0])

    def _places(self, ax: Any, count: int) -> list[Any]:
        """Return axes for so many effects."""
        if ax is not None:
            given = list(np.ravel(np.asarray(ax, dtype=object)))
            if len(given) < count:
                raise InvalidInput(
                    f"{who()}: {count} effects and {len(given)} axes; give one for each, or a "
                    "smaller max_effects."
                )
            return given[:count]
        if count == 1:
            return [self._axes(None)]
        figure = self._axes(None).figure
        figure.clear()
        across = min(count, BESIDE)
        down = -(-count // across)
        figure.set_size_inches(3.4 * across, 2.9 * down)
        places = list(figure.subplots(down, across, squeeze=False).ravel())
        for unused in places[count:]:
            unused.set_visible(False)
        return places[:count]

    def _curve(self, ax: Any, effect: Any, values: Any, spread: Any, line: dict[str, Any]) -> None:
        reach = None if spread is None else ndtri((1 + self.coverage) / 2) * spread
        (grid,) = effect.grid
        if _are_numbers(grid):
            x = np.asarray(grid, dtype=float)
            ax.plot(x, values, **({"marker": "o"} if len(x) == 1 else {}), **line)
            if reach is not None:
                ax.fill_between(
                    x, values - reach, values + reach, color=line["color"], alpha=0.2, lw=0
                )
            ax.plot(x, np.zeros(len(x)), "|", color=INK, ms=5, transform=ax.get_xaxis_transform())
            ax.set_xlabel(plain(cut(effect.columns[0])))
            ax.set_ylabel(self.label)
            return
        places = np.arange(len(grid))
        look = {"color": line["color"], "fmt": "o", "ecolor": INK, "elinewidth": 1.0}
        ax.errorbar(values, places, xerr=reach, **look)
        _name(ax, "y", grid)
        ax.set(ylim=(len(grid) - 0.4, -0.6), xlabel=self.label)
        ax.set_ylabel(plain(cut(effect.columns[0])))

    def _pair(self, ax: Any, effect: Any, values: Any, given: dict[str, Any]) -> None:
        grids, names = list(effect.grid), [plain(cut(name)) for name in effect.columns]
        numbers = [_are_numbers(grid) for grid in grids]
        if any(numbers) and not all(numbers) and len(grids[numbers.index(False)]) <= MOST:
            self._curves_by_level(ax, grids, names, values, numbers.index(True))
            return
        reach = float(np.abs(values).max(initial=0.0)) or 1.0
        look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
        if self.label != "effect":  # a mean of f has no middle
            look = {"cmap": "viridis"}
        edges = [
            _edges(np.asarray(g, dtype=float)) if number else np.arange(len(g) + 1) - 0.5
            for g, number in zip(grids, numbers, strict=True)
        ]
        shown = ax.pcolormesh(*edges, np.asarray(values).T, **{**look, **given})
        ax.figure.colorbar(shown, ax=ax, label=self.label)
        for axis, grid, number in zip("xy", grids, numbers, strict=True):
            if not number:
                _name(ax, axis, grid)
        ax.set_xlabel(names[0])
        ax.set_ylabel(names[1])

    def _curves_by_level(
        self, ax: Any, grids: list[Any], names: list[str], values: Any, place: int
    ) -> None:
        """Draw a curve of the column of numbers for each value of the other one."""
        levels, x = grids[1 - place], np.asarray(grids[place], dtype=float)
        curves = np.asarray(values) if place else np.asarray(values).T
        for level, curve, colour in zip(levels, curves, palette(len(levels)), strict=True):
            ax.plot(x, curve, color=colour, lw=1.6, label=plain(cut(_text(level))))
        ax.plot(x, np.zeros(len(x)), "|", color=INK, ms=5, transform=ax.get_xaxis_transform())
        ax.set_xlabel(names[place])
        ax.set_ylabel(self.label)
        legend(ax)
        ax.get_legend().set_title(names[1 - place])


def _of_output(effect: Any, output: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return values and deviations of one output."""
    values, std = np.asarray(effect.values), getattr(effect, "std", None)
    std = None if std is None else np.asarray(std)
    if values.ndim == len(effect.grid):
        return values, std
    if not 0 <= check_index(output, "output", 0) < values.shape[-1]:
        raise InvalidInput(f"{who()}: output={output}; legal are 0 to {values.shape[-1] - 1}.")
    return values[..., output], None if std is None else std[..., output]


def _are_numbers(grid: Any) -> bool:
    """Whether a grid is one of numbers; truth values and whatever else are levels."""
    return bool(np.asarray(grid).dtype.kind in "fiu")


def _text(level: Any) -> str:
    if isinstance(level, tuple):
        return ", ".join(map(_text, level))
    if level is None or level != level:
        return "missing"
    return f"{level:.3g}" if isinstance(level, float | np.floating) else str(level)


def _name(ax: Any, axis: str, grid: Any) -> None:
    """Name the values of a grid of categories, or some of them."""
    step = -(-len(grid) // LEVELS)
    names = [plain(cut(_text(level))) for level in list(grid)[::step]]
    places = np.arange(len(grid))[::step]
    if axis == "y":
        ax.set_yticks(places, names)
    else:
        turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(places, names, **(turned if max(map(len, names)) > SHORT else {}))
    ax.tick_params(axis=axis, length=0)


def _edges(grid: np.ndarray) -> np.ndarray:
    """Return ends of cells around the values of a grid."""
    if len(grid) == 1:
        return grid[0] + np.array([-0.5, 0.5])
    middle = (grid[1:] + grid[:-1]) / 2
    return np.concatenate([[grid[0]], middle, [grid[-1]]])
