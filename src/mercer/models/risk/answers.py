"""What a fitted risk estimator says of its own rows: left-out predictions, degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.estimator import (
    ValuedEstimator,
    choose_class,
    class_signs,
    log_probabilities,
    take_rows,
)
from mercer.losses import Logistic, Loss
from mercer.models.risk.left_out import (
    freedom_smooth,
    freedom_softmax,
    loo_dual,
    loo_smooth,
    loo_softmax,
)
from mercer.models.risk.smooth import smooth_rows
from mercer.operators import LowRank, Operator
from mercer.solvers import Solution
from mercer.solvers.risk import log_softmax

OTHER = 1e-3  # relative residual that no rounding explains


def _has_curvature(model: Any) -> bool:
    return "loss_" not in vars(model) or bool(model.loss_.smooth)


def classifies(model: Any) -> bool:
    """Whether the loss is one of classification."""
    return model._kind() == "classification"


def has_probabilities(model: Any) -> bool:
    """Whether the loss is the logistic one."""
    try:
        return isinstance(model._risk(), Logistic)
    except InvalidInput:  # fit will say what is wrong
        return False


class RiskAnswers(ValuedEstimator):
    """Base of fitted risk estimators: what needs the training rows once more."""

    alpha_: float
    fit_intercept_: bool
    classes_: np.ndarray
    y_fit_: np.ndarray
    sample_weight_: np.ndarray | None
    solution_: Solution
    loss_: Loss

    def _risk(self) -> Loss:
        """Return the loss that the parameters ask for."""
        raise InvalidInput(f"{type(self).__name__}: use KernelERM.")

    def _kind(self) -> str | None:
        """Return "classification" or "regression", None where the loss is wrong."""
        try:
            return self._risk().kind
        except InvalidInput:  # fit will say what is wrong
            return None

    def loo(self, X: Any = None) -> np.ndarray:
        """Return what is predicted at each training point by a fit without it.

        An approximation, exact for the squared loss only: one Newton step from the solution with
        row i left out. With slopes g = wℓ' and curvatures h = wℓ'' the value becomes
        fᵢ + gᵢκᵢ/(1 − hᵢκᵢ), κ the diagonal of (alpha K⁻¹ + H)⁻¹; all rows cost one factorisation.
        Of softmax, g is a vector and h and κ are matrices over the C classes, and it costs C + 1
        factorisations, about 5Cn³ flops, and the memory of C + 3 Gram matrices. Losses with kinks
        are left out by the span rule, an approximation too. A row is left out with all its weight;
        kernel, alpha and class weights are those of the fit.

        Parameters
        ----------
        X : collection of n points, optional
            The training points again; needed only when the kernel is precomputed.

        Returns
        -------
        array of shape (n,)
            Classes or values, as of ``predict``.
        """
        values = self._left_out_values(X, "loo")
        return choose_class(values, self.classes_) if "classes_" in vars(self) else values

    @available_if(classifies)
    def loo_decision_function(self, X: Any = None) -> np.ndarray:
        """Return decision values at each training point by a fit without it; see `loo`.

        Parameters
        ----------
        X : collection of n points, optional
            The training points again; needed only when the kernel is precomputed.

        Returns
        -------
        array of shape (n,) or (n, classes)
            As of ``decision_function``.
        """
        return self._left_out_values(X, "loo_decision_function")

    @available_if(has_probabilities)
    def loo_proba(self, X: Any = None) -> np.ndarray:
        """Return probabilities of the classes at each training point by a fit without it.

        See `loo`.

        Parameters
        ----------
        X : collection of n points, optional
            The training points again; needed only when the kernel is precomputed.

        Returns
        -------
        array of shape (n, classes)
            As of ``predict_proba``.
        """
        return np.exp(log_probabilities(self._left_out_values(X, "loo_proba")))

    @available_if(_has_curvature)
    def degrees_of_freedom(self, X: Any = None) -> Any:
        """Return how many parameters the fit has spent: the trace of its last hat matrix.

        tr K(K + alpha H⁻¹)⁻¹ with the curvatures h = wℓ'' at the solution, and one for an offset:
        that of a ridge regression with the weights h, exact for the squared loss. Of several
        classes one number each; softmax is taken class by class, times (C − 1)/C. For losses with
        a continuous gradient only.

        Parameters
        ----------
        X : collection of n points, optional
            The training points again; needed only when the kernel is precomputed.

        Returns
        -------
        float or array of shape (classes,)
            The number; their sum counts for several classes.
        """
        points, w = self._again(X, "degrees_of_freedom")
        some, kept, rows, values = self._rows_again(points, w, "degrees_of_freedom")
        y = self.y_fit_[kept]
        rest = (self.alpha_, w[kept], self.fit_intercept_)
        if self._is_softmax(values):
            k = len(self.classes_)
            return freedom_softmax(self.kernel_, some, y.astype(int), k, *rest, values, rows)
        columns = zip(self._targets(y), values.reshape(len(y), -1).T, strict=True)
        found = [
            freedom_smooth(self.kernel_, some, target, self.loss_, *rest, f, rows)
            for target, f in columns
        ]
        return found[0] if values.ndim == 1 else np.array(found)

    # -- the training rows again --------------------------------------------------------------
    def _again(self, X: Any, verb: str) -> tuple[Any, np.ndarray]:
        """Return the training points and their weights."""
        check_is_fitted(self)
        points = self._points_again(X, verb)
        w = np.ones(len(self.y_fit_)) if self.sample_weight_ is None else self.sample_weight_
        return points, w

    def _rows_again(
        self, points: Any, w: np.ndarray, verb: str
    ) -> tuple[Any, np.ndarray, Operator | None, np.ndarray]:
        """Return the points of positive weight, where they are, their Gram matrix, and values.

        The matrix is that of smooth losses, None for others.
        """
        owner = f"{type(self).__name__}.{verb}"
        kept = np.flatnonzero(w)
        some = points if len(kept) == len(w) else take_rows(self.kernel_, points, kept)
        a, v = self.dual_coef_[kept], self._feature_weights()
        rows = smooth_rows(self.kernel_, some, owner) if self.loss_.smooth else None
        if isinstance(rows, LowRank) and v is not None:
            f = rows.F @ v
        elif rows is not None:
            f = rows @ a
        else:
            values = self._values(points)[kept]
            f = values - self.intercept_
        values = f + self.intercept_
        if isinstance(self.kernel_.domain, GramRows):
            self._check_matrix(a, f, self.y_fit_[kept], w[kept], owner)
        return some, kept, rows, values

    def _check_matrix(
        self, a: np.ndarray, f: np.ndarray, y: np.ndarray, w: np.ndarray, owner: str
    ) -> None:
        """Refuse a matrix with which the coefficients do not solve the problem of the fit.

        Of smooth losses alpha a = −wℓ' at the values, of others the objective tells.
        """
        z, loss, found = f + self.intercept_, self.loss_, self.solution_
        if loss.kind == "regression" and z.ndim == 2:
            return  # each column has a loss of its own
        targets = self._targets(y)
        columns = list(zip(targets, z.reshape(len(y), -1).T, strict=True))
        if self._is_softmax(z):
            G = w[:, None] * (np.exp(log_softmax(z)) - (targets.T > 0))
        elif loss.smooth:
            G = np.stack([w * loss.gradient(t, v) for t, v in columns], axis=1)
        if loss.smooth:
            lack = float(np.abs(self.alpha_ * a.reshape(len(y), -1) + G).max())
            size, allowed = float(np.abs(G).max()), max(OTHER, 10 * float(found.residual or 0.0))
        else:
            risk = sum(float(w @ loss.value(t, v)) for t, v in columns)
            size, allowed = abs(float(found.primal or 0.0)), 1e-3 * OTHER
            lack = abs(risk + 0.5 * self.alpha_ * float((a * f).sum()) - float(found.primal or 0.0))
        if not lack <= allowed * size:
            raise InvalidInput(
                f"{owner}: this is not the matrix the model was fitted on; pass the training "
                "matrix again."
            )

    # -- left out -----------------------------------------------------------------------------
    def _left_out_values(self, X: Any, verb: str) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) + b₋ᵢ at the training points."""
        points, w = self._again(X, verb)
        some, kept, rows, values = self._rows_again(points, w, verb)
        out = np.empty((len(w), *values.shape[1:]))
        y, weights = self.y_fit_[kept], w[kept]
        if rows is None:
            out[kept] = self._left_out(some, y, weights, values, kept)
        else:
            out[kept] = self._left_out_smooth(some, y, weights, values, kept, rows)
        idle = np.flatnonzero(w == 0)  # left out anyway
        if len(idle):
            out[idle] = self._values(self.kernel_.domain.take(points, idle))
        return out

    def _left_out(
        self, X: Any, y: np.ndarray, w: np.ndarray, values: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        """Return the left-out values of a loss with kinks."""
        b, a = np.atleast_1d(self.intercept_), self.dual_coef_[kept].reshape(len(y), -1)
        rest, f = (self.loss_, self.alpha_, w, self.fit_intercept_), values.reshape(len(y), -1)
        columns = [
            loo_dual(self.kernel_, X, target, *rest, a[:, j], float(b[j]), f[:, j])
            for j, target in enumerate(self._targets(y))
        ]
        return columns[0] if values.ndim == 1 else np.stack(columns, axis=1)

    def _left_out_smooth(
        self,
        X: Any,
        y: np.ndarray,
        w: np.ndarray,
        values: np.ndarray,
        kept: np.ndarray,
        rows: Operator,
    ) -> np.ndarray:
        """Return the left-out values of a smooth loss."""
        kernel, rest = self.kernel_, (self.alpha_, w, self.fit_intercept_)
        if self._is_softmax(values):
            return loo_softmax(kernel, X, y.astype(int), len(self.classes_), *rest, values, rows)
        f, a = values.reshape(len(y), -1), self.dual_coef_[kept].reshape(len(y), -1)
        columns = [
            loo_smooth(kernel, X, target, self.loss_, *rest, f[:, j], a[:, j], rows)
            for j, target in enumerate(self._targets(y))
        ]
        return columns[0] if values.ndim == 1 else np.stack(columns, axis=1)

    def _is_softmax(self, values: np.ndarray) -> bool:
        return values.ndim == 2 and isinstance(self.loss_, Logistic)

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets of each problem, one row a problem."""
        labels = self.loss_.kind == "classification"
        return class_signs(y, np.arange(len(self.classes_))) if labels else y[None, :]
