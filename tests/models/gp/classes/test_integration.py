"""Class probabilities against quadrature and long quasi Monte Carlo."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_expit, logsumexp, ndtr, ndtri, softmax
from scipy.stats import norm, qmc

from mercer.models.gp.classes.expectations import (
    binary_probability,
    gauss_hermite,
    softmax_probability,
)


def exact_logit(m, v):
    """Return E σ(f) by adaptive quadrature of f's density times σ, cut at the steps of both."""
    s = np.sqrt(v)
    steps = (np.array([-40, -6, 0, 6, 40]) - m) / s
    cuts = np.unique(np.clip(np.concatenate([[-39, -9, -3, 0, 3, 9, 39], steps]), -39, 39))
    total = 0.0
    for a, b in pairwise(cuts):
        rule = {"epsabs": 1e-14, "epsrel": 1e-13, "limit": 200}
        total += quad(lambda x: expit(m + s * x) * norm.pdf(x), a, b, **rule)[0]
    return total


@pytest.mark.parametrize("v", [1e-12, 1e-3, 0.3, 1.0, 7.0, 100.0, 1e4, 1e6])
def test_logit_whatever_the_mean_and_variance(v):
    means = [-1e3, -30.0, -3.0, -0.1, 0.0, 0.7, 12.0, 1e3]
    got = binary_probability(means, np.full(len(means), v))
    want = [exact_logit(m, v) for m in means]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)


def test_logit_of_no_variance_is_the_logistic_function():
    f = np.linspace(-45, 45, 301)
    np.testing.assert_allclose(binary_probability(f, 0.0), expit(f), rtol=0, atol=2e-15)
    low = f[(f < 0) & (f > -25)]
    np.testing.assert_allclose(binary_probability(low, 0.0), expit(low), rtol=1e-9)


@pytest.mark.parametrize("v", [0.0, 0.3, 4.0, 30.0, 100.0])
def test_small_probabilities_keep_their_digits(v):
    means = -np.array([3.0, 10.0, 40.0, 100.0, 130.0, 200.0, 400.0, 700.0])
    got = binary_probability(means, v)
    z = np.linspace(-12, 12, 4001)
    for m, p in zip(means, got, strict=True):
        # The integrand has its mass at m + v, if that is far below 0, and at most at 0.
        centre = min(m + v, 0.0)
        f = centre + (np.sqrt(v) + 3.0) * z if v else np.array([m])
        logs = log_expit(f)
        if v:
            logs = logs - (f - m) ** 2 / (2 * v) - 0.5 * np.log(2 * np.pi * v)
            logs = logs + np.log((np.sqrt(v) + 3.0) * (z[1] - z[0]))
        assert np.log(p) == pytest.approx(logsumexp(logs), abs=1e-8 * abs(m))


def test_probabilities_of_several_classes_need_little_memory():
    mean, cov = np.zeros((40, 4)), np.tile(np.eye(4), (40, 1, 1))
    softmax_probability(mean[:1], cov[:1])
    tracemalloc.start()
    softmax_probability(mean, cov)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e6


def test_probit_in_closed_form():
    x, w = gauss_hermite(60)
    m, v = np.array([-2.0, 0.3, 1.5]), np.array([0.5, 2.0, 0.0])
    want = [w @ ndtr(a + np.sqrt(b) * x) for a, b in zip(m, v, strict=True)]
    np.testing.assert_allclose(binary_probability(m, v, "probit"), want, atol=1e-10)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_both_classes_sum_to_one_and_shrink_to_half(link):
    m, v = np.linspace(-50, 50, 41), np.geomspace(1e-3, 1e5, 41)
    p, q = binary_probability(m, v, link), binary_probability(-m, v, link)
    np.testing.assert_allclose(p + q, 1.0, atol=1e-14)
    wider = binary_probability(m, 10 * v, link)
    assert (np.abs(wider - 0.5) <= np.abs(p - 0.5) + 1e-15).all()


def test_gauss_hermite_is_exact_for_moments():
    x, w = gauss_hermite(12)
    for k, moment in enumerate([1, 0, 1, 0, 3, 0, 15, 0, 105]):
        assert w @ x**k == pytest.approx(moment, abs=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 0.0


# -- softmax -------------------------------------------------------------------------------------
def cases(C, scale, rng):
    A = rng.standard_normal((4, C, C))
    cov = A @ A.transpose(0, 2, 1) / C
    cov[2] = np.diag(rng.uniform(0.1, 2, C))
    cov[3] = 0.02 * np.eye(C) + 0.5
    return scale * rng.standard_normal((4, C)), scale**2 * cov


def long_run(mean, cov, seed, points=2**17):
    """Return E softmax by scrambled Sobol points, with its standard error."""
    C = len(mean)
    lam, V = np.linalg.eigh(cov)
    root = V * np.sqrt(np.maximum(lam, 0))
    parts = []
    for s in range(4):
        u = qmc.Sobol(C, seed=np.random.default_rng(100 * seed + s)).random(points // 4)
        z = ndtri(np.clip(u, 1e-15, 1 - 1e-15))
        parts.append(softmax(mean + z @ root.T, axis=1).mean(axis=0))
    return np.mean(parts, axis=0), np.std(parts, axis=0).max() / np.sqrt(3)


@pytest.mark.parametrize(("C", "limit"), [(3, 3e-5), (4, 1e-4), (6, 5e-4), (16, 5e-3)])
@pytest.mark.parametrize("scale", [0.3, 2.0, 8.0])
def test_softmax_against_long_runs(C, limit, scale):
    mean, cov = cases(C, scale, np.random.default_rng(C))
    got = softmax_probability(mean, cov)
    for i in range(len(mean)):
        want, error = long_run(mean[i], cov[i], i)
        assert np.abs(got[i] - want).max() < limit + 4 * error
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-14)
    assert (got >= 0).all()


def test_softmax_of_two_classes_is_the_logit_of_their_difference():
    mean = np.array([[0.3, -1.0], [5.0, 2.0], [-700.0, 700.0]])
    A = np.random.default_rng(0).standard_normal((3, 2, 2))
    cov = A @ A.transpose(0, 2, 1)
    gap = mean[:, 1] - mean[:, 0]
    var = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    got = softmax_probability(mean, cov)[:, 1]
    np.testing.assert_allclose(got, binary_probability(gap, var), atol=1e-14)


@pytest.mark.parametrize("C", [2, 3, 5, 9, 13])
def test_softmax_of_vanishing_covariance(C):
    mean = 3 * np.random.default_rng(C).standard_normal((5, C))
    for size in (0.0, 1e-14):
        got = softmax_probability(mean, np.tile(size * np.eye(C), (5, 1, 1)))
        np.testing.assert_allclose(got, softmax(mean, axis=1), atol=1e-6 if C <= 10 else 2e-4)
    # A shift common to all classes decides nothing, however uncertain.
    got = softmax_probability(mean + 1e3, np.full((5, C, C), 50.0))
    np.testing.assert_allclose(got, softmax(mean, axis=1), atol=1e-5 if C <= 10 else 2e-4)


@pytest.mark.parametrize("C", [3, 4, 7, 12])
def test_the_order_of_classes_does_not_matter(C):
    rng = np.random.default_rng(C)
    mean, cov = cases(C, 3.0, rng)
    order = rng.permutation(C)
    straight = softmax_probability(mean, cov)
    turned = softmax_probability(mean[:, order], cov[:, order][:, :, order])
    np.testing.assert_allclose(turned, straight[:, order], atol=1e-12)
    equal = softmax_probability(np.zeros((1, C)), np.eye(C)[None] * 4.0)
    np.testing.assert_allclose(equal, 1 / C, atol=1e-14)


def test_softmax_at_huge_scales_is_a_share_of_orthants():
    # Of three exchangeable classes each is the largest one time in three; of a sure one always.
    huge = softmax_probability(np.zeros((1, 3)), 1e8 * np.eye(3)[None])
    np.testing.assert_allclose(huge, 1 / 3, atol=1e-12)
    sure = softmax_probability(np.array([[1e3, 0.0, -1e3]]), np.eye(3)[None])
    np.testing.assert_allclose(sure, [[1.0, 0.0, 0.0]], atol=1e-12)
    # P(f₀ > f₁, f₂) with a mean of one standard deviation of the differences, by the normal law.
    got = softmax_probability(np.array([[1e4, 0.0, -1e9]]), 5e7 * np.eye(3)[None])[0, 0]
    assert got == pytest.approx(ndtr(1.0), abs=2e-5)


def test_one_row_and_no_rows():
    assert softmax_probability(np.zeros((0, 3)), np.zeros((0, 3, 3))).shape == (0, 3)
    assert binary_probability([], []).shape == (0,)
