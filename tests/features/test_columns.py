"""TableEncoder: scales, distances between categories, missing and unknown cells, bad tables."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer.domains import Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.features import TableEncoder


@parametrize_with_checks([TableEncoder(), TableEncoder(categorical=(0,), max_categories=3)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def mixed():
    return {
        "age": [30.0, 40.0, 50.0, 60.0],
        "site": ["a", "b", "a", None],
        "flag": [True, False, True, True],
        "same": [7, 7, 7, 7],
    }


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict": dict,
    "table": Table,
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_vectors(make):
    encoder = TableEncoder().fit(make(mixed()))
    assert encoder.kinds_ == ("number", "category", "category", "number")
    assert encoder.get_feature_names_out().tolist() == [
        "age",
        "site=a",
        "site=b",
        "site=<missing>",
        "flag=False",
        "flag=True",
        "same",
    ]
    Z = encoder.transform(make(mixed()))
    h = 2**-0.5
    age = (np.array([30, 40, 50, 60]) - 45) / np.std([30, 40, 50, 60])
    np.testing.assert_allclose(Z[:, 0], age)
    np.testing.assert_allclose(
        Z[:, 1:4], h * np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    )
    np.testing.assert_allclose(Z[:, 4:6], h * np.array([[0, 1], [1, 0], [0, 1], [0, 1]]))
    assert (Z[:, 6] == 0).all()
    assert Z.dtype == np.float64


def test_a_model_fitted_on_one_frame_reads_another():
    encoder = TableEncoder().fit(pd.DataFrame(mixed()))
    for make in FRAMES.values():
        np.testing.assert_array_equal(
            encoder.transform(make(mixed())), encoder.transform(pd.DataFrame(mixed()))
        )


def test_two_categories_are_at_distance_one_and_unknown_nearer():
    encoder = TableEncoder().fit({"c": ["x", "y", "z"]})
    Z = encoder.transform({"c": ["x", "y", "new", None]})
    assert np.linalg.norm(Z[0] - Z[1]) == pytest.approx(1)
    assert np.linalg.norm(Z[0] - Z[2]) == pytest.approx(2**-0.5)
    assert (Z[2] == 0).all()
    assert (Z[3] == 0).all()  # missing was never seen in fit


def test_rare_categories_are_unknown():
    encoder = TableEncoder(max_categories=2).fit({"c": ["r", "b", "b", "a", "a", "a"]})
    assert encoder.categories_ == (("a", "b"),)
    assert (encoder.transform({"c": ["r"]}) == 0).all()


def test_missing_number_becomes_the_median():
    encoder = TableEncoder().fit({"v": [1.0, 2.0, np.nan, 100.0]})
    filled = np.array([1.0, 2.0, 2.0, 100.0])
    np.testing.assert_allclose(
        encoder.transform({"v": [1.0, None, 100.0]})[:, 0],
        (filled[[0, 2, 3]] - filled.mean()) / filled.std(),
    )


@pytest.mark.parametrize("value", [0.0, 7.0, -1e-300, 1e300, 0.1])
def test_constant_columns_are_zero(value):
    Z = TableEncoder().fit_transform(np.full((5, 1), value))
    assert (Z == 0).all()


def test_column_without_any_value_is_zero():
    encoder = TableEncoder().fit({"v": [np.nan, np.nan], "w": [1.0, 2.0]})
    assert (encoder.transform({"v": [3.0, np.nan], "w": [0.0, 1.0]})[:, 0] == 0).all()


@pytest.mark.parametrize("unit", [1e-300, 1e-8, 1e8, 1e200, 1e300])
def test_scales_do_not_overflow(unit):
    x = np.array([[1.0], [2.0], [5.0]])
    np.testing.assert_allclose(
        TableEncoder().fit_transform(unit * x), TableEncoder().fit_transform(x), rtol=1e-9
    )


@pytest.mark.parametrize("seed", range(5))
def test_weight_is_repetition(seed):
    rng = np.random.default_rng(seed)
    n = 12
    frame = pd.DataFrame(
        {
            "v": np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n)),
            "c": rng.choice(["a", "b", "c", "d"], n),
        }
    )
    weight = rng.integers(0, 4, n)
    weight[0] = 2
    repeated = frame.loc[np.repeat(frame.index, weight)]
    one = TableEncoder(max_categories=3).fit(frame, sample_weight=weight)
    two = TableEncoder(max_categories=3).fit(repeated)
    assert one.categories_ == two.categories_
    np.testing.assert_allclose(one.transform(frame), two.transform(frame), atol=1e-12)


@pytest.mark.parametrize("weight", [[1, -1, 1], [0, 0, 0], [1, 1], [1, np.nan, 1], [[1, 1, 1]]])
def test_bad_weights(weight):
    with pytest.raises(InvalidInput, match="sample_weight"):
        TableEncoder().fit({"v": [1.0, 2.0, 3.0]}, sample_weight=weight)


def test_columns_are_found_by_name():
    fitted = TableEncoder().fit(pd.DataFrame(mixed()))
    other = pd.DataFrame(mixed())[["same", "flag", "age", "site"]].assign(extra="?")
    np.testing.assert_array_equal(fitted.transform(other), fitted.transform(pd.DataFrame(mixed())))


def test_missing_column_is_named():
    encoder = TableEncoder().fit(pd.DataFrame(mixed()))
    with pytest.raises(InvalidInput, match="missing column 'site'"):
        encoder.transform(pd.DataFrame(mixed()).drop(columns="site"))


def test_missing_columns_are_named_and_another_case_is_offered():
    encoder = TableEncoder().fit(pd.DataFrame(mixed()))
    frame = pd.DataFrame(mixed())
    with pytest.raises(InvalidInput, match="missing columns 'age', 'site'; they were there in fit"):
        encoder.transform(frame[["flag", "same"]])
    with pytest.raises(InvalidInput, match=r"missing column 'age'.*Did you mean 'Age'\?"):
        encoder.transform(frame.rename(columns={"age": "Age"}))


def test_array_is_read_by_position_and_width_is_checked():
    encoder = TableEncoder().fit(np.arange(12.0).reshape(4, 3))
    assert not hasattr(encoder, "feature_names_in_")
    assert encoder.columns_ == ("x0", "x1", "x2")
    with pytest.raises(InvalidInput, match="2 features, but TableEncoder is expecting 3"):
        encoder.transform(np.ones((2, 2)))


def test_lists_of_mixed_cells_keep_their_kinds():
    rows = [["a", 1.0], ["b", 2.0], [float("nan"), 3.0]]
    encoder = TableEncoder().fit(rows)
    assert encoder.kinds_ == ("category", "number")
    assert encoder.categories_[0] == ("a", "b", None)
    columns = {"c": ["a", "b", float("nan")], "v": [1.0, 2.0, 3.0]}
    assert TableEncoder().fit(columns).categories_ == encoder.categories_


def test_text_where_numbers_belong_names_column_and_row():
    encoder = TableEncoder().fit({"v": [1.0, 2.0]})
    with pytest.raises(InvalidInput, match=r"column 'v' holds 'two' at row 1"):
        encoder.transform({"v": np.array([1.0, "two"], dtype=object)})


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused(bad):
    with pytest.raises(InvalidInput, match=r"column 'v'.*infinity.*row 2"):
        TableEncoder().fit({"v": [1.0, 2.0, bad]})


def test_values_too_far_to_standardise_are_refused():
    encoder = TableEncoder().fit({"v": [1e-300, 2e-300]})
    with pytest.raises(InvalidInput, match="column 'v' holds 1e\\+300"):
        encoder.transform({"v": [1e300]})


def test_numbers_declared_as_categories():
    frame = pd.DataFrame({"zip": [10115, 20095, 10115]})
    by_name = TableEncoder(categorical=["zip"]).fit(frame)
    by_type = TableEncoder().fit(frame.astype("category"))
    assert by_name.categories_ == by_type.categories_ == (("10115", "20095"),)
    # whole numbers read as floats are the same categories
    np.testing.assert_array_equal(
        by_name.transform({"zip": [10115.0]}), by_name.transform({"zip": ["10115"]})
    )
    with pytest.raises(InvalidInput, match="'zap', which is not in the table"):
        TableEncoder(categorical=["zap"]).fit(frame)


@pytest.mark.parametrize(
    "nullable",
    [
        pd.DataFrame({"v": pd.array([1, None, 3], dtype="Int64")}),
        pl.DataFrame({"v": [1, None, 3]}),
        pa.table({"v": [1, None, 3]}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_nullable_integers_are_numbers(nullable):
    encoder = TableEncoder().fit(nullable)
    assert encoder.kinds_ == ("number",)
    assert encoder.fill_[0] == 2


@pytest.mark.parametrize(
    "nullable",
    [
        pd.DataFrame({"b": pd.array([True, None, False], dtype="boolean")}),
        pl.DataFrame({"b": [True, None, False]}),
        pa.table({"b": [True, None, False]}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_nullable_truth_values_are_categories(nullable):
    assert TableEncoder().fit(nullable).categories_ == (("False", "True", None),)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (sp.eye_array(3, format="dok"), "sparse"),
        (pd.DataFrame({"a": []}), "0 rows"),
        (pd.DataFrame(index=[0, 1]), "0 columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns 'a'"),
        (pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}), "'d' holds dates"),
        ([1, 2, 3], "Reshape your data"),
        (np.ones((2, 2, 2)), "dim 3"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        ([[1, 2], [3]], "TableEncoder"),
    ],
)
def test_bad_tables(bad, message):
    with pytest.raises(InvalidInput, match=message):
        TableEncoder().fit(bad)


@pytest.mark.parametrize("bad", [0, -1, 2.5, "x", None, True])
def test_bad_max_categories(bad):
    with pytest.raises(InvalidInput, match="max_categories"):
        TableEncoder(max_categories=bad).fit({"a": ["x"]})


def test_failed_fit_leaves_the_encoder_as_it_was():
    encoder = TableEncoder().fit({"v": [1.0, 2.0]})
    before = encoder.transform({"v": [1.5]})
    with pytest.raises(InvalidInput):
        encoder.fit({"v": [1.0, np.inf]})
    np.testing.assert_array_equal(encoder.transform({"v": [1.5]}), before)


def test_set_output_and_clone():
    frame = pd.DataFrame(mixed())
    encoder = clone(TableEncoder(max_categories=5)).set_output(transform="pandas")
    out = encoder.fit_transform(frame)
    assert list(out.columns) == list(encoder.get_feature_names_out())


def test_input_is_not_changed():
    frame = pd.DataFrame(mixed())
    copy = frame.copy(deep=True)
    TableEncoder().fit(frame).transform(frame)
    pd.testing.assert_frame_equal(frame, copy)


# ---- indicators: gaps among numbers are told ----


def with_gaps():
    return {"age": [30.0, None, 50.0, None], "site": ["a", None, "b", "a"], "size": [1, 2, 3, 4]}


def test_an_indicator_tells_where_a_number_is_missing():
    plain, told = TableEncoder().fit(with_gaps()), TableEncoder(indicators=True).fit(with_gaps())
    assert told.get_feature_names_out().tolist() == [
        *("age", "age=<missing>", "site=a", "site=b", "site=<missing>", "size")
    ]
    assert told.gaps_.tolist() == [True, False, False] and told.widths == (2, 3, 1)
    Z = told.transform(with_gaps())
    assert Z[:, 1].tolist() == [0.0, 1.0, 0.0, 1.0]
    np.testing.assert_array_equal(np.delete(Z, 1, axis=1), plain.transform(with_gaps()))
    assert not plain.gaps_.any()


def test_gaps_count_in_rows_of_positive_weight_and_beside_numbers():
    weighted = TableEncoder(indicators=True).fit(with_gaps(), sample_weight=[1, 0, 1, 0])
    assert not weighted.gaps_.any()  # a row of weight 0 is a row left out
    empty = TableEncoder(indicators=True).fit({"a": [None, np.nan, None], "b": [1.0, 2.0, 3.0]})
    assert not empty.gaps_.any()  # always missing tells no row from another
    later = weighted.transform(with_gaps())
    assert later.shape == (4, 4)  # gaps that fit has not seen are the median, as before


def test_indicators_of_blocks_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    X[70:, 0] = np.nan  # gaps in the last block only
    X[:, 1] = np.nan
    blocks = mercer.RowBlocks.from_arrays(X, block_rows=30)
    whole, parts = (TableEncoder(indicators=True).fit(each) for each in (X, blocks))
    assert parts.gaps_.tolist() == whole.gaps_.tolist() == [True, False, False]
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), rtol=1e-9, atol=1e-12)


def test_files_and_old_pickles_of_an_encoder(tmp_path):
    encoder = TableEncoder(indicators=True).fit(with_gaps())
    mercer.save(encoder, tmp_path / "e")
    again = mercer.load(tmp_path / "e")
    np.testing.assert_array_equal(again.transform(with_gaps()), encoder.transform(with_gaps()))
    assert again.indicators
    again.gaps_ = np.array([True, True, False])  # a category has no indicator
    mercer.save(again, tmp_path / "odd")
    with pytest.raises(ModelFileError, match="do not fit one another"):
        mercer.load(tmp_path / "odd")
    old = TableEncoder().fit(with_gaps())
    told = old.transform(with_gaps())
    for name in ("gaps_", "indicators"):
        del vars(old)[name]
    old = pickle.loads(pickle.dumps(old))
    np.testing.assert_array_equal(old.transform(with_gaps()), told)
    assert clone(old).indicators is False


def test_indicators_are_true_or_false():
    with pytest.raises(InvalidInput, match="indicators='some'; give True or False"):
        TableEncoder(indicators="some").fit(with_gaps())
