"""What models of neighbours share: training points, the search in them, weights of votes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels import Kernel
from mercer.models.base import KernelEstimator
from mercer.models.lengths import check_lengths
from mercer.models.neighbors_search import find_nearest, neighbour_bytes
from mercer.models.training import check_same_points

__all__ = ["NeighborsBase"]


class NeighborsBase(KernelEstimator):
    """The part that classification and regression share: training points, and a search in them."""

    _learned: tuple[str, ...] = (
        "kernel_",
        "X_fit_",
        "y_fit_",
        "diagonal_",
        "n_features_in_",
        "feature_names_in_",
    )

    n_neighbors: Any
    weights: Any
    y_fit_: np.ndarray
    diagonal_: np.ndarray

    @property
    def function_(self) -> Any:
        """No function of the RKHS describes a vote of neighbours."""
        raise AttributeError(f"{type(self).__name__} has no function_: a vote is not in the RKHS.")

    # -- fit ----------------------------------------------------------------------------------
    def _remember(self, X: Any, kernel: Kernel) -> None:
        """Store checked points, after a look at the parameters."""
        self._check_weights()
        n = kernel.domain.size(X)
        self._count(self.n_neighbors, n, "fit")
        self.kernel_ = kernel.fit_params(X)
        self.diagonal_ = check_lengths(self.kernel_, X, type(self).__name__)
        self.X_fit_ = kernel.domain.keep(X)

    def _check_weights(self) -> None:
        legal = ("uniform", "distance")
        if not callable(self.weights) and not (
            isinstance(self.weights, str) and self.weights in legal
        ):
            raise InvalidInput(
                f"{type(self).__name__}: weights={self.weights!r}; give 'uniform', 'distance', or "
                "a function of an array of distances that returns as many weights."
            )

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
        if X is None and isinstance(self.kernel_.domain, GramRows):
            raise InvalidInput(
                f"{type(self).__name__}.kneighbors: a fitted model does not keep a precomputed "
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
        known = points is None or not isinstance(kernel.domain, GramRows)
        if distances and not known:
            raise InvalidInput(
                f"{type(self).__name__}: distances to new points need k(x, x), which the kernel "
                "values with training points do not tell. Use weights='uniform' and "
                "return_distance=False, or give the kernel and the points."
            )
        if points is not None:
            points, training = kernel.domain.match(points, training)
        return find_nearest(kernel, points, training, self.diagonal_, k, known=known)

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
        owner, precomputed = type(self).__name__, isinstance(self.kernel_.domain, GramRows)
        if precomputed and K is None:
            raise InvalidInput(
                f"{owner}.loo: a fitted model does not keep a precomputed Gram matrix; pass the "
                "training matrix again: loo(K)."
            )
        if not precomputed and K is not None:
            again = self._check_X(K, self.kernel_, reset=False)
            check_same_points(self.kernel_.domain, again, self.X_fit_, owner, "loo")
            K = None
        n = len(self.diagonal_)
        k = self._count(self.n_neighbors, n - 1, "loo")
        matrix = None if K is None else self._check_again(K)
        distances, where = self._search(None, k, distances=True, matrix=matrix)
        return self._combine(where, self._weights_of(distances))

    def _check_again(self, K: Any) -> Any:
        """Return the training matrix given a second time, if its diagonal is that of the fit."""
        K = self.kernel_._checked(self._check_X(K, self.kernel_, reset=False), None)[0]
        if not np.allclose(K.diagonal(), self.diagonal_, rtol=1e-5, atol=0):
            raise InvalidInput(
                f"{type(self).__name__}.loo: this is not the matrix the model was fitted on."
            )
        return K

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
        except (TypeError, ValueError) as error:
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

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        name = type(self).__name__
        missing = [n for n in ("kernel_", "X_fit_", "y_fit_", "diagonal_") if n not in held]
        if missing:
            raise ModelFileError(f"a {name} without {', '.join(missing)}")
        n = self.kernel_.domain.size(self.X_fit_)
        numbers = all(
            isinstance(held[a], np.ndarray) and held[a].dtype.kind in "fiu" and len(held[a]) == n
            for a in ("y_fit_", "diagonal_")
        )
        if not numbers or self.diagonal_.ndim != 1 or not self._fits_targets():
            raise ModelFileError(f"the arrays of a {name} do not fit one another")

    def _fits_targets(self) -> bool:
        return self.y_fit_.ndim in (1, 2) and bool(np.isfinite(self.y_fit_).all())
