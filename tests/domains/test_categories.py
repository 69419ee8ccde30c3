"""Categories: equal values have equal codes, whatever they come in."""

import subprocess
import sys

import numpy as np
import pytest

from mercer.domains import Categories, CategoryCollection, Table
from mercer.domains.categories import MISSING, codes_of
from mercer.errors import InvalidInput, ModelFileError

check = Categories().check


def test_equal_values_have_one_code():
    codes = check([1, 1.0, True, np.int64(1), np.float32(1), "1", b"1", (1,), None]).codes[:, 0]
    assert len(set(codes[:5].tolist())) == 1 and len(set(codes[4:].tolist())) == 5
    assert codes[-1] == MISSING
    assert codes_of([-0.0])[0] == codes_of([0])[0]


def test_missing_is_one_category():
    pandas = pytest.importorskip("pandas")
    values = [None, np.nan, float("nan"), pandas.NA, pandas.NaT, np.float32("nan")]
    assert (check(np.array([*values, "x"], dtype=object)).codes[:-1] == MISSING).all()
    assert (check(np.array([np.nan, 1.0, np.nan])).codes[:, 0] == MISSING).tolist() == [1, 0, 1]


def test_the_same_codes_whatever_they_come_in():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    values = ["b", "a", None, "b"]
    expected = check(values)
    column = np.array(values, dtype=object)
    for X in (
        tuple(values),
        column,
        column[:, None],
        pandas.Series(values),
        pandas.Series(values, dtype="category"),
        pandas.DataFrame({"c": values}),
        polars.Series(values),
        polars.DataFrame({"c": values}).to_arrow(),
        {"c": values},
        Table({"c": values}),
        expected,
    ):
        assert check(X) == expected
    assert check(expected) is expected
    assert list(expected) == [("b",), ("a",), (None,), ("b",)]


def test_codes_do_not_depend_on_the_process():
    code = "from mercer.domains.categories import codes_of; print(codes_of(['a', 2.5])[1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == codes_of(["a", 2.5])[1]


def test_rows_of_several_columns():
    rows = check([["a", 1], ["b", 2.0], ["a", None]])
    assert rows.width == 2 and len(rows) == 3 and rows[1] == ("b", 2)
    assert rows == check(np.array([["a", 1], ["b", 2], ["a", np.nan]], dtype=object))
    assert check([[1, 2], [3, 2]]).width == 2
    assert check(np.zeros((0, 2))).codes.shape == (0, 2)
    with pytest.raises(InvalidInput, match="2 columns and Y has 1"):
        Categories().match(rows, check(["a"]))


def test_take_and_join():
    a, b = check(["x", "y", None]), check(["y", "z"])
    both = a.joined(b)
    assert list(both) == [("x",), ("y",), (None,), ("y",), ("z",)] and both[1:4] == check(
        ["y", None, "y"]
    )
    assert len(a.take([])) == 0 and a.take(np.array([True, False, True])) == check(["x", None])


def test_arrays_of_a_file_are_judged():
    sites = check(["x", "y", None, 3])
    again = CategoryCollection.from_arrays(sites.codes.copy(), sites.keys.copy(), sites.values)
    assert again == sites and list(again) == list(sites)
    broken = [
        (sites.codes[:, 0], sites.keys, sites.values),
        (sites.codes.astype(float), sites.keys, sites.values),
        (sites.codes, sites.keys[::-1].copy(), sites.values[::-1].copy()),
        (sites.codes, sites.keys, np.roll(sites.values, 1)),
        (sites.codes, sites.keys[1:], sites.values[1:]),
        (sites.codes, sites.keys, None),
        (sites.codes, sites.keys, np.array([[], [], [], []], dtype=object)),
    ]
    for codes, keys, values in broken:
        with pytest.raises(ModelFileError):
            CategoryCollection.from_arrays(codes, keys, values)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("text", "give a list"),
        (3, "give a list"),
        (None, "give a list"),
        ([[1], [1, 2]], "cannot be compared as a whole"),
        ([{"a": 1}], "cannot be compared as a whole"),
        ([object()], "X: the value"),
        (np.array(["2020"], dtype="M8[Y]"), "dates or times"),
        (np.ones((1, 1, 1)), "shape"),
        ({}, "no columns"),
        (np.array([1j]), "X: the value"),
    ],
)
def test_what_is_no_category(X, words):
    with pytest.raises(InvalidInput, match=words):
        check(X)


def test_the_order_of_a_frame_is_kept():
    pandas = pytest.importorskip("pandas")
    levels = pandas.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True)
    assert check(pandas.DataFrame({"a": levels})).order == ("lo", "hi")
    assert check(pandas.Series(levels))[1:].order == ("lo", "hi")
    assert check(["lo", "hi"]).order is None
