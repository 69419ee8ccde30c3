"""The support vector classifier with penalty C; C = ∞ is the hard margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.estimator import MarginData
from mercer.models.margin.classifier import MarginClassifier
from mercer.models.margin.hard import hard_machines, hard_where_possible
from mercer.models.margin.machines import check_positive, check_price, soft_machines, solver_of
from mercer.models.margin.path import SVCPath, path_along_C
from mercer.models.margin.problems import Machine, Task, deadline_of, in_name_of, time_left
from mercer.solvers import SMO, Rows

LARGE = 1e8  # C·k(x, x) from which it is worth trying whether the hard margin is the solution
LARGE_STEPS = 10**6


class SVC(MarginClassifier):
    r"""Support vector classification.

    Two classes y ∈ {−1, +1}: minimises

        ½‖f‖² + C Σᵢ wᵢ max(0, 1 − yᵢ(f(xᵢ) + b))

    over functions f in the RKHS of the kernel and offsets b. f = Σ yᵢαᵢ k(xᵢ, ·) with
    0 ≤ αᵢ ≤ C wᵢ: αᵢ = 0 beyond the margin, between the bounds on it, at C wᵢ inside of it.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data, as scikit-learn's gamma="scale".
    C : float, default=1.0
        The price C > 0 of a margin violation. ``numpy.inf`` asks for the hard margin.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, and largest duality gap relative to the
        objective.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    multi_class : {"ovo", "ovr"}, default="ovo"
        More than two classes: one problem for each pair, or one for each class against the rest.
    probability : bool, default=False
        Whether to fit probabilities as well, for `predict_proba`; predictions stay the same.
    max_iter : int, optional
        Limit on the solver's steps in each two-class problem; −1 and None leave it to the solver.
    max_time : float, optional
        Limit in seconds on the whole fit.
    random_state : int, RandomState or None, default=None
        Seed of the folds of `probability` and `path`; None stands for 0.

    Attributes
    ----------
    classes_ : array
        The classes.
    support_ : array of shape (n_SV,)
        Positions of the support vectors among the training rows, class by class.
    support_vectors_ : collection
        The support vectors; their positions when the kernel is precomputed.
    n_support_ : array
        How many there are of each class.
    dual_coef_ : array of shape (1, n_SV), (n_classes − 1, n_SV) or (n_classes, n_SV)
        The coefficients yᵢαᵢ: of two classes, of pairs in LIBSVM's layout, or of one class against
        the rest.
    intercept_ : array
        The offset of every two-class problem, 0 without `fit_intercept`.
    coef_ : array of shape (problems, columns)
        Weights of the columns, for the linear kernel.
    support_kind_ : array of shape (n_SV,)
        "bound" for αᵢ = C wᵢ in at least one problem, else "margin".
    margin_ : float or array
        Geometric margin 1/‖f‖; one a problem where there are more than two classes.
    loo_bound_ : float
        Share of support vectors, a bound on the leave-one-out error with this very kernel.
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
        Certificate: primal and dual value, their gap, and the largest violation of the optimality
        conditions; over several problems the sums, and the largest violation.

    Examples
    --------
    >>> from mercer import SVC, Polynomial
    >>> X, y = [[-1, -1], [-1, 1], [1, -1], [1, 1]], [0, 1, 1, 0]
    >>> model = SVC(Polynomial(2), C=10.0, tol=1e-9).fit(X, y)
    >>> model.dual_coef_.round(6)
    array([[-0.125, -0.125,  0.125,  0.125]])
    >>> model.decision_function([[2.0, 3.0]]).round(6)
    array([-6.])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
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
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.probability = probability
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    def path(self, X: Any, y: Any, Cs: Any, cv: Any = None, sample_weight: Any = None) -> SVCPath:
        """Fit for many values of C, each from the solution of the one before, on one Gram matrix.

        Every model is the one that ``fit`` finds for its C. With `cv` every C is scored on folds
        that share the Gram matrix too; words of the kernel such as "median" are resolved once, on
        all rows. `max_iter` and `max_time` are limits for each C, the time with its folds. The
        classifier itself is not changed.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        Cs : array-like
            Finite values of C, in any order; they are solved from the smallest to the largest.
        cv : int, splitter or iterable, optional
            Folds to score every C on: a number of stratified folds drawn with `random_state`, a
            splitter of scikit-learn, or pairs of training and test positions.
        sample_weight : float or array of shape (n,), optional
            Weights, in the fits and in the scores.

        Returns
        -------
        SVCPath
            ``Cs``, ``models``, ``n_support``, ``dual``, ``gap``, ``n_iter``, in the order of the
            values given; with `cv` also ``scores`` (one column a fold; else None), ``mean_score``,
            ``best_C`` and ``best_model`` (else `InvalidInput`).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mercer import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> path = SVC().path(X, y, [0.1, 1.0, 10.0], cv=5)
        >>> path.scores.shape, bool(path.mean_score.max() > 0.95)
        ((3, 5), True)
        """
        return path_along_C(self, X, y, Cs, cv, sample_weight)

    def _check_params(self) -> None:
        super()._check_params()
        check_positive(self, "C", infinite=True)

    def _machines(
        self,
        data: MarginData,
        rows: Rows,
        C: float | None = None,
        tasks: Sequence[Task] | None = None,
        starts: Any = None,
    ) -> list[Machine]:
        C, offset = float(self.C if C is None else C), bool(self.fit_intercept)
        tasks = self._tasks(data) if tasks is None else tasks
        solver, owner = solver_of(self), type(self).__name__
        if np.isinf(C):
            with in_name_of(owner):
                return hard_machines(data, rows, tasks, solver, offset, owner)
        check_price(self, C, data, rows)
        deadline, hard = deadline_of(solver), dict[int, Machine]()
        if starts is None and solver.max_iter is None and _is_large(C, data, rows):
            limited = SMO(solver.tol, LARGE_STEPS, solver.max_time, solver.callback)
            with in_name_of(owner):
                hard = hard_where_possible(data, rows, tasks, limited, offset, C)
        rest = [task for i, task in enumerate(tasks) if i not in hard]
        one = SMO(solver.tol, solver.max_iter, time_left(deadline), solver.callback)
        soft = iter(soft_machines(self, data, rows, rest, [C] * len(rest), starts, one))
        return [hard[i] if i in hard else next(soft) for i in range(len(tasks))]


def _is_large(C: float, data: MarginData, rows: Rows) -> bool:
    """Whether C may be as good as infinite."""
    return C * float(rows.diagonal.max()) * float(data.weights.min()) >= LARGE
