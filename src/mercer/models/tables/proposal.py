"""What suits a table of which nothing is said: its kernel, its model, parameters by left-out error.

Table models whose kernel is left out and ``mercer fit`` ask here, so that both answer alike.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.domains import Table, is_missing
from mercer.errors import MercerError
from mercer.kernels import (
    Kernel,
    LocalAlignment,
    Mismatch,
    Spectrum,
    WeightedDegree,
    column_kinds,
    kernel_on_columns,
)
from mercer.models.margin import FOLDS
from mercer.models.ridge import KernelRidge

#: Rows that kernels on strings are compared on, at most, and from which on they are.
SAMPLE, FEWEST = 400, 20
#: Seconds after which no further kernel on strings is tried.
PATIENCE = 10.0
#: Pairs of letters that alignments of all rows may compare, a few seconds of work.
CELLS = 1e9
FEW_LETTERS = 8
MANY_LETTERS = 25
ALIGNED = 0.95  # share of strings of one length from which places may be compared
FREE = ("text", "sequence", "graph")  # what no encoder turns into numbers
#: Rows from which on a metric is learned.
ROWS_OF_A_METRIC = 5
#: Rows up to which a feature machine takes the time that it needs; seconds for its search beyond.
UNHURRIED, SECONDS = 2000, 60.0

#: Column of strings -> kernel that was tried -> its left-out error over the spread of the target.
Compared = dict[Any, dict[str, float]]


def model_for(y: Any) -> tuple[str, str]:
    """Return "svc" or "ridge", the kernel model for classes, and why if that may surprise."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() >= FOLDS:
        return "svc", ""
    # folds without a class say little of it; ridge has exact leave-one-out
    count, name = int(counts.min()), str(classes[counts.argmin()])
    return "ridge", f"because class {name!r} has {count} row{'s' if count > 1 else ''}"


def suits_features(rows: int, free: bool) -> bool:
    """Whether a feature machine is the model for so many rows, with or without free columns."""
    return rows >= ROWS_OF_A_METRIC and not free


def time_for(rows: int) -> float | None:
    """Return the seconds after which a feature machine tries no further metric; None for all."""
    return None if rows <= UNHURRIED else SECONDS


def has_free_columns(Z: Any, categorical: Sequence[str | int]) -> bool:
    """Whether a table has text, strings or graphs, which are compared and not encoded."""
    if not isinstance(Z, Table) or all(column.dtype != object for column in Z.columns):
        return False
    return any(found.kind in FREE for found in column_kinds(Z, categorical=categorical).values())


def kernel_for(
    Z: Any,
    y: Any,
    *,
    classes: bool,
    categorical: Sequence[str | int] = (),
    kinds: Mapping[Any, str] | None = None,
    random_state: Any = 0,
) -> tuple[Kernel, Compared]:
    """Return a kernel on the columns of a table, and what was compared for its strings.

    Each column of strings gets the kernel of least leave-one-out error of a ridge regression on
    that column alone, among those that suit its lengths and letters.

    Parameters
    ----------
    Z : Table
        The rows.
    y : ndarray of shape (n,)
        Numbers, or classes.
    classes : bool
        Whether y holds classes.
    categorical, kinds : sequence, mapping, optional
        As for `auto_kernel`.
    random_state : int, default=0
        Seed of the rows to compare on, where they are many.
    """
    found = column_kinds(Z, categorical=categorical, kinds=kinds)
    names = [name for name, column in found.items() if column.kind == "sequence"]
    own: dict[Any, Kernel] = {}
    compared: Compared = {}
    if names and len(y) >= FEWEST:
        clock = Clock(PATIENCE)
        rows = np.arange(len(y))
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(random_state).choice(rows, SAMPLE, replace=False))
        target = _columns_of(np.asarray(y)[rows], classes)
        for name in names:
            texts = Z.columns[name] if isinstance(name, int) else Z[name]
            own[name], compared[name] = _best(texts, rows, target, clock)
    return kernel_on_columns(Z, categorical=categorical, kinds=kinds, own=own), compared


def _columns_of(y: np.ndarray, classes: bool) -> np.ndarray:
    """Return targets for a ridge regression, of spread one: a column for every class, or one."""
    Y = (y[:, None] == np.unique(y)).astype(float) if classes else y.astype(float)[:, None]
    Y = Y - Y.mean(axis=0)
    return Y / (float(np.sqrt((Y * Y).sum(axis=1).mean())) or 1.0)


def _best(
    texts: np.ndarray, rows: np.ndarray, target: np.ndarray, clock: Clock
) -> tuple[Kernel, dict[str, float]]:
    """Return the kernel of least left-out error for a column of strings, and the errors of all."""
    points = texts[rows].tolist()
    tried: list[tuple[float, Kernel]] = []
    errors: dict[str, float] = {}
    for kernel in _suited([t for t in points if not is_missing(t) and t], len(texts)):
        if tried and clock.late:
            break
        part = kernel.normalized().with_missing()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of one that is not taken nobody need know
                model = KernelRidge(part, alpha="loo", fit_intercept=True).fit(points, target)
                error = float(np.mean(np.sum((model.loo() - target) ** 2, axis=1)))
        except MercerError:
            continue  # it does not suit these strings, or not the budget
        tried.append((error, part))
        errors[repr(kernel)] = round(error, 4)
    if not tried:
        return Spectrum(3).normalized().with_missing(), {}
    return min(tried, key=lambda pair: pair[0])[1], errors


def _suited(texts: list[str], n: int) -> list[Kernel]:
    """Return kernels that suit the lengths and letters of strings, n in all, the cheapest first."""
    lengths = [len(text) for text in texts]
    letters = len(set().union(*texts)) if texts else 0
    middle = float(np.median(lengths)) if lengths else 0.0
    few = letters <= FEW_LETTERS
    kernels: list[Kernel] = [Spectrum(3), Spectrum(5 if few else 2)]
    most_common = Counter(lengths).most_common(1)
    if most_common and most_common[0][1] >= ALIGNED * len(lengths):
        kernels += [WeightedDegree(5), WeightedDegree(2)]
    if letters <= MANY_LETTERS:
        kernels.append(Mismatch(5, 1) if few else Mismatch(3, 1))
    if 0.5 * (n * middle) ** 2 <= CELLS:
        kernels.append(LocalAlignment())
    shortest = [k for k in kernels if int(k.get_params(deep=False).get("length", 1)) <= middle]
    return shortest or kernels[:1]
