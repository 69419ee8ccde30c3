"""The errors that a compass search minimises: on held-out folds, or with each row left out."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from mercer.checks import Clock
from mercer.domains import Domain, Tables
from mercer.errors import (
    InvalidInput,
    MemoryBudgetExceeded,
    MercerError,
    NotConverged,
    speaks,
    users_level,
    who,
)
from mercer.estimator import check_labels, check_weights, class_signs
from mercer.losses import Logistic, Pinball
from mercer.models import GaussianProcessRegressor
from mercer.models.margin import FAILS, FOLDS, is_margin, stratified_folds
from mercer.models.neighbors import NeighborsBase
from mercer.selection.grid import FoldScorer
from mercer.selection.tuning.what import Axis, TuneOptions, TunePlan, Units, make_plan
from mercer.settings import get_config

# ---- The rows that parameters are chosen on: of positive weight, at most so many, of all
# classes.


MATRICES = 7  # of n × n numbers that a search by gradients holds, at most
FEWEST = 100  # rows: fewer say little of parameters, and rather more memory is asked for


@dataclass(frozen=True)
class TuneData:
    """The kernel with its words resolved on all rows, and the rows to choose parameters on."""

    kernel: Any
    X: Any
    y: Any
    weights: np.ndarray | None
    classifier: bool
    given: int
    rows: np.ndarray | None = None  # their positions, where they are not all

    @property
    def units(self) -> Units:
        """The units that penalties are in."""
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.asarray(self.kernel._diag(self.X), dtype=float)))
        spread = 1.0
        if not self.classifier:
            try:
                spread = float(np.std(np.asarray(self.y, dtype=float), axis=0).max())
            except (OverflowError, TypeError, ValueError):  # outputs that are not numbers
                spread = 1.0
        mean = mean if np.isfinite(mean) and mean > 0 else 1.0
        return Units(mean, spread if spread > 0 else 1.0, len(self))

    def plan(self, model: Any, options: TuneOptions, rows: int | None = None) -> TunePlan:
        """Return what is tuned of a model, which is fitted to so many rows, all by default."""
        units = self.units if rows is None else replace(self.units, rows=rows)
        wish, fixed, bounds = options.over, options.fixed, options.bounds
        return make_plan(model, self.kernel, units, wish, fixed, bounds)

    def __len__(self) -> int:
        return self.kernel.domain.size(self.X)


@speaks
def tune_data(model: Any, X: Any, y: Any, sample_weight: Any, most: int, rng: Any) -> TuneData:
    """Check the data of a model as its fit does, and choose the rows to tune on."""
    twin = clone(model)
    kernel = twin._kernel()
    X = twin._check_X(X, kernel, reset=True)
    n = kernel.domain.size(X)
    if is_classifier(model):
        y = check_labels(y, n)
    if y is None:
        raise InvalidInput(f"{who()}: requires y to be passed, but the target y is None.")
    if _num_samples(y) != n:
        raise InvalidInput(
            f"{who()}: X has {n} rows and y has {_num_samples(y)}; inconsistent numbers of samples."
        )
    weights = check_weights(sample_weight, n)
    kernel = kernel.fit_params(X, weights)
    rows = np.arange(n) if weights is None else np.flatnonzero(weights)
    given, classifier = len(rows), is_classifier(model)
    labels = None
    if classifier:
        labels = np.unique(y[rows], return_inverse=True)[1]
    rows = rows[choose_rows(labels, given, most, rng)]
    if len(rows) < 3:
        raise InvalidInput(f"tune: {len(rows)} rows are too few to choose parameters; give 3.")
    if len(rows) < n:
        X, y = kernel.domain.subset(X, rows), _safe_indexing(y, rows)
        weights = None if weights is None else weights[rows]
    part, X = rows if len(rows) < n else None, converting_once(kernel.domain, X)
    return TuneData(kernel, X, y, weights, classifier, given, part)


def converting_once(domain: Domain, X: Any) -> Any:
    """Return points of which a search computes many Gram matrices; tables are converted once."""
    return domain.keep(X) if isinstance(domain, Tables) else X


def rows_that_fit(kernel: Any, X: Any, most: int) -> int:
    """Return how many rows a search that factorises the Gram matrix can take: at most `most`.

    Parameters
    ----------
    kernel : Kernel
        The kernel; one with few features has no such matrix.
    X : canonical collection
        All points.
    most : int
        The rows asked for.
    """
    D = kernel._n_features(X)
    if D is not None and D < most:
        return most
    return min(most, max(FEWEST, math.isqrt(get_config().memory // (8 * MATRICES))))


def choose_rows(labels: np.ndarray | None, n: int, most: int, rng: Any) -> np.ndarray:
    """Return at most so many of n rows, drawn from each class alike, five of each if there are any.

    Parameters
    ----------
    labels : ndarray of int of shape (n,), or None
        The class of each row, numbered from 0.
    n : int
        How many rows there are.
    most : int
        How many to draw; all, in order, where there are no more.
    rng : RandomState
        The generator, which is not asked where all are taken.
    """
    if n <= most:
        return np.arange(n)
    drawn = rng.permutation(n)
    some = drawn[:most]
    if labels is not None:
        drawn = drawn[np.argsort(labels[drawn], kind="stable")]
        counts = np.bincount(labels)
        within = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        few, rest = drawn[within < FOLDS], drawn[within >= FOLDS]
        if len(few) > most:
            few, rest = drawn[:0], drawn
        part = rest[np.linspace(0, len(rest) - 1, most - len(few)).astype(int)]
        some = np.concatenate([few, part])
    return np.sort(some)


# ---- tune errors ----


WRONG = "share of held-out rows that are wrong"


class CountedErrors:
    """What both share: a time limit, the failures, and a count of fits that did not converge.

    Settings with which a model cannot be fitted, or for which no time is left, have the error NaN.
    """

    unreliable, done = 0, False
    clock = Clock()

    def __init__(self) -> None:
        self.failures: list[tuple[dict[str, Any], Exception]] = []
        self.unfinished: list[str] = []  # what fits said that did not converge

    @contextmanager
    def _counting(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConverged)
            warnings.filterwarnings("always", f".*{FAILS}")
            yield
        self.unfinished += [str(w.message) for w in caught if w.category is NotConverged]
        doubtful = [FAILS in str(w.message) for w in caught]
        self.unreliable += any(doubtful)
        for w, doubted in zip(caught, doubtful, strict=True):
            if w.category is not NotConverged and not doubted:
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)

    def warn(self) -> None:
        """Say how many fits did not converge, or were left out badly, if any."""
        if self.unreliable:
            warnings.warn(
                f"{who()}: for {self.unreliable} settings in tune {FAILS}, and their leave-one-out "
                "errors are unreliable; use criterion='cv'.",
                UserWarning,
                stacklevel=users_level(),
            )
        if self.unfinished:
            reasons = [re.sub(r"[-+.\d]+(e[-+]\d+)?", "…", said) for said in self.unfinished]
            commonest = Counter(reasons).most_common(1)[0][0]
            warnings.warn(
                f"{who()}: {len(reasons)} warnings of fits in tune that did not converge; its "
                "errors are approximate. What most of them say, of one: "
                f"{self.unfinished[reasons.index(commonest)]}",
                NotConverged,
                stacklevel=users_level(),
            )


class HeldOut(CountedErrors):
    """Mean error over folds: one Gram matrix for each kernel, folds as slices of it.

    Parameters
    ----------
    model : estimator
        The model.
    data : TuneData
        Rows to choose parameters on.
    folds : list of tuple
        Training and test positions.
    scoring : str, callable or None
        As for scikit-learn; None stands for accuracy, mean squared error or, for quantiles, the
        pinball loss.
    """

    @speaks("tune")
    def __init__(self, model: Any, data: TuneData, folds: list, scoring: Any):
        super().__init__()
        self.top, self.criterion, chosen = _judge(model, data.classifier, scoring)
        model = clone(model)
        if scoring is None and "probability" in model.get_params():
            model.set_params(probability=False)
        self.scorer = FoldScorer(model, data.X, data.y, data.weights, cv=folds, scoring=chosen)

    def __call__(self, kernel: Any, settings: list[dict[str, Any]]) -> np.ndarray:
        """Return the mean error of a kernel with each of some settings."""
        with self._counting():
            self.scorer.clock = self.clock
            scores = self.scorer.scores(kernel, settings)
        for setting, _, error in self.scorer.failures:
            if isinstance(error, MemoryBudgetExceeded):
                raise error
            self.failures.append((setting, error))
        self.scorer.failures.clear()
        # rounded, since sums of the same shares in another order differ in the last digits
        means = scores.mean(axis=1)
        return np.round(self.top - means, 12) if self.top else -means


class LeftOut(CountedErrors):
    """The error with each row left out in turn, by the ``loo()`` of the model."""

    def __init__(self, model: Any, data: TuneData):
        super().__init__()
        self.model, self.data = clone(model), data
        what = "share of left-out rows that are wrong" if data.classifier else "mean squared error"
        what = "mean loss" if hasattr(model, "_risk") else what
        what = "pinball loss" if hasattr(model, "quantile") else what
        self.exact = isinstance(model, NeighborsBase | GaussianProcessRegressor)
        self.criterion = f"{'exact' if self.exact else 'approximate'} leave-one-out: {what}"
        needs_points = is_margin(model)  # it keeps its support vectors only
        again = needs_points or not data.kernel.domain.holds_points
        self.again = (data.X,) if again else ()

    def check(self, axes: Iterable[Axis]) -> None:
        """Refuse to tune the loss by which left-out rows are judged."""
        part = {"loss", "delta", "quantile"} if "loss" in self.criterion else set()
        for axis in axes:
            if axis.name.partition("__")[0] in part:
                raise InvalidInput(
                    f"tune: {axis.name!r} belongs to the loss, and criterion='loo' measures that "
                    "very loss; use criterion='cv'."
                )

    def __call__(self, kernel: Any, settings: list[dict[str, Any]]) -> np.ndarray:
        """Return the error of a kernel with each of some settings."""
        errors = np.full(len(settings), np.nan)
        found: dict[str, Any] = {}  # the neighbours, by the other settings
        for i, setting in enumerate(settings):
            if self.done and self.clock.late:
                break
            try:
                with self._counting():
                    model = clone(self.model).set_params(kernel=kernel, **setting)
                    if isinstance(model, NeighborsBase):
                        counts = [s.get("n_neighbors", model.n_neighbors) for s in settings]
                        whole = [int(c) for c in counts if isinstance(c, int | np.integer)]
                        most = max(whole, default=1)
                        errors[i] = self._wrong(model, self._among(model, most, found))
                    else:
                        errors[i] = self._wrong(model, self._left_out(self._fitted(model)))
                self.done = True
            except MemoryBudgetExceeded:
                raise
            except MercerError as error:
                self.failures.append((setting, error))
        return errors

    def _fitted(self, model: Any) -> Any:
        weights = {} if self.data.weights is None else {"sample_weight": self.data.weights}
        return model.fit(self.data.X, self.data.y, **weights)

    def _left_out(self, model: Any) -> np.ndarray:
        """Return predictions of left-out rows; where a loss is measured, values."""
        values = hasattr(model, "_risk") and hasattr(model, "loo_decision_function")
        return (model.loo_decision_function if values else model.loo)(*self.again)

    def _among(self, model: Any, most: int, found: dict[str, Any]) -> np.ndarray:
        """Return what the nearest others say: the most neighbours asked for hold all fewer ones."""
        k, key = model.n_neighbors, repr({**model.get_params(), "n_neighbors": most})
        if key not in found:
            model.set_params(n_neighbors=int(np.clip(most, 1, len(self.data) - 1)))
            self._fitted(model)
            matrix = model._points_again(*self.again, "loo") if self.again else None
            asked = model.n_neighbors
            found[key] = model, model._search(None, asked, distances=True, matrix=matrix)
        model, (squared, where) = found[key]
        k = model._count(k, len(self.data) - 1, "loo")
        said = model._combine(where[:, :k], model._weights_of(squared[:, :k]))
        return model.classes_[said.argmax(axis=1)] if self.data.classifier else said

    def _wrong(self, model: Any, left_out: np.ndarray) -> float:
        """Return the mean error of predictions of left-out rows."""
        data = self.data
        if hasattr(model, "_risk") and not hasattr(model, "quantile"):
            return float(np.average(_losses(model, left_out), weights=data.weights))
        if data.classifier:
            wrong = np.average(left_out != np.asarray(data.y), weights=data.weights)
            return round(float(wrong), 12)
        y = np.asarray(data.y, dtype=float)
        if hasattr(model, "quantile"):
            return _pinball(y, left_out, _levels(model), data.weights)
        each = ((y - left_out) ** 2).reshape(len(y), -1).mean(axis=1)
        return float(np.average(each, weights=data.weights))


def fold_list(data: TuneData, cv: Any, rng: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test positions: of shuffled folds for a number, else what cv says.

    Parameters
    ----------
    data : TuneData
        Rows to choose parameters on.
    cv : int, splitter, or iterable of pairs of positions
        For a number, as many folds, classes spread evenly over them.
    rng : RandomState
        For the shuffle.
    """
    n = len(data)
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if not 2 <= cv <= n:
            raise InvalidInput(f"tune: cv={cv} with {n} rows; give 2 folds or more, at most {n}.")
        strata = np.asarray(data.y) if data.classifier else np.zeros(n)
        fold = stratified_folds(strata, int(cv), rng)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]
    splitter = hasattr(cv, "split")
    if isinstance(cv, str) or not (splitter or isinstance(cv, Iterable)):
        raise InvalidInput(
            f"tune: cv={cv!r}; give a number of folds, a splitter of scikit-learn, or pairs of "
            "training and test positions."
        )
    if not splitter and n < data.given:
        raise InvalidInput(
            f"tune: cv has positions among {data.given} rows, and {n} of them are used; raise "
            "max_points, or give a number of folds."
        )
    try:
        pairs = check_cv(cv, data.y, classifier=data.classifier).split(np.zeros(n), data.y)
        folds = [(np.asarray(a), np.asarray(b)) for a, b in pairs]
    except (TypeError, ValueError) as error:
        how = ""
        if "groups" in str(error):
            how = f" Give its folds: cv={type(cv).__name__}(...).split(X, y, groups)."
        raise InvalidInput(f"tune: cv: {error}{how}") from error
    if not folds:
        raise InvalidInput("tune: cv gives no folds of training and test positions.")
    return folds


def _judge(model: Any, classifier: bool, scoring: Any) -> tuple[float, str, Any]:
    """Return the best score there is (0 where scores are minus errors), its name and the scorer."""
    if scoring is not None:
        name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
        bare = name.removeprefix("neg_")
        words = bare.replace("_", " ")
        return 0.0, f"held-out {words}" if bare != name else f"minus the held-out {words}", scoring
    if classifier:
        return 1.0, WRONG, "accuracy"
    if hasattr(model, "quantile"):
        pinball = make_scorer(_pinball, greater_is_better=False, levels=_levels(model))
        return 0.0, "held-out pinball loss", pinball
    if is_regressor(model):
        return 0.0, "held-out mean squared error", "neg_mean_squared_error"
    if hasattr(model, "output_kernel"):
        return 1.0, WRONG, None
    return 0.0, "minus the held-out score", None


def _losses(model: Any, values: np.ndarray) -> np.ndarray:
    """Return the loss of a fitted risk estimator for values at its training rows."""
    loss, y = model.loss_, model.y_fit_
    if values.ndim == 1:
        return loss.value(y if loss.kind == "regression" else np.where(y > 0, 1.0, -1.0), values)
    rows = np.arange(len(y))
    if isinstance(loss, Logistic):  # softmax
        return logsumexp(values, axis=1) - values[rows, y.astype(int)]
    signs = class_signs(y, np.arange(values.shape[1]))
    return np.mean([loss.value(s, v) for s, v in zip(signs, values.T, strict=True)], axis=0)


def _levels(model: Any) -> np.ndarray:
    return np.atleast_1d(np.asarray(model.quantile, dtype=float))


def _pinball(y: Any, found: Any, levels: np.ndarray, sample_weight: Any = None) -> float:
    """Return the mean pinball loss of predicted quantiles, over rows and levels."""
    y, found = np.asarray(y, dtype=float), np.asarray(found).reshape(-1, len(levels))
    each = [Pinball(t).value(y, f) for t, f in zip(levels, found.T, strict=True)]
    return float(np.average(np.mean(each, axis=0), weights=sample_weight))


def warn_of_failures(failures: list[tuple[dict[str, Any], Exception]]) -> None:
    """Warn of choices of the user with which no fit succeeded."""
    if not failures:
        return
    choice, error = failures[0]
    named = ", ".join(f"{name}={value!r}" for name, value in choice.items())
    what = "1 choice" if len(failures) == 1 else f"{len(failures)} choices"
    warnings.warn(
        f"tune: {what} in over could not be fitted and cannot be the best. First, with {named}: "
        f"{type(error).__name__}: {error}",
        FitFailedWarning,
        stacklevel=users_level(),
    )


def check_weighted(model: Any, sample_weight: Any) -> None:
    """Refuse weights for a model that takes none."""
    if sample_weight is not None and not has_fit_parameter(model, "sample_weight"):
        raise InvalidInput(
            f"tune: {type(model).__name__} takes no sample_weight; leave the weights out."
        )
