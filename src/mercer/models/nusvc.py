"""The support vector classifier with the parameter ν in place of C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, NotSeparable
from mercer.models.hard_margin import COINCIDE, common_point, side_name
from mercer.models.machines import (
    Machine,
    MarginData,
    one_by_one,
    solve_in_own_unit,
    square_norm,
)
from mercer.models.margin_classifier import MarginClassifier
from mercer.models.multiclass import Task
from mercer.solvers import SMO, BoxQP, Rows, Solution

__all__ = ["NuSVC"]


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
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As for `SVC`.
    support_kind_, margin_, loo_bound_, n_iter_, kernel_, function_
        As for `SVC`; that `loo_bound_` bounds the leave-one-out error holds for C kept, not ν.
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

    _learned = (*MarginClassifier._learned, "C_")

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str = "ovo",
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
        self.probability = probability
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        self._check_share("nu")

    def _machines(self, data: MarginData, rows: Rows) -> list[Machine]:
        problems = [_Reduced(self, data, rows, task) for task in self._tasks(data)]
        with self._named():
            return [problem.machine(one) for problem, one in one_by_one(self._solver(), problems)]

    def _store(self, data: MarginData, machines: Sequence[Machine]) -> None:
        super()._store(data, machines)
        values = np.array([machine.solution.extra["C"] for machine in machines])
        self.C_ = float(values[0]) if len(data.classes) == 2 else values  # type: ignore[arg-type]


class _Reduced:
    """The problem of one task: nearest points of two hulls with weights bounded by wᵢ."""

    def __init__(self, model: NuSVC, data: MarginData, rows: Rows, task: Task):
        self.rows, self.task, self.data = rows, task, data
        self.nu, self.offset = float(model.nu), bool(model.fit_intercept)
        self.w = data.weights if task.index is None else data.weights[task.index]
        self.total = self.nu * float(self.w.sum())
        y = task.signs
        self.zero, self.groups = np.zeros(len(y)), (y < 0).astype(np.int64)
        diagonal = rows.diagonal if task.index is None else rows.diagonal[task.index]
        self.largest = float(diagonal.max())
        if self.offset:
            self.check_reachable()

    def check_reachable(self) -> None:
        positive = self.task.signs > 0
        sides = np.array([self.w[positive].sum(), self.w[~positive].sum()])
        limit = float(2 * sides.min() / sides.sum())
        if self.nu > limit * (1 + 1e-12):
            raise InvalidInput(
                f"NuSVC: nu={self.nu:g} is infeasible for {self.names()}: the smaller side has "
                f"{limit / 2:.4g} of the weight, so nu is at most {limit:.6g}. Give a smaller nu, "
                "or class_weight='balanced'."
            )

    def problem(self, unit: float) -> BoxQP:
        """Return the dual problem in a = yα, times `unit`: minimise ½aᵀKa, a between 0 and w y."""
        y, index, K = self.task.signs, self.task.index, self.rows.K
        total = unit * self.total
        if self.offset:
            box = unit * self.w * y
            low, high = np.minimum(box, 0.0), np.maximum(box, 0.0)
            sums = (0.5 * total, -0.5 * total)
            return BoxQP(K, self.zero, low, high, sums, self.groups, index)
        return BoxQP(K, self.zero, self.zero, unit * self.w, (total,), index=index, signs=y)

    def margin(self, problem: BoxQP, solution: Solution) -> float:
        """Return ρ in the unit of the problem, or refuse a margin of 0."""
        total = abs(problem.totals[0]) * (2 if self.offset else 1)
        square = square_norm(problem, solution)
        # ‖f‖² = νWρ − Σ wξ, so ρ ≥ ‖f‖²/νW, and ρ = 0 where f = 0: the reduced hulls meet.
        unit = abs(problem.totals[0])
        if square <= COINCIDE * unit**2 * self.largest:
            raise NotSeparable(
                f"NuSVC: nu={self.nu:g} is too small for {self.names()}: these classes overlap so "
                f"much, in the feature space of {self.data.kernel!r}, that every function with so "
                "few margin violations has margin 0; the certificate proves it. Give a larger nu, "
                "or a kernel that separates more, such as one of a shorter length scale.",
                common_point(
                    self.data, self.task, solution.value / unit, square / unit**2, self.largest
                ),
            )
        b = solution.extra["multipliers"]
        return max(0.5 * (b[0] - b[1]) if self.offset else b[0], square / total)

    def unit(self, problem: BoxQP, solution: Solution) -> float:
        """Return the unit in which ρ = 1, that is C."""
        unit = abs(problem.totals[0]) * (2 if self.offset else 1) / self.total
        return unit / self.margin(problem, solution)

    def machine(self, solver: SMO) -> Machine:
        """Solve, and divide by ρ."""
        largest = self.largest * self.total
        first = 1.0 / largest if largest > 0 else 1.0
        problem, solution = solve_in_own_unit(self.problem, self.unit, first, self.rows, solver)
        rho, C = self.margin(problem, solution), self.unit(problem, solution)
        a, y, b = solution.value, self.task.signs, solution.extra["multipliers"]
        edge = np.where(y > 0, problem.upper, problem.lower) if self.offset else problem.upper
        coef = (a if self.offset else a * y) / rho
        square = square_norm(problem, solution) / rho**2
        dual = float(np.abs(coef).sum()) - 0.5 * square
        gap = float(solution.gap) / rho**2  # type: ignore[arg-type]
        certificate = Solution(
            value=coef,
            converged=solution.converged,
            n_iter=solution.n_iter,
            residual=float(solution.residual) / rho,  # type: ignore[arg-type]
            gap=gap,
            primal=dual + gap,
            dual=dual,
            message=solution.message,
            extra={"C": C},
        )
        intercept = -0.5 * (b[0] + b[1]) / rho if self.offset else 0.0
        bound = (a != 0) & (a == edge)
        return Machine(self.task.index, coef, bound, float(intercept), square, certificate)

    def names(self) -> str:
        """Return the two sides in words."""
        task = self.task
        return (
            f"{side_name(self.data, task.positive)} against {side_name(self.data, task.negative)}"
        )
