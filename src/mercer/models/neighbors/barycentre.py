"""Classification by the nearest mean in feature space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import state
from mercer.errors import InvalidInput, NotAKernel, NotPositiveDefinite, speaks, who
from mercer.estimator import (
    INDEFINITE,
    KernelEstimator,
    accuracy,
    check_labels,
    check_lengths,
    check_weights,
    choose_class,
    find_classes,
    geometric_margin,
    tell_rounding,
)
from mercer.kernels import Kernel
from mercer.lapack import heard
from mercer.memory import require_memory, row_blocks
from mercer.operators import Gram, gram_of
from mercer.rkhs import few_features, mean_of_rows

JUDGED = 500  # classes up to which the matrix of inner products of the barycentres is judged
FAR = 1e-7  # part of k(x, x) that a class spreads over, below which features are subtracted


class NearestBarycentre(ClassifierMixin, KernelEstimator):
    r"""Classification by the nearest barycentre in feature space.

    With μ_c the weighted mean of φ over the training points of class c,
    ‖φ(x) − μ_c‖² = k(x, x) − 2μ_c(x) + ‖μ_c‖², and the class with the smallest wins, the one with
    the largest value 2μ_c(x) − ‖μ_c‖². Between two classes this is a plane in feature space, half
    way between the barycentres. Nothing is solved for: a fit is one pass over the Gram matrix, in
    tiles. Far from the origin of feature space, where these differences cancel, distances come from
    differences of features, if the kernel has a few thousand at most; if not, a warning tells of
    classes that are lost in rounding.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.

    Attributes
    ----------
    classes_ : array
        The classes.
    norms_ : array of shape (n_classes,)
        The lengths ‖μ_c‖ of the barycentres.
    dual_coef_ : array of shape (n,) or (n, n_classes)
        Coefficients of 2μ_c; of two classes those of 2μ₁ − 2μ₀.
    intercept_ : float or array of shape (n_classes,)
        −‖μ_c‖²; of two classes one number, no array of one: ‖μ₀‖² − ‖μ₁‖².
    margin_ : float
        Geometric margin: the least distance in feature space from a training point to where the
        predicted class changes, y(f(x) + b)/‖f‖ for two classes; negative if one is wrong.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    function_ : Function
        The decision function.

    See Also
    --------
    mercer.distance_to_set : Distances to one barycentre.

    Examples
    --------
    >>> from mercer import NearestBarycentre, Polynomial
    >>> corners = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    >>> NearestBarycentre(Polynomial(2)).fit(corners, [0, 1, 1, 0]).predict(corners)
    array([0, 1, 1, 0])
    """

    _state = state.SOLVED | {"classes_": state.Labels("t?"), "norms_": state.Floats("c")}
    del _state["solution_"]

    classes_: np.ndarray
    norms_: np.ndarray

    score = accuracy

    def __init__(self, kernel: Any = "rbf"):
        self.kernel = kernel

    @speaks("NearestBarycentre")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Average the training points of each class.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        NearestBarycentre
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            y = check_labels(y, n)
            weights = check_weights(sample_weight, n)
            classes = find_classes(y if weights is None else y[weights > 0])
            kernel = kernel.fit_params(X, weights)
            require_memory(
                32 * n * len(classes),
                f"{who()}: weights of {n} points in {len(classes)} classes",
                "Fit fewer rows",
            )
            w = np.ones(n) if weights is None else weights / weights.max()
            mean = np.where(y[:, None] == classes, w[:, None], 0.0)
            mean /= mean.sum(axis=0)
            lengths = check_lengths(kernel, X, underflow=True)
            inner = mean.T @ (Gram(kernel, X, keep=False) @ mean)
            _check_inner(kernel, inner, mean.T @ lengths)
            spread = float((mean.T @ lengths - np.diagonal(inner)).min())
            if spread < FAR * lengths.max() and few_features(kernel, X) is None:
                tell_rounding(kernel, X, lengths)
            squares = np.maximum(np.diagonal(inner), 0.0)
            two = len(classes) == 2
            self.kernel_, self.X_fit_, self.classes_ = kernel, kernel.domain.keep(X), classes
            self.norms_ = np.sqrt(squares)
            self.dual_coef_ = 2 * (mean[:, 1] - mean[:, 0]) if two else 2 * mean
            self.intercept_ = float(squares[0] - squares[1]) if two else -squares
        return self

    @property
    def margin_(self) -> float:
        """Geometric margin: the least distance from a training point to where the class changes.

        In feature space, y(f(x) + b)/‖f‖ for two classes; negative if a point is on the wrong side.
        """
        check_is_fitted(self)
        a = self.dual_coef_
        codes = (a > 0).astype(int) if a.ndim == 1 else a.argmax(axis=1)
        return geometric_margin(self, np.where(a.reshape(len(a), -1).any(axis=1), codes, -1))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 2μ_c(x) − ‖μ_c‖², the larger the nearer, one column a class.

        Of two classes one number, the difference of the squared distances to the first and to the
        second barycentre.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        points = self._check_new(X)
        squares = self._far(points)
        if squares is None:
            return self._finite(np.asarray(self.function_(points)))
        if len(self.classes_) == 2:
            return self._finite(squares[:, 0] - squares[:, 1])
        return self._finite(np.asarray(self.kernel_.diag(points))[:, None] - squares)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        points = self._check_new(X)
        squares = self._far(points)
        if squares is not None:
            return self.classes_[squares.argmin(axis=1)]
        return choose_class(self._finite(np.asarray(self.function_(points))), self.classes_)

    @property
    def _twice(self) -> np.ndarray:
        """Twice the weights of the barycentres, one column a class."""
        twice = self.dual_coef_
        if len(self.classes_) == 2:  # 2μ₁ − 2μ₀: the positive part is 2μ₁, the negative part 2μ₀
            twice = np.stack([np.maximum(-twice, 0), np.maximum(twice, 0)], axis=1)
        return twice

    def _far(self, points: Any) -> np.ndarray | None:
        """Return squared distances by differences of features, where those of values cancel.

        That is where the points of a class are near one another for their distance from the origin.
        """
        kernel = self.kernel_
        if not kernel.domain.holds_points:
            return None
        lengths = np.asarray(kernel.diag(self.X_fit_), dtype=float)
        spreads = 0.5 * self._twice.T @ lengths - self.norms_**2
        if not spreads.min() < FAR * lengths.max():
            return None
        features = few_features(kernel, self.X_fit_, kernel.domain.size(points))
        if features is None or gram_of(kernel, points).n_features is None:  # new letters, say
            return None
        centres = np.asarray(mean_of_rows(features, 0.5 * self._twice), dtype=float)
        out = np.empty((kernel.domain.size(points), len(centres)))
        for rows in row_blocks(len(out), 6 * 8 * centres.shape[1]):
            part = gram_of(kernel, kernel.domain.take(points, rows)).features()
            part = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=float)
            for c, centre in enumerate(centres):
                gaps = part - centre
                out[rows, c] = np.einsum("ij,ij->i", gaps, gaps)
        return out

    @speaks
    def distances(self, X: Any) -> np.ndarray:
        """Return the distance of each row of X to each barycentre, one column a class.

        Parameters
        ----------
        X : collection of points
            New points. Kernel values alone do not tell their lengths k(x, x).
        """
        points = self._check_new(X)
        if not self.kernel_.domain.holds_points:
            raise InvalidInput(
                "NearestBarycentre.distances: kernel values with training points do not tell "
                "k(x, x) of new points; give the kernel and the points. decision_function needs "
                "no k(x, x)."
            )
        far = self._far(points)
        if far is not None:
            return np.sqrt(far)
        values = self.kernel_.matmul(points, self.X_fit_, self._twice) - self.norms_**2
        lengths = np.asarray(self.kernel_.diag(points), dtype=float)
        squares = lengths[:, None] - values
        bad = squares < -INDEFINITE * (np.abs(lengths)[:, None] + self.norms_**2)
        if bad.any():
            i, c = (int(a[0]) for a in np.nonzero(bad))
            raise NotAKernel(
                f"NearestBarycentre.distances: the squared distance of row {i} to the barycentre "
                f"of class {self.classes_[c]!r} is {squares[i, c]:.3g} < 0. {self.kernel_} is "
                "not a kernel; mercer.check_kernel shows a counter-example."
            )
        return np.sqrt(np.maximum(squares, 0.0))


def _check_inner(kernel: Kernel, inner: np.ndarray, lengths: np.ndarray) -> None:
    """Refuse inner products ⟨μ_c, μ_c′⟩ that are not those of vectors, beyond rounding."""
    low = float(heard(np.linalg.eigvalsh, inner)[0]) if len(inner) <= JUDGED else 0.0
    if low < -INDEFINITE * float(lengths.sum()):
        raise NotPositiveDefinite(
            f"{who()}: the inner products of the barycentres have the eigenvalue {low:.4g} < 0, so "
            f"{kernel} is not a kernel. mercer.check_kernel shows a counter-example.",
            low,
        )
