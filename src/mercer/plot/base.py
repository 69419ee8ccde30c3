"""What all pictures share: axes to draw on, and colours that everybody tells apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.solvers import check_index

# Okabe and Ito's blue and vermilion, told apart also by people who do not see all colours.
COLOURS = ("#0072B2", "#D55E00")
INK = "#222222"
# More of their colours, for labels; yellow is left out, it drowns on white.
BESIDE = 5  # entries of a legend above which it stands beside the picture
LABELS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)


def axes_for(ax: Any, owner: str) -> Any:
    """Return the axes given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib axes or None
        Where to draw.
    owner : str
        Who draws; a message begins with it.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f"{owner}: drawing needs matplotlib; install it with `pip install 'mercer[plot]'`."
        ) from error
    return pyplot.subplots(layout="constrained")[1]


def palette(count: int) -> list[Any]:
    """Return colours for labels, the house's for a few, evenly spaced hues for more.

    Parameters
    ----------
    count : int
        How many.
    """
    if count <= len(LABELS):
        return list(LABELS[:count])
    from matplotlib import colormaps

    return [colormaps["turbo"](place / (count - 1)) for place in range(count)]


def legend(ax: Any) -> None:
    """Add a legend: a few entries over the picture, more of them beside it.

    Parameters
    ----------
    ax : matplotlib axes
        With labelled artists.
    """
    look: dict[str, Any] = {"fontsize": "small", "edgecolor": "none", "framealpha": 0.8}
    if len(ax.get_legend_handles_labels()[1]) > BESIDE:
        look |= {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(**look)


def style(defaults: dict[str, Any], given: Any, name: str, owner: str) -> dict[str, Any]:
    """Return the keywords of an artist, those of the user in front.

    Parameters
    ----------
    defaults : dict
        The house style.
    given : dict or None
        The user's.
    name, owner : str
        Whose argument it is.
    """
    if given is None:
        return defaults
    if not isinstance(given, dict):
        raise InvalidInput(f"{owner}: {name}={given!r}; give a dict of matplotlib's keywords.")
    return {**defaults, **given}


# ---- Grids over the data of one or two columns, for pictures of functions on them ----


MARGIN = 0.1  # how far beyond the data a picture reaches, in parts of their range


def check_columns(X: Any, owner: str, most: int = 2, name: str = "X") -> np.ndarray:
    """Return points as numbers in one or two columns.

    Parameters
    ----------
    X : array of shape (n,), (n, 1) or (n, 2)
        The points.
    owner : str
        Who draws.
    most : int, default=2
        Columns that can be drawn.
    name : str, default="X"
        What the argument is called.
    """
    try:
        values = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: {name} holds no numbers ({error}).") from error
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.shape[0] or not 1 <= values.shape[1] <= most:
        legal = "one or two columns" if most == 2 else "one column"
        raise InvalidInput(
            f"{owner}: {name} has shape {np.shape(X)}; only points of {legal} can be drawn."
        )
    return values


def names_of(X: Any, count: int) -> list[str]:
    """Return the names of the columns of a frame, or x₁, x₂.

    Parameters
    ----------
    X : collection of points
        Perhaps a frame.
    count : int
        Number of columns.
    """
    names = [str(name) for name in getattr(X, "columns", [])]
    if getattr(X, "name", None) is not None and np.ndim(X) == 1:
        names = [str(X.name)]
    return names if len(names) == count else ["x"] if count == 1 else ["x₁", "x₂"]


def like(X: Any, points: np.ndarray) -> Any:
    """Return new points in a frame with the columns of X, where X is one.

    Parameters
    ----------
    X : collection of points
        Perhaps a frame.
    points : ndarray of shape (m, d)
        The points.
    """
    columns = getattr(X, "columns", None)
    if columns is None:
        return points
    if hasattr(X, "iloc"):
        return type(X)(points, columns=columns)
    return type(X)(dict(zip(columns, points.T, strict=True)))


def _ends(x: np.ndarray, least: float = 0.0) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    reach = max(MARGIN * (high - low), least) or 1.0
    return low - reach, high + reach


def line_over(x: np.ndarray, resolution: int, owner: str, least: float = 0.0) -> np.ndarray:
    """Return even steps over the data and a tenth beyond.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The data.
    resolution : int
        How many steps.
    owner : str
        Who draws.
    least : float, default=0.0
        How far beyond the data to go at least.
    """
    return np.linspace(*_ends(x, least), check_index(resolution, "resolution", owner, 2))


def plane_over(
    X: np.ndarray, resolution: int, owner: str, least: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both axes of a grid over the data, and its points row by row.

    Parameters
    ----------
    X : ndarray of shape (n, 2)
        The data.
    resolution : int
        Points of each axis.
    owner : str
        Who draws.
    least : float, default=0.0
        How far beyond the data to go at least.
    """
    a, b = (line_over(x, resolution, owner, least) for x in X.T)
    return a, b, np.column_stack([m.ravel() for m in np.meshgrid(a, b)])
