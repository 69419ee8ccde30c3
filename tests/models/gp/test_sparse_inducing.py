"""Inducing points: chosen, given, moved; never worse for being moved; what cannot be moved."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import (
    RBF,
    Exponential,
    FromFunction,
    GaussianProcessRegressor,
    Linear,
    Polynomial,
    SparseGaussianProcessRegressor,
)
from mercer.errors import InvalidInput
from tests.models.gp.sparse_data import KERNEL, METHODS, NEW, D, X, Y, kept, rng


def test_duplicates_and_low_rank_need_fewer_points():
    few = X[:6]
    model = kept().fit(np.repeat(few, 10, axis=0), np.repeat(Y[:6], 10))
    assert len(model.inducing_points_) == 6
    assert model.solution_.extra["jitter"] == 0.0
    assert "6 inducing points suffice" in model.solution_.message
    linear = SparseGaussianProcessRegressor(Linear(), 1.0, optimizer=None).fit(X, Y)
    assert len(linear.inducing_points_) == D
    exact = GaussianProcessRegressor(Linear(), 1.0, optimizer=None).fit(X, Y)
    np.testing.assert_allclose(linear.predict(NEW), exact.predict(NEW), rtol=1e-6)


def test_given_points_are_kept():
    U = rng.standard_normal((5, D))
    model = SparseGaussianProcessRegressor(KERNEL, inducing=U).fit(X, Y)
    np.testing.assert_array_equal(model.inducing_points_, U)
    again = clone(model).set_params(inducing=U.tolist()).fit(X, Y)
    np.testing.assert_allclose(again.predict(NEW), model.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_moving_points_gains(method):
    few = SparseGaussianProcessRegressor(KERNEL, n_inducing=5, method=method).fit(X, Y)
    moved = clone(few).set_params(inducing="optimize").fit(X, Y)
    gain = moved.log_marginal_likelihood_value_ - few.log_marginal_likelihood_value_
    assert gain > 1.0
    assert moved.inducing_points_.shape == (5, D)
    assert moved.solution_.converged
    assert moved.log_marginal_likelihood_value_ == pytest.approx(moved.search_.value, rel=1e-9)
    value, slope = moved.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(moved.log_marginal_likelihood_value_, rel=1e-9)
    assert np.abs(slope).max() < 0.5


def test_moving_points_stopped_early_says_so():
    with pytest.warns(mercer.errors.NotConverged, match="max_iter"):
        SparseGaussianProcessRegressor(
            KERNEL, n_inducing=6, inducing="optimize", max_iter=2, tol=1e-9
        ).fit(X, Y)


def test_moving_points_without_a_search_is_pivoted():
    a, b = kept(n_inducing=5, inducing="optimize").fit(X, Y), kept(n_inducing=5).fit(X, Y)
    np.testing.assert_array_equal(a.inducing_points_, b.inducing_points_)


def test_the_seed_decides_the_points():
    draws = [kept(n_inducing=5, random_state=s).fit(X, Y).inducing_points_ for s in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    for state in (np.random.RandomState(3), np.random.default_rng(3)):
        assert kept(n_inducing=5, random_state=state).fit(X, Y).inducing_points_.shape == (5, D)


# ------------------------------------------------------------------------------ moved points
def ordinary(seed, d, n=150):
    draw = np.random.default_rng(seed)
    points = draw.uniform(-2, 2, (n, d))
    y = np.sin(3 * points[:, 0]) + 0.3 * points[:, -1] ** 2 + 0.2 * draw.standard_normal(n)
    return points, y


@cache
def moved(seed, d, m, method):
    model = SparseGaussianProcessRegressor(
        1.0 * RBF(np.ones(d)), n_inducing=m, method=method, inducing="optimize"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(*ordinary(seed, d))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("seed", "d", "m"), [(1, 2, 12), (2, 3, 15), (5, 3, 8)])
def test_moving_points_converges_in_ordinary_problems(seed, d, m, method):
    model = moved(seed, d, m, method)
    assert model.solution_.converged and "gained" in model.search_.message


def test_a_stop_leaves_little_to_gain():
    points, y = ordinary(1, 2)
    model = moved(1, 2, 12, "vfe")
    longer = clone(model).set_params(tol=1e-6, max_iter=1000).fit(points, y)
    gain = longer.log_marginal_likelihood_value_ - model.log_marginal_likelihood_value_
    assert longer.search_.n_evaluations > model.search_.n_evaluations
    assert gain < 0.1


@pytest.mark.parametrize("kernel", [Polynomial(2), Exponential(), RBF([3.0, 3.0])], ids=repr)
def test_moving_points_is_never_worse_than_leaving_them(kernel):
    draw = np.random.default_rng(1)
    points = draw.uniform(0, 10, (80, 2))
    y = np.sin(points[:, 0]) + 0.1 * draw.standard_normal(80)
    still = SparseGaussianProcessRegressor(1.0 * kernel, n_inducing=15).fit(points, y)
    moved = clone(still).set_params(inducing="optimize").fit(points, y)
    value = still.log_marginal_likelihood_value_
    assert moved.log_marginal_likelihood_value_ >= value - 1e-6 * abs(value)
    assert moved.search_.n_evaluations > still.search_.n_evaluations


@pytest.mark.parametrize("inducing", ["pivoted", "optimize"])
@pytest.mark.parametrize("scale", [30.0, 1e6])
def test_a_start_far_off_finds_what_a_good_one_does(scale, inducing):
    draw = np.random.default_rng(1)
    points = draw.standard_normal((120, 2))
    y = np.sin(points[:, 0]) + 0.1 * draw.standard_normal(120)
    good, far = (
        SparseGaussianProcessRegressor(1.0 * RBF(s), n_inducing=20, inducing=inducing)
        for s in (1.0, scale)
    )
    expected = good.fit(points, y).log_marginal_likelihood_value_
    assert far.fit(points, y).log_marginal_likelihood_value_ > expected - 0.5
    assert len(far.inducing_points_) == len(good.inducing_points_) == 20


def test_few_points_of_a_short_kernel_do_not_leave_all_to_the_noise():
    draw = np.random.default_rng(5)
    points = draw.uniform(-2, 2, (500, 3))
    y = np.sin(3 * points[:, 0]) + 0.3 * points[:, -1] ** 2 + 0.2 * draw.standard_normal(500)
    model = SparseGaussianProcessRegressor(1.0 * RBF(np.ones(3)), n_inducing=20).fit(points, y)
    assert model.noise_ == pytest.approx(0.04, rel=0.3)
    assert "noise" not in model.solution_.message


def test_a_fit_that_takes_all_for_noise_says_so():
    draw = np.random.default_rng(1)
    points = draw.uniform(0, 10, (80, 2))
    y = np.sin(points[:, 0]) + 0.1 * draw.standard_normal(80)
    model = SparseGaussianProcessRegressor(n_inducing=1).fit(points, y)
    assert "taken for noise" in model.solution_.message and model.solution_.converged
    assert model.solution_.extra["evidence_gap"] < 0.1
    for other in (np.full(80, 3.0), y + points[:, 0]):
        model = SparseGaussianProcessRegressor(n_inducing=20).fit(points, other)
        assert "noise" not in model.solution_.message


def test_what_has_no_gradient_is_not_moved():
    function = FromFunction(lambda a, b: float(np.exp(-((a - b) ** 2).sum())))
    for kernel, data in ((function, X), ("precomputed", KERNEL(X))):
        model = SparseGaussianProcessRegressor(kernel, n_inducing=5, inducing="optimize")
        with pytest.raises(InvalidInput, match=r"Sparse.*inducing='optimize' moves.*'pivoted'"):
            model.fit(data, Y)


# ------------------------------------------------------------------------------ given points
def test_columns_of_given_points_go_by_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = kept(inducing=frame[:5]).fit(frame, Y)
    np.testing.assert_array_equal(np.asarray(model.inducing_points_), X[:5])
    with pytest.raises(InvalidInput, match=r"inducing: .*feature names"):
        kept(inducing=frame[["b", "a"]][:5]).fit(frame, Y)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (X[:3, :1], "1 columns, and the rows have 2"),
        (None, "is None.*'pivoted' or 'optimize'"),
        (5, "shape.*'pivoted' or 'optimize'"),
        ([["a", "b"]], "'pivoted' or 'optimize'"),
    ],
)
def test_what_are_no_points_is_told_with_owner_and_choices(given, text):
    with pytest.raises(InvalidInput, match=f"^SparseGaussianProcessRegressor: inducing.*{text}"):
        kept(inducing=given).fit(X, Y)
