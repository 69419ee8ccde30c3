"""Sparse regression: the exact process at m = n, units, weights, the search, domains, answers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.base import clone

from mercer import (
    RBF,
    Constant,
    FromFunction,
    GaussianProcessRegressor,
    Linear,
    Matern,
    SparseGaussianProcessRegressor,
)
from mercer.errors import InvalidInput
from mercer.testing.certificates.processes import dense_sparse_evidence
from tests.models.gp.sparse_data import KERNEL, METHODS, NEW, D, N, X, Y, kept, rng
from tests.models.gp.sparse_oracles import dense_fitc, dense_vfe, differences


# ------------------------------------------------------------------ the exact process
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weights", [None, rng.uniform(0.2, 3, N)], ids=["plain", "weights"])
def test_all_rows_give_the_exact_process(method, weights):
    exact = GaussianProcessRegressor(KERNEL, 0.4, optimizer=None).fit(X, Y, weights)
    model = kept(method=method, inducing=X).fit(X, Y, weights)
    if method == "vfe" or weights is None:
        value = exact.log_marginal_likelihood_value_
        assert model.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-6)
    for noise in (True, False, np.linspace(0.1, 1, len(NEW))):
        mean, std = model.predict(NEW, return_std=True, with_noise=noise)
        expected = exact.predict(NEW, return_std=True, with_noise=noise)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-6)
        np.testing.assert_allclose(std, expected[1], rtol=1e-6)
        cov = model.predict(NEW, return_cov=True, with_noise=noise)[1]
        expected = exact.predict(NEW, return_cov=True, with_noise=noise)[1]
        np.testing.assert_allclose(cov, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(np.sqrt(cov.diagonal()), std, rtol=1e-6)
    np.testing.assert_allclose(model.posterior_variance(NEW), exact.posterior_variance(NEW), 1e-6)


def test_tuned_with_all_rows_it_finds_what_the_exact_process_finds():
    exact = GaussianProcessRegressor(1.0 * RBF()).fit(X, Y)
    model = SparseGaussianProcessRegressor(1.0 * RBF()).fit(X, Y)
    value = exact.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, abs=0.01)
    np.testing.assert_allclose(model.predict(NEW), exact.predict(NEW), rtol=0.02)
    assert model.theta_names_ == exact.theta_names_
    assert model.solution_.converged
    assert model.solution_.extra["evidence_gap"] < 0.01


def test_the_posterior_with_few_points_is_that_of_q():
    model = kept(n_inducing=9, normalize_y=False).fit(X, Y)
    U, K = model.inducing_points_, KERNEL
    assert U.shape == (9, D)
    cross = K(U, X)
    Q = cross.T @ np.linalg.solve(K(U), cross) + 0.4 * np.eye(N)
    new = K(NEW, U) @ np.linalg.solve(K(U), cross)
    np.testing.assert_allclose(model.predict(NEW), new @ np.linalg.solve(Q, Y), rtol=1e-6)
    cov = K(NEW) - new @ np.linalg.solve(Q, new.T)
    got = model.predict(NEW, return_cov=True, with_noise=False)[1]
    np.testing.assert_allclose(got, cov, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_the_objective_is_of_y_in_its_own_units(method):
    model = kept(n_inducing=8, method=method).fit(X, Y)
    assert model.log_marginal_likelihood() == pytest.approx(
        dense_sparse_evidence(model, X, Y), rel=1e-8
    )
    dense = dense_vfe if method == "vfe" else dense_fitc
    z = ((Y - model.y_mean_) / model.y_scale_)[:, None]
    level = 0.4 / model.y_scale_[0] ** 2
    expected = dense(KERNEL, X, z, level, model.inducing_points_) - N * np.log(model.y_scale_[0])
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected, rel=1e-8)


def test_units_of_y_do_not_matter():
    one = SparseGaussianProcessRegressor(KERNEL, n_inducing=10).fit(X, Y)
    other = SparseGaussianProcessRegressor(KERNEL, n_inducing=10).fit(X, 1000 * Y - 5)
    np.testing.assert_allclose(other.noise_, 1e6 * one.noise_, rtol=1e-4)
    a, b = one.predict(NEW, return_std=True), other.predict(NEW, return_std=True)
    np.testing.assert_allclose(b[0], 1000 * a[0] - 5, rtol=1e-4)
    np.testing.assert_allclose(b[1], 1000 * a[1], rtol=1e-4)
    shift = N * np.log(1000)
    assert other.log_marginal_likelihood_value_ == pytest.approx(
        one.log_marginal_likelihood_value_ - shift, rel=1e-6
    )


# --------------------------------------------------------------- weights, noise, outputs
@pytest.mark.parametrize("method", METHODS)
def test_weights_are_repetition_with_few_points(method):
    w = rng.integers(0, 4, N)
    index = np.repeat(np.arange(N), w)
    once = kept(n_inducing=8, method=method).fit(X, Y, w)
    many = kept(n_inducing=8, method=method).fit(X[index], Y[index])
    np.testing.assert_array_equal(once.inducing_points_, many.inducing_points_)
    assert once.log_marginal_likelihood_value_ == pytest.approx(
        many.log_marginal_likelihood_value_, rel=1e-9
    )
    a, b = once.predict(NEW, return_std=True), many.predict(NEW, return_std=True)
    np.testing.assert_allclose(a, b, rtol=1e-8)


def test_the_order_of_rows_does_not_matter():
    order = rng.permutation(N)
    one, other = kept(n_inducing=8).fit(X, Y), kept(n_inducing=8).fit(X[order], Y[order])
    np.testing.assert_array_equal(one.inducing_points_, other.inducing_points_)
    np.testing.assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_known_noise_of_each_row(method):
    v = rng.uniform(0.1, 2.0, N)
    model = SparseGaussianProcessRegressor(KERNEL, v, method=method, inducing=X).fit(X, Y)
    exact = GaussianProcessRegressor(model.kernel_, v, optimizer=None).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), exact.predict(NEW), rtol=1e-5)
    got, expected = (m.predict(NEW, return_std=True)[1] for m in (model, exact))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert "noise" not in model.theta_names_
    np.testing.assert_allclose(model.noise_, v, rtol=1e-12)
    clone(model).set_params(fixed=("noise",)).fit(X, Y)


def test_outputs_share_a_kernel_and_their_objectives_add():
    both = np.c_[Y, 3 * np.cos(X[:, 1])]
    model = kept(n_inducing=12, normalize_y=False).fit(X, both)
    single = [kept(n_inducing=12, normalize_y=False).fit(X, y) for y in both.T]
    total = sum(m.log_marginal_likelihood_value_ for m in single)
    assert model.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-10)
    expected = np.stack([m.predict(NEW) for m in single], 1)
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9)
    assert model.predict(NEW, return_std=True)[1].shape == (9, 2)
    assert model.predict(NEW, return_cov=True)[1].shape == (9, 9, 2)
    assert model.sample_y(NEW, 4).shape == (9, 2, 4)
    one = kept().fit(X, Y[:, None])
    assert one.predict(NEW).shape == (9, 1)


# ------------------------------------------------------------------------------ the search
def test_gradient_at_other_parameters():
    model = SparseGaussianProcessRegressor(
        1.0 * RBF([1.0, 1.0]), n_inducing=10, priors={"noise": scipy.stats.gamma(2.0)}
    ).fit(X, Y)
    theta = model.theta_ + 0.2
    value, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(theta), rel=1e-12)
    expected = differences(model.log_marginal_likelihood, theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4)
    assert model.theta_names_[-1] == "noise"


def test_fixed_bounds_and_restarts():
    model = SparseGaussianProcessRegressor(
        KERNEL, 0.3, 10, fixed=("noise",), bounds={"k2__length_scale": (0.5, 0.6)}, n_restarts=2
    ).fit(X, Y)
    assert model.noise_ == pytest.approx(0.3)
    assert 0.5 <= model.kernel_.k2.length_scale <= 0.6 + 1e-12
    assert model.search_.n_evaluations > 0


def test_many_rows_are_searched_on_a_part_first():
    points = rng.uniform(-2, 2, (5000, 1))
    y = np.sin(3 * points[:, 0]) + 0.2 * rng.standard_normal(5000)
    model = SparseGaussianProcessRegressor(1.0 * RBF(), n_inducing=20).fit(points, y)
    assert model.search_.n_coarse > 0
    assert model.noise_ == pytest.approx(0.04, rel=0.1)
    assert model.solution_.extra["evidence_gap"] < 5.0
    inside = np.linspace(-1.9, 1.9, 50)[:, None]
    mean, std = model.predict(inside, return_std=True)
    np.testing.assert_allclose(mean, np.sin(3 * inside[:, 0]), atol=0.05)
    np.testing.assert_allclose(std, 0.2, rtol=0.1)


def test_one_inducing_point_converges():
    model = SparseGaussianProcessRegressor(n_inducing=1).fit(X, Y)
    assert model.solution_.converged and len(model.inducing_points_) == 1


def test_kernels_that_know_only_a_constant_or_nothing():
    flat = SparseGaussianProcessRegressor(Constant(2.0), 0.1, optimizer=None).fit(X, Y)
    np.testing.assert_allclose(flat.predict(NEW), Y.mean(), rtol=1e-9)
    assert flat.solution_.converged
    none = SparseGaussianProcessRegressor(Linear(), 0.1, optimizer=None).fit(0 * X, Y)
    np.testing.assert_allclose(none.predict(NEW), Y.mean(), rtol=1e-9)


# ------------------------------------------------------------------------ data of all kinds
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("inducing", ["pivoted", "optimize"])
def test_degenerate_data(method, inducing):
    Sparse = SparseGaussianProcessRegressor
    options = {"method": method, "inducing": inducing, "n_inducing": 5}
    constant = Sparse(**options).fit(X, np.full(N, 7.0))
    np.testing.assert_allclose(constant.predict(NEW), 7.0, atol=1e-6)
    one = Sparse(KERNEL, 0.1, optimizer=None, **options).fit(X[:1], Y[:1])
    np.testing.assert_allclose(one.predict(NEW), Y[0])
    assert np.isfinite(one.predict(NEW, return_std=True)[1]).all()
    for scale in (1e-8, 1e8):
        model = Sparse(1.0 * RBF("median"), **options).fit(X * scale, Y * scale)
        mean, std = model.predict(NEW * scale, return_std=True)
        assert np.isfinite(mean).all() and (std > 0).all()
        assert abs(model.predict(X * scale) / scale - Y).mean() < 5


def test_float32_and_sparse_rows():
    dense = kept(n_inducing=10).fit(X, Y)
    single = kept(n_inducing=10).fit(X.astype(np.float32), Y.astype(np.float32))
    assert single.predict(NEW.astype(np.float32)).dtype == np.float64
    np.testing.assert_allclose(single.predict(NEW), dense.predict(NEW), rtol=1e-2)
    for inducing in ("pivoted", "optimize", X[:7]):
        tuned = SparseGaussianProcessRegressor(KERNEL, n_inducing=7, inducing=inducing)
        a, b = clone(tuned).fit(sp.csr_array(X), Y), clone(tuned).fit(X, Y)
        np.testing.assert_allclose(
            a.predict(sp.csr_array(NEW), return_std=True), b.predict(NEW, return_std=True), 0.05
        )


def test_objects_and_precomputed():
    words = [f"{'ab' * (i % 7)}{'c' * (i % 5)}" for i in range(40)]
    kernel = FromFunction(lambda a, b: float(np.exp(-abs(len(a) - len(b)))))
    y = np.array([len(w) for w in words], dtype=float)
    model = SparseGaussianProcessRegressor(kernel, 0.1, n_inducing=6).fit(words, y)
    assert len(model.inducing_points_) == 6
    assert model.predict(["ab", "abc"]).shape == (2,)
    assert (model.predict(words[:3], return_std=True)[1] > 0).all()
    with pytest.raises(InvalidInput, match="pivoted"):
        SparseGaussianProcessRegressor(kernel, 0.1, 6, inducing="optimize").fit(words, y)
    w = np.r_[np.zeros(4), np.ones(N - 4)]
    index = np.array([0, 3, 20])
    given = kept(inducing=index).set_params(kernel="precomputed").fit(KERNEL(X), Y, w)
    np.testing.assert_array_equal(given.inducing_points_, index + 4)
    expected = kept(inducing=X[index + 4]).fit(X, Y, w)
    np.testing.assert_allclose(given.predict(KERNEL(NEW, X)), expected.predict(NEW), rtol=1e-8)
    with pytest.raises(InvalidInput, match=r"k\(x, x\)"):
        given.predict(KERNEL(NEW, X), return_std=True)


def test_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    kernel = RBF().on("a") * Matern(2.0).on("b")
    model = SparseGaussianProcessRegressor(kernel, n_inducing=8).fit(frame, Y)
    assert model.predict(frame[:3]).shape == (3,)
    assert list(model.feature_names_in_) == ["a", "b"]


# -------------------------------------------------------------------------------- answers
def test_samples_have_the_moments_told():
    model = kept(n_inducing=8).fit(X, Y)
    draws = model.sample_y(NEW[:3], 20_000, random_state=1)
    mean, cov = model.predict(NEW[:3], return_cov=True)
    spread = np.sqrt(cov.diagonal())
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * spread.max() / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.05 * cov.max())
    np.testing.assert_array_equal(draws, model.sample_y(NEW[:3], 20_000, random_state=1))


def test_before_fit_the_prior_answers():
    model = SparseGaussianProcessRegressor(KERNEL, 0.5)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(std, np.sqrt(1.7))
    assert model.sample_y(NEW, 3).shape == (9, 3)
    np.testing.assert_allclose(model.posterior_variance(NEW), 1.2)


def test_function_and_coefficients():
    model = kept(n_inducing=30).fit(X, Y)
    np.testing.assert_allclose(model.function_(NEW), model.predict(NEW), rtol=1e-12)
    assert model.dual_coef_.shape == (30,)
    assert model.score(X, Y) > 0.9
