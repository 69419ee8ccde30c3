"""tune: its gradient, its minimum, its limits and its refusals."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge as LinearRidge

import mercer
from mercer import (
    RBF,
    KernelRidge,
    KernelRidgeClassifier,
    Linear,
    Matern,
    Periodic,
    RationalQuadratic,
    TableClassifier,
    TableRegressor,
    tune,
)
from mercer.datasets import load_diabetes_table, load_wine_table
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotPositiveDefinite
from mercer.kernels import Explicit
from mercer.models.ridge.exact import LeastSquares

rng = np.random.default_rng(1)
X = rng.standard_normal((30, 3))
Y = np.c_[np.sin(X[:, 0]) + 0.1 * rng.standard_normal(30), X[:, 1] ** 2]


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weights", [None, rng.uniform(0.5, 2, 30)], ids=["even", "uneven"])
@pytest.mark.parametrize(
    "kernel", [RBF([1.0, 2.0, 0.5]) + 2 * Linear(), Matern(1.3) * RationalQuadratic(1.0, 2.0)]
)
def test_gradient_of_the_loo_error(kernel, weights, offset):
    def error(k, alpha):
        return LeastSquares(k, X, Y, weights, offset).loo_gradient(alpha)

    value, G, in_alpha = error(kernel, 0.3)
    model = KernelRidge(kernel, 0.3, fit_intercept=offset).fit(X, Y, sample_weight=weights)
    w = np.ones(30) if weights is None else weights
    residual = Y - model.loo()
    assert value == pytest.approx((w[:, None] * residual**2).sum() / (2 * w.sum()), rel=1e-9)
    h = 1e-5
    up, down = error(kernel, 0.3 * np.exp(h))[0], error(kernel, 0.3 * np.exp(-h))[0]
    assert in_alpha == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-8)
    gradient = kernel.theta_vjp(X, G)
    for i, step in enumerate(h * np.eye(len(kernel.theta))):
        up = error(kernel.with_theta(kernel.theta + step), 0.3)[0]
        down = error(kernel.with_theta(kernel.theta - step), 0.3)[0]
        assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-7)


def test_finds_what_a_fine_grid_finds():
    x = np.sort(rng.uniform(0, 6, 60))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(60)
    result = tune(KernelRidge(RBF("median")), x, y)
    grid = [
        KernelRidge(RBF(s), "loo", alphas=np.logspace(-6, 2, 40)).fit(x, y).loo_errors_.min()
        for s in np.logspace(-1, 1, 40)
    ]
    assert result.score <= min(grid) * 1.01
    best = result.model
    assert result.score == pytest.approx(((y - best.loo()) ** 2).mean(), rel=1e-6)
    assert result.params["alpha"] == best.alpha_
    assert result.params["kernel__length_scale"] == pytest.approx(best.kernel_.length_scale)
    assert min(row["error"] for row in result.table) == pytest.approx(result.score)
    assert "leave-one-out" in str(result)


def test_tuning_helps_on_real_data():
    data, y = load_diabetes(return_X_y=True)
    result = tune(KernelRidge("rbf", fit_intercept=True), data, y)
    default = KernelRidge("rbf", fit_intercept=True).fit(data, y)
    assert result.score < ((y - default.loo()) ** 2).mean()
    linear = LinearRidge(alpha=1e-2).fit(data, y)
    assert result.score < 1.05 * ((y - linear.predict(data)) ** 2).mean() * 442 / 431


def test_one_scale_for_each_column_finds_the_column_that_matters():
    data = rng.standard_normal((120, 4))
    y = np.sin(2 * data[:, 2])
    result = tune(KernelRidge(RBF([1.0] * 4)), data, y)
    scales = result.model.kernel_.length_scale
    assert scales.argmin() == 2 and scales[2] < 0.2 * np.delete(scales, 2).min()


def test_classifier_and_kernel_without_parameters():
    data, y = load_iris(return_X_y=True)
    result = tune(KernelRidgeClassifier(), data, y)
    assert (result.model.loo() == y).mean() > 0.94
    result = tune(KernelRidge("linear"), data, y.astype(float))
    assert set(result.params) == {"alpha"} and result.converged
    K = Linear()(data)
    given = tune(KernelRidge("precomputed"), K, y.astype(float))
    assert given.score == pytest.approx(result.score, rel=1e-4)


def test_subset_of_rows_and_reproducibility():
    data = rng.standard_normal((400, 2))
    y = np.sin(data[:, 0])
    a = tune(KernelRidge("rbf"), data, y, max_points=100)
    b = tune(KernelRidge("rbf"), data, y, max_points=100)
    assert a.params == b.params
    assert len(a.model.X_fit_) == 400


def test_weights_and_rows_of_weight_zero():
    w = np.r_[np.zeros(10), np.ones(20)]
    a = tune(KernelRidge(RBF()), X, Y, sample_weight=w)
    b = tune(KernelRidge(RBF()), X[10:], Y[10:])
    assert a.score == pytest.approx(b.score, rel=1e-8)


def test_stops_in_time_with_the_best_so_far():
    data = rng.standard_normal((900, 5))
    start = time.monotonic()
    result = tune(KernelRidge(RBF([1.0] * 5)), data, np.sin(data[:, 0]), max_time=0.0)
    assert time.monotonic() - start < 20
    assert not result.converged and "max_time" in result.message
    assert len(result.table) == 1


def test_the_model_given_is_not_changed():
    model = KernelRidge(RBF("median"), 0.5)
    tune(model, X, Y)
    assert model.kernel == RBF("median") and model.alpha == 0.5 and not hasattr(model, "kernel_")


def test_degenerate_targets():
    for y in (np.zeros(30), np.full(30, 5.0)):
        result = tune(KernelRidge(RBF(), fit_intercept=True), X, y)
        np.testing.assert_allclose(result.model.predict(X), y, atol=1e-8)


def test_refusals():
    with pytest.raises(InvalidInput, match="KernelRidge"):
        tune(LinearRidge(), X, Y)
    with pytest.raises(InvalidInput, match="too few"):
        tune(KernelRidge(RBF()), X[:2], Y[:2])
    with pytest.raises(InvalidInput, match="max_points"):
        tune(KernelRidge(RBF()), X, Y, max_points=1)
    with pytest.raises(InvalidInput, match="NaN"):
        tune(KernelRidge(RBF()), X * np.nan, Y)


def _series():
    t = np.arange(150) / 12.0
    noise = 0.1 * np.random.default_rng(5).standard_normal(150)
    return t[:, None], 0.3 * t + np.sin(2 * np.pi * t) + noise


def test_stops_only_at_a_stationary_point_of_a_composed_kernel():
    t, y = _series()
    kernel = 1.0 * Linear() + 1.0 * Periodic(1.0, period=1.0) + 0.1 * RBF(3.0)
    result = tune(KernelRidge(kernel, fit_intercept=True), t, y)
    assert result.converged
    again = tune(result.model, t, y)
    assert again.score > 0.995 * result.score
    assert result.model.kernel_.k1.k2.k2.period == pytest.approx(1.0, abs=0.02)
    assert result.score < 0.013


def test_parameters_can_be_fixed_and_bounded():
    t, y = _series()
    kernel = 1.0 * Linear() + Periodic(1.0, period=1.0)
    result = tune(
        KernelRidge(kernel),
        t,
        y,
        fixed=["k2__period"],
        bounds={"k2__length_scale": (0.5, 0.8)},
    )
    assert result.model.kernel_.k2.period == 1.0
    assert 0.5 <= result.model.kernel_.k2.length_scale <= 0.8 + 1e-9
    short = tune(KernelRidge(kernel), t, y, fixed=["period"], max_iter=2)  # only one ends so
    assert short.model.kernel_.k2.period == 1.0
    with pytest.raises(InvalidInput, match="k2__period"):
        tune(KernelRidge(kernel), t, y, fixed=["riod"])
    with pytest.raises(InvalidInput, match="k1__length_scale"):
        tune(KernelRidge(RBF() + Periodic()), t, y, fixed=["length_scale"])
    with pytest.raises(InvalidInput, match="low"):
        tune(KernelRidge(kernel), t, y, bounds={"k2__period": (2.0, 1.0)})


def test_params_go_back_into_the_model():
    for kernel in (RBF([1.0, 1.0, 1.0]), 2.0 * RBF() + Linear()):
        result = tune(KernelRidge(kernel), X, Y)
        again = KernelRidge(kernel).set_params(**result.params).fit(X, Y)
        np.testing.assert_allclose(again.predict(X), result.model.predict(X), rtol=1e-9)


def test_float32_and_noise_free_targets():
    data = rng.standard_normal((200, 3)).astype(np.float32)
    result = tune(KernelRidge(RBF("median")), data, np.sin(data[:, 0]))
    assert result.model.solution_.converged
    line = np.linspace(0, 1, 150)[:, None].astype(np.float32)
    labels = line[:, 0] > 0.5
    assert (tune(KernelRidgeClassifier("rbf"), line, labels).model.loo() == labels).mean() > 0.95


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_of_the_target_do_not_matter(scale):
    a = tune(KernelRidge(RBF()), X, Y[:, 0])
    b = tune(KernelRidge(RBF()), X, Y[:, 0] * scale)
    assert b.converged and b.params["alpha"] == pytest.approx(a.params["alpha"], rel=1e-3)


def test_a_kernel_that_never_works_is_an_error():
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue"):
        tune(KernelRidge(lambda a, b: float(np.tanh(a @ b - 1))), X, Y)


def test_budget_is_not_swallowed():
    with mercer.config(memory="40kB"), pytest.raises(MemoryBudgetExceeded):
        tune(KernelRidge(RBF()), rng.standard_normal((100, 2)), np.arange(100.0))


def test_table_models():
    table, y = load_diabetes_table()
    result = tune(TableRegressor("rbf"), table, y)
    assert isinstance(result.model, TableRegressor)
    assert result.score == pytest.approx(((y - result.model.loo()) ** 2).mean(), rel=1e-3)
    table, grower = load_wine_table()
    result = tune(TableClassifier("rbf"), table, grower)
    assert (result.model.loo() == grower).mean() > 0.95


def test_objective_has_the_gradient_it_claims():
    from mercer.estimator.sample import Sample
    from mercer.selection.tuning.gradient import LooSearch

    kernel = 2.0 * RBF([1.0, 2.0, 0.5]) + 0.5 * Linear()
    search = LooSearch(Sample(kernel, X, Y, None, column=False), True, 2000, None, None)
    point = np.append(kernel.theta, -2.0)
    _, gradient = search._objective(point)
    for i, step in enumerate(1e-5 * np.eye(len(point))):
        up, down = search._objective(point + step)[0], search._objective(point - step)[0]
        assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-7)


def test_table_models_are_tuned_with_the_weights_they_are_fitted_with():
    table, y = load_diabetes_table()
    table, y = table.take(np.arange(80)), y[:80]
    w = np.r_[np.zeros(10), np.ones(70)]
    a = tune(TableRegressor("rbf"), table, y, sample_weight=w)
    b = tune(TableRegressor("rbf"), table.take(np.arange(10, 80)), y[10:])
    assert a.score == pytest.approx(b.score, rel=1e-6)
    assert min(row["error"] for row in a.table) == pytest.approx(a.score)
    assert tune(TableRegressor("rbf"), table, y, sample_weight=2.0).converged
    for weights, words in ((np.zeros(80), "zero"), (np.ones(3), "sample_weight")):
        with pytest.raises(InvalidInput, match=words):
            tune(TableRegressor("rbf"), table, y, sample_weight=weights)
    model = TableRegressor("rbf").set_params(**a.params)
    assert model.fit(table, y).kernel_.length_scale == a.params["kernel__length_scale"]


@pytest.mark.parametrize("scale", [1e-300, 1e200])
def test_extreme_targets_are_tuned_all_the_same(scale):
    want = tune(KernelRidge(RBF()), X, Y[:, 0])
    got = tune(KernelRidge(RBF()), X, Y[:, 0] * scale)
    assert got.params["kernel__length_scale"] == pytest.approx(
        want.params["kernel__length_scale"], rel=1e-3
    )


def test_options_are_checked():
    model = KernelRidge(RBF([1.0, 1.0, 1.0]))
    for options, words in (
        ({"bounds": {"length_scale": 3}}, "bounds"),
        ({"bounds": {"length_scale": ("a", "b")}}, "bounds"),
        ({"random_state": "a"}, "random_state"),
        ({"max_iter": True}, "max_iter"),
        ({"max_time": "a"}, "max_time"),
    ):
        with pytest.raises(InvalidInput, match=words):
            tune(model, X, Y, **options)
    held = tune(model, X, Y, fixed="length_scale", max_time=np.float32(60))
    np.testing.assert_array_equal(held.model.kernel_.length_scale, [1.0, 1.0, 1.0])


def test_an_authors_kernel_without_derivatives_can_be_held_fixed():
    result = tune(KernelRidge(Affine(2.0)), X, Y, fixed=["slope"])
    assert result.model.kernel_.slope == 2.0
    with pytest.raises(InvalidInput, match="derivative"):
        tune(KernelRidge(Affine(2.0)), X, Y)


class Affine(Explicit):
    """Features (1, q·x), with a parameter and no derivative."""

    _tunable = ("slope",)

    def __init__(self, slope=1.0):
        super().__init__(slope=slope)

    def _features(self, X):
        return np.c_[np.ones(len(X)), self.slope * X]


def test_the_result_answers_for_its_model():
    result = tune(KernelRidge(RBF()), X, Y)
    np.testing.assert_array_equal(result.predict(X), result.model.predict(X))
    assert result.kernel_ == result.model.kernel_ and result.alpha_ == result.params["alpha"]
    again = pickle.loads(pickle.dumps(result))
    assert again.params == result.params and str(again) == str(result)
    with pytest.raises(AttributeError, match="nothing"):
        result.nothing  # noqa: B018


@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_a_small_budget_takes_fewer_rows(solver, criterion):
    x = np.random.default_rng(0).standard_normal((400, 2))
    with mercer.config(memory="2MB"):
        model = KernelRidge(RBF(), solver=solver)
        result = tune(model, x, np.sin(x[:, 0]), criterion=criterion, max_iter=2)
    assert "chosen on 188 of 400 rows" in result.message
    assert len(result.model.predict(x)) == 400
