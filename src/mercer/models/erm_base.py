"""What the regularised risk estimators share: labels or targets, one fit, files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss, ZeroOne
from mercer.models.erm_answers import RiskAnswers
from mercer.models.erm_data import prepare_labels, prepare_targets, spread
from mercer.models.erm_dual import fit_dual, warm_start
from mercer.models.erm_fit import ERMFit, stacked
from mercer.models.erm_kinked import dual_rows
from mercer.models.erm_represented import coefficients
from mercer.models.erm_smooth import fit_smooth, smooth_rows
from mercer.models.erm_softmax import fit_softmax
from mercer.models.labels import class_signs
from mercer.models.limits import positive, solver_limits
from mercer.models.machines import MarginData
from mercer.models.ridge_centred import feature_weights, in_rows
from mercer.models.ridge_data import in_double
from mercer.models.training import with_weight
from mercer.rkhs import Function

__all__ = ["RiskEstimator"]


class RiskEstimator(RiskAnswers):
    """Base of `KernelERM` and its named cases: a loss, a penalty, an offset."""

    _learned = (
        *RiskAnswers._learned,
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

    @property
    def coef_(self) -> np.ndarray | None:
        """Weights v of the kernel's D explicit features, f(x) = vᵀφ(x) + b, as in scikit-learn.

        Shape (D,) of a regressor, (outputs, D) of several; of a classifier (1, D) for two classes,
        (classes, D) for more. None where the kernel has no finite features, or more than the
        memory budget allows.
        """
        check_is_fitted(self)
        v = vars(self).get("coef_")
        return in_rows(self, feature_weights(self)) if v is None else v

    @coef_.setter
    def coef_(self, value: np.ndarray | None) -> None:
        self.__dict__["coef_"] = value  # None where the values are found from `dual_coef_`

    @property
    def function_(self) -> Function:
        """The solution as a function in the RKHS (plus its offset).

        Its coefficients are `dual_coef_`, but where weights of features were found for a penalty so
        small that these have another function by rounding: then the shortest that have it.
        """
        check_is_fitted(self)
        a, v = self.dual_coef_, self._feature_weights()
        if v is not None and not self.loss_.smooth:
            w = self.sample_weight_
            kept = np.arange(len(a)) if w is None else np.flatnonzero(w)
            points = self.kernel_.domain.take(self.X_fit_, kept)
            rest = (self.y_fit_[kept], self.fit_intercept_)
            a = a.copy()
            a[kept] = coefficients(self.kernel_, points, v, a[kept], *rest)
        return Function(self.kernel_, self.X_fit_, a, self.intercept_)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels, or targets for a loss of regression.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

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
            check = self._points
            if loss.kind == "classification":
                data = prepare_labels(self, X, y, sample_weight, self.class_weight, check)
            else:
                data = prepare_targets(self, X, y, sample_weight, check)
            self._fit_data(data, X, loss, alpha, limits, near)
        return self

    # -- steps of a fit -----------------------------------------------------------------------
    def _points(self, X: Any, kernel: Kernel) -> Any:
        """Return the checked points of a fit."""
        return self._check_X(X, kernel, reset=True)

    def _fit_data(
        self, data: MarginData, X: Any, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> None:
        """Solve for checked data and store the fit."""
        fit = self._solved(data, loss, alpha, limits, near)
        points = data.X if data.kept is None else self._check_X(X, data.kernel, reset=False)
        self._store(data, in_double(to_host(points)), loss, alpha, fit)

    def _shared_rows(self, data: MarginData, limits: dict) -> Any:
        """Return the Gram matrix of a method of one's own; None leaves it to the solver."""
        return None

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

        rows = self._shared_rows(data, limits)
        if data.classes is None:
            shared = {"rows": rows, "start": begin(data.y), **limits}
            return one(kernel, X, data.y, loss, alpha, w, offset, **shared)
        k = len(data.classes)
        if k > 2 and isinstance(loss, Logistic):
            problem = (kernel, X, data.y, k, alpha, w, offset)
            return fit_softmax(*problem, rows=rows, start=begin(data.y), **limits)
        prepare: Any = smooth_rows if loss.smooth else dual_rows
        rows = prepare(kernel, X, limits["owner"]) if rows is None else rows
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
        self.intercept_ = fit.intercept if data.classes is None else np.atleast_1d(fit.intercept)
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

    def _feature_weights(self) -> np.ndarray | None:
        v = vars(self)["coef_"]
        if v is None:
            return None
        return v[0] if "classes_" in vars(self) and len(v) == 1 else v.T

    # -- files --------------------------------------------------------------------------------
    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        owner = type(self).__name__
        optional = {"n_features_in_", "feature_names_in_", "classes_", "n_rows_", "plan_"}
        centred = getattr(held.get("plan_"), "method", "") == "falkon"
        optional |= {"y_fit_"} if centred else set()
        missing = sorted(set(self._learned) - optional - set(held))
        if missing:
            raise ModelFileError(f"a {owner} without {', '.join(missing)}")
        n, *outputs = np.shape(self.dual_coef_)
        classes, weights, coef = held.get("classes_"), self.sample_weight_, held["coef_"]
        labels = isinstance(self.loss_, Loss) and self.loss_.kind == "classification"
        count = outputs[0] if outputs else 2
        D = self.kernel_._n_features(with_weight(self.kernel_.domain, self.X_fit_, weights))
        shape = (count if outputs else 1, D) if labels else (*outputs, D)
        if not (
            isinstance(self.loss_, Loss)
            and labels == (classes is not None)
            and (classes is None or len(np.unique(classes)) == len(classes) == count)
            and list(np.shape(self.intercept_)) == (outputs or ([1] if labels else []))
            and ("y_fit_" not in held if centred else np.shape(self.y_fit_) == (n,))
            and int(held.get("n_rows_") or 0) >= (1 if centred else 0)
            and (weights is None or np.shape(weights) == (n,))
            and (coef is None or (np.shape(coef) == shape and np.isfinite(coef).all()))
            and np.isfinite(self.dual_coef_).all()
            and np.isfinite(self.intercept_).all()
        ):
            raise ModelFileError(f"the arrays of a {owner} do not fit one another")
