"""The two named ℓ₁ vector machines: a classifier with the logistic loss, a regressor."""

from __future__ import annotations

from typing import Any

from mercer.models.l1vm import L1VM
from mercer.models.scored import ClassifierMixin, RegressorMixin

__all__ = ["L1VMClassifier", "L1VMRegressor"]


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
