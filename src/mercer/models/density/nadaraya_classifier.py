"""Classification by local shares of the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer.errors import ModelFileError
from mercer.features.base import check_weights
from mercer.models.density.local_classes import class_codes
from mercer.models.density.nadaraya_base import LocalEstimator
from mercer.models.labels import check_labels
from mercer.models.scored import ClassifierMixin

__all__ = ["NadarayaWatsonClassifier"]


class NadarayaWatsonClassifier(ClassifierMixin, LocalEstimator):
    r"""Classification by local shares of the classes.

    p(c | x) = Σ_{i: yᵢ = c} wᵢ κ(H⁻¹(x − xᵢ)) / Σᵢ wᵢ κ(H⁻¹(x − xᵢ))

    with a smoothing kernel κ, a bandwidth H and sample weights w; of classes with equal shares the
    first in `classes_` is predicted. This is Bayes' rule with class densities of one bandwidth and
    the shares of the classes as priors. Every x has an answer: where no point has weight, the
    nearest points answer, as for `NadarayaWatson`.

    Parameters
    ----------
    bandwidth : float, array of shape (d,) or (d, d), "loo", "scott" or "silverman", default="loo"
        As for `NadarayaWatson`; "loo" makes the log-loss at points left out small. A share below
        1/m counts as 1/m there, for m training points that differ, lest a lonely point decide.
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

    _learned = (*LocalEstimator._learned, "classes_")

    classes_: np.ndarray

    def __init__(self, bandwidth: Any = "loo", kernel: Any = "gaussian"):
        self.bandwidth = bandwidth
        self.kernel = kernel

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
        owner = "NadarayaWatsonClassifier"
        with self._all_or_nothing():
            space = self._space()
            X = self._points(X, space, reset=True)
            n = space.domain.size(X)
            y = check_labels(y, n, owner)
            weights = check_weights(sample_weight, n, owner)
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

    def loo_proba(self, X: Any = None) -> np.ndarray:
        """Return the shares of the classes at each training point, by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. Of a row of weight w one copy is
        left out, all of it where w ≤ 1.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        """
        return self._left_out(X)

    def loo(self, X: Any = None) -> np.ndarray:
        """Return the class of each training point, predicted by the others; exact.

        The bandwidth, or the kernel, is that of the fitted model. Of a row of weight w one copy is
        left out, all of it where w ≤ 1.

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

    def _check_state(self) -> None:
        super()._check_state()
        codes, classes = (vars(self).get(name) for name in ("y_fit_", "classes_"))
        if codes is None:
            return
        whole = codes.ndim == 1 and codes.dtype.kind in "iu"
        if classes is None or not whole or codes.min() < -1 or codes.max() >= len(classes):
            raise ModelFileError("the classes of a NadarayaWatsonClassifier do not fit its rows")
