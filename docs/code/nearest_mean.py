"""The nearest-barycentre classifier in feature space, the simplest model of all."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mercer.errors import speaks
from mercer.estimator import check_weights
from mercer.io import register
from mercer.models import KernelEstimator
from mercer.operators import Gram


@register
class NearestMean(ClassifierMixin, KernelEstimator):
    r"""Predict the class whose mean μ_c in feature space is nearest.

    ‖φ(x) − μ_c‖² = k(x, x) − 2μ_c(x) + ‖μ_c‖²: the class of largest 2μ_c(x) − ‖μ_c‖².

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    """

    _learned = (*KernelEstimator._learned, "classes_")

    def __init__(self, kernel: Any = "rbf"):
        self.kernel = kernel

    @speaks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Average the training points of each class; a weight of 2 counts a point twice."""
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        check_consistent_length(X, y)
        weights = check_weights(sample_weight, len(y))
        w = np.ones(len(y)) if weights is None else weights

        kernel = kernel.fit_params(X, weights)
        classes = np.unique(y[w > 0])
        mean = w[:, None] * (y[:, None] == classes)
        mean /= mean.sum(axis=0)
        a, b = 2 * mean, -(mean * (Gram(kernel, X) @ mean)).sum(axis=0)
        if len(classes) == 2:  # scikit-learn wants one value, positive for the second class
            a, b = a[:, 1] - a[:, 0], float(b[1] - b[0])

        self.classes_, self.kernel_, self.X_fit_ = classes, kernel, kernel.domain.keep(X)
        self.dual_coef_, self.intercept_ = a, b
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the value of each class at each row of X."""
        return self.function_(self._check_new(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X."""
        values = self.decision_function(X)
        return self.classes_[
            values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)
        ]
