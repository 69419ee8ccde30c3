"""Which metrics make a model: each judged at rows it has not seen, the best few in a mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import nnls

from mercer.checks import Clock
from mercer.errors import InvalidInput, MercerError
from mercer.kernels import Kernel, Matern
from mercer.models.metric.learning import (
    ALPHAS,
    EncodedRows,
    Metric,
    by_gradients,
    descend,
    joined,
    plain,
)
from mercer.models.metric.scores import NormalScores
from mercer.models.ridge import KernelRidge
from mercer.settings import get_config
from mercer.threads import single_threaded_blas, workers

T = TypeVar("T")

#: Rows up to which a ridge is fitted exactly and every row is left out; beyond, centres.
EXACT = 6000
#: Rows beyond which one penalty alone is tried for all of them.
MANY = 2000
FACTORS = (0.3, 1.0, 3.0)  # of a penalty, for all rows
HELD_OUT, MOST_HELD_OUT = 0.2, 4000  # of the rows, where they are not left out one by one
CENTERS = 2000
FEWEST = 20  # rows from which on a metric is learned
ROUNDS = 3  # of gradients
KEPT = 2  # ways beyond those asked for that are tried on all rows


class Recipe(NamedTuple):
    """A way to a metric: a kernel, how its metric is learned, and how many views it is tried on."""

    name: str
    profile: Kernel
    how: str
    views: int = 1


SMOOTH, ROUGH = Matern(nu=1.5), Matern(nu=0.5)
#: Tried on all views, which this orders by their error.
FIRST = Recipe("one scale", SMOOTH, "plain")
RECIPES = (
    Recipe("a scale for each column", SMOOTH, "descent", 2),
    Recipe("gradients of columns", ROUGH, "diagonal", 2),
    Recipe("gradients of directions", ROUGH, "full"),
    Recipe("smooth, gradients of directions", SMOOTH, "full"),
)


@dataclass(frozen=True)
class Judged:
    """Metrics learned from either half of the rows, and their error at the other half."""

    recipe: Recipe
    view: str
    metrics: tuple[Metric, Metric]
    error: float
    left_out: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def name(self) -> str:
        """What was done, in words."""
        return f"{self.recipe.name}, {self.view}" if self.view else self.recipe.name

    @property
    def metric(self) -> Metric:
        """The metric between the two, for all rows."""
        return joined(*self.metrics)


def halves_of(T: np.ndarray, labels: np.ndarray | None, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in two halves at random, each class in both; of numbers, each size."""
    order = rng.permutation(len(T))
    key = T.mean(axis=1) if labels is None else labels
    order = order[np.argsort(key[order], kind="stable")]
    # neighbours in this order are on different sides, two of a class each time
    first = np.zeros(len(T), dtype=int)
    if labels is not None:
        first = np.searchsorted(key[order], key[order])
    place = np.arange(len(T)) - first
    side = (place + rng.integers(2, size=len(T))[first + place // 2]) % 2
    return np.sort(order[side == 0]), np.sort(order[side == 1])


def learn(rows: EncodedRows, recipe: Recipe, start: Metric, clock: Clock) -> Iterator[Metric]:
    """Return metrics of a recipe, from those of little learning to those of more."""
    if recipe.how == "plain":
        yield start
    elif recipe.how == "descent":
        yield descend(rows, start, clock)
    else:
        yield from by_gradients(rows, start, recipe.how == "full", ROUNDS, clock)


def both_at_once(work: Callable[[int], T]) -> list[T]:
    """Return what a function returns for either half; small matrices keep one core busy each."""
    threads = min(2, get_config().threads)
    if threads < 2:
        return [work(0), work(1)]
    with single_threaded_blas(), workers(threads) as pool:
        return [f.result() for f in [pool.submit(copy_context().run, work, k) for k in (0, 1)]]


class Halves:
    """Samples of either half of the rows in one view, and the metrics to start from."""

    def __init__(self, rows: EncodedRows, view: str, samples: list[np.ndarray]):
        self.rows, self.view = rows, view
        self.samples = [rows.take(sample) for sample in samples]
        self.starts: dict[int, list[Metric]] = {}

    def judge(self, recipe: Recipe, clock: Clock) -> Judged | None:
        """Return the metrics learned from either sample that are best at the other."""
        key = id(recipe.profile)
        if key not in self.starts:
            self.starts[key] = both_at_once(lambda side: plain(self.samples[side], recipe.profile))
        learned = both_at_once(
            lambda side: list(learn(self.samples[side], recipe, self.starts[key][side], clock))
        )
        best: Judged | None = None
        for pair in zip(*learned, strict=False):
            found = both_at_once(partial(self._judged_at, pair))
            error = float(np.mean([metric.error for metric in found]))
            if best is None or error < best.error:
                best = Judged(recipe, self.view, (found[0], found[1]), error)
        return best

    def _judged_at(self, pair: tuple[Metric, ...], side: int) -> Metric:
        """Return a metric with penalty and left-out error of a ridge on rows it has not seen."""
        fit = self.samples[1 - side].problem(pair[side].kernel).fit("loo", ALPHAS)
        return replace(
            pair[side], alpha=float(fit.alpha), error=float(np.asarray(fit.loo_errors).min())
        )


def leave_out(judged: Judged, rows: EncodedRows, halves: tuple[np.ndarray, np.ndarray]) -> Judged:
    """Return it with predictions for every row by a fit to all the others.

    The metric with which a row is predicted was learned from the other half, the penalty too.
    """
    factors = FACTORS if len(rows) <= MANY else (1.0,)

    def predicted(side: int) -> list[np.ndarray]:
        metric, unseen = judged.metrics[side], halves[1 - side]
        problem = rows.problem(metric.kernel)
        return [problem.leave_one_out(factor * metric.alpha)[unseen] for factor in factors]

    sides = both_at_once(predicted) if len(rows) <= MANY else [predicted(0), predicted(1)]
    tried: list[tuple[float, float, np.ndarray]] = []
    for k, factor in enumerate(factors):
        found = np.empty_like(rows.T)
        for side in (0, 1):
            found[halves[1 - side]] = sides[side][k]
        tried.append((squared_error(found, rows), factor, found))
    error, factor, found = min(tried, key=lambda trial: trial[0])
    metrics = [replace(metric, alpha=factor * metric.alpha) for metric in judged.metrics]
    return replace(judged, metrics=(metrics[0], metrics[1]), error=error, left_out=found)


def hold_out(judged: Judged, rows: EncodedRows, held: np.ndarray) -> Judged:
    """Return it with predictions for some rows, of no sample, by one fit to all the others."""
    rest = np.setdiff1d(np.arange(len(rows)), held)
    found = fitted(judged.metric, rows.take(rest)).predict(rows.Z[held]).reshape(len(held), -1)
    return replace(judged, error=squared_error(found, rows.take(held)), left_out=found)


def squared_error(found: np.ndarray, rows: EncodedRows) -> float:
    """Return the weighted mean squared error of predictions."""
    return float(np.average(np.mean((found - rows.T) ** 2, axis=1), weights=rows.w))


def stack(found: list[np.ndarray], rows: EncodedRows, most: int) -> np.ndarray:
    """Return weights ≥ 0 of sum 1, at most so many of them, of least left-out error."""
    s = np.sqrt(np.ones(len(rows)) if rows.w is None else rows.w)[:, None]
    A = np.column_stack([(s * each).ravel() for each in found])
    chosen = np.arange(A.shape[1])
    while True:
        weights, _ = nnls(A[:, chosen], (s * rows.T).ravel())
        order = np.argsort(-weights, kind="stable")[:most]
        kept = chosen[np.sort(order[weights[order] > 0.02 * weights.max(initial=0.0)])]
        if len(kept) in (0, len(chosen)):
            break
        chosen = kept
    out = np.zeros(A.shape[1])
    if not weights.sum() > 0:  # nothing is better than the mean: the best alone
        out[int(np.argmin([squared_error(each, rows) for each in found]))] = 1.0
        return out
    out[chosen] = weights / weights.sum()
    return out


def honest_error(
    found: list[np.ndarray], rows: EncodedRows, halves: tuple[np.ndarray, np.ndarray], most: int
) -> float:
    """Return the left-out error of the mean; weights for one half come from the other."""
    mixed = np.empty_like(rows.T)
    for seen, unseen in (halves, halves[::-1]):
        weights = stack([each[seen] for each in found], rows.take(seen), most)
        mixed[unseen] = sum(w * each[unseen] for w, each in zip(weights, found, strict=True))
    return squared_error(mixed, rows)


@dataclass(frozen=True)
class Chosen:
    """The metrics of a model, their weights, and what is known of them at rows left out."""

    judged: list[Judged]
    members: list[KernelRidge]
    weights: np.ndarray
    left_out: np.ndarray
    error: float


def choose(
    rows: EncodedRows,
    scores: NormalScores,
    labels: np.ndarray | None,
    *,
    n_models: int,
    max_rows: int,
    clock: Clock,
    rng: Any,
    report: Callable[[str, float], None] = lambda name, error: None,
) -> Chosen:
    """Return the metrics of least error at rows that they were not learned from."""
    views = {view: replace(rows, Z=scores.view(rows.Z, view)) for view in scores.views}
    halves = halves_of(rows.T, labels, rng)
    samples = [
        half if len(half) <= max_rows else np.sort(rng.choice(half, max_rows, replace=False))
        for half in halves
    ]
    tried: list[Judged] = []
    failure: MercerError | None = None

    def attempt(both: Halves, recipe: Recipe) -> float:
        nonlocal failure
        try:
            found = both.judge(recipe, clock)
        except MercerError as error:
            failure = failure or error
            return np.inf
        if found is None:
            return np.inf
        tried.append(found)
        report(found.name, found.error)
        return found.error

    ranked: list[tuple[float, int, Halves]] = []
    for view, each in views.items():
        if tried and clock.late:
            break
        both = Halves(each, view, samples)
        ranked.append((attempt(both, FIRST), len(ranked), both))
    ranked.sort(key=lambda item: item[:2])
    if len(rows) >= FEWEST:
        for recipe in RECIPES:
            for _, _, both in ranked[: recipe.views]:
                if not (tried and clock.late):
                    attempt(both, recipe)
    if not tried:
        raise failure or InvalidInput("no metric could be learned from these rows.")
    tried.sort(key=lambda each: each.error)
    exact = len(rows) <= EXACT
    if exact:
        known, sides = np.arange(len(rows)), halves
    else:
        free = np.setdiff1d(np.arange(len(rows)), np.concatenate(samples))
        many = min(MOST_HELD_OUT, int(HELD_OUT * len(rows)), len(free))
        known = np.sort(rng.choice(free, many, replace=False))
        sides = np.arange(0, many, 2), np.arange(1, many, 2)
    whole: list[Judged] = []
    for judged in tried[: n_models + KEPT]:
        if whole and clock.late:
            break
        seen = views[judged.view]
        whole.append(leave_out(judged, seen, halves) if exact else hold_out(judged, seen, known))
    found = [each.left_out for each in whole]
    there = rows.take(known)
    weights = stack(found, there, n_models)
    kept = np.flatnonzero(weights)
    left_out = np.full_like(rows.T, np.nan)
    left_out[known] = sum(weights[k] * found[k] for k in kept)
    return Chosen(
        [whole[k] for k in kept],
        [fitted(whole[k].metric, views[whole[k].view]) for k in kept],
        weights[kept],
        left_out,
        honest_error(found, there, sides, n_models),
    )


def fitted(metric: Metric, rows: EncodedRows) -> KernelRidge:
    """Return the ridge regression on all rows in a metric; in the span of centres where many."""
    how: dict[str, Any] = {"fit_intercept": True}
    if len(rows) > EXACT:
        how |= {"solver": "falkon", "n_centers": min(CENTERS, len(rows)), "random_state": 0}
    model = KernelRidge(metric.kernel, alpha=metric.alpha, **how)
    return model.fit(rows.Z, rows.T[:, 0] if rows.T.shape[1] == 1 else rows.T, rows.w)
