"""What estimators with a choice of solver share: rows as it wants them, a fit with centres."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows, RowBlocks, to_host
from mercer.engines import row_blocks
from mercer.engines.passes import values_at
from mercer.errors import InvalidInput
from mercer.estimator.base import KernelEstimator
from mercer.estimator.blocks import note_columns
from mercer.estimator.options import SolverOptions, asks_centers
from mercer.estimator.rows import as_stream
from mercer.estimator.sample import check_same_points
from mercer.kernels import Kernel, Linear
from mercer.rkhs import Function
from mercer.settings import get_config
from mercer.solvers import Solution
from mercer.solvers.risk import log_softmax

if TYPE_CHECKING:
    from mercer.estimator.plan import Plan


def linear_weights(X: Any, coef: np.ndarray) -> np.ndarray:
    """Return Σ coefᵢ xᵢ, correct to rounding of the spread of the rows, not of their length.

    Σ coefᵢ xᵢ = Σ coefᵢ (xᵢ − x₀) + x₀ Σ coefᵢ, the last sum without rounding errors.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Rows.
    coef : ndarray of shape (n,) or (n, outputs)
        Coefficients.
    """
    X = np.asarray(X, dtype=float)
    if not len(X):
        return np.zeros((X.shape[1], *coef.shape[1:]))
    near = (X - X[0]).T @ coef
    if coef.ndim == 1:
        return near + X[0] * math.fsum(coef)
    return near + np.outer(X[0], [math.fsum(column) for column in coef.T])


def is_plain_linear(kernel: Kernel) -> bool:
    """Whether a kernel is the inner product of its rows."""
    return type(kernel) is Linear and kernel.get_params(deep=False)["covariance"] is None


# ---- ridge centred ----


class CentredFit(KernelEstimator):
    """The part of an estimator that may be fitted in the span of centres, from rows in blocks too.

    Parameters
    ----------
    solver, n_centers, centers, checkpoint, random_state
        As of `SolverOptions`.
    """

    solver: str = "cholesky"  # of estimators that leave no choice
    n_centers: int | None
    centers: Any
    checkpoint: Any
    random_state: Any
    fit_intercept: bool
    fit_intercept_: bool
    sample_weight_: np.ndarray | None
    n_rows_: int
    n_iter_: int
    plan_: Plan

    def _precision(self, fit: bool) -> Any:
        """Return the precision of rows; centres may be sought for those in single precision."""
        single = fit and (self.solver == "auto" or asks_centers(self))
        return [np.float64, np.float32] if single else np.float64

    def _check_new(self, X: Any) -> Any:
        return to_host(super()._check_new(X))

    def _stream(
        self, X: Any, y: Any, sample_weight: Any, options: SolverOptions
    ) -> tuple[Kernel, RowBlocks]:
        """Return the kernel, and rows in blocks with their targets; note their columns."""
        self._check_flags()
        rows = as_stream(X, y, sample_weight, options.owner)
        note_columns(self, rows)
        return self._kernel(), rows

    def _with_centers(self, options: SolverOptions, kernel: Kernel) -> SolverOptions:
        """Return options whose centres, where a frame holds them, have the columns of the rows."""
        return replace(options, centers=self._by_name(options.centers, kernel, "centers"))

    def _store_centres(
        self, kernel: Kernel, centers: Any, solution: Solution, alpha: float, plan: Plan
    ) -> None:
        """Store what every fit with centres has: those are its points, and no rows are kept."""
        self.kernel_ = kernel
        self.X_fit_ = kernel.domain.keep(centers)
        self.dual_coef_ = solution.value
        self.sample_weight_ = self.__dict__["coef_"] = None  # no weights of features are held
        self.alpha_, self.fit_intercept_ = alpha, bool(self.fit_intercept)
        self.plan_ = replace(plan, n_centers=kernel.domain.size(centers))
        self.n_iter_ = max(1, solution.n_iter)
        self.solution_ = solution

    def _require_rows(self, verb: str) -> None:
        """Refuse what needs all rows of a fit that has kept its centres only."""
        check_is_fitted(self)
        plan = vars(self).get("plan_")
        if plan is not None and plan.method == "falkon":
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: a fit with centres keeps {len(self.dual_coef_)} "
                f"centres, not its {self.n_rows_} rows; fit with solver='cholesky' for this."
            )


def feature_weights(model: Any) -> np.ndarray | None:
    """Return weights of the kernel's D features that give the function of a fitted model.

    None where there are no finite features, or more than the memory budget allows.

    Parameters
    ----------
    model : estimator
        Fitted, with ``dual_coef_`` of shape (n,) or (n, outputs).

    Returns
    -------
    array of shape (D,) or (D, outputs), or None
    """
    D = model.kernel_._n_features(model.X_fit_)
    if D is None or 16 * D * len(model.dual_coef_) > get_config().memory:
        return None
    return np.asarray(model.kernel_._features(model.X_fit_).T @ model.dual_coef_)


def in_rows(model: Any, weights: np.ndarray | None) -> np.ndarray | None:
    """Return weights of features in the shape of scikit-learn: a row for each output.

    Parameters
    ----------
    model : estimator
        Fitted; a classifier has one row for two classes.
    weights : ndarray of shape (D,) or (D, outputs), or None
        The weights.
    """
    if weights is None:
        return None
    return np.atleast_2d(weights.T) if "classes_" in vars(model) else weights.T


def values_of(model: Any, X: Any, weights: np.ndarray | None) -> np.ndarray:
    """Return f(x) + b of a fitted model at new points, in tiles.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : collection of n points
        The points, as they were given.
    weights : ndarray of shape (D,) or (D, outputs), or None
        Weights of the kernel's features; None for the function of ``dual_coef_``.
    """
    kernel = model.kernel_
    X = model._check_X(X, kernel, reset=False)
    with np.errstate(over="ignore", invalid="ignore"):
        if weights is None:
            out = values_at(kernel, X, model.X_fit_, model.dual_coef_)
        else:
            out = feature_values(kernel, X, weights)
        values: np.ndarray = model._finite(out + model.intercept_)
        return values


def feature_values(kernel: Kernel, X: Any, weights: np.ndarray) -> np.ndarray:
    """Return φ(x)ᵀv at checked points, in blocks of rows that fit the budget.

    Parameters
    ----------
    kernel : Kernel
        With finite features.
    X : canonical collection
        The points.
    weights : ndarray of shape (D,) or (D, outputs)
        The weights v.
    """
    X, domain = to_host(X), kernel.domain
    rows = row_blocks(domain.size(X), len(weights) * 16)
    parts = (kernel._features(domain.take(X, r)) @ weights for r in rows)
    return np.concatenate([np.asarray(part) for part in parts])


# ---- Values of a fitted function at new points, and its training points once more ----


class ValuedEstimator(KernelEstimator):
    """Base of estimators with coefficients, an offset, and weights of features where finite."""

    dual_coef_: np.ndarray
    intercept_: Any

    @property
    def function_(self) -> Function:
        """The solution as a function in the RKHS (plus its offset)."""
        check_is_fitted(self)
        a, b = self.dual_coef_, self.intercept_
        return Function(self.kernel_, self.X_fit_, a, float(np.squeeze(b)) if a.ndim == 1 else b)

    def _feature_weights(self) -> np.ndarray | None:
        """Return the weights of the kernel's features, shape (D,) or (D, outputs), or None."""
        return None

    def _values(self, X: Any) -> np.ndarray:
        """Return f(x) + b for new points, shape (n,) or (n, outputs), in tiles."""
        check_is_fitted(self)
        return values_of(self, X, self._feature_weights())

    def _points_again(self, X: Any, verb: str = "loo") -> Any:
        """Return the training points; where they are given again they must be those of the fit."""
        owner, domain = f"{type(self).__name__}.{verb}", self.kernel_.domain
        if isinstance(domain, GramRows):
            if X is None:
                raise InvalidInput(
                    f"{owner}: a fitted model does not keep a precomputed Gram matrix; pass the "
                    f"training matrix again: {verb}(K)."
                )
            return domain.check_square(self._check_X(X, self.kernel_, reset=False))
        if X is not None:
            again = to_host(self._check_X(X, self.kernel_, reset=False))
            check_same_points(domain, again, self.X_fit_, type(self).__name__, verb)
        return self.X_fit_


def log_probabilities(values: np.ndarray) -> np.ndarray:
    """Return log-probabilities of the classes for decision values, with all their digits.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, classes)
        Log-odds of the second of two classes, or a column for each class.
    """
    if values.ndim == 2:
        return log_softmax(values)
    return 0.0 - np.stack([np.logaddexp(0.0, values), np.logaddexp(0.0, -values)], axis=1)
