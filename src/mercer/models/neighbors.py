"""Classification and regression by the nearest points in feature space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin

from mercer.models.base import check_targets
from mercer.models.labels import check_labels
from mercer.models.neighbors_base import NeighborsBase
from mercer.models.scored import ClassifierMixin, RegressorMixin

__all__ = ["KernelNeighborsClassifier", "KernelNeighborsRegressor"]


class KernelNeighborsClassifier(ClassifierMixin, NeighborsBase):
    r"""Classification by a vote of the nearest points in feature space.

    The neighbours of x are the training points of smallest distance
    d(x, x′)² = k(x, x) + k(x′, x′) − 2k(x, x′), found exactly, in tiles. Any kernel on any kind of
    data will do; with `Linear` this is the vote of the nearest points themselves, as it is with
    `RBF`, whose distance in feature space grows with the distance of the points.

    Of classes with as many votes the first in `classes_` wins; of training points at one distance
    those that come first are taken.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    n_neighbors : int, default=5
        How many neighbours vote.
    weights : "uniform", "distance" or callable, default="uniform"
        Weights of the votes: all the same; 1/d, where neighbours at distance 0 outvote all others;
        or a function that turns an array of distances into an array of weights.

    Attributes
    ----------
    classes_ : array
        The classes.
    X_fit_ : collection
        The training points.
    y_fit_ : array of shape (n,)
        The position in `classes_` of the class of each.
    diagonal_ : array of shape (n,)
        k(x, x) of each.
    kernel_ : Kernel
        The kernel with words resolved.

    Examples
    --------
    >>> from mercer import KernelNeighborsClassifier
    >>> def shared_letters(s, t):
    ...     return float(len(set(s) & set(t)))
    >>> model = KernelNeighborsClassifier(shared_letters, n_neighbors=1)
    >>> model.fit(["nine", "one", "red", "green"], ["number", "number", "colour", "colour"])
    KernelNeighborsClassifier(kernel=..., n_neighbors=1)
    >>> model.predict(["none", "greed"])
    array(['number', 'colour'], dtype='<U6')
    """

    _learned = (*NeighborsBase._learned, "classes_")

    def __init__(self, kernel: Any = "rbf", n_neighbors: int = 5, *, weights: Any = "uniform"):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training points and their classes.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.

        Returns
        -------
        KernelNeighborsClassifier
            The fitted model itself.
        """
        with self._all_or_nothing():
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            y = check_labels(y, kernel.domain.size(X), "KernelNeighborsClassifier")
            self._remember(X, kernel)
            self.classes_, codes = np.unique(y, return_inverse=True)
            self.y_fit_ = codes.reshape(-1)
        return self

    def _combine(self, where: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the share of the votes of each class, shape (m, classes)."""
        votes = np.zeros((len(where), len(self.classes_)))
        rows = np.arange(len(where))
        for q, codes in enumerate(self.y_fit_[where].T):
            votes[rows, codes] += 1.0 if weights is None else weights[:, q]
        return votes / votes.sum(axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of the votes of each class, one column a class.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._answers(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def loo_proba(self, X: Any = None) -> np.ndarray:
        """Return the shares of the votes about each training point, which has no vote itself.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by the others; exact.

        The kernel is that of the fitted model.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        best = self.loo_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _fits_targets(self) -> bool:
        codes, classes = self.y_fit_, vars(self).get("classes_")
        if classes is None or codes.ndim != 1 or codes.dtype.kind not in "iu" or not len(codes):
            return False
        distinct = len(np.unique(classes)) == len(classes)
        return distinct and bool(0 <= codes.min() and codes.max() < len(classes))


class KernelNeighborsRegressor(MultiOutputMixin, RegressorMixin, NeighborsBase):
    r"""Regression by the mean of the nearest points in feature space.

    The neighbours of x are the training points of smallest distance
    d(x, x′)² = k(x, x) + k(x′, x′) − 2k(x, x′), found exactly, in tiles, for any kernel on any kind
    of data.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    n_neighbors : int, default=5
        How many neighbours are averaged.
    weights : "uniform", "distance" or callable, default="uniform"
        Weights of the mean, as for `KernelNeighborsClassifier`.

    Attributes
    ----------
    X_fit_ : collection
        The training points.
    y_fit_ : array of shape (n,) or (n, n_outputs)
        Their targets.
    diagonal_ : array of shape (n,)
        k(x, x) of each.
    kernel_ : Kernel
        The kernel with words resolved.

    Examples
    --------
    >>> from mercer import KernelNeighborsRegressor, Linear
    >>> model = KernelNeighborsRegressor(Linear(), n_neighbors=2)
    >>> model.fit([[0.0], [1.0], [4.0]], [0.0, 10.0, 40.0]).predict([[0.4], [3.0]])
    array([ 5., 25.])
    """

    def __init__(self, kernel: Any = "rbf", n_neighbors: int = 5, *, weights: Any = "uniform"):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training points and their targets.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,) or (n, n_outputs)
            Targets.

        Returns
        -------
        KernelNeighborsRegressor
            The fitted model itself.
        """
        with self._all_or_nothing():
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            y = check_targets(y, kernel.domain.size(X), "KernelNeighborsRegressor")
            self._remember(X, kernel)
            self.y_fit_ = y.copy()
        return self

    def _combine(self, where: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the mean of the neighbours' targets."""
        w = np.ones(where.shape) if weights is None else weights
        T = self.y_fit_.reshape(len(self.y_fit_), -1)
        total = np.zeros((len(where), T.shape[1]))
        for q in range(where.shape[1]):
            total += w[:, q, None] * T[where[:, q]]
        total /= w.sum(axis=1, keepdims=True)
        return total.reshape(len(where), *self.y_fit_.shape[1:])

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean target of the neighbours of each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._answers(X)

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the mean target of the neighbours of each training point without itself; exact.

        The kernel is that of the fitted model.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)
