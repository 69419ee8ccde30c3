"""Models with the linear kernel against scikit-learn's solvers of the primal problems (S12)."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC, LinearSVR

import mercer
from mercer import SVC, SVR, KernelLogisticRegression, KernelRidge, Linear, Polynomial

rng = np.random.default_rng(12)
N, D = 120, 5
X = rng.standard_normal((N, D)) + 0.5
TRUE = np.array([1.0, -2.0, 0.0, 0.5, 1.5])
T = X @ TRUE + 0.5 * rng.standard_normal(N) + 2.0
Y = np.where(T > np.median(T), 1, -1)
Y[:10] *= -1
THREE = np.searchsorted(np.quantile(T, [0.3, 0.6]), T)
W = rng.uniform(0.3, 2.0, N)


@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_ridge(alpha, offset, weights):
    model = KernelRidge(Linear(), alpha, fit_intercept=offset).fit(X, T, sample_weight=weights)
    peer = Ridge(alpha, fit_intercept=offset, solver="cholesky").fit(X, T, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-9)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-9)


def test_ridge_with_more_columns_than_rows():
    wide, many = rng.standard_normal((20, 50)), rng.standard_normal((20, 3))
    model = KernelRidge(Linear(), 0.4, fit_intercept=True).fit(wide, many)
    peer = Ridge(0.4).fit(wide, many)
    np.testing.assert_allclose(model.coef_.T, peer.coef_, atol=1e-9)
    sparse = KernelRidge(Linear(), 0.4, fit_intercept=True).fit(sp.csr_matrix(wide), many)
    np.testing.assert_allclose(sparse.coef_.T, peer.coef_, atol=1e-9)


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
