"""``mercer compare``: are two tables from one distribution, and where do they differ?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.cli.console import Console
from mercer.cli.differences import column_tests, doubtful_columns, telling_rows
from mercer.cli.encoded import Encoded, encode, read_rows, together
from mercer.cli.files import UsageError, check_output, write_answers
from mercer.cli.outcome import (
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
from mercer.cli.report import kernel_text, layout
from mercer.cli.tables import FileTable
from mercer.settings import config
from mercer.statistics import TestResult, mmd_agg_test, mmd_test, witness

__all__ = ["run"]


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
