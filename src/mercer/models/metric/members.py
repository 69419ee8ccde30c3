"""Which metrics make a model: each judged at rows it has not seen, the best few together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import log_expit

from mercer.checks import Clock
from mercer.errors import InvalidInput, MercerError
from mercer.kernels import RBF, Kernel, Matern, PowerExponential
from mercer.models.metric.learning import (
    ALPHAS,
    FEWEST,
    MATRICES,
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
from mercer.models.margin import SVC
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression
from mercer.threads import Ticker, inheriting, single_threaded_blas, workers

T = TypeVar("T")

SPECTRAL = 500  # rows up to which an eigendecomposition serves all penalties
FACTORS = (0.4, 1.3, 4.0)  # of a penalty, where it does not
SQUARED, LOGISTIC, HINGE = "squared", "logistic", "hinge"
#: Penalties of logistic regressions and of margins (1/C), the largest first, and the first tried.
PENALTIES = {
    LOGISTIC: (3.0, 0.3, 0.03, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7),
    HINGE: (1.0, 0.1, 0.01, 1e-3),
}
START = {LOGISTIC: 3, HINGE: 1}
#: Bandwidths beside one, in steps of WIDER, that are tried after penalties.
WIDER, TURNS = 2.0, {LOGISTIC: (1,), HINGE: (1, -1)}
WIDE = 100  # factors up to which a descent takes no longer than other ways
LARGE = 2666  # rows beyond which one matrix keeps all cores busy
ROUNDS = 3  # of gradients
KEPT = 2  # candidates beyond those asked for that are tried on all rows,
AGAIN = 5  # and the most of them
#: Metrics of one scale, and learned ones, in which logistic regressions and margins are tried;
#: how many logistic ones where a fit takes long beside them, of few rows and of several classes.
TRIED, TRIED_ELSE = {LOGISTIC: (3, 1), HINGE: (3, 1)}, (1, 1)
STEEP = 4.0  # slope at which the function of a pair becomes a probability
BEHIND = 1.5  # times the least log loss, beyond which one of them is not looked at again
MARGINS = 30_000  # rows up to which margins are fitted
TENTHS = 5  # parts of a fold that are left out of the fits of margins
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
    loss: str = SQUARED  # of the model in this metric
    #: Predictions by all penalties and rounds that were compared, of which the best is left_out.
    compared: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))

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
        with single_threaded_blas() if rows <= LARGE else nullcontext():
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

    def with_loss(
        self, judged: Judged, loss: str, labels: np.ndarray, classes: int, clock: Clock
    ) -> Judged:
        """Return models of another loss in the same metrics, judged at each fold by fits to others.

        From the penalty to start with the smaller are tried, or the larger, until the log loss
        grows; then wider bandwidths, each with smaller penalties too: log-odds are smoother than
        the indicators of classes that a ridge regression follows. Of margins narrower ones too.
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
                tried[wide, at] = self._parts(told, self.fold, labels, classes)
            return tried[wide, at].error if (wide, at) in tried else np.inf

        wide, at = 0, START[loss]
        error(wide, at)
        turn = 1 if error(wide, at + 1) < error(wide, at) else -1
        while error(wide, at + turn) < error(wide, at):
            at += turn
        for turn in TURNS[loss]:
            while error(wide + turn, beside := min(at + (turn > 0), last)) < error(wide, at):
                wide, at = wide + turn, beside
                while error(wide, at + 1) < error(wide, at):
                    at += 1
        compared = np.array([each.left_out for each in tried.values()])
        return replace(tried[wide, at], compared=compared)

    def left_out(self, judged: Judged, labels: np.ndarray, classes: int) -> Judged:
        """Return models of another loss with what they say of rows that are left out.

        A margin is fitted without a part of each fold, in the metric of that fold. A logistic
        regression is fitted to all rows, and without each one Newton step from there. Of one scale
        for all columns, a number that no single row decides, one such fit serves all folds.
        """
        if judged.loss == HINGE:
            key = self.count * labels + self.fold
            part = self.fold + self.count * folds_of(key, TENTHS, np.random.default_rng(0))
            return self._parts(judged, part, labels, classes)

        def without_each(metric: Metric) -> np.ndarray:
            model = fitted(metric, self.rows, labels, LOGISTIC, tol=1e-3)
            return class_values(model, None, classes)

        metrics = (judged.metric,) if judged.recipe.how == "plain" else judged.metrics
        # of several classes more matrices are held than of ridges
        edge = int(len(labels) * np.sqrt(max(1.0, (classes + 3) / MATRICES)))
        parts = each(lambda k: without_each(metrics[k]), len(metrics), edge)
        found = parts[0] if len(parts) == 1 else np.choose(self.fold[:, None], parts)
        return self._with(judged, found, labels)

    def _parts(self, judged: Judged, part: np.ndarray, labels: np.ndarray, classes: int) -> Judged:
        """Return it with what fits without each part, in the metric of its fold, say of that part.

        The fold of a part is its number modulo the number of folds.
        """

        def outside(p: int) -> np.ndarray:
            metric, seen = judged.metrics[p % self.count], np.flatnonzero(part != p)
            model = fitted(metric, self.rows.take(seen), labels[seen], judged.loss, tol=1e-3)
            return class_values(model, self.rows.Z[part == p], classes)

        of_parts = each(outside, int(part.max()) + 1, len(labels))
        found = np.empty((len(labels), of_parts[0].shape[1]))
        for p, values in enumerate(of_parts):
            found[part == p] = values
        return self._with(judged, found, labels)

    def _with(self, judged: Judged, found: np.ndarray, labels: np.ndarray) -> Judged:
        error = error_of(judged.loss, found, labels, self.rows.w)
        return replace(judged, error=error, left_out=found, compared=found[None])


def error_of(loss: str, values: np.ndarray, labels: np.ndarray, w: np.ndarray | None) -> float:
    """Return the log loss of what members say of rows, of margins and ridges once calibrated."""
    if loss == LOGISTIC:
        return log_loss(_softmax(values), labels, w)
    return log_loss(LogPool.of([values], labels, w, 1)([values]), labels, w)


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
    values = np.asarray(values).reshape(len(values), -1)
    if isinstance(model, SVC) and len(model.classes_) > 2:
        values = of_pairs(values, len(model.classes_))
    values = two_columns(values)
    out = np.full((len(values), classes), values.min(axis=1, keepdims=True) - 3.0)
    out[:, model.classes_] = values
    return out[:, 1:] - out[:, :1] if classes == 2 else out


def of_pairs(values: np.ndarray, classes: int) -> np.ndarray:
    """Return Σ log σ(s f) of each class over its pairs, from functions positive for the first.

    That is the logarithm of a product of probabilities, one for each pair.
    """
    out = np.zeros((len(values), classes))
    for f, (i, j) in zip(STEEP * values.T, combinations(range(classes), 2), strict=True):
        out[:, i] += log_expit(f)
        out[:, j] += log_expit(-f)
    return out


def hold_out(
    judged: Judged, rows: EncodedRows, labels: np.ndarray | None, classes: int, held: np.ndarray
) -> Judged:
    """Return it with predictions for some rows, of no fold, by one fit to all the others."""
    rest = np.setdiff1d(np.arange(len(rows)), held)
    of_rest, there = rows.take(rest), rows.take(held)
    model = fitted(judged.metric, of_rest, None if labels is None else labels[rest], judged.loss)
    found = class_values(model, there.Z, classes)
    if labels is None or judged.loss == SQUARED:
        error = squared_error(found, there.T, there.w)
    else:
        error = error_of(judged.loss, found, labels[held], there.w)
    return replace(judged, error=error, left_out=found, compared=found[None])


def fitted(
    metric: Metric,
    rows: EncodedRows,
    labels: np.ndarray | None,
    loss: str,
    tol: float | None = None,
) -> Any:
    """Return the model of a loss in a metric; in the span of centres where rows are many."""
    how: dict[str, Any] = {} if tol is None else {"tol": tol}
    if loss == SQUARED:
        how |= solver_for(len(rows))
        ridge = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True, **how)
        return ridge.fit(rows.Z, rows.T[:, 0] if rows.T.shape[1] == 1 else rows.T, rows.w)
    if loss == HINGE:
        model: Any = SVC(metric.kernel, C=1 / metric.alpha, decision_function_shape="ovo", **how)
    else:
        how |= solver_for(len(rows))
        model = KernelLogisticRegression(metric.kernel, alpha=metric.alpha, **how)
    with warnings.catch_warnings():
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
        fit: bool = True,
    ):
        self.fit = fit
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

    def made(self) -> Chosen:
        """Return the members, fitted to all rows; unfitted where others are to be fitted."""
        try:
            self._try_all()
            whole, known = self._on_all_rows()
            return self._together(whole, known)
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
        if self.labels is not None:
            self._try_losses({bench.view: bench for _, _, bench in ranked})

    def _try_losses(self, benches: dict[str, Bench]) -> None:
        """Try logistic regressions and margins in the best metrics."""
        assert self.labels is not None
        labels, few = self.labels[self.bench], int(self.fold.max()) > 1
        plain_ones = [judged for judged in self.tried if judged.recipe in FIRST]
        learned = [judged for judged in self.tried if judged.recipe not in FIRST]
        of_kernel = {judged.recipe.name: judged for judged in reversed(plain_ones)}
        best_of_kernels = sorted(of_kernel.values(), key=lambda judged: judged.error)
        for loss, chosen in ((HINGE, best_of_kernels), (LOGISTIC, plain_ones)):
            # a softmax of several classes takes too long on many rows
            if loss == LOGISTIC and self.classes > 2 and not self.leaves_out:
                continue
            if loss == HINGE and not (self.fit and len(self.rows) <= MARGINS):
                continue
            dear = loss == LOGISTIC and (few or self.classes > 2)
            of_one, of_learned = TRIED_ELSE if dear else TRIED[loss]
            for judged in learned[:of_learned] + chosen[:of_one]:
                if self._has_time() and not self._attempt_loss(
                    benches[judged.view], judged, loss, labels
                ):
                    break

    def _attempt_loss(self, bench: Bench, judged: Judged, loss: str, labels: np.ndarray) -> bool:
        """Try another loss in a metric; return whether others of its kind are worth a trial.

        That is so where it is better than the ridge regression in its metric. One that is far
        behind another at the folds is not tried on.
        """
        began = self.clock.spent
        with suppress(MercerError):  # of a class that some fits do not see, say
            found = bench.with_loss(judged, loss, labels, self.classes, self.trials)
            self.least = min(self.least, found.error)
            if found.error > BEHIND * self.least:
                return True
            if loss == HINGE or bench.count == 2:  # in three folds it is enough to leave out folds
                found = bench.left_out(found, labels, self.classes)
            self._tried(began, found, f"log loss {found.error:.3g} of rows left out")
            ridge = error_of(SQUARED, judged.left_out, labels, bench.rows.w)
            return found.error < ridge or judged.recipe not in FIRST
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
        if len(judged.compared) == 1:
            return judged
        if labels is not None and judged.loss != SQUARED:
            right = labels[known[seen]]
            errors = [error_of(judged.loss, v[seen], right, there.w) for v in judged.compared]
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

    def _together(self, whole: list[Judged], known: np.ndarray) -> Chosen:
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
        members = self._fitted(judged) if self.fit else []
        return Chosen(judged, members, together.take(kept), left, error)

    def _fitted(self, judged: list[Judged]) -> list[Any]:
        """Return the models in metrics, fitted to all rows."""

        def one(k: int) -> Any:
            metric, view, loss = judged[k].metric, judged[k].view, judged[k].loss
            return fitted(metric, self.views[view], self.labels, loss)

        rows = len(self.rows)  # one matrix that is large has all cores
        return each(one, len(judged), rows) if rows <= LARGE else [*map(one, range(len(judged)))]
