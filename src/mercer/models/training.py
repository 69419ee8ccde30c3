"""Training points given a second time: whether they are those of the fit, which of them count."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, Packed, Table
from mercer.errors import InvalidInput

__all__ = ["check_same_points", "same_points", "with_weight"]


def same_points(domain: Domain, X: Any, Y: Any) -> bool:
    """Return whether two canonical collections hold equal points in the same order.

    Objects that compare by identity only are taken on trust.

    Parameters
    ----------
    domain : Domain
        Where the points are from.
    X, Y : canonical collections
        The points.
    """
    if domain.size(X) != domain.size(Y):
        return False
    if sp.issparse(X) or sp.issparse(Y):
        return X.shape == Y.shape and bool(abs(X - Y).max() == 0)
    if isinstance(X, np.ndarray):
        return np.array_equal(X, Y, equal_nan=X.dtype.kind == "f")
    if isinstance(X, Packed):
        return X == Y
    if isinstance(X, Table):  # a model keeps the columns that its kernel looks at
        return domain.keep(X) == Y
    return all(not _comparable(a) or bool(np.all(a == b)) for a, b in zip(X, Y, strict=True))


def check_same_points(domain: Domain, X: Any, Y: Any, owner: str, verb: str) -> None:
    """Refuse points given again that are not those of the fit.

    Parameters
    ----------
    domain : Domain
        Where the points are from.
    X, Y : canonical collections
        The points given, and those of the fit.
    owner, verb : str
        Whose method it is, and its name.
    """
    if not same_points(domain, X, Y):
        raise InvalidInput(
            f"{owner}.{verb}: X is not what the model was fitted on; pass the training points in "
            f"the same order, or none: {verb}()."
        )


def _comparable(a: Any) -> bool:
    return any("__eq__" in vars(kind) for kind in type(a).__mro__[:-1])


def with_weight(domain: Domain, X: Any, weights: Any) -> Any:
    """Return the points whose weight is not zero: those that a fit has seen.

    Parameters
    ----------
    domain : Domain
        Where the points are from.
    X : canonical collection of n points
        All of them.
    weights : array of shape (n,) or None
        Their weights; what has another shape leaves all points, as None does.
    """
    if np.shape(weights) != (domain.size(X),):
        return X
    return domain.take(X, np.flatnonzero(weights))
