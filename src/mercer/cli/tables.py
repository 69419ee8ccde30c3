"""Tables from files: CSV and Parquet cells, and their conversion to numbers, classes and text."""

from __future__ import annotations

import csv
import os
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from mercer.cli.files import (
    CHUNK,
    CSV_BYTE,
    MARKS,
    MOSTLY,
    codec_of,
    csv_batches,
    csv_cells,
    csv_memory,
    csv_size,
    delimiter_of,
    header_of,
    hint,
    is_infinite,
    is_number,
    missing,
    plain_numbers,
    refuse_long_lines,
    tallied,
    to_number,
)
from mercer.domains.blocks import (
    cell_batches,
    cells_size,
    column_names,
    parquet_libraries,
    polars_cells,
    text_columns,
)
from mercer.domains.tables import Cells, RepeatedCells, joined
from mercer.errors import InvalidInput
from mercer.memory import human

_MAGIC = (
    (b"\x1f\x8b", "compressed with gzip; unpack it first, or pipe it: gunzip -c FILE | mercer … -"),
    (b"PAR1", "a Parquet file; give it a name that ends in .parquet"),
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet (.xlsx); save the table as CSV"),
    (b"MERCER\0", "a model file of mercer, not a table; give a CSV or Parquet file"),
)
_SMALL = 2**14  # bytes of CSV that Python reads before pyarrow is imported
_TOO_LARGE = " --max-rows N takes N random rows."

# ---- The table of a file: cells, and their conversion to numbers and text ----


@dataclass(frozen=True)
class FileTable:
    """Named columns of cells as a file holds them, and where in the file each row stands.

    A cell is text (CSV), or text, a number, a truth value or None (Parquet).
    """

    path: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int]
    place: str  # what a place counts: "line" of a CSV file, "row" of a Parquet file
    decimal: str = "."  # the decimal mark of numbers as text
    sampled_from: int = 0  # rows of the file, where only some were read
    _plain: dict[str, np.ndarray | None] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def cells(self, name: str, role: str = "column") -> Sequence[Any]:
        """Return the cells of a column, or say which columns there are."""
        if name not in self.columns:
            names = list(self.columns)
            near = [n for n in names if n.lower().strip() == name.lower().strip()]
            hint = f"did you mean {near[0]!r}?" if near else f"{column_names(names, name)}."
            raise InvalidInput(f"{self.path}: no {role} {name!r}; {hint}")
        return self.columns[name]

    def take(self, rows: Sequence[int]) -> FileTable:
        """Return the table of some rows."""
        index = np.asarray(rows, dtype=np.int64)
        if np.array_equal(index, np.arange(len(self))):
            return self
        rows = index.tolist()
        columns: dict[str, Sequence[Any]] = {
            n: c.take(index) if isinstance(c, Cells) else [c[i] for i in rows]
            for n, c in self.columns.items()
        }
        return replace(self, columns=columns, places=[self.places[i] for i in rows])

    def where(self, row: int, name: str) -> str:
        """Say where a cell stands."""
        return f"{self.path}: {self.place} {self.places[row]}, column {name!r}"

    def kind(self, name: str, cure: str = "") -> str:
        """Return "number", "category", or "empty" for a column without any value.

        A column of numbers with a few cells of text is refused: it is more likely a mistake in the
        file than a column of categories. There may be a cure of its own.
        """
        plain = self.plain_numbers(name)
        if plain is not None:
            return "empty" if np.isnan(plain).all() else "number"
        if _is_plain_text(self.columns[name], self.decimal):
            return "category"
        cells = tallied(self.cells(name))
        if not cells:
            return "empty"
        text = [(c, k) for c, k in cells if not is_number(c, self.decimal)]
        if not text:
            return "number"
        count = sum(k for _, k in cells)
        numbers = count - sum(k for _, k in text)
        if numbers and (numbers >= MOSTLY * count or all(is_infinite(c) for c, _ in text)):
            odd = ((i, c) for i, c in enumerate(self.cells(name)) if not missing(c))
            i, cell = next((i, c) for i, c in odd if not is_number(c, self.decimal))
            other = f"correct or empty the cell, or pass --categorical {name} or --drop {name}"
            raise InvalidInput(
                f"{self.where(i, name)}: {cell!r} in a column of numbers; {cure or other}."
                f"{self._hint(cell)}"
            )
        return "category"

    def numbers(self, name: str) -> np.ndarray:
        """Return a column as numbers, NaN where missing; any other cell is refused."""
        plain = self.plain_numbers(name)
        if plain is not None:
            return plain.copy()
        cells = self.cells(name)
        out = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if missing(cell):
                continue
            if not is_number(cell, self.decimal):
                what = "infinite" if is_infinite(cell) else "not a number"
                raise InvalidInput(
                    f"{self.where(i, name)}: {cell!r} is {what}; "
                    f"correct the cell, or empty it if the number is not known.{self._hint(cell)}"
                )
            out[i] = to_number(cell, self.decimal)
            if not np.isfinite(out[i]):
                raise InvalidInput(f"{self.where(i, name)}: {cell!r} is too large for a number.")
        return out

    def present(self, name: str) -> np.ndarray:
        """Return for each row whether its cell of a column is there."""
        plain = self.plain_numbers(name)
        if plain is not None:
            return ~np.isnan(plain)
        cells = self.cells(name)
        if isinstance(cells, RepeatedCells):
            return cells.mapped(lambda cell: None if missing(cell) else True) != np.array(None)
        return np.array([not missing(cell) for cell in cells], dtype=bool)

    def plain_numbers(self, name: str) -> np.ndarray | None:
        """Return a column of finite numbers and gaps, found by looks at all of it; None of others.

        What is no such column is looked at cell by cell, and what is wrong with it told.
        """
        if name not in self._plain:
            self._plain[name] = plain_numbers(self.cells(name), self.decimal)
        return self._plain[name]

    def _hint(self, cell: Any) -> str:
        cure = hint(cell, self.decimal)
        return f" In another notation: {cure}" if cure else ""

    def categories(self, name: str) -> np.ndarray:
        """Return a column as text, None where missing; numbers lose a trailing .0."""
        out, cells = np.empty(len(self), dtype=object), self.cells(name)
        if isinstance(cells, RepeatedCells):
            return cells.mapped(lambda cell: None if missing(cell) else _text(cell))
        if set(map(type, cells)) <= {str, type(None)}:  # others may be equal and have other text
            text = {c: None if missing(c) else _text(c) for c in set(cells)}
            out[:] = [text[c] for c in cells]
        else:
            out[:] = [None if missing(c) else _text(c) for c in cells]
        return out


def _is_plain_text(cells: Sequence[Any], decimal: str) -> bool:
    """Whether a column holds text, some that is not missing and none that is a number."""
    texts = cells.used()[0] if isinstance(cells, RepeatedCells) else cells
    if not set(map(type, texts)) <= {str, type(None)}:
        return False
    there = [c for c in set(texts) if not missing(c)]
    return bool(there) and not any(is_number(c, decimal) for c in there)


def read_table(
    path: str,
    encoding: str = "utf-8",
    budget: int | None = None,
    decimal: str = ".",
    most: tuple[int, int] | None = None,
    drop: Collection[str] = (),
) -> FileTable:
    """Read a CSV or Parquet file, or a folder of Parquet files; ``-`` is CSV from standard input.

    A table whose cells do not fit the budget in bytes is refused before they are made; `most` is
    how many random rows to read of files that do not fit, and the seed. Columns to drop are not
    read of Parquet files; their cells are empty.
    """
    if path != "-":
        _check_path(path)
    if is_parquet(path):
        table = _read_parquet(path, budget, most, drop)
    elif path == "-":
        table = _whole_csv(sys.stdin.buffer, "standard input", encoding, budget, decimal)
    elif most is not None and _is_larger(path, budget):
        rows = sum(map(len, _csv_batches(path, encoding, budget)))
        needed = table_size(path)[1]
        table = _some_rows(path, _csv_batches(path, encoding, budget), rows, needed, budget, most)
    else:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size  # none of a pipe
            check_budget(CSV_BYTE * size, path, budget, _TOO_LARGE)
            table = _whole_csv(file, path, encoding, budget, decimal, max(size, CHUNK))
    if not len(table):
        raise InvalidInput(f"{table.path}: the table has a header but no rows.")
    return replace(table, decimal=decimal)


def table_batches(
    path: str,
    encoding: str = "utf-8",
    budget: int | None = None,
    decimal: str = ".",
    drop: Collection[str] = (),
) -> Iterator[FileTable]:
    """Yield a table in parts: as many rows at a time as fit, a CSV file that fits as a whole."""
    if not is_parquet(path) and not _is_larger(path, budget):
        yield read_table(path, encoding, budget, decimal)
        return
    _check_path(path)
    rows = 0
    batches = _parquet_batches(path, budget, drop)
    for table in batches if is_parquet(path) else _csv_batches(path, encoding, budget):
        rows += len(table)
        yield replace(table, decimal=decimal)
    if not rows:
        raise InvalidInput(f"{path}: the table has a header but no rows.")


def table_size(path: str, drop: Collection[str] = ()) -> tuple[int, int]:
    """Return the rows of a table, of CSV about how many, and the bytes of its cells in memory.

    Of what can be read once only nothing is known: none of both.
    """
    if is_parquet(path):
        return cells_size(path, drop)
    return csv_size(path) if path != "-" and os.path.isfile(path) else (0, 0)


def drawn_rows(rows: int, most: tuple[int, int]) -> np.ndarray:
    """Return the positions of random rows, in order: how many, and the seed."""
    count, seed = most
    return np.sort(np.random.default_rng(seed).choice(rows, min(count, rows), replace=False))


def _is_larger(path: str, budget: int | None) -> bool:
    """Whether a CSV file that can be read again takes more memory than is allowed."""
    return budget is not None and table_size(path)[1] > budget


def _whole_csv(
    stream: BinaryIO,
    name: str,
    encoding: str,
    budget: int | None,
    decimal: str,
    part: int = CHUNK,
) -> FileTable:
    data = _bounded(stream, name, budget, part)
    _check_magic(data, name)
    cure = "" if name == "standard input" else _TOO_LARGE
    allow = partial(check_budget, name=name, budget=budget, cure=cure)
    columns = csv_columns(data, name, encoding, decimal, allow)
    return FileTable(name, *columns, "line", decimal)


def read_csv(data: bytes, path: str, encoding: str = "utf-8", decimal: str = ".") -> FileTable:
    """Return the table of delimited text."""
    columns = csv_columns(data, path, encoding, decimal, lambda needed: None)
    return FileTable(path, *columns, "line", decimal)


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
    by_columns, by_rows = csv_memory(data)
    allow(by_columns)
    if len(data) > _SMALL:
        refuse_long_lines(data, path)
        with suppress(ImportError):
            found = _by_columns(data, path, encoding, decimal)
            if found is not None:
                return found
    allow(by_rows)
    return csv_cells(data, path, encoding)


def _by_columns(data: bytes, path: str, encoding: str, decimal: str) -> Columns | None:
    """Return the columns; None where something is unusual."""
    text = _as_utf8(data, encoding)
    if text is None or b"\0" in text:
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

    def looks(cell: str) -> bool:
        return missing(cell) or is_number(cell, decimal)

    return text_columns(text, end + 1, names, delimiter, decimal, MARKS, looks)


def _as_utf8(data: bytes, encoding: str) -> bytes | None:
    """Return text in UTF-8 without a byte order mark, None where it is not what it is said to be.

    Text of few characters is the same in most encodings, but its columns are looked at as UTF-8.
    """
    codec = codec_of(encoding)
    try:
        if codec == "utf-8-sig":
            text = data.removeprefix(BOM_UTF8)
            if not text.isascii():
                text.decode()
            return text
        return data.decode(codec).encode()
    except UnicodeError:
        return None


def _csv_batches(path: str, encoding: str, budget: int | None) -> Iterator[FileTable]:
    with open(path, "rb") as file:
        _check_magic(file.read(8), path)
    for columns, places in csv_batches(path, encoding, budget or 0):
        yield FileTable(path, columns, places, "line")


def _read_parquet(
    path: str, budget: int | None, most: tuple[int, int] | None, drop: Collection[str]
) -> FileTable:
    alone = not os.path.isdir(path)
    if alone and parquet_libraries()[0] is None:
        whole = polars_cells(path, lambda needed: check_budget(needed, path, budget))
        return FileTable(path, whole, range(1, len(next(iter(whole.values()))) + 1), "row")
    damaged = f"{path}: cannot be read as Parquet" if alone and most is None else ""
    rows, needed = cells_size(path, drop, damaged)
    batches = _parquet_batches(path, budget, drop)
    if budget is not None and needed > budget and most is not None:
        return _some_rows(path, batches, rows, needed, budget, most)
    check_budget(needed, path, budget, _TOO_LARGE)
    return FileTable(path, _joined(batches), range(1, rows + 1), "row")


def _some_rows(
    path: str,
    batches: Iterator[FileTable],
    rows: int,
    needed: int,
    budget: int | None,
    most: tuple[int, int],
) -> FileTable:
    """Return random rows of a table that does not fit."""
    chosen = drawn_rows(rows, most)
    check_budget(int(needed * len(chosen) / max(1, rows)), path, budget, " Choose fewer rows.")
    places: list[int] = []
    kind = ""

    def found() -> Iterator[FileTable]:
        nonlocal kind
        passed = 0
        for batch in batches:
            low, high = np.searchsorted(chosen, [passed, passed + len(batch)])
            some = batch.take((chosen[low:high] - passed).tolist())
            passed, kind = passed + len(batch), batch.place
            places.extend((chosen[low:high] + 1).tolist() if kind == "row" else some.places)
            yield some

    columns = _joined(found())
    return FileTable(path, columns, places, kind, sampled_from=rows)


def _joined(batches: Iterable[FileTable]) -> dict[str, Sequence[Any]]:
    """Return the columns of all batches."""
    parts: dict[str, list[Sequence[Any]]] = {}
    for batch in batches:
        if parts and set(parts) != set(batch.columns):
            raise InvalidInput(f"{batch.path}: has other columns than the files before it.")
        for name, cells in batch.columns.items():
            parts.setdefault(name, []).append(cells)
    return {name: joined(some) for name, some in parts.items()}


def _parquet_batches(
    path: str, budget: int | None, drop: Collection[str] = ()
) -> Iterator[FileTable]:
    if parquet_libraries()[0] is None and not os.path.isdir(path):
        yield _read_parquet(path, budget, None, drop)
        return
    for name, before, cells in cell_batches(path, budget, drop):
        places = range(before + 1, before + len(next(iter(cells.values()))) + 1)
        yield FileTable(name, cells, places, "row")


def listed(names: Iterable[Any], most: int, show: Callable[[Any], str] = repr) -> str:
    """Return the first names as text, and whether there are more."""
    texts = [show(name) for name in names]
    return ", ".join(texts[:most]) + (", …" if len(texts) > most else "")


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file or a folder, which can only hold such."""
    return path.lower().endswith((".parquet", ".pq")) or (path != "-" and os.path.isdir(path))


def check_budget(needed: int, name: str, budget: int | None, cure: str = "") -> None:
    """Refuse a table whose cells do not fit the memory budget."""
    if budget is not None and needed > budget:
        raise InvalidInput(
            f"{name}: too large to read, the table takes {human(needed)} of memory or more and "
            f"{human(budget)} are allowed; allow more with --memory, or give a part of the table."
            f"{cure}"
        )


def _check_path(path: str) -> None:
    if "://" in path:
        raise InvalidInput(f"{path}: an address, not a file; mercer opens files only.")
    if os.path.isdir(path) and not any(is_parquet(n) for n in os.listdir(path)):
        raise InvalidInput(
            f"{path}: is a directory without Parquet files; give a CSV or Parquet file, or a "
            "folder of Parquet files."
        )
    status = os.stat(path)  # OSError with its own words if there is no such file
    kind = stat.S_IFMT(status.st_mode)
    # Pipes are read as far as they fit the budget; /dev/stdin may be a terminal.
    if kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK) and not _is_terminal(status):
        raise InvalidInput(
            f"{path}: is a device, not a table; give a CSV or Parquet file, a pipe, or - for "
            "standard input."
        )
    if is_parquet(path) and not os.path.isdir(path):
        with open(path, "rb") as file:
            _check_magic(file.read(8), path, parquet=True)


def _is_terminal(status: os.stat_result) -> bool:
    """Whether a device is the terminal that standard input comes from."""
    try:
        return os.isatty(0) and os.path.samestat(os.fstat(0), status)
    except OSError:  # there is no standard input
        return False


def _check_magic(data: bytes, name: str, parquet: bool = False) -> None:
    """Name a file that begins as another kind of file does."""
    for magic, what in _MAGIC:
        if data.startswith(magic) and not (parquet and magic == b"PAR1"):
            raise InvalidInput(f"{name}: is {what}.")


def _bounded(stream: BinaryIO, name: str, budget: int | None, most: int) -> bytes:
    """Read a stream to its end, or give up when what has come cannot fit the budget."""
    parts, size = [], 0
    while part := stream.read(most):
        parts.append(part)
        size += len(part)
        check_budget(CSV_BYTE * size, name, budget)
        if not part.strip(b"\0"):  # of a device, it would never end
            raise InvalidInput(f"{name}: holds NUL characters; this is not a text table.")
    return b"".join(parts)


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
