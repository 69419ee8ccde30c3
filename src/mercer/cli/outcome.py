"""What ``mercer compare`` and ``mercer depend`` share: options of tests, p-values, exit codes."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.cli.encoded import labels_of
from mercer.cli.files import UsageError
from mercer.cli.tables import FileTable
from mercer.kernels import Kernel, as_kernel
from mercer.statistics import TestResult

__all__ = [
    "BELOW",
    "check_limit",
    "chosen_kernel",
    "count_text",
    "exit_code",
    "json_text",
    "numbers",
    "pvalue_text",
    "roles",
    "scale_text",
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
            raise UsageError(
                f"--blocks {arguments.blocks}: neither a column of {source.path} nor a whole "
                "number of 1 or more."
            )
    if arguments.strata is not None:
        options["strata"] = labels_of(source, arguments.strata, "--strata")
    return options


def check_limit(arguments: argparse.Namespace, least: float) -> None:
    """Refuse a limit that no p-value can be below: such a check would never fire.

    Parameters
    ----------
    arguments : Namespace
        With ``fail_under``.
    least : float
        The smallest p-value there is.
    """
    limit = arguments.fail_under
    if limit is not None and least >= limit:
        needed = int(np.ceil(1 / limit))
        raise UsageError(
            f"--fail-under {limit:g} can never be: the smallest p-value of "
            f"{arguments.permutations} permutations is {least:.3g}; give --permutations {needed} "
            "or more."
        )


def chosen_kernel(arguments: argparse.Namespace, name: str | None = None) -> Kernel:
    """Return the kernel, its length scale as given or the median distance where it has one.

    Parameters
    ----------
    arguments : Namespace
        With ``kernel`` and ``length_scale``.
    name : str, optional
        The kernel, where it is not that of the arguments.
    """
    kernel = as_kernel(name or arguments.kernel)
    if "length_scale" in kernel.get_params(deep=False):
        kernel.set_params(length_scale=arguments.length_scale or "median")
    elif arguments.length_scale is not None:
        raise UsageError(f"--length-scale: the kernel {arguments.kernel} has none.")
    return kernel


def scale_text(arguments: argparse.Namespace) -> str:
    """Return where the length scale comes from; nothing for a kernel without one."""
    if "length_scale" not in as_kernel(arguments.kernel).get_params(deep=False):
        return ""
    return "at the median distance" if arguments.length_scale is None else "as given"


def count_text(count: int, what: str) -> str:
    """Return a number of things in words.

    Parameters
    ----------
    count : int
        How many.
    what : str
        Of what, in the singular.
    """
    return f"{count} {what}" + ("" if count == 1 else "s")


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
