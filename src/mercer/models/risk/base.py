"""The family of regularised risks: labels or targets, one fit, answers, files."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.checks import Clock
from mercer.domains import to_host
from mercer.errors import InvalidInput, available_if, speaking_for, speaks, who
from mercer.estimator import (
    SMALL,
    KernelEstimator,
    Plan,
    Sample,
    SolverOptions,
    Study,
    asks_centers,
    choose_class,
    class_signs,
    computing_where,
    feature_weights,
    geometric_margin,
    in_double,
    in_rows,
    is_stream,
    log_probabilities,
    n_features,
    named_centers,
    prepare_labels,
    prepare_targets,
    require_rows,
    resolved,
    row_precision,
    settled,
    stream_of,
    study_of,
    told,
    values_of,
)
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss, ZeroOne
from mercer.memory import on_gpu
from mercer.models.ridge import given_centers
from mercer.models.risk.falkon import fit_on_centers, outputs_of, stream_data
from mercer.models.risk.fit import ERMFit, stacked
from mercer.models.risk.kinked import fit_dual, plan_kinked, warm_start
from mercer.models.risk.kinked_features import coefficients, dual_rows
from mercer.models.risk.left_out import RowsAgain
from mercer.models.risk.smooth import (
    IterativeGram,
    fit_smooth,
    fit_softmax,
    plan_smooth,
    smooth_rows,
)
from mercer.models.risk.stream import plan_gradients
from mercer.operators import LowRank
from mercer.rkhs import Function
from mercer.solvers import Solution

#: Names of solvers of smooth risks.
RISK_SOLVERS = ("auto", "newton", "cholesky", "cg", "falkon")
LARGEST_TOL = 1.0 - 1e-12


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


def _keeps_targets(model: Any) -> bool:
    """Whether the fit keeps its targets, as one in the span of centres does not."""
    return getattr(vars(model).get("plan_"), "method", "") != "falkon"


def _fits_loss(model: Any) -> bool:
    """Whether targets, classes, offsets and weights of features are those of the loss."""
    held, outputs = vars(model), np.shape(model.dual_coef_)[1:]
    labels, coef = model.loss_.kind == "classification", held["coef_"]
    rows = (outputs or (1,)) if labels else outputs
    return (
        labels == (held.get("classes_") is not None)
        and (not labels or len(held["classes_"]) == (*outputs, 2)[0])
        and np.shape(model.intercept_) == rows
        and _keeps_targets(model) == ("y_fit_" in held)
        and int(held.get("n_rows_") or 0) >= (not _keeps_targets(model))
        and (coef is None or np.shape(coef) == (*rows, n_features(model)))
    )


def margin_of(model: Any) -> float:
    """Geometric margin: the least distance from a training point to where the class changes.

    In feature space, y(f(x) + b)/‖f‖ for two classes; negative if a point is on the wrong side.
    """
    check_is_fitted(model)
    if vars(model).get("classes_") is None:
        raise AttributeError(
            f"{type(model).__name__}: margin_ is that of a classifier, and {model.loss_!r} a loss "
            "of regression."
        )
    y, w = vars(model).get("y_fit_"), model.sample_weight_
    if y is None or model.dual_coef_ is None:
        return geometric_margin(model, None)
    return geometric_margin(model, y if w is None else np.where(w > 0, y, -1))


class Risk(KernelEstimator):
    """The family of `KernelERM` and its named cases: a loss, a penalty, an offset.

    Where there is a choice of solver, a plan precedes the fit.
    """

    _parameters: checks.Constraints = checks.LIMITS | {
        "alpha": checks.POSITIVE,
        "fit_intercept": checks.Flag(),
    }
    _state = (
        state.SOLVED
        | {
            "intercept_": state.Floats(...),
            "coef_": state.Maybe(state.Floats(...)),
            "classes_": state.Spare(state.Labels("c")),
            "y_fit_": state.Array("n", needed=_keeps_targets),
            "sample_weight_": state.Maybe(state.Array("n")),
            "loss_": state.Such(Loss),
        }
        | state.others("n_iter_", "alpha_", "fit_intercept_", needed=True)
    )
    _rules: tuple[state.Rule, ...] = ((state.MISFIT, _fits_loss),)

    alpha: float
    solver: str
    fit_intercept: bool
    tol: float
    max_iter: Any
    max_time: Any
    random_state: Any
    class_weight: Any = None
    alpha_: float
    fit_intercept_: bool
    classes_: np.ndarray
    y_fit_: np.ndarray
    sample_weight_: np.ndarray | None
    solution_: Solution
    loss_: Loss
    dual_coef_: np.ndarray
    intercept_: Any
    n_rows_: int
    plan_: Plan

    def _risk(self) -> Loss:
        """Return the loss that the parameters ask for."""
        raise InvalidInput(f"{type(self).__name__}: use KernelERM.")

    def _kind(self) -> str | None:
        """Return "classification" or "regression", None where the loss is wrong."""
        try:
            return self._risk().kind
        except InvalidInput:  # fit will say what is wrong
            return None

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

    @speaks
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

    # -- data ---------------------------------------------------------------------------------
    @speaks
    def _check_params(self) -> tuple[Loss, float, dict[str, Any], SolverOptions | None]:
        """Return the loss, the penalty, what limits the solver, and the choice of a solver."""
        checks.check_parameters(self)
        loss, alpha = self._risk(), float(self.alpha)
        if isinstance(loss, ZeroOne):
            raise InvalidInput(
                f"{who()}: no method minimises the share of errors itself; give a convex loss that "
                "bounds it, such as 'hinge' or 'logistic'."
            )
        if loss.kind != "classification" and self.class_weight is not None:
            raise InvalidInput(
                f"{who()}: class_weight={self.class_weight!r} with {loss!r}, a loss of regression; "
                "give class_weight=None."
            )
        limits = checks.solver_limits(self)
        if "solver" not in self._parameters:
            return loss, alpha, limits, None
        tol = min(limits["tol"], LARGEST_TOL)
        options = SolverOptions.of(self, max_iter=limits["max_iter"], tol=tol)
        if options.wanted in ("cg", "falkon") and not loss.smooth:
            raise InvalidInput(
                f"{who()}: solver={options.wanted!r} is for smooth losses, and {loss!r} "
                "has kinks; use solver='auto' or 'cholesky' without centres, or a smooth loss: "
                "'logistic', 'squared_hinge', 'exponential', 'squared' or 'huber'."
            )
        return loss, alpha, limits, options

    def _precision(self, fit: bool) -> Any:
        return row_precision(self, fit)

    def _check_new(self, X: Any) -> Any:
        return to_host(super()._check_new(X))

    def _points(self, X: Any, kernel: Kernel) -> Any:
        """Return the points of a fit where, and as precise as, the method may want them."""
        X = self._check_X(X, kernel, reset=True)
        if asks_centers(self):
            return X
        solver = getattr(self, "solver", "")
        if solver == "cg":
            return in_double(X)
        many = kernel.domain.size(X) > SMALL and (solver == "auto" or on_gpu(X))
        return X if many and self._risk().smooth else in_double(to_host(X))

    def _stream_data(
        self, X: Any, y: Any, sample_weight: Any, loss: Loss, options: SolverOptions
    ) -> Sample:
        """Return the data of a fit of rows in blocks, which only centres can be sought for."""
        if not loss.smooth or options.solver == "sgd":
            what = f"solver={options.solver!r}" if loss.smooth else f"{loss!r}, a loss with kinks,"
            raise InvalidInput(
                f"{who()}: {what} needs all rows in memory, and these come in blocks; "
                "use solver='falkon' and a smooth loss, such as 'logistic' or 'huber'."
            )
        kernel, rows = stream_of(self, X, y, sample_weight)
        kernel = resolved(kernel, rows, options.seed)
        return stream_data(kernel, rows, loss, self.class_weight)

    # -- the fit ------------------------------------------------------------------------------
    @speaks
    def _fit_from(self, near: Any, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit, starting from the solution of a model fitted to the same rows with another alpha."""
        with self._all_or_nothing(X):
            loss, alpha, limits, options = self._check_params()
            if options is not None and is_stream(X):
                data = self._stream_data(X, y, sample_weight, loss, options)
            elif loss.kind == "classification":
                data = prepare_labels(self, X, y, sample_weight, self.class_weight, self._points)
            else:
                data = prepare_targets(self, X, y, sample_weight, self._points)
            plan = None if options is None else self._plan_fit(data, loss, alpha, options)
            if options is not None and plan is not None and plan.method == "falkon":
                options = named_centers(self, options, data.kernel)
                m, offset = int(plan.n_centers or 1), bool(self.fit_intercept)
                fit = fit_on_centers(data, loss, alpha, offset, options, m)
                points = fit.centers
            else:
                rows: Any = None
                if plan is not None and plan.method == "cg":
                    some = in_double(data.X)
                    rows = IterativeGram(data.kernel, some, self.random_state)
                else:
                    data = replace(data, X=in_double(to_host(data.X)))
                with computing_where(X) if loss.smooth else nullcontext():
                    fit = self._solved(data, loss, alpha, limits, near, rows)
                points = data.X if data.kept is None else self._check_X(X, data.kernel, reset=False)
                points = in_double(to_host(points))
            self._store(data, points, loss, alpha, fit, plan)
        return self

    def _plan_fit(self, data: Sample, loss: Loss, alpha: float, options: SolverOptions) -> Plan:
        """Return the plan of a fit, or refuse what cannot be done before any work."""
        study = Study(data.kernel, data.X, outputs_of(data.classes))
        if not loss.smooth or options.solver == "sgd":
            return (plan_gradients if loss.smooth else plan_kinked)(study.unmeasured())
        centers = options.n_centers
        plan = plan_smooth(study, alpha, solver=options.wanted, n_centers=centers, quick=True)
        return settled(plan, options)

    def _plan_risk(self, X: Any, y: Any) -> Plan:
        """Return the plan of a family with a choice of solver."""
        study = study_of(self, X, y, blocks=True)
        loss, alpha, _, options = self._check_params()
        if options is None or not loss.smooth:
            return plan_kinked(study)
        if options.solver == "sgd":
            return plan_gradients(study)
        centers = given_centers(self, options, study)
        return told(plan_smooth(study, alpha, solver=options.wanted, **centers), options)

    def _solved(
        self,
        data: Sample,
        loss: Loss,
        alpha: float,
        limits: dict,
        near: Any = None,
        rows: Any = None,
    ) -> ERMFit:
        """Solve one problem; of many classes softmax, or one problem a class against the rest.

        `rows` is the Gram matrix of a method of one's own; None leaves it to the solver.
        """
        kernel, X, w, offset = data.kernel, data.X, data.weights, bool(self.fit_intercept)
        one: Any = fit_smooth if loss.smooth else fit_dual

        def begin(y: np.ndarray, j: Any = ...) -> np.ndarray | None:
            if near is None:
                return None
            a = near.dual_coef_ if data.kept is None else near.dual_coef_[data.kept]
            a = a if a.ndim == 1 else a[:, j]
            return warm_start(loss, y, w, a, near.alpha_, alpha)

        if data.classes is None:
            shared = {"rows": rows, "start": begin(data.y), **limits}
            return one(kernel, X, data.y, loss, alpha, w, offset, **shared)
        k = len(data.classes)
        if k > 2 and isinstance(loss, Logistic):
            problem = (kernel, X, data.y, k, alpha, w, offset)
            return fit_softmax(*problem, rows=rows, start=begin(data.y), **limits)
        prepare: Any = smooth_rows if loss.smooth else dual_rows
        rows = prepare(kernel, X) if rows is None else rows
        clock = Clock(limits["max_time"])
        fits = []
        for j, signs in enumerate(class_signs(data.y, np.arange(k))):
            limits = {**limits, "max_time": clock.rest()}
            shared = {"rows": rows, "start": begin(signs, j), **limits}
            fits.append(one(kernel, X, signs, loss, alpha, w, offset, **shared))
        return fits[0] if len(fits) == 1 else stacked(fits)

    def _store(
        self,
        data: Sample,
        points: Any,
        loss: Loss,
        alpha: float,
        fit: ERMFit,
        plan: Plan | None,
    ) -> None:
        """Store a fit: with all its rows, or with its centres in their place."""
        kernel, labels, centred = data.kernel, data.classes is not None, fit.centers is not None
        self.kernel_, self.X_fit_ = kernel, kernel.domain.keep(points)
        self.intercept_ = np.atleast_1d(fit.intercept) if labels else fit.intercept
        if labels:
            self.classes_ = np.asarray(data.classes)
        self.alpha_, self.fit_intercept_, self.loss_ = alpha, bool(self.fit_intercept), loss
        self.n_iter_ = max(1, fit.solution.n_iter)
        if plan is not None:
            self.n_rows_ = data.n
            self.plan_ = replace(plan, n_centers=kernel.domain.size(points)) if centred else plan
        self.dual_coef_ = fit.dual_coef if centred else data.spread(fit.dual_coef)
        self.coef_ = self.sample_weight_ = None
        if not centred:
            self.coef_ = self._coef(data, fit)
            self.y_fit_ = data.spread(data.y)
            if data.kept is not None or not bool((data.weights == 1).all()):
                self.sample_weight_ = data.spread(data.weights)
        self.solution_ = replace(fit.solution, value=self.dual_coef_)
        self.solution_.unwrap()

    def _coef(self, data: Sample, fit: ERMFit) -> np.ndarray | None:
        """Return the weights of fewer features than points, a row for each function."""
        coef, X = fit.coef, to_host(data.X)
        D = data.kernel._n_features(X)
        if coef is None and D is not None and D < len(data.y):
            coef = np.asarray(data.kernel._features(X).T @ fit.dual_coef)
        if coef is None or data.classes is None:
            return None if coef is None else coef.T
        return np.atleast_2d(coef.T)

    # -- values -------------------------------------------------------------------------------
    def _feature_weights(self) -> np.ndarray | None:
        """Return the weights of the kernel's features, shape (D,) or (D, outputs), or None."""
        v = vars(self)["coef_"]
        if v is None:
            return None
        return v[0] if "classes_" in vars(self) and len(v) == 1 else v.T

    def _values(self, X: Any) -> np.ndarray:
        """Return f(x) + b for new points, shape (n,) or (n, outputs), in tiles."""
        check_is_fitted(self)
        return values_of(self, X, self._feature_weights())

    # -- the training rows again --------------------------------------------------------------
    @speaks
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
    @speaks
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
    @speaks
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
    @speaks
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
        return self._rows_again(X, "degrees_of_freedom")[2].degrees_of_freedom()

    def _losses(self) -> list[Loss]:
        """Return the loss of each column of coefficients."""
        return [self.loss_] * (1 if self.dual_coef_.ndim == 1 else self.dual_coef_.shape[1])

    def _rows_again(self, X: Any, verb: str) -> tuple[Any, np.ndarray, RowsAgain]:
        """Return the training points, their weights, and those of positive weight in detail."""
        require_rows(self, verb)
        points = self._points_again(X, verb)
        with speaking_for(f"{type(self).__name__}.{verb}"):
            w = np.ones(len(self.y_fit_)) if self.sample_weight_ is None else self.sample_weight_
            kept = np.flatnonzero(w)
            some = points if len(kept) == len(w) else self.kernel_.domain.subset(points, kept)
            a, v = self.dual_coef_[kept], self._feature_weights()
            gram = smooth_rows(self.kernel_, some) if self.loss_.smooth else None
            if isinstance(gram, LowRank) and v is not None:
                f = gram.F @ v
            else:
                f = self._values(points)[kept] - self.intercept_ if gram is None else gram @ a
            classes = len(self.classes_) if self.loss_.kind == "classification" else 0
            fit = (self._losses(), self.alpha_, self.fit_intercept_, a, self.intercept_, f, classes)
            rows = RowsAgain(self.kernel_, some, self.y_fit_[kept], w[kept], *fit, gram)
            if not self.kernel_.domain.holds_points:
                rows.check_matrix(self.solution_)
            return points, w, rows

    def _left_out_values(self, X: Any, verb: str) -> np.ndarray:
        """Return f₋ᵢ(xᵢ) + b₋ᵢ at the training points."""
        points, w, rows = self._rows_again(X, verb)
        found = rows.left_out()
        out = np.empty((len(w), *found.shape[1:]))
        out[w != 0] = found
        idle = np.flatnonzero(w == 0)  # left out anyway
        if len(idle):
            out[idle] = self._values(self.kernel_.domain.take(points, idle))
        return out

    # -- files --------------------------------------------------------------------------------
