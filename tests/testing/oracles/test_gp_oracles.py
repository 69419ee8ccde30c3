"""The exact posteriors: closed forms, conjugate cases, and agreement of grid, chain and weights."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm

from mercer.errors import InvalidInput
from mercer.testing import (
    BinaryLikelihood,
    SoftmaxLikelihood,
    importance_evidence,
    integrate_posterior,
    slice_posterior,
)

K2 = np.array([[2.0, 1.0], [1.0, 3.0]])
T2 = np.array([1.0, -1.0])


class Gaussian:
    """log N(y | f, s²) in one dimension for each row: the posterior is known."""

    def __init__(self, y, s):
        self.y, self.s, self.shape = y, s, y.shape

    def __call__(self, F):
        each = -0.5 * ((F - self.y) / self.s) ** 2 - np.log(self.s * np.sqrt(2 * np.pi))
        return each.reshape(len(F), -1).sum(axis=1)


def test_likelihoods_are_their_formulas():
    F = np.array([[0.3, -2.0], [800.0, 800.0]])
    w = np.array([2.0, 0.5])
    logit = BinaryLikelihood(T2, w)(F)
    assert logit[0] == pytest.approx(2 * np.log(expit(0.3)) + 0.5 * np.log(expit(2.0)))
    assert logit[1] == pytest.approx(-400.0)
    probit = BinaryLikelihood(T2, link="probit")(F)
    assert probit[0] == pytest.approx(np.log(ndtr(0.3) * ndtr(2.0)))
    G = np.array([[[0.1, 0.2, 0.3], [1.0, -1.0, 0.0]]])
    p = np.exp(G) / np.exp(G).sum(axis=2, keepdims=True)
    found = SoftmaxLikelihood(np.eye(3)[[2, 0]], w)(G)
    assert found[0] == pytest.approx(2 * np.log(p[0, 0, 2]) + 0.5 * np.log(p[0, 1, 0]))


def test_two_classes_of_softmax_are_the_logit():
    F = np.random.default_rng(0).normal(size=(5, 2, 2))
    soft = SoftmaxLikelihood(np.array([[0.0, 1.0], [1.0, 0.0]]))(F)
    np.testing.assert_allclose(soft, BinaryLikelihood(T2)(F[:, :, 1] - F[:, :, 0]))


@pytest.mark.parametrize("v", [1e-8, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_one_point_has_evidence_one_half(v, link):
    exact = integrate_posterior([[v]], BinaryLikelihood(np.array([-1.0]), link=link))
    assert exact.log_evidence == pytest.approx(np.log(0.5), abs=1e-12)
    if link == "probit":  # R&W 3.82 and 3.85 at zero mean
        ratio = 2 * norm.pdf(0)
        assert exact.mean[0] == pytest.approx(-v * ratio / np.sqrt(1 + v), rel=1e-11)
        variance = v - v**2 / (1 + v) * ratio**2
        assert exact.covariance[0, 0] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_two_points_against_adaptive_integration(link):
    p = expit if link == "logit" else ndtr
    (u, v), (_, w) = np.linalg.inv(K2).tolist()
    scale = 2 * math.pi * math.sqrt(np.linalg.det(K2))

    def prior(a, b):
        return math.exp(-0.5 * (u * a * a + 2 * v * a * b + w * b * b)) / scale

    def integral(g):
        return dblquad(
            lambda b, a: g(a, b) * p(a) * p(-b) * prior(a, b), -14, 14, -14, 14, epsabs=1e-7
        )[0]

    exact = integrate_posterior(K2, BinaryLikelihood(T2, link=link))
    z = integral(lambda a, b: 1.0)
    assert exact.log_evidence == pytest.approx(np.log(z), abs=1e-6)
    assert exact.mean[0] == pytest.approx(integral(lambda a, b: a) / z, abs=1e-5)
    cross = integral(lambda a, b: a * b) / z - exact.mean[0] * exact.mean[1]
    assert exact.covariance[0, 1] == pytest.approx(cross, abs=1e-5)


def test_a_weight_is_a_repetition_and_zero_is_absence():
    one = integrate_posterior([[3.0]], BinaryLikelihood(np.array([1.0]), np.array([2.0])))
    two = integrate_posterior([[3.0, 3.0], [3.0, 3.0]], BinaryLikelihood(np.ones(2)))
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-12)
    np.testing.assert_allclose(two.mean, one.mean[0], rtol=1e-11)
    none = integrate_posterior(K2, BinaryLikelihood(T2, np.array([1.0, 0.0])))
    assert none.mean[1] == pytest.approx(none.mean[0] * 0.5)


def test_no_prior_variance_is_no_variance():
    exact = integrate_posterior([[0.0]], BinaryLikelihood(np.array([1.0])))
    assert (exact.mean[0], exact.covariance[0, 0]) == (0.0, 0.0)


def test_the_grid_says_what_it_can():
    with pytest.raises(InvalidInput, match="3 points"):
        integrate_posterior(np.eye(3), BinaryLikelihood(np.ones(3)))
    with pytest.raises(InvalidInput, match="two classes"):
        integrate_posterior(np.eye(2), SoftmaxLikelihood(np.eye(2)))


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_samplers_on_a_conjugate_posterior(shape):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 3))
    K, y, s = A @ A.T, rng.normal(size=shape), 0.8
    C = K + s**2 * np.eye(3)
    mean, cov = K @ np.linalg.solve(C, y), K - K @ np.linalg.solve(C, K)
    evidence = multivariate_normal(np.zeros(3), C).logpdf(y.T).sum()
    found = slice_posterior(K, Gaussian(y, s), n_steps=400)
    assert np.abs((found.mean - mean) / found.mean_error).max() < 4.5
    deviation = found.variance - np.diag(cov).reshape((3,) + (1,) * (len(shape) - 1))
    assert np.abs(deviation / found.variance_error).max() < 4.5
    assert found.mean_error.max() < 0.03
    wide = np.kron(cov, np.eye(2)) if len(shape) == 2 else cov
    for given in ((None, None), (mean, wide)):
        estimate = importance_evidence(K, Gaussian(y, s), *given, n_samples=20_000)
        assert abs(estimate.log_evidence - evidence) < 4.5 * estimate.error < 0.05
        assert estimate.effective > 5000


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("K", [K2, np.ones((2, 2)), 100 * K2], ids=["plain", "singular", "large"])
def test_samplers_agree_with_the_grid(K, link):
    likelihood = BinaryLikelihood(T2, link=link)
    exact = integrate_posterior(K, likelihood)
    found = slice_posterior(K, likelihood, n_steps=300)
    assert np.abs((found.mean - exact.mean) / found.mean_error).max() < 4.5
    off = (found.variance - np.diag(exact.covariance)) / found.variance_error
    assert np.abs(off).max() < 4.5
    estimate = importance_evidence(K, likelihood, n_samples=20_000)
    assert abs(estimate.log_evidence - exact.log_evidence) < 4.5 * estimate.error < 0.05


def test_a_poor_proposal_is_admitted():
    likelihood = BinaryLikelihood(T2)
    good = importance_evidence(K2, likelihood, n_samples=5000)
    poor = importance_evidence(K2, likelihood, [4.0, 4.0], 0.1 * np.eye(2), n_samples=5000)
    assert poor.effective < 0.2 * good.effective
    assert poor.error > 3 * good.error


def test_a_statistic_of_the_latent_values():
    found = slice_posterior(K2, BinaryLikelihood(T2), lambda F: F[:, :1] > 0, n_steps=50)
    assert found.mean.shape == (1,)
    assert found.variance[0] == pytest.approx(found.mean[0] * (1 - found.mean[0]))
