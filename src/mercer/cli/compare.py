"""``mercer compare``: are two tables from one distribution, and where do they differ?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.cells import dates, is_number, missing, to_number
from mercer.cli.depend import (
    check_limit,
    chosen_kernel,
    count_text,
    exit_code,
    json_text,
    numbers,
    pvalue_text,
    roles,
    scale_text,
    shuffling,
    verdict,
)
from mercer.cli.files import UsageError, check_output, write_answers
from mercer.cli.preparation import Encoded, encode, read_rows, together
from mercer.cli.report import kernel_text, layout
from mercer.kernels import counting
from mercer.settings import config
from mercer.statistics import TestResult, mmd_agg_test, mmd_test, witness
from mercer.statistics.two_sample import holm

if TYPE_CHECKING:
    from mercer.cli.program import Console
    from mercer.cli.tables import FileTable

# ---- Where two tables differ: columns tested one by one, and rows at which the witness is
# largest.


_WHOLE = 4000  # rows up to which a column is tested with its whole kernel matrix
_RANK = 64  # of the matrix of a column beyond; one column has few directions
_SHOWN = 4  # columns of a row that are quoted


def column_tests(
    data: Encoded, n: int, arguments: argparse.Namespace, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Test each column on its own, on the cells that are there; the most different first.

    Parameters
    ----------
    data : Encoded
        The rows of both tables.
    n : int
        How many are the first table's.
    arguments : Namespace
        Of the command.
    options : dict
        How rows are shuffled.
    """
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
    for entry, adjusted in zip(found, holm([f["pvalue"] for f in found]), strict=True):
        entry["adjusted"] = float(adjusted)
    return sorted(found, key=lambda f: (f["pvalue"], -f["deviations"]))


def telling_rows(
    a: FileTable, b: FileTable, values: np.ndarray, names: list[str], top: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of A where the witness is largest, and of B where it is smallest.

    Parameters
    ----------
    a, b : FileTable
        The tables.
    values : ndarray
        The witness at the rows of A, then of B.
    names : list of str
        Columns to quote, the first of them.
    top : int
        How many rows of each.
    """
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
    """Return remarks on columns that differ between tables by their nature.

    Parameters
    ----------
    data : Encoded
        The rows of both tables.
    n : int
        How many are the first table's.
    """
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


# ---- compare ----


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Carry out the command.

    Parameters
    ----------
    arguments : Namespace
        The parsed arguments.
    console : Console
        Where report, warnings and progress go.

    Returns
    -------
    int
        3 when the p-value is below ``--fail-under``, else 0.
    """
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
    if arguments.output is not False:
        _write(arguments, a, b, values)
        if arguments.output is None:
            return exit_code(result, arguments)
    rows = telling_rows(a, b, values, [c["column"] for c in columns], arguments.top)
    data = replace(data, remarks=(*data.remarks, *doubtful_columns(data, n)))
    if arguments.json:
        outcome = _outcome(arguments, a, b, data, result, columns, rows)
        only = {f"only_in_{key}": names for key, names in zip("ab", both.only, strict=True)}
        console.say(json_text(outcome | only | {"mixed": both.mixed}))
    else:
        console.say(layout(_report(arguments, a, b, data, result, columns, rows)))
    return exit_code(result, arguments)


def _test(X: np.ndarray, Y: np.ndarray, arguments: argparse.Namespace, options: Any) -> TestResult:
    test = mmd_agg_test if arguments.kernel == "auto" else mmd_test
    kernel = None if arguments.kernel == "auto" else chosen_kernel(arguments)
    estimator = "unbiased" if min(len(X), len(Y)) > 1 else "biased"
    return test(
        X, Y, kernel, arguments.permutations, arguments.seed, estimator=estimator, **options
    )


def _outcome(
    arguments: argparse.Namespace,
    a: FileTable,
    b: FileTable,
    data: Encoded,
    result: TestResult,
    columns: list[dict[str, Any]],
    rows: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    return {
        "a": {"path": a.path, "rows": len(a)},
        "b": {"path": b.path, "rows": len(b)},
        "kernel": repr(result.extra["kernel"]),
        **numbers(result, arguments),
        "columns": columns,
        "rows": rows,
        **data.account(),
    }


def _report(
    arguments: argparse.Namespace,
    a: FileTable,
    b: FileTable,
    data: Encoded,
    result: TestResult,
    columns: list[dict[str, Any]],
    rows: dict[str, list[dict[str, Any]]],
) -> list[tuple[str, str]]:
    if arguments.kernel == "auto":
        how = f"the one that stands out most of {len(result.extra['kernels'])}"
    else:
        how = scale_text(arguments)
    chance = f"{result.pvalue:.3g}"
    lines = [
        ("A", f"{a.path}, {count_text(len(a), 'row')}"),
        ("B", f"{b.path}, {count_text(len(b), 'row')}"),
        *data.lines(),
        ("kernel", f"{kernel_text(result.extra['kernel'])}{how and ', ' + how}"),
        ("statistic", f"{result.statistic:.4g}"),
        ("p-value", pvalue_text(result)),
        ("meaning", f"if both were of one distribution, p would be as small in {chance} of cases"),
    ]
    for entry in columns[: arguments.top]:
        lines.append(
            (
                "column",
                f"{entry['column']}: p-value {entry['pvalue']:.3g}, "
                f"{entry['adjusted']:.3g} adjusted for {count_text(len(columns), 'column')}",
            )
        )
    for key, table in (("a", a), ("b", b)):
        for row in rows[key]:
            cells = ", ".join(
                f"{n}={'missing' if c is None else c}" for n, c in row["cells"].items()
            )
            place = f"{table.place} {row[table.place]}"
            lines.append((f"more in {key.upper()}", f"{place} of {table.path}: {cells}"))
    lines += [("remark", text) for text in data.remarks]
    return lines + verdict(result, arguments)


def _write(arguments: argparse.Namespace, a: FileTable, b: FileTable, values: np.ndarray) -> None:
    table = ["A"] * len(a) + ["B"] * len(b)
    places = [int(p) for p in (*a.places, *b.places)]
    columns = {"table": table, a.place: places, "witness": values.tolist()}
    write_answers(columns, arguments.output, arguments.force, raw=False)
