"""Rows of tables whose columns are chosen: frames, arrays of numbers, rows of objects."""

import numpy as np
import pytest

from mercer.domains import Table, Tables
from mercer.domains.tables.columns import rows_of_objects, select
from mercer.errors import InvalidInput

ROWS = np.array([[1.0, "a", None], [2.0, "b", 3.0]], dtype=object)


def test_rows_of_objects_become_columns():
    table = Tables().check(ROWS)
    assert isinstance(table, Table) and not table.named and table.shape == (2, 3)
    assert table[0].dtype == float and table[1].tolist() == ["a", "b"]
    np.testing.assert_array_equal(table[2], [np.nan, 3.0])
    assert Tables().check([[1.0, "a", None], [2.0, "b", 3.0]]) == table
    with pytest.raises(InvalidInput, match="have no names"):
        table["0"]
    assert table != Table({"0": [1.0, 2.0], "1": ["a", "b"], "2": [None, 3.0]})


def test_rows_of_numbers_stay_an_array():
    for X in (np.array([[1, None], [2, 3]], dtype=object), [[1, 2], [3, np.nan]]):
        checked = Tables().check(X)
        assert isinstance(checked, np.ndarray) and checked.dtype == float
        assert np.isnan(checked).sum() == 1
    with pytest.raises(InvalidInput, match="inf at row 0, column 1"):
        Tables().check([[1.0, np.inf]])


def test_what_holds_no_rows_of_objects():
    for X in (np.ones((2, 2)), [[1, 2]], [["a"], ["b", "c"]], ["a"], [], "ab", None, ROWS[0], [[]]):
        assert rows_of_objects(X) is None
    assert rows_of_objects(np.array([["a", "b"]])).shape == (1, 2)


def test_a_column_is_chosen_once():
    # −2 is the first of two columns, of a table and of an array
    for X in (np.ones((3, 2)), Table({"a": [1.0], "b": [2.0]})):
        with pytest.raises(InvalidInput, match="twice"):
            select(X, [0, -2])
        assert select(X, [0, -1]).shape[1] == 2


def test_match_rows_of_objects_and_of_numbers():
    T = Tables().check(ROWS)
    X, Y = Tables().match(T, np.ones((4, 3)))
    assert isinstance(Y, Table) and not Y.named and Y.shape == (4, 3) and X is T
    with pytest.raises(InvalidInput, match="3 columns and Y has 2"):
        Tables().match(T, Tables().check(ROWS[:, :2]))
    with pytest.raises(InvalidInput, match="column names"):
        Tables().match(T, Table({"a": [1]}))


def test_only_the_columns_of_a_domain_are_read_and_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "day": pandas.date_range("2020", periods=2), "b": 3})
    domain = Tables(("b", "a"))
    assert domain.check(frame).names == ("b", "a")
    whole = Table(frame)
    assert domain.check(whole) is whole and domain.keep(whole).names == ("b", "a")
    assert Tables(("z",)).check(frame).names == ("a", "day", "b")  # whoever selects will complain
