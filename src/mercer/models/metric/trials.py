"""Ways to a metric, each judged in folds at rows that it was not learned from."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mercer.checks import FOREVER, Clock
from mercer.errors import MercerError
from mercer.estimator import computing_where
from mercer.kernels import RBF, Kernel, Matern, PowerExponential
from mercer.models.metric.learning import (
    ALPHAS,
    FEWEST,
    HINGE,
    LOGISTIC,
    MATRICES,
    SQUARED,
    EncodedRows,
    Metric,
    Pace,
    by_gradients,
    descend,
    in_centers,
    joined,
    plain,
    threads_for,
)
from mercer.models.metric.members import class_values, error_of, fitted
from mercer.models.metric.stacking import squared_error
from mercer.threads import inheriting, single_threaded_blas, workers

T = TypeVar("T")

SPECTRAL = 500  # rows up to which an eigendecomposition serves all penalties
FACTORS = (0.4, 1.3, 4.0)  # of a penalty, where it does not
WIDE = 100  # factors up to which a descent takes no longer than other ways
LARGE = 2666  # rows beyond which one matrix keeps all cores busy
ROUNDS = 3  # of gradients
#: Penalties of logistic regressions and of margins (1/C), the largest first, and the first tried.
PENALTIES = {
    LOGISTIC: (3.0, 0.3, 0.03, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7),
    HINGE: (1.0, 0.1, 0.01, 1e-3),
}
START = {LOGISTIC: 3, HINGE: 1}
#: Bandwidths beside one, in steps of WIDER, that are tried after penalties.
WIDER, TURNS = 2.0, {LOGISTIC: (1,), HINGE: (1, -1)}
PARTS_OF_FOLD = 5  # that are left out of the fits of margins
LEAST_TIME = 1e-3  # seconds of a fit


class Recipe(NamedTuple):
    """A way to a metric: a kernel, how its metric is learned, and how many views it is tried on."""

    name: str
    profile: Kernel
    how: str
    views: int = 1


SMOOTH, ROUGH = Matern(nu=1.5), Matern(nu=0.5)
COLUMNS = PowerExponential(power=1.0, norm=1.0)  # a product of exponentials, one a column
#: Tried on all views, which these order by their error.
FIRST = (
    Recipe("one scale", SMOOTH, "plain"),
    Recipe("columns, one scale", COLUMNS, "plain"),
    Recipe("smooth, one scale", RBF(), "plain"),
)
RECIPES = (
    Recipe("a scale for each column", SMOOTH, "descent", 2),
    Recipe("gradients of directions", ROUGH, "full"),
    Recipe("gradients of columns", ROUGH, "diagonal", 2),
    Recipe("columns, a scale for each", COLUMNS, "descent"),
    Recipe("smooth, gradients of directions", SMOOTH, "full"),
)


def recipes_for(rows: int, factors: int) -> list[Recipe]:
    """Return the ways to learn a metric that suit so many rows and factors of columns."""
    if rows < FEWEST:
        return []
    return [recipe for recipe in RECIPES if recipe.how != "descent" or factors <= WIDE]


@dataclass(frozen=True)
class Judged:
    """Metrics learned outside of each fold, and what they say of the rows there."""

    recipe: Recipe
    view: str
    metrics: tuple[Metric, ...]
    error: float = np.inf
    left_out: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    loss: str = SQUARED  # of the model in this metric
    #: Predictions by all penalties, bandwidths and rounds that were compared, the best first; what
    #: is known of the best once it was left out more finely is left_out.
    compared: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    seconds: float = 0.0  # that it took to leave out rows of all
    model: Any = None  # that was fitted to the others then

    @property
    def name(self) -> str:
        """What was done, in words."""
        name = f"{self.recipe.name}, {self.view}" if self.view else self.recipe.name
        return name if self.loss == SQUARED else f"{name}, {self.loss}"

    @property
    def metric(self) -> Metric:
        """The metric between all, for all rows."""
        return joined(*self.metrics)

    def at(self, alpha: float) -> tuple[Metric, ...]:
        """Return the metrics with another penalty."""
        return tuple(replace(metric, alpha=alpha) for metric in self.metrics)


def folds_of(key: np.ndarray, count: int, rng: Any) -> np.ndarray:
    """Return a fold for each row at random, each class in all of them; of numbers, each size."""
    order = rng.permutation(len(key))
    order = order[np.argsort(key[order], kind="stable")]
    # neighbours in this order are in different folds, each time all folds in another order
    turns = -(-len(key) // count)
    places = np.concatenate([rng.permutation(count) for _ in range(turns)])[: len(key)]
    fold = np.empty(len(key), dtype=int)
    fold[order] = places
    return fold


def each(work: Callable[[int], T], count: int, rows: int) -> list[T]:
    """Return what a function returns for each number; small matrices keep one core busy each.

    They are of so many rows; as many are made at a time as there is memory for.
    """
    threads = threads_for(count, rows)
    if threads < 2:
        with single_threaded_blas() if rows <= LARGE else nullcontext():
            return [work(k) for k in range(count)]
    with single_threaded_blas(), workers(threads) as pool:
        calls = [pool.submit(inheriting(work), k) for k in range(count)]
        return [call.result() for call in calls]


def learn(rows: EncodedRows, recipe: Recipe, start: Metric, clock: Clock) -> Iterator[Metric]:
    """Return metrics of a recipe, from those of little learning to those of more."""
    if recipe.how == "plain":
        yield start
    elif recipe.how == "descent":
        yield descend(rows, start, clock)
    else:
        yield from by_gradients(rows, start, recipe.how == "full", ROUNDS, clock)


def edge_for(rows: int, loss: str, classes: int) -> int:
    """Return of how many rows a ridge holds as much memory as a model of some loss of so many."""
    matrices = classes + 3 if loss == LOGISTIC and classes > 2 else MATRICES
    return int(rows * np.sqrt(max(1.0, matrices / MATRICES)))


class _Quiet:
    """Let trials say nothing; entered where threads are started, not in them.

    Several fits may be inside, in threads of the caller: the first to come turns the warnings of
    the process off, the last to leave puts them back.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._kept = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._kept = warnings.catch_warnings()
                self._kept.__enter__()
                warnings.simplefilter("ignore")

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._kept.__exit__(*error)


_quiet = _Quiet()


def ridges_left_out(problem: Any, alphas: np.ndarray, count: int) -> np.ndarray:
    """Return what ridges say of the last rows without each of them, (penalties, count, outputs)."""
    if len(problem.T) > SPECTRAL:
        return np.asarray(problem.leave_out_last(alphas, count))
    outputs = np.arange(problem.T.shape[1])
    residuals = problem.spectrum().loo_residuals(
        np.repeat(alphas, len(outputs)), np.tile(outputs, len(alphas))
    )
    residuals = residuals.reshape(len(problem.T), len(alphas), len(outputs)).transpose(1, 0, 2)
    return np.asarray(problem.unit * (problem.T - residuals)[:, -count:])


class Bench:
    """Rows of one view in folds: a metric is learned outside of a fold, and judged at its rows."""

    def __init__(self, rows: EncodedRows, view: str, fold: np.ndarray):
        self.rows, self.view, self.fold = rows, view, fold
        self.count = int(fold.max()) + 1
        self.others = [rows.take(np.flatnonzero(fold != k)) for k in range(self.count)]
        self.starts: dict[int, list[Metric]] = {}

    def _of_folds(self, work: Callable[[int], T]) -> list[T]:
        return each(work, self.count, len(self.rows))

    def judge(self, recipe: Recipe, clock: Clock) -> Judged | None:
        """Return the metrics of a recipe of least error at rows that they were not learned from."""
        key = id(recipe.profile)
        if key not in self.starts:
            self.starts[key] = self._of_folds(lambda k: plain(self.others[k], recipe.profile))
        starts = self.starts[key]
        learned = self._of_folds(lambda k: list(learn(self.others[k], recipe, starts[k], clock)))
        steps = [Judged(recipe, self.view, metrics) for metrics in zip(*learned, strict=False)]
        if len(steps) < 2:
            return self.at_penalties(steps[0], FACTORS) if steps else None
        steps = [
            self.at_penalties(judged, (1.0,))
            for k, judged in enumerate(steps)
            if k == 0 or not clock.late
        ]
        best = min(steps, key=lambda judged: judged.error)
        if len(self.rows) > SPECTRAL and not clock.late:
            steps.append(best := self.at_penalties(best, FACTORS))
        compared = [best.compared, *(judged.compared for judged in steps if judged is not best)]
        return replace(best, compared=np.concatenate(compared))

    def at_penalties(self, judged: Judged, factors: tuple[float, ...]) -> Judged:
        """Return it with the penalty of least error, for all folds, and what is left out then."""
        n = len(self.rows)
        middle = float(np.exp(np.mean([np.log(metric.alpha) for metric in judged.metrics])))
        alphas = ALPHAS if n <= SPECTRAL else middle * np.array(factors)

        def at_fold(k: int) -> np.ndarray:
            order = np.argsort(self.fold == k, kind="stable")  # those asked of come last
            problem = self.rows.take(order).problem(judged.metrics[k].kernel)
            return ridges_left_out(problem, alphas, int(np.count_nonzero(self.fold == k)))

        # one matrix that is large has all cores
        parts = self._of_folds(at_fold) if n <= LARGE else [at_fold(k) for k in range(self.count)]
        found = np.empty((len(alphas), *self.rows.T.shape))
        for k, part in enumerate(parts):
            found[:, self.fold == k] = part
        errors = [squared_error(values, self.rows.T, self.rows.w) for values in found]
        errors = [error if np.isfinite(error) else np.inf for error in errors]
        order = np.argsort(errors, kind="stable")
        best = order[0]
        metrics = judged.at(float(alphas[best]))
        return replace(
            judged, metrics=metrics, error=errors[best], left_out=found[best], compared=found[order]
        )

    def with_loss(
        self,
        judged: Judged,
        loss: str,
        labels: np.ndarray,
        classes: int,
        clock: Clock,
        most: float = np.inf,
    ) -> Judged:
        """Return models of another loss in the same metrics, judged at each fold by fits to others.

        From the penalty to start with the smaller are tried, or the larger, until the log loss
        grows; then wider bandwidths, each with smaller penalties too: log-odds are smoother than
        the indicators of classes that a ridge regression follows. Of margins narrower ones too.
        Bandwidths do not make up for a log loss of more than `most`. The error is infinite where
        not one fit ends in time.
        """
        tried: dict[tuple[int, int], Judged] = {}
        penalties = PENALTIES[loss]
        last = len(penalties) - 1

        def error(wide: int, at: int) -> float:
            if (wide, at) not in tried and 0 <= at <= last and not (tried and clock.late):
                metrics = tuple(
                    replace(metric, map=metric.map / WIDER**wide, alpha=penalties[at])
                    for metric in judged.metrics
                )
                told = replace(judged, loss=loss, metrics=metrics)
                tried[wide, at] = self._parts(told, self.fold, labels, classes, clock)
            return tried[wide, at].error if (wide, at) in tried else np.inf

        wide, at = 0, START[loss]
        error(wide, at)
        turn = 1 if error(wide, at + 1) < error(wide, at) else -1
        while error(wide, at + turn) < error(wide, at):
            at += turn
        for turn in TURNS[loss] if error(wide, at) <= most else ():
            while error(wide + turn, beside := min(at + (turn > 0), last)) < error(wide, at):
                wide, at = wide + turn, beside
                while error(wide, at + 1) < error(wide, at):
                    at += 1
        best = tried.pop((wide, at))
        others = [one for one in tried.values() if np.isfinite(one.error)]
        if not np.isfinite(best.error):
            return best
        compared = np.array([one.left_out for one in (best, *others)])
        return replace(best, compared=compared)

    def leave_out(self, judged: Judged, labels: np.ndarray, classes: int) -> Judged:
        """Return models of another loss with what they say of rows that are left out.

        A margin is fitted without a part of each fold, in the metric of that fold. A logistic
        regression is fitted to all rows, and without each one Newton step from there. Of one scale
        for all columns, a number that no single row decides, one such fit serves all folds.
        """
        if judged.loss == HINGE:
            key = self.count * labels + self.fold
            part = self.fold + self.count * folds_of(key, PARTS_OF_FOLD, np.random.default_rng(0))
            return self._parts(judged, part, labels, classes)

        def without_each(metric: Metric) -> np.ndarray:
            model = fitted(metric, self.rows, labels, LOGISTIC, tol=1e-3)
            return class_values(model, None, classes)

        metrics = (judged.metric,) if judged.recipe.how == "plain" else judged.metrics
        with _quiet:
            edge = edge_for(len(labels), LOGISTIC, classes)
            parts = each(lambda k: without_each(metrics[k]), len(metrics), edge)
        found = parts[0] if len(parts) == 1 else np.choose(self.fold[:, None], parts)
        return self._told(judged, found, labels)

    def _parts(
        self,
        judged: Judged,
        part: np.ndarray,
        labels: np.ndarray,
        classes: int,
        clock: Clock = FOREVER,
    ) -> Judged:
        """Return it with what fits without each part, in the metric of its fold, say of that part.

        The fold of a part is its number modulo the number of folds. Of fits that time ends the
        error is infinite.
        """

        def outside(p: int) -> np.ndarray:
            metric, seen = judged.metrics[p % self.count], np.flatnonzero(part != p)
            rows, rest = self.rows.take(seen), clock.rest(LEAST_TIME)
            model = fitted(metric, rows, labels[seen], judged.loss, tol=1e-3, max_time=rest)
            if clock.late and not model.solution_.converged:
                return np.full((np.count_nonzero(part == p), 1), np.nan)
            return class_values(model, self.rows.Z[part == p], classes)

        there = np.unique(part)
        with _quiet:
            edge = edge_for(len(labels), judged.loss, classes)
            of_parts = each(lambda k: outside(int(there[k])), len(there), edge)
        if any(np.isnan(values).any() for values in of_parts):
            return replace(judged, error=np.inf)
        found = np.empty((len(labels), of_parts[0].shape[1]))
        for p, values in zip(there, of_parts, strict=True):
            found[part == p] = values
        return self._told(judged, found, labels)

    def _told(self, judged: Judged, found: np.ndarray, labels: np.ndarray) -> Judged:
        error = error_of(judged.loss, found, labels, self.rows.w)
        return replace(judged, error=error, left_out=found)


@lru_cache(maxsize=2)
def warm_up(classes: bool) -> None:
    """Load and compile what a search needs, once a process, before its time begins."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2 * FEWEST, 3))
    labels = (Z[:, 0] > 0).astype(int)
    rows = EncodedRows(Z, Z[:, :1], np.ones(len(Z)))
    bench = Bench(rows, "", folds_of(labels, 2, rng))
    with _quiet, suppress(MercerError):
        found = [bench.judge(recipe, FOREVER) for recipe in (*RECIPES, *FIRST)]
        judged = [one for one in found if one is not None]
        fitted(judged[-1].metric, replace(rows, how=in_centers(len(Z))), None, SQUARED)
        for loss in (HINGE, LOGISTIC) if classes else ():
            told = bench.with_loss(judged[-1], loss, labels, 2, FOREVER)
            bench.leave_out(told, labels, 2)
        Pace().how(Z, Z[:, :1], None, 1.0)


def hold_out(
    judged: Judged,
    rows: EncodedRows,
    labels: np.ndarray | None,
    classes: int,
    held: np.ndarray,
    max_time: float | None = None,
) -> Judged:
    """Return it with predictions for some rows, of no fold, by one fit to all the others.

    Of one that does not converge within so many seconds the error is infinite.
    """
    clock = Clock(max_time)
    rest = np.setdiff1d(np.arange(len(rows)), held)
    of_rest, there = rows.take(rest), rows.take(held)
    of_labels = None if labels is None else labels[rest]
    with _quiet:
        model = fitted(judged.metric, of_rest, of_labels, judged.loss, max_time=max_time)
    with computing_where(rows.like):
        found = class_values(model, there.Z, classes)
    if labels is None or judged.loss == SQUARED:
        error = squared_error(found, there.T, there.w)
    else:
        error = error_of(judged.loss, found, labels[held], there.w)
    if clock.late and not model.solution_.converged:
        error = np.inf
    return replace(judged, error=error, left_out=found, compared=found[None], model=model)
