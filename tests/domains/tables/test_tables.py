"""Tables: named columns from every library, chosen by name or position."""

import pickle

import numpy as np
import pytest

import mercer
from mercer.domains import Table, Tables
from mercer.domains.tables.columns import select
from mercer.domains.tables.table import check_same_columns, is_frame
from mercer.errors import InvalidInput

COLUMNS = {"age": [31, 47, 52], "site": ["a", "b", "a"], "dose": [0.5, 1.5, 2.5]}


def test_a_table_of_mixed_columns():
    table = Table(COLUMNS)
    assert len(table) == 3 and table.shape == (3, 3) and table.names == ("age", "site", "dose")
    np.testing.assert_array_equal(table["site"], ["a", "b", "a"])
    assert table.take([2, 0])["age"].tolist() == [52, 31]
    assert table.take(np.array([True, False, True])).shape == (2, 3)
    assert table.take(slice(1, None)) == Table({k: v[1:] for k, v in COLUMNS.items()})
    assert table != Table({"age": [1, 2, 3]}) and table != "table"
    assert "3 rows" in repr(table)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library(library):
    module = pytest.importorskip(library)
    frame = module.table(COLUMNS) if library == "pyarrow" else module.DataFrame(COLUMNS)
    assert is_frame(frame)
    table = Table.from_frame(frame)
    assert table.names == tuple(COLUMNS)
    np.testing.assert_array_equal(table["age"], COLUMNS["age"])
    np.testing.assert_array_equal(table["site"], COLUMNS["site"])
    assert isinstance(Tables().check(frame), Table)


def test_what_is_no_frame_is_no_frame():
    for value in (np.ones((2, 2)), COLUMNS, None, [1], "frame"):
        assert not is_frame(value)
    with pytest.raises(InvalidInput, match="without column names"):
        Table.from_frame([[1.0]], "X")


def test_columns_must_be_equally_long_and_flat():
    with pytest.raises(InvalidInput, match="different lengths"):
        Table({"a": [1, 2], "b": [1]})
    with pytest.raises(InvalidInput, match="dimensions"):
        Table({"a": np.ones((1, 2))})
    with pytest.raises(InvalidInput, match="two columns"):
        Table({1: [1], "1": [2]})


def test_select_by_name_position_and_slice():
    table = Table(COLUMNS)
    assert table.select(["dose", 0]).names == ("dose", "age")
    assert table.select(slice(0, 2)).names == ("age", "site")
    assert table.select([-1]).names == ("dose",)
    X = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(select(X, [2, -3]), X[:, [2, 0]])
    np.testing.assert_array_equal(select(X, slice(1, None)), X[:, 1:])


@pytest.mark.parametrize("key", ["weight", 3, -4, 1.5, None, True])
def test_unknown_columns(key):
    with pytest.raises(InvalidInput, match="no column"):
        Table(COLUMNS).select([key])


def test_many_names_are_not_all_listed():
    wide = Table({f"c{i}": [0.0] for i in range(40)})
    with pytest.raises(InvalidInput, match="…") as info:
        wide["x"]
    assert "c39" not in str(info.value)


def test_numeric_stacks_or_names_the_column():
    assert Table({"a": [1, 2], "b": [0.5, None]}).numeric().shape == (2, 2)
    assert Table({"a": np.ones(2, np.float32)}).numeric().dtype == np.float32
    assert Table({"a": np.ones(2, np.float32), "b": np.ones(2)}).numeric().dtype == np.float64
    with pytest.raises(InvalidInput, match="'site' of frame"):
        Table(COLUMNS).numeric("frame")


def test_columns_in_another_order():
    a, b = Table({"x": [1.0], "y": [2.0]}), Table({"y": [1.0], "x": [2.0]})
    check_same_columns(a, a)
    check_same_columns(a, np.ones((1, 2)))
    with pytest.raises(InvalidInput, match="same order"):
        check_same_columns(a, b)


def test_tables_match_only_tables():
    T, X = Table(COLUMNS), np.ones((3, 3))
    assert Tables().match(T, T) == (T, T)
    with pytest.raises(InvalidInput, match="column names"):
        Tables().match(T, X)
    assert Tables().size(T) == 3
    assert Tables().sample(np.random.default_rng(0), 4).shape == (4, 3)


def test_a_kept_table_is_a_copy():
    column = np.array([1.0, 2.0])
    kept = Tables().keep(Table({"a": column}))
    column[0] = 9.0
    assert kept["a"][0] == 1.0


@pytest.mark.parametrize(
    "key",
    [
        slice(1, None),
        [2, 0],
        np.array([-1, 0]),
        np.array([True, False, True]),
        [False, True, False],
        range(2),
        [],
        np.zeros(3, bool),
    ],
)
def test_rows_by_slice_positions_and_mask(key):
    table = Table(COLUMNS)
    for name in table.names:
        column = np.array(COLUMNS[name])
        expected = column[list(key) if isinstance(key, range) else key if len_(key) else []]
        np.testing.assert_array_equal(table[key][name], expected)
        np.testing.assert_array_equal(table[key, ...][name], expected)
        np.testing.assert_array_equal(table[key, name], expected)


def len_(key):
    return 1 if isinstance(key, slice) else len(key)


def test_columns_by_key():
    table = Table(COLUMNS)
    assert table[["dose", "age"]].names == ("dose", "age")
    assert table[:, [0, 2]].names == ("age", "dose")
    np.testing.assert_array_equal(table[np.int64(0)], COLUMNS["age"])


@pytest.mark.parametrize(
    "key",
    [[True], np.ones(4, bool), [3], [-4], [0.5], np.zeros((2, 2), int), [None], np.arange(9999)],
)
def test_rows_that_are_not_there(key):
    with pytest.raises(InvalidInput, match="Table: ") as info:
        Table(COLUMNS)[key]
    assert len(str(info.value)) < 250


def test_a_wrong_name_is_not_dumped():
    with pytest.raises(InvalidInput) as info:
        Table(COLUMNS)["x" * 5000]
    assert len(str(info.value)) < 250


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_table_of_a_frame_and_back(library):
    module = pytest.importorskip(library)
    frame = module.table(COLUMNS) if library == "pyarrow" else module.DataFrame(COLUMNS)
    table = Table(frame)
    assert table == Table(COLUMNS) == Table(table)
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(table.to_pandas(), pandas.DataFrame(COLUMNS))


def test_what_is_no_table():
    for value in ([[1.0]], np.ones((2, 2)), 3, "text"):
        with pytest.raises(InvalidInput, match="pass a dict of columns or a data frame"):
            Table(value)


def test_scikit_learn_splits_a_table():
    from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

    from mercer import TableRegressor

    rng = np.random.default_rng(0)
    table = Table({"x": rng.standard_normal(40), "c": rng.choice(["a", "b"], 40)})
    y = table["x"] + (table["c"] == "a")
    train, test, _, y_test = train_test_split(table, y, test_size=10, random_state=0)
    assert isinstance(train, Table) and (len(train), len(test)) == (30, 10)
    np.testing.assert_array_equal(test["x"] + (test["c"] == "a"), y_test)
    frame = cross_val_score(TableRegressor("linear"), table.to_pandas(), y, cv=4)
    np.testing.assert_allclose(cross_val_score(TableRegressor("linear"), table, y, cv=4), frame)
    search = GridSearchCV(TableRegressor("linear"), {"alpha": [0.1, 1.0]}, cv=3).fit(table, y)
    assert search.predict(test).shape == (10,)


# ------------------------------------------------------------------- columns of any kind
def test_columns_of_objects_stay_whole():
    networkx = pytest.importorskip("networkx")
    graphs = [networkx.path_graph(3), networkx.cycle_graph(3)]
    arrays = [np.zeros((2, 2)), np.ones((2, 2))]
    table = Table({"graph": graphs, "bag": arrays, "list": [[1, 2], [3, 4]], "pair": [(1,), (2,)]})
    assert all(column.shape == (2,) and column.dtype == object for column in table.columns)
    assert table["graph"][1] is graphs[1] and table["bag"][0] is arrays[0]
    assert table["list"][1] == [3, 4] and table.take([1])["pair"][0] == (2,)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"graph": graphs, "bag": arrays})
    assert Table(frame)["graph"][0] is graphs[0] and Table(frame)["bag"][1] is arrays[1]


def test_text_is_not_padded_and_keeps_its_end():
    column = Table({"s": ["a\0", "b" * 1000, ""]})["s"]
    assert column.dtype == object and column[0] == "a\0" and column[2] == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2], [1.0, np.nan, 2.0]),
        ([1, "x", None, np.nan], [1, "x", None, None]),
        ([True, None, False], [True, None, False]),
        ([None, None], [np.nan, np.nan]),
        ([2**70, 1], [2.0**70, 1.0]),
        ([], []),
    ],
)
def test_missing_entries_among_values(values, expected):
    column = Table({"a": values})["a"]
    assert len(column) == len(expected)
    for got, want in zip(column.tolist(), expected, strict=True):
        assert (got is None and want is None) or got == want or (got != got and want != want)


def test_nullable_types_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None], dtype="Int64"),
            "truth": pandas.array([True, None], dtype="boolean"),
            "text": pandas.array(["a", None], dtype="string"),
            "level": pandas.Categorical(["hi", None], ["lo", "hi"], ordered=True),
            "kind": pandas.Categorical(["x", "y"]),
        }
    )
    table = Table(frame)
    np.testing.assert_array_equal(table["whole"], [1.0, np.nan])
    assert [table[n].tolist() for n in ("truth", "text")] == [[True, None], ["a", None]]
    assert table["level"].tolist() == ["hi", None] and table["kind"].tolist() == ["x", "y"]
    assert table.orders == {"level": ("lo", "hi")}
    assert table.take([0]).select(["level"]).orders == {"level": ("lo", "hi")}


def test_types_of_polars_and_arrow():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "level": polars.Series(["b", None], dtype=polars.Enum(["b", "a"])),
            "list": [[1, 2], [3]],
            "wide": polars.Series([[1.0, 2.0], [3.0, 4.0]], dtype=polars.Array(polars.Float64, 2)),
            "number": [1, None],
        }
    )
    for table in (Table(frame), Table(frame.drop("wide").to_arrow())):
        assert table["level"].tolist() == ["b", None]
        assert list(table["list"][1]) == [3] and np.isnan(table["number"][1])
    assert Table(frame).orders == {"level": ("b", "a")}
    assert list(Table(frame)["wide"][1]) == [3.0, 4.0]


def test_dates_are_let_in_and_refused_as_numbers():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    table = Table({"day": days, "x": [1.0, 2.0]})
    np.testing.assert_array_equal(table.select(["x"]).numeric(), [[1.0], [2.0]])
    with pytest.raises(InvalidInput, match=r"'day' of X holds dates.*timedelta64"):
        table.numeric()


@pytest.mark.parametrize("values", ["text", b"bytes", 3, {"a": 1}, None])
def test_what_is_no_column(values):
    with pytest.raises(InvalidInput, match="column 'a' is"):
        Table({"a": values})


def test_near_names_are_offered():
    table = Table({"Age": [1], "dose_mg": [2]})
    for wrong, right in (("age", "Age"), ("dose mg", "dose_mg"), (" Age ", "Age")):
        with pytest.raises(InvalidInput, match=f"Did you mean '{right}'"):
            table[wrong]
    with pytest.raises(InvalidInput) as info:
        table["weight"]
    assert "mean" not in str(info.value)
    with pytest.raises(InvalidInput, match="chosen twice"):
        table.select(["Age", 0])


def test_declared_categories_are_kept():
    pandas = pytest.importorskip("pandas")
    levels = pandas.Categorical(["hi", "lo", None], ["lo", "hi"], ordered=True)
    frame = pandas.DataFrame({"level": levels, "code": pandas.Categorical([3, 1, 1]), "x": 1.0})
    table = Table(frame)
    assert table.declared == {"level": ("lo", "hi"), "code": ()}
    assert table.orders == {"level": ("lo", "hi")}
    for other in (Table(table), table.kept(), table[::-1], table.joined(table)):
        assert other.declared == table.declared
    assert table.select(["x", "code"]).declared == {"code": ()}
    assert Table(table) == table
    assert table != Table(dict(zip(table.names, table.columns, strict=True)))
    unnamed = Table.from_rows(np.array([["a", 1]], dtype=object))
    assert Table(unnamed) == unnamed and not Table(unnamed).named


def test_tables_of_arrays_and_lists_are_compared():
    def table(last):
        return Table({"a": [np.zeros(2), np.array([[1.0]]), None], "b": [[1, [2]], "x", last]})

    assert table(3) == table(3) and table(3) != table(4)
    assert table([np.zeros(2)]) == table([np.zeros(2)]) != table([np.ones(2)])
    assert Table({"a": [np.zeros(2)]}) != Table({"a": [np.zeros((2, 1))]})
    assert Table({"a": [np.zeros(2)]}) != Table({"a": [0.0]})
    assert Table({"a": ["x", None]}) == Table({"a": np.array(["x", np.nan], dtype=object)})


def test_decimals_are_numbers_and_dates_among_objects_are_not():
    from datetime import date
    from decimal import Decimal

    table = Table(
        {"price": [Decimal("1.5"), None], "day": [date(2020, 1, 1), None], "b": [b"x"] * 2}
    )
    np.testing.assert_array_equal(table.select(["price"]).numeric(), [[1.5], [np.nan]])
    with pytest.raises(InvalidInput, match="column 'day' of X holds dates or times"):
        table.numeric()
    with pytest.raises(InvalidInput, match="column 'b' of X holds values of the kind bytes"):
        table.select(["b"]).numeric()
    gone = Table({"a": np.array(["x", np.datetime64("NaT")], dtype=object)})
    assert gone["a"].tolist() == ["x", None]


def test_whole_numbers_that_are_no_floats_are_numbers():
    table = Table({"key": [2**53, 2**53 + 1, None]})
    np.testing.assert_array_equal(table.numeric()[:, 0], [2.0**53, 2.0**53, np.nan])
    with pytest.raises(InvalidInput, match="whole numbers beyond all floats"):
        Table({"key": [10**400, 1]}).numeric()


def test_joined_tables():
    a, b = Table({"x": [1], "s": ["u"]}), Table({"s": ["v"], "x": [2]})
    assert a.joined(b) == Table({"x": [1, 2], "s": ["u", "v"]})
    with pytest.raises(InvalidInput, match="same columns"):
        a.joined(Table({"x": [1]}))


def test_tables_with_missing_numbers_are_equal():
    assert Table({"a": [1.0, None]}) == Table({"a": [1.0, np.nan]}) != Table({"a": [1.0, 2.0]})


def test_a_kept_table_converts_a_column_once():
    calls = []
    table = Table({"a": [1.0, 2.0]})
    for kept, count in ((table, 2), (table.kept(), 1), (table.kept().take([0]), 1)):
        calls.clear()
        for _ in range(2):
            kept.converted(["a"], Tables(), lambda: calls.append(1))
        assert len(calls) == count
    kept = table.kept()
    kept.converted(["a"], Tables(), lambda: 1)
    assert pickle.loads(pickle.dumps(kept)) == table
    assert pickle.loads(pickle.dumps(kept))._converted == []


def test_what_a_model_may_keep():
    table, may_keep = Table(COLUMNS), Tables().may_keep
    assert may_keep(table, 3) and may_keep(table, 5) and not may_keep(table, 2)
    assert may_keep(np.ones((2, 3)), 3) and not may_keep(np.ones((2, 3)), 5)
    assert may_keep(["a"], 7)


# ------------------------------------------------------------- names that are whole numbers
def test_names_that_are_whole_numbers_are_no_positions():
    pandas = pytest.importorskip("pandas")
    years = pandas.DataFrame({2019: [0.0, 1.0], 2020: [0.0, 100.0]})
    swapped = pandas.DataFrame({1: [0.0, 1.0], 0: [0.0, 100.0]})
    mixed = {"a": [0.0, 1.0], 0: [0.0, 100.0]}
    for frame, key in ((years, 2019), (years, 0), (swapped, 0), (swapped, np.int64(1)), (mixed, 0)):
        for table in (Table(frame), Table(Table(frame)), Table(frame)[:1], Table.from_frame(frame)):
            with pytest.raises(InvalidInput, match=f"names are text: write '{key}'"):
                table[key]
    assert Table(years)["2019"].tolist() == [0.0, 1.0]
    assert Table(swapped)["0"].tolist() == [0.0, 100.0]
    both = Table(swapped).joined(Table(swapped))
    assert both["0"].tolist() == [0.0, 100.0] * 2
    with pytest.raises(InvalidInput, match="write '0'"):
        mercer.RBF().on(0)(swapped)
    np.testing.assert_allclose(mercer.RBF(100.0).on("0")(swapped)[0, 1], np.exp(-0.5))
    plain = pandas.DataFrame(np.array([[0.0, 5.0], [1.0, 7.0]]))
    assert Table(plain)[1].tolist() == [5.0, 7.0]
    assert Table({0: [1.0], 1: [2.0]})[-1].tolist() == [2.0]
    with pytest.raises(InvalidInput, match="Did you mean '0'"):
        mercer.auto_kernel(swapped, categorical=[0])
