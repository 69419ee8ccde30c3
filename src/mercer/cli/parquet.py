"""Parquet in and out, through pyarrow or else polars."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from mercer.cli.tables import FileTable, check_budget
from mercer.domains.blocks import ENDINGS, list_files, open_parquet
from mercer.errors import InvalidInput

__all__ = ["column_types", "parquet_batches", "parquet_bytes", "parquet_size", "read_parquet"]

_PLAIN = (str, bool, int, float, type(None))
# Bytes of memory for a row, a cell and a cell of text as Python objects, and for a byte of text.
_ROW, _CELL, _TEXT_CELL, _TEXT = 200, 60, 110, 4
MOST_ROWS = 2**15  # of a batch
SHARE = 4  # a batch takes at most this part of the budget
_TOO_LARGE = (
    " mercer fit --max-rows N takes N random rows; all rows fit with "
    "mercer.KernelRidge(solver='falkon') on mercer.RowBlocks.from_parquet(...) in Python, columns "
    "of text encoded or dropped."
)


def read_parquet(
    path: str,
    budget: int | None = None,
    most: tuple[int, int] | None = None,
    drop: Collection[str] = (),
) -> FileTable:
    """Return the columns of a Parquet file, or of all in a folder, as Python values.

    Parameters
    ----------
    path : str
        The file or folder.
    budget : int, optional
        Bytes of memory that may be used. Rows, columns and text are counted from the metadata: a
        column of one value takes next to nothing in the file, and as much as any other in memory.
    most : (int, int), optional
        How many random rows to read where all do not fit, and the seed.
    drop : collection of str, default=()
        Columns of which no cell is read; they are empty then.

    Returns
    -------
    FileTable
        Numbers, text, truth values and None; dates become text, decimals numbers.
    """
    if not os.path.isdir(path) and (most is None or _libraries()[0] is None):
        names, columns = _whole(path, budget, drop)
        return FileTable(path, _cells(names, columns, path), range(1, len(columns[0]) + 1), "row")
    rows, needed = parquet_size(path, drop)
    if budget is not None and needed > budget and most is not None:
        count, seed = most
        chosen = np.sort(np.random.default_rng(seed).choice(rows, min(count, rows), replace=False))
        check_budget(int(needed * len(chosen) / rows), path, budget, " Choose fewer rows.")
    else:
        chosen = np.arange(rows)
        check_budget(needed, path, budget, _TOO_LARGE)
    parts: dict[str, list] = {}
    first = 0
    for batch in parquet_batches(path, budget, drop):
        some = np.searchsorted(chosen, [first, first + len(batch)])
        taken = (chosen[some[0] : some[1]] - first).tolist()
        if parts and set(parts) != set(batch.columns):
            raise InvalidInput(f"{batch.path}: has other columns than the files before it.")
        for name, cells in batch.columns.items():
            parts.setdefault(name, []).extend(cells[i] for i in taken)
        first += len(batch)
    sampled = rows if len(chosen) < rows else 0
    return FileTable(path, parts, (chosen + 1).tolist(), "row", sampled_from=sampled)


def parquet_batches(
    path: str, budget: int | None = None, drop: Collection[str] = ()
) -> Iterator[FileTable]:
    """Yield the rows of a Parquet file or folder in batches that fit the budget several times.

    Parameters
    ----------
    path : str
        The file or folder.
    budget : int, optional
        Bytes of memory that may be used.
    drop : collection of str, default=()
        Columns of which no cell is read.
    """
    if _libraries()[0] is None and not os.path.isdir(path):
        yield read_parquet(path, budget, drop=drop)
        return
    for name in _files(path):
        file = _open(name)
        try:
            rows = file.metadata.num_rows
            if not rows:
                continue
            each = _needed(file, drop) / rows
            names = list(file.schema_arrow.names)
            read = [n for n in names if n not in drop]
            step = MOST_ROWS if budget is None else min(MOST_ROWS, int(budget / (SHARE * each)))
            first = 0
            batches = file.iter_batches(batch_size=max(1, step), columns=read)
            for batch in _guarded(batches, name):
                columns = [column.to_pylist() for column in batch.columns]
                cells = _cells(names, _with_empty(names, columns, drop, batch.num_rows), name)
                last = first + batch.num_rows
                yield FileTable(name, cells, range(first + 1, last + 1), "row")
                first = last
        finally:
            file.close(force=True)


def column_types(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return how columns of a Parquet file or folder are written again, where pyarrow is there.

    Parameters
    ----------
    path : str
        The file or folder.
    names : sequence of str
        The columns; those that are not there are left out.
    """
    pyarrow, _ = _libraries()
    if pyarrow is None:
        return {}
    name = _files(path)[0]
    file = _open(name)
    try:
        schema = file.schema_arrow
    finally:
        file.close(force=True)
    types = pyarrow.types
    out = {}
    for name in (n for n in names if n in schema.names):
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = types.is_integer(kind) or types.is_boolean(kind)
        number = types.is_floating(kind) or types.is_decimal(kind)
        out[name] = kind if plain else pyarrow.float64() if number else pyarrow.string()
    return out


def _files(path: str) -> list[str]:
    return _plainly(list_files, path, ENDINGS, "Parquet")


def _open(name: str) -> Any:
    return _plainly(open_parquet, name, name)


def _plainly(do: Callable[..., Any], *arguments: Any) -> Any:
    """Do something with files; a refusal is that of the command line."""
    try:
        return do(*arguments)
    except InvalidInput as error:
        raise InvalidInput(str(error).removeprefix("RowBlocks: ")) from None


def _guarded(batches: Iterator[Any], name: str) -> Iterator[Any]:
    """Yield batches; say of which file those are that cannot be read."""
    try:
        yield from batches
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"{name}: cannot be read as Parquet: {reason}") from error


def parquet_size(path: str, drop: Collection[str] = ()) -> tuple[int, int]:
    """Return the rows of a file or folder, and the bytes that they take in memory.

    Parameters
    ----------
    path : str
        The file or folder.
    drop : collection of str, default=()
        Columns that do not count.
    """
    rows, needed = 0, 0
    for name in _files(path):
        file = _open(name)
        try:
            rows, needed = rows + file.metadata.num_rows, needed + _needed(file, drop)
        finally:
            file.close(force=True)
    return rows, needed


def _whole(path: str, budget: int | None, drop: Collection[str]) -> tuple[list[str], list[list]]:
    try:
        return _read(path, budget, drop)
    except (ImportError, OSError, InvalidInput):
        raise
    except Exception as error:  # both libraries have exception classes of their own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{path}: cannot be read as Parquet: {reason}") from error


def _cells(names: list[str], columns: list[list], path: str) -> dict[str, list]:
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}; rename one.")
    if not names:
        raise InvalidInput(f"{path}: the table has no columns.")
    return {n: [_plain(v, n, path) for v in c] for n, c in zip(names, columns, strict=True)}


def parquet_bytes(columns: dict[str, Sequence[Any]]) -> bytes:
    """Return a Parquet file of the columns.

    Parameters
    ----------
    columns : dict of str to sequence
        The columns.

    Returns
    -------
    bytes
        The file.
    """
    buffer = io.BytesIO()
    pyarrow, polars = _libraries()
    if pyarrow is not None:
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({n: list(c) for n, c in columns.items()}), buffer)
    else:
        polars.DataFrame({n: list(c) for n, c in columns.items()}).write_parquet(buffer)
    return buffer.getvalue()


def _with_empty(
    names: list[str], columns: Sequence[list], drop: Collection[str], rows: int
) -> list[list]:
    """Return the columns that were read with empty ones for those that were not."""
    read, empty = iter(columns), [None] * rows
    return [empty if n in drop else next(read) for n in names]


def _read(path: str, budget: int | None, drop: Collection[str]) -> tuple[list[str], list[list]]:
    pyarrow, polars = _libraries()
    with open(path, "rb") as file:  # a file object: a path could name a remote store
        if pyarrow is not None:
            return _read_pyarrow(file, path, budget, drop)
        return _read_polars(file, path, budget, polars)


def _read_pyarrow(
    file: Any, path: str, budget: int | None, drop: Collection[str]
) -> tuple[list[str], list[list]]:
    import pyarrow
    from pyarrow import parquet

    source = parquet.ParquetFile(file)
    names = list(source.schema_arrow.names)
    texts = [f.name for f in source.schema_arrow if _is_text(pyarrow.types, f.type)]
    check_budget(_needed(source, drop), path, budget, _TOO_LARGE)
    read = [n for n in names if n not in drop]
    # A text is held once however many rows have it, in memory as in the file.
    source = parquet.ParquetFile(file, read_dictionary=texts)
    columns: list[list] = [[] for _ in read]
    known: list[dict] = [{} for _ in read]
    for batch in source.iter_batches(columns=read):
        for cells, seen, column in zip(columns, known, batch.columns, strict=True):
            if pyarrow.types.is_dictionary(column.type):
                values = [seen.setdefault(v, v) for v in column.dictionary.to_pylist()]
                cells += [None if i is None else values[i] for i in column.indices.to_pylist()]
            else:
                cells += column.to_pylist()
    return names, _with_empty(names, columns, drop, source.metadata.num_rows)


def _read_polars(
    file: Any, path: str, budget: int | None, polars: Any
) -> tuple[list[str], list[list]]:
    schema = polars.read_parquet_schema(file)
    file.seek(0)
    rows = polars.scan_parquet(file).select(polars.len()).collect().item()
    texts = [n for n, kind in schema.items() if kind == polars.String]
    needed = _memory(rows, len(schema), len(texts))
    check_budget(needed, path, budget)
    file.seek(0)
    frame = polars.read_parquet(file)
    length = sum(int(frame[n].str.len_bytes().sum()) for n in texts)
    check_budget(needed + _TEXT * length, path, budget)
    return list(frame.columns), [frame[n].to_list() for n in frame.columns]


def _needed(source: Any, drop: Collection[str] = ()) -> int:
    """Return the bytes that the cells of an open file take as Python values."""
    import pyarrow

    schema = source.schema_arrow
    fields = [f for f in schema if f.name not in drop]
    texts = [f.name for f in fields if _is_text(pyarrow.types, f.type)]
    text = _text_memory(source, drop)
    return _memory(source.metadata.num_rows, len(fields), len(texts)) + text


def _memory(rows: int, columns: int, texts: int) -> int:
    return rows * (_ROW + _CELL * (columns - texts) + _TEXT_CELL * texts)


def _text_memory(source: Any, drop: Collection[str]) -> int:
    """Memory for the texts themselves: the pages of the file, not compressed."""
    total = 0
    for i in range(source.metadata.num_row_groups):
        group = source.metadata.row_group(i)
        for j in range(group.num_columns):
            chunk = group.column(j)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema not in drop:
                total += _TEXT * chunk.total_uncompressed_size
    return total


def _is_text(types: Any, kind: Any) -> bool:
    return types.is_string(kind) or types.is_large_string(kind)


def _libraries() -> tuple[Any, Any]:
    try:
        import pyarrow

        return pyarrow, None
    except ImportError:
        pass
    try:
        import polars

        return None, polars
    except ImportError:
        raise InvalidInput(
            "Parquet files need pyarrow; install it with pip install 'mercer[cli]', or use CSV."
        ) from None


def _plain(value: Any, name: str, path: str) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "as_tuple"):  # decimal.Decimal
        return float(value)
    raise InvalidInput(
        f"{path}: column {name!r} holds a {type(value).__name__}; columns may hold numbers, text, "
        "truth values and dates. Leave it out of the file."
    )
