"""`search`: the answer of scikit-learn's grid search, without doing the same work again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid

from mercer.checks import Clock
from mercer.errors import InvalidInput, MercerError, speaks, users_level, who
from mercer.estimator import KernelEstimator, computing_where, refuse_unread
from mercer.selection.grid.paths import grouped, of_kernel, plain_fit
from mercer.selection.grid.scorer import FoldScorer
from mercer.threads import blas_for


@dataclass(frozen=True, repr=False, eq=False)
class SearchResult:
    """What `search` found; what is not listed here is asked of the fitted model.

    So ``result.predict(X)`` and ``result.kernel_`` are those of ``result.best_estimator_``.

    Attributes
    ----------
    best_params_ : dict
        The point with the best mean score; of equal ones the first in the order of the grid.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in the lists of `results_`.
    results_ : dict
        ``params``, ``param_...``, ``split0_test_score`` …, ``mean_test_score``,
        ``std_test_score`` and ``rank_test_score`` of every point, as in ``cv_results_`` of
        ``GridSearchCV``; NaN where a fit failed or was not tried.
    n_splits_ : int
        How many folds there are.
    scorer_ : callable
        What scored.
    message : str
        What was left out or failed, if anything.
    """

    best_params_: dict[str, Any]
    best_score_: float
    best_index_: int
    results_: dict[str, Any]
    n_splits_: int
    scorer_: Any
    message: str = ""
    fitted: Any = field(default=None)

    @property
    def best_estimator_(self) -> Any:
        """The model with the best parameters, fitted on all rows; none with ``refit=False``."""
        return self._fitted("best_estimator_")

    def _fitted(self, name: str) -> Any:
        fitted = self.__dict__.get("fitted")
        if fitted is None:
            raise AttributeError(
                f"SearchResult: there is no {name} with refit=False; fit a model with "
                "best_params_, or search with refit=True."
            )
        return fitted

    @property
    def cv_results_(self) -> dict[str, Any]:
        """The same as `results_`, by the name that ``GridSearchCV`` has for it."""
        return self.results_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("get_params", "set_params"):  # it is no estimator
            raise AttributeError(f"'SearchResult' has no attribute {name!r}")
        return getattr(self._fitted(name), name)

    def __repr__(self) -> str:
        found = ", ".join(f"{name}={value!r}" for name, value in self.best_params_.items())
        text = f"best of {len(self.results_['params'])} points: {found}\n"
        text += f"mean score {self.best_score_:.4g} on {self.n_splits_} folds"
        return f"{text} ({self.message})" if self.message else text

    __str__ = __repr__


@speaks("search")
def search(
    model: Any,
    grid: Any,
    X: Any,
    y: Any = None,
    cv: Any = 5,
    *,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    refit: bool = True,
    max_time: float | None = None,
) -> SearchResult:
    """Try every point of a grid on folds: the answer of ``GridSearchCV``, sooner.

    Folds, scores, the order of the points and the choice between equal ones are those of
    ``GridSearchCV(model, grid, cv=cv, scoring=scoring)``. What differs is what is computed twice:

    * The Gram matrix of a kernel is computed once; folds are parts of it. Where a word such as
      ``length_scale="median"`` makes the kernel depend on the training rows, once a fold.
    * `KernelRidge`, `KernelRidgeClassifier`: all penalties of a fold come from one Krylov space,
      with values certified to 1e-9 of the size of the targets, or with residuals as small as those
      of a factorisation; penalties that would take too many steps come from factorisations, or
      together from one reduction of the fold's matrix to a band.
    * `SVC`, `SVR`: from the smallest C to the largest, each from the solution before, on shared
      rows; `OneClassSVM` on shared rows for all ν, where there is a y to score with.
    * `GaussianProcessRegressor` without an optimizer, of mean "zero": all noises of a fold at once.
    * `KernelERM`, `KernelLogisticRegression`, `KernelHuberRegressor`, `KernelQuantileRegressor`:
      from the largest alpha to the smallest, each from the solution before.
    * `KernelNeighborsClassifier`, `KernelNeighborsRegressor`: all numbers of neighbours of a fold
      come from one search.
    * Pipelines fit the steps before the last once for settings that differ in the last only.
    * Other kernel models are fitted on parts of the Gram matrix. Table models and
      estimators of other packages are fitted anew for every point and fold, as is everything where
      the Gram matrix does not fit the memory budget, where rows train twice in a fold, or where
      `scoring` is a function of the model and X.

    Parameters
    ----------
    model : estimator
        The model; not changed.
    grid : dict or list of dict
        Lists of values by the name of the parameter, such as
        ``{"kernel": [RBF(1.0), Matern(1.0)], "alpha": [0.1, 1.0]}``, or ``kernel__length_scale``.
    X, y : data
        As for ``fit``.
    cv : int, splitter or iterable, default=5
        Folds as of scikit-learn; a number means stratified folds for a classifier.
    scoring : str, callable, optional
        As of scikit-learn; None is the model's own ``score``.
    sample_weight : array of shape (n,), optional
        Weights of the rows, in the fits and in scores that take them, as in ``GridSearchCV`` of
        scikit-learn 1.9.
    groups : array of shape (n,), optional
        Groups for the splitter.
    refit : bool, default=True
        Whether to fit the best model on all rows.
    max_time : float, optional
        Seconds after which no further point is tried, once one has its scores; the best so far is
        taken.

    Returns
    -------
    SearchResult
        ``best_params_``, ``best_score_``, ``best_estimator_``, ``results_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, search
    >>> X, y = load_iris(return_X_y=True)
    >>> result = search(SVC(), {"C": [0.1, 1.0, 10.0]}, X, y)
    >>> result.best_params_, round(result.best_score_, 3)
    ({'C': 10.0}, 0.98)
    >>> result.predict(X[:1])
    array([0])
    """
    refuse_unread(X, fits=False)
    if sp.issparse(y):
        raise InvalidInput("search: y is sparse; give a dense array, as by y.toarray().")
    if not isinstance(refit, bool | np.bool_):
        raise InvalidInput(f"search: refit={refit!r}; give True or False.")
    number = isinstance(max_time, int | float | np.number) and not isinstance(max_time, bool)
    if max_time is not None and not (number and max_time >= 0):
        raise InvalidInput(f"search: max_time={max_time!r}; give seconds, or None for no limit.")
    clock = Clock(max_time)
    points = points_of(grid, model)
    scorer = FoldScorer(model, X, y, sample_weight, cv, scoring, groups=groups)
    scorer.clock = clock
    with computing_where(X), blas_for(X):  # rows are arrays here, matrices where X is
        scores = _scores(model, points, scorer)
    message = _report(scorer, scores)
    table = table_of(points, scores)
    best = int(table["rank_test_score"].argmin())
    fitted = None
    if refit:
        fitted = plain_fit(model, points[best], X, y, scorer.weights)
    return SearchResult(
        dict(points[best]),
        float(table["mean_test_score"][best]),
        best,
        table,
        len(scorer.folds),
        scorer.judge.scorer,
        message,
        fitted,
    )


def _scores(model: Any, points: list[dict[str, Any]], scorer: FoldScorer) -> np.ndarray:
    """Return the scores of all points, one kernel after the other."""
    if not isinstance(model, KernelEstimator):
        return scorer.scores(None, points)
    scores = np.full((len(points), len(scorer.folds)), np.nan)
    for kernel, members in by_kernel(points, model):
        if scorer.late():
            break
        settings = [{n: v for n, v in points[i].items() if not of_kernel(n)} for i in members]
        scores[members] = scorer.scores(kernel, settings)
    return scores


def _report(scorer: FoldScorer, scores: np.ndarray) -> str:
    """Warn of what failed, or raise where nothing worked; return it in words."""
    said, whole = [], int((~np.isnan(scores).any(axis=1)).sum())
    if scorer.stopped:
        said.append(f"stopped by max_time, {whole} of {len(scores)} points scored")
    failed = len(scorer.failures)
    if failed:
        params, fold, error = scorer.failures[0]
        first = f"{type(error).__name__}: {error}"
        if failed == scores.size or not whole:
            kind = type(error) if isinstance(error, MercerError) else InvalidInput
            many = "all fits" if failed == scores.size else "some fits of every point"
            raise kind(
                f"search: {many} failed, the first with {params} in fold {fold}: {first}"
                f"{_not_a_number(scorer.y)}"
            ) from error
        said.append(f"{failed} of {scores.size} fits failed")
        warnings.warn(
            f"search: {failed} of {scores.size} fits failed, and their scores are NaN. First, with "
            f"{params} in fold {fold}: {first}",
            FitFailedWarning,
            stacklevel=users_level(),
        )
    scorer.tally.warn("in the folds", "the scores are approximate")
    return "; ".join(said)


def _not_a_number(y: Any) -> str:
    """Say where the first NaN of y is, among all rows and not those of a fold."""
    values = np.asarray(y)
    bad = np.isnan(values).reshape(len(values), -1).any(axis=1) if values.dtype.kind == "f" else []
    return f" y contains NaN at row {int(np.argmax(bad))}." if np.any(bad) else ""


# ---- The points of a parameter grid, by kernel, and the table of their scores ----


def points_of(grid: Any, model: Any) -> list[dict[str, Any]]:
    """Return the points of a grid in scikit-learn's order."""
    try:
        points = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: grid: {error}") from error
    if not points:
        raise InvalidInput(
            f"{who()}: the grid is empty; give lists of values, such as {{'alpha': [0.1, 1.0]}}."
        )
    for names in {tuple(point): point for point in points}.values():
        copies = {name: clone(value, safe=False) for name, value in names.items()}
        try:
            clone(model).set_params(**copies)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(f"{who()}: grid: {error}") from error
    return points


def by_kernel(points: Sequence[Mapping[str, Any]], model: Any) -> list[tuple[Any, list[int]]]:
    """Return the kernels of the points, and which points have each, in the order they come."""
    kernels = []
    for point in points:
        mine = {name: clone(value, safe=False) for name, value in point.items() if of_kernel(name)}
        kernels.append(clone(model).set_params(**mine).kernel)
    return grouped(kernels)


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
