"""The support vector machine of one class: what most of a sample has in common, and what is odd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.checks import Clock
from mercer.errors import InvalidInput, speaks
from mercer.estimator import KernelEstimator, Sample, assemble, check_weights, follows_data
from mercer.models.margin.machines import (
    MACHINE,
    RULES,
    function_of,
    machine_values,
    plan_machine,
    weights_of_columns,
)
from mercer.models.margin.problems import (
    HUGE,
    SHARE,
    Machine,
    gram_rows,
    is_good,
    solve,
    solver_of,
    square_norm,
    stopped,
    store_one,
)
from mercer.solvers import SMO, BoxQP, Rows, Solution
from mercer.solvers.box import rounding_of

EPS = float(np.finfo(float).eps)
LEAST = 1e-12  # part of tol below which no solution is asked for
RIM = 1e-12  # part of ρ by which it is lowered, so that rounding puts no point below it


class OneClassSVM(OutlierMixin, KernelEstimator):
    r"""Support vector machine of one class, for outliers and novelties.

    Minimises

        ½‖f‖² − ν W ρ + Σᵢ wᵢ max(0, ρ − f(xᵢ)),   W = Σᵢ wᵢ,

    over functions f in the RKHS of the kernel and levels ρ: the hyperplane f = ρ as far from the
    origin as it can be with most of the points beyond it. f = Σ aᵢ k(xᵢ, ·), 0 ≤ aᵢ ≤ wᵢ,
    Σ aᵢ = νW. At most a share ν of the points (by weight) is an outlier, f(x) < ρ, and at least a
    share ν are support vectors.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data, as scikit-learn's gamma="scale".
    nu : float, default=0.5
        The share ν, 0 < ν ≤ 1.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, and largest duality gap relative to the
        objective.
    max_iter : int, optional
        Limit on the solver's steps; −1 and None leave it to the solver.
    max_time : float, optional
        Limit in seconds.

    Attributes
    ----------
    offset_ : array of shape (1,)
        The level ρ: ``decision_function`` is ``score_samples`` minus it.
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    n_support_ : array of shape (1,)
        How many there are.
    dual_coef_ : array of shape (1, n_SV)
        Their coefficients aᵢ.
    intercept_ : array of shape (1,)
        −ρ.
    coef_ : array of shape (1, columns)
        Weights of the columns, for the linear kernel.
    support_kind_ : array of shape (n_SV,)
        "margin" for f(xᵢ) = ρ, "bound" for aᵢ = wᵢ, where f(xᵢ) ≤ ρ up to `tol`.
    n_iter_ : int
        Steps of the solver.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        f − ρ, over the support vectors.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the largest violation of the optimality
        conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, OneClassSVM
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = OneClassSVM(RBF(1.0), nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    _parameters = checks.LIMITS | {"nu": SHARE}
    _offset = 0.0
    _state = MACHINE
    _rules = RULES

    intercept_: np.ndarray
    n_iter_: int

    function_ = property(function_of)
    coef_ = property(weights_of_columns)
    _plan = plan_machine

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.nu = nu
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    @follows_data
    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find what most of the points have in common.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : ignored
            There is one class.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        OneClassSVM
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            checks.check_parameters(self)
            data = self._prepare(X, sample_weight)
            rows = gram_rows(data.kernel, data.X)
            store_one(self, data, self._machine(data, rows))
        return self

    @speaks
    def _prepare(self, X: Any, sample_weight: Any) -> Sample:
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        weights = check_weights(sample_weight, n)
        return assemble(kernel, X, np.zeros(n), weights, weights)

    def _machine(self, data: Sample, rows: Rows) -> Machine:
        w = data.weights
        size = float(rows.diagonal.max(initial=1.0))
        if float(w.max()) * len(w) * max(size, 1.0) > HUGE:
            raise InvalidInput(
                f"OneClassSVM: sample_weight up to {w.max():.3g} with k(x, x) up to {size:.3g} are "
                "more than float64 can square; divide all weights by the same number, which "
                "multiplies f and the level only."
            )
        none, total = np.zeros(len(w)), float(self.nu) * float(w.sum())
        problem = BoxQP(rows.K, none, none, w, (total,))
        solver, steps, start = solver_of(self), 0, None
        tol, limit, clock = float(solver.tol), solver.max_iter, Clock(solver.max_time)
        while True:
            solution = solve(self, [problem], rows, None if start is None else [start], solver)[0]
            steps += solution.n_iter
            machine = self._judged(problem, rows, replace(solution, n_iter=steps), tol)
            if machine.solution.converged or not solution.converged:
                return machine
            # ρ was moved: its gap asks for more
            residual = float(solution.residual or 0.0)
            start, goal = solution.value, min(0.25 * solver.tol, 250 * residual)
            solver = SMO(goal, None if limit is None else max(1, limit - steps), clock.rest())
            if goal < LEAST * tol:
                return machine

    def _judged(self, problem: BoxQP, rows: Rows, solution: Solution, tol: float) -> Machine:
        """Return the machine with the level that is stored, and the certificate of that."""
        a, w, f = solution.value, problem.upper, solution.extra["product"]
        # Where aᵢ < wᵢ optimal is f(xᵢ) ≥ ρ. At that ρ all points below have aᵢ = wᵢ, so their
        # weight is at most νW, whatever the tolerance.
        level = min(solution.extra["multipliers"][0], float(f[a < w].min(initial=np.inf)))
        level -= RIM * abs(level)
        lengths = np.sqrt(np.maximum(rows.diagonal, 0.0))
        error = rounding_of(a, lengths)  # what it may hide of the gap is part of it
        above, below = (f - level) * a, (level - f) * (w - a)
        seen = float(np.maximum(above, below).sum())
        gap = float(np.maximum(above + error * a, below + error * (w - a)).sum())
        gap += abs(level * (math.fsum(a) - problem.totals[0]))
        final = replace(
            solution,
            residual=max(0.0, float((f - level)[a > 0].max(initial=0.0))),
            gap=gap,
            primal=solution.dual + gap,  # type: ignore[operator]
        )
        rim = 2 * RIM * abs(level)
        # Where the minimum is 0 rounding is all there is of a gap, and what it may hide the rest.
        small = EPS * len(w) ** 0.5 * float(a @ lengths) * float(w @ lengths)
        floor = gap if seen <= 2 * small + rim * float(w.sum()) else 0.0
        if is_good(replace(final, residual=final.residual - rim), tol, floor):  # type: ignore[operator]
            final = replace(final, converged=True, message="")
        else:
            text = stopped(solution.message, final, tol, "or scale the columns.")
            final = replace(final, converged=False, message=text)
        return Machine(None, a, a >= w, -level, square_norm(problem, solution), final)

    # -- answers ------------------------------------------------------------------------------
    @property
    def offset_(self) -> np.ndarray:
        """The level ρ, shape (1,)."""
        check_is_fitted(self)
        return -self.intercept_

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) − ρ for each row of X: negative for outliers.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return machine_values(self, X)[:, 0]

    def score_samples(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X: the lower, the odder.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Return +1 for each row of X where f(x) ≥ ρ, and −1 for outliers.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
