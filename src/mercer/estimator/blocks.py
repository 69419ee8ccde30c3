"""Answers at points that come in blocks: one block in memory at a time."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer.domains import RowBlocks, library_of
from mercer.domains.blocks import Block, column_names, is_dask
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.settings import config, get_config
from mercer.threads import Progress, ahead

NAMELESS = "X does not have valid feature names"  # of scikit-learn, which sees arrays
#: Methods with one answer for each point.
METHODS = (
    "decision_function",
    "predict",
    "predict_log_proba",
    "predict_proba",
    "score_samples",
    "transform",
)


def answers(
    model: Any, blocks: RowBlocks, method: str = "predict", *args: Any, **options: Any
) -> Iterator[tuple[Block, Any]]:
    """Yield each block with the model's answers at its points; the next block is read meanwhile.

    Parameters
    ----------
    model : estimator
        Fitted.
    blocks : RowBlocks
        The points.
    method : str, default="predict"
        The method to ask, with one answer for each point.
    *args, **options : object
        Passed to the method.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> from mercer.estimator.blocks import answers
    >>> X = np.linspace(0, 1, 6)[:, None]
    >>> model = mercer.KernelRidge("rbf", alpha=0.1).fit(X, X[:, 0])
    >>> blocks = mercer.RowBlocks.from_arrays(X, block_rows=4)
    >>> [values.shape for block, values in answers(model, blocks)]
    [(4,), (2,)]
    """
    check_is_fitted(model)
    ask = getattr(model, method)
    blocks, named = arranged(model, blocks, method)
    progress = Progress(blocks.n_rows, method) if get_config().progress else None
    source = ahead(blocks)
    try:
        for block in source:
            try:
                with config(progress=False), warnings.catch_warnings():
                    if named:
                        warnings.filterwarnings("ignore", message=NAMELESS)
                    values = ask(block.X, *args, **options)
            except InvalidInput as error:
                raise block.blamed(error) from error
            yield block, values
            if progress is not None:
                progress.step(len(block))
    finally:
        source.close()  # type: ignore[attr-defined]


def arranged(model: Any, blocks: RowBlocks, method: str) -> tuple[RowBlocks, bool]:
    """Return the blocks with the columns of the fit, and whether these were found by name.

    Parameters
    ----------
    model : estimator
        Fitted.
    blocks : RowBlocks
        The points. Of columns with names those of the fit are taken, in its order.
    method : str
        What is asked of the model, for messages.
    """
    owner = f"{type(model).__name__}.{method}"
    known = getattr(model, "feature_names_in_", None)
    if known is not None and blocks.columns is not None:
        names = tuple(map(str, known))
        spare = getattr(getattr(model, "encoder_", model), "left_out", ())  # which are not read
        names = tuple(name for name in names if name in blocks.columns or name not in spare)
        missing = [name for name in names if name not in blocks.columns]
        if missing:
            raise InvalidInput(
                f"{owner}: the blocks have no column {missing[0]!r}, which the model was fitted "
                f"with; {column_names(blocks.columns, missing[0])}."
            )
        chosen = blocks if names == blocks.columns else blocks.select(names)
        # a model of tables looks for the names in them
        return (chosen.as_tables() if hasattr(model, "encoder_") else chosen), True
    width, wanted = blocks.n_columns, getattr(model, "n_features_in_", None)
    if width is not None and wanted is not None and width != wanted:
        raise InvalidInput(
            f"{owner}: the blocks have {width} columns, the model was fitted with {wanted}; give "
            "the same columns in the same order."
        )
    return blocks, False


def takes_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that answers at points take `RowBlocks`, and answer all of them in order.

    Parameters
    ----------
    method : callable
        ``method(self, X, ...)`` with one answer for each point of X.
    """

    lazy, spoken = hasattr(method, "takes_dask"), speaks(method)

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if is_dask(X) and not lazy:
            X = RowBlocks.from_dask(X)
        if not isinstance(X, RowBlocks):
            return spoken(self, X, *args, **options)
        asked = answers(self, X, method.__name__, *args, **options)
        return _joined([values for _, values in asked])

    answer.takes_blocks = True  # type: ignore[attr-defined]
    return answer


def refuse_unread(X: Any, fits: bool = True) -> None:
    """Refuse rows that are not in memory, and say what can be done with them.

    X : Any
        The points.
    fits : bool, default=True
        Whether they were to be fitted; otherwise to be looked at for a choice of parameters.
    """
    if isinstance(X, str | os.PathLike) and os.path.exists(X):
        raise InvalidInput(
            f"{who()}: X is a path, {os.fspath(X)!r}; give what is in it, as with "
            "RowBlocks.from_parquet(path, target='y') or RowBlocks.from_npy(path, y_path)."
        )
    if isinstance(X, np.ndarray) or not (isinstance(X, RowBlocks) or is_dask(X)):
        return
    rows = "RowBlocks" if isinstance(X, RowBlocks) else "dask data"
    blocks = "blocks" if isinstance(X, RowBlocks) else "RowBlocks.from_dask(X, y)"
    if not fits:
        raise InvalidInput(
            f"{who()}: the rows must be in memory, and those of {rows} come in blocks. Choose on a "
            f"sample: X, y, weight = {blocks}.sample(2000, with_targets=True); then fit all."
        )
    raise InvalidInput(
        f"{who()}: fit needs all rows at once, and those of {rows} come in blocks. Fit a sample: "
        f"X, y, weight = {blocks}.sample(20000, with_targets=True); predict and transform take all "
        "blocks then. Estimators with solver='falkon', such as KernelRidge, fit all of them."
    )


def _needs_targets(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Let a fit that must be given targets refuse blocks before Python misses an argument."""

    @wraps(fit)
    def guarded(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not args and "y" not in options:
            with speaking_for(type(self).__name__):
                refuse_unread(X)
        return fit(self, X, *args, **options)

    return guarded


def let_blocks_in(cls: Any) -> None:
    """Let an estimator answer at `RowBlocks`: `predict`, `decision_function`, `transform` …

    A `fit` that needs targets says what to do with blocks, which carry them.
    """
    fit = vars(cls).get("fit")
    y = inspect.signature(fit).parameters.get("y") if inspect.isfunction(fit) else None
    if y is not None and y.default is inspect.Parameter.empty:
        cls.fit = _needs_targets(fit)  # type: ignore[arg-type]
    for name in METHODS:
        found = inspect.getattr_static(cls, name, None)
        if inspect.isfunction(found) and not hasattr(found, "takes_blocks"):
            setattr(cls, name, takes_blocks(found))
            continue
        # methods that exist under a condition sit in a descriptor, scikit-learn's or ours
        for held in ("fn", "method"):
            function = vars(found).get(held) if hasattr(found, "__dict__") else None
            if inspect.isfunction(function) and not hasattr(function, "takes_blocks"):
                again = copy(found)
                setattr(again, held, takes_blocks(function))
                setattr(cls, name, again)


def _joined(parts: list[Any]) -> Any:
    """Return the answers of all blocks: arrays, sparse rows, frames, or tuples of them."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(_joined(list(some)) for some in zip(*parts, strict=True))
    if sp.issparse(first):
        return sp.vstack(parts, format="csr")
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat(parts, ignore_index=True)
    if library_of(first) == "polars":
        import polars

        return polars.concat(parts)
    return np.concatenate(parts)


# ---- The columns of rows that come in blocks, noted as scikit-learn's checks do for arrays ----


def note_columns(model: Any, rows: RowBlocks) -> None:
    """Store number and names of the columns, as scikit-learn's checks do for arrays.

    Parameters
    ----------
    model : estimator
        That is being fitted.
    rows : RowBlocks
        The rows.
    """
    vars(model).pop("feature_names_in_", None)
    if rows.n_columns is not None:
        model.n_features_in_ = rows.n_columns
        if rows.columns is not None:
            model.feature_names_in_ = np.array(rows.columns, dtype=object)
