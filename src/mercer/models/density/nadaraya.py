"""Regression by local averages and local planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin

from mercer.errors import InvalidInput, ModelFileError
from mercer.features.base import check_weights
from mercer.models.base import check_targets
from mercer.models.density.nadaraya_base import LocalEstimator
from mercer.models.scored import RegressorMixin

__all__ = ["NadarayaWatson"]


class NadarayaWatson(MultiOutputMixin, RegressorMixin, LocalEstimator):
    r"""Regression by local averages.

    ŷ(x) = Σᵢ wᵢ κ(H⁻¹(x − xᵢ)) yᵢ / Σᵢ wᵢ κ(H⁻¹(x − xᵢ))

    with a smoothing kernel κ, a bandwidth H and sample weights w. With ``degree=1`` a plane is
    fitted at each x by least squares with the same weights, and its value at x is the answer: it
    follows slopes, also at the border of the data, and reproduces planes where several points count
    at x.

    Every x has an answer. Far from all points the gaussian kernel gives the value of the nearest
    point (the limit of the formula, as weights are taken relative to the largest). Outside the
    support of a kernel of bounded support the nearest points answer too. Where the points near x do
    not vary in some direction, a plane has no slope in that direction; where they are one place, or
    one of them outweighs the others by more than 1e12, it is their mean.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "loo", "scott" or "silverman", default="loo"
        A number, one a column, a symmetric positive definite matrix H, a rule, or "loo": the
        standard deviation of each column times the common factor with the smallest squared error
        at points left out, as `loo` has them. Copies of a row stay, so that rows given several
        times, or of weights above 1, speak for a small bandwidth; the search ends at a tenth of the
        median distance to the nearest other place. Of several outputs each error is relative to
        the variance of the output. Rules are as for `KernelDensity`. A column that does not vary
        has bandwidth 1.
    kernel : str, Kernel or callable, default="gaussian"
        "gaussian", "epanechnikov", "tophat", "triangular" (or "linear"), "biweight", "cosine" or
        "exponential". A Kernel, another short name such as "rbf", "precomputed" or a function of
        two points (on any kind of data) weighs by its values k(x, xᵢ), which must be ≥ 0; it has
        scales of its own, so that no `bandwidth` may be given, and where all values are 0 the
        answer is the mean of all targets.
    degree : {0, 1}, default=0
        0 for local averages, 1 for local planes.

    Attributes
    ----------
    bandwidth_ : float, array of shape (d,) or (d, d), or None
        The bandwidth in numbers; None with a Kernel.
    smoothing_ : str or None
        The smoothing kernel; None with a Kernel.
    kernel_ : Kernel
        The kernel with words resolved; only where `kernel` is none of the smoothing kernels.
    X_fit_ : collection
        The training points.
    y_fit_ : array of shape (n,) or (n, n_outputs)
        Their targets.
    sample_weight_ : array of shape (n,)
        Their weights.
    loo_error_ : float
        The mean squared error of ``loo()``, each row counted by its weight; only with
        ``bandwidth="loo"`` and points that differ.
    loo_path_ : array of shape (k, 2)
        Factors tried, ascending, and their errors relative to the variance of the targets; only
        with ``bandwidth="loo"``.

    See Also
    --------
    mercer.NadarayaWatsonClassifier : Classification by local shares of the classes.
    mercer.KernelNeighborsRegressor : Averages of a fixed number of neighbours.

    Examples
    --------
    >>> from mercer import NadarayaWatson
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> NadarayaWatson(1.5, "tophat").fit(X, y).predict([[0.0], [1.5]])
    array([0.5, 1.5])
    >>> NadarayaWatson(1.5, degree=1).fit(X, y).predict([[0.0], [5.0]]).round(6)
    array([0., 5.])
    """

    def __init__(self, bandwidth: Any = "loo", kernel: Any = "gaussian", *, degree: int = 0):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.degree = degree

    @property
    def _degree(self) -> int:
        whole = isinstance(self.degree, int | np.integer) and not isinstance(self.degree, bool)
        if not whole or self.degree not in (0, 1):
            raise InvalidInput(
                f"NadarayaWatson: degree={self.degree!r}; give 0 for averages, or 1 for planes."
            )
        return int(self.degree)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Store the training points, and choose the bandwidth.

        Parameters
        ----------
        X : collection of n points
            Rows of numbers, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        NadarayaWatson
            The fitted model itself.
        """
        with self._all_or_nothing():
            space, _ = self._space(), self._degree
            X = self._points(X, space, reset=True)
            n = space.domain.size(X)
            self.y_fit_ = check_targets(y, n, "NadarayaWatson").copy()
            self._remember(X, space, check_weights(sample_weight, n, "NadarayaWatson"))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the local average, or the value of the local plane, at each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._shaped(self._answers(X))

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the answer at each training point by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. Of a row of weight w one copy is
        left out, all of it where w ≤ 1.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._shaped(self._left_out(X))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(len(values), *self.y_fit_.shape[1:])

    def _values(self, rows: np.ndarray) -> np.ndarray:
        return self.y_fit_.reshape(len(self.y_fit_), -1)[rows]

    def _loss(
        self, Y: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[slice, np.ndarray], np.ndarray]:
        unit = np.ones(Y.shape[1])
        if weights is not None:
            size = np.abs(Y).max(axis=0)
            size[size == 0] = 1.0
            gaps = Y / size - np.average(Y / size, axis=0, weights=weights)
            deviation = np.sqrt(np.average(gaps * gaps, axis=0, weights=weights))
            unit = size * np.where(deviation > 0, deviation, 1.0)

        def loss(rows: slice, answers: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore"):
                return (((answers - Y[rows]) / unit) ** 2).mean(axis=1)

        return loss

    def _check_state(self) -> None:
        super()._check_state()
        y = vars(self).get("y_fit_")
        if y is not None and not (
            y.ndim in (1, 2) and y.dtype.kind == "f" and np.isfinite(y).all()
        ):
            raise ModelFileError("the targets of a NadarayaWatson are no finite numbers")
