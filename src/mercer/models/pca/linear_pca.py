"""Principal components of the points themselves: the linear kernel, in its own coordinates."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from mercer import checks, state
from mercer.domains import largest, told_of_rows
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import TakesKernel, check_weights
from mercer.kernels import Linear
from mercer.models.pca.components import (
    EPS,
    Axes,
    FeatureRows,
    about_origin,
    certificate,
    find_axes,
    without_rounding,
)
from mercer.models.pca.incremental import COLUMNS, Count, Stream
from mercer.models.pca.kernel_pca import COMPONENTS, wanted
from mercer.solvers.linear import signs_of
from mercer.threads import blas_for

SQUARES = (1e-145, 1e145)  # entries between these have squares, and sums of them
ROW = 50_000  # products of a scatter that a row of a small matrix stands for, to BLAS
LINEAR = Linear()


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesKernel, BaseEstimator):
    r"""Principal components: the orthonormal directions in which the rows vary most.

    The same as ``KernelPCA(kernel="linear")``, in the coordinates of the columns and with
    scikit-learn's attributes. Found from the covariance (n ≥ 10 d), the Gram matrix (d ≥ 10 n) or
    the SVD of the centred rows; sparse rows are not made dense.

    `explained_variance_` divides by n − 1, as scikit-learn's does; that of `KernelPCA` divides by
    n. Shares of the variance are the same. Signs: the largest entry of a component is positive.

    Parameters
    ----------
    n_components : int, float or None, default=None
        How many; more than min(n, d) means min(n, d). A float in (0, 1) asks for the least number
        that explains this share of the variance. None keeps every component with variance, which
        are fewer than scikit-learn's min(n, d) where columns depend on one another.
    whiten : bool, default=False
        Whether coordinates are divided by their standard deviations, components of no variance
        becoming 0.
    random_state : int, RandomState or None, default=None
        Without effect, for nothing here is drawn at random; accepted because scikit-learn has it.

    Attributes
    ----------
    components_ : array of shape (k, d)
        Orthonormal rows, by falling variance. With fewer than k different rows, those of no
        variance are 0 where the Gram matrix was used.
    mean_ : array of shape (d,)
        The mean.
    explained_variance_ : array of shape (k,)
        Variances along the components. The denominator is the sum of weights less 1 where weights
        are whole numbers, that is, counts; for other weights it is W − Σw²/W with W their sum, so
        that their unit does not matter.
    explained_variance_ratio_ : array of shape (k,)
        Their shares of the whole variance.
    singular_values_ : array of shape (k,)
        Singular values of the centred rows.
    n_components_, n_samples_, n_features_in_ : int
        The numbers of components, of rows (the total weight), and of columns.
    solution_ : Solution
        The certificate: the largest relative residual of the eigenpairs of the scatter.

    See Also
    --------
    KernelPCA : The same for any kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import PCA
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> pca = PCA(1).fit(X)
    >>> pca.components_, pca.explained_variance_
    (array([[0.6, 0.8]]), array([25.]))
    >>> bool(np.allclose(pca.inverse_transform(pca.transform(X)), X))
    True
    """

    kernel = "linear"  # not a parameter: what the checks of points ask
    _parameters = {
        "whiten": checks.Flag(numbers=False),
        "random_state": checks.SEED,
        "n_components": COMPONENTS,
    }
    _state = (
        {
            "components_": state.Floats("k", "d"),
            "mean_": state.Array("d"),
            "explained_variance_": state.Array("k"),
            "singular_values_": state.Array("k"),
            "n_components_": state.SizeOf("k"),
        }
        | state.others("explained_variance_ratio_", "n_samples_", "solution_", "batches_")
        | state.INPUTS
    )

    def __init__(self, n_components: Any = None, *, whiten: bool = False, random_state: Any = None):
        self.n_components = n_components
        self.whiten = whiten
        self.random_state = random_state

    @speaks("PCA")
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The rows.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        PCA
            The fitted model itself.
        """
        self._fit(X, sample_weight)
        return self

    @speaks("PCA")
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Find the components and return the coordinates of the rows, shape (n, k).

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The rows.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            As for `fit`.

        Returns
        -------
        ndarray of shape (n, k)
            The coordinates, as `transform` returns them.
        """
        Z = self._fit(X, sample_weight, coordinates=sample_weight is None)
        return self.transform(X) if Z is None else Z  # of weights, rows of weight 0 as well

    def _fit(self, X: Any, sample_weight: Any, coordinates: bool = False) -> np.ndarray | None:
        """Find the components, and return the coordinates of the rows where they are asked for."""
        with self._all_or_nothing(X):
            X, w = self._rows(X, sample_weight, reset=True)
            n, d = X.shape
            with blas_for(n * d * d // ROW):
                want = wanted(self.n_components)
                rows = FeatureRows(LINEAR, X, w)
                found = find_axes(rows, want.count)
                mean, S, k = found.mean, found.scatter, want.cut(found.values, found.total)
                V = found.V[:, :k]
                SV = rows.pull(rows.project(V, mean), mean) if S is None else S @ V
                apart = SV - V * found.values[:k]
                self._store(found, Count.of(n, w), apart)
                left = Stream.after(found, rows)
                if left is not None:
                    self.batches_ = left.state()
                if not coordinates:
                    return None
                near = S is not None and about_origin(mean, S, rows.weight)
                Z = rows.project(self.components_.T, mean, near=near)
        return Z / self._scales() if self.whiten else Z

    @speaks("PCA")
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take a batch of rows more into the components.

        Total weight, mean and a triangular factor of the scatter are brought up to date: batches
        in any split give the components of `fit` on all rows, up to rounding. Memory d² numbers.
        After `fit`, its rows are the first batch: it keeps the factor for up to 1000 columns. With
        more columns it does not, and a batch is refused; begin with `partial_fit` there.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The batch.
        y : None
            Ignored.
        sample_weight : float or array of shape (n,), optional
            Weights of the batch.

        Returns
        -------
        PCA
            The model itself.
        """
        before = {name: vars(self)[name] for name in self._learned if name in vars(self)}
        state = before.get("batches_")
        if state is None and "components_" in before:
            raise InvalidInput(
                f"PCA.partial_fit: fit kept no scatter of {self.n_features_in_} columns to go on "
                f"from; it does for up to {COLUMNS} columns within the memory budget. Begin with "
                "partial_fit on a new PCA."
            )
        with self._all_or_nothing(X):
            for name in ("n_features_in_", "feature_names_in_"):
                if name in before:
                    setattr(self, name, before[name])
            X, w = self._rows(X, sample_weight, reset=state is None)
            kernel = LINEAR
            stream = Stream.start(kernel, X, True)
            if state is not None:
                stream = Stream.from_state(state, None)
            moments = stream.take(kernel, X, w, None).moments
            values, V, _ = moments.axes()
            values = without_rounding(values, V, moments.mean, moments.weight, squared=False)
            apart = moments.R.T @ (moments.R @ V) - V * values
            total = float((moments.R**2).sum())
            found = Axes(values, V, moments.mean, total, "batches")
            self._store(found, moments.count, apart)
            self.batches_ = Stream(moments, None).state()
        return self

    @speaks("PCA")
    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, np.ndarray | None]:
        checks.check_parameters(self)
        X = self._check_X(X, LINEAR, reset=reset)
        size = 1.0 if _has_squares(X) else largest(X)
        if size > SQUARES[1] or 0 < size < SQUARES[0]:
            raise InvalidInput(
                f"PCA: the largest entry is {size:.3g}, and squares of such numbers are out of the "
                "range of floats. Multiply the columns, so that the largest is near 1."
            )
        w = check_weights(sample_weight, X.shape[0])
        if w is None or (w > 0).all():
            return X, w
        return X[w > 0], w[w > 0]

    @speaks("PCA")
    def _store(self, found: Axes, count: Count, apart: np.ndarray) -> None:
        """Keep what was found; `apart` is S V − V diag(λ), of the axes that are kept at least."""
        values, total, mean = found.values, found.total, found.mean
        k = wanted(self.n_components).cut(values, total)
        V, values = found.V[:, :k] * signs_of(found.V[:, :k]), values[:k]
        top = float(values.max(initial=0.0)) or 1.0
        residual = float(np.linalg.norm(apart[:, :k] / top, axis=0).max(initial=0.0))
        self.components_, self.mean_ = np.ascontiguousarray(V.T), mean
        self.singular_values_ = np.sqrt(values)
        self.explained_variance_ = values / count.freedom if count.freedom > 0 else np.zeros(k)
        self.explained_variance_ratio_ = values / total if total > 0 else np.zeros(k)
        self.n_components_, weight = k, count.weight
        self.n_samples_ = int(weight) if float(weight).is_integer() else weight
        allowed = 1e3 * max(len(mean), 10) * EPS
        self.solution_ = certificate(values, residual, allowed, found.way)
        self.solution_.unwrap()

    @speaks
    def transform(self, X: Any) -> np.ndarray:
        """Return the coordinates of rows along the components, shape (n, k).

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The rows.
        """
        check_is_fitted(self)
        X = self._check_X(X, LINEAR, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            Z = FeatureRows(LINEAR, X, None).project(self.components_.T, self.mean_)
        if not np.isfinite(Z).all():
            i = int(np.argmin(np.isfinite(Z).all(axis=1)))
            raise InvalidInput(
                f"{who()}: coordinates of row {i} of X overflow; such a point is far outside the "
                "training data. Scale the columns as in training."
            )
        return Z / self._scales() if self.whiten else Z

    @speaks
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the rows that have the given coordinates, in the plane of the components.

        Parameters
        ----------
        X : array of shape (n, k)
            Coordinates, as `transform` returns them.
        """
        check_is_fitted(self)
        try:
            Z = check_array(X, dtype=np.float64, input_name="X", estimator="PCA")
        except ValueError as error:
            raise told_of_rows(error, X, "PCA.inverse_transform") from error
        if Z.shape[1] != self.n_components_:
            raise InvalidInput(
                f"PCA.inverse_transform: X has {Z.shape[1]} columns; the model has "
                f"{self.n_components_} components."
            )
        return (Z * self._scales() if self.whiten else Z) @ self.components_ + self.mean_

    @speaks
    def reconstruction_error(self, X: Any) -> np.ndarray:
        """Return ‖x − inverse_transform(transform(x))‖²: what the components do not explain.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
            Squared distances to the plane of the components, large for rows unlike the training
            rows.
        """
        check_is_fitted(self)
        X = self._check_X(X, LINEAR, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            out = FeatureRows(LINEAR, X, None).off_plane(self.components_.T, self.mean_)
        if not np.isfinite(out).all():
            i = int(np.argmin(np.isfinite(out)))
            raise InvalidInput(
                f"PCA: the squared distance of row {i} of X is beyond the range of floats. Scale "
                "the columns as in training."
            )
        return out

    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus `reconstruction_error`: the lower, the odder.

        As of `KernelPCA`. That of scikit-learn's PCA is the logarithm of a normal density.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
            The rows.
        """
        return -self.reconstruction_error(X)

    def _scales(self) -> np.ndarray:
        deviation = np.sqrt(self.explained_variance_)
        return np.where(deviation > 0, deviation, 1.0)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "components_" in vars(self)


def _has_squares(X: Any) -> bool:
    """Whether the sum of the squares of a table tells that its largest entry is within `SQUARES`.

    It says nothing of sparse rows, and of those that are near an end.
    """
    if not isinstance(X, np.ndarray):
        return False
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.vdot(X, X))
    return X.size * SQUARES[0] ** 2 <= square <= SQUARES[1] ** 2
