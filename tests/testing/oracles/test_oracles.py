"""The oracles themselves, by hand; and that they are honest about what they do not know."""

import math

import numpy as np
import pytest
from scipy.special import kv

from mercer import RBF, Constant, Linear, Matern, Minimum, Precomputed, White
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.testing import double_loop, oracle
from mercer.testing.checks import matern_integral


@pytest.mark.parametrize("nu", [0.5, 0.8, 1.0, 2.3, 4.9, 5.1, 12.0])
@pytest.mark.parametrize("z", [1e-3, 0.1, 1.0, 5.0, 40.0])
def test_the_integral_is_the_bessel_form(nu, z):
    expected = 2 ** (1 - nu) / math.gamma(nu) * z**nu * kv(nu, z)
    assert matern_integral(nu, z) == pytest.approx(expected, rel=1e-12)


def test_the_integral_in_closed_form():
    for r in (0.0, 0.3, 2.0, 30.0):
        assert matern_integral(0.5, r) == pytest.approx(math.exp(-r), rel=1e-13)
        assert matern_integral(1.5, r) == pytest.approx((1 + r) * math.exp(-r), rel=1e-13)
        s = r / math.sqrt(2e10)  # ν → ∞ is exp(−r²/2)
        assert matern_integral(1e10, 2e10 * s) == pytest.approx(math.exp(-0.5 * r * r), abs=1e-7)


def test_one_observation_is_one_object():
    x = np.zeros(2)
    assert oracle(White(0.5), x, x) == 0.5
    assert oracle(White(0.5), x, x.copy()) == 0.0
    np.testing.assert_array_equal(double_loop(White(0.5), np.zeros((2, 1))), 0.5 * np.eye(2))
    np.testing.assert_array_equal(double_loop(White(0.5), np.zeros((2, 1)), np.zeros((1, 1))), 0.0)
    on = (White(0.5) + Constant(1.0)).on([0])
    np.testing.assert_array_equal(
        double_loop(on, np.zeros((2, 2))), np.ones((2, 2)) + 0.5 * np.eye(2)
    )


def test_points_of_every_kind():
    assert double_loop(Minimum(), [1.0, 3.0]).tolist() == [[1, 1], [1, 3]]
    table = Table({"a": [1.0, 2.0], "b": ["x", "y"]})
    assert double_loop(Linear().on("a"), table).tolist() == [[1, 2], [2, 4]]
    K = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_array_equal(double_loop(Precomputed(), K), K)
    np.testing.assert_array_equal(double_loop(Precomputed(), K[:1], np.array([1, 0])), [[1, 2]])
    assert double_loop(RBF("median"), [[0.0], [2.0]])[0, 1] == pytest.approx(math.exp(-0.5))
    assert double_loop(Matern(), np.zeros((0, 2))).shape == (0, 0)


def test_an_unknown_kernel_is_named():
    class Unknown(Kernel):
        pass

    with pytest.raises(InvalidInput, match="no formula for Unknown"):
        oracle(Unknown(), 0.0, 0.0)
