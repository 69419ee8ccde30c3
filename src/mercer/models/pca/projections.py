"""What fitted components say of points: coordinates, novelty, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from mercer.domains import told_of_rows
from mercer.errors import InvalidInput, available_if, speaks, who
from mercer.estimator import follows_data
from mercer.kernels import radial_part
from mercer.memory import row_blocks
from mercer.models.pca.components import FeatureRows
from mercer.models.pca.preimage import (
    check_preimage,
    fixed_point,
    learn_back,
    nearest_row,
    plain_rows,
)
from mercer.rkhs import Function


def has_points(model: Any) -> bool:
    """Whether k(x, x) of new points can be known, which kernel values alone do not tell."""
    return not model.__sklearn_tags__().input_tags.pairwise


def has_way_back(model: Any) -> bool:
    """Whether points can be found for coordinates; kernel values alone have no means."""
    if has_points(model):
        return True
    raise AttributeError(
        "KernelPCA.inverse_transform: a pre-image is a weighted mean of points, and kernel values "
        "have no means. Use a kernel on vectors, or the training points nearest in transform(X)."
    )


class Projections(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """The part of `KernelPCA` that answers."""

    kernel_: Any
    X_fit_: Any
    alpha: Any
    preimage: Any
    fit_inverse_transform: bool
    eigenvalues_: np.ndarray
    component_coef_: Any
    intercept_: np.ndarray
    center_coef_: Any
    center_norm_: float
    axes_: Any
    origin_: Any
    X_transformed_fit_: np.ndarray
    dual_coef_: np.ndarray
    _check_new: Any
    _finite: Any

    @property
    def function_(self) -> Function:
        """The coordinates as functions in the RKHS (plus an offset), one output a component."""
        check_is_fitted(self)
        if self.component_coef_ is None:
            raise InvalidInput(
                "KernelPCA.function_: partial_fit with finite features keeps no points to write "
                "functions in; axes_ and origin_ hold the components, or use fit."
            )
        return Function(self.kernel_, self.X_fit_, self.component_coef_, self.intercept_)

    @follows_data
    def transform(self, X: Any) -> np.ndarray:
        """Return the coordinates of new points, shape (n, k).

        Parameters
        ----------
        X : collection of n points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._coordinates(self._check_new(X))

    def _coordinates(self, X: Any) -> np.ndarray:
        if self.axes_ is None:
            return self._finite(self._values(X, self.component_coef_, self.intercept_))
        with np.errstate(over="ignore", invalid="ignore"):
            out = FeatureRows(self.kernel_, X, None).project(self.axes_, self.origin_)
        return self._finite(out)

    def _values(self, X: Any, coef: np.ndarray, offset: Any) -> np.ndarray:
        """Return Σᵢ coefᵢ k(xᵢ, x) + offset, the columns of coef beside one another."""
        domain = self.kernel_.domain
        f, n = Function(self.kernel_, self.X_fit_, coef, offset), domain.size(X)
        out = np.empty((n, coef.shape[1]))
        for rows in row_blocks(n, 64 * coef.shape[1]):
            out[rows] = f(X if rows == slice(0, n) else domain.take(X, rows))
        return out

    @follows_data
    @speaks
    def reconstruction_error(self, X: Any) -> np.ndarray:
        """Return ‖φ(x) − μ‖² less the squared coordinates: what the components do not explain.

        The squared distance of φ(x) to the plane of the components, large for points unlike the
        training points.

        Parameters
        ----------
        X : collection of n points
            New points. Kernel values alone do not tell their lengths k(x, x).

        Returns
        -------
        ndarray of shape (n,)
            Squared distances, ≥ 0.
        """
        X = self._check_new(X)
        kernel = self.kernel_
        if not kernel.domain.holds_points:
            raise InvalidInput(
                "KernelPCA.reconstruction_error: kernel values with training points do not tell "
                "k(x, x) of new points; give the kernel and the points."
            )
        if self.axes_ is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                out = FeatureRows(kernel, X, None).off_plane(self.axes_, self.origin_)
            return self._finite(out)
        both = np.column_stack([self.component_coef_, self.center_coef_])
        values = self._values(X, both, 0.0)
        lengths = np.asarray(kernel.diag(X), dtype=float)
        distance = lengths - 2 * values[:, -1] + self.center_norm_**2
        Z = values[:, :-1] + self.intercept_
        return self._finite(np.maximum(distance - np.einsum("ij,ij->i", Z, Z), 0.0))

    @available_if(has_points)
    @follows_data
    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus `reconstruction_error`: the lower, the odder.

        Parameters
        ----------
        X : collection of n points
            New points.
        """
        return -self.reconstruction_error(X)

    # -- the way back -------------------------------------------------------------------------
    def _learn_back(self) -> None:
        """Learn points from coordinates, where that is asked for."""
        if not self.fit_inverse_transform:
            return
        kernel = self.kernel_
        check_preimage(self, kernel)
        points = plain_rows(kernel, self.X_fit_)
        self.X_transformed_fit_ = self._coordinates(self.X_fit_)
        self.inverse_kernel_, self.dual_coef_ = learn_back(
            kernel, self.X_transformed_fit_, points, float(self.alpha)
        )

    @available_if(has_way_back)
    @follows_data
    @speaks("KernelPCA.inverse_transform")
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return points whose φ is near the point of feature space with the given coordinates.

        Few points of feature space are the φ of a point, so the answer is the best that the way of
        `preimage` finds. "ridge" needs ``fit_inverse_transform=True``; the others do not.

        Parameters
        ----------
        X : array of shape (n, k)
            Coordinates, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n, d)
            The points.
        """
        check_is_fitted(self)
        kernel = self.kernel_
        way = check_preimage(self, kernel)
        learned = "dual_coef_" in vars(self)
        if way == "ridge" and not learned:
            plain_rows(kernel, self.X_fit_)  # other points have no way back at all
            raise NotFittedError(
                "KernelPCA.inverse_transform: no way back was learned; fit with "
                "fit_inverse_transform=True."
            )
        k = len(self.eigenvalues_)
        try:
            Z = check_array(X, dtype=np.float64, input_name="X", estimator=who())
        except ValueError as error:
            raise told_of_rows(error, X, who()) from error
        if Z.shape[1] != k:
            raise InvalidInput(
                f"{who()}: X has {Z.shape[1]} columns; the model has {k} components."
            )
        if way == "linear":
            return self._linear_back(Z)
        points = plain_rows(kernel, self.X_fit_)
        if way == "ridge":
            return self._ridge_back(Z)
        coef = Z @ self.component_coef_.T + self.center_coef_
        own = self.X_transformed_fit_ if learned else self._coordinates(self.X_fit_)
        radial = radial_part(kernel)
        out, value = fixed_point(radial, points, coef, points[nearest_row(own, Z)])
        if learned:
            other, also = fixed_point(radial, points, coef, self._ridge_back(Z))
            out = np.where((also > value)[:, None], other, out)
        return out

    def _ridge_back(self, Z: np.ndarray) -> np.ndarray:
        known, C = self.X_transformed_fit_, self.dual_coef_
        return np.asarray(self.inverse_kernel_.matmul(Z, known, C), dtype=float)  # type: ignore[attr-defined]

    def _linear_back(self, Z: np.ndarray) -> np.ndarray:
        if self.axes_ is not None:
            return Z @ self.axes_.T + self.origin_
        points = plain_rows(self.kernel_, self.X_fit_)
        return Z @ (self.component_coef_.T @ points) + self.center_coef_ @ points
