"""Where two tables differ: columns tested one by one, and rows at which the witness is largest."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from mercer.cli.encoded import Encoded
from mercer.cli.notation import dates, is_number, missing, to_number
from mercer.cli.outcome import chosen_kernel
from mercer.cli.tables import FileTable
from mercer.kernels.tables import counting
from mercer.statistics import mmd_test
from mercer.statistics.two_sample.k_sample import holm

__all__ = ["column_tests", "doubtful_columns", "telling_rows"]

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
