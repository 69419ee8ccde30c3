"""Class labels: checked once, in the same words for every classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput

__all__ = [
    "check_kept_classes",
    "check_labels",
    "choose_class",
    "class_signs",
    "class_weights",
    "find_classes",
    "known_classes",
]


def check_labels(y: Any, n: int, owner: str) -> np.ndarray:
    """Return n class labels that can be sorted, none of them missing."""
    if y is None:
        raise InvalidInput(f"{owner}: requires y to be passed, but the target y is None.")
    y = to_host(y, "y")
    if _is_plain(y, n):
        return y
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


def check_kept_classes(y: np.ndarray, used: np.ndarray, owner: str) -> None:
    """Say it where weights of 0 leave fewer than two classes."""
    lost = np.setdiff1d(y, used)
    if len(np.unique(used)) < 2 and len(lost):
        names = ", ".join(str(label) for label in lost[:3].tolist()) + (", …" * (len(lost) > 3))
        raise InvalidInput(
            f"{owner}: all rows of class {names} have weight 0; this classifier needs samples of "
            "at least 2 classes with positive weights."
        )


def known_classes(
    classes: Any, y: np.ndarray, earlier: np.ndarray | None, owner: str
) -> np.ndarray:
    """Return all classes of a fit in parts: those given in its first call, and no others later."""
    known = earlier
    if classes is not None:
        name = f"{owner}: classes"
        given = find_classes(check_labels(classes, np.size(classes), name), name)
        if earlier is not None and not np.array_equal(given, earlier):
            raise InvalidInput(
                f"{owner}: classes={given.tolist()} are not those of the first call, "
                f"{earlier.tolist()}."
            )
        known = given
    if known is None:
        raise InvalidInput(
            f"{owner}: classes must be passed on the first call, since later calls may bring "
            "labels that the first has not; pass classes=numpy.unique(all labels)."
        )
    new = y[~np.isin(y, known)]
    if len(new):
        raise InvalidInput(
            f"{owner}: y has the label {new[0]!r}, which is not one of the classes "
            f"{known.tolist()}."
        )
    return known


def class_signs(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return ±1, one row a class; of two classes only the second, as the positive one."""
    rows = classes[1:] if len(classes) == 2 else classes
    return np.where(y[None, :] == rows[:, None], 1.0, -1.0)


def choose_class(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the classes that decision values speak for; a value of 0 for the first of two."""
    best = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return classes[best]


def class_weights(
    class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None, owner: str
) -> np.ndarray:
    """Return the weight of each row's class, for a dict or "balanced".

    Balanced is W/(classes·W_c) with sums W of sample weights, so that a weight of 2 is a row given
    twice.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, Mapping):
        return _given_weights(class_weight, classes.tolist(), owner)[codes]
    if not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise InvalidInput(
            f"{owner}: class_weight={class_weight!r}; give 'balanced', a dict from class to "
            "weight, or None."
        )
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    totals = np.bincount(codes, w, len(classes))
    present = totals > 0
    by_class = np.zeros(len(classes))
    by_class[present] = w.sum() / (present.sum() * totals[present])
    return by_class[codes]


def _given_weights(class_weight: Mapping, classes: list, owner: str) -> np.ndarray:
    """Return the weights of the classes; one without an entry has weight 1.

    A key that is no class may be one that these rows lack. It is a slip where a class has no entry,
    or where the key is text and the classes are numbers.
    """
    unknown = [key for key in class_weight if key not in classes]
    text = all(isinstance(label, str) for label in classes)
    slips = [key for key in unknown if isinstance(key, str) != text]
    if unknown and any(label not in class_weight for label in classes):
        slips = unknown
    if slips:
        raise InvalidInput(
            f"{owner}: class_weight has an entry for {slips[0]!r}, which is not a class; the "
            f"classes are {classes}. Give a dict from class to weight."
        )
    for label in classes:
        value = class_weight.get(label, 1.0)
        if not isinstance(value, int | float | np.number) or isinstance(value, bool):
            raise InvalidInput(f"{owner}: class_weight[{label!r}]={value!r}; give a number ≥ 0.")
    return np.array([float(class_weight.get(label, 1.0)) for label in classes])


def _is_plain(y: Any, n: int) -> bool:
    """Whether y is an array of n whole numbers, few of them different: nothing else to check."""
    whole = isinstance(y, np.ndarray) and y.shape == (n,) and y.dtype.kind in "iu" and n > 0
    return whole and type(y) is np.ndarray and len(np.unique(y)) <= max(2, n // 2)


def _has_missing(y: Any) -> bool:
    """Whether labels of mixed types hold NaN, None or a frame's own missing value."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuUS":
        return False
    return any(_is_missing(v) for v in np.asarray(y, dtype=object).ravel())


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
