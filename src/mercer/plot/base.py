"""What all pictures share: axes to draw on, and colours that everybody tells apart."""

from __future__ import annotations

from typing import Any

from mercer.errors import InvalidInput

__all__ = ["COLOURS", "INK", "axes_for", "legend", "palette", "style"]

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
