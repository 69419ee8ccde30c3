"""What a fitted k-means model says about points: their clusters and their distances to centres."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.base import check_weights
from mercer.kernels import Linear
from mercer.models.base import KernelEstimator
from mercer.models.block_scores import sum_blocks
from mercer.models.cluster.kmeans_spaces import ARRAYS
from mercer.models.cluster.lloyd import Look, compare, rounding_of
from mercer.models.lengths import beyond_features
from mercer.models.ridge_stream import is_stream
from mercer.rkhs import Function

__all__ = ["CentreAnswers", "distances"]

# ⟨φ(x), μ⟩, ‖μ‖², ‖φ(x)‖² and, where numbers have cancelled, their size.
Seen = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


def _has_lengths(model: Any) -> bool:
    """Whether k(x, x) of new points can be known."""
    try:
        matrix = isinstance(model._kernel().domain, GramRows)
    except InvalidInput:  # fit will say what is wrong with the kernel
        return True
    if matrix:
        raise AttributeError(
            f"{type(model).__name__}: kernel values with training points do not tell k(x, x) of "
            "new points, so distances are not known; give the kernel and the points. predict needs "
            "no k(x, x), and fit_transform has that of the training points."
        )
    return True


class CentreAnswers(TransformerMixin, KernelEstimator):
    """Answers from centres μ_c = Σⱼ aⱼ_c φ(xⱼ), or from centres as vectors of features."""

    center_coef_: np.ndarray | None
    center_features_: np.ndarray | None
    center_squares_: np.ndarray

    @property
    def function_(self) -> Function:
        """The centres as functions of the RKHS, one output for each: x ↦ ⟨φ(x), μ_c⟩."""
        check_is_fitted(self)
        if self.center_coef_ is not None:
            return Function(self.kernel_, self.X_fit_, self.center_coef_)
        if self._plain:
            centres = self.cluster_centers_
            return Function(self.kernel_, centres, np.eye(len(centres)))
        raise AttributeError(
            f"{type(self).__name__} has no function_ for {self.kernel_!r}: the centres are kept as "
            "feature vectors, center_features_."
        )

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centres as points, for the linear kernel."""
        check_is_fitted(self)
        if not self._plain:
            raise AttributeError(
                f"{type(self).__name__} has no cluster_centers_ for {self.kernel_!r}: means in "
                "feature space are no points. function_ has them as functions."
            )
        if self.center_features_ is not None:
            return self.center_features_
        return np.ascontiguousarray((self.X_fit_.T @ self.center_coef_).T)

    @property
    def _plain(self) -> bool:
        """Whether points are their own features."""
        linear = isinstance(self.kernel_, Linear)
        return linear and getattr(self.kernel_, "covariance", None) is None

    # -- inner products -----------------------------------------------------------------------
    def _inner(self, points: Any) -> Seen:
        """Return ⟨φ(x), μ⟩ (k, m), ‖μ‖² (k,) and ‖φ(x)‖² (m,), up to one shift of the origin."""
        V = self.center_features_
        if V is None:
            inner = self.kernel_.matmul(points, self.X_fit_, self.center_coef_)
            inner = np.ascontiguousarray(self._finite(np.asarray(inner, dtype=float)).T)
            if isinstance(self.kernel_.domain, GramRows):
                return inner, self.center_squares_, np.zeros(inner.shape[1]), None
            lengths = np.asarray(self.kernel_.diag(points), dtype=float)
            return inner, self.center_squares_, lengths, None
        F, origin = self.kernel_.features(points), np.median(V, axis=0)
        beyond = beyond_features(self.kernel_, points, F)
        V = V - origin
        squares, far = np.einsum("ij,ij->i", V, V), float(np.linalg.norm(origin))
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(F):
                inner = (F @ V.T).T - (V @ origin)[:, None]
                lengths = np.asarray(F.multiply(F).sum(axis=1), dtype=float).ravel()
                lengths = np.maximum(lengths - 2 * (F @ origin) + origin @ origin, 0.0)
            else:
                F = np.asarray(F, dtype=float) - origin
                inner, lengths = V @ F.T, np.einsum("ij,ij->i", F, F)
            lengths += beyond
        self._finite(inner.T + lengths[:, None])
        # The centres were rounded where they are, not where the origin is now.
        sizes = far * (np.sqrt(lengths) + np.sqrt(squares.max()))
        return np.ascontiguousarray(inner), squares, lengths, sizes

    def _look(self, seen: Seen) -> Look:
        """Compare points with the centres."""
        V, coef = self.center_features_, self.center_coef_
        terms = len(coef) if V is None else V.shape[1]  # type: ignore[arg-type]
        inner, squares, lengths, sizes = seen
        return compare(inner, squares, lengths, None, rounding_of(terms), sizes)

    def _parts(self, X: Any, lengths: np.ndarray | None = None) -> Iterator[Seen]:
        """Yield inner products for blocks of the rows of X; k(x, x) of a Gram matrix is given."""
        domain, V = self.kernel_.domain, self.center_features_
        columns = 0 if V is None else 2 * V.shape[1]
        row = 8 * (ARRAYS * len(self.center_squares_) + columns)
        rows = row_blocks(domain.size(X), row)
        for part in rows:
            seen = self._inner(domain.take(X, part) if len(rows) > 1 else X)
            if lengths is not None and isinstance(domain, GramRows):
                seen = (*seen[:2], lengths[part], None)
            yield seen

    # -- answers ------------------------------------------------------------------------------
    def predict(self, X: Any) -> np.ndarray:
        """Return the nearest cluster of each row of X; of those equally near the first.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        points = self._check_new(X)
        return np.concatenate([self._look(part).nearest for part in self._parts(points)])

    def transform(self, X: Any) -> np.ndarray:
        """Return the distance of each row of X to each centre in feature space, (m, n_clusters).

        Parameters
        ----------
        X : collection of points
            New points. Kernel values alone do not tell their lengths k(x, x).
        """
        return np.concatenate([distances(*part[:3]) for part in self._parts(self._check_new(X))])

    @available_if(_has_lengths)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances of the rows of X to their nearest centres.

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            New points. Kernel values alone do not tell their lengths k(x, x).
        y : None
            Ignored.
        sample_weight : float or array of shape (m,), optional
            Weights.
        """
        if is_stream(X):
            return sum_blocks(self, X, sample_weight)
        points = self._check_new(X)
        least = np.concatenate([self._look(part).least for part in self._parts(points)])
        weights = check_weights(sample_weight, len(least), type(self).__name__)
        return -float(least.sum() if weights is None else weights @ least)

    @property
    def _n_features_out(self) -> int:
        return len(self.center_squares_)

    # -- files --------------------------------------------------------------------------------
    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        owner = type(self).__name__
        held = {name: value for name, value in vars(self).items() if name in self._learned}
        if not held:
            return
        optional = {"n_features_in_", "feature_names_in_"}
        missing = [name for name in self._learned if name not in held and name not in optional]
        if missing:
            raise ModelFileError(f"a {owner} without {', '.join(missing)}")
        coef, vectors, squares = self.center_coef_, self.center_features_, self.center_squares_
        try:
            k = len(squares)
            legal = np.isfinite(squares).all() and (coef is None) != (vectors is None)
            if coef is not None:
                size = self.kernel_.domain.size(self.X_fit_)
                legal = legal and coef.shape == (size, k) and np.isfinite(coef).all()
            if vectors is not None:
                legal = legal and len(vectors) == k and np.isfinite(vectors).all()
            labels = held["labels_"]
            legal = legal and labels.dtype.kind == "i" and 0 <= labels.min() <= labels.max() < k
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"the centres of a {owner} are damaged: {error}") from error
        if not legal:
            raise ModelFileError(f"the arrays of a {owner} do not fit one another")


# Only now: scikit-learn wraps `transform` for set_output when the class is made, and would make it
# available again.
CentreAnswers.transform = available_if(_has_lengths)(  # type: ignore[method-assign]
    CentreAnswers.transform
)


def distances(inner: np.ndarray, squares: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ‖φ(x) − μ‖, one row a point; `inner` is overwritten."""
    inner *= -2
    inner += squares[:, None]
    inner += lengths
    return np.ascontiguousarray(np.sqrt(np.maximum(inner, 0.0, out=inner), out=inner).T)
