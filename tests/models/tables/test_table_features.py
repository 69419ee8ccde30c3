"""Table models that learn their metrics: what is inside, what it answers, what it refuses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    RowBlocks,
    TableClassifier,
    TableRegressor,
)
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError
from mercer.models.metric import base, learning
from mercer.models.tables import MACHINES, proposal, time_for

N = 40
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "two rows that are one may be in either half",
}


# in no time one metric is tried, which is always the same one
@parametrize_with_checks(
    [TableRegressor(max_time=1e-9), TableClassifier(max_time=1e-9)],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=N),
            "noise": rng.normal(size=N),
            "gap": np.where(rng.random(N) < 0.3, np.nan, rng.normal(size=N)),
            "site": rng.choice(["u", "v", None], N),
        }
    )


@pytest.fixture(scope="module")
def target(frame):
    rng = np.random.default_rng(1)
    return np.sin(2 * frame["x"]) + (frame["site"] == "u") + 0.1 * rng.normal(size=N)


@pytest.fixture(scope="module")
def labels(target):
    return np.array(["low", "middle", "high"])[np.digitize(target, [0.0, 0.8])]


@pytest.fixture(scope="module")
def regressor(frame, target):
    return TableRegressor().fit(frame, target)


@pytest.fixture(scope="module")
def classifier(frame, labels):
    return TableClassifier().fit(frame, labels)


def test_it_is_the_machine_itself(frame, target, labels, regressor, classifier):
    machine = FeatureMachineRegressor().fit(frame, target)
    assert type(regressor.model_) is FeatureMachineRegressor
    np.testing.assert_array_equal(regressor.predict(frame), machine.predict(frame))
    np.testing.assert_array_equal(regressor.loo(), machine.left_out_)
    np.testing.assert_array_equal(regressor.loo(frame), machine.left_out_)
    np.testing.assert_array_equal(regressor.importances_, machine.importances_)
    np.testing.assert_array_equal(regressor.importances_std_, machine.importances_std_)
    for one, other in zip(
        regressor.predict_interval(frame, 0.7), machine.predict_interval(frame, 0.7), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert regressor.score(frame, target) > 0.9
    machine = FeatureMachineClassifier().fit(frame, labels)
    assert type(classifier.model_) is FeatureMachineClassifier
    for method in ("predict", "predict_proba", "decision_function"):
        expected = getattr(machine, method)(frame)
        np.testing.assert_array_equal(getattr(classifier, method)(frame), expected)
    assert classifier.classes_.tolist() == ["high", "low", "middle"]
    chances = machine.left_out_
    np.testing.assert_array_equal(classifier.loo(), machine.classes_[chances.argmax(1)])
    values = classifier.loo_decision_function(frame)
    np.testing.assert_allclose(np.exp(values), chances, rtol=1e-12)
    assert classifier.feature_names_in_.tolist() == list(frame.columns)
    assert classifier.encode(frame).shape[0] == N


def test_two_classes_have_one_column_of_values(frame, target):
    model = TableClassifier().fit(frame, target > 0.5)
    assert model.decision_function(frame).shape == model.loo_decision_function().shape == (N,)
    chances = model.model_.left_out_
    expected = np.log(chances[:, 1] / chances[:, 0])
    np.testing.assert_allclose(model.loo_decision_function(), expected, rtol=1e-9)


@pytest.mark.parametrize("word", [None, "auto", "features"])
def test_the_words_for_it(word, frame, target, regressor):
    model = TableRegressor(model=word).fit(frame, target)
    np.testing.assert_array_equal(model.predict(frame), regressor.predict(frame))
    assert repr(clone(model)) == repr(TableRegressor(model=word))


def test_what_is_given_means_one_kernel(frame, target, labels):
    for given in ({"kernel": "rbf"}, {"alpha": 0.5}, {"alpha": "loo"}, {"model": "ridge"}):
        assert type(TableRegressor(**given).fit(frame, target).model_) is KernelRidge
        inside = TableClassifier(**given).fit(frame, labels).model_
        assert type(inside) is KernelRidgeClassifier
    assert type(TableClassifier(C=1.0).fit(frame, labels).model_) is mercer.SVC
    auto = TableClassifier(model="auto", C=1.0).fit(frame, labels)
    assert type(auto.model_) is mercer.SVC and hasattr(auto, "predict_proba")


@pytest.mark.parametrize("given", [{"kernel": "rbf"}, {"alpha": 0.5}, {"C": 2.0}])
def test_a_kernel_beside_features_is_refused(given, frame, target, labels):
    name, value = next(iter(given.items()))
    words = f"{name}={value!r} beside model='features'"
    with pytest.raises(InvalidInput, match=f"^TableClassifier: {words}"):
        TableClassifier(model="features", **given).fit(frame, labels)
    if name != "C":
        with pytest.raises(InvalidInput, match=f"^TableRegressor: {words}"):
            TableRegressor(model="features", **given).fit(frame, target)


def test_refusals_speak_in_the_name_of_the_table_model(frame, target, labels, regressor):
    with pytest.raises(InvalidInput, match=r"^TableRegressor: model='svc'; give 'auto'"):
        TableRegressor(model="svc").fit(frame, target)
    for bad in (0, -1.0, "long", np.inf):
        with pytest.raises(InvalidInput, match=r"^TableRegressor: max_time="):
            TableRegressor(max_time=bad).fit(frame, target)
    for one_kernel in ({"model": "ridge"}, {"alpha": 0.1}, {"kernel": mercer.RBF()}):
        with pytest.warns(UserWarning, match=r"^TableRegressor: max_time=3.0 has no effect"):
            TableRegressor(max_time=3.0, **one_kernel).fit(frame, target)
    with pytest.warns(UserWarning, match=r"^TableRegressor: max_time=3.0 has no effect .* 4 rows"):
        TableRegressor(max_time=3.0).fit(frame[:4], target[:4])
    with pytest.raises(InvalidInput, match=r"^TableRegressor: 4 rows .* are too few"):
        TableRegressor(model="features").fit(frame[:4], target[:4])
    with pytest.raises(InvalidInput, match=r"^TableClassifier: 4 rows .* KernelRidgeClassifier"):
        TableClassifier(model="features").fit(frame[:4], [0, 1, 0, 1])
    with pytest.raises(InvalidInput, match=r"^TableRegressor: 4 rows have a positive weight"):
        TableRegressor(model="features").fit(frame, target, sample_weight=np.arange(N) < 4)
    with pytest.raises(InvalidInput, match=r"^TableRegressor: column 'x' holds inf"):
        TableRegressor().fit(frame.assign(x=np.inf), target)
    with pytest.raises(InvalidInput, match=r"^TableRegressor: X has 40 rows and y has 30"):
        TableRegressor().fit(frame, target[:30])
    with pytest.raises(InvalidInput, match=r"^TableRegressor: Input y contains NaN at row 5"):
        TableRegressor().fit(frame, np.where(target > 1, np.nan, target))
    with pytest.raises(InvalidInput, match=r"^TableRegressor: missing column 'x'"):
        regressor.predict(frame.rename(columns={"x": "X"}))
    with pytest.raises(InvalidInput, match=r"^TableRegressor\.predict_interval: groups"):
        regressor.predict_interval(frame, groups=np.arange(N))
    with pytest.raises(InvalidInput, match=r"^TableRegressor\.loo: X has 30 rows"):
        regressor.loo(frame[:30])
    with pytest.raises(InvalidInput, match=r"^TableClassifier: y has one class only"):
        TableClassifier().fit(frame, ["a"] * N)
    with pytest.raises(InvalidInput, match=r"^TableClassifier: y has no label in 1 of 40"):
        TableClassifier().fit(frame, [None, *labels[1:]])
    with pytest.raises(InvalidInput, match=r"^TableClassifier: class_weight='even'"):
        TableClassifier(class_weight="even").fit(frame, labels)
    for model in (TableRegressor(model="features"), TableClassifier(model="features")):
        with pytest.raises(InvalidInput, match="requires y to be passed"):
            model.fit(frame)
    with pytest.raises(InvalidInput, match="there is none to tune"):
        mercer.tune(TableRegressor(model="features"), frame, target)
    for bad in (-1, "x", 0.5):
        with pytest.raises(InvalidInput, match=r"^TableRegressor: random_state="):
            TableRegressor(random_state=bad).fit(frame, target)


def test_a_fit_that_is_refused_leaves_the_model_alone(frame, target):
    model = TableRegressor("rbf").fit(frame, target)
    before = model.predict(frame)
    with pytest.raises(InvalidInput):
        model.set_params(kernel=None).fit(frame.assign(x=np.inf), target)
    np.testing.assert_array_equal(model.predict(frame), before)


def test_what_one_kernel_has_is_said_to_be_missing(frame, target, regressor, classifier):
    for model, names in (
        (regressor, ("kernel_", "alpha_", "solution_")),
        (classifier, ("kernel_", "alpha_", "solution_", "function_", "margin_")),
    ):
        for name in names:
            words = f"^{type(model).__name__} has no {name}: the feature machine inside is a mean"
            with pytest.raises(AttributeError, match=words):
                getattr(model, name)
    ridge = TableRegressor("rbf").fit(frame, target)
    for name in ("importances_", "importances_std_"):
        with pytest.raises(AttributeError, match=f"TableRegressor has no {name}: .*'features'"):
            getattr(ridge, name)
        assert not hasattr(TableRegressor(), name)


def test_few_rows_are_fitted_by_one_kernel(frame, target, labels):
    for n in (2, 4):
        assert type(TableRegressor().fit(frame[:n], target[:n]).model_) is KernelRidge
    weight = (np.arange(N) < 4).astype(float)
    assert type(TableRegressor().fit(frame, target, sample_weight=weight).model_) is KernelRidge
    assert isinstance(TableRegressor().fit(frame[:5], target[:5]).model_, MACHINES)
    assert proposal.ROWS_OF_A_METRIC == 5
    once = np.where(np.arange(N) == 3, "alone", labels)
    model = TableClassifier().fit(frame, once)
    assert isinstance(model.model_, MACHINES) and "alone" in model.classes_


def test_the_time_that_is_allowed(frame, target, monkeypatch):
    assert time_for(2000) is None and time_for(2001) == time_for(6000) == 60.0
    assert time_for(10_000) == pytest.approx(100.0) and time_for(10**6) == 480.0
    assert TableRegressor().fit(frame, target).model_.max_time is None
    monkeypatch.setattr(proposal, "UNHURRIED", N - 1)
    assert TableRegressor().fit(frame, target).model_.max_time == 60.0
    hurried = TableRegressor(max_time=1e-9).fit(frame, target)
    assert hurried.model_.max_time == 1e-9 and len(hurried.model_.members_) == 1
    assert np.isfinite(hurried.predict(frame)).all()


def test_warnings_speak_in_the_name_of_the_table_model(frame, target, labels, monkeypatch):
    words = np.random.default_rng(2).choice(["well", "ill", "old", "seen"], (N, 6))
    notes = frame.assign(note=[" ".join(row) for row in words])
    notes["when"] = np.datetime64("2026-01-01") + np.arange(N)
    monkeypatch.setattr(base, "OVERRUN", -1e12)
    for make, y in ((TableRegressor, target), (TableClassifier, labels)):
        with pytest.warns(UserWarning) as told:
            make(max_time=1e-9).fit(frame, y)
        said = [str(one.message) for one in told]
        assert len(said) == 2 and all(s.startswith(f"{make.__name__}: max_time=") for s in said)
        assert "too short for one metric" in said[0] and "to learn a metric" in said[1]
        blocks = RowBlocks.from_arrays(frame[["x", "noise"]], y, block_rows=15)
        with pytest.warns(UserWarning) as told:
            make(max_time=1e-9).fit(blocks)
        assert {str(one.message).partition(":")[0] for one in told} == {make.__name__}
        with pytest.warns(UserWarning, match=f"^{make.__name__}: column 'when' is left out"):
            make(max_time=1e-9).fit(notes, y)
    # a machine by itself speaks for itself, also after one that is inside
    with pytest.warns(UserWarning, match=r"^FeatureMachineRegressor: max_time="):
        FeatureMachineRegressor(max_time=1e-9).fit(frame, target)


def test_odd_columns_are_no_obstacle(frame, target):
    odd = frame.assign(
        constant=1.0,
        again=frame["x"],
        void=np.nan,
        empty=pd.Series([None] * N, dtype=object),
        same="all",
        huge=1e300 * frame["noise"],
    )
    model = TableRegressor().fit(odd, target)
    assert np.isfinite(model.predict(odd)).all()
    assert model.importances_.sum() == pytest.approx(1.0)
    new = odd[:5].assign(site="never seen", void=3.0, x=np.nan)
    assert np.isfinite(model.predict(new)).all()
    np.testing.assert_array_equal(model.predict(odd[odd.columns[::-1]]), model.predict(odd))
    constant = TableRegressor().fit(frame, np.full(N, 7.0))
    np.testing.assert_allclose(constant.predict(frame), 7.0)


def test_categorical_and_max_categories_reach_the_encoder(frame, target):
    table = frame.assign(code=np.arange(N) % 7)
    model = TableRegressor(categorical="code", max_categories=3).fit(table, target)
    assert model.encoder_.kinds_[-1] == "category" and len(model.encoder_.categories_[-1]) == 3
    assert len(model.importances_) == 5


def test_weights_of_rows_and_classes(frame, target, labels):
    rows = np.arange(N)
    weight = np.where(rows < 8, 0.0, 1.0)
    one = TableRegressor().fit(frame, target, sample_weight=weight)
    two = TableRegressor().fit(frame[8:], target[8:])
    np.testing.assert_array_equal(one.predict(frame), two.predict(frame))
    assert np.isnan(one.loo()[:8]).all() and np.isfinite(one.loo()[8:]).all()
    chosen = TableClassifier().fit(frame, labels, sample_weight=weight)
    with pytest.raises(InvalidInput, match=r"TableClassifier\.loo: 8 of 40 rows have weight 0"):
        chosen.loo()
    assert np.isnan(chosen.loo_decision_function()[:8]).all()
    share = {c: 1.0 + k for k, c in enumerate(np.unique(labels))}
    heavy = 1.0 + rows % 2
    for by_class in ("balanced", share):
        options = {"class_weight": by_class, "max_time": 1e-9}
        model = TableClassifier(**options).fit(frame, labels, sample_weight=heavy)
        inside = FeatureMachineClassifier(**options).fit(frame, labels, sample_weight=heavy)
        np.testing.assert_array_equal(model.predict_proba(frame), inside.predict_proba(frame))


def test_saved_pickled_and_cloned(frame, regressor, classifier, tmp_path):
    for model, method in ((regressor, "predict"), (classifier, "predict_proba")):
        expected = getattr(model, method)(frame)
        mercer.save(model, tmp_path / "m", overwrite=True)
        for again in (mercer.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(getattr(again, method)(frame), expected)
            np.testing.assert_array_equal(again.importances_, model.importances_)
            np.testing.assert_array_equal(again.loo(), model.loo())
        assert not hasattr(clone(model), "model_")


def test_parts_that_do_not_belong_together_are_not_loaded(
    frame, target, labels, regressor, classifier, tmp_path
):
    other = TableRegressor().fit(frame[["x", "site"]], target)
    ridge = TableRegressor("rbf").fit(frame, target)
    for name, value in (
        ("encoder_", other.encoder_),
        ("model_", other.model_),
        ("model_", classifier.model_),
        ("n_features_in_", 3),
        ("notes_", [1]),
        ("y_scale_", np.nan),
        ("model", "ridge"),
        ("kernel", "rbf"),
    ):
        broken = pickle.loads(pickle.dumps(regressor))
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "m", overwrite=True)
        with pytest.raises(ModelFileError):
            mercer.load(tmp_path / "m")
    ridge.model_ = regressor.model_
    mercer.save(ridge, tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "m")


def test_rows_in_blocks_are_predicted(frame, regressor):
    blocks = RowBlocks.from_generator(lambda: iter([frame[:15], frame[15:]]), N)
    np.testing.assert_allclose(regressor.predict(blocks), regressor.predict(frame), atol=1e-12)


def test_the_seed_reaches_the_machine_and_what_is_drawn(frame, target, labels, regressor):
    model = TableRegressor(random_state=7).fit(frame, target)
    machine = FeatureMachineRegressor(random_state=7).fit(frame, target)
    assert model.model_.random_state == 7
    np.testing.assert_array_equal(model.predict(frame), machine.predict(frame))
    assert not np.array_equal(model.loo(), regressor.loo())
    svc = TableClassifier(model="svc", random_state=7).fit(frame, labels).model_
    assert svc.random_state == 7
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    blocks = RowBlocks.from_arrays(rows, rows[:, 0], block_rows=900)
    found = [
        TableRegressor("rbf", 1.0, random_state=seed).fit(blocks).model_.X_fit_ for seed in (0, 7)
    ]
    assert not np.array_equal(*found)


def test_other_rows_than_those_of_the_fit_are_refused(frame, target, labels, regressor, classifier):
    for changed in (frame[::-1], frame.assign(x=frame["x"] + 1e-9), frame.assign(site="u")):
        words = r"loo: X is not what the model was fitted on; .* or none: loo\(\)\.$"
        with pytest.raises(InvalidInput, match=f"^TableRegressor.{words}"):
            regressor.loo(changed)
        with pytest.raises(InvalidInput, match=f"^TableClassifier.{words}"):
            classifier.loo(changed)
        with pytest.raises(
            InvalidInput, match=r"^TableClassifier\.loo_decision_function: X is not"
        ):
            classifier.loo_decision_function(changed)
    again = pickle.loads(pickle.dumps(regressor))
    for same in (frame, frame[frame.columns[::-1]], {n: frame[n] for n in frame}):
        np.testing.assert_array_equal(again.loo(same), regressor.loo())
    weight = np.where(np.arange(N) < 8, 0.0, 1.0)
    model = TableRegressor(max_time=1e-9).fit(frame, target, sample_weight=weight)
    assert np.isnan(model.loo(frame)[:8]).all()
    with pytest.raises(InvalidInput, match="X is not what the model was fitted on"):
        model.loo(frame.assign(x=np.where(weight == 0, 0.0, frame["x"])))


def test_little_memory_is_enough_for_metrics_of_fewer_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    with mercer.config(memory=700_000):
        model = TableRegressor().fit(X, y)
        plan = TableRegressor().plan(X, y)
        chances = TableClassifier(max_time=1e-9).fit(X, y > 0).predict_proba(X)
    assert isinstance(model.model_, MACHINES) and model.score(X, y) > 0.95
    assert np.isfinite(model.loo()).sum() == 60 and chances.shape == (300, 2)
    assert "of 120 rows" in plan.why and "60 others are held out" in plan.why and plan.fits


def test_where_memory_is_too_short_one_kernel_does_without(frame, target, labels, monkeypatch):
    monkeypatch.setattr(learning, "MATRICES", 1000)
    with mercer.config(memory=300_000):
        with pytest.warns(UserWarning, match="in place of a feature machine; model='ridge' asks"):
            model = TableRegressor().fit(frame, target)
        assert type(model.model_) is KernelRidge
        assert TableRegressor().plan(frame, target).owner == "KernelRidge"
        for make, y in ((TableRegressor, target), (TableClassifier, labels)):
            words = (
                rf"^{make.__name__}: to learn a metric from 20 rows needs .* model='ridge' may do"
            )
            with pytest.raises(MemoryBudgetExceeded, match=words) as error:
                make(model="features").fit(frame, y)
            assert error.value.needed > error.value.allowed == 300_000
            with pytest.raises(MemoryBudgetExceeded):
                make(model="features").plan(frame, y)


def test_the_plan_is_that_of_the_model_inside(frame, target, labels):
    plan = TableRegressor().plan(frame, target)
    assert (plan.method, plan.owner, plan.n_rows, plan.error) == ("metrics", "TableRegressor", N, 0)
    assert plan.fits and plan.seconds > 0 and "3 folds of 40 rows" in plan.why
    assert "each row is left out" in plan.why and "At most 16 are kept" in plan.why
    assert "no further one after 2 s" in TableClassifier(max_time=2).plan(frame, labels).why
    assert TableRegressor("rbf").plan(frame, target).owner == "KernelRidge"
    assert TableClassifier(C=1.0).plan(frame, labels).method == "smo"
    blocks = RowBlocks.from_arrays(frame[["x", "noise"]], target, block_rows=15)
    plan = TableRegressor().plan(blocks)
    assert plan.n_centers == N and f"all {N} rows in the span of {N} centres" in plan.why
    with pytest.raises(InvalidInput, match="requires y to be passed"):
        TableRegressor().plan(frame)
