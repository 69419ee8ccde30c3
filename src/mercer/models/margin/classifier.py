"""What the support vector classifiers share: labels, two-class problems, votes, margins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import KernelEstimator, MarginData, accuracy, choose_class, prepare_labels
from mercer.models.margin.left_out import loo_values
from mercer.models.margin.machines import (
    LEARNED,
    check_state,
    function_of,
    has_pairs,
    n_problems,
    solver_of,
    store,
    values,
    weights_of_columns,
)
from mercer.models.margin.probabilities import (
    check_sigmoids,
    fit_probabilities,
    log_probabilities,
    offered,
    probabilities,
)
from mercer.models.margin.problems import Machine, Task, binary_tasks, gram_rows, votes
from mercer.solvers import Rows, Solution


class MarginClassifier(ClassifierMixin, KernelEstimator):
    """Base of `SVC` and `NuSVC`."""

    _learned: tuple[str, ...] = (
        *LEARNED,
        "classes_",
        "n_support_",
        "margin_",
        "loo_bound_",
        "probA_",
        "probB_",
        "y_fit_",
        "weights_fit_",
    )

    fit_intercept: bool
    class_weight: Any
    multi_class: str
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
    _values = values

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
        with self._all_or_nothing():
            began = time.monotonic()
            self._check_params()
            data = self._prepare(X, y, sample_weight)
            rows = gram_rows(data.kernel, data.X, type(self).__name__)
            self._store(data, self._machines(data, rows))
            self._after_fit(data, rows, began)
            self.solution_.unwrap()
        return self

    # -- steps of a fit -----------------------------------------------------------------------
    def _check_params(self) -> None:
        """Refuse illegal parameters before any work."""
        solver_of(self)
        self._check_flags()
        if self.multi_class not in ("ovo", "ovr"):
            raise InvalidInput(
                f"{type(self).__name__}: multi_class={self.multi_class!r}; give 'ovo' (one against "
                "one) or 'ovr' (one against the rest)."
            )

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> MarginData:
        """Return checked data; of the classes only those that have a row of positive weight."""
        return prepare_labels(self, X, y, sample_weight, self.class_weight)

    def _tasks(self, data: MarginData, among: np.ndarray | None = None) -> list[Task]:
        """Return the two-class problems, on all points or on those at some positions."""
        return binary_tasks(data.y, len(data.classes), self.multi_class, among)  # type: ignore[arg-type]

    def _machines(self, data: MarginData, rows: Rows) -> list[Machine]:
        """Solve every two-class problem."""
        raise InvalidInput(f"{type(self).__name__}: use SVC or NuSVC.")

    def _after_fit(self, data: MarginData, rows: Rows, began: float) -> None:
        """Do what a fit does once its machines are stored; it began then, by ``time.monotonic``."""
        if self.probability:
            fit_probabilities(self, data, rows, began)

    def _store(self, data: MarginData, machines: Sequence[Machine]) -> None:
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
        third that grows with its values in them; `pairwise_decision_function` gives these.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decisions(self._values(X))

    def _decisions(self, values: np.ndarray) -> np.ndarray:
        if len(self.classes_) == 2:
            return values[:, 0]
        return votes(values, len(self.classes_)) if has_pairs(self) else values

    def pairwise_decision_function(self, X: Any) -> np.ndarray:
        """Return the value of every pair of classes, positive for its first class.

        The pairs are (0, 1), (0, 2), …, (1, 2), …, as for scikit-learn's
        ``decision_function_shape="ovo"``; of two classes there is one, positive for the second.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        values = self._values(X)
        if len(self.classes_) > 2 and not has_pairs(self):
            raise InvalidInput(
                f"{type(self).__name__}: it was fitted one against the rest and has no values of "
                "pairs; use multi_class='ovo', or decision_function."
            )
        return values

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, that of the largest decision value.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self.decision_function(X), self.classes_)

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

    def loo(self, X: Any = None) -> np.ndarray:
        """Return about the class of each training point, predicted by a fit without that point.

        That of the largest of `loo_decision_function`.

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
        array of shape (n,) or (n, n_classes)
            As `decision_function` returns them.
        """
        return self._decisions(loo_values(self, X, "loo_decision_function"))

    # -- files --------------------------------------------------------------------------------
    def _check_state(self) -> None:
        check_state(self)
        if "dual_coef_" not in vars(self):
            return
        classes, k = self.classes_, len(self.classes_)
        shape = () if k == 2 else (n_problems(self),)
        if not (
            k >= 2
            and len(np.unique(classes)) == k
            and np.shape(self.dual_coef_)[0] in ({1} if k == 2 else {k - 1, k})
            and np.shape(self.n_support_) == (k,)
            and np.sum(self.n_support_) == len(self.support_)
            and np.min(self.n_support_) >= 0
            and np.shape(self.margin_) == shape
        ):
            raise ModelFileError(f"the classes of a {type(self).__name__} do not fit its arrays")
        check_sigmoids(self, n_problems(self))
