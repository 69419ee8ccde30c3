"""Parts: readers of one block each, that any process may call, and a list of them as a source."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.blocks.block import (
    Block,
    BlockPlace,
    as_points,
    block_rows,
    checksum,
    count,
    judged,
    no_weight,
)
from mercer.domains.blocks.files import FileMark, kept_open
from mercer.domains.tables import Table
from mercer.domains.vectors import is_torch, namespace
from mercer.errors import InvalidInput, speaks
from mercer.settings import get_config

HEAD = 64  # rows that tell data from other data


@dataclass(frozen=True, eq=False)
class ArrayReader:
    """Some rows of collections in memory; only these rows are pickled."""

    X: Any
    y: Any
    weight: Any
    start: int
    stop: int

    def __call__(self) -> tuple[Any, Any, Any]:
        """Return the points, targets and weights of the rows."""
        a, b = self.start, self.stop
        y, w = (None if A is None else A[a:b] for A in (self.y, self.weight))
        return self.X[a:b], y, w

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayReader, (*self(), 0, self.stop - self.start)


def array_parts(X: Any, y: Any, weight: Any, wanted_rows: int | None) -> list[BlockPart]:
    """Return readers of the blocks of collections in memory, or of what gives rows by slices.

    Parameters
    ----------
    X, y, weight : collections of the same number of rows; y and weight may be None
        Points, targets and weights.
    wanted_rows : int, optional
        Rows of a block; from the memory budget by default.
    """
    X, y, weight = (as_points(A) for A in (X, y, weight))
    n = _size(X, "X")
    for name, A in (("y", y), ("sample_weight", weight)):
        if A is not None and _size(A, name) != n:
            raise InvalidInput(
                f"RowBlocks: X has {n} rows and {name} has {count(A)}; give one for each row."
            )
    shape: tuple[int, ...] = getattr(X, "shape", (n,))
    row_bytes = 8 * ((shape[1] if len(shape) > 1 else 1) + 2)
    step = block_rows(wanted_rows, row_bytes, get_config().memory)
    names = X.names if getattr(X, "named", False) else None
    cuts = [(a, min(a + step, n)) for a in range(0, n, step)]
    return [
        BlockPart(ArrayReader(X, y, weight, a, b), a, b - a, BlockPlace("X", a, names))
        for a, b in cuts
    ]


def _size(A: Any, name: str) -> int:
    """Return the number of rows of an argument, or refuse what has none."""
    if getattr(A, "shape", None) == () or not (hasattr(A, "shape") or hasattr(A, "__len__")):
        raise InvalidInput(
            f"RowBlocks: {name} is a {type(A).__name__}, no collection of rows; give an array, a "
            "frame or a list."
        )
    return count(A)


@dataclass(frozen=True, eq=False)
class Weighing:
    """A change of weights: they are multiplied by a function of the targets."""

    factors: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class BlockView:
    """What is changed of a block: values from memory, targets, columns, then the points."""

    y: Any = None
    weight: Any = None
    changes: tuple[Callable[[Any], Any] | Weighing, ...] = ()
    columns: tuple[int, ...] | None = None
    points: Callable[[Any], Any] | None = None

    def of(self, start: int, rows: int) -> BlockView:
        """Return the view of some rows only."""
        return self.at(slice(start, start + rows))

    def at(self, index: Any) -> BlockView:
        """Return the view of the rows at some positions."""
        y, w = (None if A is None else A[index] for A in (self.y, self.weight))
        return replace(self, y=y, weight=w)

    def __call__(self, block: Block) -> Block:
        """Return the block as it is seen; the view is of its rows."""
        y = block.y if self.y is None else self.y
        weight = block.weight if self.weight is None else self.weight
        for change in self.changes if y is not None else ():
            if isinstance(change, Weighing):
                weight = change.factors(y) * (1.0 if weight is None else weight)
            else:
                y = change(y)
        X, place = block.X, block.place
        if self.columns is not None:
            index = list(self.columns)
            X = X.select(index) if isinstance(X, Table) else X[:, index]
            names = place.columns
            place = replace(place, columns=names and tuple(names[j] for j in index))
        block = replace(block, X=X, y=y, weight=weight, place=place)
        if self.points is None:
            return block
        try:
            X = self.points(X)
        except (InvalidInput, TypeError) as error:
            raise block.blamed(error) from error
        names = X.names if getattr(X, "named", False) else None
        return replace(block, X=X, place=replace(place, columns=names))


@dataclass(frozen=True, eq=False)
class BlockPart:
    """A reader of one block: call it, in any process, and it returns the `Block`, checked.

    Parameters
    ----------
    reader : callable
        Returns (X, y, weight).
    start, rows : int
        The first row among all rows, and how many there are.
    place : BlockPlace
        Where they stand, for messages.
    view : BlockView, optional
        What is changed of the block.
    """

    reader: Callable[..., tuple[Any, Any, Any]]
    start: int
    rows: int
    place: BlockPlace
    view: BlockView | None = None

    @property
    def stop(self) -> int:
        """The row behind the last."""
        return self.start + self.rows

    def __call__(self, memo: dict[str, Any] | None = None) -> Block:
        """Read the block.

        Parameters
        ----------
        memo : dict, optional
            What the part before left open, for parts that are read in order.
        """
        sequential = getattr(self.reader, "sequential", False)
        values = self.reader(memo) if sequential else self.reader()
        block = make_block(self.start, values, self.place)
        if len(block) != self.rows:
            raise InvalidInput(
                f"RowBlocks: {self.place.name} had {self.rows} rows from row {self.place.first} on "
                f"and now has {len(block)}; every pass must see the same rows."
            )
        return block if self.view is None else self.view(block)


def make_block(start: int, values: Sequence[Any], place: BlockPlace) -> Block:
    """Return a block of points, targets and weights, the latter two checked."""
    X = as_points(values[0])
    rows = count(X)
    if not rows:
        return Block(start, X, place=place)
    y = judged(values[1], "target", rows, place)
    return Block(start, X, y, judged(values[2], "weight", rows, place), place)


def take_points(X: Any, index: np.ndarray) -> Any:
    """Return some points of any collection."""
    if isinstance(X, list | tuple):
        return [X[i] for i in index]
    return X[index]


def join_points(pieces: Sequence[Any]) -> Any:
    """Return the points of several collections of one kind, one after the other."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if isinstance(first, Table):
        out = first
        for piece in pieces[1:]:
            out = out.joined(piece)
        return out
    if sp.issparse(first):
        return sp.vstack(pieces, format="csr")
    if is_torch(first):
        return namespace(first).concatenate(list(pieces))
    if isinstance(first, list):
        return [x for piece in pieces for x in piece]
    return np.concatenate([np.asarray(piece) for piece in pieces])


class RowSource(ABC):
    """Where blocks come from, pass after pass; a pass that differs from the first is refused."""

    #: Where the rows come from, in words.
    what: str
    #: How many they are; None before they were counted.
    rows: int | None
    #: Folders of which all files are read.
    folders: tuple[str, ...] = ()

    def __init__(self, what: str, rows: int | None):
        self.what, self.rows = what, rows
        self.seen: dict[int, int] = {}
        self._labels: tuple[bool, str] | None = None  # whether targets are text, and where

    @abstractmethod
    def read(self, first: int) -> Iterator[Block]:
        """Yield the blocks in order, the first few left out."""

    def blocks(self, first: int = 0) -> Iterator[Block]:
        """Yield the blocks in order; refuse one that reads differently than before."""
        for block in self.read(first):
            known = checksum(block.X, block.y, block.weight)
            self.compare(block.start, len(block), block.place, known)
            self._check_kind(block)
            yield block

    def _check_kind(self, block: Block) -> None:
        """Refuse text among numbers: 0 and "0" would be two classes, or one."""
        if block.y is None:
            return
        text = block.y.dtype.kind in "OSU"
        self._labels = self._labels or (text, block.source)
        if self._labels[0] != text:
            kinds = ("numbers", "text") if text else ("text", "numbers")
            raise InvalidInput(
                f"RowBlocks: the targets are {kinds[0]} in {self._labels[1]} and {kinds[1]} in "
                f"{block.source}; give them one type in all blocks."
            )

    def compare(self, start: int, rows: int, place: BlockPlace, known: int) -> None:
        """Refuse a block with another checksum than it had before."""
        if self.seen.setdefault(start, known) != known:
            raise InvalidInput(
                f"RowBlocks: rows {place.first} to {place.first + rows - 1} of {place.name} "
                "changed between two passes; every pass must see the same rows. Make the RowBlocks "
                "anew, and leave the data alone while they are used."
            )

    def take_rows(self, index: np.ndarray) -> tuple[Any, Any, Any]:
        """Return points, targets and weights at ascending positions."""
        return joined_rows(_some_rows(block, index) for block in self.blocks())

    def marks(self) -> list[FileMark]:
        """Return the files that the rows are read from."""
        return []


class PartSource(RowSource):
    """Blocks that are read independently of one another."""

    def __init__(self, parts: Sequence[BlockPart], what: str, folders: tuple[str, ...] = ()):
        super().__init__(what, sum(part.rows for part in parts))
        if not self.rows:
            raise InvalidInput(f"RowBlocks: no rows {what}; give at least one.")
        self.parts, self.folders = list(parts), folders

    def read(self, first: int) -> Iterator[Block]:
        """Yield the blocks in order; files stay open from one to the next."""
        with kept_open() as memo:
            for part in self.parts[first:]:
                yield part(memo)

    def take_rows(self, index: np.ndarray) -> tuple[Any, Any, Any]:
        """Return points, targets and weights at ascending positions; other parts are not read."""
        chosen = [p for p in self.parts if np.diff(np.searchsorted(index, [p.start, p.stop]))]
        with kept_open() as memo:
            return joined_rows(_some_rows(part(memo), index) for part in chosen)

    def marks(self) -> list[FileMark]:
        """Return the files that the rows are read from."""
        found: dict[FileMark, None] = {}
        for part in self.parts:
            found.update(dict.fromkeys(getattr(part.reader, "marks", ())))
        return list(found)


def _some_rows(block: Block, index: np.ndarray) -> list[Any]:
    """Return points, targets and weights of a block at positions among all rows."""
    here = index[slice(*np.searchsorted(index, [block.start, block.start + len(block)]))]
    values = (block.X, block.y, block.weight)
    return [None if A is None else take_points(A, here - block.start) for A in values]


def joined_rows(pieces: Iterable[Sequence[Any]]) -> tuple[Any, Any, Any]:
    """Return the rows of several blocks, one after the other."""
    held = [piece for piece in pieces if count(piece[0])]
    X, y, w = (
        None if column[0] is None else join_points(column) for column in zip(*held, strict=True)
    )
    return X, y, w


def rows_digest(blocks: Any, marks: Sequence[FileMark]) -> str:
    """Return what tells rows from others, however they are cut into blocks."""
    digest = hashlib.blake2b(str(blocks.n_rows).encode(), digest_size=16)
    for mark in marks:
        digest.update(mark.digest.encode())
    head: list[Block] = []
    for block in blocks:
        head.append(block)
        if block.start + len(block) >= HEAD:
            break
    for values in zip(*((b.X, b.y, b.weight) for b in head), strict=True):
        if values[0] is not None:
            digest.update(str(checksum(join_points(values)[:HEAD])).encode())
    return digest.hexdigest()


# ---- Blocks that a function of the user makes, anew at every pass ----


class StreamSource(RowSource):
    """Blocks of a generator function.

    Parameters
    ----------
    f : callable
        ``f()`` returns a fresh iterator over X, (X, y) or (X, y, weight).
    n_rows : int, optional
        How many rows a pass gives.
    """

    def __init__(self, f: Callable[[], Any], n_rows: int | None):
        if not callable(f):
            raise InvalidInput(
                f"RowBlocks: from_generator got a {type(f).__name__}; give the function itself, "
                "not what it returns: it is called again at every pass."
            )
        if n_rows is not None and (
            isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 1
        ):
            raise InvalidInput(f"RowBlocks: n_rows={n_rows!r}; give a whole number ≥ 1, or None.")
        self.name = f"{getattr(f, '__name__', type(f).__name__)}()"
        super().__init__(f"from {self.name}", None if n_rows is None else int(n_rows))
        self.f = f

    def read(self, first: int) -> Iterator[Block]:
        """Yield the blocks in order, counted."""
        start, number, kept = 0, 0, None
        for item in self._iterator():
            block, columns = self._block(item, number, start)
            if not len(block):
                continue
            kept = columns if kept is None else kept
            if columns != kept:
                raise InvalidInput(
                    f"RowBlocks: {block.source} has {_in_words(*columns)}, block 0 has "
                    f"{_in_words(*kept)}; all blocks must have the same columns and targets."
                )
            if self.rows is not None and start + len(block) > self.rows:
                raise self._other_rows(f"more than {self.rows}")
            if number >= first:
                yield block
            start, number = start + len(block), number + 1
        if not start:
            again = (
                ": the function must return a fresh iterator at every call, not one that is used up"
            )
            raise InvalidInput(
                f"RowBlocks {self.what}: no rows{again if self.seen else '; give at least one'}."
            )
        if self.rows is not None and start != self.rows:
            raise self._other_rows(str(start))
        self.rows = start

    def _iterator(self) -> Iterator[Any]:
        made = self.f()
        if isinstance(made, np.ndarray) or not hasattr(made, "__iter__"):
            raise InvalidInput(
                f"RowBlocks {self.what}: the function returned a {type(made).__name__}; let it "
                "yield blocks: X, (X, y) or (X, y, weight)."
            )
        return iter(made)

    def _block(self, item: Any, number: int, start: int) -> tuple[Block, tuple]:
        """Return a block, and the width and names of its columns."""
        values = item if isinstance(item, tuple) else (item,)
        if not 1 <= len(values) <= 3:
            raise InvalidInput(
                f"RowBlocks {self.what}: block {number} is a tuple of {len(values)}; give X, "
                "(X, y) or (X, y, weight)."
            )
        X = as_points(values[0])
        labels = X.names if getattr(X, "named", False) else None
        place = BlockPlace(f"block {number} of {self.name}", 0, labels)
        block = make_block(start, (X, *values[1:], None, None)[:3], place)
        carried = (None if block.y is None else block.y.shape[1:], block.weight is not None)
        return block, (tuple(getattr(X, "shape", ())[1:]), labels, carried)

    def _other_rows(self, came: str) -> InvalidInput:
        return InvalidInput(
            f"RowBlocks {self.what}: {came} rows in this pass, and {self.rows} were given or "
            "counted before; every pass must give the same rows."
        )


def _in_words(
    shape: tuple, labels: tuple[str, ...] | None, carried: tuple[tuple | None, bool]
) -> str:
    columns = f"rows of shape {shape}" if labels is None else f"columns {list(labels)}"
    targets = "no target" if carried[0] is None else "a target"
    targets += f" of shape {carried[0]}" if carried[0] else ""
    return f"{columns}, {targets}, {'a' if carried[1] else 'no'} weight"


# ---- Rows drawn in proportion to their weights, block by block: few of a block are ever held ----


#: Positions among all rows, logarithms of times, and weights.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Arrivals:
    """The first arrivals of a block, each row after an exponential time at the rate of its weight.

    The first of all rows are draws without replacement, each in proportion to the weights that are
    left; a row of weight 2 arrives as the first of two of weight 1, one of weight 0 never
    (Efraimidis and Spirakis 2006). Times belong to positions, so that cuts do not change them.
    """

    seed: int
    m: int

    def __call__(self, block: Block) -> Found:
        """Return at most m + 1 rows of a block: positions, logarithms of times, weights."""
        rows = len(block)
        w = np.ones(rows) if block.weight is None else np.asarray(block.weight, dtype=np.float64)
        bits = np.random.PCG64(self.seed).advance(block.start)  # a row takes one number
        u = np.random.Generator(bits).random(rows)
        some = np.flatnonzero(w > 0)
        with np.errstate(divide="ignore"):  # u = 0 comes first
            times = np.log(-np.log1p(-u[some])) - np.log(w[some])
        first = np.argsort(times, kind="stable")[: self.m + 1]
        return block.start + some[first], times[first], w[some[first]]


@speaks("RowBlocks")
def first_arrivals(found: Sequence[Found], m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return m positions in ascending order, and weights whose sums stand for those of all rows.

    A row comes before the time τ of the first that is left out with probability 1 − exp(−wτ), and
    stands for its weight over that; such sums are right on average (Cohen and Kaplan 2007).

    Parameters
    ----------
    found : sequence of tuples
        What `Arrivals` returns of each block.
    m : int
        How many; all that have weight where they are no more.
    """
    index, times, w = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(index):
        raise no_weight()
    order = np.argsort(times, kind="stable")
    first = order[:m][np.argsort(index[order[:m]])]
    index, weight = index[first], w[first]
    if len(order) > m:
        weight = weight / -np.expm1(-np.exp(np.log(weight) + times[order[m]]))
    return index, weight
