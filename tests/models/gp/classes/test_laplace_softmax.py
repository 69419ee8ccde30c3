"""Laplace's approximation of several classes against dense algebra of order nC."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from mercer import RBF, KernelLogisticRegression, Matern
from mercer.models.gp.classes.laplace import SoftmaxFactor, laplace, laplace_softmax


def data(n=18, C=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    codes = np.concatenate([np.arange(C), rng.integers(0, C, n - C)])
    return X, np.eye(C)[codes], rng.uniform(0.3, 3.0, n)


def curvature(w, p):
    """Return W of order nC, all rows of a class together."""
    n, C = p.shape
    W = np.zeros((C, n, C, n))
    for i in range(n):
        W[:, i, :, i] = w[i] * (np.diag(p[i]) - np.outer(p[i], p[i]))
    return W.reshape(n * C, n * C)


@pytest.mark.parametrize("C", [2, 3, 5])
@pytest.mark.parametrize("scale", [0.1, 5.0, 300.0])
def test_mode_evidence_and_covariances(C, scale):
    X, Y, w = data(C=C)
    n = len(X)
    kernel = scale * RBF(0.8)
    K = kernel(X)
    before = K.copy()
    fit = laplace_softmax(K, Y, w)
    f = K @ fit.coef
    np.testing.assert_allclose(fit.mean, f, atol=1e-9 * scale)
    p = softmax(f, axis=1)
    np.testing.assert_allclose(fit.coef, w[:, None] * (Y - p), atol=1e-8)
    W, KK = curvature(w, p), np.kron(np.eye(C), K)
    B = np.eye(n * C) + KK @ W
    value = w @ (Y * log_softmax(f, axis=1)).sum(1) - 0.5 * np.sum(fit.coef * f)
    value -= 0.5 * np.linalg.slogdet(B)[1]
    assert fit.log_evidence == pytest.approx(value, abs=1e-8)
    new = np.random.default_rng(1).standard_normal((5, 2))
    Kx = np.kron(np.eye(C), kernel(X, new))
    full = np.kron(np.eye(C), kernel(new)) - Kx.T @ W @ np.linalg.solve(B, Kx)
    want = np.einsum("cidi->icd", full.reshape(C, 5, C, 5))
    got = fit.variance(kernel(X, new), kernel.diag(new))
    np.testing.assert_allclose(got, want, atol=1e-8 * scale)
    assert fit.converged and fit.residual < 1e-9
    np.testing.assert_allclose(fit.sites, w[:, None] * p, atol=1e-8)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("C", [2, 3, 4])
@pytest.mark.parametrize("kernel", [0.5 * RBF(1.0), 40.0 * Matern([0.7, 1.5])])
def test_gradient_by_differences(C, kernel):
    X, Y, w = data(15, C, 2)
    fit = laplace_softmax(kernel(X), Y, w)
    G = fit.cotangent()
    np.testing.assert_allclose(G, G.T, atol=1e-12)
    got = kernel.theta_vjp(X, G)

    def value(theta):
        return laplace_softmax(kernel.with_theta(theta)(X), Y, w).log_evidence

    for i, e in enumerate(1e-4 * np.eye(len(kernel.theta))):
        want = (value(kernel.theta + e) - value(kernel.theta - e)) / 2e-4
        assert got[i] == pytest.approx(want, abs=2e-6)


def test_two_classes_are_the_logit_of_twice_the_kernel():
    # f₁ − f₀ of two independent processes has covariance 2k, and softmax is its logit.
    X, Y, w = data(C=2)
    K = (1.5 * RBF())(X)
    two, one = laplace_softmax(K, Y, w), laplace(2 * K, 2 * Y[:, 1] - 1, w)
    np.testing.assert_allclose(two.mean[:, 1] - two.mean[:, 0], one.mean, atol=1e-9)
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-9)
    np.testing.assert_allclose(two.cotangent(), 2 * one.cotangent(), atol=1e-9)


def test_the_mode_is_kernel_logistic_regression():
    X, Y, w = data(30, 3)
    kernel = 2.0 * RBF()
    fit = laplace_softmax(kernel(X), Y, w)
    model = KernelLogisticRegression(kernel, alpha=1.0, fit_intercept=False, tol=1e-13)
    model.fit(X, Y.argmax(axis=1), sample_weight=w)
    np.testing.assert_allclose(fit.mean, model.decision_function(X), atol=1e-5)


def test_a_weight_is_a_repetition():
    X, Y, _ = data(14, 3)
    w = np.random.default_rng(3).integers(1, 4, 14)
    again = np.repeat(np.arange(14), w)
    kernel = 2.0 * RBF()
    one = laplace_softmax(kernel(X), Y, w.astype(float))
    many = laplace_softmax(kernel(X[again]), Y[again])
    assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-9)
    new = np.random.default_rng(5).standard_normal((4, 2))
    got = one.variance(kernel(X, new), kernel.diag(new))
    want = many.variance(kernel(X[again], new), kernel.diag(new))
    np.testing.assert_allclose(got, want, atol=1e-9)


def test_the_order_of_classes_does_not_matter():
    X, Y, w = data()
    order = [2, 0, 3, 1]
    one, other = laplace_softmax(RBF()(X), Y, w), laplace_softmax(RBF()(X), Y[:, order], w)
    np.testing.assert_allclose(other.mean, one.mean[:, order], atol=1e-10)
    assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-10)


def test_a_start_changes_the_work_not_the_answer():
    X, Y, w = data(30, 3)
    kernel = 5.0 * RBF(1.0)
    cold = laplace_softmax(kernel(X), Y, w)
    other = laplace_softmax((4.7 * RBF(1.02))(X), Y, w)
    other.cotangent()
    warm = laplace_softmax(kernel(X), Y, w, other.start)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-8)
    fewer = laplace_softmax(kernel(X), Y[:, :2] + Y[:, 2:] * [1, 0], w, warm.start)
    assert fewer.mean.shape == (30, 2)
    new = kernel(X, X[:3] + 0.1)
    np.testing.assert_allclose(
        warm.variance(new, np.full(3, 5.0)), cold.variance(new, np.full(3, 5.0)), atol=1e-8
    )


def test_a_factor_applies_what_it_says():
    X, _, w = data(12, 3)
    K = RBF()(X)
    p = softmax(np.random.default_rng(0).standard_normal((12, 3)), axis=1)
    factor = SoftmaxFactor(K, w[:, None] * p)
    V = np.random.default_rng(1).standard_normal((12, 3))
    W, KK = curvature(w, p), np.kron(np.eye(3), K)
    want = W @ np.linalg.solve(np.eye(36) + KK @ W, V.T.ravel())
    np.testing.assert_allclose(factor.apply(V).T.ravel(), want, atol=1e-12)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(36) + KK @ W)[1], abs=1e-10)


def test_probabilities_that_underflow_do_no_harm():
    X = np.array([[0.0], [1e3], [2e3]])
    K = (1e6 * RBF(0.1))(X)
    fit = laplace_softmax(K, np.eye(3))
    assert fit.converged and np.isfinite(fit.cotangent()).all()
    none = laplace_softmax(np.zeros((3, 3)), np.eye(3))
    assert none.log_evidence == pytest.approx(3 * np.log(1 / 3))
