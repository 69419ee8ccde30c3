"""Training points that carry predictions: the terms of f, one by one."""

import numpy as np
import pytest

from mercer import (
    RBF,
    SVC,
    SVR,
    BagOfWords,
    Categorical,
    Function,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRidge,
    TableRegressor,
    representers,
)
from mercer.domains import Table
from mercer.errors import InvalidInput


@pytest.fixture
def X(rng):
    return rng.standard_normal((20, 3))


@pytest.fixture
def y(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def test_values_are_the_terms_of_f(X, y, rng):
    model = KernelRidge(RBF(), alpha=0.1, fit_intercept=True).fit(X, y)
    Z = rng.standard_normal((4, 3))
    told = representers(model, Z, count=7)
    terms = RBF()(Z, X) * model.dual_coef_
    for m in range(4):
        order = np.argsort(-np.abs(terms[m]), kind="stable")[:7]
        np.testing.assert_array_equal(told.index[m], order)
        np.testing.assert_allclose(told.values[m], terms[m, order])
        share = np.abs(terms[m, order]).cumsum() / np.abs(terms[m]).sum()
        np.testing.assert_allclose(told.shares[m], share)
    np.testing.assert_allclose(told.base + told.total, model.predict(Z))
    np.testing.assert_allclose(told.base, model.intercept_)


def test_all_points_add_up_to_the_prediction(X, y):
    Y = np.column_stack([y, y**2])
    labels = np.digitize(y, [-0.3, 0.3])
    models = [
        (KernelRidge(RBF(), alpha=0.1).fit(X, Y), "predict"),
        (KernelQuantileRegressor(RBF(), quantile=[0.1, 0.9], alpha=0.1).fit(X, y), "function_"),
        (KernelLogisticRegression(RBF(), alpha=0.1).fit(X, labels), "decision_function"),
        (SVR(RBF()).fit(X, y), "predict"),
        (
            GaussianProcessRegressor(RBF(), mean="linear", optimizer=None, noise=0.1).fit(X, y),
            "predict",
        ),
    ]
    for model, verb in models:
        told = representers(model, X, count=1000)
        assert told.index.shape[1] == len(model.function_)
        np.testing.assert_allclose(told.values.sum(axis=1), told.total, atol=1e-12)
        np.testing.assert_allclose(told.shares[:, -1], 1.0)
        np.testing.assert_allclose(told.base + told.total, getattr(model, verb)(X), atol=1e-10)


def test_machines_tell_rows_of_the_fit(X, y):
    labels = y > 0
    weights = np.where(np.arange(20) % 4 == 0, 0.0, 1.0)
    machine = SVC(RBF(), C=10.0).fit(X, labels, sample_weight=weights)
    told = representers(machine, X[:3], count=2)
    assert set(told.index.ravel()) <= set(machine.support_)
    assert not set(told.index.ravel()) & set(range(0, 20, 4))
    for row in range(3):
        near = RBF()(X[[row]], X[told.index[row]])[0]
        assert (np.abs(told.values[row]) <= 10.0 * near + 1e-12).all()
        assert (np.sign(told.values[row]) == np.where(labels[told.index[row]], 1, -1)).all()


def test_weights_of_zero_and_equal_points(y, rng):
    X = rng.standard_normal((20, 2))
    w = np.ones(20)
    w[5] = 0.0
    X[7] = X[8]
    model = KernelRidge(RBF(), alpha=0.1).fit(X, y, sample_weight=w)
    told = representers(model, X[[5, 7]], count=20)
    assert told.values[0][told.index[0] == 5] == 0.0
    assert told.index[0][-1] == 5
    one = representers(KernelRidge(RBF(), alpha=1.0).fit([[0.5]], [2.0]), [[0.5]])
    assert one.index.tolist() == [[0]]
    assert one.shares.tolist() == [[1.0]]
    nothing = representers(KernelRidge(RBF(), alpha=1.0).fit([[0.5]], [0.0]), [[0.5]])
    assert nothing.shares.tolist() == [[0.0]]


def test_any_kernel_on_any_points(X, y):
    words = ["buy this now", "buy", "see you at lunch", "lunch"]
    machine = SVC(BagOfWords()).fit(words, [1, 1, 0, 0])
    told = representers(machine, ["late for lunch"], count=1)
    assert words[told.index[0, 0]] == "lunch"
    gram = KernelRidge("precomputed", alpha=0.1).fit(RBF()(X), y)
    plain = KernelRidge(RBF(), alpha=0.1).fit(X, y)
    one, two = representers(gram, RBF()(X[:3], X)), representers(plain, X[:3])
    np.testing.assert_array_equal(one.index, two.index)
    np.testing.assert_allclose(one.values, two.values)
    table = Table({"a": X[:, 0], "b": np.array(["u", "v"] * 10, dtype=object)})
    model = KernelRidge(RBF().on("a") + Categorical(0.5).on("b"), alpha=0.1).fit(table, y)
    told = representers(model, table.take([0, 1]), count=20)
    np.testing.assert_allclose(told.base + told.total, model.predict(table.take([0, 1])))
    f = Function(RBF(), [[0.0], [1.0]], [1.0, -2.0], 0.5)
    told = representers(f, [[0.9]], count=2)
    assert told.index.tolist() == [[1, 0]]
    np.testing.assert_allclose(told.base + told.total, f([[0.9]]))


def test_it_is_refused_with_a_cure(X, y):
    with pytest.raises(InvalidInput, match="TableRegressor has no function"):
        representers(TableRegressor(max_time=0.5).fit(X[:, :2], y), X[:, :2])
    with pytest.raises(InvalidInput, match="count=0"):
        representers(KernelRidge(RBF()).fit(X, y), X, count=0)
    with pytest.raises(InvalidInput, match="keeps no points"):
        representers(Function(RBF(), np.empty((0, 1)), []), [[1.0]])
