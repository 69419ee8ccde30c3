"""Smoothing kernels: normalised in every dimension, centred, of positive spread, and drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import dblquad, quad, tplquad
from scipy.special import gamma
from sklearn.neighbors import KernelDensity as Peer

from mercer.errors import InvalidInput, speaking_for
from mercer.models.density.bandwidth import SMOOTHINGS, Smoothing, smoothing

COMPACT = [name for name in SMOOTHINGS if name not in ("gaussian", "exponential")]


def reach(name, d=1):
    return {"gaussian": 12.0, "exponential": 60.0 + 6 * d}.get(name, 1.0)


def density(name, u):
    """κ at the rows of u, from the definition."""
    kernel = smoothing(name)
    u = np.atleast_2d(u)
    return math.exp(kernel.log_normaliser(u.shape[1])) * kernel.profile((u**2).sum(axis=1))


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_moments_on_the_line(name):
    r = reach(name)
    mass = [
        quad(lambda x, k=k: x**k * density(name, [[x]])[0], -r, r, points=[0], limit=200)[0]
        for k in range(3)
    ]
    assert mass[0] == pytest.approx(1, abs=1e-8)
    assert mass[1] == pytest.approx(0, abs=1e-8)
    assert mass[2] > 0.1


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_mass_and_mean_in_the_plane(name):
    # Over the first quadrant, in Cartesian coordinates; the kernel is even in both.
    r = reach(name)
    f = smoothing(name)
    c = math.exp(f.log_normaliser(2))

    def edge(x):
        return math.sqrt(max(0.0, r * r - x * x))

    def value(y, x):
        return c * float(f.profile(x * x + y * y))

    def second(y, x):
        return x * x * value(y, x)

    options = {"epsabs": 1e-7, "epsrel": 1e-7}
    assert 4 * dblquad(value, 0, r, 0, edge, **options)[0] == pytest.approx(1, abs=1e-5)
    assert 4 * dblquad(second, 0, r, 0, edge, **options)[0] > 0.05
    assert np.array_equal(density(name, [[0.3, 0.2]]), density(name, [[-0.3, -0.2]]))


@pytest.mark.parametrize("name", COMPACT)
def test_mass_in_space(name):
    f = smoothing(name)
    c = math.exp(f.log_normaliser(3))
    mass = tplquad(
        lambda z, y, x: c * float(f.profile(x * x + y * y + z * z)),
        0,
        1,
        0,
        lambda x: math.sqrt(max(0.0, 1 - x * x)),
        0,
        lambda x, y: math.sqrt(max(0.0, 1 - x * x - y * y)),
        epsabs=1e-4,
        epsrel=1e-4,
    )[0]
    assert 8 * mass == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 15, 60])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_mass_in_polar_coordinates(name, d):
    f = smoothing(name)
    sphere = 2 * math.pi ** (d / 2) / gamma(d / 2)
    c = math.exp(f.log_normaliser(d))
    r = reach(name, d) + (d if name == "gaussian" else 0)
    mass = quad(lambda t: sphere * t ** (d - 1) * c * float(f.profile(t * t)), 0, r, limit=400)[0]
    assert mass == pytest.approx(1, rel=1e-8)


# scikit-learn has no biweight, and its cosine does not integrate to one in even dimensions.
SHARED = [n for n in SMOOTHINGS if n != "biweight"]
PAIRS = [(n, d) for n in SHARED for d in (1, 2, 3, 4, 7) if n != "cosine" or d % 2]


@pytest.mark.parametrize(("name", "d"), PAIRS)
def test_normalisers_are_those_of_scikit_learn(name, d):
    peer = Peer(bandwidth=1.0, kernel="linear" if name == "triangular" else name)
    value = peer.fit(np.zeros((1, d))).score_samples(np.zeros((1, d)))[0]
    assert smoothing(name).log_normaliser(d) == pytest.approx(value, abs=1e-11)


@pytest.mark.parametrize("name", SMOOTHINGS)
@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_deviations_by_quadrature(name, d):
    kernel = smoothing(name)
    end = {"gaussian": 40.0, "exponential": 200.0}.get(name, 1.0)
    mass = quad(lambda r: r ** (d - 1) * kernel.profile(r * r), 0, end, epsrel=1e-11, limit=200)[0]
    second = quad(lambda r: r ** (d + 1) * kernel.profile(r * r), 0, end, epsrel=1e-11, limit=200)[
        0
    ]
    assert kernel.deviation(d) == pytest.approx(math.sqrt(second / mass / d), rel=1e-8)


def test_deviations_of_the_textbooks():
    assert smoothing("gaussian").deviation(5) == pytest.approx(1, rel=1e-14)
    for d in (1, 2, 3):
        assert smoothing("tophat").deviation(d) == pytest.approx((d + 2) ** -0.5, rel=1e-14)
        assert smoothing("epanechnikov").deviation(d) == pytest.approx((d + 4) ** -0.5, rel=1e-14)
        assert smoothing("exponential").deviation(d) == pytest.approx((d + 1) ** 0.5, rel=1e-14)
    assert smoothing("triangular").deviation(1) == pytest.approx(6**-0.5, rel=1e-14)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_bandwidths_of_profiles(name):
    kernel, r = smoothing(name), np.linspace(0, 3, 40)
    for h in (0.3, 1.7):
        np.testing.assert_allclose(
            kernel.profile(r * r, h), kernel.profile((r / h) ** 2), atol=1e-14
        )
        if kernel.compact:
            assert kernel.profile(h * h, h) == 0
            assert kernel.profile(np.nextafter(h, 0) ** 2, h) >= 0


def test_known_constants():
    for name, value in [
        ("gaussian", 1 / math.sqrt(2 * math.pi)),
        ("epanechnikov", 3 / 4),
        ("tophat", 1 / 2),
        ("triangular", 1.0),
        ("biweight", 15 / 16),
        ("cosine", math.pi / 4),
        ("exponential", 1 / 2),
    ]:
        assert density(name, [[0.0]])[0] == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_log_profile(name):
    f = smoothing(name)
    s = np.array([0.0, 1e-12, 0.3, 0.999999, 1.0, 1.5, 1e9])
    with np.errstate(divide="ignore"):
        expected = np.log(f.profile(s))
    got = f.log_profile(s)
    seen = np.isfinite(expected)
    np.testing.assert_allclose(got[seen], expected[seen], rtol=1e-13, atol=1e-13)
    assert got[0] == 0.0
    outside = got[s >= 1]
    assert (np.isneginf(outside) if f.compact else np.isfinite(outside)).all()


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_draws(name, d):
    f = smoothing(name)
    U = f.sample(np.random.default_rng(3), 4000, d)
    assert U.shape == (4000, d)
    lengths = np.sqrt((U**2).sum(axis=1))
    assert lengths.max() < f.radius
    sphere = 2 * math.pi ** (d / 2) / gamma(d / 2) * math.exp(f.log_normaliser(d))
    grid = np.linspace(0, min(f.radius, 60.0), 20001)
    radial = sphere * grid ** (d - 1) * f.profile(grid**2)
    cdf = np.concatenate([[0], np.cumsum(0.5 * (radial[1:] + radial[:-1]) * np.diff(grid))])
    p = stats.kstest(lengths, lambda r: np.interp(r, grid, cdf)).pvalue
    assert p > 1e-3
    # Directions do not lean: each coordinate is positive half of the time.
    assert (np.abs((U > 0).mean(axis=0) - 0.5) < 4 * 0.5 / math.sqrt(4000)).all()


def test_draws_repeat():
    for name in SMOOTHINGS:
        a = smoothing(name).sample(np.random.default_rng(1), 9, 2)
        assert np.array_equal(a, smoothing(name).sample(np.random.default_rng(1), 9, 2))


def test_names():
    assert smoothing("linear").name == "triangular"
    assert smoothing(Smoothing("cosine")).name == "cosine"
    for bad in ("rbf", "precomputed", "", None, 3, ["gaussian"], np.array(["gaussian"])):
        with pytest.raises(InvalidInput, match=r"Mine.*epanechnikov"), speaking_for("Mine"):
            smoothing(bad)
