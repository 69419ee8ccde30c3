"""Output files of the command line: refused early, written whole, never overwritten unasked."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from mercer.cli.tables import hint, is_number
from mercer.domains.blocks import parquet_libraries
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
