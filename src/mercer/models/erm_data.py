"""Data of risks and margins, checked once for all: labels or targets, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from mercer.domains import GramRows
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput
from mercer.features.base import check_weights
from mercer.kernels import Kernel
from mercer.models.base import KernelEstimator, check_targets
from mercer.models.labels import check_kept_classes, check_labels, class_weights, find_classes
from mercer.models.machines import MarginData
from mercer.models.ridge_data import in_double, take_rows

__all__ = ["MarginData", "assemble", "prepare_labels", "prepare_targets", "spread"]


def prepare_targets(
    model: KernelEstimator, X: Any, y: Any, sample_weight: Any, check: Any = None
) -> MarginData:
    """Return checked data of a regression with one target, without rows of weight zero.

    Points are in float64 and in main memory, unless ``check(X, kernel)`` returns others.
    """
    owner = type(model).__name__
    kernel = model._kernel()
    X = _points(model, X, kernel) if check is None else check(X, kernel)
    n = kernel.domain.size(X)
    T = check_targets(y, n, owner)
    if T.ndim == 2 and T.shape[1] != 1:
        raise InvalidInput(
            f"{owner}: y has {T.shape[1]} columns; give one target for each row, or fit one "
            "model a column with sklearn.multioutput.MultiOutputRegressor."
        )
    weights = check_weights(sample_weight, n, owner)
    return assemble(kernel, X, column_or_1d(T, warn=True), weights, weights)


def prepare_labels(
    model: KernelEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    check: Any = None,
) -> MarginData:
    """Return checked data of a classification, y as class numbers, without rows of weight zero.

    Of the classes there are only those that have a row of positive weight, two or more. Points are
    as of `prepare_targets`.
    """
    owner = type(model).__name__
    kernel = model._kernel()
    X = _points(model, X, kernel) if check is None else check(X, kernel)
    n = kernel.domain.size(X)
    y = check_labels(y, n, owner)
    repeats = check_weights(sample_weight, n, owner)
    weights = repeats
    if class_weight is not None:
        weights = class_weights(class_weight, y, repeats, owner)
        weights = weights if repeats is None else weights * repeats
        weights = check_weights(weights, n, f"{owner}: class_weight")
    some = weights is not None and not weights.all()
    if some:
        check_kept_classes(y, y[weights > 0], owner)  # type: ignore[operator]
    classes = find_classes(y[weights > 0] if some else y, owner)  # type: ignore[operator]
    return assemble(kernel, X, np.searchsorted(classes, y), weights, repeats, classes)


def _points(model: KernelEstimator, X: Any, kernel: Kernel) -> Any:
    return in_double(to_host(model._check_X(X, kernel, reset=True)))


def assemble(
    kernel: Kernel,
    X: Any,
    y: np.ndarray,
    weights: np.ndarray | None,
    repeats: np.ndarray | None,
    classes: np.ndarray | None = None,
) -> MarginData:
    """Leave out rows of weight zero and resolve the kernel on the others."""
    n, kept = len(y), None
    if weights is None:
        weights = np.ones(n)
    elif not weights.all():
        if isinstance(kernel.domain, GramRows):
            kernel.domain.check_square(X)
        kept = np.flatnonzero(weights)
        X, y, weights = take_rows(kernel, X, kept), y[kept], weights[kept]
        repeats = None if repeats is None else repeats[kept]
    return MarginData(kernel.fit_params(X, repeats), X, y, weights, repeats, kept, n, classes)


def spread(data: MarginData, values: np.ndarray) -> np.ndarray:
    """Return values of the kept rows at all rows as given, 0 at those of weight zero."""
    if data.kept is None:
        return values
    out = np.zeros((data.n, *values.shape[1:]))
    out[data.kept] = values
    return out
