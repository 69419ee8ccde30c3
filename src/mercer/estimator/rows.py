"""Blocks, dask collections and tensors as the data of a fit: targets, classes, columns, place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains import Domain, RowBlocks, to_host
from mercer.domains.blocks import Block, Weighing, column_names, is_dask, no_weight, partitions
from mercer.engines import where_is
from mercer.engines.passes import each_block
from mercer.errors import InvalidInput, speaking_for, who
from mercer.estimator.base import check_targets
from mercer.estimator.sample import (
    check_kept_classes,
    check_labels,
    class_signs,
    class_weights,
    find_classes,
)
from mercer.kernels import Kernel
from mercer.memory import named_when_full
from mercer.settings import config

SEEN = 2000  # rows of a stream that decide what is not told by a pass over all of them


@dataclass(frozen=True)
class NumericTargets:
    """Turns the targets of a block into float64 of shape (rows, t).

    Parameters
    ----------
    speaker : str
        The estimator, for messages.
    """

    speaker: str

    def __call__(self, y: Any) -> np.ndarray:
        """Return the targets of a block."""
        with speaking_for(self.speaker):
            return check_targets(y, len(y)).reshape(len(y), -1)


@dataclass(frozen=True, eq=False)
class SignedTargets:
    """Turns the labels of a block into ±1, one column a class; of two classes one column in all."""

    classes: np.ndarray
    speaker: str

    def __call__(self, y: Any) -> np.ndarray:
        """Return the signs of a block."""
        with speaking_for(self.speaker):
            labels = check_labels(y, len(y))
        return np.ascontiguousarray(class_signs(labels, self.classes).T)


@dataclass(frozen=True)
class _BlockLabels:
    """The classes of a block, the weights of their rows together, and where it comes from."""

    speaker: str

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray, str]:
        with speaking_for(self.speaker):
            y = check_labels(block.y, len(block))
        w = np.ones(len(y)) if block.weight is None else np.asarray(block.weight, dtype=float)
        classes, codes = np.unique(y, return_inverse=True)
        where = f"rows {block.place.first} to {block.place.first + len(y) - 1} of {block.source}"
        return classes, np.bincount(codes, w, len(classes)), where


@dataclass(frozen=True, eq=False)
class _ClassFactors:
    """Turns the labels of a block into the weights of their classes."""

    classes: np.ndarray
    weights: np.ndarray
    speaker: str

    def __call__(self, y: Any) -> np.ndarray:
        with speaking_for(self.speaker):
            labels = check_labels(y, len(y))
        return self.weights[np.searchsorted(self.classes, labels)]


def is_stream(X: Any) -> bool:
    """Whether rows come in blocks: `RowBlocks`, or a collection of dask's."""
    return isinstance(X, RowBlocks) or is_dask(X)


def as_stream(X: Any, y: Any, sample_weight: Any) -> RowBlocks:
    """Return blocks that carry their targets, and the weights given."""
    if is_dask(X):
        X = RowBlocks.from_dask(X, y, sample_weight)
    elif y is not None or sample_weight is not None:
        X = X.with_values(y, sample_weight)
    if not X.has_target:
        raise InvalidInput(
            f"{who()}: the blocks carry no target; name its column, as in "
            "RowBlocks.from_parquet(path, target='y'), or pass y."
        )
    return X


def resolved(kernel: Kernel, rows: RowBlocks, random_state: Any, most: int = SEEN) -> Kernel:
    """Return the kernel with words resolved: length scales of vectors as of the rows in memory.

    What else is found from data, as the values that missing ones are filled with, comes from some
    rows, drawn by weight; so does all of it of rows that are too many.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : RowBlocks
        The rows.
    random_state : int, RandomState or None
        Source of the draw; None takes the same rows each time.
    most : int, default=2000
        Rows of the draw.
    """

    @cache
    def drawn() -> tuple[np.ndarray, np.ndarray | None]:
        return rows.draw(most, 0 if random_state is None else random_state, each_block)

    def some(part: RowBlocks, domain: Domain) -> tuple[Any, np.ndarray | None]:
        index, weight = drawn()
        return part.take(index, domain=domain), weight

    return kernel._fit_blocks(rows, some)


def coded(rows: RowBlocks, class_weight: Any) -> tuple[RowBlocks, np.ndarray]:
    """Return the rows with ±1 for labels, and the classes; `class_weight` is in the weights.

    One pass, of which the classes of each block and their weights are kept.

    Parameters
    ----------
    rows : RowBlocks
        The rows, with labels.
    class_weight : dict, "balanced" or None
        Weights of the classes.
    """
    found = each_block(rows, _BlockLabels(who()))
    for labels, _, where in found:
        if (labels.dtype.kind in "OSU") != (found[0][0].dtype.kind in "OSU"):
            raise InvalidInput(
                f"{who()}: the labels are {found[0][0].dtype} in {found[0][2]} and {labels.dtype} "
                f"in {where}; give them one type in all blocks."
            )
    labels, totals = (np.concatenate(parts) for parts in list(zip(*found, strict=True))[:2])
    if not (totals > 0).any():
        raise no_weight()
    if class_weight is not None:
        # A class of a block counts here as a row with the weight of all its rows.
        balance = class_weights(class_weight, labels, totals)
        known, first = np.unique(labels, return_index=True)
        rows = rows.with_targets(Weighing(_ClassFactors(known, balance[first], who())))
        totals = totals * balance
    check_kept_classes(labels, labels[totals > 0])
    classes = find_classes(labels[totals > 0])
    return rows.with_targets(SignedTargets(classes, who())), classes


# ---- Answers at points in dask arrays and data frames: dask arrays, computed when asked for ----


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
    with speaking_for(f"{type(model).__name__}.{method}"):
        if X.ndim != 2:
            raise InvalidInput(
                f"{who()}: X has {X.ndim} dimension(s); give (points, columns), for one column "
                "X.reshape(-1, 1) or X.to_frame()."
            )
        frame = hasattr(X, "map_partitions")
        X = _arranged(model, X) if frame else X
        _check_columns(model, X)
        like = _example(model, method, args, options)
        if not isinstance(like, np.ndarray):
            raise InvalidInput(
                f"{who()}: with these options it returns a {type(like).__name__}, not one array; "
                "call it on chunks, for example with X.map_blocks."
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


def _arranged(model: Any, X: Any) -> Any:
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
            f"{who()}: the frame has no column {missing[0]!r}, which the model was fitted with; "
            f"{column_names(list(labels), missing[0])}."
        )
    wanted = [labels[str(name)] for name in known]
    return X if wanted == list(X.columns) else X[wanted]


def _check_columns(model: Any, X: Any) -> None:
    """Refuse another number of columns before anything is computed."""
    wanted = getattr(model, "n_features_in_", None)
    width = len(X.columns) if hasattr(X, "columns") else X.shape[1]
    if wanted is not None and width == width and width != wanted:
        raise InvalidInput(
            f"{who()}: X has {width} columns, but {type(model).__name__} was fitted with {wanted}; "
            "give the same columns in the same order."
        )


def _example(model: Any, method: str, args: tuple, options: dict[str, Any]) -> Any:
    """Return the answer at one point of the fit, for its shape and dtype."""
    point = model.kernel_.domain.take(model.X_fit_, np.arange(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # points of the fit come without names
        return getattr(model, method)(point, *args, **options)


# ---- Tensors as data of a fit ----


def computing_where(X: Any) -> AbstractContextManager:
    """Return options under which arrays are worked on where X is, a tensor or anything else."""
    return where_is(X)


def follows_data(method: Callable) -> Callable:
    """Let a method compute where its first argument is; tensors come to it as arrays.

    Parameters
    ----------
    method : callable
        Of an estimator, whose first argument X holds points.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = named_when_full(type(self).__name__, "Fit fewer rows")
        X = args[0] if args else kwargs.get("X")
        with guard, computing_where(X):
            named = {name: to_host(value, name) for name, value in kwargs.items()}
            return method(self, *map(to_host, args), **named)

    return call
