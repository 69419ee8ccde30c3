"""FITC's evidence: against n × n matrices, differences, the exact one, budgets and threads."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import RBF, Matern, Polynomial, Precomputed, White
from mercer.models.gp.regression.evidence import Evidence
from mercer.models.gp.sparse.evidence import FITC
from mercer.operators import sums
from tests.models.gp.sparse_oracles import dense_fitc, differences, exact_evidence

rng = np.random.default_rng(6)
N, M, D, T = 35, 6, 3, 2
X, U = rng.standard_normal((N, D)), rng.standard_normal((M, D))
Z = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]] + 0.1 * rng.standard_normal((N, T))
WEIGHTS = rng.integers(1, 4, N).astype(float)
NOISES = {"one": 0.1, "each": rng.uniform(0.05, 0.4, N)}
KERNELS = {
    "rbf": RBF(1.4),
    "ard": 1.7 * RBF([0.8, 1.5, 2.0]),
    "matern": Matern(1.2, nu=1.5) + 0.2 * Polynomial(2),
}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_value_is_that_of_the_definition(kernel, noise, weights):
    got = FITC(X, Z, weights).value(kernel, noise, U)
    expected = dense_fitc(kernel, X, Z, noise, U, weights)
    assert abs(got - expected) <= 1e-9 * abs(expected)


@pytest.mark.parametrize("weights", [None, WEIGHTS + 0.3], ids=["plain", "weights"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradient_is_that_of_differences(kernel, noise, weights):
    fitc = FITC(X, Z, weights)
    value, slope, noise_slope, moved = fitc.value_and_gradient(kernel, noise, U, points=True)
    assert value == pytest.approx(fitc.value(kernel, noise, U), rel=1e-12)
    expected = differences(lambda t: fitc.value(kernel.with_theta(t), noise, U), kernel.theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    expected = differences(lambda s: fitc.value(kernel, noise * np.exp(s[0]), U), np.zeros(1))
    assert noise_slope == pytest.approx(expected[0], rel=1e-6)
    expected = differences(lambda V: fitc.value(kernel, noise, V), U)
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_gradient_of_one_point_and_one_output():
    kernel, one, fitc = 1.3 * RBF(2.0), U[:1], FITC(X, Z[:, :1])
    _, slope, noise_slope, moved = fitc.value_and_gradient(kernel, 0.3, one, points=True)
    expected = differences(lambda t: fitc.value(kernel.with_theta(t), 0.3, one), kernel.theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    expected = differences(lambda s: fitc.value(kernel, 0.3 * np.exp(s[0]), one), np.zeros(1))
    assert noise_slope == pytest.approx(expected[0], rel=1e-6)
    expected = differences(lambda V: fitc.value(kernel, 0.3, V), one)
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-5])
def test_at_all_rows_it_is_the_evidence(noise):
    kernel = 1.3 * RBF(2.0)
    value, slope, noise_slope, _ = FITC(X, Z).value_and_gradient(kernel, noise, X)
    expected, theta, level = Evidence(X, Z).value_and_gradient(kernel, noise)
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(slope, theta, rtol=1e-5, atol=1e-5 * np.abs(theta).max())
    assert noise_slope == pytest.approx(level, rel=1e-5, abs=1e-5)


def test_variances_of_rows_are_those_of_the_kernel():
    far = FITC(X, Z).value(RBF(1.0), 0.2, U + 100.0)
    independent = exact_evidence(White(1.0), X, Z, 0.2)
    assert far == pytest.approx(independent, rel=1e-10)


def test_white_noise_of_the_kernel_is_noise():
    got = FITC(X, Z).value(RBF(1.2) + White(0.3), 0.2, U)
    assert got == pytest.approx(FITC(X, Z).value(RBF(1.2), 0.5, U), rel=1e-10)


def test_weights_are_repetition():
    kernel, index = RBF(1.1), np.repeat(np.arange(N), WEIGHTS.astype(int))
    once = FITC(X, Z, WEIGHTS).value_and_gradient(kernel, 0.2, U, points=True)
    many = FITC(X[index], Z[index]).value_and_gradient(kernel, 0.2, U, points=True)
    for a, b in zip(once, many, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_precomputed_takes_positions():
    kernel, index = RBF(1.2), np.array([3, 8, 30])
    got = FITC(kernel(X), Z).value_and_gradient(Precomputed(), 0.2, index)
    expected = FITC(X, Z).value_and_gradient(kernel, 0.2, X[index])
    assert got[0] == pytest.approx(expected[0], rel=1e-10)
    assert got[2] == pytest.approx(expected[2], rel=1e-9)


def test_posterior_is_that_of_its_covariance():
    kernel = 1.4 * RBF(1.1)
    fit = FITC(X, Z).posterior(kernel, 0.1, U)
    cross, new = kernel(U, X), rng.standard_normal((5, D))
    Q = cross.T @ np.linalg.solve(kernel(U), cross)
    C = Q + np.diag(kernel.diag(X) - Q.diagonal() + 0.1)
    expected = kernel(new, U) @ np.linalg.solve(kernel(U), cross @ np.linalg.solve(C, Z))
    np.testing.assert_allclose(kernel(new, U) @ fit.dual, expected, rtol=1e-8, atol=1e-9)
    assert fit.upper is None
    assert fit.residual < 1e-10


def test_tiles_budgets_and_threads(monkeypatch):
    points = np.random.default_rng(1).standard_normal((5000, 2))
    fitc, V = FITC(points, np.sin(points[:, :1])), points[:25].copy()
    kernel = 1.2 * RBF([0.9, 1.1])
    whole = fitc.value_and_gradient(kernel, 0.1, V, points=True)
    with mercer.config(memory=900_000):
        part = fitc.value_and_gradient(kernel, 0.1, V, points=True)
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max())
    monkeypatch.setattr(sums, "ENTRIES", 3000)
    bits = []
    for threads in (1, 3):
        with mercer.config(threads=threads):
            bits.append(fitc.value_and_gradient(kernel, 0.1, V, points=True))
    assert all(np.array_equal(a, b) for a, b in zip(*bits, strict=True))
