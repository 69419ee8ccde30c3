"""Kernel regression with Huber's loss: squares near, absolute errors far, so outliers pull less."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.losses import Huber, Loss
from mercer.models.erm_base import RiskEstimator
from mercer.models.limits import positive
from mercer.models.scored import RegressorMixin

__all__ = ["KernelHuberRegressor"]


class KernelHuberRegressor(RegressorMixin, RiskEstimator):
    r"""Kernel regression that outliers do not pull away.

    Minimises Σᵢ wᵢ ℓ(yᵢ − f(xᵢ) − b) + (α/2)‖f‖² over functions f in the RKHS of the kernel and
    offsets b, with Huber's loss

        ℓ(e) = ½e² for \|e\| ≤ δ,   δ(\|e\| − δ/2) beyond.

    Errors beyond δ count in proportion, not squared: no row pulls with more than δ. As δ → ∞ it is
    `KernelRidge`.

    Cost n³/3 flops a Newton step over the rows with \|e\| ≤ δ, usually a few steps; n² memory. With
    D finite features, D < n, nD² flops.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    alpha : float, default=1.0
        The penalty α > 0.
    delta : float, default=1.35
        Where squares end, δ > 0, in the units of y. 1.35 standard deviations of the noise lose
        about 5 % of the precision of least squares where the noise is normal.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int, optional
        Limit on Newton steps, 200 by default.
    max_time : float, optional
        Limit in seconds.

    Attributes
    ----------
    dual_coef_ : array of shape (n,)
        The coefficients a, \|α aᵢ\| ≤ δ wᵢ; equality for outliers.
    outliers_ : array of shape (n,)
        Which rows of positive weight have an error beyond δ.
    intercept_ : float
        The offset, 0 without `fit_intercept`.
    coef_ : array of shape (D,) or None
        Weights of the kernel's explicit features, where these are finite.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    n_iter_ : int
        Newton steps.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the residual of α a = −w ℓ'.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelHuberRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[[10, 30]] = 50.0
    >>> model = KernelHuberRegressor(RBF(1.0), alpha=0.01, delta=0.1).fit(X, y)
    >>> np.flatnonzero(model.outliers_)
    array([10, 30])
    """

    _learned = (*RiskEstimator._learned, "outliers_")

    outliers_: np.ndarray

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        delta: float = 1.35,
        fit_intercept: bool = True,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    def _risk(self) -> Loss:
        return Huber(positive(self.delta, "delta", type(self).__name__))

    def _store(self, data: Any, points: Any, loss: Loss, alpha: float, fit: Any) -> None:
        errors = np.abs(data.y - fit.product - fit.intercept)
        outliers = np.zeros(data.n, dtype=bool)
        outliers[slice(None) if data.kept is None else data.kept] = errors > loss.delta  # type: ignore[attr-defined]
        self.outliers_ = outliers
        super()._store(data, points, loss, alpha, fit)

    def predict(self, X: Any) -> np.ndarray:
        """Return f(x) + b for each row of X, in tiles.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)
