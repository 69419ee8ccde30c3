"""``mercer fit``: read a table, tune and evaluate a model, fit it on all rows, save it."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import __version__
from mercer.cli.console import Console
from mercer.cli.files import check_output, save_model
from mercer.cli.preparation import Prepared, prepare
from mercer.cli.report import fit_report
from mercer.cli.scores import Score, evaluate, loo_score
from mercer.cli.tables import read_table
from mercer.kernels import as_kernel
from mercer.models import TableClassifier, TableRegressor
from mercer.selection import tune
from mercer.settings import config, get_config

__all__ = ["run"]

_AUTO = ("rbf", "matern", "linear")
_TUNING_ROWS = 2000  # a search factorises many times; beyond this a random part decides
_FEWEST_TO_TUNE = 3
_SMALLEST_SPLIT = 20  # rows below which none are held out


@dataclass(frozen=True)
class _Choice:
    """A kernel with its ridge, and how it was found."""

    kernel: Any
    alpha: float | str
    how: str


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command.

    Parameters
    ----------
    arguments : Namespace
        The parsed arguments.
    console : Console
        Where report, warnings and progress go.
    """
    check_output(arguments.output, arguments.force, arguments.table)
    with config(memory=arguments.memory):
        with console.stage(f"reading {arguments.table}"):
            source = read_table(
                arguments.table, arguments.encoding, get_config().memory, arguments.decimal
            )
            data = prepare(source, arguments)
        for warning in data.warnings:
            console.warn(f"{data.path}: {warning}")
        train, test = _split(data, arguments)
        with console.stage(f"choosing the kernel's parameters on {len(train)} rows"):
            choice = _choose(data.take(train), arguments)
        held_out: Score | None = None
        if len(test):
            with console.stage(f"evaluating on {len(test)} held-out rows"):
                trial = _fitted(data.take(train), choice, arguments)
                held_out = evaluate(data, trial, train, test)
            # the rows held out have done their work: the model to keep may learn from them too
            with console.stage(f"choosing the kernel's parameters on {len(data)} rows"):
                choice = _choose(data, arguments)
        with console.stage(f"fitting {len(data)} rows"):
            model = _fitted(data, choice, arguments)
            leave_one_out = loo_score(data, model)
    model.notes_ = _notes(data, choice, held_out, leave_one_out)
    save_model(model, arguments.output, arguments.force)
    size = os.path.getsize(arguments.output)
    report = fit_report(data, model, held_out, leave_one_out, choice.how, arguments.output, size)
    console.say(report)


def _split(data: Prepared, arguments: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Rows to choose and train on, and rows to evaluate on: a share of each class."""
    n = len(data)
    if arguments.test_fraction == 0 or n < _SMALLEST_SPLIT:
        return np.arange(n), np.arange(0)
    rng = np.random.default_rng(arguments.seed)
    groups = [np.arange(n)]
    if data.task == "classification":
        groups = [np.flatnonzero(data.target == c) for c in np.unique(data.target)]
    test = [rng.permutation(g)[: round(arguments.test_fraction * len(g))] for g in groups]
    held = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(n), held), held


def _choose(data: Prepared, arguments: argparse.Namespace) -> _Choice:
    """The kernel and ridge of least leave-one-out error, as far as the user left them open."""
    names = _AUTO if arguments.kernel == "auto" else (arguments.kernel,)
    if arguments.no_tune or arguments.alpha != "loo" or len(data) < _FEWEST_TO_TUNE:
        how = "scale taken from the data"
        choices = [_Choice(as_kernel(name), arguments.alpha, how) for name in names]
        if len(choices) == 1:
            return choices[0]
        return max(choices, key=lambda c: loo_score(data, _fitted(data, c, arguments)).value)
    results = [_tuned(name, data, arguments) for name in names]
    best = min(results, key=lambda result: result.score).model
    how = "tuned by leave-one-out error"
    if len(data) > _TUNING_ROWS:
        how += f" on {_TUNING_ROWS} random rows"
    return _Choice(best.kernel_, best.alpha_, how)


def _model(kernel: Any, alpha: Any, data: Prepared, arguments: argparse.Namespace) -> Any:
    make = TableRegressor if data.task == "regression" else TableClassifier
    return make(kernel, alpha, data.categories, arguments.max_categories)


def _tuned(name: str, data: Prepared, arguments: argparse.Namespace) -> Any:
    model = _model(as_kernel(name), 1.0, data, arguments)
    options: dict[str, Any] = {"max_points": _TUNING_ROWS, "random_state": arguments.seed}
    return tune(model, data.table, data.target, **options)


def _fitted(data: Prepared, choice: _Choice, arguments: argparse.Namespace) -> Any:
    model = _model(choice.kernel, choice.alpha, data, arguments)
    return model.fit(data.table, data.target)


def _notes(
    data: Prepared, choice: _Choice, held_out: Score | None, leave_one_out: Score
) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "mercer": __version__,
        "source": os.path.basename(data.path),
        "target": data.target_name,
        "task": data.task,
        "rows": len(data),
        "kernel": choice.how,
        "missing": data.missing(),
        "categories": data.distinct(),
        "leave_one_out": leave_one_out.as_dict(),
    }
    if held_out is not None:
        notes["held_out"] = held_out.as_dict()
    return notes
