"""What ``mercer compare`` and ``mercer depend`` share: options of tests, p-values, exit codes."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.cli.encoded import labels_of
from mercer.cli.tables import FileTable
from mercer.errors import InvalidInput
from mercer.kernels import Kernel, as_kernel
from mercer.statistics import TestResult

__all__ = [
    "BELOW",
    "exit_code",
    "json_text",
    "median_kernel",
    "numbers",
    "pvalue_text",
    "roles",
    "shuffling",
    "verdict",
]

BELOW = 3  # exit code: the p-value is below --fail-under


def shuffling(source: FileTable, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how rows are shuffled, as keywords of a test.

    Parameters
    ----------
    source : FileTable
        The rows.
    arguments : Namespace
        With ``blocks`` and ``strata``.
    """
    options: dict[str, Any] = {}
    if arguments.blocks is not None:
        if arguments.blocks in source.columns:
            options["blocks"] = labels_of(source, arguments.blocks, "--blocks")
        elif re.fullmatch(r"[0-9]{1,9}", arguments.blocks) and int(arguments.blocks) > 0:
            options["blocks"] = int(arguments.blocks)
        else:
            raise InvalidInput(
                f"--blocks {arguments.blocks}: neither a column of {source.path} nor a whole "
                "number of 1 or more."
            )
    if arguments.strata is not None:
        options["strata"] = labels_of(source, arguments.strata, "--strata")
    return options


def median_kernel(name: str) -> Kernel:
    """Return a kernel by its name, its length scale the median distance where it has one.

    Parameters
    ----------
    name : str
        One of those of ``--kernel``.
    """
    kernel = as_kernel(name)
    if "length_scale" in kernel.get_params(deep=False):
        kernel.set_params(length_scale="median")
    return kernel


def roles(arguments: argparse.Namespace) -> set[str]:
    """Return the columns that say how rows are shuffled, which are no data."""
    return {name for name in (arguments.blocks, arguments.strata) if name is not None}


def pvalue_text(result: TestResult) -> str:
    """Return the p-value with what it rests on.

    Parameters
    ----------
    result : TestResult
        The outcome.
    """
    if not result.n_permutations:
        return f"{result.pvalue:.4g}, {result.method}"
    low, high = result.confidence_interval()
    exact = f"; 95% interval {low:.2g} to {high:.2g}" if high > low else ""
    return f"{result.pvalue:.4g}, {result.method}, {result.n_permutations} draws{exact}"


def exit_code(result: TestResult, arguments: argparse.Namespace) -> int:
    """Return 3 where the p-value is below the limit, else 0.

    Parameters
    ----------
    result : TestResult
        The outcome.
    arguments : Namespace
        With ``fail_under``.
    """
    limit = arguments.fail_under
    return BELOW if limit is not None and result.pvalue < limit else 0


def verdict(result: TestResult, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the line that says how the p-value compares with the limit, if there is one.

    Parameters
    ----------
    result : TestResult
        The outcome.
    arguments : Namespace
        With ``fail_under``.
    """
    if arguments.fail_under is None:
        return []
    code = exit_code(result, arguments)
    return [("verdict", f"{'' if code else 'not '}below {arguments.fail_under:g}: exit {code}")]


def numbers(result: TestResult, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what JSON says of every test.

    Parameters
    ----------
    result : TestResult
        The outcome.
    arguments : Namespace
        With ``fail_under``.
    """
    return {
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "pvalue_interval": list(result.confidence_interval()),
        "method": result.method,
        "permutations": result.n_permutations,
        "fail_under": arguments.fail_under,
        "below": bool(exit_code(result, arguments)),
    }


def json_text(outcome: Mapping[str, Any]) -> str:
    """Return an outcome as JSON.

    Parameters
    ----------
    outcome : mapping
        Numbers, texts and lists.
    """
    return json.dumps(outcome, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
