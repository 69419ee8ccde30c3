"""Sparse regression: what is refused, the memory budget, files and pickles."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, SparseGaussianProcessRegressor
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotPositiveDefinite
from tests.models.gp.sparse_data import KERNEL, METHODS, NEW, D, N, X, Y, kept, rng


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "dtc"}, "'vfe' or 'fitc'"),
        ({"method": None}, "'vfe' or 'fitc'"),
        ({"inducing": "random"}, "'pivoted', 'optimize'"),
        ({"inducing": X[:, :1]}, "columns"),
        ({"inducing": X[:0]}, "at least one"),
        ({"inducing": np.full((2, 2), np.nan)}, "NaN"),
        ({"n_inducing": 0}, "n_inducing"),
        ({"n_inducing": 2.5}, "n_inducing"),
        ({"noise": 0.0}, "> 0"),
        ({"noise": np.r_[np.ones(N - 1), 0.0]}, "> 0"),
        ({"noise": -1.0}, "negative"),
        ({"noise": "abc"}, "> 0"),
        ({"noise": "fit", "optimizer": None}, "optimizer=None"),
        ({"optimizer": "adam"}, "'lbfgs'"),
        ({"normalize_y": "yes"}, "True or False"),
    ],
)
def test_wrong_options_are_refused_and_leave_an_earlier_fit(options, text):
    model = kept(n_inducing=4).fit(X, Y)
    before = model.predict(NEW)
    model.set_params(**options)
    with pytest.raises(InvalidInput, match=text):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.predict(NEW), before)


@pytest.mark.parametrize("positions", [[0, 99], [-1], [0.5], [[0]]])
def test_wrong_positions_are_refused(positions):
    with pytest.raises(InvalidInput, match="position"):
        kept(inducing=positions).set_params(kernel="precomputed").fit(KERNEL(X), Y)


def test_a_budget_for_tiles_is_enough_and_one_for_nothing_is_refused():
    points = rng.standard_normal((8000, 2))
    y = np.sin(points[:, 0])
    model = kept(n_inducing=40)
    model.fit(points, y)
    expected = model.predict(points, return_std=True)
    with mercer.config(memory=1_500_000):
        tracemalloc.start()
        clone(model).set_params(inducing=points[:40]).fit(points, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_allclose(model.predict(points, return_std=True), expected, rtol=1e-9)
    assert peak < 8000 * 40 * 8
    with mercer.config(memory=50_000), pytest.raises(MemoryBudgetExceeded, match="n_inducing"):
        clone(model).fit(points, y)


def test_files_and_pickles_hold_no_rows(tmp_path):
    many = np.r_[X, rng.uniform(-2, 2, (3000, D))]
    model = SparseGaussianProcessRegressor(KERNEL, n_inducing=8).fit(many, np.sin(many[:, 0]))
    mercer.save(model, tmp_path / "model.mercer")
    assert (tmp_path / "model.mercer").stat().st_size < many.nbytes
    assert len(pickle.dumps(model)) < many.nbytes
    for again in (mercer.load(tmp_path / "model.mercer"), pickle.loads(pickle.dumps(model))):
        for options in ({}, {"return_std": True}, {"return_cov": True}):
            got, expected = again.predict(NEW, **options), model.predict(NEW, **options)
            np.testing.assert_equal(got, expected)
        assert again.log_marginal_likelihood() == model.log_marginal_likelihood()
        with pytest.raises(InvalidInput, match="fit it again"):
            again.log_marginal_likelihood(again.theta_)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("posterior_factor_", np.eye(3)),
        ("inducing_factor_", np.full((8, 8), np.nan)),
        ("inducing_factor_", -np.eye(8)),
        ("noise_level_", -1.0),
        ("y_scale_", np.zeros(1)),
        ("dual_coef_", np.zeros(5)),
    ],
)
def test_a_broken_state_is_refused(name, value):
    model = kept(n_inducing=8).fit(X, Y)
    setattr(model, name, value)
    with pytest.raises(ModelFileError):
        model._check_state()


def test_what_does_not_fit_is_refused_before_anything_is_computed():
    points = rng.standard_normal((700, 3))
    model = SparseGaussianProcessRegressor()
    for _ in range(2):  # the first loads what it needs
        with mercer.config(memory=390_000):
            tracemalloc.start()
            with pytest.raises(MemoryBudgetExceeded, match="n_inducing"):
                model.fit(points, points[:, 0])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peak < 390_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("amplitude", "noise"), [(1e300, 1e-300), (1e300, 0.1), (1.0, 1e-300)])
def test_numbers_beyond_float64_are_refused_in_words(amplitude, noise, method):
    model = SparseGaussianProcessRegressor(
        amplitude * RBF(1.0), noise, 20, method=method, optimizer=None
    )
    try:
        model.fit(X, Y)
    except NotPositiveDefinite as error:
        assert str(error).startswith("SparseGaussianProcessRegressor: with ")
    else:
        assert np.isfinite(model.predict(NEW, return_std=True)).all()
        assert np.isfinite(model.log_marginal_likelihood_value_)
