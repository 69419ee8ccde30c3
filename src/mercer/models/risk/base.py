"""What the regularised risk estimators share: labels or targets, one fit, files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import positive, solver_limits
from mercer.domains import to_host
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import (
    CentredFit,
    MarginData,
    Plan,
    SolverOptions,
    asks_centers,
    class_signs,
    feature_weights,
    in_double,
    in_rows,
    is_stream,
    prepare_labels,
    prepare_targets,
    resolved,
    spread,
    with_weight,
)
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss, ZeroOne
from mercer.models.plan import SMALL, Study, plan_gradients, plan_kinked, plan_smooth, settled
from mercer.models.risk.answers import RiskAnswers
from mercer.models.risk.falkon import fit_centred_risk, outputs_of, stream_data
from mercer.models.risk.fit import ERMFit, stacked
from mercer.models.risk.kinked import fit_dual, warm_start
from mercer.models.risk.kinked_features import coefficients, dual_rows
from mercer.models.risk.smooth import IterativeGram, fit_smooth, fit_softmax, smooth_rows
from mercer.rkhs import Function


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


# ---- Risks with a choice of solver: a plan, then a factorisation, conjugate gradients or
# centres.


#: Names of solvers of smooth risks.
RISK_SOLVERS = ("auto", "newton", "cholesky", "cg", "falkon")
LARGEST_TOL = 1.0 - 1e-12


class PlannedRisk(CentredFit, RiskEstimator):
    """Base of risk estimators whose solver is chosen by name, or by the plan of a fit."""

    _learned = (*RiskEstimator._learned, "n_rows_", "plan_")
    _on_device = True
    _solvers: tuple[str, ...] = RISK_SOLVERS

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed. Tensors
            are worked on where they are by "cg" and "falkon". `mercer.RowBlocks` bring rows that
            need not fit memory, with their targets and weights.
        y : array of shape (n,)
            Class labels, or targets for a loss of regression; may be left out where the blocks
            carry them.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        return self._fit_from(None, X, y, sample_weight)

    # -- data ---------------------------------------------------------------------------------
    def _options(self, limits: dict[str, Any]) -> SolverOptions:
        """Return the checked options; limits as they are checked for every risk."""
        tol = min(limits["tol"], LARGEST_TOL)
        return SolverOptions.of(self, self._solvers, max_iter=limits["max_iter"], tol=tol)

    def _points(self, X: Any, kernel: Kernel) -> Any:
        """Return the points of a fit where, and as precise as, the method may want them."""
        X = self._check_X(X, kernel, reset=True)
        if asks_centers(self):
            return X
        if self.solver == "cg":
            return in_double(X)
        many = self.solver == "auto" and kernel.domain.size(X) > SMALL
        return X if many and self._risk().smooth else in_double(to_host(X))

    # -- the fit ------------------------------------------------------------------------------
    def _check_params(self) -> tuple[Loss, float, dict[str, Any]]:
        loss, alpha, limits = super()._check_params()
        options = self._options(limits)
        if options.wanted in ("cg", "falkon") and not loss.smooth:
            raise InvalidInput(
                f"{options.owner}: solver={options.wanted!r} is for smooth losses, and {loss!r} "
                "has kinks; use solver='auto' or 'cholesky' without centres, or a smooth loss: "
                "'logistic', 'squared_hinge', 'exponential', 'squared' or 'huber'."
            )
        return loss, alpha, limits

    def _fit_from(self, near: Any, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if not is_stream(X):
            return super()._fit_from(near, X, y, sample_weight)
        with self._all_or_nothing():
            loss, alpha, limits = self._check_params()
            options = self._options(limits)
            if not loss.smooth or options.solver == "sgd":
                what = f"solver={self.solver!r}" if loss.smooth else f"{loss!r}, a loss with kinks,"
                raise InvalidInput(
                    f"{options.owner}: {what} needs all rows in memory, and these come in blocks; "
                    "use solver='falkon' and a smooth loss, such as 'logistic' or 'huber'."
                )
            kernel, rows = self._stream(X, y, sample_weight, options)
            kernel = resolved(kernel, rows, options.seed)
            data = stream_data(kernel, rows, loss, self.class_weight, options.owner)
            self._fit_data(data, X, loss, alpha, limits)
        return self

    def _plan_fit(self, data: MarginData, alpha: float, options: SolverOptions) -> Plan:
        """Return the plan of a fit, or refuse what cannot be done before any work."""
        plan = plan_smooth(
            data.kernel,
            data.X,
            outputs_of(data.classes),
            solver=options.wanted,
            alpha=alpha,
            n_centers=options.n_centers,
            owner=options.owner,
            quick=True,
        )
        return settled(plan, options)

    def _fit_data(
        self, data: MarginData, X: Any, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> None:
        options = self._options(limits)
        self.n_rows_ = data.n
        if loss.smooth and options.solver != "sgd":
            self.plan_ = self._plan_fit(data, alpha, options)
            if self.plan_.method == "falkon":
                options = self._with_centers(options, data.kernel)
                offset = bool(self.fit_intercept)
                fit, made = fit_centred_risk(data, loss, alpha, offset, options, self.plan_)
                b, self.loss_ = fit.intercept, loss
                self.intercept_ = b if data.classes is None else np.atleast_1d(b)
                if data.classes is not None:
                    self.classes_ = np.asarray(data.classes)
                self._store_centres(data.kernel, made.centers, fit.solution, alpha, self.plan_)
                self.solution_.unwrap()
                return
        else:
            rule = plan_gradients if loss.smooth else plan_kinked
            study = Study(data.kernel, data.X, outputs_of(data.classes), options.owner)
            self.plan_ = rule(self, study.unmeasured())
        if self.plan_.method != "cg":
            data = replace(data, X=in_double(to_host(data.X)))
        super()._fit_data(data, X, loss, alpha, limits, near)

    def _shared_rows(self, data: MarginData, limits: dict) -> Any:
        if self.plan_.method != "cg":
            return None
        return IterativeGram(data.kernel, in_double(data.X), limits["owner"], self.random_state)

    def _store(self, data: MarginData, points: Any, loss: Loss, alpha: float, fit: ERMFit) -> None:
        super()._store(replace(data, X=to_host(data.X)), points, loss, alpha, fit)

    # -- answers ------------------------------------------------------------------------------
    def _again(self, X: Any, verb: str) -> tuple[Any, np.ndarray]:
        self._require_rows(verb)
        return super()._again(X, verb)
