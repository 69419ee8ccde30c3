"""How cells are written: missing marks, numbers, numbers in another notation, dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["dates", "hint", "is_infinite", "is_number", "missing", "notation", "to_number"]

# Without regard to case; the manual lists them (docs/guide/cli.md).
_MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "nat", "null", "none", "missing"}
    | {"?", ".", "-", "--"}
)
_MOSTLY = 0.9  # share of cells from which a column counts as one of numbers
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:[0-9]+(?:[{mark}][0-9]*)?|[{mark}][0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII
    )
    for mark in ".,"
}
_PLAIN = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_GROUPS = "[,.' \u2019\u00a0\u202f_]"  # between groups of three digits
_OTHER = (
    (re.compile(rf"{_PLAIN}\s*%"), "percent signs? remove them from the file"),
    (
        re.compile(rf"[$€£¥]\s*{_PLAIN}|{_PLAIN}\s*[$€£¥]"),
        "signs of a currency? remove them from the file",
    ),
    (
        re.compile(
            rf"[+-]?[1-9][0-9]{{,2}}(?:({_GROUPS})[0-9]{{3}})(?:\1[0-9]{{3}})*(?:[.,][0-9]*)?"
        ),
        "thousands separators? remove them from the file",
    ),
)
_COMMA = (re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?"), "decimal comma? use --decimal ,")
_POINT = (re.compile(r"[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?"), "decimal point? use --decimal .")


def missing(cell: Any) -> bool:
    """Whether a cell is empty or one of the usual marks for a missing value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or cell != cell  # NaN differs from itself


def is_number(cell: Any, decimal: str = ".") -> bool:
    """Whether a cell is a finite number, as itself or as text."""
    if isinstance(cell, str):
        return _NUMBER[decimal].fullmatch(cell.strip()) is not None
    return (
        isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) != float("inf")
    )


def is_infinite(cell: Any) -> bool:
    """Whether a cell is infinite, as itself or as text."""
    if isinstance(cell, str):
        return _INFINITE.fullmatch(cell.strip()) is not None
    return isinstance(cell, float) and abs(cell) == float("inf")


def to_number(cell: Any, decimal: str = ".") -> float:
    """Return the number that a cell is, after `is_number` said so."""
    return float(cell.replace(decimal, ".") if isinstance(cell, str) else cell)


def hint(cell: Any, decimal: str = ".") -> str:
    """Return the cure for a cell that is a number in another notation, else empty text.

    Parameters
    ----------
    cell : object
        A cell.
    decimal : str
        The decimal mark in use.

    Returns
    -------
    str
        A question and what to do.

    Examples
    --------
    >>> from mercer.cli.notation import hint
    >>> hint("3,5"), hint("12 %"), hint("1,234,567"), hint("red")
    ('decimal comma? use --decimal ,', 'percent signs? remove them from the file',
     'thousands separators? remove them from the file', '')
    """
    if not isinstance(cell, str) or is_number(cell, decimal):
        return ""
    text = cell.strip()
    swapped, cure = _COMMA if decimal == "." else _POINT
    cures = [cure] if swapped.fullmatch(text) else []
    cures += [cure for pattern, cure in _OTHER if pattern.fullmatch(text)]
    return " / ".join(cures)


def notation(cells: Iterable[Any], decimal: str = ".") -> tuple[str, str] | None:
    """Return an example and a cure when almost all cells are numbers in another notation.

    Parameters
    ----------
    cells : iterable
        The cells of a column.
    decimal : str
        The decimal mark in use.

    Returns
    -------
    tuple of str or None
        A cell and what to do about it.
    """
    present = [c for c in cells if not missing(c)]
    odd = [(c, cure) for c in present if (cure := hint(c, decimal))]
    plain = sum(is_number(c, decimal) for c in present)
    if not odd or len(odd) + plain < _MOSTLY * len(present):
        return None
    # "1,234" may be two things: the cell with the shortest cure says which
    cell, cure = min(odd, key=lambda pair: len(pair[1]))
    return str(cell), cure


def dates(cells: Iterable[Any]) -> bool:
    """Whether most of the cells that are there are ISO dates, with or without a time."""
    present = [c for c in cells if not missing(c)]
    return bool(present) and sum(map(_is_date, present)) > len(present) / 2


def _is_date(cell: Any) -> bool:
    if not isinstance(cell, str) or not re.match(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}", cell):
        return False
    try:
        datetime.datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True
