"""Which metrics make a model: each judged at rows it has not seen, the best few together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mercer.checks import Clock
from mercer.errors import InvalidInput, MercerError
from mercer.estimator import computing_where
from mercer.kernels import RBF, Kernel, Matern, PowerExponential
from mercer.models.metric.learning import (
    ALPHAS,
    FEWEST,
    EncodedRows,
    Metric,
    Shares,
    by_gradients,
    descend,
    joined,
    plain,
    solver_for,
    threads_for,
)
from mercer.models.metric.scores import NormalScores
from mercer.models.metric.stacking import LogPool, Mean, log_loss, squared_error, two_columns
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression
from mercer.threads import Ticker, inheriting, single_threaded_blas, workers

T = TypeVar("T")

SPECTRAL = 500  # rows up to which an eigendecomposition serves all penalties
FACTORS = (0.4, 1.3, 4.0)  # of a penalty, where it does not
#: Penalties of logistic regressions, the largest first.
SMOOTHING = (3.0, 0.3, 0.03, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7)
WIDER = 2.0  # a bandwidth beside the one before, of logistic regressions
WIDE = 100  # factors up to which a descent takes no longer than other ways
LARGE = 2666  # rows beyond which one matrix keeps all cores busy
ROUNDS = 3  # of gradients
KEPT = 2  # candidates beyond those asked for that are tried on all rows,
AGAIN = 5  # and the most of them
LOGISTIC = (3, 1)  # metrics of one scale, and learned ones, in which a logistic one is tried
LOGISTIC_OF_FEW = (1, 1)  # the same in three folds
BEHIND = 1.5  # times the least log loss, beyond which a logistic one is not looked at again
TRIALS = 0.85  # of the time, where all rows are in folds
PARTS = 4  # of the rows left out: what is told of one was chosen by the others


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
    logistic: bool = False  # the loss of the model in this metric; else it is the squared one
    #: Predictions by all penalties and rounds that were compared, of which the best is left_out.
    compared: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))

    @property
    def name(self) -> str:
        """What was done, in words."""
        name = f"{self.recipe.name}, {self.view}" if self.view else self.recipe.name
        return f"{name}, logistic" if self.logistic else name

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


def learn(rows: EncodedRows, recipe: Recipe, start: Metric, clock: Clock) -> Iterator[Metric]:
    """Return metrics of a recipe, from those of little learning to those of more."""
    if recipe.how == "plain":
        yield start
    elif recipe.how == "descent":
        yield descend(rows, start, clock)
    else:
        yield from by_gradients(rows, start, recipe.how == "full", ROUNDS, clock)


def each(work: Callable[[int], T], count: int, rows: int) -> list[T]:
    """Return what a function returns for each number; small matrices keep one core busy each.

    They are of so many rows; as many are made at a time as there is memory for.
    """
    threads = threads_for(count, rows)
    if threads < 2:
        return [work(k) for k in range(count)]
    with single_threaded_blas(), workers(threads) as pool:
        calls = [pool.submit(inheriting(work), k) for k in range(count)]
        return [call.result() for call in calls]


def left_out(problem: Any, alphas: np.ndarray, count: int) -> np.ndarray:
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
        steps = [self.at_penalties(judged, (1.0,)) for judged in steps]
        best = min(steps, key=lambda judged: judged.error)
        if len(self.rows) > SPECTRAL:
            steps.append(best := self.at_penalties(best, FACTORS))
        return replace(best, compared=np.concatenate([judged.compared for judged in steps]))

    def at_penalties(self, judged: Judged, factors: tuple[float, ...]) -> Judged:
        """Return it with the penalty of least error, for all folds, and what is left out then."""
        n = len(self.rows)
        middle = float(np.exp(np.mean([np.log(metric.alpha) for metric in judged.metrics])))
        alphas = ALPHAS if n <= SPECTRAL else middle * np.array(factors)

        def at_fold(k: int) -> np.ndarray:
            order = np.argsort(self.fold == k, kind="stable")  # those asked of come last
            problem = self.rows.take(order).problem(judged.metrics[k].kernel)
            return left_out(problem, alphas, np.count_nonzero(self.fold == k))

        # one matrix that is large has all cores
        parts = self._of_folds(at_fold) if n <= LARGE else [at_fold(k) for k in range(self.count)]
        found = np.empty((len(alphas), *self.rows.T.shape))
        for k, part in enumerate(parts):
            found[:, self.fold == k] = part
        errors = [squared_error(values, self.rows.T, self.rows.w) for values in found]
        errors = [error if np.isfinite(error) else np.inf for error in errors]
        best = int(np.argmin(errors))
        metrics = judged.at(float(alphas[best]))
        return replace(
            judged, metrics=metrics, error=errors[best], left_out=found[best], compared=found
        )

    def with_logistic(
        self,
        judged: Judged,
        labels: np.ndarray,
        classes: int,
        clock: Clock,
        start: float = SMOOTHING[3],
    ) -> Judged:
        """Return logistic regressions in the same metrics, judged at each fold by fits to others.

        From the penalty to start with the smaller are tried, or the larger, until the log loss
        grows; then wider bandwidths, each with smaller penalties too: log-odds are smoother than
        the indicators of classes that a ridge regression follows.
        """
        tried: dict[tuple[int, int], Judged] = {}
        last = len(SMOOTHING) - 1

        def loss(wide: int, at: int) -> float:
            if (wide, at) not in tried and 0 <= at <= last and not (tried and clock.late):
                metrics = tuple(
                    replace(metric, map=metric.map / WIDER**wide, alpha=SMOOTHING[at])
                    for metric in judged.metrics
                )
                parts = self._of_folds(lambda k: self._outside(k, metrics[k], labels, classes))
                tried[wide, at] = self._logistic(judged, metrics, self._joined(parts), labels)
            return tried[wide, at].error if (wide, at) in tried else np.inf

        wide, at = 0, SMOOTHING.index(start)
        loss(wide, at)
        turn = 1 if loss(wide, at + 1) < loss(wide, at) else -1
        while loss(wide, at + turn) < loss(wide, at):
            at += turn
        while loss(wide + 1, min(at + 1, last)) < loss(wide, at):
            wide, at = wide + 1, min(at + 1, last)
            while loss(wide, at + 1) < loss(wide, at):
                at += 1
        compared = np.array([each.left_out for each in tried.values()])
        return replace(tried[wide, at], compared=compared)

    def one_by_one(self, judged: Judged, labels: np.ndarray, classes: int) -> Judged:
        """Return logistic regressions with what fits to all rows say of each that is left out.

        That is one Newton step away, in the metric of its fold. Of one scale for all columns, a
        number that no single row decides, one fit serves all folds.
        """

        def without_each(metric: Metric) -> np.ndarray:
            return class_values(fitted(metric, self.rows, labels, tol=1e-3), None, classes)

        if judged.recipe.how == "plain":
            found = without_each(judged.metric)
        else:  # one fold after the other: of several classes this takes most of the memory
            parts = [without_each(metric) for metric in judged.metrics]
            found = self._joined([part[self.fold == k] for k, part in enumerate(parts)])
        return self._logistic(judged, judged.metrics, found, labels)

    def _outside(self, k: int, metric: Metric, labels: np.ndarray, classes: int) -> np.ndarray:
        model = fitted(metric, self.others[k], labels[self.fold != k], tol=1e-3)
        return class_values(model, self.rows.Z[self.fold == k], classes)

    def _joined(self, parts: list[np.ndarray]) -> np.ndarray:
        found = np.empty((len(self.rows), parts[0].shape[1]))
        for k, part in enumerate(parts):
            found[self.fold == k] = part
        return found

    def _logistic(
        self, judged: Judged, metrics: tuple[Metric, ...], found: np.ndarray, labels: np.ndarray
    ) -> Judged:
        error = log_loss(_softmax(found), labels, self.rows.w)
        return replace(
            judged,
            metrics=metrics,
            error=error,
            left_out=found,
            logistic=True,
            compared=found[None],
        )


def _softmax(values: np.ndarray) -> np.ndarray:
    scores = two_columns(values)
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def class_values(model: Any, Z: np.ndarray | None, classes: int) -> np.ndarray:
    """Return a column of values for each class, one for two; of classes it has not seen, little.

    Without rows they are those of its own rows, each left out.
    """
    if isinstance(model, KernelRidge):
        found = np.asarray(model.predict(Z))
        return found.reshape(len(found), -1)
    values = model.loo_decision_function() if Z is None else model.decision_function(Z)
    values = two_columns(np.asarray(values).reshape(len(values), -1))
    out = np.full((len(values), classes), values.min(axis=1, keepdims=True) - 3.0)
    out[:, model.classes_] = values
    return out[:, 1:] - out[:, :1] if classes == 2 else out


def hold_out(
    judged: Judged, rows: EncodedRows, labels: np.ndarray | None, classes: int, held: np.ndarray
) -> Judged:
    """Return it with predictions for some rows, of no fold, by one fit to all the others."""
    rest = np.setdiff1d(np.arange(len(rows)), held)
    of_rest, there = rows.take(rest), rows.take(held)
    known = labels if judged.logistic else None
    model = fitted(judged.metric, of_rest, None if known is None else known[rest])
    with computing_where(rows.like):
        found = class_values(model, there.Z, classes)
    if known is None:
        error = squared_error(found, there.T, there.w)
    else:
        error = log_loss(_softmax(found), known[held], there.w)
    return replace(judged, error=error, left_out=found, compared=found[None])


def fitted(
    metric: Metric, rows: EncodedRows, labels: np.ndarray | None = None, tol: float | None = None
) -> Any:
    """Return the ridge in a metric, or of classes the logistic regression; centres where many."""
    if labels is None:
        how: dict[str, Any] = solver_for(len(rows), rows.like)
        ridge = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True, **how)
        with computing_where(rows.like):
            return ridge.fit(rows.Z, rows.T[:, 0] if rows.T.shape[1] == 1 else rows.T, rows.w)
    how = solver_for(len(rows))
    there = rows.like if how else None  # an exact one has no form on a device
    how |= {} if tol is None else {"tol": tol}
    model = KernelLogisticRegression(metric.kernel, alpha=metric.alpha, **how)
    with warnings.catch_warnings(), computing_where(there):
        if tol is not None:  # a trial
            warnings.simplefilter("ignore")
        return model.fit(rows.Z, labels, rows.w)


@dataclass(frozen=True)
class Chosen:
    """The metrics of a model, the models in them, and what is known of them at rows left out."""

    judged: list[Judged]
    members: list[Any]
    together: Mean | LogPool
    left_out: np.ndarray
    error: float


class Choice:
    """The search for the members of a model, among the rows of all views."""

    def __init__(
        self,
        rows: EncodedRows,
        scores: NormalScores,
        labels: np.ndarray | None,
        *,
        n_models: int,
        max_rows: int,
        clock: Clock,
        rng: Any,
    ):
        self.rows, self.labels, self.clock, self.rng = rows, labels, clock, rng
        self.n_models = n_models
        self.classes = 0 if labels is None else int(labels.max()) + 1
        self.views = {view: replace(rows, Z=scores.view(rows.Z, view)) for view in scores.views}
        self.shares = shares = Shares.of(len(rows), max_rows, labels is not None)
        self.leaves_out, many = shares.leaves_out, shares.bench < len(rows)
        every = np.arange(len(rows))
        self.bench = np.sort(rng.choice(every, shares.bench, replace=False)) if many else every
        self.key = rows.T.mean(axis=1) if labels is None else labels
        self.fold = folds_of(self.key[self.bench], shares.folds, rng)
        self.tried: list[Judged] = []
        self.failure: MercerError | None = None
        self.ticker = Ticker("learning metrics")
        # a part of the time is for fits to all rows: half where these are many more
        part = 0.5 if many else TRIALS
        self.trials = Clock(None if clock.limit is None else part * clock.limit)
        self.trials.began = clock.began
        self.longest = 0.0  # seconds of a trial
        self.least = np.inf  # log loss of logistic regressions at folds

    def _has_time(self) -> bool:
        """Whether another trial is likely to end in time; the first is made whatever it takes."""
        rest = self.trials.rest()
        return not self.tried or rest is None or rest > self.longest

    def _tried(self, began: float, found: Judged, text: str) -> None:
        self.tried.append(found)
        self.longest = max(self.longest, self.clock.spent - began)
        self.ticker.tell(f"{found.name}: {text}")

    def made(self, fit: bool = True) -> Chosen:
        """Return the members, fitted to all rows; unfitted where others are to be fitted."""
        try:
            self._try_all()
            whole, known = self._on_all_rows()
            return self._together(whole, known, fit)
        finally:
            self.ticker.close()

    def _try_all(self) -> None:
        ranked: list[tuple[float, int, Bench]] = []
        for view, seen in self.views.items():
            if not self._has_time():
                break
            bench = Bench(seen.take(self.bench), view, self.fold)
            errors = [self._attempt(bench, recipe) for recipe in FIRST]
            ranked.append((min(errors), len(ranked), bench))
        ranked.sort(key=lambda item: item[:2])
        for recipe in recipes_for(len(self.bench), int(self.rows.factors.max()) + 1):
            for _, _, bench in ranked[: recipe.views]:
                self._attempt(bench, recipe)
        if not self.tried:
            raise self.failure or InvalidInput("no metric could be learned from these rows.")
        self.tried.sort(key=lambda judged: judged.error)
        # a softmax of several classes takes too long on many rows
        if self.labels is not None and (self.classes == 2 or self.leaves_out):
            labels = self.labels[self.bench]
            benches = {bench.view: bench for _, _, bench in ranked}
            plain_ones = [judged for judged in self.tried if judged.recipe in FIRST]
            learned = [judged for judged in self.tried if judged.recipe not in FIRST]
            of_one, of_learned = LOGISTIC if int(self.fold.max()) < 2 else LOGISTIC_OF_FEW
            for judged in learned[:of_learned] + plain_ones[:of_one]:
                if self._has_time() and not self._attempt_logistic(
                    benches[judged.view], judged, labels
                ):
                    break

    def _attempt_logistic(self, bench: Bench, judged: Judged, labels: np.ndarray) -> bool:
        """Try a logistic regression; return whether others of its kind are worth a trial.

        That is so where it is better than the ridge regression in its metric. One that is far
        behind another at the folds is not tried on.
        """
        began, known = self.clock.spent, [each for each in self.tried if each.logistic][-1:]
        with suppress(MercerError):  # of a class that some fits do not see, say
            start = [each.metrics[0].alpha for each in known]
            found = bench.with_logistic(judged, labels, self.classes, self.trials, *start)
            self.least = min(self.least, found.error)
            if found.error > BEHIND * self.least:
                return True
            if bench.count == 2:  # of few rows, in three folds, it is as good to leave out folds
                found = bench.one_by_one(found, labels, self.classes)
            self._tried(began, found, f"log loss {found.error:.3g} of rows left out")
            ridge = LogPool.of([judged.left_out], labels, bench.rows.w, 1)
            better = found.error < log_loss(ridge([judged.left_out]), labels, bench.rows.w)
            return better or judged.recipe not in FIRST
        return False

    def _attempt(self, bench: Bench, recipe: Recipe) -> float:
        if not self._has_time():
            return np.inf
        began = self.clock.spent
        least = min((judged.error for judged in self.tried), default=np.inf)
        so_far = f"; least left-out error so far {least:.3g}" if self.tried else ""
        self.ticker.tell(f"trying {recipe.name}{so_far}")
        try:
            found = bench.judge(recipe, self.trials)
        except MercerError as error:
            self.failure = self.failure or error
            return np.inf
        if found is None or not np.isfinite(found.error):
            return np.inf
        least = min(judged.error for judged in [*self.tried, found])
        self._tried(began, found, f"left-out error {found.error:.3g}, least {least:.3g}")
        return found.error

    def _on_all_rows(self) -> tuple[list[Judged], np.ndarray]:
        """Return what was tried with predictions for rows left out, and for which rows.

        Of few rows they are there already. Of more, the best are tried again: ridges leave out each
        row of all, and what takes longer is fitted without some rows that nothing was learned from.
        """
        rows = self.rows
        if len(self.bench) == len(rows):
            return self.tried, self.bench
        best = self._best(self.tried, self.bench)[: min(AGAIN, self.n_models + KEPT)]
        if self.leaves_out:
            known, fold = np.arange(len(rows)), self._folds_of_all()
        else:
            free = np.setdiff1d(np.arange(len(rows)), self.bench)
            known = np.sort(self.rng.choice(free, self.shares.held_out, replace=False))
        whole: list[Judged] = []
        longest = 0.0
        for judged in best:
            rest = self.clock.rest()
            if whole and rest is not None and rest < longest * (2 + len(whole)):
                break  # the fits to all rows take as long again
            began = self.clock.spent
            seen = self.views[judged.view]
            if self.leaves_out:
                whole.append(Bench(seen, judged.view, fold).at_penalties(judged, (1.0,)))
            else:
                whole.append(hold_out(judged, seen, self.labels, self.classes, known))
            longest = max(longest, self.clock.spent - began)
            self.ticker.tell(f"{judged.name}, all rows: left-out error {whole[-1].error:.3g}")
        return whole, known

    def _folds_of_all(self) -> np.ndarray:
        """Return the folds with all rows in them; those that no metric saw may be in any."""
        fold = self.rng.integers(int(self.fold.max()) + 1, size=len(self.rows))
        fold[self.bench] = self.fold
        return fold

    def _best(self, tried: list[Judged], known: np.ndarray) -> list[Judged]:
        """Return those of the largest weights together, the others by error after them."""
        weights = self._fit_together(tried, known, np.arange(len(known)), len(tried)).weights
        errors = np.array([judged.error for judged in tried])
        order = np.lexsort((errors, -weights))
        return [tried[k] for k in order]

    def _chosen_by(self, judged: Judged, known: np.ndarray, seen: np.ndarray) -> Judged:
        """Return it with what is best of all that was compared at some of the rows."""
        there, labels = self.rows.take(known[seen]), self.labels
        if labels is not None and judged.logistic:
            right = labels[known[seen]]
            errors = [log_loss(_softmax(v[seen]), right, there.w) for v in judged.compared]
        else:
            errors = [squared_error(v[seen], there.T, there.w) for v in judged.compared]
        best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
        return replace(judged, left_out=judged.compared[best])

    def _fit_together(
        self, tried: list[Judged], known: np.ndarray, seen: np.ndarray, most: int
    ) -> Mean | LogPool:
        found, there = [judged.left_out[seen] for judged in tried], self.rows.take(known[seen])
        if self.labels is None:
            return Mean.of(found, there.T, there.w, most)
        return LogPool.of(found, self.labels[known[seen]], there.w, most)

    def _together(self, whole: list[Judged], known: np.ndarray, fit: bool) -> Chosen:
        """Fit the members that are given a weight, and tell what is known of rows left out.

        A row left out is predicted with penalties, rounds, weights and slopes that three quarters
        of the rows have chosen, others than it: nothing of it was chosen by its own error.
        """
        part = folds_of(self.key[known], PARTS, np.random.default_rng(0))
        columns = self.classes or self.rows.T.shape[1]
        left = np.full((len(self.rows), columns), np.nan)
        for p in range(PARTS):
            seen, unseen = np.flatnonzero(part != p), np.flatnonzero(part == p)
            honest = [self._chosen_by(judged, known, seen) for judged in whole]
            together = self._fit_together(honest, known, seen, self.n_models)
            left[known[unseen]] = together([judged.left_out[unseen] for judged in honest])
        there = self.rows.take(known)
        if self.labels is None:
            error = squared_error(left[known], there.T, there.w)
        else:
            wrong = left[known].argmax(axis=1) != self.labels[known]
            error = float(np.average(wrong, weights=there.w))
        together = self._fit_together(whole, known, np.arange(len(known)), self.n_models)
        kept = np.argsort(-together.weights, kind="stable")  # the largest first
        kept = kept[: np.count_nonzero(together.weights)]
        judged = [whole[k] for k in kept]
        members = [
            fitted(one.metric, self.views[one.view], self.labels if one.logistic else None)
            for one in (judged if fit else ())
        ]
        return Chosen(judged, members, together.take(kept), left, error)
