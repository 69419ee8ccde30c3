"""Delimited text read by columns, where nothing in it is unusual.

pyarrow reads columns that begin with numbers as numbers, and each text of the others once. What it
understands in another way than Python's `csv` does is found first, or by what comes back: then
there is no answer, and the rows are to be read one by one, which also says what is wrong with them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mercer.domains.tables import RepeatedCells, WrittenCells

_LOOK = 2**13  # bytes at the beginning that say which columns hold numbers
_BLOCK = 2**22  # bytes that pyarrow reads at a time, in several threads
_BOM = b"\xef\xbb\xbf"


def text_columns(
    text: bytes,
    start: int,
    names: Sequence[str],
    delimiter: str,
    decimal: str,
    gaps: Collection[str],
    looks: Callable[[str], bool],
) -> tuple[dict[str, Sequence[Any]], Sequence[int]] | None:
    """Return the columns of a table, and the last line of each row; None where text is unusual.

    Parameters
    ----------
    text : bytes
        The text in UTF-8 without a byte order mark or NUL, the header in it.
    start : int
        Where the rows begin.
    names : sequence of str
        The names of the columns.
    delimiter, decimal : str
        What stands between cells, and in numbers.
    gaps : collection of str
        What is written where a number is missing.
    looks : callable
        Whether a cell may stand in a column of numbers.

    Raises
    ------
    ImportError
        If there is no pyarrow.
    """
    import pyarrow as pa

    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return None
    body = memoryview(text)[start:]
    quotes = _quotes(text, delimiter) if b'"' in text else np.zeros(0, dtype=np.int64)
    if quotes is None or body[:3] == _BOM:  # which pyarrow would drop there
        return None
    try:
        head = bytes(body[:_LOOK])
        numbers = _numeric(head, len(names), delimiter, looks)
        buffer = pa.py_buffer(body)
        options = _options(len(names), delimiter, bool(len(quotes)))
        table = _arrow_table(buffer, numbers, options, decimal, gaps)
    except (pa.ArrowInvalid, pa.ArrowKeyError, csv.Error):
        return None
    if table is None or not table.num_rows:
        return None
    places = _last_lines(text, quotes, table.num_rows)
    if places is None:
        return None

    columns: dict[str, Sequence[Any]] = {}
    for j, (name, column) in enumerate(zip(names, table.columns, strict=True)):
        if pa.types.is_float64(column.type):
            read = lru_cache(maxsize=1)(partial(_texts, buffer, options, str(j)))
            columns[name] = WrittenCells(column.to_numpy(), decimal, read)
        else:
            values = column.chunk(0).dictionary.to_pylist()
            codes = [part.indices.to_numpy() for part in column.chunks]
            columns[name] = RepeatedCells(values, np.concatenate(codes))
    return columns, places


def _quotes(text: bytes, delimiter: str) -> np.ndarray | None:
    """Return the places of quotation marks; None unless each opens, closes or doubles one.

    Those that open stand at the beginning of a cell or after one that closes, those that close at
    the end of a cell or before one that opens.
    """
    array = np.frombuffer(text, dtype=np.uint8)
    at = np.flatnonzero(array == ord('"'))
    if len(at) % 2:
        return None
    opening, closing = at[::2], at[1::2]
    ends = np.zeros(256, dtype=bool)
    ends[[ord(delimiter), *b"\r\n"]] = True
    begins = (opening == 0) | ends[array[np.maximum(opening, 1) - 1]]
    begins &= (opening == 0) | (array[np.maximum(opening, 1) - 1] != ord("\r"))
    begins[1:] |= opening[1:] == closing[:-1] + 1
    last = len(array) - 1
    stops = (closing == last) | ends[array[np.minimum(closing + 1, last)]]
    stops[:-1] |= opening[1:] == closing[:-1] + 1
    return at if begins.all() and stops.all() else None


def _last_lines(text: bytes, quotes: np.ndarray, rows: int) -> Sequence[int] | None:
    """Return the number of the last line of each row below the header, None if there are others."""
    array = np.frombuffer(text, dtype=np.uint8)
    lines = np.count_nonzero(array == ord("\n")) + (not text.endswith(b"\n"))
    if not len(quotes) and lines == rows + 1:  # none of them is blank
        return range(2, rows + 2)
    ends = np.flatnonzero(array == ord("\n"))
    if lines > len(ends):
        ends = np.append(ends, len(array))
    whole = np.searchsorted(quotes, ends) % 2 == 0  # not inside of quotation marks
    numbers = np.arange(1, len(ends) + 1)[whole]
    ends = ends[whole]
    starts = np.append(0, ends[:-1] + 1)
    content = ends - starts
    returns = (ends > 0) & (array[np.minimum(ends, len(array)) - 1] == ord("\r"))
    numbers = numbers[content > (returns & (content > 0))]
    return numbers[1:].tolist() if len(numbers) == rows + 1 else None


def _options(width: int, delimiter: str, quoted: bool) -> tuple[Any, Any]:
    """Return how pyarrow reads and parses so many columns, which it calls by their position."""
    from pyarrow import csv as arrow

    names = [str(j) for j in range(width)]
    return (
        arrow.ReadOptions(column_names=names, block_size=_BLOCK),
        arrow.ParseOptions(delimiter=delimiter, newlines_in_values=quoted),
    )


def _arrow_table(
    body: Any,
    numbers: list[bool],
    options: tuple[Any, Any],
    decimal: str,
    gaps: Collection[str],
) -> Any:
    """Return columns of numbers, NaN-free where there are any, and columns of text by its values.

    A column that turns out to hold something else than numbers is read again as text.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    text = pa.dictionary(pa.int32(), pa.string())
    types = [pa.float64() if number else text for number in numbers]
    for _ in range(len(types) + 1):
        convert = arrow.ConvertOptions(
            column_types={str(j): kind for j, kind in enumerate(types)},
            null_values=sorted(gaps),
            decimal_point=decimal,
            check_utf8=False,
        )
        try:
            table = arrow.read_csv(pa.BufferReader(body), *options, convert)
            odd = [j for j, column in enumerate(table.columns) if _is_odd(column)]
        except pa.ArrowInvalid as error:
            place = str(error).partition("column #")[2].partition(":")[0]
            if not place.isdecimal() or not int(place) < len(types):
                raise
            odd = [int(place)]
        if not odd:
            return table.unify_dictionaries()
        if any(types[j] == text for j in odd):
            return None
        for j in odd:
            types[j] = text
    return None


def _numeric(head: bytes, width: int, delimiter: str, looks: Callable[[str], bool]) -> list[bool]:
    """Return for each column whether its first cells may stand in a column of numbers."""
    lines = head[: head.rfind(b"\n") + 1].decode(errors="replace")
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter)
    rows = [row for row in reader if len(row) == width]
    return [bool(rows) and all(map(looks, {row[j] for row in rows})) for j in range(width)]


def _is_odd(column: Any) -> bool:
    """Whether a column of numbers holds what pyarrow takes for one and mercer does not."""
    import pyarrow as pa

    if not pa.types.is_float64(column.type):
        return False
    return any(
        np.count_nonzero(~np.isfinite(part.to_numpy(zero_copy_only=False))) > part.null_count
        for part in column.chunks
    )


def _texts(body: Any, options: tuple[Any, Any], name: str) -> list[str]:
    """Return the cells of a column as the file writes them."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    convert = arrow.ConvertOptions(
        column_types={name: pa.string()}, include_columns=[name], check_utf8=False
    )
    return arrow.read_csv(pa.BufferReader(body), *options, convert).column(0).to_pylist()
