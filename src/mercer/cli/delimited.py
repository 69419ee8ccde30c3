"""Delimited text: the cells of CSV files, whole or in batches; strict about shape and encoding."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from mercer.errors import InvalidInput

#: Bytes of memory for each byte of a CSV file, beside those for cells and rows.
CSV_BYTE = 7
#: Bytes of a file, or of a pipe, that are read at a time.
CHUNK = 2**16
MOST_ROWS = 2**15  # of a batch
SHARE = 4  # a batch takes at most this part of the budget
_DELIMITERS = ",;\t"
_ROW, _CELL = 220, 64  # bytes of memory for a row and a cell as Python objects

#: Columns by name, and the last line of each row.
Cells = tuple[dict[str, Sequence[str]], list[int]]


def csv_cells(data: bytes, path: str, encoding: str) -> Cells:
    """Return the columns of a delimited text table with a header.

    The delimiter is the one of comma, semicolon and tab that splits the header most; a byte order
    mark is dropped; blank lines are skipped; every row must have as many cells as the header.
    """
    codec = _codec(encoding)
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        raise _undecodable(path, encoding, data.count(b"\n", 0, error.start), error) from None
    except UnicodeError as error:
        raise InvalidInput(f"{path}: is not {_known(encoding)}: {error}.") from None
    if not text or text.isspace():
        raise _empty(path)
    if "\0" in text:
        raise _no_text(path)
    del text
    lines = io.TextIOWrapper(io.BytesIO(data), codec, newline="")
    (cells,) = _batches(lines, path, max(1, len(data)), None)
    return cells


def csv_batches(path: str, encoding: str, budget: int) -> Iterator[Cells]:
    """Yield the rows of a file in batches that fit the budget several times."""
    most = max(1, budget // (SHARE * CSV_BYTE))
    try:
        with open(path, encoding=_codec(encoding), newline="") as text:
            yield from _batches(_lines(text, path, most), path, most, budget // SHARE)
    except UnicodeDecodeError:
        raise _first_undecodable(path, encoding) from None
    except UnicodeError as error:
        raise InvalidInput(f"{path}: is not {_known(encoding)}: {error}.") from None


def csv_size(path: str) -> tuple[int, int]:
    """Return about how many rows a file has, and the bytes of memory that reading it takes."""
    counts, size = dict.fromkeys("\n\r" + _DELIMITERS, 0), 0
    with open(path, "rb") as file:
        while part := file.read(CHUNK):
            size += len(part)
            for mark in counts:
                counts[mark] += part.count(mark.encode())
    rows = 1 + max(counts["\n"], counts["\r"])
    return rows, _memory(size, rows, rows + max(counts[d] for d in _DELIMITERS))


def csv_memory(data: bytes) -> int:
    """Return the bytes of memory that reading a delimited text table takes, without reading it."""
    rows = 1 + max(data.count(b"\n"), data.count(b"\r"))
    return _memory(len(data), rows, rows + max(data.count(d.encode()) for d in _DELIMITERS))


def _memory(size: int, rows: int, cells: int) -> int:
    return CSV_BYTE * size + _ROW * rows + _CELL * cells


def _batches(lines: Iterable[str], path: str, longest: int, room: int | None) -> Iterator[Cells]:
    """Yield the rows of lines of text, as many at a time as there is room for."""
    lines, head = iter(lines), []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    else:
        raise _empty(path)
    with _long_cells(longest):
        reader = csv.reader(chain(head, lines), delimiter=_delimiter(head[-1]), strict=True)
        (names,), _ = _rows(reader, path, 0, None)
    header = _header(names, path)
    begun = False
    while True:
        with _long_cells(longest):
            rows, places = _rows(reader, path, len(header), room)
        if rows or not begun:
            cells: list[Any] = list(zip(*rows, strict=True)) or [()] * len(header)
            yield dict(zip(header, cells, strict=True)), places
        if room is None or not rows:
            return
        begun = True


def _rows(reader: Any, path: str, width: int, room: int | None) -> tuple[list, list[int]]:
    """Return rows of so many cells, blank lines left out, and the last line of each.

    One row, the header, where no width is known; else as many as there is room for.
    """
    rows: list[list[str]] = []
    places: list[int] = []
    held = 0
    try:
        for row in reader:
            if not row:
                continue
            if width and len(row) != width:
                raise InvalidInput(
                    f"{path}: line {reader.line_num} has {len(row)} cells but the header has "
                    f"{width}; quote cells that hold the delimiter."
                )
            rows.append(row)
            places.append(reader.line_num)
            if room is not None:
                held += _memory(sum(map(len, row)), 1, len(row))
            if not width or (room is not None and (held > room or len(rows) == MOST_ROWS)):
                break
    except csv.Error as error:
        where = f"{path}: line {reader.line_num}"
        raise InvalidInput(f"{where}: not valid CSV: {error}.") from error
    return rows, places


@contextmanager
def _long_cells(longest: int) -> Iterator[None]:
    """Let a cell be as long as the table, or as memory allows."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _lines(text: Any, path: str, most: int) -> Iterator[str]:
    """Yield the lines of a file; refuse one that memory does not hold, and what is no text."""
    number = 0
    while line := text.readline(most):
        number += 1
        if len(line) == most and not line.endswith(("\n", "\r")):
            raise InvalidInput(
                f"{path}: line {number} is longer than {most} characters, too long for the memory "
                "that is allowed; allow more with --memory, if this is a table."
            )
        if "\0" in line:
            raise _no_text(path)
        yield line


def _codec(encoding: str) -> str:
    name = _known(encoding)
    return "utf-8-sig" if name == "utf-8" else name


def _known(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except (LookupError, ValueError):
        raise InvalidInput(f"--encoding {encoding!r} is not a known encoding.") from None
    return name


def _empty(path: str) -> InvalidInput:
    return InvalidInput(f"{path}: the file is empty; a header and rows are expected.")


def _no_text(path: str) -> InvalidInput:
    return InvalidInput(f"{path}: holds NUL characters; this is not a text table.")


def _undecodable(path: str, encoding: str, before: int, error: UnicodeDecodeError) -> InvalidInput:
    byte = error.object[error.start]
    return InvalidInput(
        f"{path}: line {before + 1} is not {_known(encoding)} (byte 0x{byte:02x}); save the file "
        "as UTF-8 or pass --encoding, for example latin-1 or utf-16."
    )


def _first_undecodable(path: str, encoding: str) -> InvalidInput:
    """Return the error of a file in which some byte is no text."""
    decoder, before = codecs.getincrementaldecoder(_codec(encoding))(), 0
    with open(path, "rb") as file:
        while True:
            part = file.read(CHUNK)
            try:
                decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                before += error.object.count(b"\n", 0, error.start)
                return _undecodable(path, encoding, before, error)
            if not part:  # it was mended meanwhile
                return InvalidInput(f"{path}: changed while it was read.")
            before += part.count(b"\n")


def _delimiter(line: str) -> str:
    """Return the delimiter that splits a header most."""
    widths = {d: len(next(csv.reader([line], delimiter=d))) for d in _DELIMITERS}
    return max(_DELIMITERS, key=lambda d: widths[d])  # the first of equals: the comma


def _header(row: list[str], path: str) -> list[str]:
    names = [name.strip() for name in row]
    seen = set()
    for j, name in enumerate(names):
        if not name:
            raise InvalidInput(
                f"{path}: column {j + 1} has no name in the header; name it (a data frame written "
                "with its index has such a column: leave the index out)."
            )
        if name in seen:
            raise InvalidInput(f"{path}: two columns are called {name!r}; rename one.")
        seen.add(name)
    return names
