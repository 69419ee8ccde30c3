"""``mercer compare``: are two tables from one distribution, and where do they differ?"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.files import UsageError, check_output, write_answers
from mercer.cli.report import kernel_text
from mercer.cli.samples import (
    Encoded,
    Finding,
    adjust,
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
from mercer.cli.tables import FileTable, dates, is_number, listed, missing, to_number
from mercer.errors import InvalidInput
from mercer.kernels import counting
from mercer.settings import config
from mercer.statistics import TestResult, mmd_agg_test, mmd_test, witness

if TYPE_CHECKING:
    from mercer.cli.program import Console

_WHOLE = 4000  # rows up to which a column is tested with its whole kernel matrix
_RANK = 64  # of the matrix of a column beyond; one column has few directions
_SHOWN = 4  # columns of a row that are quoted


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
            both.table, arguments, skip=skip, categorical=both.mixed, robust=True, console=console
        )
        options = shuffling(both.table, arguments)
        n = len(a)
        with console.stage(f"testing {n} rows against {len(b)}"):
            result = _test(data.X[:n], data.X[n:], arguments, options)
        kernel = result.extra.get("kernel")
        with console.stage("looking where the tables differ"):
            values = witness(data.X[:n], data.X[n:], kernel)(data.X)
            columns = column_tests(data, n, arguments, options)
    rows = telling_rows(a, b, values, [c["column"] for c in columns], arguments.top)
    data = replace(data, remarks=(*data.remarks, *doubtful_columns(data, n)))
    finding = _Comparison(arguments, result, a, b, both, data, columns, rows)
    if arguments.output is not False:
        _write(arguments, a, b, values, console)
        if arguments.output is None:
            return finding.code
    return finding.say(console)


def _test(X: np.ndarray, Y: np.ndarray, arguments: argparse.Namespace, options: Any) -> TestResult:
    test = mmd_agg_test if arguments.kernel == "auto" else mmd_test
    kernel = None if arguments.kernel == "auto" else chosen_kernel(arguments)
    estimator = "unbiased" if min(len(X), len(Y)) > 1 else "biased"
    return test(
        X, Y, kernel, arguments.permutations, arguments.seed, estimator=estimator, **options
    )


@dataclass(frozen=True)
class _Comparison(Finding):
    a: FileTable
    b: FileTable
    both: Both
    data: Encoded
    columns: list[dict[str, Any]]
    rows: dict[str, list[dict[str, Any]]]

    def outcome(self) -> dict[str, Any]:
        """Return what JSON says."""
        return {
            "a": {"path": self.a.path, "rows": len(self.a)},
            "b": {"path": self.b.path, "rows": len(self.b)},
            "kernel": repr(self.result.extra["kernel"]),
            **self.numbers(),
            "columns": self.columns,
            "rows": self.rows,
            **self.data.account(),
            **{f"only_in_{key}": names for key, names in zip("ab", self.both.only, strict=True)},
            "mixed": self.both.mixed,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the report."""
        arguments, extra = self.arguments, self.result.extra
        if arguments.kernel == "auto":
            how = f"the one that stands out most of {len(extra['kernels'])}"
        else:
            how = scale_text(arguments)
        tables = {"A": self.a, "B": self.b}
        among = count_text(len(self.columns), "column")
        lines = [
            *((k, f"{table.path}, {count_text(len(table), 'row')}") for k, table in tables.items()),
            *self.data.lines(),
            ("kernel", f"{kernel_text(extra['kernel'])}{how and ', ' + how}"),
            *self.chance("both were of one distribution"),
        ]
        for entry in self.columns[: arguments.top]:
            lines.append(("column", f"{entry['column']}: {adjusted_text(entry, among)}"))
        for key, table in tables.items():
            for row in self.rows[key.lower()]:
                cells = ", ".join(
                    f"{n}={'missing' if c is None else c}" for n, c in row["cells"].items()
                )
                place = f"{table.place} {row[table.place]}"
                lines.append((f"more in {key}", f"{place} of {table.path}: {cells}"))
        return lines + [("remark", text) for text in self.data.remarks]


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
    write_answers(columns, arguments.output, arguments.force, False, console)


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


# ---- Where two tables differ: columns one by one, and the rows where the witness is largest ----


def column_tests(
    data: Encoded, n: int, arguments: argparse.Namespace, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Test each column on its own, on the cells that are there; the most different first."""
    kernel = chosen_kernel(arguments, "rbf" if arguments.kernel == "auto" else None)
    found: list[dict[str, Any]] = []
    for name, span in data.spans.items():
        rows = np.arange(len(data.X))
        if name in data.gaps:
            rows = rows[~data.gaps[name]]
        first = int((rows < n).sum())
        if min(first, len(rows) - first) < 1:  # a table without any value
            found.append({"column": name, "pvalue": 1.0, "deviations": 0.0})
            continue
        X = data.X[rows, span]
        result = mmd_test(
            X[:first],
            X[first:],
            kernel,
            arguments.permutations,
            arguments.seed,
            estimator="unbiased" if min(first, len(rows) - first) > 1 else "biased",
            rank=None if len(rows) <= _WHOLE else _RANK,
            **{k: v if np.ndim(v) == 0 else v[rows] for k, v in options.items()},
        )
        # How far beyond chance, in standard deviations: comparable over columns.
        null = np.zeros(1) if result.null is None else result.null
        spread = float(null.std())
        away = (result.statistic - float(null.mean())) / spread if spread > 0 else 0.0
        found.append({"column": name, "pvalue": result.pvalue, "deviations": away})
    adjust(found)
    return sorted(found, key=lambda f: (f["pvalue"], -f["deviations"]))


def telling_rows(
    a: FileTable, b: FileTable, values: np.ndarray, names: list[str], top: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of A where the witness is largest, and of B where it is smallest."""
    parts = {"a": (a, values[: len(a)]), "b": (b, -values[len(a) :])}
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
    for name, values in data.columns.items():
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
            continue
        texts = [v for v in values.tolist() if v is not None]
        known = set(one.tolist()) - {None}
        if dates(texts):
            remarks.append(f"column {name!r} looks like dates, compared as categories; {drop}")
        elif known and not known & set(two.tolist()):
            remarks.append(f"column {name!r} has no value in both tables; {drop}")
    return remarks


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
