"""Least squares in the features of a kernel, to rounding, whatever the units of the data.

A penalty, however small, and normal equations, which square the condition of the features, both
lose directions that matter when columns are far from 0 (years, prices). Here the features are
scaled to length one and solved by their singular values. Where a shift of the points leaves the
functions the same set, as for polynomials up to a degree, the points are first moved to [−1, 1].
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MultiOutputMixin

from mercer.engines.budget import require_memory
from mercer.engines.tiles import row_blocks
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator.base import TakesKernel, check_targets, check_weights
from mercer.estimator.scores import RegressorMixin
from mercer.kernels import Constant, Kernel, Linear, Polynomial
from mercer.kernels.algebra import Power, Product, Sum
from mercer.solvers.base import column_norms

__all__ = ["FeatureLeastSquares", "has_constant", "out_of_scale"]

# Columns this many half-ranges from 0, or so many times as wide as others, want to be scaled.
FAR, WIDE = 10.0, 1e3


class FeatureLeastSquares(TakesKernel, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Weighted least squares in the finite features of a kernel: what `srm` makes of a kernel.

    Minimises Σᵢ wᵢ(yᵢ − vᵀφ(xᵢ))² without a penalty; of several minima the one of least length,
    in units of the lengths of the features.

    Parameters
    ----------
    kernel : Kernel or str
        A kernel with finite features.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with words resolved.
    rank_ : int
        How many features are independent on the training rows.
    weights_ : array of shape (D,) or (D, n_outputs)
        Weights of the features of (x − ``shift_``)/``scale_``.
    shift_, scale_ : array of shape (d,), or None
        The middle of each column and half of its range; None where the kernel does not allow it.
    """

    _learned = (
        "kernel_",
        "rank_",
        "weights_",
        "shift_",
        "scale_",
        "n_features_in_",
        "feature_names_in_",
    )

    rank_: int
    weights_: np.ndarray
    shift_: np.ndarray | None
    scale_: np.ndarray | None

    def __init__(self, kernel: Any):
        self.kernel = kernel

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            What the kernel accepts.
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.
        """
        with self._all_or_nothing():
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            T = check_targets(y, n, "srm")
            w = check_weights(sample_weight, n, "srm")
            self.kernel_ = kernel.fit_params(X, w)
            if w is not None:
                kept = np.flatnonzero(w)
                X, T, w = kernel.domain.take(X, kept), T[kept], w[kept]
            self.shift_, self.scale_ = _middle(X) if _shifts(self.kernel_) else (None, None)
            root = np.ones(len(T)) if w is None else np.sqrt(w)
            A = root[:, None] * self._features(X)
            lengths = column_norms(A)
            lengths[lengths == 0] = 1.0
            U, s, Vt = np.linalg.svd(A / lengths, full_matrices=False)
            kept = s > max(A.shape) * np.finfo(float).eps * s.max(initial=0.0)
            self.rank_ = int(kept.sum())
            t = (root * T.T).T
            inner = (U.T @ t)[kept]
            self.weights_ = ((Vt[kept].T / lengths[:, None]) / s[kept]) @ inner
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) for each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        X = self._check_new(X)
        domain = self.kernel_.domain
        tiles = row_blocks(domain.size(X), 32 * len(self.weights_))
        parts = [self._features(domain.take(X, rows)) @ self.weights_ for rows in tiles]
        return self._finite(np.concatenate(parts))

    def degrees_of_freedom(self) -> Any:
        """Return the number of independent features, for each output."""
        outputs = self.weights_.shape[1:]
        return np.full(outputs, float(self.rank_)) if outputs else float(self.rank_)

    def _features(self, X: Any) -> np.ndarray:
        n, D = self.kernel_.domain.size(X), self.kernel_._n_features(X)
        require_memory(
            32 * n * (D or 1), f"srm: the {n} × {D} features of {self.kernel_!r}", "Use fewer rows"
        )
        with np.errstate(over="ignore", invalid="ignore"):
            if self.shift_ is not None:
                X = (X - self.shift_) / self.scale_
            Phi = self.kernel_._features(X)
        Phi = Phi.toarray() if sp.issparse(Phi) else np.asarray(Phi, dtype=float)
        if not np.isfinite(Phi).all():
            i = int(np.argmin(np.isfinite(Phi).all(axis=1)))
            raise InvalidInput(
                f"srm: {self.kernel_!r} overflows at row {i} of X; scale the columns, for example "
                "with sklearn.preprocessing.StandardScaler."
            )
        return Phi

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        held = {name for name in self._learned if name in vars(self)}
        if held and (
            not held >= {"kernel_", "rank_", "weights_", "shift_", "scale_"}
            or _shape(self.shift_) != _shape(self.scale_)
            or not np.isfinite(self.weights_).all()
        ):
            raise ModelFileError(f"the arrays of a {type(self).__name__} do not fit one another")


def _shape(array: np.ndarray | None) -> tuple[int, ...] | None:
    return None if array is None else np.shape(array)


def has_constant(kernel: Kernel) -> bool:
    """Whether constants are known to be linear functions of the features.

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    """
    if isinstance(kernel, Sum):
        return any(map(has_constant, kernel._kernels()))
    if isinstance(kernel, Product | Power):
        return all(map(has_constant, kernel._kernels()))
    size = {Polynomial: "offset", Constant: "value"}.get(type(kernel))
    return size is not None and bool(getattr(kernel, size) > 0)


def _shifts(kernel: Kernel) -> bool:
    """Whether f(Ax + b) is in the span of the features for every f in it, A diagonal."""
    parts = kernel._kernels()
    if isinstance(kernel, Sum):  # a shift of a linear function is that function and a constant
        others = [part for part in parts if not isinstance(part, Linear)]
        return has_constant(kernel) and all(map(_shifts, others))
    if isinstance(kernel, Product | Power):
        return all(map(_shifts, parts))
    return has_constant(kernel)


def out_of_scale(kernel: Kernel, X: Any) -> bool:
    """Whether a penalty on the features of a kernel weighs them by the units of the columns.

    Parameters
    ----------
    kernel : Kernel
        Any kernel; only of sums and products of polynomials is it known.
    X : collection of points
        What the kernel accepts.
    """
    if not (_shifts(kernel) or isinstance(kernel, Linear | Polynomial)):
        return False
    middle, half = _middle(kernel.domain.check(X))
    if middle is None or half is None:
        return False
    return bool((np.abs(middle) > FAR * half).any() or half.max() > WIDE * half.min())


def _middle(X: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the middle and half the range of every column; of sparse rows only None."""
    if sp.issparse(X) or not isinstance(X, np.ndarray) or X.ndim != 2:
        return None, None
    low, high = X.min(axis=0) / 2, X.max(axis=0) / 2
    half = high - low
    return low + high, np.where(half > 0, half, np.maximum(np.abs(high), 1.0))
