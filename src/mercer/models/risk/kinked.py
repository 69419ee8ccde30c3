"""Regularised risk with a loss that has kinks, solved to a duality gap through its box dual.

The slopes of such a loss lie between two numbers, and there its conjugate is y u + ε|u|. So the
dual of min Σ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (α/2)‖f‖² is, divided by α, the box problem

    min over a of ½aᵀKa − yᵀa + ε Σ|aᵢ|,   −wᵢ highest ≤ α aᵢ ≤ −wᵢ lowest,

with Σaᵢ = 0 for an offset, that of a support vector machine: lowest and highest slope are −1 and 0
(times the label) of the hinge, ∓1 of the absolute error, −τ and 1 − τ of the pinball. Nothing is
smoothed. Kernels of few features are fitted by the weights of these.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from mercer.errors import InvalidInput, who
from mercer.estimator import ONLY, Plan, Study
from mercer.kernels import Kernel
from mercer.lapack import heard
from mercer.losses import Absolute, EpsilonInsensitive, Loss
from mercer.models.margin import (
    joined,
    plan_box,
    solve_all,
    split,
    tube_problem,
)
from mercer.models.risk.fit import DUAL_LOSSES, ERMFit, _not_dual, best_offset, dual_slopes
from mercer.models.risk.kinked_features import (
    DualFeatures,
    Represented,
    dual_rows,
    in_span,
    kinked_point,
    sharp_values,
)
from mercer.solvers import SMO, Rows, Solution
from mercer.solvers.box import CheckedBox, rounding_of

# ---- The last step of a dual fit: the coefficients between their bounds, from their linear
# equations.
# Once it is known which coefficients are at a bound (or 0, in a tube), the others solve
#
#     Σⱼ K_ij aⱼ + b = tᵢ  for every free i,   Σⱼ aⱼ = 0 with an offset b,
#
# with tᵢ the kink that point i sits on. Solving that leaves no trace of where the descent stopped,
# so that answers do not depend, beyond rounding, on the order of the rows or a constant in y.


MOST = 1500  # free coefficients up to which their equations are solved
NEAR = 1e-9  # part of the box, or of all coefficients, within which one counts as at its end


def polished(
    rows: Rows,
    a: np.ndarray,
    targets: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    offset: bool,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return better coefficients and their Ka, or None where the equations have no answer inside.

    Parameters
    ----------
    rows : Rows
        Rows of K; only where all are there in float64.
    a : ndarray of shape (n,)
        Coefficients near the optimum.
    targets : ndarray of shape (n,)
        The kink tᵢ of every point.
    lower, upper : ndarray of shape (n,)
        The box.
    offset : bool
        Whether there is an offset.
    """
    if not (rows.whole and rows.exact):
        return None
    near = NEAR * np.minimum(upper - lower, np.abs(a).max(initial=0.0))
    a = np.where(a <= lower + near, lower, np.where(a >= upper - near, upper, a))
    free = np.flatnonzero((a > lower) & (a < upper))
    m = len(free)
    if not 0 < m <= MOST:
        return None
    K = rows.store
    border = 1 if offset else 0
    system = np.zeros((m + border, m + border))
    system[:m, :m] = K[np.ix_(free, free)]
    system[m:, :m] = system[:m, m:] = border
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", LinAlgWarning)  # a singular system gives no finite answer
        factors = heard(lu_factor, system, check_finite=False)
        b = 0.0
        for _ in range(2):  # the second is a step of iterative refinement
            residual = np.full(m + border, -a.sum())
            residual[:m] = targets[free] - K[free] @ a - b
            step = lu_solve(factors, residual, check_finite=False)
            a[free] += step[:m]
            b += float(step[m:].sum())
    if not np.isfinite(a).all() or (a < lower).any() or (a > upper).any():
        return None
    return a, K @ a


# ---- erm dual ----

INSIDE = 1e-9  # part of the box that a free coefficient is away from its ends
EPS = float(np.finfo(float).eps)
SAME = 1e-12  # part of the objective below which gaps count as equal
LARGEST = float(np.finfo(float).max)
LEAST = float(np.finfo(float).tiny)
HUGE = 1e150  # the square of more is no float64


def fit_dual(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    loss: Loss,
    alpha: float,
    weights: np.ndarray,
    offset: bool,
    *,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
    rows: Rows | DualFeatures | None = None,
    start: np.ndarray | None = None,
) -> ERMFit:
    """Minimise Σ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2)‖f‖² for a loss of `DUAL_LOSSES`.

    It is solved for y minus its weighted median (with an offset) in a unit near its largest size,
    so that neither a constant added to y nor its unit changes anything else.
    """
    if type(loss) not in DUAL_LOSSES:
        raise _not_dual(loss)
    rows = dual_rows(kernel, X) if rows is None else rows
    p = ScaledTargets.of(y, loss, float(alpha), weights, offset)
    lowest, highest = dual_slopes(p.loss, p.y)
    with np.errstate(over="ignore", divide="ignore"):
        lower, upper = -weights * highest / p.alpha, -weights * lowest / p.alpha
        size = float(np.abs([lower, upper]).max()) * max(float(rows.diagonal.max()), 1.0)
    if not size < HUGE:
        one, other = f"alpha={alpha:g} is", f"targets of size {p.unit:.0e}"
        if p.unit < alpha:
            one, other = f"targets of size {p.unit:.0e} are", f"alpha={alpha:g}"
        raise InvalidInput(
            f"{who()}: {one} so small, for {other}, that weights divided by both and times the "
            "kernel are more than float64 can square; give a larger alpha, or y in another unit."
        )
    box, limits = (lower, upper), (tol, max_iter, max_time)
    if isinstance(rows, DualFeatures):
        return _by_weights(p, rows, box, offset, *limits)
    return _by_rows(p, rows, box, offset, start, *limits)


def _by_weights(
    p: ScaledTargets,
    rows: DualFeatures,
    box: tuple[np.ndarray, np.ndarray],
    offset: bool,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
) -> ERMFit:
    """Fit weights of features, and coefficients of the box, of the same function if there are any.

    The dual value is that of the coefficients.
    """
    given, rows = rows, rows.centred(offset)
    epsilon = getattr(p.loss, "epsilon", 0.0)
    lowest, highest = dual_slopes(p.loss, p.y)
    problem = (rows.F, p.y, p.weights * lowest, p.weights * highest, epsilon, p.alpha, offset)
    point, steps, said = kinked_point(*problem, max_iter, max_time)
    checked = tube_problem(rows, p.y, *box, epsilon, offset).checked(who())
    a = np.clip(-point.s / p.alpha, *box)

    def judged(a: np.ndarray, v: np.ndarray) -> ERMFit:
        return p.judged(a, rows.F @ v, rows, checked, steps, said, tol, v)

    v, back = point.v, rows.F.T @ a
    found, again = judged(a, v), judged(a, back)
    if _as_good(again.solution, found.solution):
        v, found = back, again
    else:
        v = in_span(rows.F, v)
        found = judged(a, v)
    same = Represented(given, v, float(np.abs(p.y).max(initial=0.0)), offset)
    exact = same.inside(a, *_side(a, box, epsilon))
    if exact is not a:
        again = judged(exact, v)
        found = again if _as_good(again.solution, found.solution) else found
    shift = rows.centre @ v
    if not found.solution.converged:
        sharp = sharp_values(rows.F, v)  # where rounding hides the gap
        if sharp is not None:
            rest: Any = (rows, checked, steps, said, tol, v)
            found = p.judged(found.dual_coef / p.unit, sharp, *rest)
            shift = rows.centre.astype(sharp.dtype) @ v
    product = p.unit * (rows.F @ v) + p.unit * float(shift)
    return replace(found, intercept=float(found.intercept - p.unit * shift), product=product)


def _as_good(new: Solution, old: Solution) -> bool:
    """Whether gap and residual are no larger than others, or so small that it does not matter."""
    gap = max(old.gap or 0.0, SAME * abs(new.primal or 0.0))
    residual = max(old.residual or 0.0, INSIDE)
    return (new.gap or 0.0) <= gap and (new.residual or 0.0) <= residual


def _side(
    a: np.ndarray, box: tuple[np.ndarray, np.ndarray], epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the box of coefficients that do not change their sign, if there is a tube."""
    tube = epsilon > 0
    return np.where(tube & (a >= 0), 0.0, box[0]), np.where(tube & (a <= 0), 0.0, box[1])


def _by_rows(
    p: ScaledTargets,
    rows: Rows,
    box: tuple[np.ndarray, np.ndarray],
    offset: bool,
    start: np.ndarray | None,
    tol: float,
    max_iter: int | None,
    max_time: float | None,
) -> ERMFit:
    """Fit coefficients of points, to the gap and then to the last digit where that is possible."""
    epsilon = getattr(p.loss, "epsilon", 0.0)
    problem = tube_problem(rows, p.y, *box, epsilon, offset)
    begin = None if start is None else [split(start / p.unit, epsilon)]
    raw = solve_all([problem], rows, SMO(tol, max_iter, max_time), begin)[0]
    a = joined(raw.value, epsilon)
    rest: Any = (rows, problem.checked(who()), raw.n_iter, raw.message and raw.extra["why"], tol)
    best = p.judged(a, raw.extra["product"], *rest)
    if raw.converged or "rounding" in raw.message:
        kinks = p.y - epsilon * np.sign(a)  # on the edge of a tube
        better = polished(rows, a, kinks, *_side(a, box, epsilon), offset)
        if better is not None:
            found = p.judged(*better, *rest)
            gap, before = float(found.solution.gap or 0.0), float(best.solution.gap or 0.0)
            if gap <= max(before, 1e-3 * tol * float(found.solution.primal or 0.0)):
                best = found
    if not best.solution.converged:
        a = best.dual_coef / p.unit
        sharp = rows.sharp_product(np.arange(len(a)), a)  # where rounding hides the gap
        if sharp is not None:
            best = replace(p.judged(a, sharp, *rest), product=best.product)
    return best


def warm_start(
    loss: Loss, y: np.ndarray, weights: np.ndarray, a: np.ndarray, before: float, alpha: float
) -> np.ndarray:
    """Return coefficients to begin with, from those for another penalty `before`.

    The function stays as it is, but for coefficients at an end of their box, which stay there.
    """
    if loss.smooth:
        return a
    lowest, highest = dual_slopes(loss, y)
    ends = weights * np.where(a > 0, -lowest, highest) / before
    at = np.abs(a) >= (1 - INSIDE) * ends
    return np.where(at, (1 + INSIDE) * (before / alpha) * a, a)  # the solver clips to the box


@dataclass(frozen=True, eq=False)
class ScaledTargets:
    """The problem for (y − centre)/unit: its penalty is alpha·unit, its value the unit smaller."""

    y: np.ndarray
    loss: Loss
    alpha: float
    weights: np.ndarray
    centre: float
    unit: float

    @classmethod
    def of(
        cls, y: np.ndarray, loss: Loss, alpha: float, weights: np.ndarray, offset: bool
    ) -> ScaledTargets:
        if loss.kind == "classification":
            return cls(y, loss, alpha, weights, 0.0, 1.0)
        none = np.zeros(len(y))
        centre = best_offset(Absolute(), y, none, weights) if offset else 0.0
        y = y - centre
        largest = float(np.abs(y).max(initial=0.0))
        # A power of 2, by which numbers divide without rounding.
        unit = float(np.ldexp(1.0, np.frexp(largest)[1] - 1)) if largest > 0 else 1.0
        if isinstance(loss, EpsilonInsensitive):
            loss = EpsilonInsensitive(loss.epsilon / unit)
        return cls(y / unit, loss, min(alpha * unit, LARGEST), weights, centre, unit)

    def judged(
        self,
        a: np.ndarray,
        f: np.ndarray,
        rows: Rows | DualFeatures,
        box: CheckedBox,
        steps: int,
        said: str,
        tol: float,
        v: np.ndarray | None = None,
    ) -> ERMFit:
        """Return the fit with coefficients a and values f, in the units of the targets as given.

        As Σaᵢ = 0 with an offset, primal − dual = Σ wᵢ(ℓ + ℓ* − uᵢ(fᵢ + b)) with uᵢ = −α aᵢ/wᵢ,
        and no term of that is negative. f is Ka, or Φv for weights v of features, and then there is
        the term (α/2)‖v − Φᵀa‖² as well.
        """
        w, offset = self.weights, bool(box.totals)
        b = best_offset(self.loss, self.y, f, w) if offset else 0.0
        lowest, highest = dual_slopes(self.loss, self.y)
        u = np.clip(-self.alpha * a.astype(f.dtype) / w, lowest, highest)
        losses = self.loss.value(self.y, f + b)
        terms = losses + self.loss.conjugate(self.y, u) - u * (f + b)
        square, apart, distance = float(a @ f), 0.0, 0.0
        noise = rounding_of(a, np.sqrt(np.maximum(rows.diagonal, 0.0)), f.dtype)
        if v is not None and isinstance(rows, DualFeatures):
            eps = float(np.finfo(f.dtype).eps)
            lack = np.asarray(v - rows.F.T @ a.astype(f.dtype), dtype=float)
            spread = float(np.linalg.norm(np.abs(rows.F).T @ np.abs(a)))
            far = float(np.linalg.norm(lack)) + eps * len(a) * spread
            square, apart = float(v @ v), 0.5 * self.alpha * far**2
            noise = eps * len(v) * (np.abs(rows.F) @ np.abs(v))
            noise += 0.5 * EPS * abs(b - float(rows.centre @ v))  # of the offset as it is kept
            noise += 2 * eps * len(v) * float(np.abs(rows.centre) @ np.abs(v))
            distance = float(np.linalg.norm(lack)) / max(spread, LEAST)
        # f is off by at most this, and what that may hide of the gap is part of it
        noise = noise + 4 * np.finfo(f.dtype).eps * (np.abs(self.y) + np.abs(f) + abs(b))
        if self.centre != 0:  # targets and offset were moved
            moved = abs(b + self.centre / self.unit) if b != 0 else 0.0
            noise = noise + EPS * (np.abs(self.y) + moved)
        hidden = float(w * (highest - lowest) @ noise)
        if offset:
            hidden += self.alpha * abs(b * math.fsum(a))
        gap = float(w @ np.maximum(terms, 0.0)) + apart
        primal = self.unit * (float(w @ losses) + 0.5 * self.alpha * square)
        if gap <= hidden:  # no step of the solver can help
            said = ""
        gap = self.unit * (gap + hidden)
        size = max(abs(primal), abs(primal - gap))
        met = gap <= tol * size
        variables = split(a, getattr(self.loss, "epsilon", 0.0))
        point = box.judge(variables, f[box.index], rows.diagonal[box.index])
        solution = Solution(
            value=self.unit * a,
            converged=met,
            n_iter=steps,
            residual=max(distance, point.violation / float(np.abs(self.y).max(initial=1.0))),
            gap=gap,
            primal=primal,
            dual=primal - gap,
            message="" if met else _why(said, gap, size, tol),
        )
        intercept = self.centre + self.unit * b if offset else 0.0
        coef = None if v is None else self.unit * v
        return ERMFit(self.unit * a, intercept, solution, coef, product=self.unit * f)


def _why(said: str, gap: float, size: float, tol: float) -> str:
    """Return what is to be said of a gap above the tolerance; `said` is what the solver says."""
    left = f"duality gap {gap:.2g} of {size:.2g}, tolerance {tol:g}"
    return (
        f"{who()}: {said or 'rounding stops it'} ({left}). Scale the columns, raise alpha or tol, "
        "or allow more steps or time."
    )


def plan_kinked(study: Study) -> Plan:
    """Return the plan of a risk of a loss with kinks: that of a machine, of rows in memory."""
    if study.facts.stream:
        raise InvalidInput(
            f"{who()}: a loss with kinks needs all rows in memory, and these come in blocks; "
            "use a smooth loss, such as 'logistic' or 'huber'."
        )
    plan = plan_box(study)
    return replace(plan, why=plan.why.replace(ONLY, "It is the method for losses with kinks."))
