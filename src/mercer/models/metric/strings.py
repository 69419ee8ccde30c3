"""Kernels of free columns, text, strings and graphs; those of strings by left-out error."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.checks import Clock
from mercer.domains import Table, is_missing
from mercer.errors import MercerError
from mercer.kernels import (
    ColumnKind,
    Kernel,
    LocalAlignment,
    Mismatch,
    Spectrum,
    WeightedDegree,
    own_kernel,
)
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
FREE = ("text", "sequence", "graph")  # what is compared by a kernel of its own

#: Column of strings -> kernel that was tried -> its left-out error over the spread of the target.
Compared = dict[Any, dict[str, float]]


def free_kernels(
    Z: Table,
    y: np.ndarray,
    found: Mapping[Any, ColumnKind],
    *,
    classes: bool,
    patience: float = np.inf,
) -> dict[Any, Kernel | None]:
    """Return the kernel of each free column."""
    own, _ = string_kernels(Z, y, found, classes=classes, patience=patience)
    free = {key: column.kind for key, column in found.items() if column.kind in FREE}
    return {key: own.get(key) or own_kernel(kind) for key, kind in free.items()}


def string_kernels(
    Z: Any,
    y: np.ndarray,
    found: Mapping[Any, ColumnKind],
    *,
    classes: bool,
    random_state: Any = 0,
    patience: float = PATIENCE,
) -> tuple[dict[Any, Kernel], Compared]:
    """Return a kernel for each column of strings, and what was compared.

    It is that of least leave-one-out error of a ridge regression on the column alone, among those
    that suit its lengths and letters.

    Parameters
    ----------
    Z : Table
        The rows.
    y : ndarray of shape (n,) or (n, outputs)
        Numbers, or classes.
    found : mapping
        What `column_kinds` says of the columns.
    classes : bool
        Whether y holds classes.
    random_state : int, default=0
        Seed of the rows to compare on, where they are many.
    patience : float, default=10.0
        Seconds after which no further kernel is tried, ten at the most.
    """
    names = [name for name, column in found.items() if column.kind == "sequence"]
    own: dict[Any, Kernel] = {}
    compared: Compared = {}
    if names and len(y) >= FEWEST:
        clock = Clock(min(PATIENCE, patience))
        rows = np.arange(len(y))
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(random_state).choice(rows, SAMPLE, replace=False))
        target = _columns_of(np.asarray(y)[rows], classes)
        for name in names:
            texts = Z.columns[name] if isinstance(name, int) else Z[name]
            own[name], compared[name] = _best(texts, rows, target, clock)
    return own, compared


def _columns_of(y: np.ndarray, classes: bool) -> np.ndarray:
    """Return targets for a ridge regression, of spread one: a column for every class or output."""
    Y = (y[:, None] == np.unique(y)).astype(float) if classes else y.astype(float)
    Y = Y.reshape(len(y), -1)
    if Y.shape[1] > 1 and not classes:
        Y = Y / np.maximum(Y.std(axis=0), np.finfo(float).tiny)
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
