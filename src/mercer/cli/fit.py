"""``mercer fit``: read a table, learn or tune a model, evaluate it, fit it on all rows, save it."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import __version__
from mercer.cli.files import check_output, save_model
from mercer.cli.preparation import Prepared, prepare
from mercer.cli.report import (
    FEW,
    HELD_OUT,
    HELD_SHARE,
    Score,
    certificate,
    evaluate,
    fit_report,
    inside_kind,
    inside_score,
    shares_of_columns,
)
from mercer.cli.streams import Streamed, streamed
from mercer.cli.tables import read_table, table_size
from mercer.domains import RowBlocks, Table, Tables
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotConverged, figure
from mercer.kernels import as_kernel
from mercer.models import TableClassifier, TableRegressor
from mercer.models.metric import Compared
from mercer.models.tables import (
    ROWS_OF_A_METRIC,
    TUNING_ROWS,
    enough_to_tune,
    kernel_for,
    model_for,
    suits_features,
    tuned,
)
from mercer.selection.tuning import FEWEST, MATRICES
from mercer.settings import config, get_config

if TYPE_CHECKING:
    from mercer.cli.program import Console

_AUTO = ("rbf", "matern", "linear")
_COLUMNS = "columns"  # the kernel that auto_kernel proposes
_LARGEST = 1e150  # the square of a larger number is none
_IN_BLOCKS = "on rows in blocks, because the table does not fit the memory budget"
_SHORTER = "--no-tune or a smaller --max-rows takes less"
_SOONER = "--time SECONDS ends the search of metrics"
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
        kind, why = _kind(data, arguments, fits)
        if kind == "features":
            data = data.encodable(data.told_free())
        elif arguments.kernel not in (None, _COLUMNS, "auto"):
            data = data.encodable(data.free)
        if arguments.plan:
            console.say(_plan(kind, name, data, arguments, fits))
            return
        told, drawn = (data, arguments, console), most if fits else None
        found = None
        if kind == "features":
            try:
                found = _fit_feature_blocks(*told, drawn) if drawn else _fit_features(*told)
            except MemoryBudgetExceeded:
                if arguments.model == "features":
                    raise
                kind, why = _without_features(data, fits)
        if found is None:
            found = (
                _fit_blocks(kind, name, *told, drawn) if drawn else _fit_memory(kind, name, *told)
            )
        data, model, choice, held_out, inside = found
        shares: dict[str, float] = {}
        judged = held_out or inside
        if kind != "features" and (judged is None or judged.rows >= FEW):
            with console.stage("sharing predictions among the columns"):
                shares = shares_of_columns(data, model)
    model.notes_ = _notes(data, model, choice, why, held_out, inside)
    if shares:
        model.notes_["importance"] = shares
    save_model(model, arguments.output, arguments.force)
    size = os.path.getsize(arguments.output)
    how = choice.how, choice.compared
    report = fit_report(data, model, held_out, inside, how, why, arguments.output, size)
    console.say(report)


#: What was fitted on, the model, how it was chosen, and its scores.
_Fit = tuple[Prepared, Any, _Choice, Score | None, Score | None]


def _fit_features(data: Prepared, arguments: argparse.Namespace, console: Console) -> _Fit:
    """Learn metrics from all rows. Rows that it leaves out tell its error; others if asked for."""
    share = arguments.test_fraction or 0.0
    train, test = _split(data, arguments, share, ROWS_OF_A_METRIC)
    held_out: Score | None = None
    if len(test):
        with console.stage(f"learning metrics from {len(train)} rows to evaluate", _SOONER):
            part = data.take(train)
            trial = _machine(data, arguments).fit(part.table, part.target)
            held_out = evaluate(data, trial, train, test)
    with console.stage(f"learning metrics from {len(data)} rows", _SOONER):
        start = time.monotonic()
        model = _machine(data, arguments).fit(data.table, data.target)
        took = time.monotonic() - start
    with console.stage(f"comparing with a linear model on {len(data)} rows"):
        inside = inside_score(data, model, arguments.seed)
    return data, model, _learned(model, took), held_out, inside


def _fit_feature_blocks(
    data: Prepared, arguments: argparse.Namespace, console: Console, drawn: tuple[int, int]
) -> _Fit:
    """Learn metrics from rows drawn, and fit all but those held out, in blocks."""
    with (
        console.stage(f"reading all {data.sampled_from} rows of {data.path}"),
        streamed(data, arguments, drawn) as rows,
    ):
        with console.stage(f"learning metrics of {len(rows) - rows.held} rows in blocks", _SOONER):
            start = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)  # said below in the words of options
                model = _machine(data, arguments).fit(rows.blocks())
            took = time.monotonic() - start
        solutions = model.model_.solutions_
        if rest := sum(not solution.converged for solution in solutions):
            console.warn(
                f"{data.path}: {rest} of the {len(solutions)} fits in learned metrics are not "
                "solved to the end; allow more with --memory."
            )
        with console.stage(f"evaluating on {rows.held} held-out rows"):
            held_out = rows.held_out(model)
    return rows, model, _learned(model, took), held_out, None


def _learned(model: Any, took: float) -> _Choice:
    how = f"{took:.1f} s, {_time_allowed(model.model_.max_time)}"
    return _Choice("features", None, "", how)


def _time_allowed(seconds: float | None) -> str:
    """Return in words how long a search of metrics may take."""
    if seconds is None:
        return "without a limit for a table of this size (--time SECONDS sets one)"
    return f"with {figure(seconds)} s for the search of metrics (--time SECONDS)"


def _machine(data: Prepared, arguments: argparse.Namespace) -> Any:
    """Return the model of a table that learns its metrics, as yet unfitted."""
    make = TableRegressor if data.task == "regression" else TableClassifier
    return make(
        kinds=data.told,
        max_categories=arguments.max_categories,
        model="features",
        max_time=arguments.time,
        random_state=arguments.seed,
    )


def _fit_memory(
    kind: str, name: str, data: Prepared, arguments: argparse.Namespace, console: Console
) -> _Fit:
    """Choose, evaluate and fit on rows in memory."""
    share = HELD_SHARE if arguments.test_fraction is None else arguments.test_fraction
    train, test = _split(data, arguments, share, 2)
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
    found, open_ = float(choice.penalty), arguments.alpha in (None, "loo")
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
    """Return a word of --model, as asked or what suits the data, and why if that may surprise."""
    kind, why = _kind_in_memory(data, arguments)
    if arguments.time is not None and kind != "features":
        raise InvalidInput(
            f"--time limits the search of metrics, which is that of --model features, and this "
            f"is a fit of {'ridge' if fits else kind}; leave it out."
        )
    if not fits:
        return kind, why
    if kind == "features":
        return kind, _IN_BLOCKS
    if kind != "ridge" and (why or arguments.model == kind):
        raise InvalidInput(
            f"{data.path}: --model {kind} needs all rows in memory, and {data.sampled_from} rows "
            f"do not fit; give --model ridge, which reads them in blocks, or --max-rows {fits}, or "
            "allow more with --memory."
        )
    return "ridge", _IN_BLOCKS


def _without_features(data: Prepared, fits: int) -> tuple[str, str]:
    """Return the model of one kernel for a table that a feature machine has no memory for."""
    why = "because a feature machine needs more than the memory budget"
    if fits or data.task == "regression":
        return "ridge", f"{_IN_BLOCKS.partition(',')[0]}, {why}" if fits else why
    return model_for(data.target)[0], why


def _kind_in_memory(data: Prepared, arguments: argparse.Namespace) -> tuple[str, str]:
    asked = arguments.model
    if asked == "svc" and data.task == "regression":
        raise InvalidInput(
            f"{data.path}: --model svc is for classification, and {data.target_name!r} is a "
            f"regression target ({data.why}); use --model ridge, or --task classification."
        )
    fixed = [name for name in ("alpha", "C") if getattr(arguments, name) is not None]
    one = [f"--{n}" for n in ("kernel", *fixed) if getattr(arguments, n) is not None]
    one += ["--no-tune"] * arguments.no_tune
    if asked == "features" and one:
        raise InvalidInput(
            f"{one[0]} is for a model of one kernel, and --model features learns several from the "
            f"rows; leave {one[0]} out, or give --model ridge."
        )
    if "alpha" in fixed and ("C" in fixed or asked == "svc"):
        raise InvalidInput("--alpha is the penalty of ridge, not of svc; give --C instead.")
    if "C" in fixed and (asked == "ridge" or data.task == "regression"):
        raise InvalidInput("--C is the price of svc, not of ridge; give --alpha instead.")
    if asked == "features" and not suits_features(len(data)):
        raise InvalidInput(
            f"{data.path}: --model features needs {ROWS_OF_A_METRIC} rows with a target, and there "
            f"{'are' if len(data) > 1 else 'is'} {len(data)}; give --model ridge, or more rows."
        )
    if asked != "auto":
        return asked, ""
    if fixed:
        return ("svc" if "C" in fixed else "ridge"), f"because --{fixed[0]} is given"
    why = "because --text or --sequence names a column of categories" if data.told_free() else ""
    if not one and suits_features(len(data)) and not why:
        return "features", ""
    if data.task == "regression":
        return "ridge", why
    kind, rare = model_for(data.target)
    return kind, rare or why


def _split(
    data: Prepared, arguments: argparse.Namespace, share: float, needed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to choose and train on, and rows to evaluate on: a share of each class."""
    n = len(data)
    if share == 0 or n < HELD_OUT:
        return np.arange(n), np.arange(0)
    rng = np.random.default_rng(arguments.seed)
    groups = [np.arange(n)]
    if data.task == "classification":
        groups = [np.flatnonzero(data.target == c) for c in np.unique(data.target)]
    test = [rng.permutation(g)[: round(share * len(g))] for g in groups]
    held = np.sort(np.concatenate(test))
    train = np.setdiff1d(np.arange(n), held)
    classes = data.task == "classification"
    if len(train) < needed or (classes and len(np.unique(data.target[train])) < 2):
        kinds = " of two classes" if classes else ""
        raise InvalidInput(
            f"{data.path}: --test-fraction {share:g} leaves {len(train)} of {n} rows to learn "
            f"from, and {needed} or more{kinds} are needed; give a smaller one."
        )
    return train, held


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
    if kind == "features":
        with suppress(MemoryBudgetExceeded):
            return _plan_features(data, arguments, fits)
        kind, _ = _without_features(data, fits)
    if name == "auto":
        name = _COLUMNS if data.free else _AUTO[0]
    penalty, is_tuned = _penalty(kind, data, arguments)
    kernel, _ = _kernel(name, data, arguments.seed)
    choice = _Choice(kind, kernel, 1.0 if is_tuned or fits else penalty, "")
    data = data.seen_by(choice.kernel)
    inside = _model(choice, data, arguments)._inside(data.table, data.target, None)
    if fits:
        told = str(inside.model.plan(_repeated(inside.Z, inside.target, data.sampled_from)))
        return _head_of_blocks(data, fits) + told
    told = str(inside.model.plan(inside.Z, inside.target))
    if is_tuned:
        rows = min(len(data), TUNING_ROWS)
        told += f"\nThe search for the kernel's parameters, on {rows} rows, comes before."
    return told


def _plan_features(data: Prepared, arguments: argparse.Namespace, fits: int) -> str:
    """Return what a feature machine would do and take."""
    machine = _machine(data, arguments)
    if not fits:
        return str(machine.plan(data.table, data.target))
    plan = machine.plan(_repeated(data.table, data.target, data.sampled_from))
    return _head_of_blocks(data, fits) + str(plan)


def _head_of_blocks(data: Prepared, fits: int) -> str:
    """Return what is said of a table that is read in blocks, and of how many rows are not."""
    most = min(fits, _most_exact())
    return (
        f"{data.path}: {data.sampled_from} rows do not fit this budget and are read in blocks; "
        f"--max-rows {most} would be fitted exactly.\n"
    )


def _most_exact() -> int:
    """Return how many rows the search, an exact fit and its leave-one-out error have memory for."""
    entries = get_config().memory // 8
    searched = math.isqrt(entries // MATRICES)
    return searched if searched < FEWEST else math.isqrt(int(entries / _LOO_MATRICES))


def _repeated(Z: Any, target: Any, n: int) -> RowBlocks:
    """Return n rows, of which some that are known stand for all."""

    def rows() -> Iterator[tuple[Any, Any]]:
        for start in range(0, n, len(target)):
            some = np.arange(min(len(target), n - start))
            yield Z.take(some) if isinstance(Z, Table) else Z[some], target[some]

    return RowBlocks.from_generator(rows, n)


def _penalty(kind: str, data: Prepared, arguments: argparse.Namespace) -> tuple[float | str, bool]:
    """The penalty before a search, and whether it is searched for, on rows enough."""
    given, open_ = (arguments.alpha, "loo") if kind == "ridge" else (arguments.C, "tune")
    penalty = open_ if given is None else given
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
        columns = {"kinds": data.told, "max_categories": arguments.max_categories}
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
    data: Prepared,
    model: Any,
    choice: _Choice,
    why: str,
    held_out: Score | None,
    inside: Score | None,
) -> dict[str, Any]:
    notes: dict[str, Any] = {
        "mercer": __version__,
        "source": os.path.basename(data.path),
        "target": data.target_name,
        "task": data.task,
        "rows": len(data) - (held_out.rows if inside is None and held_out else 0),
        "missing": data.missing(),
        "categories": data.distinct(),
        "free": data.free,
    }
    if choice.model != "features":
        notes["kernel"] = choice.how
    if inside is not None:
        notes[inside_kind(model, inside)] = inside.as_dict()
    if choice.compared:
        notes["compared"] = choice.compared
    if why:
        notes["model"] = why
    if held_out is not None:
        notes["held_out"] = held_out.as_dict()
    return notes
