"""What ridge regression and classification by it share: one weighted least-squares fit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import RowBlocks, to_host
from mercer.errors import InvalidInput, speaks, who, with_figures
from mercer.estimator import (
    SMALL,
    FitsLeftOut,
    KernelEstimator,
    Plan,
    Sample,
    SolverOptions,
    Study,
    Ways,
    choose,
    feature_weights,
    in_double,
    in_rows,
    is_stream,
    n_features,
    named_centers,
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
from mercer.models.ridge.cg import fit_by_cg
from mercer.models.ridge.exact import LeastSquares
from mercer.models.ridge.falkon import fit_on_centers, given_centers
from mercer.models.ridge.left_out import (
    as_groups,
    degrees_of_freedom,
    each_fit,
    leave_groups_out,
)
from mercer.models.ridge.spectrum import RidgeFit
from mercer.operators import gram_of
from mercer.solvers import Solution
from mercer.solvers.falkon import falkon_cost
from mercer.solvers.linear import cg_cost, cholesky_cost, eigen_cost, primal_cost


def differ(alpha: Any) -> bool:
    """Whether a penalty is sought by leaving one out, or differs between outputs."""
    return isinstance(alpha, str) or (
        not isinstance(alpha, float) and len(set(np.ravel(alpha))) > 1
    )


def plan_ridge(
    study: Study, alpha: Any = 1.0, tol: float = 1e-6, offset: bool = True, **wanted: Any
) -> Plan:
    """Return how a ridge regression would be fitted; `Plan.require` refuses.

    Methods: "primal" (normal equations of D < n explicit features), "cholesky" (K factorised),
    "eigen" (K decomposed, for alpha="loo" and penalties that differ), "cg" (exact up to tol),
    "falkon" (m centres). The first three are what solver="cholesky" stands for. Where "primal" can
    be done solver="cg" is that too. What is `wanted` goes to `choose`.
    """
    D = study.facts.features
    if differ(alpha):
        return choose(study, {"eigen": eigen_cost}, "eigen", **wanted)
    if D is not None and D < study.facts.n:
        return choose(study, {"primal": primal_cost, "falkon": falkon_cost}, "primal", **wanted)
    steps = partial(cg_cost, alpha=float(np.ravel(alpha)[0]), tol=tol, offset=offset)
    ways: Ways = {"cholesky": cholesky_cost, "cg": steps, "falkon": falkon_cost}
    return choose(study, ways, "cholesky", **wanted)


def _counts_rows(model: Any) -> bool:
    """Whether a fit says that it saw no fewer rows than it keeps."""
    n, held = len(model.dual_coef_), vars(model)
    return held.get("n_rows_", n) >= (1 if held.get("y_fit_") is None else n)


class Ridge(KernelEstimator):
    """The family of ridge regression: one weighted least-squares fit, exact or with centres."""

    y_fit_: np.ndarray
    classes_: np.ndarray
    _parameters = {"alphas": checks.Maybe(checks.Each(checks.Number(above=0), "give numbers > 0"))}
    _state: state.State = (
        state.SOLVED
        | {
            "coef_": state.Maybe(state.Floats(n_features, "t?")),
            "y_fit_": state.Spare(state.Array("n", "t")),
            "sample_weight_": state.Spare(state.Array("n")),
        }
        | state.others("solution_", "alpha_", "fit_intercept_", "alphas_", "loo_errors_")
        | state.others("n_rows_", "n_iter_", "plan_")
    )
    _rules: tuple[state.Rule, ...] = ((state.MISFIT, _counts_rows),)

    alpha: Any
    alphas: Any
    solver: str = "cholesky"  # of estimators that leave no choice
    fit_intercept: bool
    fit_intercept_: bool
    sample_weight_: np.ndarray | None
    n_rows_: int
    n_iter_: int
    plan_: Plan
    solution_: Solution
    _loo_cache: np.ndarray | None = None
    _smoother_cache: Any = None

    @property
    def coef_(self) -> np.ndarray | None:
        """Weights v of the kernel's D explicit features, f(x) = vᵀφ(x) + b, as in scikit-learn.

        Shape (D,) for one target, (n_outputs, D) for several; of a classifier (1, D) for two
        classes, (n_classes, D) for more. None where the kernel has no finite features, or more than
        the memory budget allows.
        """
        check_is_fitted(self)
        v = vars(self).get("coef_")
        return in_rows(self, feature_weights(self) if v is None else v)

    @coef_.setter
    def coef_(self, value: np.ndarray | None) -> None:
        # As files keep it: (D,) or (D, outputs), of the primal problem; None where the dual was
        # solved.
        self.__dict__["coef_"] = value

    def _check_alpha(self, outputs: int) -> Any:
        """Return "loo", a number, or one number for each output."""
        owner = type(self).__name__
        alpha = self.alpha
        if isinstance(alpha, str):
            if alpha != "loo":
                raise InvalidInput(f"{owner}: alpha={alpha!r}; give a number ≥ 0 or 'loo'.")
            return alpha
        if isinstance(alpha, float) and 0.0 <= alpha < np.inf:
            return float(alpha)
        try:
            value = np.asarray(np.nan if np.asarray(alpha).dtype == bool else alpha, dtype=float)
        except (OverflowError, TypeError, ValueError):
            value = np.array(np.nan)
        if value.ndim > 1 or value.size not in (1, outputs) or not np.isfinite(value).all():
            raise InvalidInput(
                f"{owner}: alpha={alpha!r}; give a number ≥ 0, one for each of the {outputs} "
                "outputs, or 'loo'."
            )
        if (value < 0).any():
            shown = with_figures(repr(alpha))
            raise InvalidInput(f"{owner}: alpha={shown} is negative; a ridge penalty is ≥ 0.")
        return float(value.reshape(-1)[0]) if value.size == 1 else value

    def _alphas(self) -> np.ndarray | None:
        if self.alphas is None:
            return None
        return np.sort(np.ravel(np.asarray(self.alphas, dtype=float)))

    # -- data ---------------------------------------------------------------------------------
    def _precision(self, fit: bool) -> Any:
        return row_precision(self, fit)

    def _check_new(self, X: Any) -> Any:
        return to_host(super()._check_new(X))

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, options: SolverOptions | None = None
    ) -> Sample:
        """Return the checked data of a fit; without options in float64 and in main memory."""
        if options is None:
            checks.check_parameters(self)
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        if options is None:
            X = in_double(to_host(X))
        elif options.wanted in ("cholesky", "cg") or (options.wanted == "auto" and n <= SMALL):
            X = in_double(X)
        centred = options is not None and options.wanted == "falkon"
        T, weights, classes = self._targets(y, sample_weight, X, n, centred)
        kernel = kernel.fit_params(X, weights)
        return Sample(kernel, X, T.reshape(n, -1), weights, classes=classes, column=T.ndim == 1)

    def _targets(self, y: Any, sample_weight: Any, X: Any, n: int, centred: bool) -> Any:
        """Return checked targets, of shape (n,) or (n, t), weights, and classes if there are."""
        raise TypeError(f"{type(self).__name__}: define _targets.")

    def _stream_data(self, kernel: Kernel, rows: RowBlocks) -> Sample:
        """Return rows in blocks as the data of a fit."""
        raise TypeError(f"{type(self).__name__}: define _stream_data(kernel, rows).")

    # -- the fit ------------------------------------------------------------------------------
    @speaks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Check, plan, solve and store: all of it, or nothing."""
        with self._all_or_nothing(X):
            options = SolverOptions.of(self)
            if is_stream(X):
                data = self._stream_data(*stream_of(self, X, y, sample_weight))
                data = replace(data, kernel=resolved(data.kernel, data.X, options.seed))
            else:
                data = self._prepare(X, y, sample_weight, options)
            alpha = self._check_alpha(data.outputs)
            plan = self._plan_fit(data, alpha, options)
            if plan.method != "falkon" and (X := in_double(data.X)) is not data.X:
                data = replace(data, X=X)
            self._store(data, self._solved(data, alpha, options, plan), plan)
        return self

    def _plan_fit(self, data: Sample, alpha: Any, options: SolverOptions) -> Plan:
        """Return the plan of a fit, or refuse what cannot be done before any work."""
        if options.wanted in ("cg", "falkon") and differ(alpha):
            how = "centres" if options.wanted == "falkon" else "solver='cg'"
            raise InvalidInput(
                f"{who()}: alpha={self.alpha!r} with {how}; give one number, or rows in "
                "memory and solver='cholesky'."
            )
        study, offset = Study(data.kernel, data.X, data.outputs), self.fit_intercept
        wanted = {"solver": options.wanted, "n_centers": options.n_centers, "quick": True}
        return settled(plan_ridge(study, alpha, options.tol, bool(offset), **wanted), options)

    def _plan(self, X: Any, y: Any, n: int | None = None) -> Plan:
        """Return the plan of a fit to n points, of which X may hold some."""
        study = study_of(self, X, y, blocks=True)
        if n is not None:
            study.facts = replace(study.facts, n=n)
        options = SolverOptions.of(self)
        alpha = self._check_alpha(study.facts.outputs)
        wanted = {"solver": options.wanted, **given_centers(self, options, study)}
        offset = bool(self.fit_intercept)
        return told(plan_ridge(study, alpha, options.tol, offset, **wanted), options)

    def _solved(self, data: Sample, alpha: Any, options: SolverOptions, plan: Plan) -> RidgeFit:
        """Solve in the way of the plan."""
        offset = bool(self.fit_intercept)
        if plan.method == "falkon":
            options = named_centers(self, options, data.kernel)
            return fit_on_centers(data, alpha, offset, options, int(plan.n_centers or 1))
        problem = LeastSquares(data.kernel, data.X, data.y, data.weights, offset)
        dual = partial(fit_by_cg, options=options) if plan.method == "cg" else None
        return problem.fit(alpha, self._alphas(), dual)

    def _store(self, data: Sample, fit: RidgeFit, plan: Plan) -> None:
        """Store a fit: with all its rows, or with its centres in their place."""
        domain, centred = data.kernel.domain, fit.centers is not None
        points = fit.centers if centred else to_host(data.X)
        self.kernel_, self.X_fit_ = data.kernel, domain.keep(points)
        self.fit_intercept_ = bool(self.fit_intercept)
        self.sample_weight_ = None
        if not centred:
            self.y_fit_ = data.y.copy()
            self.sample_weight_ = None if data.weights is None else data.weights.copy()
        self.alpha_, self.alphas_, self.loo_errors_ = fit.alpha, fit.alphas, fit.loo_errors
        self._loo_cache, self._smoother_cache = fit.loo, None
        self.n_rows_ = fit.rows if centred else len(data.y)
        self.n_iter_ = max(1, fit.solution.n_iter)
        self.plan_ = replace(plan, n_centers=domain.size(points)) if centred else plan
        if data.classes is not None:
            self.classes_ = np.asarray(data.classes)

        def cut(A: Any) -> Any:
            return None if A is None else (A[..., 0] if data.column else A)

        self.dual_coef_, self.coef_ = cut(fit.dual_coef), cut(fit.coef)
        self.intercept_ = float(fit.intercept[0]) if data.column else fit.intercept
        self.solution_ = replace(fit.solution, value=self.dual_coef_) if centred else fit.solution
        self.solution_.unwrap()

    def _decision(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return values_of(self, X, vars(self)["coef_"])

    @speaks
    def degrees_of_freedom(self, X: Any = None) -> Any:
        """Return the effective degrees of freedom, tr ∂f(xᵢ)/∂yᵢ.

        tr K(K + αW⁻¹)⁻¹ over the rows of positive weight; an offset adds its one. It falls from
        the rank of K (or n) at α = 0 to 0, or 1 with an offset, as α grows.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.

        Returns
        -------
        float, or array of shape (n_outputs,)
            One number; one an output when the outputs have penalties of their own.
        """
        out = degrees_of_freedom(self._problem(X, "degrees_of_freedom"), self.alpha_)
        return out if np.ndim(self.alpha_) else float(out[0])

    @speaks
    def _problem(self, K: Any, verb: str, how: str | None = None) -> LeastSquares:
        """Return the problem that was fitted; K is its Gram matrix where that was precomputed.

        Training points given again (where `how` does not say that only a matrix may be given) must
        be those of the fit.
        """
        require_rows(self, verb)
        domain = self.kernel_.domain
        if K is not None and how is not None and domain.holds_points:
            raise InvalidInput(
                f"{who()}.{verb}: the model keeps its training points; call it without them. "
                "Only a precomputed Gram matrix must be passed again."
            )
        domain.require_again(K, verb, how)
        points = self._points_again(K, verb)
        return LeastSquares(
            self.kernel_, points, self.y_fit_, self.sample_weight_, self.fit_intercept_
        )

    @speaks(".loo")
    def _loo_targets(self, K: Any, groups: Any = None) -> np.ndarray:
        """Return the leave-one-out predictions of the targets, shape (n, t)."""
        require_rows(self, "loo")
        if groups is not None:
            codes = as_groups(groups, len(self.y_fit_), self.sample_weight_)
            return leave_groups_out(self._problem(K, "loo"), self.alpha_, codes)
        if self._loo_cache is None:
            self._loo_cache = self._problem(K, "loo").leave_one_out(self.alpha_)
        elif K is not None:
            self._problem(K, "loo")  # refuses what is not the matrix of the fit
        return self._loo_cache.copy()

    def _fits_left_out(self) -> FitsLeftOut | None:
        check_is_fitted(self)
        if vars(self).get("y_fit_") is None or not self.kernel_.domain.holds_points:
            return None
        f, t = self.function_, self.y_fit_.shape[1]
        at = each_fit(
            self._problem(None, "loo"), self.alpha_, lambda X: np.reshape(to_host(f(X)), (-1, t))
        )
        return FitsLeftOut(self.y_fit_, self.sample_weight_, at)

    def _points_again(self, X: Any, verb: str) -> Any:
        points, n = super()._points_again(X, verb), len(self.y_fit_)
        if self.kernel_.domain.holds_points:
            return points
        # (K + αW⁻¹)a + b = y ties the matrix to the fit, at the cost of one product.
        w = np.ones(n) if self.sample_weight_ is None else self.sample_weight_
        a = self.dual_coef_.reshape(n, -1)
        Ka = gram_of(self.kernel_, points) @ a
        rest = w[:, None] * (self.y_fit_ - Ka - self.intercept_) - self.alpha_ * a
        if np.abs(rest).max() > 1e-3 * np.abs(w[:, None] * self.y_fit_).max():
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: this is not the matrix the model was fitted on."
            )
        return points

    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_loo_cache", None)
        state.pop("_smoother_cache", None)
        return state
