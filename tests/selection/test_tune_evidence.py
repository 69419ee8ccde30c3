"""tune by evidence: against densities, finite differences, and scikit-learn's Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as gk

from mercer import (
    RBF,
    SVC,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    RationalQuadratic,
    TableRegressor,
    tune,
)
from mercer.errors import InvalidInput
from mercer.estimator.sample import Sample
from mercer.models.ridge.exact import LeastSquares
from mercer.selection.tuning.gradient import EvidenceSearch, evidence_gradient, evidence_path

rng = np.random.default_rng(4)
X = rng.standard_normal((25, 2))
Y = np.c_[np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(25), 1e3 * X[:, 1] ** 2]
W = rng.uniform(0.3, 3, 25)
KERNELS = [RBF([1.0, 2.0]) + 0.5 * Linear(), Matern(1.3) * RationalQuadratic(1.0, 2.0)]


def covariance(kernel, alpha, weights):
    return kernel(X) + alpha * np.diag(1 / (np.ones(25) if weights is None else weights))


@pytest.mark.parametrize("weights", [None, W], ids=["even", "uneven"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_is_the_density_at_the_best_scale(kernel, weights):
    value = evidence_gradient(LeastSquares(kernel, X, Y, weights, False), 0.3)[0]
    C, want = covariance(kernel, 0.3, weights), 0.0
    for y in Y.T:
        best = minimize_scalar(
            lambda s, y=y: -multivariate_normal(np.zeros(25), np.exp(s) * C).logpdf(y),
            bounds=(-20, 30),
            method="bounded",
            options={"xatol": 1e-8},
        )
        want += best.fun
    assert value == pytest.approx(want, rel=1e-9)


def test_offset_is_integrated_out():
    kernel, y, alpha = KERNELS[0], Y[:, 0] + 3.0, 0.2
    value = evidence_gradient(LeastSquares(kernel, X, y[:, None], W, True), alpha)[0]
    C = covariance(kernel, alpha, W)
    Ci = np.linalg.inv(C)
    ones = np.ones(25)
    P = Ci - np.outer(Ci @ ones, Ci @ ones) / (ones @ Ci @ ones)
    s2 = y @ P @ y / 24
    density = multivariate_normal(np.zeros(25), s2 * C)
    centre, top = 3.0, density.logpdf(y - 3.0)
    mass = quad(lambda b: np.exp(density.logpdf(y - b) - top), centre - 60, centre + 60, limit=500)
    assert value == pytest.approx(-(np.log(mass[0]) + top), rel=1e-7)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, W], ids=["even", "uneven"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient(kernel, weights, offset):
    def value(k, alpha):
        return evidence_gradient(LeastSquares(k, X, Y, weights, offset), alpha)[0]

    _, G, in_alpha = evidence_gradient(LeastSquares(kernel, X, Y, weights, offset), 0.3)
    h = 1e-5
    slope = (value(kernel, 0.3 * np.exp(h)) - value(kernel, 0.3 * np.exp(-h))) / (2 * h)
    assert in_alpha == pytest.approx(slope, rel=1e-5, abs=1e-6)
    gradient = kernel.theta_vjp(X, G)
    for i, step in enumerate(h * np.eye(len(kernel.theta))):
        up = value(kernel.with_theta(kernel.theta + step), 0.3)
        down = value(kernel.with_theta(kernel.theta - step), 0.3)
        assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6)
    search = EvidenceSearch(Sample(kernel, X, Y, weights, column=False), offset, 99, None, None)
    point = np.append(kernel.theta, -1.0)
    _, gradient = search._objective(point)
    for i, step in enumerate(h * np.eye(len(point))):
        up, down = search._objective(point + step)[0], search._objective(point - step)[0]
        assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("offset", [False, True])
def test_path_is_that_of_single_penalties(offset):
    problem = LeastSquares(KERNELS[0], X, Y, W, offset)
    alphas = np.logspace(-4, 3, 8)
    each = [evidence_gradient(problem, alpha)[0] for alpha in alphas]
    np.testing.assert_allclose(evidence_path(problem, alphas), each, rtol=1e-9)


def test_agrees_with_a_gaussian_process():
    x = np.sort(rng.uniform(0, 6, 40))[:, None]
    y = 3 * np.sin(2 * x[:, 0]) + 0.3 * rng.standard_normal(40)
    result = tune(KernelRidge(RBF(1.0)), x, y, criterion="evidence")
    kernel = gk.ConstantKernel(1.0, (1e-3, 1e4)) * gk.RBF(1.0) + gk.WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0).fit(x, y)
    assert result.score == pytest.approx(-peer.log_marginal_likelihood_value_, rel=1e-5)
    found = np.exp(peer.kernel_.theta)
    assert result.params["kernel__length_scale"] == pytest.approx(found[1], rel=0.02)
    assert result.params["alpha"] == pytest.approx(found[2] / found[0], rel=0.1)
    new = np.linspace(0, 6, 9)[:, None]
    np.testing.assert_allclose(result.predict(new), peer.predict(new), atol=0.02)
    assert result.converged and "minus log evidence" in str(result)
    assert min(row["error"] for row in result.table) == pytest.approx(result.score)


def test_ends_where_the_slope_is_zero():
    y = Y[:, 0]
    result = tune(KernelRidge(RBF([1.0, 1.0]), fit_intercept=True), X, y, criterion="evidence")
    search = EvidenceSearch(Sample(result.model.kernel_, X, y[:, None], None), True, 99, None, 0)
    mean = search._mean_diagonal(result.model.kernel_)[0]
    point = np.append(result.model.kernel_.theta, np.log(result.params["alpha"] / mean))
    value, slope = search._objective(point)
    inside = np.exp(point[:-1]) < 900  # a scale without influence runs to its limit
    assert np.abs(slope[:-1][inside]).max() < 0.02 and abs(slope[-1]) < 0.02
    assert search.in_units(value * search._level(1.0)[1]) == pytest.approx(result.score)


def test_units_of_the_target_and_shifts():
    y = Y[:, 0]
    a = tune(KernelRidge(RBF(), fit_intercept=True), X, y, criterion="evidence")
    for scale, shift in ((1e-150, 0.0), (1e150, 0.0), (1.0, 1e4)):
        b = tune(KernelRidge(RBF(), fit_intercept=True), X, scale * y + shift, criterion="evidence")
        assert b.params["alpha"] == pytest.approx(a.params["alpha"], rel=1e-2)
        assert b.score == pytest.approx(a.score + 24 * np.log(scale), rel=1e-6, abs=1e-4)


def test_weights_are_precisions_and_rows_of_weight_zero_are_absent():
    y, w = Y[:, 0], np.r_[np.zeros(5), W[5:]]
    a = tune(KernelRidge(RBF()), X, y, w, criterion="evidence")
    b = tune(KernelRidge(RBF()), X[5:], y[5:], W[5:], criterion="evidence")
    assert a.score == pytest.approx(b.score, rel=1e-8)
    c = tune(KernelRidge(RBF()), X[5:], y[5:], 2 * W[5:], criterion="evidence")
    assert c.score == pytest.approx(b.score, rel=1e-5)
    assert c.params["alpha"] == pytest.approx(2 * b.params["alpha"], rel=0.05)


def test_classifier_table_and_limits():
    labels = np.where(X[:, 0] > 0, "up", "down")
    result = tune(KernelRidgeClassifier(), X, labels, criterion="evidence")
    assert (result.predict(X) == labels).mean() > 0.9
    signs = np.where(labels == "up", 1.0, -1.0)
    same = tune(KernelRidge("rbf", fit_intercept=True), X, signs, criterion="evidence")
    assert same.score == pytest.approx(result.score, rel=1e-4)
    table = {"a": X[:, 0], "b": X[:, 1]}
    one = tune(TableRegressor("rbf"), table, 7 * Y[:, 0] + 5, criterion="evidence")
    two = tune(TableRegressor("rbf"), table, Y[:, 0], criterion="evidence")
    assert one.score == pytest.approx(two.score + 25 * np.log(7), rel=1e-6)
    late = tune(KernelRidge(), X, Y, criterion="evidence", max_time=0.0)
    assert not late.converged and len(late.table) == 1 and "max_time" in late.message
    some = tune(KernelRidge(), X, Y, criterion="evidence", max_points=10)
    assert some.n_points == 10 and "10 of 25" in some.message


def test_refusals():
    for y, offset in (
        (np.full(25, 2.0), True),
        (np.zeros(25), False),
        (np.c_[X[:, 0], X[:, 0] * 0], False),
    ):
        with pytest.raises(InvalidInput, match="no maximum"):
            tune(KernelRidge(RBF(), fit_intercept=offset), X, y, criterion="evidence")
    with pytest.raises(InvalidInput, match=r"'loo' and 'cv'.*evidence that of ridge models"):
        tune(SVC(), X, X[:, 0] > 0, criterion="evidence")
    with pytest.raises(InvalidInput, match="'loo' and 'evidence' and 'cv'"):
        tune(KernelRidge(), X, Y, criterion="bic")
    with pytest.raises(InvalidInput, match="NaN"):
        tune(KernelRidge(), X, Y * np.nan, criterion="evidence")


def test_constant_y_without_an_offset_is_fine():
    result = tune(KernelRidge(RBF()), X, np.full(25, 2.0), criterion="evidence")
    np.testing.assert_allclose(result.predict(X), 2.0, atol=0.05)
