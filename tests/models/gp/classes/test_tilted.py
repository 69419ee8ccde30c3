"""Moments of a likelihood term times a normal density against adaptive integration."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit, log_ndtr
from scipy.stats import norm

from mercer.models.gp.classes.ep import tilted
from mercer.models.gp.classes.sites import Logit, Probit, as_link

LOG = {"logit": log_expit, "probit": log_ndtr}


def integrated(link, t, m, v, power):
    """Mass, mean and variance by adaptive quadrature around the mode."""
    s = np.sqrt(v)
    reach = 45 * s + min(abs(m), v * (1 + abs(m)))  # the slope of log p is below 1 + |f|
    f = np.linspace(m - reach, m + reach, 40_001)
    height = power * LOG[link](t * f) - 0.5 * (f - m) ** 2 / v
    top, centre = height.max(), f[height.argmax()]
    inside = f[height > top - 60]
    low, high = inside[0], inside[-1]
    marks = sorted({-30, -5, 0, 5, 30, centre, centre - 2 * s, centre + 2 * s})
    edges = [low, *[p for p in marks if low < p < high], high]

    def integral(g):
        def integrand(x):
            return g(x) * np.exp(power * LOG[link](t * x) - 0.5 * (x - m) ** 2 / v - top)

        each = [
            quad(integrand, a, b, epsabs=0, epsrel=1e-12, limit=200)[0] for a, b in pairwise(edges)
        ]
        return sum(each)

    mass = integral(lambda x: 1.0)
    mean = integral(lambda x: x - centre) / mass + centre
    variance = integral(lambda x: (x - mean) ** 2) / mass
    return np.log(mass) + top - 0.5 * np.log(2 * np.pi * v), mean, variance


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("v", [1e-6, 0.3, 5.0, 12.0, 400.0, 1e4])
def test_against_adaptive_integration(link, power, v):
    means = np.array([-60.0, -4.0, 0.3, 9.0, 150.0])
    for t in (1.0, -1.0):
        found = tilted(as_link(link), np.full(5, t), means, np.full(5, v), power)
        for i, m in enumerate(means):
            log_z, mean, variance = integrated(link, t, m, v, power)
            assert found.log_z[i] == pytest.approx(log_z, rel=1e-9, abs=1e-9)
            assert abs(found.mean[i] - mean) < 1e-8 * np.sqrt(variance) + 1e-13 * abs(m)
            assert found.variance[i] == pytest.approx(variance, rel=1e-8)


@pytest.mark.parametrize("link", [Logit(), Probit()])
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_the_site_gives_the_moments(link, power):
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=400) * 10, 10.0 ** rng.uniform(-2, 4, 400)
    t = np.where(rng.random(400) > 0.5, 1.0, -1.0)
    found = tilted(link, t, m, v, power)
    precision = 1 / v + found.precision
    np.testing.assert_allclose(found.variance, 1 / precision, rtol=1e-10)
    gap = found.mean - (m / v + found.shift) / precision
    assert np.abs(gap / np.sqrt(found.variance)).max() < 1e-9
    assert (found.precision >= 0).all() and (found.variance <= v).all()


@pytest.mark.parametrize("link", [Logit(), Probit()])
@pytest.mark.parametrize("power", [1.0, 0.4])
def test_a_narrow_density_sees_the_derivatives(link, power):
    # v → 0: τ and ν are those of the second-order expansion of log p at m, which differences of
    # moments could not give
    m = np.array([-30.0, -2.0, 0.0, 0.7, 3.0])
    for v in (0.0, 1e-14):
        found = tilted(link, np.ones(5), m, np.full(5, v), power)
        slope, bend, _ = link.derivatives(1.0, m)
        np.testing.assert_allclose(found.log_z, power * link.log_likelihood(1.0, m), rtol=1e-12)
        np.testing.assert_allclose(found.precision, -power * bend, rtol=1e-9)
        np.testing.assert_allclose(found.shift, power * (slope - bend * m), rtol=1e-9)
        np.testing.assert_allclose(found.mean, m, atol=1e-12)


def test_slopes_of_the_mass_are_the_moments():
    # ∂log Z/∂m = (mean − m)/v, whatever the link
    m, v, h = np.linspace(-20, 20, 41), np.full(41, 3.0), 1e-5
    for link in (Logit(), Probit()):
        up, down = tilted(link, np.ones(41), m + h, v), tilted(link, np.ones(41), m - h, v)
        here = tilted(link, np.ones(41), m, v)
        np.testing.assert_allclose(
            (up.log_z - down.log_z) / (2 * h), (here.mean - m) / v, atol=1e-8
        )


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_hopeless_and_certain_labels(link):
    m = np.array([-1e3, 1e3, -1e3, 1e3, -1e3, 1e3])
    v = np.array([1e-10, 1e-10, 1.0, 1.0, 1e4, 1e4])
    found = tilted(as_link(link), np.ones(6), m, v)
    for field in (found.log_z, found.mean, found.variance, found.precision, found.shift):
        assert np.isfinite(field).all()
    np.testing.assert_allclose(found.log_z[[1, 3, 5]], 0.0, atol=1e-15)
    np.testing.assert_allclose(found.mean[[1, 3, 5]], 1e3, rtol=1e-12)
    if link == "logit":  # σ(f) = exp(f) there: the mean moves by v, the mass is e^(m + v/2)
        assert found.log_z[2] == pytest.approx(-999.5, rel=1e-13)
        assert found.mean[2] == pytest.approx(-999.0, rel=1e-13)
    else:
        assert found.log_z[2] == pytest.approx(log_ndtr(-1e3 / np.sqrt(2)), rel=1e-13)
        # R&W 3.85, 3.87 with the expansion of the hazard at z = −707
        z = 1e3 / np.sqrt(2)
        assert found.mean[2] == pytest.approx(-500.0 + (1 / z - 2 / z**3) / np.sqrt(2), rel=1e-9)
        assert found.variance[2] == pytest.approx(0.5 * (1 + 1 / z**2), rel=1e-9)


def test_a_wide_density_is_cut_in_half():
    v = 1e8  # the likelihood is a step: half a normal density
    for link in (Logit(), Probit()):
        found = tilted(link, [1.0], [0.0], [v])
        assert found.log_z[0] == pytest.approx(np.log(0.5), abs=1e-12)
        assert found.mean[0] == pytest.approx(2 * norm.pdf(0) * 1e4, rel=1e-6)
        assert found.variance[0] == pytest.approx(v * (1 - 2 / np.pi), rel=1e-6)
