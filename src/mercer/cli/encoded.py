"""From the cells of one file or of two to vectors, with an account of every column."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.cli.columns import choose_columns, odd_notation, remark
from mercer.cli.console import Console
from mercer.cli.notation import missing
from mercer.cli.report import column_lines
from mercer.cli.tables import FileTable, read_table
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.features import TableEncoder
from mercer.kernels.tables import identifier
from mercer.settings import get_config

__all__ = ["Both", "Encoded", "encode", "labels_of", "read_rows", "together"]

FAR = 1e6  # deviations beyond which a cell is as far as can be


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
    remarks : tuple of str
        For the report.
    columns : dict of str to ndarray
        The columns as numbers or text.
    gaps : dict of str to ndarray
        Of columns of numbers with missing cells, where these are.
    """

    source: FileTable
    X: np.ndarray
    spans: dict[str, slice]
    encoder: TableEncoder
    left_out: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    gaps: dict[str, np.ndarray] = field(default_factory=dict)

    def account(self) -> dict[str, Any]:
        """Return the columns used and left out, and the remarks, for JSON."""
        kinds = dict(zip(self.encoder.columns_, self.encoder.kinds_, strict=True))
        return {
            "numbers": [n for n, kind in kinds.items() if kind == "number"],
            "categories": [n for n, kind in kinds.items() if kind != "number"],
            "left_out": self.left_out,
            "remarks": list(self.remarks),
        }

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


@dataclass(frozen=True)
class Both:
    """The rows of two tables in the columns that both have.

    Parameters
    ----------
    table : FileTable
        Rows of the first, then of the second.
    only : pair of lists of str
        Columns that only one of the tables has.
    mixed : list of str
        Columns that hold numbers in one table and text in the other.
    """

    table: FileTable
    only: tuple[list[str], list[str]]
    mixed: list[str]

    def doubts(self, a: str, b: str) -> list[str]:
        """Return what a user should know of columns that do not fit together."""
        texts = []
        for path, alone in zip((a, b), self.only, strict=True):
            if alone:
                names = ", ".join(map(repr, alone[:6])) + (", …" if len(alone) > 6 else "")
                texts.append(f"only {path} has {names}, which is left out of the comparison.")
        for name in self.mixed:
            texts.append(
                f"column {name!r} holds numbers in one table and text in the other; it is compared "
                "as text."
            )
        return texts


def together(
    a: FileTable, b: FileTable, skip: Collection[str], categorical: Collection[str]
) -> Both:
    """Return the rows of two tables in the columns that both have.

    Parameters
    ----------
    a, b : FileTable
        The tables.
    skip, categorical : collections of str
        Columns that are not to be used anyway, and those that are text whatever they hold.
    """
    shared = [name for name in a.columns if name in b.columns]
    if not shared:
        shown = [", ".join(map(repr, list(t.columns)[:6])) for t in (a, b)]
        raise InvalidInput(
            f"{a.path} and {b.path} have no column in common: {shown[0]}; {shown[1]}."
        )
    only = tuple(
        [n for n in one.columns if n not in other.columns and n not in skip]
        for one, other in ((a, b), (b, a))
    )
    mixed = [
        name
        for name in shared
        if name not in skip
        and name not in categorical
        and {a.kind(name), b.kind(name)} == {"number", "category"}
    ]
    columns = {name: [*a.cells(name), *b.cells(name)] for name in shared}
    path = f"{a.path} and {b.path}"
    table = FileTable(path, columns, [*a.places, *b.places], a.place, a.decimal)
    return Both(table, (only[0], only[1]), mixed)


def encode(
    source: FileTable,
    arguments: argparse.Namespace,
    *,
    only: Sequence[str] | None = None,
    skip: Collection[str] = (),
    categorical: Collection[str] = (),
    robust: bool = False,
    console: Console,
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
    categorical : collection of str
        Further columns that are text.
    robust : bool, default=False
        For tests: numbers are scaled by their quartiles, so that a single wild cell does not hide
        the others, and cells that are missing count, a column of numbers that has some getting a
        second column that says where.
    console : Console
        Where warnings go at once.
    """
    for name in (*arguments.drop, *arguments.categorical, *(only or ())):
        source.cells(name)
    text = {*arguments.categorical, *categorical}
    if only is not None:
        source = replace(source, columns={n: source.columns[n] for n in only})
    odd = odd_notation(source, {*arguments.drop, *text, *skip})
    for warning in odd.values():
        console.warn(f"{source.path}: {warning}")
    columns, left_out = choose_columns(source, arguments.drop, text, odd, skip)
    numbers = {n: values for n, values in columns.items() if values.dtype != object}
    found = [(n, identifier(values, n)) for n, values in numbers.items()]
    gaps = {}
    if robust:
        for name, values in list(columns.items()):
            if values.dtype != object and np.isnan(values).any():
                flags = np.array(["no", "yes"], dtype=object)[np.isnan(values).astype(int)]
                gaps[name] = np.isnan(values)
                columns[_free(f"{name} missing", columns)] = flags
    categories = tuple(n for n, c in columns.items() if c.dtype == object)
    encoder = TableEncoder(categorical=categories, max_categories=arguments.max_categories)
    table = Table(columns)
    X = encoder.fit(table).transform(table)
    spans, start = {}, 0
    for name, known in zip(encoder.columns_, encoder.categories_, strict=True):
        width = len(known) or 1
        spans[name] = slice(start, start + width)
        if robust and not known:
            X[:, start] = _by_quartiles(columns[name])
        start += width
    return Encoded(
        source,
        X,
        spans,
        encoder,
        left_out,
        tuple(remark(n, why) for n, why in found if why is not None),
        columns,
        gaps,
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


def _by_quartiles(values: np.ndarray) -> np.ndarray:
    """Numbers less their median, in units that are the deviation of a normal column."""
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.349 or float(np.nanstd(values)) or 1.0
    filled = np.where(np.isnan(values), middle, values)
    return np.clip((filled - middle) / spread, -FAR, FAR)


def _free(name: str, columns: Any) -> str:
    while name in columns:
        name += "'"
    return name
