"""Parquet files by row groups: columns of numbers of a range of rows, read in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains.blocks.block import Place, block_rows, column_names
from mercer.domains.blocks.files import FileMark, list_files, release
from mercer.errors import InvalidInput
from mercer.settings import get_config

ENDINGS = (".parquet", ".pq")
BUFFER = 2**16  # bytes read at a time of a column: a whole one of a large row group need not fit


def pyarrow_parquet() -> Any:
    """Return pyarrow's Parquet module, or say how to install it."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidInput(
            "RowBlocks: Parquet files need pyarrow; pip install 'mercer[cli]', or use .npy files."
        ) from None
    return parquet


def open_parquet(path: str, name: str, **options: Any) -> Any:
    """Return the open file, or name one that is damaged.

    Parameters
    ----------
    path, name : str
        The file, and what messages call it.
    **options : dict
        Options of ``pyarrow.parquet.ParquetFile``.
    """
    parquet = pyarrow_parquet()
    file = open(path, "rb")  # noqa: SIM115 - a file object: a path could name a remote store
    try:
        return parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, **options)
    except Exception as error:  # pyarrow has exception classes of its own
        file.close()
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            f"RowBlocks: {name!r} is damaged, truncated, or no Parquet file: {reason}"
        ) from None


@dataclass(frozen=True)
class _Wanted:
    """Which columns are points, targets and weights."""

    columns: tuple[str, ...]
    target: tuple[str, ...]
    one_target: bool
    weight: str | None
    all_others: bool  # whether the points have all columns that are not dropped

    @property
    def names(self) -> list[str]:
        return [*dict.fromkeys((*self.columns, *self.target, *filter(None, [self.weight])))]


@dataclass(frozen=True)
class ParquetReader:
    """Some rows of consecutive row groups of a file."""

    mark: FileMark
    groups: tuple[int, ...]
    start: int  # rows, counted from the first of the groups
    stop: int
    step: int
    wanted: _Wanted
    first: int  # number of the first row in the file

    sequential = True  # it goes on where the memo of the last call ends

    def __call__(self, memo: dict[str, Any] | None = None) -> tuple[Any, Any, Any]:
        """Return the points, targets and weights of the rows.

        Parameters
        ----------
        memo : dict, optional
            What the reader before this one left open; used where this one goes on from there.
        """
        self.mark.require_same()
        own: dict[str, Any] = {}
        try:
            return self._split(self._read(own if memo is None else memo))
        finally:
            release(own)

    @property
    def marks(self) -> tuple[FileMark, ...]:
        """The file."""
        return (self.mark,)

    def _read(self, memo: dict[str, Any]) -> Any:
        """Return the rows as a table of pyarrow, from where the memo stands if it can."""
        cursor = memo.get("cursor")
        if cursor is None or not cursor.continues(self):
            if "file" not in memo or memo.get("mark") != self.mark:
                release(memo)
                memo.update(file=open_parquet(self.mark.path, self.mark.name), mark=self.mark)
            cursor = memo["cursor"] = _Cursor(memo["file"], self)
        try:
            return cursor.read(self.start, self.stop)
        except InvalidInput:
            raise
        except Exception as error:  # pyarrow has exception classes of its own
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidInput(
                f"RowBlocks: rows {self.first} to {self.first + self.stop - self.start - 1} of "
                f"{self.mark.name!r} cannot be read: {reason}"
            ) from None

    def _split(self, table: Any) -> tuple[Any, Any, Any]:
        wanted = self.wanted
        narrow = all(_is_narrow(table.schema.field(n).type) for n in wanted.columns)
        X = np.empty((table.num_rows, len(wanted.columns)), np.float32 if narrow else np.float64)
        for j, name in enumerate(wanted.columns):
            X[:, j] = _numbers(table.column(name))
        y = None
        if wanted.target:
            values = [_values(table.column(name)) for name in wanted.target]
            y = values[0] if wanted.one_target else np.column_stack(values)
        w = None if wanted.weight is None else _numbers(table.column(wanted.weight))
        return X, y, w


class _Cursor:
    """A place in the row groups of an open file, which moves forward only."""

    def __init__(self, file: Any, reader: ParquetReader):
        self.key = (reader.mark, reader.groups, reader.wanted)
        self.at = 0
        self.rest: Any = None
        self.batches: Iterator[Any] = file.iter_batches(
            batch_size=reader.step,
            row_groups=list(reader.groups),
            columns=reader.wanted.names,
            use_threads=False,
        )

    def continues(self, reader: ParquetReader) -> bool:
        """Whether a reader begins at this place or behind it."""
        same = self.key == (reader.mark, reader.groups, reader.wanted)
        return same and self.at <= reader.start

    def read(self, start: int, stop: int) -> Any:
        """Return rows as a table of pyarrow."""
        import pyarrow as pa

        pieces = []
        while self.at < stop:
            batch = next(self.batches, None) if self.rest is None else self.rest
            self.rest = None
            if batch is None:
                raise InvalidInput(
                    f"RowBlocks: {self.key[0].name!r} ends {stop - self.at} rows too early."
                )
            size = batch.num_rows
            low = max(0, start - self.at)
            high = min(size, stop - self.at)
            if low < high:
                pieces.append(batch.slice(low, high - low))
            if high < size:
                self.rest = batch.slice(high)
            self.at += high
        return pa.Table.from_batches(pieces)


def _is_narrow(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_float32(kind) or pa.types.is_float16(kind)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(column: Any) -> np.ndarray:
    """A column as floats, NaN where there is no value."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy()


def _values(column: Any) -> np.ndarray:
    """A column of targets: numbers, truth values, or labels as objects."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count == 0 and (
        pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    ):
        return column.to_numpy()
    if _is_number(column.type):
        return _numbers(column)
    return np.array(column.to_pylist(), dtype=object)


class ParquetRows:
    """Parquet files of the same columns, looked at but not read.

    Parameters
    ----------
    path : path-like or sequence of them
        A file, a folder, or several.
    target : str or sequence of str, optional
        Columns of targets.
    columns : sequence of str, optional
        Columns of the points; all others by default.
    weight : str, optional
        Column of weights.
    drop : sequence of str, default=()
        Columns that are none of these.
    """

    def __init__(
        self,
        path: Any,
        target: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        drop: Sequence[str] = (),
    ):
        self.names = list_files(path, ENDINGS, "Parquet")
        self.files: list[tuple[FileMark, list[int]]] = []  # with the rows of each group
        self.wanted: _Wanted | None = None
        first: tuple[str, ...] = ()
        for name in self.names:
            mark = FileMark.of(name)
            file = open_parquet(name, name)
            try:
                schema = file.schema_arrow
                if self.wanted is None:
                    first = tuple(schema.names)
                    self.wanted = _wanted(first, name, target, columns, weight, drop)
                elif columns is None and set(schema.names) != set(first):
                    raise _other_names(name, set(schema.names), self.names[0], set(first))
                _check_schema(schema, name, self.wanted)
                meta = file.metadata
                groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
            finally:
                file.close(force=True)
            self.files.append((mark, groups))

    def readers(self, wanted_rows: int | None) -> list[tuple[int, Place, ParquetReader]]:
        """Return rows, place and reader of every block.

        Small row groups are read together and large ones are cut.

        Parameters
        ----------
        wanted_rows : int, optional
            Rows of a block; from the memory budget by default.
        """
        wanted: Any = self.wanted
        step = block_rows(wanted_rows, 8 * len(wanted.names), get_config().memory)
        out = []
        for mark, groups in self.files:
            first = 0
            for some, rows in _gathered(groups, step):
                for start in range(0, rows, step):
                    stop = min(start + step, rows)
                    reader = ParquetReader(mark, some, start, stop, step, wanted, first + start)
                    place = Place(repr(mark.name), first + start, wanted.columns)
                    out.append((stop - start, place, reader))
                first += rows
        return out


def _gathered(groups: list[int], step: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield consecutive row groups that make a block together, and their rows."""
    held: list[int] = []
    rows = 0
    for i, size in enumerate(groups):
        if held and rows + size > step:
            yield tuple(held), rows
            held, rows = [], 0
        held.append(i)
        rows += size
    if rows:
        yield tuple(held), rows


def _wanted(
    names: tuple[str, ...],
    file: str,
    target: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    weight: str | None,
    drop: Sequence[str],
) -> _Wanted:
    """Return which columns are what, or refuse names that are not in the first file."""
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    for what, given in (("columns", columns), ("drop", drop)):
        if isinstance(given, str):
            raise InvalidInput(f"RowBlocks: {what}={given!r}; give a list of names: [{given!r}].")
    if columns is not None and len(drop):
        raise InvalidInput("RowBlocks: columns= and drop= are two ways to choose; give one.")
    special = (*targets, *filter(None, [weight]))
    left = tuple(n for n in names if n not in special and n not in drop)
    chosen = left if columns is None else tuple(columns)
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InvalidInput(f"RowBlocks: {file!r} has two columns called {twice!r}; rename one.")
    for role, some in (
        ("target", targets),
        ("column", chosen),
        ("weight", special[len(targets) :]),
        ("drop", tuple(drop)),
    ):
        for name in some:
            if name not in names:
                known = column_names(names, name)
                raise InvalidInput(f"RowBlocks: {role} {name!r} is not in {file!r}; {known}.")
    both = [n for n in (*chosen, *drop) if n in special] or [n for n in targets if n == weight]
    if both:
        raise InvalidInput(
            f"RowBlocks: column {both[0]!r} is asked for in two roles; points, target, weight and "
            "drop are different columns."
        )
    if columns is None and not chosen:
        raise InvalidInput(
            f"RowBlocks: no column of {file!r} is left for the points; drop fewer than all: its "
            f"columns are {', '.join(map(repr, names))}."
        )
    if len(set(chosen)) < len(chosen) or not chosen:
        raise InvalidInput(
            f"RowBlocks: columns={list(chosen)!r} of {file!r}; give at least one name, each once."
        )
    return _Wanted(chosen, targets, isinstance(target, str), weight, columns is None)


def _check_schema(schema: Any, name: str, wanted: _Wanted) -> None:
    missing = [n for n in wanted.names if n not in schema.names]
    if missing:
        raise InvalidInput(
            f"RowBlocks: {name!r} has no column {missing[0]!r}, which other files have; all files "
            "must have the same columns."
        )
    kinds = {n: schema.field(n).type for n in (*wanted.columns, *filter(None, [wanted.weight]))}
    odd = [column for column, kind in kinds.items() if not _is_number(kind)]
    if not odd:
        return
    first, texts = odd[0], [column for column in odd if column != wanted.weight]
    if first == wanted.weight:
        cure = f"weight={first!r} must name a column of numbers"
    elif wanted.all_others:
        them = "it" if len(texts) == 1 else f"{' and '.join(map(repr, texts))}"
        cure = f"encode {them}, or leave {'it' if len(texts) == 1 else 'them'} out: drop={texts!r}"
    else:
        cure = "encode it, or take it out of columns="
    raise InvalidInput(
        f"RowBlocks: column {first!r} of {name!r} holds {kinds[first]} values where numbers "
        f"belong; {cure}."
    )


def _other_names(name: str, has: set[str], first: str, expected: set[str]) -> InvalidInput:
    more, less = sorted(has - expected), sorted(expected - has)
    parts = ([f"has {more[0]!r} too"] if more else []) + ([f"lacks {less[0]!r}"] if less else [])
    return InvalidInput(
        f"RowBlocks: {name!r} has other columns than {first!r}: it {' and '.join(parts)}. All "
        "files must have the same columns, or name those to use: columns=[...]."
    )
