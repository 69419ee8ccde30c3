"""tune of Gaussian processes: the model's own evidence search, and folds that hold it still."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mercer import (
    RBF,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Linear,
    Matern,
    Periodic,
    SparseGaussianProcessRegressor,
    load,
    save,
    tune,
)
from mercer.errors import InvalidInput

rng = np.random.default_rng(3)
X = rng.uniform(-2, 2, (70, 2))
Y = 5 + 3 * np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(70)
LABELS = np.where(Y + 0.5 * rng.standard_normal(70) > 5, "up", "down")
W = rng.uniform(0.5, 2.0, 70)


def regressor(**options):
    return GaussianProcessRegressor(1.0 * RBF([1.0, 1.0]), **options)


def sparse(**options):
    return SparseGaussianProcessRegressor(1.0 * RBF([1.0, 1.0]), n_inducing=15, **options)


@pytest.mark.parametrize("model", [regressor(), sparse()], ids=["exact", "sparse"])
@pytest.mark.parametrize("weights", [None, W], ids=["even", "uneven"])
def test_is_the_search_of_the_fit(model, weights):
    given = {} if weights is None else {"sample_weight": weights}
    fitted = model.fit(X, Y, **given)
    result = tune(model, X, Y, weights)
    assert result.criterion == "minus log evidence" and result.converged
    assert result.score == pytest.approx(-fitted.log_marginal_likelihood_value_, abs=1e-6)
    assert result.score == pytest.approx(-result.model.log_marginal_likelihood_value_, rel=1e-6)
    np.testing.assert_allclose(result.predict(X), fitted.predict(X), rtol=1e-5)
    assert result.model.optimizer is None and result.model.search_ is None
    np.testing.assert_allclose(result.noise_, fitted.noise_, rtol=1e-6)
    assert set(result.params) == {"noise", "kernel__k1__value", "kernel__k2__length_scale"}
    names = {*fitted.kernel_.theta_names, "noise", "error"}
    assert all(set(row) == names for row in result.table)
    again = type(model)(optimizer=None).set_params(
        **{k: v for k, v in model.get_params(deep=False).items() if k == "n_inducing"},
        kernel=model.kernel,
    )
    again.set_params(**result.params).fit(X, Y, **given)
    np.testing.assert_allclose(again.predict(X), result.predict(X), rtol=1e-6)


def test_the_table_has_every_evaluation_and_the_best_is_the_score():
    result = tune(regressor(), X, Y)
    errors = [row["error"] for row in result.table]
    assert min(errors) == pytest.approx(result.score, abs=2e-3)
    row = result.table[int(np.argmin(errors))]
    model = regressor(noise=row["noise"], optimizer=None)
    scales = [row["k2__length_scale[0]"], row["k2__length_scale[1]"]]
    model.set_params(kernel__k1__value=row["k1__value"], kernel__k2__length_scale=scales)
    assert -model.fit(X, Y).log_marginal_likelihood_value_ == pytest.approx(min(errors), rel=1e-8)


@pytest.mark.parametrize("over", ["length_scale", "kernel__k2__length_scale"])
def test_over_holds_all_else_but_a_noise_to_be_fitted(over):
    result = tune(regressor(), X, Y, over=over)
    assert result.params["kernel__k1__value"] == 1.0
    assert result.params["noise"] == pytest.approx(0.09, rel=0.5)
    held = tune(regressor(noise=0.5), X, Y, over=over)
    assert held.params["noise"] == 0.5 and held.params["kernel__k1__value"] == 1.0
    assert set(held.table[0]) == {"k2__length_scale[0]", "k2__length_scale[1]", "error"}


def test_ranges_fixed_and_bounds():
    result = tune(regressor(), X, Y, over={"k2__length_scale": (0.2, 0.5), "noise": (0.4, 0.6)})
    np.testing.assert_allclose(result.params["kernel__k2__length_scale"], 0.5)
    assert result.params["noise"] == pytest.approx(0.4) and "bound" in result.message
    result = tune(regressor(), X, Y, fixed=["kernel"], bounds={"noise": (2.0, 3.0)})
    assert result.params["kernel__k2__length_scale"] == [1.0, 1.0]
    assert result.params["noise"] == pytest.approx(2.0)
    one = tune(regressor(), X, Y, fixed="k2__length_scale[1]")
    assert one.params["kernel__k2__length_scale"][1] == pytest.approx(1.0, rel=1e-12)
    assert one.params["kernel__k2__length_scale"][0] != 1.0
    still = tune(regressor(noise=0.3), X, Y, fixed=["kernel", "noise"])
    assert "nothing" in still.message and len(still.table) == 1 and still.converged


def test_what_the_model_holds_and_bounds_stays_so():
    model = regressor(fixed="k1__value", bounds={"noise": (1.0, 2.0)})
    result = tune(model, X, Y)
    assert result.params["kernel__k1__value"] == 1.0
    assert result.params["noise"] == pytest.approx(1.0)
    freed = tune(model, X, Y, over=["k1__value", "noise"])
    assert freed.params["kernel__k1__value"] != 1.0
    np.testing.assert_allclose(freed.params["kernel__k2__length_scale"], 1.0)


@pytest.mark.filterwarnings("ignore:.*took the period")
def test_choices_are_compared_by_evidence():
    kernels = [Linear(), 1.0 * RBF(1.0), Periodic()]
    result = tune(GaussianProcessRegressor(), X[:, :1], Y, over={"kernel": kernels})
    each = [GaussianProcessRegressor(k).fit(X[:, :1], Y) for k in kernels[:2]]
    assert result.score <= min(-m.log_marginal_likelihood_value_ for m in each) + 1e-3
    result = tune(regressor(), X, Y, over={"mean": ["zero", "linear"], "kernel": None})
    assert result.params["mean"] in ("zero", "linear")
    assert result.model.mean == result.params["mean"]
    noise = tune(regressor(), X, Y, over={"noise": [0.01, 0.09, 9.0]}, fixed=["kernel"])
    assert noise.params["noise"] == 0.09 and noise.model.noise == 0.09


def test_max_iter_and_restarts():
    result = tune(regressor(), X, Y, max_iter=2)
    assert not result.converged and "max_iter" in result.message
    many = tune(regressor(n_restarts=2, random_state=0), X, Y)
    assert len(many.table) > len(tune(regressor(), X, Y).table)
    assert many.score <= tune(regressor(), X, Y).score + 1e-3


def test_a_part_of_the_rows_and_noise_of_each_row():
    result = tune(regressor(), X, Y, max_points=40)
    assert result.n_points == 40 and "40 of 70" in result.message
    assert len(result.model.X_fit_) == 70
    variances = np.full(70, 0.09)
    variances[:5] = 9.0
    for most in (2000, 40):
        result = tune(regressor(noise=variances), X, Y, max_points=most)
        assert "noise" not in result.params and "noise" not in result.table[0]
        assert np.array_equal(result.noise_, variances)
    weights = np.ones(70)
    weights[10:] = 0
    few = tune(regressor(noise=variances), X, Y, weights)
    assert few.n_points == 10 and len(few.model.X_fit_) == 10


def test_several_outputs_keep_their_noises():
    T = np.c_[Y, 100 * X[:, 1] + 10 * rng.standard_normal(70)]
    result = tune(regressor(), X, T)
    assert np.shape(result.params["noise"]) == (2,)
    np.testing.assert_allclose(result.predict(X), regressor().fit(X, T).predict(X), rtol=1e-4)


def test_priors_are_part_of_the_score():
    law = stats.lognorm(0.1, scale=3.0)
    model = GaussianProcessRegressor(RBF(3.0), priors={"length_scale": law})
    result = tune(model, X, Y)
    assert result.criterion == "minus log evidence and log priors"
    evidence = result.model.log_marginal_likelihood_value_
    prior = law.logpdf(result.params["kernel__length_scale"])
    assert result.score == pytest.approx(-evidence - prior, abs=1e-6)


@pytest.mark.parametrize("method", ["laplace"])
def test_classes(method):
    model = GaussianProcessClassifier(1.0 * RBF(1.0), method=method)
    result = tune(model, X, LABELS)
    fitted = model.fit(X, LABELS)
    assert result.score == pytest.approx(-fitted.log_marginal_likelihood_value_, abs=1e-5)
    assert "noise" not in result.params and result.model.optimizer is None
    np.testing.assert_allclose(result.predict_proba(X), fitted.predict_proba(X), atol=1e-3)
    held = tune(model, X, LABELS, fixed=["length_scale"])
    assert held.params["kernel__k2__length_scale"] == 1.0


def test_sparse_points_that_are_moved_stay_where_they_were_moved():
    model = SparseGaussianProcessRegressor(1.0 * RBF(1.0), n_inducing=6, inducing="optimize")
    result = tune(model, X[:, :1], Y, max_iter=15)
    assert result.model.inducing_points_.shape == (6, 1)
    assert result.score == pytest.approx(-result.model.log_marginal_likelihood_value_, rel=1e-6)


@pytest.mark.parametrize("criterion", ["cv", "loo"])
def test_held_out_errors_tune_the_noise_like_a_penalty(criterion):
    model = GaussianProcessRegressor(RBF(1.0))
    result = tune(model, X, Y, criterion=criterion, max_iter=6)
    assert "mean squared error" in result.criterion and result.score < 1.0
    assert result.model.optimizer is None and result.params["noise"] == result.model.noise
    assert result.model.noise_ == pytest.approx(result.params["noise"])
    held = GaussianProcessRegressor(
        result.model.kernel, noise=result.params["noise"], optimizer=None
    ).fit(X, Y)
    if criterion == "loo":
        assert "exact" in result.criterion
        assert np.mean((held.loo() - Y) ** 2) == pytest.approx(result.score, rel=1e-8)
    fixed = tune(model, X, Y, criterion=criterion, max_iter=2, over={"length_scale": (1.0, 2.0)})
    assert 1.0 <= fixed.params["kernel__length_scale"] <= 2.0


def test_classes_on_folds():
    result = tune(GaussianProcessClassifier(RBF(1.0)), X, LABELS, criterion="cv", cv=3, max_iter=2)
    assert "wrong" in result.criterion and result.score < 0.5


def test_scoring_or_folds_ask_for_folds():
    model = GaussianProcessRegressor(Matern(1.0))
    result = tune(model, X, Y, scoring="neg_mean_absolute_error", max_iter=1, cv=3)
    assert "held-out mean absolute error" in result.criterion
    assert "held-out" in tune(model, X, Y, cv=3, max_iter=1).criterion


def test_refusals():
    with pytest.raises(InvalidInput, match="has 'cv' and 'evidence'"):
        tune(GaussianProcessClassifier(), X, LABELS, criterion="loo")
    with pytest.raises(InvalidInput, match="has 'cv' and 'evidence'"):
        tune(sparse(), X, Y, criterion="loo")
    with pytest.raises(InvalidInput, match="max_time"):
        tune(regressor(), X, Y, max_time=3.0)
    with pytest.raises(InvalidInput, match="'fit'; give GaussianProcessRegressor the variance"):
        tune(regressor(), X, Y, fixed=["noise"])
    with pytest.raises(InvalidInput, match=r"no parameter 'lenght'.*'k1__value'.*'noise'"):
        tune(regressor(), X, Y, over=["lenght"])
    with pytest.raises(InvalidInput, match=r"no parameter 'lenght'"):
        tune(regressor(), X, Y, bounds={"lenght": (1, 2)})
    with pytest.raises(InvalidInput, match="is not tuned"):
        tune(regressor(), X, Y, over=["length_scale"], bounds={"k1__value": (1, 2)})
    with pytest.raises(InvalidInput, match="noise for each row"):
        tune(regressor(noise=np.full(70, 0.1)), X, Y, criterion="cv")
    with pytest.raises(InvalidInput, match="too few"):
        tune(regressor(), X[:2], Y[:2])


def test_the_model_found_goes_to_a_file(tmp_path):
    result = tune(regressor(), X, Y)
    save(result.model, tmp_path / "m.mercer")
    assert np.array_equal(load(tmp_path / "m.mercer").predict(X), result.predict(X))
