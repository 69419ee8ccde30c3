"""The protocol: seeded splits, one fit at a time in a process of its own, a line of JSON for each.

A file of results is appended to, never rewritten: a second run does what is missing, and of two
lines about one thing the later one counts.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

import mercer
from benchmarks.arena.methods import METHODS, THREADS
from benchmarks.arena.tables import Entry, Table, load

__all__ = ["calibration_error", "commit", "measure", "read_results", "run", "split"]

TEST_PART = 0.3
COVERAGE = 0.9
BINS = 15  # of the calibration error
Result = dict[str, Any]


def run(
    entries: Iterable[Entry],
    methods: Iterable[str],
    path: Path,
    *,
    splits: int = 5,
    limit: float = 600.0,
    again: bool = False,
    failed: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Do what is missing in a file of results; a limit of 0 seconds is none, and no process.

    With `again` everything is done anew, with `failed` what has failed before.
    """
    known = [] if again else read_results(path)
    done = {_key(line) for line in known if not (failed and "failed" in line)}
    chosen = []
    for method in methods:
        if METHODS[method].is_installed:
            chosen.append(method)
        else:
            say(f"{method} is left out: {METHODS[method].package} is not installed")
    with _appending(path) as write:
        for entry in entries:
            missing = {
                method: [s for s in range(splits) if (entry.name, s, method) not in done]
                for method in chosen
            }
            if not any(missing.values()):
                continue
            table = load(entry)
            for method, numbers in missing.items():
                about = {"table": entry.name, "task": entry.task, "rows": len(table.y)}
                for number, found in zip(numbers, _all(table, method, numbers, limit), strict=True):
                    result = about | {"split": number, "method": method} | found
                    write(result)
                    say(_told(result))


def split(table: Table, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and the test rows of a split; classes keep their shares."""
    kind = StratifiedShuffleSplit if table.entry.task == "classes" else ShuffleSplit
    parts = kind(1, test_size=TEST_PART, random_state=number)
    train, test = next(parts.split(np.zeros((len(table.y), 1)), table.y))
    return np.sort(train), np.sort(test)


def measure(table: Table, method: str, number: int) -> Result:
    """Fit a method on a split; return its scores and times, or why it failed."""
    told = METHODS[method]
    result: Result = {"version": told.version}
    if told.package == "mercer" and (known := commit()):
        result["commit"] = known
    if len(table.y) > told.most_rows:
        return result | {"failed": f"not tried beyond {told.most_rows} rows"}
    train, test = split(table, number)
    result["test_rows"] = len(test)
    X, X_test, y, y_test = table.X.iloc[train], table.X.iloc[test], table.y[train], table.y[test]
    threads = joblib.parallel_config(backend="threading")  # or a limit leaves processes behind
    with warnings.catch_warnings(), mercer.config(threads=THREADS), threads:
        warnings.simplefilter("ignore")
        try:
            model = getattr(told, table.entry.task)(table, number)
            began = time.perf_counter()
            model.fit(X, y)
            middle = time.perf_counter()
            predicted = np.asarray(model.predict(X_test)).ravel()
            result |= {"fit_s": middle - began, "predict_s": time.perf_counter() - middle}
            if table.entry.task == "regression":
                result["rmse"] = float(np.sqrt(np.mean((predicted - y_test) ** 2)))
                if hasattr(model, "predict_interval"):
                    result |= _interval(model, X_test, y_test, float(np.std(y)))
            else:
                result["error"] = float(np.mean(predicted != y_test))
                if hasattr(model, "predict_proba"):
                    result |= _probabilities(model, X_test, y_test, int(table.y.max()) + 1)
        except Exception as error:
            return result | {"failed": f"{type(error).__name__}: {error}"[:500]}
    return result


@cache
def commit() -> str:
    """Return the commit of mercer that is measured, "-dirty" where its sources differ from it.

    "" where it is not known.
    """

    def git(*words: str) -> str:
        told = subprocess.run(
            ["git", *words],
            cwd=Path(mercer.__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        return told.stdout.strip()

    try:
        dirty = "-dirty" if git("status", "--porcelain", "--", ".") else ""
        return git("rev-parse", "--short=8", "HEAD") + dirty
    except (OSError, subprocess.CalledProcessError):
        return ""


def _interval(model: Any, X: Any, y: np.ndarray, scale: float) -> Result:
    """Return how often intervals hold the target, and their mean width in its deviations."""
    lower, upper = model.predict_interval(X, COVERAGE)
    inside = np.mean((lower <= y) & (y <= upper))
    return {"coverage": float(inside), "width": float(np.mean(upper - lower)) / scale}


def _probabilities(model: Any, X: Any, y: np.ndarray, classes: int) -> Result:
    P = np.zeros((len(y), classes))
    P[:, np.asarray(model.classes_, int)] = model.predict_proba(X)
    P = np.clip(P, 1e-15, 1)
    P /= P.sum(axis=1, keepdims=True)
    told = float(log_loss(y, P, labels=np.arange(classes)))
    return {"log_loss": told, "calibration": calibration_error(P, y)}


def calibration_error(P: np.ndarray, y: np.ndarray) -> float:
    """Return the expected calibration error of the class that is predicted.

    Rows are put into bins of equal width by the probability of that class; the error is the mean,
    over the rows, of how far that probability and the share of right answers are apart in a bin.
    """
    sure, right = P.max(axis=1), P.argmax(axis=1) == y
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    apart = np.bincount(bins, sure - right, BINS)
    return float(np.abs(apart).sum() / len(y))


# ---- processes ----


def _all(table: Table, method: str, numbers: list[int], limit: float) -> Iterator[Result]:
    """Yield the result of each split. What took too long, or died, is not tried on the others."""
    if not limit or not numbers:
        yield from (measure(table, method, number) for number in numbers)
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(theirs, table, method, numbers), daemon=True)
    with _environment():
        child.start()
    theirs.close()
    why = ""
    try:
        for number in (None, *numbers):  # the first word says that everything is imported
            found: Result = {}
            try:
                if not why and ours.poll(limit if number is not None else None):
                    found = ours.recv()
                elif not why:
                    why = f"split {number} took longer than {limit:g} s"
            except EOFError:
                child.join()
                why = f"its process ended with code {child.exitcode}"
            if number is not None:
                yield {"failed": why} if why else found
    finally:
        child.kill()
        child.join()


def _work(pipe: Any, table: Table, method: str, numbers: list[int]) -> None:
    """Say that this process is there, then send the results."""
    importlib.import_module(METHODS[method].package)
    pipe.send({})
    for number in numbers:
        pipe.send(measure(table, method, number))


@contextmanager
def _environment() -> Iterator[None]:
    """Give processes that start two threads for every library that looks for a number."""
    names = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(THREADS)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# ---- the file ----


def read_results(path: Path) -> list[Result]:
    """Return the lines of a file of results, of two about one thing the later.

    A line that a killed run has left half written counts as missing.
    """
    found: dict[tuple, Result] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[_key(result)] = result
    return list(found.values())


def _key(result: Result) -> tuple[str, int, str]:
    return result["table"], result["split"], result["method"]


@contextmanager
def _appending(path: Path) -> Iterator[Callable[[Result], None]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        if torn:
            file.write("\n")

        def write(result: Result) -> None:
            file.write(json.dumps(result) + "\n")
            file.flush()

        yield write


def _told(result: Result) -> str:
    scores = ("rmse", "error", "log_loss", "coverage", "fit_s", "failed")
    told = [
        f"{name} {result[name]:.4g}" if isinstance(result[name], float) else str(result[name])
        for name in scores
        if name in result
    ]
    return f"{result['table']} {result['split']} {result['method']}: {', '.join(told)}"
