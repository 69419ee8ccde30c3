"""`Sample`, the checked data of a fit: kernel, points, targets or labels, weights."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, column_or_1d

from mercer.domains import is_torch, to_host
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator.base import KernelEstimator, check_targets, check_weights
from mercer.estimator.messages import explain_labels
from mercer.kernels import Kernel

FARTHEST = float(np.finfo(float).max) / 64  # sums of errors of a fit that are still numbers


@dataclass(frozen=True, eq=False)
class Sample:
    """Checked data of a fit. Rows of weight zero are left out of all but `n`, where `kept` says so.

    Of rows in blocks X are the blocks, with targets and weights of their own: y is a matrix of no
    rows that says how many outputs there are.

    Parameters
    ----------
    kernel : Kernel
        With words resolved.
    X : canonical collection
        The points; for a precomputed kernel the square matrix of kernel values.
    y : array of shape (n,) or (n, t)
        Class numbers 0, 1, … or targets.
    weights : ndarray or None
        How much each point counts in the objective: sample weight times class weight.
    repeats : ndarray or None
        Sample weights alone, None where all are one: how often each point was given.
    kept : ndarray or None
        Positions of the points among the rows as given; None where all were kept.
    n : int
        Rows as given.
    classes : ndarray or None
        The classes, for a classifier.
    column : bool, default=True
        Whether there is one target a point, and answers have no second axis.
    given : collection or None
        The points where they were, if X has been moved.
    """

    kernel: Kernel
    X: Any
    y: Any
    weights: Any
    repeats: np.ndarray | None = None
    kept: np.ndarray | None = None
    n: int = 0
    classes: np.ndarray | None = None
    column: bool = True
    given: Any = None

    @property
    def outputs(self) -> int:
        """Number of outputs, t."""
        return int(self.y.shape[1])

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of the kept rows at all rows as given, 0 at those of weight zero."""
        if self.kept is None:
            return values
        out = np.zeros((self.n, *values.shape[1:]))
        out[self.kept] = values
        return out


def in_double(X: Any) -> Any:
    """Return rows of numbers in float64 where they are; other points as they are."""
    if is_torch(X):
        return X.double()
    single = isinstance(X, np.ndarray) or sp.issparse(X)
    return X.astype(np.float64) if single and X.dtype == np.float32 else X


def kept_targets(y: Any, X: Any) -> bool:
    """Whether targets may stay the tensor they are: finite numbers, one row for each of X.

    Parameters
    ----------
    y : object
        Targets as given.
    X : canonical collection
        The points.
    """
    if not (is_torch(y) and is_torch(X)) or y.device != X.device or not y.is_floating_point():
        return False
    return y.ndim in (1, 2) and len(y) == len(X) and bool(y.isfinite().all())


def count_targets(y: Any) -> int:
    """Return how many targets of any kind there are, or refuse what holds none."""
    try:
        return int(_num_samples(y))
    except TypeError:
        raise InvalidInput(
            f"{who()}: y is a {type(y).__name__}; give one value for each row, in a list or array."
        ) from None


# ---- labels ----


def check_labels(y: Any, n: int) -> np.ndarray:
    """Return n class labels that can be sorted, none of them missing."""
    if y is None:
        raise InvalidInput(f"{who()}: requires y to be passed, but the target y is None.")
    y = to_host(y, "y")
    if _is_plain(y, n):
        return y
    if sp.issparse(y):
        raise InvalidInput(f"{who()}: y is a sparse matrix; give labels in an array or a list.")
    if _has_missing(y):
        raise InvalidInput(
            f"{who()}: y has missing labels (NaN or None); drop those rows, or give them a "
            "label of their own."
        )
    kinds = (
        sorted({_kind(v) for v in y})
        if getattr(getattr(y, "dtype", None), "kind", "") == "O"
        else []
    )
    if len(kinds) > 1:
        raise InvalidInput(
            f"{who()}: y mixes labels of several kinds ({', '.join(kinds)}); convert all to text, "
            "or all to numbers."
        )
    try:
        y = column_or_1d(y, warn=True)
        with np.errstate(invalid="ignore"):  # scikit-learn casts NaN before it refuses it
            check_classification_targets(y)
        np.unique(y)
    except ValueError as error:
        raise explain_labels(error) from error
    except TypeError as error:
        raise InvalidInput(
            f"{who()}: y mixes labels that cannot be sorted ({error}); convert all to text."
        ) from error
    if len(y) != n:
        raise InvalidInput(
            f"{who()}: X has {n} rows and y has {len(y)}; inconsistent numbers of samples."
        )
    return np.asarray(y)


def find_classes(y: np.ndarray) -> np.ndarray:
    """Return the sorted classes of checked labels, two or more."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InvalidInput(
            f"{who()}: y has one class only ({classes[0]}); this classifier needs samples of at "
            "least 2 classes."
        )
    return classes


def check_kept_classes(y: np.ndarray, used: np.ndarray) -> None:
    """Say it where weights of 0 leave fewer than two classes."""
    lost = np.setdiff1d(y, used)
    if len(np.unique(used)) < 2 and len(lost):
        names = ", ".join(str(label) for label in lost[:3].tolist()) + (", …" * (len(lost) > 3))
        raise InvalidInput(
            f"{who()}: all rows of class {names} have weight 0; this classifier needs samples of "
            "at least 2 classes with positive weights."
        )


def known_classes(classes: Any, y: np.ndarray, earlier: np.ndarray | None) -> np.ndarray:
    """Return all classes of a fit in parts: those given in its first call, and no others later."""
    known = earlier
    if classes is not None:
        name = f"{who()}: classes"
        with speaking_for(name):
            given = find_classes(check_labels(classes, np.size(classes)))
        if earlier is not None and not np.array_equal(given, earlier):
            raise InvalidInput(
                f"{who()}: classes={given.tolist()} are not those of the first call, "
                f"{earlier.tolist()}."
            )
        known = given
    if known is None:
        raise InvalidInput(
            f"{who()}: classes must be passed on the first call, since later calls may bring "
            "labels that the first has not; pass classes=numpy.unique(all labels)."
        )
    new = y[~np.isin(y, known)]
    if len(new):
        raise InvalidInput(
            f"{who()}: y has the label {new[0]!r}, which is not one of the classes "
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


def class_weights(class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return the weight of each row's class, for a dict or "balanced".

    Balanced is W/(classes·W_c) with sums W of sample weights, so that a weight of 2 is a row given
    twice.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, Mapping):
        return _given_weights(class_weight, classes.tolist())[codes]
    if not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise InvalidInput(
            f"{who()}: class_weight={class_weight!r}; give 'balanced', a dict from class to "
            "weight, or None."
        )
    w = np.ones(len(y)) if sample_weight is None else sample_weight
    totals = np.bincount(codes, w, len(classes))
    present = totals > 0
    by_class = np.zeros(len(classes))
    by_class[present] = w.sum() / (present.sum() * totals[present])
    return by_class[codes]


def _given_weights(class_weight: Mapping, classes: list) -> np.ndarray:
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
            f"{who()}: class_weight has an entry for {slips[0]!r}, which is not a class; the "
            f"classes are {classes}. Give a dict from class to weight."
        )
    for label in classes:
        value = class_weight.get(label, 1.0)
        if not isinstance(value, int | float | np.number) or isinstance(value, bool):
            raise InvalidInput(f"{who()}: class_weight[{label!r}]={value!r}; give a number ≥ 0.")
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


def _kind(label: Any) -> str:
    """Return what kind of label it is, numbers all of one kind."""
    number = isinstance(label, bool | np.bool_ | numbers.Real)
    return "numbers" if number else type(label).__name__


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


# ---- Data of risks and margins, checked once for all: labels or targets, weights ----


@speaks
def prepare_targets(
    model: KernelEstimator, X: Any, y: Any, sample_weight: Any, check: Any = None
) -> Sample:
    """Return checked data of a regression with one target, without rows of weight zero.

    Points are in float64 and in main memory, unless ``check(X, kernel)`` returns others.
    """
    kernel = model._kernel()
    X = _points(model, X, kernel) if check is None else check(X, kernel)
    n = kernel.domain.size(X)
    T = check_targets(y, n)
    if T.ndim == 2 and T.shape[1] != 1:
        raise InvalidInput(
            f"{who()}: y has {T.shape[1]} columns; give one target for each row, or fit one "
            "model a column with sklearn.multioutput.MultiOutputRegressor."
        )
    weights = check_weights(sample_weight, n)
    y = T if T.ndim == 1 else column_or_1d(T, warn=True)
    data = assemble(kernel, X, y, weights, weights)
    refuse_sums(data.y, float(data.weights.sum()))
    return data


def refuse_sums(y: np.ndarray, total: float) -> None:
    """Refuse targets so large that a sum of errors, of weights with that total, overflows."""
    size = float(np.abs(y).max(initial=0.0))
    if size > FARTHEST / max(1.0, total):
        raise InvalidInput(
            f"{who()}: y holds {y.flat[np.abs(y).argmax()]:g}, and the sum of such errors "
            "overflows; give the targets in a larger unit."
        )


@speaks
def prepare_labels(
    model: KernelEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    check: Any = None,
) -> Sample:
    """Return checked data of a classification, y as class numbers, without rows of weight zero.

    Of the classes there are only those that have a row of positive weight, two or more. Points are
    as of `prepare_targets`.
    """
    kernel = model._kernel()
    X = _points(model, X, kernel) if check is None else check(X, kernel)
    n = kernel.domain.size(X)
    y = check_labels(y, n)
    repeats = check_weights(sample_weight, n)
    weights = repeats
    if class_weight is not None:
        weights = class_weights(class_weight, y, repeats)
        weights = weights if repeats is None else weights * repeats
        with speaking_for(f"{who()}: class_weight"):
            weights = check_weights(weights, n)
    some = weights is not None and not weights.all()
    if some:
        check_kept_classes(y, y[weights > 0])  # type: ignore[operator]
    classes = find_classes(y[weights > 0] if some else y)  # type: ignore[operator]
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
) -> Sample:
    """Leave out rows of weight zero and resolve the kernel on the others."""
    n, kept = len(y), None
    if weights is None:
        weights = np.ones(n)
    elif not weights.all():
        kernel.domain.check_training(X)
        kept = np.flatnonzero(weights)
        X, y, weights = kernel.domain.subset(X, kept), y[kept], weights[kept]
        repeats = None if repeats is None else repeats[kept]
    return Sample(kernel.fit_params(X, repeats), X, y, weights, repeats, kept, n, classes)


def n_features(model: Any) -> int | None:
    """Return how many explicit features the kernel of a fitted model has at the points it saw."""
    domain, points = model.kernel_.domain, model.X_fit_
    weights = vars(model).get("sample_weight_")
    if np.shape(weights) == (domain.size(points),):
        points = domain.take(points, np.flatnonzero(weights))
    return model.kernel_._n_features(points)
