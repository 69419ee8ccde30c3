"""CSV in and out: quoting, encodings, shapes that are refused, cells a spreadsheet would run."""

import contextlib
import csv
import io

import pytest
from hypothesis import given, strategies as st

from mercer.cli.files import harmless, write_csv
from mercer.cli.tables import read_csv
from mercer.errors import InvalidInput


def columns(data, **options):
    data = data if isinstance(data, bytes) else data.encode()
    return {n: list(c) for n, c in read_csv(data, "t.csv", **options).columns.items()}


@pytest.mark.parametrize(
    "data",
    [
        "a,b\n1,x\n2,y\n",
        "a,b\r\n1,x\r\n2,y",
        "a,b\r1,x\r2,y\r",
        "a;b\n1;x\n2;y\n",
        "a\tb\n1\tx\n2\ty\n",
        " a , b \n1,x\n2,y\n",
        "\n\na,b\n\n1,x\n\n2,y\n\n",
        '"a","b"\n"1","x"\n"2","y"\n',
        b"\xef\xbb\xbfa,b\n1,x\n2,y\n",
    ],
)
def test_the_same_table_in_many_dresses(data):
    assert columns(data) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_quotes_hold_delimiters_quotes_and_line_ends():
    data = 'a,b\n"x, ""y""\nz",1\nq,2\n'
    table = read_csv(data.encode(), "t.csv")
    assert list(table.columns["a"]) == ['x, "y"\nz', "q"]
    assert list(table.places) == [3, 4]


def test_one_column():
    assert columns("a\n1\n2\n") == {"a": ["1", "2"]}


def test_encodings():
    assert columns("a\nné\n".encode("latin-1"), encoding="latin-1") == {"a": ["né"]}
    assert columns("a\nné\n".encode("utf-16"), encoding="utf-16") == {"a": ["né"]}
    assert columns("a\n\N{PILE OF POO}\n") == {"a": ["\N{PILE OF POO}"]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b" \n \n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells but the header has 2"),
        (b"a,b\n1\n", "line 2 has 1 cells but the header has 2"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b"a, a\n1,2\n", "two columns are called 'a'"),
        (b",a\n0,1\n", "column 1 has no name"),
        (b"a\n\xe9\n", r"line 2 is not utf-8 \(byte 0xe9\)"),
        ("a,b\n1,2\n".encode("utf-16"), "not utf-8"),
        (b"a,b\n1,\x002\n", "NUL"),
        (b'a,b\n1,"2\n', "not valid CSV"),
        (b'a,b\n"1"x,2\n', "line 2: not valid CSV"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(InvalidInput, match=message) as raised:
        read_csv(data, "t.csv")
    assert "t.csv" in str(raised.value)


@pytest.mark.parametrize("encoding", ["no-such", "\0", "", "hex"])
def test_unknown_encodings(encoding):
    with pytest.raises(InvalidInput, match="is not"):
        read_csv(b"a\n1\n", "t.csv", encoding)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(InvalidInput):
        read_csv(data, "t.csv")


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_formulas_are_neutralised(first):
    assert harmless(first + "cmd|' /C calc'!A0") == "'" + first + "cmd|' /C calc'!A0"


@pytest.mark.parametrize("cell", [-3.5, 7, "-3.5", "+1e5", "plain", "", "a=b", None])
def test_numbers_and_plain_text_are_untouched(cell):
    assert harmless(cell) is cell


def test_written_cells_come_back():
    rows = [("a,b", -1.5, 3), ('say "hi"', 1e-300, 4), ("two\nlines", 0.1, 5)]
    stream = io.StringIO(newline="")
    write_csv(stream, ["t", "x", "n"], rows)
    back = list(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert back[0] == ["t", "x", "n"]
    assert [(t, float(x), int(n)) for t, x, n in back[1:]] == rows


def test_raw_writes_text_as_it_is():
    for raw, expected in ((False, "'=h\n'=1\n"), (True, "=h\n=1\n")):
        stream = io.StringIO(newline="")
        write_csv(stream, ["=h"], [("=1",)], raw=raw)
        assert stream.getvalue() == expected
