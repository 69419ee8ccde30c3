"""What tests, clusters and components of tables share: rows as vectors, kernels, findings."""

from __future__ import annotations

import argparse
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mercer.cli.files import UsageError, missing
from mercer.cli.preparation import choose_columns, odd_notation, remark
from mercer.cli.report import column_lines, layout
from mercer.cli.tables import FileTable, read_table
from mercer.errors import InvalidInput, figure
from mercer.features import TableEncoder
from mercer.kernels import Kernel, as_kernel, identifier
from mercer.settings import get_config
from mercer.statistics import TableVectors, TestExplanation, TestResult, table_vectors
from mercer.statistics.two_sample import holm

if TYPE_CHECKING:
    from mercer.cli.program import Console

MOST_PAIRED = 20  # columns up to which pairs share as well
BELOW = 3  # exit code: the p-value is below --fail-under


@dataclass(frozen=True)
class Encoded:
    """Rows of a table as vectors, and how they came about."""

    source: FileTable
    vectors: TableVectors
    left_out: dict[str, str] = field(default_factory=dict)  # columns, and why
    remarks: tuple[str, ...] = ()

    @property
    def X(self) -> np.ndarray:
        """The vectors, one a row."""
        return self.vectors.X

    @property
    def encoder(self) -> TableEncoder:
        """What turned the columns into vectors."""
        return self.vectors.encoder

    def account(self) -> dict[str, Any]:
        """Return the columns used and left out, and the remarks, for JSON."""
        kinds = dict(zip(self.encoder.columns_, self.encoder.kinds_, strict=True))
        return {
            "numbers": [n for n, kind in kinds.items() if kind == "number"],
            "categories": [n for n, kind in kinds.items() if kind != "number"],
            "left_out": self.left_out,
            "remarks": list(self.remarks),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines of a report on the columns."""
        encoder, source = self.encoder, self.source
        cells = {n: source.cells(n) for n in encoder.columns_ if n in source.columns}
        empty = {n: sum(map(missing, column)) for n, column in cells.items()}
        texts = [n for n, k in zip(encoder.columns_, encoder.kinds_, strict=True) if k != "number"]
        distinct = {
            n: len(set(source.categories(n).tolist()) - {None}) for n in texts if n in cells
        }
        return [
            *column_lines(encoder, {n: k for n, k in empty.items() if k}, distinct),
            *(("left out", f"{n!r}: {why}") for n, why in self.left_out.items()),
        ]


def read_rows(path: str, arguments: argparse.Namespace, console: Console) -> FileTable:
    """Read a table, and keep some random rows where so many were asked for."""
    with console.stage(f"reading {path}"):
        most = None if arguments.max_rows is None else (arguments.max_rows, arguments.seed)
        where = path, arguments.encoding, get_config().memory, arguments.decimal
        source = read_table(*where, most)
    if arguments.max_rows is not None and len(source) > arguments.max_rows:
        rng = np.random.default_rng(arguments.seed)
        rows = rng.choice(len(source), arguments.max_rows, replace=False)
        return source.take(sorted(rows.tolist()))
    return source


def encode(
    source: FileTable,
    arguments: argparse.Namespace,
    *,
    only: Sequence[str] | None = None,
    skip: Collection[str] = (),
    categorical: Collection[str] = (),
    robust: bool = False,
    split: int = 0,
    console: Console,
) -> Encoded:
    """Choose columns, `only` these or all but some, and turn the rows into vectors.

    So many rows are those of one table, the others of another; 0 where there is one table.
    """
    for name in (*arguments.drop, *arguments.categorical, *(only or ())):
        source.cells(name)
    text = {*arguments.categorical, *categorical}
    if only is not None:
        source = replace(source, columns={n: source.columns[n] for n in only})
    odd = odd_notation(source, {*arguments.drop, *text, *skip})
    for warning in odd.values():
        console.warn(f"{source.path}: {warning}")
    columns, left_out = choose_columns(source, arguments.drop, text, odd, skip, split=split)
    numbers = {n: values for n, values in columns.items() if values.dtype != object}
    found = [(n, identifier(values, n)) for n, values in numbers.items() if not split]
    return Encoded(
        source,
        table_vectors(columns, arguments.max_categories, robust),
        left_out,
        tuple(remark(n, why) for n, why in found if why is not None),
    )


def labels_of(source: FileTable, name: str, role: str) -> np.ndarray:
    """Return a column of labels, none of them missing."""
    cells = source.cells(name, f"column of {role}")
    gaps = [i for i, cell in enumerate(cells) if missing(cell)]
    if gaps:
        raise InvalidInput(
            f"{source.where(gaps[0], name)}: is empty, and {role} needs a label in every row."
        )
    return np.array([str(cell) for cell in cells], dtype=object)


# ---- Tests: kernel, shuffling, findings ----


def shuffling(source: FileTable, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how rows are shuffled, as keywords of a test."""
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
    """Refuse a limit that no p-value can be below: such a check would never fire."""
    limit = arguments.fail_under
    if limit is not None and least >= limit:
        needed = int(np.ceil(1 / limit))
        raise UsageError(
            f"--fail-under {limit:g} can never be: the smallest p-value of "
            f"{arguments.permutations} permutations is {figure(least)}; give "
            f"--permutations {needed} or more."
        )


def chosen_kernel(arguments: argparse.Namespace, name: str | None = None) -> Kernel:
    """Return the kernel, its length scale as given or the median distance where it has one."""
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


def roles(arguments: argparse.Namespace) -> set[str]:
    """Return the columns that say how rows are shuffled, which are no data."""
    return {name for name in (arguments.blocks, arguments.strata) if name is not None}


def count_text(count: int, what: str) -> str:
    """Return a number of things in words; they are called in the singular."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def adjust(found: list[dict[str, Any]]) -> None:
    """Add to each of several p-values the one adjusted for all of them."""
    for entry, adjusted in zip(found, holm([f["pvalue"] for f in found]), strict=True):
        entry["adjusted"] = float(adjusted)


@dataclass(frozen=True)
class ColumnShares:
    """What columns and pairs have of a statistic, for a report or JSON."""

    told: TestExplanation
    kernels: str  # in words
    level: float  # p-values up to this are called a finding

    @classmethod
    def of(cls, result: TestResult, level: float) -> ColumnShares:
        """Explain a test, in pairs where its columns are not very many."""
        told = result.explain(pairs=False)
        if len(told.columns) <= MOST_PAIRED:
            told = result.explain()
        used = [str(k) for name, k in result.extra.items() if name.startswith("kernel")]
        return cls(told, " and ".join(dict.fromkeys(used)), level)

    def outcome(self) -> dict[str, Any]:
        """Return what JSON says."""
        shares = [asdict(share) for share in self.told.shares]
        return {"statistic": self.told.statistic, "kernel": self.kernels, "of": shares}

    def lines(self, top: int) -> list[tuple[str, str]]:
        """Return the lines of a report: what chance does not explain, so many at most."""
        told, whole = self.told, figure(self.told.statistic)
        lines = [("explained", f"the statistic {whole} of {self.kernels}, by {told.among}")]
        chances = [(share, cast(float, share.adjusted)) for share in told.shares]
        found = [(share, p) for share, p in chances if p <= self.level]
        if not found:
            nothing = f"none is more than chance gives (p-value {figure(chances[0][1])} adjusted)"
            return [*lines, ("share", nothing)]
        for share, p in found[:top]:
            often = f"chance gives any of them as much in {figure(100 * p)} % of cases"
            lines.append(("share", f"{share.name}: {figure(share.value)}; {often}"))
        more = len(found) - top
        return lines + ([("share", f"and {more} more")] if more > 0 else [])


@dataclass(frozen=True)
class Finding(ABC):
    """What a test of a table found: a report or JSON, and an exit code."""

    arguments: argparse.Namespace
    result: TestResult

    @abstractmethod
    def lines(self) -> list[tuple[str, str]]:
        """Return the report, but for the exit code."""

    @abstractmethod
    def outcome(self) -> dict[str, Any]:
        """Return what JSON says, but for the numbers of the test."""

    @property
    def code(self) -> int:
        """3 where a limit is given and the finding is below it, else 0."""
        return BELOW if self.arguments.fail_under is not None and self.below else 0

    @property
    def below(self) -> bool:
        """Whether the p-value is below the limit that is given."""
        return self.result.pvalue < self.arguments.fail_under

    def say(self, console: Console) -> int:
        """Print what was found, and return the exit code."""
        limit, code = self.arguments.fail_under, self.code
        if self.arguments.json:
            text = json.dumps(self.outcome(), ensure_ascii=False, indent=2, default=_plain)
        elif limit is None:
            text = layout(self.lines())
        else:
            under = "" if self.result.pvalue < limit else "not "
            differ = ", but no value in both" if under and code else ""
            below = f"p-value {under}below {limit:g}{differ}: exit {code}"
            text = layout([*self.lines(), ("limit", below)])
        console.say(text)
        return code

    def numbers(self) -> dict[str, Any]:
        """Return what JSON says of every test."""
        return {
            "statistic": self.result.statistic,
            "pvalue": self.result.pvalue,
            "pvalue_interval": list(self.result.confidence_interval()),
            "method": self.result.method,
            "permutations": self.result.n_permutations,
            "fail_under": self.arguments.fail_under,
            "below": bool(self.code),
        }

    def chance(self, hypothesis: str) -> list[tuple[str, str]]:
        """Return the lines of every report: the statistic, the p-value and what it means."""
        result = self.result
        rests = f"{figure(result.pvalue)}, {result.method}"
        if result.n_permutations:
            low, high = result.confidence_interval()
            exact = f"; 95% interval {figure(low)} to {figure(high)}" if high > low else ""
            rests += f", {result.n_permutations} draws{exact}"
        share = f"{figure(100 * result.pvalue)} %"
        meaning = f"if {hypothesis}, p would be as small in {share} of cases"
        return [
            ("statistic", figure(result.statistic)),
            ("p-value", rests),
            ("meaning", meaning),
        ]


def adjusted_text(entry: Mapping[str, Any], among: str) -> str:
    """Return a p-value of several, and the one adjusted for all of them."""
    pvalue, adjusted = figure(entry["pvalue"]), figure(entry["adjusted"])
    return f"p-value {pvalue}, {adjusted} adjusted for {among}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
