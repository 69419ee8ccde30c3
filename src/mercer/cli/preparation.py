"""From the cells of a file to what a model is fitted on, with an account of every decision."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.cells import choose_columns, free_columns, missing, odd_notation, remark
from mercer.cli.report import column_lines
from mercer.cli.tables import FileTable, read_table
from mercer.domains import Table, Tables
from mercer.errors import InvalidInput
from mercer.features import TableEncoder
from mercer.kernels import ColumnKind, Kernel, column_kinds, identifier
from mercer.settings import get_config

if TYPE_CHECKING:
    from mercer.cli.program import Console

_FEW = 10  # at most so many distinct whole numbers are taken for classes
_ROUNDING = 1e-13  # numbers that differ by less, relatively, are the same number


@dataclass(frozen=True)
class Prepared:
    """A table and its target, and how they came about."""

    path: str
    table: Table
    target: np.ndarray
    target_name: str
    task: str
    why: str
    categories: tuple[str, ...] = ()
    free: dict[str, str] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    dropped_rows: int = 0
    sampled_from: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    identifiers: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: np.ndarray) -> Prepared:
        """Return some of the rows."""
        return replace(self, table=self.table.take(rows), target=self.target[rows])

    def encodable(self) -> Prepared:
        """Return the table without its columns of text and sequences, which no encoder takes."""
        kept = [n for n in self.table.names if n not in self.free]
        if not kept:
            raise InvalidInput(
                f"{self.path}: all columns hold text or sequences; --kernel columns reads them."
            )
        return self._only(
            kept, {n: f"{kind}; --kernel columns reads it" for n, kind in self.free.items()}
        )

    def kinds(self) -> dict[str, ColumnKind]:
        """Return what a kernel on columns takes each column for, and why.

        The whole file decides, so that some of its rows are read as all are.
        """
        known = {n: self.contents[n] for n in self.table.names}
        found = column_kinds(self.table, kinds=known)
        numbered = [n for n, kind in known.items() if kind == "left out"]
        return found | {n: ColumnKind("left out", self.identifiers[n]) for n in numbered}

    def seen_by(self, kernel: Kernel) -> Prepared:
        """Return the columns that a kernel looks at, with the reason for each other one."""
        if not isinstance(kernel.domain, Tables):
            return self.encodable()
        used, kinds = kernel.domain.columns or self.table.names, self.kinds()
        seen = self._only(used, {n: kind.reason for n, kind in kinds.items()})
        return replace(seen, categories=tuple(n for n in used if kinds[n].kind == "category"))

    def _only(self, kept: Collection[str], why: Mapping[str, str]) -> Prepared:
        """Return some of the columns, and why the others are left out."""
        names = [n for n in self.table.names if n in kept]
        gone = {n: why[n] for n in self.table.names if n not in kept}
        return replace(
            self,
            table=self.table.select(names),
            categories=tuple(n for n in self.categories if n in kept),
            free={n: kind for n, kind in self.free.items() if n in kept},
            left_out={**self.left_out, **gone},
            remarks={n: text for n, text in self.remarks.items() if n in kept},
        )

    def missing(self) -> dict[str, int]:
        """Return the number of missing cells of each column that has any."""
        columns = zip(self.table.names, self.table.columns, strict=True)
        count = {n: sum(map(missing, c.tolist())) for n, c in columns}
        return {n: k for n, k in count.items() if k}

    def distinct(self) -> dict[str, int]:
        """Return the number of categories of each column of categories, missing not counted."""
        names = [n for n in self.categories if n not in self.free]
        return {n: len({v for v in self.table[n].tolist() if not missing(v)}) for n in names}


def prepare(source: FileTable, arguments: argparse.Namespace) -> Prepared:
    """Choose target, task, rows and columns.

    Parameters
    ----------
    source : FileTable
        The file.
    arguments : Namespace
        The arguments of ``mercer fit``.

    Returns
    -------
    Prepared
        What to fit on.
    """
    name = arguments.target
    cells = source.cells(name, "target column")
    said = _said(source.path, arguments)
    for other in said:
        (source.numbers if said[other] == "number" else source.cells)(other)
    rows = [i for i, cell in enumerate(cells) if not missing(cell)]
    if not rows:
        raise InvalidInput(f"{source.path}: the target column {name!r} is empty.")
    dropped = len(source) - len(rows)
    sampled = source.sampled_from
    if arguments.max_rows is not None and len(rows) > arguments.max_rows:
        sampled = sampled or len(rows)
        rng = np.random.default_rng(arguments.seed)
        rows = sorted(rng.choice(rows, arguments.max_rows, replace=False).tolist())
    numbered: dict[str, str | None] = {}
    if len(rows) < len(source):  # an id counts the rows of the file, not those that are left
        others = [n for n in source.columns if n != name and n not in said]
        counted = [n for n in others if source.kind(n) == "number"]
        numbered = {n: identifier(source.numbers(n), n) for n in counted}
    source = source.take(rows)
    odd = odd_notation(source, said)
    target, task, why = _target(source, name, arguments.task, odd.get(name, ""))
    if task == "regression":
        odd.pop(name, None)
    free = free_columns(source, {name, *odd, *said})
    free |= {n: kind for n, kind in said.items() if kind in ("text", "sequence")}
    texts = {n for n, kind in said.items() if kind in ("text", "sequence", "category")}
    columns, left_out = choose_columns(
        source, arguments.drop, texts, odd, (name,), f"predict {name!r} from", free
    )
    numbers = [n for n, c in columns.items() if c.dtype != object]
    found = {
        n: numbered.get(n) or identifier(columns[n], n) or "" for n in numbers if n not in said
    }
    identifiers = {n: why for n, why in found.items() if why}
    contents = {n: free.get(n, "category") for n in columns if n not in numbers}
    contents |= {n: "left out" if n in identifiers else "number" for n in numbers}
    return Prepared(
        path=source.path,
        table=Table(columns),
        target=target,
        target_name=name,
        task=task,
        why=why,
        categories=tuple(n for n, c in columns.items() if c.dtype == object),
        free={n: kind for n, kind in free.items() if n in columns},
        contents=contents,
        dropped_rows=dropped,
        sampled_from=sampled,
        left_out=left_out,
        warnings=tuple(odd.values()),
        identifiers={
            n: f"an identifier: it {why} (--number keeps it)" for n, why in identifiers.items()
        },
        remarks={n: remark(n, why) for n, why in identifiers.items()},
    )


def _said(path: str, arguments: argparse.Namespace) -> dict[str, str]:
    """Return what the arguments say of columns, each of them once."""
    options = {"drop": "left out", "categorical": "category"}
    options |= {kind: kind for kind in ("number", "text", "sequence")}
    said: dict[str, str] = {}
    for option, kind in options.items():
        for name in getattr(arguments, option):
            if name == arguments.target:
                raise InvalidInput(
                    f"{path}: {name!r} is the target; it cannot be among --{option} too."
                )
            if said.setdefault(name, kind) != kind and "left out" not in (kind, said[name]):
                raise InvalidInput(
                    f"{path}: column {name!r} is said to hold both {said[name]} and {kind}; say "
                    "one of them."
                )
    return said


def _target(source: FileTable, name: str, task: str, odd: str = "") -> tuple[np.ndarray, str, str]:
    why = "as asked"
    if task == "auto":
        task, why = _guess(source, name)
    if task == "regression":
        target = source.numbers(name)
        if len(target) < 2:
            raise InvalidInput(f"{source.path}: one row with a target; at least two are needed.")
        if np.ptp(target / (np.abs(target).max() or 1.0)) <= _ROUNDING:
            raise InvalidInput(
                f"{source.path}: every row has the value {target[0]:g} in {name!r}, so there is "
                "nothing to learn; is it the right column?"
            )
        return target, task, why
    classes = _classes(source, name)
    distinct = np.unique(classes)
    if len(distinct) < 2:
        raise InvalidInput(
            f"{source.path}: every row has the class {distinct[0]!s} in {name!r}; "
            "at least two classes are needed."
        )
    if len(distinct) > max(2, len(classes) // 2):
        raise InvalidInput(
            f"{source.path}: {name!r} has {len(distinct)} classes in {len(classes)} rows; "
            "most classes would have one row. "
            + (f"The {odd}" if odd else "Is it the right column, or --task regression?")
        )
    return classes, task, why


def _guess(source: FileTable, name: str) -> tuple[str, str]:
    if source.kind(name) == "category":
        return "classification", f"{name!r} holds text"
    values = source.numbers(name)
    distinct = len(np.unique(values))
    whole = bool((values == np.round(values)).all())
    if whole and 2 <= distinct <= _FEW and len(values) >= 3 * distinct:
        return "classification", f"{name!r} holds {distinct} different whole numbers"
    return "regression", f"{name!r} holds numbers"


def _classes(source: FileTable, name: str) -> np.ndarray:
    try:
        values = source.numbers(name)
    except InvalidInput:
        return source.categories(name).astype(str)
    if (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return source.categories(name).astype(str)


# ---- From the cells of one file or of two to vectors, with an account of every column ----


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
