"""Which columns of a table are used, as numbers or as categories, and why the others are not."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels import column_kinds

if TYPE_CHECKING:
    from mercer.cli.tables import FileTable

# ---- How cells are written: missing marks, numbers, numbers in another notation, dates ----


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

    Examples
    --------
    >>> from mercer.cli.cells import hint
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
    """Return an example and a cure when almost all cells are numbers in another notation."""
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


# ---- columns ----


_IDENTIFIER = 10  # a text column of so many cells or more, most of them different, names rows


def choose_columns(
    source: FileTable,
    drop: Collection[str],
    categorical: Collection[str],
    odd: Collection[str],
    skip: Collection[str] = (),
    purpose: str = "use",
    free: Collection[str] = (),
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the columns to use, numbers or text, and of each other one the reason."""
    columns: dict[str, np.ndarray] = {}
    left_out: dict[str, str] = {}
    for name in source.columns:
        if name in skip:
            continue
        if name in drop:
            left_out[name] = "as asked"
            continue
        kind = "category" if name in categorical else source.kind(name)
        if kind == "empty":
            left_out[name] = "it is empty"
            continue
        values = source.numbers(name) if kind == "number" else source.categories(name)
        present = [v for v in values.tolist() if v is not None and v == v]
        distinct = set(present)
        if len(distinct) == 1 and len(present) == len(values):
            left_out[name] = "it has the same value everywhere"
        elif (
            kind == "category"
            and name not in categorical
            and name not in free
            and len(present) >= _IDENTIFIER
            and len(distinct) > len(present) // 2
        ):
            left_out[name] = f"{len(distinct)} different texts, " + _many(present, name in odd)
        else:
            columns[name] = values
    if not columns:
        raise InvalidInput(
            f"{source.path}: no column is left to {purpose}"
            + "".join(f"; {n!r}: {why}" for n, why in list(left_out.items())[:5])
            + "."
        )
    return columns, left_out


def free_columns(source: FileTable, skip: Collection[str]) -> dict[str, str]:
    """Return the columns of free text ("text") and of strings over few letters ("sequence")."""
    texts = [n for n in source.columns if n not in skip and source.kind(n) == "category"]
    kinds = {n: column_kinds({n: source.categories(n)})[n].kind for n in texts}
    return {n: kind for n, kind in kinds.items() if kind in ("text", "sequence")}


def _many(present: list[str], odd: bool) -> str:
    """What a column of mostly different texts seems to be."""
    if odd:
        return "numbers in another notation? see the warning"
    if dates(present):
        return "looks like dates: convert to days since a fixed date"
    kind = column_kinds({"": present})[""].kind
    if kind in ("text", "sequence"):
        return f"{kind}, which mercer fit reads (--categorical compares whole cells)"
    return "as names or identifiers have (--categorical keeps it)"


def remark(name: str, why: str) -> str:
    """Return the remark on a column that numbers the rows."""
    return (
        f"column {name!r} {why}, so it may be an id; it is used, --drop {shlex.quote(name)} "
        "leaves it out"
    )


def odd_notation(source: FileTable, skip: Collection[str]) -> dict[str, str]:
    """Return a warning for each column of text that looks like numbers in another notation."""
    odd: dict[str, str] = {}
    for name, cells in source.columns.items():
        if name in skip:
            continue
        found = notation(cells, source.decimal)
        if found is not None:
            odd[name] = (
                f"column {name!r} is read as text but looks like numbers in another notation, "
                f"such as {found[0]!r}: {found[1]}"
            )
    return odd
