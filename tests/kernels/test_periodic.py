"""Periodic and Laplacian kernels: K7 of the specification."""

import math
from fractions import Fraction

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


def by_definition(X, Y, scale, period):
    """The formula in rational arithmetic up to the sine: no rounding of x − y or of its period."""
    K = np.empty((len(X), len(Y)))
    p = Fraction(period)
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            gaps = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(x, y, strict=True)]
            turns = [float((gap - p * round(gap / p)) / p) for gap in gaps]
            K[i, j] = math.exp(-2 * sum(math.sin(math.pi * t) ** 2 for t in turns) / scale**2)
    return K


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("period", [1.0, 0.1, 3.7])
@pytest.mark.parametrize("far", [1.0, 1e5])
def test_far_points_and_short_scales(scale, period, far, rng):
    X = far * rng.standard_normal((12, 2))
    X[6:] = X[:6] + 0.3 * scale * period * rng.standard_normal((6, 2))
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        Z = X.astype(dtype)
        expected = by_definition(Z, Z, scale, period)
        for K in (Periodic(scale, period)(Z), Periodic(scale, period)(Z, Z.copy())):
            assert K.dtype == dtype
            np.testing.assert_allclose(K, expected, atol=tolerance)


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_derivatives_of_short_scales(scale, kind, rng, request):
    X = rng.standard_normal((9, 2))
    X[4:8] = X[:4] + 0.2 * scale * rng.standard_normal((4, 2)) + [1.0, -2.0]  # periods apart too
    W, c, h = rng.standard_normal((9, 9)), rng.standard_normal(9), 1e-6
    k = Periodic(scale, 1.0)
    steps = np.array([1.0, min(1.0, scale)])  # in the period k moves fast when the scale is short

    def moved(t):
        return (W * k.with_theta(k.theta + h * t)(X)).sum()

    expected = [(moved(e) - moved(-e)) / (2 * h * e.max()) for e in np.diag(steps)]
    wanted = np.zeros((9, 2))
    for i, column in np.ndindex(9, 2):
        step = np.zeros((1, 2))
        step[0, column] = h * scale
        up, down = k(X[[i]] + step, X) @ c, k(X[[i]] - step, X) @ c
        wanted[i, column] = (up - down)[0] / (2 * h * scale)
    if kind == "torch":
        X = request.getfixturevalue("torch").as_tensor(X)
    np.testing.assert_allclose(np.asarray(k.theta_vjp(X, W)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(k.gradient(X, X, c)) * scale, wanted * scale, atol=1e-5)


def test_torch_agrees_and_differentiates(torch, rng):
    X = rng.standard_normal((7, 2))
    for scale in (1.0, 1e-4):
        k = Periodic(scale, 0.7)
        for dtype in (torch.float64, torch.float32):
            T = torch.as_tensor(X, dtype=dtype)
            got = k(T)
            assert got.dtype == dtype
            np.testing.assert_allclose(got.numpy(), k(T.numpy()), atol=1e-6)
        T = torch.as_tensor(X).requires_grad_(True)
        k(T, torch.as_tensor(X[:3])).sum().backward()
        expected = k.gradient(X, X[:3], np.ones(3))
        np.testing.assert_allclose(T.grad.numpy(), expected, atol=1e-7 / scale)


def test_tiny_scales_give_the_identity_and_finite_derivatives(rng):
    X = rng.standard_normal((5, 2))
    for scale in (1e-160, 1e-300):
        k = Periodic(scale, 1.3)
        np.testing.assert_array_equal(k(X), np.eye(5))
        assert np.isfinite(k.theta_vjp(X, np.ones((5, 5)))).all()
        assert np.isfinite(k.gradient(X, X, np.ones(5))).all()


def test_the_diagonal_does_not_depend_on_the_parameters(rng):
    X, W = rng.standard_normal((6, 1)), rng.standard_normal((6, 6))
    k = Periodic(0.8, 1.7)
    np.testing.assert_allclose(k.normalized().theta_vjp(X, W), k.theta_vjp(X, W), atol=1e-13)
