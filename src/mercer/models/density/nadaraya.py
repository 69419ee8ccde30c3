"""Regression by local averages and local planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import (
    TakesKernel,
    accuracy,
    check_labels,
    check_same_points,
    check_targets,
    check_weights,
    r_squared,
)
from mercer.kernels import SHORT_NAMES, Kernel
from mercer.memory import require_memory
from mercer.models.density.bandwidth import (
    HUGE,
    RULES,
    SMOOTHINGS,
    Bandwidth,
    Frame,
    Smoothing,
    as_bandwidth,
    check_word,
    column_scales,
    is_smoothing,
    row_number,
    rule_factor,
    smoothing,
)
from mercer.models.density.kernel_density import (
    BANDWIDTH,
    FINITE_ROWS,
    NO_KERNEL,
    ROWS,
    WEIGHTS,
    dense_rows,
    positive_rows,
)
from mercer.models.density.local import (
    WIDEST,
    Alike,
    Near,
    choose_columns,
    choose_factor,
    class_codes,
)

COLUMNS = "loo-columns"  # the word for a bandwidth of each column's own

# ---- What local averages share: points, a bandwidth or a kernel, and the answers of points
# nearby.


def fill_columns(X: np.ndarray, bandwidth: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a bandwidth for each column, 1 for those that do not vary: they tell nothing."""
    varies = (X != X[0]).any(axis=0)
    out = np.ones(X.shape[1])
    if varies.any():
        out[varies] = bandwidth(X[:, varies])
    return out


def _has_kernel(model: Any) -> bool:
    given = isinstance(vars(model).get("kernel_"), Kernel)
    return model.smoothing_ in SMOOTHINGS or (not model.smoothing_ and given)


def _has_rows(model: Any) -> bool:
    """Whether points, weights and targets are as many, and rows where a smoothing kernel is."""
    if model.smoothing_:
        state.check_parts(model, ROWS, (FINITE_ROWS, BANDWIDTH))
    points = state.Points("n", kernel="_fitted_space", kept=False)
    targets = state.Array("n", ...)
    state.check_parts(model, {"X_fit_": points, "sample_weight_": WEIGHTS, "y_fit_": targets})
    return model.sample_weight_ is not None


class LocalEstimator(TakesKernel, BaseEstimator):
    """The part that local regression and classification share."""

    _needs_psd = False
    _state: state.State = (
        state.others("smoothing_", "bandwidth_", "X_fit_", "y_fit_", "sample_weight_", needed=True)
        | state.others("kernel_", "loo_error_", "loo_path_")
        | state.INPUTS
    )
    _rules: tuple[state.Rule, ...] = ((NO_KERNEL, _has_kernel), (state.MISFIT, _has_rows))

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
    def function_(self) -> Any:
        """No function of the RKHS describes a local mean."""
        raise AttributeError(
            f"{type(self).__name__} has no function_: a local mean is a quotient of two sums over "
            "the points, and not in the RKHS."
        )

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

    @speaks
    def _points(self, X: Any, space: Any, *, reset: bool) -> Any:
        """Return the canonical collection, dense rows for a smoothing kernel."""
        X = self._check_X(X, space, reset=reset)
        return dense_rows(X) if isinstance(space, Smoothing) else X

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
        space.domain.check_training(X)
        kernel = space.fit_params(X, weights)
        kernel.diag(X)  # reads the columns of a table, so that a wrong cell is named now
        self.kernel_, self.smoothing_, self.bandwidth_ = kernel, None, None

    @speaks
    def _choose(self, X: np.ndarray, weights: np.ndarray, kernel: Smoothing) -> Any:
        """Return the bandwidth in numbers, for rows of positive weight."""
        asked = self.bandwidth
        if not isinstance(asked, str):
            return as_bandwidth(asked, X, weights).value
        check_word(asked, COLUMNS)
        if asked in RULES:
            return fill_columns(X, lambda part: as_bandwidth(asked, part, weights, kernel).value)
        share = weights / weights.max()  # rows are left out whole: only ratios of weights count
        scales = fill_columns(X, lambda part: column_scales(part, share, "loo")[0])
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
        if asked == COLUMNS and X.shape[1] > 1:
            rule = rule_factor("scott", row_number(share), X.shape[1], kernel) * scales
            found = self._by_columns([found.value, rule], X, weights, loss)
        near, _ = self._near(found, X, weights)
        losses = self._loss(near.Y)(slice(0, len(X)), near.left_out())
        self.loo_error_ = float(near.mean(losses))
        return found.value

    def _by_columns(self, starts: list[Any], X: np.ndarray, weights: Any, loss: Any) -> Bandwidth:
        """Return a bandwidth for each column with a small error at points left out.

        The best of searches from several places: planes have minima that are not the least.
        """

        def error(lengths: np.ndarray) -> float:
            near, frame = self._near(Bandwidth(lengths, X.shape[1]), X, weights)
            return float(near.errors([frame.radius], loss)[0])

        with np.errstate(over="ignore"):
            widest = np.minimum(WIDEST * (X.max(axis=0) - X.min(axis=0)), HUGE)
        places = [np.where(widest > 0, start, starts[0]) for start in starts]
        found = [choose_columns(error, place, widest) for place in places]
        return Bandwidth(min(found, key=lambda each: each[1])[0], X.shape[1])

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

    @speaks
    def _alike(self, X: Any) -> Alike:
        every = np.ones(len(self.sample_weight_), dtype=bool)
        return Alike(self.kernel_, X, self._known(every), self.sample_weight_)

    def _known(self, rows: np.ndarray) -> np.ndarray:
        """Return what is averaged, if copies of it fit the budget."""
        n, t = int(rows.sum()), self._n_values
        require_memory(
            24 * n * t, f"{type(self).__name__}: {t} values of {n} points", "Fit fewer rows"
        )
        return self._values(rows)

    @speaks
    def _left_out(self, X: Any) -> np.ndarray:
        """Return local means at each training point, by the others."""
        check_is_fitted(self)
        used = self.sample_weight_ > 0
        if used.sum() < 2:
            raise InvalidInput(
                f"{who()}.loo: the only training point has no other to speak of it; fit at least "
                "two points of positive weight."
            )
        space = self._fitted_space
        if isinstance(space, Kernel):
            return self._alike(self._points_again(X, "loo")).left_out()
        if X is not None:
            again = self._points(X, space, reset=False)
            check_same_points(space.domain, again, self.X_fit_, "loo")
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


# ---- nadaraya ----


def _has_targets(model: Any) -> bool:
    y = model.y_fit_
    return y.ndim in (1, 2) and y.dtype.kind == "f" and bool(np.isfinite(y).all())


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
    bandwidth : float, array of shape (d,) or (d, d), or str, default="loo"
        A number, one a column, a symmetric positive definite matrix H, a rule, "scott" or
        "silverman", or "loo": the standard deviation of each column times the common factor with
        the smallest squared error at points left out, as `loo` has them. "loo-columns" goes on from
        there, and from Scott's rule, and makes that error small in the bandwidth of each column,
        one after the other, until no step along a column lowers it: a column that tells nothing of
        y gets a wide one, up to 64 times its range, and counts no more. It takes some ten times as
        long for each column.
        A row is left out with all its weight; its copies stay, so that rows given several times
        speak for a small bandwidth: give such rows once, with weights. The search ends at a tenth
        of the median distance to the nearest other place. Of several outputs each error is relative
        to the variance of the output. Rules are as for `KernelDensity`. A column that does not vary
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
        ``bandwidth="loo"`` or "loo-columns" and points that differ.
    loo_path_ : array of shape (k, 2)
        Common factors tried, ascending, and their errors relative to the variance of the targets;
        only with ``bandwidth="loo"`` or "loo-columns".

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

    score = r_squared
    _rules = (*LocalEstimator._rules, ("the targets of a {} are no finite numbers", _has_targets))

    _parameters = {"degree": checks.Whole(0, 1, says="give 0 for averages, or 1 for planes")}

    def __init__(self, bandwidth: Any = "loo", kernel: Any = "gaussian", *, degree: int = 0):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.degree = degree

    @property
    def _degree(self) -> int:
        checks.check_parameters(self)
        return int(self.degree)

    @speaks("NadarayaWatson")
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
        with self._all_or_nothing(X):
            space, _ = self._space(), self._degree
            X = self._points(X, space, reset=True)
            n = space.domain.size(X)
            self.y_fit_ = check_targets(y, n).copy()
            self._remember(X, space, check_weights(sample_weight, n, relative=True))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the local average, or the value of the local plane, at each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._shaped(self._answers(X))

    @speaks
    def gradient(self, X: Any) -> np.ndarray:
        """Return the marginal effects: the slope of the regression in each column, at rows of X.

        With ``degree=0`` the derivative of `predict`; with ``degree=1`` the slope of the plane that
        is fitted at x, which is near that derivative and the better estimate of a slope. It is 0
        where the nearest points answer because no other has weight. Kernels with a tip,
        "exponential" and "triangular", have no slope at training points; there the part of that
        point is left out.

        Parameters
        ----------
        X : array of shape (m, d)
            New points.

        Returns
        -------
        array of shape (m, d) or (m, d, n_outputs)
            In the units of y over those of the column.
        """
        check_is_fitted(self)
        points = self._points(X, self._fitted_space, reset=False)
        if not self.smoothing_ or (self.smoothing_ == "tophat" and not self._degree):
            raise InvalidInput(
                f"{who()}.gradient: kernel={self.kernel!r} has no slopes; take a smoothing kernel "
                "such as 'gaussian'."
            )
        bandwidth = Bandwidth(self.bandwidth_, points.shape[1])
        near, frame = self._near(bandwidth, *positive_rows(self.X_fit_, self.sample_weight_))
        slopes = frame.unit.pull(near.gradient(points, frame))
        return slopes if self.y_fit_.ndim == 2 else slopes[:, :, 0]

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return the answer at each training point by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. A row is left out with all its
        weight.

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


# ---- Classification by local shares of the classes ----


def _has_classes(model: Any) -> bool:
    codes, classes = model.y_fit_, vars(model).get("classes_")
    whole = classes is not None and codes.ndim == 1 and codes.dtype.kind in "iu"
    return whole and codes.min() >= -1 and codes.max() < len(classes)


class NadarayaWatsonClassifier(ClassifierMixin, LocalEstimator):
    r"""Classification by local shares of the classes.

    p(c | x) = Σ_{i: yᵢ = c} wᵢ κ(H⁻¹(x − xᵢ)) / Σᵢ wᵢ κ(H⁻¹(x − xᵢ))

    with a smoothing kernel κ, a bandwidth H and sample weights w; of classes with equal shares the
    first in `classes_` is predicted. This is Bayes' rule with class densities of one bandwidth and
    the shares of the classes as priors. Every x has an answer: where no point has weight, the
    nearest points answer, as for `NadarayaWatson`.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), or str, default="loo"
        As for `NadarayaWatson`; "loo" and "loo-columns" make the log-loss at points left out small.
        A share below 1/m counts as 1/m there, for m training points that differ, lest a lonely
        point decide.
    kernel : str, Kernel or callable, default="gaussian"
        As for `NadarayaWatson`.

    Attributes
    ----------
    classes_ : array
        The classes.
    bandwidth_ : float, array of shape (d,) or (d, d), or None
        The bandwidth in numbers; None with a Kernel.
    smoothing_ : str or None
        The smoothing kernel; None with a Kernel.
    kernel_ : Kernel
        The kernel with words resolved; only where `kernel` is none of the smoothing kernels.
    X_fit_ : collection
        The training points.
    y_fit_ : array of shape (n,)
        The position in `classes_` of the class of each; −1 for a row of weight 0 whose class has
        no other rows.
    sample_weight_ : array of shape (n,)
        Their weights.
    loo_error_ : float
        The mean log-loss of ``loo_proba()``, each row counted by its weight and no share below 1/m;
        only with ``bandwidth="loo"`` and points that differ.
    loo_path_ : array of shape (k, 2)
        Factors tried, ascending, and their errors; only with ``bandwidth="loo"``.

    See Also
    --------
    mercer.KDEClassifier : Bayes' rule with a density for each class.

    Examples
    --------
    >>> from mercer import NadarayaWatsonClassifier
    >>> model = NadarayaWatsonClassifier(1.5, "tophat")
    >>> model.fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]).predict([[0.2], [2.9]])
    array(['a', 'b'], dtype='<U1')
    >>> model.predict_proba([[1.0]])
    array([[0.66666667, 0.33333333]])
    """

    _state = LocalEstimator._state | state.others("classes_")
    _rules = (*LocalEstimator._rules, ("the classes of a {} do not fit its rows", _has_classes))

    classes_: np.ndarray

    score = accuracy

    def __init__(self, bandwidth: Any = "loo", kernel: Any = "gaussian"):
        self.bandwidth = bandwidth
        self.kernel = kernel

    @speaks("NadarayaWatsonClassifier")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Store the training points and their classes, and choose the bandwidth.

        Parameters
        ----------
        X : collection of n points
            Rows of numbers, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        NadarayaWatsonClassifier
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            space = self._space()
            X = self._points(X, space, reset=True)
            n = space.domain.size(X)
            y = check_labels(y, n)
            weights = check_weights(sample_weight, n, relative=True)
            self.classes_, self.y_fit_ = class_codes(y, weights)
            self._remember(X, space, weights)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the local share of each class, one column a class.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._answers(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of largest local share for each row of X.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @speaks
    def loo_proba(self, X: Any = None) -> np.ndarray:
        """Return the shares of the classes at each training point, by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. A row is left out with all its
        weight.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)

    @speaks
    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. A row is left out with all its
        weight.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        best = self.loo_proba(X).argmax(axis=1)
        return self.classes_[best]

    @property
    def _n_values(self) -> int:
        return len(self.classes_)

    def _values(self, rows: np.ndarray) -> np.ndarray:
        return (self.y_fit_[rows, None] == np.arange(len(self.classes_))).astype(float)

    def _loss(
        self, Y: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[slice, np.ndarray], np.ndarray]:
        least = 1 / len(np.unique(self.X_fit_[self.sample_weight_ > 0], axis=0))

        def loss(rows: slice, answers: np.ndarray) -> np.ndarray:
            share = np.einsum("ic,ic->i", answers, Y[rows])
            return -np.log(np.maximum(share, least))

        return loss
