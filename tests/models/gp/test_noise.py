"""What a noise means: a number or variances are kept, a word or limits are searched for."""

import warnings

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import (
    RBF,
    GaussianProcessRegressor,
    Linear,
    SparseGaussianProcessRegressor,
    White,
    tune,
)
from mercer.errors import InvalidInput

rng = np.random.default_rng(5)
X = np.sort(rng.uniform(0, 6, 40))[:, None]
Y = 3 + np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(40)
MODELS = [GaussianProcessRegressor, SparseGaussianProcessRegressor]


@pytest.mark.parametrize("make", MODELS)
def test_a_number_is_kept_and_the_kernel_is_searched_for(make):
    model = make(1.0 * RBF(1.0), noise=0.5).fit(X, Y)
    assert model.noise_ == pytest.approx(0.5, rel=1e-15)
    assert model.theta_names_ == ["k1__value", "k2__length_scale"]
    np.testing.assert_allclose(model.search_.theta, model.theta_, rtol=1e-12)
    assert model.kernel_.k2.length_scale != 1.0 and model.search_.n_evaluations > 2
    same = make(1.0 * RBF(1.0), noise=0.5, fixed=["noise"]).fit(X, Y)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    free = make(1.0 * RBF(1.0)).fit(X, Y)
    value = model.log_marginal_likelihood_value_
    assert free.log_marginal_likelihood_value_ > value + 0.5
    assert model.log_marginal_likelihood(model.theta_) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("make", MODELS)
def test_limits_are_kept_to(make):
    free = make(1.0 * RBF(1.0)).fit(X, Y)
    wide = make(1.0 * RBF(1.0), noise=(1e-3, 10.0)).fit(X, Y)
    assert wide.noise_ == pytest.approx(free.noise_, rel=1e-2)
    with pytest.warns(UserWarning, match="ended at the lower limit 0.5 .* for the noise,"):
        above = make(1.0 * RBF(1.0), noise=(0.5, 0.8)).fit(X, Y)
    assert above.noise_ == 0.5 and "noise" in above.search_.message
    with pytest.warns(UserWarning, match="ended at the lower limit 0.5 .* for the noise,"):
        by_name = make(1.0 * RBF(1.0), bounds={"noise": (0.5, 0.8)}).fit(X, Y)
    np.testing.assert_array_equal(above.predict(X), by_name.predict(X))
    assert above.theta_names_[-1] == "noise"


@pytest.mark.parametrize("make", MODELS)
def test_a_limit_of_a_kernel_is_told_only_where_it_binds(make):
    with pytest.warns(UserWarning, match="upper limit 0.3 .* for the length_scale,"):
        make(RBF(0.2), bounds={"length_scale": (0.1, 0.3)}).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(RBF(0.2), bounds={"length_scale": (0.1, 30.0)}).fit(X, Y)
        make(RBF(0.2), bounds={"length_scale": (0.3, 0.3)}, noise=(0.1, 0.1)).fit(X, Y)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("normalize_y", [True, False])
def test_what_is_held_keeps_its_bits(make, normalize_y):
    for value in (0.1, 1e-3):
        for noise in (value, (value, value)):
            model = make(0.1 * RBF(0.3), noise, fixed=["k1__value"], normalize_y=normalize_y)
            model.fit(X, Y)
            assert model.noise_ == value and model.kernel_.k1.value == 0.1
            assert model.kernel_.k2.length_scale != 0.3


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("noise", [[0.01, 1.0], "tune", "Fit", True])
def test_a_noise_that_is_none_is_told_of_limits(make, noise):
    with pytest.raises(InvalidInput, match=r"give 'fit', limits in a tuple \(low, high\), a varia"):
        make(noise=noise).fit(X, Y)


def test_a_list_has_variances_of_rows_and_a_tuple_limits():
    two, y = X[[3, 30]], Y[[3, 30]]
    each = GaussianProcessRegressor(RBF(), [0.1, 0.4], optimizer=None).fit(two, y)
    np.testing.assert_array_equal(each.noise_, [0.1, 0.4])
    one = GaussianProcessRegressor(RBF(), (0.1, 0.4)).fit(two, y)
    assert 0.1 <= one.noise_ <= 0.4
    added = GaussianProcessRegressor(RBF(), [0.1, 0.4], optimizer=None).fit(two, y)
    assert len(added.add(X[:2], Y[:2], noise=(0.2, 0.3)).noise_) == 4


def test_a_number_for_each_of_several_outputs_is_kept():
    both = np.column_stack([Y, 100 * Y])
    model = GaussianProcessRegressor(RBF(1.0), noise=[0.2, 2000.0]).fit(X, both)
    np.testing.assert_allclose(model.noise_, [0.2, 2000.0])


def test_contradictions_are_refused_and_the_cure_works():
    for option, given in (("bounds", (0.1, 1.0)), ("priors", stats.gamma(2.0))):
        with pytest.raises(InvalidInput, match=f"{option} names 'noise', and noise=0.1 is kept"):
            GaussianProcessRegressor(noise=0.1, **{option: {"noise": given}}).fit(X, Y)
        GaussianProcessRegressor(noise="fit", **{option: {"noise": given}}).fit(X, Y)
    with pytest.raises(InvalidInput, match="both say where to look"):
        GaussianProcessRegressor(noise=(0.1, 1.0), bounds={"noise": (0.1, 1.0)}).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"noise=\(0.1, 1.0\) is to be tuned, and fixed holds"):
        GaussianProcessRegressor(noise=(0.1, 1.0), fixed=["noise"]).fit(X, Y)
    with pytest.raises(InvalidInput, match="which fits nothing"):
        GaussianProcessRegressor(noise=(0.1, 1.0), optimizer=None).fit(X, Y)


@pytest.mark.parametrize("pair", [(1.0, 0.1), (0.0, 1.0), (-1.0, 1.0), ("a", 1.0), (1.0, np.inf)])
@pytest.mark.parametrize("make", MODELS)
def test_limits_that_are_none_are_refused(make, pair):
    with pytest.raises(InvalidInput, match=r"are limits, 0 < low ≤ high"):
        make(noise=pair).fit(X, Y)


def test_the_noise_of_a_white_kernel_is_another():
    model = GaussianProcessRegressor(RBF(1.0) + White(0.1), noise=0.2).fit(X, Y)
    assert model.noise_ == 0.2 and model.kernel_.k2.noise != 0.1


@pytest.mark.parametrize(
    "kernel", [RBF(1.0) + White(0.1), 2.0 * RBF(1.0) + 0.5 * White(0.1), White(0.1)], ids=str
)
def test_white_noise_beside_a_noise_is_told(kernel):
    with pytest.warns(UserWarning, match=r"the noise and White\(\) .* Give noise=0, or leave"):
        GaussianProcessRegressor(kernel).fit(X, Y)
    white = next(name for name in kernel.theta_names if name.endswith("noise"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianProcessRegressor(kernel, noise=0).fit(X, Y)
        GaussianProcessRegressor(kernel, fixed=[f"kernel__{white}"]).fit(X, Y)
        GaussianProcessRegressor(RBF(1.0) + White(0.1) * Linear()).fit(X, Y)  # another term


def test_a_prior_of_no_parameter_is_told_by_its_name():
    for law in (1, stats.gamma(2.0)):
        with pytest.raises(InvalidInput, match=r"priors names 'nois', .* \('noise'\?\); there are"):
            GaussianProcessRegressor(priors={"nois": law}).fit(X, Y)


def test_before_a_fit_limits_add_no_noise():
    prior = GaussianProcessRegressor(RBF(1.0), noise=(0.1, 1.0))
    _, std = prior.predict([[0.0]], return_std=True)
    assert std[0] == 1.0


@pytest.mark.parametrize("criterion", ["evidence", "cv", "loo"])
def test_tune_keeps_a_number_unless_it_is_named(criterion):
    model = GaussianProcessRegressor(RBF(1.0), noise=0.5)
    how = {"criterion": criterion, "max_iter": 2}
    assert tune(model, X, Y, **how).model.noise_ == pytest.approx(0.5, rel=1e-15)
    named = tune(model, X, Y, bounds={"noise": (0.01, 0.3)}, **how)
    assert 0.01 <= named.params["noise"] <= 0.3 * (1 + 1e-12)
    over = tune(model, X, Y, over={"noise": (0.02, 0.3)}, **how)
    assert over.params["kernel__length_scale"] == 1.0
    assert 0.02 <= over.params["noise"] <= 0.3 * (1 + 1e-12)
    pair = tune(GaussianProcessRegressor(RBF(1.0), noise=(0.3, 0.4)), X, Y, **how)
    assert 0.3 * (1 - 1e-12) <= pair.params["noise"] <= 0.4 * (1 + 1e-12)


def test_limits_go_to_a_file_and_back(tmp_path):
    model = GaussianProcessRegressor(RBF(1.0), noise=(0.01, 0.4)).fit(X, Y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.noise == (0.01, 0.4)
    np.testing.assert_array_equal(again.fit(X, Y).predict(X), model.predict(X))


def test_a_model_whose_noise_was_searched_from_a_number_answers_as_it_did(tmp_path):
    """As models of 0.1.0 do: their noise is a number, and yet among the parameters found."""
    model = GaussianProcessRegressor(RBF(1.0)).fit(X, Y)
    model.noise = 0.1
    mercer.save(model, tmp_path / "m.mercer")
    old = mercer.load(tmp_path / "m.mercer")
    assert old.theta_names_ == ["length_scale", "noise"]
    value, slope = old.log_marginal_likelihood(old.theta_, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_) and len(slope) == 2
