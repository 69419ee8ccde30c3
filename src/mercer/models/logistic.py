"""Kernel logistic regression: two classes, more by softmax; Newton's method or gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.errors import InvalidInput
from mercer.losses import Logistic, Loss
from mercer.models.erm_base import RiskEstimator
from mercer.models.erm_data import MarginData
from mercer.models.erm_fit import ERMFit
from mercer.models.erm_values import log_probabilities
from mercer.models.labels import choose_class
from mercer.models.stream import StreamMixin

__all__ = ["KernelLogisticRegression", "log_probabilities"]


class KernelLogisticRegression(StreamMixin, ClassifierMixin, RiskEstimator):
    r"""Kernel logistic regression, with probabilities.

    Two classes y ∈ {−1, +1}: minimises

        Σᵢ wᵢ log(1 + exp(−yᵢ(f(xᵢ) + b))) + (α/2)‖f‖²

    over functions f in the RKHS of the kernel and offsets b; P(y = 1 | x) = 1/(1 + exp(−f(x) − b)).
    Each Newton step is a ridge regression on the working targets m + y/σ(y m) with weights
    σ(m)σ(−m), m = f + b.

    C > 2 classes: minimises Σᵢ wᵢ(log Σ_c exp z_c(xᵢ) − z_yᵢ(xᵢ)) + (α/2) Σ_c ‖f_c‖² with
    z_c = f_c + b_c, one function for each class. (Of two classes that would be f₁ = −f₀ = f/2,
    and ‖f₀‖² + ‖f₁‖² half of ‖f‖²: α means the penalty of the one function f there.)

    Cost n³/3 flops a step and n² memory; with D finite features, D < n, nD² flops.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data. "linear" is scikit-learn's
        LogisticRegression with C = 1/α.
    alpha : float, default=1.0
        The penalty α > 0.
    fit_intercept : bool, default=True
        Whether there are offsets; they are not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    solver : {"newton", "sgd"}, default="newton"
        Damped Newton: one factorisation a step for two classes, conjugate gradients with one
        factorisation as preconditioner for more. "sgd": stochastic gradients, for kernels with
        finite features, many rows and a penalty that is not tiny; `partial_fit` takes a stream.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int, optional
        Limit on Newton steps, 200 by default; of "sgd" on passes over the data, 1000 by default.
    max_time : float, optional
        Limit in seconds.
    random_state : int, RandomState or None, default=None
        Which rows "sgd" draws; None stands for 0.

    Attributes
    ----------
    classes_ : array
        The classes.
    dual_coef_ : array of shape (n,) or (n, classes)
        The coefficients a: α aᵢ = wᵢ yᵢ σ(−yᵢ m(xᵢ)), or α A = w(Y − p). Of few features and a tiny
        α, where these have lost the digits of f, others of the same function.
    intercept_ : array of shape (1,) or (classes,)
        The offset; those of several classes sum to 0.
    coef_ : array of shape (1, D) or (classes, D), or None
        Weights of the kernel's explicit features, where these are finite.
    X_fit_ : collection
        The training points.
    kernel_ : Kernel
        The kernel with words resolved.
    n_iter_ : int
        Newton steps, passes over the data, or rows of a stream.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the residual of α a = −w ℓ'.
    function_ : Function
        The fitted function.

    Examples
    --------
    >>> from mercer import RBF, KernelLogisticRegression
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["no", "yes", "yes", "no"]
    >>> model = KernelLogisticRegression(RBF(0.5), alpha=0.1).fit(X, y)
    >>> model.predict(X).tolist()
    ['no', 'yes', 'yes', 'no']
    >>> model.predict_proba([[0, 0]]).round(2)
    array([[0.81, 0.19]])
    """

    _learned = (*RiskEstimator._learned, "stream_")

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        *,
        class_weight: Any = None,
        solver: str = "newton",
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    def _risk(self) -> Loss:
        if self.solver not in ("newton", "sgd"):
            raise InvalidInput(
                f"{type(self).__name__}: solver={self.solver!r}; give 'newton' or 'sgd'."
            )
        return Logistic()

    def _solved(
        self, data: MarginData, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> ERMFit:
        if self.solver == "sgd":
            return self._fit_sgd(data, alpha, limits)
        return super()._solved(data, loss, alpha, limits, near)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) + b, the log-odds of the second class; one column a class for more.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self._values(X), self.classes_)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes, shape (n, classes).

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return log_probabilities(self._values(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, shape (n, classes).

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return np.exp(log_probabilities(self._values(X)))
