"""Rows that a density keeps: read from the user, and looked at again when read from a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.base import check_weights
from mercer.models.density.bandwidth import as_bandwidth

__all__ = [
    "check_bandwidth",
    "check_kept_weights",
    "check_parts",
    "check_rows",
    "dense_rows",
    "positive_rows",
]


def dense_rows(X: Any, owner: str) -> np.ndarray:
    """Return checked rows as an array; sparse ones are made dense, if the budget allows.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Rows.
    owner : str
        Who asks; messages begin with it.
    """
    if not sp.issparse(X):
        return X
    require_memory(
        8 * X.shape[0] * X.shape[1],
        f"{owner}: the dense rows of a sparse X",
        "Reduce the columns first",
    )
    return np.ascontiguousarray(X.toarray())


def positive_rows(X: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of positive weight, and these weights.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows.
    w : array of shape (n,), optional
        Their weights.
    """
    if w is None or (w > 0).all():
        return X, w
    return X[w > 0], w[w > 0]


# ------------------------------------------------------------------------------- read from a file
def check_parts(model: Any, parts: tuple[str, ...]) -> bool:
    """Return whether a model was fitted; refuse one that was fitted in part.

    Parameters
    ----------
    model : estimator
        What was read.
    parts : tuple of str
        What every fitted model has.
    """
    held = [name for name in vars(model) if name in model._learned]
    missing = [part for part in parts if part not in held]
    if held and missing:
        raise ModelFileError(f"a {type(model).__name__} without {', '.join(missing)}")
    return bool(held)


def check_rows(X: Any, weights: Any, owner: str) -> None:
    """Refuse rows of a file that are no finite numbers, or weights that do not fit them.

    Parameters
    ----------
    X : object
        Rows.
    weights : object
        Their weights, or None.
    owner : str
        Whose they are; messages name it.
    """
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and X.size):
        raise ModelFileError(f"the points of a {owner} are damaged")
    if not np.isfinite(X).all():
        raise ModelFileError(f"the points of a {owner} are not finite")
    check_kept_weights(weights, len(X), owner)


def check_kept_weights(weights: Any, n: int, owner: str) -> None:
    """Refuse weights of a file that are none.

    Parameters
    ----------
    weights : object
        Weights, or None.
    n : int
        How many there should be.
    owner : str
        Whose they are; messages name it.
    """
    try:
        if weights is not None and not isinstance(weights, np.ndarray):
            raise InvalidInput("no array")
        check_weights(weights, n, owner)
    except InvalidInput as error:
        raise ModelFileError(f"the weights of a {owner} do not fit its points") from error


def check_bandwidth(bandwidth: Any, X: np.ndarray, owner: str) -> None:
    """Refuse a bandwidth of a file that is no number, or does not fit the rows.

    Parameters
    ----------
    bandwidth : object
        A bandwidth.
    X : array of shape (n, d)
        The rows.
    owner : str
        Whose it is; messages name it.
    """
    try:
        if isinstance(bandwidth, str):
            raise InvalidInput("a word")
        as_bandwidth(bandwidth, X, None, owner)
    except InvalidInput as error:
        raise ModelFileError(f"the bandwidth of a {owner} is none: {error}") from error
