"""The search for the parameters of largest evidence: a subset of the rows first, then all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError
from mercer.models.gp.chart import Chart, log_chart, tail_chart
from mercer.models.gp.descent import MOST, Descent, Point, convex, curvature, descend, expected_gain
from mercer.models.gp.parameters import Parameters

__all__ = ["Search", "at_bounds", "coarse_rows", "maximise"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

TOL = 1e-3  # nats: a gain of evidence that is worth nothing
SMALL = 300  # rows up to which a part of them is not asked first
FINALISTS = 3  # optima of the coarse objective that are looked at again
HOPELESS = 10.0  # nats of the coarse objective behind the best
APART = 0.3  # distance of two optima in a logarithm
ROUGH = 0.05, 0.1  # gain in nats, and slope, at which the coarse objective is left


@dataclass(frozen=True, eq=False)
class Search:
    """What a search for parameters found, as plain numbers.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        The log-parameters found.
    value : float
        The log evidence there, plus the log density of the priors.
    gradient : ndarray of shape (p,)
        Its gradient in θ.
    n_evaluations, n_coarse : int
        How often evidence and gradient were computed on all rows, and on a part of them.
    converged : bool
        Whether no step inside the bounds is expected to gain anything.
    message : str
        Why it stopped, and which parameters are at a bound.
    tried : ndarray of shape (n_tried, p + 1)
        The θ tried on all rows and, last, the value there.
    """

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    n_evaluations: int = 0
    n_coarse: int = 0
    converged: bool = True
    message: str = ""
    tried: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)), repr=False)


class _Counted:
    """Minus an objective with its priors: counts evaluations, and returns None for failures."""

    def __init__(self, objective: Objective, parameters: Parameters, callback: Any = None):
        self.objective, self.parameters, self.callback = objective, parameters, callback
        self.n = 0
        self.error: Exception | None = None
        self.barred: str | None = None  # the prior that had no density at the last point
        self.tried: list[np.ndarray] = []

    def __call__(self, theta: np.ndarray) -> Point | None:
        prior, slope = self.parameters.log_prior(theta)
        self.barred = None if np.isfinite(prior) else self.parameters.outside(theta)
        if not np.isfinite(prior):
            return None
        self.n += 1
        self.error = None
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, gradient = self.objective(theta.copy())
        except MemoryBudgetExceeded:
            raise
        except (MercerError, ArithmeticError, np.linalg.LinAlgError) as error:
            self.error = error
            return None
        gradient = np.asarray(gradient, dtype=float)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        value = float(value) + prior
        self.tried.append(np.append(theta, value))
        if self.callback is not None:
            self.callback(theta.copy(), value)
        return Point(theta, -value, -(gradient + slope))

    def at_start(self, theta: np.ndarray) -> Point:
        """Return the point at the start, or raise what is wrong there."""
        point = self(theta)
        if point is not None:
            return point
        if self.error is not None:
            raise self.error
        at = ", ".join(
            f"{n} = {v:.6g}" for n, v in zip(self.parameters.names, np.exp(theta), strict=True)
        )
        raise InvalidInput(
            f"{self.parameters.owner}: the log evidence or its gradient is not finite at the start"
            f"{' ' + at if at else ''}; scale the data, or start elsewhere."
        )


def maximise(
    objective: Objective,
    parameters: Parameters,
    *,
    coarse: Objective | None = None,
    ratio: float | None = None,
    n_restarts: int = 0,
    max_iter: int = 100,
    tol: float = TOL,
    rng: Any = None,
    callback: Callable[[np.ndarray, float], None] | None = None,
) -> Search:
    """Maximise log evidence + log prior over the free log-parameters, inside their bounds.

    All starts are followed on the coarse objective where there is one, with its curvature measured
    at the optimum by differences of gradients; that curvature, times the ratio of the rows, lets
    the few descents on all rows converge in some five steps. The result is never worse than the
    start.

    Parameters
    ----------
    objective : callable
        θ → (log evidence, gradient in θ). `NotPositiveDefinite` and other errors of numbers, and
        values that are not finite, are steps too far; at the start they are raised.
    parameters : Parameters
        Names, start, bounds and priors.
    coarse : callable, optional
        The same on a part of the rows, which `coarse_rows` chooses.
    ratio : float, optional
        All rows over those of `coarse`.
    n_restarts : int, default=0
        Further starts, drawn uniformly in ``parameters.draws``, besides ``parameters.starts``.
    max_iter : int, default=100
        Steps of each descent.
    tol : float, default=1e-3
        Gain in nats below which a step is not worth an evaluation.
    rng : int, RandomState or None
        For the restarts.
    callback : callable, optional
        Called with θ and the value after each evaluation on all rows.
    """
    full = _Counted(objective, parameters, callback)
    first = full.at_start(parameters.theta)
    box = parameters.bounds
    if not (box[:, 0] < box[:, 1]).any():
        return _result(full, 0, Descent(first, np.eye(0), True, "nothing", 0), parameters, tol)
    starts = [parameters.theta, *parameters.starts]
    if n_restarts:
        rng, draws = check_random_state(rng), parameters.draws
        starts += list(rng.uniform(draws[:, 0], draws[:, 1], (n_restarts, len(draws))))
    if max_iter < 1:
        return _result(full, 0, Descent(first, np.eye(0), False, "max_iter", 0), parameters, tol)
    part = None if coarse is None else _Counted(coarse, parameters)
    plans = [] if part is None else _finalists(part, starts, parameters, max_iter, ratio or 1.0)
    if not plans:
        plans = [_Plan(theta, log_chart(theta), None) for theta in starts]
    best: Descent | None = None
    waiting: list[tuple[Point, _Plan]] = []
    for plan in plans:
        point = first if np.array_equal(plan.theta, first.x) else full(plan.theta)
        if point is not None:
            waiting.append((point, plan))
    limits = {"max_iter": max_iter, "tol": tol}
    for point, plan in sorted(waiting, key=lambda pair: pair[0].value):
        if best is not None and not plan.may_win(point, best.point.value, box):
            continue
        end = plan.descend(full, point, box, **limits)
        if best is None or end.point.value < best.point.value:
            best = end
    if best is None or best.point.value > first.value:
        best = _Plan(first.x, log_chart(first.x), None).descend(full, first, box, **limits)
    return _result(full, 0 if part is None else part.n, best, parameters, tol)


@dataclass(frozen=True)
class _Plan:
    """A start on all rows, the coordinates to move in, and the curvature there, if known."""

    theta: np.ndarray
    chart: Chart
    B: np.ndarray | None

    def descend(self, f: _Counted, start: Point, box: np.ndarray, **limits: Any) -> Descent:
        """Descend from the start, which was evaluated."""
        # a curvature that was measured is believed, one that is learned on the way is not
        slope = limits["tol"] * (10 if self.B is None else 20)
        over, there = self.chart.over(f, box), self.chart.x(box)
        end = descend(over, self.chart.point(start), there, self.B, slope=slope, **limits)
        return replace(end, point=self.chart.back(end.point, box))

    def may_win(self, start: Point, best: float, box: np.ndarray) -> bool:
        """Whether a descent may end below the best, by three times what is expected."""
        if self.B is None:
            return True
        x, there = self.chart.point(start), self.chart.x(box)
        return start.value - 3 * expected_gain(self.B, x, there) < best


def _finalists(
    part: _Counted, starts: list[np.ndarray], parameters: Parameters, max_iter: int, ratio: float
) -> list[_Plan]:
    """Return the best distinct optima of the coarse objective, with its curvature there."""
    box = parameters.bounds
    ends: list[Point] = []
    for theta in starts:
        point = part(theta)
        if point is not None:
            tol, slope = ROUGH
            found = descend(part, point, box, max_iter=max_iter, tol=tol, slope=slope)
            ends.append(found.point)
    ends.sort(key=lambda point: point.value)
    chosen: list[Point] = []
    for end in ends:
        same = any(
            np.abs(end.x - other.x).max() < APART or end.value - other.value < 2 * ROUGH[0]
            for other in chosen
        )
        if not same and len(chosen) < FINALISTS and end.value < ends[0].value + HOPELESS:
            chosen.append(end)
    return [_plan(part, end, parameters, ratio) for end in chosen]


def _plan(part: _Counted, end: Point, parameters: Parameters, ratio: float) -> _Plan:
    """Return the plan for all rows that an optimum of the coarse objective suggests."""
    box, none = parameters.bounds, _Plan(end.x, log_chart(end.x), None)
    if len(box) > MOST:
        return none
    H = curvature(part, end, box)
    if H is None:
        return none
    chart = tail_chart(parameters.names, end.x, ratio * np.abs(np.diag(H)))
    if chart.bent:
        H = curvature(chart.over(part, box), chart.point(end), chart.x(box))
    return none if H is None else _Plan(end.x, chart, convex(ratio * H))


def _result(
    full: _Counted, n_coarse: int, end: Descent, parameters: Parameters, tol: float
) -> Search:
    point = end.point
    say = {
        "": f"no step gains more than {tol:g} nats",
        "rounding": "no step gains more than rounding",
        "nothing": parameters.held_because or "nothing was left to choose",
        "wall": "stopped where the covariance is not positive definite in floating point; raise "
        "the lower bound of the noise, or bound the parameters of the kernel",
        "slope": "stopped where values and gradients do not agree; the covariance is too nearly "
        "singular, raise the lower bound of the noise",
        "max_iter": "stopped by max_iter; raise it",
    }[end.reason]
    if end.reason == "wall" and full.barred is not None:
        say = (
            f"stopped where priors[{full.barred!r}] has no density; give it a method support(), "
            "or bounds inside its support"
        )
    say += at_bounds(point.x, parameters) + parameters.remark
    tried = np.array(full.tried) if full.tried else np.zeros((0, len(point.x) + 1))
    return Search(
        point.x, -point.value, -point.gradient, full.n, n_coarse, end.converged, say, tried
    )


def at_bounds(theta: np.ndarray, parameters: Parameters) -> str:
    """Return what a message says about parameters at their bounds; nothing where there are none."""
    box, say = parameters.bounds, ""
    for word, side in (("lower", 0), ("upper", 1)):
        at = (theta == box[:, side]) & (box[:, 0] < box[:, 1])
        for what, mask in (
            (f"at the {word} bound", at & ~parameters.ends[:, side]),
            (f"at the {word} end of its prior", at & parameters.ends[:, side]),
        ):
            names = [name for name, here in zip(parameters.names, mask, strict=True) if here]
            if names:
                say += f"; {what}: {', '.join(names)}"
    return say


def coarse_rows(
    n: int, weights: Any = None, rng: Any = None, *, at_least: int | None = None, key: Any = None
) -> np.ndarray | None:
    """Return the rows of a coarse objective, a quarter of all; None where all are few enough.

    The choice is the same in every call. With a `key`, rows are drawn in its order, so that a
    permutation of the rows draws the same ones.

    Parameters
    ----------
    n : int
        How many rows there are.
    weights : array of shape (n,), optional
        Rows of weight 0 are not taken.
    rng : int or RandomState, optional
        For the choice; by default a fixed one.
    at_least : int, optional
        How many rows to take at least; by default 300, but not more than half of all.
    key : array of shape (n,) or (n, t), optional
        Numbers that tell rows apart, such as the targets.
    """
    rows = np.arange(n) if weights is None else np.flatnonzero(np.asarray(weights) > 0)
    at_least = min(SMALL, len(rows) // 2) if at_least is None else at_least
    if len(rows) <= max(SMALL, at_least):
        return None
    if key is not None:
        columns = np.asarray(key)[rows].reshape(len(rows), -1)
        rows = rows[np.lexsort(columns.T)]
    size = max(at_least, len(rows) // 4)
    generator = check_random_state(0 if rng is None else rng)
    return np.sort(generator.choice(rows, size, replace=False))
