"""Cells to numbers and categories, files that cannot be read, and where a bad cell stands."""

import argparse
import contextlib
import csv
import datetime
import decimal
import gc
import io
import os
import re
import sys
import threading
import tracemalloc

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer.cli.files import is_number, missing, notation, plain_numbers, to_number
from mercer.cli.preparation import prepare
from mercer.cli.tables import FileTable, read_table
from mercer.errors import InvalidInput
from tests.cli.houses import write


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


@pytest.mark.parametrize(
    "cell",
    [
        *("", " ", "NA", "n/a", "NaN", "nan", "null", "None", "?", ".", "-", "--", "#N/A", "#NA"),
        *("<NA>", "NaT", "-nan", "Missing"),
    ],
)
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
        read_table(str(path), budget=6_999)


class Endless(io.RawIOBase):
    """A stream that never ends, and counts what was taken from it."""

    taken = 0
    what = b"1\n"

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = (self.what * (len(buffer) // 2 + 1))[: len(buffer)]
        self.taken += len(buffer)
        return len(buffer)


def test_no_more_of_a_stream_is_read_than_fits(monkeypatch):
    endless = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    with pytest.raises(InvalidInput, match=r"standard input: too large.*--memory"):
        read_table("-", budget=30_000_000)
    assert endless.taken < 6_000_000


def peak(work):
    """The most memory that Python and pyarrow hold: each, and at some calls together.

    What a first call imports and keeps for later ones is not its own, and neither is garbage.
    """
    work()
    gc.collect()
    before, most, calls = pa.default_memory_pool(), 0, 0
    pool = pa.proxy_memory_pool(before)

    def look(*_):
        nonlocal most, calls
        calls += 1
        if calls % 100 == 0:
            most = max(most, tracemalloc.get_traced_memory()[0] + pool.bytes_allocated())

    pa.set_memory_pool(pool)
    tracemalloc.start()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
        alone = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pa.set_memory_pool(before)
    return max(most, alone, pool.max_memory())


def prepared(path, budget=None):
    options = {name: [] for name in ("drop", "categorical", "number", "text", "sequence")}
    arguments = argparse.Namespace(target="y", max_rows=None, seed=0, task="auto", **options)
    return prepare(read_table(str(path), budget=budget), arguments)


N = 8_000
SHAPES = {
    "one short column": {"y": np.arange(10, 10 + N) % 90},
    "numbers": {f"x{i}": np.sqrt(np.arange(2.0, N + 2)) for i in range(5)},
    "one value": {f"x{i}": np.ones(N) for i in range(5)},
    "few texts": {f"x{i}": np.array(["north", "south"])[np.arange(N) % 2] for i in range(5)},
    "long text": {"t": np.array(["many words, " * 20 + str(i % 7) for i in range(N)])},
    "many texts": {"t": np.array([f"name {i}" for i in range(N)])},
    "only texts": {f"t{j}": np.array([f"n{i * 7919 % N}" for i in range(N)]) for j in range(4)},
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_is_what_was_announced(tmp_path, shape, form):
    columns = {"x": np.arange(N) % 100, "y": np.arange(N) / 7} | SHAPES[shape]
    path = tmp_path / f"t.{form}"
    if form == "csv":
        write(path, {n: c.tolist() for n, c in columns.items()})
    else:
        pq.write_table(pa.table(columns), path)
    size = path.stat().st_size if form == "csv" else 0
    with pytest.raises(InvalidInput, match="too large") as refused:
        read_table(str(path), budget=1000 + 7 * size)
    amount, unit = re.search(r"takes ([0-9.]+) ([kM]B)", str(refused.value)).groups()
    needed = float(amount) * {"kB": 1e3, "MB": 1e6}[unit]
    used = peak(lambda: prepared(path, int(1.05 * needed)))  # told in two digits
    assert 0.2 * needed < used < 1.1 * needed

    def refuse():
        with pytest.raises(InvalidInput, match="too large"):
            read_table(str(path), budget=int(0.9 * needed))

    assert peak(refuse) < 3 * size + 1e6


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet_of_many_equal_rows_is_refused_unread(tmp_path, monkeypatch, library):
    path = tmp_path / "t.parquet"
    n = 400_000
    pq.write_table(pa.table({"y": np.ones(n), "s": ["word"] * n}), path)
    assert path.stat().st_size < 10_000
    if library == "polars":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = pa.total_allocated_bytes()

    def refused():
        with pytest.raises(InvalidInput, match=r"too large.*--memory"):
            read_table(str(path), budget=50_000_000)

    assert peak(refused) < 1e6
    assert pa.total_allocated_bytes() - before < 1e6
    assert len(read_table(str(path), budget=400_000_000)) == n


def test_polars_counts_long_texts(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": ["a long text " * 1000] * 1000}), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="too large"):
        read_table(str(path), budget=5_000_000)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1f\x8b\x08\x00abc", "compressed with gzip"),
        (b"PAR1\x15\x04", "is a Parquet file; give it a name that ends in .parquet"),
        (b"PK\x03\x04\x14\x00", r"a spreadsheet \(.xlsx\); save the table as CSV"),
        (b"MERCER\0\1", "a model file"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path, data, message):
    for name in ("t.csv", "t.parquet"):
        (tmp_path / name).write_bytes(data)
        if name == "t.parquet" and data.startswith(b"PAR1"):
            message = "cannot be read as Parquet"
        with pytest.raises(InvalidInput, match=message):
            read_table(str(tmp_path / name))


def test_decimal_comma(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("v;w\n1,5;1.5\n-,25;2\n3;4\n")
    table = read_table(str(path), decimal=",")
    assert (table.kind("v"), table.kind("w")) == ("number", "category")
    assert table.numbers("v").tolist() == [1.5, -0.25, 3.0]
    assert table.take([1]).numbers("v").tolist() == [-0.25]
    with pytest.raises(InvalidInput, match=r"'1.5' is not a number.*decimal point\? use --decimal"):
        table.numbers("w")


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


def test_parquet_texts_come_back_whole(tmp_path):
    words = ["a", None, "b", "NA", "", "a\nb", "é" * 300, *(f"w{i}" for i in range(500))] * 40
    path = tmp_path / "t.parquet"
    dates = [datetime.date(2020, 1, 1 + i % 9) for i in range(len(words))]
    columns = {"s": words, "d": pa.array(dates).dictionary_encode()}
    pq.write_table(pa.table(columns), path, row_group_size=700)
    table = read_table(str(path))
    assert list(table.columns["s"]) == words
    assert list(table.columns["d"]) == [d.isoformat() for d in dates]


def test_parquet_two_columns_of_one_name(tmp_path):
    path = tmp_path / "t.parquet"
    arrays = [pa.array(["x", "y"]), pa.array(["u", "v"])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["a", "a"]), path)
    with pytest.raises(InvalidInput, match="two columns are called 'a'"):
        read_table(str(path))


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


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no devices as files")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_a_device_is_refused_unread(device):
    with pytest.raises(InvalidInput, match=f"{device}: is a device, not a table"):
        read_table(device, budget=10**12)


def test_zeros_without_end_are_refused_after_the_first_of_them(monkeypatch):
    endless = Endless()
    endless.what = b"\0\0"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    with pytest.raises(InvalidInput, match="standard input: holds NUL"):
        read_table("-", budget=10**12)
    assert endless.taken < 4_000_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_a_table_and_one_that_never_ends_is_given_up(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)

    def write(count):
        with contextlib.suppress(BrokenPipeError), open(path, "wb") as pipe:
            pipe.write(b"a,b\n")
            for _ in range(count):
                pipe.write(b"1,2\n" * 10_000)

    for count in (1, 10**6):
        writer = threading.Thread(target=write, args=(count,), daemon=True)
        writer.start()
        if count == 1:
            assert len(read_table(path, budget=10**8)) == 10_000
        else:
            with pytest.raises(InvalidInput, match="too large to read"):
                read_table(path, budget=10**7)
        writer.join(60)
        assert not writer.is_alive()


def test_cells_and_headers_may_be_longer_than_the_limit_of_csv(tmp_path):
    long = "x" * 200_000
    before = csv.field_size_limit()
    table = table_of(tmp_path, f"a,{long}\n1,{long}{long}\n")
    assert list(table.columns) == ["a", long] and table.columns[long] == (long + long,)
    assert csv.field_size_limit() == before
    with pytest.raises(InvalidInput, match="rename one") as caught:
        table_of(tmp_path, f"{long},{long}\n1,2\n")
    assert len(str(caught.value)) < 2000 and str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize("memory", [[], ["--memory", "20MB"]])
def test_a_line_that_no_row_has_is_refused_unread(tmp_path, mercer, monkeypatch, memory):
    monkeypatch.setattr("mercer.cli.files.LONGEST", 50_000)
    table = tmp_path / "t.csv"
    rows = "".join(f"{i},{2 * i}\n" for i in range(30_000))  # of many lines all are short enough
    table.write_text("a,y\n" + rows)
    assert mercer("fit", table, "--target", "y", "--plan", *memory).code == 0
    table.write_text("a,y\n1,2\n" + rows + "x" * 200_000 + ",3\n")
    answer = mercer("fit", table, "--target", "y", "-o", tmp_path / "m", *memory)
    assert answer.code == 1
    assert "line 30003 is longer than 50000 characters, which no row of a table is" in answer.err


# ------------------------------------------------------------------------- a column at a look
TEXTS = ["1", "-2.5", " 3 ", "4e2", ".5", "6.", "", "NA", "nan", "None", "?", "-"]
ODD = ["1_000", "inf", "Infinity", "1e999", "red", "1,5", "0x10", "\u0663", "- 1", "1 2", "nAn"]
CELLS = [1, 2.5, None, float("nan"), True, float("inf"), 10**400, "7", decimal.Decimal(3), 0]


@pytest.mark.parametrize("pool", [TEXTS, TEXTS + ODD, CELLS, CELLS[:4], TEXTS + CELLS])
def test_a_column_at_a_look_is_that_of_its_cells(pool):
    """What is found by looking at all of a column is what each cell says."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        cells = [pool[i] for i in rng.integers(len(pool), size=rng.integers(1, 6))]
        found = plain_numbers(cells)
        if found is not None:
            expected = [
                np.nan if missing(c) else to_number(c) if is_number(c) else None for c in cells
            ]
            assert None not in expected
            np.testing.assert_array_equal(found, np.array(expected, dtype=float))
        table = FileTable("t", {"a": cells}, range(len(cells)), "row")
        numbers = [is_number(c) for c in cells if not missing(c)]
        try:
            kind = table.kind("a")
        except InvalidInput:
            kind = "refused"
        known = "empty" if not numbers else "number" if all(numbers) else "category"
        assert kind == known or (kind == "refused" and known == "category")


def test_another_notation_is_found_in_texts_that_occur_often():
    cells = ["1,5", "2,5"] * 50 + ["3"] * 4 + ["", None]
    assert notation(cells)[0] == "1,5" and notation(["red", *cells[:5]]) is None
    assert notation(["red"] * 20 + cells) is None


def test_numbers_are_read_as_before_in_a_file(tmp_path):
    columns = {"a": ["1", "", "NA", "-2e1"], "b": ["x", "y", "x", ""]}
    table = read_table(str(write(tmp_path / "t.csv", columns)))
    assert table.kind("a") == "number" and table.kind("b") == "category"
    np.testing.assert_array_equal(table.numbers("a"), [1.0, np.nan, np.nan, -20.0])
    first = table.numbers("a")
    first[:] = 0.0  # it is the caller's own
    assert table.numbers("a")[0] == 1.0
    assert table.take([3]).numbers("a").tolist() == [-20.0]
    assert table.categories("b").tolist() == ["x", "y", "x", None]
