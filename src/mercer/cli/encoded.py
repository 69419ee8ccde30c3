"""From the cells of one file or of two to vectors, with an account of every column."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.cli.columns import choose_columns, counting, odd_notation, remark
from mercer.cli.console import Console
from mercer.cli.notation import missing
from mercer.cli.report import column_lines
from mercer.cli.tables import FileTable, read_table
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.features import TableEncoder
from mercer.settings import get_config

__all__ = ["Encoded", "encode", "labels_of", "read_rows", "together"]


@dataclass(frozen=True)
class Encoded:
    """Rows of a table as vectors, and how they came about.

    Parameters
    ----------
    source : FileTable
        The rows used.
    X : ndarray of shape (n, d)
        The vectors.
    spans : dict of str to slice
        Of each column used the entries of the vectors.
    encoder : TableEncoder
        What made them.
    left_out : dict of str to str
        Columns not used, and why.
    warnings, remarks : tuple of str
        For stderr, and for the report.
    """

    source: FileTable
    X: np.ndarray
    spans: dict[str, slice]
    encoder: TableEncoder
    left_out: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines of a report on the columns."""
        encoder, source = self.encoder, self.source
        cells = {n: source.cells(n) for n in encoder.columns_ if n in source.columns}
        empty = {n: sum(map(missing, column)) for n, column in cells.items()}
        texts = [n for n, k in zip(encoder.columns_, encoder.kinds_, strict=True) if k != "number"]
        distinct = {
            n: len(set(source.categories(n).tolist()) - {None}) for n in texts if n in cells
        }
        return [
            *column_lines(encoder, {n: k for n, k in empty.items() if k}, distinct),
            *(("left out", f"{n!r}: {why}") for n, why in self.left_out.items()),
        ]


def read_rows(path: str, arguments: argparse.Namespace, console: Console) -> FileTable:
    """Read a table, and keep some random rows where so many were asked for.

    Parameters
    ----------
    path : str
        The file.
    arguments : Namespace
        Of the command.
    console : Console
        Where progress goes.
    """
    with console.stage(f"reading {path}"):
        source = read_table(path, arguments.encoding, get_config().memory, arguments.decimal)
    if arguments.max_rows is not None and len(source) > arguments.max_rows:
        rng = np.random.default_rng(arguments.seed)
        rows = rng.choice(len(source), arguments.max_rows, replace=False)
        return source.take(sorted(rows.tolist()))
    return source


def together(a: FileTable, b: FileTable, skip: Collection[str] = ()) -> tuple[FileTable, list[str]]:
    """Return the rows of two tables in the columns that both have, and doubts about the others.

    Parameters
    ----------
    a, b : FileTable
        The tables.
    skip : collection of str
        Columns that are not to be used anyway.
    """
    shared = [name for name in a.columns if name in b.columns]
    if not shared:
        shown = [", ".join(map(repr, list(t.columns)[:6])) for t in (a, b)]
        raise InvalidInput(
            f"{a.path} and {b.path} have no column in common: {shown[0]}; {shown[1]}."
        )
    doubts = []
    for one, other in ((a, b), (b, a)):
        alone = [n for n in one.columns if n not in other.columns and n not in skip]
        if alone:
            names = ", ".join(map(repr, alone[:6])) + (", …" if len(alone) > 6 else "")
            doubts.append(f"only {one.path} has {names}, which is left out of the comparison.")
    columns = {name: [*a.cells(name), *b.cells(name)] for name in shared}
    path = f"{a.path} and {b.path}"
    places = [*a.places, *b.places]
    return FileTable(path, columns, places, a.place, a.decimal), doubts


def encode(
    source: FileTable,
    arguments: argparse.Namespace,
    *,
    only: Sequence[str] | None = None,
    skip: Collection[str] = (),
    missing_counts: bool = False,
) -> Encoded:
    """Choose columns and turn the rows into vectors.

    Parameters
    ----------
    source : FileTable
        The rows.
    arguments : Namespace
        With ``drop``, ``categorical`` and ``max_categories``.
    only : sequence of str, optional
        The columns to use; all by default.
    skip : collection of str
        Columns with another role.
    missing_counts : bool, default=False
        Let cells that are missing count: a column of numbers with such cells gets a second column
        that says where.
    """
    for name in (*arguments.drop, *arguments.categorical, *(only or ())):
        source.cells(name)
    if only is not None:
        source = replace(source, columns={n: source.columns[n] for n in only})
    odd = odd_notation(source, {*arguments.drop, *arguments.categorical, *skip})
    columns, left_out = choose_columns(source, arguments.drop, arguments.categorical, odd, skip)
    found = [(n, counting(values)) for n, values in columns.items()]
    if missing_counts:
        for name, values in list(columns.items()):
            if values.dtype != object and np.isnan(values).any():
                flags = np.array(["no", "yes"], dtype=object)[np.isnan(values).astype(int)]
                columns[_free(f"{name} missing", columns)] = flags
    categories = tuple(n for n, c in columns.items() if c.dtype == object)
    encoder = TableEncoder(categorical=categories, max_categories=arguments.max_categories)
    table = Table(columns)
    X = encoder.fit(table).transform(table)
    spans, start = {}, 0
    for name, known in zip(encoder.columns_, encoder.categories_, strict=True):
        width = len(known) or 1
        spans[name] = slice(start, start + width)
        start += width
    return Encoded(
        source,
        X,
        spans,
        encoder,
        left_out,
        tuple(odd.values()),
        tuple(remark(n, ends) for n, ends in found if ends is not None),
    )


def labels_of(source: FileTable, name: str, role: str) -> np.ndarray:
    """Return a column of labels, none of them missing.

    Parameters
    ----------
    source : FileTable
        The rows.
    name, role : str
        The column, and the option that named it.
    """
    cells = source.cells(name, f"column of {role}")
    gaps = [i for i, cell in enumerate(cells) if missing(cell)]
    if gaps:
        raise InvalidInput(
            f"{source.where(gaps[0], name)}: is empty, and {role} needs a label in every row."
        )
    return np.array([str(cell) for cell in cells], dtype=object)


def _free(name: str, columns: Any) -> str:
    while name in columns:
        name += "'"
    return name
