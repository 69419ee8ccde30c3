"""GaussianProcessRegressor: what it tunes, reports, refuses and survives."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as Peer, kernels as peers
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, FromFunction, GaussianProcessRegressor, Linear, Matern, White
from mercer.errors import InvalidInput, ModelFileError
from mercer.testing.certificates.processes import certify_process, dense_evidence


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


def gap_of_slopes(model, X, y):
    """Largest difference between the gradient told and central differences of the dense value."""
    theta, h = model.theta_ + 0.1, 1e-5
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(dense_evidence(model, X, theta), rel=1e-9)
    assert model.log_marginal_likelihood(theta) == pytest.approx(value, rel=1e-12)
    steps = h * np.eye(len(theta))
    slopes = [
        (dense_evidence(model, X, theta + e) - dense_evidence(model, X, theta - e)) / (2 * h)
        for e in steps
    ]
    return np.abs(gradient - slopes).max() / max(1.0, np.abs(gradient).max())


# --------------------------------------------------------------------------- what is found
def test_evidence_found_is_at_least_that_of_scikit_learn():
    X, y = data(60, 2)
    peer = Peer(
        peers.ConstantKernel() * peers.RBF([1.0, 1.0]) + peers.WhiteKernel(0.1),
        normalize_y=True,
        n_restarts_optimizer=2,
        random_state=0,
    ).fit(X, y)
    model = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0])).fit(X, y)
    theirs = peer.log_marginal_likelihood_value_ - len(y) * np.log(np.std(y))
    assert model.log_marginal_likelihood_value_ >= theirs - 1e-2
    np.testing.assert_allclose(model.kernel_.k2.length_scale, peer.kernel_.k1.k2.length_scale, 0.05)
    assert model.noise_ == pytest.approx(np.var(y) * peer.kernel_.k2.noise_level, rel=0.05)
    assert model.search_.converged and model.solution_.converged
    assert certify_process(model, X, y) < 1e-10


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("outputs", [None, 2])
def test_evidence_and_gradient_are_those_of_the_definition(mean, normalize, outputs):
    X, y = data(20)
    y = y if outputs is None else np.column_stack([y, 3 * X[:, 0] - 1])
    w = np.random.default_rng(0).uniform(0.5, 3, len(y))
    for weights in (None, w):
        model = GaussianProcessRegressor(
            0.7 * Matern(1.1) + White(0.01), 0.3, optimizer=None, mean=mean, normalize_y=normalize
        ).fit(X, y, sample_weight=weights)
        assert model.theta_names_[-1] == "noise" and len(model.theta_) == 4
        assert np.exp(model.theta_[-1]) == pytest.approx(0.3)
        value = model.log_marginal_likelihood()
        assert value == model.log_marginal_likelihood_value_
        assert value == pytest.approx(dense_evidence(model, X, model.theta_), rel=1e-9)
        assert gap_of_slopes(model, X, y) < 1e-5


def test_evidence_of_repeated_rows_is_that_of_weights():
    X, y = data(15)
    w = np.random.default_rng(3).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), w)
    for mean in ("zero", "constant", "linear"):
        model = GaussianProcessRegressor(RBF(), 0.3, optimizer=None, mean=mean)
        one = clone(model).fit(X, y, sample_weight=w.astype(float))
        two = clone(model).fit(X[rows], y[rows])
        a, b = (m.log_marginal_likelihood(m.theta_, eval_gradient=True) for m in (one, two))
        assert a[0] == pytest.approx(b[0], rel=1e-10)
        np.testing.assert_allclose(a[1], b[1], rtol=1e-8)
        if mean == "linear":
            np.testing.assert_allclose(one.mean_coef_, two.mean_coef_, rtol=1e-8)
        assert len(one.X_fit_) == (w > 0).sum()


def test_tuned_parameters_of_weights_are_those_of_repeated_rows():
    X, y = data(25)
    w = np.random.default_rng(3).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), w)
    model = GaussianProcessRegressor(
        1.0 * RBF("median"), bounds={"noise": (0.05, 10.0)}, tol=1e-10, mean="constant"
    )
    with pytest.warns(UserWarning, match="ended at the lower limit 0.05"):
        one = clone(model).fit(X, y, sample_weight=w.astype(float))
    with pytest.warns(UserWarning, match="ended at the lower limit 0.05"):
        two = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.theta_, two.theta_, atol=1e-6)
    np.testing.assert_allclose(
        one.predict(X, return_std=True), two.predict(X, return_std=True), rtol=1e-7
    )


def test_scale_and_offset_of_targets_change_units_and_nothing_else():
    X, y = data(30)
    one = GaussianProcessRegressor().fit(X, y)
    two = GaussianProcessRegressor().fit(X, 1000.0 * y - 5.0)
    np.testing.assert_allclose(two.kernel_.theta, one.kernel_.theta, atol=1e-6)
    assert two.noise_ == pytest.approx(1e6 * one.noise_, rel=1e-5)
    mean, std = one.predict(X, return_std=True)
    np.testing.assert_allclose(two.predict(X), 1000.0 * mean - 5.0, rtol=1e-7)
    np.testing.assert_allclose(two.predict(X, return_std=True)[1], 1000.0 * std, rtol=1e-6)
    shift = two.log_marginal_likelihood_value_ - one.log_marginal_likelihood_value_
    assert shift == pytest.approx(-len(y) * np.log(1000.0), abs=1e-6)


def test_noise_given_is_kept():
    X, y = data(40)
    assert GaussianProcessRegressor(RBF()).fit(X, y).noise_ < 2.0
    for kept in (
        GaussianProcessRegressor(RBF(), 5.0, optimizer=None),
        GaussianProcessRegressor(RBF(), 5.0),
        GaussianProcessRegressor(RBF(), 5.0, fixed=("noise",)),
        GaussianProcessRegressor(RBF(), 5.0, fixed="noise"),
    ):
        assert kept.fit(X, y).noise_ == pytest.approx(5.0, rel=1e-12)
        assert ("noise" in kept.theta_names_) == (kept.optimizer is None)
    assert kept.kernel_ != RBF() and kept.theta_names_ == ["length_scale"]
    vector = np.linspace(0.1, 2.0, len(y))
    model = GaussianProcessRegressor(RBF(), vector, fixed=("noise",)).fit(X, y)
    np.testing.assert_allclose(model.noise_, vector, rtol=1e-12)
    assert model.theta_names_ == ["length_scale"]
    zero = GaussianProcessRegressor(Matern(), 0.0).fit(X, y)
    assert zero.noise_ == 0.0 and zero.theta_names_ == ["length_scale"]
    np.testing.assert_allclose(zero.predict(X), y, rtol=1e-6)


def test_fixed_bounds_and_priors():
    X, y = data(40)
    model = GaussianProcessRegressor(1.0 * RBF(0.4), fixed=("kernel__k2__length_scale",)).fit(X, y)
    assert model.kernel_.k2.length_scale == 0.4
    assert model.theta_names_ == ["k1__value", "noise"]
    with pytest.warns(UserWarning, match="ended at the lower limit 3 "):
        model = GaussianProcessRegressor(RBF(), bounds={"noise": (3.0, 4.0)}).fit(X, y)
    assert model.noise_ == pytest.approx(3.0) and "lower bound: noise" in model.search_.message
    prior = stats.norm(3.0, 0.01)
    model = GaussianProcessRegressor(RBF(2.9), priors={"length_scale": prior}).fit(X, y)
    assert model.kernel_.length_scale == pytest.approx(3.0, abs=0.05)
    without = dense_evidence(model, X, model.theta_)
    assert model.log_marginal_likelihood_value_ == pytest.approx(without, rel=1e-9)
    assert model.search_.value == pytest.approx(
        without + prior.logpdf(model.kernel_.length_scale), rel=1e-6
    )
    everything = GaussianProcessRegressor(RBF(), 0.1, fixed=("kernel", "noise")).fit(X, y)
    assert everything.search_ is None and everything.theta_.shape == (0,)
    assert everything.n_iter_ == 1


def test_many_rows_start_on_a_part_of_them():
    X, y = data(1020, 3)
    y = y.round(1)  # equal targets are told apart by x
    model = GaussianProcessRegressor(1.0 * RBF([1.0, 1.0, 1.0])).fit(X, y)
    assert model.search_.n_coarse > 0 and model.search_.n_evaluations < 20
    assert certify_process(model, X, y) < 1e-9
    model = GaussianProcessRegressor(mean="linear").fit(X, y)
    assert model.search_.converged and model.search_.n_coarse > 0
    order = np.random.default_rng(0).permutation(len(y))
    other = GaussianProcessRegressor(mean="linear").fit(X[order], y[order])
    np.testing.assert_allclose(other.predict(X), model.predict(X), rtol=1e-7)


def test_restarts_find_what_the_start_misses():
    # To lengths of many waves everything is noise, and no step leads away from there.
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (150, 1))
    y = np.sin(30 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    kernel = 1.0 * RBF(2.0)
    one = GaussianProcessRegressor(kernel).fit(X, y)
    many = GaussianProcessRegressor(kernel, n_restarts=8, random_state=1).fit(X, y)
    assert many.log_marginal_likelihood_value_ > one.log_marginal_likelihood_value_ + 10
    again = GaussianProcessRegressor(kernel, n_restarts=8, random_state=1).fit(X, y)
    np.testing.assert_array_equal(again.theta_, many.theta_)
    for source in (np.random.RandomState(1), np.random.default_rng(1)):
        GaussianProcessRegressor(n_restarts=1, random_state=source).fit(X, y)


# ------------------------------------------------------------------------- explicit means
def test_linear_mean_leaves_out_columns_that_say_nothing_new():
    X, y = data(30)
    Z = np.column_stack([X, np.full(30, 7.0), 2 * X[:, 0] - X[:, 1], X[:, 0]])
    plain = GaussianProcessRegressor(RBF().on([0, 1]), 0.5, optimizer=None, mean="linear")
    one, two = clone(plain).fit(X, y), clone(plain).fit(Z, y)
    np.testing.assert_allclose(two.mean_coef_[2:], 0.0)
    np.testing.assert_allclose(two.mean_coef_[:2], one.mean_coef_, rtol=1e-8)
    np.testing.assert_allclose(
        two.predict(Z, return_std=True), one.predict(X, return_std=True), rtol=1e-8
    )
    assert two.log_marginal_likelihood() == pytest.approx(one.log_marginal_likelihood(), rel=1e-9)
    line = GaussianProcessRegressor(RBF(0.1), 1e-4, optimizer=None, mean="linear")
    line.fit(X, 3.0 + X @ [2.0, -1.0])
    np.testing.assert_allclose(line.mean_coef_, [2.0, -1.0], atol=1e-8)
    assert line.intercept_ == pytest.approx(3.0, abs=1e-8)
    np.testing.assert_allclose(line.predict([[100.0, 100.0]]), 103.0, atol=1e-5)


def test_linear_mean_refuses_what_it_cannot_be():
    X, y = data(30, 6)
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None, mean="linear")
    with pytest.raises(InvalidInput, match="7 coefficients, and X only 4 different rows"):
        model.fit(X[:4], y[:4])
    with pytest.raises(InvalidInput, match="only 4 different rows"):
        model.fit(np.repeat(X[:4], 5, axis=0), np.repeat(y[:4], 5))
    words = GaussianProcessRegressor(lambda a, b: float(a == b), 0.1, optimizer=None, mean="linear")
    with pytest.raises(InvalidInput, match="rows of numbers"):
        words.fit(["a", "b", "c"], [1.0, 2.0, 3.0])
    table = GaussianProcessRegressor("precomputed", 0.1, optimizer=None, mean="linear")
    with pytest.raises(InvalidInput, match="rows of numbers"):
        table.fit(RBF()(X), y)
    for wrong in ("quadratic", None, 1, ["zero"]):
        with pytest.raises(InvalidInput, match="mean="):
            GaussianProcessRegressor(mean=wrong).fit(X, y)


# ---------------------------------------------------------------------- other kinds of points
def test_precomputed_tunes_the_noise_and_answers_the_mean():
    X, y = data(30)
    Xn = X[:5] + 0.1
    kernel = 1.3 * RBF(0.8)
    direct = GaussianProcessRegressor(kernel, fixed=("kernel",)).fit(X, y)
    model = GaussianProcessRegressor("precomputed").fit(kernel(X), y)
    assert model.theta_names_ == ["noise"]
    assert model.noise_ == pytest.approx(direct.noise_, rel=1e-8)
    np.testing.assert_allclose(model.predict(kernel(Xn, X)), direct.predict(Xn), rtol=1e-9)
    for call in ({"return_std": True}, {"return_cov": True}):
        with pytest.raises(InvalidInput, match=r"k\(x, x\)"):
            model.predict(kernel(Xn, X), **call)
    for call in (model.posterior_variance, model.sample_y):
        with pytest.raises(InvalidInput, match=r"k\(x, x\)"):
            call(kernel(Xn, X))
    theta = model.theta_ + 0.3
    a = model.log_marginal_likelihood(theta, eval_gradient=True)
    b = direct.log_marginal_likelihood(theta, eval_gradient=True)
    assert a[0] == pytest.approx(b[0], rel=1e-10)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-7)
    w = np.ones(30)
    w[3:9] = 0.0
    weighted = GaussianProcessRegressor("precomputed", 0.2, optimizer=None)
    weighted.fit(kernel(X), y, sample_weight=w)
    np.testing.assert_array_equal(weighted.X_fit_, np.flatnonzero(w))
    rest = GaussianProcessRegressor(kernel, 0.2, optimizer=None).fit(X[w > 0], y[w > 0])
    np.testing.assert_allclose(weighted.predict(kernel(Xn, X)), rest.predict(Xn), rtol=1e-10)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(kernel(Xn, X)), model.predict(kernel(Xn, X)))
    with pytest.raises(InvalidInput, match="precomputed Gram matrix"):
        again.log_marginal_likelihood(theta)


def test_functions_of_objects():
    def overlap(a, b):
        return float(len(set(a) & set(b)))

    words = ["cat", "car", "cart", "dog", "dig", "rat", "tar", "god"]
    y = np.array([len(set(w)) for w in words], dtype=float)
    for kernel in (overlap, 1.0 * FromFunction(overlap)):
        model = GaussianProcessRegressor(kernel, mean="constant").fit(words, y)
        mean, std = model.predict(["cot", "art", "xyz"], return_std=True)
        assert mean.shape == std.shape == (3,) and np.isfinite(mean + std).all()
        assert model.sample_y(["cot", "art"], 3).shape == (2, 3)
        assert model.search_.converged


# ------------------------------------------------------------------------------ life of a model
def test_parameters_of_the_kernel_by_name_and_search_over_them():
    X, y = data(30)
    model = GaussianProcessRegressor("rbf", 0.5, optimizer=None)
    model.set_params(kernel__length_scale=0.7)
    assert model.fit(X, y).kernel_.length_scale == 0.7
    assert GaussianProcessRegressor().set_params(kernel__k2__length_scale=2.0).kernel.k2 == RBF(2.0)
    grid = GridSearchCV(model, {"kernel__length_scale": [0.01, 0.7]}, cv=3).fit(X, y)
    assert grid.best_params_ == {"kernel__length_scale": 0.7}
    pipe = make_pipeline(StandardScaler(), GaussianProcessRegressor()).fit(X, y)
    assert pipe.score(X, y) > 0.9
    mean, std = pipe.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape


def test_files_and_pickles_hold_no_factor_and_answer_alike(tmp_path):
    X, y = data(60)
    for params in ({}, {"mean": "linear"}, {"noise": np.linspace(0.1, 1.0, 60)}):
        model = GaussianProcessRegressor(**params).fit(X, y)
        path = tmp_path / "model.mercer"
        mercer.save(model, path)
        assert path.stat().st_size < 8 * 60 * 60
        assert len(pickle.dumps(model)) < 8 * 60 * 60
        for again in (mercer.load(path), pickle.loads(pickle.dumps(model))):
            for got, expected in zip(
                again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
            ):
                np.testing.assert_allclose(got, expected, rtol=1e-12)
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            assert again.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
            np.testing.assert_array_equal(again.search_.theta, model.search_.theta)
            assert again.search_.message == model.search_.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dual_coef_", np.zeros(4)),
        ("y_scale_", np.zeros(1)),
        ("y_scale_", np.ones(2)),
        ("scaled_noise_", -1.0),
        ("scaled_noise_", np.ones(3)),
        ("y_fit_", np.full(20, np.nan)),
        ("sample_weight_", np.zeros(20)),
        ("basis_coef_", np.ones((5, 1))),
        ("intercept_", np.ones(2)),
        ("search_", {"theta": 1}),
    ],
)
def test_files_with_parts_that_do_not_fit_are_refused(tmp_path, name, value):
    X, y = data(20)
    model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None, mean="linear").fit(X, y)
    setattr(model, name, value)
    path = tmp_path / "model.mercer"
    mercer.save(model, path)
    with pytest.raises(ModelFileError):
        mercer.load(path)


def test_shapes_follow_those_of_y():
    X, y = data(20)
    for target, tail in ((y, ()), (y[:, None], (1,)), (np.c_[y, -y, y], (3,))):
        model = GaussianProcessRegressor(RBF(), 0.1, optimizer=None).fit(X, target)
        mean, std = model.predict(X[:4], return_std=True)
        assert mean.shape == std.shape == model.posterior_variance(X[:4]).shape == (4, *tail)
        assert model.predict(X[:4], return_cov=True)[1].shape == (4, 4, *tail)
        assert model.sample_y(X[:4], 2).shape == (4, *tail, 2)
        assert model.score(X, target) > 0.9
        assert model.predict(X[:1], return_cov=True)[1].shape == (1, 1, *tail)


def test_linear_kernel_of_few_columns():
    X, _ = data(50, 3)
    model = GaussianProcessRegressor(1.0 * Linear(), mean="constant").fit(X, X @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(model.predict(X), X @ [1.0, 2.0, 3.0], atol=1e-3)
