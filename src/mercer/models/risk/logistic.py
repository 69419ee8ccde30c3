"""Kernel logistic regression: two classes, more by softmax; Newton, centres or gradients."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer import checks, state
from mercer.domains import to_host
from mercer.errors import InvalidInput, available_if, speaks, who
from mercer.estimator import (
    CENTRES,
    Sample,
    accuracy,
    check_labels,
    choose_class,
    in_double,
    known_classes,
    log_probabilities,
    require_rows,
    takes_dask,
)
from mercer.losses import Logistic, Loss
from mercer.models.risk.base import RISK_SOLVERS, Risk, margin_of
from mercer.models.risk.fit import ERMFit
from mercer.models.risk.stream import (
    LabelStream,
    features_of,
    fit_sgd,
    stream_coefficients,
    stream_weights,
    with_features,
)

NO_STREAM = "the stream of a {} does not fit its arrays"


def _stream_rows(model: Any) -> int | None:
    """Return how many numbers a stream keeps for each output, if the weights are its."""
    _, D = np.shape(vars(model)["coef_"])
    return 2 * D + 6 if D == model.kernel_._n_features(model.X_fit_) else None


def _outputs(model: Any) -> int:
    return len(vars(model)["coef_"])


class KernelLogisticRegression(ClassifierMixin, Risk):
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
    margin_ : float
        Geometric margin: the least distance in feature space from a training point to where the
        predicted class changes, y(f(x) + b)/‖f‖ for two classes; negative if one is wrong.
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

    _state = (
        {"stream_": state.Maybe(state.Floats(_stream_rows, _outputs, says=NO_STREAM))}
        | Risk._state
        | state.others("n_rows_", "plan_")
    )
    _plan = Risk._plan_risk
    _on_device = True
    _parameters = CENTRES | {"solver": checks.Word(*RISK_SOLVERS, "sgd", says="legal: {}")}

    solver: str = "auto"
    stream_: np.ndarray | None
    _basis_cache: np.ndarray | None = None

    score = accuracy
    margin_ = property(margin_of)

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

    @property
    @speaks
    def dual_coef_(self) -> np.ndarray:  # type: ignore[override]
        """The coefficients a; those of a stream are found when they are asked for."""
        try:
            a = vars(self)["dual_coef_"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no dual_coef_ before fit.") from None
        if a is None:
            parts = (self.kernel_, self.X_fit_, vars(self)["coef_"])
            a = self.__dict__["dual_coef_"] = stream_coefficients(*parts)
        return a

    @dual_coef_.setter
    @speaks
    def dual_coef_(self, value: Any) -> None:
        self.__dict__["dual_coef_"] = value

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

    def _solved(self, data: Sample, loss: Any, alpha: float, limits: dict, *how: Any) -> ERMFit:
        if self.solver == "sgd":
            return fit_sgd(data, alpha, bool(self.fit_intercept), limits, self.random_state)
        return super()._solved(data, loss, alpha, limits, *how)

    def _store(self, *parts: Any) -> None:
        self.stream_ = self._basis_cache = None
        super()._store(*parts)

    # -- streams ------------------------------------------------------------------------------
    @available_if(with_features)
    @speaks(".partial_fit")
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with new rows, each seen once: averaged stochastic gradients.

        Approaches the minimum over all rows seen so far, those of an earlier `fit` included, of
        the same objective as `fit`; the rows themselves are not kept. Rows in several calls are the
        same rows in one call. The order of the rows should be random, and the columns centred and
        of scale near 1. `solution_` makes no claim: a stream has no optimum to be compared with.
        The alphabet of a kernel on strings is that of the first call, if none was given, and later
        strings with other letters are refused.

        Parameters
        ----------
        X : collection of n points
            New points, for a kernel with finite features.
        y : array of shape (n,)
            Their labels.
        classes : array, optional
            All classes, needed in the first call.
        sample_weight : float or array of shape (n,), optional
            Weights; a row of weight 0 is no row.

        Returns
        -------
        estimator
            The model itself.
        """
        held = {name: vars(self)[name] for name in self._learned if name in vars(self)}
        with self._all_or_nothing(X):
            self.__dict__.update(held)
            checks.check_parameters(self, "fit_intercept", "alpha")
            alpha, offset = float(self.alpha), bool(self.fit_intercept)
            if held and held["fit_intercept_"] != offset:
                raise InvalidInput(
                    f"{who()}: fit_intercept={offset}, and {not offset} for the rows so far; set "
                    "it back, or begin another stream with a clone."
                )
            kernel = held.get("kernel_") or self._kernel()
            X = in_double(to_host(self._check_X(X, kernel, reset=not held)))
            y = check_labels(y, kernel.domain.size(X))
            known = known_classes(classes, y, held.get("classes_"))
            weights = stream_weights(self.class_weight, y, sample_weight)
            kernel = kernel if held else kernel.fit_params(X, weights)
            Phi = features_of(kernel, X)
            stream = LabelStream(kernel, Phi.shape[1], len(known), offset)
            if held:
                require_rows(self, "partial_fit")  # its sums are over them
                stream.resume(self)
            stream.update(X, Phi, np.searchsorted(known, y), weights, alpha)
            self._store_stream(stream, known, alpha)
        return self

    @speaks
    def _store_stream(self, stream: LabelStream, classes: np.ndarray, alpha: float) -> None:
        sgd, points, count = stream.sgd, stream.points, stream.kernel.domain.size(stream.points)
        self.kernel_, self.X_fit_, self._basis_cache = stream.kernel, points, stream.basis
        self.dual_coef_ = None  # type: ignore[assignment]
        self.intercept_, self.coef_ = np.atleast_1d(sgd.intercept), np.atleast_2d(sgd.coef.T)
        self.classes_, self.y_fit_, self.sample_weight_ = classes, np.zeros(count, dtype=int), None
        self.alpha_, self.fit_intercept_, self.loss_ = alpha, bool(self.fit_intercept), Logistic()
        self.n_iter_, self.stream_ = max(1, sgd.seen), stream.packed()
        self.solution_ = stream.solution()

    def _feature_weights(self) -> np.ndarray | None:
        if vars(self).get("stream_") is None:
            return super()._feature_weights()
        V = vars(self)["coef_"].T
        return V[:, 0] if V.shape[1] == 1 else V

    def _points_again(self, X: Any, verb: str) -> Any:
        if vars(self).get("stream_") is not None:
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: the rows of a stream are not kept, and it needs "
                "them; fit() on stored rows."
            )
        return super()._points_again(X, verb)

    def __getstate__(self) -> dict:
        state = dict(super().__getstate__())
        state.pop("_basis_cache", None)
        return state

    # -- answers ------------------------------------------------------------------------------
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
