"""What local averages share: points, a bandwidth or a kernel, and the answers of points nearby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer.domains import GramRows
from mercer.engines.budget import require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.base import TakesKernel
from mercer.kernels import Kernel
from mercer.kernels.names import SHORT_NAMES
from mercer.models.density.bandwidth import (
    RULES,
    Bandwidth,
    Frame,
    as_bandwidth,
    check_word,
    column_scales,
)
from mercer.models.density.local import Alike, Near
from mercer.models.density.local_search import choose_factor
from mercer.models.density.rows import (
    check_bandwidth,
    check_kept_weights,
    check_parts,
    check_rows,
    dense_rows,
    positive_rows,
)
from mercer.models.density.smoothing import SMOOTHINGS, Smoothing, is_smoothing, smoothing
from mercer.models.training import check_same_points

__all__ = ["LocalEstimator", "fill_columns"]


def fill_columns(X: np.ndarray, bandwidth: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a bandwidth for each column, 1 for those that do not vary: they tell nothing.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows.
    bandwidth : callable
        Bandwidths of columns that vary.
    """
    varies = (X != X[0]).any(axis=0)
    out = np.ones(X.shape[1])
    if varies.any():
        out[varies] = bandwidth(X[:, varies])
    return out


class LocalEstimator(TakesKernel, BaseEstimator):
    """The part that local regression and classification share."""

    _needs_psd = False
    _learned: tuple[str, ...] = (
        "kernel_",
        "smoothing_",
        "bandwidth_",
        "X_fit_",
        "y_fit_",
        "sample_weight_",
        "loo_error_",
        "loo_path_",
        "n_features_in_",
        "feature_names_in_",
    )

    bandwidth: Any
    bandwidth_: Any
    X_fit_: Any
    y_fit_: np.ndarray
    sample_weight_: np.ndarray
    loo_error_: float
    loo_path_: np.ndarray
    smoothing_: str | None
    _takes_kernels = True

    @property
    def _degree(self) -> int:
        return 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if is_smoothing(self.kernel):
            tags.input_tags.pairwise, tags.input_tags.sparse = False, True
        return tags

    # -- fit ----------------------------------------------------------------------------------
    def _space(self) -> Smoothing | Kernel:
        """Return what weighs the points: a smoothing kernel, or a kernel."""
        if is_smoothing(self.kernel):
            return smoothing(self.kernel)
        if isinstance(self.kernel, str) and self.kernel not in SHORT_NAMES:
            raise InvalidInput(
                f"{type(self).__name__}: kernel={self.kernel!r} is no smoothing kernel; give one "
                f"of {', '.join(repr(name) for name in SMOOTHINGS)}, or a Kernel such as "
                "mercer.RBF()."
            )
        return self._kernel()

    def _points(self, X: Any, space: Any, *, reset: bool) -> Any:
        """Return the canonical collection, dense rows for a smoothing kernel."""
        X = self._check_X(X, space, reset=reset)
        return dense_rows(X, type(self).__name__) if isinstance(space, Smoothing) else X

    def _remember(self, X: Any, space: Any, weights: np.ndarray | None) -> None:
        """Store checked points and their weights, after the targets."""
        n = space.domain.size(X)
        self.sample_weight_ = np.ones(n) if weights is None else weights.copy()
        self.X_fit_ = space.domain.keep(X)
        if isinstance(space, Smoothing):
            self.smoothing_ = space.name
            used = self.sample_weight_ > 0
            self.bandwidth_ = self._choose(X[used], self.sample_weight_[used], space)
            return
        if not isinstance(self.bandwidth, str) or self.bandwidth != "loo":
            raise InvalidInput(
                f"{type(self).__name__}: bandwidth={self.bandwidth!r} is for smoothing kernels; "
                f"{space!r} has scales of its own. Leave the bandwidth out, or set those."
            )
        if self._degree:
            raise InvalidInput(
                f"{type(self).__name__}: degree={self._degree} fits planes, which needs a "
                "smoothing kernel such as 'gaussian'; with kernel values take degree=0."
            )
        if isinstance(space.domain, GramRows):
            space._checked(X, None)  # a square matrix
        kernel = space.fit_params(X, weights)
        kernel.diag(X)  # reads the columns of a table, so that a wrong cell is named now
        self.kernel_, self.smoothing_, self.bandwidth_ = kernel, None, None

    def _choose(self, X: np.ndarray, weights: np.ndarray, kernel: Smoothing) -> Any:
        """Return the bandwidth in numbers, for rows of positive weight."""
        owner, asked = type(self).__name__, self.bandwidth
        if not isinstance(asked, str):
            return as_bandwidth(asked, X, weights, owner).value
        check_word(asked, owner)
        if asked in RULES:
            return fill_columns(
                X, lambda part: as_bandwidth(asked, part, weights, owner, kernel).value
            )
        scales = fill_columns(X, lambda part: column_scales(part, weights, "loo", owner)[0])
        base = Bandwidth(scales, X.shape[1])
        near, _ = self._near(base, X, weights)
        reach = near.reach()
        if not reach[1] > 0:  # all points are one: every bandwidth says the same
            return scales
        loss = self._loss(near.Y, near.w)
        factor, _, self.loo_path_ = choose_factor(
            lambda factors: near.errors(factors, loss), reach, not kernel.compact
        )
        found = base.scaled(factor)
        near, _ = self._near(found, X, weights)
        losses = self._loss(near.Y)(slice(0, len(X)), near.left_out())
        self.loo_error_ = float(near.mean(losses))
        return found.value

    def _near(self, bandwidth: Bandwidth, X: np.ndarray, weights: Any) -> tuple[Near, Frame]:
        """Return what answers, for rows of positive weight, and coordinates to ask it in."""
        kernel = smoothing(self.smoothing_)
        frame = bandwidth.frame(kernel, X)
        values = self._known(self.sample_weight_ > 0)
        near = Near(kernel, frame(X), values, weights, self._degree, radius=frame.radius)
        return near, frame

    # -- answers ------------------------------------------------------------------------------
    def _answers(self, X: Any) -> np.ndarray:
        """Return local means of the values at new points."""
        check_is_fitted(self)
        points = self._points(X, self._fitted_space, reset=False)
        return self._at(points) if self.smoothing_ else self._alike(self.X_fit_).at(points)

    @property
    def _fitted_space(self) -> Smoothing | Kernel:
        return smoothing(self.smoothing_) if self.smoothing_ else self.kernel_

    def _at(self, points: np.ndarray) -> np.ndarray:
        bandwidth = Bandwidth(self.bandwidth_, points.shape[1])
        near, frame = self._near(bandwidth, *positive_rows(self.X_fit_, self.sample_weight_))
        return near.at(points, frame)

    def _alike(self, X: Any) -> Alike:
        every = np.ones(len(self.sample_weight_), dtype=bool)
        owner = type(self).__name__
        return Alike(self.kernel_, X, self._known(every), self.sample_weight_, owner)

    def _known(self, rows: np.ndarray) -> np.ndarray:
        """Return what is averaged, if copies of it fit the budget."""
        n, t = int(rows.sum()), self._n_values
        require_memory(
            24 * n * t, f"{type(self).__name__}: {t} values of {n} points", "Fit fewer rows"
        )
        return self._values(rows)

    def _left_out(self, X: Any) -> np.ndarray:
        """Return local means at each training point, by the others."""
        check_is_fitted(self)
        owner, used = type(self).__name__, self.sample_weight_ > 0
        if used.sum() < 2 and not self.sample_weight_.max() > 1:
            raise InvalidInput(
                f"{owner}.loo: the only training point has no other to speak of it; fit at least "
                "two points of positive weight."
            )
        space = self._fitted_space
        precomputed = isinstance(space.domain, GramRows)
        if precomputed and X is None:
            raise InvalidInput(
                f"{owner}.loo: a fitted model does not keep a precomputed Gram matrix; pass the "
                "training matrix again: loo(K)."
            )
        if X is not None:
            X = self._points(X, space, reset=False)
            if not precomputed:
                check_same_points(space.domain, X, self.X_fit_, owner, "loo")
        if isinstance(space, Kernel):
            matrix = space._checked(X, None)[0] if precomputed else self.X_fit_
            return self._alike(matrix).left_out()
        out = np.empty((len(used), self._n_values))
        points, w = positive_rows(self.X_fit_, self.sample_weight_)
        bandwidth = Bandwidth(self.bandwidth_, points.shape[1])
        out[used] = self._near(bandwidth, points, w)[0].left_out()
        if not used.all():
            out[~used] = self._at(self.X_fit_[~used])
        return out

    # -- what a model defines -----------------------------------------------------------------
    @property
    def _n_values(self) -> int:
        """How many values of a point are averaged."""
        return int(np.prod(self.y_fit_.shape[1:]))

    def _values(self, rows: np.ndarray) -> np.ndarray:
        """Return what is averaged, of shape (n, t), of some of the rows."""
        raise InvalidInput(f"{type(self).__name__}: define _values(rows).")

    def _loss(
        self, Y: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[slice, np.ndarray], np.ndarray]:
        """Return the loss of answers about rows of Y; with weights in units of their spread."""
        raise InvalidInput(f"{type(self).__name__}: define _loss(Y).")

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        name = type(self).__name__
        if not check_parts(
            self, ("smoothing_", "bandwidth_", "X_fit_", "y_fit_", "sample_weight_")
        ):
            return
        if self.smoothing_ not in SMOOTHINGS and (
            self.smoothing_ or not isinstance(vars(self).get("kernel_"), Kernel)
        ):
            raise ModelFileError(f"the kernel of a {name} is none")
        if self.smoothing_:
            check_rows(self.X_fit_, self.sample_weight_, name)
            check_bandwidth(self.bandwidth_, self.X_fit_, name)
        n = self._fitted_space.domain.size(self.X_fit_)
        check_kept_weights(self.sample_weight_, n, name)
        y = self.y_fit_
        if not isinstance(y, np.ndarray) or len(y) != n or self.sample_weight_ is None:
            raise ModelFileError(f"the arrays of a {name} do not fit one another")
