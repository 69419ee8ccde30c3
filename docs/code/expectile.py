"""Expectile regression, an estimator written as those of mercer are."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from mercer.checks import Number, check_parameters
from mercer.errors import speaks, who
from mercer.estimator import check_targets, check_weights
from mercer.io import register
from mercer.models import KernelEstimator
from mercer.operators import Gram
from mercer.solvers import Cholesky, Linear, Solution

MOST = 50  # systems to solve
NONE = 1e-200  # stands for a weight of 0: the coefficient of such a row is 0 to the last digit


@register
class KernelExpectileRegressor(RegressorMixin, KernelEstimator):
    r"""Regression that prices errors by their sign: min Σ wᵢqᵢ(yᵢ − f(xᵢ))² + α‖f‖².

    qᵢ is 2τ where yᵢ > f(xᵢ) and 2(1 − τ) elsewhere. τ = ½ is ridge regression; with τ near 1 the
    function follows the upper edge of the data.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    expectile : float, default=0.5
        The level τ, between 0 and 1.
    alpha : float, default=1.0
        The penalty, > 0.
    """

    _parameters = {  # what is legal, each by itself
        "expectile": Number(above=0, below=1, says="give a number in (0, 1)"),
        "alpha": Number(above=0),
    }

    def __init__(self, kernel: Any = "rbf", expectile: float = 0.5, alpha: float = 1.0):
        self.kernel = kernel
        self.expectile = expectile
        self.alpha = alpha

    @speaks  # messages begin with the name of the class
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to points X and targets y; a weight of 2 is the row given twice."""
        with self._all_or_nothing(X):
            # check
            check_parameters(self)
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            y = column_or_1d(check_targets(y, n), warn=True)
            weights = check_weights(sample_weight, n)
            # kernel: words such as "median" are read off the rows
            kernel = kernel.fit_params(X, weights)
            # Gram matrix, problem, solve
            K = Gram(kernel, X, keep=False)  # written anew into the array that is factorised
            solution = self._solve(K, y, np.ones(n) if weights is None else weights)
            # store
            self.kernel_, self.X_fit_ = kernel, kernel.domain.keep(X)
            self.dual_coef_, self.intercept_ = solution.unwrap(), 0.0
            self.solution_ = solution
        return self

    def _solve(self, K: Gram, y: np.ndarray, w: np.ndarray) -> Solution:
        """Solve (K + D)a = y, D = α/(wq): there y − Ka = Da, so an error has the sign of aᵢ."""
        above = y > 0
        for n_iter in range(1, MOST + 1):
            q = np.where(above, 2 * self.expectile, 2 * (1 - self.expectile))
            ridge = self.alpha / np.maximum(w * q, NONE)
            solution = Cholesky().solve(Linear(K, np.where(w > 0, y, 0.0), ridge))
            before, above = above, solution.value > 0
            if (before == above)[w > 0].all():  # q is that of the answer: the minimum
                return replace(solution, n_iter=n_iter)
        message = (
            f"{who()}: after {MOST} systems errors still change their sign; use a "
            "larger alpha, or an expectile nearer to 0.5."
        )
        return replace(solution, n_iter=MOST, converged=False, message=message)

    def predict(self, X: Any) -> np.ndarray:
        """Return the expectile at each row of X."""
        return self._finite(np.asarray(self.function_(self._check_new(X))))
