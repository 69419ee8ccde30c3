"""From the cells of a file to what a model is fitted on, with an account of every decision."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from mercer.cli.files import dates, missing, notation
from mercer.cli.tables import FileTable
from mercer.domains import Table, Tables
from mercer.errors import InvalidInput, figure
from mercer.kernels import ColumnKind, Kernel, column_kinds, identifier

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
    remarks: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: np.ndarray) -> Prepared:
        """Return some of the rows."""
        return replace(self, table=self.table.take(rows), target=self.target[rows])

    def encodable(self, unread: Collection[str]) -> Prepared:
        """Return the table without columns of text and sequences that a model does not read."""
        kept = [n for n in self.table.names if n not in unread]
        if not kept:
            raise InvalidInput(
                f"{self.path}: all columns hold text or sequences; --kernel columns reads them."
            )
        return self._only(
            kept, {n: f"{kind}; --kernel columns reads it" for n, kind in self.free.items()}
        )

    def told_free(self) -> list[str]:
        """Return the columns that only options say to be text or sequences, not their values."""
        found = column_kinds(self.table.select(tuple(self.free))) if self.free else {}
        return [n for n, kind in self.free.items() if found[n].kind != kind]

    @property
    def told(self) -> dict[str, str]:
        """What the columns hold, as models are told: the whole file says it, and not some rows."""
        return {n: self.contents[n] for n in self.table.names}

    def kinds(self) -> dict[str, ColumnKind]:
        """Return what a kernel on columns takes each column for, and why."""
        return column_kinds(self.table, kinds=self.told)

    def seen_by(self, kernel: Kernel) -> Prepared:
        """Return the columns that a kernel looks at, with the reason for each other one."""
        if not isinstance(kernel.domain, Tables):
            return self.encodable(self.free)
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

    def twins(self) -> int:
        """Return the number of rows that another row equals in all columns."""
        code, count = np.zeros(len(self.target), dtype=np.int64), 1
        for column in self.table.columns:
            if column.dtype == object:
                values = [None if missing(v) else v for v in column.tolist()]
                number = {value: i for i, value in enumerate(dict.fromkeys(values))}
                inverse = np.array([number[value] for value in values], dtype=np.int64)
            else:
                inverse = np.unique(column, return_inverse=True)[1]
            pairs = code * (int(inverse.max(initial=0)) + 1) + inverse
            _, code, count = np.unique(pairs, return_inverse=True, return_counts=True)
        return int(np.sum(count, where=np.asarray(count) > 1))

    def distinct(self) -> dict[str, int]:
        """Return the number of categories of each column of categories, missing not counted."""
        names = [n for n in self.categories if n not in self.free]
        return {n: len({v for v in self.table[n].tolist() if not missing(v)}) for n in names}


def prepare(source: FileTable, arguments: argparse.Namespace) -> Prepared:
    """Choose target, task, rows and columns."""
    name = arguments.target
    source.cells(name, "target column")
    said = _said(source.path, arguments)
    for other in said:
        (source.numbers if said[other] == "number" else source.cells)(other)
    rows = np.flatnonzero(source.present(name))
    if not len(rows):
        raise InvalidInput(f"{source.path}: the target column {name!r} is empty.")
    dropped = len(source) - len(rows)
    sampled = source.sampled_from
    if arguments.max_rows is not None and len(rows) > arguments.max_rows:
        sampled = sampled or len(rows)
        rng = np.random.default_rng(arguments.seed)
        rows = np.sort(rng.choice(rows, arguments.max_rows, replace=False))
    numbered: dict[str, str | None] = {}
    if len(rows) < len(source):  # an id counts the rows of the file, not those that are left
        others = [n for n in source.columns if n != name and n not in said]
        counted = [n for n in others if source.kind(n) == "number"]
        numbered = {n: identifier(source.numbers(n), n) for n in counted}
    source = source.take(rows.tolist())
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
    contents |= dict.fromkeys(numbers, "number")
    if len(identifiers) < len(columns):
        gone = {n: f"an identifier: it {w} (--number keeps it)" for n, w in identifiers.items()}
        columns = {n: c for n, c in columns.items() if n not in gone}
        left_out, identifiers = left_out | gone, {}
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
    dated = source.plain_numbers(name) is None and dates(source.cells(name))
    if dated and task == "regression":
        raise _of_dates(source, name)
    if task == "regression":
        target = source.numbers(name)
        if len(target) < 2:
            raise InvalidInput(f"{source.path}: one row with a target; at least two are needed.")
        if np.ptp(target / (np.abs(target).max() or 1.0)) <= _ROUNDING:
            raise InvalidInput(
                f"{source.path}: every row has the value {figure(target[0])} in {name!r}, so "
                "there is nothing to learn; is it the right column?"
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
        if dated:
            raise _of_dates(source, name)
        raise InvalidInput(
            f"{source.path}: {name!r} has {len(distinct)} classes in {len(classes)} rows; "
            "most classes would have one row. "
            + (f"The {odd}" if odd else "Is it the right column, or --task regression?")
        )
    return classes, task, why


def _of_dates(source: FileTable, name: str) -> InvalidInput:
    return InvalidInput(
        f"{source.path}: the target {name!r} holds dates, and numbers or classes are predicted; "
        "write them as numbers, such as days since a fixed date."
    )


def _guess(source: FileTable, name: str) -> tuple[str, str]:
    cure = "correct this cell of the target, or empty it, and its row is left out"
    if source.kind(name, cure) == "category":
        return "classification", f"{name!r} holds text"
    values = source.numbers(name)
    distinct = len(np.unique(values))
    whole = bool((values == np.round(values)).all())
    if whole and 2 <= distinct <= _FEW and len(values) >= 3 * distinct:
        return "classification", f"{name!r} holds {distinct} different whole numbers"
    return "regression", f"{name!r} holds numbers"


def _classes(source: FileTable, name: str) -> np.ndarray:
    with suppress(InvalidInput):
        values = source.numbers(name)
        if (values == np.round(values)).all() and np.abs(values).max() < 2**53:
            return values.astype(np.int64)
    return source.categories(name).astype(str)


# ---- Which columns are used, as numbers or as categories, and why the others are not ----


_IDENTIFIER = 10  # a text column of so many cells or more, most of them different, names rows


def choose_columns(
    source: FileTable,
    drop: Collection[str],
    categorical: Collection[str],
    odd: Collection[str],
    skip: Collection[str] = (),
    purpose: str = "use",
    free: Collection[str] = (),
    split: int = 0,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the columns to use, numbers or text, and of each other one the reason.

    The rows are those of one table, or so many of one and the others of another.
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
        if kind == "number":
            there = values[~np.isnan(values)]
            count, same = len(there), len(there) > 0 and there.min() == there.max()
        else:
            present = [v for v in values.tolist() if v is not None]
            count, same = len(present), len(set(present)) == 1
        if kind == "number" and same and _rounded(source, name):
            left_out[name] = (
                "its values differ by less than float64 tells apart; subtract a common number "
                "first (--categorical compares them as categories)"
            )
        elif same and count == len(values):
            left_out[name] = "it has the same value everywhere"
        elif (
            kind == "category"
            and name not in categorical
            and name not in free
            and _names_rows(values, split)
        ):
            left_out[name] = f"{len(set(present))} different " + _many(present, name in odd)
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


def _rounded(source: FileTable, name: str) -> bool:
    """Whether numbers that are written differently have become one."""
    present = [c for c in source.cells(name) if not missing(c)]
    return len({Decimal(str(c).strip().replace(source.decimal, ".")) for c in present}) > 1


def _names_rows(values: np.ndarray, split: int) -> bool:
    """Whether most texts of a column differ, or all those of each table where there are two."""
    tables = [values[:split], values[split:]] if split else []
    both, *parts = ([v for v in part.tolist() if v is not None] for part in (values, *tables))
    return (len(both) >= _IDENTIFIER and len(set(both)) > len(both) // 2) or (
        bool(parts) and all(len(part) == len(set(part)) >= _IDENTIFIER for part in parts)
    )


def _many(present: list[str], odd: bool) -> str:
    """What a column of mostly different texts seems to be."""
    if odd:
        return "texts, numbers in another notation? see the warning"
    if dates(present):
        return "texts, looks like dates: convert to days since a fixed date"
    kind = column_kinds({"": [*dict.fromkeys(present)]})[""].kind
    if kind in ("text", "sequence"):
        what = "texts of several words" if kind == "text" else "sequences of letters"
        return f"{what}, which only mercer fit reads (--categorical compares whole cells)"
    return "texts, as names or identifiers have (--categorical keeps it)"


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
        if name in skip or source.plain_numbers(name) is not None:
            continue
        found = notation(cells, source.decimal)
        if found is not None:
            odd[name] = (
                f"column {name!r} is read as text but looks like numbers in another notation, "
                f"such as {found[0]!r}: {found[1]}"
            )
    return odd
