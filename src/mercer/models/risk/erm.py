"""Regularised risk with any loss: a classifier or a regressor, as the loss says."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import ClassifierTags, RegressorTags

from mercer import checks, state
from mercer.domains import to_host
from mercer.errors import available_if, speaks
from mercer.estimator import (
    CENTRES,
    choose_class,
    given_targets,
    is_stream,
    log_probabilities,
    score_blocks,
    takes_dask,
)
from mercer.losses import Loss, as_loss
from mercer.models.risk.base import RISK_SOLVERS, Risk, classifies, has_probabilities, margin_of


class KernelERM(Risk):
    r"""Regularised empirical risk: any loss, any kernel.

    Minimises

        Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (α/2)‖f‖²

    over functions f in the RKHS of the kernel and offsets b. f = Σ aᵢ k(xᵢ, ·) with
    α aᵢ = −wᵢ ℓ'(yᵢ, f(xᵢ) + b).

    With a loss of classification ("hinge", "squared_hinge", "logistic", "exponential") it is a
    classifier; of more than two classes the logistic loss becomes softmax, the others fit one
    function for each class against the rest. With a loss of regression ("squared", "absolute",
    "pinball", "epsilon_insensitive", "huber") it is a regressor. Smooth losses are fitted by
    Newton's method, each step a weighted ridge regression, n³/3 flops; with D finite features,
    D < n, nD² flops. Losses with kinks are fitted through their dual, a box problem.
    Of few features, or few rows, their weights are found by an interior point method instead.
    With ``solver="falkon"``, for smooth losses, f is sought among the combinations Σ aⱼ k(zⱼ, ·) of
    m centres only: nm kernel values a pass, some 80 passes, m² memory, for rows on a device, in
    files or on a cluster too.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; "rbf" takes its length scale from the data.
    loss : Loss or str, default="squared"
        The loss ℓ, such as "huber" or ``mercer.losses.Huber(2.0)``.
    alpha : float, default=1.0
        The penalty α > 0.
    fit_intercept : bool, default=True
        Whether there is an offset b; it is not penalised.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective, with what rounding may hide of it.
        Of "falkon" the norm of the gradient, relative to that at 0.
    max_iter : int, optional
        Limit on the solver's steps; None leaves it to the solver (200 Newton steps).
    max_time : float, optional
        Limit in seconds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights; for classifiers.
    solver : {"auto", "newton", "cholesky", "cg", "falkon"}, default="auto"
        How smooth losses are fitted. "newton", or "cholesky", factorises; "cg" solves the systems
        of Newton's method by preconditioned conjugate gradients, with K kept where it fits, or made
        anew in tiles; "falkon" seeks f in the span of centres. "auto" takes what `plan` finds: an
        exact method where one fits, and "falkon" where none does, or where `n_centers` or `centers`
        is given. Losses with kinks have one method, by "auto", "newton" or "cholesky".
    n_centers : int, optional
        Number m of centres of "falkon"; by default about 10√n, at least 1000. Not beside centres.
    centers : {"uniform", "kmeans", "rpcholesky", "leverage"} or collection, default="uniform"
        How centres are chosen, as the landmarks of `mercer.Nystroem`, or the centres; the columns
        of a frame must be those of X. Kernels with `White` take none.
    checkpoint : path, optional
        A file in which "falkon" keeps its state from time to time, and from which a fit of the
        same problem goes on.
    random_state : int, RandomState or None, default=None
        Source of centres, and of the pivots of the preconditioner of "cg".

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, classes)
        The coefficients a, one for each of `X_fit_`.
    intercept_ : float, or array of shape (1,) or (classes,)
        The offset, 0 without `fit_intercept`; of a classifier one for each function.
    coef_ : array of shape (D,), (1, D) or (classes, D), or None
        Weights of the kernel's explicit features, where these are finite: of a regressor (D,), of
        a classifier a row for each function.
    classes_ : array
        The classes of a classifier; a regressor has no such attribute.
    X_fit_ : collection
        The training points; the centres of a fit by "falkon".
    n_rows_ : int
        Number of training points.
    plan_ : Plan
        What was planned: method, memory, why.
    kernel_ : Kernel
        The kernel with words resolved.
    loss_ : Loss
        The loss.
    n_iter_ : int
        Steps of the solver.
    solution_ : Solution
        Certificate: primal and dual value, their gap, and the residual of α a = −w ℓ'; of "falkon"
        the objective and the relative norm of the gradient.
    margin_ : float
        Geometric margin: the least distance in feature space from a training point to where the
        predicted class changes, y(f(x) + b)/‖f‖ for two classes; negative if one is wrong.
    function_ : Function
        The fitted function; of a loss with kinks by ``coef_`` where ``dual_coef_``, which have the
        dual value, are too large for its values (a tiny penalty).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelERM
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[10] = 100.0  # an outlier
    >>> model = KernelERM(RBF(1.0), "huber", alpha=0.01).fit(X, y)
    >>> bool(abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.2)
    True
    >>> model = KernelERM("linear", "hinge").fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.predict([[2.5]])
    array([1])
    """

    _parameters = CENTRES | {"solver": checks.Word(*RISK_SOLVERS, says="legal: {}")}
    _state = Risk._state | state.others("n_rows_", "plan_")
    _plan = Risk._plan_risk
    _on_device = True

    loss: Any
    solver: str = "auto"

    margin_ = property(margin_of)

    def __init__(
        self,
        kernel: Any = "rbf",
        loss: Any = "squared",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        class_weight: Any = None,
        solver: str = "auto",
        n_centers: int | None = None,
        centers: Any = "uniform",
        checkpoint: Any = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.solver = solver
        self.n_centers = n_centers
        self.centers = centers
        self.checkpoint = checkpoint
        self.random_state = random_state

    @speaks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed. Tensors
            are worked on where they are by "cg" and "falkon". `mercer.RowBlocks` bring rows that
            need not fit memory, with their targets and weights.
        y : array of shape (n,)
            Class labels, or targets for a loss of regression; may be left out where the blocks
            carry them.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

        Returns
        -------
        estimator
            The fitted model itself.
        """
        return self._fit_from(None, X, y, sample_weight)

    def _risk(self) -> Loss:
        return as_loss(self.loss, type(self).__name__)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        kind = self._kind()  # None: fit will say what is wrong with the loss
        if kind == "classification":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        elif kind == "regression":
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    @takes_dask
    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, or f(x) + b for a loss of regression.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        values = self._values(X)
        return choose_class(values, self.classes_) if "classes_" in vars(self) else values

    @available_if(classifies)
    @takes_dask
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) + b, positive for the second class; one column a class where there are more.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)

    @available_if(has_probabilities)
    @takes_dask
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes; for the logistic loss.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return log_probabilities(self._values(X))

    @available_if(has_probabilities)
    @takes_dask
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, shape (n, classes); for the logistic loss.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return np.exp(log_probabilities(self._values(X)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, R² of a regressor.

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            Points.
        y : array of shape (n,), optional
            Their labels or targets; of `RowBlocks` those that the blocks carry.
        sample_weight : array of shape (n,), optional
            Weights.
        """
        from sklearn.metrics import accuracy_score, r2_score

        if is_stream(X):
            return score_blocks(self, X, y, sample_weight, classes=classifies(self))
        judge = accuracy_score if classifies(self) else r2_score
        weights = to_host(sample_weight, "sample_weight")
        return float(judge(given_targets(y, self), self.predict(X), sample_weight=weights))
