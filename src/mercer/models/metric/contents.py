"""What a model takes the columns of a table for, and which of them it leaves out."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import RowBlocks, Table, Tables, is_torch
from mercer.errors import InvalidInput, users_level, who
from mercer.estimator import check_weights
from mercer.features import read_rows
from mercer.kernels import ColumnKind, column_kinds
from mercer.models.metric.strings import FREE

IDENTIFIER, DATES, DATED = "an identifier", ("dates;", "durations;"), "dates as text"
SAID = "as asked"


@dataclass(frozen=True)
class Contents:
    """Rows of a table, what `column_kinds` says of its columns, and what is said to be categories.

    `rows` are the positions of the rows of positive weight among all that were given.
    """

    Z: Any
    rows: np.ndarray
    count: int  # of all rows that were given
    found: dict[Any, ColumnKind]
    categorical: Any

    @classmethod
    def of(
        cls, X: Any, categorical: Any, kinds: Mapping[Any, str] | None, sample_weight: Any = None
    ) -> Contents | None:
        """Return those of a table; None of an array of numbers, and of what is no table.

        Rows of weight 0 are left out.
        """
        if kinds is None and (is_torch(X) or (isinstance(X, np.ndarray) and X.dtype != object)):
            return None
        try:
            Z = read_rows(X, None)
            n = Z.shape[0]
            weights = check_weights(sample_weight, n, relative=True)
            rows = np.arange(n) if weights is None else np.flatnonzero(weights)
            Z = Z if weights is None else Tables().take(Z, rows)
            said = () if categorical is None else categorical
            found = column_kinds(Z, categorical=said, kinds=kinds)
            _refuse_declared(Z, found)
            return cls(Z, rows, n, found, categorical)
        except (InvalidInput, TypeError) as error:
            if kinds is None:
                return None  # an encoder speaks of it
            raise InvalidInput(str(error).replace("auto_kernel:", f"{who()}:")) from error

    @classmethod
    def of_blocks(
        cls, blocks: RowBlocks, categorical: Any, kinds: Any, rows: int, random_state: Any
    ) -> tuple[Contents | None, dict[Any, None], Any]:
        """Return those of some rows of blocks, what is left out, and the targets of these rows.

        Numbers of the rows are those that count in the first block, and differ in all others seen.
        Where the first block leaves no doubt nothing else is looked at, and there are no targets.
        """
        first = cls.of(blocks.first().X, categorical, kinds)
        if first is None or not (first.free or first.doubtful or first.has_objects):
            return first, {}, None
        X, y, weight = blocks.sample(rows, random_state, with_targets=True)
        told = cls.of(X, categorical, kinds, weight)
        if told is None:
            return first, {}, None
        return told, told.left_out(first.numbered()), y

    @property
    def has_objects(self) -> bool:
        """Whether there are columns of other things than numbers."""
        columns = self.Z.columns if isinstance(self.Z, Table) else ()
        return any(column.dtype == object for column in columns)

    @property
    def free(self) -> bool:
        """Whether there is text, strings or graphs, which have kernels of their own."""
        return any(column.kind in FREE for column in self.found.values())

    def categories(self) -> Any:
        """Return the columns that somebody calls categories, as an encoder takes them."""
        told = [k for k, c in self.found.items() if c == ColumnKind("category", SAID)]
        return told or self.categorical

    def left_out(self, numbered: Collection[Any] | None = None) -> dict[Any, None]:
        """Return the columns that say nothing of other rows, and warn of each.

        They are identifiers and dates of a table with names, and beside text, strings and graphs
        whatever an encoder does not read. Where no other column would be left, identifiers stay.
        `numbered` are the numbers among the identifiers, where other rows tell them.
        """
        gone = {key: reason for key, reason, _ in self._nameless(numbered)}
        others = [k for k, c in self.found.items() if c.kind != "left out" and k not in gone]
        if not others:
            gone = {k: reason for k, reason in gone.items() if reason.startswith((SAID, *DATES))}
        for key, reason in gone.items():
            if reason == SAID or reason.startswith("all values"):  # of which nobody need know
                continue
            warnings.warn(
                f"{who()}: column {key!r} is left out: {reason}{self._cure(key, reason)}.",
                UserWarning,
                stacklevel=users_level(),
            )
        if gone and len(gone) == len(self.found):
            raise InvalidInput(
                f"{who()}: no column is left to learn from: "
                + "; ".join(f"{key!r}: {reason}" for key, reason in list(gone.items())[:5])
                + ". Keep one with kinds=, or give other columns."
            )
        return dict.fromkeys(gone)

    @property
    def doubtful(self) -> bool:
        """Whether there are columns that may have to be left out."""
        reasons = [c.reason for c in self.found.values() if c.kind == "left out"]
        return not all(reason.startswith("all values") for reason in reasons)

    def numbered(self) -> list[Any]:
        """Return the columns of numbers that are identifiers."""
        return [k for k, reason, x in self._nameless() if reason != SAID and x.dtype != object]

    def _nameless(
        self, numbered: Collection[Any] | None = None
    ) -> list[tuple[Any, str, np.ndarray]]:
        columns = self.Z.columns if isinstance(self.Z, Table) else list(np.asarray(self.Z).T)
        named = isinstance(self.Z, Table) and self.Z.named
        out = []
        for (key, (kind, reason)), values in zip(self.found.items(), columns, strict=True):
            number = values.dtype.kind in "fiu"
            nameless = named and reason.startswith((IDENTIFIER, *DATES, DATED))
            if number and numbered is not None:
                nameless = key in numbered and len(set(values.tolist())) == len(values)
            unread = self.free and not number  # of infinite numbers the encoder speaks
            if nameless and kind != "left out":  # which other rows tell
                kind, reason = "left out", f"{IDENTIFIER}: it numbers the rows"
            if kind == "left out" and (reason == SAID or nameless or unread):
                out.append((key, reason, values))
        return out

    def _cure(self, key: Any, reason: str) -> str:
        """Return how a column is kept."""
        if reason.startswith((IDENTIFIER, DATED)):
            text = reason.startswith(DATED) or reason.endswith("texts that all differ")
            return f"; kinds={{{key!r}: {'category' if text else 'number'!r}}} keeps it"
        return ""


def _refuse_declared(Z: Any, found: Mapping[Any, ColumnKind]) -> None:
    """Refuse what is said to be numbers where a frame says that it is categories."""
    for key, column in found.items():
        if column == ColumnKind("number", SAID) and key in getattr(Z, "declared", ()):
            raise InvalidInput(
                f"{who()}: kinds calls the column {key!r} numbers, and the table declares it "
                "categories or truth values; convert it first, as in astype(float)."
            )
