"""Variational inference of two classes against brute-force maximisation, grids and sampling."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import RBF, Linear
from mercer.models.gp.classes.expectations import expected
from mercer.models.gp.classes.sites import as_link
from mercer.models.gp.classes.variational import vi
from mercer.testing import BinaryLikelihood, importance_evidence, integrate_posterior

LINKS = ["logit", "probit"]


def data(n=30, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    t = np.where(X[:, 0] + 0.6 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, t, rng.uniform(0.3, 3.0, n)


def bound_at(K, t, w, link, m, S):
    """Return the bound of N(m, S) by textbook formulas, with the inverse of K."""
    value = w @ expected(as_link(link), t, m, np.diag(S).copy())[0]
    inverse = np.linalg.inv(K)
    divergence = np.trace(inverse @ S) + m @ inverse @ m - len(K)
    divergence += np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    return value - 0.5 * divergence


def covariance(q):
    """Return all of S from a fit."""
    return np.linalg.inv(np.linalg.inv(q.K) + np.diag(q.sites))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("n", [1, 2])
def test_no_gaussian_does_better(link, amplitude, n):
    K = amplitude * np.array([[1.0, 0.6], [0.6, 1.5]])[:n, :n]
    t, w = np.array([1.0, -1.0])[:n], np.array([2.0, 0.7])[:n]
    q = vi(K, t, w, link)
    assert q.converged
    corner = np.tril_indices(n)

    def negative(z):
        L = np.zeros((n, n))
        L[corner] = z[n:]
        return -bound_at(K, t, w, link, z[:n], L @ L.T + 1e-300 * np.eye(n))

    found = max(
        -minimize(
            negative,
            np.concatenate([s * t, np.linalg.cholesky(K * r)[corner]]),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 20000, "maxfev": 20000},
        ).fun
        for s, r in ((0.1, 0.5), (2.0, 0.1))
    )
    assert abs(q.log_evidence - found) < 1e-8
    exact = integrate_posterior(K, BinaryLikelihood(t, w, link)).log_evidence
    assert q.log_evidence <= exact + 1e-10
    assert q.log_evidence > exact - 0.5 * n


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [1.0, 30.0])
def test_bound_is_below_the_sampled_evidence(link, amplitude):
    X, t, w = data(20)
    K = amplitude * RBF(1.5)(X) + 1e-8 * np.eye(20)
    q = vi(K, t, w, link)
    sampled = importance_evidence(
        K, BinaryLikelihood(t, w, link), q.mean, 1.1 * covariance(q), n_samples=20_000
    )
    assert sampled.effective > 300
    assert q.log_evidence <= sampled.log_evidence + 3 * sampled.error
    assert q.log_evidence > sampled.log_evidence - 3.0


@pytest.mark.parametrize("link", LINKS)
def test_value_mean_variance_and_certificate(link):
    X, t, w = data()
    K = 4.0 * RBF(1.2)(X) + 1e-6 * np.eye(len(X))
    q = vi(K, t, w, link)
    S = covariance(q)
    assert q.converged and q.residual < 1e-9 and q.message == ""
    np.testing.assert_allclose(q.log_evidence, bound_at(K, t, w, link, q.mean, S), rtol=1e-8)
    np.testing.assert_allclose(K @ q.coef, q.mean, rtol=1e-12, atol=1e-12)
    _, first, second, *_ = expected(as_link(link), t, q.mean, np.diag(S).copy())
    np.testing.assert_allclose(q.coef, w * first, rtol=1e-7)
    np.testing.assert_allclose(q.sites, -w * second, rtol=1e-7)
    new = np.random.default_rng(1).standard_normal((7, 2))
    Kx, diag = 4.0 * RBF(1.2)(X, new), np.full(7, 4.0)
    want = diag - np.einsum("ij,ij->j", Kx, np.linalg.solve(K + np.diag(1 / q.sites), Kx))
    np.testing.assert_allclose(q.variance(Kx, diag), want, atol=1e-9)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [0.5, 20.0])
def test_cotangent_is_the_derivative_of_the_bound(link, amplitude):
    X, t, w = data(12)
    K = amplitude * RBF(1.0)(X) + 0.01 * np.eye(12)
    G = vi(K, t, w, link).cotangent()
    np.testing.assert_allclose(G, G.T, atol=1e-13)
    rng = np.random.default_rng(2)
    for _ in range(4):
        A = rng.standard_normal((12, 12))
        D, h = 0.05 * amplitude * (A @ A.T) / 12, 1e-4
        bounds = [vi(K + m * h * D, t, w, link).log_evidence for m in (1, -1, 2, -2)]
        slope = (8 * (bounds[0] - bounds[1]) - (bounds[2] - bounds[3])) / (12 * h)
        assert abs(slope - np.sum(G * D)) < 1e-7 * max(1.0, abs(slope))


def test_cotangent_leaves_the_answer_as_it_is():
    X, t, w = data(15)
    q = vi(3.0 * RBF()(X), t, w, "logit")
    Kx, diag = 3.0 * RBF()(X, X[:4] + 0.3), np.full(4, 3.0)
    before = q.variance(Kx, diag)
    first = q.cotangent().copy()
    np.testing.assert_array_equal(q.cotangent(), first)
    np.testing.assert_allclose(q.variance(Kx, diag), before, rtol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_gradient_in_the_parameters_of_a_kernel(link):
    X, t, w = data(25)
    kernel = 3.0 * RBF([0.8, 2.0]) + 0.5 * Linear()
    G = vi(kernel(X), t, w, link).cotangent()
    got, theta = kernel.theta_vjp(X, G), kernel.theta
    for j, h in enumerate(np.full(len(theta), 1e-4)):
        step = h * np.eye(len(theta))[j]
        up, down = (vi(kernel.with_theta(theta + s * step)(X), t, w, link) for s in (1, -1))
        assert abs((up.log_evidence - down.log_evidence) / (2 * h) - got[j]) < 1e-6


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [1e-6, 1.0, 50.0, 1e4, 1e6])
def test_the_bound_never_falls(link, amplitude):
    X, t, w = data(40, seed=3)
    q = vi(amplitude * RBF(1.0)(X), t, w, link)
    assert q.converged
    rounding = 1e-11 * (1 + abs(q.log_evidence) + 1e-3 * amplitude)
    assert np.diff(q.bounds).min(initial=0.0) > -rounding
    assert q.bounds[-1] == q.log_evidence >= q.bounds[0]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [1.0, 100.0])
def test_a_weight_is_a_repetition(link, amplitude):
    X, t, _ = data(15)
    K = amplitude * RBF()(X)
    times = np.arange(15) % 3
    index = np.repeat(np.arange(15), times)
    weighted, repeated = vi(K, t, times, link), vi(K[np.ix_(index, index)], t[index], None, link)
    assert abs(weighted.log_evidence - repeated.log_evidence) < 1e-9
    np.testing.assert_allclose(weighted.mean[index], repeated.mean, atol=1e-8 * amplitude)
    coef = np.bincount(index, repeated.coef, 15)
    np.testing.assert_allclose(weighted.coef, coef, atol=1e-8)
    Kx, diag = K[:, :5], np.diag(K)[:5]
    np.testing.assert_allclose(
        weighted.variance(Kx, diag), repeated.variance(Kx[index], diag), rtol=1e-7
    )
    kept = np.flatnonzero(times)
    left = vi(K[np.ix_(kept, kept)], t[kept], times[kept], link)
    assert abs(weighted.log_evidence - left.log_evidence) < 1e-9


@pytest.mark.parametrize("link", LINKS)
def test_a_warm_start_changes_the_way_only(link):
    X, t, w = data(30)
    start = vi(2.0 * RBF(1.5)(X), t, w, link).start
    K = 3.0 * RBF(1.2)(X)
    cold, warm = vi(K, t, w, link), vi(K, t, w, link, start)
    assert abs(cold.log_evidence - warm.log_evidence) < 1e-10
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-8)
    np.testing.assert_allclose(warm.cotangent(), cold.cotangent(), atol=1e-8)
    again = vi(K, t, w, link, warm.start)
    assert again.n_iter <= 1 and again.n_iter < cold.n_iter
    # What gave its memory away still answers.
    Kx, diag = K[:, :3], np.diag(K)[:3]
    np.testing.assert_allclose(warm.variance(Kx, diag), cold.variance(Kx, diag), atol=1e-8)
    other = vi(K[:20, :20].copy(), t[:20], w[:20], link, again.start)
    assert (
        abs(other.log_evidence - vi(K[:20, :20].copy(), t[:20], w[:20], link).log_evidence) < 1e-9
    )


@pytest.mark.parametrize("link", LINKS)
def test_hard_cases_behave(link):
    X, t, _ = data(40, seed=5)
    rng = np.random.default_rng(0)
    separable = np.where(X[:, 0] > 0, 1.0, -1.0)
    twice = np.repeat(X[:8], 5, axis=0)
    one = np.ones((1, 1))
    cases = [
        (one, np.ones(1), None),
        (1e-12 * one, np.ones(1), None),
        (1e6 * one, -np.ones(1), None),
        (1e12 * one, np.ones(1), None),
        (0.0 * one, np.ones(1), None),
        (RBF()(twice), t, None),
        (1e6 * RBF()(twice), t, None),
        (1e6 * RBF()(X), separable, None),
        (1e6 * X @ X.T, separable, None),
        (np.full((40, 40), 1e6), np.ones(40), None),
        (np.full((40, 40), 2.0), t, None),
        (4.0 * RBF()(X), t, np.full(40, 1e3)),
        (4.0 * RBF()(X), t, np.full(40, 1e-3)),
        (4.0 * RBF()(X), t, 10.0 ** rng.uniform(-3, 3, 40)),
        (4.0 * RBF()(X), t, np.zeros(40)),
    ]
    for K, labels, w in cases:
        before = K.copy()
        q = vi(K, labels, w, link)
        assert np.array_equal(K, before)
        assert q.converged, (K[0, 0], q.message, q.residual)
        assert np.isfinite(q.log_evidence) and q.log_evidence <= 1e-12
        assert np.isfinite(q.coef).all() and np.isfinite(q.mean).all()
        variance = q.variance(K, np.diagonal(K))
        assert (variance >= 0).all() and (variance <= np.diagonal(K) * (1 + 1e-12)).all()
        assert np.isfinite(q.cotangent()).all()


def test_many_votes_for_one_value_are_a_proportion():
    """A constant kernel of large variance: the mean is the logit of the share, nearly."""
    t = np.array([1.0] * 30 + [-1.0] * 10)
    q = vi(np.full((40, 40), 100.0), t, None, "logit")
    assert abs(q.mean[0] - np.log(3.0)) < 0.05
    # The information of n Bernoulli trials is n p(1 − p).
    variance = q.variance(np.full((40, 1), 100.0), np.array([100.0]))
    assert abs(variance[0] - 1 / 7.5) < 0.02


def test_labels_of_the_other_sign_are_the_mirror_image():
    X, t, w = data(20)
    K = 5.0 * RBF()(X)
    for link in LINKS:
        a, b = vi(K, t, w, link), vi(K, -t, w, link)
        assert abs(a.log_evidence - b.log_evidence) < 1e-11
        np.testing.assert_allclose(a.mean, -b.mean, atol=1e-9)


def test_no_rows_that_matter_leave_the_prior():
    K = np.array([[2.0, 1.0], [1.0, 3.0]])
    q = vi(K, np.array([1.0, -1.0]), np.zeros(2))
    assert q.log_evidence == 0.0 and not q.mean.any() and not q.sites.any()
    np.testing.assert_array_equal(q.variance(K, np.diagonal(K)), np.diagonal(K))
