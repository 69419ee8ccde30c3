"""A table that memory does not hold, for ``mercer fit``: its cells read once, then read in blocks.

Random rows told what the columns hold. All rows are read as those were, and kept beside the output
for the passes of a fit, numbers as numbers and text as text.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from mercer.cli.files import missing
from mercer.cli.preparation import Prepared
from mercer.cli.report import HELD_OUT, HELD_SHARE, Score, judge, reach_told
from mercer.cli.tables import FileTable, drawn_rows, table_batches
from mercer.domains import RowBlocks
from mercer.domains.blocks import pyarrow_parquet
from mercer.errors import InvalidInput
from mercer.features import TableColumns
from mercer.settings import get_config

#: Rows that are held out at most: a score of so many has little error of its own.
MOST_HELD = 10_000
_HELD_ROW = 1000  # bytes that a row held out is worth at least
_LINEAR = 64  # bytes of the budget for each pair of columns of a linear model
_DISTINCT = 100_000  # categories of a column that are counted


@dataclass(frozen=True)
class Streamed(Prepared):
    """A table in files that are read in blocks, of which some rows are in memory."""

    rows: int = 0
    held: int = 0
    folder: str = ""
    gaps: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    shares: dict[Any, int] = field(default_factory=dict)
    mean: float = 0.0

    def __len__(self) -> int:
        return self.rows

    def missing(self) -> dict[str, int]:
        """Return the number of missing cells of each column that has any."""
        return self.gaps

    def distinct(self) -> dict[str, int]:
        """Return the number of categories of each column of categories, missing not counted."""
        return {n: k for n, k in self.texts.items() if n in self.categories and n not in self.free}

    def blocks(self, part: str = "fit") -> RowBlocks:
        """Return the rows to fit ("fit") or those held out ("held")."""
        return RowBlocks.from_parquet(os.path.join(self.folder, part), self.target_name)

    def held_out(self, model: Any) -> Score | None:
        """Return the score of a model on the rows that were held out."""
        if not self.held:
            return None
        held = self.blocks("held")
        true = np.concatenate([block.y for block in held])
        counts = None
        if self.task == "classification":
            labels = sorted(self.shares)
            counts = np.array(labels), np.array([self.shares[label] for label in labels])
        score = judge(model, held, true, self.mean, counts)
        return replace(score, linear=self._linear_error(model, true), reach=reach_told(model))

    def _linear_error(self, model: Any, true: np.ndarray) -> float | None:
        """Return the error of a linear model of the encoded columns, by their normal equations."""
        if isinstance(model.encoder_, TableColumns):
            return None
        classes = np.array(sorted(self.shares)) if self.task == "classification" else None
        gram: Any = 0.0
        cross: Any = 0.0
        for Z, y in self._encoded(model, "fit"):
            if Z.shape[1] ** 2 > get_config().memory // _LINEAR:
                return None
            gram = gram + Z.T @ Z
            targets = y[:, None] - self.mean if classes is None else y[:, None] == classes
            cross = cross + Z.T @ targets.astype(float)
        gram.flat[:: len(gram) + 1] += 1e-9 * np.trace(gram) / len(gram)  # columns may be alike
        coef = np.linalg.solve(gram, cross)
        found = np.concatenate([Z @ coef for Z, _ in self._encoded(model, "held")])
        if classes is not None:
            return float(np.mean(classes[found.argmax(axis=1)] != true))
        return float(np.sqrt(np.mean((self.mean + found[:, 0] - true) ** 2)))

    def _encoded(self, model: Any, part: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in self.blocks(part).as_tables():
            Z = model.encode(block.X)
            yield np.column_stack([np.ones(len(Z)), Z]), block.y


@contextmanager
def streamed(
    data: Prepared, arguments: argparse.Namespace, drawn: tuple[int, int]
) -> Iterator[Streamed]:
    """Read all rows of a table as some of them were read, and let them be read in blocks.

    How many of them, and the seed, is told by `drawn`.
    """
    home = os.path.dirname(os.path.abspath(arguments.output))
    folder = tempfile.mkdtemp(prefix=".mercer-", dir=home)
    try:
        yield _Typed(data, arguments, folder).all_rows(drawn)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Typed:
    """The cells of a table as a model takes them, written to files in one pass."""

    def __init__(self, data: Prepared, arguments: argparse.Namespace, folder: str):
        self.data, self.arguments, self.folder = data, arguments, folder
        self.gaps: Counter[str] = Counter()
        self.texts: dict[str, set[str]] = {n: set() for n in data.categories}
        self.shares: Counter[Any] = Counter()
        self.sizes = {"fit": 0, "held": 0}
        self.total = 0.0
        self.dropped = 0

    def all_rows(self, drawn: tuple[int, int]) -> Streamed:
        """Write all rows, some of them held out by their position."""
        held, passed = self._positions(drawn), 0
        writers: dict[str, Any] = {}
        where = self.arguments.table, self.arguments.encoding, get_config().memory
        drop = self.arguments.drop
        try:
            for batch in table_batches(*where, self.arguments.decimal, drop):
                positions = passed + np.arange(len(batch))
                passed += len(batch)
                apart = np.isin(positions, held, assume_unique=True)
                present = np.array([not missing(c) for c in self._cells(batch)], dtype=bool)
                self.dropped += int((~present).sum())
                for part, rows in (("fit", ~apart & present), ("held", apart & present)):
                    if rows.any():
                        some = np.flatnonzero(rows).tolist()
                        self._write(writers, part, batch if rows.all() else batch.take(some))
        finally:
            for writer in writers.values():
                with suppress(Exception):  # the disk may be full, and that is said already
                    writer.close()
        own = {f.name: getattr(self.data, f.name) for f in fields(Prepared)}
        return Streamed(
            **own | {"dropped_rows": self.dropped, "sampled_from": 0},
            rows=sum(self.sizes.values()),
            held=self.sizes["held"],
            folder=self.folder,
            gaps={n: self.gaps[n] for n in self.data.table.names if self.gaps[n]},
            texts={n: len(found) for n, found in self.texts.items()},
            shares=dict(self.shares),
            mean=self.total / max(1, self.sizes["fit"]),
        )

    def _positions(self, drawn: tuple[int, int]) -> np.ndarray:
        """Return the rows to hold out, none of which told what the columns hold."""
        n, arguments = self.data.sampled_from, self.arguments
        most = min(MOST_HELD, get_config().memory // _HELD_ROW)
        share = HELD_SHARE if arguments.test_fraction is None else arguments.test_fraction
        count = min(most, round(share * n)) if n >= HELD_OUT else 0
        if not count:
            return np.zeros(0, dtype=np.int64)
        some = np.random.default_rng([arguments.seed, 1]).choice(n, count, replace=False)
        return np.setdiff1d(some, drawn_rows(n, drawn))

    def _cells(self, batch: FileTable) -> Any:
        return batch.cells(self.data.target_name, "target column")

    def _write(self, writers: dict[str, Any], part: str, batch: FileTable) -> None:
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for name in self.data.table.names:
            if self.data.table[name].dtype == object:
                values = batch.categories(name)
                absent = sum(v is None for v in values)
                columns[name] = pa.array(values.tolist(), pa.string())
                if name in self.texts and len(self.texts[name]) < _DISTINCT:
                    self.texts[name].update(v for v in values if v is not None)
            else:
                numbers = batch.numbers(name)
                absent = int(np.isnan(numbers).sum())
                columns[name] = pa.array(numbers)
            self.gaps[name] += absent
        target = self._target(batch)
        if part == "fit" and self.data.task == "classification":
            self.shares.update(target.tolist())
        elif part == "fit":
            self.total += float(target.sum())
        columns[self.data.target_name] = pa.array(target.tolist())
        table = pa.table(columns)
        if part not in writers:
            os.mkdir(os.path.join(self.folder, part))
            path = os.path.join(self.folder, part, "rows.parquet")
            writers[part] = pyarrow_parquet().ParquetWriter(path, table.schema)
        writers[part].write_table(table)
        self.sizes[part] += len(batch)

    def _target(self, batch: FileTable) -> np.ndarray:
        """Return targets as those that are known: numbers, whole numbers or text."""
        name, known = self.data.target_name, self.data.target.dtype
        if known.kind not in "fi":
            return batch.categories(name).astype(str)
        values = batch.numbers(name)
        if known.kind == "f":
            return values
        odd = np.flatnonzero((values != np.round(values)) | (np.abs(values) >= 2**53))
        if len(odd):
            i = int(odd[0])
            raise InvalidInput(
                f"{batch.where(i, name)}: {self._cells(batch)[i]!r} is no class like those of "
                "other rows, whole numbers; correct the cell, or give --task regression."
            )
        return values.astype(np.int64)
