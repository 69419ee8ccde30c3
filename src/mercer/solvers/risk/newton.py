"""Damped Newton on a regularised risk: points with certificates, line search, when to stop.

What a Newton step is, one factorisation or conjugate gradients, is left to the solver; what the
functions are made of to the metric; what the risk is to the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.engines import Rates
from mercer.errors import InvalidInput, speaking_for, who
from mercer.solvers.base import IterativeSolver, Solution, accept, either
from mercer.solvers.cost import Cost, Facts, gram_seconds
from mercer.solvers.linear import cg_cost, default_rank, primal_cost
from mercer.solvers.risk.gram import SHARED
from mercer.solvers.risk.metric import DualMetric, PrimalMetric, metric_of
from mercer.solvers.risk.smooth import EPS, NEGLIGIBLE, fault_of

SUFFICIENT = 1e-4  # part of the decrease that the slope promises
FLAT = 0.3  # slope left at a full step, relative to that at its start, which is no Newton step
NOISE = 64 * EPS  # of the objective: no smaller change of it is seen
POLISH = 8  # steps with the last factor once the gap is small enough
SMALL, FINE, COARSE = 500, 1e-13, 1e-7  # rows, and residuals at which few and many are left
EASY, FACTOR = 1e-3, 30.0  # penalties below this part of the Hessian are come to in such steps
NEAR = 0.01  # residual from which a itself may be the better dual point
RESIDUAL = 1e-5  # of alpha a = −g, that coefficients may be left with
LOOSE = 1e-4  # tolerance beyond which nothing is polished further than to it
EASED = 0.1  # relative gap at which the next smaller penalty is tried
PROGRESS = np.array([0.9, 0.9, 1 - 1e-9])  # of gap, residual and objective in a step
STALLED = 3  # steps without it after which rounding must be in the way


@dataclass(frozen=True, eq=False)
class RiskPoint:
    """Coefficients, values f and offset, with the certificate at the values z = f + b."""

    c: np.ndarray
    f: np.ndarray
    b: Any
    square: float
    risk: float
    g: np.ndarray
    gradient: np.ndarray
    gap: float
    size: float
    floor: float

    @property
    def z(self) -> np.ndarray:
        """The values with the offset."""
        return self.f + self.b


class NewtonDescent:
    """One descent: the problem, the metric, and the steps of the method."""

    def __init__(self, p: Any, metric: DualMetric | PrimalMetric):
        self.p, self.metric = p, metric
        self.tol, self.jitter = EASED, 0.0
        self._judged: tuple[Any, float] = (None, 0.0)  # the last point asked for, and its residual
        self.dual = isinstance(metric, DualMetric)
        self.root = np.sqrt(np.maximum(np.asarray(p.K.diagonal(), dtype=float), 0.0))

    # -- points -------------------------------------------------------------------------------
    def start(self, start: Any) -> RiskPoint:
        """Return the first point: the best constant, or a start that is no worse than it."""
        p, shape = self.p, self.p.shape
        none = np.zeros(shape)
        c = np.zeros((self.metric.size, *shape[1:]))
        zero = self.point(c, none, p.best_offset(none))
        if start is None:
            return zero
        a = np.asarray(start[0], dtype=float)
        if a.shape != shape or not np.isfinite(a).all():
            raise InvalidInput(f"{who()}: start has shape {a.shape}; give {shape}, finite.")
        if p.offset:
            a = a - a.mean(axis=0)
        c = a if isinstance(self.metric, DualMetric) else self.metric.F.T @ a
        f = self.metric.values(c)
        b = p.best_offset(f)
        if not np.isfinite(p.risk(f + b)):
            return zero
        warm = self.point(c, f, b)
        return warm if warm.size <= zero.size else zero

    def nothing(self, why: str, tol: float) -> Solution:
        """Return no function, for a problem that cannot be solved."""
        self.tol = tol
        c = np.zeros((self.metric.size, *self.p.shape[1:]))
        with np.errstate(all="ignore"):
            x = self.point(c, np.zeros(self.p.shape), 0.0)
        return self.solution(replace(x, gap=np.inf), 0, why)

    def point(self, c: np.ndarray, f: np.ndarray, b: Any) -> RiskPoint:
        """Return the point with its certificate; one product with K."""
        p, metric = self.p, self.metric
        z = f + b
        rates = p.rates(z)
        g = p.weighted(rates)
        square = max(0.0, metric.inner(c, c, f))
        risk = p.risk(z)
        size = risk + 0.5 * p.alpha * square
        floor = self._floor(c, g, z, size)
        even = p.balanced(rates)
        lack = metric.gradient(c, p.weighted(even))
        gap = max(0.0, metric.inner(lack, lack, metric.values(lack))) / (2 * p.alpha)
        if p.offset:  # without, ℓ + ℓ* − uz is 0 at u = ℓ'
            gap += p.conjugate_terms(z, even)
        gradient = metric.gradient(c, g)
        near = self.dual and length(gradient) <= NEAR * length(g)
        if near and gap > max(self.tol * size, floor):
            gap = min(gap, self._gap_of_own(c, z, rates))
        return RiskPoint(c, f, b, square, risk, g, gradient, gap, size, floor)

    def _gap_of_own(self, a: np.ndarray, z: np.ndarray, rates: np.ndarray) -> float:
        """Return the gap to the dual value at a itself, moved to −g/alpha where ℓ* is infinite.

        The two duals differ by rounding of g over alpha. Where alpha is small that is much, and a
        is the better one.
        """
        p = self.p
        u = p.own(a, rates)
        off = a + p.weighted(u) / p.alpha
        square = float((off * self.metric.values(off)).sum()) if off.any() else 0.0
        return p.conjugate_terms(z, u) + 0.5 * p.alpha * max(0.0, square)

    def _floor(self, c: np.ndarray, g: np.ndarray, z: np.ndarray, size: float) -> float:
        """Return how large a gap may be from rounding alone.

        f = Kc has errors e of about ε√kᵢᵢ Σⱼ√kⱼⱼ|cⱼ|, by which alpha c + g cannot help but be he:
        a gap of ½Σhe². The sums themselves are rounded too.
        """
        length = np.max(self.root @ np.abs(c if self.dual else g / self.p.alpha))
        high = np.abs(z) if z.ndim == 1 else np.abs(z).max(axis=1)
        e = EPS * (self.root * length + high)
        with np.errstate(over="ignore"):
            floor = 4.0 * float(self.p.steepest(z) @ e**2) + 8.0 * EPS * size
        return min(floor, NEGLIGIBLE * size)

    def is_good(self, x: RiskPoint) -> bool:
        """Whether the gap meets the tolerance, or what rounding leaves of it, and so does a."""
        met = np.isfinite(x.size) and x.gap <= max(self.tol * x.size, x.floor)
        return bool(met) and (self.tol >= EASED or self.residual(x) <= max(RESIDUAL, self.tol))

    def residual(self, x: RiskPoint) -> float:
        """Return the size of alpha a + g relative to that of g, or of w y for least squares."""
        if self._judged[0] is not x:
            self._judged = x, self._residual(x)
        return self._judged[1]

    def _residual(self, x: RiskPoint) -> float:
        lack, size = length(x.gradient), self._scale(x)
        return lack / size if size > 0 else lack

    def _scale(self, x: RiskPoint) -> float:
        """Return what residuals are measured by."""
        g = self.p.w * self.p.y if self.p.quadratic else x.g
        return length(self.metric.sizes(g) if isinstance(self.metric, PrimalMetric) else g)

    def renewed(self, x: RiskPoint) -> RiskPoint:
        """Return the point with its values computed from its coefficients."""
        f = self.metric.values(x.c)
        return self.point(x.c, f, x.b + self.p.best_offset(f + x.b))

    # -- penalties ----------------------------------------------------------------------------
    def larger_penalties(self, x: RiskPoint) -> list[float]:
        """Return penalties to solve for first, where alpha is very small.

        There a first Newton step runs far away, and it takes long to come back.
        """
        alpha = self.p.alpha
        easy = EASY * float(self.p.steepest(x.z).mean() * (self.root**2).mean())
        if self.p.quadratic or not alpha < easy < np.inf:
            return []
        count = int(np.log(easy / alpha) // np.log(FACTOR))
        return [alpha * FACTOR**k for k in range(count, 0, -1)]

    def with_penalty(self, alpha: float, x: RiskPoint) -> RiskPoint:
        """Return the same function and offset as a point of the problem with another penalty."""
        if alpha == self.p.alpha:
            return x
        self.p = replace(self.p, alpha=alpha)
        self.metric.alpha = alpha
        return self.renewed(x)

    # -- steps --------------------------------------------------------------------------------
    def descend(
        self, x: RiskPoint, max_iter: int, clock: Clock, tol: float
    ) -> tuple[RiskPoint, int, str]:
        """Return the best point, the steps taken, and why it is not good enough."""
        self.tol = tol
        steps = stalled = 0
        best, least = x, np.full(3, np.inf)
        while True:
            if self.is_good(x):
                x = self.polished(x, steps > 0)
                if self.is_good(x):
                    return x, steps, ""
            if not np.isfinite(x.size):
                why = "the objective is not finite; check the value and the gradient of the loss"
                break
            if steps >= max_iter:
                why = "that is all that max_iter allows; raise it"
                break
            if clock.late:
                why = "max_time ran out; allow more"
                break
            x = self.newton(x)
            steps += 1
            now = np.array([x.gap, self.residual(x), x.size])
            stalled = 0 if (now < PROGRESS * least).any() else stalled + 1
            least = np.minimum(now, least)
            best = x if x.gap <= best.gap else best
            if stalled >= STALLED:
                why = self.obstacle()
                break
        return self.renewed(best), steps, why

    def obstacle(self) -> str:
        """Return what is in the way of further steps, and what to do about it."""
        return (
            f"rounding stops it: alpha={self.p.alpha:g} is too small against a Gram matrix of "
            f"trace {float((self.root**2).sum()):.3g}; use a larger alpha"
        )

    def newton(self, x: RiskPoint) -> RiskPoint:
        """Take one damped Newton step."""
        raise InvalidInput(f"{type(self).__name__}: define newton(x).")

    def direction(self, x: RiskPoint) -> tuple[np.ndarray, Any]:
        """Return the step (δ, δb) that the last factor gives."""
        offset = self.p.offset
        return self.metric.step(x.c.sum(axis=0), x.gradient, x.g.sum(axis=0) if offset else 0.0)

    def along(
        self, x: RiskPoint, d: np.ndarray, db: Any, df: np.ndarray | None = None
    ) -> RiskPoint:
        """Return about the best point along a step; its values df may be known already."""
        p, metric = self.p, self.metric
        if not np.isfinite(d).all():
            return x
        df = metric.values(d) if df is None else df
        dz = df + db
        cross, dd = metric.inner(x.c, d, df), max(0.0, metric.inner(d, d, df))

        def rise(t: float) -> float:
            """Return the objective at t, less that at 0."""
            return p.risk(x.z + t * dz) - x.risk + p.alpha * t * (cross + 0.5 * t * dd)

        def slope(t: float) -> tuple[float, float]:
            z = x.z + t * dz
            with np.errstate(all="ignore"):
                down = float((p.weighted(p.rates(z)) * dz).sum()) + p.alpha * (cross + t * dd)
            return down, p.bend(z, dz) + p.alpha * dd

        noise = NOISE * x.size
        if self.dual:  # df is rounded in units of the longest way it may go
            e = EPS * np.max(self.root @ np.abs(d))
            noise += (
                4.0 * e * float(np.sum(self.root @ (np.abs(x.gradient) + p.alpha * np.abs(x.c))))
            )
        t = _line_search(rise, slope, noise)
        if t == 0:
            return x
        f, b = x.f + t * df, x.b + t * db
        return self.point(x.c + t * d, f, b + p.best_offset(f + b))

    def polished(self, x: RiskPoint, factored: bool) -> RiskPoint:
        """Recompute the values from K, then take cheap steps while they help a lot.

        Few rows are worth it to the last digit: then the answer does not depend on their order. Who
        asks for little is given little.
        """
        x, enough = self.renewed(x), FINE if self.p.n <= SMALL else COARSE
        enough = self.tol if self.tol > LOOSE else enough
        for _ in range(POLISH if factored and self.tol < EASED else 0):
            residual = self.residual(x)
            if residual <= enough:
                break
            new = self.renewed(self.improved(x))
            if not self.residual(new) < 0.3 * residual or new.gap > 10 * x.gap + x.floor:
                break
            x = new
        return x

    def improved(self, x: RiskPoint) -> RiskPoint:
        """Take one more step that costs no factorisation."""
        return self.along(x, *self.direction(x))

    # -- rounding -----------------------------------------------------------------------------
    def proven(self, x: RiskPoint) -> tuple[float, float]:
        """Return gap and residual with what rounding may hide of them.

        A sum of k products is off by at most kε/2 of the sum of their sizes. Where that is too much
        to tell, the values are computed again in longer numbers, and how far they are off is seen.
        """
        if not (np.isfinite(x.gap) and np.isfinite(x.size)):
            return x.gap, self.residual(x)
        e = self._off(x, EPS)
        found = self._proven(x, e, (self.p.balanced(rates := self.p.rates(x.z)),))
        if not self._meets(x, *found):
            sharp = self.metric.sharp(x.c)
            if sharp is not None:
                e = self._off(x, float(np.finfo(sharp.dtype).eps))
                e += np.abs(sharp - x.f).astype(float).reshape(self.p.n, -1).max(axis=1)
            own = (self.p.own(x.c, rates),) if self.dual else ()
            found = self._proven(x, e, (self.p.balanced(rates), *own))
        return found if x.gradient.any() or not self._is_nothing(found[0]) else (found[0], 0.0)

    def _meets(self, x: RiskPoint, gap: float, residual: float) -> bool:
        """Whether gap and residual meet the tolerance, or the gap is nothing."""
        met = gap <= self.tol * x.size and residual <= max(RESIDUAL, self.tol)
        return met or self._is_nothing(gap)

    def _is_nothing(self, gap: float) -> bool:
        """Whether a gap is no more than the risk that rounding of the targets makes."""
        kind = getattr(getattr(self.p, "loss", None), "kind", "")
        return kind == "regression" and gap <= 64 * EPS**2 * float(self.p.w @ self.p.y**2)

    def _off(self, x: RiskPoint, eps: float) -> np.ndarray:
        """Return how far the values at each row may be off, by products rounded to `eps`."""
        if isinstance(self.metric, DualMetric):
            terms = self.root * np.max(self.root @ np.abs(x.c))
        else:
            terms = self.metric.spread(x.c).reshape(self.p.n, -1).max(axis=1)
        high = np.abs(x.z).reshape(self.p.n, -1).max(axis=1) + np.max(np.abs(x.b))
        return np.asarray(0.5 * eps * (len(x.c) + 4) * terms + 2 * EPS * high)

    def _proven(
        self, x: RiskPoint, e: np.ndarray, duals: tuple[np.ndarray, ...]
    ) -> tuple[float, float]:
        """Return the certificate at values that may be off by e, with the best of some slopes."""
        p, gaps = self.p, []
        swing = p.swing(x.z, e)
        e = e.reshape(-1, *[1] * (x.z.ndim - 1))
        for u in duals:
            g = p.weighted(u)
            lack, short = self.metric.gradient(x.c, g), self._short(x, g)
            square = self.metric.inner(lack, lack, self.metric.values(lack))
            if self.dual:
                square += EPS * (p.n + 2) * float(np.sum((self.root @ np.abs(lack)) ** 2))
            gap = (np.sqrt(max(0.0, square)) + short) ** 2 / (2 * p.alpha)
            gap += float(((np.abs(g - x.g) + swing) * e).sum())
            if p.offset or u is not duals[0]:  # else ℓ + ℓ* − uz is 0 at u = ℓ'
                gap += p.conjugate_terms(x.z, u)
                gap += 8 * EPS * (x.risk + float(np.abs(g * x.z).sum()))
            if p.offset:  # which Σg costs where it is not quite 0
                gap += float(np.abs(x.b * g.sum(axis=0)).sum())
            gaps.append(float(gap))
        size, moved = self._scale(x), length(swing)
        if isinstance(self.metric, PrimalMetric):
            lost = length(self.metric.sizes(swing)) + self._short(x, x.g)
        else:
            lost = moved + 2 * EPS * (p.alpha * length(x.c) + length(x.g))
            size = size if p.quadratic else max(size - moved, moved)
        lost += length(x.gradient)
        return min(gaps), lost / size if size > 0 else lost

    def _short(self, x: RiskPoint, g: np.ndarray) -> float:
        """Return how far, in the space of functions, rounding may put alpha f + Σ gᵢk(xᵢ, ·)."""
        if isinstance(self.metric, PrimalMetric):
            off = 0.5 * EPS * (self.p.n + 4) * length(self.metric.sizes(g))
            return off + 2 * EPS * self.p.alpha * length(x.c)
        off = self.root @ (self.p.alpha * np.abs(x.c) + np.abs(g))
        return 2 * EPS * length(np.atleast_1d(off))

    # -- the answer ---------------------------------------------------------------------------
    def solution(self, x: RiskPoint, steps: int, why: str) -> Solution:
        """Return the answer with its certificate."""
        metric, a = self.metric, x.c
        extra = {"intercept": x.b, "product": x.f, "jitter": self.jitter}
        if isinstance(metric, PrimalMetric):
            shift = metric.centre @ x.c  # of features that were not centred
            a = metric.coefficients(x.c, -x.g / self.p.alpha)
            extra.update(intercept=x.b - shift, product=x.f + shift, weights=x.c)
        (gap, residual), message = self.proven(x), ""
        if not why and not self._meets(x, gap, residual):
            left = gap / x.size if x.size > 0 else 1.0
            left = max(left, residual) if residual > RESIDUAL else left
            why = f"rounding hides the rest; {either(['use a larger alpha', *accept(left)])}"
        if why:
            message = (
                f"{who()}: after {steps} Newton steps the duality gap is {gap:.3g} of an "
                f"objective of {x.size:.3g} (tolerance {self.tol:g}) and the residual of the "
                f"coefficients {residual:.2g} (tolerance {max(RESIDUAL, self.tol):g}): {why}."
            )
        return Solution(
            value=a,
            converged=not why,
            n_iter=steps,
            residual=residual,
            gap=gap,
            primal=x.size,
            dual=x.size - gap,
            message=message,
            extra=extra,
        )


def length(x: np.ndarray) -> float:
    """Return the Euclidean norm without BLAS, whose threads would be in the way of SciPy's."""
    return float(np.sqrt((x * x).sum()))


def _line_search(
    rise: Callable[[float], float], slope: Callable[[float], tuple[float, float]], noise: float
) -> float:
    """Return t ≥ 0: 1 for a good Newton step, else about the minimum of a convex function.

    A step that changes nothing but rounding may still bring the coefficients to theirs. Trial
    points that overflow are refused. A full step that leaves much of the slope, as on classes that
    can be separated, is made longer.
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


# ---- What the Newton solvers share: limits, and the way from a problem to its solution ----


STAGE = 40  # steps for each of the larger penalties on the way to a small one


class SmoothSolver(IterativeSolver):
    """Base of the Newton solvers: limits, and the path from problem to solution."""

    max_iter: int
    #: The `NewtonDescent` that takes the steps.
    _descent: type[NewtonDescent]

    def __init__(self, tol: float = 1e-8, max_iter: int = 100, max_time: float | None = None):
        self.tol, self.max_iter, self.max_time = tol, max_iter, max_time
        self._check_limits()

    def solve(self, problem: Any, start: Any = None, owner: str = "") -> Solution:
        """Return the minimiser and its certificate.

        Parameters
        ----------
        problem : SmoothERM or SoftmaxERM
            The problem; nothing of it is changed.
        start : tuple (a, b), optional
            Coefficients and offset to begin with; by default no function and the best constant.
        owner : str, optional
            Whose fit it is; messages begin with it.

        Returns
        -------
        Solution
            ``value`` is a. ``extra`` has "intercept" b, "product" Ka, for `LowRank` problems solved
            in their features "weights" v with values Fv, and "jitter", the largest amount added to
            the diagonal of a Newton matrix.
        """
        with speaking_for(owner or type(self).__name__):
            p = problem.checked(who())
            run = self._descent(p, metric_of(p))
            fault = fault_of(p.loss, p.y) if hasattr(p, "loss") else ""
            if fault:
                return run.nothing(fault, self.tol)
            x = run.start(start)
            clock = Clock(self.max_time)
            steps = 0
            for alpha in run.larger_penalties(x):
                x = run.with_penalty(alpha, x)
                x, taken, _ = run.descend(x, min(STAGE, self.max_iter - steps), clock, EASED)
                steps += taken
            x = run.with_penalty(p.alpha, x)
            x, taken, why = run.descend(x, self.max_iter - steps, clock, self.tol)
            return run.solution(x, steps + taken, why)


# ---- Newton for smooth regularised risks: every step is one weighted ridge regression ----


STEEP = 1e-12  # curvature, relative to the largest, below which a steep row is taken as straight


class _Reweighted(NewtonDescent):
    """The steps of IRLS: one factorisation with the curvatures as weights."""

    def newton(self, x: RiskPoint) -> RiskPoint:
        """Take one damped Newton step."""
        p = self.p
        h = p.curvatures(x.z)
        h[~(h > 0)] = 0.0
        # A row far on the wrong side of a logistic loss: its slope is all, its curvature nothing,
        # and S⁻¹g would drown the others. Without its curvature the step is still a descent.
        rate, slope = h / p.w, np.abs(x.g) / p.w
        h[(rate < STEEP * rate.max(initial=0.0)) & (slope > 1e-3 * slope.max())] = 0.0
        self.metric.factor(h)
        self.jitter = max(self.jitter, self.metric.jitter)
        return self.along(x, *self.direction(x))


class IRLS(SmoothSolver):
    r"""Solver of `SmoothERM` by iteratively reweighted least squares, that is, damped Newton.

    At values f with slopes g = wℓ' and curvatures h = wℓ'' a step is the ridge regression with
    weights h on the working targets f − g/h, from one factorisation: of alpha·I + H^½KH^½ over the
    rows with h > 0, or of a D×D matrix of D features. Along a step the values are linear, so the
    line search costs O(n) a trial, and the offset is brought to its optimum in between. A very
    small alpha is come to from larger ones.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest duality gap, relative to the objective; or what rounding leaves, at most 1e-6.
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

    _descent = _Reweighted


# ---- What Newton's method costs ----


NEWTON_STEPS = 4.5  # of a smooth risk, as a rule
FACTORED = 1.7  # factorisations a step: weights change along it, and at the end all is judged
PASSES = 16  # times that a step reads the matrix
VECTORS = 24  # of a number a row and output, that its points and steps hold
INNER_TOL = 1e-4  # relative residual of a system of a Newton step


def by_features(facts: Facts) -> bool:
    """Whether a smooth risk is minimised over features: fewer than points, if no more memory."""
    if facts.features is None or facts.features >= facts.n:
        return False
    matrix = SHARED * facts.n * facts.n
    return primal_cost(facts, None).needed <= facts.budget or matrix > facts.budget


def newton_cost(facts: Facts, rates: Rates | None, sketch: Any = None) -> Cost:
    """A Newton method: one factorisation a step, or a few where there are several outputs."""
    several = facts.outputs > 1
    if by_features(facts):
        once = primal_cost(facts, rates, sketch)
        steps = None if once.seconds is None else NEWTON_STEPS * facts.outputs * once.seconds
        return Cost(once.needed, steps, once.more)
    n = facts.n
    needed = SHARED * n * n
    more = facts.tiles + facts.vectors + 96 * n * facts.outputs + (5 * n * n if several else 0)
    if rates is None:
        return Cost(needed, None, more)
    reads = (2 * PASSES if several else PASSES) * 8 * n * n / rates.read
    step = FACTORED * n**3 / 3 / rates.potrf + reads
    return Cost(needed, gram_seconds(facts, rates, sketch.rate) + NEWTON_STEPS * step, more)


def newton_cg_cost(
    facts: Facts, rates: Rates | None, sketch: Any = None, *, alpha: float = 1.0
) -> Cost:
    """A Newton method with systems solved by conjugate gradients, preconditioned for each step.

    Curvatures of the logistic loss are at most 1/4, so that alpha counts four times.
    """
    n, t = facts.n, facts.outputs + 1
    rank = min(default_rank(n), n)
    # the pivots are scaled by each step
    needed = facts.gram_item * n * n + 8 * n * (4 * t + 3 * rank + VECTORS * facts.outputs)
    more = 8 * n * (6 * t + rank) + facts.tiles + facts.vectors
    once = cg_cost(facts, rates, sketch, alpha=4.0 * alpha, tol=INNER_TOL)
    return Cost(needed, None if once.seconds is None else NEWTON_STEPS * once.seconds, more)
