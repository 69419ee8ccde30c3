"""tune for SVC and SVR: against grids, on one Gram matrix a kernel, limits and refusals."""

from __future__ import annotations

import pickle
import re
import time
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine, make_moons
from sklearn.model_selection import cross_val_score

import mercer
from mercer import RBF, SVC, SVR, Linear, Matern, TableClassifier, tune
from mercer.datasets import load_wine_table
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, NotPositiveDefinite
from mercer.models.margin.folds import stratified_folds
from mercer.models.margin.path import FoldWalk
from mercer.models.margin.problems import gram_rows
from mercer.selection.tuning.compass import Trial
from mercer.selection.tuning.margin import RegressionWalk

rng = np.random.default_rng(3)
X, Y = make_moons(160, noise=0.25, random_state=0)


def folds_of(n_or_y, seed=0):
    y = np.zeros(n_or_y) if np.isscalar(n_or_y) else n_or_y
    fold = stratified_folds(y, 5, np.random.RandomState(seed))
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]


def test_finds_what_a_grid_finds():
    result = tune(SVC(RBF("median")), X, Y)
    cv = folds_of(Y)
    grid = [
        1 - SVC(RBF(s)).path(X, Y, np.logspace(-2, 3, 11), cv=cv).mean_score.max()
        for s in np.geomspace(0.05, 5, 12)
    ]
    assert result.score <= min(grid) + 1.01 / 160
    assert result.converged and result.message == "no further gain"
    assert "wrong" in str(result) and "C=" in str(result)


def test_the_score_is_that_of_refits():
    result = tune(SVC(), X, Y)
    best = SVC(result.model.kernel_, result.params["C"])
    refits = cross_val_score(best, X, Y, cv=folds_of(Y))
    assert result.score == pytest.approx(1 - refits.mean(), abs=0.5 / 160)
    assert result.score == min(row["error"] for row in result.table)
    assert set(result.table[0]) == {"length_scale", "C", "error", "loss"}
    assert result.params["C"] == result.model.C
    assert result.params["kernel__length_scale"] == result.model.kernel_.length_scale
    again = SVC().set_params(**result.params).fit(X, Y)
    np.testing.assert_allclose(again.decision_function(X), result.decision_function(X), rtol=1e-6)


def test_the_model_given_is_not_changed_and_keeps_its_settings():
    model = SVC("matern", C=7.0, probability=True, class_weight="balanced", multi_class="ovr")
    result = tune(model, X, Y, max_iter=2)
    assert model.C == 7.0 and model.kernel == "matern" and not hasattr(model, "support_")
    found = result.model
    assert found.probability and found.class_weight == "balanced" and found.multi_class == "ovr"
    assert result.predict_proba(X).shape == (160, 2)
    again = pickle.loads(pickle.dumps(result))
    assert again.params == result.params and str(again) == str(result)


def test_repeats_itself_and_uses_the_seed():
    a, b = (tune(SVC(), X, Y, max_points=80, random_state=3) for _ in range(2))
    assert a.params == b.params and a.table == b.table
    assert a.model.loo_bound_ == len(a.model.support_) / 160  # the fit is on all rows
    c = tune(SVC(), X, Y, max_points=80, random_state=4)
    assert c.table != a.table


def test_several_classes_and_names():
    x, y = load_iris(return_X_y=True)
    names = np.array(["c", "a", "b"])[y]
    for kind in ("ovo", "ovr"):
        result = tune(SVC(multi_class=kind), x, names, max_iter=6)
        assert result.score < 0.06 and set(result.predict(x)) == {"a", "b", "c"}


def test_one_scale_for_each_column_finds_the_column_that_matters():
    x = rng.standard_normal((200, 4))
    y = np.sin(2 * x[:, 2]) > 0
    result = tune(SVC(RBF([1.0] * 4)), x, y, max_iter=20)
    scales = result.model.kernel_.length_scale
    assert scales.argmin() == 2
    assert result.score < tune(SVC(RBF(1.0)), x, y).score


def test_kernel_without_parameters_and_precomputed():
    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    result = tune(SVC("linear"), 1e4 * x, y)
    assert set(result.params) == {"C"} and result.converged and result.score < 0.05
    given = tune(SVC("precomputed"), Linear()(1e4 * x), y)
    assert given.params["C"] == pytest.approx(result.params["C"])
    assert given.score == result.score


def test_weights():
    w = np.r_[np.zeros(40), np.ones(120)]
    a = tune(SVC(RBF()), X, Y, sample_weight=w, max_iter=5)
    b = tune(SVC(RBF()), X[40:], Y[40:], max_iter=5)
    assert a.params == pytest.approx(b.params) and a.score == b.score


def test_parameters_can_be_fixed_and_bounded():
    kernel = 1.0 * RBF(0.5)
    free = tune(SVC(kernel), X, Y, max_iter=10)
    assert free.model.kernel_ != kernel
    held = tune(SVC(kernel, C=3.0), X, Y, fixed=["k2__length_scale", "C"], max_iter=10)
    assert held.model.kernel_.k2.length_scale == 0.5 and held.params["C"] == 3.0
    near = tune(SVC(RBF()), X, Y, bounds={"length_scale": (0.3, 0.4), "C": (2.0, 5.0)})
    assert 0.3 <= near.params["kernel__length_scale"] <= 0.4 + 1e-12
    assert all(2.0 <= row["C"] <= 5.0 for row in near.table)
    both = tune(SVC(RBF(0.7), C=2.0), X, Y, fixed=["length_scale", "C"])
    assert len(both.table) == 1 and both.converged
    for options, words in (
        ({"fixed": ["width"]}, "width"),
        ({"bounds": {"C": (3.0, 1.0)}}, "low"),
        ({"bounds": {"C": "x"}}, "bounds"),
    ):
        with pytest.raises(InvalidInput, match=words):
            tune(SVC(RBF()), X, Y, **options)


def test_limits():
    start = time.monotonic()
    result = tune(SVC(), rng.standard_normal((800, 5)), rng.integers(0, 2, 800), max_time=0.0)
    assert time.monotonic() - start < 20
    assert not result.converged and "max_time" in result.message and len(result.table) == 1
    few = tune(SVC(RBF([1.0, 1.0])), X, Y, max_iter=1)
    assert not few.converged and "max_iter" in few.message
    assert len({row["length_scale[0]"] for row in few.table}) <= 5


def test_refusals():
    with pytest.raises(InvalidInput, match="OneClassSVM learns without y"):
        tune(mercer.OneClassSVM(), X, Y)
    with pytest.raises(InvalidInput, match="too few"):
        tune(SVC(), X[:2], [0, 1])
    with pytest.raises(InvalidInput, match="class"):
        tune(SVC(), X, np.zeros(160))
    with pytest.raises(InvalidInput, match="NaN"):
        tune(SVC(), X * np.nan, Y)
    with pytest.raises(NotPositiveDefinite):
        tune(SVC(lambda a, b: float(np.tanh(a @ b - 1))), X[:40], Y[:40])
    with mercer.config(memory="20kB"), pytest.raises(MemoryBudgetExceeded):
        tune(SVC(RBF()), np.tile(X, (20, 1)), np.tile(Y, 20))


@pytest.mark.parametrize("counts", [(2, 3), (2, 9), (2, 2, 2), (3, 2, 20)])
def test_tiny_and_rare_classes(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    x = rng.standard_normal((len(y), 2)) + 2 * y[:, None]
    result = tune(SVC(), x, y, max_iter=3)
    assert 0 <= result.score <= 1 and np.isfinite(result.params["C"])


@pytest.mark.parametrize("counts", [(2, 2), (1, 9), (1, 1, 1), (3, 1, 20)])
def test_too_few_rows_are_refused(counts):
    y = np.repeat(np.array(["ant", "bee", "cow"])[: len(counts)], counts)
    x = rng.standard_normal((len(y), 2))
    words = "rows are too few .* 5 folds" if len(y) < 5 else r"class (ant|bee) has 1 of the"
    with pytest.raises(InvalidInput, match=words):
        tune(SVC(), x, y)
    with pytest.raises(InvalidInput, match="4 rows are too few"):
        tune(SVR(), x[:1].repeat(4, 0), np.arange(4.0))


def test_the_hard_margin_is_refused():
    for options in ({}, {"fixed": "C"}, {"bounds": {"C": (1.0, 2.0)}}):
        with pytest.raises(InvalidInput, match="finite C"):
            tune(SVC(C=np.inf), X, Y, **options)


def test_names_with_and_without_the_kernel_in_front():
    for name in ("length_scale", "kernel__length_scale"):
        held = tune(SVC(RBF(0.7)), X, Y, fixed=[name])
        assert held.model.kernel_.length_scale == 0.7
        near = tune(SVR(RBF()), X, X[:, 0], bounds={name: (0.3, 0.4)}, max_iter=3)
        assert 0.3 <= near.model.kernel_.length_scale <= 0.4 + 1e-12
    both = tune(SVC(1.0 * RBF(0.5)), X, Y, fixed="kernel__k2__length_scale", max_iter=3)
    assert both.model.kernel_.k2.length_scale == 0.5
    for bad in ("gamma", "kernel__gamma", "kernel__C", 3):
        with pytest.raises(InvalidInput, match="there are: 'length_scale', 'C'"):
            tune(SVC(RBF()), X, Y, fixed=[bad])
    with pytest.raises(InvalidInput, match="there are: 'C'"):
        tune(SVC("linear"), X, Y, bounds={"length_scale": (1.0, 2.0)})


def test_says_how_many_rows_were_used():
    all_rows = tune(SVC(), X, Y, max_iter=1)
    assert all_rows.n_points == 160 and "rows" not in all_rows.message
    some = tune(SVC(), X, Y, max_iter=1, max_points=50)
    assert some.n_points == 50 and "chosen on 50 of 160 rows" in str(some)
    ridge = tune(mercer.KernelRidge(), X, Y, max_iter=1, max_points=50)
    assert ridge.n_points == 50 and "chosen on 50 of 160 rows" in ridge.message
    w = np.r_[np.zeros(60), np.ones(100)]
    assert "rows" not in tune(mercer.KernelRidge(), X, Y, w, max_iter=1, max_points=100).message


@pytest.mark.parametrize("model", [SVC(max_iter=2), SVR(max_iter=2)])
def test_folds_that_do_not_converge_are_counted(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tune(model, X, Y, max_iter=2)
    told = [str(w.message) for w in caught if w.category is NotConverged]
    name = type(model).__name__
    assert 1 <= len(told) <= 2 and all(text.startswith(f"{name}: ") for text in told)
    assert re.match(rf"{name}: \d+ of \d+ problems in the folds of tune did not", told[0])
    assert "SMO" not in "".join(told)


def test_class_weights_count_in_fits_only():
    y = np.where(np.arange(160) % 8 == 0, Y, 0)
    heavy = tune(SVC(RBF(0.7), class_weight={1: 50.0}), X, y, fixed="length_scale", max_iter=2)
    path = SVC(RBF(0.7), heavy.params["C"], class_weight={1: 50.0}).path(
        X, y, [heavy.params["C"]], cv=folds_of(y)
    )
    assert heavy.score == pytest.approx(1 - path.mean_score[0], abs=1e-9)


def test_columns_without_influence_are_left_alone():
    x = rng.standard_normal((120, 4))
    y = np.sin(2 * x[:, 1]) + 0.1 * rng.standard_normal(120)
    result = tune(SVR(RBF([1.0] * 4), epsilon=0.05), x, y)
    assert result.score < 0.05
    assert result.model.kernel_.length_scale.argmin() == 1
    one = tune(SVR(RBF(1.0), epsilon=0.05), x, y)
    assert result.score < 0.5 * one.score


def test_a_walk_ends_where_it_cannot_win():
    model = SVR(RBF(1.0))
    data = model._prepare(X, X[:, 0], None)
    walk = RegressionWalk(data, gram_rows(data.kernel, data.X), folds_of(160))
    assert not walk.step(model, limit=0.0) and not walk.errors and len(walk.last) == 1
    assert walk.step(model) and len(walk.errors[0]) == 5
    model = SVC(RBF(1.0))
    data = model._prepare(X, Y, None)
    walk = FoldWalk(data, gram_rows(data.kernel, data.X), model._tasks(data), folds_of(Y))
    assert not walk.step(model, limit=0.0) and not walk.scores
    full = FoldWalk(data, gram_rows(data.kernel, data.X), model._tasks(data), folds_of(Y))
    assert walk.step(model) and full.step(model)
    np.testing.assert_array_equal(walk.scores, full.scores)


def test_rare_classes_survive_the_choice_of_rows():
    y = np.repeat([0, 1, 2], [400, 30, 30])
    x = rng.standard_normal((460, 2)) + 2 * y[:, None]
    result = tune(SVC(), x, y, max_points=60, max_iter=2)
    assert set(result.predict(x)) == {0, 1, 2}


def test_equals_are_decided_by_the_loss_and_then_by_order():
    first = Trial(None, 1.0, 0.1, 0.5)
    assert Trial(None, 2.0, 0.09, 9.0).better_than(first)
    assert not Trial(None, 2.0, 0.11, 0.0).better_than(first)
    assert Trial(None, 2.0, 0.1, 0.4).better_than(first)
    assert not Trial(None, 2.0, 0.1, 0.499).better_than(first)
    assert first.better_than(None)


def test_table_classifier():
    table, grower = load_wine_table()
    result = tune(TableClassifier("rbf", model="svc", probability=True), table, grower, max_iter=5)
    assert isinstance(result.model, TableClassifier) and result.model.model == "svc"
    assert result.score < 0.05 and result.model.C == result.params["C"]
    assert (result.predict(table) == grower).mean() > 0.97
    assert result.predict_proba(table).shape == (178, 3)


# --------------------------------------------------------------------------------------- regression
def test_regression_finds_what_a_grid_finds():
    x = np.sort(rng.uniform(0, 6, 80))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(80)
    result = tune(SVR(RBF("median"), epsilon=0.05), x, y)
    cv = folds_of(80)
    grid = [
        -cross_val_score(
            SVR(RBF(s), C, epsilon=0.05), x, y, cv=cv, scoring="neg_mean_squared_error"
        ).mean()
        for s in np.geomspace(0.2, 3, 7)
        for C in np.logspace(-1, 2, 7)
    ]
    assert result.score <= 1.03 * min(grid)
    best = SVR(result.model.kernel_, result.params["C"], epsilon=0.05)
    refits = cross_val_score(best, x, y, cv=cv, scoring="neg_mean_squared_error")
    assert result.score == pytest.approx(-refits.mean(), rel=0.02)
    assert "held-out mean squared error" in str(result)
    assert set(result.table[0]) == {"length_scale", "C", "error"}


def test_regression_on_real_data_and_in_other_units():
    x, y = load_diabetes(return_X_y=True)
    x, y = x[:200], y[:200]
    result = tune(SVR("rbf", epsilon=5.0), x, y, max_iter=8)
    assert result.score < 0.75 * y.var()
    small = tune(SVR("rbf", epsilon=5e-6, tol=1e-9), x, 1e-6 * y, max_iter=8)
    assert small.params["C"] == pytest.approx(1e-6 * result.params["C"], rel=0.9)
    assert small.score == pytest.approx(1e-12 * result.score, rel=0.05)


def test_regression_with_weights_and_several_parameters():
    x = rng.standard_normal((120, 2))
    y = np.sin(2 * x[:, 0])
    w = np.r_[np.zeros(30), np.full(90, 2.0)]
    a = tune(SVR(Matern([1.0, 1.0]), epsilon=0.01), x, y, sample_weight=w, max_iter=6)
    b = tune(SVR(Matern([1.0, 1.0]), epsilon=0.01), x[30:], y[30:], np.full(90, 2.0), max_iter=6)
    assert a.score == pytest.approx(b.score, rel=1e-3)
    assert a.model.kernel_.length_scale.argmin() == 0
    flat = tune(SVR(), x, np.full(120, 5.0), max_iter=2)
    np.testing.assert_allclose(flat.predict(x), 5.0, atol=0.1)
