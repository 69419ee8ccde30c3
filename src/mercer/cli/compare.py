"""``mercer compare``: are two tables from one distribution, and where do they differ?"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.files import (
    UsageError,
    check_output,
    dates,
    is_number,
    missing,
    to_number,
    write_answers,
)
from mercer.cli.preparation import remark
from mercer.cli.samples import (
    ColumnShares,
    Encoded,
    Finding,
    adjusted_text,
    check_limit,
    chosen_kernel,
    count_text,
    encode,
    read_rows,
    roles,
    scale_text,
    shuffling,
)
from mercer.cli.tables import FileTable, listed
from mercer.errors import InvalidInput, figure
from mercer.kernels import counting, identifier
from mercer.settings import config
from mercer.statistics import (
    ColumnChange,
    TableComparison,
    TestResult,
    by_column,
    compare_vectors,
    mmd_test,
)

if TYPE_CHECKING:
    from mercer.cli.program import Console

_SHOWN = 4  # columns of a row that are quoted
_LEVEL = 0.05  # p-values below this are called a difference, unless --fail-under says another


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Carry out the command."""
    if arguments.a == arguments.b == "-":
        raise UsageError("standard input can be one of the tables, not both.")
    if arguments.output is None and arguments.json:
        raise UsageError("-o - and --json both write to standard output; give -o a file.")
    check_limit(arguments, 1 / (arguments.permutations + 1))
    if arguments.output:
        check_output(arguments.output, arguments.force, arguments.a, arguments.b)
    with config(memory=arguments.memory):
        a, b = (read_rows(path, arguments, console) for path in (arguments.a, arguments.b))
        skip = roles(arguments)
        both = together(a, b, {*arguments.drop, *skip}, arguments.categorical)
        for text in both.doubts(a.path, b.path):
            console.warn(text)
        data = encode(
            both.table,
            arguments,
            skip=skip,
            categorical=both.mixed,
            robust=True,
            split=len(a),
            console=console,
        )
        options = shuffling(both.table, arguments)
        n = len(a)
        with console.stage(f"testing {n} rows against {len(b)}"):
            kernel = "auto" if arguments.kernel == "auto" else chosen_kernel(arguments)
            draws, seed = arguments.permutations, arguments.seed
            level = arguments.fail_under or _LEVEL
            found = compare_vectors(data.vectors, n, kernel, draws, seed, level, options)
        shares = None
        if arguments.explain:
            with console.stage("sharing the statistic among columns"):
                shares = ColumnShares.of(_of_one_kernel(arguments, data, n, found, options), level)
    rows = telling_rows(a, b, found, arguments.top)
    data = replace(data, remarks=(*data.remarks, *doubtful_columns(data, n)))
    finding = _Comparison(arguments, found.test, a, b, both, data, found, rows, shares)
    if arguments.output is not False:
        _write(arguments, a, b, found.witness, console)
        if arguments.output is None:
            return finding.code
    return finding.say(console)


def _of_one_kernel(
    arguments: argparse.Namespace,
    data: Encoded,
    n: int,
    found: TableComparison,
    options: dict[str, Any],
) -> TestResult:
    """Return a test by one kernel, that at the median distance where there were many."""
    if arguments.kernel != "auto":
        return found.test
    X, estimator = data.X, "unbiased" if min(n, len(data.X) - n) > 1 else "biased"
    draws, seed = arguments.permutations, arguments.seed
    result = mmd_test(X[:n], X[n:], None, draws, seed, estimator=estimator, **options)
    return by_column(result, data.vectors)


@dataclass(frozen=True)
class _Comparison(Finding):
    a: FileTable
    b: FileTable
    both: Both
    data: Encoded
    found: TableComparison
    rows: dict[str, list[dict[str, Any]]]
    shares: ColumnShares | None = None

    @property
    def below(self) -> bool:
        """Whether the tables differ at the limit that is given."""
        return self.found.differ

    def outcome(self) -> dict[str, Any]:
        """Return what JSON says."""
        return {
            "a": {"path": self.a.path, "rows": len(self.a)},
            "b": {"path": self.b.path, "rows": len(self.b)},
            "kernel": repr(self.result.extra["kernel"]),
            **self.numbers(),
            "verdict": self.found.verdict,
            "columns": [_told(change) for change in self.found.columns],
            "rows": self.rows,
            **self.data.account(),
            **{f"only_in_{key}": names for key, names in zip("ab", self.both.only, strict=True)},
            "mixed": self.both.mixed,
            "apart": list(self.found.apart),
            **({} if self.shares is None else {"shares": self.shares.outcome()}),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the report."""
        arguments, extra = self.arguments, self.result.extra
        if arguments.kernel == "auto":
            how = f"the one that stands out most of {len(extra['kernels'])}"
        else:
            how = scale_text(arguments)
        tables = {"A": self.a, "B": self.b}
        among = count_text(len(self.found.columns), "column")
        lines = [
            *((k, f"{table.path}, {count_text(len(table), 'row')}") for k, table in tables.items()),
            ("verdict", self.found.verdict),
        ]
        for change in self.found.columns[: arguments.top]:
            chance = adjusted_text(_told(change), among)
            lines.append(("column", f"{change.name}: {change} ({chance})"))
        for key, table in tables.items():
            for row in self.rows[key.lower()]:
                cells = ", ".join(f"{n}={_shown(c)}" for n, c in row["cells"].items())
                place = f"{table.place} {row[table.place]}"
                lines.append((f"more in {key}", f"{place} of {table.path}: {cells}"))
        lines += [
            *self.data.lines(),
            ("kernel", f"{extra['kernel']}{how and ', ' + how}"),
            *self.chance("both were of one distribution"),
            *(() if self.shares is None else self.shares.lines(arguments.top)),
        ]
        return lines + [("remark", text) for text in self.data.remarks]


def _told(change: ColumnChange) -> dict[str, Any]:
    """Return what JSON says of a column."""
    told = asdict(change)
    return {"column": told.pop("name"), **told}


def _shown(cell: Any) -> str:
    if cell is None:
        return "missing"
    return figure(cell) if isinstance(cell, float) else str(cell)


def _write(
    arguments: argparse.Namespace,
    a: FileTable,
    b: FileTable,
    values: np.ndarray,
    console: Console,
) -> None:
    table = ["A"] * len(a) + ["B"] * len(b)
    places = [int(p) for p in (*a.places, *b.places)]
    columns = {"table": table, a.place: places, "witness": values.tolist()}
    write_answers(columns, arguments.output, arguments.force, False, console.answer)


# ---- The columns that both tables have ----


@dataclass(frozen=True)
class Both:
    """The rows of two tables in the columns that both have."""

    table: FileTable  # rows of the first, then of the second
    only: tuple[list[str], list[str]]  # columns that only one of the tables has
    mixed: list[str]  # columns that hold numbers in one table and text in the other

    def doubts(self, a: str, b: str) -> list[str]:
        """Return what a user should know of columns that do not fit together."""
        texts = []
        for path, alone in zip((a, b), self.only, strict=True):
            if alone:
                names = listed(alone, 6)
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
    """Return the rows of two tables in the columns that both have."""
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


# ---- Where two tables differ: the rows where the witness is largest, and doubts on columns ----


def telling_rows(
    a: FileTable, b: FileTable, found: TableComparison, top: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of A where the witness is largest, and of B where it is smallest.

    Where the p-value shows no difference no row is an example.
    """
    values, names = found.witness, [change.name for change in found.columns]
    parts = {"a": (a, values[: len(a)]), "b": (b, -values[len(a) :])}
    top = top if found.pvalue < found.level else 0
    out: dict[str, list[dict[str, Any]]] = {}
    for key, (table, heights) in parts.items():
        best = np.argsort(-heights, kind="stable")[:top]
        sign = 1 if key == "a" else -1
        quoted = [n for n in names if n in table.columns][:_SHOWN]
        out[key] = [
            {
                table.place: int(table.places[i]),
                "witness": sign * float(heights[i]),
                "cells": {n: _cell(table, n, int(i)) for n in quoted},
            }
            for i in best
            if heights[i] > 0
        ]
    return out


def doubtful_columns(data: Encoded, n: int) -> list[str]:
    """Return remarks on columns that differ between tables by their nature."""
    remarks = []
    for name, values in data.vectors.columns.items():
        one, two = values[:n], values[n:]
        if name not in data.source.columns:
            continue
        drop = f"--drop {name!r} leaves it out"
        if values.dtype != object:
            if _is_id(one) and _is_id(two) and (one.max() < two.min() or two.max() < one.min()):
                remarks.append(
                    f"column {name!r} has whole numbers of its own in each table, as an id has; it "
                    f"is used, {drop}"
                )
            elif why := identifier(values, name) or _identifier(one, two, name):
                remarks.append(remark(name, why))
            continue
        texts = [v for v in values.tolist() if v is not None]
        known = set(one.tolist()) - {None}
        if dates(texts):
            remarks.append(f"column {name!r} looks like dates, compared as categories; {drop}")
        elif known and not known & set(two.tolist()):
            remarks.append(f"column {name!r} has no value in both tables; {drop}")
    return remarks


def _identifier(one: np.ndarray, two: np.ndarray, name: str) -> str | None:
    """Return by what numbers are known to number the rows of each table."""
    found = identifier(one, name), identifier(two, name)
    return f"{found[0]}, in each table" if all(found) else None


def _is_id(values: np.ndarray) -> bool:
    """Whether a column has another whole number in every row."""
    if counting(values) is not None:
        return True
    whole = bool(np.isfinite(values).all() and (values % 1 == 0).all())
    return whole and len(values) >= 10 and len(np.unique(values)) == len(values)


def _cell(table: FileTable, name: str, row: int) -> Any:
    cell = table.cells(name)[row]
    if missing(cell):
        return None
    return to_number(cell, table.decimal) if is_number(cell, table.decimal) else cell
