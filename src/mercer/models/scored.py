"""Classifiers and regressors of scikit-learn whose scores take tensors and blocks of rows too."""

from __future__ import annotations

from typing import Any

import sklearn.base

from mercer.domains.vectors import to_host
from mercer.models.block_scores import given_targets, score_blocks
from mercer.models.ridge_stream import is_stream

__all__ = ["ClassifierMixin", "RegressorMixin", "score_as"]


def score_as(model: Any, X: Any, y: Any, sample_weight: Any, classes: bool) -> float:
    """Return the accuracy of a model that predicts classes, R² of one that predicts numbers.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : collection of n points, RowBlocks, or dask array or frame
        Points.
    y, sample_weight : arrays, optional
        Targets and weights; of `RowBlocks` those that the blocks carry.
    classes : bool
        Whether the targets are classes.
    """
    if is_stream(X):
        return score_blocks(model, X, y, sample_weight, classes)
    known: Any = sklearn.base.ClassifierMixin if classes else sklearn.base.RegressorMixin
    weights = to_host(sample_weight, "sample_weight")
    return float(known.score(model, X, given_targets(y, model), weights))


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
        return score_as(self, X, y, sample_weight, classes=True)


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
        return score_as(self, X, y, sample_weight, classes=False)
