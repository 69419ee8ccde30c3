"""Kernels on numbers (K9): values, domains, and the identities that make them kernels."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    GCD,
    CosineDifference,
    ExpProduct,
    GCDOverLCM,
    Geometric,
    Laplacian,
    Minimum,
    MinMaxRatio,
)
from mercer.errors import InvalidInput

ALL = [CosineDifference, Minimum, MinMaxRatio, GCD, GCDOverLCM, Geometric, ExpProduct]


def test_values():
    assert Minimum()([2.0], [3.0])[0, 0] == 2.0
    assert MinMaxRatio()([2.0], [3.0])[0, 0] == pytest.approx(2 / 3)
    assert GCD()([12], [18])[0, 0] == 6.0
    assert GCDOverLCM()([12], [18])[0, 0] == pytest.approx(6 / 36)
    assert Geometric()([0.5], [-0.5])[0, 0] == pytest.approx(1 / 1.25)
    assert ExpProduct()([3.0], [-2.0])[0, 0] == 2.0**-6
    assert CosineDifference()([1.0], [3.0])[0, 0] == pytest.approx(math.cos(2.0))


def test_a_list_of_numbers_is_one_column():
    for kernel in (Minimum(), ExpProduct()):
        numbers = [0.5, 1.0, 2.0]
        np.testing.assert_array_equal(kernel(numbers), kernel(np.array(numbers)[:, None]))
        np.testing.assert_array_equal(kernel(numbers, [1.0]), kernel(numbers)[:, 1:2])
        np.testing.assert_array_equal(kernel.diag(numbers), np.diag(kernel(numbers)))


def test_gcd_is_a_sum_over_common_divisors():
    # gcd(a, b) = Σ over d dividing both of φ(d)
    n = 30
    totient = [sum(math.gcd(i, d) == 1 for i in range(1, d + 1)) for d in range(1, n + 1)]
    phi = np.array(
        [
            [math.sqrt(totient[d - 1]) * (a % d == 0) for d in range(1, n + 1)]
            for a in range(1, n + 1)
        ]
    )
    np.testing.assert_allclose(GCD()(np.arange(1, n + 1)), phi @ phi.T, atol=1e-12)


def test_min_max_ratio_is_a_laplacian_of_logarithms(rng):
    x = rng.uniform(0.1, 50, 20)
    expected = Laplacian()(np.log(x)[:, None])
    np.testing.assert_allclose(MinMaxRatio()(x), expected, atol=1e-13)


def test_min_max_ratio_at_zero():
    np.testing.assert_array_equal(MinMaxRatio()([0.0, 0.0, 2.0]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_several_columns_are_multiplied(rng):
    X = rng.uniform(0.1, 0.9, (6, 3))
    for kernel in (Minimum(), MinMaxRatio(), Geometric(), ExpProduct(), CosineDifference()):
        expected = np.prod([kernel(X[:, k]) for k in range(3)], axis=0)
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)


def test_cosine_difference_features(rng):
    X = rng.uniform(-9, 9, (7, 3))
    phi = CosineDifference().features(X)
    assert phi.shape == (7, 8) and CosineDifference().n_features(X) == 8
    np.testing.assert_allclose(phi @ phi.T, CosineDifference()(X), atol=1e-14)


def test_cosine_difference_of_large_numbers_stays_a_kernel(rng):
    K = CosineDifference()(1e12 * rng.standard_normal(40))
    assert np.linalg.eigvalsh(K)[0] > -1e-12


@pytest.mark.parametrize("a", [2**31 - 1, 2**40, 2**52 + 2, 2**53 - 1])
def test_large_whole_numbers_are_exact(a):
    b = 6
    assert GCD()(np.array([a]), np.array([b]))[0, 0] == math.gcd(a, b)
    assert GCDOverLCM()(np.array([a]), np.array([b]))[0, 0] == pytest.approx(
        math.gcd(a, b) / math.lcm(a, b), rel=1e-14
    )


@pytest.mark.parametrize(
    ("kernel", "bad"),
    [
        (Minimum(), [-1.0]),
        (Minimum(), [1.0, -1e-300]),
        (MinMaxRatio(), [-0.5]),
        (GCD(), [0]),
        (GCD(), [-4]),
        (GCD(), [1.5]),
        (GCD(), [2**53]),
        (GCD(), [2**53 + 1]),
        (GCDOverLCM(), [0]),
        (GCDOverLCM(), [2.5]),
        (Geometric(), [1.0]),
        (Geometric(), [-1.0]),
        (Geometric(), [3.0]),
    ],
    ids=lambda v: repr(v),
)
def test_numbers_outside_the_domain_are_named(kernel, bad):
    with pytest.raises(InvalidInput, match=r"X contains .*; legal are"):
        kernel(bad)
    good = [1] if isinstance(kernel, GCD | GCDOverLCM) else [0.5]
    with pytest.raises(InvalidInput, match="Y contains"):
        kernel(good, bad)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    "bad", [[math.nan], [math.inf], ["a"], None, [[[1.0]]], 3.0, [1 + 1j]], ids=repr
)
def test_what_is_no_number_is_refused(cls, bad):
    with pytest.raises(InvalidInput, match="X"):
        cls()(bad)


def test_ragged_lists_are_refused():
    with pytest.raises(InvalidInput, match="X"):
        Minimum()([[1.0], [1.0, 2.0]])


def test_negative_zero_and_the_end_points_are_inside():
    assert Minimum()([-0.0, 1.0])[0, 1] == 0.0
    assert GCD()([1])[0, 0] == 1.0
    assert np.isfinite(Geometric()([1 - 1e-15])).all()


def test_sparse_columns_of_numbers():
    X = sp.csr_array([[0.0], [2.0], [3.0]])
    np.testing.assert_array_equal(Minimum()(X), Minimum()([0.0, 2.0, 3.0]))


def test_gradients_of_the_smooth_ones(rng):
    for kernel in (Geometric(), ExpProduct(), CosineDifference()):
        x, y, c = (
            rng.uniform(-0.8, 0.8, (4, 2)),
            rng.uniform(-0.8, 0.8, (5, 2)),
            rng.standard_normal(5),
        )
        h = 1e-6
        for k in range(2):
            e = h * np.eye(2)[k]
            difference = (kernel(x + e, y) @ c - kernel(x - e, y) @ c) / (2 * h)
            np.testing.assert_allclose(
                kernel.gradient(x, y, c)[:, k], difference, rtol=1e-6, atol=1e-8
            )
    with pytest.raises(InvalidInput, match="no gradient"):
        Minimum().gradient([0.5], [0.6], [1.0])
