"""Output files of the command line: refused early, written whole, never overwritten unasked."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mercer.errors import InvalidInput

__all__ = [
    "UsageError",
    "check_output",
    "read_model",
    "save_model",
    "write_answers",
    "write_output",
]


class UsageError(InvalidInput):
    """Arguments that do not go together: exit code 2."""


def check_output(path: str, force: bool, *inputs: str) -> None:
    """Refuse a path that cannot or must not be written, before any work is done.

    Parameters
    ----------
    path : str
        The file to be written later.
    force : bool
        Whether an existing file may be overwritten.
    *inputs : str
        Files that are read, and must not be the one that is written.
    """
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
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"{path}: the directory {folder} cannot be written.")


def write_output(path: str, data: bytes, force: bool) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : str
        The file.
    data : bytes
        Its content.
    force : bool
        Whether an existing file may be overwritten.
    """
    from mercer.engines.atomic import replace_file

    try:
        replace_file(os.path.realpath(path), [data], overwrite=force)
    except FileExistsError:
        raise InvalidInput(f"{path}: exists; --force overwrites it.") from None


def write_answers(
    columns: Mapping[str, Sequence[Any]], path: str | None, force: bool, raw: bool
) -> None:
    """Write named columns: Parquet or CSV by the ending of the path, without one CSV on stdout.

    Parameters
    ----------
    columns : mapping of str to sequences
        The columns.
    path : str or None
        The file; None is standard output.
    force : bool
        Whether an existing file may be overwritten.
    raw : bool
        Write text as it is, also what a spreadsheet would run.
    """
    if path is not None and path.lower().endswith((".parquet", ".pq")):
        from mercer.cli.parquet import parquet_bytes

        write_output(path, parquet_bytes(dict(columns)), force)
        return
    from mercer.cli.delimited import write_csv

    text = io.StringIO(newline="")
    tabs = path is not None and path.lower().endswith(".tsv")
    write_csv(text, list(columns), zip(*columns.values(), strict=True), raw, "\t" if tabs else ",")
    data = text.getvalue().encode("utf-8")
    if path is not None:
        write_output(path, data, force)
    elif sys.stdout is not None:  # the same bytes as in a file, whatever the locale
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def save_model(model: Any, path: str, force: bool) -> None:
    """Save a model, without overwriting unasked.

    Parameters
    ----------
    model : estimator
        The model.
    path : str
        The file.
    force : bool
        Whether an existing file may be overwritten.
    """
    from mercer.io import save

    try:
        save(model, path, overwrite=force)
    except FileExistsError:
        raise InvalidInput(f"{path}: exists; --force overwrites it.") from None


def read_model(path: str) -> Any:
    """Return the model in a file.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    object
        The model.
    """
    from mercer.io import load

    if os.path.isdir(path):
        raise InvalidInput(f"{path}: is a directory; give a model file.")
    return load(path)
