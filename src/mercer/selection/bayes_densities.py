"""Densities of any form, classes of any kind and points of any shape, for Bayes' rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mercer.errors import InvalidInput

__all__ = ["as_classes", "as_objects", "as_points", "check_densities", "describe", "log_density"]


def check_densities(densities: Any) -> None:
    """Refuse what holds no densities."""
    if not isinstance(densities, Mapping | Sequence) or isinstance(densities, str):
        raise InvalidInput(
            f"bayes_rule: densities is a {type(densities).__name__}; give a list with one density "
            "a class, or a dict from class to density."
        )
    if not len(densities):
        raise InvalidInput("bayes_rule: no densities; give one for each class.")
    for density in densities.values() if isinstance(densities, Mapping) else densities:
        if not (callable(density) or _method(density)):
            raise InvalidInput(
                f"bayes_rule: a {type(density).__name__} is no density; give a frozen distribution "
                "of scipy.stats, an object with score_samples, or a function."
            )


def as_points(X: Any) -> tuple[Any, int]:
    """Return the points, numbers as an array, and how many they are."""
    if not hasattr(X, "shape") and hasattr(X, "__len__"):
        try:
            numbers = np.asarray(X)
        except ValueError:  # of different lengths
            numbers = np.array(None)
        X = numbers if numbers.ndim and numbers.dtype.kind in "fiub" else X
    if getattr(X, "shape", (0,)) == () or not (hasattr(X, "shape") or hasattr(X, "__len__")):
        raise InvalidInput(
            f"bayes_rule: X is a {type(X).__name__} without length; give a sequence of points, "
            "such as [X]."
        )
    return X, X.shape[0] if hasattr(X, "shape") else len(X)


def as_objects(values: list[Any]) -> np.ndarray:
    """Return an array of objects of shape (n,), also where these have lengths of their own."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def as_classes(names: list[Any]) -> np.ndarray:
    """Return classes as an array that gives them back: of objects, unless all are of one kind."""
    kinds = {np.asarray(name).dtype.kind if np.ndim(name) == 0 else "" for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= set("biufU") else as_objects(names)


def describe(density: Any) -> str:
    """Name a density as it was made."""
    family = getattr(getattr(density, "dist", None), "name", None)
    if family is not None:
        parts = [repr(v) for v in getattr(density, "args", ())]
        parts += [f"{k}={v!r}" for k, v in getattr(density, "kwds", {}).items()]
        return f"{family}({', '.join(parts)})"
    if isinstance(density, BaseEstimator):
        return repr(density)
    return getattr(density, "__name__", None) or type(density).__name__.removesuffix("_frozen")


def _method(density: Any) -> Any:
    """Return the method of an object that gives log densities, if it has one."""
    names = ("logpdf", "logpmf", "score_samples")
    return next((getattr(density, name) for name in names if hasattr(density, name)), None)


def log_density(density: Any, X: Any, n: int, name: Any, log: bool) -> np.ndarray:
    """Return the log density of a class at every point, of shape (n,)."""
    method = _method(density)
    if hasattr(density, "score_samples") and isinstance(X, np.ndarray) and X.ndim == 1:
        X = X[:, None]
    values = np.asarray(density(X) if method is None else method(X), dtype=float)
    if values.size != n:
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r} gave shape {values.shape} for {n} points; "
            "one number a point is needed. A density of several columns is that of one variable."
        )
    # Vectors of parameters would be paired with the points where there are as many.
    if n > 1 and method is not None and np.size(method(X[:1])) != 1:
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r}, {describe(density)}, holds vectors of "
            "parameters, so that it is several densities; give one distribution for each class."
        )
    values = values.reshape(n)
    if np.isnan(values).any():
        i = int(np.argmax(np.isnan(values)))
        raise InvalidInput(f"bayes_rule: the density of class {name!r} is NaN at point {i}.")
    if method is not None or log:
        return values
    if (values < 0).any():
        i = int(np.argmax(values < 0))
        raise InvalidInput(
            f"bayes_rule: the density of class {name!r} is {values[i]:.3g} < 0 at point {i}; "
            "give log=True if the function returns log densities."
        )
    with np.errstate(divide="ignore"):
        return np.log(values)
