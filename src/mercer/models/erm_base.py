"""What the regularised risk estimators share: labels or targets, one fit, leave-one-out, files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.errors import InvalidInput, ModelFileError
from mercer.losses import Logistic, Loss, ZeroOne
from mercer.models.erm_data import MarginData, prepare_labels, prepare_targets, spread
from mercer.models.erm_dual import fit_dual, loo_dual, warm_start
from mercer.models.erm_fit import ERMFit, stacked
from mercer.models.erm_freedom import freedom_smooth, freedom_softmax
from mercer.models.erm_kinked import dual_rows
from mercer.models.erm_loo import loo_smooth, loo_softmax
from mercer.models.erm_smooth import fit_smooth, smooth_rows
from mercer.models.erm_softmax import fit_softmax
from mercer.models.erm_values import ValuedEstimator
from mercer.models.labels import class_signs
from mercer.models.least_squares import take_rows
from mercer.models.limits import positive, solver_limits
from mercer.solvers import Solution

__all__ = ["RiskEstimator"]


def _has_curvature(model: Any) -> bool:
    return "loss_" not in vars(model) or bool(model.loss_.smooth)


class RiskEstimator(ValuedEstimator):
    """Base of `KernelERM` and its named cases: a loss, a penalty, an offset."""

    _learned = (
        *ValuedEstimator._learned,
        "coef_",
        "classes_",
        "n_iter_",
        "y_fit_",
        "sample_weight_",
        "alpha_",
        "fit_intercept_",
        "loss_",
    )

    alpha: float
    fit_intercept: bool
    tol: float
    max_iter: Any
    max_time: Any
    class_weight: Any = None
    classes_: np.ndarray
    coef_: np.ndarray | None
    solution_: Solution
    loss_: Loss

    def _risk(self) -> Loss:
        """Return the loss that the parameters ask for."""
        raise InvalidInput(f"{type(self).__name__}: use KernelERM.")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels, or targets for a loss of regression.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        return self._fit_from(None, X, y, sample_weight)

    def _fit_from(self, near: Any, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit, starting from the solution of a model fitted to the same rows with another alpha."""
        with self._all_or_nothing():
            loss, alpha, limits = self._check_params()
            if loss.kind == "classification":
                data = prepare_labels(self, X, y, sample_weight, self.class_weight)
            else:
                data = prepare_targets(self, X, y, sample_weight)
            fit = self._solved(data, loss, alpha, limits, near)
            points = data.X if data.kept is None else self._check_X(X, data.kernel, reset=False)
            self._store(data, points, loss, alpha, fit)
        return self

    # -- steps of a fit -----------------------------------------------------------------------
    def _check_params(self) -> tuple[Loss, float, dict[str, Any]]:
        """Return the loss, the penalty, and what limits the solver."""
        owner = type(self).__name__
        self._check_flags()
        loss, alpha = self._risk(), positive(self.alpha, "alpha", owner)
        if isinstance(loss, ZeroOne):
            raise InvalidInput(
                f"{owner}: no method minimises the share of errors itself; give a convex loss that "
                "bounds it, such as 'hinge' or 'logistic'."
            )
        if loss.kind != "classification" and self.class_weight is not None:
            raise InvalidInput(
                f"{owner}: class_weight={self.class_weight!r} with {loss!r}, a loss of regression; "
                "give class_weight=None."
            )
        return loss, alpha, solver_limits(self)

    def _solved(
        self, data: MarginData, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> ERMFit:
        """Solve one problem; of many classes softmax, or one problem a class against the rest."""
        kernel, X, w, offset = data.kernel, data.X, data.weights, bool(self.fit_intercept)
        one: Any = fit_smooth if loss.smooth else fit_dual

        def begin(y: np.ndarray, j: Any = ...) -> np.ndarray | None:
            if near is None:
                return None
            a = near.dual_coef_ if data.kept is None else near.dual_coef_[data.kept]
            a = a if a.ndim == 1 else a[:, j]
            return warm_start(loss, y, w, a, near.alpha_, alpha)

        if data.classes is None:
            return one(kernel, X, data.y, loss, alpha, w, offset, start=begin(data.y), **limits)
        k = len(data.classes)
        if k > 2 and isinstance(loss, Logistic):
            problem = (kernel, X, data.y, k, alpha, w, offset)
            return fit_softmax(*problem, start=begin(data.y), **limits)
        prepare: Any = smooth_rows if loss.smooth else dual_rows
        rows = prepare(kernel, X, limits["owner"])
        deadline = None if limits["max_time"] is None else time.monotonic() + limits["max_time"]
        fits = []
        for j, signs in enumerate(class_signs(data.y, np.arange(k))):
            if deadline is not None:
                limits = {**limits, "max_time": max(0.0, deadline - time.monotonic())}
            shared = {"rows": rows, "start": begin(signs, j), **limits}
            fits.append(one(kernel, X, signs, loss, alpha, w, offset, **shared))
        return fits[0] if len(fits) == 1 else stacked(fits)

    def _store(self, data: MarginData, points: Any, loss: Loss, alpha: float, fit: ERMFit) -> None:
        kernel, coef = data.kernel, fit.coef
        D = kernel._n_features(data.X)
        if coef is None and D is not None and D < len(data.y):
            coef = np.asarray(kernel._features(data.X).T @ fit.dual_coef)
        if coef is not None:
            coef = coef.T if data.classes is None else np.atleast_2d(coef.T)
        self.kernel_ = kernel
        self.X_fit_ = kernel.domain.keep(points)
        self.dual_coef_ = spread(data, fit.dual_coef)
        self.intercept_ = fit.intercept
        self.coef_ = coef
        if data.classes is not None:
            self.classes_ = np.asarray(data.classes)
        self.y_fit_ = spread(data, data.y)
        plain = data.kept is None and bool((data.weights == 1).all())
        self.sample_weight_ = None if plain else spread(data, data.weights)
        self.alpha_, self.fit_intercept_, self.loss_ = alpha, bool(self.fit_intercept), loss
        self.n_iter_ = max(1, fit.solution.n_iter)
        self.solution_ = replace(fit.solution, value=self.dual_coef_)
        self.solution_.unwrap()

    # -- answers ------------------------------------------------------------------------------
    def _feature_weights(self) -> np.ndarray | None:
        if self.coef_ is None or "classes_" not in vars(self):
            return None if self.coef_ is None else self.coef_.T
        return self.coef_.T if self.dual_coef_.ndim == 2 else self.coef_[0]

    def loo(self, X: Any = None) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) + b₋ᵢ at the training points, each from a fit without that point.

        An approximation, exact for the squared loss only: one Newton step from the solution with
        row i left out, all rows from one factorisation. With slopes g = wℓ' and curvatures
        h = wℓ'' it is fᵢ + gᵢκᵢ/(1 − hᵢκᵢ), κ the diagonal of (alpha K⁻¹ + H)⁻¹. Softmax is taken
        class by class. Losses with kinks are left out by the span rule, an approximation too. A row
        is left out with all its weight; kernel and alpha are those of the fit.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.

        Returns
        -------
        array of shape (n,) or (n, classes)
            Values as of ``predict`` for regression, as of ``decision_function`` for classes.
        """
        points, w, at = self._again(X, "loo")
        kept, idle = np.flatnonzero(w), np.flatnonzero(w == 0)
        some = points if not len(idle) else take_rows(self.kernel_, points, kept)
        out = np.empty(self.dual_coef_.shape)
        out[kept] = self._left_out(some, self.y_fit_[kept], w[kept], at[kept], kept)
        out[idle] = at[idle]  # rows of weight 0 were left out anyway
        return out

    @available_if(_has_curvature)
    def degrees_of_freedom(self, X: Any = None) -> Any:
        """Return how many parameters the fit has spent: the trace of its last hat matrix.

        tr K(K + alpha H⁻¹)⁻¹ with the curvatures h = wℓ'' at the solution, and one for an offset:
        that of a ridge regression with the weights h, exact for the squared loss. Of several
        classes one number each; softmax is taken class by class, times (C − 1)/C. For losses with
        a continuous gradient only.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.

        Returns
        -------
        float or array of shape (classes,)
            The number; their sum counts for several classes.
        """
        points, w, at = self._again(X, "degrees_of_freedom")
        kept = np.flatnonzero(w)
        points = points if len(kept) == len(w) else take_rows(self.kernel_, points, kept)
        y, values = self.y_fit_[kept], at[kept]
        rest = (self.alpha_, w[kept], self.fit_intercept_)
        if self.loss_.kind != "classification":
            return freedom_smooth(self.kernel_, points, y, self.loss_, *rest, values)
        k = len(self.classes_)
        if values.ndim == 2 and isinstance(self.loss_, Logistic):
            return freedom_softmax(self.kernel_, points, y.astype(int), k, *rest, values)
        rows = smooth_rows(self.kernel_, points, "degrees_of_freedom")
        found = [
            freedom_smooth(self.kernel_, points, signs, self.loss_, *rest, f, rows)
            for signs, f in zip(
                class_signs(y, np.arange(k)), values.reshape(len(y), -1).T, strict=True
            )
        ]
        return found[0] if values.ndim == 1 else np.array(found)

    def _again(self, X: Any, verb: str) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the training points, their weights, and the values of the fit there."""
        check_is_fitted(self)
        points = self._points_again(X, verb)
        w = np.ones(len(self.y_fit_)) if self.sample_weight_ is None else self.sample_weight_
        return points, w, self._values(points)

    def _left_out(
        self, X: Any, y: np.ndarray, w: np.ndarray, values: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        loss, alpha, offset = self.loss_, self.alpha_, self.fit_intercept_
        kernel, signs = self.kernel_, y[None, :]
        if loss.kind == "classification":
            k = len(self.classes_)
            if values.ndim == 2 and isinstance(loss, Logistic):
                return loo_softmax(kernel, X, y.astype(int), k, alpha, w, offset, values)
            signs = class_signs(y, np.arange(k))
        rows = smooth_rows(kernel, X, f"{type(self).__name__}.loo") if loss.smooth else None
        columns = []
        coef, b = self.dual_coef_[kept].reshape(len(y), -1), np.atleast_1d(self.intercept_)
        for j, target in enumerate(signs):
            problem = (kernel, X, target, loss, alpha, w, offset)
            if loss.smooth:
                columns.append(loo_smooth(*problem, values.reshape(len(y), -1)[:, j], rows))
            else:
                columns.append(loo_dual(*problem, coef[:, j], float(b[j])))
        return columns[0] if values.ndim == 1 else np.stack(columns, axis=1)

    # -- files --------------------------------------------------------------------------------
    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        owner = type(self).__name__
        optional = {"n_features_in_", "feature_names_in_", "classes_"}
        missing = sorted(set(self._learned) - optional - set(held))
        if missing:
            raise ModelFileError(f"a {owner} without {', '.join(missing)}")
        n, *outputs = np.shape(self.dual_coef_)
        classes, weights, coef = held.get("classes_"), self.sample_weight_, self.coef_
        labels = isinstance(self.loss_, Loss) and self.loss_.kind == "classification"
        count = outputs[0] if outputs else 2
        D = self.kernel_._n_features(self.X_fit_)
        shape = (count if outputs else 1, D) if labels else (*outputs, D)
        if not (
            isinstance(self.loss_, Loss)
            and labels == (classes is not None)
            and (classes is None or len(np.unique(classes)) == len(classes) == count)
            and list(np.shape(self.intercept_)) == outputs
            and np.shape(self.y_fit_) == (n,)
            and (weights is None or np.shape(weights) == (n,))
            and (coef is None or (np.shape(coef) == shape and np.isfinite(coef).all()))
            and np.isfinite(self.dual_coef_).all()
            and np.isfinite(self.intercept_).all()
        ):
            raise ModelFileError(f"the arrays of a {owner} do not fit one another")
