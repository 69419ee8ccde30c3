"""Periodic and Laplacian kernels: K7 of the specification."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from mercer import Laplacian, Periodic
from mercer.errors import InvalidInput


def test_definitions():
    assert Periodic(2.0, 3.0)([[0.0]], [[1.0]])[0, 0] == pytest.approx(
        math.exp(-2 * math.sin(math.pi / 3) ** 2 / 4)
    )
    assert Laplacian(2.0)([[0.0, 0.0]], [[1.0, -3.0]])[0, 0] == pytest.approx(math.exp(-2.0))
    assert Laplacian([1.0, 3.0])([[0.0, 0.0]], [[1.0, -3.0]])[0, 0] == pytest.approx(math.exp(-2.0))


def test_periodic_multiplies_over_coordinates(rng):
    X = rng.standard_normal((8, 3))
    expected = np.prod([Periodic(0.7, 1.3)(X[:, [k]]) for k in range(3)], axis=0)
    np.testing.assert_allclose(Periodic(0.7, 1.3)(X), expected, atol=1e-13)


def test_equal_to_scikit_learn(rng):
    X, Y = rng.standard_normal((12, 1)), rng.standard_normal((9, 1))
    expected = gp.ExpSineSquared(length_scale=0.9, periodicity=1.4)(X, Y)
    np.testing.assert_allclose(Periodic(0.9, 1.4)(X, Y), expected, atol=1e-13)
    Z, W = rng.standard_normal((12, 4)), rng.standard_normal((9, 4))
    np.testing.assert_allclose(
        Laplacian(2.5)(Z, W), pairwise.laplacian_kernel(Z, W, gamma=1 / 2.5), atol=1e-13
    )


def test_a_whole_number_of_periods_away_is_the_same_point():
    K = Periodic(1.0, 2.0)([[0.3]], [[0.3], [2.3], [-1.7], [200.3]])
    np.testing.assert_allclose(K, 1.0, atol=1e-10)


def test_laplacian_is_exact_far_from_the_origin():
    X = 1e8 + np.arange(6.0)[:, None]
    expected = np.exp(-np.abs(np.arange(6.0)[:, None] - np.arange(6.0)))
    np.testing.assert_allclose(Laplacian()(X), expected, atol=1e-15)
    np.testing.assert_allclose(Laplacian()(X.astype(np.float32)).diagonal(), 1.0)


@pytest.mark.parametrize("name", ["length_scale", "period"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "scale", [1.0], None, True])
def test_periodic_parameters_are_positive_numbers(name, value):
    with pytest.raises(InvalidInput, match=f"Periodic: {name}"):
        Periodic(**{name: value})


def test_laplacian_gradient_is_a_subgradient_where_it_has_a_kink():
    assert Laplacian().gradient([[1.0]], [[1.0]], [1.0])[0, 0] == 0.0
