"""Parquet in and out, through pyarrow or else polars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from mercer.cli.tables import FileTable, check_budget
from mercer.errors import InvalidInput

__all__ = ["parquet_bytes", "read_parquet"]

_PLAIN = (str, bool, int, float, type(None))
# Bytes of memory for a row, a cell and a cell of text as Python objects, and for a byte of text.
_ROW, _CELL, _TEXT_CELL, _TEXT = 200, 60, 110, 4


def read_parquet(path: str, budget: int | None = None) -> FileTable:
    """Return the columns of a Parquet file as Python values.

    Parameters
    ----------
    path : str
        The file.
    budget : int, optional
        Bytes of memory that may be used. Rows, columns and text are counted from the metadata: a
        column of one value takes next to nothing in the file, and as much as any other in memory.

    Returns
    -------
    FileTable
        Numbers, text, truth values and None; dates become text, decimals numbers.
    """
    try:
        names, columns = _read(path, budget)
    except (ImportError, OSError, InvalidInput):
        raise
    except Exception as error:  # both libraries have exception classes of their own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{path}: cannot be read as Parquet: {reason}") from error
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InvalidInput(f"{path}: two columns are called {twice!r}; rename one.")
    if not names:
        raise InvalidInput(f"{path}: the table has no columns.")
    cells = {n: [_plain(v, n, path) for v in c] for n, c in zip(names, columns, strict=True)}
    rows = len(columns[0])
    return FileTable(path, cells, range(1, rows + 1), "row")


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


def _read(path: str, budget: int | None) -> tuple[list[str], list[list]]:
    pyarrow, polars = _libraries()
    with open(path, "rb") as file:  # a file object: a path could name a remote store
        if pyarrow is not None:
            return _read_pyarrow(file, path, budget)
        return _read_polars(file, path, budget, polars)


def _read_pyarrow(file: Any, path: str, budget: int | None) -> tuple[list[str], list[list]]:
    import pyarrow
    from pyarrow import parquet

    source = parquet.ParquetFile(file)
    names = list(source.schema_arrow.names)
    texts = [f.name for f in source.schema_arrow if _is_text(pyarrow.types, f.type)]
    needed = _memory(source.metadata.num_rows, len(names), len(texts)) + _text_memory(source)
    check_budget(needed, path, budget)
    # A text is held once however many rows have it, in memory as in the file.
    source = parquet.ParquetFile(file, read_dictionary=texts)
    columns: list[list] = [[] for _ in names]
    known: list[dict] = [{} for _ in names]
    for batch in source.iter_batches():
        for cells, seen, column in zip(columns, known, batch.columns, strict=True):
            if pyarrow.types.is_dictionary(column.type):
                values = [seen.setdefault(v, v) for v in column.dictionary.to_pylist()]
                cells += [None if i is None else values[i] for i in column.indices.to_pylist()]
            else:
                cells += column.to_pylist()
    return names, columns


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


def _memory(rows: int, columns: int, texts: int) -> int:
    return rows * (_ROW + _CELL * (columns - texts) + _TEXT_CELL * texts)


def _text_memory(source: Any) -> int:
    """Memory for the texts themselves: the pages of the file, not compressed."""
    total = 0
    for i in range(source.metadata.num_row_groups):
        group = source.metadata.row_group(i)
        for j in range(group.num_columns):
            chunk = group.column(j)
            if chunk.physical_type == "BYTE_ARRAY":
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
