"""Damped Newton for smooth regularised risks: every step is one weighted ridge regression."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses import Squared
from mercer.solvers.base import Solution
from mercer.solvers.checks import check_index, check_number
from mercer.solvers.smooth import EPS, NEGLIGIBLE, CheckedSmooth, SmoothERM, balance
from mercer.solvers.smooth_metric import DualMetric, PrimalMetric, metric_of, original_offset

__all__ = ["IRLS"]

STEEP = 1e-12  # curvature, relative to the largest, below which a steep row is taken as straight
SUFFICIENT = 1e-4  # part of the decrease that the slope promises
FLAT = 0.3  # slope left at a full step, relative to that at its start, which is no Newton step
NOISE = 64 * EPS  # of the objective: no smaller change of it is seen
POLISH = 3  # steps with the last factor once the gap is small enough
EASY, FACTOR = 1e-3, 30.0  # penalties below this part of the Hessian are come to in such steps
EASED = 0.1  # relative gap at which the next smaller penalty is tried
STALLED = 3  # steps without progress after which rounding must be in the way


class IRLS:
    r"""Solver of `SmoothERM` by iteratively reweighted least squares, that is, damped Newton.

    At values f with slopes g = wℓ' and curvatures h = wℓ'' a step is the ridge regression with
    weights h on the working targets f − g/h, from one factorisation: of alpha·I + H^½KH^½ over the
    rows with h > 0, or of a D×D matrix of D features. Along a step the values are linear, so the
    line search costs O(n) a trial, and the offset is brought to its optimum in between.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest duality gap, relative to the objective.
    max_iter : int, default=100
        Limit on Newton steps.
    max_time : float, optional
        Limit in seconds; checked between steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import Logistic
    >>> from mercer.solvers import IRLS, SmoothERM
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> problem = SmoothERM(np.outer(x, x), [-1, 1, -1, 1], Logistic(), alpha=0.1)
    >>> solution = IRLS().solve(problem)
    >>> solution.converged, bool(abs(solution.value.sum()) < 1e-12)
    (True, True)
    """

    def __init__(self, tol: float = 1e-8, max_iter: int = 100, max_time: float | None = None):
        check_number(tol, "tol", "IRLS", 0.0)
        check_index(max_iter, "max_iter", "IRLS", 1)
        if max_time is not None:
            check_number(max_time, "max_time", "IRLS", 0.0, closed=True)
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time

    def __repr__(self) -> str:
        return f"IRLS(tol={self.tol!r}, max_iter={self.max_iter!r}, max_time={self.max_time!r})"

    def solve(self, problem: SmoothERM, start: Any = None, owner: str = "IRLS") -> Solution:
        """Return the minimiser and its certificate.

        Parameters
        ----------
        problem : SmoothERM
            The problem; nothing of it is changed.
        start : tuple (a, b), optional
            Coefficients and offset to begin with; by default no function and the best constant.
        owner : str, default="IRLS"
            Whose fit it is; messages begin with it.

        Returns
        -------
        Solution
            ``value`` is a. ``extra`` has "intercept" b, "product" Ka, for `LowRank` problems solved
            in their features "weights" v with values Fv, and "jitter", the largest amount added to
            the diagonal of a Newton matrix.
        """
        p = problem.checked(owner)
        metric = metric_of(p, owner)
        run = _Run(p, metric, owner)
        point = run.start(start)
        deadline = None if self.max_time is None else time.monotonic() + self.max_time
        steps = 0
        for alpha in run.larger_penalties(point):
            point = run.with_penalty(alpha, point)
            point, taken, _ = run.descend(point, self.max_iter - steps, deadline, EASED)
            steps += taken
        point = run.with_penalty(p.alpha, point)
        point, taken, why = run.descend(point, self.max_iter - steps, deadline, self.tol)
        return run.solution(point, steps + taken, why)


@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients, values f and offset, with the certificate at values z = f + b."""

    c: np.ndarray
    f: np.ndarray
    b: float
    square: float
    risk: float
    g: np.ndarray
    gradient: np.ndarray
    gap: float
    size: float
    floor: float

    @property
    def z(self) -> np.ndarray:
        return self.f + self.b


class _Run:
    """One descent: the problem, the metric, and the steps of the method."""

    def __init__(self, p: CheckedSmooth, metric: DualMetric | PrimalMetric, owner: str):
        self.p, self.metric, self.owner = p, metric, owner
        self.tol = EASED
        self.jitter = 0.0
        root = np.sqrt(np.maximum(p.K.diagonal(), 0.0))
        self.root = np.asarray(root, dtype=float)

    # -- points -------------------------------------------------------------------------------
    def start(self, start: Any) -> _Point:
        """Return the first point: the best constant, or a start that is no worse than it."""
        c, n = np.zeros(self.metric.size), self.p.n
        zero = self.point(c, np.zeros(n), self.p.best_offset(np.zeros(n)))
        if start is None:
            return zero
        a = np.asarray(start[0], dtype=float)
        if a.shape != (n,) or not np.isfinite(a).all():
            raise InvalidInput(f"{self.owner}: start has shape {a.shape}; give ({n},), finite.")
        if self.p.offset:
            a = a - a.mean()
        c = a if isinstance(self.metric, DualMetric) else a @ self.metric.F
        f = self.metric.values(c)
        if not np.isfinite(self.p.risk(f + self.p.best_offset(f))):
            return zero
        warm = self.point(c, f, self.p.best_offset(f))
        return warm if warm.size <= zero.size else zero

    def point(self, c: np.ndarray, f: np.ndarray, b: float) -> _Point:
        """Return the point with its certificate; one product with K."""
        p, metric = self.p, self.metric
        z = f + b
        rates = p.rates(z)
        g = p.w * rates
        gradient = metric.gradient(c, g)
        square = max(0.0, metric.inner(c, c, f))
        risk = p.risk(z)
        size = risk + 0.5 * p.alpha * square
        floor = self._floor(c, g, z, size)
        gap = self._gap(c, z, rates, g, gradient)
        if isinstance(metric, DualMetric) and gap > max(self.tol * size, floor):
            gap = min(gap, self._gap_of_own(c, z, rates, g))
        return _Point(c, f, b, square, risk, g, gradient, gap, size, floor)

    def _gap(
        self, c: np.ndarray, z: np.ndarray, rates: np.ndarray, g: np.ndarray, even: np.ndarray
    ) -> float:
        """Return the gap to the dual value at −g/alpha, made to sum to 0."""
        p, metric, excess = self.p, self.metric, 0.0
        if p.offset:
            share = balance(g)
            excess = p.conjugate_terms(z, share * rates)
            even = metric.gradient(c, share * g)
        return excess + max(0.0, metric.inner(even, even, metric.values(even))) / (2 * p.alpha)

    def _gap_of_own(self, a: np.ndarray, z: np.ndarray, rates: np.ndarray, g: np.ndarray) -> float:
        """Return the gap to the dual value at a itself, moved to −g/alpha where ℓ* is infinite.

        The two duals differ by rounding of g over alpha. Where alpha is small that is much, and a
        is the better one.
        """
        p = self.p
        u = -p.alpha * a / p.w
        with np.errstate(all="ignore"):
            legal = np.isfinite(p.loss.conjugate(p.y, u))
        u = np.where(legal, u, rates)
        if p.offset:
            u = balance(p.w * u) * u
        off = a + p.w * u / p.alpha
        square = float(off @ self.metric.values(off)) if off.any() else 0.0
        return p.conjugate_terms(z, u) + 0.5 * p.alpha * max(0.0, square)

    def _floor(self, c: np.ndarray, g: np.ndarray, z: np.ndarray, size: float) -> float:
        """Return how large a gap may be from rounding alone.

        f = Kc has errors e of about ε√kᵢᵢ Σⱼ√kⱼⱼ|cⱼ|, by which alpha c + g cannot help but be he:
        a gap of ½Σhe². The sums themselves are rounded too.
        """
        length = float(self.root @ np.abs(c if isinstance(self.metric, DualMetric) else g))
        if not isinstance(self.metric, DualMetric):
            length /= self.p.alpha
        e = EPS * (self.root * length + np.abs(z))
        with np.errstate(over="ignore"):
            floor = 4.0 * float(self.p.curvatures(z) @ e**2) + 8.0 * EPS * size
        return min(floor, NEGLIGIBLE * size)

    def is_good(self, x: _Point) -> bool:
        """Whether the gap meets the tolerance, or what rounding leaves of it."""
        return x.gap <= max(self.tol * x.size, x.floor)

    # -- penalties ----------------------------------------------------------------------------
    def larger_penalties(self, x: _Point) -> list[float]:
        """Return penalties to solve for first, where alpha is very small.

        There a first Newton step runs far away, and it takes long to come back.
        """
        easy = EASY * float(self.p.curvatures(x.z).mean() * (self.root**2).mean())
        if isinstance(self.p.loss, Squared) or not self.p.alpha < easy < np.inf:
            return []
        return list(
            self.p.alpha
            * FACTOR ** np.arange(np.log(easy / self.p.alpha) // np.log(FACTOR), 0, -1.0)
        )

    def with_penalty(self, alpha: float, x: _Point) -> _Point:
        """Return the same function and offset as a point of the problem with another penalty."""
        if alpha == self.p.alpha:
            return x
        self.p = replace(self.p, alpha=alpha)
        self.metric.alpha = alpha
        return self.renewed(x)

    def renewed(self, x: _Point) -> _Point:
        """Return the point with its values computed from its coefficients."""
        f = self.metric.values(x.c)
        return self.point(x.c, f, x.b + self.p.best_offset(f + x.b))

    # -- steps --------------------------------------------------------------------------------
    def descend(
        self, x: _Point, max_iter: int, deadline: float | None, tol: float
    ) -> tuple[_Point, int, str]:
        """Return the last point, the steps taken, and why there are no more."""
        self.tol = tol
        steps = stalled = 0
        why, best, least_gap, least = "", x, x.gap, x.size
        while True:
            if self.is_good(x):
                fresh = self.polished(x, steps > 0)
                if self.is_good(fresh):
                    return fresh, steps, ""
                x = fresh
            if steps >= max_iter:
                why = f"max_iter={max_iter} steps were not enough; allow more"
                break
            if deadline is not None and time.monotonic() > deadline:
                why = "max_time ran out; allow more"
                break
            new = self.newton(x)
            steps += 1
            better = new.gap < 0.9 * least_gap or new.size < least * (1 - 1e-9)
            stalled = 0 if better else stalled + 1
            least_gap, least = min(least_gap, new.gap), min(least, new.size)
            x, best = new, new if new.gap <= best.gap else best
            if stalled >= STALLED:
                why = (
                    f"rounding stops it: alpha={self.p.alpha:g} is too small against a Gram matrix "
                    f"of trace {float((self.root**2).sum()):.3g}; use a larger alpha"
                )
                break
        return self.renewed(best), steps, why

    def newton(self, x: _Point) -> _Point:
        """Take one damped Newton step."""
        h = self.p.curvatures(x.z)
        h[~(h > 0)] = 0.0
        # A row far on the wrong side of a logistic loss: its slope is all, its curvature nothing,
        # and S⁻¹g would drown the others. Without its curvature the step is still a descent.
        rate, slope = h / self.p.w, np.abs(x.g) / self.p.w
        h[(rate < STEEP * rate.max(initial=0.0)) & (slope > 1e-3 * slope.max())] = 0.0
        self.metric.factor(h)
        self.jitter = max(self.jitter, self.metric.jitter)
        return self.along(x)

    def along(self, x: _Point) -> _Point:
        """Return the best point along the step that the last factor gives."""
        p, metric = self.p, self.metric
        d, db = metric.step(x.c, x.gradient, float(x.g.sum()) if p.offset else 0.0)
        if not np.isfinite(d).all():
            return x
        df = metric.values(d)
        dz = df + db
        cross, dd = metric.inner(x.c, d, df), max(0.0, metric.inner(d, d, df))

        def rise(t: float) -> float:
            """The objective at t, less that at 0."""
            return p.risk(x.z + t * dz) - x.risk + p.alpha * t * (cross + 0.5 * t * dd)

        def slope(t: float) -> tuple[float, float]:
            z = x.z + t * dz
            with np.errstate(all="ignore"):
                down = float(p.slopes(z) @ dz) + p.alpha * (cross + t * dd)
                return down, float(p.curvatures(z) @ dz**2) + p.alpha * dd

        noise = NOISE * x.size
        if isinstance(metric, DualMetric):  # df is rounded in units of the longest way it may go
            e = EPS * float(self.root @ np.abs(d)) * self.root
            noise += 4.0 * float(e @ (np.abs(x.gradient) + np.abs(p.alpha * x.c)))
        t = _line_search(rise, slope, noise)
        if t == 0:
            return x
        f = x.f + t * df
        b = x.b + t * db
        return self.point(x.c + t * d, f, b + p.best_offset(f + b))

    def polished(self, x: _Point, factored: bool) -> _Point:
        """Recompute the values from K, then go on with the last factor while that helps a lot."""
        x = self.renewed(x)
        for _ in range(POLISH if factored else 0):
            new = self.along(x)
            if not new.gap < 0.1 * x.gap:
                break
            x = self.renewed(new)
        return x

    # -- the answer ---------------------------------------------------------------------------
    def solution(self, x: _Point, steps: int, why: str) -> Solution:
        """Return the answer with its certificate."""
        p, metric = self.p, self.metric
        residual = x.gradient
        scale = float(np.linalg.norm(x.g))
        a, extra = x.c, {"intercept": x.b, "product": x.f, "jitter": self.jitter}
        if isinstance(metric, PrimalMetric):
            a = _coefficients(metric, x.c, -x.g / p.alpha)
            extra["intercept"] = original_offset(metric, x.c, x.b)
            extra["product"], extra["weights"] = x.f + float(metric.centre @ x.c), x.c
            scale = float(np.linalg.norm(np.abs(x.g) @ np.abs(metric.F)))
        relative = float(np.linalg.norm(residual)) / (scale or 1.0)
        message = ""
        if why:
            message = (
                f"{self.owner}: the duality gap is {x.gap:.3g}, more than {self.tol:g} times the "
                f"objective {x.size:.3g}, after {steps} Newton steps: {why}."
            )
        return Solution(
            value=a,
            converged=not why,
            n_iter=steps,
            residual=relative,
            gap=x.gap,
            primal=x.size,
            dual=x.size - x.gap,
            message=message,
            extra=extra,
        )


def _coefficients(metric: PrimalMetric, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return a with Φᵀa = v to rounding: the given one, and what it lacks by least squares."""
    lack = v - a @ metric.F
    if np.linalg.norm(lack) <= 1e-10 * np.linalg.norm(v):
        return a
    a = a + np.linalg.lstsq(metric.F.T, lack, rcond=None)[0]
    return a - a.mean() if metric.offset else a


def _line_search(rise: Any, slope: Any, noise: float) -> float:
    """Return t ≥ 0: 1 for a good Newton step, else about the minimum of a convex function.

    A step that changes nothing but rounding may still bring the coefficients to theirs.

    Trial points that overflow are refused. A full step that leaves much of the slope, as on
    classes that can be separated, is made longer.
    """
    down, _ = slope(0.0)
    top = rise(1.0)
    if not down < -noise:
        return 1.0 if top <= noise else 0.0
    if top <= SUFFICIENT * down and abs(slope(1.0)[0]) <= FLAT * -down:
        return 1.0
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(60):
        value, curvature = slope(t)
        if not np.isfinite(value) or value > 0:
            high = t
        elif value < 0:
            low = t
        if np.isfinite(value) and abs(value) <= 0.05 * -down and rise(t) <= SUFFICIENT * t * down:
            return t
        step = t - value / curvature if curvature > 0 and np.isfinite(value) else np.nan
        far = value > -down  # beyond an exponential wall Newton steps hardly move
        if low < step < high and step <= 4.0 * max(t, 1.0) and not far:
            t = step
        else:
            t = 0.5 * (low + high) if np.isfinite(high) else 4.0 * t
    return low if rise(low) < 0 else 0.0
