"""``mercer explain``: a model file and a table in, the share of each column in predictions out."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor

from mercer.cli.arguments import FIRST
from mercer.cli.files import UsageError, check_output, missing, write_answers
from mercer.cli.predict import model_rows, named_model
from mercer.cli.report import layout, model_text
from mercer.cli.tables import FileTable, table_batches
from mercer.domains.tables import joined
from mercer.errors import InvalidInput, figure
from mercer.estimator import NAMELESS
from mercer.models import TableClassifier, TableRegressor
from mercer.settings import config, get_config

if TYPE_CHECKING:
    from mercer.cli.program import Console

_BEHIND = {"background": 100, "marginal": 500}  # rows of a background


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command."""
    output, behind = arguments.output, arguments.background
    if arguments.table == behind == "-":
        raise UsageError("standard input can be one of the tables, not both.")
    if behind is not None and arguments.game == "baseline":
        raise UsageError("--game baseline needs no background; leave --background out.")
    if output:
        check_output(output, arguments.force, arguments.model, arguments.table)
    with config(memory=arguments.memory):
        model = named_model(arguments.model)
        game = _game(model, arguments)
        with console.stage(f"reading {arguments.table}"):
            told = _rows(model, game, arguments)
        with console.stage(f"explaining {len(told.rows)} rows of {arguments.table}"):
            found = _explained(model, told, game, arguments)
    if output is not False:
        columns = _columns(found, told, arguments.keep)
        write_answers(columns, output, arguments.force, arguments.raw_csv, console.answer)
    if output is not None:
        lines = [*_head(model, told, found, arguments), *_by_row(found, told, arguments.top)]
        console.say(layout(lines))


@dataclass(frozen=True)
class _Rows:
    """Rows to explain as the model reads them, and rows that stand for what is not known."""

    rows: np.ndarray  # their numbers
    source: FileTable
    X: Any
    count: int  # rows of the table
    behind: Any
    whence: str  # in words, of the background


@dataclass(frozen=True)
class _Found:
    """What a model says of rows, and its explanation for each output."""

    target: str
    predicted: np.ndarray  # (n,) or (n, t)
    outputs: list[tuple[str, Any]]  # "" for the only one
    is_number: bool  # whether base and shares add up to what is predicted


def _keeps_no_rows(model: Any) -> bool:
    """Whether a model is asked at mixed rows of a background that is given."""
    return isinstance(model, TableRegressor | TableClassifier) or hasattr(model, "encoder_")


def _game(model: Any, arguments: argparse.Namespace) -> str:
    kind = type(model).__name__
    if not _keeps_no_rows(model) and getattr(model, "function_", None) is None:
        raise InvalidInput(
            f"{arguments.model}: holds a {kind}, which is no function of a kernel; models of "
            "mercer fit, kernel ridges, machines and Gaussian processes can be explained."
        )
    if not _keeps_no_rows(model):
        return arguments.game or "marginal"
    if arguments.game not in (None, "background"):
        raise InvalidInput(
            f"{arguments.model}: a {kind} is asked at mixed rows, which is --game background; "
            "leave --game out."
        )
    return "background"


def _rows(model: Any, game: str, arguments: argparse.Namespace) -> _Rows:
    """Return the rows that are asked for, and those of the background."""
    most = _BEHIND.get(game, 0)
    own = arguments.background is None and _keeps_no_rows(model)

    def wanted(count: int) -> tuple[np.ndarray, np.ndarray]:
        return _asked(arguments, count), _even(count, most) if own else np.arange(0)

    source, count = _picked(arguments.table, arguments, lambda n: np.union1d(*wanted(n)))
    rows, even = wanted(count)
    both = np.union1d(rows, even)
    X = model_rows(model, source)
    behind, whence = None, "none: a column that is not known is left out of the kernel"
    if own:
        behind = _taken(X, np.searchsorted(both, even))
        whence = f"{len(even)} of {count} rows of {source.path}; --background names another table"
        if len(even) == count:
            whence = f"the {count} rows of {source.path}; --background names another table"
    elif arguments.background is not None:
        other, all_ = _picked(arguments.background, arguments, lambda n: _even(n, most))
        behind = model_rows(model, other)
        whence = f"{len(other)} of {all_} rows of {other.path}"
    elif game != "baseline":
        whence = "points that the model keeps"
    at = np.searchsorted(both, rows)
    return _Rows(rows, source.take(at.tolist()), _taken(X, at), count, behind, whence)


def _taken(X: Any, rows: np.ndarray) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else X.take(rows)


def _even(count: int, most: int) -> np.ndarray:
    """Return the positions of some rows, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _asked(arguments: argparse.Namespace, count: int) -> np.ndarray:
    """Return the rows that --rows names, each once and in their order."""
    named = []
    for first, end in arguments.rows:
        last = count if end is None else end
        if arguments.rows == FIRST:
            last = min(last, count)
        if not first < last <= count:
            what = f"{first}:{'' if end is None else end}" if last != first + 1 else str(first)
            raise InvalidInput(
                f"{arguments.table}: --rows {what}; there are rows 0 to {count - 1}."
            )
        named.append(np.arange(first, last))
    return np.unique(np.concatenate(named))


def _picked(
    path: str, arguments: argparse.Namespace, choose: Callable[[int], np.ndarray]
) -> tuple[FileTable, int]:
    """Return the rows of a table that are chosen of so many, and how many there are."""
    where = path, arguments.encoding, get_config().memory, arguments.decimal
    batches = table_batches(*where)
    first, second = next(batches), next(batches, None)
    if second is None:
        return first.take(choose(len(first)).tolist()), len(first)
    count = len(first) + len(second) + sum(map(len, batches))
    chosen, passed, parts = choose(count), 0, []
    for batch in table_batches(*where):
        low, high = np.searchsorted(chosen, [passed, passed + len(batch)])
        if high > low:
            parts.append(batch.take((chosen[low:high] - passed).tolist()))
        passed += len(batch)
    columns = {name: joined([part.columns[name] for part in parts]) for name in parts[0].columns}
    places = [place for part in parts for place in part.places]
    return FileTable(path, columns, places, first.place, arguments.decimal), count


def _explained(model: Any, told: _Rows, game: str, arguments: argparse.Namespace) -> _Found:
    options: dict[str, Any] = {"random_state": arguments.seed}
    if told.behind is not None:
        options["background"] = told.behind
    if not _keeps_no_rows(model):
        options["game"] = game
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=NAMELESS)  # they are in the right order
        found = model.explain(told.X, **options)
        predicted = np.asarray(model.predict(told.X))
    target = str(getattr(model, "notes_", {}).get("target", "y"))
    if found.values.ndim == 2:
        outputs = [("", found)]
    else:
        names = found.outputs or tuple(f"y{k}" for k in range(found.values.shape[2]))
        outputs = [(name, found.output(k)) for k, name in enumerate(names)]
    return _Found(target, predicted, outputs, bool(is_regressor(model)))


# ---- The table of shares ----


def _columns(found: _Found, told: _Rows, keep: list[str]) -> dict[str, list]:
    """Return the columns of the answer; of several outputs a row for each of them."""
    several = len(found.outputs)
    columns: dict[str, list] = {"row": _repeated(told.rows.tolist(), several)}
    for name in keep:
        _add(columns, name, _repeated(list(told.source.cells(name)), several))
    predicted = [_of_output(found.predicted, k).tolist() for k in range(several)]
    _add(columns, f"predicted_{found.target}", _woven(predicted))
    if found.outputs[0][0]:
        _add(columns, "output", [name for name, _ in found.outputs] * len(told.rows))
    parts = [told for _, told in found.outputs]
    if not found.is_number:
        _add(columns, "value", _woven([part.totals.tolist() for part in parts]))
    _add(columns, "base", _woven([part.base_values.tolist() for part in parts]))
    for j, name in enumerate(parts[0].columns):
        _add(columns, f"share_{name}", _woven([part.values[:, j].tolist() for part in parts]))
    return columns


def _add(columns: dict[str, list], name: str, values: list) -> None:
    if name in columns:
        raise InvalidInput(f"--keep {name}: a column of the shares has that name.")
    columns[name] = values


def _repeated(values: list, times: int) -> list:
    return [value for value in values for _ in range(times)]


def _woven(lists: list[list]) -> list:
    """Return the values of the first row of all lists, then of the second."""
    return [value for row in zip(*lists, strict=True) for value in row]


def _of_output(predicted: np.ndarray, k: int) -> np.ndarray:
    return predicted if predicted.ndim == 1 else predicted[:, k]


# ---- The report ----


def _head(
    model: Any, told: _Rows, found: _Found, arguments: argparse.Namespace
) -> list[tuple[str, str]]:
    name = type(model).__name__ if not hasattr(model, "model_") else model_text(model)
    lines = [
        ("rows", f"{len(told.rows)} of {told.count} of {told.source.path}"),
        ("model", f"{arguments.model}: {name}"),
        ("background", told.whence),
    ]
    if not found.is_number:
        meaning = "shares add up to the model's decision value"
        classes = list(getattr(model, "classes_", ()))
        if len(classes) == 2:
            meaning += f": above 0 it says {str(classes[1])!r}, below {str(classes[0])!r}"
        lines.append(("value", meaning))
    if any(part.std is not None for _, part in found.outputs):
        drawn = "in brackets, standard errors of the shares: orders of the columns are drawn"
        if not _keeps_no_rows(model) and hasattr(model, "log_marginal_likelihood_value_"):
            drawn = "in brackets, posterior standard deviations of the shares"
        lines.append(("errors", drawn))
    error = max(part.error for _, part in found.outputs)
    if error:
        lines.append(("error", f"shares are off by {figure(error)} at most"))
    return lines


def _by_row(found: _Found, told: _Rows, top: int) -> list[tuple[str, str]]:
    """Return for each row what is predicted, the base, and the largest shares."""
    lines = []
    for i, row in enumerate(told.rows):
        place = f"{told.source.place} {told.source.places[i]}"
        said = [_shown(_of_output(found.predicted, k)[i]) for k in range(len(found.outputs))]
        asked = list(enumerate(found.outputs))
        about = [pair for pair in asked if pair[1][0] == said[0]] if said else []
        for k, (name, part) in about or asked:
            head = f"{place}: {found.target} {said[k]}"
            if not found.is_number:
                head += f", value{f' of {name}' * bool(name)} {figure(float(part.totals[i]))}"
            elif name:
                head += f" ({name})"
            lines.append((f"row {row}", f"{head}, base {figure(float(part.base))}"))
            lines += [("", text) for text in _shares(part, i, top)]
    return lines


def _shares(part: Any, i: int, top: int) -> list[str]:
    values, texts = part.values[i], []
    order = np.argsort(-np.abs(values), kind="stable")
    for j in order[:top]:
        spread = "" if part.std is None else f" (± {figure(float(part.std[i, j]))})"
        cell = _shown(part.data[i, j])
        texts.append(f"{part.columns[j]} = {cell}: {_signed(float(values[j]))}{spread}")
    rest = order[top:]
    if len(rest):
        what = f"{len(rest)} other column{'s' * (len(rest) > 1)}"
        texts.append(f"{what}: {_signed(float(values[rest].sum()))}")
    return texts


def _shown(cell: Any) -> str:
    if missing(cell) or cell is None:
        return "missing"
    return figure(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{figure(value)}"
