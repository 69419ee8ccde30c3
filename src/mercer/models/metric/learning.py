"""How a metric is learned: from the gradients of a fit, or by descent on the left-out error.

And from which rows, as far as memory goes, and what that takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer.checks import Clock
from mercer.domains import RowBlocks
from mercer.errors import InvalidInput, MercerError, figure, who
from mercer.estimator import Plan, computing_where
from mercer.kernels import Kernel, Matern
from mercer.memory import free_memory, on_gpu, require_memory
from mercer.models.ridge import KernelRidge, LeastSquares
from mercer.rkhs import Function
from mercer.settings import get_config
from mercer.threads import LOOKED, blas_for

#: Bandwidths that a first fit tries, in median distances.
BANDWIDTHS = (0.3, 1.0, 3.0, 10.0)
#: Those that a fit in a new metric tries, relative to the one before.
NEARBY = (0.6, 1.6)
#: Penalties, k(x, x) being 1.
ALPHAS = np.geomspace(1e-6, 10.0, 22)
SOME = 300  # rows that choose a bandwidth
STEPS = 40  # of a descent
GAIN = 1e-3  # part of an error that a further step of a descent must gain
LEAST = 1e-6  # factor of a column, relative to the largest
#: Rows up to which a model is fitted exactly; beyond, in the span of centres.
EXACT = 8000
CENTERS = 5000  # the most centres; of very many rows fewer, but not below so many
FEWEST_CENTERS, WORK = 2000, 1.25e12  # n m² of rows and centres, some ten seconds
LEAST_CENTERS = 100  # where there is little time
MANY = 3000  # rows up to which ridges leave out each of them
SMALL, FOLDS = 400, 3  # rows up to which metrics are learned in three folds, not in two
HELD_OUT, MOST_HELD_OUT = 0.2, 4000  # of the rows, where they are not left out one by one
FEWEST = 20  # rows from which on a metric is learned
MATRICES = 6  # square ones that a decomposition or a step of a descent has at once
FACTORED = 2  # and a factorisation
#: Parts of the time: where all rows are in folds, where each is left out all the same, and else.
TRIALS, OF_SOME, OF_MANY = 0.85, 0.7, 0.5
KEPT = 2  # candidates beyond those asked for that are tried on all rows,
AGAIN = 8  # and the most of them
TWICE = 2  # a fit to all rows takes as long as the one before it that leaves out some
QUARTER = 4  # the matrix of centres takes at most one part in so many
SQUARED, LOGISTIC, HINGE = "squared", "logistic", "hinge"  # losses of members
#: What trials take, in decompositions of a fold's rows, and seconds that each has beside them.
TIMES = {
    "plain": 1.5,
    "full": 5.0,
    "diagonal": 5.0,
    "descent": 15.0,
    LOGISTIC: 40.0,
    HINGE: 10.0,
}
BESIDE = 0.02
#: Seconds of trials of which there are enough, the fits of folds that are to be made in fewer, and
#: the rows that learn a metric in any case.
PLENTY, AT_FIRST, LEAST_ROWS = 10.0, 12, 200


@dataclass(frozen=True)
class Metric:
    """A kernel of length scale 1 seen through a linear map of the columns, and a penalty.

    The map is a factor for each column, or a matrix of one row for each new coordinate.
    """

    profile: Kernel
    map: np.ndarray
    alpha: float
    error: float = np.inf  # mean squared left-out error at the rows that it was learned from

    @property
    def kernel(self) -> Kernel:
        """The kernel on rows as they are."""
        if self.map.ndim == 1:
            return copy(self.profile).set_params(length_scale=1.0 / self.map)
        return self.profile.in_metric(self.map)

    def shares(self, variances: np.ndarray) -> np.ndarray:
        """Return each column's part of the trace, of columns divided by their deviations."""
        squares = np.square(self.map) if self.map.ndim == 1 else np.square(self.map).sum(axis=0)
        parts = squares * variances
        return parts / parts.sum() if parts.sum() > 0 else np.full(len(parts), 1.0 / len(parts))


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows, targets of spread one, weights; what a metric is learned from."""

    Z: np.ndarray
    T: np.ndarray
    w: np.ndarray | None = None
    groups: np.ndarray | None = None  # the number of each column's factor, where some share one
    like: Any = None  # the tensor that they came in: fits are made on its device
    how: dict[str, Any] | None = None  # how models are fitted to them, where time decides it

    def __len__(self) -> int:
        return len(self.T)

    @property
    def factors(self) -> np.ndarray:
        """The number of each column's factor."""
        return np.arange(self.Z.shape[1]) if self.groups is None else self.groups

    def take(self, index: np.ndarray) -> EncodedRows:
        """Return some of the rows."""
        w = None if self.w is None else self.w[index]
        return replace(self, Z=self.Z[index], T=self.T[index], w=w)

    def problem(self, kernel: Kernel) -> LeastSquares:
        """Return the ridge regression on them, with an offset."""
        return LeastSquares(kernel, self.Z, self.T, self.w, True)


def median_distance(Z: np.ndarray, most: int = 500) -> float:
    """Return the median distance of pairs of rows, of evenly spaced ones where there are many."""
    from scipy.spatial.distance import pdist

    Z = Z[:: max(1, len(Z) // most)]
    distances = pdist(Z)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def at_bandwidths(rows: EncodedRows, profile: Kernel, map: np.ndarray, scales: Any) -> Metric:
    """Return the metric of least left-out error among some bandwidths and all penalties.

    One eigendecomposition for a bandwidth serves every penalty. Some of the rows tell which
    bandwidth is best, all of them the penalty.
    """
    if len(rows) > SOME and len(scales) > 1:
        some = rows.take(np.linspace(0, len(rows) - 1, SOME).astype(int))
        scales = [_largest(map) / _largest(at_bandwidths(some, profile, map, scales).map)]
    tried = []
    for scale in scales:
        metric = Metric(profile, map / scale, 1.0)
        fit = rows.problem(metric.kernel).fit("loo", ALPHAS)
        error = float(np.asarray(fit.loo_errors).min())
        tried.append(replace(metric, alpha=float(fit.alpha), error=error))
    return min(tried, key=lambda metric: metric.error)


def plain(rows: EncodedRows, profile: Kernel) -> Metric:
    """Return the metric of equal columns of least left-out error."""
    d = rows.Z.shape[1]
    median = median_distance(rows.Z)
    return at_bandwidths(rows, profile, np.ones(d), median * np.array(BANDWIDTHS))


def by_gradients(
    rows: EncodedRows, start: Metric, full: bool, steps: int, clock: Clock
) -> Iterator[Metric]:
    """Return the metrics M ← mean ∇f∇fᵀ, fitted anew in each; `full` or of its diagonal.

    The bandwidth is relative to the median distance, so that the scale of M does not matter.
    """
    metric, relative = start, np.array(BANDWIDTHS[1:])
    for _ in range(steps):
        if clock.late:
            return
        kernel = metric.kernel
        fit = rows.problem(kernel).fit(metric.alpha, None)
        M = Function(kernel, rows.Z, fit.dual_coef).agop(
            rows.Z, diagonal=not full, sample_weight=rows.w
        )
        map = root_of(M)
        if map is None:
            return
        median = median_distance(rows.Z * map if map.ndim == 1 else rows.Z @ map.T)
        metric = at_bandwidths(rows, start.profile, map, median * relative)
        best = _largest(map) / (_largest(metric.map) * median)
        relative = best * np.array(NEARBY)
        yield metric


def _largest(map: np.ndarray) -> float:
    return float(np.abs(map).max())


def root_of(M: np.ndarray) -> np.ndarray | None:
    """Return A with AᵀA = M up to a factor, without directions of nothing; None for M = 0."""
    largest = float(np.max(np.abs(M), initial=0.0))
    if not largest > 0 or not np.isfinite(largest):
        return None
    if M.ndim == 1:
        return np.maximum(np.sqrt(M / largest), LEAST)
    values, vectors = np.linalg.eigh(M / largest)
    kept = values > LEAST**2 * values[-1]
    return np.sqrt(values[kept])[::-1, None] * vectors[:, kept].T[::-1]


def descend(rows: EncodedRows, start: Metric, clock: Clock, steps: int = STEPS) -> Metric:
    """Return the metric of one factor a column to which L-BFGS takes the left-out error.

    Columns of a group share their factor.
    """
    best, group = start, rows.factors
    width, d = len(group), int(group.max()) + 1

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        if clock.late:
            raise StopIteration
        metric = Metric(start.profile, np.exp(point[:d])[group], float(np.exp(point[d])))
        kernel = metric.kernel
        problem = rows.problem(kernel)
        try:
            error, G, in_alpha = problem.loo_gradient(metric.alpha)
        except MercerError:
            return 1e3, np.zeros(d + 1)
        if error < best.error:
            best = replace(metric, error=error)
        if not error > 0:  # a target of zeros
            return -700.0, np.zeros(d + 1)
        # θ is log ℓ, and behind it what a profile keeps, such as a power
        in_scales = np.bincount(group, kernel.theta_vjp(problem.X, G)[:width])
        return float(np.log(error)), np.append(-in_scales, in_alpha) / error

    first = np.unique(group, return_index=True)[1]
    point = np.append(np.log(start.map[first]), np.log(start.alpha))
    box = [(x - np.log(1e4), x + np.log(1e3)) for x in point[:d]] + [np.log((1e-8, 1e2))]
    with suppress(StopIteration):
        minimize(
            objective,
            point,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": steps, "ftol": GAIN, "gtol": 1e-4},
        )
    return best


def joined(*metrics: Metric) -> Metric:
    """Return the metric between some that were learned from different rows."""
    first = metrics[0]
    alpha = float(np.exp(np.mean([np.log(metric.alpha) for metric in metrics])))
    error = float(np.mean([metric.error for metric in metrics]))
    if first.map.ndim == 1:
        map = np.exp(np.mean([np.log(metric.map) for metric in metrics], axis=0))
        return Metric(first.profile, map, alpha, error)
    M = np.mean([metric.map.T @ metric.map for metric in metrics], axis=0)
    root = root_of(M)
    if root is None:  # none has a direction
        raise InvalidInput("the metric of no direction at all")
    return Metric(first.profile, np.sqrt(float(np.max(np.abs(M)))) * root, alpha, error)


# ---- From which rows, and what that takes ----


def room(matrices: int) -> int:
    """Return of how many rows so many square matrices fit the memory budget."""
    return math.isqrt(get_config().memory // (8 * matrices))


def threads_for(count: int, rows: int) -> int:
    """Return how many pieces of work on so many rows there is memory for at a time."""
    at_once = get_config().memory // max(1, 8 * MATRICES * rows * rows)
    return max(1, min(count, get_config().threads, at_once))


def centers_for(rows: int) -> int:
    """Return how many centres stand for so many rows: as many as time and memory allow."""
    in_time = max(FEWEST_CENTERS, math.isqrt(int(WORK) // max(1, rows)))
    fit = math.isqrt(get_config().memory // (8 * QUARTER))
    return max(1, min(CENTERS, in_time, rows, fit))


def solver_for(rows: int, like: Any = None) -> dict[str, Any]:
    """Return how a model of so many rows is fitted: exactly, or in the span of centres.

    Iterations on a matrix that memory does not hold would take too long for small penalties. On the
    GPU of the tensor `like` the matrix is factorised as far as its memory goes.
    """
    if on_gpu(like) and rows <= math.isqrt(free_memory(like) // (8 * FACTORED)):
        return {"solver": "cholesky"}
    return {} if rows <= min(EXACT, room(FACTORED)) else in_centers(rows)


def in_centers(rows: int, random_state: Any = 0, most: int = CENTERS) -> dict[str, Any]:
    """Return how a model of so many rows is fitted in the span of centres."""
    count = min(centers_for(rows), most)
    return {"solver": "falkon", "n_centers": count, "random_state": random_state}


def in_time(
    Z: Any,
    T: np.ndarray | None,
    like: Any,
    seconds: float | None,
    random_state: Any = 0,
    n: int | None = None,
) -> dict[str, Any]:
    """Return how a ridge regression of encoded rows is fitted in some time: with fewer centres.

    Rows in blocks, which have no targets yet, are fitted in the span of centres in any case. Z may
    hold some of n rows.
    """
    if n is None:
        n = len(Z) if T is not None else Z.n_rows
    how = in_centers(n, random_state) if T is None else solver_for(n, like)
    most = CENTERS
    while seconds is not None and most > LEAST_CENTERS:
        if seconds > 0 and (planned(Z, T, how, like, n).seconds or 0.0) <= seconds:
            break
        how, most = in_centers(n, random_state, most), most // 2
    return how


@dataclass
class Pace:
    """How many times as long as planned a fit to many rows takes: cores may be busy."""

    times: float = 1.0

    def how(
        self, Z: Any, T: np.ndarray | None, like: Any, seconds: float | None, random_state: Any = 0
    ) -> dict[str, Any]:
        """Return what `in_time` does, at this pace."""
        seconds = None if seconds is None else seconds / self.times
        with blas_for(LOOKED):  # rates that are measured beside busy cores
            return in_time(Z, T, like, seconds, random_state)

    def took(self, seconds: float, Z: Any, T: Any, how: dict[str, Any], like: Any = None) -> None:
        """Take the pace of a fit, if it was slower than the plan."""
        with blas_for(LOOKED):
            told = planned(Z, T, how, like).seconds
        self.times = max(self.times, seconds / told) if told else self.times


def planned(
    Z: Any, T: np.ndarray | None, how: dict[str, Any], like: Any, n: int | None = None
) -> Plan:
    """Return the plan of a ridge regression of encoded rows, all or some of n."""
    model = KernelRidge(Matern(nu=1.5), alpha=1e-2, fit_intercept=True, **how)
    with computing_where(like):
        return model.plan(Z, T) if n is None else model._plan(Z, T, n)


def rows_in_time(Z: np.ndarray, rows: int, max_rows: int, seconds: float | None) -> int:
    """Return from how many rows a metric is learned, of many: fewer where seconds are few.

    Z holds some of the rows.
    """
    if seconds is None or seconds > PLENTY:
        return max_rows
    while max_rows > LEAST_ROWS and rows > 2 * max_rows:
        one, some = KernelRidge(Matern(nu=1.5), alpha="loo"), Z[np.arange(max_rows) % len(Z)]
        with blas_for(LOOKED):
            told = one.plan(some, np.zeros((max_rows, 1))).seconds
        if AT_FIRST * TIMES["plain"] * (BESIDE + (told or 0.0)) <= seconds:
            break
        max_rows = max(LEAST_ROWS, max_rows // 2)
    return max_rows


@dataclass(frozen=True)
class Shares:
    """Which part of so many rows learns metrics, and which part judges them."""

    rows: int
    bench: int  # rows in folds, which metrics are learned from
    folds: int
    leaves_out: bool  # each row by itself; else some are held out together
    held_out: int

    @classmethod
    def of(cls, rows: int, max_rows: int, classes: bool) -> Shares:
        """Return the parts of a table, or refuse what no metric can be learned from."""
        fits, few = room(MATRICES), min(rows, FEWEST)
        what = f"{who()}: to learn a metric from {few} rows"
        require_memory(8 * MATRICES * few * few, what, "Use KernelRidge")
        most = min(2 * max_rows, fits)
        alone = most if classes else max(most, min(MANY, fits))
        if rows > alone:  # some rows are to be in no fold
            most = min(most, int((1 - HELD_OUT) * rows))
        bench = min(rows, most)
        held = min(MOST_HELD_OUT, int(HELD_OUT * rows), rows - bench) if rows > alone else 0
        return cls(rows, bench, FOLDS if bench <= SMALL else 2, rows <= alone, held)

    @property
    def learned_from(self) -> int:
        """Rows that one metric is learned from: those outside of a fold."""
        return self.bench - self.bench // self.folds

    @property
    def memory(self) -> int:
        """Bytes of the matrices that learn and judge metrics, all threads together."""
        edge = self.rows if self.leaves_out else self.bench
        return 8 * threads_for(self.folds, edge) * MATRICES * edge**2


def part_of_trials(shares: Shares) -> float:
    """Return which part of the time is for trials in folds; the rest is for fits to all rows."""
    if shares.bench == shares.rows:
        return TRIALS
    return OF_SOME if shares.leaves_out else OF_MANY


def trials_of(shares: Shares, max_time: float | None) -> float | None:
    """Return the seconds of trials in folds."""
    return None if max_time is None else part_of_trials(shares) * max_time


def plan_of(
    shares: Shares,
    Z: Any,
    outputs: int,
    ways: list[str],
    n_models: int,
    max_time: float | None,
    like: Any = None,
    rows: int | None = None,
) -> Plan:
    """Return what a search of metrics and the fits in the best of them take.

    Parameters
    ----------
    shares : Shares
        The parts of the rows that are looked at: of all, or of a sample of blocks.
    Z : ndarray or RowBlocks
        The encoded rows that are fitted.
    outputs : int
        Columns of the target.
    ways : list of str
        How each metric is learned and tried, a word of `TIMES`.
    n_models : int
        The most metrics that are kept.
    max_time : float or None
        Seconds of the search.
    like : tensor, optional
        What the rows came in.
    rows : int, optional
        How many rows are fitted, where Z holds some of them.
    """
    blocks = isinstance(Z, RowBlocks)
    n = rows or (Z.n_rows if blocks else len(Z))
    T = None if blocks else np.zeros((len(Z), outputs))
    of_fit = None if max_time is None else (1 - part_of_trials(shares)) * max_time / TWICE
    how = in_time(Z, T, like, of_fit, n=n)
    one = planned(Z, T, how, like, n)
    some = Z.first().X if blocks else Z
    some = some[np.arange(shares.learned_from) % len(some)]
    of_fold = KernelRidge(Matern(nu=1.5), alpha="loo").plan(some, np.zeros((len(some), outputs)))
    trials = shares.folds * sum(TIMES[way] for way in ways)
    search = trials * (BESIDE + (of_fold.seconds or 0.0)) / threads_for(shares.folds, shares.bench)
    search = search if max_time is None else min(search, max_time)
    fits = n_models if shares.bench == shares.rows else TWICE * min(AGAIN, n_models + KEPT)
    total = None if one.seconds is None else search + fits * one.seconds
    total = total if total is None or max_time is None else min(total, max_time)
    drawn = f" of {shares.rows} that are drawn" if blocks and shares.rows < n else ""
    limit = "" if max_time is None else f", no further one after {figure(max_time)} s"
    judged = (
        "each row is left out" if shares.leaves_out else f"{shares.held_out} others are held out"
    )
    centres = "" if one.n_centers is None else f" in the span of {one.n_centers} centres"
    count = sum(way not in (LOGISTIC, HINGE) for way in ways)
    words = {LOGISTIC: "a logistic regression", HINGE: "a support vector machine"}
    others = "".join(f", or {words[loss]}" for loss in words if loss in ways)
    why = (
        f"{count} metrics of {some.shape[1]} encoded columns are tried{limit}, learned from "
        f"{shares.folds} folds of {shares.bench} rows{drawn}; to judge them {judged}. At most "
        f"{n_models} are kept, each with a ridge regression of all {n} rows{centres}{others}."
    )
    return replace(
        one,
        method="metrics",
        why=why,
        memory=max(shares.memory, one.memory),
        seconds=total,
        owner=who(),
        alternatives=(),
    )
