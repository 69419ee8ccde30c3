"""Parquet in and out, through pyarrow or else polars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from mercer.cli.tables import FileTable
from mercer.errors import InvalidInput

__all__ = ["parquet_bytes", "read_parquet"]

_PLAIN = (str, bool, int, float, type(None))


def read_parquet(path: str) -> FileTable:
    """Return the columns of a Parquet file as Python values.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    FileTable
        Numbers, text, truth values and None; dates become text, decimals numbers.
    """
    try:
        names, columns = _read(path)
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


def _read(path: str) -> tuple[list[str], list[list]]:
    pyarrow, polars = _libraries()
    if pyarrow is not None:
        from pyarrow import parquet

        with open(path, "rb") as file:  # a file object: a path could name a remote store
            table = parquet.ParquetFile(file).read()
        return list(table.column_names), [c.to_pylist() for c in table.columns]
    with open(path, "rb") as file:
        frame = polars.read_parquet(file)
    return list(frame.columns), [frame[n].to_list() for n in frame.columns]


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
