"""Left-out rows of regularised risks: against refits, and against dense Newton steps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from mercer import RBF, KernelERM, KernelRidge, Polynomial
from mercer.errors import InvalidInput
from mercer.losses import Huber

CLASSIFIERS = ["hinge", "squared_hinge", "logistic", "exponential"]
SMOOTH = ["squared_hinge", "logistic", "exponential", "squared", "huber"]


def waves(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_t(3, n)


def blobs(n=45, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(-0.5, 0.5, classes - 1))
    y[:classes] = np.arange(classes)
    return X, np.array(["a", "b", "c", "d"])[y]


def data(loss, n=40, classes=2):
    return blobs(n, classes=classes) if loss in CLASSIFIERS else waves(n)


def values(model, X):
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


def left_out(model, *X):
    return (model.loo_decision_function if hasattr(model, "classes_") else model.loo)(*X)


@pytest.mark.parametrize("loss", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_loo_of_classifiers_are_classes(loss, classes):
    X, y = blobs(30, classes=classes)
    model = KernelERM(RBF(1.0), loss, 0.3).fit(X, y)
    f = model.loo_decision_function()
    best = (f > 0).astype(int) if classes == 2 else f.argmax(axis=1)
    np.testing.assert_array_equal(model.loo(), model.classes_[best])
    np.testing.assert_array_equal(model.loo(X), model.loo())
    assert hasattr(model, "loo_proba") == (loss == "logistic")
    if loss == "logistic":
        p = model.loo_proba(X)
        assert p.shape == (30, classes)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.loo())
    with pytest.raises(InvalidInput, match="not what the model was fitted on"):
        model.loo_decision_function(X[::-1])
    K = RBF(1.0)(X)
    given = KernelERM("precomputed", loss, 0.3).fit(K, y)
    np.testing.assert_allclose(given.loo_decision_function(K), f, atol=1e-5 * (1 + abs(f).max()))
    with pytest.raises(InvalidInput, match="not the matrix"):
        given.loo(np.roll(np.roll(K, 1, 0), 1, 1))
    assert not hasattr(KernelERM(loss="huber"), "loo_decision_function")


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"], ids=str)
@pytest.mark.parametrize("offset", [True, False])
def test_loo_is_near_to_refits(loss, kernel, offset):
    X, y = data(loss, 30)
    w = np.random.default_rng(3).uniform(0.5, 2, 30)
    model = KernelERM(kernel, loss, 1.0, offset).fit(X, y, w)
    got = left_out(model)
    true = np.empty(30)
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        refit = clone(model).fit(X[rest], y[rest], w[rest])
        true[i] = values(refit, X[i : i + 1])[0]
    moved = abs(true - values(model, X))
    if loss == "squared":
        np.testing.assert_allclose(got, true, atol=1e-8)
    else:  # most of the way, for most of the rows
        assert np.median(abs(got - true) / (moved + 1e-9)) < 0.2
        assert abs(got - true).max() < 0.5 * moved.max()


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear", Polynomial(3)], ids=str)
@pytest.mark.parametrize("offset", [True, False])
def test_loo_of_softmax_is_one_newton_step(kernel, offset):
    """Dense Newton matrices of all rows and classes, one for each row that is left out."""
    X, y = blobs(24, classes=3)
    w = np.random.default_rng(3).uniform(0.5, 2, 24)
    w[5] = 0.0
    for alpha in (1e-2, 1.0, 1e3):
        model = KernelERM(kernel, "logistic", alpha, offset, tol=1e-11).fit(X, y, w)
        got = model.loo_decision_function()
        np.testing.assert_allclose(got.sum(axis=1), 0.0, atol=1e-9 * abs(got).max())
        np.testing.assert_array_equal(model.loo(), model.classes_[got.argmax(axis=1)])
        want = softmax_newton_without(model, X, y, w)
        np.testing.assert_allclose(got, want, atol=1e-6 * (1 + abs(want).max()))


def softmax_newton_without(model, X, y, w):
    n, C = len(y), 3
    K, z = model.kernel_(X), model.decision_function(X)
    Y = (y[:, None] == model.classes_).astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    # unknown: coefficients of shape (n, C), and offsets; minimum norm, as constants do not count
    design = np.kron(K, np.eye(C))
    penalty = model.alpha_ * design
    if model.fit_intercept_:
        design = np.hstack([design, np.kron(np.ones((n, 1)), np.eye(C))])
        penalty = np.pad(penalty, (0, C))
    out = z.copy()
    for i in range(n):
        v = w.copy()
        v[i] = 0.0
        H = np.zeros((n * C, n * C))
        for j in range(n):
            at = slice(j * C, j * C + C)
            H[at, at] = v[j] * (np.diag(p[j]) - np.outer(p[j], p[j]))
        here = np.concatenate(
            [model.dual_coef_.ravel(), model.intercept_][: 1 + model.fit_intercept_]
        )
        gradient = penalty @ here + design.T @ (v[:, None] * (p - Y)).ravel()
        step = -np.linalg.pinv(penalty + design.T @ H @ design, rcond=1e-13) @ gradient
        out[i] += (design @ step)[i * C : i * C + C]
    return out


def test_loo_of_softmax_is_near_to_refits():
    X, y = blobs(36, classes=3)
    for alpha, few in ((0.1, 0.25), (10.0, 0.01)):
        model = KernelERM(RBF(1.0), "logistic", alpha, tol=1e-7).fit(X, y)
        true = np.empty((36, 3))
        for i in range(36):
            rest = np.delete(np.arange(36), i)
            true[i] = clone(model).fit(X[rest], y[rest]).decision_function(X[i : i + 1])[0]
        moved = abs(true - model.decision_function(X))
        assert abs(model.loo_decision_function() - true).mean() < few * moved.mean()


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")  # of KernelRidge, at 1e-10
@pytest.mark.parametrize("alpha", [1e-10, 1e-9, 1e-6, 1e-3, 1e3])
@pytest.mark.parametrize("offset", [True, False])
def test_loo_of_squares_is_exact_for_any_penalty(alpha, offset):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(100, 1)), rng.standard_normal(100)
    erm = KernelERM(RBF(0.02), "squared", alpha, offset).fit(X, y)
    ridge = KernelRidge(RBF(0.02), alpha, fit_intercept=offset).fit(X, y)
    want = ridge.loo()
    np.testing.assert_allclose(erm.loo(), want, atol=1e-6 * abs(want).max())


def test_loo_of_many_rows_that_stand_alone_is_refused_not_made_up():
    X = np.arange(400.0)[:, None]
    y = np.random.default_rng(0).standard_normal(400) * 1e6
    model = KernelERM(RBF(1.0), Huber(1e-3), 1e-3).fit(X, y)  # only outliers: no curvature
    with pytest.raises(InvalidInput, match="larger alpha"):
        model.loo()


def test_loo_of_kinks():
    X, y = blobs(36, classes=3)
    hinge = KernelERM(RBF(1.0), "hinge", 0.5).fit(X, y)
    got = hinge.loo_decision_function()
    assert got.shape == (36, 3) and np.isfinite(got).all()
    np.testing.assert_array_equal(hinge.loo(), hinge.classes_[got.argmax(axis=1)])
    assert not hasattr(hinge, "loo_proba")
    X, t = waves(30)
    tube = KernelERM(RBF(1.0), "absolute", 0.5).fit(X, t)
    assert abs(tube.loo() - t).mean() > abs(tube.predict(X) - t).mean()


def test_loo_with_absent_rows_outliers_and_a_matrix():
    X, y = waves(30)
    y[3] += 1000.0  # no curvature there
    w = np.ones(30)
    w[7] = 0
    model = KernelERM(RBF(1.0), "huber", 0.3).fit(X, y, w)
    got = model.loo()
    rest = np.delete(np.arange(30), [3, 7])
    without = clone(model).fit(X[rest], y[rest])
    assert got[3] == pytest.approx(without.predict(X[3:4])[0], abs=0.05)
    assert got[7] == pytest.approx(model.predict(X[7:8])[0], rel=1e-9)
    K = RBF(1.0)(X)
    precomputed = KernelERM("precomputed", "huber", 0.3).fit(K, y, w)
    np.testing.assert_allclose(precomputed.loo(K), got, atol=1e-8)
    with pytest.raises(InvalidInput, match=r"loo\(K\)"):
        precomputed.loo()
    np.testing.assert_array_equal(model.loo(X), got)
    for other in (X[::-1], X + 1e-9, X[:-1], np.vstack([X, X])):
        with pytest.raises(InvalidInput, match="not what the model was fitted on"):
            model.loo(other)
    with pytest.raises(InvalidInput, match="not the matrix"):
        precomputed.loo(K + 0.1 * np.eye(30))
    with pytest.raises(InvalidInput, match="not the matrix"):
        precomputed.degrees_of_freedom(K[::-1, ::-1])
    with pytest.raises(InvalidInput, match="at least 2 rows"):
        KernelERM().fit([[1.0]], [2.0]).loo()
