"""KernelRidgeClassifier against KernelRidge on signs, refits and class weights."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_iris

from mercer import RBF, KernelRidge, KernelRidgeClassifier

N = 24
rng = np.random.default_rng(3)
X = rng.standard_normal((N, 3))
Y = np.c_[np.sin(X[:, 0]) + 3 + 0.1 * rng.standard_normal(N), X[:, 1] ** 2]


# ------------------------------------------------------------------------------ classification
def test_classifier_is_ridge_on_signs():
    data, y = load_iris(return_X_y=True)
    two = y < 2
    model = KernelRidgeClassifier(RBF(2.0), 0.3).fit(data[two], y[two])
    signs = KernelRidge(RBF(2.0), 0.3, fit_intercept=True).fit(data[two], 2.0 * y[two] - 1)
    np.testing.assert_allclose(model.decision_function(data), signs.predict(data))
    many = KernelRidgeClassifier(RBF(2.0), 0.3).fit(data, y)
    assert many.decision_function(data).shape == (150, 3)
    for c in range(3):
        rest = KernelRidge(RBF(2.0), 0.3, fit_intercept=True).fit(data, np.where(y == c, 1.0, -1.0))
        np.testing.assert_allclose(many.decision_function(data)[:, c], rest.predict(data))
    assert many.score(data, y) > 0.95


def test_classifier_leave_one_out_equals_refits():
    data, y = load_iris(return_X_y=True)
    data, names = data[::5], np.array(["a", "b", "c"])[y[::5]]
    model = KernelRidgeClassifier(RBF(1.0), 0.2).fit(data, names)
    refits = [
        clone(model).fit(np.delete(data, i, 0), np.delete(names, i)).predict(data[[i]])[0]
        for i in range(len(data))
    ]
    np.testing.assert_array_equal(model.loo(), refits)
    assert model.loo_decision_function().shape == (len(data), 3)


def test_class_weights_are_sample_weights():
    data, y = load_iris(return_X_y=True)
    data, y = data[:80], y[:80]
    by_class = KernelRidgeClassifier(RBF(), class_weight={0: 1.0, 1: 3.0}).fit(data, y)
    by_row = KernelRidgeClassifier(RBF()).fit(data, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.dual_coef_, by_row.dual_coef_)
    balanced = KernelRidgeClassifier(RBF(), class_weight="balanced").fit(data, y)
    counts = np.bincount(y)
    by_row = KernelRidgeClassifier(RBF()).fit(data, y, sample_weight=(80 / (2 * counts))[y])
    np.testing.assert_allclose(balanced.dual_coef_, by_row.dual_coef_)


def test_a_class_without_weight_is_no_class():
    y = np.array(["a", "b", "c"] * 8)
    model = KernelRidgeClassifier(RBF()).fit(X, y, sample_weight=(y != "b").astype(float))
    np.testing.assert_array_equal(model.classes_, ["a", "c"])
    np.testing.assert_allclose(
        model.decision_function(X),
        KernelRidgeClassifier(RBF()).fit(X[y != "b"], y[y != "b"]).decision_function(X),
        atol=1e-10,
    )
