"""Text cells and files: what they are written like, CSV in and out; outputs whole or not at all."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TextIO

import numpy as np

from mercer.domains.blocks import parquet_libraries
from mercer.domains.tables import NumberCells, RepeatedCells, WrittenCells, is_date
from mercer.errors import InvalidInput

# Cells that a spreadsheet may run (OWASP, "CSV injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class UsageError(InvalidInput):
    """Arguments that do not go together: exit code 2."""


def check_output(path: str, force: bool, *inputs: str) -> None:
    """Refuse a path that cannot or must not be written, before any work is done."""
    folder = os.path.dirname(path) or "."
    if not path or os.path.isdir(path) or path.endswith(os.sep):
        raise InvalidInput(f"{path or repr(path)}: is a directory; give the path of a file.")
    if not os.path.isdir(folder):
        raise InvalidInput(f"{path}: the directory {folder} does not exist; create it first.")
    if os.path.exists(path):
        for other in inputs:
            if other != "-" and os.path.exists(other) and os.path.samefile(path, other):
                raise InvalidInput(f"{path}: is also the input; give another output file.")
        if not os.path.isfile(path):
            raise InvalidInput(f"{path}: is a device or pipe; give the path of a file.")
        if not force:
            raise InvalidInput(f"{path}: exists; --force overwrites it.")
    for other in inputs:
        if is_table(path) and os.path.isdir(other) and os.path.samefile(folder, other):
            raise InvalidInput(
                f"{path}: the folder {other} is the input, and its Parquet files are read; give "
                "an output file in another folder."
            )
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"{path}: the directory {folder} cannot be written.")


def write_output(path: str, data: bytes | Iterator[bytes], force: bool) -> None:
    """Write a file whole or not at all."""
    from mercer.engines import replace_file

    try:
        pieces = [data] if isinstance(data, bytes) else data
        replace_file(os.path.realpath(path), pieces, overwrite=force)
    except FileExistsError:
        raise InvalidInput(f"{path}: exists; --force overwrites it.") from None


def write_answers(
    columns: Mapping[str, Sequence[Any]],
    path: str | None,
    force: bool,
    raw: bool,
    say: Callable[[bytes], None],
) -> None:
    """Write named columns: Parquet or CSV by the ending of the path, without one `say` CSV."""
    polars = parquet_libraries()[1] if is_table(path) else None
    if polars is None:
        write_batches([columns], path, force, raw, say)
        return
    buffer = io.BytesIO()
    polars.DataFrame({n: list(c) for n, c in columns.items()}).write_parquet(buffer)
    write_output(str(path), buffer.getvalue(), force)


def is_table(path: str | None) -> bool:
    """Whether answers go to a Parquet file."""
    return path is not None and path.lower().endswith((".parquet", ".pq"))


def write_batches(
    batches: Iterable[Mapping[str, Sequence[Any]]],
    path: str | None,
    force: bool,
    raw: bool,
    say: Callable[[bytes], None],
    types: Mapping[str, Any] | None = None,
) -> None:
    """Write named columns batch by batch, as `write_answers` does at once."""
    pieces: Iterator[bytes]
    if is_table(path):
        from mercer.io import parquet_pieces

        pieces = parquet_pieces(batches, types)
    else:
        pieces = _csv_pieces(batches, raw, path is not None and path.lower().endswith(".tsv"))
    if path is not None:
        write_output(path, pieces, force)
        return
    for piece in pieces:
        say(piece)


def _csv_pieces(
    batches: Iterable[Mapping[str, Sequence[Any]]], raw: bool, tabs: bool
) -> Iterator[bytes]:
    begun = False
    for columns in batches:
        text = io.StringIO(newline="")
        header = None if begun else list(columns)
        write_csv(text, header, zip(*columns.values(), strict=True), raw, "\t" if tabs else ",")
        begun = True
        yield text.getvalue().encode("utf-8")


def write_csv(
    stream: TextIO,
    header: Sequence[str] | None,
    rows: Iterable[Sequence[Any]],
    raw: bool = False,
    delimiter: str = ",",
) -> None:
    """Write rows as CSV; text that a spreadsheet would run is neutralised unless ``raw``."""
    for row in rows if header is None else (header, *rows):
        cells = row if raw else map(harmless, row)
        stream.write(delimiter.join(_written(c, delimiter) for c in cells) + "\n")


def harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: text like a formula gets an apostrophe in front.

    Examples
    --------
    >>> from mercer.cli.files import harmless
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


def save_model(model: Any, path: str, force: bool) -> None:
    """Save a model, without overwriting unasked."""
    from mercer.io import save

    try:
        save(model, path, overwrite=force)
    except FileExistsError:
        raise InvalidInput(f"{path}: exists; --force overwrites it.") from None


def read_model(path: str) -> Any:
    """Return the model in a file."""
    from mercer.io import load

    if os.path.isdir(path):
        raise InvalidInput(f"{path}: is a directory; give a model file.")
    return load(path)


# ---- How cells are written: missing marks, numbers, numbers in another notation, dates ----


MOSTLY = 0.9  # share of cells from which a column is one of numbers, and text in it a mistake

# Without regard to case; the manual lists them (docs/guide/cli.md).
_MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "nat", "null", "none", "missing"}
    | {"?", ".", "-", "--"}
)
MARKS = frozenset({*_MISSING, *map(str.upper, _MISSING), "NaN", "None", "Null"})
_DIGITS = frozenset("0123456789+-.eE \t")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:[0-9]+(?:[{mark}][0-9]*)?|[{mark}][0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII
    )
    for mark in ".,"
}
_PLAIN = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_GROUPS = "[,.' \u2019\u00a0\u202f_]"  # between groups of three digits
_OTHER = (
    (re.compile(rf"{_PLAIN}\s*%"), "percent signs? remove them from the file"),
    (
        re.compile(rf"[$€£¥]\s*{_PLAIN}|{_PLAIN}\s*[$€£¥]"),
        "signs of a currency? remove them from the file",
    ),
    (
        re.compile(
            rf"[+-]?[1-9][0-9]{{,2}}(?:({_GROUPS})[0-9]{{3}})(?:\1[0-9]{{3}})*(?:[.,][0-9]*)?"
        ),
        "thousands separators? remove them from the file",
    ),
)
_COMMA = (re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?"), "decimal comma? use --decimal ,")
_POINT = (re.compile(r"[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?"), "decimal point? use --decimal .")


def missing(cell: Any) -> bool:
    """Whether a cell is empty or one of the usual marks for a missing value."""
    if isinstance(cell, str):
        return cell.strip().lower() in _MISSING
    return cell is None or cell != cell  # NaN differs from itself


def is_number(cell: Any, decimal: str = ".") -> bool:
    """Whether a cell is a finite number, as itself or as text."""
    if isinstance(cell, str):
        return _NUMBER[decimal].fullmatch(cell.strip()) is not None
    return (
        isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) != float("inf")
    )


def plain_numbers(cells: Sequence[Any], decimal: str = ".") -> np.ndarray | None:
    """Return cells as numbers, NaN where missing, if all are finite numbers or missing.

    None where one is something else, or is written as few are; then each is to be looked at.
    """
    if isinstance(cells, NumberCells):
        out = cells.plain()
        return None if np.isinf(out).any() else out
    if isinstance(cells, WrittenCells):
        return cells.plain() if cells.decimal == decimal else plain_numbers(list(cells), decimal)
    if isinstance(cells, RepeatedCells):
        return _plain_values(cells, decimal)
    kinds = set(map(type, cells))
    try:
        if kinds <= {int, float, type(None)}:
            out = np.array(cells, dtype=float)
        elif kinds == {str} and decimal == ".":
            # Python reads more than `_NUMBER` does, such as "1_000" and "infinity"
            if not _DIGITS.issuperset("".join(c for c in cells if c not in MARKS)):
                return None
            out = np.array([np.nan if c in MARKS else float(c) for c in cells])
        else:
            return None
    except (OverflowError, ValueError):
        return None
    return None if np.isinf(out).any() else out


def _plain_values(cells: RepeatedCells, decimal: str) -> np.ndarray | None:
    """Return `plain_numbers` of cells, each value looked at once."""
    used = np.flatnonzero(np.bincount(cells.codes + 1, minlength=len(cells.values) + 1)[1:])
    out = np.full(len(cells.values) + 1, np.nan)  # the last stands for None
    if len(used):
        found = plain_numbers([cells.values[i] for i in used.tolist()], decimal)
        if found is None:
            return None
        out[used] = found
    return out[cells.codes]


def tallied(cells: Iterable[Any]) -> list[tuple[Any, int]]:
    """Return the cells that are there in their order, each text once, and how often it occurs."""
    if isinstance(cells, RepeatedCells):
        found = list(zip(*cells.used(), strict=True))
    else:
        cells = list(cells)
        alike = Counter(c for c in cells if isinstance(c, str))
        # what is no text may be equal and still another thing
        found = [*alike.items(), *((c, 1) for c in cells if not isinstance(c, str))]
    return [(c, k) for c, k in found if not missing(c)]


def is_infinite(cell: Any) -> bool:
    """Whether a cell is infinite, as itself or as text."""
    if isinstance(cell, str):
        return _INFINITE.fullmatch(cell.strip()) is not None
    return isinstance(cell, float) and abs(cell) == float("inf")


def to_number(cell: Any, decimal: str = ".") -> float:
    """Return the number that a cell is, after `is_number` said so."""
    return float(cell.replace(decimal, ".") if isinstance(cell, str) else cell)


def hint(cell: Any, decimal: str = ".") -> str:
    """Return the cure for a cell that is a number in another notation, else empty text.

    Examples
    --------
    >>> from mercer.cli.files import hint
    >>> hint("3,5"), hint("12 %"), hint("1,234,567"), hint("red")
    ('decimal comma? use --decimal ,', 'percent signs? remove them from the file',
     'thousands separators? remove them from the file', '')
    """
    if not isinstance(cell, str) or is_number(cell, decimal):
        return ""
    text = cell.strip()
    swapped, cure = _COMMA if decimal == "." else _POINT
    cures = [cure] if swapped.fullmatch(text) else []
    cures += [cure for pattern, cure in _OTHER if pattern.fullmatch(text)]
    return " / ".join(cures)


def notation(cells: Sequence[Any], decimal: str = ".") -> tuple[str, str] | None:
    """Return an example and a cure when almost all cells are numbers in another notation."""
    present = tallied(cells)
    odd = [(c, cure, k) for c, k in present if (cure := hint(c, decimal))]
    plain = sum(k for c, k in present if is_number(c, decimal))
    if not odd or sum(k for *_, k in odd) + plain < MOSTLY * sum(k for _, k in present):
        return None
    # "1,234" may be two things: the cell with the shortest cure says which
    cell, cure, _ = min(odd, key=lambda found: len(found[1]))
    return str(cell), cure


def dates(cells: Iterable[Any]) -> bool:
    """Whether most of the cells that are there are ISO dates, with or without a time."""
    present = tallied(cells)
    found = sum(k for c, k in present if is_date(c))
    return found > sum(k for _, k in present) / 2


# ---- CSV that is read: whole or in batches; strict about shape and encoding ----


#: Bytes of memory for each byte of a CSV file, beside those for cells and rows.
CSV_BYTE = 7
#: Bytes of a file, or of a pipe, that are read at a time.
CHUNK = 2**16
_COUNTED = 2**18  # bytes that are looked at together, which the cache holds
MOST_ROWS = 2**15  # of a batch
LONGEST = 20_000_000  # characters of a line: one that is longer is no row of a table
SHARE = 4  # a batch takes at most this part of the budget
_DELIMITERS = ",;\t"
_OBJECTS = 220, 64  # bytes of memory for a row and a cell as Python objects
_ARRAYS = 40, 32  # and in columns

#: Columns by name, and the last line of each row.
Cells = tuple[dict[str, Sequence[str]], list[int]]


def csv_cells(data: bytes, path: str, encoding: str) -> Cells:
    """Return the columns of a delimited text table with a header.

    The delimiter is the one of comma, semicolon and tab that splits the header most; a byte order
    mark is dropped; blank lines are skipped; every row must have as many cells as the header.
    """
    codec = codec_of(encoding)
    refuse_long_lines(data, path)
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
    most = max(1, min(LONGEST, budget // (SHARE * CSV_BYTE)))
    try:
        with open(path, encoding=codec_of(encoding), newline="") as text:
            yield from _batches(_lines(text, path, most), path, most, budget // SHARE)
    except UnicodeDecodeError:
        raise _first_undecodable(path, encoding) from None
    except UnicodeError as error:
        raise InvalidInput(f"{path}: is not {_known(encoding)}: {error}.") from None


def csv_size(path: str) -> tuple[int, int]:
    """Return about how many rows a file has, and the bytes of memory that reading it takes.

    Row by row: what is unusual in it is not known before.
    """
    with open(path, "rb") as file:
        size, rows, cells = _counts(iter(lambda: file.read(_COUNTED), b""))
    return rows, _memory(size, rows, cells)


def csv_memory(data: bytes) -> tuple[int, int]:
    """Return the bytes of memory that reading a delimited text table takes, without reading it.

    By columns, and row by row.
    """
    view = memoryview(data)
    counts = _counts(view[i : i + _COUNTED] for i in range(0, len(data), _COUNTED))
    return _memory(*counts, _ARRAYS), _memory(*counts)


def _counts(parts: Iterable[Any]) -> tuple[int, int, int]:
    """Return the bytes of a text, and about how many rows and cells it has."""
    counts, size = dict.fromkeys("\n\r" + _DELIMITERS, 0), 0
    for part in parts:
        size += len(part)
        some = np.frombuffer(part, dtype=np.uint8)
        for mark in counts:
            counts[mark] += int(np.count_nonzero(some == ord(mark)))
    rows = 1 + max(counts["\n"], counts["\r"])
    return size, rows, rows + max(counts[d] for d in _DELIMITERS)


def _memory(size: int, rows: int, cells: int, each: tuple[int, int] = _OBJECTS) -> int:
    return CSV_BYTE * size + each[0] * rows + each[1] * cells


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
        reader = csv.reader(chain(head, lines), delimiter=delimiter_of(head[-1]), strict=True)
        (names,), _ = _rows(reader, path, 0, None)
    header = header_of(names, path)
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
            if most == LONGEST:
                raise _long_line(path, number)
            raise InvalidInput(
                f"{path}: line {number} is longer than {most} characters, too long for the memory "
                "that is allowed; allow more with --memory, if this is a table."
            )
        if "\0" in line:
            raise _no_text(path)
        yield line


def refuse_long_lines(data: bytes, path: str) -> None:
    """Refuse text with a line that no row of a table has, before it is decoded."""
    start = 0
    while len(data) - start > LONGEST:
        last = data.rfind(b"\n", start, start + LONGEST)
        if last < 0:
            last = data.rfind(b"\r", start, start + LONGEST)
        if last < 0:
            raise _long_line(path, data.count(b"\n", 0, start) + 1)
        start = last + 1


def _long_line(path: str, number: int) -> InvalidInput:
    return InvalidInput(
        f"{path}: line {number} is longer than {LONGEST} characters, which no row of a table is; "
        "check the file, and that its lines end in line feeds."
    )


def codec_of(encoding: str) -> str:
    """Return the codec of an encoding, which drops a byte order mark."""
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
    decoder, before = codecs.getincrementaldecoder(codec_of(encoding))(), 0
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


def delimiter_of(line: str) -> str:
    """Return the delimiter that splits a header most."""
    widths = {d: len(next(csv.reader([line], delimiter=d))) for d in _DELIMITERS}
    return max(_DELIMITERS, key=lambda d: widths[d])  # the first of equals: the comma


def header_of(row: list[str], path: str) -> list[str]:
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
