"""Table models: the parts they are made of, units, weights, files, and what they refuse."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer.datasets import load_diabetes_table, load_wine_table
from mercer.errors import InvalidInput, ModelFileError
from mercer.features import TableEncoder


@parametrize_with_checks([mercer.TableRegressor("rbf"), mercer.TableClassifier("rbf")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n)),
            "c": rng.choice(["a", "b", None], n),
        }
    )


@pytest.fixture
def target(frame):
    return 3.0 + frame["x"].to_numpy() ** 2 + 2.0 * (frame["c"] == "a").to_numpy()


def test_regressor_is_the_encoder_and_ridge_on_a_standardised_target(frame, target):
    model = mercer.TableRegressor(mercer.RBF(2.0), alpha=0.1).fit(frame, target)
    Z = mercer.TableEncoder().fit_transform(frame)
    inner = mercer.KernelRidge(mercer.RBF(2.0), alpha=0.1)
    inner.fit(Z, (target - target.mean()) / target.std())
    expected = target.mean() + target.std() * inner.predict(Z)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-12)


def test_linear_regressor_is_ridge_with_an_intercept(frame, target):
    model = mercer.TableRegressor("linear", alpha=0.7).fit(frame, target)
    Z = mercer.TableEncoder().fit_transform(frame)
    # columns of categories are not centred, so the intercept of the peer is the target's mean
    peer = make_pipeline(Ridge(0.7, fit_intercept=False)).fit(Z, target - target.mean())
    np.testing.assert_allclose(model.predict(frame), target.mean() + peer.predict(Z), rtol=1e-9)


@pytest.mark.parametrize(("unit", "shift"), [(1e-200, 0), (1e-3, 5), (1e6, -1e6), (1e200, 0)])
def test_predictions_are_in_the_units_of_the_target(frame, target, unit, shift):
    one = mercer.TableRegressor(alpha=0.1).fit(frame, target).predict(frame)
    other = mercer.TableRegressor(alpha=0.1).fit(frame, unit * target + shift).predict(frame)
    np.testing.assert_allclose(other, unit * one + shift, rtol=1e-8)


def test_constant_target(frame):
    model = mercer.TableRegressor("rbf").fit(frame, np.full(len(frame), 7.5))
    np.testing.assert_allclose(model.predict(frame), 7.5)


def test_loo_is_a_refit_without_the_row(frame, target):
    model = mercer.TableRegressor(mercer.RBF(2.0), alpha=0.3).fit(frame, target)
    Z, scaled = model.encode(frame), (target - model.y_mean_) / model.y_scale_
    for i in (0, 7, 39):
        rest = np.arange(len(Z)) != i
        inner = mercer.KernelRidge(mercer.RBF(2.0), alpha=0.3).fit(Z[rest], scaled[rest])
        expected = model.y_mean_ + model.y_scale_ * inner.predict(Z[[i]])[0]
        assert model.loo()[i] == pytest.approx(expected, abs=1e-9)


def test_intervals_are_in_the_units_of_the_target(frame, target):
    model = mercer.TableRegressor(mercer.RBF(2.0), alpha=0.3).fit(frame, target)
    lower, upper = model.predict_interval(frame, 0.8)
    Z, scaled = model.encode(frame), (target - model.y_mean_) / model.y_scale_
    inner = mercer.KernelRidge(mercer.RBF(2.0), alpha=0.3).fit(Z, scaled)
    want = model.y_mean_ + model.y_scale_ * np.array(inner.predict_interval(Z, 0.8))
    np.testing.assert_allclose([lower, upper], want, rtol=1e-12)
    groups = np.arange(len(frame)) // 4
    wide = model.predict_interval(frame, 0.8, groups=groups)
    assert np.isfinite(wide).all() and not np.allclose(wide, want)
    with pytest.raises(InvalidInput, match="coverage"):
        model.predict_interval(frame, 2)


def test_classifier():
    table, grower = load_wine_table()
    model = mercer.TableClassifier(alpha=0.1).fit(table, grower)
    assert model.classes_.tolist() == ["grower 1", "grower 2", "grower 3"]
    assert model.score(table, grower) > 0.97
    assert np.mean(model.loo() == grower) > 0.95
    values = model.decision_function(table)
    assert values.shape == (178, 3)
    np.testing.assert_array_equal(model.classes_[values.argmax(1)], model.predict(table))


@pytest.mark.parametrize("cls", [mercer.TableRegressor, mercer.TableClassifier])
def test_weight_is_repetition_of_whole_rows(cls, frame, target):
    y = target if cls is mercer.TableRegressor else (target > np.median(target)).astype(int)
    weight = np.arange(len(y)) % 3
    rows = np.repeat(np.arange(len(y)), weight)
    one = cls(mercer.RBF(2.0)).fit(frame, y, sample_weight=weight)
    two = cls(mercer.RBF(2.0)).fit(frame.iloc[rows], y[rows])
    method = "predict" if cls is mercer.TableRegressor else "decision_function"
    np.testing.assert_allclose(getattr(one, method)(frame), getattr(two, method)(frame), atol=1e-9)


def test_frames_of_any_kind_and_order(frame, target):
    model = mercer.TableRegressor("rbf").fit(frame, target)
    assert model.feature_names_in_.tolist() == ["x", "gap", "c"]
    other = frame[["c", "x", "gap"]].assign(extra=1)
    np.testing.assert_array_equal(model.predict(other), model.predict(frame))
    columns = {n: frame[n].tolist() for n in frame}
    np.testing.assert_array_equal(model.predict(columns), model.predict(frame))


def test_errors_name_the_model(frame, target):
    model = mercer.TableRegressor("rbf").fit(frame, target)
    with pytest.raises(InvalidInput, match="TableRegressor: missing column 'gap'"):
        model.predict(frame.drop(columns="gap"))
    with pytest.raises(InvalidInput, match="TableRegressor: column 'x' holds 'two' at row 0"):
        model.predict(frame.assign(x=["two"] * len(frame)))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None"),
        ([1.0, 2.0], "40 rows and y has 2"),
        (np.full(40, np.nan), "NaN at row 0"),
        (np.full(40, np.inf), "infinity at row 0"),
        (["a"] * 40, "number"),
        (np.ones((40, 2)), "2 columns"),
    ],
)
def test_bad_targets(frame, y, message):
    with pytest.raises(InvalidInput, match=message):
        mercer.TableRegressor("rbf").fit(frame, y)


def test_bad_parameters(frame, target):
    with pytest.raises(InvalidInput, match="precomputed"):
        mercer.TableRegressor("precomputed").fit(frame, target)
    with pytest.raises(InvalidInput, match="alpha"):
        mercer.TableRegressor(alpha=-1).fit(frame, target)
    with pytest.raises(InvalidInput, match="one class"):
        mercer.TableClassifier("rbf").fit(frame, ["a"] * 40)


@pytest.mark.parametrize("cls", [mercer.TableRegressor, mercer.TableClassifier])
def test_saved_and_loaded(cls, frame, target, tmp_path):
    y = target if cls is mercer.TableRegressor else np.where(target > 4, "much", "little")
    model = cls(alpha="loo", categorical=["c"]).fit(frame, y)
    model.notes_ = {"source": "here", "held_out": {"rows": 3, "value": 0.5}}
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.notes_ == model.notes_
    assert again.get_params().keys() == model.get_params().keys()
    clone(again).fit(frame, y)


def test_parts_that_do_not_belong_together_are_not_loaded(frame, target, tmp_path):
    model = mercer.TableRegressor("rbf").fit(frame, target)
    other = mercer.TableRegressor("rbf").fit(frame[["x"]], target)
    for name, value in (
        ("encoder_", other.encoder_),
        ("model_", mercer.KernelRidgeClassifier().fit(model.encode(frame), target > 4)),
        ("notes_", [1]),
        ("y_scale_", float("nan")),
        ("n_features_in_", 2),
    ):
        broken = mercer.TableRegressor("rbf").fit(frame, target)
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "m")
        with pytest.raises(ModelFileError):
            mercer.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kinds_", ("number", "number", "wizardry")),
        ("columns_", ("x", "x", "c")),
        ("columns_", ("x", "c")),
        ("mean_", np.zeros(2)),
        ("scale_", np.full(3, np.nan)),
        ("categories_", ((), (), ("a", "a"))),
        ("categories_", ((), (), ("a", 3))),
        ("n_features_in_", "3"),
    ],
)
def test_an_encoder_that_contradicts_itself_is_not_loaded(frame, tmp_path, name, value):
    encoder = mercer.TableEncoder().fit(frame)
    setattr(encoder, name, value)
    mercer.save(encoder, tmp_path / "e")
    with pytest.raises(ModelFileError):
        mercer.load(tmp_path / "e")


def test_the_diabetes_table_is_predicted_better_than_its_mean():
    table, y = load_diabetes_table()
    model = mercer.TableRegressor(alpha="loo").fit(table, y)
    assert np.mean((model.loo() - y) ** 2) < 0.55 * y.var()


@pytest.mark.parametrize("cls", [mercer.TableRegressor, mercer.TableClassifier])
def test_alpha_is_shown(cls, frame, target):
    y = target if cls is mercer.TableRegressor else target > np.median(target)
    assert cls(alpha=0.25).fit(frame, y).alpha_ == 0.25
    model = cls(alpha="loo").fit(frame, y)
    assert model.alpha_ == model.model_.alpha_ > 0
    assert not hasattr(cls(), "alpha_")


def test_class_weight_is_a_weight_of_the_rows(frame, tmp_path):
    y = np.where(np.arange(40) < 8, "rare", "usual")
    plain = mercer.TableClassifier(mercer.RBF(2.0)).fit(frame, y)
    weighted = mercer.TableClassifier(mercer.RBF(2.0), class_weight="balanced").fit(frame, y)
    by_hand = mercer.TableClassifier(mercer.RBF(2.0), class_weight={"rare": 2.5, "usual": 0.625})
    np.testing.assert_allclose(
        weighted.decision_function(frame), by_hand.fit(frame, y).decision_function(frame)
    )
    assert (weighted.predict(frame) == "rare").sum() > (plain.predict(frame) == "rare").sum()
    mercer.save(weighted, tmp_path / "m")
    assert mercer.load(tmp_path / "m").class_weight == "balanced"
    with pytest.raises(InvalidInput, match="class_weight"):
        mercer.TableClassifier(class_weight="heavy").fit(frame, y)


def test_kernels_on_named_columns_see_the_table_itself(frame, target, tmp_path):
    for kernel in (
        mercer.RBF().on("x"),
        2.0 * mercer.RBF().on("x") + mercer.Categorical(0.5).on("c"),
        (mercer.RBF().on("x") * mercer.Categorical().on(["c", "gap"])).normalized(),
    ):
        model = mercer.TableRegressor(kernel, alpha=0.1).fit(frame, target)
        scaled = (target - target.mean()) / target.std()
        plain = mercer.KernelRidge(kernel, alpha=0.1).fit(frame, scaled)
        expected = target.mean() + target.std() * plain.predict(frame)
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-10)
        np.testing.assert_allclose(model.predict(frame[frame.columns[::-1]]), expected, rtol=1e-10)
        mercer.save(model, tmp_path / "m", overwrite=True)
        np.testing.assert_array_equal(
            mercer.load(tmp_path / "m").predict(frame), model.predict(frame)
        )
        np.testing.assert_allclose(model.loo(frame), model.loo())
        np.testing.assert_allclose(plain.loo(frame), plain.loo())
        with pytest.raises(InvalidInput, match="missing column 'x'; it was there in fit"):
            model.predict(frame.drop(columns="x"))
    # positions are those of the table, not of encoded rows: the last column holds categories
    by_position = mercer.TableRegressor(mercer.RBF().on(0) * mercer.Categorical().on(-1))
    by_name = mercer.TableRegressor(mercer.RBF().on("x") * mercer.Categorical().on("c"))
    np.testing.assert_array_equal(
        by_position.fit(frame, target).predict(frame), by_name.fit(frame, target).predict(frame)
    )


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda y: np.array(y, dtype=object),
        pd.Series,
        lambda y: pd.Series(y, dtype="category"),
    ],
)
@pytest.mark.parametrize("absent", [None, float("nan")])
def test_missing_labels_are_refused(frame, make, absent):
    labels = ["a", "b"] * 19 + ["a", absent]
    with pytest.raises(InvalidInput, match=r"no label in 1 of 40 rows \(row 39"):
        mercer.TableClassifier("rbf").fit(frame, make(labels))


def test_missing_numbers_as_labels_are_refused(frame):
    with pytest.raises(InvalidInput, match="no label in 20 of 40"):
        mercer.TableClassifier("rbf").fit(frame, [1.0, np.nan] * 20)


def test_left_out_takes_the_training_table_again_and_no_other():
    table = pd.DataFrame({"a": [1.0, 2.0, np.nan, 4.0, 5.0, 7.0], "b": list("uvuwvu")})
    y = np.array([0.0, 1.0, 0.5, 2.0, 2.5, 3.0])
    model = mercer.TableRegressor("rbf").fit(table, y)
    labels = mercer.TableClassifier("rbf").fit(table, y > 1)
    np.testing.assert_array_equal(model.loo(table), model.loo())
    np.testing.assert_array_equal(labels.loo(table), labels.loo())
    values = labels.loo_decision_function()
    np.testing.assert_array_equal(labels.loo_decision_function(table), values)
    for other in (table[::-1], table[:5]):
        with pytest.raises(InvalidInput, match=r"TableRegressor.loo: X is not what the model was"):
            model.loo(other)
        with pytest.raises(InvalidInput, match=r"TableClassifier.loo: X is not what the model was"):
            labels.loo(other)


@pytest.mark.parametrize("model", ["svc", "ridge", "features"])
def test_labels_in_a_ragged_list_are_refused(model):
    y = [[1, 2], [3], *([4, 5] for _ in range(10))]
    with pytest.raises(InvalidInput, match="TableClassifier"):
        mercer.TableClassifier(model=model).fit(np.arange(24.0).reshape(12, 2), y)


def test_a_cell_beside_which_others_are_equal_is_told_of():
    x = np.linspace(0, 1, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder().fit({"x": np.append(x, 1e6)})
        TableEncoder().fit({"x": np.append(np.zeros(20), 1e9)})  # the middle half is one number
    with pytest.warns(UserWarning, match="column 'x' holds 1e\\+50 at row 20; .* next to equal"):
        TableEncoder().fit({"x": np.append(x, 1e50)})


def test_a_column_that_names_each_row_is_told_of():
    names = [f"u{i:03d}" for i in range(30)]
    with pytest.warns(UserWarning, match="column 'id' holds 30 texts, all of them different"):
        TableEncoder().fit({"id": names})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(["id"]).fit({"id": names})  # somebody says that it is a category
        TableEncoder().fit({"id": [*names, names[0]]})


def test_dates_with_a_time_zone_are_dates():
    days = pd.date_range("2026-01-01", periods=5, tz="Europe/Berlin")
    for column in (days, days.tz_localize(None).to_period("D")):
        with pytest.raises(InvalidInput, match="column 'day' holds dates; turn it into a number"):
            TableEncoder().fit(pd.DataFrame({"day": column}))


DAYS = pd.date_range("2020-01-01", periods=20)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (DAYS, "dates or times; .* such as \\(y - y.min"),
        (pd.Series(DAYS), "dates or times"),
        (pd.DataFrame({"y": DAYS}), "dates or times"),
        (DAYS.date.tolist(), "such as y = numpy.array\\(y, dtype='M8"),
        (pd.Series(DAYS - DAYS[0]), "durations; .* such as y / numpy.timedelta64"),
        ((DAYS - DAYS[0]).to_pytimedelta().tolist(), "such as y = numpy.array\\(y, dtype='m8"),
    ],
)
@pytest.mark.parametrize(
    "model",
    [mercer.KernelRidge(), mercer.TableRegressor(), mercer.TableRegressor("rbf"), mercer.SVR()],
)
def test_a_target_of_dates_is_refused_and_the_cure_works(model, y, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(InvalidInput, match=message):
        model.fit(X, y)
    if not hasattr(y, "min"):
        y = np.array(y, dtype="m8[us]" if "m8" in message else "M8[us]")
    spans = "durations" in message or "m8" in message
    numbers = (y if spans else y - y.min()) / np.timedelta64(1, "D")
    np.testing.assert_allclose(np.ravel(numbers), np.arange(20.0))


def test_what_is_no_target_of_one_class_names_the_other(frame, target):
    for model in (mercer.TableRegressor(), mercer.TableRegressor("rbf")):
        with pytest.raises(InvalidInput, match="FeatureMachineRegressor takes several"):
            model.fit(frame, np.column_stack([target, target]))
        with pytest.raises(InvalidInput, match=r"NaN at row 3\. Leave out those rows"):
            model.fit(frame, np.where(np.arange(40) == 3, np.nan, target))
        with pytest.raises(InvalidInput, match="for class labels take TableClassifier"):
            model.fit(frame, frame["c"].fillna("b"))
    for model in (mercer.TableClassifier(), mercer.TableClassifier("rbf")):
        with pytest.raises(InvalidInput, match="For numbers take TableRegressor"):
            model.fit(frame, target + np.random.default_rng(0).normal(size=40))
    with pytest.raises(InvalidInput, match="For numbers take SVR"):
        mercer.SVC().fit(frame[["x"]], np.linspace(0, 1, 40))


def test_a_model_without_probabilities_says_what_has_them(frame, target):
    model = mercer.TableClassifier(model="ridge").fit(frame, target > 4)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="it has no probabilities; fit it with model='feat"):
        model.predict_proba(frame)
    assert "probability of each class" in mercer.TableClassifier.predict_proba.__doc__


def customers(n=60):
    rng = np.random.default_rng(0)
    x, days = rng.normal(size=n), pd.date_range("2020-01-01", periods=n)
    columns = {"customer": np.arange(1000, 1000 + n), "x": x, "name": [f"p{i}" for i in range(n)]}
    columns |= {"day": days, "written": days.strftime("%Y-%m-%d"), "span": days - days[0]}
    return pd.DataFrame(columns), np.sin(x) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize(
    "model",
    [
        mercer.FeatureMachineRegressor(n_models=1),
        mercer.TableRegressor(),
        mercer.TableRegressor("rbf"),
        mercer.TableRegressor("auto"),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_identifiers_and_dates_are_left_out_of_every_table_with_names(model, text):
    frame, y = customers()
    if text:
        words = np.random.default_rng(1).choice(["red", "old", "new", "hot", "far"], (len(y), 6))
        frame["note"] = [" ".join(row) for row in words]
    with pytest.warns(UserWarning) as caught:
        model = clone(model).fit(frame, y)
    said = " ".join(str(warning.message) for warning in caught)
    assert "column 'customer' is left out: an identifier: it counts from 1000 to 1059" in said
    assert "kinds={'customer': 'number'} keeps it" in said
    assert "column 'name' is left out" in said and "kinds={'name': 'category'} keeps it" in said
    assert "column 'written' is left out: dates as text; turn them into numbers" in said
    assert "column 'day' is left out: dates; turn them into numbers" in said
    assert "column 'span' is left out: durations; turn them into numbers" in said
    assert "'x'" not in said
    seen = frame[["x", "note"] if text else ["x"]]  # the others need not be there
    np.testing.assert_array_equal(model.predict(seen), model.predict(frame))


def test_what_columns_hold_may_be_said():
    frame, y = customers()
    kinds = {"customer": "number", "name": "category", "written": "left out", "day": "left out"}
    for kernel in (None, "rbf"):
        model = mercer.TableRegressor(kernel, kinds=kinds | {"span": "left out"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(frame, y)
        found = dict(zip(frame, model.encoder_.kinds_, strict=True))
        assert found["customer"] == "number" and found["name"] == "category"
        assert [found[n] for n in ("day", "written", "span")] == ["left out"] * 3
    with pytest.raises(InvalidInput, match=r"^TableRegressor: kinds names the column 'custom'"):
        mercer.TableRegressor(kinds={"custom": "number"}).fit(frame, y)
    with pytest.raises(InvalidInput, match=r"^TableRegressor: kinds says 'numbers'"):
        mercer.TableRegressor("rbf", kinds={"customer": "numbers"}).fit(frame, y)


def test_arrays_and_a_column_alone_are_not_judged():
    frame, y = customers()
    for X in (frame[["customer", "x"]].to_numpy(), frame[["customer"]]):
        model = mercer.TableRegressor("rbf").fit(X, y)
        assert set(model.encoder_.kinds_) == {"number"}


def test_identifiers_of_blocks_are_left_out():
    frame, y = customers(400)
    blocks = mercer.RowBlocks.from_arrays(frame[["customer", "x", "name"]], y, block_rows=100)
    for model in (mercer.TableRegressor(), mercer.TableRegressor("rbf")):
        with pytest.warns(UserWarning, match="column 'customer' is left out"):
            model.fit(blocks)
        assert model.encoder_.kinds_ == ("left out", "number", "left out")


# --------------------------------------------------------------- what columns hold, in every form
def _numbered(n=40):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": rng.permutation(n) + 1, "x": rng.normal(size=n)})
    frame["z"], frame["c"] = rng.normal(size=n), pd.Categorical(np.arange(n) % 3)
    return frame, frame.x.to_numpy() + 0.1 * rng.normal(size=n)


MACHINE = mercer.FeatureMachineRegressor(n_models=2, max_rows=100)


def test_numbers_that_count_in_the_first_block_alone_stay(tmp_path):
    """Hours of a day count in a block of a day, and are no identifier."""
    hour = np.arange(1200) % 300
    frame = pd.DataFrame({"hour": hour, "v": 1.0 * (hour % 7), "y": np.sin(hour / 40)})
    frame.to_parquet(tmp_path / "t.parquet")
    blocks = mercer.RowBlocks.from_parquet(tmp_path / "t.parquet", target="y", block_rows=200)
    model = mercer.TableRegressor("rbf", 0.01).fit(blocks)
    assert model.encoder_.left_out == ()
    assert np.corrcoef(model.predict(frame[["hour", "v"]]), frame.y)[0, 1] > 0.99
    assert "2 encoded columns" in clone(MACHINE).plan(blocks).why


@pytest.mark.parametrize(
    "model", [MACHINE, mercer.TableRegressor("rbf", 1.0), mercer.TableRegressor(max_time=1)]
)
def test_blocks_and_frames_need_no_column_that_was_left_out(model):
    frame, y = _numbered()
    model = clone(model)
    with pytest.warns(UserWarning, match="'id' is left out: an identifier"):
        model.fit(frame[["id", "x", "z"]], y)
    some = frame[["x", "z"]]
    np.testing.assert_allclose(
        model.predict(mercer.RowBlocks.from_arrays(some)), model.predict(some)
    )
    with pytest.raises(InvalidInput, match="no column 'z'"):
        model.predict(mercer.RowBlocks.from_arrays(frame[["id", "x"]]))


@pytest.mark.parametrize("model", [MACHINE, mercer.TableRegressor("rbf", 1.0)])
def test_what_cannot_be_done_with_kinds_is_refused(model):
    frame, y = _numbered()
    with pytest.raises(InvalidInput, match=r"the table declares it categories .* convert"):
        clone(model).set_params(kinds={"c": "number"}).fit(frame[["x", "c"]], y)
    model = clone(model).set_params(kinds={"x": "left out", "z": "left out"})
    with pytest.raises(InvalidInput, match="no column is left to learn from: 'x': as asked"):
        model.fit(frame[["x", "z"]], y)
    text = frame.assign(t=[f"some words {i}" for i in range(40)])
    if isinstance(model, mercer.TableRegressor):
        with pytest.raises(InvalidInput, match="'t' text, which kernel='rbf' does not read"):
            mercer.TableRegressor("rbf", 1.0, kinds={"t": "text"}).fit(text[["x", "t"]], y)
    else:
        with pytest.raises(InvalidInput, match="40 rows and y has 37"):
            clone(MACHINE).fit(text[["x", "t"]], y[:37])


def test_identifiers_stay_where_all_else_is_dates():
    frame, y = _numbered()
    dated = frame[["id"]].assign(when=pd.date_range("2020", periods=40))
    with pytest.warns(UserWarning, match="'when' is left out: dates"):
        model = clone(MACHINE).fit(dated, y)
    assert model.encoder_.kinds_ == ("number", "left out")


@pytest.mark.parametrize("model", [MACHINE, mercer.TableRegressor("rbf", 1.0)])
def test_pickles_of_before_have_the_parameters_that_came_since(model):
    frame, y = _numbered()
    model = clone(model).fit(frame[["x", "z"]], y)
    state = {k: v for k, v in model.__getstate__().items() if k != "kinds"}
    again = type(model).__new__(type(model))
    again.__setstate__(state)
    assert repr(again) == repr(model) and clone(again).get_params()["kinds"] is None
