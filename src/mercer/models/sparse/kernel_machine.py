"""Kernel machine: prototype features in front of any scikit-learn model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from mercer import state
from mercer.domains import to_host
from mercer.errors import InvalidInput, available_if, speaks
from mercer.estimator import (
    TakesKernel,
    check_labels,
    check_weights,
    count_targets,
    is_stream,
    margin_of_prototypes,
    score_blocks,
)
from mercer.features import (
    CHOICE,
    PROTOTYPES,
    choose_prototypes,
    map_to_prototypes,
    prototype_blocks,
)
from mercer.rkhs import Function


def _inner(name: str) -> Any:
    """Whether the model behind the features has a method, fitted or not."""

    def check(machine: Any) -> bool:
        model = vars(machine).get("estimator_", machine._model())
        if not hasattr(model, name):
            raise AttributeError(
                f"KernelMachine: {type(model).__name__} has no {name}; choose another estimator."
            )
        return True

    return available_if(check)


def _fits_prototypes(machine: Any) -> bool:
    model, m = vars(machine).get("estimator_"), machine.kernel_.domain.size(machine.prototypes_)
    return hasattr(model, "predict") and getattr(model, "n_features_in_", m) == m


class KernelMachine(TakesKernel, MetaEstimatorMixin, BaseEstimator):
    r"""Prototype features φ(x) = [k(x, μ₁), …, k(x, μ_K)] in front of any scikit-learn model.

    A linear model behind them predicts from Σⱼ βⱼ k(x, μⱼ) + b, a function of the kernel's space.
    The machine is what its model is: a classifier, a regressor, with the methods that one has.
    Unlike a pipeline of `Prototypes` and the model it takes ``sample_weight``, gives all that it
    has to the kernel, to k-means and to the model, and can say which function it learned.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel.
    prototypes : {"all", "random", "kmeans"} or collection of points, default="all"
        The prototypes μ, as for `Prototypes`.
    estimator : estimator, default=None
        The model; None is scikit-learn's ``LogisticRegression()``. It is cloned.
    n_prototypes : int, float or "sqrt", default=100
        How many prototypes for "random" and "kmeans", as for `Prototypes`.
    random_state : int, RandomState or None, default=None
        For "random" and "kmeans"; the model has its own.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model.
    prototypes_ : collection of K points
        The prototypes; their positions when the kernel is precomputed.
    prototype_indices_ : array of shape (K,) or None
        Their positions among the training rows, for "all" and "random".
    kernel_ : Kernel
        The kernel with words resolved.
    coef_ : array
        The weights of the model, if it has them.
    intercept_ : float or array
        Its offset, if it has one.
    classes_ : array
        Its classes, if it is a classifier.
    function_ : Function
        The function Σⱼ βⱼ k(μⱼ, ·) + b, when the model is linear.

    See Also
    --------
    mercer.Prototypes : The features alone.
    mercer.L1VM : Sparse weights on them, with a certificate.

    Examples
    --------
    No line separates the two classes of XOR. Four prototypes are enough to tell them apart:

    >>> from mercer import RBF, KernelMachine
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> KernelMachine(RBF(0.5), prototypes=X).fit(X, y).predict(X)
    array([0, 1, 1, 0])
    """

    _needs_psd = False
    _parameters = CHOICE
    _state = PROTOTYPES | state.others("estimator_")
    _rules = (("the model of a {} does not fit its prototypes", _fits_prototypes),)
    estimator_: Any

    def __init__(
        self,
        kernel: Any = "rbf",
        prototypes: Any = "all",
        estimator: Any = None,
        *,
        n_prototypes: Any = 100,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.prototypes = prototypes
        self.estimator = estimator
        self.n_prototypes = n_prototypes
        self.random_state = random_state

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also ``kernel__length_scale`` and ``estimator__C``.

        Parameters
        ----------
        **params : dict
            Parameters of the machine, of its kernel, and of its model.

        Returns
        -------
        KernelMachine
            The machine itself.
        """
        if params.get("estimator", self.estimator) is None and any(
            name.startswith("estimator__") for name in params
        ):
            params = {**params, "estimator": self._default()}
        return super().set_params(**params)

    # -- fitting ------------------------------------------------------------------------------
    @speaks("KernelMachine")
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the prototypes and fit the model on the kernel values with them.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array
            Targets, as the model takes them.
        sample_weight : float or array of shape (n,), optional
            Weights; a row of weight 0 is left out. The model must take them.

        Returns
        -------
        KernelMachine
            The fitted machine itself.
        """
        with self._all_or_nothing(X):
            kernel = self._kernel()
            X = self._check_X(X, kernel, reset=True)
            n, model = kernel.domain.size(X), clone(self._model())
            weights = check_weights(sample_weight, n)
            if y is None:
                raise InvalidInput(
                    "KernelMachine: requires y to be passed, but the target y is None."
                )
            y = to_host(y, "y")
            if (values := count_targets(y)) != n:
                raise InvalidInput(
                    f"KernelMachine: X has {n} rows and y has {values}; inconsistent "
                    "numbers of samples."
                )
            if is_classifier(model) and np.asarray(y, dtype=object).ndim == 1:
                check_labels(y, n)
            kernel.domain.check_training(X)
            self.kernel_ = kernel = kernel.fit_params(X, weights)
            self.prototypes_, self.prototype_indices_ = choose_prototypes(self, kernel, X, weights)
            if weights is not None and not weights.all():
                kept = np.flatnonzero(weights)
                X = X[kept] if isinstance(X, np.ndarray) else kernel.domain.take(X, kept)
                y, weights = _safe_indexing(y, kept), weights[kept]
            extra = {} if weights is None else {"sample_weight": weights}
            if extra and not has_fit_parameter(model, "sample_weight"):
                raise InvalidInput(
                    f"KernelMachine: {type(model).__name__} takes no sample_weight; fit without "
                    "weights, or choose an estimator that takes them."
                )
            features = map_to_prototypes(self, X)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # the model judges its answer
                    self.estimator_ = model.fit(features, y, **extra)
            except InvalidInput:
                raise
            except (OverflowError, TypeError, ValueError) as error:
                said = f"{type(model).__name__}.fit: {error}"
                raise InvalidInput(f"KernelMachine: {said}") from error
            if isinstance(coef := vars(model).get("coef_"), np.ndarray):
                # BLAS rounds by the order in memory, which a model file does not keep.
                vars(model)["coef_"] = np.ascontiguousarray(coef)
        return self

    @staticmethod
    def _default() -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()

    def _model(self) -> Any:
        if self.estimator is None:
            return self._default()
        if not hasattr(self.estimator, "fit") or isinstance(self.estimator, type):
            raise InvalidInput(
                f"KernelMachine: estimator={self.estimator!r} has no fit; give a scikit-learn "
                "model such as sklearn.linear_model.Ridge()."
            )
        return self.estimator

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            model = get_tags(self._model())
        except InvalidInput:  # fit will say what is wrong with the estimator
            return tags
        tags.estimator_type = model.estimator_type
        tags.classifier_tags = model.classifier_tags
        tags.regressor_tags = model.regressor_tags
        tags.target_tags = model.target_tags
        tags.non_deterministic = model.non_deterministic
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    # -- answers ------------------------------------------------------------------------------
    def features(self, X: Any) -> np.ndarray:
        """Return the features that the model sees: kernel values with the prototypes.

        Parameters
        ----------
        X : collection of n points
            Points; when precomputed, their kernel values with the training points.
        """
        return map_to_prototypes(self, self._check_new(X))

    def _ask(self, method: str, X: Any) -> np.ndarray:
        """Return what the model says of blocks of rows, each inside the memory budget."""
        X = self._check_new(X)
        take, rows = self.kernel_.domain.take, prototype_blocks(self, X)
        answer = getattr(self.estimator_, method)
        if len(rows) == 1:
            return answer(map_to_prototypes(self, X))
        return np.concatenate([answer(map_to_prototypes(self, take(X, block))) for block in rows])

    @_inner("predict")
    def predict(self, X: Any) -> np.ndarray:
        """Return the model's predictions.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        """
        return self._ask("predict", X)

    @_inner("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the model's probabilities of the classes.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self._ask("predict_proba", X)

    @_inner("predict_log_proba")
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the model's probabilities.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self._ask("predict_log_proba", X)

    @_inner("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the model's decision values.

        Parameters
        ----------
        X : collection of points
            New points.
        """
        return self._ask("decision_function", X)

    @_inner("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the model's score.

        Parameters
        ----------
        X : collection of points, RowBlocks, or dask array or frame
            Points.
        y : array, optional
            What they should be; of `RowBlocks` the targets that the blocks carry.
        sample_weight : array, optional
            Weights of the rows.
        """
        if is_stream(X):
            return score_blocks(self, X, y, sample_weight, classes=self._known_score())
        weights = to_host(sample_weight, "sample_weight")
        extra = {} if weights is None else {"sample_weight": weights}
        return self.estimator_.score(self.features(X), to_host(y, "y"), **extra)

    def _known_score(self) -> bool:
        """Whether the model's score is the accuracy, and not R²; refuse one of its own."""
        own = getattr(type(self.estimator_), "score", None)
        if own not in (ClassifierMixin.score, RegressorMixin.score):
            raise InvalidInput(
                f"KernelMachine.score: {type(self.estimator_).__name__} has a score of its own, "
                "which needs all rows at once; compare predict(blocks) with the targets."
            )
        return own is ClassifierMixin.score

    # -- what was learned ---------------------------------------------------------------------
    @property
    def coef_(self) -> np.ndarray:
        """The model's weights, one a prototype."""
        return self._of_model("coef_")

    @property
    def intercept_(self) -> Any:
        """The model's offset."""
        return self._of_model("intercept_")

    @property
    def classes_(self) -> np.ndarray:
        """The classes, if the model is a classifier."""
        return self._of_model("classes_")

    def _of_model(self, name: str) -> Any:
        check_is_fitted(self)
        if not hasattr(self.estimator_, name):
            raise AttributeError(
                f"KernelMachine: {type(self.estimator_).__name__} has no {name}; it is there for "
                "models such as LogisticRegression."
            )
        return getattr(self.estimator_, name)

    @property
    def margin_(self) -> float:
        """The margin of the training points, which a machine of prototypes does not keep."""
        if is_classifier(self):
            self._of_model("coef_")
            return margin_of_prototypes(self)
        raise AttributeError("KernelMachine: margin_ is that of a classifier.")

    @property
    def function_(self) -> Function:
        """The function Σⱼ βⱼ k(μⱼ, ·) + b of a linear model, one output a row of `coef_`."""
        coef = np.asarray(self.coef_, dtype=float)
        offset = np.asarray(self.intercept_, dtype=float)
        if coef.ndim == 2 and len(coef) == 1:
            coef, offset = coef[0], offset.reshape(-1)[0]
        return Function(self.kernel_, self.prototypes_, coef.T, offset)
