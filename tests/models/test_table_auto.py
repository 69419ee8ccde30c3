"""Table models with kernels on columns and with kernel="auto": the table itself is seen."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    RBF,
    BagOfWords,
    Categorical,
    Graph,
    KernelRidge,
    Ordinal,
    SetKernel,
    Spectrum,
    TableClassifier,
    TableRegressor,
    WeisfeilerLehman,
    auto_kernel,
)
from mercer.errors import InvalidInput, ModelFileError

N = 36
EXPECTED = {
    "check_complex_data": "refused in other words",
    "check_dtype_object": "a column may hold any objects",
    "check_fit2d_1sample": "one row says nothing of the columns; refused in other words",
    "check_sample_weight_equivalence_on_dense_data": "the proposal does not depend on weights",
}


@parametrize_with_checks(
    [TableRegressor("auto"), TableClassifier("auto")], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    levels = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
    path = {2: [(0, 1)], 3: [(0, 1), (1, 2)], 4: [(0, 1), (1, 2), (2, 3)]}
    return pd.DataFrame(
        {
            "a": rng.standard_normal(N),
            "gap": np.where(rng.random(N) < 0.2, np.nan, rng.standard_normal(N)),
            "s": rng.choice(["x", "y", None], N),
            "o": pd.Categorical(rng.choice(["lo", "mid", "hi"], N), dtype=levels),
            "ci": pd.Categorical(rng.integers(1, 4, N)),
            "b": rng.random(N) < 0.5,
            "dna": ["".join(rng.choice(list("ACGT"), 12)) for _ in range(N)],
            "g": [Graph(edges=path[2 + i % 3], n_nodes=2 + i % 3) for i in range(N)],
            "v": [rng.standard_normal((2 + i % 3, 2)) for i in range(N)],
            "d": pd.date_range("2020-01-01", periods=N),
            "id": np.arange(N),
        }
    )


@pytest.fixture(scope="module")
def target(frame):
    rng = np.random.default_rng(1)
    return 5.0 + 3.0 * (frame["o"] == "hi") + frame["a"] ** 2 + 0.1 * rng.standard_normal(N)


KERNELS = {
    "ordered categories": Ordinal().on("o"),
    "whole numbers as categories": Ordinal([1, 2, 3]).on("ci") + Categorical().on("ci"),
    "truth values as numbers": RBF(1.0).on(["a", "b"]),
    "truth values as categories": Categorical(0.2).on(["b", "s"]),
    "graphs": WeisfeilerLehman(2).on("g") + RBF(1.0).on("a"),
    "arrays": SetKernel(RBF(1.0)).on("v"),
    "strings": Spectrum(2).normalized().on("dna") * RBF().on("a"),
    "gaps": RBF().with_missing().on(["gap", "a"]),
    "positions": RBF(1.0).on(0) * Categorical().on(2),
    "names and positions": RBF(1.0).on("a") + Categorical().on(-6),
    "a slice": RBF(1.0).with_missing().on(slice(0, 2)),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_kernel_sees_what_it_would_see_in_kernel_ridge(kernel, frame, target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableRegressor(kernel, alpha=0.1).fit(frame, target)
        mean, scale = target.mean(), target.std(ddof=0)
        plain = KernelRidge(kernel, alpha=0.1).fit(frame, (target - mean) / scale)
        np.testing.assert_allclose(
            model.predict(frame), mean + scale * plain.predict(frame), rtol=1e-10
        )
        assert repr(model.kernel_) == repr(plain.kernel_)
        np.testing.assert_allclose(model.loo(), mean + scale * plain.loo(), rtol=1e-8)


def test_auto_is_what_auto_kernel_proposes(frame, target):
    model = TableRegressor("auto", alpha=0.1).fit(frame, target)
    proposed = auto_kernel(frame)
    assert repr(model.model_.kernel) == repr(proposed)
    assert "Ordinal(order=('lo', 'mid', 'hi')" in repr(model.kernel_)
    mean, scale = target.mean(), target.std(ddof=0)
    plain = KernelRidge(proposed, alpha=0.1).fit(frame, (target - mean) / scale)
    np.testing.assert_allclose(
        model.predict(frame), mean + scale * plain.predict(frame), rtol=1e-10
    )
    assert not {"d", "id", "v"} & set(model.encoder_.columns_)
    assert model.n_features_in_ == len(model.feature_names_in_) == len(model.encoder_.columns_)


def test_only_the_columns_that_are_looked_at_are_asked_for(frame, target):
    kernel = RBF(1.0).on("a") * Categorical().on("s")
    model = TableRegressor(kernel).fit(frame, target)
    assert model.encoder_.columns_ == ("a", "s") and model.encoder_.kinds_ == ("number", "text")
    expected = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[["s", "a"]]), expected)
    np.testing.assert_array_equal(model.predict(frame.assign(more="new")[::1]), expected)
    with pytest.raises(InvalidInput, match=r"TableRegressor: missing column 's'; it was there"):
        model.predict(frame[["a", "d"]])
    with pytest.raises(InvalidInput, match=r"TableRegressor: Table: no column 'aa'"):
        TableRegressor(RBF().on("aa")).fit(frame, target)
    auto = TableRegressor("auto").fit(frame, target)
    rest = frame.drop(columns=["d", "id", "v"])[::-1].iloc[:, ::-1]
    np.testing.assert_allclose(auto.predict(rest)[::-1], auto.predict(frame), rtol=1e-12)


def test_positions_in_a_frame_are_found_by_name(frame, target):
    model = TableRegressor(RBF(1.0).on(0) * Categorical().on(2)).fit(frame, target)
    expected = TableRegressor(RBF(1.0).on("a") * Categorical().on("s")).fit(frame, target)
    np.testing.assert_array_equal(model.predict(frame), expected.predict(frame))
    turned = frame.iloc[:, ::-1].assign(more=1.0)
    np.testing.assert_array_equal(model.predict(turned), model.predict(frame))


def test_categories_are_told_apart_by_position():
    table = pd.DataFrame({"a": np.arange(9.0), "s": list("abcabcabc")})
    y = np.tile([0.0, 1.0, 2.0], 3)
    model = TableRegressor(RBF(1.0).on(0) * Categorical().on(1), alpha=1e-3).fit(table, y)
    np.testing.assert_allclose(model.predict(table), y, atol=0.05)


def test_arrays_of_objects_and_of_numbers(frame, target, tmp_path):
    columns = ["a", "s", "dna"]
    rows = frame[columns].to_numpy(dtype=object)
    kernel = RBF(1.0).on(0) * Categorical().on(1) + Spectrum(2).on(2)
    model = TableRegressor(kernel).fit(rows, target)
    named = TableRegressor(RBF(1.0).on("a") * Categorical().on("s") + Spectrum(2).on("dna")).fit(
        frame, target
    )
    np.testing.assert_allclose(model.predict(rows), named.predict(frame), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows.tolist()), model.predict(rows))
    np.testing.assert_allclose(model.loo(rows), named.loo(), rtol=1e-12)
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(rows), model.predict(rows))
    assert not hasattr(model, "feature_names_in_") and model.n_features_in_ == 3
    with pytest.raises(InvalidInput, match="X has 2 features, but TableRegressor is expecting 3"):
        model.predict(rows[:, :2])
    with pytest.raises(InvalidInput, match="with column names"):
        model.predict(frame[columns])
    with pytest.raises(InvalidInput, match="with column names"):
        named.predict(rows)

    numbers = frame[["a", "gap"]].to_numpy()
    plain = KernelRidge(RBF(1.0).with_missing()).fit(numbers, target)
    np.testing.assert_array_equal(plain.loo(numbers), plain.loo())
    auto = TableRegressor("auto").fit(numbers, target)
    np.testing.assert_allclose(
        auto.predict(numbers),
        TableRegressor("auto").fit(frame[["a", "gap"]], target).predict(frame),
    )
    np.testing.assert_array_equal(auto.loo(numbers), auto.loo())
    mercer.save(auto, tmp_path / "n")
    np.testing.assert_array_equal(
        mercer.load(tmp_path / "n").predict(numbers), auto.predict(numbers)
    )


@pytest.mark.parametrize("asked", ["ci", ["ci"], [4], ("ci", "id")])
def test_categorical_is_handed_to_auto(asked, frame, target):
    table = frame.assign(ci=frame["ci"].astype(int))
    model = TableRegressor("auto", categorical=asked).fit(table, target)
    keys = [asked] if isinstance(asked, str) else asked
    assert repr(model.model_.kernel) == repr(auto_kernel(table, categorical=keys))
    (part,) = [
        k
        for k in model.kernel_.get_params(deep=True).values()
        if repr(k).startswith("Categorical") and hasattr(k, "columns")
    ]
    assert "ci" in part.columns and ("id" in part.columns) == ("id" in keys)
    assert ("id" in model.encoder_.columns_) == ("id" in keys)
    with pytest.raises(InvalidInput, match="'no'"):
        TableRegressor("auto", categorical="no").fit(table, target)


def test_one_name_is_a_list_of_one_for_the_encoder(frame, target):
    table = frame[["a", "id"]]
    one = TableRegressor(categorical="id").fit(table, target)
    many = TableRegressor(categorical=["id"]).fit(table, target)
    assert one.encoder_.kinds_ == many.encoder_.kinds_ == ("number", "category")


def _labels(target):
    return np.where(target > np.median(target), "much", "little")


@pytest.mark.parametrize("model", ["ridge", "svc"])
def test_classifiers(model, frame, target, tmp_path):
    y = _labels(target)
    fitted = TableClassifier("auto", model=model, probability=True, class_weight="balanced")
    fitted.fit(frame, y)
    assert fitted.score(frame, y) > 0.8
    by_hand = TableClassifier(
        auto_kernel(frame), model=model, probability=True, class_weight="balanced"
    ).fit(frame, y)
    expected = fitted.decision_function(frame)
    np.testing.assert_array_equal(by_hand.decision_function(frame), expected)
    mercer.save(fitted, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(frame), expected)
    assert again.encoder_.kinds_ == fitted.encoder_.kinds_ and again.kernel == "auto"
    if model == "svc":
        P = again.predict_proba(frame)
        np.testing.assert_array_equal(P, fitted.predict_proba(frame))
    else:
        for one in (fitted, again):
            np.testing.assert_array_equal(one.loo(frame), fitted.loo())
            with pytest.raises(InvalidInput, match=r"TableClassifier.loo: X is not what"):
                one.loo(frame[::-1])
    new = clone(again)
    assert not hasattr(new, "model_")
    np.testing.assert_array_equal(new.fit(frame, y).decision_function(frame), expected)


@pytest.mark.parametrize("model", [None, "ridge", "svc"])
def test_weights_with_auto(model, frame, target):
    """A row of weight 0 is one left out; given the kernel, weight 2 is the row twice."""
    rows, weight = np.arange(N), np.where(np.arange(N) < 6, 0.0, 1.0)
    estimator = TableRegressor("auto") if model is None else TableClassifier("auto", model=model)
    method = "predict" if model is None else "decision_function"
    y = target.to_numpy() if model is None else _labels(target)
    one = clone(estimator).fit(frame, y, sample_weight=weight)
    kept = rows[6:]
    two = clone(estimator).fit(frame.iloc[kept], y[kept])
    assert repr(one.kernel_) == repr(two.kernel_)
    np.testing.assert_allclose(
        getattr(one, method)(frame), getattr(two, method)(frame), atol=2e-3 if model else 1e-9
    )
    if model == "svc":
        return
    fixed = clone(estimator).set_params(kernel=one.kernel_)
    weight = 1.0 + rows % 3
    twice = np.repeat(rows, weight.astype(int))
    one = clone(fixed).fit(frame, y, sample_weight=weight)
    two = clone(fixed).fit(frame.iloc[twice], y[twice])
    np.testing.assert_allclose(getattr(one, method)(frame), getattr(two, method)(frame), atol=1e-8)


def test_searches_and_folds(frame, target):
    grid = {"kernel": ["auto", "rbf", RBF().on("a")], "alpha": [0.1, 1.0]}
    plain = frame.drop(columns=["g", "v", "d"])
    search = GridSearchCV(TableRegressor(), grid, cv=3, error_score="raise").fit(plain, target)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    inside = {"kernel__k1__kernel__similarity": [0.1, 0.9]}
    kernel = Categorical().on("s") + RBF().on("a")
    search = GridSearchCV(TableClassifier(kernel, model="svc"), inside, cv=3, error_score="raise")
    search.fit(frame, _labels(target))
    assert len(cross_val_predict(TableRegressor("auto"), frame, target, cv=3)) == N


def test_tuned(frame, target):
    tuned = mercer.tune(TableRegressor("auto"), frame, target, max_iter=3).model
    assert tuned.encoder_.columns_ == TableRegressor("auto").fit(frame, target).encoder_.columns_
    assert np.mean((tuned.loo() - target) ** 2) < target.var()


def test_polars_and_arrow(frame, target):
    pl = pytest.importorskip("polars")
    columns = ["a", "gap", "s", "o", "b", "dna"]
    pandas = frame[columns]
    y = target.to_numpy()
    expected = TableRegressor("auto").fit(pandas, y)
    lists = {n: pandas[n].astype(object).where(pandas[n].notna(), None).tolist() for n in columns}
    levels = pl.Enum(["lo", "mid", "hi"])
    polars = pl.DataFrame({n: v for n, v in lists.items() if n != "o"}).with_columns(
        pl.Series("o", lists["o"], dtype=levels)
    )
    model = TableRegressor("auto").fit(polars, y)
    assert sorted(model.encoder_.columns_) == sorted(expected.encoder_.columns_)
    np.testing.assert_allclose(model.predict(polars), expected.predict(pandas), rtol=1e-9)
    np.testing.assert_allclose(model.predict(pandas), expected.predict(pandas), rtol=1e-9)
    arrow = polars.to_arrow()
    np.testing.assert_allclose(model.predict(arrow), expected.predict(pandas), rtol=1e-9)
    dates = polars.with_columns(pl.Series("d", frame["d"].to_numpy()))
    np.testing.assert_allclose(
        TableRegressor("auto").fit(dates, y).predict(polars), model.predict(polars)
    )


def test_text_reaches_the_kernel():
    notes = ["fever and a cough", "cough in the night", "a broken left arm", "the right arm hurts"]
    table = {"note": notes * 3, "n": [1.0, 2.0, 3.0, 4.0] * 3}
    y = np.array([1.0, 1.0, 0.0, 0.0] * 3)
    model = TableRegressor(BagOfWords().on("note"), alpha=0.01).fit(table, y)
    np.testing.assert_allclose(model.predict({"note": ["cough", "an arm"]}).round(), [1.0, 0.0])


def test_refusals(frame, target):
    kernel = RBF().on("a")
    with pytest.raises(InvalidInput, match="TableRegressor: the table has 0 rows"):
        TableRegressor(kernel).fit(frame[:0], target[:0])
    with pytest.raises(InvalidInput, match="36 rows and y has 3 values"):
        TableRegressor(kernel).fit(frame, [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="TableRegressor: X has masked entries"):
        masked = np.ma.masked_less(frame[["a", "id"]].to_numpy(), 0.0)
        TableRegressor(RBF().on(0)).fit(masked, target)
    with pytest.raises(InvalidInput, match="auto_kernel: no column can be compared"):
        TableRegressor("auto").fit(frame[["d", "id"]], target)
    with pytest.raises(InvalidInput, match="sample_weight"):
        TableRegressor("auto").fit(frame, target, sample_weight=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="wizard"):
        TableRegressor("wizard").fit(frame[["a"]], target)


def test_columns_that_do_not_belong_to_the_kernel_are_not_loaded(frame, target, tmp_path):
    kernel = RBF().on("a") + Categorical().on("s")
    other = TableRegressor(RBF().on("a")).fit(frame, target)
    encoded = TableRegressor().fit(frame[["a"]], target)
    for name, value in (
        ("encoder_", other.encoder_),
        ("encoder_", encoded.encoder_),
        ("model_", encoded.model_),
        ("n_features_in_", 3),
    ):
        broken = TableRegressor(kernel).fit(frame, target)
        setattr(broken, name, value)
        mercer.save(broken, tmp_path / "m", overwrite=True)
        with pytest.raises(ModelFileError):
            mercer.load(tmp_path / "m")
