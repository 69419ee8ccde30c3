"""scikit-learn's own searches with mercer's models: nested names, lists of kernels, words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    KernelERM,
    KernelHuberRegressor,
    KernelLogisticRegression,
    KernelMachine,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    L1VMClassifier,
    L1VMRegressor,
    Linear,
    Matern,
    NearestBarycentre,
    NuSVC,
)
from mercer.kernels import FromFunction

CLASSIFIERS = [
    KernelRidgeClassifier(),
    SVC(),
    NuSVC(),
    KernelLogisticRegression(),
    KernelERM(loss="squared_hinge"),
    KernelERM(loss="hinge"),
    KernelMachine(),
    L1VMClassifier(alpha=0.1),
    KernelNeighborsClassifier(),
    NearestBarycentre(),
]
REGRESSORS = [
    KernelRidge(),
    SVR(),
    KernelERM(loss="squared"),
    KernelERM(loss="absolute"),
    KernelHuberRegressor(),
    KernelQuantileRegressor(),
    KernelMachine(estimator=Ridge()),
    L1VMRegressor(alpha=0.1),
    KernelNeighborsRegressor(),
]
every_model = pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=repr)


def penalty(model):
    """Return the name of a parameter that is a number, and two values of it."""
    for name in ("alpha", "C", "n_neighbors"):
        if name in model.get_params():
            return {name: [1, 5] if name == "n_neighbors" else [0.1, 1.0]}
    return {}


def data(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


def shared(s, t):
    return sum(min(s.count(c), t.count(c)) for c in "ab") + 0.5


def words(n=40):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(n)]


@every_model
@pytest.mark.parametrize("kernel", [RBF(1.0), "rbf"])
def test_length_scales(model, kernel):
    X, y = data()
    y = y > 0 if model in CLASSIFIERS else y
    model = clone(model).set_params(kernel=kernel)
    found = GridSearchCV(model, {"kernel__length_scale": [1e-3, 1.0]}, cv=3).fit(X, y)
    assert found.best_estimator_.kernel_.length_scale in (1e-3, 1.0)
    if not isinstance(model, KernelNeighborsClassifier | KernelNeighborsRegressor):
        assert found.best_params_ == {"kernel__length_scale": 1.0}
    if kernel != "rbf":
        fits = [clone(model).set_params(kernel__length_scale=s) for s in (1e-3, 1.0)]
        scores = [cross_val_score(fit, X, y, cv=3).mean() for fit in fits]
        np.testing.assert_allclose(found.cv_results_["mean_test_score"], scores, atol=1e-12)


@every_model
def test_lists_of_kernels(model):
    X, y = data()
    y = y > 0 if model in CLASSIFIERS else y
    kernels = [Linear(), RBF(1.0), Matern(1.0), RBF(1.0).on(0) + Linear().on(1), "rbf"]
    found = GridSearchCV(model, {"kernel": kernels}, cv=3).fit(X, y)
    scores = [
        cross_val_score(clone(model).set_params(kernel=k), X, y, cv=3).mean() for k in kernels
    ]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], scores, atol=1e-12)
    assert max(scores) > (0.6 if is_classifier(model) else 0.15)


@every_model
def test_words(model):
    X = words()
    y = np.array([s.count("a") for s in X])
    y = y > 2 if model in CLASSIFIERS else y
    kernels = [shared, FromFunction(shared) * 2.0, FromFunction(shared).normalized()]
    grid = {"kernel": kernels, **penalty(model)}
    found = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.predict(X[:3]).shape == (3,)
    ours = mercer.search(model, grid, X, y, cv=3)
    assert ours.results_["params"] == found.cv_results_["params"]
    # SMO stops where it may; votes and shares of a few rows then differ by a row.
    exact = hasattr(model, "n_neighbors") or isinstance(model, KernelRidge | NearestBarycentre)
    np.testing.assert_allclose(
        ours.results_["mean_test_score"],
        found.cv_results_["mean_test_score"],
        atol=1e-8 if exact else 0.05,
    )


@every_model
def test_pipelines(model):
    X, y = data()
    y = y > 0 if model in CLASSIFIERS else y
    far = X * [1.0, 100.0] + [0.0, 5000.0]
    pipe = make_pipeline(StandardScaler(), clone(model).set_params(kernel=RBF(1.0)))
    name = pipe.steps[-1][0]
    grid = {f"{name}__{key}": values for key, values in penalty(model).items()}
    found = GridSearchCV(pipe, {**grid, f"{name}__kernel__length_scale": [1.0]}, cv=3).fit(far, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_score_ > (0.6 if is_classifier(model) else 0.15)
    assert found.predict(far[:3]).shape == (3,)


def test_nested_names_of_sums_in_a_pipeline():
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), SVC(RBF(1.0) + Linear()))
    grid = {"svc__kernel__k1__length_scale": [0.5, 2.0], "svc__C": [0.1, 1.0]}
    found = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.9
    other = RandomizedSearchCV(pipe, grid, n_iter=2, cv=3, random_state=0).fit(X, y)
    assert other.best_score_ > 0.9


def test_two_processes_and_predictions_of_folds():
    X, y = data()
    grid = {"alpha": [0.1, 1.0]}
    one, two = (GridSearchCV(KernelRidge(RBF(1.0)), grid, n_jobs=j).fit(X, y) for j in (None, 2))
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], atol=1e-9
    )
    assert cross_val_predict(KernelRidge(RBF(1.0)), X, y, cv=3).shape == y.shape
