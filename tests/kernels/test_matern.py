"""Matérn for every ν: closed forms, the Bessel form, its limits, and its slope (K5)."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp

from mercer import RBF, Matern
from mercer.errors import InvalidInput
from mercer.kernels.radial import matern_profile, matern_slope
from mercer.testing.checks import matern_integral

R = np.concatenate([[0.0], np.logspace(-8, 2, 80)])
ORDERS = [
    0.01,
    0.1,
    0.3,
    0.5,
    0.7,
    1,
    1.2,
    1.5,
    2,
    2.5,
    3.5,
    7,
    15,
    29.9,
    30.1,
    40,
    60,
    100,
    1e3,
    1e6,
]


@pytest.mark.parametrize("nu", ORDERS)
def test_every_order_against_the_integral(nu):
    expected = [matern_integral(nu, math.sqrt(2 * nu) * r) for r in R]
    got = matern_profile(R**2, float(nu), np)
    np.testing.assert_allclose(got, expected, atol=2e-13)
    assert got[0] == 1.0
    assert (np.diff(got) <= 1e-13).all()


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("side", [-1e-9, 1e-9])
def test_closed_forms_are_the_general_formula(nu, side):
    s = np.concatenate([[0.0], np.logspace(-3, 3, 60)])
    np.testing.assert_allclose(
        matern_profile(s, nu, np), matern_profile(s, nu + side, np), atol=1e-8
    )
    np.testing.assert_allclose(
        matern_slope(s[1:], nu, np), matern_slope(s[1:], nu + side, np), rtol=1e-6, atol=1e-12
    )


def test_infinite_order_is_the_rbf(rng):
    X = rng.standard_normal((9, 3))
    np.testing.assert_array_equal(Matern(1.3, math.inf)(X), RBF(1.3)(X))
    np.testing.assert_allclose(Matern(1.3, 1e8)(X), RBF(1.3)(X), atol=1e-7)


@pytest.mark.parametrize("nu", [0.5, 0.8, 1.0, 1.5, 2.2, 2.5, 5.0])
def test_equals_scikit_learn(nu, rng):
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((15, 3))
    expected = gp.Matern(length_scale=0.7, nu=nu)(X, Y)
    np.testing.assert_allclose(Matern(0.7, nu)(X, Y), expected, atol=1e-12)


@pytest.mark.parametrize("nu", [0.2, 0.5, 0.9, 1.0, 1.1, 1.5, 2.5, 8.0, 50.0, math.inf])
def test_slope_is_the_derivative(nu):
    s = np.logspace(-2, 1.5, 30)
    h = 1e-5 * s
    difference = (matern_profile(s + h, nu, np) - matern_profile(s - h, nu, np)) / (2 * h)
    np.testing.assert_allclose(matern_slope(s, nu, np), difference, rtol=1e-6, atol=1e-9)
    assert np.isfinite(matern_slope(np.zeros(3), nu, np)).all()


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.5, 2.5, 3.7, 80.0, math.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_points_have_value_zero(nu, dtype):
    far = np.array([1e4, 1e10, 1e20, 1e30], dtype=dtype)
    value = matern_profile(far, nu, np)
    assert value.dtype == dtype
    assert (value[1:] == 0).all() and np.isfinite(value).all()


@pytest.mark.parametrize("nu", [0.0, -0.5, math.nan, "2", None, [1.5], True])
def test_nu_must_be_positive(nu):
    with pytest.raises(InvalidInput, match="Matern: nu"):
        Matern(1.0, nu)


def test_the_l2_distance_is_used_in_several_dimensions():
    # Matérn 3/2 of the ℓ₁ distance would not be a kernel in the plane
    K = Matern(nu=1.5)([[0.0, 0.0]], [[3.0, 4.0]])
    assert K[0, 0] == pytest.approx((1 + math.sqrt(3) * 5) * math.exp(-math.sqrt(3) * 5))
