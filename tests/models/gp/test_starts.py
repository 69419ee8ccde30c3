"""Where a search begins and ends: units of y and of x, targets without spread, doubts, periods."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import (
    RBF,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Linear,
    Matern,
    Periodic,
    SparseGaussianProcessRegressor,
)
from mercer.kernels import with_median
from mercer.models.gp.search import maximise
from mercer.models.gp.starts import doubts

GP = GaussianProcessRegressor


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (40, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# ---------------------------------------------------------------------------------- units of y
@pytest.mark.parametrize("mean", ["constant", "linear"])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_an_offset_that_the_mean_explains_does_not_bound_the_noise(data, mean, offset):
    X, y = data
    line = y + offset + (300 * X[:, 0] if mean == "linear" else 0.0)
    model = GP(mean=mean, normalize_y=False).fit(X, line)
    assert 0.005 < model.noise_ < 0.03
    scaled = GP(mean=mean).fit(X, line)
    np.testing.assert_allclose(model.predict(X) - line, scaled.predict(X) - line, atol=0.02)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e4, 1e6])
def test_y_in_other_units_without_normalisation(data, unit):
    X, y = data
    one = GP(normalize_y=False).fit(X, y)
    other = GP(normalize_y=False).fit(X, unit * y)
    assert other.score(X, unit * y) > 0.96
    shift = one.log_marginal_likelihood_value_ - 40 * np.log(unit)
    assert other.log_marginal_likelihood_value_ > shift - 0.05


def test_a_kernel_without_a_factor_starts_with_another_noise():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 2))
    y = 1e4 * X[:, 0] + 1e3 * rng.standard_normal(30)
    model = GP(Linear(), normalize_y=False).fit(X, y)
    for noise in (1e4, 1e6, 1e8):
        held = GP(Linear(), noise, normalize_y=False).fit(X, y)
        assert model.search_.value >= held.log_marginal_likelihood_value_


# ------------------------------------------------------------------------ targets without spread
@pytest.mark.parametrize("make", [GP, SparseGaussianProcessRegressor])
@pytest.mark.parametrize("options", [{}, {"normalize_y": False}, {"noise": 0.05}])
@pytest.mark.parametrize("y", [7.0, np.r_[0.3, np.full(39, 0.1 + 0.2)]])
def test_nothing_is_searched_where_y_does_not_vary(data, make, options, y):
    X = data[0]
    model = make(1.0 * RBF(2.0), **options).fit(X, np.broadcast_to(y, 40))
    assert model.kernel_.k2.length_scale == 2.0 and model.kernel_.k1.value == 1.0
    assert model.noise_ == pytest.approx(options.get("noise", 0.1))
    assert "y does not vary" in model.search_.message and model.search_.converged
    _, std = model.predict([[500.0]], return_std=True)
    np.testing.assert_allclose(std**2, 1.0 + model.noise_)  # as wide as the prior


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("y", [[2.0], [1e6], [3.0, 3.0]])
def test_one_row_or_equal_rows_leave_bands_wide(mean, y):
    X = np.arange(float(len(y)))[:, None]
    _, std = GP(mean=mean).fit(X, y).predict([[0.0], [50.0]], return_std=True)
    assert std[0] > 0.3 and std[1] > 1.0


def test_a_line_of_a_linear_mean_has_no_spread():
    t = np.arange(10.0)[:, None]
    model = GP(mean="linear").fit(t, 5 + 2 * t[:, 0])
    assert "y does not vary" in model.search_.message
    np.testing.assert_allclose(model.predict([[100.0]]), 205.0, rtol=1e-9)


@pytest.mark.parametrize("make", [GP, SparseGaussianProcessRegressor])
def test_outputs_without_spread_do_not_count(data, make):
    X, y = data
    one = make(1.0 * RBF(1.0)).fit(X, y)
    two = make(1.0 * RBF(1.0)).fit(X, np.column_stack([y, np.full(40, 3.0)]))
    np.testing.assert_allclose(two.kernel_.theta, one.kernel_.theta, atol=1e-6)
    np.testing.assert_allclose(two.scaled_noise_, one.scaled_noise_, rtol=1e-6)
    np.testing.assert_allclose(two.predict(X)[:, 1], 3.0)
    value = two.log_marginal_likelihood(two.theta_)
    np.testing.assert_allclose(value, two.log_marginal_likelihood_value_)


# ---------------------------------------------------------------------------------- units of x
@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e-2, 1e4, 1e8])
@pytest.mark.parametrize("kernel", [1.0 * RBF(1.0), 1.0 * Matern([1.0])])
def test_a_kernel_that_does_not_see_the_data_starts_at_their_distances(data, unit, kernel):
    X, y = data
    model = GP(kernel).fit(unit * X, y)
    assert model.score(unit * X, y) > 0.96
    assert "median distances" in model.search_.message


def test_columns_of_very_different_units():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.standard_normal(60)
    units = np.logspace(-4, 4, 4)
    model = GP(1.0 * RBF([1.0] * 4)).fit(units * X, y)
    like = GP(1.0 * RBF(units)).fit(units * X, y)
    assert model.search_.value > like.search_.value - 1.0


def test_what_is_held_or_bounded_stays(data):
    X, y = data
    held = GP(1.0 * RBF(1.0), fixed=["length_scale"]).fit(1e4 * X, y)
    assert held.kernel_.k2.length_scale == 1.0 and "median" not in held.search_.message
    boxed = GP(1.0 * RBF(1.0), bounds={"length_scale": (0.5, 2.0)}).fit(1e4 * X, y)
    assert 0.5 <= boxed.kernel_.k2.length_scale <= 2.0 + 1e-12


def test_kernels_that_see_the_data_begin_once(data):
    X, y = data
    assert "median" not in GP(1.0 * RBF(1.0)).fit(X, y).search_.message


def test_median_distances_of_every_part():
    X = np.array([[0.0, 0.0], [1.0, 100.0], [2.0, 200.0]])
    kernel = 2.0 * RBF(9.0).on([1]) + Periodic(3.0, 4.0).on([0]) * Matern([5.0, 6.0])
    found = with_median(kernel, X, None)
    assert found.k1.k2.kernel.length_scale == 100.0
    assert found.k2.k1.kernel.length_scale == 3.0 and found.k2.k1.kernel.period == 4.0
    np.testing.assert_allclose(found.k2.k2.length_scale, np.sqrt(2) * np.array([1.0, 100.0]))


# ------------------------------------------------------------------------- doubts about an end
@pytest.mark.parametrize("length", [1e-3, 30.0, 1e3])
@pytest.mark.parametrize("amplitude", [1e-4, 1.0])
def test_an_end_where_all_is_noise_is_doubted(length, amplitude):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, (40, 1)))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(40)
    value = GP(amplitude * RBF(length)).fit(X, y).log_marginal_likelihood_value_
    assert value == pytest.approx(GP().fit(X, y).log_marginal_likelihood_value_, abs=0.05)


def test_a_search_from_hardly_any_noise_does_not_stay_there(data):
    X, y = data
    model = GP(1.0 * RBF(1.0))
    problem, parameters, _ = model._prepare(X, y, None)
    parameters.theta = np.log([1.0, 1e-2, 1e-6])
    objective = problem.objective(problem.evidence(), parameters, None, problem.shift())
    best = model.fit(X, y).search_.value
    assert maximise(objective, parameters, tol=1e-3).value < best - 20  # each row like no other
    found = maximise(objective, parameters, doubt=doubts(problem, parameters, None))
    assert found.value == pytest.approx(best, abs=0.01)


def test_noise_and_nothing_else_is_still_found():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    alone = -0.5 * 60 * (np.log(2 * np.pi * np.var(y)) + 1)
    found = GP(fixed=["k1__value"]).fit(X, y)
    assert found.log_marginal_likelihood_value_ > alone - 0.1


# ------------------------------------------------------------------------------------- periods
@pytest.mark.parametrize(
    ("truth", "end", "words"),
    [
        (
            28.0,
            28.0,
            r"from 7 to 28\. Where the period is known, hold it, fixed=\['k1__k2__period'",
        ),
        (3.0, 0.6, r"from 7 to 0.6, below the spacing of the rows, 1\. .*\(4.667, 10.5\)"),
    ],
)
def test_a_period_that_a_search_takes_away_is_told(truth, end, words):
    t = np.arange(60.0)[:, None]
    y = np.sin(2 * np.pi * t[:, 0] / truth) + 0.1 * np.random.default_rng(0).standard_normal(60)
    kernel = 1.0 * Periodic(1.0, period=7.0) + 1.0 * RBF(5.0)
    there = np.log(end / 7.0) * np.array(["period" in name for name in kernel.theta_names])
    model = GP(kernel, 0.1, optimizer=lambda f, theta, bounds: (theta + there, 0.0))
    with pytest.warns(UserWarning, match=f"took the period of Periodic {words}"):
        model.fit(t, y)


def test_a_period_that_stays_is_not_worth_a_word():
    t = np.arange(60.0)[:, None]
    y = np.sin(2 * np.pi * t[:, 0] / 7) + 0.1 * np.random.default_rng(0).standard_normal(60)
    for fixed in ((), ("period",)):
        GP(1.0 * RBF(50.0) * Periodic(period=7.5), fixed=fixed).fit(t, y)


@pytest.mark.parametrize("truth", [2 * np.pi, 7.0, 12.0])
def test_a_period_that_explains_nothing_is_doubted(truth):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 30, (60, 1)), axis=0)
    y = np.sin(2 * np.pi * t[:, 0] / truth) + 0.1 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match="took the period from 1 to"):
        found = GP(Periodic(7.0, 1.0)).fit(t, y)
    best = GP(Periodic(1.0, truth)).fit(t, y)
    assert found.search_.value == pytest.approx(best.search_.value, abs=0.01)


@pytest.mark.parametrize("make", [GP, SparseGaussianProcessRegressor, GaussianProcessClassifier])
def test_a_period_below_the_spacing_is_told_by_every_process(make):
    t = np.arange(30.0)[:, None]
    y = np.sin(2 * np.pi * t[:, 0] / 3) + 0.1 * np.random.default_rng(0).standard_normal(30)
    classes = make is GaussianProcessClassifier
    model = make(Periodic(period=0.6), **({} if classes else {"noise": 0.1}))
    with pytest.warns(UserWarning, match=r"below the spacing of the rows, 1\. .* start above 2\."):
        model.set_params(fixed=["length_scale"]).fit(t, y > 0 if classes else y)
