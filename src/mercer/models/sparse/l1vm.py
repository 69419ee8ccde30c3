"""ℓ₁ vector machines: sparse weights on kernel values with prototypes, chosen by the penalty."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.errors import InvalidInput, available_if, speaks, who
from mercer.estimator import (
    KernelEstimator,
    accuracy,
    choose_class,
    margin_of_prototypes,
    prepare_labels,
    prepare_targets,
    r_squared,
    score_as,
)
from mercer.features import CHOICE, with_prototypes
from mercer.losses import Logistic, Loss, as_loss
from mercer.models.sparse.fit import (
    L1VMPath,
    SparseData,
    path_along_alpha,
    sparse_data,
)
from mercer.operators import gram_of
from mercer.solvers import CoordinateDescent, Solution, merged
from mercer.solvers.risk import LOSSES, check_ratio


def _classifies(model: Any) -> bool:
    if model._risk().kind != "classification":
        raise AttributeError(f"{type(model).__name__}: {model._risk()!r} is a loss of regression.")
    return True


def _has_probabilities(model: Any) -> bool:
    if not isinstance(model._risk(), Logistic):
        raise AttributeError(f"{type(model).__name__}: probabilities need loss='logistic'.")
    return True


def _fits_loss(model: Any) -> bool:
    return (model._risk().kind == "classification") == (vars(model).get("classes_") is not None)


class L1VM(KernelEstimator):
    r"""ℓ₁ vector machine: f(x) = Σⱼ vⱼ k(x, μⱼ) + b with most of the weights v exactly zero.

    Minimises over v and b

    Σᵢ wᵢ ℓ(yᵢ, f(xᵢ)) + alpha (l1_ratio ‖v‖₁ + ½ (1 − l1_ratio) ‖v‖²),

    which chooses prototypes among the candidates μ as it fits. Unlike a support vector machine it
    penalises the weights and not the norm of f, so any function of two points will do for k, and
    the prototypes it keeps need not lie at the boundary.

    The penalty is on kernel values as they are; they are not standardised. In scikit-learn's terms,
    on the same features: the squared loss is ``ElasticNet`` with ``alpha`` divided by Σw (its loss
    is a mean), the logistic loss ``LogisticRegression`` with C = 1/alpha. More than two classes are
    fitted one against the rest.

    Cost nm kernel values for m prototypes, all in memory, and little more for the few that matter.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    loss : {"logistic", "squared", "squared_hinge"} or Loss, default="logistic"
        The loss; a classifier, or with the squared loss a regressor.
    alpha : float, default=1.0
        The penalty, > 0. From ``path(X, y).alphas[0]`` on all weights are zero.
    l1_ratio : float, default=1.0
        The share of the ℓ₁ norm in it; 1 is the lasso, 0 ridge on the features, which is not
        sparse.
    prototypes : {"all", "random", "kmeans"} or collection of points, default="all"
        The candidates, as for `Prototypes`.
    n_prototypes : int, float or "sqrt", default=100
        How many for "random" and "kmeans".
    fit_intercept : bool, default=True
        Whether to add an offset b, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    tol : float, default=1e-6
        The largest duality gap relative to the objective, and the largest relative violation of
        the optimality conditions. Where it is cheap the solution is better by far.
    max_iter : int, optional
        Limit on passes of coordinate descent.
    max_time : float, optional
        Limit in seconds for each problem.
    random_state : int, RandomState or None, default=None
        For prototypes "random" and "kmeans".

    Attributes
    ----------
    support_ : array of shape (s,)
        Positions of the prototypes that are used: among the training rows, or among the points
        given, or among the centres of k-means.
    prototypes_ : collection of s points
        These prototypes; when the kernel is precomputed, their positions among its columns.
    dual_coef_ : array of shape (s,) or (s, n_classes)
        Their weights.
    intercept_ : float or array of shape (n_classes,)
        The offset, 0 without `fit_intercept`; of two classes one number, no array of one.
    n_prototypes_ : int
        How many candidates there were.
    classes_ : array
        The classes, with a loss of classification; a regressor has no such attribute.
    kernel_ : Kernel
        The kernel with words resolved.
    n_iter_ : int
        Passes of coordinate descent, over all classes.
    solution_ : Solution
        Certificate: objective, dual value, gap, largest violation; sums over the classes.
    function_ : Function
        The function, over the prototypes that are used only.

    See Also
    --------
    mercer.KernelMachine : All prototypes, with any model behind them.
    mercer.SVC : Sparse by its loss and not by its penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import L1VM, RBF
    >>> X = np.linspace(0, 6, 80)[:, None]
    >>> model = L1VM(RBF(1.0), "squared", alpha=0.1).fit(X, np.sin(X[:, 0]))
    >>> len(model.support_) < 15, float(model.score(X, np.sin(X[:, 0]))) > 0.99
    (True, True)
    """

    _needs_psd = False
    _parameters = (
        checks.LIMITS
        | CHOICE
        | {
            "fit_intercept": checks.Flag(),
            "alpha": checks.POSITIVE,
            "l1_ratio": checks.Read(check_ratio),
        }
    )
    _state = (
        {
            "kernel_": state.Anything(),
            "prototypes_": state.Points("s"),
            "support_": state.Array("s"),
            "dual_coef_": state.Floats("s", "t?"),
            "intercept_": state.Floats("t?"),
            "classes_": state.Spare(state.Labels("t?")),
        }
        | state.others("n_prototypes_", "n_iter_", "solution_", needed=True)
        | state.INPUTS
    )
    _rules: tuple[state.Rule, ...] = ((state.MISFIT, _fits_loss),)
    loss: Any
    alpha: float
    prototypes_: Any
    l1_ratio: float
    class_weight: Any = None
    classes_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: Any
    support_: np.ndarray
    solution_: Solution

    def __init__(
        self,
        kernel: Any = "rbf",
        loss: Any = "logistic",
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        *,
        prototypes: Any = "all",
        n_prototypes: Any = 100,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.prototypes = prototypes
        self.n_prototypes = n_prototypes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    def _risk(self) -> Loss:
        owner = type(self).__name__
        loss = as_loss(self.loss, owner)
        if type(loss).__name__ not in LOSSES:
            raise InvalidInput(
                f"{owner}: loss={self.loss!r}; give one of {', '.join(map(repr, LOSSES.values()))}."
            )
        return loss

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            kind = self._risk().kind
        except InvalidInput:  # fit will say what is wrong with the loss
            return tags
        tags.target_tags.required = True
        if kind == "classification":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    # -- fitting ------------------------------------------------------------------------------
    @speaks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels, or targets with the squared loss.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.

        Returns
        -------
        L1VM
            The fitted machine itself.
        """
        with self._all_or_nothing(X):
            sparse = self._prepare(X, y, sample_weight)
            self._store(sparse, self._solve(sparse))
        return self

    @speaks
    def path(
        self,
        X: Any,
        y: Any,
        alphas: Any = None,
        *,
        n_alphas: int = 50,
        eps: float = 1e-3,
        sample_weight: Any = None,
    ) -> L1VMPath:
        """Fit for many penalties, each from the solution for the next larger one.

        The features are computed once. The machine itself is left as it was; what is found for an
        alpha is what a fit with that alpha finds.

        Parameters
        ----------
        X : collection of n points
            As for `fit`.
        y : array of shape (n,)
            As for `fit`.
        alphas : array-like, optional
            The penalties; by default `n_alphas` of them, evenly spaced in logarithm, from the
            smallest for which all weights are zero.
        n_alphas : int, default=50
            How many by default.
        eps : float, default=1e-3
            The last of them, as a share of the first.
        sample_weight : float or array of shape (n,), optional
            As for `fit`.

        Returns
        -------
        L1VMPath
            Penalties, weights, offsets, gaps, and the fitted models.
        """
        return path_along_alpha(self, X, y, alphas, n_alphas, eps, sample_weight)

    @speaks
    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> SparseData:
        loss = self._risk()
        checks.check_parameters(self)
        if loss.kind == "classification":
            data = prepare_labels(self, X, y, sample_weight, self.class_weight)
        elif self.class_weight is not None:
            raise InvalidInput(
                f"{who()}: class_weight={self.class_weight!r} with {loss!r}, a loss of "
                "regression; give class_weight=None."
            )
        else:
            data = prepare_targets(self, X, y, sample_weight)
        return sparse_data(self, data, loss, X)

    def _solve(self, sparse: SparseData, starts: Any = None) -> list[Solution]:
        """Solve every problem for the penalty of this machine, from given weights if any."""
        limits = checks.solver_limits(self)
        solver = CoordinateDescent(**limits)
        l1, l2 = self.alpha * self.l1_ratio, self.alpha * (1 - self.l1_ratio)
        solutions = []
        for i, problem in enumerate(sparse.problems):
            start = None if starts is None else starts[i]
            solutions.append(solver.solve(problem.with_penalty(l1, l2), start))
        return solutions

    def _store(self, sparse: SparseData, solutions: list[Solution]) -> None:
        data, V = sparse.data, np.stack([s.value for s in solutions], axis=1)
        b = np.array([s.extra["offset"] for s in solutions])
        used = np.flatnonzero(V.any(axis=1))
        several = sparse.several
        self.kernel_ = data.kernel
        self.support_ = sparse.indices[used]
        self.prototypes_ = data.kernel.domain.take(sparse.prototypes, used)
        self.dual_coef_ = V[used] if several else V[used, 0]
        self.intercept_ = b if several else float(b[0])
        self.n_prototypes_ = len(V)
        if data.classes is not None:
            self.classes_ = np.asarray(data.classes)
        self.solution_ = merged(solutions, self.dual_coef_)
        self.n_iter_ = max(1, self.solution_.n_iter)
        self.solution_.unwrap()

    # -- answers ------------------------------------------------------------------------------
    @property
    def margin_(self) -> float:
        """The margin of the training points, which a machine of prototypes does not keep."""
        check_is_fitted(self)
        _classifies(self)
        return margin_of_prototypes(self)

    @property
    def X_fit_(self) -> Any:
        """The prototypes that are used."""
        return self.prototypes_

    def _values(self, X: Any) -> np.ndarray:
        """Return f(x) for new points, shape (n,) or (n, n_classes), in tiles."""
        X = self._check_new(X)
        if not len(self.support_):
            shape = (self.kernel_.domain.size(X), *np.shape(self.intercept_))
            return np.zeros(shape) + self.intercept_
        X, points = with_prototypes(self, X)
        with np.errstate(over="ignore", invalid="ignore"):
            out = gram_of(self.kernel_, X, points) @ self.dual_coef_
            return self._finite(out + self.intercept_)

    @available_if(_classifies)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x): one column for two classes, else one a class, each against the rest.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, or with the squared loss its value.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        values = self._values(X)
        return choose_class(values, self.classes_) if "classes_" in vars(self) else values

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, 1/(1 + e^(−f)); of several, divided by their sum.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        shares = np.exp(self.predict_log_proba(X))
        return shares / shares.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of each class, finite where that underflows.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        values = self._values(X)
        if values.ndim == 1:
            return log_expit(np.column_stack([-values, values]))
        logs = log_expit(values)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of right classes, or with the squared loss R².

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            Points.
        y : array, optional
            Their classes or targets; of `RowBlocks` those that the blocks carry.
        sample_weight : array, optional
            Weights of the rows.
        """
        return score_as(self, X, y, sample_weight, self._risk().kind == "classification")


# ---- The two named ℓ₁ vector machines: a classifier with the logistic loss, a regressor ----


class L1VMClassifier(ClassifierMixin, L1VM):
    r"""`L1VM` with the logistic loss: sparse kernel logistic regression.

    Minimises Σᵢ wᵢ log(1 + e^(−yᵢf(xᵢ))) + alpha (l1_ratio ‖v‖₁ + ½ (1 − l1_ratio) ‖v‖²) over
    f(x) = Σⱼ vⱼ k(x, μⱼ) + b; of more than two classes one against the rest.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    alpha : float, default=1.0
        The penalty, > 0; 1/C of scikit-learn's ``LogisticRegression``.
    l1_ratio : float, default=1.0
        The share of the ℓ₁ norm in it.
    prototypes : {"all", "random", "kmeans"} or collection of points, default="all"
        The candidates, as for `Prototypes`.
    n_prototypes : int, float or "sqrt", default=100
        How many for "random" and "kmeans".
    fit_intercept : bool, default=True
        Whether to add an offset b, which is not penalised.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.
    tol : float, default=1e-6
        The largest duality gap relative to the objective.
    max_iter : int, optional
        Limit on passes of coordinate descent.
    max_time : float, optional
        Limit in seconds for each class.
    random_state : int, RandomState or None, default=None
        For prototypes "random" and "kmeans".

    Attributes
    ----------
    classes_ : array
        The classes.
    support_, prototypes_, dual_coef_, intercept_, kernel_, n_iter_, solution_, function_
        As for `L1VM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import L1VMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = L1VMClassifier(alpha=0.1).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), len(model.support_) < 40
    (True, True)
    """

    loss = "logistic"

    score = accuracy

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        *,
        prototypes: Any = "all",
        n_prototypes: Any = 100,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.prototypes = prototypes
        self.n_prototypes = n_prototypes
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state


class L1VMRegressor(RegressorMixin, L1VM):
    r"""`L1VM` with the squared loss: the lasso, or elastic net, on kernel values with prototypes.

    Minimises ½ Σᵢ wᵢ (yᵢ − f(xᵢ))² + alpha (l1_ratio ‖v‖₁ + ½ (1 − l1_ratio) ‖v‖²) over
    f(x) = Σⱼ vⱼ k(x, μⱼ) + b.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    alpha : float, default=1.0
        The penalty, > 0; that of scikit-learn's ``ElasticNet`` times Σw.
    l1_ratio : float, default=1.0
        The share of the ℓ₁ norm in it.
    prototypes : {"all", "random", "kmeans"} or collection of points, default="all"
        The candidates, as for `Prototypes`.
    n_prototypes : int, float or "sqrt", default=100
        How many for "random" and "kmeans".
    fit_intercept : bool, default=True
        Whether to add an offset b, which is not penalised.
    tol : float, default=1e-6
        The largest duality gap relative to the objective.
    max_iter : int, optional
        Limit on passes of coordinate descent.
    max_time : float, optional
        Limit in seconds.
    random_state : int, RandomState or None, default=None
        For prototypes "random" and "kmeans".

    Attributes
    ----------
    support_, prototypes_, dual_coef_, intercept_, kernel_, n_iter_, solution_, function_
        As for `L1VM`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, L1VMRegressor
    >>> X = np.linspace(0, 6, 80)[:, None]
    >>> model = L1VMRegressor(RBF(1.0), alpha=0.1).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[np.pi / 2]]).round(1)
    array([1.])
    """

    loss = "squared"

    score = r_squared

    def __init__(
        self,
        kernel: Any = "rbf",
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        *,
        prototypes: Any = "all",
        n_prototypes: Any = 100,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int | None = None,
        max_time: float | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.prototypes = prototypes
        self.n_prototypes = n_prototypes
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
