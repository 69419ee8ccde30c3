"""What models of neighbours share: training points, the search in them, weights of votes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import moderate, shifted
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    KernelEstimator,
    accuracy,
    check_labels,
    check_lengths,
    check_targets,
    r_squared,
    tell_rounding,
)
from mercer.kernels import Kernel, geometry_of
from mercer.memory import row_blocks
from mercer.operators import find_nearest, gram_of, neighbour_bytes


class NeighborsBase(KernelEstimator):
    """The part that classification and regression share: training points, and a search in them."""

    _parameters = {
        "weights": checks.Either(
            checks.Word("uniform", "distance"),
            checks.Legal(callable, "a function"),
            says="give 'uniform', 'distance', or a function of an array of distances that returns "
            "as many weights",
        )
    }
    _state: state.State = {
        "kernel_": state.Anything(),
        "X_fit_": state.Points("n"),
        "diagonal_": state.Array("n", kind="fiu"),
        **state.INPUTS,
    }

    y_fit_: np.ndarray
    diagonal_: np.ndarray

    def __init__(self, kernel: Any = "rbf", n_neighbors: int = 5, *, weights: Any = "uniform"):
        self.kernel = kernel
        self.n_neighbors = n_neighbors
        self.weights = weights

    @property
    def function_(self) -> Any:
        """No function of the RKHS describes a vote of neighbours."""
        raise AttributeError(f"{type(self).__name__} has no function_: a vote is not in the RKHS.")

    @property
    def explain(self) -> Any:
        """A vote has no shares of columns in closed form."""
        raise AttributeError(
            f"{type(self).__name__} has no explain: a vote of neighbours is no function in the "
            "RKHS; a KernelRidge on the same kernel has one."
        )

    # -- fit ----------------------------------------------------------------------------------
    @speaks
    def _remember(self, X: Any, kernel: Kernel) -> None:
        """Store checked points, after a look at the parameters."""
        checks.check_parameters(self)
        n = kernel.domain.size(X)
        self._count(self.n_neighbors, n, "fit")
        self.kernel_ = kernel.fit_params(X)
        self.diagonal_ = check_lengths(self.kernel_, X)
        if self.kernel_.domain.holds_points and geometry_of(self.kernel_) is None:
            tell_rounding(self.kernel_, X, self.diagonal_)
        self.X_fit_ = kernel.domain.keep(X)

    def _count(self, k: Any, n: int, verb: str) -> int:
        """Return a number of neighbours that n points can have."""
        owner = f"{type(self).__name__}.{verb}"
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise InvalidInput(f"{owner}: n_neighbors={k!r}; give a whole number ≥ 1.")
        if n == 0:
            raise InvalidInput(
                f"{owner}: n_neighbors={k}, but the only training point has no other to be its "
                "neighbour; fit at least two points."
            )
        if k > n:
            raise InvalidInput(
                f"{owner}: n_neighbors={k} with n_samples = {n} points to choose from; give at "
                f"most {n}, or more training points."
            )
        return int(k)

    # -- search -------------------------------------------------------------------------------
    @speaks
    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Return the nearest training points of each row of X, nearest first.

        Equal distances are sorted by position, so the answer does not depend on chance.

        Parameters
        ----------
        X : collection of m points, optional
            New points; when precomputed, their kernel values with the training points. By default
            the training points, none of which is its own neighbour.
        n_neighbors : int, optional
            How many; by default the parameter of the model.
        return_distance : bool, default=True
            Whether to return distances too. They need k(x, x), which kernel values of new points
            with training points do not tell.

        Returns
        -------
        distances : array of shape (m, n_neighbors)
            Distances ‖φ(x) − φ(xⱼ)‖ in feature space; only with `return_distance`.
        indices : array of shape (m, n_neighbors)
            Positions in the training data.
        """
        check_is_fitted(self)
        if X is None and not self.kernel_.domain.holds_points:
            raise InvalidInput(
                f"{who()}.kneighbors: a fitted model does not keep a precomputed "
                "Gram matrix; pass rows of kernel values. To leave each point out, call loo(K)."
            )
        points = None if X is None else self._check_new(X)
        n = len(self.diagonal_) - (X is None)
        k = self._count(self.n_neighbors if n_neighbors is None else n_neighbors, n, "kneighbors")
        if points is None:
            found = [self._search(None, k, distances=return_distance)]
        else:
            found = list(self._in_blocks(points, k, distances=return_distance))
        where = np.concatenate([at for _, at in found])
        if not return_distance:
            return where
        return np.concatenate([distances for distances, _ in found]), where

    def _search(
        self, points: Any, k: int, *, distances: bool, matrix: Any = None
    ) -> tuple[Any, np.ndarray]:
        """Return distances and positions for new points, or for those of the fit where None."""
        kernel = self.kernel_
        training = self.X_fit_ if matrix is None else matrix
        known = points is None or kernel.domain.holds_points
        if distances and not known:
            raise InvalidInput(
                f"{type(self).__name__}: distances to new points need k(x, x), which the kernel "
                "values with training points do not tell. Use weights='uniform' and "
                "return_distance=False, or give the kernel and the points."
            )
        if points is not None:
            points, training = kernel.domain.match(points, training)
        model = self if matrix is None and training is self.X_fit_ else None
        return find_nearest(
            *(kernel, points, training, self.diagonal_, k),
            known=known,
            model=model,
            distances=distances,
        )

    def _in_blocks(self, points: Any, k: int, *, distances: bool) -> Iterator[Any]:
        """Yield distances and positions of new points, a block of rows at a time."""
        domain = self.kernel_.domain
        rows = row_blocks(domain.size(points), neighbour_bytes(k))
        for part in rows:
            some = domain.take(points, part) if len(rows) > 1 else points
            yield self._search(some, k, distances=distances)

    def _answers(self, X: Any) -> np.ndarray:
        """Return what the neighbours of new points say."""
        points = self._check_new(X)
        k = self._count(self.n_neighbors, len(self.diagonal_), "predict")
        found = self._in_blocks(points, k, distances=not self._uniform)
        return np.concatenate([self._combine(at, self._weights_of(d)) for d, at in found])

    def _left_out(self, K: Any) -> np.ndarray:
        """Return what the neighbours of each training point say of it."""
        check_is_fitted(self)
        points = self._points_again(K, "loo")
        k = self._count(self.n_neighbors, len(self.diagonal_) - 1, "loo")
        distances, where = self._search(None, k, distances=True, matrix=points)
        return self._combine(where, self._weights_of(distances))

    def _points_again(self, X: Any, verb: str) -> Any:
        points = super()._points_again(X, verb)
        if self.kernel_.domain.holds_points:
            return points
        own = gram_of(self.kernel_, points).diagonal()
        if not np.allclose(own, self.diagonal_, rtol=1e-5, atol=0):
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: this is not the matrix the model was fitted on."
            )
        return points

    @property
    def _uniform(self) -> bool:
        return isinstance(self.weights, str) and self.weights == "uniform"

    # -- votes --------------------------------------------------------------------------------
    def _weights_of(self, distances: np.ndarray | None) -> np.ndarray | None:
        """Return the weight of each neighbour, the largest 1; None for equal weights."""
        if self._uniform or distances is None:
            return None
        if not callable(self.weights):
            # Where 1/d is infinite it outweighs all others: only points at the same place count.
            with np.errstate(divide="ignore", over="ignore"):
                w = 1.0 / distances
            at = np.isinf(w)
            w = np.where(at.any(axis=1, keepdims=True), at, w)
            return w / w.max(axis=1, keepdims=True)
        name = f"{type(self).__name__}: weights"
        try:
            w = np.asarray(self.weights(distances.copy()), dtype=float)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"{name}: the function did not return numbers ({error}).") from error
        if w.shape != distances.shape:
            raise InvalidInput(
                f"{name}: the function must return an array of the shape of the distances, "
                f"{distances.shape}; got shape {w.shape}."
            )
        bad = ~(np.isfinite(w) & (w >= 0))
        if bad.any():
            i, q = (int(a[0]) for a in np.nonzero(bad))
            raise InvalidInput(
                f"{name}: the function must return finite numbers ≥ 0; it returned {w[i, q]:g} for "
                f"the distance {distances[i, q]:g}."
            )
        empty = ~(w > 0).any(axis=1)
        if empty.any():
            raise InvalidInput(
                f"{name}: all neighbours of row {int(empty.argmax())} have weight zero, so none "
                "counts; give at least one a positive weight."
            )
        return w / w.max(axis=1, keepdims=True)

    def _combine(self, where: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return what the neighbours of each row say together."""
        raise InvalidInput(f"{type(self).__name__}: define _combine(where, weights).")


# ---- Classification and regression by the nearest points in feature space ----


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

    _state = NeighborsBase._state | {
        "classes_": state.Labels("c", lacks=state.MISFIT),
        "y_fit_": state.Whole("n", least=0, below="c"),
    }

    score = accuracy

    @speaks("KernelNeighborsClassifier")
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
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            y = check_labels(y, kernel.domain.size(X))
            self._remember(X, kernel)
            self.classes_, codes = np.unique(y, return_inverse=True)
            self.y_fit_ = codes.reshape(-1)
        return self

    def _combine(self, where: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the share of the votes of each class, shape (m, classes)."""
        n, c = len(where), len(self.classes_)
        cells = self.y_fit_[where] + np.arange(0, n * c, c)[:, None]
        given = None if weights is None else weights.reshape(-1)
        votes = np.bincount(cells.reshape(-1), given, n * c).reshape(n, c)
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

    @speaks
    def loo_proba(self, X: Any = None) -> np.ndarray:
        """Return the shares of the votes about each training point, which has no vote itself.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)

    @speaks
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

    _state = NeighborsBase._state | {"y_fit_": state.Floats("n", "t?", kind="fiu")}

    score = r_squared

    @speaks("KernelNeighborsRegressor")
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
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            y = check_targets(y, kernel.domain.size(X))
            self._remember(X, kernel)
            self.y_fit_ = y.copy()
        return self

    def _combine(self, where: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the mean of the neighbours' targets."""
        w = np.ones(where.shape) if weights is None else weights
        (T,), shift = moderate([self.y_fit_.reshape(len(self.y_fit_), -1)])
        total = np.zeros((len(where), T.shape[1]))
        for q in range(where.shape[1]):
            total += w[:, q, None] * T[where[:, q]]
        total /= w.sum(axis=1, keepdims=True)
        if shift:  # of numbers near the largest of all a mean may be rounded beyond it
            total = shifted(np.clip(total, T.min(axis=0), T.max(axis=0)), shift)
        return total.reshape(len(where), *self.y_fit_.shape[1:])

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean target of the neighbours of each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._answers(X)

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return the mean target of the neighbours of each training point without itself; exact.

        The kernel is that of the fitted model.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)
