"""Support vector regression: a tube of given width, or of a width that ν decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from mercer import checks, state
from mercer.checks import Clock
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    KernelEstimator,
    Sample,
    follows_data,
    prepare_targets,
    r_squared,
    refuse_sums,
)
from mercer.models.margin.left_out import loo_values
from mercer.models.margin.machines import (
    MACHINE,
    RULES,
    TARGETS,
    function_of,
    machine_values,
    plan_machine,
    weights_of_columns,
)
from mercer.models.margin.problems import (
    SHARE,
    Machine,
    check_price,
    gram_rows,
    is_good,
    moved,
    solve,
    solver_of,
    split,
    square_norm,
    store_one,
    tube_problem,
)
from mercer.solvers import SMO, BoxQP, Rows, Solution
from mercer.solvers.box import ROUNDING, halves, rounding_of, stopped_by


def _price(C: Any) -> None:
    """Refuse a C that is no finite number > 0."""
    if checks.as_number(C) == np.inf:
        raise InvalidInput(
            f"{who()}: C={C!r}; give a finite number > 0. The function of least norm with no error "
            "outside the tube is that of every C so large that support_kind_ has no 'bound'; if it "
            "always has one, there is no such function."
        )
    if not checks.POSITIVE.fits(C):
        raise InvalidInput(f"{who()}: C={C!r}; {checks.POSITIVE.says}.")


class MarginRegressor(RegressorMixin, KernelEstimator):
    """Base of `SVR` and `NuSVR`: targets, one problem, predictions."""

    _parameters: checks.Constraints = checks.LIMITS | {
        "fit_intercept": checks.Flag(),
        "C": checks.Read(_price),
    }
    _offset = 0.0
    _state = MACHINE | TARGETS
    _rules = RULES

    C: float
    fit_intercept: bool
    n_iter_: int

    score = r_squared
    function_ = property(function_of)
    coef_ = property(weights_of_columns)
    _plan = plan_machine

    @follows_data
    @speaks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            checks.check_parameters(self)
            data = self._prepare(X, y, sample_weight)
            rows = gram_rows(data.kernel, data.X)
            self._store(data, self._machine(data, rows))
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        return moved(prepare_targets(self, X, y, sample_weight), bool(self.fit_intercept))

    def _store(self, data: Sample, machine: Machine) -> None:
        store_one(self, data, machine)

    @speaks
    def _check_price(self, data: Sample, rows: Rows) -> None:
        """Refuse a C, or targets, for which values of f or the objective would overflow."""
        check_price(self, float(self.C), data, rows)
        refuse_sums(data.y, float(self.C) * float(data.weights.sum()))

    def _machine(self, data: Sample, rows: Rows) -> Machine:
        """Solve the problem."""
        raise InvalidInput(f"{type(self).__name__}: use SVR or NuSVR.")

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) + b for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return machine_values(self, X)[:, 0]

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return about the predictions at the training points, each from a fit without it.

        An approximation, the span rule: exact where leaving the point out makes no other
        coefficient reach or leave a bound. Points that are no support vectors keep their values,
        which is exact. Points that the rule moves by more than half the mean error (of more than
        200 rows: the mean error), or that others cannot make up for within their bounds, are left
        out in earnest, by a fit without them: all of up to 200 rows, of more at most 50, and then a
        warning says how many values are unreliable. For
        `NuSVR` the rule is about the `SVR` that has the same solution.

        Parameters
        ----------
        X : collection of n points
            The training points again, since the model keeps only the support vectors among them;
            the training Gram matrix when precomputed.

        Returns
        -------
        array of shape (n,)
            The predictions.
        """
        return loo_values(self, X)[:, 0]


class SVR(MarginRegressor):
    r"""Support vector regression: errors inside a tube of width ε cost nothing.

    Minimises

        ½‖f‖² + C Σᵢ wᵢ max(0, |yᵢ − f(xᵢ) − b| − ε)

    over functions f in the RKHS of the kernel and offsets b. f = Σ aᵢ k(xᵢ, ·) with |aᵢ| ≤ C wᵢ:
    aᵢ = 0 inside the tube, between the bounds on its edge, ±C wᵢ outside of it.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data, as scikit-learn's gamma="scale".
    C : float, default=1.0
        The price C > 0 of an error outside the tube.
    epsilon : float, default=0.1
        Half the width ε ≥ 0 of the tube, in the units of y.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in the units of y, and largest duality gap
        relative to the objective.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    max_iter : int, optional
        Limit on the solver's steps; −1 and None leave it to the solver.
    max_time : float, optional
        Limit in seconds.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    n_support_ : array of shape (1,)
        How many there are.
    dual_coef_ : array of shape (1, n_SV)
        Their coefficients aᵢ.
    intercept_ : array of shape (1,)
        The offset, 0 without `fit_intercept`.
    coef_ : array of shape (1, columns)
        Weights of the columns, for the linear kernel.
    support_kind_ : array of shape (n_SV,)
        "margin" on the edge of the tube, "bound" for |aᵢ| = C wᵢ.
    n_iter_ : int
        Steps of the solver.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        The fitted function, over the support vectors.
    y_fit_ : array of shape (n,)
        Targets of the training rows, kept for `loo`.
    weights_fit_ : array of shape (n,), or None
        Weights of the training rows; None where all are 1.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the largest violation of the optimality
        conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(RBF(1.0), C=100.0, epsilon=0.01).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.012)
    True
    >>> len(model.support_) < 15
    True
    """

    _parameters = {"epsilon": checks.NONNEGATIVE}

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_time = max_time

    def _machine(self, data: Sample, rows: Rows, start: Any = None) -> Machine:
        """Minimise ½aᵀKa − yᵀa + ε Σ|aᵢ|; a = rise + fall, one variable each where ε > 0."""
        self._check_price(data, rows)
        y, epsilon, bound = data.y, float(self.epsilon), float(self.C) * data.weights
        problem = tube_problem(rows, y, -bound, bound, epsilon, bool(self.fit_intercept))
        starts = None if start is None else [split(start, epsilon)]
        solution = solve(self, [problem], rows, starts)[0]
        a, multipliers = solution.value, solution.extra["multipliers"]
        intercept = -multipliers[0] if multipliers else 0.0
        square = square_norm(problem, solution)
        if epsilon > 0:
            rise, fall = halves(a)
            a, solution = rise + fall, _without_overlap(solution, rise, fall, epsilon)
        return Machine(None, a, np.abs(a) >= bound, intercept, square, solution)


def _without_overlap(
    solution: Solution, rise: np.ndarray, fall: np.ndarray, epsilon: float
) -> Solution:
    """Return the certificate of rise + fall, whose dual value counts ε for the difference only."""
    twice = 2 * epsilon * float(np.minimum(rise, -fall).sum())
    if twice == 0:
        return solution
    dual, primal = solution.dual + twice, solution.primal  # type: ignore[operator]
    gap = max(0.0, solution.gap - twice)  # type: ignore[operator]
    return replace(solution, dual=min(dual, primal), gap=gap)  # type: ignore[type-var]


class NuSVR(MarginRegressor):
    r"""Support vector regression whose tube is as wide as a share ν of the points makes it.

    Minimises

        ½‖f‖² + C (ν W ε + Σᵢ wᵢ max(0, |yᵢ − f(xᵢ) − b| − ε)),   W = Σᵢ wᵢ,

    over functions f in the RKHS of the kernel, offsets b and ε ≥ 0. At most a share ν of the
    points (by weight) is outside the tube, and, if ε > 0, at least a share ν are support vectors.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data, as scikit-learn's gamma="scale".
    nu : float, default=0.5
        The share ν, 0 < ν ≤ 1.
    C : float, default=1.0
        The price C > 0 of an error outside the tube.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in the units of y, and largest duality gap
        relative to the objective.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    max_iter : int, optional
        Limit on the solver's steps; −1 and None leave it to the solver.
    max_time : float, optional
        Limit in seconds.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube. `SVR` with this ε has the same solution.
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    n_support_ : array of shape (1,)
        How many there are.
    dual_coef_ : array of shape (1, n_SV)
        Their coefficients.
    intercept_ : array of shape (1,)
        The offset, 0 without `fit_intercept`.
    coef_ : array of shape (1, columns)
        Weights of the columns, for the linear kernel.
    support_kind_ : array of shape (n_SV,)
        "margin" on the edge of the tube, "bound" for |aᵢ| = C wᵢ.
    n_iter_ : int
        Steps of the solver.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        The fitted function, over the support vectors.
    y_fit_ : array of shape (n,)
        Targets of the training rows, kept for `loo`.
    weights_fit_ : array of shape (n,), or None
        Weights of the training rows; None where all are 1.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the largest violation of the optimality
        conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = NuSVR(RBF(1.0), nu=0.2, C=100.0, tol=1e-6).fit(X, np.sin(X[:, 0]))
    >>> bool((model.support_kind_ == "bound").mean() * len(model.support_) <= 0.2 * 50)
    True
    """

    _parameters = {"nu": SHARE}
    _state = MarginRegressor._state | {
        "epsilon_": state.Floats(least=0, says="a {} with a tube of {}")
    }

    epsilon_: float

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.nu = nu
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_time = max_time

    def _machine(self, data: Sample, rows: Rows) -> Machine:
        """Minimise ½aᵀKa − yᵀa with Σ|aᵢ| = CνW; with an offset each half of it by itself.

        f − y is −ε − b where aᵢ > 0 is free and ε − b where aᵢ < 0 is. That the sum is reached,
        not only bounded, changes nothing: where ε = 0 the two variables of a point may both grow.
        They may grow so large that their rounding is more than their difference. Then the problem
        without the sum is solved, which is that of ε = 0 if the sum is within its bound.
        """
        self._check_price(data, rows)
        solver = solver_of(self)
        limit, clock = solver.max_iter, Clock(solver.max_time)
        problem = self._problem(data, rows)
        solution = solve(self, [problem], rows, None, solver)[0]
        a, multipliers = solution.value, solution.extra["multipliers"]
        if self.fit_intercept:
            intercept, epsilon = -sum(multipliers) / 2, (multipliers[1] - multipliers[0]) / 2
        else:
            a, intercept, epsilon = a * problem.signs, 0.0, -multipliers[0]
        coef = np.add(*halves(a))
        machine = self._judged(data, rows, solution, coef, intercept, epsilon)
        rest = None if limit is None else limit - solution.n_iter
        if machine.solution.converged or clock.late or (rest is not None and rest < 1):
            return machine
        y, bound = data.y, float(self.C) * data.weights
        problem = tube_problem(rows, y, -bound, bound, 0.0, bool(self.fit_intercept))
        solver = SMO(solver.tol, rest, clock.rest(), solver.callback)
        other = solve(self, [problem], rows, None, solver)[0]
        other = replace(other, n_iter=solution.n_iter + other.n_iter)
        if float(np.abs(other.value).sum()) > self._total(data):
            return machine
        intercept = -sum(other.extra["multipliers"])
        plain = self._judged(data, rows, other, other.value, intercept, 0.0)
        return plain if plain.solution.gap < machine.solution.gap else machine  # type: ignore[operator]

    def _total(self, data: Sample) -> float:
        """Return CνW, which Σ|aᵢ| may not exceed."""
        return float(self.C) * float(self.nu) * float(data.weights.sum())

    def _problem(self, data: Sample, rows: Rows) -> BoxQP:
        y, n, bound = data.y, len(data.y), float(self.C) * data.weights
        none, both = np.zeros(n), np.tile(np.arange(n), 2)
        side, total = np.repeat([0, 1], n), self._total(data)
        if self.fit_intercept:
            low, high = np.concatenate([none, -bound]), np.concatenate([bound, none])
            halves = (total / 2, -total / 2)
            return BoxQP(rows.K, np.tile(-y, 2), low, high, halves, side, both)
        p, signs = np.concatenate([-y, y]), 1.0 - 2.0 * side
        high = np.tile(bound, 2)
        return BoxQP(rows.K, p, np.zeros(2 * n), high, (total,), None, both, signs)

    def _judged(
        self,
        data: Sample,
        rows: Rows,
        solution: Solution,
        coef: np.ndarray,
        intercept: float,
        epsilon: float,
    ) -> Machine:
        """Return the machine with the certificate of what is stored: coefficients, b and ε ≥ 0.

        With Σ|aᵢ| ≤ CνW and e = y − f − b the gap is Σ (Cwᵢ max(0, |eᵢ| − ε) + ε|aᵢ| − aᵢeᵢ)
        + ε(CνW − Σ|aᵢ|) − bΣaᵢ. What rounding may hide of it is part of it.
        """
        y, sizes, tol, epsilon = data.y, np.abs(coef), float(self.tol), max(0.0, float(epsilon))
        bound, root = float(self.C) * data.weights, np.sqrt(np.maximum(rows.diagonal, 0.0))
        beside = epsilon * abs(self._total(data) - math.fsum(sizes))
        beside += abs(intercept * math.fsum(coef))
        size = float(np.abs(y) @ sizes) + 0.5 * float(root @ sizes) ** 2

        def terms(e: np.ndarray) -> np.ndarray:
            return bound * np.maximum(0.0, np.abs(e) - epsilon) + epsilon * sizes - coef * e

        def judged(f: np.ndarray) -> Solution:
            e, eps = y - f - intercept, float(np.finfo(f.dtype).eps)
            error = rounding_of(coef, root, f.dtype)
            error += eps * (np.abs(f) + np.abs(y) + abs(intercept))
            gap = float(np.maximum(terms(e - error), terms(e + error)).sum()) + beside
            dual = float(y @ coef - 0.5 * (coef @ f))
            known: dict[str, Any] = {
                "gap": gap,
                "primal": dual + gap,
                "dual": dual,
                "extra": {"epsilon": epsilon},
            }
            final = replace(solution, **known)
            floor = 0.0
            if abs(dual) <= ROUNDING * size:  # the minimum is 0: all of the gap is rounding
                floor = ROUNDING * float(bound @ (np.abs(y) + abs(intercept)))
            if is_good(final, tol, floor):
                return replace(final, converged=True, message="")
            text = stopped_by(solution.extra["cause"], final, tol)
            return replace(final, converged=False, message=text)

        final, points = judged(solution.extra["product"]), np.flatnonzero(coef)
        sharp = None if final.converged else rows.sharp_product(points, coef[points])
        final = final if sharp is None else judged(sharp)
        square = float(coef @ solution.extra["product"])
        return Machine(None, coef, sizes >= bound, intercept, square, final)

    def _store(self, data: Sample, machine: Machine) -> None:
        self.epsilon_ = machine.solution.extra["epsilon"]
        super()._store(data, machine)
