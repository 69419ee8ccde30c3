"""Cells to numbers and categories, files that cannot be read, and where a bad cell stands."""

import datetime
import decimal
import io
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer.cli.tables import read_table
from mercer.errors import InvalidInput


def table_of(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_table(str(path))


def column(tmp_path, *cells):
    return table_of(tmp_path, "".join(f'"{c}",\n' for c in ("v", *cells)).replace(",\n", ",w\n"))


@pytest.mark.parametrize("cell", ["1", "-1", "+1.5", ".5", "5.", "1e3", "1E-3", " 7 "])
def test_numbers(tmp_path, cell):
    table = column(tmp_path, cell, "2")
    assert table.kind("v") == "number"
    assert table.numbers("v")[0] == float(cell)


@pytest.mark.parametrize("cell", ["", " ", "NA", "n/a", "NaN", "nan", "null", "None", "?"])
def test_missing(tmp_path, cell):
    table = column(tmp_path, cell, "2", "x")
    assert table.categories("v").tolist() == [None, "2", "x"]
    assert np.isnan(column(tmp_path, cell, "2").numbers("v")[0])
    assert column(tmp_path, cell, cell).kind("v") == "empty"


@pytest.mark.parametrize("cell", ["1_000", "1,5", "0x10", "１", "1 2", "e5", "--1", "1e", "12abc"])
def test_what_python_or_people_call_numbers_and_we_do_not(tmp_path, cell):
    table = column(tmp_path, cell, "x")
    assert table.kind("v") == "category"
    with pytest.raises(InvalidInput, match=r"line 2, column 'v'.*not a number"):
        table.numbers("v")


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "INF"])
def test_infinity_is_refused(tmp_path, cell):
    table = column(tmp_path, "1", cell)
    with pytest.raises(InvalidInput, match="line 3, column 'v'"):
        table.kind("v")
    with pytest.raises(InvalidInput, match=r"line 3, column 'v'.*infinite"):
        table.numbers("v")


def test_overflow_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"line 2.*too large"):
        column(tmp_path, "1e999", "1").numbers("v")


def test_a_stray_text_in_a_column_of_numbers_is_refused(tmp_path):
    table = column(tmp_path, *range(20), "oops")
    with pytest.raises(InvalidInput, match=r"line 22, column 'v': 'oops' in a column of numbers"):
        table.kind("v")
    assert column(tmp_path, *range(5), "a", "b", "c").kind("v") == "category"


def test_unknown_column_names_the_known(tmp_path):
    table = column(tmp_path, "1")
    with pytest.raises(InvalidInput, match=r"no column 'nope'; its columns are 'v', 'w'"):
        table.cells("nope")
    with pytest.raises(InvalidInput, match=r"did you mean 'v'\?"):
        table.cells(" V")


def test_files_that_are_not_tables(tmp_path):
    with pytest.raises(InvalidInput, match="is a directory"):
        read_table(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        read_table(str(tmp_path / "none.csv"))
    with pytest.raises(InvalidInput, match="header but no rows"):
        table_of(tmp_path, "a,b\n")
    for address in ("http://example.org/t.csv", "s3://bucket/t.parquet"):
        with pytest.raises(InvalidInput, match="files only"):
            read_table(address)


def test_too_large_for_the_budget_is_refused_unread(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff" * 1000)  # not even UTF-8: it must not be read
    with pytest.raises(InvalidInput, match=r"too large.*--memory"):
        read_table(str(path), budget=11_999)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    assert read_table("-").path == "standard input"


def parquet(tmp_path, columns):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return read_table(str(path))


def test_parquet_kinds(tmp_path):
    table = parquet(
        tmp_path,
        {
            "i": pa.array([1, None, 3]),
            "f": [0.5, float("nan"), 2.0],
            "s": ["x", None, "z"],
            "b": [True, False, None],
            "c": pa.array(["p", "q", "p"]).dictionary_encode(),
            "d": [datetime.date(2020, 1, 2)] * 3,
            "m": [decimal.Decimal("1.5")] * 3,
            "e": pa.nulls(3),
        },
    )
    kinds = {n: table.kind(n) for n in table.columns}
    assert [n for n, kind in kinds.items() if kind == "number"] == ["i", "f", "m"]
    assert [n for n, kind in kinds.items() if kind == "category"] == ["s", "b", "c", "d"]
    assert kinds["e"] == "empty"
    np.testing.assert_array_equal(table.numbers("i"), [1, np.nan, 3])
    assert table.categories("b").tolist() == ["True", "False", None]
    assert table.categories("i").tolist() == ["1", None, "3"]
    assert table.categories("d").tolist() == ["2020-01-02"] * 3


def test_parquet_names_row_of_a_bad_cell(tmp_path):
    with pytest.raises(InvalidInput, match=r"row 2, column 's': 'x' is not a number"):
        parquet(tmp_path, {"s": ["1", "x"]}).numbers("s")


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"l": [[1], [2]]}, "'l' holds a list"), ({"l": [b"x"]}, "'l' holds a bytes")],
)
def test_parquet_columns_without_a_meaning(tmp_path, columns, message):
    with pytest.raises(InvalidInput, match=message):
        parquet(tmp_path, columns)


def test_parquet_damaged_or_not_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        read_table(str(path))
    with pytest.raises(FileNotFoundError):
        read_table(str(tmp_path / "none.parquet"))


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    path = tmp_path / "t.pq"
    pl.DataFrame({"a": [1, 2], "s": ["x", None]}).write_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = read_table(str(path))
    assert (list(table.columns["a"]), list(table.columns["s"])) == ([1, 2], ["x", None])
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InvalidInput, match=r"pip install 'mercer\[cli\]'"):
        read_table(str(path))
