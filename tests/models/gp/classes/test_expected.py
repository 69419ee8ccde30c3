"""Averages of log-likelihoods against adaptive integration, and as derivatives of one another."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp, softmax

from mercer.models.gp.classes.expectations import expected, expected_softmax
from mercer.models.gp.classes.sites import as_link

LINKS = ["logit", "probit"]
CASES = [(0.0, 1e-8), (-3.0, 0.3), (1.0, 0.69), (1.0, 0.71), (-12.0, 1.0), (13.0, 1.0), (4.0, 5.0)]
CASES += [(-80.0, 6.0), (0.0, 40.0), (300.0, 400.0), (-2000.0, 900.0)]


def integral(function, mean, deviation):
    """Return E function(f) by adaptive integration of pieces, without the rules of the library."""
    ends = mean + deviation * np.linspace(-12, 12, 25)
    ends = np.union1d(ends, np.clip([-20.0, -8.0, -3.0, 0.0, 3.0, 8.0, 20.0], ends[0], ends[-1]))

    def integrand(f):
        z = (f - mean) / deviation
        return function(f) * np.exp(-0.5 * z * z) / (deviation * np.sqrt(2 * np.pi))

    return sum(quad(integrand, *ab, epsabs=1e-14, epsrel=1e-12)[0] for ab in pairwise(ends))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("mean", "deviation"), CASES)
@pytest.mark.parametrize("t", [1.0, -1.0])
def test_averages_are_integrals(link, mean, deviation, t):
    link = as_link(link)
    got = expected(link, np.array([t]), np.array([mean]), np.array([deviation**2]))
    functions = [link.log_likelihood, link.first, link.second, link.third]
    for k, function in enumerate(functions):
        want = integral(lambda f, g=function: float(g(t, np.array(f))), mean, deviation)
        assert abs(got[k][0] - want) <= 1e-9 * max(abs(want), 1.0)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 200.0])
def test_averages_are_derivatives_of_one_another(link, scale):
    link = as_link(link)
    rng = np.random.default_rng(0)
    mean, var = scale * rng.normal(size=20), scale**2 * rng.uniform(0.2, 1.5, 20)
    t = np.where(rng.uniform(size=20) < 0.5, 1.0, -1.0)

    def at(dm=0.0, dv=0.0):
        return np.stack(expected(link, t, mean + dm, var + dv))

    e, h = at(), 1e-4 * scale
    slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    np.testing.assert_allclose(e[1:4], slope[:3], atol=1e-9 * max(1.0, abs(e[0]).max() / scale))
    np.testing.assert_allclose(e[4] * scale, slope[3] * scale, atol=1e-7)
    k = 1e-3 * var
    in_var = (8 * (at(0, k) - at(0, -k)) - (at(0, 2 * k) - at(0, -2 * k))) / (12 * k)
    size = max(1.0, abs(e[0]).max() / scale**2)
    np.testing.assert_allclose(0.5 * e[2:5], in_var[:3], atol=1e-8 * size)
    assert (e[2] <= 0).all()


def test_a_variance_of_zero_is_the_function_itself():
    for name in LINKS:
        link, f, t = as_link(name), np.array([-700.0, -3.0, 0.0, 5.0]), np.ones(4)
        e = expected(link, t, f, np.zeros(4))
        np.testing.assert_allclose(e[0], link.log_likelihood(t, f), rtol=1e-14)
        np.testing.assert_allclose(e[2], link.second(t, f), rtol=1e-12, atol=1e-300)
        assert np.isfinite(e).all()


# ------------------------------------------------------------------------------------- softmax
@pytest.mark.parametrize(
    "scale", [0.0, 1e-6, 0.1, 0.49, 0.51, 1.0, 5.9, 6.1, 8.0, 13.0, 21.0, 30.0, 1e3, 1e5]
)
def test_two_classes_are_one_logistic(scale):
    rng = np.random.default_rng(1)
    mean = 2 * scale * rng.normal(size=(8, 2)) + 3 * rng.normal(size=(8, 1))
    var = np.square(scale * rng.uniform(0.2, 1.0, (8, 2)))
    value, p, bend, third, fourth = expected_softmax(mean, var)
    gap, spread = mean[:, 0] - mean[:, 1], var.sum(axis=1)
    e = expected(as_link("logit"), np.ones(8), gap, spread)
    np.testing.assert_allclose(value, mean[:, 0] - e[0], atol=1e-12 * max(scale, 1.0) * 10)
    np.testing.assert_allclose(p[:, 0], 1 - e[1], atol=1e-11)
    np.testing.assert_allclose(bend[:, 0, 0], -e[2], atol=1e-11)
    np.testing.assert_allclose(bend[:, 0, 1], e[2], atol=1e-11)
    np.testing.assert_allclose(third[:, 0, 0], -e[3], atol=1e-10)
    np.testing.assert_allclose(third[:, 0, 1], e[3], atol=1e-10)
    if scale > 1e-3:
        np.testing.assert_allclose(fourth[:, 0], -e[4], atol=1e-9)


def test_three_classes_by_a_grid():
    rng = np.random.default_rng(2)
    mean, var = rng.normal(size=(4, 3)), np.array([0.04, 0.5, 1.5]) * np.ones((4, 1))
    z = np.arange(-9, 9.01, 0.25)
    Z = np.stack(np.meshgrid(z, z, z, indexing="ij"), axis=-1).reshape(-1, 3)
    w = np.exp(-0.5 * np.square(Z).sum(axis=1)) * (0.25 / np.sqrt(2 * np.pi)) ** 3
    value, p, bend, third, _ = expected_softmax(mean, var)
    for i in range(4):
        f = mean[i] + np.sqrt(var[i]) * Z
        P = softmax(f, axis=1)
        W = P[:, :, None] * np.eye(3) - P[:, :, None] * P[:, None, :]
        assert abs(value[i] - w @ logsumexp(f, axis=1)) < 1e-9
        np.testing.assert_allclose(p[i], w @ P, atol=1e-9)
        np.testing.assert_allclose(bend[i], np.tensordot(w, W, 1), atol=1e-9)
        np.testing.assert_allclose(third[i], np.einsum("s,sc,scd->cd", w, 1 - 2 * P, W), atol=1e-8)


@pytest.mark.parametrize("scale", [0.2, 2.0, 7.0, 300.0])
def test_softmax_averages_are_derivatives_of_one_another(scale):
    rng = np.random.default_rng(3)
    mean = scale * rng.normal(size=(6, 4))
    var = np.square(scale * rng.uniform(0.05, 1.0, (6, 4)))
    _, p, bend, third, fourth = expected_softmax(mean, var)
    h, step = 1e-3 * scale, np.eye(4)[1]

    def central(which, a, b):
        plus, minus = expected_softmax(*a), expected_softmax(*b)
        return plus[which] - minus[which]

    def slope(which):
        near = central(which, (mean + h * step, var), (mean - h * step, var))
        far = central(which, (mean + 2 * h * step, var), (mean - 2 * h * step, var))
        return (8 * near - far) / (12 * h)

    np.testing.assert_allclose(slope(0), p[:, 1], atol=2e-9)
    np.testing.assert_allclose(slope(1) * scale, bend[:, :, 1] * scale, atol=2e-8)
    moved = np.einsum("icc->ic", slope(2))
    np.testing.assert_allclose(moved * scale**2, third[:, :, 1] * scale**2, atol=1e-6)
    np.testing.assert_allclose(slope(3)[:, 1, 1] * scale**3, fourth[:, 1] * scale**3, atol=1e-4)
    k = 1e-3 * var * step
    near, far = (central(0, (mean, var + m * k), (mean, var - m * k)) for m in (1, 2))
    in_var = (8 * near - far) / (12 * k[:, 1])
    np.testing.assert_allclose(in_var * scale**2, 0.5 * bend[:, 1, 1] * scale**2, atol=1e-7 * scale)


def test_softmax_averages_of_unlike_variances():
    """One law is narrow and others wide, or far below: probabilities still sum to 1."""
    mean = np.array([[0.0, -50.0, 3.0], [0.0, 0.0, -1e4], [5.0, 4.0, 0.0], [0.0, 1e3, 990.0]])
    var = np.array([[9e4, 1.0, 1e-6], [1e-8, 4.0, 1e6], [0.0, 0.0, 0.0], [1e6, 1.0, 0.01]])
    value, p, bend, *_ = expected_softmax(mean, var)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-11)
    np.testing.assert_allclose(bend.sum(axis=2), 0.0, atol=1e-11)
    np.testing.assert_allclose(value[2], logsumexp(mean[2]), rtol=1e-13)
    rng = np.random.default_rng(0)
    F = mean + np.sqrt(var) * rng.standard_normal((200_000, 4, 3))
    sample = logsumexp(F, axis=2)
    error = sample.std(axis=0) / np.sqrt(len(sample))
    assert (np.abs(value - sample.mean(axis=0)) <= 5 * error + 1e-9).all()
    P = softmax(F, axis=2)
    error = P.std(axis=0) / np.sqrt(len(P))
    assert (np.abs(p - P.mean(axis=0)) <= 5 * error + 1e-9).all()


def test_the_order_of_rows_and_classes_does_not_matter():
    rng = np.random.default_rng(4)
    mean, var = rng.normal(size=(30, 3)), 10.0 ** rng.uniform(-4, 4, (30, 3))
    value, p, bend, *_ = expected_softmax(mean, var)
    rows, classes = rng.permutation(30), np.array([2, 0, 1])
    v2, p2, b2, *_ = expected_softmax(mean[rows][:, classes], var[rows][:, classes])
    np.testing.assert_allclose(v2, value[rows], rtol=1e-11)
    np.testing.assert_allclose(p2, p[rows][:, classes], atol=1e-11)
    np.testing.assert_allclose(b2, bend[rows][:, classes][:, :, classes], atol=1e-11)


def test_what_is_not_finite_gives_nothing_finite():
    """A step too far must be seen as such."""
    for mean in (np.nan, np.inf):
        value, *_ = expected_softmax(np.array([[mean, 0.0], [0.0, 0.0]]), np.ones((2, 2)))
        assert np.isnan(value).all()
