"""Where the span rule does not hold: fits without the row instead, or a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, SVC, SVR, KernelERM, KernelQuantileRegressor, Linear, NuSVR, Polynomial
from mercer.errors import InvalidInput, speaking_for
from mercer.models.margin.left_out import FAILS, refitted
from mercer.selection.tuning.errors import CountedErrors

rng = np.random.default_rng(0)
N = 40
X = rng.normal(size=(N, 2))
t = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=N)
y = np.where(t > 0, 1, -1)


def refits(model, X, y, call):
    """Return left-out values by definition."""
    every = np.arange(len(y))
    return np.array(
        [
            getattr(clone(model).fit(X[every != i], y[every != i]), call)(X[[i]])[0]
            for i in range(len(y))
        ]
    )


def check(model, X, y, call="predict"):
    """Left-out values are off by less than what leaving out changes."""
    model.fit(X, y)
    want = refits(model, X, y, call)
    loo = "loo" if call == "predict" else "loo_decision_function"
    got = getattr(model, loo)(X)
    true = np.abs(want - getattr(model, call)(X)).max()
    assert np.abs(got - want).max() < 0.6 * true
    assert np.abs(got - y).mean() == pytest.approx(np.abs(want - y).mean(), rel=0.03)


@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("kernel", ["linear", Polynomial(2)], ids=repr)
@pytest.mark.parametrize("loss", ["absolute", "epsilon_insensitive"])
def test_few_features_and_a_small_penalty(loss, kernel, alpha):
    check(KernelERM(kernel, loss, alpha=alpha), X, t)


@pytest.mark.parametrize("alpha", [0.1, 1e-4])
def test_hinge(alpha):
    check(KernelERM("linear", "hinge", alpha=alpha), X, y, "decision_function")


def test_quantiles():
    check(KernelQuantileRegressor("linear", 0.7, alpha=1e-3), X, t)


@pytest.mark.parametrize("kernel", ["linear", Polynomial(2)], ids=repr)
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_support_vector_machines(kernel, C):
    check(SVC(kernel, C, tol=1e-6), X, y, "decision_function")
    check(SVR(kernel, C, tol=1e-6), X, t)
    check(NuSVR(kernel, 0.3, C, tol=1e-6), X, t)


def test_several_classes_weights_and_a_matrix():
    labels, w = np.digitize(t, [-0.5, 0.5]), rng.integers(0, 3, N).astype(float)
    w[labels != 1] += 1
    model = SVC("linear", 1e3, tol=1e-6).fit(X, labels, sample_weight=w)
    got, every = model.loo_decision_function(X), np.arange(N)
    given = SVC("precomputed", 1e3, tol=1e-6).fit(X @ X.T, labels, sample_weight=w)
    np.testing.assert_allclose(given.loo_decision_function(X @ X.T), got, atol=1e-4)
    want = [
        clone(model).fit(X[every != i], labels[every != i], w[every != i]).predict(X[[i]])[0]
        for i in range(N)
    ]
    assert np.sum(model.loo(X) != want) <= 1


def test_a_saved_machine_leaves_out_alike_and_an_old_one_by_the_rule(tmp_path):
    w = np.where(np.arange(N) < 5, 0.0, 2.0)
    model = SVR("linear", 10.0).fit(X, t, sample_weight=w)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.loo(X), model.loo(X))
    del again.y_fit_, again.weights_fit_
    assert again.loo(X).shape == (N,)


def test_one_row_and_two_of_a_machine():
    model = SVR(RBF(1.0), 10.0, tol=1e-9).fit(X[:2], t[:2])
    want = refits(model, X[:2], t[:2], "predict")
    np.testing.assert_allclose(model.loo(X[:2]), want, atol=1e-9)
    with pytest.raises(InvalidInput, match=r"SVR.loo: .* at least 2 rows"):
        model.fit(X[:1], t[:1]).loo(X[:1])
    bare = SVR(RBF(1.0), fit_intercept=False).fit(X[:1], t[:1])
    np.testing.assert_allclose(bare.loo(X[:1]), 0)
    with pytest.raises(InvalidInput, match="is the only one of its class"):
        SVC("linear").fit(X[:2], [0, 1]).loo(X[:2])


def test_a_class_of_weight_zero_is_named():
    for settings, w in (({}, (y > 0) * 1.0), ({"class_weight": {-1: 0, 1: 1}}, None)):
        with pytest.raises(InvalidInput, match="SVC: all rows of class -1 have weight 0"):
            SVC(**settings).fit(X, y, sample_weight=w)


def test_rows_given_twice():
    points = np.repeat(rng.normal(size=(15, 60)), 2, axis=0)
    targets = 0.5 * rng.normal(size=30)
    model = KernelERM("linear", "absolute", alpha=1.0).fit(points, targets)
    want = refits(model, points, targets, "predict")
    np.testing.assert_allclose(model.loo(), want, atol=1e-3)


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear"], ids=repr)
def test_two_rows_and_one(kernel):
    for model in (KernelERM(kernel, "absolute"), KernelQuantileRegressor(kernel)):
        model.fit(X[:2], t[:2])
        np.testing.assert_allclose(model.loo(), t[1::-1], atol=1e-9)
        with pytest.raises(InvalidInput, match="at least 2 rows"):
            model.fit(X[:1], t[:1]).loo()
        bare = clone(model).set_params(fit_intercept=False).fit(X[:1], t[:1])
        np.testing.assert_allclose(bare.loo(), 0, atol=1e-9)


def test_the_only_row_of_a_class():
    labels = np.where(np.arange(N) == 0, 1, -1)
    points = np.where(labels[:, None] > 0, 10.0, X)
    model = KernelERM("linear", "hinge", alpha=1e-3).fit(points, labels)
    with pytest.raises(InvalidInput, match="row 0 is the only one of its class"):
        model.loo()


def test_many_rows_are_probed_and_the_rest_is_named():
    n = 300
    fitted, spread = np.zeros((n, 1)), np.array([1.0])
    values = np.linspace(0, 10, n)[:, None]
    asked = []

    def again(i, off):
        asked.append(i)
        return values[i] - off

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = refitted(values, fitted, spread, lambda i: again(i, 0.1))
    assert asked == [299, 298, 297, 296, 295]  # the farthest; there the rule holds
    assert np.abs(out - values).max() == pytest.approx(0.1)
    asked.clear()
    with (
        pytest.warns(UserWarning, match="220 others .* unreliable. Use cross-validation"),
        speaking_for("loo"),
    ):
        refitted(values, fitted, spread, lambda i: again(i, 9.0))
    assert len(asked) == 50
    asked.clear()
    few = refitted(values[:200], fitted[:200], spread, lambda i: again(i, 9.0))
    assert len(asked) == np.sum(values[:200] > 0.5)
    np.testing.assert_array_equal(few[values[:200] <= 0.5], values[values <= 0.5])
    assert np.isfinite(refitted(np.full((20, 1), np.nan), fitted[:20], spread, float)).all()


def test_far_rows_of_many_are_fitted_again():
    points = np.random.default_rng(1).normal(size=(240, 1))
    targets = points[:, 0] + np.random.default_rng(2).normal(size=240)
    model = KernelERM("linear", "absolute", alpha=1e-4).fit(points, targets)
    assert np.abs(model.loo() - model.predict(points)).max() < 1


def test_tune_says_once_that_the_rule_does_not_hold():
    counted = CountedErrors()
    for rest in (3, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with counted._counting():
                warnings.warn(f"loo: {FAILS}: {rest} others", UserWarning, stacklevel=1)
    with (
        pytest.warns(UserWarning, match="for 2 settings in tune .* use criterion='cv'"),
        speaking_for("SVR"),
    ):
        counted.warn()


def test_tune_by_leaving_out_is_not_led_astray():
    # by the rule alone a small alpha looks 100 times worse than it is
    model = KernelERM("linear", "absolute")
    errors = [
        np.abs(t - clone(model).set_params(alpha=a).fit(X, t).loo()).mean() for a in (1e-4, 1e-2)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


def test_more_rows_of_some_features():
    own = np.random.default_rng(3)
    points = own.normal(size=(210, 4))
    targets = np.sin(2 * points[:, 0]) + 0.3 * own.normal(size=210)
    model = KernelERM(Polynomial(2), "absolute", alpha=1e-3).fit(points, targets)
    left_out, every = model.loo(), np.arange(210)
    for i in range(0, 210, 7):  # by the rule all but 15 rows would keep their values
        rest = clone(model).fit(points[every != i], targets[every != i])
        assert abs(rest.predict(points[[i]])[0] - left_out[i]) < 0.06
    machine = SVR(Linear(), 100.0).fit(points[:, [0, 0, 0, 0, 1]], targets)
    with pytest.warns(UserWarning, match=r"SVR.loo: the span rule does not hold"):
        machine.loo(points[:, [0, 0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("seed", "row", "kernel", "C"), [(166, 16, Polynomial(2), 10.0), (243, 22, RBF(0.5), 100.0)]
)
def test_a_coefficient_that_leaves_its_box_by_little_is_doubted(seed, row, kernel, C):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    rest = np.delete(np.arange(40), row)
    refit = SVC(kernel, C, tol=1e-6).fit(X[rest], y[rest]).decision_function(X[[row]])
    left_out = SVC(kernel, C, tol=1e-6).fit(X, y).loo_decision_function(X)[[row]]
    np.testing.assert_allclose(left_out, refit, atol=1e-3)
