"""The support vector classifier with penalty C, C = ∞ the hard margin; what it shares with ν."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer import checks, state
from mercer.checks import Clock
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    KernelEstimator,
    Sample,
    accuracy,
    choose_class,
    follows_data,
    prepare_labels,
)
from mercer.models.margin.folds import generator
from mercer.models.margin.hard import hard_machines, hard_where_possible
from mercer.models.margin.left_out import loo_values
from mercer.models.margin.machines import (
    MACHINE,
    RULES,
    TARGETS,
    function_of,
    has_pairs,
    machine_values,
    n_problems,
    plan_machine,
    weights_of_columns,
)
from mercer.models.margin.path import SVCPath, path_along_C
from mercer.models.margin.probabilities import (
    fit_probabilities,
    log_probabilities,
    offered,
    probabilities,
)
from mercer.models.margin.problems import (
    Machine,
    Task,
    binary_tasks,
    check_price,
    gram_rows,
    moved,
    soft_machines,
    solver_of,
    store,
    votes,
)
from mercer.solvers import SMO, Rows, Solution

LARGE = 1e8  # C·k(x, x) from which it is worth trying whether the hard margin is the solution
LARGE_STEPS = 10**6


NO_SIGMOIDS = "the sigmoids of a {} do not fit it"


def _fits_classes(model: Any) -> bool:
    k = len(model.classes_)
    return (
        k >= 2
        and len(model.dual_coef_) in ({1} if k == 2 else {k - 1, k})
        and np.sum(model.n_support_) == len(model.support_)
        and np.shape(model.margin_) == (() if k == 2 else (n_problems(model),))
    )


def _has_both_numbers(model: Any) -> bool:
    return ("probA_" in vars(model)) == ("probB_" in vars(model))


class MarginClassifier(ClassifierMixin, KernelEstimator):
    """Base of `SVC` and `NuSVC`."""

    _parameters: checks.Constraints = checks.LIMITS | {
        "fit_intercept": checks.Flag(),
        "probability": checks.Flag(),
        "random_state": checks.Read(generator),
        "multi_class": checks.Word(
            "ovo", "ovr", says="give 'ovo' (one against one) or 'ovr' (one against the rest)"
        ),
        "decision_function_shape": checks.Word(
            "ovr",
            "ovo",
            says="give 'ovr' (a column for each class) or 'ovo' (one for each pair)",
        ),
    }
    _offset = 0.0
    _state = (
        MACHINE
        | {
            "classes_": state.Labels("c", says=state.CLASSES_MISFIT),
            "n_support_": state.Array("c", least=0, says=state.CLASSES_MISFIT),
            "margin_": state.Array(..., says=state.CLASSES_MISFIT),
            "loo_bound_": state.Anything(),
            "probA_": state.Floats(n_problems, below=0, says=NO_SIGMOIDS, needed=False),
            "probB_": state.Floats(n_problems, says=NO_SIGMOIDS, needed=False),
        }
        | TARGETS
    )
    _rules = (*RULES, (state.CLASSES_MISFIT, _fits_classes), (NO_SIGMOIDS, _has_both_numbers))

    fit_intercept: bool
    class_weight: Any
    multi_class: str
    decision_function_shape: str = "ovr"  # what files of before it was a parameter mean
    probability: bool
    support_: np.ndarray
    support_kind_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    solution_: Solution
    classes_: np.ndarray
    n_support_: np.ndarray

    score = accuracy
    function_ = property(function_of)
    coef_ = property(weights_of_columns)
    _plan = plan_machine

    @follows_data
    @speaks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            clock = Clock(self.max_time)
            checks.check_parameters(self)
            data = self._prepare(X, y, sample_weight)
            rows = gram_rows(data.kernel, data.X)
            self._store(data, self._machines(data, rows))
            self._after_fit(data, rows, clock)
            self.solution_.unwrap()
        return self

    # -- steps of a fit -----------------------------------------------------------------------
    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        """Return checked data; of the classes only those that have a row of positive weight."""
        if self.decision_function_shape == "ovo" and self.multi_class == "ovr":
            raise InvalidInput(
                f"{who()}: decision_function_shape='ovo'; give 'ovr' (a column for each class), as "
                "multi_class='ovr' has no pairs."
            )
        data = prepare_labels(self, X, y, sample_weight, self.class_weight)
        return moved(data, bool(self.fit_intercept))

    def _tasks(self, data: Sample, among: np.ndarray | None = None) -> list[Task]:
        """Return the two-class problems, on all points or on those at some positions."""
        return binary_tasks(data.y, len(data.classes), self.multi_class, among)  # type: ignore[arg-type]

    def _machines(self, data: Sample, rows: Rows) -> list[Machine]:
        """Solve every two-class problem."""
        raise InvalidInput(f"{type(self).__name__}: use SVC or NuSVC.")

    def _after_fit(self, data: Sample, rows: Rows, clock: Clock) -> None:
        """Do what a fit does once its machines are stored."""
        if self.probability:
            fit_probabilities(self, data, rows, clock)

    def _store(self, data: Sample, machines: Sequence[Machine]) -> None:
        store(self, data, machines)
        support = self.support_ if data.kept is None else np.searchsorted(data.kept, self.support_)
        k = len(data.classes)  # type: ignore[arg-type]
        self.classes_ = np.asarray(data.classes)
        self.n_support_ = np.bincount(data.y[support], minlength=k).astype(np.int32)
        self.n_iter_ = np.array([max(1, machine.solution.n_iter) for machine in machines])
        with np.errstate(divide="ignore"):
            margins = 1.0 / np.sqrt([max(0.0, machine.square) for machine in machines])
        self.margin_ = float(margins[0]) if k == 2 else margins
        if data.repeats is None:
            self.loo_bound_ = len(support) / len(data.y)
        else:
            self.loo_bound_ = float(data.repeats[support].sum() / data.repeats.sum())

    # -- answers ------------------------------------------------------------------------------
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) + b, positive for the second class; one column a class where there are more.

        With ``multi_class="ovo"`` a column is the votes of a class over its pairs, plus less than a
        third that grows with its values in them; `pairwise_decision_function` gives these, and so
        does this method with ``decision_function_shape="ovo"``.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._shaped(machine_values(self, X))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Return decision values from those of the problems, as the parameters ask for them."""
        pairs = self.decision_function_shape == "ovo" and has_pairs(self)
        return values if pairs else self._decisions(values)

    def _decisions(self, values: np.ndarray) -> np.ndarray:
        if len(self.classes_) == 2:
            return values[:, 0]
        return votes(values, len(self.classes_)) if has_pairs(self) else values

    @speaks
    def pairwise_decision_function(self, X: Any) -> np.ndarray:
        """Return the value of every pair of classes, positive for its first class.

        The pairs are (0, 1), (0, 2), …, (1, 2), …, as for scikit-learn's
        ``decision_function_shape="ovo"``; of two classes there is one, positive for the second.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        values = machine_values(self, X)
        if len(self.classes_) > 2 and not has_pairs(self):
            raise InvalidInput(
                f"{who()}: it was fitted one against the rest and has no values of "
                "pairs; use multi_class='ovo', or decision_function."
            )
        return values

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, that of the largest decision value of a class.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self._decisions(machine_values(self, X)), self.classes_)

    @offered
    def predict_proba(self, X: Any) -> np.ndarray:
        r"""Return the probability of each class, row by row; exists with ``probability=True``.

        Two classes: :math:`P(y = 1 \mid x) = 1/(1 + \exp(A f(x) + B))` with A < 0, fitted to
        decision values f of points that were held out in five folds, which depend on the points
        and their weights but not on the order of the rows. More: the probabilities of
        the pairs, coupled (Wu, Lin & Weng 2004), or of each class against the rest, normalised.

        `predict` is the same with and without probabilities, and they agree with it always: the
        largest is that of the class predicted. Where the fitted ones favour another class they are
        replaced by the nearest that do not, for two classes by ½ : ½ (less than a thousandth
        off, to keep the order of f). So P(y = 1) never falls as f grows, exceeds ½ where f > 0
        and is below ½ where f < 0.

        With `class_weight`, or sample weights, these are probabilities in the weighted population,
        as predictions are for it.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of ``classes_``; rows sum to 1.
        """
        return probabilities(self, X)

    @offered
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return logarithms of `predict_proba`; exists with ``probability=True``.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Log probabilities; of two classes accurate also where a probability rounds to 0.
        """
        return log_probabilities(self, X)

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return about the class of each training point, predicted by a fit without that point.

        That of the largest decision value of a class by `loo_decision_function`.

        Parameters
        ----------
        X : collection of n points
            The training points again, since the model keeps only the support vectors among them;
            the training Gram matrix when precomputed.

        Returns
        -------
        array of shape (n,)
            The classes, as `predict` returns them.
        """
        values = loo_values(self, X)
        return choose_class(self._decisions(values), self.classes_)

    @speaks
    def loo_decision_function(self, X: Any = None) -> np.ndarray:
        """Return about the decision values at the training points, each from a fit without it.

        An approximation, the span rule: exact where leaving the point out makes no other
        coefficient reach or leave a bound. Points that are no support vectors keep their values,
        which is exact. Points that the rule moves by more than 1/2 (of more than 200 rows: 1), or
        that others cannot make up for within their bounds, are left out in earnest, by a fit
        without them: all of up to 200 rows, of more at most 50, and then a warning says how many
        values are unreliable. For `NuSVC` the rule is about the `SVC` that has the same solution.

        Parameters
        ----------
        X : collection of n points
            The training points again, since the model keeps only the support vectors among them;
            the training Gram matrix when precomputed.

        Returns
        -------
        array of shape (n,), (n, n_classes) or (n, n_pairs)
            As `decision_function` returns them.
        """
        return self._shaped(loo_values(self, X, "loo_decision_function"))


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
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` has a column for each class or, with ``multi_class="ovo"``, one
        for each pair of classes; predictions are the same.
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

    _parameters = {"C": checks.Number(above=0, most=np.inf)}

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
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
        self.C = C
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.probability = probability
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    @follows_data
    @speaks
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

    @speaks
    def _machines(
        self,
        data: Sample,
        rows: Rows,
        C: float | None = None,
        tasks: Sequence[Task] | None = None,
        starts: Any = None,
    ) -> list[Machine]:
        C, offset = float(self.C if C is None else C), bool(self.fit_intercept)
        tasks = self._tasks(data) if tasks is None else tasks
        solver = solver_of(self)
        if np.isinf(C):
            return hard_machines(data, rows, tasks, solver, offset)
        check_price(self, C, data, rows)
        clock, hard = Clock(solver.max_time), dict[int, Machine]()
        if starts is None and solver.max_iter is None and _is_large(C, data, rows):
            limited = SMO(solver.tol, LARGE_STEPS, solver.max_time, solver.callback)
            hard = hard_where_possible(data, rows, tasks, limited, offset, C)
        rest = [task for i, task in enumerate(tasks) if i not in hard]
        one = SMO(solver.tol, solver.max_iter, clock.rest(), solver.callback)
        soft = iter(soft_machines(self, data, rows, rest, [C] * len(rest), starts, one))
        return [hard[i] if i in hard else next(soft) for i in range(len(tasks))]


def _is_large(C: float, data: Sample, rows: Rows) -> bool:
    """Whether C may be as good as infinite."""
    return C * float(rows.diagonal.max()) * float(data.weights.min()) >= LARGE
