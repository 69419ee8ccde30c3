"""The search for the parameters of largest evidence: a subset of the rows first, then all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.errors import InvalidInput, MemoryBudgetExceeded, MercerError, who
from mercer.models.gp.descent import (
    MOST,
    Descent,
    Point,
    convex,
    curvature,
    descend,
    expected_gain,
    follow,
)
from mercer.models.gp.parameters import Chart, Parameters, log_chart, tail_chart

if TYPE_CHECKING:
    pass

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
#: As scikit-learn's: (objective, theta, bounds) → (theta, value), the objective to be minimised.
Optimizer = Callable[..., tuple[Any, Any]]

TOL = 1e-3  # nats: a gain of evidence that is worth nothing
SMALL, LEAST = 1000, 500  # rows up to which no part of them is asked first; of such a part
FINALISTS = 3  # optima of the coarse objective that are looked at again
HOPELESS = 10.0  # nats of the coarse objective behind the best
APART = 0.3  # distance of two optima in a logarithm
ROUGH = 0.1  # the tol at which the coarse objective is left
WARM = 25  # evaluations after which a measured curvature is not believed any more
SAME = 0.1  # nats above the best at which a descent may be seen to lead there
# A start is left on all rows if it is so many nats behind, and that by so many times the gain of
# so many steps.
NEAR, PATIENCE, STEPS = 10.0, 10.0, 4


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
            f"{n} = {v:.4g}" for n, v in zip(self.parameters.words, np.exp(theta), strict=True)
        )
        raise InvalidInput(
            f"{who()}: the log evidence or its gradient is not finite at the start"
            f"{' ' + at if at else ''}; scale the data, or start elsewhere."
        )


def maximise(
    objective: Objective,
    parameters: Parameters,
    *,
    coarse: Objective | None = None,
    ratio: float | None = None,
    enough: float = -np.inf,
    n_restarts: int = 0,
    max_iter: int = 100,
    tol: float = TOL,
    rng: Any = None,
    callback: Callable[[np.ndarray, float], None] | None = None,
    optimizer: Optimizer | None = None,
    doubt: Callable[[np.ndarray, float], list[np.ndarray]] | None = None,
) -> Search:
    """Maximise log evidence + log prior over the free log-parameters, inside their bounds.

    Without a coarse objective every start is followed by L-BFGS-B. With one, all starts are
    followed on it, with its curvature measured at the optimum by differences of gradients; that
    curvature, times the ratio of the rows, lets the few descents on all rows converge in some five
    steps. A part of the rows may see nothing but noise where all of them see more: unless the
    value is `enough`, the given starts are then followed on all rows too, as long as they are not
    left behind, and the first one as L-BFGS-B does by itself. The result is never worse than the
    start.

    Parameters
    ----------
    objective : callable
        θ → (log evidence, gradient in θ). `NotPositiveDefinite` and other errors of numbers, and
        values that are not finite, are steps too far; at the start they are raised.
    parameters : Parameters
        Names, starts, bounds and priors.
    coarse : callable, optional
        The same on a part of the rows, which `coarse_rows` chooses.
    ratio : float, optional
        All rows over those of `coarse`.
    enough : float, default=-inf
        A value at which what was found is trusted; below it the given starts are followed on all
        rows, and the first one in two ways.
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
    optimizer : callable, optional
        What follows every start in place of L-BFGS-B, on all rows at once:
        ``optimizer(objective, theta, bounds) -> (theta, value)``, to minimise
        ``objective(theta)``, which returns a value and its gradient.
    doubt : callable, optional
        Asked with the θ found and the value there; what it returns are further starts, which are
        followed too.
    """
    full = _Counted(objective, parameters, callback)
    first = full.at_start(parameters.theta)
    box = parameters.bounds
    if not (box[:, 0] < box[:, 1]).any():
        return _result(full, 0, Descent(first, True, "nothing"), parameters, tol)
    if max_iter < 1:
        return _result(full, 0, Descent(first, False, "max_iter"), parameters, tol)
    given = [parameters.theta, *parameters.starts]
    low, high = parameters.draws.T
    drawn = list(check_random_state(rng).uniform(low, high, (n_restarts, len(low))))
    if optimizer is not None:
        own = [_by(optimizer, full, theta, box) for theta in given + drawn]
        best_own = min([*own, first], key=lambda point: point.value)
        return _result(full, 0, Descent(best_own, True, "own"), parameters, tol)
    part = None if coarse is None else _Counted(coarse, parameters)
    ends = [] if part is None else _optima(part, given + drawn, box, max_iter)
    plans = [] if part is None else [_Plan.of(part, end, parameters, ratio or 1.0) for end in ends]
    best = warm = _warm(full, first, plans, box, max_iter, tol)
    cold = [(theta, False) for theta in ([] if ends else given + drawn)]
    # where little is explained the part may have misled, and so may the first step of a descent
    doubted = [(given[0], True)] + [(theta, False) for theta in (given[1:] if ends else [])]
    for theta, bold in cold + doubted:
        if bold and best is not None and _trusted(best, warm, enough):
            break
        if any(np.abs(theta - end.x).max() < APART for end in ends):
            continue  # that was this descent
        point = first if theta is given[0] else full(theta)
        if point is None:
            continue
        rival = None if best is None else _Rival(best.point, bool(ends))
        end = follow(full, point, box, max_iter=max_iter, tol=tol, give_up=rival, bold=bold)
        # of two ends of the same height the first, whatever rounding does
        if best is None or end.point.value < best.point.value - tol:
            best = end
    if best is not None and doubt is not None:
        for theta in doubt(best.point.x, -best.point.value):
            point, rival = full(theta), _Rival(best.point, False)
            if point is not None:
                end = follow(full, point, box, max_iter=max_iter, tol=tol, give_up=rival)
                best = end if end.point.value < best.point.value - tol else best
    if best is None or best.point.value > first.value:
        best = follow(full, first, box, max_iter=max_iter, tol=tol)
    elif best is warm and not best.converged and max_iter > WARM:  # that curvature misled
        best = follow(full, best.point, box, max_iter=max_iter - WARM, tol=tol)
    return _result(full, 0 if part is None else part.n, best, parameters, tol)


def _by(optimizer: Optimizer, full: _Counted, start: np.ndarray, box: np.ndarray) -> Point:
    """Return where a user's optimizer ends."""

    def minus(theta: Any, eval_gradient: bool = True) -> Any:
        point = full(np.array(theta, dtype=float))
        if point is None:  # a step too far
            return (np.inf, np.zeros(len(start))) if eval_gradient else np.inf
        return (point.value, point.gradient) if eval_gradient else point.value

    found = optimizer(minus, start.copy(), bounds=box.copy())
    try:
        theta = np.array(found[0], dtype=float)
    except (TypeError, ValueError, LookupError):
        theta = np.full(1, np.nan)
    point = full(theta) if theta.shape == start.shape and np.isfinite(theta).all() else None
    if point is None:
        raise InvalidInput(
            f"{who()}: optimizer returned {found!r:.200}; give (theta, value) with {len(start)} "
            "logarithms of parameters at which the log evidence is finite."
        )
    return point


def _trusted(best: Descent, warm: Descent | None, enough: float) -> bool:
    sure = best.converged if best is warm else best.reason != "rounding"
    return enough == -np.inf or (sure and -best.point.value >= enough)


class _Rival:
    """Whether a descent is on its way to the best point known or, if asked, far behind and slow."""

    def __init__(self, best: Point, hurry: bool):
        self.best, self.hurry = best, hurry
        self.steps: list[float] = []

    def __call__(self, now: Point) -> bool:
        self.steps.append(now.value)
        behind = now.value - self.best.value
        # a parabola with its minimum at the best lies half of this above it
        whole = float(now.gradient @ (now.x - self.best.x))
        if 0 < behind < SAME and 0.3 * whole < behind < 0.8 * whole:
            return True
        if not self.hurry or len(self.steps) <= STEPS:
            return False
        return behind - NEAR > PATIENCE * (self.steps[-1 - STEPS] - now.value)


def _optima(
    part: _Counted, starts: list[np.ndarray], box: np.ndarray, max_iter: int
) -> list[Point]:
    """Return the best distinct optima of the coarse objective."""
    ends: list[Point] = []
    for theta in starts:
        point = part(theta)
        if point is not None:
            ends.append(follow(part, point, box, max_iter=max_iter, tol=ROUGH).point)
    ends.sort(key=lambda point: point.value)
    chosen: list[Point] = []
    for end in ends:
        same = any(
            np.abs(end.x - other.x).max() < APART or end.value - other.value < ROUGH
            for other in chosen
        )
        if not same and len(chosen) < FINALISTS and end.value < ends[0].value + HOPELESS:
            chosen.append(end)
    return chosen


@dataclass(frozen=True)
class _Plan:
    """A start on all rows, the coordinates to move in, and the curvature there, if known."""

    theta: np.ndarray
    chart: Chart
    B: np.ndarray | None

    @classmethod
    def of(cls, part: _Counted, end: Point, parameters: Parameters, ratio: float) -> _Plan:
        """Return what an optimum of the coarse objective suggests."""
        box, chart = parameters.bounds, log_chart(end.x)
        H = curvature(part, end, box) if len(box) <= MOST else None
        if H is not None:
            chart = tail_chart(parameters.names, end.x, ratio * np.abs(np.diag(H)))
        if H is not None and chart.bent:
            H = curvature(chart.over(part, box), chart.point(end), chart.x(box))
        return cls(end.x, chart, None if H is None else convex(ratio * H))

    def may_win(self, start: Point, best: Descent | None, box: np.ndarray) -> bool:
        """Whether a descent may end below the best, by three times what is expected."""
        if self.B is None or best is None:
            return True
        gain = expected_gain(self.B, self.chart.point(start), self.chart.x(box))
        return start.value - 3 * gain < best.point.value

    def descend(
        self, f: _Counted, start: Point, box: np.ndarray, max_iter: int, tol: float
    ) -> Descent:
        """Descend from the start, which was evaluated."""
        if self.B is None:
            return follow(f, start, box, max_iter=max_iter, tol=tol)
        over, there = self.chart.over(f, box), self.chart.x(box)
        most = min(max_iter, WARM)
        end = descend(over, self.chart.point(start), there, self.B, max_iter=most, tol=tol)
        return replace(end, point=self.chart.back(end.point, box))


def _warm(
    full: _Counted, first: Point, plans: list[_Plan], box: np.ndarray, max_iter: int, tol: float
) -> Descent | None:
    """Return the best of the descents on all rows from optima of the coarse objective."""
    best: Descent | None = None
    waiting: list[tuple[Point, _Plan]] = []
    for plan in plans:
        point = first if np.array_equal(plan.theta, first.x) else full(plan.theta)
        if point is not None:
            waiting.append((point, plan))
    for point, plan in sorted(waiting, key=lambda pair: pair[0].value):
        if plan.may_win(point, best, box):
            end = plan.descend(full, point, box, max_iter, tol)
            if best is None or end.point.value < best.point.value:
                best = end
    return best


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
        "own": "the optimizer that was given has ended",
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
    if not (theta[:, None] == box).any():
        return say
    for word, side in (("lower", 0), ("upper", 1)):
        at = (theta == box[:, side]) & (box[:, 0] < box[:, 1])
        for what, mask in (
            (f"at the {word} bound", at & ~parameters.ends[:, side]),
            (f"at the {word} end of its prior", at & parameters.ends[:, side]),
        ):
            names = [name for name, here in zip(parameters.words, mask, strict=True) if here]
            if names:
                say += f"; {what}: {', '.join(names)}"
    return say


def coarse_rows(n: int, weights: Any = None, *, key: Any = None) -> np.ndarray | None:
    """Return the rows of a coarse objective, a quarter of all; None where all are few enough.

    The choice is the same in every call. With a `key`, rows are drawn in its order, so that a
    permutation of the rows draws the same ones.
    """
    rows = np.arange(n) if weights is None else np.flatnonzero(np.asarray(weights) > 0)
    if len(rows) <= SMALL:
        return None
    if key is not None:
        columns = np.asarray(key)[rows].reshape(len(rows), -1)
        rows = rows[np.lexsort(columns.T)]
    size = max(LEAST, len(rows) // 4)
    return np.sort(np.random.RandomState(0).choice(rows, size, replace=False))
