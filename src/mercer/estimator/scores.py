"""Scores at rows that come in blocks: sums over each block, added up; only sums are kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.base
from sklearn.utils.validation import check_is_fitted

from mercer.domains import RowBlocks, to_host
from mercer.domains.blocks import Block, is_dask, no_weight
from mercer.engines.passes import client_for, each_block
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator.base import check_targets, check_weights
from mercer.estimator.blocks import NAMELESS, answers, arranged
from mercer.estimator.rows import as_stream, is_stream
from mercer.estimator.sample import check_labels
from mercer.settings import config


def given_targets(y: Any, model: Any) -> Any:
    """Return targets in main memory; only blocks can do without.

    Parameters
    ----------
    y : array-like or None
        The targets.
    model : estimator
        Who asks, for messages.
    """
    if y is None:
        raise InvalidInput(
            f"{type(model).__name__}.score: the target y is None; pass score(X, y), or RowBlocks "
            "that carry their targets."
        )
    return to_host(y, "y")


@speaks(".score")
def score_blocks(model: Any, X: Any, y: Any, sample_weight: Any, classes: bool) -> float:
    """Return the accuracy or R² of a model at rows in blocks, as that of all rows at once.

    On a cluster the workers that have the rows predict.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : RowBlocks, or dask array or frame
        The rows.
    y, sample_weight : array, or what dask has beside X, optional
        In place of those of the blocks.
    classes : bool
        Whether the targets are classes.
    """
    judge: Judge = Hits(who()) if classes else _Squares(who())
    return judged_blocks(model, X, y, sample_weight, judge)


def judged_blocks(model: Any, X: Any, y: Any, sample_weight: Any, judge: Judge) -> float:
    """Return what a judge makes of the predictions at rows in blocks.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y, sample_weight : data
        As in `score_blocks`.
    judge : Judge
        Looks at each block.
    """
    rows, _ = arranged(model, as_stream(X, y, sample_weight), "score")
    if client_for(rows) is None:
        return judge.score([judge(block, values) for block, values in answers(model, rows)])
    return judge.score(each_block(rows, _Asked(model, judge)))


@speaks(".score")
def sum_blocks(model: Any, X: Any, sample_weight: Any) -> float:
    """Return a score that is a sum over rows, of rows in blocks.

    Parameters
    ----------
    model : estimator
        Fitted; its ``score(X, sample_weight=...)`` of each block is added up.
    X : RowBlocks, or dask array or frame
        The rows.
    sample_weight : float, array, or what dask has beside X, optional
        In place of those of the blocks.
    """
    if is_dask(X):
        X = RowBlocks.from_dask(X, None, sample_weight)
    elif sample_weight is not None:
        X = X.with_values(None, check_weights(sample_weight, X.n_rows))
    found = each_block(arranged(model, X, "score")[0], _Summed(model))
    total, weight = np.sum(found, axis=0)
    _require_weight(weight)
    return float(total)


@dataclass(frozen=True, eq=False)
class _Asked:
    """Asks a model at the points of a block, in the one thread of a task, and judges the answer."""

    model: Any
    judge: Judge

    def __call__(self, block: Block) -> Any:
        with config(threads=1), _named(block):
            predicted = self.model.predict(block.X)
        return self.judge(block, predicted)


@dataclass(frozen=True, eq=False)
class _Summed:
    """The score of a block, and its weight."""

    model: Any

    def __call__(self, block: Block) -> tuple[float, float]:
        w = _weights(block)
        if not w.any():
            return 0.0, 0.0
        with _named(block):
            return self.model.score(block.X, sample_weight=w), float(w.sum())


@contextmanager
def _named(block: Block) -> Iterator[None]:
    """Name the place of rows that a model refuses; their columns were arranged by name."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=NAMELESS)
            yield
    except InvalidInput as error:
        raise block.blamed(error) from error


@dataclass(frozen=True)
class Judge:
    """Looks at the predictions of each block, and makes one number of all that it saw."""

    speaker: str

    def __call__(self, block: Block, predicted: Any) -> tuple[Any, ...]:
        """Return what is to be known of a block."""
        raise TypeError(f"{type(self).__name__}: define __call__(block, predicted).")

    def score(self, found: Sequence[tuple[Any, ...]]) -> float:
        """Return the score of all blocks."""
        raise TypeError(f"{type(self).__name__}: define score(found).")


@dataclass(frozen=True, eq=False)
class Together(Judge):
    """Keeps the targets, weights and predictions of all rows, for scores that are no sums.

    Parameters
    ----------
    speaker : str
        Who asks, for messages.
    measure : callable
        ``measure(y, predicted, weights)`` of all rows.
    """

    measure: Callable[[Any, Any, Any], float]

    def __call__(self, block: Block, predicted: Any) -> tuple[Any, ...]:
        """Return what is to be known of a block."""
        with speaking_for(self.speaker):
            return check_targets(block.y, len(block)), predicted, _weights(block)

    def score(self, found: Sequence[tuple[Any, ...]]) -> float:
        """Return the score of all blocks."""
        y, predicted, w = (np.concatenate(part) for part in zip(*found, strict=True))
        with speaking_for(self.speaker):
            _require_weight(w.sum())
        return self.measure(y, predicted, w)


@dataclass(frozen=True)
class Hits(Judge):
    """The weight of the rows whose class is predicted, and that of all."""

    def __call__(self, block: Block, predicted: Any) -> tuple[Any, ...]:
        """Return the weights of a block."""
        w = _weights(block)
        return float(w[self.right(block, predicted)].sum()), float(w.sum())

    def right(self, block: Block, predicted: Any) -> np.ndarray:
        """Return which rows are predicted."""
        with speaking_for(self.speaker):
            y = check_labels(block.y, len(block))
        if (y.dtype.kind in "OSU") != (predicted.dtype.kind in "OSU"):
            raise InvalidInput(
                f"{self.speaker}: the labels of {block.source} are {y.dtype}, those of the model "
                f"{predicted.dtype}; give them one type."
            )
        return np.asarray(y == predicted)

    def score(self, found: Sequence[tuple[Any, ...]]) -> float:
        """Return the share of the weight."""
        hits, total = np.sum(found, axis=0)
        with speaking_for(self.speaker):
            _require_weight(total)
        return float(hits / total)


@dataclass(frozen=True)
class _Squares(Judge):
    """Squared errors of a block, the mean of its targets, and the squares around that mean."""

    def __call__(self, block: Block, predicted: Any) -> tuple[Any, ...]:
        with speaking_for(self.speaker):
            y = check_targets(block.y, len(block)).reshape(len(block), -1)
        if y.size != np.size(predicted):
            raise InvalidInput(
                f"{self.speaker}: the targets of {block.source} have {y.shape[1]} column(s), those "
                f"of the model {np.size(predicted) // len(y)}; give the targets of the fit."
            )
        w = _weights(block)
        total = w.sum()
        errors = w @ (y - predicted.reshape(y.shape)) ** 2
        shift = y[0]  # so that nothing is left of a constant
        mean = w @ (y - shift) / total if total > 0 else np.zeros(y.shape[1])
        return errors, total, mean + shift, w @ (y - shift - mean) ** 2

    def score(self, found: Sequence[tuple[Any, ...]]) -> float:
        """Return R², the mean over outputs; that of a constant is 1 where it is met, else 0.

        The squares around the mean of all are those around the means of blocks, and of these means
        (Chan, Golub, LeVeque, 1983).
        """
        errors, totals, means, squares = (np.array(part) for part in zip(*found, strict=True))
        with speaking_for(self.speaker):
            _require_weight(totals.sum())
        apart = means - means[0]
        centre = totals @ apart / totals.sum()
        spread = squares.sum(0) + totals @ (apart - centre) ** 2
        missed = errors.sum(0)
        constant = np.where(missed == 0, 1.0, 0.0)
        R2 = np.where(spread > 0, 1 - missed / np.where(spread > 0, spread, 1.0), constant)
        return float(R2.mean())


def _weights(block: Block) -> np.ndarray:
    return np.ones(len(block)) if block.weight is None else np.asarray(block.weight, dtype=float)


def _require_weight(total: float) -> None:
    if not total > 0:
        raise no_weight()


# ---- The scores of classifiers and regressors, as methods that take tensors and blocks too ----


def score_as(model: Any, X: Any, y: Any, sample_weight: Any, classes: bool) -> float:
    """Return the accuracy of a model that predicts classes, R² of one that predicts numbers.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : collection of n points, RowBlocks, or dask array or frame
        Points.
    y, sample_weight : arrays, optional
        Targets and weights; of `RowBlocks` those that the blocks carry.
    classes : bool
        Whether the targets are classes.
    """
    if is_stream(X):
        return score_blocks(model, X, y, sample_weight, classes)
    known: Any = sklearn.base.ClassifierMixin if classes else sklearn.base.RegressorMixin
    weights = to_host(sample_weight, "sample_weight")
    return float(known.score(model, X, given_targets(y, model), weights))


def accuracy(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Return the share of points whose class is predicted.

    Parameters
    ----------
    X : collection of n points, RowBlocks, or dask array or frame
        Points; when precomputed, their kernel values with the training points.
    y : array of shape (n,), optional
        Their classes; of `RowBlocks` those that the blocks carry.
    sample_weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    float
        1 where all are right.
    """
    return score_as(self, X, y, sample_weight, classes=True)


def r_squared(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Return the coefficient of determination R², the mean of those of all outputs.

    Parameters
    ----------
    X : collection of n points, RowBlocks, or dask array or frame
        Points; when precomputed, their kernel values with the training points.
    y : array of shape (n,) or (n, n_outputs), optional
        Their targets; of `RowBlocks` those that the blocks carry.
    sample_weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    float
        1 for perfect predictions, 0 for those no better than the mean of y.
    """
    return score_as(self, X, y, sample_weight, classes=False)


def margin_of_prototypes(model: Any) -> float:
    """Say why a machine that keeps prototypes has no margin of its training points."""
    check_is_fitted(model)
    raise _no_margin(model, "prototypes")


def _no_margin(model: Any, kept: str, cure: str = "") -> AttributeError:
    return AttributeError(
        f"{type(model).__name__}: margin_ is that of the training points, and this fit keeps "
        f"{kept} in their place; {cure}take decision_function(X) over function_.norm()."
    )


def geometric_margin(model: Any, codes: Any) -> float:
    """Return how far, in feature space, training points are from where classes change, at least.

    Of two classes min y(f(x) + b)/‖f‖, of more the least (f_c − f_d)(x)/‖f_c − f_d‖ over the points
    x of every class c and the other classes d, offsets included. Negative if a point is on the
    wrong side.

    Parameters
    ----------
    model : classifier
        Fitted, with a `function_` of its training points.
    codes : array of shape (n,), or None
        The numbers of their classes, −1 for rows that do not count; None where they are not kept.
    """
    owner = type(model).__name__
    if codes is None:
        raise _no_margin(model, "centres or sums", "fit with another solver, or ")
    if not model.kernel_.domain.holds_points:
        raise AttributeError(
            f"{owner}: margin_ needs the kernel values of the training points, which a model of a "
            "precomputed kernel does not keep; divide decision_function(K) by the norm √(aᵀKa)."
        )
    codes = np.asarray(codes).astype(int)
    f, b = model.function_, np.reshape(model.intercept_, -1)
    some = np.flatnonzero(codes >= 0)
    values = np.reshape(f(model.X_fit_), (len(codes), -1))
    coef = np.reshape(f.coef, (len(codes), -1))
    inner = coef.T @ (values - b)  # ⟨f_c, f_d⟩
    if values.shape[1] == 1:
        ahead = np.where(codes[some] == 1, 1.0, -1.0) * values[some, 0]
        square = np.broadcast_to(inner[0, 0], len(some))
    else:
        mine, size = codes[some], inner.diagonal()
        ahead = values[some, mine][:, None] - values[some]
        square = size[mine][:, None] + size - inner[mine] - inner[:, mine].T
        other = np.arange(values.shape[1]) != mine[:, None]
        ahead, square = ahead[other], square[other]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.min(ahead / np.sqrt(np.maximum(square, 0.0))))
