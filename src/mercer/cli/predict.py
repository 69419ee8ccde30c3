"""``mercer predict``, one prediction for each row of a table, and ``mercer info``, of the model."""

from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.files import check_output, is_table, read_model, write_batches
from mercer.cli.report import (
    INSIDE,
    Score,
    column_lines,
    kernel_lines,
    layout,
    model_lines,
    model_text,
)
from mercer.cli.tables import FileTable, is_parquet, listed, table_batches
from mercer.domains import Table
from mercer.domains.blocks import column_types
from mercer.errors import InvalidInput, figure
from mercer.estimator import NAMELESS
from mercer.features import TableColumns
from mercer.memory import human
from mercer.models import (
    GaussianProcessRegressor,
    KernelQuantileRegressor,
    KernelRidge,
    SparseGaussianProcessRegressor,
    TableClassifier,
    TableRegressor,
)
from mercer.settings import config, get_config

if TYPE_CHECKING:
    from mercer.cli.program import Console

_PROCESSES = (GaussianProcessRegressor, SparseGaussianProcessRegressor)
_SPOKEN = ("transform", "score_samples", "decision_function")  # what models without predict have
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command."""
    if arguments.command == "info":
        _info(arguments, console)
        return
    output = arguments.output
    if output is not None:
        check_output(output, arguments.force, arguments.model, arguments.table)
    with config(memory=arguments.memory):
        model = named_model(arguments.model)
        _check_asked(model, arguments)
        doubts = Doubts(getattr(model, "encoder_", None))
        types = {}
        if is_table(output) and is_parquet(arguments.table):
            types = column_types(arguments.table, arguments.keep)
        with console.stage(f"predicting {arguments.table}"):
            batches = _batches(model, arguments, doubts)
            write_batches(
                batches, output, arguments.force, arguments.raw_csv, console.answer, types
            )
    for warning in doubts.texts():
        console.warn(f"{arguments.table}: {warning}")


def _batches(model: Any, arguments: argparse.Namespace, doubts: Doubts) -> Iterator[dict[str, Any]]:
    """Yield the columns of the output, for as many rows at a time as fit."""
    where = arguments.table, arguments.encoding, get_config().memory, arguments.decimal
    for source in table_batches(*where):
        rows = model_rows(model, source)
        doubts.add(rows)
        columns: dict[str, Any] = {name: source.cells(name) for name in arguments.keep}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=NAMELESS)  # they are in the right order
            answers = _answers(model, rows, arguments, doubts)
        for header, values in answers.items():
            if header in columns:
                raise InvalidInput(f"--keep {header}: the column of predictions has that name.")
            columns[header] = values
        yield columns


def _check_asked(model: Any, arguments: argparse.Namespace) -> None:
    """Refuse what the model cannot say."""
    has_classes, has_chances = hasattr(model, "classes_"), hasattr(model, "predict_proba")
    inside = getattr(model, "model_", model)
    rows = vars(inside).get("n_rows_", 0)
    centres = inside.kernel_.domain.size(inside.X_fit_) if rows else 0
    cure = "fit it anew with mercer fit --model svc"
    if centres < rows:
        cure += " --max-rows N, for N rows that memory holds,"
    if arguments.probabilities and not has_chances:
        if not has_classes:
            raise InvalidInput(
                f"{arguments.model}: the model predicts numbers, and probabilities are of classes; "
                "give --interval 0.9 to know how sure a number is."
            )
        raise InvalidInput(
            f"{arguments.model}: the model has no probabilities; {cure} for one that has them."
        )
    if arguments.interval is None:
        return
    if isinstance(inside, KernelRidge) and centres < rows:
        raise InvalidInput(
            f"{arguments.model}: the model was fitted on {rows} rows by {centres} centres, and "
            "intervals need an exact fit; mercer fit --max-rows N fits N rows exactly, if memory "
            "holds them."
        )
    if has_classes:
        known = "" if has_chances else f"{cure} and "
        raise InvalidInput(
            f"{arguments.model}: the model predicts classes, and an interval is of numbers; "
            f"{known}give --probabilities to know how sure a class is."
        )
    if isinstance(model, KernelQuantileRegressor):
        _ends_among(model, arguments)
    elif not (hasattr(model, "predict_interval") or isinstance(model, _PROCESSES)):
        raise InvalidInput(
            f"{arguments.model}: {type(model).__name__} has no intervals; the models for numbers "
            "of mercer fit, TableRegressor, KernelRidge and GaussianProcessRegressor have them."
        )


def _interval(model: Any, rows: Any, arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return the ends of intervals that hold a new target with the probability asked for."""
    if isinstance(model, _PROCESSES):
        mean, spread = model.predict(rows, return_std=True)
        reach = NormalDist().inv_cdf((1 + arguments.interval) / 2) * spread
        return mean - reach, mean + reach
    if isinstance(model, KernelQuantileRegressor):
        low, high = _ends_among(model, arguments)
        quantiles = model.predict(rows)
        return quantiles[:, low], quantiles[:, high]
    return model.predict_interval(rows, arguments.interval)


def _ends_among(model: KernelQuantileRegressor, arguments: argparse.Namespace) -> tuple[int, int]:
    """Return which quantiles of a model are the ends of an interval, or say which it has."""
    levels = np.atleast_1d(model.quantile_)
    ends = (1 - arguments.interval) / 2, (1 + arguments.interval) / 2
    found = [int(np.argmin(np.abs(levels - end))) for end in ends]
    if np.allclose(levels[found], ends, rtol=0, atol=1e-9):
        return found[0], found[1]
    pairs = [1 - 2 * t for t in levels if t < 0.5 and np.isclose(levels, 1 - t, atol=1e-9).any()]
    cure = f", or give --interval {' or '.join(map(figure, sorted(pairs)))}" if pairs else ""
    raise InvalidInput(
        f"{arguments.model}: the model has the quantile{'s' if len(levels) > 1 else ''} "
        f"{', '.join(map(figure, levels))}, and an interval of {figure(arguments.interval)} ends "
        f"at those of {figure(ends[0])} and {figure(ends[1])}; fit it with these{cure}."
    )


def _answers(
    model: Any, rows: Any, arguments: argparse.Namespace, doubts: Doubts
) -> dict[str, list]:
    """The column of predictions, and those of intervals and probabilities that are asked for."""
    target = getattr(model, "notes_", {}).get("target", "y")
    answers = _columns(f"predicted_{target}", model.predict(rows))
    if arguments.interval is not None:
        ends = _interval(model, rows, arguments)
        doubts.endless = doubts.endless or not np.isfinite(ends).all()
        for name, end in zip(("lower", "upper"), ends, strict=True):
            answers |= _columns(f"{name}_{target}", end)
    if arguments.probabilities:
        for name, column in zip(model.classes_, model.predict_proba(rows).T, strict=True):
            answers[f"probability_{name}"] = column.tolist()
    return answers


def _columns(header: str, values: Any) -> dict[str, list]:
    """One column, or one for each output."""
    values = np.asarray(values)
    if values.ndim == 1:
        return {header: values.tolist()}
    return {f"{header}_{j}": column.tolist() for j, column in enumerate(values.T)}


def named_model(path: str) -> Any:
    """Return the model in a file that knows its columns by name, or say what it holds instead."""
    model = read_model(path)
    if hasattr(model, "feature_names_in_") and hasattr(model, "predict"):
        return model
    if not hasattr(model, "predict"):
        says = next((name for name in _SPOKEN if hasattr(model, name)), "")
        how = f"; in Python, mercer.load({path!r}).{says}(X) answers" if says else ""
        raise InvalidInput(f"{path}: holds a {type(model).__name__}, which has no predict{how}.")
    if not isinstance(model, TableRegressor | TableClassifier):
        raise InvalidInput(
            f"{path}: holds a {type(model).__name__}, which knows no column names; models for "
            "tables come from mercer fit, or were fitted on a table or on Parquet files."
        )
    if not model.encoder_.named_:
        raise InvalidInput(
            f"{path}: holds a {type(model).__name__} fitted on an array without column names; "
            "fit it on a table."
        )
    return model


def model_rows(model: Any, source: FileTable) -> Any:
    """Return the model's columns, converted to the kinds it was fitted as; numbers without encoder.

    Parameters
    ----------
    model : estimator
        It knows its columns by name.
    source : FileTable
        The rows.
    """
    encoder = getattr(model, "encoder_", None)
    names = model.feature_names_in_ if encoder is None else encoder.columns_
    absent = [name for name in names if name not in source.columns]
    if absent:
        near = {n.lower().strip(): n for n in source.columns}
        found = [near[n.lower().strip()] for n in absent if n.lower().strip() in near]
        hint = f"the table has {listed(source.columns, 12)}."
        if found:
            hint = f"did you mean {', '.join(map(repr, found[:8]))}?"
        raise InvalidInput(
            f"{source.path}: missing column{'s' if len(absent) > 1 else ''} {listed(absent, 8)}, "
            f"which the model was fitted on; {hint}"
        )
    if encoder is None:
        X = np.column_stack([source.numbers(name) for name in names])
        bad = np.argwhere(np.isnan(X))
        if len(bad):
            i, j = bad[0]
            raise InvalidInput(
                f"{source.where(int(i), names[j])}: the cell is empty, and the model needs a "
                "number; fill it, or leave out the row."
            )
        return X
    kinds = dict(zip(encoder.columns_, encoder.kinds_, strict=True))
    return Table({name: _column(source, name, kind) for name, kind in kinds.items()})


def _column(source: FileTable, name: str, kind: str) -> np.ndarray:
    """A column of a file as a model takes it."""
    if kind == "number":
        return source.numbers(name)
    if kind == "object":
        raise InvalidInput(
            f"{source.path}: the model's column {name!r} holds what no such file does, such as "
            "graphs; predict in Python."
        )
    values = source.categories(name)
    if kind == "truth":
        for i, text in enumerate(values.tolist()):
            if text is not None and text.lower() not in _TRUTH:
                raise InvalidInput(
                    f"{source.where(i, name)}: {text!r} is no truth value; write true or false, "
                    "or empty the cell."
                )
            values[i] = None if text is None else _TRUTH[text.lower()]
    return values


class Doubts:
    """Columns of which the model can use little or nothing, counted batch by batch."""

    endless = False  # whether an interval has no end

    def __init__(self, encoder: Any):
        self._whole = isinstance(encoder, TableColumns)
        self._columns: list[tuple[str, str, tuple[str | None, ...]]] = []
        if encoder is not None:
            known = encoder.known_ if self._whole else encoder.categories_
            self._columns = list(zip(encoder.columns_, encoder.kinds_, known, strict=True))
        self._present, self._unknown = Counter[str](), Counter[str]()
        self._example: dict[str, Any] = {}

    def add(self, rows: Any) -> None:
        """Look at some rows."""
        for name, _, known in self._columns:
            present = [v for v in rows[name].tolist() if v is not None and v == v]
            categories = set(known)  # none of a column of numbers
            unknown = [v for v in present if v not in categories] if categories else []
            if unknown:
                self._example.setdefault(name, unknown[0])
            self._present[name] += len(present)
            self._unknown[name] += len(unknown)

    def texts(self) -> list[str]:
        """Return what there is to say of all rows."""
        doubts = []
        if self.endless:
            doubts.append(
                "the model was fitted on too few rows for intervals of this probability, which "
                "are endless; give a smaller --interval, or fit on more rows."
            )
        for name, kind, known in self._columns:
            if not self._present[name] and None not in known:
                instead = "no category is used"
                if kind == "number":
                    instead = "the median of the training rows is used"
                if self._whole or kind == "kernel":
                    instead = "its cells count as missing"
                doubts.append(f"column {name!r} is empty in all rows; {instead}.")
            if 2 * self._unknown[name] > self._present[name]:
                names = listed((c for c in known if c is not None), 4)
                doubts.append(
                    f"column {name!r}: {self._unknown[name]} of {self._present[name]} values are "
                    f"unknown to the model, such as {self._example[name]!r}; it knows {names}."
                )
        return doubts


# ---- What is in a model file ----


def _info(arguments: argparse.Namespace, console: Console) -> None:
    model = read_model(arguments.model)
    size = os.path.getsize(arguments.model)
    lines = [("file", f"{arguments.model} ({human(size)})"), ("holds", type(model).__name__)]
    lines += _about(model)
    console.say(layout(lines))


def _about(model: Any) -> list[tuple[str, str]]:
    if not isinstance(model, TableRegressor | TableClassifier):
        return _about_estimator(model)
    notes = model.notes_
    lines: list[tuple[str, str]] = []
    if "target" in notes:
        lines.append(("target", f"{notes['target']!r}, {notes.get('task', '')}"))
    if "rows" in notes:
        lines.append(("fitted on", f"{notes['rows']} rows of {notes.get('source', '?')}"))
    if isinstance(model, TableClassifier):
        lines.append(("classes", listed(model.classes_, 12, str)))
    counts = (notes.get(key, {}) for key in ("missing", "categories", "free"))
    lines += column_lines(model.encoder_, *counts)
    lines.append(("model", model_text(model, notes.get("model", ""))))
    lines += kernel_lines(model)
    lines += model_lines(model, notes.get("rows"))
    by_class: list[tuple[str, str]] = []
    for key, label in {"held_out": "held out", **INSIDE}.items():
        if key in notes:
            score = Score(**notes[key])
            lines.append((label, f"{score.rows} rows: {score}"))
            lines += score.interval()
            if not by_class:  # of the rows held out, or else of all
                by_class = score.lines()
                lines += by_class
    if "mercer" in notes:
        lines.append(("written by", f"mercer {notes['mercer']}"))
    return lines


def _about_estimator(model: Any) -> list[tuple[str, str]]:
    """Return what a model that is not for tables tells of its fit, as far as it has it."""
    has = vars(model)
    lines = [("is", " ".join(repr(model).split()))]
    if "feature_names_in_" in has:
        lines.append(("columns", listed(model.feature_names_in_, 12, str)))
    elif "n_features_in_" in has:
        lines.append(("columns", f"{model.n_features_in_}, without names"))
    if "classes_" in has:
        lines.append(("classes", listed(model.classes_, 12, str)))
    if "n_rows_" in has:
        kept = model.kernel_.domain.size(model.X_fit_)
        centres = f", by {kept} centres" if kept < model.n_rows_ else ""
        lines.append(("fitted on", f"{model.n_rows_} rows{centres}"))
    if "kernel_" in has:
        lines.append(("kernel", str(model.kernel_)))
    solution = has.get("solution_")
    if solution is not None and solution.residual is not None:
        state = "converged" if solution.converged else "not converged"
        lines.append(("solved", f"{state}, relative residual {solution.residual:.1e}"))
    return lines
