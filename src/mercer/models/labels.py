"""Class labels: checked once, in the same words for every classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput

__all__ = ["check_labels", "find_classes"]


def check_labels(y: Any, n: int, owner: str) -> np.ndarray:
    """Return n class labels that can be sorted, none of them missing."""
    if y is None:
        raise InvalidInput(f"{owner}: requires y to be passed, but the target y is None.")
    if is_torch(y):
        y = y.detach().cpu().numpy()
    if _has_missing(y):
        raise InvalidInput(
            f"{owner}: y has missing labels (NaN or None); drop those rows, or give them a "
            "label of their own."
        )
    try:
        y = column_or_1d(y, warn=True)
        with np.errstate(invalid="ignore"):  # scikit-learn casts NaN before it refuses it
            check_classification_targets(y)
        np.unique(y)
    except ValueError as error:
        raise InvalidInput(f"{owner}: {error}") from error
    except TypeError as error:
        raise InvalidInput(
            f"{owner}: y mixes labels that cannot be sorted ({error}); convert all to text."
        ) from error
    if len(y) != n:
        raise InvalidInput(
            f"{owner}: X has {n} rows and y has {len(y)}; inconsistent numbers of samples."
        )
    return np.asarray(y)


def find_classes(y: np.ndarray, owner: str) -> np.ndarray:
    """Return the sorted classes of checked labels, two or more."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InvalidInput(
            f"{owner}: y has one class only ({classes[0]}); this classifier needs samples of at "
            "least 2 classes."
        )
    return classes


def _has_missing(y: Any) -> bool:
    """Whether labels of mixed types hold NaN, None or a frame's own missing value."""
    return any(_is_missing(v) for v in np.asarray(y, dtype=object).ravel())


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
