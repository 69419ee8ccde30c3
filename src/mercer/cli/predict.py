"""``mercer predict``: a model file and a table in, one prediction a row out."""

from __future__ import annotations

import argparse
import io
import sys
from typing import Any

import numpy as np

from mercer.cli.console import Console
from mercer.cli.delimited import write_csv
from mercer.cli.files import check_output, read_model, write_output
from mercer.cli.tables import FileTable, is_parquet, read_table
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.models import TableClassifier, TableRegressor
from mercer.settings import config, get_config

__all__ = ["run"]


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command.

    Parameters
    ----------
    arguments : Namespace
        The parsed arguments.
    console : Console
        Where warnings and progress go.
    """
    output = arguments.output
    if output is not None:
        check_output(output, arguments.force, arguments.model, arguments.table)
    with config(memory=arguments.memory):
        model = table_model(arguments.model)
        with console.stage(f"reading {arguments.table}"):
            source = read_table(arguments.table, arguments.encoding, get_config().memory)
            rows = _rows(model, source)
        columns: dict[str, Any] = {name: source.cells(name) for name in arguments.keep}
        with console.stage(f"predicting {len(source)} rows"):
            predicted = model.predict(rows)
    header = f"predicted_{model.notes_.get('target', 'y')}"
    if header in columns:
        raise InvalidInput(f"--keep {header}: the column of predictions has that name.")
    columns[header] = predicted.tolist()
    if output is not None and is_parquet(output):
        from mercer.cli.parquet import parquet_bytes

        write_output(output, parquet_bytes(columns), arguments.force)
        return
    text = io.StringIO(newline="")
    write_csv(text, list(columns), zip(*columns.values(), strict=True), arguments.raw_csv)
    data = text.getvalue().encode("utf-8")
    if output is not None:
        write_output(output, data, arguments.force)
    elif sys.stdout is not None:  # the same bytes as in a file, whatever the locale
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def table_model(path: str) -> Any:
    """Return the table model in a file, or say what the file holds instead.

    Parameters
    ----------
    path : str
        The model file.

    Returns
    -------
    TableRegressor or TableClassifier
        The model.
    """
    model = read_model(path)
    if not isinstance(model, TableRegressor | TableClassifier):
        raise InvalidInput(
            f"{path}: holds a {type(model).__name__}, which knows no column names; models for "
            "tables come from mercer fit, or are a saved TableRegressor or TableClassifier."
        )
    if not model.encoder_.named_:
        raise InvalidInput(
            f"{path}: holds a {type(model).__name__} fitted on an array without column names; "
            "fit it on a table."
        )
    return model


def _rows(model: Any, source: FileTable) -> Table:
    """The model's columns, each converted to the kind it was fitted as."""
    encoder = model.encoder_
    absent = [name for name in encoder.columns_ if name not in source.columns]
    if absent:
        shown = ", ".join(map(repr, absent[:8])) + (", …" if len(absent) > 8 else "")
        has = ", ".join(map(repr, list(source.columns)[:12]))
        raise InvalidInput(
            f"{source.path}: missing column {shown}, which the model was fitted on; "
            f"the table has {has}."
        )
    columns: dict[str, np.ndarray] = {}
    for name, kind in zip(encoder.columns_, encoder.kinds_, strict=True):
        columns[name] = source.numbers(name) if kind == "number" else source.categories(name)
    return Table(columns)
