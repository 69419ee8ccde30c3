"""Cells of columns of files, kept in arrays: a Python object is made of one that is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np


class Cells(Sequence[Any]):
    """Cells of a column, which are looked at together."""

    @abstractmethod
    def tolist(self) -> list[Any]:
        """Return the cells as Python objects."""

    @abstractmethod
    def take(self, rows: np.ndarray) -> Cells:
        """Return the cells of some rows."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.tolist() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place]).tolist()
        at = range(len(self))[place]  # of what is not there, Python's error
        return self.take(np.array([at])).tolist()[0]


class NumberCells(Cells):
    """Whole numbers or floats, some of which may be absent.

    Parameters
    ----------
    values : ndarray
        The numbers; any where none is.
    absent : ndarray of bool, optional
        Where there is none.
    """

    def __init__(self, values: np.ndarray, absent: np.ndarray | None = None):
        self.values, self.absent = values, absent

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[Any]:
        """Return the cells as Python objects."""
        cells = self.values.tolist()
        for i in [] if self.absent is None else np.flatnonzero(self.absent).tolist():
            cells[i] = None
        return cells

    def take(self, rows: np.ndarray) -> NumberCells:
        """Return the cells of some rows."""
        absent = None if self.absent is None else self.absent[rows]
        return NumberCells(self.values[rows], absent)

    def plain(self) -> np.ndarray:
        """Return the cells as floats, NaN where there is none."""
        out = self.values.astype(float, copy=self.absent is not None)
        if self.absent is not None:
            out[self.absent] = np.nan
        return out


class WrittenCells(Cells):
    """Numbers as a file writes them, whose text is read where somebody asks for it.

    Parameters
    ----------
    values : ndarray of float
        The numbers; NaN where the text says that there is none.
    decimal : str
        The decimal mark.
    read : callable
        Returns the text of all rows of the file.
    rows : ndarray of int, optional
        Which of them these are; None for all.
    """

    def __init__(
        self,
        values: np.ndarray,
        decimal: str,
        read: Callable[[], list[str]],
        rows: np.ndarray | None = None,
    ):
        self.values, self.decimal, self.read, self.rows = values, decimal, read, rows

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[Any]:
        """Return the text of the cells."""
        texts = self.read()
        return texts if self.rows is None else [texts[i] for i in self.rows.tolist()]

    def take(self, rows: np.ndarray) -> WrittenCells:
        """Return the cells of some rows."""
        own = rows if self.rows is None else self.rows[rows]
        return WrittenCells(self.values[rows], self.decimal, self.read, own)

    def plain(self) -> np.ndarray:
        """Return the numbers, NaN where there is none."""
        return self.values


class RepeatedCells(Cells):
    """Cells among which many are equal: the values there are, and which of them each cell is.

    Parameters
    ----------
    values : list
        Text, truth values or numbers, each kind of its own.
    codes : ndarray of int
        The position of each cell's value; -1 for None.
    """

    def __init__(self, values: list[Any], codes: np.ndarray):
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def tolist(self) -> list[Any]:
        """Return the cells as Python objects."""
        return self.mapped(lambda value: value).tolist()

    def take(self, rows: np.ndarray) -> RepeatedCells:
        """Return the cells of some rows."""
        return RepeatedCells(self.values, self.codes[rows])

    def mapped(self, change: Callable[[Any], Any]) -> np.ndarray:
        """Return for each cell what becomes of its value, as objects; what is absent is None."""
        out = np.empty(len(self.values) + 1, dtype=object)
        out[:-1] = [change(value) for value in self.values]  # the last stands for None
        return out[self.codes]

    def used(self) -> tuple[list[Any], list[int]]:
        """Return the values that some cell has, in the order of the cells, and how many have it."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))
        first = np.full(len(self.values), len(self.codes))
        there = np.flatnonzero(self.codes >= 0)
        first[self.codes[there[::-1]]] = there[::-1]
        order = np.argsort(first, kind="stable")[: int(np.count_nonzero(counts))]
        return [self.values[i] for i in order.tolist()], counts[order].tolist()


def joined(parts: Iterable[Sequence[Any]]) -> Sequence[Any]:
    """Return the cells of parts of a column, one after the other."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    numbers = [part for part in parts if isinstance(part, NumberCells)]
    if len(numbers) == len(parts) and len({part.values.dtype for part in numbers}) == 1:
        gaps = [part.absent for part in numbers]
        marks = [
            np.zeros(len(part), dtype=bool) if part.absent is None else part.absent
            for part in numbers
        ]
        absent = None if all(gap is None for gap in gaps) else np.concatenate(marks)
        return NumberCells(np.concatenate([part.values for part in numbers]), absent)
    repeated = [part for part in parts if isinstance(part, RepeatedCells)]
    if len(repeated) == len(parts):
        known: dict[tuple[type, Any], int] = {}  # 1, 1.0 and True are three values of a file
        codes = []
        for part in repeated:
            own = [known.setdefault((type(v), v), len(known)) for v in part.values]
            codes.append(np.array([*own, -1], dtype=np.int64)[part.codes])
        return RepeatedCells([value for _, value in known], np.concatenate(codes))
    return [cell for part in parts for cell in part]
