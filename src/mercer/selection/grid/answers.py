"""Scores of scikit-learn for values that no fitted model stands behind, and plain refits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.metrics._scorer import _BaseScorer
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing, get_tags

from mercer.errors import InvalidInput
from mercer.estimator import (
    accuracy,
    choose_class,
    r_squared,
)


class NeedsModel(Exception):
    """A scorer asks for more than values on the test rows."""


class Answer:
    """What a fitted model would answer on the test rows of a fold.

    Parameters
    ----------
    model : estimator
        Of which kind the fitted one would be.
    values : ndarray
        Predictions of a regressor, decision values or shares of the classes of a classifier.
    classes : ndarray, optional
        The classes of the training rows.
    verb : str, default="decision_function"
        The method of a classifier that returns the values.
    """

    def __init__(
        self,
        model: Any,
        values: np.ndarray,
        classes: np.ndarray | None = None,
        verb: str = "decision_function",
    ):
        self._model, self._values = model, values
        if classes is not None:
            self.classes_ = classes
            setattr(self, verb, self._given)

    def _given(self, X: Any) -> np.ndarray:
        return self._values

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions, whatever X."""
        classes = vars(self).get("classes_")
        return self._values if classes is None else choose_class(self._values, classes)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self._model, name):
            raise NeedsModel(name)
        raise AttributeError(name)


class Judge:
    """Scores models, or the values they would give, as scikit-learn does.

    Parameters
    ----------
    model : estimator
        The kind of model.
    scoring : str, callable or None
        As for ``GridSearchCV``; None is the model's own ``score``.
    owner : str
        Who asks; messages begin with it.
    weighted : bool
        Whether there are sample weights for the scorer, if it takes any.
    """

    def __init__(self, model: Any, scoring: Any, owner: str, weighted: bool = False):
        if isinstance(scoring, list | tuple | set | dict):
            raise InvalidInput(
                f"{owner}: scoring={scoring!r} names several scores; give one, or use "
                "sklearn.model_selection.GridSearchCV."
            )
        try:
            self.scorer: Callable = check_scoring(model, scoring=scoring)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{owner}: scoring: {error}") from error
        own = getattr(type(model), "score", None)
        self._metric = None
        if scoring is None:
            metrics: dict = {ClassifierMixin.score: accuracy_score, RegressorMixin.score: r2_score}
            metrics[accuracy], metrics[r_squared] = accuracy_score, r2_score
            self._metric = metrics.get(own)
        #: Whether values on the test rows may be enough; `Answer` tells if they are not.
        self.by_values = isinstance(self.scorer, _BaseScorer) or self._metric is not None
        #: Whether the scorer reads X only through the model.
        self.by_model = scoring is None or isinstance(self.scorer, _BaseScorer)
        takes = model.score if scoring is None else getattr(self.scorer, "_score_func", self.scorer)
        self.weighted = weighted and "sample_weight" in signature(takes).parameters
        if weighted and not self.weighted:
            warnings.warn(
                f"{owner}: scoring={scoring!r} takes no sample_weight, so the weights count in the "
                "fits and not in the scores.",
                UserWarning,
                stacklevel=5,
            )

    def score(self, model: Any, X: Any, y: Any, weights: Any) -> float:
        """Return the score of a fitted model, rows counted by weights where the scorer can."""
        options = {"sample_weight": weights} if self.weighted else {}
        value = self.scorer(model, X, *(() if y is None else (y,)), **options)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InvalidInput(f"scoring must return a number, got {value!r}.") from None

    def of_values(self, answer: Answer, y: np.ndarray, weights: Any) -> float:
        """Return the score of values, or raise `NeedsModel`."""
        X = np.empty((len(y), 0))
        if self._metric is not None:
            return float(self._metric(y, answer.predict(X), sample_weight=weights))
        try:
            return self.score(answer, X, y, weights)
        except AttributeError as error:  # a fitted model says what it cannot answer
            raise NeedsModel(str(error)) from error


def split_rows(model: Any, X: Any, rows: np.ndarray, train: np.ndarray) -> Any:
    """Return rows of X; of a Gram matrix their columns of the training rows only."""
    if not get_tags(model).input_tags.pairwise:
        return _safe_indexing(X, rows)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    return X[np.ix_(rows, train)]


def plain_fit(
    model: Any, params: dict[str, Any], X: Any, y: Any, weights: Any, near: Any = None
) -> Any:
    """Return a fitted clone of a model with other parameters, as ``GridSearchCV`` makes it.

    Parameters
    ----------
    model : estimator
        The model; not changed.
    params : dict
        Other parameters of it.
    X, y, weights : data
        As for ``fit``; y and weights may be None.
    near : estimator, optional
        A model fitted to the same rows with another penalty, whose solution is the start.
    """
    copies = {name: clone(value, safe=False) for name, value in params.items()}
    fresh = clone(model).set_params(**copies)
    options = {} if weights is None else {"sample_weight": weights}
    if near is not None:
        return fresh._fit_from(near, X, y, **options)
    return fresh.fit(X, **options) if y is None else fresh.fit(X, y, **options)


# ---- The points of a parameter grid, by kernel, and the table of their scores ----


def points_of(grid: Any, model: Any, owner: str) -> list[dict[str, Any]]:
    """Return the points of a grid in scikit-learn's order.

    Parameters
    ----------
    grid : dict or sequence of dict
        Values of parameters, as `sklearn.model_selection.ParameterGrid` takes them.
    model : estimator
        Whose parameters they are.
    owner : str
        Who asks; messages begin with it.
    """
    try:
        points = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: grid: {error}") from error
    if not points:
        raise InvalidInput(
            f"{owner}: the grid is empty; give lists of values, such as {{'alpha': [0.1, 1.0]}}."
        )
    for names in {tuple(point): point for point in points}.values():
        copies = {name: clone(value, safe=False) for name, value in names.items()}
        try:
            clone(model).set_params(**copies)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(f"{owner}: grid: {error}") from error
    return points


def by_kernel(points: Sequence[Mapping[str, Any]], model: Any) -> list[tuple[Any, list[int]]]:
    """Return the kernels of the points, and which points have each, in the order they come.

    Parameters
    ----------
    points : sequence of dict
        Parameters, some of which may be ``kernel`` or ``kernel__...``.
    model : estimator
        With a kernel.
    """
    kernels = []
    for point in points:
        mine = {name: clone(value, safe=False) for name, value in point.items() if of_kernel(name)}
        kernels.append(clone(model).set_params(**mine).kernel)
    return grouped(kernels)


def grouped(values: Sequence[Any]) -> list[tuple[Any, list[int]]]:
    """Return the different ones of some values, and the positions of each, in the order they come.

    Only those that read alike are compared, since kernels and dicts have no hash.

    Parameters
    ----------
    values : sequence
        Anything that has an ``==``; where that is no answer, values count as different.
    """
    groups: list[tuple[Any, list[int]]] = []
    alike: dict[tuple, list[int]] = {}
    for i, value in enumerate(values):
        candidates = alike.setdefault((type(value), repr(value)), [])
        for g in candidates:
            if _same(groups[g][0], value):
                groups[g][1].append(i)
                break
        else:
            candidates.append(len(groups))
            groups.append((value, [i]))
    return groups


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # arrays inside
        return False


def of_kernel(name: str) -> bool:
    """Whether a parameter is the kernel, or one of its."""
    return name.partition("__")[0] == "kernel"


def table_of(points: Sequence[Mapping[str, Any]], scores: np.ndarray) -> dict[str, Any]:
    """Return the scores as ``cv_results_`` of ``GridSearchCV`` has them, but for the times.

    Parameters
    ----------
    points : sequence of dict
        Parameters.
    scores : ndarray of shape (points, folds)
        Test scores; a point with a NaN has the last rank.
    """
    table: dict[str, Any] = {}
    for name in dict.fromkeys(name for point in points for name in point):
        table[f"param_{name}"] = _column(
            [point.get(name, None) for point in points], [name not in point for point in points]
        )
    table["params"] = list(points)
    for k in range(scores.shape[1]):
        table[f"split{k}_test_score"] = scores[:, k]
    mean = np.average(scores, axis=1)
    table["mean_test_score"] = mean
    table["std_test_score"] = np.sqrt(np.average((scores - mean[:, None]) ** 2, axis=1))
    low = np.nanmin(mean, initial=np.inf)
    known = np.where(np.isnan(mean), low - 1.0 if np.isfinite(low) else 0.0, mean)
    table["rank_test_score"] = rankdata(-known, method="min").astype(np.int32)
    return table


def _column(values: list[Any], absent: list[bool]) -> np.ma.MaskedArray:
    """Return values as a masked array; numbers, truth values and text keep their own kind."""
    held = [value for value, none in zip(values, absent, strict=True) if not none]
    kinds = {type(value) for value in held}
    plain = len(kinds) == 1 and kinds <= {int, float, bool, np.float64, np.int64}
    column = np.ma.masked_all(len(values), dtype=kinds.pop() if plain else object)
    for i, (value, none) in enumerate(zip(values, absent, strict=True)):
        if not none:
            column[i] = value
    return column
