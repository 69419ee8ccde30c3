"""The rows that parameters are chosen on: of positive weight, at most so many, of all classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer.errors import InvalidInput
from mercer.estimator.base import check_weights
from mercer.estimator.sample import check_labels, take_rows
from mercer.models.margin.folds import FOLDS
from mercer.selection.tune_over import Units
from mercer.settings import get_config

__all__ = ["TuneData", "choose_rows", "rows_that_fit", "tune_data"]

MATRICES = 7  # of n × n numbers that a search by gradients holds, at most
FEWEST = 100  # rows: fewer say little of parameters, and rather more memory is asked for


@dataclass(frozen=True)
class TuneData:
    """The kernel with its words resolved on all rows, and the rows to choose parameters on."""

    kernel: Any
    X: Any
    y: Any
    weights: np.ndarray | None
    classifier: bool
    given: int
    rows: np.ndarray | None = None  # their positions, where they are not all

    @property
    def units(self) -> Units:
        """The units that penalties are in."""
        with np.errstate(all="ignore"):
            mean = float(np.mean(np.asarray(self.kernel._diag(self.X), dtype=float)))
        spread = 1.0
        if not self.classifier:
            try:
                spread = float(np.std(np.asarray(self.y, dtype=float), axis=0).max())
            except (TypeError, ValueError):  # outputs that are not numbers
                spread = 1.0
        mean = mean if np.isfinite(mean) and mean > 0 else 1.0
        return Units(mean, spread if spread > 0 else 1.0, len(self))

    def __len__(self) -> int:
        return self.kernel.domain.size(self.X)


def tune_data(model: Any, X: Any, y: Any, sample_weight: Any, most: int, rng: Any) -> TuneData:
    """Check the data of a model as its fit does, and choose the rows to tune on.

    Parameters
    ----------
    model : estimator
        The model; not changed.
    X, y, sample_weight : data
        As for ``fit``.
    most : int
        The rows to choose parameters on, at most.
    rng : RandomState
        For the choice.
    """
    twin, owner = clone(model), type(model).__name__
    kernel = twin._kernel()
    X = twin._check_X(X, kernel, reset=True)
    n = kernel.domain.size(X)
    if is_classifier(model):
        y = check_labels(y, n, owner)
    if y is None:
        raise InvalidInput(f"{owner}: requires y to be passed, but the target y is None.")
    if _num_samples(y) != n:
        raise InvalidInput(
            f"{owner}: X has {n} rows and y has {_num_samples(y)}; inconsistent numbers of samples."
        )
    weights = check_weights(sample_weight, n, owner)
    kernel = kernel.fit_params(X, weights)
    rows = np.arange(n) if weights is None else np.flatnonzero(weights)
    given, classifier = len(rows), is_classifier(model)
    labels = None
    if classifier:
        labels = np.unique(y[rows], return_inverse=True)[1]
    rows = rows[choose_rows(labels, given, most, rng)]
    if len(rows) < 3:
        raise InvalidInput(f"tune: {len(rows)} rows are too few to choose parameters; give 3.")
    if len(rows) < n:
        X, y = take_rows(kernel, X, rows), _safe_indexing(y, rows)
        weights = None if weights is None else weights[rows]
    part = rows if len(rows) < n else None
    return TuneData(kernel, X, y, weights, classifier, given, part)


def rows_that_fit(kernel: Any, X: Any, most: int) -> int:
    """Return how many rows a search that factorises the Gram matrix can take: at most `most`.

    Parameters
    ----------
    kernel : Kernel
        The kernel; one with few features has no such matrix.
    X : canonical collection
        All points.
    most : int
        The rows asked for.
    """
    D = kernel._n_features(X)
    if D is not None and D < most:
        return most
    return min(most, max(FEWEST, math.isqrt(get_config().memory // (8 * MATRICES))))


def choose_rows(labels: np.ndarray | None, n: int, most: int, rng: Any) -> np.ndarray:
    """Return at most so many of n rows, drawn from each class alike, five of each if there are any.

    Parameters
    ----------
    labels : ndarray of int of shape (n,), or None
        The class of each row, numbered from 0.
    n : int
        How many rows there are.
    most : int
        How many to draw; all, in order, where there are no more.
    rng : RandomState
        The generator, which is not asked where all are taken.
    """
    if n <= most:
        return np.arange(n)
    drawn = rng.permutation(n)
    some = drawn[:most]
    if labels is not None:
        drawn = drawn[np.argsort(labels[drawn], kind="stable")]
        counts = np.bincount(labels)
        within = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        few, rest = drawn[within < FOLDS], drawn[within >= FOLDS]
        if len(few) > most:
            few, rest = drawn[:0], drawn
        part = rest[np.linspace(0, len(rest) - 1, most - len(few)).astype(int)]
        some = np.concatenate([few, part])
    return np.sort(some)
