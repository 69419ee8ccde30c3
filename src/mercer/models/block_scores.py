"""Scores at rows that come in blocks: sums over each block, added up; only sums are kept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains.row_blocks import Block
from mercer.domains.vectors import to_host
from mercer.engines.cluster import client_for, each_block
from mercer.errors import InvalidInput
from mercer.features.streamed import NAMELESS, answers, arranged
from mercer.models.base import check_targets
from mercer.models.labels import check_labels
from mercer.models.ridge_stream import as_stream
from mercer.settings import config

__all__ = ["given_targets", "score_blocks"]


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
    owner = f"{type(model).__name__}.score"
    rows, _ = arranged(model, as_stream(X, y, sample_weight, owner), "score")
    judge = _Hits(owner) if classes else _Squares(owner)
    if client_for(rows) is None:
        return judge.score([judge(block, values) for block, values in answers(model, rows)])
    return judge.score(each_block(rows, _Asked(model, judge)))


@dataclass(frozen=True, eq=False)
class _Asked:
    """Asks a model at the points of a block, in the one thread of a task, and judges the answer."""

    model: Any
    judge: Any

    def __call__(self, block: Block) -> Any:
        try:
            with config(threads=1), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=NAMELESS)
                return self.judge(block, self.model.predict(block.X))
        except InvalidInput as error:
            raise block.blamed(error) from error


@dataclass(frozen=True)
class _Hits:
    """The weight of the rows whose class is predicted, and that of all."""

    owner: str

    def __call__(self, block: Block, predicted: np.ndarray) -> tuple[float, float]:
        y, w = check_labels(block.y, len(block), self.owner), _weights(block)
        if (y.dtype.kind in "OSU") != (predicted.dtype.kind in "OSU"):
            raise InvalidInput(
                f"{self.owner}: the labels of {block.source} are {y.dtype}, those of the model "
                f"{predicted.dtype}; give them one type."
            )
        return float(w[y == predicted].sum()), float(w.sum())

    def score(self, found: Sequence[tuple[float, float]]) -> float:
        """Return the share of the weight."""
        hits, total = np.sum(found, axis=0)
        _require_weight(total, self.owner)
        return float(hits / total)


@dataclass(frozen=True)
class _Squares:
    """Squared errors of a block, the mean of its targets, and the squares around that mean."""

    owner: str

    def __call__(self, block: Block, predicted: np.ndarray) -> tuple[Any, ...]:
        y = check_targets(block.y, len(block), self.owner).reshape(len(block), -1)
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
        _require_weight(totals.sum(), self.owner)
        apart = means - means[0]
        centre = totals @ apart / totals.sum()
        spread = squares.sum(0) + totals @ (apart - centre) ** 2
        missed = errors.sum(0)
        constant = np.where(missed == 0, 1.0, 0.0)
        R2 = np.where(spread > 0, 1 - missed / np.where(spread > 0, spread, 1.0), constant)
        return float(R2.mean())


def _weights(block: Block) -> np.ndarray:
    return np.ones(len(block)) if block.weight is None else np.asarray(block.weight, dtype=float)


def _require_weight(total: float, owner: str) -> None:
    if not total > 0:
        raise InvalidInput(
            f"{owner}: all sample weights are zero, so no row would count; give at least one "
            "positive weight."
        )
