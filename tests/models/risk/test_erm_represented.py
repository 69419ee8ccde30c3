"""Coefficients for weights of features: inside the box, shortest, and weights no row sees."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelERM, Polynomial
from mercer.kernels import Linear
from mercer.models.risk.kinked_features import DualFeatures, Represented, coefficients, in_span


def test_coefficients_stay_in_the_box_where_they_can():
    rng = np.random.default_rng(1)
    F, a = rng.standard_normal((40, 3)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    a[:8] = rng.uniform(-0.5, 0.5, 8)
    v, one = F.T @ a, np.ones(40)
    same = Represented(DualFeatures(F, np.zeros(3)), v, 1.0, False)
    assert same.inside(a, -one, one) is a and same.exact(a) is a
    near = a.copy()
    near[:8] += 1e-4 * rng.standard_normal(8)
    found = same.inside(near, -one, one)
    np.testing.assert_allclose(F.T @ found, v, rtol=1e-9)
    np.testing.assert_array_equal(found[8:], a[8:])
    assert same.inside(a, 0.1 * one, 0.1 * one) is a
    np.testing.assert_allclose(same.exact(1e12 * a), np.linalg.pinv(F.T) @ v, rtol=1e-10)


@pytest.mark.parametrize("units", [1.0, np.array([1.0, 1e6, 1e-6, 1.0])])
def test_weights_that_no_row_sees_go_and_no_others(units):
    rng = np.random.default_rng(2)
    F = rng.standard_normal((30, 4)) * units
    v = rng.standard_normal(4)
    np.testing.assert_array_equal(in_span(F, v), v)
    F[:, 3] = 2.0 * F[:, 0]
    seen = in_span(F, v)
    np.testing.assert_allclose(F @ seen, F @ v, rtol=1e-12, atol=1e-12 * abs(F @ v).max())
    assert abs(seen @ [2.0, 0.0, 0.0, -1.0]) <= 1e-10  # what F does not see
    assert in_span(np.zeros((3, 0)), np.zeros(0)).shape == (0,)
    assert not in_span(np.zeros((5, 2)), np.ones(2)).any()


@pytest.mark.parametrize("offset", [True, False])
def test_several_functions_and_far_points(offset):
    rng = np.random.default_rng(3)
    X = 5.0 + rng.standard_normal((50, 3))
    a = rng.standard_normal((50, 2))
    a -= offset * a.mean(axis=0)
    v = X.T @ a
    np.testing.assert_allclose(coefficients(Linear(), X, v, a, X[:, 0], offset), a, rtol=1e-12)
    found = coefficients(Linear(), X, v, 1e10 * a, X[:, 0], offset)
    assert found.shape == (50, 2) and np.linalg.norm(found) <= np.linalg.norm(a)
    middle = X - X.mean(axis=0)  # offsets take up the rest
    np.testing.assert_allclose(
        middle @ (X.T @ found), middle @ v, atol=1e-8 * abs(middle @ v).max()
    )
    assert not offset or abs(found.sum(axis=0)).max() <= 1e-12 * abs(found).sum()


def test_the_better_of_two_bad_coefficients_is_kept():
    """Features of nearly one value: the shortest coefficients miss the function by far more."""
    rng = np.random.default_rng(0)
    X = 100 + 0.1 * rng.normal(size=(20, 6))
    y = rng.normal(size=20)
    model = KernelERM(Polynomial(2), "absolute", 1e-5, fit_intercept=False).fit(X, y)
    assert np.abs(model.function_(X) - model.predict(X)).max() < 1.0
