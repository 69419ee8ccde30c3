"""Classifiers and regressors of scikit-learn whose scores take tensors and blocks of rows too."""

from __future__ import annotations

from typing import Any

import sklearn.base

from mercer.domains.vectors import to_host
from mercer.models.block_scores import given_targets, score_blocks
from mercer.models.ridge_stream import is_stream

__all__ = ["ClassifierMixin", "RegressorMixin"]


class ClassifierMixin(sklearn.base.ClassifierMixin):
    """A classifier, scored by its accuracy."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of points whose class is predicted.

        Parameters
        ----------
        X : collection of n points, RowBlocks, or dask array or frame
            Points; when precomputed, their kernel values with the training points.
        y : array of shape (n,), optional
            Their classes; of `RowBlocks` those that the blocks carry.
        sample_weight : array of shape (n,), optional
            Weights.

        Returns
        -------
        float
            1 where all are right.
        """
        if is_stream(X):
            return score_blocks(self, X, y, sample_weight, classes=True)
        weights = to_host(sample_weight, "sample_weight")
        return float(super().score(X, given_targets(y, self), weights))


class RegressorMixin(sklearn.base.RegressorMixin):
    """A regressor, scored by R²."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², the mean of those of all outputs.

        Parameters
        ----------
        X : collection of n points, RowBlocks, or dask array or frame
            Points; when precomputed, their kernel values with the training points.
        y : array of shape (n,) or (n, n_outputs), optional
            Their targets; of `RowBlocks` those that the blocks carry.
        sample_weight : array of shape (n,), optional
            Weights.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those no better than the mean of y.
        """
        if is_stream(X):
            return score_blocks(self, X, y, sample_weight, classes=False)
        weights = to_host(sample_weight, "sample_weight")
        return float(super().score(X, given_targets(y, self), weights))
