"""One column as an array: numbers, what is missing, declared categories, dates."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from mercer.domains.tables.table import as_column, declared, holds_dates, only_numbers

BIG = [2**53, 2**53 + 1, None]


def test_numbers_with_missing_ones_are_floats():
    for values in ([1, None, 2.5], [1, np.nan, 2.5], np.array([1, None, 2.5], dtype=object)):
        column = as_column(values, "a")
        assert column.dtype == float
        np.testing.assert_array_equal(column, [1.0, np.nan, 2.5])


def test_decimals_are_numbers():
    column = as_column([Decimal("1.10"), Decimal("2"), None, Decimal("NaN")], "a")
    np.testing.assert_array_equal(column, [1.1, 2.0, np.nan, np.nan])
    assert as_column([Decimal("sNaN"), Decimal("1")], "a").dtype == object


def test_whole_numbers_beyond_the_floats_stay_whole():
    # one missing key of a database must not make two others equal
    for values in (BIG, [2**53 + 1, 2**53, 0.5], [2**63, -1, 2**53 + 1], [10**400, 1, None]):
        column = as_column(values, "a")
        assert column.tolist() == values and only_numbers(column) == (10**400 not in values)
    assert as_column([2**53, 2**60, None], "a").dtype == float  # these are floats as they are
    assert as_column([2**53, 2**53 + 1], "a").dtype == np.int64


def test_whole_numbers_of_frames_stay_whole():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    for column in (
        pandas.array([2**53, 2**53 + 1, pandas.NA], dtype="Int64"),
        pandas.Series(pandas.array([2**53, 2**53 + 1, pandas.NA], dtype="Int64")),
        pandas.Series(arrow.array(BIG), dtype=pandas.ArrowDtype(arrow.int64())),
        polars.Series(BIG, dtype=polars.Int64),
        arrow.array(BIG, arrow.int64()),
    ):
        assert as_column(column, "a").tolist() == BIG


def test_declared_categories():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    levels = ["lo", "mid", "hi"]
    codes = arrow.DictionaryArray.from_arrays([0, 2, None], levels, ordered=True)
    cases = [
        (pandas.Series(["lo", "hi"]), None),
        (pandas.Series([1, 2]).astype("category"), ()),
        (pandas.Categorical(["lo"], levels, ordered=True), tuple(levels)),
        (pandas.Series(pandas.Categorical([3, 1], [3, 2, 1], ordered=True)), (3, 2, 1)),
        (polars.Series(["lo"], dtype=polars.Categorical), ()),
        (polars.Series(["lo"], dtype=polars.Enum(levels)), tuple(levels)),
        (polars.Series(["lo"]), None),
        (arrow.array([1, 2, 1]).dictionary_encode(), ()),
        (arrow.array([1, 2, 1]), None),
        (codes, tuple(levels)),
        (arrow.chunked_array([codes, codes]), tuple(levels)),
        (np.array(["lo"]), None),
        (["lo"], None),
    ]
    for values, expected in cases:
        assert declared(values) == expected
    assert as_column(codes, "a").tolist() == ["lo", "hi", None]


def test_intervals_and_dates_that_are_declared_categories_become_text():
    pandas = pytest.importorskip("pandas")
    bins = pandas.Series(pandas.cut([1.0, np.nan, 9.0], [0, 5, 10]))
    assert as_column(bins, "a").tolist() == ["(0, 5]", None, "(5, 10]"]
    assert declared(bins) == ("(0, 5]", "(5, 10]")
    days = pandas.Categorical(pandas.to_datetime(["2020-01-02", None, "2020-01-01"]), ordered=True)
    assert set(as_column(days, "a").tolist()) == {*declared(days), None}
    assert as_column(pandas.Series([3, 1], dtype="category"), "a").dtype == np.int64


def test_dates():
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    zone = pandas.Series(pandas.date_range("2020", periods=3, tz="UTC"))
    cases = [
        zone,
        zone.dt.tz_localize(None),
        zone.dt.tz_localize(None).dt.to_period("D"),
        zone - zone[0],
        arrow.array([datetime.date(2020, 1, 1), None]),
        [datetime.date(2020, 1, 1), None],
        [datetime.time(3), None],
    ]
    for values in cases:
        assert holds_dates(as_column(values, "a"))
    for values in (["2020"], [None], [1.0], [datetime.date(2020, 1, 1), "x"]):
        assert not holds_dates(as_column(values, "a"))
