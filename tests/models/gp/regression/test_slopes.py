"""Gradients of the posterior mean and variance against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from mercer import (
    RBF,
    FromFunction,
    GaussianProcessRegressor,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from mercer.errors import InvalidInput, speaking_for
from mercer.kernels import Laplacian, Minimum
from mercer.models.gp.regression import posterior as slopes
from mercer.models.gp.regression.data import Basis
from mercer.models.gp.regression.evidence import Evidence
from mercer.models.gp.regression.posterior import Posterior, variance_slopes

KERNELS = {
    "rbf": RBF(0.9),
    "ard": 2.0 * RBF([0.7, 1.5]),
    "matern-1/2": Matern(1.0, 0.5),
    "matern-3/2": Matern([0.8, 2.0], 1.5),
    "matern-5/2": 0.5 * Matern(1.2, 2.5),
    "rational": RationalQuadratic(1.0, 0.7),
    "periodic": Periodic(1.5, 2.5),
    "laplacian": Laplacian(1.3),
    "linear": Linear() + 0.5,
    "polynomial": 0.1 * Polynomial(3, 1.0),
    "sum": RBF(0.5) + 0.2 * Polynomial(2) + White(0.1),
    "product": RBF(1.5) * Linear() + Matern(2.0),
    "columns": RBF(0.6).on([1]) * Linear().on(0) + Periodic(1.0, 3.0).on([0]),
    "normalized": (RBF() + Polynomial(2)).normalized(),
    "power": (0.3 * RBF() + Linear()) ** 2,
    "noisy-slope": RBF() + White(0.5) * Linear(),
}
BASES = {
    "zero": None,
    "constant": Basis(),
    "linear": Basis(np.array([0.1, -0.3]), np.array([0.8, 1.3])),
    "one column": Basis(np.array([0.1, -0.3]), np.array([0.0, 1.3])),
}


def differences(f, X, h=1e-5):
    """Central differences with one step of Richardson; f maps (m, d) to (m, …)."""
    parts = []
    for j in range(X.shape[1]):
        e = np.zeros(X.shape[1])
        e[j] = h
        narrow, wide = ((f(X + s * e) - f(X - s * e)) / (2 * s * h) for s in (1, 2))
        parts.append((4 * narrow - wide) / 3)
    return np.stack(parts, axis=1)


def posterior(rng, kernel, basis):
    X = rng.uniform(-2, 2, (15, 2))
    H = None if basis is None else basis.columns(X, 15)
    fit = Evidence(X, rng.standard_normal((15, 1)), None, H).posterior(kernel, 0.05)
    return Posterior(kernel, X, fit, basis)


@pytest.mark.parametrize("basis", BASES.values(), ids=list(BASES))
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_variance(rng, kernel, basis, monkeypatch):
    p, X = posterior(rng, kernel, basis), rng.uniform(-2, 2, (7, 2))
    expected = differences(lambda Z: p.moments(Z)[1], X)
    size = max(np.abs(expected).max(), 1e-2)
    np.testing.assert_allclose(variance_slopes(p, X), expected, atol=2e-6 * size)
    whole = variance_slopes(p, X)
    monkeypatch.setattr(slopes, "SLOPE_ROWS", 3)
    np.testing.assert_allclose(variance_slopes(p, X), whole, rtol=1e-12, atol=1e-12)


def test_variance_at_the_rows_themselves_is_stationary_without_noise(rng):
    p = posterior(rng, RBF(0.9), None)
    fit = Evidence(p.points, rng.standard_normal((15, 1))).posterior(RBF(0.9), 1e-9)
    p = Posterior(RBF(0.9), p.points, fit, None)
    assert np.abs(variance_slopes(p, p.points)).max() < 1e-4


def test_no_points(rng):
    for basis in BASES.values():
        p = posterior(rng, KERNELS["sum"], basis)
        assert variance_slopes(p, np.zeros((0, 2))).shape == (0, 2)


def test_a_kernel_without_slopes_says_so(rng):
    X = rng.uniform(0, 2, (6, 1))
    fit = Evidence(X, rng.standard_normal((6, 1))).posterior(Minimum(), 0.1)
    with pytest.raises(InvalidInput, match="no gradient in x"), speaking_for("GP"):
        variance_slopes(Posterior(Minimum(), X, fit, None), X)


# ------------------------------------------------------------------------------------ the model
def fitted(rng, kernel, mean, outputs):
    X = rng.uniform(-2, 2, (15, 2))
    y = 40 + 7 * np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.column_stack([y, 0.01 * y**2])[:, :outputs] if outputs else y
    noise = 0.05 if outputs < 2 else "fit"
    optimizer = None if outputs < 2 else "lbfgs"
    options = {"optimizer": optimizer, "mean": mean, "fixed": ("kernel",)}
    return GaussianProcessRegressor(kernel, noise, **options).fit(X, y)


@pytest.mark.parametrize("outputs", [0, 1, 2])
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("name", ["ard", "matern-5/2", "periodic", "polynomial", "columns"])
def test_model(rng, name, mean, outputs):
    model = fitted(rng, KERNELS[name], mean, outputs)
    X = rng.uniform(-2, 2, (6, 2))
    for got, f in (
        (model.mean_gradient(X), model.predict),
        (model.variance_gradient(X), model.posterior_variance),
    ):
        expected = differences(f, X)
        assert got.shape == ((6, 2, outputs) if outputs else (6, 2))
        size = np.abs(expected).max(axis=(0, 1))
        assert (np.abs(got - expected).max(axis=(0, 1)) <= 1e-6 * size).all()


def test_points_of_other_kinds(rng):
    model = fitted(rng, KERNELS["ard"], "linear", 0)
    X = rng.uniform(-2, 2, (4, 2))
    for verb in (model.mean_gradient, model.variance_gradient):
        expected = verb(X)
        for other in (X.tolist(), sp.csr_array(X), np.asfortranarray(X)):
            np.testing.assert_allclose(verb(other), expected, rtol=1e-12)
        np.testing.assert_allclose(verb(X.astype(np.float32)), expected, rtol=1e-4, atol=1e-4)
        assert verb(X[:1]).shape == (1, 2)


def test_tables(rng):
    table = {"a": rng.standard_normal(8), "b": rng.standard_normal(8), "c": list("uvuvuvuv")}
    kernel = RBF(0.8).on("b") + Linear().on(["a"])
    model = GaussianProcessRegressor(kernel, 0.1, optimizer=None).fit(table, rng.standard_normal(8))
    step = 1e-5
    up, down = ({**table, "b": table["b"] + s * step} for s in (1, -1))
    for got, f in (
        (model.mean_gradient(table), model.predict),
        (model.variance_gradient(table), model.posterior_variance),
    ):
        assert got.shape == (8, 3) and (got[:, 2] == 0).all()
        np.testing.assert_allclose(got[:, 1], (f(up) - f(down)) / (2 * step), rtol=1e-4, atol=1e-7)


def test_refusals(rng):
    y = rng.standard_normal(5)
    words = FromFunction(lambda a, b: float(a == b))
    model = GaussianProcessRegressor(words, 0.1, optimizer=None).fit(list("abcde"), y)
    for verb in (model.mean_gradient, model.variance_gradient):
        with pytest.raises(InvalidInput, match="rows of numbers"):
            verb(list("ab"))
    model = GaussianProcessRegressor(Minimum(), 0.1, optimizer=None).fit(np.arange(5.0)[:, None], y)
    for verb in (model.mean_gradient, model.variance_gradient):
        with pytest.raises(InvalidInput, match="no gradient in x"):
            verb([[1.5]])
    model = GaussianProcessRegressor("precomputed", 0.1, optimizer=None).fit(np.eye(5), y)
    for verb in (model.mean_gradient, model.variance_gradient):
        with pytest.raises(InvalidInput, match=r"gradient in x"):
            verb(np.eye(5))
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None).fit(rng.standard_normal((5, 2)), y)
    for verb in (model.mean_gradient, model.variance_gradient):
        with pytest.raises(InvalidInput, match="features"):
            verb([[1.0]])
    with pytest.raises(NotFittedError):
        GaussianProcessRegressor().mean_gradient([[1.0]])
