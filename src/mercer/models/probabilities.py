"""Probabilities of a margin classifier, from held-out decision values of warm-started folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer.errors import ModelFileError
from mercer.models.calibration import fit_sigmoid, from_pairs, from_rest, from_sign, log_from_sign
from mercer.models.dealing import deal_folds
from mercer.models.folds import Tally, fold_machines, values_at, with_time_left
from mercer.models.machines import MarginData
from mercer.models.multiclass import votes
from mercer.solvers import Rows

__all__ = ["ProbabilityMixin", "fit_probabilities"]


def fit_probabilities(model: Any, data: MarginData, rows: Rows, began: float) -> None:
    """Fit the sigmoid of every two-class problem, and store it in the model.

    Five stratified folds on the rows of the fit itself; each begins at the full solution without
    the coefficients of the points it leaves out, which takes few steps where few change.

    Parameters
    ----------
    model : SVC or NuSVC
        The model, its machines stored.
    data : MarginData
        What it was fitted on.
    rows : Rows
        Rows of the Gram matrix.
    began : float
        When the fit began, by ``time.monotonic``: `max_time` limits the whole of it.
    """
    n, owner = len(data.y), type(model).__name__
    fold, counts = deal_folds(data, rows, model.random_state, owner)
    full = np.zeros((len(model.intercept_), n))
    support = model.support_
    full[:, support if data.kept is None else np.searchsorted(data.kept, support)] = (
        model._columns().T
    )
    values, tally = np.empty((n, len(full))), Tally()
    for k in np.unique(fold):
        held = np.flatnonzero(fold == k)
        part = with_time_left(model, began)
        machines = fold_machines(part, data, rows, np.flatnonzero(fold != k), list(full))
        values[held] = values_at(rows, machines, held)
        tally.count(machines)
    tally.warn(owner, "behind the probabilities", "these are approximate")
    if counts.min() < 2:
        name = data.classes[int(counts.argmin())]  # type: ignore[index]
        warnings.warn(
            f"{owner}: class {name!s} has one point, and no other to learn it from while that "
            "one is held out: the probabilities are not calibrated. Give more rows of it, or "
            "use decision_function.",
            UserWarning,
            stacklevel=2,
        )
    sigmoids = []
    for k, task in enumerate(model._tasks(data)):
        at: Any = slice(None) if task.index is None else task.index
        sigmoids.append(fit_sigmoid(values[at, k], task.signs > 0, data.weights[at]))
    model.probA_, model.probB_ = np.array(sigmoids).T.copy()


class _Offered:
    """A method that exists with ``probability=True``; without, the reason is in the error."""

    def __init__(self, method: Callable):
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self.method
        if not getattr(model, "probability", False):
            raise AttributeError(
                f"{type(model).__name__}: it has no {self.method.__name__}; fit with "
                "probability=True."
            )
        return MethodType(self.method, model)


class ProbabilityMixin:
    """Gives a margin classifier `predict_proba` and `predict_log_proba`."""

    probability: bool
    classes_: np.ndarray
    probA_: np.ndarray
    probB_: np.ndarray

    @_Offered
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
        A, B = self._sigmoids()
        values = self._values(X)  # type: ignore[attr-defined]
        k = len(self.classes_)
        if k == 2:
            return from_sign(values[:, 0], A[0], B[0])
        if self._has_pairs():  # type: ignore[attr-defined]
            return from_pairs(values, A, B, votes(values, k).argmax(axis=1))
        return from_rest(values, A, B, values.argmax(axis=1))

    @_Offered
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
        A, B = self._sigmoids()
        if len(self.classes_) == 2:
            return log_from_sign(self._values(X)[:, 0], A[0], B[0])  # type: ignore[attr-defined]
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _sigmoids(self) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        if "probA_" not in vars(self):
            raise NotFittedError(
                f"{type(self).__name__}: it was fitted with probability=False and has no "
                "probabilities; fit with probability=True."
            )
        return self.probA_, self.probB_

    def _check_sigmoids(self, problems: int) -> None:
        """Refuse sigmoids read from a file that do not belong to the problems."""
        if "probA_" not in vars(self) and "probB_" not in vars(self):
            return
        A, B = (np.asarray(vars(self).get(name), dtype=float) for name in ("probA_", "probB_"))
        good = A.shape == B.shape == (problems,)
        if not (good and np.isfinite(A).all() and np.isfinite(B).all() and np.all(A < 0)):
            raise ModelFileError(f"the sigmoids of a {type(self).__name__} do not fit it")
