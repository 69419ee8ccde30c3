"""Models with the linear kernel against scikit-learn's solvers of the primal problems (S12)."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import (
    HuberRegressor,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.svm import SVC as SklearnSVC, LinearSVC, LinearSVR

import mercer
from mercer import (
    SVC,
    SVR,
    KernelERM,
    KernelHuberRegressor,
    KernelLogisticRegression,
    KernelMachine,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Polynomial,
)
from mercer.losses import EpsilonInsensitive

rng = np.random.default_rng(12)
N, D = 120, 5
X = rng.standard_normal((N, D)) + 0.5
TRUE = np.array([1.0, -2.0, 0.0, 0.5, 1.5])
T = X @ TRUE + 0.5 * rng.standard_normal(N) + 2.0
Y = np.where(T > np.median(T), 1, -1)
Y[:10] *= -1
THREE = np.searchsorted(np.quantile(T, [0.3, 0.6]), T)
W = rng.uniform(0.3, 2.0, N)
WIDE = rng.standard_normal((20, 50))  # more columns than rows


@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_ridge(alpha, offset, weights):
    model = KernelRidge(Linear(), alpha, fit_intercept=offset).fit(X, T, sample_weight=weights)
    peer = Ridge(alpha, fit_intercept=offset, solver="cholesky").fit(X, T, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-9)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-9)


def test_ridge_with_more_columns_than_rows():
    many = rng.standard_normal((20, 3))
    model = KernelRidge(Linear(), 0.4, fit_intercept=True).fit(WIDE, many)
    peer = Ridge(0.4).fit(WIDE, many)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-9)
    sparse = KernelRidge(Linear(), 0.4, fit_intercept=True).fit(sp.csr_matrix(WIDE), many)
    np.testing.assert_allclose(sparse.coef_, peer.coef_, atol=1e-9)


@pytest.mark.parametrize("points", [X, WIDE, sp.csr_matrix(X)], ids=["tall", "wide", "sparse"])
def test_weights_have_the_shapes_of_scikit_learn(points, tmp_path):
    n = points.shape[0]
    targets = (T[:n], np.c_[T[:n], X[:n, 0], W[:n]])
    labels = (Y[:n], np.array(["a", "b", "c"])[THREE[:n]])
    pairs = [
        (KernelRidge(Linear(), 0.4, fit_intercept=True), Ridge(0.4, tol=1e-13), t) for t in targets
    ]
    pairs += [
        (KernelRidgeClassifier(Linear(), 0.4), RidgeClassifier(0.4, tol=1e-13), y) for y in labels
    ]
    for model, peer, y in pairs:
        model.fit(points, y)
        peer.fit(points, y)
        # RidgeClassifier has (D,) for two classes where all other linear classifiers have (1, D).
        want = np.atleast_2d(peer.coef_) if hasattr(peer, "classes_") else peer.coef_
        assert model.coef_.shape == want.shape
        np.testing.assert_allclose(model.coef_, want, atol=1e-8)
        np.testing.assert_allclose(np.ravel(model.intercept_), np.ravel(peer.intercept_), atol=1e-8)
        mercer.save(model, tmp_path / "model.mercer")
        back = mercer.load(tmp_path / "model.mercer")
        np.testing.assert_array_equal(back.coef_, model.coef_)
        values = np.squeeze(getattr(back, "decision_function", back.predict)(points))
        want = np.squeeze(np.asarray(points @ model.coef_.T) + model.intercept_)
        np.testing.assert_allclose(values, want, atol=1e-9)


def test_a_machine_of_ridge_models_has_their_function():
    for model, y in ((KernelRidge("linear"), np.c_[T, W]), (KernelRidgeClassifier("linear"), Y)):
        machine = KernelMachine("rbf", X[:7], estimator=model).fit(X, y)
        values = machine.predict(X) if y is not Y else machine.decision_function(X)
        np.testing.assert_allclose(machine.function_(X), values, atol=1e-9)
        assert machine.coef_.shape == ((2, 7) if y is not Y else (1, 7))


@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
@pytest.mark.parametrize(("solver", "atol"), [("newton", 1e-6), ("sgd", 2e-4)])
def test_logistic(solver, atol, y, alpha, offset, weights):
    peer = LogisticRegression(
        C=1 / alpha, fit_intercept=offset, tol=1e-12, solver="newton-cholesky"
    )
    peer.fit(X, y, sample_weight=weights)
    model = KernelLogisticRegression(Linear(), alpha, offset, solver=solver, tol=1e-10)
    model.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=atol)
    shift = np.atleast_1d(model.intercept_) - peer.intercept_
    np.testing.assert_allclose(shift - shift.mean() * (len(shift) > 1), 0, atol=atol)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_support_vector_machines(C):
    model = SVC(Linear(), C, tol=1e-9, fit_intercept=False).fit(X, Y)
    peer = LinearSVC(
        C=C, loss="hinge", dual=True, fit_intercept=False, tol=1e-9, max_iter=1_000_000
    ).fit(X, Y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)
    with_offset = SVC(Linear(), C, tol=1e-9).fit(X, Y)
    peer = SklearnSVC(kernel="linear", C=C, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(with_offset.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(with_offset.intercept_, peer.intercept_, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_support_vector_regression(epsilon):
    model = SVR(Linear(), 0.5, epsilon, tol=1e-9, fit_intercept=False).fit(X, T)
    peer = LinearSVR(
        C=0.5, epsilon=epsilon, dual=True, fit_intercept=False, tol=1e-9, max_iter=1_000_000
    ).fit(X, T)
    np.testing.assert_allclose(model.coef_[0], peer.coef_, atol=1e-4)


# ----------------------------------------------------------------------- other regularised risks
def erm_weights(model, points):
    """Return the weights of the columns; where a model keeps none, from its function."""
    v = model.coef_
    return np.ravel(points.T @ model.dual_coef_ if v is None else v)


CASES = {"tall": (X, Y, T), "wide": (WIDE, Y[-20:], T[-20:])}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("alpha", [0.3, 10.0])
def test_margins_of_regularised_risk(loss, alpha, case):
    points, y, _ = CASES[case]
    model = KernelERM(Linear(), loss, alpha, fit_intercept=False, tol=1e-9).fit(points, y)
    peer = LinearSVC(
        C=1 / alpha, loss=loss, dual=True, fit_intercept=False, tol=1e-10, max_iter=1_000_000
    )
    np.testing.assert_allclose(
        erm_weights(model, points), peer.fit(points, y).coef_[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_tubes_of_regularised_risk(epsilon, case):
    points, _, t = CASES[case]
    loss = EpsilonInsensitive(epsilon) if epsilon else "absolute"
    model = KernelERM(Linear(), loss, 2.0, fit_intercept=False, tol=1e-10).fit(points, t)
    peer = LinearSVR(
        C=0.5, epsilon=epsilon, dual=True, fit_intercept=False, tol=1e-10, max_iter=1_000_000
    )
    np.testing.assert_allclose(
        erm_weights(model, points), peer.fit(points, t).coef_, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("offset", [True, False])
def test_squared_and_logistic_regularised_risk(offset, case):
    points, y, t = CASES[case]
    model = KernelERM(Linear(), "squared", 0.7, fit_intercept=offset, tol=1e-12).fit(points, t)
    peer = Ridge(0.7, fit_intercept=offset).fit(points, t)
    np.testing.assert_allclose(erm_weights(model, points), peer.coef_, atol=1e-6)
    model = KernelERM(Linear(), "logistic", 0.7, fit_intercept=offset, tol=1e-12).fit(points, y)
    peer = LogisticRegression(C=1 / 0.7, fit_intercept=offset, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(erm_weights(model, points), peer.fit(points, y).coef_[0], atol=1e-5)


def test_huber_is_that_of_scikit_learn_at_its_own_scale():
    """σ + H(e/σ)σ summed, plus a‖v‖², is at the best σ (2/σ)(Σ Huber + (aσ/2)‖v‖²), δ = εσ."""
    t = T.copy()
    t[:12] += 20.0
    peer = HuberRegressor(epsilon=1.5, alpha=0.3, tol=1e-12, max_iter=10_000).fit(X, t)
    model = KernelHuberRegressor(
        Linear(), alpha=0.3 * peer.scale_, delta=1.5 * peer.scale_, tol=1e-12
    ).fit(X, t)
    np.testing.assert_allclose(erm_weights(model, X), peer.coef_, atol=1e-4)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-4)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_quantiles_without_penalty(level):
    model = KernelQuantileRegressor(Linear(), quantile=level, alpha=1e-3, tol=1e-9).fit(X, T)
    peer = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, T)
    np.testing.assert_allclose(erm_weights(model, X), peer.coef_, atol=1e-3)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-3)


@pytest.mark.parametrize(("degree", "rows"), [(1, 60), (2, 60), (3, 60), (3, 10)])
def test_weights_of_monomials(degree, rows):
    """Polynomial(m) has C(d + m, m) features, and its models their weights."""
    kernel, y = Polynomial(degree), Y[-rows:]
    points, T3 = X[-rows:, :3], T[-rows:]
    features = comb(3 + degree, degree)
    ridge = KernelRidge(kernel, 0.7).fit(points, T3)
    assert ridge.coef_.shape == (features,)
    np.testing.assert_allclose(kernel.features(points) @ ridge.coef_, ridge.predict(points))
    peer = Ridge(0.7, fit_intercept=False).fit(kernel.features(points), T3)
    np.testing.assert_allclose(ridge.coef_, peer.coef_, atol=1e-8)
    logistic = KernelLogisticRegression(kernel, 0.7, solver="sgd").fit(points, y)
    assert logistic.coef_.shape == (1, features)
    values = kernel.features(points) @ logistic.coef_[0] + logistic.intercept_
    np.testing.assert_allclose(values, logistic.decision_function(points))


def test_weights_that_do_not_exist_or_do_not_fit_are_none(tmp_path):
    assert KernelRidge("rbf").fit(X, T).coef_ is None
    assert KernelRidge("precomputed").fit(X @ X.T, T).coef_ is None
    huge = KernelRidge(Polynomial(20)).fit(X[:6], T[:6])
    with mercer.config(memory=1_000_000):
        assert huge.coef_ is None
    assert not hasattr(KernelRidge("linear"), "coef_")
    wide = KernelRidge("linear").fit(X[:4], T[:4])
    mercer.save(wide, tmp_path / "wide.mercer")
    back = mercer.load(tmp_path / "wide.mercer")
    np.testing.assert_array_equal(back.coef_, wide.coef_)
    assert vars(back)["coef_"] is None
