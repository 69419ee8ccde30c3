"""``mercer fit``: read a table, tune and evaluate a model, fit it on all rows, save it."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import __version__
from mercer.cli.files import check_output, save_model
from mercer.cli.preparation import Prepared, prepare
from mercer.cli.report import HELD_OUT, Score, certificate, evaluate, fit_report, inside_score
from mercer.cli.streams import Streamed, streamed
from mercer.cli.tables import read_table, table_size
from mercer.domains import RowBlocks, Tables
from mercer.errors import InvalidInput, NotConverged, figure
from mercer.kernels import as_kernel
from mercer.models import TableClassifier, TableRegressor
from mercer.models.tables import (
    TUNING_ROWS,
    Compared,
    enough_to_tune,
    kernel_for,
    model_for,
    tuned,
)
from mercer.selection.tuning import FEWEST, MATRICES
from mercer.settings import config, get_config

if TYPE_CHECKING:
    from mercer.cli.program import Console

_AUTO = ("rbf", "matern", "linear")
_COLUMNS = "columns"  # the kernel that auto_kernel proposes
_LARGEST = 1e150  # the square of a larger number is none
_SHORTER = "--no-tune or a smaller --max-rows takes less"
_LARGER = np.array([1.0, 1e1, 1e2, 1e3])  # times a penalty that centres cannot be solved for
_LOO_MATRICES = 2.4  # of n × n numbers that exact leave-one-out errors take


@dataclass(frozen=True)
class _Choice:
    """A kernel with the penalty of its model, and how they were found."""

    model: str
    kernel: Any
    penalty: float | str
    how: str
    compared: Compared = field(default_factory=dict)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command."""
    if not arguments.plan:
        check_output(arguments.output, arguments.force, arguments.table)
    with config(memory=arguments.memory):
        with console.stage(f"reading {arguments.table}"):
            budget, seed = get_config().memory, arguments.seed
            most = None if arguments.max_rows is None else (arguments.max_rows, seed)
            drop = [n for n in arguments.drop if n != arguments.target]
            fits = _rows_that_fit(arguments.table, drop, budget) if most is None else 0
            if fits:
                searched = math.isqrt(budget // (8 * MATRICES))
                most = (min(TUNING_ROWS, fits, max(FEWEST, searched)), seed)
            where = arguments.table, arguments.encoding, budget, arguments.decimal
            data = prepare(read_table(*where, most, drop), arguments)
        for warning in data.warnings:
            console.warn(f"{data.path}: {warning}")
        name = arguments.kernel or (_COLUMNS if data.free else "rbf")
        if arguments.kernel not in (None, _COLUMNS, "auto"):
            data = data.encodable()
        kind, why = _kind(data, arguments, fits)
        if arguments.plan:
            console.say(_plan(kind, name, data, arguments, fits))
            return
        told = kind, name, data, arguments, console
        found = _fit_blocks(*told, most) if fits and most else _fit_memory(*told)
        data, model, choice, held_out, inside = found
    model.notes_ = _notes(data, choice, why, held_out, inside)
    save_model(model, arguments.output, arguments.force)
    size = os.path.getsize(arguments.output)
    how = choice.how, choice.compared
    report = fit_report(data, model, held_out, inside, how, why, arguments.output, size)
    console.say(report)


#: What was fitted on, the model, how it was chosen, and its scores.
_Fit = tuple[Prepared, Any, _Choice, Score | None, Score | None]


def _fit_memory(
    kind: str, name: str, data: Prepared, arguments: argparse.Namespace, console: Console
) -> _Fit:
    """Choose, evaluate and fit on rows in memory."""
    train, test = _split(data, arguments)
    with console.stage(f"choosing the kernel's parameters on {len(train)} rows", _SHORTER):
        choice = _choose(kind, name, data.take(train), arguments)
    held_out: Score | None = None
    if len(test):
        with console.stage(f"evaluating on {len(test)} held-out rows"):
            trial = _fitted(data.take(train), choice, arguments, probability=kind == "svc")
            held_out = evaluate(data.seen_by(choice.kernel), trial, train, test)
        # the rows held out have done their work: the model to keep may learn from them too
        with console.stage(f"choosing the kernel's parameters on {len(data)} rows", _SHORTER):
            choice = _choose(kind, name, data, arguments)
    data = data.seen_by(choice.kernel)
    with console.stage(f"fitting {len(data)} rows"):
        model = _fitted(data, choice, arguments, probability=kind == "svc")
        inside = inside_score(data, model, arguments.seed)
    return data, model, choice, held_out, inside


def _fit_blocks(
    kind: str,
    name: str,
    data: Prepared,
    arguments: argparse.Namespace,
    console: Console,
    drawn: tuple[int, int],
) -> _Fit:
    """Choose on random rows of a table that memory does not hold, fit all but those held out."""
    with console.stage(f"choosing the kernel's parameters on {len(data)} rows"):
        choice = _choose(kind, name, data, arguments)
        if isinstance(choice.penalty, str):
            choice = replace(choice, penalty=_fitted(data, choice, arguments).alpha_)
    if choice.how.startswith("tuned"):
        choice = replace(choice, how=f"tuned by leave-one-out error on {len(data)} random rows")
    with console.stage(f"reading all {data.sampled_from} rows of {data.path}"):
        whole = streamed(data.seen_by(choice.kernel), arguments, drawn)
        with whole as rows:
            with console.stage(f"fitting {len(rows) - rows.held} rows in blocks"):
                choice, model = _solved(choice, rows, arguments, console)
            with console.stage(f"evaluating on {rows.held} held-out rows"):
                held_out = rows.held_out(model)
    return rows, model, choice, held_out, None


def _solved(
    choice: _Choice, rows: Streamed, arguments: argparse.Namespace, console: Console
) -> tuple[_Choice, Any]:
    """Fit on blocks. A penalty that is left open grows until the centres can be solved for it.

    The search found it by an exact fit of some rows, which takes penalties down to rounding.
    """
    found, open_ = float(choice.penalty), arguments.alpha == "loo"
    for alpha in (found * (_LARGER if open_ else _LARGER[:1])).tolist():
        choice = replace(choice, penalty=alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # said below in the words of options
            model = _model(choice, rows, arguments).fit(rows.blocks())
        if model.solution_.converged:
            break
    else:
        larger = f"give a larger --alpha than {figure(alpha)}"
        cure = larger if open_ else "leave --alpha out, for one that can be solved"
        console.warn(
            f"{rows.path}: the fit is not solved ({certificate(model.solution_)}); {cure}, or "
            "allow more with --memory."
        )
    if alpha > found:
        centres = model.kernel_.domain.size(model.model_.X_fit_)
        rows.remarks["--alpha"] = (
            f"alpha is {figure(alpha)}: {figure(found)}, of least left-out error, is too "
            f"small to solve for {centres} centres; --alpha sets another"
        )
    return choice, model


def _kind(data: Prepared, arguments: argparse.Namespace, fits: int) -> tuple[str, str]:
    """Return "svc" or "ridge", as asked or what suits the data, and why if that may surprise."""
    kind, why = _kind_in_memory(data, arguments)
    if not fits:
        return kind, why
    if kind == "svc" and (why or arguments.model == "svc"):
        raise InvalidInput(
            f"{data.path}: --model svc needs all rows in memory, and {data.sampled_from} rows do "
            f"not fit; give --model ridge, which reads them in blocks, or --max-rows {fits}, or "
            "allow more with --memory."
        )
    return "ridge", "on rows in blocks, because the table does not fit the memory budget"


def _kind_in_memory(data: Prepared, arguments: argparse.Namespace) -> tuple[str, str]:
    asked = arguments.model
    if asked == "svc" and data.task == "regression":
        raise InvalidInput(
            f"{data.path}: --model svc is for classification, and {data.target_name!r} is a "
            f"regression target ({data.why}); use --model ridge, or --task classification."
        )
    fixed = [n for n, open_ in (("alpha", "loo"), ("C", "tune")) if getattr(arguments, n) != open_]
    if "alpha" in fixed and ("C" in fixed or asked == "svc"):
        raise InvalidInput("--alpha is the penalty of ridge, not of svc; give --C instead.")
    if "C" in fixed and (asked == "ridge" or data.task == "regression"):
        raise InvalidInput("--C is the price of svc, not of ridge; give --alpha instead.")
    if asked != "auto":
        return asked, ""
    if fixed:
        return ("svc" if "C" in fixed else "ridge"), f"because --{fixed[0]} is given"
    if data.task == "regression":
        return "ridge", ""
    return model_for(data.target)


def _split(data: Prepared, arguments: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Rows to choose and train on, and rows to evaluate on: a share of each class."""
    n = len(data)
    if arguments.test_fraction == 0 or n < HELD_OUT:
        return np.arange(n), np.arange(0)
    rng = np.random.default_rng(arguments.seed)
    groups = [np.arange(n)]
    if data.task == "classification":
        groups = [np.flatnonzero(data.target == c) for c in np.unique(data.target)]
    test = [rng.permutation(g)[: round(arguments.test_fraction * len(g))] for g in groups]
    held = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(n), held), held


def _choose(kind: str, name: str, data: Prepared, arguments: argparse.Namespace) -> _Choice:
    """The kernel and penalty of least error, as far as the user left them open."""
    names: tuple[str, ...] = (name,)
    if name == "auto":
        plain = len(data.free) < len(data.table.names)
        names = (*(_AUTO if plain else ()), *((_COLUMNS,) if data.free else ()))
    penalty, is_tuned = _penalty(kind, data, arguments)
    if not is_tuned:
        how = "scale taken from the data"
        found = [_kernel(name, data, arguments.seed) for name in names]
        choices = [_Choice(kind, kernel, penalty, how, compared) for kernel, compared in found]
        if len(choices) == 1:
            return choices[0]
        seed = arguments.seed
        return max(
            choices,
            key=lambda c: (
                inside_score(data.seen_by(c.kernel), _fitted(data, c, arguments), seed).value
            ),
        )
    results = [_tuned(kind, name, data, arguments) for name in names]
    best, compared = min(results, key=lambda pair: pair[0].score)
    how = "tuned by leave-one-out error" if kind == "ridge" else "tuned by cross-validation"
    if len(data) > TUNING_ROWS:
        how += f" on {TUNING_ROWS} random rows"
    penalty = best.params["alpha" if kind == "ridge" else "C"]
    return _Choice(kind, best.model.kernel_, penalty, how, compared)


def _rows_that_fit(path: str, drop: list[str], budget: int) -> int:
    """Return how many rows of a table fit half of the budget, 0 where all fit the whole."""
    if path != "-" and not os.path.exists(path):
        return 0
    with suppress(InvalidInput):  # of which the one who reads it speaks
        rows, needed = table_size(path, drop)
        if needed > budget:
            return max(2, int(rows * budget / (2 * needed)))
    return 0


def _plan(
    kind: str, name: str, data: Prepared, arguments: argparse.Namespace, fits: int = 0
) -> str:
    """Return what the last fit would do and take, all parameters as they are before tuning.

    Of a table that does not fit, but for `fits` rows, it is a fit on blocks.
    """
    if name == "auto":
        name = _COLUMNS if data.free else _AUTO[0]
    penalty, is_tuned = _penalty(kind, data, arguments)
    kernel, _ = _kernel(name, data, arguments.seed)
    choice = _Choice(kind, kernel, 1.0 if is_tuned or fits else penalty, "")
    data = data.seen_by(choice.kernel)
    inside = _model(choice, data, arguments)._inside(data.table, data.target, None)
    if fits:
        rows = data.sampled_from
        told = str(inside.model.plan(_repeated(inside.Z, inside.target, rows)))
        most = min(fits, _most_exact())
        return (
            f"{data.path}: {rows} rows do not fit this budget and are read in blocks; --max-rows "
            f"{most} would be fitted exactly.\n{told}"
        )
    told = str(inside.model.plan(inside.Z, inside.target))
    if is_tuned:
        rows = min(len(data), TUNING_ROWS)
        told += f"\nThe search for the kernel's parameters, on {rows} rows, comes before."
    return told


def _most_exact() -> int:
    """Return how many rows the search, an exact fit and its leave-one-out error have memory for."""
    entries = get_config().memory // 8
    searched = math.isqrt(entries // MATRICES)
    return searched if searched < FEWEST else math.isqrt(int(entries / _LOO_MATRICES))


def _repeated(Z: Any, target: Any, n: int) -> RowBlocks:
    """Return n rows, of which some that are known stand for all."""

    def rows() -> Iterator[tuple[Any, Any]]:
        for start in range(0, n, len(target)):
            size = min(len(target), n - start)
            yield Z[:size], target[:size]

    return RowBlocks.from_generator(rows, n)


def _penalty(kind: str, data: Prepared, arguments: argparse.Namespace) -> tuple[float | str, bool]:
    """The penalty before a search, and whether it is searched for, on rows enough."""
    penalty = arguments.alpha if kind == "ridge" else arguments.C
    enough = enough_to_tune(data.target, kind == "svc")
    is_tuned = penalty in ("loo", "tune") and not arguments.no_tune and enough
    return 1.0 if penalty == "tune" else penalty, is_tuned


def _kernel(name: str, data: Prepared, seed: int) -> tuple[Any, Compared]:
    """The kernel of a name; for a whole table the one proposed for it, and what was compared."""
    if name != _COLUMNS:
        return as_kernel(name), {}
    kinds = data.kinds()
    if all(found.kind == "left out" for found in kinds.values()):
        why = "; ".join(f"{n!r}: {found.reason}" for n, found in list(kinds.items())[:5])
        raise InvalidInput(
            f"{data.path}: no column is left to compare rows by; {why}. --number, --categorical, "
            "--text or --sequence keep a column."
        )
    for n in (n for n, found in kinds.items() if found.kind == "number"):
        largest = float(np.nanmax(np.abs(data.table[n])))
        if largest > _LARGEST:
            raise InvalidInput(
                f"{data.path}: column {n!r} holds {figure(largest)}, too large to be compared; "
                f"correct the cell, or leave the column out with --drop {shlex.quote(n)}."
            )
    asked = {n: found.kind for n, found in kinds.items()}
    classes = data.task == "classification"
    kernel, compared = kernel_for(
        data.table, data.target, classes=classes, kinds=asked, random_state=seed
    )
    return kernel.fit_params(data.table), compared


def _model(choice: _Choice, data: Prepared, arguments: argparse.Namespace, **options: Any) -> Any:
    columns: dict[str, Any] = {}
    if not isinstance(choice.kernel.domain, Tables):
        columns = {"categorical": data.categories, "max_categories": arguments.max_categories}
    if data.task == "regression":
        return TableRegressor(choice.kernel, choice.penalty, **columns)
    penalty: dict[str, Any] = {"alpha" if choice.model == "ridge" else "C": choice.penalty}
    return TableClassifier(choice.kernel, model=choice.model, **penalty, **columns, **options)


def _tuned(
    kind: str, name: str, data: Prepared, arguments: argparse.Namespace
) -> tuple[Any, Compared]:
    kernel, compared = _kernel(name, data, arguments.seed)
    data = data.seen_by(kernel)
    model = _model(_Choice(kind, kernel, 1.0, ""), data, arguments)
    return tuned(model, data.table, data.target, None, arguments.seed), compared


def _fitted(data: Prepared, choice: _Choice, arguments: argparse.Namespace, **options: Any) -> Any:
    data = data.seen_by(choice.kernel)
    return _model(choice, data, arguments, **options).fit(data.table, data.target)


def _notes(
    data: Prepared, choice: _Choice, why: str, held_out: Score | None, inside: Score | None
) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "mercer": __version__,
        "source": os.path.basename(data.path),
        "target": data.target_name,
        "task": data.task,
        "rows": len(data) - (held_out.rows if inside is None and held_out else 0),
        "kernel": choice.how,
        "missing": data.missing(),
        "categories": data.distinct(),
        "free": data.free,
    }
    if inside is not None:
        kind = "leave_one_out" if choice.model == "ridge" else "cross_validation"
        notes[kind] = inside.as_dict()
    if choice.compared:
        notes["compared"] = choice.compared
    if why:
        notes["model"] = why
    if held_out is not None:
        notes["held_out"] = held_out.as_dict()
    return notes
