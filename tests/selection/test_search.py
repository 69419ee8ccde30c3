"""search: the answer of GridSearchCV for every model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as PeerSVC

import mercer
from mercer import (
    RBF,
    SVC,
    SVR,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    NuSVC,
    NuSVR,
    Polynomial,
    TableRegressor,
)
from mercer.selection.grid import scorer as scorer_module
from tests.selection.searches import PENALTIES, alike, both, classes, letters, numbers


# -- models ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0), "rbf", Linear(), Polynomial(2), RBF("median")])
def test_ridge(kernel, offset):
    model = KernelRidge(kernel, fit_intercept=offset)
    result = both(model, {"alpha": PENALTIES}, *numbers())
    assert isinstance(result.best_estimator_, KernelRidge)
    X = numbers()[0]
    again = KernelRidge(kernel, result.best_params_["alpha"], fit_intercept=offset)
    assert np.array_equal(result.predict(X), again.fit(*numbers()).predict(X))


def test_ridge_by_krylov_spaces(monkeypatch):
    monkeypatch.setattr("mercer.selection.grid.ridge._krylov_pays", lambda *a: True)
    X, y = numbers(200)
    grid = {"kernel__length_scale": [0.3, 1.0, 5.0], "alpha": np.geomspace(1e-4, 10, 6)}
    both(KernelRidge(RBF()), grid, X, y)
    both(KernelRidge(RBF(), fit_intercept=True), grid, X, y + 100, atol=1e-8)


def test_ridge_with_several_outputs_weights_and_huge_targets():
    X, y = numbers()
    T = np.stack([y, y**2], axis=1)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"alpha": PENALTIES, "fit_intercept": [True, False]}
    both(KernelRidge(RBF(1.0)), grid, X, T)
    both(KernelRidge(RBF(1.0)), grid, X, T, weights=w)
    both(KernelRidge(RBF("scale")), grid, X, y, weights=w)
    both(KernelRidge(RBF(1.0)), grid, X, 1e120 * y)


def test_unusual_penalties_are_fitted_as_they_are():
    X, y = numbers(50)
    T = np.stack([y, y**2], axis=1)
    both(KernelRidge(RBF(1.0)), {"alpha": ["loo", 0.1, 1, np.float32(0.5)]}, X, y, cv=3)
    both(KernelRidge(RBF(1.0)), {"alpha": [np.array([0.1, 1.0]), 0.1]}, X, T, cv=3)


@pytest.mark.parametrize("k", [2, 4])
def test_ridge_classifier(k):
    X, y = classes(k=k)
    names = np.array(["red", "green", "blue", "white"])[y]
    grid = {"alpha": PENALTIES, "class_weight": [None, "balanced"], "kernel": ["rbf", Matern(1.0)]}
    both(KernelRidgeClassifier(), grid, X, names, atol=0)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", ["ovo", "ovr"])
def test_svc(k, kind):
    X, y = classes(k=k)
    model = SVC(RBF(1.0), multi_class=kind)
    grid = {"C": [10.0, 0.1, 1.0], "kernel__length_scale": [0.5, 2.0]}
    both(model, grid, X, y, atol=0)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_svc_on_real_tables(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    both(SVC(), {"C": [0.1, 1.0, 10.0, 100.0]}, X, y, atol=0)


def test_svc_with_weights_and_classes_of_unequal_size():
    X, y = classes()
    y = np.where(y == 2, 1, y)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"C": [0.1, 1.0, 10.0], "class_weight": [None, "balanced", {0: 3.0, 1: 1.0}]}
    both(SVC(), grid, X, y, atol=1e-12)
    both(SVC(), grid, X, y, atol=1e-12, weights=w)


def test_svc_with_no_shared_way():
    X, y = classes(60, k=2)
    both(SVC(RBF(0.3)), {"C": [1.0, 1e9, np.inf]}, X, y, atol=0, cv=3)
    both(SVC(RBF(1.0), max_iter=5), {"C": [1.0, 10.0]}, X, y, atol=0, cv=3)
    grid = {"C": [1.0, 10.0], "probability": [True]}
    both(SVC(RBF(1.0)), grid, X, y, cv=3, scoring="neg_log_loss")


def test_svr():
    X, y = numbers()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    grid = {"C": [10.0, 0.1, 1.0], "epsilon": [0.0, 0.1], "kernel": [RBF(1.0), "rbf"]}
    model = SVR(tol=1e-8)
    both(model, grid, X, y, atol=1e-6)
    both(model, grid, X, y, atol=1e-6, weights=w)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (KernelPerceptron(), {"kernel__length_scale": [0.5, 1.0], "kernel": [RBF(1.0)]}),
        (NuSVC(RBF(1.0)), {"nu": [0.1, 0.3]}),
        (NuSVR(RBF(1.0), tol=1e-8), {"nu": [0.1, 0.3], "C": [1.0]}),
    ],
)
def test_models_on_parts_of_the_matrix(model, grid, monkeypatch):
    seen = []
    plain = scorer_module.plain_fit

    def spy(base, params, *rest):
        seen.append(params.get("kernel"))
        return plain(base, params, *rest)

    monkeypatch.setattr(scorer_module, "plain_fit", spy)
    X, y = classes(60, k=2)
    both(model, grid, X, y, cv=3, atol=1e-6)
    assert set(seen) == {"precomputed"}


@pytest.mark.parametrize("kernel", [RBF(1.0), "rbf"])
@pytest.mark.parametrize("name", ["KernelLogisticRegression", "KernelHuberRegressor", "KernelERM"])
def test_regularised_risk(name, kernel):
    X, y = classes(60, k=3)
    model = getattr(mercer, name)(kernel=kernel)
    both(model, {"alpha": PENALTIES}, X, y, cv=3, atol=1e-9)
    if name == "KernelLogisticRegression":
        both(model, {"alpha": PENALTIES}, X, y, cv=3, atol=1e-9, scoring="neg_log_loss")
        both(model, {"class_weight": [None, "balanced"]}, X, y, cv=3, weights=np.arange(60.0) % 3)


def test_neighbours():
    X, y = classes(60)
    model = mercer.models.KernelNeighborsClassifier(RBF(1.0))
    both(model, {"n_neighbors": [1, 5], "weights": ["uniform", "distance"]}, X, y, atol=0)
    words, count = letters()
    model = mercer.models.KernelNeighborsClassifier(alike)
    grid = {"n_neighbors": [1, 3], "weights": ["uniform", "distance"]}
    both(model, grid, words, count > 2, atol=0, cv=3)


def test_other_estimators():
    X, y = classes(60, k=2)
    pipe = make_pipeline(StandardScaler(), SVC(RBF(1.0)))
    both(pipe, {"svc__C": [0.1, 1.0], "svc__kernel__length_scale": [0.5, 1.0]}, X, y, atol=0)
    both(PeerSVC(), {"C": [0.1, 1.0]}, X, y, atol=0, weights=np.arange(60.0))
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    both(TableRegressor(), {"alpha": [0.1, 1.0]}, frame, X[:, 2], cv=3)


def test_models_with_centres_are_scored_as_they_are():
    X, y = numbers()
    few = KernelRidge(RBF(1.0), 0.1, solver="falkon", n_centers=3, random_state=0)
    result = both(few, {"alpha": [0.1, 1.0]}, X, y)
    exact = mercer.search(KernelRidge(RBF(1.0)), {"alpha": [0.1, 1.0]}, X, y)
    assert result.best_score_ < exact.best_score_ - 0.01
    grid = {"n_centers": [3, 30]}
    assert both(few, grid, X, y).best_params_ == {"n_centers": 30}
    assert both(KernelRidge(RBF(1.0), random_state=0), grid, X, y).best_params_ == {"n_centers": 30}
    both(KernelRidgeClassifier(RBF(1.0), n_centers=3, random_state=0), {"alpha": [0.1]}, X, y > 0)


def test_single_precision_is_searched_as_it_is_fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    grid = {"alpha": np.logspace(-8, 1, 6)}
    found = mercer.search(KernelRidge(RBF(1.0)), grid, X, y, cv=4)
    peer = GridSearchCV(KernelRidge(RBF(1.0)), grid, cv=4).fit(X, y)
    np.testing.assert_allclose(
        found.results_["mean_test_score"], peer.cv_results_["mean_test_score"], rtol=1e-5
    )


def test_a_scorer_need_not_have_a_hash():
    @dataclass
    class Score:
        """Equality without a hash."""

        power: float = 1.0

        def __call__(self, model, X, y):
            return -float(np.mean(np.abs(model.predict(X) - y) ** self.power))

    X, y = numbers(60)
    found = mercer.search(KernelRidge(RBF(1.0)), {"alpha": [0.1, 1.0]}, X, y, scoring=Score(2.0))
    assert np.isfinite(found.best_score_)
