"""Classification by kernel ridge regression, with exact leave-one-out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.errors import ModelFileError
from mercer.models.base import check_weights
from mercer.models.labels import check_labels, choose_class, class_weights, find_classes
from mercer.models.ridge import FitData, RidgeBase

__all__ = ["KernelRidgeClassifier"]


class KernelRidgeClassifier(ClassifierMixin, RidgeBase):
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
    coef_ : array of shape (1, D) or (n_classes, D), or None
        Weights of the kernel's explicit features; None where it has no finite ones.
    intercept_ : float or array of shape (n_classes,)
        The offset; for two classes one number, where scikit-learn has an array of one.
    dual_coef_, X_fit_, kernel_, alpha_, loo_errors_, solution_, function_
        As for `KernelRidge`, for the ±1 targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelRidgeClassifier(alpha=0.1).fit(X, y).score(X, y) > 0.95)
    True
    """

    _learned = (*RidgeBase._learned, "classes_")

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
        with self._all_or_nothing():
            data = self._prepare(X, y, sample_weight)
            self._fit(data)
            self.classes_ = np.asarray(data.classes)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> FitData:
        self._check_flags()
        kernel = self._kernel()
        X = self._check_X(X, kernel, reset=True)
        n = kernel.domain.size(X)
        y = check_labels(y, n, "KernelRidgeClassifier")
        weights = check_weights(sample_weight, n, "KernelRidgeClassifier")
        if self.class_weight is not None:
            balance = class_weights(self.class_weight, y, weights, "KernelRidgeClassifier")
            weights = balance if weights is None else weights * balance
            weights = check_weights(weights, n, "KernelRidgeClassifier: class_weight")
        classes = find_classes(y if weights is None else y[weights > 0], "KernelRidgeClassifier")
        T = np.where(y[:, None] == classes[None, :], 1.0, -1.0)
        two = len(classes) == 2
        kernel = kernel.fit_params(X, weights)
        return FitData(kernel, X, T[:, 1:] if two else T, weights, two, classes)

    def _check_state(self) -> None:
        super()._check_state()
        if "dual_coef_" not in vars(self):
            return
        classes = vars(self).get("classes_")
        columns = np.shape(self.dual_coef_)[1:] or (2,)
        if classes is None or len(np.unique(classes)) != len(classes) or len(classes) != columns[0]:
            raise ModelFileError("the classes of a KernelRidgeClassifier do not fit its arrays")

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
        return choose_class(self.decision_function(X), self.classes_)

    def loo_decision_function(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the decision values at the training points, each from a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row; a row is left out with all of its group.
        """
        values = self._loo_targets(X, groups)
        return values[:, 0] if self.dual_coef_.ndim == 1 else values

    def loo(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row; a row is left out with all of its group.
        """
        return choose_class(self.loo_decision_function(X, groups=groups), self.classes_)
