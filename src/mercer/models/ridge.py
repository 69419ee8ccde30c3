"""Kernel ridge regression, with exact leave-one-out and intervals."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.engines import blocks, pick
from mercer.errors import InvalidInput, ModelFileError
from mercer.models.base import KernelEstimator, check_targets, check_weights
from mercer.models.intervals import IntervalMixin
from mercer.models.least_squares import LeastSquares
from mercer.models.left_out import as_groups
from mercer.models.ridge_data import FitData
from mercer.models.training import check_same_points, with_weight
from mercer.settings import get_config
from mercer.solvers import Solution

__all__ = ["KernelRidge", "RidgeBase"]


class RidgeBase(KernelEstimator):
    """The part that regression and classification share: one weighted least-squares fit."""

    _learned = (
        *KernelEstimator._learned,
        "alpha_",
        "coef_",
        "y_fit_",
        "sample_weight_",
        "fit_intercept_",
        "alphas_",
        "loo_errors_",
    )

    alpha: Any
    alphas: Any
    fit_intercept: bool
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
        if v is None:
            D = self.kernel_._n_features(self.X_fit_)
            if D is None or 16 * D * len(self.dual_coef_) > get_config().memory:
                return None
            v = np.asarray(self.kernel_._features(self.X_fit_).T @ self.dual_coef_)
        return np.atleast_2d(v.T) if "classes_" in vars(self) else v.T

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
        try:
            value = np.asarray(np.nan if np.asarray(alpha).dtype == bool else alpha, dtype=float)
        except (TypeError, ValueError):
            value = np.array(np.nan)
        if value.ndim > 1 or value.size not in (1, outputs) or not np.isfinite(value).all():
            raise InvalidInput(
                f"{owner}: alpha={alpha!r}; give a number ≥ 0, one for each of the {outputs} "
                "outputs, or 'loo'."
            )
        if (value < 0).any():
            raise InvalidInput(f"{owner}: alpha={alpha!r} is negative; a ridge penalty is ≥ 0.")
        return float(value.reshape(-1)[0]) if value.size == 1 else value

    def _alphas(self) -> np.ndarray | None:
        if self.alphas is None:
            return None
        try:
            given = [] if np.asarray(self.alphas).dtype == bool else self.alphas
            values = np.asarray(given, dtype=float).reshape(-1)
        except (TypeError, ValueError):
            values = np.zeros(0)
        if not values.size or not np.isfinite(values).all() or (values <= 0).any():
            raise InvalidInput(f"{type(self).__name__}: alphas={self.alphas!r}; give numbers > 0.")
        return np.sort(values)

    def _fit(self, data: FitData) -> None:
        """Solve for checked data and store the fit."""
        alpha = self._check_alpha(data.T.shape[1])
        offset = bool(self.fit_intercept)
        fit = LeastSquares(data.kernel, data.X, data.T, data.weights, offset).fit(
            alpha, self._alphas()
        )
        kernel, X, column = data.kernel, data.X, data.column
        self.kernel_ = kernel
        self.X_fit_ = kernel.domain.keep(X)
        self.y_fit_ = data.T.copy()
        self.sample_weight_ = None if data.weights is None else data.weights.copy()
        self.fit_intercept_ = offset
        self.alpha_ = fit.alpha
        self.alphas_, self.loo_errors_ = fit.alphas, fit.loo_errors
        self._loo_cache, self._smoother_cache = fit.loo, None

        def cut(A: Any) -> Any:
            return None if A is None else (A[..., 0] if column else A)

        self.dual_coef_ = cut(fit.dual_coef)
        self.coef_ = cut(fit.coef)
        self.intercept_ = float(fit.intercept[0]) if column else fit.intercept
        self.solution_ = fit.solution
        self.solution_.unwrap()

    def _decision(self, X: Any) -> np.ndarray:
        X = self._check_new(X)
        kernel = self.kernel_
        weights = vars(self)["coef_"]
        if weights is not None:
            rows = blocks.row_blocks(kernel.domain.size(X), len(weights) * 16)
            take = kernel.domain.take
            with np.errstate(over="ignore", invalid="ignore"):
                parts = [np.asarray(kernel._features(take(X, r)) @ weights) for r in rows]
                out = np.concatenate(parts) + self.intercept_
        else:
            X, points = kernel.domain.match(X, self.X_fit_)
            engine = pick(X)
            out = engine.to_numpy(engine.matmul(kernel, X, points, self.dual_coef_))
            out = out + self.intercept_
        return self._finite(out)

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
        out = self._problem(X, "degrees_of_freedom").degrees_of_freedom(self.alpha_)
        return out if np.ndim(self.alpha_) else float(out[0])

    def _problem(self, K: Any, verb: str, how: str | None = None) -> LeastSquares:
        """Return the problem that was fitted; K is its Gram matrix where that was precomputed.

        Training points given again (where `how` does not say that only a matrix may be given) must
        be those of the fit.
        """
        check_is_fitted(self)
        owner, domain = f"{type(self).__name__}.{verb}", self.kernel_.domain
        precomputed = isinstance(domain, GramRows)
        if K is not None and not precomputed:
            if how is not None:
                raise InvalidInput(
                    f"{owner}: the model keeps its training points; call it without them. "
                    "Only a precomputed Gram matrix must be passed again."
                )
            again = self._check_X(K, self.kernel_, reset=False)
            check_same_points(domain, again, self.X_fit_, type(self).__name__, verb)
            K = None
        if K is None and precomputed:
            raise InvalidInput(
                f"{owner}: a fitted model does not keep a precomputed Gram matrix; pass the "
                f"training matrix again: {how or f'{verb}(K)'}."
            )
        points = self.X_fit_ if K is None else self._check_again(K, verb)
        return LeastSquares(
            self.kernel_, points, self.y_fit_, self.sample_weight_, self.fit_intercept_
        )

    def _loo_targets(self, K: Any, groups: Any = None) -> np.ndarray:
        """Return the leave-one-out predictions of the targets, shape (n, t)."""
        check_is_fitted(self)
        if groups is not None:
            owner = f"{type(self).__name__}.loo"
            codes = as_groups(groups, len(self.y_fit_), self.sample_weight_, owner)
            return self._problem(K, "loo").leave_one_out(self.alpha_, codes)
        if self._loo_cache is None:
            self._loo_cache = self._problem(K, "loo").leave_one_out(self.alpha_)
        elif K is not None:
            self._problem(K, "loo")  # refuses what is not the matrix of the fit
        return self._loo_cache.copy()

    def _check_again(self, K: Any, verb: str) -> Any:
        """Return the training matrix given a second time, if it is that of the fit."""
        points = self.kernel_._checked(self._check_X(K, self.kernel_, reset=False), None)[0]
        n = len(self.y_fit_)
        # (K + αW⁻¹)a + b = y ties the matrix to the fit, at the cost of one product.
        w = np.ones(n) if self.sample_weight_ is None else self.sample_weight_
        a = self.dual_coef_.reshape(n, -1)
        engine = pick(points)
        Ka = engine.to_numpy(engine.matmul(self.kernel_, points, None, a))
        rest = w[:, None] * (self.y_fit_ - Ka - self.intercept_) - self.alpha_ * a
        if np.abs(rest).max() > 1e-3 * np.abs(w[:, None] * self.y_fit_).max():
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: this is not the matrix the model was fitted on."
            )
        return points

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        missing = [
            n for n in ("kernel_", "X_fit_", "dual_coef_", "intercept_", "coef_") if n not in held
        ]
        if not held:
            return  # never fitted, such as the regressor that a meta-estimator clones
        if missing:
            raise ModelFileError(f"a {type(self).__name__} without {', '.join(missing)}")
        n, *outputs = np.shape(self.dual_coef_)
        targets, weights = held.get("y_fit_"), held.get("sample_weight_")
        if not (
            list(np.shape(self.intercept_)) == outputs
            and (weights is None or np.shape(weights) == (n,))
            and (held["coef_"] is None or self._fits_features(outputs))
            and all(np.isfinite(held[name]).all() for name in ("dual_coef_", "intercept_"))
            and (targets is None or np.shape(targets) == (n, *(outputs or [1])))
        ):
            raise ModelFileError(f"the arrays of a {type(self).__name__} do not fit one another")

    def _fits_features(self, outputs: list[int]) -> bool:
        points = with_weight(self.kernel_.domain, self.X_fit_, vars(self).get("sample_weight_"))
        shape = [self.kernel_._n_features(points), *outputs]
        coef = vars(self)["coef_"]
        return list(np.shape(coef)) == shape and bool(np.isfinite(coef).all())

    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_loo_cache", None)
        state.pop("_smoother_cache", None)
        return state


class KernelRidge(IntervalMixin, MultiOutputMixin, RegressorMixin, RidgeBase):
    r"""Kernel ridge regression.

    Minimises ½ Σᵢ wᵢ(yᵢ − f(xᵢ))² + (α/2)‖f‖² over functions f in the RKHS of the kernel, that is
    f = Σ aᵢ k(xᵢ, ·) with (K + αW⁻¹) a = y.

    Cost n³/3 flops and n² memory; with D finite features, D < n, the primal problem is solved
    instead, nD² flops.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    alpha : float, array of shape (n_outputs,) or "loo", default=1.0
        The penalty α ≥ 0. "loo" chooses it from `alphas` by the exact leave-one-out error, all of
        them from one eigendecomposition. Errors of several outputs are averaged as they are:
        give outputs in comparable units, or one penalty each.
    fit_intercept : bool, default=False
        Whether to add an offset that is not penalised.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries; by default 31 values from 1e-10 of the trace of
        K, below which its rounding decides, to 1e4 of its mean diagonal.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, n_outputs)
        The coefficients a.
    coef_ : array of shape (D,) or (n_outputs, D), or None
        Weights of the kernel's explicit features; None where it has no finite ones.
    intercept_ : float or array of shape (n_outputs,)
        The offset, 0 without `fit_intercept`.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    alpha_ : float or array
        The penalty used.
    loo_errors_ : array or None
        Mean squared leave-one-out error for each of ``alphas_``, when ``alpha="loo"``.
    solution_ : Solution
        Certificate: relative residual of the linear system, primal and dual value, gap.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = KernelRidge(RBF(1.0), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[np.pi / 2]]).round(2)
    array([1.])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = False,
        alphas: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.alphas = alphas

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        KernelRidge
            The fitted model itself.
        """
        with self._all_or_nothing():
            self._fit(self._prepare(X, y, sample_weight))
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> FitData:
        self._check_flags()
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        T = check_targets(y, n, "KernelRidge")
        weights = check_weights(sample_weight, n, "KernelRidge")
        kernel = kernel.fit_params(X, weights)
        return FitData(kernel, X, T.reshape(n, -1), weights, T.ndim == 1)

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decision(X)

    def loo(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the exact leave-one-out predictions f₋ᵢ(xᵢ) at the training points.

        yᵢ − f₋ᵢ(xᵢ) = aᵢ/(C⁻¹)ᵢᵢ with C = K + αW⁻¹: one factorisation instead of n fits. The
        kernel and α are those of the fitted model; a row is left out with all its weight. With
        `groups` a row is left out with all rows of its group S, y_S − f₋S = ((C⁻¹)_SS)⁻¹ a_S.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row, such as the patient that it is from.
        """
        predictions = self._loo_targets(X, groups)
        return predictions[:, 0] if self.dual_coef_.ndim == 1 else predictions
