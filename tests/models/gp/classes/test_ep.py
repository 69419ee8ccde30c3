"""Expectation propagation against integration, sampling, a naive version, and itself repeated."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from mercer import RBF, GaussianProcessClassifier
from mercer.errors import NotPositiveDefinite
from mercer.models.gp.classes.ep import ep
from mercer.models.gp.classes.sites import as_link
from mercer.testing import (
    BinaryLikelihood,
    importance_evidence,
    integrate_posterior,
    slice_posterior,
)
from mercer.testing.certificates.processes import moment_mismatch

LINKS = ["logit", "probit"]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)


def rbf(X, scale=1.0, amplitude=1.0):
    return amplitude * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / scale**2)


def data(n=20, seed=0, amplitude=4.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    t = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return rbf(X, 1.0, amplitude), t, rng


def naive(K, t, link, sweeps=60):
    """Algorithm 3.5 with explicit inverses and moments from 200 Gauss–Hermite nodes."""
    n = len(K)
    tau, nu = np.zeros(n), np.zeros(n)
    cov, mean = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        log_zs, cavities = np.zeros(n), np.zeros((n, 2))
        for i in range(n):
            v = 1 / (1 / cov[i, i] - tau[i])
            m = v * (mean[i] / cov[i, i] - nu[i])
            f = m + np.sqrt(v) * NODES
            w = WEIGHTS * np.exp(as_link(link).log_likelihood(t[i], f)) / np.sqrt(2 * np.pi)
            new = w @ f / w.sum()
            spread = w @ (f - new) ** 2 / w.sum()
            tau[i], nu[i] = 1 / spread - 1 / v, new / spread - m / v
            cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
            mean = cov @ nu
            log_zs[i], cavities[i] = np.log(w.sum()), (m, v)
    m, v = cavities.T
    # R&W 3.65 as it is printed
    sites = nu / tau
    S = 1 / tau
    C = K + np.diag(S)
    value = -0.5 * np.linalg.slogdet(C)[1] - 0.5 * sites @ np.linalg.solve(C, sites)
    value += log_zs.sum() + 0.5 * np.log(v + S).sum() + ((m - sites) ** 2 / (2 * (v + S))).sum()
    return value, mean, np.diag(cov)


def moments(fit, K):
    return fit.mean, fit.variance(K, np.diagonal(K))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("v", [1e-10, 1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("w", [None, 0.4])
def test_one_point_is_exact(link, v, w):
    t, weights = np.array([-1.0]), None if w is None else np.array([w])
    fit = ep(np.array([[v]]), t, weights, link)
    exact = integrate_posterior([[v]], BinaryLikelihood(t, weights, link))
    mean, variance = moments(fit, np.array([[v]]))
    assert fit.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert mean[0] == pytest.approx(exact.mean[0], rel=1e-8)
    assert variance[0] == pytest.approx(exact.covariance[0, 0], rel=1e-8)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.9])
@pytest.mark.parametrize("t", [(1.0, 1.0), (1.0, -1.0)])
def test_two_points(link, rho, t):
    K, t = np.array([[2.0, 2.4 * rho], [2.4 * rho, 3.0]]), np.array(t)
    exact = integrate_posterior(K, BinaryLikelihood(t, link=link))
    fit = ep(K, t, None, link)
    mean, variance = moments(fit, K)
    # independent points are exact; the rest is EP's own error
    spread = np.diag(exact.covariance)
    off = np.abs(mean - exact.mean) / np.sqrt(spread)
    assert off.max() < (1e-8 if rho == 0.0 else 5e-3)
    np.testing.assert_allclose(variance, spread, rtol=1e-8 if rho == 0.0 else 3e-2)
    assert fit.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8 if rho == 0 else 1e-2)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("n", [2, 9])
def test_the_fixed_point_is_that_of_the_naive_algorithm(link, n):
    K, t, _ = data(n, seed=n, amplitude=2.0)
    value, mean, variance = naive(K, t, link)
    fit = ep(K, t, None, link)
    assert fit.residual < 1e-9 and fit.converged and fit.message == ""
    assert fit.log_evidence == pytest.approx(value, abs=1e-8)
    found, spread = moments(fit, K)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(spread, variance, rtol=1e-8)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_twenty_points_against_sampling(link, weighted):
    K, t, rng = data(20)
    w = rng.uniform(0.3, 2.5, 20) if weighted else None
    likelihood = BinaryLikelihood(t, w, link)
    fit = ep(K, t, w, link)
    mean, variance = moments(fit, K)
    chain = slice_posterior(K, likelihood, n_steps=800)
    spread = np.sqrt(chain.variance)
    assert chain.mean_error.max() < 0.02
    # EP's own error: a percent or two of the width, more where a row has several sites
    own = 0.06 if weighted else 0.02
    assert (np.abs(mean - chain.mean) < 5 * chain.mean_error + 0.015 * spread).all()
    assert (np.abs(variance - chain.variance) < 5 * chain.variance_error + own * variance).all()
    W = np.linalg.inv(np.linalg.inv(K) + np.diag(fit.root**2))
    sampled = importance_evidence(K, likelihood, mean, W, n_samples=40_000)
    assert sampled.error < 0.01
    assert abs(fit.log_evidence - sampled.log_evidence) < 5 * sampled.error + own


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [0.5, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_by_differences(link, amplitude, weighted):
    K, t, rng = data(12, seed=3, amplitude=amplitude)
    w = rng.uniform(0.2, 3.0, 12) if weighted else None
    W = ep(K, t, w, link).cotangent().copy()
    np.testing.assert_allclose(W, W.T, atol=1e-12)
    for _ in range(3):
        A = rng.normal(size=(12, 12))
        D, h = K * (A @ A.T) / 12, 1e-4
        ends = [ep(K + s * h * D, t, w, link).log_evidence for s in (1, -1, 2, -2)]
        slope = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        assert (W * D).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("link", LINKS)
def test_a_weight_is_a_repetition(link):
    K, t, rng = data(10, seed=5, amplitude=20.0)
    w = rng.integers(1, 5, 10)
    rows = np.repeat(np.arange(10), w)
    short, long = ep(K, t, w.astype(float), link), ep(K[np.ix_(rows, rows)], t[rows], None, link)
    assert short.log_evidence == pytest.approx(long.log_evidence, abs=1e-8)
    np.testing.assert_allclose(short.mean[rows], long.mean, atol=1e-8)
    totals = np.bincount(rows, long.coef)
    np.testing.assert_allclose(short.coef, totals, atol=1e-8)
    new = rng.normal(size=(10, 3))
    np.testing.assert_allclose(
        short.variance(K @ new, np.full(3, 1e4)),
        long.variance((K @ new)[rows], np.full(3, 1e4)),
        rtol=1e-9,
    )


@pytest.mark.parametrize("link", LINKS)
def test_weights_go_through_one_without_a_jump(link):
    K, t, _ = data(8, seed=6)
    values = [ep(K, t, np.full(8, w), link).log_evidence for w in (1 - 1e-6, 1.0, 1 + 1e-6)]
    assert values[0] > values[1] > values[2]
    assert values[0] - values[2] < 1e-3
    small = ep(K, t, np.full(8, 1e-6), link)
    assert small.log_evidence == pytest.approx(0.0, abs=1e-4)
    np.testing.assert_allclose(small.mean, 0.0, atol=1e-3)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("factor", [1.0, 1.3, 50.0, 1e-3])
def test_a_warm_start_gives_the_same_answer(link, factor):
    K, t, rng = data(40, seed=7, amplitude=10.0)
    w = rng.uniform(0.5, 2.0, 40)
    before = ep(K, t, w, link)
    before.cotangent()
    cold, warm = ep(factor * K, t, w, link), ep(factor * K, t, w, link, start=before.start)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-8)
    np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-7 * np.abs(cold.mean).max())
    np.testing.assert_allclose(warm.cotangent(), cold.cotangent(), atol=1e-7)
    if factor == 1.0:
        assert warm.n_iter == 0
    other = ep(np.ascontiguousarray(K[:9, :9]), t[:9], w[:9], link, start=warm.start)
    assert other.converged  # a start of other rows is no start


def test_k_is_not_changed_and_may_be_read_only():
    K, t, _ = data(15)
    before = K.copy()
    K.flags.writeable = False
    t.flags.writeable = False
    fit = ep(K, t, None, "logit")
    fit.cotangent()
    np.testing.assert_array_equal(K, before)
    np.testing.assert_allclose(K @ fit.coef, fit.mean, atol=1e-12)


def hard():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(60, 2))
    side = np.where(X[:, 0] > 0, 1.0, -1.0)
    coin = np.where(rng.random(60) > 0.5, 1.0, -1.0)
    odd = np.where(np.arange(60) < 2, -side, side)
    twins = X[rng.integers(0, 6, 60)]
    heavy = 10.0 ** rng.uniform(0, 3, 60)
    light = 10.0 ** rng.uniform(-3, 0, 60)
    big = rng.normal(size=(300, 3))
    yield "huge amplitude", rbf(X, 1.0, 1e6), coin, None
    yield "tiny length", rbf(X, 1e-4, 1e4), coin, None
    yield "huge length", rbf(X, 1e4, 1e2), coin, None
    yield "separable", rbf(X, 3.0, 1e5), side, None
    yield "outliers", rbf(X, 3.0, 1e5), odd, None
    yield "twins that disagree", rbf(twins, 1.0, 1e6), coin, None
    yield "one value, one label", np.full((60, 60), 1e6), np.ones(60), None
    yield "one value, two labels", np.full((60, 60), 1e6), coin, None
    yield (
        "linear, with a zero row",
        1e3 * np.vstack([0 * X[:1], X[1:]]) @ np.vstack([0 * X[:1], X[1:]]).T,
        side,
        None,
    )
    yield "no covariance at all", np.zeros((60, 60)), coin, None
    yield "heavy", rbf(X, 1.0, 1e5), coin, heavy
    yield "heavy twins", rbf(twins, 1.0, 1e6), side, heavy
    yield "light", rbf(X, 1.0, 1e7), side, light
    yield "tiny amplitude", rbf(X, 1.0, 1e-12), coin, None
    yield "many", rbf(big, 1.0, 1e3), np.where(big[:, 0] > 0, 1.0, -1.0), None


HARD = {name: case for name, *case in hard()}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", HARD)
def test_the_fixed_point_is_reached(name, link):
    K, t, w = HARD[name]
    K = np.ascontiguousarray(K)
    fit = ep(K, t, w, link)
    assert fit.converged and fit.residual < 1e-7
    assert np.isfinite(fit.log_evidence) and fit.log_evidence <= 1e-9
    variance = fit.variance(K, np.diagonal(K))
    assert (variance <= np.diagonal(K) * (1 + 1e-9)).all()
    if name == "no covariance at all":
        assert fit.log_evidence == pytest.approx(60 * np.log(0.5), rel=1e-12)
    if name == "tiny length":  # independent rows: exact
        assert fit.log_evidence == pytest.approx(60 * np.log(0.5), rel=1e-8)


@pytest.mark.parametrize("link", LINKS)
def test_visits_and_sweeps_agree(link):
    # where sweeps stall, rows are visited; from the answer neither moves
    from mercer.models.gp.classes.ep import _Problem

    K, t, rng = data(25, seed=9, amplitude=50.0)
    w = rng.uniform(0.3, 6.0, 25)
    fit = ep(K, t, w, link)
    problem = _Problem(K, t, w, as_link(link), None)
    tau, nu = problem.visit(fit.start.precision, fit.start.shift)
    np.testing.assert_allclose(tau, fit.start.precision, rtol=1e-6, atol=1e-9)
    tau, nu = np.zeros(25), np.zeros(25)
    for _ in range(60):
        tau, nu = problem.visit(tau, nu)
    np.testing.assert_allclose(tau, fit.start.precision, rtol=1e-6)
    np.testing.assert_allclose(nu, fit.start.shift, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("amplitude", [1e-3, 3.0, 1e4])
def test_the_certificate_is_recomputed(link, amplitude):
    K, t, rng = data(15, seed=8, amplitude=amplitude)
    w = rng.uniform(0.2, 3.0, 15)
    fit = ep(K, t, w, link)
    true = moment_mismatch(K, t, w, link, fit.coef, fit.root**2)
    assert true == pytest.approx(fit.residual, rel=1e-3, abs=1e-12)
    assert moment_mismatch(K, t, w, link, 1.001 * fit.coef, fit.root**2) > 1e-6


def test_an_indefinite_matrix_is_refused():
    K = np.array([[1.0, 30.0], [30.0, 1.0]])
    with pytest.raises(NotPositiveDefinite):
        ep(K, np.array([1.0, 1.0]), None, "probit")


# ------------------------------------------------------------------------------- the classifier
@pytest.mark.parametrize("link", LINKS)
def test_probabilities_against_sampling(link):
    rng = np.random.default_rng(2)
    X, new = rng.normal(size=(20, 2)), rng.normal(size=(6, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=20) > 0, "b", "a")
    kernel = 4.0 * RBF(1.0)
    model = GaussianProcessClassifier(kernel, "ep", link, optimizer=None).fit(X, y)
    K, Kx = kernel(X), kernel(X, new)
    A = np.linalg.solve(K, Kx)
    spread = np.sqrt(4.0 - (Kx * A).sum(axis=0))
    p = expit if link == "logit" else ndtr
    nodes = spread[:, None] * NODES[60:140]
    weights = WEIGHTS[60:140] / WEIGHTS[60:140].sum()

    def chance(F):
        return p((F @ A)[:, :, None] + nodes) @ weights

    likelihood = BinaryLikelihood(np.where(y == "b", 1.0, -1.0), link=link)
    chain = slice_posterior(K, likelihood, chance, n_steps=150)
    found = model.predict_proba(new)[:, 1]
    assert (np.abs(found - chain.mean) < 5 * chain.mean_error + 4e-3).all()
    assert (model.classes_[(found > 0.5).astype(int)] == model.predict(new)).all()


@pytest.mark.parametrize("link", LINKS)
def test_the_classifier_climbs_the_evidence(link):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 2))
    y = (np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=50) > 0).astype(int)
    model = GaussianProcessClassifier(1.0 * RBF([1.0, 1.0]), "ep", link).fit(X, y)
    value, slope = model.log_marginal_likelihood(model.theta_, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-6)
    start = np.zeros(3)
    assert value > model.log_marginal_likelihood(start) + 1.0
    theta, h = start + 0.3, 1e-5
    slope = model.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for j in range(3):
        e = h * np.eye(3)[j]
        ends = [model.log_marginal_likelihood(theta + s * e) for s in (1, -1)]
        assert slope[j] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_three_classes_go_one_against_the_rest():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(45, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = GaussianProcessClassifier(2.0 * RBF(), "ep", optimizer=None).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert model.score(X, y) > 0.85
    each = [
        ep((2.0 * RBF())(X), np.where(y == c, 1.0, -1.0), None, "logit").log_evidence
        for c in range(3)
    ]
    assert model.log_marginal_likelihood_value_ == pytest.approx(sum(each), abs=1e-6)
