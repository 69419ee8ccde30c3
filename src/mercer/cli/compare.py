"""``mercer compare``: are two tables from one distribution, and where do they differ?"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from mercer.cli.console import Console
from mercer.cli.encoded import Encoded, encode, read_rows, together
from mercer.cli.files import check_output, write_answers
from mercer.cli.notation import missing
from mercer.cli.outcome import (
    exit_code,
    json_text,
    median_kernel,
    numbers,
    pvalue_text,
    roles,
    shuffling,
    verdict,
)
from mercer.cli.report import kernel_text, layout
from mercer.cli.tables import FileTable
from mercer.errors import InvalidInput
from mercer.settings import config
from mercer.statistics import TestResult, mmd_agg_test, mmd_test, witness
from mercer.statistics.k_sample import holm

__all__ = ["run"]

_COLUMN_ROWS = 2000  # of each table, at most, that the tests of single columns look at
_SHOWN = 4  # columns of a row that are quoted


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
        raise InvalidInput("standard input can be one of the tables, not both.")
    if arguments.output:
        check_output(arguments.output, arguments.force, arguments.a, arguments.b)
    with config(memory=arguments.memory):
        a, b = (read_rows(path, arguments, console) for path in (arguments.a, arguments.b))
        both, doubts = together(a, b, {*arguments.drop, *roles(arguments)})
        data = encode(both, arguments, skip=roles(arguments), missing_counts=True)
        for text in (*doubts, *(f"{both.path}: {w}" for w in data.warnings)):
            console.warn(text)
        options = shuffling(both, arguments)
        n = len(a)
        with console.stage(f"testing {n} rows against {len(b)}"):
            result = _test(data.X[:n], data.X[n:], arguments, options)
        kernel = result.extra.get("kernel")
        with console.stage("looking where the tables differ"):
            values = witness(data.X[:n], data.X[n:], kernel)(data.X)
            columns = _columns(data, n, arguments, options)
    if arguments.output is not False:
        _write(arguments, a, b, values)
        if arguments.output is None:
            return exit_code(result, arguments)
    rows = _rows(a, b, values, [c["column"] for c in columns], arguments.top)
    if arguments.json:
        console.say(json_text(_outcome(arguments, a, b, result, kernel, columns, rows)))
    else:
        console.say(layout(_report(arguments, a, b, data, result, kernel, columns, rows)))
    return exit_code(result, arguments)


def _test(X: np.ndarray, Y: np.ndarray, arguments: argparse.Namespace, options: Any) -> TestResult:
    test = mmd_agg_test if arguments.kernel == "auto" else mmd_test
    kernel = None if arguments.kernel == "auto" else median_kernel(arguments.kernel)
    estimator = "unbiased" if min(len(X), len(Y)) > 1 else "biased"
    return test(
        X, Y, kernel, arguments.permutations, arguments.seed, estimator=estimator, **options
    )


def _columns(
    data: Encoded, n: int, arguments: argparse.Namespace, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Test each column on its own, the most different first."""
    rng = np.random.default_rng(arguments.seed)
    rows = np.arange(len(data.X))
    for part in (slice(0, n), slice(n, len(rows))):
        if len(rows[part]) > _COLUMN_ROWS and "blocks" not in options:
            kept = rng.choice(rows[part], _COLUMN_ROWS, replace=False)
            rows = np.setdiff1d(rows, np.setdiff1d(rows[part], kept))
    first = int((rows < n).sum())
    options = {k: v if np.ndim(v) == 0 else v[rows] for k, v in options.items()}
    kernel = median_kernel("rbf" if arguments.kernel == "auto" else arguments.kernel)
    estimator = "unbiased" if min(first, len(rows) - first) > 1 else "biased"
    found: list[dict[str, Any]] = []
    for name, span in data.spans.items():
        X = data.X[rows, span]
        result = mmd_test(
            X[:first],
            X[first:],
            kernel,
            arguments.permutations,
            arguments.seed,
            estimator=estimator,
            **options,
        )
        # How far beyond chance, in standard deviations: comparable over columns.
        null = np.zeros(1) if result.null is None else result.null
        spread = float(null.std())
        away = (result.statistic - float(null.mean())) / spread if spread > 0 else 0.0
        found.append({"column": name, "pvalue": result.pvalue, "deviations": away})
    for entry, adjusted in zip(found, holm([f["pvalue"] for f in found]), strict=True):
        entry["adjusted"] = float(adjusted)
    return sorted(found, key=lambda f: (f["pvalue"], -f["deviations"]))


def _rows(
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
                "cells": {n: table.cells(n)[i] for n in quoted},
            }
            for i in best
            if heights[i] > 0
        ]
    return out


def _outcome(
    arguments: argparse.Namespace,
    a: FileTable,
    b: FileTable,
    result: TestResult,
    kernel: Any,
    columns: list[dict[str, Any]],
    rows: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    return {
        "a": {"path": a.path, "rows": len(a)},
        "b": {"path": b.path, "rows": len(b)},
        "kernel": repr(kernel),
        **numbers(result, arguments),
        "columns": columns,
        "rows": rows,
    }


def _report(
    arguments: argparse.Namespace,
    a: FileTable,
    b: FileTable,
    data: Encoded,
    result: TestResult,
    kernel: Any,
    columns: list[dict[str, Any]],
    rows: dict[str, list[dict[str, Any]]],
) -> list[tuple[str, str]]:
    how = "the largest of 20 kernels" if arguments.kernel == "auto" else "at the median distance"
    chance = f"{result.pvalue:.3g}"
    lines = [
        ("A", f"{a.path}, {len(a)} rows"),
        ("B", f"{b.path}, {len(b)} rows"),
        *data.lines(),
        ("kernel", f"{kernel_text(kernel)}, {how}"),
        ("statistic", f"{result.statistic:.4g}"),
        ("p-value", pvalue_text(result)),
        ("meaning", f"tables of one distribution differ as much with probability {chance}"),
    ]
    for entry in columns[: arguments.top]:
        lines.append(
            (
                "column",
                f"{entry['column']}: p-value {entry['pvalue']:.3g}, "
                f"{entry['adjusted']:.3g} adjusted for {len(columns)} columns",
            )
        )
    for key, table in (("a", a), ("b", b)):
        for row in rows[key]:
            cells = ", ".join(
                f"{n}={'missing' if missing(c) else c}" for n, c in row["cells"].items()
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
