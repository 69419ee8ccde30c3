"""scikit-learn's own searches with mercer's models: nested names, lists of kernels, words."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, SVC, SVR, KernelRidge, KernelRidgeClassifier, Linear, Matern, NuSVC
from mercer.kernels import FromFunction

CLASSIFIERS = [KernelRidgeClassifier, SVC, NuSVC]
REGRESSORS = [KernelRidge, SVR]


def data(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


def shared(s, t):
    return sum(min(s.count(c), t.count(c)) for c in "ab") + 0.5


def words(n=40):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(["a", "b"], rng.integers(1, 9))) for _ in range(n)]


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
@pytest.mark.parametrize("kernel", [RBF(1.0), "rbf"])
def test_length_scales(cls, kernel):
    X, y = data()
    y = y > 0 if cls in CLASSIFIERS else y
    found = GridSearchCV(cls(kernel), {"kernel__length_scale": [1e-3, 1.0]}, cv=3).fit(X, y)
    assert found.best_params_ == {"kernel__length_scale": 1.0}
    assert found.best_estimator_.kernel_.length_scale == 1.0


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_lists_of_kernels(cls):
    X, y = data()
    y = y > 0 if cls in CLASSIFIERS else y
    kernels = [Linear(), RBF(1.0), Matern(1.0), RBF(1.0).on(0) + Linear().on(1), "rbf"]
    found = GridSearchCV(cls(), {"kernel": kernels}, cv=3).fit(X, y)
    scores = [cross_val_score(cls(k), X, y, cv=3).mean() for k in kernels]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], scores, atol=1e-12)


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_words(cls):
    X = words()
    y = np.array([s.count("a") for s in X])
    y = y > 2 if cls in CLASSIFIERS else y
    grid = {"kernel": [shared, FromFunction(shared) * 2.0, FromFunction(shared).normalized()]}
    if cls is not NuSVC:
        grid["alpha" if hasattr(cls(), "alpha") else "C"] = [0.1, 1.0]
    found = GridSearchCV(cls(), grid, cv=3).fit(X, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.predict(X[:3]).shape == (3,)
    ours = mercer.search(cls(), grid, X, y, cv=3)
    assert ours.results_["params"] == found.cv_results_["params"]


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
