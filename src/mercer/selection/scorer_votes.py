"""All numbers of neighbours from one search on a fold: the most asked for hold all fewer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.kernels import Kernel
from mercer.models.neighbors.models import NeighborsBase
from mercer.selection.scorer_answers import Answer, plain_fit, split_rows

__all__ = ["neighbour_answers"]


def neighbour_answers(
    scorer: Any,
    model: NeighborsBase,
    kernel: Kernel | None,
    counts: Sequence[Any],
    members: Sequence[int],
) -> Iterator[tuple[int, int, Answer]]:
    """Yield the number of a setting, that of a fold, and the answer of a fit on that fold.

    Parameters
    ----------
    scorer : FoldScorer
        The folds, and the Gram matrix.
    model : KernelNeighborsClassifier or KernelNeighborsRegressor
        With all parameters but ``n_neighbors``.
    kernel : Kernel or None
        Its kernel, if the Gram matrix may be shared.
    counts : sequence
        Values of ``n_neighbors``; those that are none are left to the fits, which say so.
    members : sequence of int
        The numbers of their settings.
    """
    if scorer.weights is not None:
        return
    for k, (train, test) in enumerate(scorer.folds):
        usable = [j for j, count in enumerate(counts) if _is_count(count, len(train))]
        if not usable or scorer.late():
            continue
        most = max(counts[j] for j in usable)
        fresh, K = clone(model).set_params(n_neighbors=int(most)), None
        if kernel is not None and fresh._uniform:  # a matrix does not tell distances to new points
            K = scorer._sliced(model, kernel, {}, k)
        if K is not None:
            fresh.set_params(kernel="precomputed")
            known, new = K[np.ix_(train, train)], K[np.ix_(test, train)]
        else:
            known, new = (split_rows(model, scorer.X, rows, train) for rows in (train, test))
        fitted = plain_fit(fresh, {}, known, *scorer.of(train))
        points = fitted._check_new(new)
        found: list[list[np.ndarray]] = [[] for _ in usable]
        for far, where in fitted._in_blocks(points, int(most), distances=not fitted._uniform):
            for parts, j in zip(found, usable, strict=True):
                c = int(counts[j])
                weights = fitted._weights_of(None if far is None else far[:, :c])
                parts.append(fitted._combine(where[:, :c], weights))
        classes = vars(fitted).get("classes_")
        for parts, j in zip(found, usable, strict=True):
            values = np.concatenate(parts)
            yield members[j], k, Answer(model, values, classes, "predict_proba")


def _is_count(value: Any, n: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 1 <= value <= n
