"""Feature machines on rows in blocks: metrics from a sample, every member fitted to all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.domains import RowBlocks
from mercer.errors import InvalidInput, speaking_for, who
from mercer.estimator import check_labels, check_targets
from mercer.features import TableEncoder
from mercer.models.metric.learning import FEWEST, LOGISTIC, Pace
from mercer.models.metric.scores import NormalScores
from mercer.models.metric.trials import Judged
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression
from mercer.settings import get_config

SAMPLE = 20_000  # rows of blocks that metrics, weights and slopes come from
FEW = 2000  # that kernels of text and strings come from
COPIES = 6  # of a sample of rows: as they came, encoded, in each view, in parts
SHARE = 2  # such a sample takes at most one part in so many of the budget


class RareClass(InvalidInput):
    """A class of which no row is among those that metrics are learned from."""


def sample_size(width: int) -> int:
    """Return how many rows of blocks, of so many encoded columns, are looked at in memory."""
    fits = get_config().memory // (SHARE * COPIES * 8 * max(1, width))
    return max(2 * FEWEST, min(SAMPLE, fits))


@dataclass(frozen=True, eq=False)
class EncodedView:
    """Turns the rows of a block into what a member sees."""

    encoder: TableEncoder
    scores: NormalScores
    view: str

    def __call__(self, X: Any) -> np.ndarray:
        """Return encoded rows."""
        return self.scores.view(self.encoder.transform(X), self.view)


@dataclass(frozen=True, eq=False)
class UnitTargets:
    """Turns the targets of a block into the units of the members."""

    mean: np.ndarray
    scale: np.ndarray
    speaker: str

    def __call__(self, y: Any) -> np.ndarray:
        """Return targets, a column for each output where there are several."""
        with speaking_for(self.speaker):
            Y = np.asarray(check_targets(y, len(y)), dtype=float).reshape(len(y), -1)
        T = (Y - self.mean) / self.scale
        return T[:, 0] if T.shape[1] == 1 else T


@dataclass(frozen=True, eq=False)
class CodedLabels:
    """Turns the labels of a block into numbers of classes, or into the columns of ridges.

    Of columns a mean is taken off, and they are divided by a scale.
    """

    classes: np.ndarray
    speaker: str
    sample: int  # rows that the classes are known from
    columns: tuple[np.ndarray, float] | None = None

    def __call__(self, y: Any) -> np.ndarray:
        """Return the codes of a block, or its columns."""
        with speaking_for(self.speaker):
            y = check_labels(y, len(y))
        codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        strange = self.classes[codes] != y
        if strange.any():
            raise RareClass(
                f"{self.speaker}: class {y[strange].tolist()[0]!r} has too few rows to be among "
                f"the {self.sample} that metrics are learned from; leave its rows out, or join it "
                "with another class."
            )
        if self.columns is None:
            return codes
        mean, scale = self.columns
        T = (coded_columns(codes, len(self.classes)) - mean) / scale
        return T[:, 0] if T.shape[1] == 1 else T


def coded_columns(codes: np.ndarray, classes: int) -> np.ndarray:
    """Return a column of 0 and 1 for each class; of two classes one in all."""
    T = (codes[:, None] == np.arange(classes)).astype(float)
    return T[:, 1:] if classes == 2 else T


def mean_weight(blocks: RowBlocks) -> float:
    """Return the mean of the weights that are not zero, which a penalty is to be multiplied by."""
    weights = [block.weight for block in blocks]
    known = [w[w > 0] for w in weights if w is not None]
    total = sum(len(w) for w in known)
    return sum(float(w.sum()) for w in known) / total if total else 1.0


def fitted_to_blocks(
    judged: Judged,
    rows: RowBlocks,
    weight: float,
    random_state: Any,
    seconds: float | None,
    pace: Pace,
) -> Any:
    """Return the model of a metric on encoded rows in blocks, in the span of centres.

    They are as many as there are likely to be seconds for.

    Penalties were chosen beside weights of mean 1; the blocks have theirs, of another mean.
    """
    metric = judged.metric
    how = pace.how(rows, None, None, seconds, random_state)
    clock, penalty = Clock(seconds), weight * metric.alpha
    if judged.loss == LOGISTIC:
        model: Any = KernelLogisticRegression(metric.kernel, alpha=penalty, **how)
    else:
        model = KernelRidge(metric.kernel, alpha=penalty, fit_intercept=True, **how)
    model.fit(rows)
    if clock.late:
        pace.took(clock.spent, rows, None, how)
    return model


def refuse_class_weight(class_weight: Any) -> None:
    """Say how classes of blocks are weighed."""
    if class_weight is not None:
        raise InvalidInput(
            f"{who()}: class_weight={class_weight!r} with RowBlocks; give the blocks a column of "
            "weights, or fit a sample: X, y, weight = blocks.sample(20000, with_targets=True)."
        )
