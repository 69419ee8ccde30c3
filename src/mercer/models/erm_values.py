"""Values of a fitted function at new points, and its training points once more."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput
from mercer.models.base import KernelEstimator
from mercer.models.ridge_centred import values_of
from mercer.models.training import check_same_points
from mercer.rkhs import Function
from mercer.solvers.risk.softmax import log_softmax

__all__ = ["ValuedEstimator", "log_probabilities"]


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
