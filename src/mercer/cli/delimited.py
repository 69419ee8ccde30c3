"""CSV in and out: strict about shape and encoding, harmless to spreadsheets."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from mercer.cli.notation import hint, is_number
from mercer.cli.tables import CSV_BYTE, FileTable
from mercer.errors import InvalidInput

__all__ = ["csv_memory", "harmless", "read_csv", "write_csv"]

_DELIMITERS = ",;\t"
_ROW, _CELL = 220, 64  # bytes of memory for a row and a cell as Python objects
# Cells that a spreadsheet may run (OWASP, "CSV injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def read_csv(data: bytes, path: str, encoding: str = "utf-8") -> FileTable:
    """Return the columns of a delimited text table with a header.

    The delimiter is the one of comma, semicolon and tab that splits the header most; a byte order
    mark is dropped; blank lines are skipped; every row must have as many cells as the header.

    Parameters
    ----------
    data : bytes
        The file.
    path : str
        Its name, for messages.
    encoding : str
        Its encoding.

    Returns
    -------
    FileTable
        The cells as text.
    """
    text = _decode(data, path, encoding)
    if not text.strip():
        raise InvalidInput(f"{path}: the file is empty; a header and rows are expected.")
    if "\0" in text:
        raise InvalidInput(f"{path}: holds NUL characters; this is not a text table.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    rows: list[list[str]] = []
    places: list[int] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
                places.append(reader.line_num)
    except csv.Error as error:
        raise InvalidInput(f"{path}: line {reader.line_num}: not valid CSV: {error}.") from error
    header = _header(rows[0], path)
    for row, place in zip(rows[1:], places[1:], strict=True):
        if len(row) != len(header):
            raise InvalidInput(
                f"{path}: line {place} has {len(row)} cells but the header has {len(header)}; "
                "quote cells that hold the delimiter."
            )
    cells = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    return FileTable(path, dict(zip(header, cells, strict=True)), places[1:], "line")


def csv_memory(data: bytes) -> int:
    """Return the bytes of memory that reading a delimited text table takes, without reading it.

    Parameters
    ----------
    data : bytes
        The file.

    Returns
    -------
    int
        An estimate; a delimiter or line end inside quotes counts as one outside.
    """
    rows = 1 + max(data.count(b"\n"), data.count(b"\r"))
    cells = rows + max(data.count(d.encode()) for d in _DELIMITERS)
    return CSV_BYTE * len(data) + _ROW * rows + _CELL * cells


def write_csv(
    stream: TextIO,
    header: Sequence[str] | None,
    rows: Iterable[Sequence[Any]],
    raw: bool = False,
    delimiter: str = ",",
) -> None:
    """Write rows as CSV; text that a spreadsheet would run is neutralised unless ``raw``.

    Parameters
    ----------
    stream : text stream
        Where to write.
    header : sequence of str or None
        Names of the columns; None where they are written already.
    rows : iterable of sequences
        The cells: text and numbers.
    raw : bool
        Write text as it is.
    delimiter : str
        What stands between cells.
    """
    for row in rows if header is None else (header, *rows):
        cells = row if raw else map(harmless, row)
        stream.write(delimiter.join(_written(c, delimiter) for c in cells) + "\n")


def harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: text like a formula gets an apostrophe in front.

    Parameters
    ----------
    cell : object
        Text or anything else; numbers, also as text, are left alone.

    Returns
    -------
    object
        The cell to write.

    Examples
    --------
    >>> from mercer.cli.delimited import harmless
    >>> harmless("=1+1"), harmless("-3.5"), harmless(-3.5), harmless("plain")
    ("'=1+1", '-3.5', -3.5, 'plain')
    """
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _numeric(cell):
        return "'" + cell
    return cell


def _numeric(cell: str) -> bool:
    """Whether text is a number in any notation and nothing else: no tab, no line end."""
    return cell.isprintable() and bool(is_number(cell) or hint(cell))


def _written(cell: Any, delimiter: str) -> str:
    """A cell as CSV; csv.writer leaves a carriage return unquoted before Python 3.13."""
    text = "" if cell is None else str(cell)
    if not text or any(c in text for c in (delimiter, '"', "\r", "\n")):
        return '"' + text.replace('"', '""') + '"'
    return text


def _decode(data: bytes, path: str, encoding: str) -> str:
    name = encoding
    try:
        name = codecs.lookup(encoding).name
        return data.decode("utf-8-sig" if name == "utf-8" else name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        cure = "save the file as UTF-8 or pass --encoding, for example latin-1 or utf-16"
        raise InvalidInput(
            f"{path}: line {line} is not {name} (byte 0x{data[error.start]:02x}); {cure}."
        ) from None
    except UnicodeError as error:
        raise InvalidInput(f"{path}: is not {name}: {error}.") from None
    except (LookupError, ValueError):
        raise InvalidInput(f"--encoding {encoding!r} is not a known encoding.") from None


def _delimiter(text: str) -> str:
    line = next(line for line in text.splitlines() if line.strip())
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
