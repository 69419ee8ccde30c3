"""`importance`: how much worse a model is without what a column says, left out or held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import is_classifier

from mercer.checks import as_rng, check_index
from mercer.errors import InvalidInput, speaks
from mercer.estimator import check_labels, check_targets, check_weights, left_out_of
from mercer.explain.asking import AskedModel, Places, mixed, names_of, places_of, rows_of
from mercer.rkhs import rows_with_columns

ROWS = 2**14  # rows that a model is asked of at a time

#: Answers at rows with the values of others in some columns: (own, columns, others) → (m, t).
Answers = Callable[[np.ndarray, Places, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Importance:
    r"""By how much the score of a model falls when the values of a column are shuffled.

    Parameters
    ----------
    values : ndarray of shape (p,)
        The fall of the score, for each column or group of columns.
    std : ndarray of shape (p,)
        Standard errors, as rows are a sample.
    columns : tuple of str
        The names of the columns.
    score : float
        The score with all columns as they are.
    scoring : str
        Which score it is.
    rows : {"left out", "held out"}
        Whether each training row was judged by the fit without it, or new rows were given.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge, importance
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    >>> model = KernelRidge(RBF(), alpha=0.01).fit(X, 3 * X[:, 0] + X[:, 1])
    >>> told = importance(model)
    >>> told.rows, told.top(2)[0][0]
    ('left out', 'x0')
    """

    values: np.ndarray
    std: np.ndarray
    columns: tuple[str, ...]
    score: float
    scoring: str
    rows: str

    def __len__(self) -> int:
        return len(self.columns)

    def intervals(self, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return normal intervals of the values, from their standard errors.

        Parameters
        ----------
        coverage : float, default=0.9
            The probability that they are to have, each by itself.
        """
        number = isinstance(coverage, int | float) and not isinstance(coverage, bool)
        if not number or not 0 < coverage < 1:
            raise InvalidInput(
                f"Importance.intervals: coverage={coverage!r}; give a number between 0 and 1."
            )
        wide = norm.ppf(0.5 + 0.5 * coverage) * self.std
        return self.values - wide, self.values + wide

    def top(self, count: int = 5) -> list[tuple[str, float, float]]:
        """Return the most important columns, with their values and standard errors.

        Parameters
        ----------
        count : int, default=5
            How many.
        """
        order = np.argsort(-self.values, kind="stable")[:count]
        return [(self.columns[j], float(self.values[j]), float(self.std[j])) for j in order]

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {value:.3g}" for name, value, _ in self.top(4))
        return f"Importance({self.scoring}={self.score:.3g}, {self.rows}: {told})"


@speaks("importance")
def importance(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    n_repeats: int | str = 10,
    scoring: str | None = None,
    columns: Any = None,
    sample_weight: Any = None,
    random_state: Any = 0,
) -> Importance:
    r"""Return how much a model's score falls when the values of a column are shuffled.

    With ℓ the loss of a row and x̃ᵢ the row xᵢ with the value of another row in the column, it is
    the mean of ℓ(yᵢ, f(x̃ᵢ)) − ℓ(yᵢ, f(xᵢ)) (Breiman 2001; Fisher, Rudin & Dominici 2019).

    *Left out*, without `X`: each training row is judged by the fit without it, exactly and without
    another fit. A ridge fit and a Gaussian process are linear in their targets, f(x) = Σ lᵢ(x)yᵢ,
    hence

    .. math:: f_{-i}(\tilde x_i) = f(\tilde x_i) - l_i(\tilde x_i)\,(y_i - f_{-i}(x_i)).

    So no rows have to be held out, and a column that was only learned by heart gains nothing. For
    `KernelRidge`, `KernelRidgeClassifier` and `GaussianProcessRegressor`.
    *Held out*, with rows `X` and `y` that the model has not seen: any model is asked.

    Parameters
    ----------
    model : estimator
        Fitted; a regression or a classifier.
    X : collection of n points with columns, optional
        Rows that the model has not seen.
    y : array of shape (n,) or (n, t), optional
        Their targets.
    n_repeats : int or "all", default=10
        How many other rows give their values to each row. "all" takes every row for every row: the
        mean over all permutations, without chance, at n² answers a column.
    scoring : str, optional
        "r2", "neg_mean_squared_error" or "neg_mean_absolute_error", for quantiles
        "neg_mean_pinball_loss", for classes "accuracy" or "neg_log_loss"; by default "r2", the
        pinball loss, or "accuracy".
    columns : list, optional
        What to shuffle, by name or position; columns in a tuple are shuffled together. By default
        every column.
    sample_weight : array of shape (n,), optional
        Weights of the rows X; a weight of 2 is a row that occurs twice. Those of the fit otherwise.
    random_state : int, RandomState, Generator or None, default=0
        Decides which other rows.

    Returns
    -------
    Importance
        ``values``, ``std`` and ``columns``; ``intervals()`` and ``top()``.

    Notes
    -----
    Columns that say the same stand in for each other in the rows of the fit, but not when one of
    them is shuffled: give them together, as ``columns=[("height", "length")]``.

    A standard error is that of a mean over pairs of rows: a row counts by its loss and by what its
    values do to others.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge, importance
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    >>> model = KernelRidge(RBF(), alpha=0.01).fit(X, 3 * X[:, 0] + X[:, 1])
    >>> told = importance(model)
    >>> told.values[:2].round(1), bool(abs(told.values[2]) < 0.01)
    (array([2.1, 0.2]), True)
    """
    if n_repeats != "all":
        check_index(n_repeats, "n_repeats", 1)
    classes = is_classifier(model)
    if X is None:
        rows, target, weights, answers, names = _left_out(model, y, sample_weight)
    else:
        rows = rows_of(X)
        n, names = rows.shape[0], names_of(model, rows)
        if y is None:
            raise InvalidInput("importance: y is None; give the targets of the rows X.")
        target = check_labels(y, n) if classes else check_targets(y, n).reshape(n, -1)
        weights = check_weights(sample_weight, n)
    metric = _Metric(model, scoring, left_out=X is None)
    if X is not None:
        answers = _asked(AskedModel(model, X), rows, metric.verb)
    w = np.ones(rows.shape[0]) if weights is None else weights
    some = np.flatnonzero(w > 0)
    loss = metric.losses(target[some], w[some])
    groups: list[Places] = [(j,) for j in range(len(names))]
    if columns is not None:
        if isinstance(columns, str | int | np.integer):
            columns = [columns]
        groups = [places_of(one, names) for one in columns]
    w = w[some]
    before = loss(answers(some, (), some))
    donors, pairs = _donors(w, n_repeats, as_rng(random_state))
    values, std = np.empty(len(groups)), np.empty(len(groups))
    step = max(1, ROWS // len(some))
    for p, group in enumerate(groups):
        after = np.empty(donors.shape)
        for start in range(0, len(donors), step):
            part = donors[start : start + step]
            own = np.tile(some, len(part))
            found = answers(own, group, some[part.ravel()]).reshape(*part.shape, -1)
            for r, told in enumerate(found):
                after[start + r] = loss(told)
        values[p], std[p] = _mean_and_error(before, after, donors, pairs, w)
    score = metric.top - float(w @ before / w.sum())
    called = tuple(" & ".join(names[j] for j in group) for group in groups)
    rows_are = "left out" if X is None else "held out"
    return Importance(values, std, called, score, metric.name, rows_are)


def _left_out(model: Any, y: Any, sample_weight: Any) -> Any:
    """Return rows, targets, weights, answers of the fits without each, and names of columns."""
    if y is not None or sample_weight is not None:
        raise InvalidInput(
            "importance: y and sample_weight are of the rows X; give X too, or leave both out."
        )
    told = left_out_of(model)
    if told is None:
        raise InvalidInput(
            f"importance: {type(model).__name__} has no exact fits without each training row; give "
            "rows that it has not seen, importance(model, X, y)."
        )
    rows, _ = rows_with_columns(model.function_, model.X_fit_)

    def answers(own: np.ndarray, places: Places, others: np.ndarray) -> np.ndarray:
        return told.at(mixed(rows, own, places, others), own)

    target = told.targets
    if is_classifier(model):
        codes = (target[:, 0] > 0).astype(int) if target.shape[1] == 1 else target.argmax(axis=1)
        target = np.asarray(model.classes_)[codes]
    return rows, target, told.weights, answers, names_of(model, rows)


def _asked(asked: AskedModel, rows: Any, verb: str) -> Answers:
    def answers(own: np.ndarray, places: Places, others: np.ndarray) -> np.ndarray:
        values = asked(verb, mixed(rows, own, places, others))
        return values.reshape(len(own), -1)

    return answers


# ---- What is counted as a mistake ----


class _Metric:
    """A score that is `top` less the mean of a loss over the rows."""

    def __init__(self, model: Any, scoring: str | None, left_out: bool):
        self.model, self.left_out = model, left_out
        levels = getattr(model, "quantile_", None)
        self.levels = None if levels is None else np.atleast_1d(levels)
        if is_classifier(model):
            legal = ["accuracy"] if left_out else ["accuracy", "neg_log_loss"]
        else:
            legal = ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"]
            if self.levels is not None:
                legal = ["neg_mean_pinball_loss"]
        self.name = legal[0] if scoring is None else scoring
        if self.name not in legal:
            shown = ", ".join(map(repr, legal))
            raise InvalidInput(
                f"importance: scoring={scoring!r}; legal for {type(model).__name__}"
                f"{' and rows left out' if left_out else ''}: {shown}."
            )
        self.verb = "predict_proba" if self.name == "neg_log_loss" else "predict"
        if not left_out and not callable(getattr(model, self.verb, None)):
            raise InvalidInput(
                f"importance: {type(model).__name__} has no {self.verb}; "
                + ("give a fitted model." if self.verb == "predict" else "take 'accuracy'.")
            )
        self.top = 1.0 if self.name in ("r2", "accuracy") else 0.0

    def losses(self, y: np.ndarray, w: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function from answers to the loss of each row."""
        if self.name == "accuracy":
            return lambda told: (self._classes(told) != y).astype(float)
        if self.name == "neg_log_loss":
            classes = list(self.model.classes_)
            unknown = [label for label in np.unique(y).tolist() if label not in classes]
            if unknown:
                raise InvalidInput(
                    f"importance: class {unknown[0]!r} is not one of the fit; leave its rows out, "
                    "or take scoring='accuracy'."
                )
            code = np.array([classes.index(label) for label in y.tolist()])
            least = np.finfo(np.float64).eps
            at = np.arange(len(y)), code
            return lambda told: -np.log(np.clip(told[at].astype(float), least, 1.0))
        if self.levels is not None:
            tau = self.levels

            def pinball(told: np.ndarray) -> np.ndarray:
                left = y - told
                return np.maximum(tau * left, (tau - 1) * left).mean(axis=1)

            return pinball
        if self.name == "neg_mean_absolute_error":
            return lambda told: np.abs(self._numbers(told, y) - y).mean(axis=1)
        unit: Any = np.ones(y.shape[1])
        if self.name == "r2":
            unit = w @ np.square(y - w @ y / w.sum()) / w.sum()
            if not (unit > 0).all():
                raise InvalidInput(
                    "importance: y is constant, so that there is no R²; take "
                    "scoring='neg_mean_squared_error'."
                )
        return lambda told: (np.square(self._numbers(told, y) - y) / unit).mean(axis=1)

    def _numbers(self, told: np.ndarray, y: np.ndarray) -> np.ndarray:
        if told.shape != y.shape:
            raise InvalidInput(
                f"importance: y has {y.shape[1]} outputs and the model answers with "
                f"{told.shape[1]}; give the targets of the fit."
            )
        return told

    def _classes(self, told: np.ndarray) -> np.ndarray:
        if not self.left_out:
            return told[:, 0]
        code = (told[:, 0] > 0).astype(int) if told.shape[1] == 1 else told.argmax(axis=1)
        return np.asarray(self.model.classes_)[code]


# ---- Whose values, and what follows of them ----


def _donors(w: np.ndarray, n_repeats: Any, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return for each repeat the row that gives its values to each row, and the weights of both.

    Rows are drawn as often as they weigh: of equal weights each gives once, which is a permutation.
    """
    n = len(w)
    if n_repeats == "all":
        donors = (np.arange(n)[:, None] + np.arange(n)) % n
        return donors, w * w[donors]
    edges = np.cumsum(w) / w.sum()
    donors = np.empty((n_repeats, n), dtype=int)
    for r in range(n_repeats):
        marks = (np.arange(n) + rng.uniform()) / n  # systematic: of equal weights one each
        if np.ptp(w) == 0:
            chosen = np.arange(n)
        else:
            chosen = np.minimum(np.searchsorted(edges, marks, side="right"), n - 1)
        donors[r] = rng.permutation(chosen)
    return donors, np.broadcast_to(w, donors.shape)


def _mean_and_error(
    before: np.ndarray, after: np.ndarray, donors: np.ndarray, pairs: np.ndarray, w: np.ndarray
) -> tuple[float, float]:
    """Return the mean rise of the loss, and its standard error by what each row has part in.

    The mean over pairs is linear in each row to first order (Hájek): a row's part is its mean loss
    with the values of others, and the mean loss of others with its values.
    """
    n, total = len(w), w.sum()
    mean = float((pairs * after).sum() / pairs.sum())
    own = (pairs * after).sum(axis=0) / pairs.sum(axis=0)
    held = np.bincount(donors.ravel(), weights=pairs.ravel(), minlength=n)
    given = np.bincount(donors.ravel(), weights=(pairs * after).ravel(), minlength=n)
    given = np.where(held > 0, given / np.where(held > 0, held, 1.0), mean)
    part = own + given - before
    part = part - w @ part / total
    if not total > 1:
        return mean - float(w @ before / total), float("nan")
    error = np.sqrt(w @ np.square(part) / total / (total - 1))
    return mean - float(w @ before / total), float(error)
