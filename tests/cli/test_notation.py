"""Numbers in other notations are recognised, other text is not; dates are dates."""

import pytest

from mercer.cli.files import dates, hint, is_number, notation, to_number


@pytest.mark.parametrize(
    ("cell", "decimal", "cure"),
    [
        ("3,5", ".", "decimal comma?"),
        ("-0,25", ".", "decimal comma?"),
        ("1,234", ".", "decimal comma? use --decimal , / thousands"),
        ("1,234,567.5", ".", "thousands"),
        ("1.234.567,5", ".", "thousands"),
        ("1'234", ".", "thousands"),
        ("1\u202f234\u202f567", ".", "thousands"),
        ("12%", ".", "percent"),
        ("12,5 %", ".", "percent"),
        ("$12", ".", "currency"),
        ("12.50 €", ".", "currency"),
        ("3.5", ",", "decimal point?"),
    ],
)
def test_hints(cell, decimal, cure):
    assert hint(cell, decimal).startswith(cure) or cure in hint(cell, decimal)


@pytest.mark.parametrize(
    "cell", ["3.5", "red", "", "1-2", "12,34,56", "1,2;3", "a%", "%", 3.5, None]
)
def test_no_hint(cell):
    assert hint(cell) == ""


def test_marks_are_not_mixed():
    assert is_number("1,5", ",") and not is_number("1.5", ",") and not is_number("1,5")
    assert to_number("-1,5e2", ",") == -150.0
    assert is_number(1.5, ",") and to_number(1.5, ",") == 1.5


def test_almost_all_cells_decide():
    assert notation(["1,5", "2", "", "NA", "3,25"]) == ("1,5", "decimal comma? use --decimal ,")
    assert notation(["1,234", "1,5"])[1] == "decimal comma? use --decimal ,"
    assert notation(["1,5"] * 8 + ["red", "blue"]) is None
    assert notation(["0,040"])[1] == "decimal comma? use --decimal ,"
    assert notation(["1", "2"]) is None
    assert notation(["", None]) is None


def test_dates():
    assert dates(["2020-01-31", "2020-02-01T12:30:00", "?", "later"])
    assert not dates(["2020-13-31", "2020-01-32"])
    assert not dates(["red", "2020-01-01"])
    assert not dates(["", None, 3])
