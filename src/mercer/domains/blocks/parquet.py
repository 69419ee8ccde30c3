"""Parquet files: numbers of a range of rows for `RowBlocks`, and cells of tables in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.domains.blocks.block import BlockPlace, block_rows, column_names
from mercer.domains.blocks.files import FileMark, kept_open, list_files, release
from mercer.domains.blocks.parts import BlockPart
from mercer.domains.tables import NumberCells, RepeatedCells, Table
from mercer.errors import InvalidInput, refusal, said
from mercer.settings import get_config

ENDINGS = (".parquet", ".pq")
BUFFER = 2**16  # bytes read at a time of a column: a whole one of a large row group need not fit


def pyarrow_parquet() -> Any:
    """Return pyarrow's Parquet module, or say how to install it."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise refusal(
            "RowBlocks", "Parquet files need pyarrow; pip install 'mercer[cli]', or use .npy files."
        ) from None
    return parquet


def open_parquet(path: str, name: str, damaged: str = "", **options: Any) -> Any:
    """Return the open file; one that is damaged is refused in these words, or as RowBlocks do."""
    parquet = pyarrow_parquet()
    file = open(path, "rb")  # noqa: SIM115 - a file object: a path could name a remote store
    try:
        return parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False, **options)
    except Exception as error:  # pyarrow has exception classes of its own
        file.close()
        words = damaged or f"{name!r} is damaged, truncated, or no Parquet file"
        text = f"{words}: {_reason(error)}"
        raise (InvalidInput(text) if damaged else refusal("RowBlocks", text)) from None


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


@contextmanager
def _opened(name: str, damaged: str = "", **options: Any) -> Iterator[Any]:
    file = open_parquet(name, name, damaged, **options)
    try:
        yield file
    finally:
        file.close(force=True)


@dataclass(frozen=True)
class _Wanted:
    """Which columns are points, targets and weights."""

    columns: tuple[str, ...]
    target: tuple[str, ...]
    one_target: bool
    weight: str | None
    all_others: bool  # whether the points have all columns that are not dropped
    texts: int = 0  # how many of the columns hold text or categories, in some file

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
        with kept_open() as own:
            return self._split(self._read(own if memo is None else memo))

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
            raise InvalidInput(
                f"RowBlocks: rows {self.first} to {self.first + self.stop - self.start - 1} of "
                f"{self.mark.name!r} cannot be read: {_reason(error)}"
            ) from None

    def _split(self, table: Any) -> tuple[Any, Any, Any]:
        wanted = self.wanted
        X = Table.from_frame(table.select(wanted.columns)) if wanted.texts else self._array(table)
        y = None
        if wanted.target:
            values = [_values(table.column(name)) for name in wanted.target]
            y = values[0] if wanted.one_target else np.column_stack(values)
        w = None if wanted.weight is None else _numbers(table.column(wanted.weight))
        return X, y, w

    def _array(self, table: Any) -> np.ndarray:
        """Return the points where all of them are numbers."""
        names = self.wanted.columns
        narrow = all(_is_narrow(table.schema.field(n).type) for n in names)
        X = np.empty((table.num_rows, len(names)), np.float32 if narrow else np.float64)
        for j, name in enumerate(names):
            X[:, j] = _numbers(table.column(name))
        return X


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


def _is_text(kind: Any) -> bool:
    """Whether a column holds text or categories, or nothing at all."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_dictionary, types.is_null)
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


def parquet_parts(
    path: Any,
    target: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    weight: str | None,
    drop: Sequence[str],
    wanted_rows: int | None,
) -> tuple[list[BlockPart], int]:
    """Return readers of the blocks of Parquet files of the same columns, and how many files.

    The files are looked at but not read. Small row groups are read together and large ones are cut.
    """
    names = list_files(path, ENDINGS, "Parquet")
    files: list[tuple[FileMark, list[int]]] = []  # with the rows of each group
    texts: set[str] = set()
    wanted: Any = None
    first: tuple[str, ...] = ()
    for name in names:
        mark = FileMark.of(name)
        with _opened(name) as file:
            schema, meta = file.schema_arrow, file.metadata
            if wanted is None:
                first = tuple(schema.names)
                wanted = _wanted(first, name, target, columns, weight, drop)
            elif columns is None and set(schema.names) != set(first):
                raise _other_names(name, set(schema.names), names[0], set(first))
            texts |= _check_schema(schema, name, wanted)
            files.append((mark, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]))
    wanted = replace(wanted, texts=len(texts))
    row_bytes = 8 * len(wanted.names) + (_TEXT_CELL + _ENCODED) * len(texts)
    step = block_rows(wanted_rows, row_bytes, get_config().memory)
    parts, before = [], 0
    for mark, groups in files:
        rows = 0  # of this file so far
        for some, size in _gathered(groups, step):
            for start in range(0, size, step):
                stop, at = min(start + step, size), rows + start
                reader = ParquetReader(mark, some, start, stop, step, wanted, at)
                place = BlockPlace(repr(mark.name), at, wanted.columns)
                parts.append(BlockPart(reader, before + at, stop - start, place))
            rows += size
        before += rows
    return parts, len(files)


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
    roles = {"target": targets, "column": chosen, "weight": special[len(targets) :], "drop": drop}
    absent = [(role, n) for role, some in roles.items() for n in some if n not in names]
    if absent:
        role, name = absent[0]
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


def _check_schema(schema: Any, name: str, wanted: _Wanted) -> set[str]:
    """Return which columns of the points hold text; refuse those that no model can read."""
    missing = [n for n in wanted.names if n not in schema.names]
    if missing:
        raise InvalidInput(
            f"RowBlocks: {name!r} has no column {missing[0]!r}, which other files have; all files "
            "must have the same columns."
        )
    kinds = {n: schema.field(n).type for n in (*wanted.columns, *filter(None, [wanted.weight]))}
    texts = {n for n, kind in kinds.items() if n != wanted.weight and _is_text(kind)}
    odd = [n for n, kind in kinds.items() if n not in texts and not _is_number(kind)]
    if not odd:
        return texts
    first, others = odd[0], [column for column in odd if column != wanted.weight]
    if first == wanted.weight:
        cure = f"weight={first!r} must name a column of numbers"
    elif wanted.all_others:
        them = "it" if len(others) == 1 else f"{' and '.join(map(repr, others))}"
        leave = f"leave {'it' if len(others) == 1 else 'them'} out: drop={others!r}"
        cure = f"encode {them}, or {leave}"
    else:
        cure = "encode it, or take it out of columns="
    raise InvalidInput(
        f"RowBlocks: column {first!r} of {name!r} holds {kinds[first]} values where numbers "
        f"{'' if first == wanted.weight else 'or text '}belong; {cure}."
    )


def _other_names(name: str, has: set[str], first: str, expected: set[str]) -> InvalidInput:
    more, less = sorted(has - expected), sorted(expected - has)
    parts = ([f"has {more[0]!r} too"] if more else []) + ([f"lacks {less[0]!r}"] if less else [])
    return InvalidInput(
        f"RowBlocks: {name!r} has other columns than {first!r}: it {' and '.join(parts)}. All "
        "files must have the same columns, or name those to use: columns=[...]."
    )


# ---- Cells of tables: rows as Python values, a batch at a time; messages name the file first ----


# Bytes of memory for a row, a cell and a cell of text as Python objects, and for a byte of text.
_ROW, _CELL, _TEXT_CELL, _TEXT = 200, 60, 95, 5
_ENCODED = 8 * 100  # for a cell of text as the indicator of a hundred categories
MOST_ROWS = 2**15  # of a batch
SHARE = 4  # a batch takes at most this part of the budget


def parquet_libraries() -> tuple[Any, Any]:
    """Return pyarrow, or else polars, which reads and writes whole files only."""
    with suppress(ImportError):
        import pyarrow

        return pyarrow, None
    try:
        import polars

        return None, polars
    except ImportError:
        raise InvalidInput(
            "Parquet files need pyarrow; install it with pip install 'mercer[cli]', or use CSV."
        ) from None


@contextmanager
def _file_first() -> Iterator[None]:
    """Take the name of `RowBlocks`, which have no part in it, off a refusal."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(said(error, "RowBlocks")) from None


@_file_first()
def cells_size(path: str, drop: Collection[str] = (), damaged: str = "") -> tuple[int, int]:
    """Return the rows of a file or folder, and the bytes that their cells take in memory.

    They are counted from the metadata: a column of one value takes next to nothing in the file,
    and as much as any other in memory.
    """
    rows, needed = 0, 0
    for name in list_files(path, ENDINGS, "Parquet"):
        with _opened(name, damaged) as file:
            rows, needed = rows + file.metadata.num_rows, needed + _needed(file, drop)
    return rows, needed


def cell_batches(
    path: str, budget: int | None = None, drop: Collection[str] = ()
) -> Iterator[tuple[str, int, dict[str, Sequence[Any]]]]:
    """Yield the rows of a file or folder in batches that fit the budget several times.

    A batch is the file, the number of rows before it there, and the cells of each column: numbers,
    text, truth values and None; dates become text, decimals numbers. Dropped columns are empty.
    """
    with _file_first():
        files = list_files(path, ENDINGS, "Parquet")
        for name in files:
            with _opened(name) as file:
                meta, names, texts = file.metadata, list(file.schema_arrow.names), _texts(file)
                each = _needed(file, drop) / max(1, meta.num_rows)
            if not meta.num_rows and len(files) > 1:
                continue
            _check_names(names, name)
            step = MOST_ROWS if budget is None else min(MOST_ROWS, int(budget / (SHARE * each)))
            read = [n for n in names if n not in drop]
            # A text is held once however many rows of a batch have it, as in the file.
            with _opened(name, metadata=meta, read_dictionary=texts) as file:
                batches = file.iter_batches(batch_size=max(1, step), columns=read)
                first = 0
                for batch in _readable(batches, name):
                    none = RepeatedCells([], np.full(batch.num_rows, -1))
                    cells: dict[str, Sequence[Any]] = dict.fromkeys(names, none)
                    for n, column in zip(read, batch.columns, strict=True):
                        cells[n] = _cells(column, n, name)
                    yield name, first, cells
                    first += batch.num_rows


def _readable(batches: Iterator[Any], name: str) -> Iterator[Any]:
    """Yield batches; say of which file those are that cannot be read."""
    try:
        yield from batches
    except OSError as error:
        raise InvalidInput(f"{name}: cannot be read as Parquet: {_reason(error)}") from error


def _cells(column: Any, name: str, path: str) -> Sequence[Any]:
    """Return the cells of a column of a batch."""
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) or types.is_float64(kind) or types.is_float32(kind):
        absent = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        whole = column if absent is None else column.fill_null(0)
        return NumberCells(whole.to_numpy(zero_copy_only=False), absent)
    if not types.is_dictionary(kind):
        try:
            column = column.dictionary_encode()
        except NotImplementedError:  # a kind that pyarrow does not compare
            return [_plain(v, name, path) for v in column.to_pylist()]
    codes, listed = column.indices.fill_null(-1).to_numpy(zero_copy_only=False), column.dictionary
    if len(listed) > len(codes):  # a batch has the whole dictionary of a file
        used, codes = np.unique(codes, return_inverse=True)
        codes = codes.reshape(-1) - np.count_nonzero(used < 0)
        listed = listed.take(used[used >= 0])
    values = [_plain(v, name, path) for v in listed.to_pylist()]
    return _without_none(values, codes)


def _without_none(values: list[Any], codes: np.ndarray) -> RepeatedCells:
    """Return cells by their values, among which a dictionary of a file may name none."""
    if None not in values:
        return RepeatedCells(values, codes)
    kept = [i for i, value in enumerate(values) if value is not None]
    place = np.full(len(values) + 1, -1)
    place[kept] = np.arange(len(kept))
    return RepeatedCells([values[i] for i in kept], place[codes])


def polars_cells(path: str, allow: Callable[[int], None]) -> dict[str, list]:
    """Return the cells of a file without pyarrow; `allow` is asked for the bytes of memory."""
    polars = parquet_libraries()[1]
    try:
        with open(path, "rb") as file:  # a file object: a path could name a remote store
            schema = polars.read_parquet_schema(file)
            file.seek(0)
            rows = polars.scan_parquet(file).select(polars.len()).collect().item()
            texts = [n for n, kind in schema.items() if kind == polars.String]
            needed = _memory(rows, len(schema), len(texts))
            allow(needed)
            file.seek(0)
            frame = polars.read_parquet(file)
        allow(needed + _TEXT * sum(int(frame[n].str.len_bytes().sum()) for n in texts))
    except (ImportError, OSError, InvalidInput):
        raise
    except Exception as error:  # polars has exception classes of its own
        raise InvalidInput(f"{path}: cannot be read as Parquet: {_reason(error)}") from error
    _check_names(frame.columns, path)
    return {n: [_plain(v, n, path) for v in frame[n].to_list()] for n in frame.columns}


@_file_first()
def column_types(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return how columns of a file or folder, as far as they are there, are written again."""
    pyarrow, _ = parquet_libraries()
    if pyarrow is None:
        return {}
    with _opened(list_files(path, ENDINGS, "Parquet")[0]) as file:
        schema = file.schema_arrow
    types = pyarrow.types
    out = {}
    for name in (n for n in names if n in schema.names):
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = types.is_integer(kind) or types.is_boolean(kind)
        number = types.is_floating(kind) or types.is_decimal(kind)
        out[name] = kind if plain else pyarrow.float64() if number else pyarrow.string()
    return out


def _check_names(names: Sequence[str], path: str) -> None:
    if len(set(names)) < len(names):
        twice = next(n for n in names if list(names).count(n) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}; rename one.")
    if not names:
        raise InvalidInput(f"{path}: the table has no columns.")


def _texts(file: Any) -> list[str]:
    """Return the columns of text."""
    from pyarrow import types

    kinds = {f.name: f.type for f in file.schema_arrow}
    return [n for n, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]


def _needed(file: Any, drop: Collection[str]) -> int:
    """Return the bytes that the cells take as Python values, those of texts as in the pages."""
    used = [n for n in file.schema_arrow.names if n not in drop]
    needed = _memory(file.metadata.num_rows, len(used), len({*_texts(file)} - {*drop}))
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema not in drop:
                needed += _TEXT * chunk.total_uncompressed_size
    return needed


def _memory(rows: int, columns: int, texts: int) -> int:
    return rows * (_ROW + _CELL * (columns - texts) + _TEXT_CELL * texts)


def _plain(value: Any, name: str, path: str) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "as_tuple"):  # decimal.Decimal
        return float(value)
    raise InvalidInput(
        f"{path}: column {name!r} holds a {type(value).__name__}; columns may hold numbers, text, "
        "truth values and dates. Leave it out of the file."
    )
