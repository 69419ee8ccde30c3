"""``mercer depend``: do some columns of a table depend on others?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.files import UsageError, missing
from mercer.cli.samples import (
    ColumnShares,
    Encoded,
    Finding,
    adjust,
    adjusted_text,
    check_limit,
    chosen_kernel,
    encode,
    read_rows,
    roles,
    shuffling,
)
from mercer.cli.tables import FileTable
from mercer.errors import InvalidInput, figure
from mercer.settings import config
from mercer.statistics import TestResult, hsic_test, kci_test

if TYPE_CHECKING:
    from mercer.cli.program import Console


SHOWN = 5  # shares that are told
LEVEL = 0.05  # adjusted p-values up to this are a finding, unless --fail-under says another


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Carry out the command."""
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
        shares = None
        if arguments.explain:
            with console.stage("sharing the statistic among columns"):
                shares = _shares(result, parts, arguments.fail_under or LEVEL)
    return _Dependence(arguments, result, source, dropped, parts, pairs, shares).say(console)


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
    if arguments.given and arguments.explain:
        raise UsageError(
            "--explain shares the statistic of a test without --given among columns; leave one out."
        )
    if arguments.given and roles(arguments):
        raise UsageError(
            "--given has no permutations, so neither --blocks nor --strata apply; put the column "
            "of the strata into --given instead."
        )


def _shares(result: TestResult, parts: dict[str, Encoded], level: float) -> ColumnShares:
    """Return what the columns of both have of the statistic."""
    spans = [
        {name: range(span.start, span.stop) for name, span in parts[role].vectors.spans.items()}
        for role in "xy"
    ]
    return ColumnShares.of(replace(result, origin=partial(result.origin, groups=spans)), level)


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
    if len(x.vectors.spans) * len(y.vectors.spans) < 2:
        return []
    given = parts["given"].X if "given" in parts else None
    found: list[dict[str, Any]] = []
    for a, one in x.vectors.spans.items():
        for b, other in y.vectors.spans.items():
            result = _test(x.X[:, one], y.X[:, other], given, arguments, options)
            found.append({"x": a, "y": b, "pvalue": result.pvalue})
    adjust(found)
    return sorted(found, key=lambda f: f["pvalue"])


@dataclass(frozen=True)
class _Dependence(Finding):
    source: FileTable
    dropped: int
    parts: dict[str, Encoded]
    pairs: list[dict[str, Any]]
    shares: ColumnShares | None = None

    def _correlation(self) -> float | None:
        """That of two columns of numbers, as they are in the table."""
        parts = self.parts.values()
        if len(parts) != 2 or any(part.X.shape[1] != 1 for part in parts):
            return None
        x, y = (next(iter(part.vectors.columns.values())) for part in parts)
        return float(np.corrcoef(x, y)[0, 1])

    def outcome(self) -> dict[str, Any]:
        """Return what JSON says."""
        extra = self.result.extra
        return {
            "path": self.source.path,
            "rows": len(self.source),
            "rows_left_out": self.dropped,
            "correlation": self._correlation(),
            "explained": {r: extra.get(f"explained_{r}") for r in "xy"},
            "kernels": {k: repr(extra[k]) for k in ("kernel_x", "kernel_y")},
            "columns": {role: part.account() for role, part in self.parts.items()},
            "x": self.arguments.x,
            "y": self.arguments.y,
            "given": self.arguments.given,
            **self.numbers(),
            "pairs": self.pairs,
            **({} if self.shares is None else {"shares": self.shares.outcome()}),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the report."""
        extra, given = self.result.extra, self.arguments.given
        rows = f"{len(self.source)} of {self.source.path}"
        if self.dropped:
            rows += f"; {self.dropped} with a missing cell left out"
        lines = [("rows", rows)]
        for role, part in self.parts.items():
            lines.append((role, ", ".join(part.vectors.spans)))
            lines += [("left out", f"{n!r}: {why}") for n, why in part.left_out.items()]
        correlation = self._correlation()
        if correlation is not None:
            lines.append(("correlation", figure(correlation)))
        lines += [
            (key.replace("_", " "), str(kernel))
            for key, kernel in extra.items()
            if key in ("kernel_x", "kernel_y")
        ]
        known = f" given {', '.join(given)}" if given else ""
        lines += self.chance(f"x and y were independent{known}")
        among = f"{len(self.pairs)} pairs"
        for pair in self.pairs:
            lines.append(("pair", f"{pair['x']} and {pair['y']}: {adjusted_text(pair, among)}"))
        lines += [] if self.shares is None else self.shares.lines(SHOWN)
        if given:
            shares = [f"{extra[f'explained_{role}']:.0%} of {role}" for role in "xy"]
            text = f"{' and '.join(shares)}, by leave-one-out; what is missed looks like dependence"
            lines.append(("explained", text))
        return lines
