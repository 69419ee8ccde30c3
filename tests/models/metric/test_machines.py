"""Feature machines: what they find, what they claim, and what they refuse."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError

import mercer
from mercer.domains import Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.kernels import Matern
from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor, KernelRidge
from mercer.models.metric import base, choice, learning, trials
from mercer.models.metric.choice import RowsLeftOut
from mercer.models.metric.scores import by_contents, numbers_of
from mercer.models.metric.stacking import LogPool, Mean
from mercer.models.metric.trials import Bench, Recipe


def waves(n, d=8, noise=0.1, seed=0):
    """A wave along the first column among d, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)


@pytest.fixture(scope="module")
def wave():
    X, y = waves(160)
    return FeatureMachineRegressor().fit(X, y), X, y


# ------------------------------------------------------------------------------------ what is found
def test_the_column_that_matters_is_found(wave):
    model, _, _ = wave
    X, y = waves(400, noise=0.0, seed=1)
    error = np.mean((model.predict(X) - y) ** 2)
    plain = KernelRidge("rbf", alpha="loo").fit(*waves(160))
    assert error < 0.3 * np.mean((plain.predict(X) - y) ** 2)
    assert model.importances_[0] > 0.6 and model.importances_.sum() == pytest.approx(1.0)
    assert (model.importances_std_ >= 0).all()
    assert np.trace(model.metric_) == pytest.approx(1.0)
    np.testing.assert_allclose(model.metric_, model.metric_.T, atol=1e-12)


def test_a_direction_is_found():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(240, 5))
    direction = np.array([1.0, -1.0, 0.0, 0.0, 0.0]) / np.sqrt(2)
    model = FeatureMachineRegressor().fit(X, np.sin(3 * X @ direction))
    assert "directions" in " ".join(model.ways_)
    scaled = model.metric_ * np.outer(X.std(axis=0), X.std(axis=0))  # of the columns as they came
    top = np.linalg.eigh(scaled)[1][:, -1]
    assert abs(top @ direction) > 0.98


def test_a_heavy_tail_is_seen_by_its_ranks():
    rng = np.random.default_rng(3)
    X = np.exp(2 * rng.normal(size=(200, 2)))
    y = np.sin(np.log(X[:, 0])) + 0.05 * rng.normal(size=200)
    model = FeatureMachineRegressor().fit(X, y)
    assert any("ranks" in way for way in model.ways_)
    assert model.left_out_error_ < 0.4


def test_classes_that_follow_a_shape():
    X, y = make_moons(300, noise=0.2, random_state=0)
    rng = np.random.default_rng(0)
    X = np.column_stack([X, rng.normal(size=(300, 3))])
    model = FeatureMachineClassifier(2).fit(X[:200], np.array(["a", "b"])[y[:200]])
    assert model.score(X[200:], np.array(["a", "b"])[y[200:]]) > 0.93
    P = model.predict_proba(X[200:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[200:]))
    odds = np.log(P[:, 1] / P[:, 0])
    np.testing.assert_allclose(model.decision_function(X[200:]), odds, atol=1e-6)
    assert model.importances_[:2].sum() > 0.7


def test_several_classes_have_calibrated_probabilities():
    X, y = load_iris(return_X_y=True)
    model = FeatureMachineClassifier(1, max_rows=75).fit(X[::2], y[::2])
    assert model.left_out_error_ < 0.1 and model.left_out_.shape == (75, 3)
    P = model.predict_proba(X[1::2])
    loss = -np.log(P[np.arange(75), y[1::2]]).mean()
    assert loss < 0.25 and model.decision_function(X).shape == (150, 3)


# -------------------------------------------------------------------------------- what is claimed
@pytest.mark.parametrize(
    ("rows", "model"),
    [
        (44, FeatureMachineRegressor(2, max_rows=15)),  # some are in no fold
        (44, FeatureMachineRegressor()),
    ],
)
def test_the_left_out_error_is_not_optimistic(rows, model):
    """Over data sets with much noise and few rows it is the error at new rows, in the mean."""
    told, true = [], []
    for seed in range(50):
        X, y = waves(rows, d=4, noise=1.0, seed=seed)
        New, new = waves(200, d=4, noise=1.0, seed=1000 + seed)
        model.fit(X, y)
        told.append(model.left_out_error_**2 * y.var())
        true.append(np.mean((model.predict(New) - new) ** 2))
    difference = np.array(told) - np.array(true)
    assert difference.mean() > -2 * difference.std() / np.sqrt(50)
    assert difference.mean() < 0.2 * np.mean(true)  # fewer rows than the model has: a little more


def test_left_out_predictions_are_farther_than_those_of_members_that_saw_the_row():
    X, y = waves(40, d=3)
    model = FeatureMachineRegressor(1, max_rows=20).fit(X, y)
    seen = np.mean((model.predict(X) - y) ** 2)
    told = np.mean((model.left_out_ - y) ** 2)
    assert seen < told
    assert model.left_out_error_ == pytest.approx(np.sqrt(told / y.var()), rel=0.3)


def test_left_out_predictions_are_those_of_fits_without_the_row(monkeypatch):
    """Of a metric that was learned outside of its fold, with a penalty that other rows chose."""
    kept, benches = [], []
    pooled, begin = RowsLeftOut.pooled, Bench.__init__
    monkeypatch.setattr(RowsLeftOut, "pooled", lambda *a: kept.append(pooled(*a)) or kept[-1])
    monkeypatch.setattr(Bench, "__init__", lambda self, *a: benches.append(self) or begin(self, *a))
    monkeypatch.setattr(choice, "FIRST", (Recipe("", Matern(nu=1.5), "full"),))
    monkeypatch.setattr(choice, "recipes_for", lambda *_: [])
    X, y = waves(40, d=3)
    model = FeatureMachineRegressor(1, max_rows=20).fit(X, y)
    (judged,), rows, fold = kept[0].judged, kept[0].rows.rows, benches[0].fold
    assert judged.recipe.how == "full" and judged.view == benches[0].view
    seen = benches[0].rows  # in the order of the search
    refits = np.empty((len(learning.ALPHAS), 40))
    for i in range(40):
        others = np.arange(40) != i
        kernel = judged.metrics[fold[i]].kernel
        for a, alpha in enumerate(learning.ALPHAS):
            ridge = KernelRidge(kernel, alpha=float(alpha), fit_intercept=True)
            ridge.fit(seen.Z[others], rows.T[others, 0])
            refits[a, i] = ridge.predict(seen.Z[[i]])[0]
    told = kept[0].left_out[:, 0]
    off = np.abs(refits - told)
    steps = {x.compared.shape[0] for x in kept[0].judged}
    assert steps == {3 * len(learning.ALPHAS)}  # of three rounds, the best first
    of_best = np.isclose(off.min(axis=0), 0.0, atol=1e-6)
    assert of_best.mean() >= 0.5  # the other quarters chose another round
    best = int(np.abs(refits - judged.left_out[:, 0]).max(axis=1).argmin())
    np.testing.assert_allclose(refits[best], judged.left_out[:, 0], atol=1e-6)
    order = np.argsort(y)
    np.testing.assert_allclose(model.left_out_[order], y.mean() + y.std() * told)


def test_every_member_has_a_certificate(wave):
    model, _, y = wave
    T = np.sort((y - y.mean()) / y.std())  # rows are in an order of what they hold
    assert len(model.solutions_) == len(model.members_) == len(model.weights_)
    assert model.weights_.sum() == pytest.approx(1.0) and (model.weights_ > 0).all()
    for member, solution in zip(model.members_, model.solutions_, strict=True):
        assert solution.converged
        K = np.asarray(member.kernel_(member.X_fit_))
        a = member.dual_coef_
        residual = K @ a + member.alpha_ * a + member.intercept_ - T
        assert np.abs(residual).max() < 1e-8


def test_intervals_reach_as_far_as_errors_left_out(wave):
    model, X, y = wave
    lower, upper = model.predict_interval(X, 0.9)
    reach = np.sort(np.abs(model.left_out_ - y))[int(np.ceil(0.9 * 161)) - 1]
    np.testing.assert_allclose(upper - model.predict(X), reach)
    np.testing.assert_allclose(model.predict(X) - lower, reach)
    New, new = waves(400, seed=5)
    lower, upper = model.predict_interval(New, 0.9)
    assert 0.8 < np.mean((lower <= new) & (new <= upper)) < 0.98
    few = FeatureMachineRegressor().fit(X[:8], y[:8])
    assert np.isinf(few.predict_interval(X[:2], 0.95)[1]).all()
    with pytest.raises(InvalidInput, match="coverage"):
        model.predict_interval(X, 1.5)


def test_several_outputs_are_those_of_one_metric():
    X, y = waves(60, d=3)
    Y = np.column_stack([y, 100 + 7 * np.cos(X[:, 0])])
    model = FeatureMachineRegressor(1, max_rows=30).fit(X, Y)
    assert model.predict(X[:5]).shape == (5, 2) and model.left_out_.shape == (60, 2)
    lower, upper = model.predict_interval(X[:5])
    assert lower.shape == (5, 2) and (lower < upper).all()
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("target", ["numbers", "ties", "classes", "labels"])
@pytest.mark.parametrize("max_rows", [700, 20])
def test_the_order_of_the_rows_does_not_matter(target, max_rows):
    """They are looked at in an order of what they hold; a descent enlarges what rounding leaves."""
    X, y = waves(60, d=3)
    X[:, 2] = np.round(X[:, 2])
    if target != "numbers":
        y = np.digitize(y, [0.0] if target == "classes" else [-0.5, 0.5]).astype(float)
    weight = 1.0 + np.arange(60) % 3
    order = np.random.default_rng(1).permutation(60)
    numbers = target in ("numbers", "ties")
    model = (FeatureMachineRegressor if numbers else FeatureMachineClassifier)(2, max_rows=max_rows)
    one = clone(model).fit(X, y, weight)
    two = clone(model).fit(X[order], y[order], weight[order])
    for method in ("predict",) if numbers else ("predict", "predict_proba"):
        found, expected = (getattr(each, method)(X) for each in (two, one))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(two.left_out_, one.left_out_[order], rtol=1e-6, atol=1e-6)


def test_rows_are_ordered_by_what_they_hold():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, size=(4, 200)).astype(float)
    order = by_contents(columns)
    np.testing.assert_array_equal(columns[:, order], columns[:, np.lexsort(columns[::-1])])
    assert sorted(order) == list(range(200))
    assert by_contents([np.arange(3.0)[::-1], None]).tolist() == [2, 1, 0]  # none is looked at


def test_only_ratios_of_weights_matter():
    X, y = waves(50, d=2)
    w = 1.0 + np.arange(50) % 3
    one, two = (FeatureMachineRegressor(1, max_rows=25).fit(X, y, k * w) for k in (1.0, 2.0))
    np.testing.assert_allclose(two.predict(X), one.predict(X))
    np.testing.assert_allclose(two.predict_interval(X)[1], one.predict_interval(X)[1])


def test_class_weights_are_weights_of_rows():
    X, y = waves(60, d=2, noise=1.0)
    labels = np.where(y > 0.8, "high", "low")
    for label in ("high", "low"):  # columns are scaled as they come, which rows' weights decide
        part = X[labels == label]
        X[labels == label] = (part - part.mean(axis=0)) / part.std(axis=0)
    model = FeatureMachineClassifier(1, max_rows=30, class_weight={"high": 3.0, "low": 1.0})
    found = model.fit(X, labels).predict_proba(X)
    plain = FeatureMachineClassifier(1, max_rows=30)
    weighted = plain.fit(X, labels, np.where(labels == "high", 3.0, 1.0)).predict_proba(X)
    np.testing.assert_allclose(found, weighted, atol=1e-3)
    balanced = clone(plain).set_params(class_weight="balanced").fit(X, labels).predict_proba(X)
    assert balanced[:, 0].mean() > plain.fit(X, labels).predict_proba(X)[:, 0].mean() + 0.03
    with pytest.raises(InvalidInput, match="class_weight"):
        FeatureMachineClassifier(class_weight={"high": -1.0}).fit(X, labels)


# ------------------------------------------------------------------------------------- tables, rows
@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    n = 90
    site = rng.choice(["a", "b", "c"], n)
    age = rng.normal(50, 10, n)
    y = 5.0 * (site == "b") + 0.1 * age + 0.1 * rng.normal(size=n)
    age[::9] = np.nan
    return Table({"age": age, "site": site.tolist(), "same": np.ones(n)}), y


def test_categories_and_gaps(table):
    frame, y = table
    model = FeatureMachineRegressor(2, max_rows=45).fit(frame, y)
    assert model.importances_.shape == (3,) and model.importances_[2] < 1e-3
    assert list(model.feature_names_in_) == ["age", "site", "same"]
    assert model.left_out_error_ < 0.5
    new = Table({"site": ["b", "elsewhere"], "same": [1.0, 2.0], "age": [50.0, np.nan]})
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(InvalidInput, match=r"FeatureMachineRegressor.*age"):
        model.predict(Table({"years": [50.0], "site": ["b"], "same": [1.0]}))


def test_rows_of_weight_zero_are_not_there():
    X, y = waves(50, d=3)
    wild = np.vstack([X, 1e3 + X[:5]])
    weights = np.r_[np.full(50, 2.5), np.zeros(5)]
    model = FeatureMachineRegressor(1, max_rows=25)
    one = clone(model).fit(wild, np.r_[y, y[:5]], weights)
    two = clone(model).fit(X, y)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-6)
    assert np.isnan(one.left_out_[50:]).all() and np.isfinite(one.left_out_[:50]).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_targets_far_from_one(scale):
    X, y = waves(30, d=2)
    model = FeatureMachineRegressor(1, max_rows=15)
    found = model.fit(X, y * scale).predict(X) / scale
    np.testing.assert_allclose(found, model.fit(X, y).predict(X), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((20, 2)),
        np.repeat(np.arange(4.0)[:, None], 5, axis=0),
        np.column_stack([np.arange(20.0), np.full(20, np.nan)]),
        np.column_stack([np.arange(20.0), np.arange(20.0) * 1e300]),
    ],
    ids=["constant", "copies", "all missing", "huge"],
)
def test_poor_columns_are_no_reason_to_fail(X):
    y = np.arange(20.0) % 5
    model = FeatureMachineRegressor(max_rows=10).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert FeatureMachineClassifier(max_rows=10).fit(X, y > 2).predict(X).shape == (20,)


def test_a_constant_target_is_predicted():
    X, _ = waves(20, d=2)
    np.testing.assert_allclose(FeatureMachineRegressor().fit(X, np.full(20, 7.0)).predict(X), 7.0)


def test_of_many_rows_some_are_held_out(monkeypatch):
    X, y = waves(900, d=3)
    for name, value in (("EXACT", 300), ("MANY", 300), ("CENTERS", 60)):
        monkeypatch.setattr(learning, name, value)
    model = FeatureMachineRegressor(2, max_rows=60).fit(X, y)
    known = ~np.isnan(model.left_out_)
    assert known.sum() == 180 and len(model.residuals_) == 180
    assert all(len(member.X_fit_) == 60 for member in model.members_)
    told, true = [], []
    rng = np.random.default_rng(1)
    for _ in range(3):
        X = rng.uniform(-2, 2, size=(2100, 3))  # no row alone at an end
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2100)
        X, New, y, new = X[:900], X[900:], y[:900], y[900:]
        model = FeatureMachineRegressor(1, max_rows=40).fit(X, y)
        told.append(model.left_out_error_**2 * y.var())
        true.append(np.mean((model.predict(New) - new) ** 2))
    assert np.mean(told) == pytest.approx(np.mean(true), rel=0.3)
    assert np.mean(true) < 0.1 * new.var()
    labels = FeatureMachineClassifier(1, max_rows=60).fit(X, y > 0)
    assert labels.score(New, new > 0) > 0.85 and np.isnan(labels.left_out_[:, 0]).sum() == 720


# --------------------------------------------------------------------------------- limits, refusals
def test_little_time_gives_what_was_found():
    X, y = waves(80, d=4)
    model = FeatureMachineRegressor(max_time=1e-9).fit(X, y)
    assert model.ways_ == ["one scale"] and np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("where", ["memory", "blocks", "table"])
@pytest.mark.parametrize("classes", [False, True])
def test_little_time_on_more_rows_than_the_folds_hold(where, classes):
    """Regressions leave out each row of up to 3000, if there is time for that."""
    n = 1500 if where == "table" else 300
    X, y = waves(n, d=3)
    y = y > 0 if classes else y
    if where == "table":
        model = (mercer.TableClassifier if classes else mercer.TableRegressor)(max_time=1e-9)
    else:
        model = FeatureMachineClassifier if classes else FeatureMachineRegressor
        model = model(max_rows=60, max_time=1e-9)
    given = (X, y) if where != "blocks" else (mercer.RowBlocks.from_arrays(X, y, block_rows=100),)
    with pytest.warns(UserWarning, match="too short to learn a metric: importances_ say nothing"):
        model.fit(*given)
    machine = getattr(model, "model_", model)
    known = ~np.isnan(machine.left_out_.reshape(n, -1)[:, 0])
    bench = 2 * learning.LEAST_ROWS if where == "table" else 120
    assert known.sum() == (n // 5 if classes else bench) and len(machine.members_) == 1
    assert machine.left_out_error_ < 1 and model.score(X, y) > 0.2
    if not classes:
        assert len(machine.residuals_) == bench
        assert np.isfinite(model.predict_interval(X[:2], 0.9)[1]).all()


def test_where_no_trial_on_all_rows_is_a_number_those_of_the_folds_are_told(monkeypatch):
    at_penalties = Bench.at_penalties

    def fails(self, judged, factors):
        found = at_penalties(self, judged, factors)
        return replace(found, error=np.inf) if len(self.rows) == 200 else found

    monkeypatch.setattr(Bench, "at_penalties", fails)
    X, y = waves(200, d=2)
    model = FeatureMachineRegressor(2, max_rows=40).fit(X, y)
    assert np.isfinite(model.left_out_).sum() == 80 and model.score(X, y) > 0.8


class Watch:
    """A clock that goes on only when it is told to, in place of that of the process."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(mercer.checks, "time", self)

    def monotonic(self):
        return self.now

    def add(self, seconds, monkeypatch, owner, name):
        """Let a function take so many seconds."""
        work = getattr(owner, name)

        def timed(*args, **options):
            self.now += seconds
            return work(*args, **options)

        monkeypatch.setattr(owner, name, timed)


@pytest.mark.parametrize("kind", [FeatureMachineRegressor, FeatureMachineClassifier])
def test_what_is_told_is_of_the_members_that_there_was_time_for(kind, monkeypatch):
    X, y = waves(90, d=3, noise=0.5)
    y = y if kind is FeatureMachineRegressor else np.digitize(y, [-0.5, 0.5])
    pools, pooled = [], RowsLeftOut.pooled
    monkeypatch.setattr(RowsLeftOut, "pooled", lambda *a: pools.append(pooled(*a)) or pools[-1])
    watch = Watch(monkeypatch)
    watch.add(40.0, monkeypatch, choice, "fitted")
    with mercer.config(threads=1):
        model = kind(8, max_time=100.0).fit(X, y)
    before, after = pools
    assert len(before.judged) > len(model.members_) in (2, 3)
    assert model.ways_ == [judged.name for judged in after.judged]
    # it is the pool of these, and of no other
    known = np.arange(90)
    found = [judged.left_out for judged in after.judged]
    if kind is FeatureMachineClassifier:
        labels = after.rows.labels
        expected = LogPool.of(found, labels, None, 8)
        np.testing.assert_allclose(model.slopes_, expected.slopes)
        np.testing.assert_allclose(model.offset_, expected.offset)
        wrong = model.classes_[model.left_out_.argmax(axis=1)] != y
        assert model.left_out_error_ == pytest.approx(wrong.mean())
    else:
        expected = Mean.of(found, after.rows.rows.T, None, 8)
        error = np.sqrt(np.mean((model.left_out_ - y) ** 2)) / y.std()
        assert model.left_out_error_ == pytest.approx(error)
        np.testing.assert_allclose(model.residuals_[:, 0], np.abs(model.left_out_ - y))
    np.testing.assert_allclose(model.weights_, expected.weights)
    assert np.isfinite(after.left_out[known]).all()
    assert not np.allclose(after.left_out, before.left_out, atol=1e-9)
    assert model.importances_.sum() == pytest.approx(1.0)
    model._check_state()


@pytest.mark.parametrize("kind", [FeatureMachineRegressor, FeatureMachineClassifier])
@pytest.mark.parametrize("rows", [300, 900])
def test_a_search_ends_in_its_time(kind, rows, monkeypatch):
    """By a clock that goes on with each decomposition and each fit to many rows."""
    for name, value in (("EXACT", 300), ("MANY", 400), ("CENTERS", 60)):
        monkeypatch.setattr(learning, name, value)
    X, y = waves(rows, d=3)
    y = y if kind is FeatureMachineRegressor else np.digitize(y, [-0.5, 0.5])
    watch = Watch(monkeypatch)
    watch.add(0.05, monkeypatch, learning.EncodedRows, "problem")
    for where in (choice, trials):
        watch.add(1.0, monkeypatch, where, "fitted")
    with mercer.config(threads=1):
        model = kind(max_rows=60, max_time=30.0).fit(X, y)
    assert 20.0 < watch.now < 33.0  # and most of it is used
    assert np.isfinite(model.left_out_error_)


def test_loading_and_compiling_is_before_the_clock_begins(monkeypatch):
    X, y = waves(60, d=2)
    watch, called = Watch(monkeypatch), []

    def loads(classes):
        called.append(classes)
        watch.now += 100.0

    monkeypatch.setattr(base, "warm_up", loads)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FeatureMachineRegressor(max_time=5.0).fit(X, y)
    assert called == [False] and any(way.startswith("a scale") for way in model.ways_)
    FeatureMachineRegressor(1).fit(X, y)
    assert called == [False]


def test_what_is_warmed_up_is_warmed_up_once():
    trials.warm_up(True)
    before = trials.warm_up.cache_info().misses
    trials.warm_up(True)
    assert trials.warm_up.cache_info().misses == before


@pytest.mark.parametrize("kind", [FeatureMachineRegressor, FeatureMachineClassifier])
def test_little_time_on_many_rows_gives_a_model_that_is_as_good_as_it_says(kind, monkeypatch):
    for name, value in (("EXACT", 300), ("MANY", 300), ("CENTERS", 60)):
        monkeypatch.setattr(learning, name, value)
    X, y = waves(900, d=3)
    New, new = waves(2000, d=3, seed=1)
    if kind is FeatureMachineClassifier:
        y, new = y > 0, new > 0
    model = kind(max_rows=60, max_time=1e-9).fit(X, y)
    assert len(model.members_) == 1 and model.solutions_[0].converged
    # it is the model that nothing was held out from any more: no time was left for another
    assert model.members_[0].n_rows_ == 720
    if kind is FeatureMachineClassifier:
        assert model.left_out_error_ == pytest.approx(np.mean(model.predict(New) != new), abs=0.05)
    else:
        low, high = model.predict_interval(New, 0.9)
        assert 0.82 < np.mean((low <= new) & (new <= high)) < 0.97
        error = np.mean((model.predict(New) - new) ** 2)
        assert model.left_out_error_**2 * y.var() == pytest.approx(error, rel=0.3)


def test_fits_in_threads_leave_the_warnings_of_the_process_alone():
    X, y = waves(60, d=2)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        model = FeatureMachineClassifier(2, max_time=0.3)
        list(pool.map(lambda _: clone(model).fit(X, y > 0), range(8)))
    assert warnings.filters == before


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.eye(4), np.arange(4.0), "4 rows .* too few"),
        (np.full((9, 2), np.inf), np.arange(9.0), "inf"),
        (np.eye(9), np.full(9, np.nan), "NaN"),
        (np.eye(9), np.arange(8.0), "9 rows"),
        (np.eye(9), None, "requires y"),
    ],
)
def test_bad_data_are_named(X, y, words):
    with pytest.raises(InvalidInput, match=f"(?s)FeatureMachineRegressor: .*{words}"):
        FeatureMachineRegressor().fit(X, y)


def test_classes_must_be_two():
    with pytest.raises(InvalidInput, match="one class only"):
        FeatureMachineClassifier().fit(np.eye(9), np.zeros(9))
    weights = np.r_[np.ones(6), np.zeros(3)]
    with pytest.raises(InvalidInput, match="all rows of class 1 have weight 0"):
        FeatureMachineClassifier().fit(np.eye(9), [0] * 6 + [1] * 3, weights)


@pytest.mark.parametrize("change", [{"n_models": 0}, {"max_rows": 2}, {"max_time": -1.0}])
def test_bad_parameters_are_named(change):
    (name,) = change
    with pytest.raises(InvalidInput, match=f"FeatureMachineRegressor: {name}="):
        FeatureMachineRegressor(**change).fit(*waves(20, d=2))


# ------------------------------------------------------------------------------------------- files
def test_model_files(tmp_path, table):
    frame, y = table
    for model, target in (
        (FeatureMachineRegressor(2, max_rows=30), y),
        (FeatureMachineClassifier(2, max_rows=30), np.where(y > y.mean(), "high", "low")),
    ):
        model.fit(frame, target)
        mercer.save(model, tmp_path / "m.mercer", overwrite=True)
        for again in (mercer.load(tmp_path / "m.mercer"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
            np.testing.assert_array_equal(again.metric_, model.metric_)
        model.weights_ = model.weights_[:0]
        mercer.save(model, tmp_path / "m.mercer", overwrite=True)
        with pytest.raises(ModelFileError, match="do not fit one another"):
            mercer.load(tmp_path / "m.mercer")


@pytest.mark.parametrize("classes", [False, True])
def test_parts_of_a_file_that_do_not_fit_are_refused(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=30)
    make = FeatureMachineClassifier if classes else FeatureMachineRegressor
    model = make(2, max_time=1e-9).fit(X, np.digitize(y, [-0.5, 0.5]) if classes else y)
    model._check_state()
    for name in sorted(set(model._learned) - {"fingerprint_"}):
        value = getattr(model, name)
        wrong = [None, np.zeros(0), np.zeros((1, 7)), [], "word"]
        if isinstance(value, np.ndarray) and name not in ("left_out_", "residuals_", "classes_"):
            wrong += [value[:0], np.concatenate([value, value]), value.astype("U")]
        for other in wrong:
            damaged = copy.copy(model)
            setattr(damaged, name, other)
            with pytest.raises(ModelFileError):
                damaged._check_state()


def test_rows_of_next_to_no_weight_do_not_widen_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=70)
    y[::2] += 30 * rng.normal(size=35)
    w = np.where(np.arange(70) % 2, 1.0, 1e-6)
    widths = []
    for rows, weight in ((np.arange(70), w), (np.arange(1, 70, 2), None)):
        model = FeatureMachineRegressor(2, max_time=1e-9)
        model.fit(X[rows], y[rows], None if weight is None else weight[rows])
        lower, upper = model.predict_interval(X[:1], 0.8)
        widths.append(float(upper[0] - lower[0]))
    assert widths[0] < 2 * widths[1]
    tiny = FeatureMachineRegressor(1, max_time=1e-9).fit(X, y, np.where(w == 1, 1.0, 1e-300))
    assert np.isfinite(tiny.left_out_error_) and np.isnan(tiny.left_out_[0])


def test_weights_count_in_intervals_as_rows_that_are_repeated(wave):
    model, X, _ = wave
    again = copy.copy(model)
    again.residuals_ = np.repeat(model.residuals_, 3, axis=0)
    again.residual_weights_ = np.ones(len(again.residuals_))
    heavy = copy.copy(model)
    heavy.residual_weights_ = np.full(len(model.residuals_), 3.0)
    for coverage in (0.5, 0.9):
        plain, repeated, weighed = (
            each.predict_interval(X[:1], coverage)[1] for each in (model, again, heavy)
        )
        np.testing.assert_allclose(weighed, plain)
        np.testing.assert_allclose(repeated, plain, rtol=0.2)


def test_one_member_is_one_function():
    X, y = waves(40, d=2)
    model = FeatureMachineRegressor(1).fit(X, y)
    Z = model.encoder_.transform(X)
    if model.views_ == [""]:
        f = model.function_(Z)
        np.testing.assert_allclose(model.y_mean_[0] + model.y_scale_[0] * f, model.predict(X))
    with pytest.raises(NotFittedError):
        _ = FeatureMachineRegressor().solutions_


def test_a_limit_that_is_too_short_is_told(monkeypatch):
    monkeypatch.setattr(base, "OVERRUN", -1e12)
    X, y = waves(30, d=2)
    with pytest.warns(UserWarning, match=r"^FeatureMachineRegressor: max_time=1e-09 s is too"):
        FeatureMachineRegressor(max_time=1e-9).fit(X, y)


def test_what_is_missing_says_something(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (rng.random(120) < 0.4).astype(float)
    X[y == 1, 1] = np.nan
    y += 0.02 * rng.normal(size=120)
    model = FeatureMachineRegressor(n_models=2).fit(X, y)
    assert model.left_out_error_ < 0.2  # 0.76 where a gap is a median and no more
    assert model.importances_.argmax() == 1 and model.importances_.shape == (3,)
    assert numbers_of(model.encoder_).tolist() == [True, True, False, True]
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(X), model.predict(X))
