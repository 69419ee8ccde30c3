"""Which metrics make a model: each judged at rows it has not seen, the best few in a mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from mercer.checks import Clock
from mercer.errors import MercerError
from mercer.kernels import Kernel, Matern
from mercer.models.metric.learning import (
    ALPHAS,
    Metric,
    Rows,
    by_gradients,
    descend,
    joined,
    plain,
)
from mercer.models.ridge import KernelRidge

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
    """A way to a metric: a kernel, and how its metric is learned."""

    name: str
    profile: Kernel
    how: str


RECIPES = (
    Recipe("one scale", Matern(nu=1.5), "plain"),
    Recipe("a scale for each column", Matern(nu=1.5), "descent"),
    Recipe("gradients of columns", Matern(nu=0.5), "diagonal"),
    Recipe("gradients of directions", Matern(nu=0.5), "full"),
    Recipe("smooth, gradients of directions", Matern(nu=1.5), "full"),
)


@dataclass(frozen=True)
class Judged:
    """Metrics learned from either half of the rows, and their error at the other half."""

    recipe: Recipe
    metrics: tuple[Metric, Metric]
    error: float
    left_out: np.ndarray | None = None

    @property
    def metric(self) -> Metric:
        """The metric between the two, for all rows."""
        return joined(*self.metrics)


def halves_of(T: np.ndarray, labels: np.ndarray | None, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in two halves at random, each class in both; of numbers, each size."""
    order = rng.permutation(len(T))
    key = T.mean(axis=1) if labels is None else labels
    order = order[np.argsort(key[order], kind="stable")]
    side = rng.integers(2, size=(len(order) + 1) // 2)
    turns = np.column_stack([side, 1 - side]).ravel()[: len(order)]
    return np.sort(order[turns == 0]), np.sort(order[turns == 1])


def learn(rows: Rows, recipe: Recipe, clock: Clock) -> Iterator[Metric]:
    """Return metrics of a recipe, from those of little learning to those of more."""
    start = plain(rows, recipe.profile)
    if recipe.how == "plain":
        yield start
    elif recipe.how == "descent":
        yield descend(rows, start, clock)
    else:
        yield from by_gradients(rows, start, recipe.how == "full", ROUNDS, clock)


def judge(
    recipe: Recipe, samples: tuple[Rows, Rows], clock: Clock
) -> Judged | None:
    """Return the metrics learned from either sample that are best at the other."""
    learned = [list(learn(sample, recipe, clock)) for sample in samples]
    best: Judged | None = None
    for pair in zip(*learned, strict=False):
        found = [
            _judged_at(other, metric) for other, metric in zip(samples[::-1], pair, strict=True)
        ]
        error = float(np.mean([metric.error for metric in found]))
        if best is None or error < best.error:
            best = Judged(recipe, (found[0], found[1]), error)
    return best


def _judged_at(rows: Rows, metric: Metric) -> Metric:
    """Return a metric with penalty and left-out error of a ridge on rows that it has not seen."""
    fit = rows.problem(metric.kernel).fit("loo", ALPHAS)
    return replace(metric, alpha=float(fit.alpha), error=float(np.min(fit.loo_errors)))


def leave_out(judged: Judged, rows: Rows, halves: tuple[np.ndarray, np.ndarray]) -> Judged:
    """Return it with predictions for every row by a fit to all the others.

    The metric with which a row is predicted was learned from the other half, the penalty too.
    """
    factors = FACTORS if len(rows) <= MANY else (1.0,)
    tried: list[tuple[float, float, np.ndarray]] = []
    problems = [rows.problem(metric.kernel) for metric in judged.metrics]
    for factor in factors:
        found = np.empty_like(rows.T)
        for problem, metric, unseen in zip(problems, judged.metrics, halves[::-1], strict=True):
            found[unseen] = problem.leave_one_out(factor * metric.alpha)[unseen]
        tried.append((squared_error(found, rows), factor, found))
    error, factor, found = min(tried, key=lambda trial: trial[0])
    metrics = [replace(metric, alpha=factor * metric.alpha) for metric in judged.metrics]
    return replace(judged, metrics=(metrics[0], metrics[1]), error=error, left_out=found)


def squared_error(found: np.ndarray, rows: Rows) -> float:
    """Return the weighted mean squared error of predictions."""
    return float(np.average(np.mean((found - rows.T) ** 2, axis=1), weights=rows.w))


def stack(found: list[np.ndarray], rows: Rows, most: int) -> np.ndarray:
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
    found: list[np.ndarray], rows: Rows, halves: tuple[np.ndarray, np.ndarray], most: int
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

    metrics: list[Metric]
    names: list[str]
    weights: np.ndarray
    left_out: np.ndarray
    error: float
    shares: np.ndarray  # of the columns, in either half: its mean and its spread


def choose(
    rows: Rows,
    labels: np.ndarray | None,
    *,
    n_models: int,
    max_rows: int,
    clock: Clock,
    rng: Any,
    report: Callable[[str, float], None] = lambda name, error: None,
) -> Chosen:
    """Return the metrics of least error at rows that they were not learned from."""
    halves = halves_of(rows.T, labels, rng)
    samples = tuple(
        rows.take(half if len(half) <= max_rows else np.sort(rng.choice(half, max_rows, False)))
        for half in halves
    )
    tried: list[Judged] = []
    recipes = RECIPES if len(rows) >= FEWEST else RECIPES[:1]
    for recipe in recipes:
        if tried and clock.late:
            break
        try:
            found = judge(recipe, samples, clock)  # type: ignore[arg-type]
        except MercerError:
            if recipe is recipes[-1] and not tried:
                raise
            continue
        if found is not None:
            tried.append(found)
            report(recipe.name, found.error)
    tried.sort(key=lambda each: each.error)
    whole: list[Judged] = []
    for each in islice(tried, n_models + KEPT):
        if whole and clock.late:
            break
        whole.append(leave_out(each, rows, halves))
    found_all = [each.left_out for each in whole]
    weights = stack(found_all, rows, n_models)
    error = honest_error(found_all, rows, halves, n_models)
    kept = np.flatnonzero(weights)
    left_out = sum(weights[k] * whole[k].left_out for k in kept)
    both = [
        sum(weights[k] * whole[k].metrics[side].shares for k in kept) for side in (0, 1)
    ]
    return Chosen(
        [whole[k].metric for k in kept],
        [whole[k].recipe.name for k in kept],
        weights[kept],
        np.asarray(left_out),
        error,
        np.asarray(both),
    )


def fitted(metric: Metric, rows: Rows) -> KernelRidge:
    """Return the ridge regression on all rows in a metric."""
    model = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True)
    return model.fit(rows.Z, rows.T[:, 0] if rows.T.shape[1] == 1 else rows.T, rows.w)
