"""What a block of rows must hold: numbers with a place in a file, and a sum that tells of changes.

Targets and weights are judged when a block is read, the points when their domain is known. Every
refusal names the file (or argument) and the row in it.
"""

from __future__ import annotations

import difflib
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, check_structure
from mercer.domains.tables import Table, is_frame
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput, who

MOST_ROWS = 2**16  # of a block: longer ones gain nothing
MOST_BYTES = 2**28
SHOWN = 40  # names of columns in a message
PLAIN = {str, int, float, bool, type(None)}
SHARE = 16  # a block is at most this part of the budget: some are read, held and multiplied at once


@dataclass(frozen=True)
class BlockPlace:
    """Where rows stand: in which file or argument, and from which row of it on."""

    name: str
    first: int = 0
    columns: tuple[str, ...] | None = None

    def at(self, row: int, column: int | None = None) -> str:
        """Say where a cell is."""
        if column is None:
            return f"row {self.first + row} of {self.name}"
        label = column if self.columns is None else repr(self.columns[column])
        return f"row {self.first + row}, column {label} of {self.name}"


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, their targets and weights.

    Parameters
    ----------
    start : int
        The number of the first row among all rows.
    X : collection
        The points.
    y : array of shape (rows,) or (rows, t), optional
        Targets.
    weight : array of shape (rows,), optional
        Weights.
    place : BlockPlace
        Where they come from, for messages.
    """

    start: int
    X: Any
    y: Any = None
    weight: Any = None
    place: BlockPlace = BlockPlace("X")

    def __len__(self) -> int:
        return count(self.X)

    @property
    def source(self) -> str:
        """Where the rows come from, in words."""
        return self.place.name

    def points(self, domain: Domain) -> Any:
        """Return the points in canonical form; what is refused is named by file and row.

        Parameters
        ----------
        domain : Domain
            That of the kernel.
        """
        try:
            return domain.check(self.X, "X")
        except InvalidInput as error:
            raise self.blamed(error) from error

    def blamed(self, error: Exception) -> InvalidInput:
        """Return the error of points of this block, with the file and the row in it."""
        X = self.X
        if isinstance(X, Table):
            try:
                X = X.numeric()
            except InvalidInput:  # text may be right there, infinity is not
                floats = [c if c.dtype.kind == "f" else np.zeros(len(c)) for c in X.columns]
                X = np.column_stack([np.where(np.isnan(c), 0.0, c) for c in floats])
        elif isinstance(X, list):
            with suppress(TypeError, ValueError):
                X = np.asarray(X, dtype=np.float64)
        X = to_host(X)
        if getattr(X, "ndim", 0) == 2 and X.dtype.kind == "f":
            entries = sp.coo_array(X) if isinstance(X, np.ndarray) else X.tocoo()
            bad = np.flatnonzero(~np.isfinite(entries.data))
            if len(bad):
                at = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
                i, j = int(entries.row[at]), int(entries.col[at])
                cure = (
                    ", or let the kernel take missing values: kernel.with_missing()"
                    if np.isnan(entries.data[at])
                    else ""
                )
                return InvalidInput(
                    f"RowBlocks: {entries.data[at]} at {self.place.at(i, j)}; kernels need finite "
                    f"numbers. Drop such rows or fill them in the file{cure}."
                )
        first = self.place.first
        last = first + len(self) - 1
        text = re.sub(r"(?<=\bat row )\d+", lambda row: str(first + int(row[0])), str(error))
        return InvalidInput(f"rows {first} to {last} of {self.place.name}: {text}")


def as_points(X: Any) -> Any:
    """Return points that can be counted and sliced: frames as a `Table`, sparse ones as CSR."""
    if sp.issparse(X):
        return check_structure(X, who(), "X").tocsr()
    return Table.from_frame(X) if is_frame(X) else X


def column_names(names: Sequence[str], wanted: str = "") -> str:
    """Say which columns there are, and which is nearest to one that is not there."""
    near = difflib.get_close_matches(wanted, names, 1)
    more = f", … ({len(names)} in all)" if len(names) > SHOWN else ""
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}its columns are {', '.join(map(repr, names[:SHOWN]))}{more}"


def no_weight() -> InvalidInput:
    """Return the error of weights that are all zero."""
    return InvalidInput(
        f"{who()}: all sample weights are zero, so no row would count; give at least one positive "
        "weight."
    )


def count(X: Any) -> int:
    """Return the number of points of any collection."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def block_rows(wanted: int | None, row_bytes: int, memory: int) -> int:
    """Return how many rows a block has: as asked, or what the memory budget lets several have."""
    if wanted is not None:
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or wanted < 1:
            raise InvalidInput(f"RowBlocks: block_rows={wanted!r}; give a whole number ≥ 1.")
        return int(wanted)
    size = min(MOST_BYTES, memory // SHARE)
    return int(max(1, min(MOST_ROWS, size // max(1, row_bytes))))


def judged(y: Any, name: str, rows: int, place: BlockPlace) -> Any:
    """Return targets or weights of a block as an array, or refuse them by file and row.

    Parameters
    ----------
    y : array-like or None
        One value a row; targets may have several, or be labels.
    name : {"target", "weight"}
        What they are.
    rows : int
        How many rows the block has.
    place : BlockPlace
        Where they stand.
    """
    if y is None:
        return None
    y = to_host(y)
    y = np.asarray(y.numeric() if isinstance(y, Table) else y)
    if name == "weight" and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    most = 2 if name == "target" else 1
    if not 1 <= y.ndim <= most or len(y) != rows:
        legal = f"({rows},)" + (f" or ({rows}, outputs)" if most == 2 else "")
        raise InvalidInput(
            f"RowBlocks: the {name}s of {place.at(0)} and on have shape {y.shape}; legal is "
            f"{legal}, one {name} for each row."
        )
    if y.dtype.kind == "O":
        y = _objects(y, name, place)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y.reshape(rows, -1)).all(axis=1))[0])
        raise InvalidInput(
            f"RowBlocks: the {name} at {place.at(row)} is {y[row]}; give finite numbers, or drop "
            "the row."
        )
    if name == "weight":
        if y.dtype.kind not in "fiub":
            raise InvalidInput(f"RowBlocks: the weights of {place.name} are no numbers: {y.dtype}.")
        if (y < 0).any():
            row = int(np.argmax(y < 0))
            raise InvalidInput(
                f"RowBlocks: the weight at {place.at(row)} is {y[row]}; weights are ≥ 0."
            )
    if y.dtype.kind in "cmMV":
        raise InvalidInput(
            f"RowBlocks: the {name}s of {place.name} have dtype {y.dtype}; give numbers or labels."
        )
    return y


def _objects(y: np.ndarray, name: str, place: BlockPlace) -> np.ndarray:
    """Return Python objects as numbers where they are, as text labels otherwise; refuse None."""
    lost = [i for i, v in enumerate(y.ravel()) if v is None or v != v]
    if lost:
        row = lost[0] // max(1, y.size // max(1, len(y)))
        raise InvalidInput(
            f"RowBlocks: the {name} at {place.at(row)} is missing; fill it or drop the row."
        )
    numbers = np.array(y.tolist())
    return numbers if numbers.dtype.kind in "fiubU" else y


def checksum(*values: Any) -> int:
    """Return a number that changes when the content does, at the cost of reading it: a CRC-32.

    Arrays, tensors, CSR matrices and tables count by their bytes, text and numbers by what they
    say, collections and data classes by what they hold, graphs by their nodes and edges. Other
    objects count by their type alone.
    """
    crc = 0
    for value in values:
        crc = _checksum(value, crc)
    return crc


def _checksum(A: Any, crc: int) -> int:
    A = to_host(A)
    if isinstance(A, np.ndarray) and A.dtype.kind not in "OT":
        return zlib.crc32(np.ascontiguousarray(A).reshape(-1).view(np.uint8).data, crc)
    parts: Any
    if isinstance(A, np.ndarray):
        parts = (*A.shape, *A.ravel())
        if {*map(type, parts)} <= PLAIN:  # at once: a column of text
            return zlib.crc32(repr(parts).encode("utf-8", "replace"), crc)
    elif sp.issparse(A):
        parts = (A.data, A.indices, A.indptr) if A.format == "csr" else (A.tocsr(),)
    elif isinstance(A, Table):
        parts = A.columns
    elif A is None or isinstance(A, str | bytes | bool | int | float | complex | np.generic):
        return zlib.crc32(repr(A).encode("utf-8", "replace"), crc)
    elif isinstance(A, dict):
        parts = (len(A), *A.items())
    elif isinstance(A, set | frozenset):
        parts = sorted(map(repr, A))
    elif is_dataclass(A):
        parts = [getattr(A, field.name) for field in fields(A)]
    elif callable(getattr(A, "nodes", None)) and callable(getattr(A, "edges", None)):  # NetworkX
        parts = (list(A.nodes(data=True)), list(A.edges(data=True)))
    elif "__reduce__" in vars(type(A)):  # a Graph
        parts = A.__reduce__()[1]
    elif hasattr(A, "__len__") and hasattr(A, "__iter__"):
        parts = (len(A), *A)
    else:
        parts = (type(A).__qualname__,)
    for part in parts:
        crc = _checksum(part, crc)
    return crc
