"""``mercer depend``: do some columns of a table depend on others?"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.cells import missing
from mercer.cli.files import UsageError
from mercer.cli.preparation import Encoded, encode, labels_of, read_rows
from mercer.cli.report import kernel_text, layout
from mercer.errors import InvalidInput
from mercer.kernels import Kernel, as_kernel
from mercer.settings import config
from mercer.statistics import TestResult, hsic_test, kci_test
from mercer.statistics.two_sample import holm

if TYPE_CHECKING:
    from mercer.cli.program import Console
    from mercer.cli.tables import FileTable

# ---- What ``mercer compare`` and ``mercer depend`` share: options of tests, p-values, exit
# codes.


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


# ---- depend ----


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
    _check_roles(arguments)
    if not arguments.given:
        check_limit(arguments, 1 / (arguments.permutations + 1))
    with config(memory=arguments.memory):
        source = read_rows(arguments.table, arguments, console)
        source, dropped = _whole(source, arguments)
        parts = {
            role: encode(source, arguments, only=names, robust=True, console=console)
            for role, names in (("x", arguments.x), ("y", arguments.y), ("given", arguments.given))
            if names
        }
        options = shuffling(source, arguments)
        with console.stage(f"testing {len(source)} rows"):
            given = parts["given"].X if "given" in parts else None
            result = _test(parts["x"].X, parts["y"].X, given, arguments, options)
            pairs = _pairs(parts, arguments, options)
    if arguments.json:
        console.say(json_text(_outcome(arguments, source, dropped, parts, result, pairs)))
    else:
        console.say(layout(_report(arguments, source, dropped, parts, result, pairs)))
    return exit_code(result, arguments)


def _check_roles(arguments: argparse.Namespace) -> None:
    names = [*arguments.x, *arguments.y, *arguments.given]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise UsageError(
            f"column {twice[0]!r} is named twice; it can be in one of --x, --y and --given."
        )
    taken = sorted({*names} & ({*arguments.drop} | roles(arguments)))
    if taken:
        raise UsageError(
            f"column {taken[0]!r} is tested; it cannot be in --drop, --blocks or --strata too."
        )
    if arguments.given and roles(arguments):
        raise UsageError(
            "--given has no permutations, so neither --blocks nor --strata apply; put the column "
            "of the strata into --given instead."
        )


def _whole(source: FileTable, arguments: argparse.Namespace) -> tuple[FileTable, int]:
    """Rows in which no cell of the columns is missing: a filled cell would feign independence."""
    names = [*arguments.x, *arguments.y, *arguments.given]
    cells = [source.cells(name) for name in names]
    rows = [i for i in range(len(source)) if not any(missing(column[i]) for column in cells)]
    if len(rows) < 5:
        raise InvalidInput(
            f"{source.path}: {len(rows)} rows have a value in all of {', '.join(map(repr, names))};"
            " five are needed at least."
        )
    return source.take(rows), len(source) - len(rows)


def _test(
    X: np.ndarray,
    Y: np.ndarray,
    given: np.ndarray | None,
    arguments: argparse.Namespace,
    options: dict[str, Any],
) -> TestResult:
    k = chosen_kernel(arguments)
    if given is not None:
        # A kernel that was not asked for is chosen for each regression on the columns given.
        left_out = arguments.kernel == "rbf" and arguments.length_scale is None
        return kci_test(X, Y, given, k, k, None if left_out else k, rng=arguments.seed)
    return hsic_test(X, Y, k, k, arguments.permutations, arguments.seed, **options)


def _pairs(
    parts: dict[str, Encoded], arguments: argparse.Namespace, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Test every column of x with every column of y, where there are several."""
    x, y = parts["x"], parts["y"]
    if len(x.spans) * len(y.spans) < 2:
        return []
    given = parts["given"].X if "given" in parts else None
    found: list[dict[str, Any]] = []
    for a, one in x.spans.items():
        for b, other in y.spans.items():
            result = _test(x.X[:, one], y.X[:, other], given, arguments, options)
            found.append({"x": a, "y": b, "pvalue": result.pvalue})
    for entry, adjusted in zip(found, holm([f["pvalue"] for f in found]), strict=True):
        entry["adjusted"] = float(adjusted)
    return sorted(found, key=lambda f: f["pvalue"])


def _correlation(parts: dict[str, Encoded]) -> float | None:
    """That of two columns of numbers, as they are in the table."""
    if len(parts) != 2 or any(part.X.shape[1] != 1 for part in parts.values()):
        return None
    x, y = (next(iter(part.columns.values())) for part in parts.values())
    return float(np.corrcoef(x, y)[0, 1])


def _outcome(
    arguments: argparse.Namespace,
    source: FileTable,
    dropped: int,
    parts: dict[str, Encoded],
    result: TestResult,
    pairs: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "path": source.path,
        "rows": len(source),
        "rows_left_out": dropped,
        "correlation": _correlation(parts),
        "explained": {r: result.extra.get(f"explained_{r}") for r in "xy"},
        "kernels": {k: repr(result.extra[k]) for k in ("kernel_x", "kernel_y")},
        "columns": {role: part.account() for role, part in parts.items()},
        "x": arguments.x,
        "y": arguments.y,
        "given": arguments.given,
        **numbers(result, arguments),
        "pairs": pairs,
    }


def _report(
    arguments: argparse.Namespace,
    source: FileTable,
    dropped: int,
    parts: dict[str, Encoded],
    result: TestResult,
    pairs: list[dict[str, Any]],
) -> list[tuple[str, str]]:
    rows = f"{len(source)} of {source.path}"
    if dropped:
        rows += f"; {dropped} with a missing cell left out"
    lines = [("rows", rows)]
    for role, part in parts.items():
        lines.append((role, ", ".join(part.spans)))
        lines += [("left out", f"{n!r}: {why}") for n, why in part.left_out.items()]
    correlation = _correlation(parts)
    if correlation is not None:
        lines.append(("correlation", f"{correlation:.3f}"))
    lines += [
        (key.replace("_", " "), kernel_text(kernel))
        for key, kernel in result.extra.items()
        if key in ("kernel_x", "kernel_y")
    ]
    given = f" given {', '.join(arguments.given)}" if arguments.given else ""
    lines += [
        ("statistic", f"{result.statistic:.4g}"),
        ("p-value", pvalue_text(result)),
        (
            "meaning",
            f"if x and y were independent{given}, p would be as small in "
            f"{result.pvalue:.3g} of cases",
        ),
    ]
    for entry in pairs:
        lines.append(
            (
                "pair",
                f"{entry['x']} and {entry['y']}: p-value {entry['pvalue']:.3g}, "
                f"{entry['adjusted']:.3g} adjusted for {len(pairs)} pairs",
            )
        )
    if arguments.given:
        shares = [f"{result.extra[f'explained_{role}']:.0%} of {role}" for role in "xy"]
        text = f"{' and '.join(shares)}, by leave-one-out; what is missed looks like dependence"
        lines.append(("explained", text))
    return lines + verdict(result, arguments)
