"""How well a model predicts, beside the simplest prediction there is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.cli.preparation import Prepared
from mercer.models.margin.folds import stratified_folds

__all__ = ["FOLDS", "Score", "evaluate", "inside_score"]

FOLDS = 5


@dataclass(frozen=True)
class Score:
    """R² and error of a regression, or accuracy of a classification, on some rows."""

    rows: int
    measure: str  # "R2" or "accuracy"
    value: float
    error: float  # root mean squared error, or share of wrong classes
    baseline: float  # error of the mean of the target, or of its most frequent class

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def remark(self) -> str:
        """Return a remark where the model is no better than the simplest prediction, else ""."""
        if self.error < self.baseline or self.baseline == 0:
            return ""
        simple = "always the most frequent class"
        if self.measure != "accuracy":
            simple = "the mean of the target"
        much = "worse than" if self.error > self.baseline else "no better than"
        return (
            f"the model is {much} {simple} on {self.rows} rows that it did not see; the columns "
            "may say nothing about the target"
        )

    def __str__(self) -> str:
        if self.measure == "accuracy":
            return (
                f"{100 * self.value:.1f} % right "
                f"(always the most frequent class: {100 * (1 - self.baseline):.1f} %)"
            )
        return (
            f"R² {self.value:.3f}, RMSE {self.error:.4g} (mean of the target: {self.baseline:.4g})"
        )


def evaluate(data: Prepared, model: Any, train: np.ndarray, test: np.ndarray) -> Score:
    """Return the score of a model on rows that it has not seen.

    Parameters
    ----------
    data : Prepared
        The table and its target.
    model : estimator
        Fitted on the rows ``train``.
    train, test : ndarray of int
        Rows seen and not seen.

    Returns
    -------
    Score
        On the rows ``test``.
    """
    predicted = model.predict(data.table.take(test))
    return _score(data.target[test], predicted, data.target[train], data.task)


def inside_score(data: Prepared, model: Any, seed: int) -> Score:
    """Return the score of a fitted model on the rows it was fitted on, each predicted without it.

    Ridge models: exact leave-one-out. Support vector classifiers: five folds with the kernel and C
    of the model. The encoder is kept in both.

    Parameters
    ----------
    data : Prepared
        What the model was fitted on.
    model : TableRegressor or TableClassifier
        The model.
    seed : int
        Of the folds; those that tuned the model were others.

    Returns
    -------
    Score
        On all rows.
    """
    if hasattr(model, "loo"):
        return _score(data.target, model.loo(), data.target, data.task)
    fold = stratified_folds(data.target, FOLDS, (seed + 1) % 2**32)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    inside = clone(model.model_).set_params(kernel=model.kernel_, probability=False)
    path = inside.path(model.encode(data.table), data.target, [inside.C], cv=pairs)
    right = float(np.average(path.scores[0], weights=[len(test) for _, test in pairs]))
    counts = np.unique(data.target, return_counts=True)[1]
    return Score(len(data), "accuracy", right, 1.0 - right, 1.0 - float(counts.max() / len(data)))


def _score(true: np.ndarray, predicted: np.ndarray, seen: np.ndarray, task: str) -> Score:
    if task == "classification":
        wrong = float(np.mean(predicted != true))
        classes, counts = np.unique(seen, return_counts=True)
        usual = float(np.mean(true != classes[counts.argmax()]))
        return Score(len(true), "accuracy", 1.0 - wrong, wrong, usual)
    error = float(np.mean((true - predicted) ** 2))
    spread = float(np.mean((true - true.mean()) ** 2))
    usual = float(np.mean((true - seen.mean()) ** 2))
    r2 = 1.0 - error / spread if spread > 0 else float(error == 0)
    return Score(len(true), "R2", r2, error**0.5, usual**0.5)
