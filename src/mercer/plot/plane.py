"""Grids over the data of one or two columns, for pictures of functions on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.solvers.base import check_index

__all__ = ["check_columns", "like", "line_over", "names_of", "plane_over"]

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
