"""Variational inference of several classes against brute force, sampling and two classes."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from mercer import RBF
from mercer.models.gp.classes.expectations import expected_softmax
from mercer.models.gp.classes.variational import vi, vi_softmax
from mercer.testing import SoftmaxLikelihood, importance_evidence


def data(n=24, C=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    F = np.stack([np.sin(2 * X[:, 0]) + c * X[:, 1] * (-1) ** c for c in range(C)], axis=1)
    Y = np.eye(C)[np.argmax(F + 0.5 * rng.gumbel(size=F.shape), axis=1)]
    return X, Y, rng.uniform(0.3, 3.0, n)


def bound_at(K, Y, w, M, S):
    """Return the bound of Π_c N(M[:, c], S[c]) by textbook formulas, with the inverse of K."""
    var = np.stack([np.diag(s) for s in S], axis=1)
    value = w @ (np.sum(Y * M, axis=1) - expected_softmax(M, var)[0])
    inverse, n = np.linalg.inv(K), len(K)
    for c, s in enumerate(S):
        m = M[:, c]
        divergence = np.trace(inverse @ s) + m @ inverse @ m - n
        divergence += np.linalg.slogdet(K)[1] - np.linalg.slogdet(s)[1]
        value -= 0.5 * divergence
    return value


def covariances(q):
    inverse = np.linalg.inv(q.K)
    return [np.linalg.inv(inverse + np.diag(lam)) for lam in q.sites.T]


def exact_one(k, c, C, w):
    """Return the log evidence of one row by a grid over the classes' values."""
    z = np.arange(-9, 9.01, 0.2 if k < 50 else 0.1)
    Z = np.stack(np.meshgrid(*[z] * C, indexing="ij"), axis=-1).reshape(-1, C)
    f = np.sqrt(k) * Z
    logs = w * (f[:, c] - logsumexp(f, axis=1)) - 0.5 * np.square(Z).sum(axis=1)
    return logsumexp(logs) + C * np.log((z[1] - z[0]) / np.sqrt(2 * np.pi))


@pytest.mark.parametrize("amplitude", [0.1, 3.0, 30.0])
def test_no_independent_gaussians_do_better_for_one_row(amplitude):
    K, Y, w = np.array([[amplitude]]), np.eye(3)[[1]], np.array([1.7])
    q = vi_softmax(K, Y, w)
    assert q.converged

    def negative(z):
        S = [np.array([[np.exp(v)]]) for v in z[3:]]
        return -bound_at(K, Y, w, z[None, :3], S)

    found = minimize(
        negative,
        np.concatenate([np.zeros(3), np.full(3, np.log(0.5 * amplitude))]),
        method="BFGS",
        options={"gtol": 1e-8},
    )
    assert abs(q.log_evidence + found.fun) < 1e-8
    exact = exact_one(amplitude, 1, 3, 1.7)
    assert exact - 0.7 < q.log_evidence < exact


def test_no_independent_gaussians_do_better_for_two_rows():
    K, Y, w = np.array([[4.0, 2.5], [2.5, 3.0]]), np.eye(3)[[0, 2]], np.array([1.0, 2.0])
    q = vi_softmax(K, Y, w)
    corner = np.tril_indices(2)

    def negative(z):
        L = np.zeros((3, 2, 2))
        L[:, corner[0], corner[1]] = z[6:].reshape(3, 3)
        return -bound_at(K, Y, w, z[:6].reshape(2, 3), L @ L.transpose(0, 2, 1))

    first = np.concatenate([np.zeros(6), np.tile(np.linalg.cholesky(0.5 * K)[corner], 3)])
    found = minimize(negative, first, method="BFGS", options={"gtol": 1e-8})
    assert abs(q.log_evidence + found.fun) < 1e-8


@pytest.mark.parametrize("amplitude", [1.0, 10.0])
def test_bound_is_below_the_sampled_evidence(amplitude):
    X, Y, w = data(20)
    K = amplitude * RBF(1.5)(X) + 1e-8 * np.eye(20)
    q = vi_softmax(K, Y, w)
    scale = np.zeros((60, 60))
    for c, S in enumerate(covariances(q)):
        scale[c::3, c::3] = 1.3 * S
    sampled = importance_evidence(K, SoftmaxLikelihood(Y, w), q.mean, scale, n_samples=40_000)
    assert sampled.effective > 100
    assert q.log_evidence <= sampled.log_evidence + 3 * sampled.error
    assert q.log_evidence > sampled.log_evidence - 8.0


@pytest.mark.parametrize("amplitude", [0.5, 20.0])
def test_two_classes_are_below_the_logistic_of_their_difference(amplitude):
    """f₁ − f₂ has the kernel 2k, and f₁ + f₂ stays as it was: they are not independent."""
    X, Y, w = data(20, C=2)
    K = amplitude * RBF(1.2)(X)
    q, one = vi_softmax(K, Y, w), vi(2 * K, 2 * Y[:, 0] - 1, w, "logit")
    assert q.log_evidence < one.log_evidence < q.log_evidence + 0.3 * len(X)
    difference = q.mean[:, 0] - q.mean[:, 1]
    assert np.corrcoef(difference, one.mean)[0, 1] > 0.98
    np.testing.assert_allclose(q.mean.sum(axis=1), 0.0, atol=1e-8)


def test_value_mean_variance_and_certificate():
    X, Y, w = data()
    K = 4.0 * RBF(1.2)(X) + 1e-6 * np.eye(len(X))
    q = vi_softmax(K, Y, w)
    S = covariances(q)
    assert q.converged and q.residual < 1e-9 and q.message == ""
    np.testing.assert_allclose(q.log_evidence, bound_at(K, Y, w, q.mean, S), rtol=1e-8)
    np.testing.assert_allclose(K @ q.coef, q.mean, atol=1e-11)
    var = np.stack([np.diag(s) for s in S], axis=1)
    _, p, bend, *_ = expected_softmax(q.mean, var)
    np.testing.assert_allclose(q.coef, w[:, None] * (Y - p), atol=1e-8)
    np.testing.assert_allclose(q.sites, w[:, None] * np.einsum("icc->ic", bend), atol=1e-8)
    new = np.random.default_rng(1).standard_normal((5, 2))
    Kx, diag = 4.0 * RBF(1.2)(X, new), np.full(5, 4.0)
    got = q.variance(Kx, diag)
    assert got.shape == (5, 3, 3)
    for c in range(3):
        noisy = K + np.diag(1 / q.sites[:, c])
        want = diag - np.einsum("ij,ij->j", Kx, np.linalg.solve(noisy, Kx))
        np.testing.assert_allclose(got[:, c, c], want, atol=1e-9)
        assert not got[:, c, (c + 1) % 3].any()


@pytest.mark.parametrize("amplitude", [0.5, 20.0])
def test_cotangent_is_the_derivative_of_the_bound(amplitude):
    X, Y, w = data(10)
    K = amplitude * RBF(1.0)(X) + 0.01 * np.eye(10)
    G = vi_softmax(K, Y, w).cotangent()
    np.testing.assert_allclose(G, G.T, atol=1e-13)
    rng = np.random.default_rng(2)
    for _ in range(3):
        A = rng.standard_normal((10, 10))
        D, h = 0.05 * amplitude * (A @ A.T) / 10, 1e-3
        bounds = [vi_softmax(K + m * h * D, Y, w).log_evidence for m in (1, -1, 2, -2)]
        slope = (8 * (bounds[0] - bounds[1]) - (bounds[2] - bounds[3])) / (12 * h)
        assert abs(slope - np.sum(G * D)) < 1e-6 * max(1.0, abs(slope))


def test_gradient_in_the_parameters_of_a_kernel():
    X, Y, w = data(15)
    kernel = 3.0 * RBF([0.8, 2.0])
    got, theta = kernel.theta_vjp(X, vi_softmax(kernel(X), Y, w).cotangent()), kernel.theta
    for j in range(len(theta)):
        step = 1e-4 * np.eye(len(theta))[j]
        up, down = (vi_softmax(kernel.with_theta(theta + s * step)(X), Y, w) for s in (1, -1))
        assert abs((up.log_evidence - down.log_evidence) / 2e-4 - got[j]) < 1e-6


@pytest.mark.parametrize("amplitude", [1e-6, 1.0, 50.0, 1e3])
def test_the_bound_never_falls(amplitude):
    X, Y, w = data(25, seed=3)
    q = vi_softmax(amplitude * RBF(1.0)(X), Y, w)
    assert q.converged
    rounding = 1e-11 * (1 + abs(q.log_evidence) + 1e-2 * amplitude)
    assert np.diff(q.bounds).min(initial=0.0) > -rounding
    assert q.bounds[-1] == q.log_evidence >= q.bounds[0]


@pytest.mark.parametrize("amplitude", [1.0, 60.0])
def test_a_weight_is_a_repetition(amplitude):
    X, Y, _ = data(15)
    K = amplitude * RBF()(X)
    times = np.arange(15) % 3
    index = np.repeat(np.arange(15), times)
    weighted = vi_softmax(K, Y, times)
    repeated = vi_softmax(K[np.ix_(index, index)], Y[index])
    assert abs(weighted.log_evidence - repeated.log_evidence) < 1e-8
    np.testing.assert_allclose(weighted.mean[index], repeated.mean, atol=1e-8 * amplitude)
    Kx, diag = K[:, :5], np.diag(K)[:5]
    np.testing.assert_allclose(
        weighted.variance(Kx, diag), repeated.variance(Kx[index], diag), rtol=1e-7
    )


def test_a_warm_start_changes_the_way_only():
    X, Y, w = data(20)
    start = vi_softmax(2.0 * RBF(1.5)(X), Y, w).start
    K = 3.0 * RBF(1.2)(X)
    cold, warm = vi_softmax(K, Y, w), vi_softmax(K, Y, w, start)
    assert abs(cold.log_evidence - warm.log_evidence) < 1e-10
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-8)
    np.testing.assert_allclose(warm.cotangent(), cold.cotangent(), atol=1e-8)
    again = vi_softmax(K, Y, w, warm.start)
    assert again.n_iter <= 1 and again.n_iter < cold.n_iter
    Kx, diag = K[:, :3], np.diag(K)[:3]
    np.testing.assert_allclose(warm.variance(Kx, diag), cold.variance(Kx, diag), atol=1e-8)
    fewer = vi_softmax(K[:9, :9].copy(), Y[:9], w[:9], again.start)
    assert fewer.converged and fewer.mean.shape == (9, 3)


def test_classes_in_another_order_are_the_same():
    X, Y, w = data(20)
    K, order = 5.0 * RBF()(X), np.array([2, 0, 1])
    a, b = vi_softmax(K, Y, w), vi_softmax(K, Y[:, order], w)
    assert abs(a.log_evidence - b.log_evidence) < 1e-10
    np.testing.assert_allclose(a.mean[:, order], b.mean, atol=1e-8)


def test_a_class_without_rows_is_the_least_likely():
    X, Y, _ = data(20)
    Y4 = np.column_stack([Y, np.zeros(20)])
    q = vi_softmax(3.0 * RBF()(X), Y4)
    assert q.converged and (q.mean[:, 3] < q.mean[:, :3].max(axis=1)).all()


def test_hard_cases_behave():
    X, Y, _ = data(24, seed=5)
    rng = np.random.default_rng(0)
    one, label = np.ones((1, 1)), np.eye(3)[:1]
    separable = np.eye(3)[np.digitize(X[:, 0], [-0.5, 0.5])]
    twice = np.repeat(X[:6], 4, axis=0)
    cases = [
        (one, label, None),
        (1e-12 * one, label, None),
        (1e6 * one, label, None),
        (0.0 * one, label, None),
        (RBF()(twice), Y, None),
        (1e6 * RBF()(twice), Y, None),
        (1e3 * RBF()(X), separable, None),
        (1e6 * X @ X.T, Y, None),
        (np.full((24, 24), 2.0), Y, None),
        (4.0 * RBF()(X), Y, np.full(24, 1e3)),
        (4.0 * RBF()(X), Y, np.full(24, 1e-3)),
        (4.0 * RBF()(X), Y, 10.0 ** rng.uniform(-3, 3, 24)),
        (4.0 * RBF()(X), np.eye(8)[rng.integers(8, size=24)], None),
    ]
    for K, labels, w in cases:
        before = K.copy()
        q = vi_softmax(K, labels, w)
        assert np.array_equal(K, before)
        assert q.converged, (K[0, 0], q.message, q.residual)
        assert np.isfinite(q.log_evidence) and q.log_evidence <= 1e-12
        variance = np.einsum("icc->ic", q.variance(K, np.diagonal(K)))
        assert (variance >= 0).all()
        assert (variance <= np.diagonal(K)[:, None] * (1 + 1e-12)).all()
        assert np.isfinite(q.cotangent()).all() and np.isfinite(q.mean).all()
