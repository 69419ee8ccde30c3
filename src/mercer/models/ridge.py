"""Kernel ridge regression and classification, with exact leave-one-out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer.domains import GramRows
from mercer.errors import InvalidInput
from mercer.models.base import KernelEstimator, check_targets, check_weights
from mercer.models.least_squares import LeastSquares, Ridge
from mercer.solvers import Solution

__all__ = ["KernelRidge", "KernelRidgeClassifier"]


class _RidgeBase(KernelEstimator):
    """The part that regression and classification share: one weighted least-squares fit."""

    _learned = (
        *KernelEstimator._learned,
        "alpha_",
        "coef_",
        "y_fit_",
        "sample_weight_",
        "alphas_",
        "loo_errors_",
    )

    alpha: Any
    alphas: Any
    fit_intercept: bool
    solution_: Solution

    def _check_alpha(self, outputs: int) -> Any:
        """Return "loo", a number, or one number for each output."""
        owner = type(self).__name__
        alpha = self.alpha
        if isinstance(alpha, str):
            if alpha != "loo":
                raise InvalidInput(f"{owner}: alpha={alpha!r}; give a number ≥ 0 or 'loo'.")
            return alpha
        try:
            value = np.asarray(alpha, dtype=float)
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
            values = np.asarray(self.alphas, dtype=float).reshape(-1)
        except (TypeError, ValueError):
            values = np.zeros(0)
        if not values.size or not np.isfinite(values).all() or (values <= 0).any():
            raise InvalidInput(f"{type(self).__name__}: alphas={self.alphas!r}; give numbers > 0.")
        return np.sort(values)

    def _solve(self, X: Any, T: np.ndarray, weights: np.ndarray | None) -> Ridge:
        """Fit targets T of shape (n, t) and store what regression and classification share."""
        alpha = self._check_alpha(T.shape[1])
        kernel = self._resolved.fit_params(X, weights)
        least_squares = LeastSquares(kernel, X, T, weights, bool(self.fit_intercept))
        fit = least_squares.fit(alpha, self._alphas())
        self.kernel_ = kernel
        self.X_fit_ = kernel.domain.keep(X)
        self.y_fit_ = T
        self.sample_weight_ = weights
        self.alpha_ = fit.alpha
        self.alphas_, self.loo_errors_ = fit.alphas, fit.loo_errors
        self._loo_cache = fit.loo
        return fit

    def _store(self, fit: Ridge, column: bool) -> None:
        """Keep coefficients as a vector when the target was one."""

        def cut(A: Any) -> Any:
            return None if A is None else (A[..., 0] if column else A)

        self.dual_coef_ = cut(fit.dual_coef)
        self.coef_ = cut(fit.coef)
        self.intercept_ = float(fit.intercept[0]) if column else fit.intercept
        self.solution_ = fit.solution

    def _decision(self, X: Any) -> np.ndarray:
        X = self._check_new(X)
        if self.coef_ is not None:
            out = self.kernel_._features(X) @ self.coef_ + self.intercept_
            return np.asarray(out)
        return self.function_(X)

    def _loo_targets(self, X: Any) -> np.ndarray:
        """Return the leave-one-out predictions of the targets, shape (n, t)."""
        check_is_fitted(self)
        if getattr(self, "_loo_cache", None) is not None:
            return self._loo_cache
        if isinstance(self.kernel_.domain, GramRows):
            if X is None:
                raise InvalidInput(
                    f"{type(self).__name__}.loo: a fitted model does not keep a precomputed Gram "
                    "matrix; pass the training matrix again: loo(K)."
                )
            points = self.kernel_._checked(X, None)[0]
        else:
            points = self.X_fit_
        least_squares = LeastSquares(
            self.kernel_, points, self.y_fit_, self.sample_weight_, bool(self.fit_intercept)
        )
        self._loo_cache = least_squares.leave_one_out(self.alpha_)
        return self._loo_cache

    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_loo_cache", None)
        return state


class KernelRidge(MultiOutputMixin, RegressorMixin, _RidgeBase):
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
        them from one eigendecomposition.
    fit_intercept : bool, default=False
        Whether to add an offset that is not penalised.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries; by default 31 values spread over thirteen orders
        of magnitude around the mean of the kernel's diagonal.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, n_outputs)
        The coefficients a.
    coef_ : array or None
        Weights of the kernel's explicit features, when the primal problem was solved.
    intercept_ : float or array
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
    >>> model.predict([[np.pi / 2]]).round(3)
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
        self._resolved = self._kernel()
        X = self._check_X(X, self._resolved, reset=True)
        n = self._resolved.domain.size(X)
        T = check_targets(y, n, "KernelRidge")
        weights = check_weights(sample_weight, n, "KernelRidge")
        fit = self._solve(X, T.reshape(n, -1), weights)
        self._store(fit, column=T.ndim == 1)
        self.solution_.unwrap()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decision(X)

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the exact leave-one-out predictions f₋ᵢ(xᵢ) at the training points.

        yᵢ − f₋ᵢ(xᵢ) = aᵢ/(C⁻¹)ᵢᵢ with C = K + αW⁻¹: one factorisation instead of n fits. The
        kernel and α are those of the fitted model; a row is left out with all its weight.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        predictions = self._loo_targets(X)
        return predictions[:, 0] if self.dual_coef_.ndim == 1 else predictions


class KernelRidgeClassifier(ClassifierMixin, _RidgeBase):
    r"""Classification by kernel ridge regression on ±1 targets.

    Two classes: the sign of a ridge fit to y ∈ {−1, +1}. More: one fit for each class against the
    rest, all from one factorisation; the largest value wins.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    alpha : float or "loo", default=1.0
        The penalty, as for `KernelRidge`.
    fit_intercept : bool, default=True
        Whether to add an offset that is not penalised; without it a far point has value 0.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries.

    Attributes
    ----------
    classes_ : array
        The classes.
    dual_coef_, coef_, intercept_, X_fit_, kernel_, alpha_, loo_errors_, solution_, function_
        As for `KernelRidge`, for the ±1 targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelRidgeClassifier(alpha=0.1).fit(X, y).score(X, y) > 0.95)
    True
    """

    _learned = (*_RidgeBase._learned, "classes_")

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        alphas: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.alphas = alphas

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice.

        Returns
        -------
        KernelRidgeClassifier
            The fitted model itself.
        """
        self._resolved = self._kernel()
        X = self._check_X(X, self._resolved, reset=True)
        n = self._resolved.domain.size(X)
        y = self._check_labels(y, n)
        weights = check_weights(sample_weight, n, "KernelRidgeClassifier")
        if weights is not None:
            present = np.unique(y[weights > 0])
        else:
            present = np.unique(y)
        if len(present) < 2:
            raise InvalidInput(
                f"KernelRidgeClassifier: y has one class only ({present[0]!r}); this classifier "
                "needs samples of at least 2 classes."
            )
        self.classes_ = present
        if self.class_weight is not None:
            balance = self._class_weights(y, weights)
            weights = balance if weights is None else weights * balance
        codes = np.searchsorted(self.classes_, np.where(np.isin(y, present), y, present[0]))
        T = np.where(codes[:, None] == np.arange(len(present))[None, :], 1.0, -1.0)
        fit = self._solve(X, T[:, 1:] if len(present) == 2 else T, weights)
        self._store(fit, column=len(present) == 2)
        self.solution_.unwrap()
        return self

    def _check_labels(self, y: Any, n: int) -> np.ndarray:
        owner = type(self).__name__
        if y is None:
            raise InvalidInput(f"{owner}: requires y to be passed, but the target y is None.")
        try:
            y = column_or_1d(y, warn=True)
            with np.errstate(invalid="ignore"):  # scikit-learn casts NaN before it refuses it
                check_classification_targets(y)
        except ValueError as error:
            raise InvalidInput(f"{owner}: {error}") from error
        if len(y) != n:
            raise InvalidInput(
                f"{owner}: X has {n} rows and y has {len(y)}; inconsistent numbers of samples."
            )
        return np.asarray(y)

    def _class_weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        if self.class_weight == "balanced":
            # n/(classes·count) with weighted counts, so that a weight of 2 is a row given twice.
            w = np.ones(len(y)) if weights is None else weights
            totals = np.array([w[y == c].sum() for c in self.classes_])
            by_class = w.sum() / (len(self.classes_) * totals)
            out = np.zeros(len(y))
            for c, value in zip(self.classes_, by_class, strict=True):
                out[y == c] = value
            return out
        try:
            return compute_sample_weight(self.class_weight, y)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidInput(f"KernelRidgeClassifier: class_weight: {error}") from error

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x): one column for two classes, else one column a class.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decision(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self._labels(self.decision_function(X))

    def _labels(self, values: np.ndarray) -> np.ndarray:
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    def loo_decision_function(self, X: Any = None) -> np.ndarray:
        """Return the decision values at the training points, each from a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        values = self._loo_targets(X)
        return values[:, 0] if self.dual_coef_.ndim == 1 else values

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._labels(self.loo_decision_function(X))
