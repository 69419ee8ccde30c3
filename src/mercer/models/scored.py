"""Classifiers and regressors of scikit-learn whose scores take tensors of any device as well."""

from __future__ import annotations

from typing import Any

import sklearn.base

from mercer.domains.vectors import to_host

__all__ = ["ClassifierMixin", "RegressorMixin"]


class ClassifierMixin(sklearn.base.ClassifierMixin):
    """A classifier, scored by its accuracy."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of points whose class is predicted.

        Parameters
        ----------
        X : collection of n points
            Points; when precomputed, their kernel values with the training points.
        y : array of shape (n,)
            Their classes.
        sample_weight : array of shape (n,), optional
            Weights.

        Returns
        -------
        float
            1 where all are right.
        """
        weights = to_host(sample_weight, "sample_weight")
        return float(super().score(X, to_host(y, "y"), weights))


class RegressorMixin(sklearn.base.RegressorMixin):
    """A regressor, scored by R²."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², the mean of those of all outputs.

        Parameters
        ----------
        X : collection of n points
            Points; when precomputed, their kernel values with the training points.
        y : array of shape (n,) or (n, n_outputs)
            Their targets.
        sample_weight : array of shape (n,), optional
            Weights.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those no better than the mean of y.
        """
        weights = to_host(sample_weight, "sample_weight")
        return float(super().score(X, to_host(y, "y"), weights))
