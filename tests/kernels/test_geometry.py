"""Distances in feature space as functions of a distance of the points, against the definition."""

import numpy as np
import pytest

import mercer
from mercer import (
    RBF,
    Constant,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
    White,
)
from mercer.kernels.geometry import geometry_of
from mercer.kernels.radial import matern_drop

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((12, 3)), rng.standard_normal((9, 3))
A = np.diag([1.0, 2.0, 0.3])

KNOWN = [
    RBF(0.7),
    RBF([0.5, 1.0, 2.0]),
    RBF(covariance=A),
    Matern(1.3, nu=0.5),
    Matern(2.0),
    Matern(nu=2.5),
    Matern(nu=0.7),
    Matern(nu=3.2),
    Matern(nu=np.inf),
    RationalQuadratic(0.8, 2.0),
    PowerExponential(1.3, power=0.6),
    PowerExponential([0.5, 1.0, 2.0], power=1.7),
    PowerExponential(1.3, power=0.6, norm=1.0),
    Laplacian(1.5),
    Laplacian([1.0, 2.0, 0.5]),
    Linear(),
    Linear(A),
    2.5 * RBF(),
    RBF() / 3,
    3.0 * Linear(),
    RBF() + 2.0,
    Linear() + 1.0,
    RBF() + White(0.3),
    RBF() + Linear(),
    RBF() + Matern(2.0),
    RBF() * RBF(2.0),
    RBF() * (Matern(3.0) + 2.0) * 0.1,
    RBF() * (RBF(3.0) + White(0.5)),
    White(0.5) * RBF(),
    RBF() ** 3,
    (2.0 * RBF() + 1.0) ** 2,
    RBF().exp(),
    (2.0 * RBF()).normalized(),
    (Matern() + 1.0).normalized(),
    RBF().on([0, 2]),
    Matern(1.5).in_metric([[1.0, 0.2, -0.5], [0.3, 0.0, 2.0]]),
    RBF(0.5).in_metric(A) * RBF(2.0).in_metric(A),
    2.0 * (RBF(0.5) * Matern(2.0)).on([1, 2]),
    RBF(0.5).on([1]) * RBF(2.0).on([1]),
]
UNKNOWN = [
    Polynomial(2),
    Cosine(),
    RBF(0.5).in_metric(A) * RBF(2.0).in_metric(2 * A),
    PowerExponential(norm=1.5),
    RBF() * Laplacian(),
    RBF() + RBF([1.0, 1.0, 2.0]),
    RBF().on([0]) * RBF().on([1]),
    Linear() * RBF(),
    Linear().normalized(),
    0.0 * RBF(),
    Linear() ** 2,
    Linear().exp(),
    RBF().warp(np.sin),
    RBF().scale_by(lambda Z: 1 + Z[:, 0] ** 2),
    mercer.FromFunction(lambda a, b: float(a @ b)),
]


def r(g, P, Q):
    return np.linalg.norm(g.image(P)[:, None] - g.image(Q)[None], ord=g.norm, axis=-1) / g.unit


@pytest.mark.parametrize("kernel", KNOWN, ids=repr)
def test_the_definition(kernel):
    g = geometry_of(kernel)
    d = g.distance(r(g, X, Y))
    squares = kernel.diag(X)[:, None] + kernel.diag(Y)[None] - 2 * kernel(X, Y)
    np.testing.assert_allclose(d**2, squares, rtol=1e-12, atol=1e-13)
    if g.level is not None:
        np.testing.assert_allclose(kernel.diag(X), g.level, rtol=1e-14)


@pytest.mark.parametrize("kernel", KNOWN, ids=repr)
def test_distances_rise_from_the_least_number_to_the_largest(kernel):
    """Without a jump where squares would leave the range of floats."""
    g = geometry_of(kernel)
    steps = 10.0 ** np.linspace(-300, 150, 901)
    d = g.distance(steps)
    assert np.isfinite(d).all() and (d > 0).all()
    assert (np.diff(d) >= -1e-12 * d[1:]).all()
    assert d[-1] >= d[0]
    flat = "White" in repr(kernel)
    assert flat or (np.diff(d[: len(d) // 2]) > 0).all()  # up to 1e-75: all are told apart
    # A power of r, with one exponent on both sides of the end of the squares.
    ratio = d[1:500] / d[:499]
    assert flat or ratio.max() / ratio.min() < 1.03


@pytest.mark.parametrize("kernel", UNKNOWN, ids=repr)
def test_kernels_of_no_single_distance(kernel):
    g = geometry_of(kernel)
    assert g is None or g.key is None


def test_a_subclass_is_not_taken_for_its_parent():
    class Own(RBF):
        """Perhaps with another formula."""

    assert geometry_of(Own()) is None and geometry_of(2.0 * Own()) is None


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_integral_of_the_slope_is_the_closed_form(nu):
    s = 10.0 ** np.linspace(-60, 2, 63)
    beside = matern_drop(s, float(np.nextafter(nu, 9)))
    np.testing.assert_allclose(beside, matern_drop(s, nu), rtol=1e-12)


@pytest.mark.parametrize("nu", [1.2, 2.0, 3.3, 12.0, 29.0, 31.0, 400.0])
def test_smooth_matern_kernels_begin_as_a_parabola(nu):
    """1 − κ = sν/(2(ν − 1)) − …, from κ′(0) of the Bessel series (DLMF 10.30.2)."""
    s = np.array([0.0, 1e-200, 1e-80])
    np.testing.assert_allclose(matern_drop(s, nu), s * nu / (2 * (nu - 1)), rtol=1e-11)


def test_constants_look_at_no_point():
    assert geometry_of(Constant(2.0)).key is None and geometry_of(White(2.0)).key is None
