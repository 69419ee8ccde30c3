"""The points of a parameter grid, by kernel, and the table of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from mercer.errors import InvalidInput

__all__ = ["by_kernel", "grouped", "points_of", "table_of"]


def points_of(grid: Any, model: Any, owner: str) -> list[dict[str, Any]]:
    """Return the points of a grid in scikit-learn's order.

    Parameters
    ----------
    grid : dict or sequence of dict
        Values of parameters, as `sklearn.model_selection.ParameterGrid` takes them.
    model : estimator
        Whose parameters they are.
    owner : str
        Who asks; messages begin with it.
    """
    try:
        points = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: grid: {error}") from error
    if not points:
        raise InvalidInput(
            f"{owner}: the grid is empty; give lists of values, such as {{'alpha': [0.1, 1.0]}}."
        )
    for names in {tuple(point): point for point in points}.values():
        copies = {name: clone(value, safe=False) for name, value in names.items()}
        try:
            clone(model).set_params(**copies)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(f"{owner}: grid: {error}") from error
    return points


def by_kernel(points: Sequence[Mapping[str, Any]], model: Any) -> list[tuple[Any, list[int]]]:
    """Return the kernels of the points, and which points have each, in the order they come.

    Parameters
    ----------
    points : sequence of dict
        Parameters, some of which may be ``kernel`` or ``kernel__...``.
    model : estimator
        With a kernel.
    """
    kernels = []
    for point in points:
        mine = {name: clone(value, safe=False) for name, value in point.items() if of_kernel(name)}
        kernels.append(clone(model).set_params(**mine).kernel)
    return grouped(kernels)


def grouped(values: Sequence[Any]) -> list[tuple[Any, list[int]]]:
    """Return the different ones of some values, and the positions of each, in the order they come.

    Only those that read alike are compared, since kernels and dicts have no hash.

    Parameters
    ----------
    values : sequence
        Anything that has an ``==``; where that is no answer, values count as different.
    """
    groups: list[tuple[Any, list[int]]] = []
    alike: dict[tuple, list[int]] = {}
    for i, value in enumerate(values):
        candidates = alike.setdefault((type(value), repr(value)), [])
        for g in candidates:
            if _same(groups[g][0], value):
                groups[g][1].append(i)
                break
        else:
            candidates.append(len(groups))
            groups.append((value, [i]))
    return groups


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays inside
        return False


def of_kernel(name: str) -> bool:
    """Whether a parameter is the kernel, or one of its."""
    return name.partition("__")[0] == "kernel"


def table_of(points: Sequence[Mapping[str, Any]], scores: np.ndarray) -> dict[str, Any]:
    """Return the scores as ``cv_results_`` of ``GridSearchCV`` has them, but for the times.

    Parameters
    ----------
    points : sequence of dict
        Parameters.
    scores : ndarray of shape (points, folds)
        Test scores; a point with a NaN has the last rank.
    """
    table: dict[str, Any] = {}
    for name in dict.fromkeys(name for point in points for name in point):
        table[f"param_{name}"] = _column(
            [point.get(name, None) for point in points], [name not in point for point in points]
        )
    table["params"] = list(points)
    for k in range(scores.shape[1]):
        table[f"split{k}_test_score"] = scores[:, k]
    mean = np.average(scores, axis=1)
    table["mean_test_score"] = mean
    table["std_test_score"] = np.sqrt(np.average((scores - mean[:, None]) ** 2, axis=1))
    low = np.nanmin(mean, initial=np.inf)
    known = np.where(np.isnan(mean), low - 1.0 if np.isfinite(low) else 0.0, mean)
    table["rank_test_score"] = rankdata(-known, method="min").astype(np.int32)
    return table


def _column(values: list[Any], absent: list[bool]) -> np.ma.MaskedArray:
    """Return values as a masked array; numbers, truth values and text keep their own kind."""
    held = [value for value, none in zip(values, absent, strict=True) if not none]
    kinds = {type(value) for value in held}
    plain = len(kinds) == 1 and kinds <= {int, float, bool, np.float64, np.int64}
    column = np.ma.masked_all(len(values), dtype=kinds.pop() if plain else object)
    for i, (value, none) in enumerate(zip(values, absent, strict=True)):
        if not none:
            column[i] = value
    return column
