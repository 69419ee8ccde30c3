"""What suits a table of which nothing is said: its kernel, its model, parameters by left-out error.

Table models whose kernel is left out and ``mercer fit`` ask here, so that both answer alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.domains import RowBlocks
from mercer.kernels import Kernel, column_kinds, kernel_on_columns
from mercer.models.margin import FOLDS
from mercer.models.metric import Compared, string_kernels

#: Rows that parameters are chosen on: a search factorises many times.
TUNING_ROWS = 2000
#: Kernels that a search tries where a kernel has a parameter for every column.
COLUMNS_TRIED = 20
#: Rows from which on a metric is learned.
ROWS_OF_A_METRIC = 5
#: Rows up to which a feature machine takes the time that it needs; seconds for its search beyond.
UNHURRIED, SECONDS, MOST_SECONDS = 2000, 60.0, 480.0


def model_for(y: Any) -> tuple[str, str]:
    """Return "svc" or "ridge", the kernel model for classes, and why if that may surprise."""
    classes, counts = np.unique(y, return_counts=True)
    if counts.min() >= FOLDS:
        return "svc", ""
    # folds without a class say little of it; ridge has exact leave-one-out
    count, name = int(counts.min()), str(classes[counts.argmin()])
    return "ridge", f"because class {name!r} has {count} row{'s' if count > 1 else ''}"


def suits_features(rows: int) -> bool:
    """Whether a feature machine is the model for so many rows."""
    return rows >= ROWS_OF_A_METRIC


def time_for(rows: int) -> float | None:
    """Return the seconds after which a feature machine tries no further metric; None for all."""
    if rows <= UNHURRIED:
        return None
    return min(SECONDS * max(1.0, rows / 6000), MOST_SECONDS)


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
    own, compared = string_kernels(Z, y, found, classes=classes, random_state=random_state)
    return kernel_on_columns(Z, categorical=categorical, kinds=kinds, own=own), compared


# ---- Parameters that are left open, chosen by left-out error ----


def tuned(model: Any, Z: Any, y: Any, weights: Any, random_state: Any = 0) -> Any:
    """Return what `mercer.tune` finds for a kernel model or a table model, as `TuneResult`."""
    from mercer.selection import tune  # which knows all models

    kernel = getattr(model, "kernel", None)
    many = isinstance(kernel, Kernel) and len(kernel.theta) > 1
    options: dict[str, Any] = {"max_points": TUNING_ROWS, "random_state": random_state}
    if many:
        options["max_iter"] = COLUMNS_TRIED
    return tune(model, Z, y, weights, **options)


def some_rows(
    blocks: RowBlocks, random_state: Any = 0
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return random rows of blocks to choose parameters on, with targets and weights."""
    Z, y, weights = blocks.sample(TUNING_ROWS, random_state, with_targets=True)
    if weights is not None and len(weights) == TUNING_ROWS:
        weights = weights / weights.mean()  # a weight is a repetition: a row drawn is one row
    return Z, np.ravel(y), weights


def enough_to_tune(y: Any, in_folds: bool) -> bool:
    """Whether rows are enough to choose parameters by leaving out one, or folds of classes."""
    if not in_folds:
        return len(y) >= 3
    return len(y) >= FOLDS and int(np.unique(y, return_counts=True)[1].min()) >= 2
