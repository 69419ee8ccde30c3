"""Answers at points in dask arrays and data frames: dask arrays, computed when asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains.blocks.block import column_names
from mercer.domains.blocks.dask import is_dask, partitions
from mercer.errors import InvalidInput
from mercer.settings import config

__all__ = ["lazily", "takes_dask"]


def takes_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that answers at points take dask data, and answer them with a dask array.

    Parameters
    ----------
    method : callable
        ``method(self, X, ...)`` with one answer for each row of X.
    """

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if is_dask(X):
            return lazily(self, method.__name__, X, *args, **options)
        return method(self, X, *args, **options)

    answer.takes_dask = True  # type: ignore[attr-defined]
    return answer


def lazily(model: Any, method: str, X: Any, *args: Any, **options: Any) -> Any:
    """Return ``model.method(X)`` as a dask array with the chunks of X; nothing is computed.

    The model goes along once, and each chunk is answered where it is.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str
        The name of a method with one answer for each row.
    X : dask array of shape (n, d), or dask data frame
        Points.
    *args, **options : object
        Passed to the method.

    Returns
    -------
    dask array
        Its first axis is that of X; of a frame with sizes that dask does not know yet.
    """
    import dask
    import dask.array as da

    check_is_fitted(model)
    owner = f"{type(model).__name__}.{method}"
    if X.ndim != 2:
        raise InvalidInput(
            f"{owner}: X has {X.ndim} dimension(s); give (points, columns), for one column "
            "X.reshape(-1, 1) or X.to_frame()."
        )
    frame = hasattr(X, "map_partitions")
    X = _arranged(model, X, owner) if frame else X
    _check_columns(model, X, owner)
    like = _example(model, method, args, options)
    if not isinstance(like, np.ndarray):
        raise InvalidInput(
            f"{owner}: with these options it returns a {type(like).__name__}, not one array; call "
            "it on chunks, for example with X.map_blocks."
        )
    if not frame and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    pieces = partitions(X) if frame else X.to_delayed()
    sizes = [np.nan] * X.npartitions if frame else X.chunks[0]
    held = dask.delayed(_Held(model, method, args, options), traverse=False)
    answer = dask.delayed(_answer, pure=True)
    return da.concatenate(
        [
            da.from_delayed(answer(held, piece), (size, *like.shape[1:]), dtype=like.dtype)
            for piece, size in zip(np.ravel(pieces), sizes, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


class _Held:
    """A model and what to ask of it."""

    def __init__(self, model: Any, method: str, args: tuple, options: dict[str, Any]):
        self.model, self.method, self.args, self.options = model, method, args, options

    def __call__(self, X: Any) -> Any:
        return getattr(self.model, self.method)(X, *self.args, **self.options)


def _answer(held: _Held, X: Any) -> Any:
    """Return what a model says of one chunk, in the one thread that dask gave to the task."""
    if not len(X):
        like = _example(held.model, held.method, held.args, held.options)
        return like[:0]
    with config(threads=1):
        return held(X)


def _arranged(model: Any, X: Any, owner: str) -> Any:
    """Return a frame with the columns of the fit, found by name, in its order."""
    known, labels = (
        getattr(model, "feature_names_in_", None),
        {str(name): name for name in X.columns},
    )
    if known is None:
        return X
    missing = [name for name in map(str, known) if name not in labels]
    if missing:
        raise InvalidInput(
            f"{owner}: the frame has no column {missing[0]!r}, which the model was fitted with; "
            f"{column_names(list(labels), missing[0])}."
        )
    wanted = [labels[str(name)] for name in known]
    return X if wanted == list(X.columns) else X[wanted]


def _check_columns(model: Any, X: Any, owner: str) -> None:
    """Refuse another number of columns before anything is computed."""
    wanted = getattr(model, "n_features_in_", None)
    width = len(X.columns) if hasattr(X, "columns") else X.shape[1]
    if wanted is not None and width == width and width != wanted:
        raise InvalidInput(
            f"{owner}: X has {width} columns, but {type(model).__name__} was fitted with {wanted}; "
            "give the same columns in the same order."
        )


def _example(model: Any, method: str, args: tuple, options: dict[str, Any]) -> Any:
    """Return the answer at one point of the fit, for its shape and dtype."""
    point = model.kernel_.domain.take(model.X_fit_, np.arange(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # points of the fit come without names
        return getattr(model, method)(point, *args, **options)
