"""GaussianProcessRegressor: parameters that are wrong, and data of any unit or given twice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import RBF, GaussianProcessRegressor, Matern
from mercer.errors import InvalidInput, NotConverged, NotPositiveDefinite


@pytest.fixture(autouse=True)
def _nothing_to_warn_of():
    """No test here may hear a warning, NumPy's least of all, unless it says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def data(n=40, d=2, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    y = 4.0 * np.sin(2 * X[:, 0]) + X[:, 1 % d] + 20.0 + 4 * noise * rng.standard_normal(n)
    return X, y


# ---------------------------------------------------------------------------- bad parameters
@pytest.mark.parametrize(
    "noise", [-1.0, np.nan, np.inf, "auto", None, True, [0.1, 0.2], np.ones((40, 1)), {}, "0.1"]
)
def test_noise_that_is_none(noise):
    X, y = data()
    with pytest.raises(InvalidInput, match="noise"):
        GaussianProcessRegressor(RBF(), noise).fit(X, y)


def test_noise_vector_with_wrong_entries():
    X, y = data()
    v = np.ones(40)
    for i, value, word in ((3, -1.0, r"noise\[3\] = -1"), (5, np.nan, "NaN"), (5, np.inf, "NaN")):
        wrong = v.copy()
        wrong[i] = value
        with pytest.raises(InvalidInput, match=word):
            GaussianProcessRegressor(RBF(), wrong).fit(X, y)
    with pytest.raises(InvalidInput, match="normalize_y"):
        GaussianProcessRegressor(RBF(), [1.0, 2.0], normalize_y=False).fit(X, np.c_[y, y])
    with pytest.raises(InvalidInput, match="> 0"):
        GaussianProcessRegressor(RBF(), [1.0, 0.0]).fit(X, np.c_[y, y])


@pytest.mark.parametrize(
    "params",
    [
        {"optimizer": "adam"},
        {"optimizer": 1},
        {"optimizer": lambda f, theta, bounds: f},
        {"optimizer": None},
        {"n_restarts": -1},
        {"n_restarts": 1.5},
        {"max_iter": 0},
        {"tol": 0.0},
        {"tol": "small"},
        {"normalize_y": "yes"},
        {"random_state": "x"},
        {"fixed": ("nothing",)},
        {"bounds": {"noise": (2.0, 1.0)}},
        {"bounds": {"what": (1.0, 2.0)}},
        {"priors": {"noise": 3.0}},
        {"kernel": 3},
    ],
)
def test_wrong_parameters_name_themselves(params):
    X, y = data()
    name = next(iter(params))
    with pytest.raises(InvalidInput, match=name):
        GaussianProcessRegressor(**params).fit(X, y)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = data()
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None).fit(X, y)
    before = model.predict(X, return_std=True)
    model.noise = -1.0
    with pytest.raises(InvalidInput):
        model.fit(X, 2 * y)
    np.testing.assert_array_equal(model.predict(X, return_std=True), before)
    for bad in (np.full(40, np.nan), y[:-1], None, ["a"] * 40):
        with pytest.raises((InvalidInput, ValueError)):
            GaussianProcessRegressor().fit(X, bad)


# ------------------------------------------------------------------------- degenerate data
@pytest.mark.parametrize("unit", [1e-150, 1e-40, 1e-8, 1e8, 1e40, 1e150])
def test_targets_of_any_unit(unit):
    X, y = data(25)
    one = GaussianProcessRegressor(tol=1e-9).fit(X, y / 10)
    two = GaussianProcessRegressor(tol=1e-9).fit(X, y / 10 * unit)
    np.testing.assert_allclose(two.predict(X) / unit, one.predict(X), rtol=1e-6)
    got = two.predict(X, return_std=True)[1] / unit
    np.testing.assert_allclose(got, one.predict(X, return_std=True)[1], rtol=1e-5)
    assert two.noise_ == pytest.approx(one.noise_ * unit * unit, rel=1e-4)
    with pytest.raises(InvalidInput, match="other units"):
        GaussianProcessRegressor().fit(X, y * 1e200)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_points_of_any_unit(unit):
    X, y = data(25)
    one = GaussianProcessRegressor(tol=1e-9).fit(X, y)
    two = GaussianProcessRegressor(tol=1e-9).fit(X * unit, y)
    np.testing.assert_allclose(two.predict(X * unit), one.predict(X), rtol=1e-6)
    linear = GaussianProcessRegressor(mean="linear").fit(X * unit + unit, y)
    assert np.isfinite(linear.predict(X * unit, return_std=True)).all()


def test_single_precision_is_computed_in_double():
    X, y = data(30)
    X, y = X.astype(np.float32), y.astype(np.float32)
    one = GaussianProcessRegressor().fit(X, y)
    two = GaussianProcessRegressor().fit(X.astype(float), y.astype(float))
    mean, std = one.predict(X, return_std=True)
    assert mean.dtype == std.dtype == np.float64
    np.testing.assert_array_equal(mean, two.predict(X.astype(float), return_std=True)[0])


def test_rows_given_twice():
    X, y = data(15)
    XX, yy = np.vstack([X, X]), np.concatenate([y, y + 1.0])
    model = GaussianProcessRegressor(RBF()).fit(XX, yy)
    assert model.noise_ > 0.1 and model.solution_.extra["jitter"] == 0.0
    # Without noise two targets at one point contradict each other.
    with pytest.warns(NotConverged, match="noise"):
        model = GaussianProcessRegressor(RBF(), 0.0, optimizer=None).fit(XX, yy)
    assert model.solution_.extra["jitter"] > 0 and not model.solution_.converged
    # The same target twice is no contradiction: a jitter, told.
    model = GaussianProcessRegressor(Matern(0.5), 0.0, optimizer=None)
    model.fit(XX, np.concatenate([y, y]))
    assert model.solution_.converged and model.solution_.residual < 1e-6
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-5)


def test_what_is_no_kernel_is_refused():
    X, y = data(12)
    K = RBF()(X)
    K[0, 1] = K[1, 0] = 1.5
    for noise in (0.0, 0.01):
        with pytest.raises(NotPositiveDefinite):
            GaussianProcessRegressor("precomputed", noise, optimizer=None).fit(K, y)
