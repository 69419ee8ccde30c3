"""The support vector classifier with the parameter ν in place of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer import state
from mercer.errors import InvalidInput, NotSeparable, speaks
from mercer.estimator import Sample
from mercer.models.margin.hard import (
    COINCIDE,
    FINER,
    certified,
    hull_problem,
    kkt_violation,
    solve_in_own_unit,
)
from mercer.models.margin.hulls import common_point, side_name, space_of
from mercer.models.margin.problems import (
    SHARE,
    Machine,
    Task,
    one_by_one,
    solver_of,
    square_norm,
    stopped,
)
from mercer.models.margin.svc import MarginClassifier
from mercer.solvers import SMO, BoxQP, Rows, Solution


class NuSVC(MarginClassifier):
    r"""Support vector classification with ν, the share of margin violations.

    Two classes y ∈ {−1, +1}: minimises, with W = Σ wᵢ,

        ½‖f‖² − νWρ + Σᵢ wᵢ max(0, ρ − yᵢ(f(xᵢ) + b))

    over functions f in the RKHS of the kernel, offsets b and margins ρ; f + b over ρ is the
    decision. It is that of `SVC` with C = 1/ρ. At most a share ν of the rows (of their weight) are
    inside the margin, and at least a share ν are support vectors.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data, as scikit-learn's gamma="scale".
    nu : float, default=0.5
        The share ν in (0, 1]. With an offset it cannot exceed twice the share of the smaller
        class (`InvalidInput`); where it is too small for classes that overlap there is no margin
        ρ > 0 (`NotSeparable`, with a certificate).
    tol : float, default=1e-3
        Largest violation of the optimality conditions, where the margin is 1, and largest duality
        gap relative to the objective.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights; shares are then of weights.
    multi_class : {"ovo", "ovr"}, default="ovo"
        More than two classes: one problem for each pair, or one for each class against the rest.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` has a column for each class or, with ``multi_class="ovo"``, one
        for each pair of classes; predictions are the same.
    probability : bool, default=False
        Whether to fit probabilities as well, for `predict_proba`; predictions stay the same. The
        folds behind them keep `C_`, since ν may be infeasible on a part of the rows.
    max_iter : int, optional
        Limit on the solver's steps in each two-class problem; −1 and None leave it to the solver.
    max_time : float, optional
        Limit in seconds on the whole fit.
    random_state : int, RandomState or None, default=None
        Seed of the folds of `probability`; None stands for 0.

    Attributes
    ----------
    C_ : float or array
        1/ρ, the C with which `SVC` has the same solution; one a problem.
    classes_ : array
        The classes.
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows, class by class.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    n_support_ : array
        How many there are of each class.
    dual_coef_ : array of shape (1, n_SV), (n_classes − 1, n_SV) or (n_classes, n_SV)
        The coefficients, of sizes up to C wᵢ: of two classes, of pairs in LIBSVM's layout, or of
        one class against the rest.
    intercept_ : array
        The offset of every two-class problem, 0 without `fit_intercept`.
    coef_ : array of shape (problems, columns)
        Weights of the columns, for the linear kernel.
    support_kind_ : array of shape (n_SV,)
        "bound" for a coefficient of size C wᵢ in at least one problem, else "margin".
    margin_ : float or array
        Geometric margin 1/‖f‖, where f is 1 on the margin; one a problem where there are more than
        two classes.
    loo_bound_ : float
        Share of support vectors; a bound on the leave-one-out error with C kept, not ν.
    probA_, probB_ : array
        The sigmoid 1/(1 + exp(Af + B)) of every two-class problem, with `probability`.
    n_iter_ : array
        Steps of the solver, for each two-class problem.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        The fitted function, over the support vectors; one output for each two-class problem.
    y_fit_ : array of shape (n,)
        Numbers of the classes of the training rows, kept for `loo`.
    weights_fit_ : array of shape (n,), or None
        Weights of the training rows; None where all are 1.
    solution_ : Solution
        Certificate, that of `SVC` with C = 1/ρ: both have the same gap.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from mercer import NuSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = NuSVC(nu=0.3).fit(X / X.std(0), y)
    >>> bool(len(model.support_) >= 0.3 * len(X) >= (model.support_kind_ == "bound").sum())
    True
    """

    _parameters = {"nu": SHARE}
    _state = MarginClassifier._state | state.others("C_", needed=True)

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str = "ovo",
        decision_function_shape: str = "ovr",
        probability: bool = False,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.nu = nu
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.probability = probability
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    @speaks
    def _machines(self, data: Sample, rows: Rows) -> list[Machine]:
        problems = [_Reduced(self, data, rows, task) for task in self._tasks(data)]
        return [problem.machine(one) for problem, one in one_by_one(solver_of(self), problems)]

    def _store(self, data: Sample, machines: Sequence[Machine]) -> None:
        super()._store(data, machines)
        values = np.array([machine.solution.extra["C"] for machine in machines])
        self.C_ = float(values[0]) if len(data.classes) == 2 else values  # type: ignore[arg-type]


class _Reduced:
    """The problem of one task: nearest points of two hulls with weights bounded by wᵢ."""

    def __init__(self, model: NuSVC, data: Sample, rows: Rows, task: Task):
        self.task, self.data = task, data
        self.nu, self.offset = float(model.nu), bool(model.fit_intercept)
        self.space = space_of(data, rows, task, self.offset, dense=False)
        self.w = data.weights if task.index is None else data.weights[task.index]
        self.total = self.nu * float(self.w.sum())
        self.limit = 1.0
        if self.offset:
            self.check_reachable()

    def check_reachable(self) -> None:
        positive = self.task.signs > 0
        sides = np.array([self.w[positive].sum(), self.w[~positive].sum()])
        self.limit = float(2 * sides.min() / sides.sum())
        if self.nu > self.limit * (1 + 1e-12):
            raise InvalidInput(
                f"NuSVC: nu={self.nu:g} is infeasible for {self.names()}: the smaller side has "
                f"{self.limit / 2:.4g} of the weight, so nu is at most {self.limit:.4g}. Give a "
                "smaller nu, or class_weight='balanced'."
            )

    def problem(self, unit: float) -> BoxQP:
        """Return the dual problem in a = yα, times `unit`: minimise ½aᵀKa, a between 0 and w y."""
        total = unit * self.total * (0.5 if self.offset else 1.0)
        return hull_problem(self.space, unit * self.w, total, self.offset)

    def margin(self, problem: BoxQP, solution: Solution) -> float:
        """Return ρ in the unit of the problem, or refuse a margin of 0."""
        total = abs(problem.totals[0]) * (2 if self.offset else 1)
        square = square_norm(problem, solution)
        # ‖f‖² = νWρ − Σ wξ, so ρ ≥ ‖f‖²/νW, and ρ = 0 where f = 0: the reduced hulls meet.
        size = float(np.abs(solution.value) @ self.space.lengths)
        if square <= COINCIDE * size**2:
            raise self.refusal(np.abs(solution.value) / abs(problem.totals[0]))
        b = solution.extra["multipliers"]
        return max(0.5 * (b[0] - b[1]) if self.offset else b[0], square / total)

    def refusal(self, weights: np.ndarray) -> NotSeparable:
        """Return the error for weights whose combinations cannot be told apart."""
        most = self.w / (self.total / (2 if self.offset else 1))
        certificate = common_point(self.space, weights, self.offset, most)
        where = f"in the feature space of {self.data.kernel}"
        cure = "a kernel that separates more, such as one of a shorter length scale"
        if self.all_the_same(certificate.exact):
            certificate = replace(certificate, distance=0.0, exact=True)
            text = (
                f"{self.names(' and ')} coincide: all their rows are one point {where}, and no nu "
                "has a margin > 0. Check X, or use another kernel."
            )
        elif self.nu >= self.limit * (1 - 1e-9):
            text = (
                f"nu={self.nu:g} is the largest there is for {self.names()}, and still these "
                f"classes overlap so much, {where}, that the margin is 0. Use {cure}."
            )
        else:
            text = (
                f"nu={self.nu:g} is too small for {self.names()}: these classes overlap so much, "
                f"{where}, that every function with so few margin violations has margin 0. Give a "
                f"larger nu, or {cure}."
            )
        apart = "coincide" if certificate.exact else "are too close for float64 to tell"
        return NotSeparable(
            f"NuSVC: {text} The certificate has weighted means of both that {apart}.", certificate
        )

    def all_the_same(self, exact: bool) -> bool:
        """Whether all rows of the task are the same, or the same to a kernel of known features."""
        X, at = self.data.X, self.space.points
        if isinstance(X, np.ndarray) and (X[at] == X[at[0]]).all():
            return True
        some = at[:: max(1, len(at) // 500)]
        return exact and bool(np.ptp(self.space.given.K.block(some, some)) == 0)

    def unit(self, problem: BoxQP, solution: Solution) -> float:
        """Return the unit in which ρ = 1, that is C."""
        unit = abs(problem.totals[0]) * (2 if self.offset else 1) / self.total
        return unit / self.margin(problem, solution)

    def first(self) -> tuple[float, np.ndarray | None]:
        """Return the unit to begin with, and where.

        It is that of the means of both sides, ρ ≈ ‖f‖²/νW, where their rows are there.
        """
        space, y = self.space, self.task.signs
        largest = float(space.lengths.max()) ** 2 * self.total
        unit = 1.0 / largest if largest > 0 else 1.0
        if not (space.rows.whole and space.rows.in_memory):
            return unit, None
        a = self.w * (self.total / float(self.w.sum()))
        if self.offset:
            for side in (y > 0, y < 0):
                a[side] = self.w[side] * (0.5 * self.total / float(self.w[side].sum()))
        at = np.arange(space.rows.n) if space.index is None else space.index
        f = space.rows.product(at, a * y, at)
        square = float((a * y) @ f)
        if square <= COINCIDE * float(a @ space.lengths) ** 2:
            return unit, None
        unit = self.total / square
        return unit, unit * (a * y if self.offset else a)

    def machine(self, solver: SMO) -> Machine:
        """Solve, and divide by ρ."""
        space, tol, y = self.space, float(solver.tol), self.task.signs
        first, start = self.first()
        fine = SMO(FINER * tol, solver.max_iter, solver.max_time, solver.callback)
        problem, solution = solve_in_own_unit(
            self.problem, self.unit, first, space.rows, fine, start
        )
        rho, C = self.margin(problem, solution), self.unit(problem, solution)
        a, b = solution.value, solution.extra["multipliers"]
        edge = np.where(y > 0, problem.upper, problem.lower) if self.offset else problem.upper
        bound = (a != 0) & (a == edge)
        coef = (a if self.offset else a * y) / rho
        f = solution.extra["product"] / rho
        f = f[self.task.index] if len(f) != len(y) else f
        intercept = -0.5 * (b[0] + b[1]) / rho if self.offset else 0.0
        square = square_norm(problem, solution) / rho**2
        if space.centred:  # what is stored is not
            moved = space.values(coef)
            intercept -= float((moved - f).mean())
            f = moved
        violation = kkt_violation(f, y, coef, bound, self.offset)
        cure = "scale the columns, or give a larger nu."

        def why(final: Solution) -> str:
            return stopped(solution.message, final, tol, cure)

        def judged(f: np.ndarray, square: float) -> Solution:
            """Return the certificate, that of SVC with this C, for the function as it is stored."""
            short = 1.0 - y * (f + intercept)
            primal = 0.5 * square + C * float(self.w @ np.maximum(0.0, short))
            errors, hidden = space.rounding(coef, f.dtype)
            hidden += C * float(self.w @ np.clip(short + errors, 0.0, errors))
            return certified(coef, primal, square, violation, solution.n_iter, tol, why, hidden)

        final = judged(f, square)
        sharp = None if final.converged else space.sharp_values(coef)
        final = final if sharp is None else judged(sharp, float(coef @ sharp))
        final = replace(final, extra={"C": C})
        return Machine(self.task.index, coef, bound, float(intercept), square, final)

    def names(self, between: str = " against ") -> str:
        """Return the two sides in words."""
        sides = (self.task.positive, self.task.negative)
        return between.join(side_name(self.data, number) for number in sides)
