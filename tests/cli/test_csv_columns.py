"""Tables read by columns are those read row by row, in files that are odd in every way."""

import csv
import io

import numpy as np
import pytest

from mercer.cli import tables
from mercer.cli.files import csv_cells
from mercer.cli.tables import FileTable, csv_columns, read_csv
from mercer.domains.tables import RepeatedCells, WrittenCells
from mercer.errors import InvalidInput

pytest.importorskip("pyarrow")

NUMBERS = ["1", "-2.5", "0.1", "1e5", "12345678901234567890", "4.9e-324", ".5", "6.", "1E-3", "007"]
GAPS = ["", "NA", "nan", "NULL", "?", "-", ".", "Na", "nAn", " ", " NA "]
ODD = [
    "+3",
    " 4 ",
    "1_000",
    "inf",
    "-Infinity",
    "1e999",
    "0x10",
    "1,5",
    "1.234,5",
    "12 %",
    "٣",
    "1 2",
]
TEXT = [
    "red",
    "Ulm",
    "true",
    "False",
    "2020-01-02",
    "2020-01-02T03:04:05",
    "12:30",
    "é",
    "日本",
    "a b c",
]
HOSTILE = [
    'say "hi"',
    "a,b",
    "a;b",
    "a\tb",
    "two\nlines",
    "ret\r\nurn",
    "#1",
    "\\",
    "\ufeff",
    "\x0b",
    "\u2028",
    "'",
    '"',
    '""',
    "=1+1",
    "NaN(1)",
    "\x1c",
]
POOLS = [
    NUMBERS,
    NUMBERS + GAPS,
    NUMBERS + ODD,
    TEXT,
    TEXT + GAPS,
    TEXT + NUMBERS + HOSTILE,
    ["1", "2"],
    [""],
    ["7"] * 30 + ["red"],
]


@pytest.fixture(autouse=True)
def _files_of_any_size(monkeypatch):
    monkeypatch.setattr(tables, "_SMALL", 0)


def outcome(read, *arguments):
    """What came of it: columns and places, or the words of the refusal."""
    try:
        columns, places = read(*arguments)
    except InvalidInput as error:
        return str(error)
    return {name: list(cells) for name, cells in columns.items()}, list(places)


def told(data, encoding, decimal, columns):
    """All that a table says of its columns, kinds, numbers, categories, or the refusals."""
    table = FileTable("t", *columns, "line", decimal)
    said = []
    for name in table.columns:
        for look in (table.kind, table.numbers, table.categories, table.present):
            try:
                found = look(name)
                said.append(found if isinstance(found, str) else found.tolist())
            except InvalidInput as error:
                said.append(str(error))
    return repr(said)


def same(data, encoding="utf-8", decimal="."):
    """Whether both readers agree; which way the columns were read."""
    expected = outcome(csv_cells, data, "t", encoding)
    found = outcome(csv_columns, data, "t", encoding, decimal, lambda needed: None)
    assert found == expected, (data[:300], encoding)
    if isinstance(expected, str):
        return "refused"
    one = told(data, encoding, decimal, csv_cells(data, "t", encoding))
    by_columns = tables._by_columns(data, "t", encoding, decimal)
    assert told(data, encoding, decimal, csv_columns(data, "t", encoding, decimal, print)) == one
    return "rows" if by_columns is None else "columns"


def written(rng, pools, rows, delimiter, newline, quoting):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow([f"c{j}" for j in range(len(pools))])
    for _ in range(rows):
        writer.writerow([pool[rng.integers(len(pool))] for pool in pools])
    return text.getvalue()


@pytest.mark.parametrize("seed", range(8))
def test_random_files_are_read_as_row_by_row(seed):
    rng = np.random.default_rng(seed)
    ways = set()
    for _ in range(120):
        pools = [POOLS[i] for i in rng.integers(len(POOLS), size=rng.integers(1, 6))]
        text = written(
            rng,
            pools,
            int(rng.integers(1, 60)),
            ",;\t"[rng.integers(3)],
            ["\n", "\r\n"][rng.integers(2)],
            [csv.QUOTE_MINIMAL, csv.QUOTE_ALL][rng.integers(2)],
        )
        decimal = ".,"[rng.integers(2)]
        encoding = ["utf-8", "utf-8", "utf-16", "utf-8-sig"][rng.integers(4)]
        ways.add(same(text.encode(encoding), encoding.removesuffix("-sig"), decimal))
    assert "columns" in ways


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files_are_refused_as_row_by_row(seed):
    """Bytes are put in, left out and changed anywhere."""
    rng = np.random.default_rng(100 + seed)
    marks = [
        b'"',
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b'""',
        b" ",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"x",
    ]
    for _ in range(250):
        pools = [POOLS[i] for i in rng.integers(len(POOLS), size=rng.integers(1, 4))]
        data = written(rng, pools, 12, ",", "\n", csv.QUOTE_MINIMAL).encode()
        for _ in range(rng.integers(1, 4)):
            at, mark = int(rng.integers(len(data) + 1)), marks[rng.integers(len(marks))]
            data = data[:at] + mark + data[at + int(rng.integers(3)) :]
        same(data)


CASES = [
    b"a,b\n1,2",
    b"a,b\n1,2\n",
    b"a,b\r\n1,2\r\n",
    b"\n\na,b\n1,2\n\n3,4\n\n",
    b"\r\n\r\na\r\n1\r\n\r\n2",
    b"a\n1\n\n2\n",
    b"a\n \n1\n",
    b"a\n",
    b"a",
    b"\n",
    b"a,b\n",
    b" a , b \n1,2\n",
    b"a,a\n1,2\n",
    b"a,\n1,2\n",
    b"a;b\n1,5;2\n",
    b"a\tb\n1\t2\n",
    b"\xef\xbb\xbfa,b\n1,2\n",
    b"\xef\xbb\xbf\xef\xbb\xbfa,b\n1,2\n",
    b'a,b\n"1","2"\n',
    b'a,b\n"x\ny",2\nz,3\n',
    b'a,b\n"x""y",2\n',
    b'a,b\nx"y,2\n',
    b'a,b\n"x"y,2\n',
    b'a,b\n"x,2\n',
    b'"a","b"\n1,2\n',
    b'"a\nb",c\n1,2\n',
    b'a,b\n"",2\n"""",3\n',
    b'a,b\n1,"2"',
    b"a,b\n1,2\r3,4\n",
    b"a,b\n1,2,3\n",
    b"a,b\n1\n",
    b"a,b\n1,2\n\n \n",
    b"a,b\n1,\xff\n",
    b"a,b\n\xe9,1\n",
    b"  \na\n1\n",
    b"a,b\n,\n,\n",
    b'a,b\n1,2\n"\n",3\n',
    b'a,b\n1,2\n\n"q\n\nq",3\n\n\n4,5',
    b'a,b\n1,2\n3,"4"\r\n',
    b'a,b\n1,"2"\n\r\n3,4\n',
    b"a,b\n1\xc2\xa0,2\n",
    b"a\n" + b"1\n" * 30000 + b"red\n" + b"2\n" * 30000,
    b"a,b\n" + b"1,x\n" * 30000 + b",\n2,nan\n-nan,inf\n",
]


@pytest.mark.parametrize("data", CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_odd_files_are_read_as_row_by_row(data, encoding):
    same(data, encoding)


def test_text_of_numbers_is_kept_as_it_is_written():
    data = b"zip,x\n" + b"".join(b"%05d,%d.50\n" % (i, i % 7) for i in range(5000))
    table = read_csv(data, "t")
    assert isinstance(table.columns["zip"], WrittenCells)
    assert table.numbers("zip")[:3].tolist() == [0.0, 1.0, 2.0]
    assert table.categories("zip")[41] == "00041" and table.cells("x")[6] == "6.50"
    some = table.take([7, 3, 4999])
    assert some.cells("zip") == ["00007", "00003", "04999"] and list(some.places) == [9, 5, 5001]
    assert some.take([2]).cells("zip")[0] == "04999" and some.cells("zip")[-2:] == [
        "00003",
        "04999",
    ]


def test_repeated_cells_tell_their_values_in_order():
    cells = RepeatedCells(["a", "b", "c"], np.array([2, -1, 0, 2]))
    assert list(cells) == ["c", None, "a", "c"] and cells.used() == (["c", "a"], [2, 1])
    assert cells.take(np.array([1])).used() == ([], []) and cells[1:3] == [None, "a"]
    assert (
        len(RepeatedCells([], np.full(3, -1))) == 3 and RepeatedCells([], np.full(1, -1))[0] is None
    )
