"""Kernel logistic regression: two classes, more by softmax; Newton, centres or gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.estimator import (
    MarginData,
    accuracy,
    choose_class,
    log_probabilities,
    takes_dask,
)
from mercer.losses import Logistic, Loss
from mercer.models.risk.base import RISK_SOLVERS, PlannedRisk
from mercer.models.risk.fit import ERMFit
from mercer.models.risk.stream import StreamMixin
from mercer.solvers.risk import AveragedSGD


class KernelLogisticRegression(StreamMixin, ClassifierMixin, PlannedRisk):
    r"""Kernel logistic regression, with probabilities.

    Two classes y ∈ {−1, +1}: minimises

        Σᵢ wᵢ log(1 + exp(−yᵢ(f(xᵢ) + b))) + (α/2)‖f‖²

    over functions f in the RKHS of the kernel and offsets b; P(y = 1 | x) = 1/(1 + exp(−f(x) − b)).
    Each Newton step is a ridge regression on the working targets m + y/σ(y m) with weights
    σ(m)σ(−m), m = f + b.

    C > 2 classes: minimises Σᵢ wᵢ(log Σ_c exp z_c(xᵢ) − z_yᵢ(xᵢ)) + (α/2) Σ_c ‖f_c‖² with
    z_c = f_c + b_c, one function for each class. (Of two classes that would be f₁ = −f₀ = f/2,
    and ‖f₀‖² + ‖f₁‖² half of ‖f‖²: α means the penalty of the one function f there.)

    Cost n³/3 flops a step and n² memory; with D finite features, D < n, nD² flops. With
    ``solver="falkon"`` f is sought among the combinations Σ aⱼ k(zⱼ, ·) of m centres only: nm
    kernel values a pass, some 80 passes, m² memory, for rows on a device, in files or on a cluster
    too.

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
    solver : {"auto", "newton", "cholesky", "cg", "falkon", "sgd"}, default="auto"
        "newton", or "cholesky": damped Newton, one factorisation a step for two classes, conjugate
        gradients with one factorisation as preconditioner for more. "cg": the same with systems
        solved by conjugate gradients alone, K kept where it fits, or made anew in tiles. "falkon"
        seeks f in the span of centres. "auto" takes what `plan` finds: an exact method where one
        fits, and "falkon" where none does, or where `n_centers` or `centers` is given. "sgd":
        stochastic gradients, for kernels with finite features, many rows and a penalty that is not
        tiny; `partial_fit` takes a stream.
    n_centers : int, optional
        Number m of centres of "falkon"; by default about 10√n, at least 1000. Not beside centres.
    centers : {"uniform", "kmeans", "rpcholesky", "leverage"} or collection, default="uniform"
        How centres are chosen, as the landmarks of `mercer.Nystroem`, or the centres; the columns
        of a frame must be those of X. Kernels with `White` take none.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective; of "falkon" the norm of the gradient,
        relative to that at 0.
    max_iter : int, optional
        Limit on Newton steps, 200 by default; of "sgd" on passes over the data, 1000 by default.
    max_time : float, optional
        Limit in seconds.
    checkpoint : path, optional
        A file in which "falkon" keeps its state from time to time, and from which a fit of the
        same problem goes on.
    random_state : int, RandomState or None, default=None
        Source of centres, and of the pivots of the preconditioner of "cg"; which rows "sgd" draws,
        where None stands for 0.

    Attributes
    ----------
    classes_ : array
        The classes.
    dual_coef_ : array of shape (n,) or (n, classes)
        The coefficients a: α aᵢ = wᵢ yᵢ σ(−yᵢ m(xᵢ)), or α A = w(Y − p). Of few features and a tiny
        α, where these have lost the digits of f, others of the same function. One for each of
        the centres of "falkon".
    intercept_ : array of shape (1,) or (classes,)
        The offset; those of several classes sum to 0.
    coef_ : array of shape (1, D) or (classes, D), or None
        Weights of the kernel's explicit features, where these are finite.
    X_fit_ : collection
        The training points; the centres of a fit by "falkon".
    n_rows_ : int
        Number of training points.
    plan_ : Plan
        What was planned: method, memory, why; absent for "sgd".
    kernel_ : Kernel
        The kernel with words resolved.
    n_iter_ : int
        Newton steps, passes over the data, or rows of a stream.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the residual of α a = −w ℓ'; of "falkon"
        the objective and the relative norm of the gradient.
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

    _learned = (*PlannedRisk._learned, "stream_")
    _solvers = (*RISK_SOLVERS, "sgd")

    score = accuracy

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        *,
        class_weight: Any = None,
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
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.random_state = random_state

    def _risk(self) -> Loss:
        return Logistic()

    def _store_centres(self, *parts: Any) -> None:
        self.stream_ = self._basis_cache = None
        super()._store_centres(*parts)

    def _resumed(self, D: int, classes: int) -> AveragedSGD:
        if "kernel_" in vars(self):
            self._require_rows("partial_fit")  # its sums are over them
        return super()._resumed(D, classes)

    def _solved(
        self, data: MarginData, loss: Loss, alpha: float, limits: dict, near: Any = None
    ) -> ERMFit:
        if self.solver == "sgd":
            return self._fit_sgd(data, alpha, limits)
        return super()._solved(data, loss, alpha, limits, near)

    @takes_dask
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) + b, the log-odds of the second class; one column a class for more.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)

    @takes_dask
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row of X.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return choose_class(self._values(X), self.classes_)

    @takes_dask
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes, shape (n, classes).

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return log_probabilities(self._values(X))

    @takes_dask
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, shape (n, classes).

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return np.exp(log_probabilities(self._values(X)))
