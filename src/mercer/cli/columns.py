"""Which columns of a table are used, as numbers or as categories, and why the others are not."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import numpy as np

from mercer.cli.notation import dates, notation
from mercer.cli.tables import FileTable
from mercer.errors import InvalidInput
from mercer.kernels import column_kinds

__all__ = ["choose_columns", "free_columns", "odd_notation", "remark"]

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
    """Return the columns to use, numbers or text, and of each other one the reason.

    Parameters
    ----------
    source : FileTable
        The file.
    drop, categorical : collections of str
        Columns not to use, and columns of numbers that are categories.
    odd : collection of str
        Columns of text that look like numbers in another notation.
    skip : collection of str
        Columns that have another role; they are no part of the account.
    purpose : str
        What a column would be left for, for the message when there is none.
    free : collection of str
        Columns of free text or sequences, which may differ in every row.
    """
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
    """Return the columns of free text ("text") and of strings over few letters ("sequence").

    Parameters
    ----------
    source : FileTable
        The file.
    skip : collection of str
        Columns that are not looked at.
    """
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
    """Return the remark on a column that numbers the rows.

    Parameters
    ----------
    name : str
        The column.
    why : str
        By what it is known, as `mercer.kernels.tables.identifier` says it.
    """
    return (
        f"column {name!r} {why}, so it may be an id; it is used, --drop {shlex.quote(name)} "
        "leaves it out"
    )


def odd_notation(source: FileTable, skip: Collection[str]) -> dict[str, str]:
    """Return a warning for each column of text that looks like numbers in another notation.

    Parameters
    ----------
    source : FileTable
        The file.
    skip : collection of str
        Columns that are not looked at.
    """
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
