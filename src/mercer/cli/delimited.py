"""Delimited text read by columns, where nothing in it is unusual; `csv_cells` reads the rest.

pyarrow reads columns that begin with numbers as numbers, and each text of the others once. What it
understands in another way than `csv_cells` is found first, or by what comes back: then there is no
answer, and the rows are read one by one, which also says what is wrong with a file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mercer.cli.files import (
    MARKS,
    codec_of,
    csv_cells,
    csv_memory,
    delimiter_of,
    header_of,
    is_number,
    missing,
    refuse_long_lines,
)
from mercer.domains.tables import RepeatedCells, WrittenCells
from mercer.errors import InvalidInput

_SMALL = 2**14  # bytes of a file that Python reads before pyarrow is imported
_LOOK = 2**13  # bytes at the beginning that say which columns hold numbers
_BLOCK = 2**22  # bytes that pyarrow reads at a time, in several threads
_BOM = b"\xef\xbb\xbf"

#: Columns by name, and the last line of each row.
Columns = tuple[dict[str, Sequence[Any]], Sequence[int]]


def csv_columns(
    data: bytes, path: str, encoding: str, decimal: str, allow: Callable[[int], None]
) -> Columns:
    """Return the columns of a delimited text table with a header, as `csv_cells` does.

    Parameters
    ----------
    data : bytes
        The text.
    path : str
        What the file is called.
    encoding : str
        How characters are written.
    decimal : str
        The decimal mark of numbers.
    allow : callable
        Refuses a number of bytes that memory does not hold.
    """
    allow(csv_memory(data))
    if len(data) > _SMALL:
        refuse_long_lines(data, path)
        with suppress(ImportError):
            found = _by_columns(data, path, encoding, decimal)
            if found is not None:
                return found
    return csv_cells(data, path, encoding)


def _by_columns(data: bytes, path: str, encoding: str, decimal: str) -> Columns | None:
    """Return the columns; None where something is unusual."""
    import pyarrow as pa

    text = _as_utf8(data, encoding)
    if text is None or b"\0" in text or (b"\r" in text and _lone_returns(text)):
        return None
    start = len(text) - len(text.lstrip(b"\r\n"))  # blank lines, without a character
    end = text.find(b"\n", start)
    line = text[start : end + 1].decode()
    if end < 0 or not line.strip() or line.count('"') % 2:
        return None
    try:
        delimiter = delimiter_of(line)
        names = header_of(next(csv.reader([line], delimiter=delimiter, strict=True)), path)
    except (InvalidInput, csv.Error):
        return None
    body = memoryview(text)[end + 1 :]
    quotes = _quotes(text, delimiter) if b'"' in text else np.zeros(0, dtype=np.int64)
    if quotes is None or body[:3] == _BOM:  # which pyarrow would drop there
        return None
    try:
        buffer = pa.py_buffer(body)
        options = _options(len(names), delimiter, bool(len(quotes)))
        table = _arrow_table(buffer, names, options, decimal)
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


def _as_utf8(data: bytes, encoding: str) -> bytes | None:
    """Return text in UTF-8 without a byte order mark, None where it is not what it is said to be.

    Text of few characters is the same in most encodings, but its columns are looked at as UTF-8.
    """
    codec = codec_of(encoding)
    try:
        if codec == "utf-8-sig":
            text = data.removeprefix(_BOM)
            if not text.isascii():
                text.decode()
            return text
        return data.decode(codec).encode()
    except UnicodeError:
        return None


def _lone_returns(text: bytes) -> bool:
    """Whether a carriage return stands without the line feed that should follow it."""
    return text.count(b"\r") != text.count(b"\r\n")


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
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    if not len(quotes) and lines == rows + 1:  # none of them is blank
        return range(2, rows + 2)
    array = np.frombuffer(text, dtype=np.uint8)
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


def _arrow_table(body: Any, names: list[str], options: tuple[Any, Any], decimal: str) -> Any:
    """Return columns of numbers, NaN-free where there are any, and columns of text by its values.

    A column that turns out to hold something else than numbers is read again as text.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    text = pa.dictionary(pa.int32(), pa.string())
    numbers = _numeric(body[:_LOOK].to_pybytes(), names, options[1].delimiter, decimal)
    types = {n: pa.float64() if n in numbers else text for n in names}
    for _ in range(len(names) + 1):
        convert = arrow.ConvertOptions(
            column_types={str(j): types[n] for j, n in enumerate(names)},
            null_values=sorted(MARKS),
            decimal_point=decimal,
            check_utf8=False,
        )
        odd: list[str] = []
        try:
            table = arrow.read_csv(pa.BufferReader(body), *options, convert)
            odd = [n for n, c in zip(names, table.columns, strict=True) if _is_odd(c)]
        except pa.ArrowInvalid as error:
            place = str(error).partition("column #")[2].partition(":")[0]
            if not place.isdecimal() or not int(place) < len(names):
                raise
            odd = [names[int(place)]]
        if not odd:
            return table.unify_dictionaries()
        if any(types[n] == text for n in odd):
            return None
        types.update(dict.fromkeys(odd, text))
    return None


def _numeric(head: bytes, names: list[str], delimiter: str, decimal: str) -> set[str]:
    """Return the columns whose first cells are numbers or missing."""
    lines = head[: head.rfind(b"\n") + 1].decode(errors="replace")
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter)
    rows = [row for row in reader if len(row) == len(names)]
    cells = dict(zip(names, zip(*rows, strict=True), strict=False))
    return {n for n, c in cells.items() if all(missing(v) or is_number(v, decimal) for v in set(c))}


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
