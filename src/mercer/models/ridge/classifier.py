"""Classification by kernel ridge regression, with exact leave-one-out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import RowBlocks
from mercer.errors import speaking_for, speaks, who
from mercer.estimator import (
    OPTIONS,
    Sample,
    accuracy,
    check_labels,
    check_weights,
    choose_class,
    class_weights,
    coded,
    find_classes,
    geometric_margin,
    takes_dask,
)
from mercer.kernels import Kernel
from mercer.models.ridge.base import Ridge


class KernelRidgeClassifier(ClassifierMixin, Ridge):
    r"""Classification by kernel ridge regression on ±1 targets.

    Two classes: the sign of a ridge fit to y ∈ {−1, +1}. More: one fit for each class against the
    rest, all from one factorisation; the largest value wins.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    alpha : float or "loo", default=1.0
        The penalty, as for `KernelRidge`.
    fit_intercept : bool, default=True
        Whether to add an offset that is not penalised; without it a far point has value 0.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries.
    solver : {"auto", "cholesky", "cg", "falkon"}, default="auto"
        How to fit; this and the following parameters are those of `KernelRidge`.
    n_centers : int, optional
        Number of centres of "falkon".
    centers : str or collection, default="uniform"
        How centres are chosen, or the centres.
    tol : float, default=1e-6
        Relative residual at which "cg" and "falkon" stop, and gap relative to the objective.
    max_iter : int, optional
        Limit of their iterations.
    max_time : float, optional
        Limit of their time, in seconds.
    checkpoint : path, optional
        A file in which "falkon" keeps its state, and from which it goes on.
    random_state : int, RandomState or None, default=None
        Source of centres, and of the pivots of the preconditioner of "cg".

    Attributes
    ----------
    classes_ : array
        The classes.
    coef_ : array of shape (1, D) or (n_classes, D), or None
        Weights of the kernel's explicit features; None where it has no finite ones.
    intercept_ : float or array of shape (n_classes,)
        The offset; for two classes one number, where scikit-learn has an array of one.
    margin_ : float
        Geometric margin: the least distance in feature space from a training point to where the
        predicted class changes, y(f(x) + b)/‖f‖ for two classes; negative if one is wrong.
    dual_coef_, X_fit_, n_rows_, n_iter_, plan_, kernel_, alpha_, loo_errors_, solution_, function_
        As for `KernelRidge`, for the ±1 targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelRidgeClassifier(alpha=0.1).fit(X, y).score(X, y) > 0.95)
    True
    """

    _state = Ridge._state | {
        "classes_": state.Labels("t?", says=state.CLASSES_MISFIT, lacks=state.CLASSES_MISFIT)
    }
    _parameters = OPTIONS | {"fit_intercept": checks.Flag()}
    _on_device = True

    score = accuracy

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        alphas: Any = None,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "uniform",
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        checkpoint: Any = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.alphas = alphas
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.random_state = random_state

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed. Tensors
            and blocks of rows as for `KernelRidge`.
        y : array of shape (n,)
            Class labels; may be left out where the blocks carry them.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice.

        Returns
        -------
        KernelRidgeClassifier
            The fitted model itself.
        """
        return self._fit(X, y, sample_weight)

    @speaks("KernelRidgeClassifier")
    def _stream_data(self, kernel: Kernel, rows: RowBlocks) -> Sample:
        rows, classes = coded(rows, self.class_weight)
        outputs = 1 if len(classes) == 2 else len(classes)
        return Sample(
            kernel, rows, np.empty((0, outputs)), None, classes=classes, column=outputs == 1
        )

    @speaks("KernelRidgeClassifier")
    def _targets(self, y: Any, sample_weight: Any, X: Any, n: int, centred: bool) -> Any:
        """Return ±1 targets, a column for each class where there are more than two."""
        y = check_labels(y, n)
        weights = check_weights(sample_weight, n)
        if self.class_weight is not None:
            balance = class_weights(self.class_weight, y, weights)
            weights = balance if weights is None else weights * balance
            with speaking_for(f"{who()}: class_weight"):
                weights = check_weights(weights, n)
        classes = find_classes(y if weights is None else y[weights > 0])
        T = np.where(y[:, None] == classes[None, :], 1.0, -1.0)
        return T[:, 1] if len(classes) == 2 else T, weights, classes

    @property
    def margin_(self) -> float:
        """Geometric margin: the least distance from a training point to where the class changes.

        In feature space, y(f(x) + b)/‖f‖ for two classes; negative if a point is on the wrong side.
        """
        check_is_fitted(self)
        T, w = vars(self).get("y_fit_"), self.sample_weight_
        if T is None:
            return geometric_margin(self, None)
        codes = (T[:, 0] > 0).astype(int) if T.shape[1] == 1 else T.argmax(axis=1)
        return geometric_margin(self, codes if w is None else np.where(w > 0, codes, -1))

    @takes_dask
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x): one column for two classes, else one column a class.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._decision(X)

    @takes_dask
    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self.decision_function(X), self.classes_)

    @speaks
    def loo_decision_function(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the decision values at the training points, each from a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row; a row is left out with all of its group.
        """
        values = self._loo_targets(X, groups)
        return values[:, 0] if self.dual_coef_.ndim == 1 else values

    @speaks
    def loo(self, X: Any = None, *, groups: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by a fit without that point.

        Parameters
        ----------
        X : array of shape (n, n), or collection of n points, optional
            The training Gram matrix, needed again only when the kernel is precomputed; else the
            training points, if you like.
        groups : sequence of n labels, optional
            The group of each row; a row is left out with all of its group.
        """
        return choose_class(self.loo_decision_function(X, groups=groups), self.classes_)
