"""What a fold's answers are worth: scores as scikit-learn counts them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.metrics._scorer import _BaseScorer

from mercer.errors import InvalidInput, users_level, who
from mercer.estimator import KernelEstimator, accuracy, r_squared
from mercer.models import GaussianProcessRegressor
from mercer.selection.grid.paths import Answer, NeedsModel


class FoldJudge:
    """Scores models, or the values they would give, as scikit-learn does.

    Parameters
    ----------
    model : estimator
        The kind of model.
    scoring : str, callable or None
        As for ``GridSearchCV``; None is the model's own ``score``.
    weighted : bool
        Whether there are sample weights for the scorer, if it takes any.
    """

    def __init__(self, model: Any, scoring: Any, weighted: bool = False):
        if isinstance(scoring, list | tuple | set | dict):
            raise InvalidInput(
                f"{who()}: scoring={scoring!r} names several scores; give one, or use "
                "sklearn.model_selection.GridSearchCV."
            )
        try:
            self.scorer: Callable = check_scoring(model, scoring=scoring)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{who()}: scoring: {error}") from error
        own = getattr(type(model), "score", None)
        self._metric = None
        if scoring is None:
            metrics: dict = {ClassifierMixin.score: accuracy_score, RegressorMixin.score: r2_score}
            metrics[accuracy], metrics[r_squared] = accuracy_score, r2_score
            metrics[GaussianProcessRegressor.score] = r2_score
            self._metric = metrics.get(own)
        self._formula = _formula(self._metric or scoring)
        #: Whether values on the test rows may be enough; `Answer` tells if they are not.
        self.by_values = isinstance(self.scorer, _BaseScorer) or self._metric is not None
        #: Whether the scorer reads X only through the model.
        self.by_model = scoring is None or isinstance(self.scorer, _BaseScorer)
        takes = model.score if scoring is None else getattr(self.scorer, "_score_func", self.scorer)
        self.weighted = weighted and "sample_weight" in signature(takes).parameters
        if weighted and not self.weighted:
            warnings.warn(
                f"{who()}: scoring={scoring!r} takes no sample_weight, so the weights count in the "
                "fits and not in the scores.",
                UserWarning,
                stacklevel=users_level(),
            )

    def score(self, model: Any, X: Any, y: Any, weights: Any) -> float:
        """Return the score of a fitted model, rows counted by weights where the scorer can."""
        options = {"sample_weight": weights} if self.weighted else {}
        value = self.scorer(model, X, *(() if y is None else (y,)), **options)
        try:
            return float(value)
        except (OverflowError, TypeError, ValueError):
            raise InvalidInput(f"scoring must return a number, got {value!r}.") from None

    def of_values(self, answer: Answer, y: np.ndarray, weights: Any) -> float:
        """Return the score of values, or raise `NeedsModel`."""
        X = np.empty((len(y), 0))
        plain = self._plainly(answer, y, weights)
        if plain is not None:
            return plain
        if self._metric is not None:
            return float(self._metric(y, answer.predict(X), sample_weight=weights))
        try:
            return self.score(answer, X, y, weights)
        except AttributeError as error:  # a fitted model says what it cannot answer
            raise NeedsModel(str(error)) from error

    def of_model(self, model: Any, X: Any, y: Any, weights: Any) -> float:
        """Return the score of a fitted model, a usual one without the checks of scikit-learn."""
        if self._formula is not None and isinstance(model, KernelEstimator):
            plain = self._plainly(model, y, weights, X)
            if plain is not None:
                return plain
        return self.score(model, X, y, weights)

    def _plainly(self, model: Any, y: Any, weights: Any, X: Any = None) -> float | None:
        """Return a usual score of usual arrays without the checks of scikit-learn, else None."""
        if self._formula is None or not isinstance(y, np.ndarray) or len(y) < 2:
            return None
        formula, sign = self._formula
        kinds, deep = ("biuU", 1) if formula is _accuracy else ("f", 2)
        if y.dtype.kind not in kinds or y.ndim > deep:
            return None
        said = model.predict(X)
        usual = isinstance(said, np.ndarray) and said.shape == y.shape and said.dtype.kind in kinds
        if not usual:
            return None
        w = None if weights is None or not self.weighted else np.asarray(weights, dtype=float)
        if w is not None and not w.sum() > 0:
            return None
        with np.errstate(all="ignore"):
            value = formula(y, said, w)
        return sign * float(value) if np.isfinite(value) else None


# ---- Usual scores, as of sklearn.metrics; what is no number is left to the original ----


def _accuracy(y: np.ndarray, said: np.ndarray, w: Any) -> Any:
    return np.average(y == said, weights=w)


def _squared(y: np.ndarray, said: np.ndarray, w: Any) -> Any:
    return np.average(np.average((y - said) ** 2, axis=0, weights=w))


def _root(y: np.ndarray, said: np.ndarray, w: Any) -> Any:
    return np.average(np.sqrt(np.average((y - said) ** 2, axis=0, weights=w)))


def _absolute(y: np.ndarray, said: np.ndarray, w: Any) -> Any:
    return np.average(np.average(np.abs(y - said), axis=0, weights=w))


def _determination(y: np.ndarray, said: np.ndarray, w: Any) -> Any:
    weight: Any = 1.0 if w is None else w.reshape(-1, *[1] * (y.ndim - 1))
    left = (weight * (y - said) ** 2).sum(axis=0)
    total = (weight * (y - np.average(y, axis=0, weights=w)) ** 2).sum(axis=0)
    if not (np.all(left > 0) and np.all(total > 0)):
        return np.nan
    return np.average(1 - left / total)


#: The formula and the sign of the scores that scikit-learn knows by these names.
FORMULAS: dict[str, tuple[Callable, int]] = {
    "accuracy": (_accuracy, 1),
    "neg_mean_absolute_error": (_absolute, -1),
    "neg_mean_squared_error": (_squared, -1),
    "neg_root_mean_squared_error": (_root, -1),
    "r2": (_determination, 1),
}


def _formula(asked: Any) -> tuple[Callable, int] | None:
    """Return the formula of a score by its name, or of what a model's own ``score`` counts."""
    own = {"accuracy": accuracy_score, "r2": r2_score}  # a scorer of one's own may have no hash
    name = next((n for n, score in own.items() if asked is score), asked)
    return FORMULAS.get(name) if isinstance(name, str) else None
