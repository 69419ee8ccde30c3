"""What is wrong with data that scikit-learn's checks refuse: where, and what may help."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.domains import (
    KERNEL_FOR_POINTS,
    KERNEL_FOR_ROWS,
    Domain,
    StringCollection,
    Table,
    odd_point,
    told_of_rows,
)
from mercer.domains.tables import holds_dates, holds_spans, is_frame
from mercer.errors import InvalidInput, refusal, speaks, who
from mercer.kernels import Combination, Kernel
from mercer.kernels.strings import letters_of, numbered
from mercer.misspelt import PARAMETERS, parameter_meant

#: What a regressor is called where y holds classes.
OTHERS = {
    "TableRegressor": "TableClassifier",
    "FeatureMachineRegressor": "FeatureMachineClassifier",
    "KernelRidge": "KernelRidgeClassifier",
    "SVR": "SVC",
    "NuSVR": "NuSVC",
    "GaussianProcessRegressor": "GaussianProcessClassifier",
    "KernelNeighborsRegressor": "KernelNeighborsClassifier",
}
DEEP = r"Found array with dim (\d+).*"  # how scikit-learn refuses labels of three dimensions


def no_features(kernel: Kernel) -> InvalidInput:
    """Return the refusal of a kernel for stochastic gradients."""
    return InvalidInput(
        f"{who()}: {kernel} has no finite explicit features to take gradients by; use "
        "solver='newton', or put mercer.Prototypes in front and use kernel='linear'."
    )


# ---- explain ----


def explain_points(
    error: Exception, X: Any, domain: Domain, *, any_kernel: bool = True
) -> InvalidInput:
    """Return the refusal of points X.

    Parameters
    ----------
    error : Exception
        What scikit-learn said.
    X : Any
        The points as given.
    domain : Domain
        What the kernel takes.
    any_kernel : bool, default=True
        Whether the estimator would take another kernel, such as a function of two objects.
    """
    text = _first_line(error)
    matrix = not domain.holds_points
    if X is None:
        return refusal(who(), "X is None; give one row a point.")
    if hasattr(X, "collect") and not hasattr(X, "__len__"):
        return refusal(who(), "X is a frame that is not read yet; pass X.collect().")
    if matrix and " features, but " in text:
        n = text.partition("is expecting ")[2].split()[0]
        return refusal(
            who(),
            f"{text} With a precomputed kernel, X must hold the kernel values of new "
            f"points, a row each, with all {n} training points, a column each.",
        )
    if (odd := odd_point(X)) is not None:
        cure = KERNEL_FOR_POINTS if any_kernel else "this estimator takes vectors only"
        return refusal(who(), f"X holds a {type(odd).__name__} where numbers belong; {cure}.")
    if "inhomogeneous shape" in text:
        cure = KERNEL_FOR_ROWS if any_kernel else "give every row the same columns"
        return refusal(who(), f"the rows of X have different lengths; {cure}.")
    if "convert string to float" in text:
        cure = "encode text, for example with mercer.TableEncoder"
        if not any_kernel:
            return refusal(who(), f"{text}. X must hold numbers; {cure}.")
        return refusal(
            who(),
            f"{text}. X must hold numbers for this kernel; {cure}, or give a kernel on "
            "strings, such as mercer.Spectrum(3), or any function of two objects: kernel=lambda s, "
            "t: ....",
        )
    if isinstance(error, TypeError):
        first = _odd_cell(X)
        cure = KERNEL_FOR_POINTS if any_kernel else "this estimator takes vectors only"
        return refusal(
            who(), f"X holds a {type(first).__name__} where numbers belong; {cure} ({text})."
        )
    if "Complex data" in text:
        what = "the matrix of kernel values" if matrix else "points"
        cure = "X.real" if matrix else "numpy.hstack([X.real, X.imag])"
        return refusal(who(), f"Complex data not supported: {what} must be real; pass {cure}.")
    if "NaN" in text or "infinity" in text:
        cure = "Drop those rows, or fill them, for example with sklearn.impute.SimpleImputer."
        if matrix:
            cure = "Leave out those points, a row and a column each."
        elif any_kernel and "NaN" in text:
            cure = cure[:-1] + ", or let the kernel take missing values: k.with_missing()."
        return refusal(who(), f"{_where(X, 'X') or text}. {cure}")
    if isinstance(error, OverflowError):
        return refusal(
            who(), "X holds a whole number beyond the range of float64; scale the column."
        )
    return _named(error) if who() in text else told_of_rows(error, X, who())


def explain_targets(error: Exception, y: Any) -> InvalidInput:
    """Return the refusal of numeric targets y."""
    text = _first_line(error)
    if "convert string to float" in text:
        other = OTHERS.get(who(), "a classifier")
        cure = f"y must hold numbers for a regression; for class labels take {other}."
        return refusal(who(), f"{text}. {cure}")
    if isinstance(error, OverflowError):
        return refusal(
            who(), "y holds a whole number beyond the range of float64; divide y by its size."
        )
    if "Complex data" in text:
        return refusal(
            who(), "Complex data not supported: y must be real; fit y.real and y.imag apart."
        )
    if "NaN" in text or "infinity" in text:
        return refusal(who(), f"{_where(y, 'y') or text}. Leave out those rows, in X and in y.")
    return _named(error)


def refuse_dates(y: Any) -> None:
    """Refuse targets that are dates, times or spans of time, which would become numbers unasked."""
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind in tuple("fiub"):
        return
    try:
        values = np.asarray(y).ravel()
    except (TypeError, ValueError):  # of what is no array its reader speaks
        return
    if not len(values) or not holds_dates(values):
        return
    spans = holds_spans(values)
    array = "" if values.dtype.kind in "mM" else "m8[us]" if spans else "M8[us]"
    convert = f"y = numpy.array(y, dtype={array!r}), and " if array else ""
    raise refusal(
        who(),
        f"y holds {'durations' if spans else 'dates or times'}; convert them to numbers of a unit "
        f"of your choice, such as {convert}"
        f"{'y' if spans else '(y - y.min())'} / numpy.timedelta64(1, 'D').",
    )


def explain_labels(error: Exception) -> InvalidInput:
    """Return the refusal of class labels y."""
    text = re.sub(DEEP, r"y has \1 dimensions; give labels of shape (n,).", str(error))
    if "Unknown label type: continuous." in text:
        other = next((name for name, own in OTHERS.items() if own == who()), "a regression")
        text += f" For numbers take {other}."
    return refusal(who(), text)


def explain_parameter(error: Exception, names: Any, legal: Any) -> str | None:
    """Return what is meant by a parameter that there is not, of an estimator or of its kernel."""
    for name in names:
        bare = name.removeprefix("kernel__")
        if bare in PARAMETERS and f"'{bare}'" in str(error):
            return f"{who()}: there is no parameter {name!r} here; {PARAMETERS[bare]}."
        if name.partition("__")[0] not in legal:
            return parameter_meant(who(), name, legal)
    return None


def _odd_cell(X: Any) -> Any:
    """Return the first entry of X that is no number."""
    if isinstance(X, np.ndarray) and X.dtype == object:
        numbers = (int, float, np.number, np.bool_)
        return next((v for v in X.ravel() if not isinstance(v, numbers)), None)
    return next(iter(X), None) if hasattr(X, "__iter__") else X


def _named(error: Exception) -> InvalidInput:
    """Return words of scikit-learn with who speaks in front; one sentence it must find as it is."""
    text, own = str(error), who()
    known = text.startswith(f"{own}:") or f" features, but {own} is expecting" in text
    return InvalidInput(text) if known else refusal(own, text)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _where(values: Any, name: str) -> str | None:
    """Return "Input X contains NaN at row 3, column 1 ('age')", None where that cannot be found."""
    labels: Any = None
    if isinstance(values, Table) or is_frame(values):
        table = Table.from_frame(values)
        labels, values = list(table.names), table.numeric()
    try:
        if sp.issparse(values):
            cells = values.tocoo()
            bad = np.flatnonzero(~np.isfinite(cells.data))
            at = np.lexsort((cells.col[bad], cells.row[bad]))[0]
            row, column = int(cells.row[bad][at]), int(cells.col[bad][at])
            value = float(cells.data[bad][at])
            return f"Input {name} contains {_number(value)} at row {row}, column {column}"
        with np.errstate(over="ignore"):  # a long double beyond float64 is inf
            array = np.asarray(values, dtype=float)
        first = np.argwhere(~np.isfinite(array))[0]
    except (TypeError, ValueError, IndexError):
        return None
    place = f"row {first[0]}"
    if len(first) > 1:
        place += f", column {first[1]}"
        place += "" if labels is None else f" ({labels[first[1]]!r})"
    return f"Input {name} contains {_number(array[tuple(first)])} at {place}"


def _number(value: float) -> str:
    return "NaN" if np.isnan(value) else "infinity" if value > 0 else "-infinity"


# ---- Strings whose letters have no column among the features: where they are, and what to do ----


def refuse_foreign_letters(kernel: Kernel, X: Any) -> None:
    """Refuse the first point that holds a letter outside the alphabet of a kernel on strings.

    Parameters
    ----------
    kernel : Kernel
        A kernel, or one made of kernels, with words resolved.
    X : canonical collection
        Its points.
    """
    every = _foreign(kernel, X)
    if every is None:
        return
    least, most = 0, kernel.domain.size(X)  # so many points have features; with one more, none
    while most - least > 1:
        middle = (least + most) // 2
        known = kernel._n_features(kernel.domain.take(X, slice(0, middle))) is not None
        least, most = (middle, most) if known else (least, middle)
    first = _foreign(kernel, kernel.domain.take(X, slice(least, most))) or every
    raise InvalidInput(
        f"{who()}: X[{least}] has the letter {first.letter!r}, at place {first.place}, for "
        f"which {first.kernel} has no feature: its alphabet is the one it was given, or else the "
        "letters of the first points. Begin anew with all letters that may come: "
        f"alphabet={every.alphabet!r}."
    )


class Foreign(NamedTuple):
    """A letter outside the alphabet of a kernel."""

    kernel: Kernel
    letter: Any
    place: int
    alphabet: Any


@speaks
def _foreign(kernel: Any, X: Any) -> Foreign | None:
    """Return the first foreign letter of a part without features, None where there is none."""
    if kernel._n_features(X) is not None:
        return None
    alphabet = getattr(kernel, "alphabet", None)
    if alphabet is None or not isinstance(X, StringCollection):
        parts = kernel._inside(X) if isinstance(kernel, Combination) else []
        return next((found for k, Z in parts if (found := _foreign(k, Z))), None)
    outside = np.flatnonzero(numbered(alphabet, X) == len(alphabet))
    if not len(outside):
        return None
    row = int(np.searchsorted(X.offsets, outside[0], side="right")) - 1
    place = int(outside[0] - X.offsets[row])
    known = _split(alphabet)
    more = [letter for letter in _split(letters_of(X)) if letter not in known]
    whole = (b"" if X.kind == "bytes" else "").join([*known, *more])  # type: ignore[attr-defined]
    return Foreign(kernel, X[row][place : place + 1], place, whole)


def _split(letters: Any) -> list:
    text = isinstance(letters, str | bytes)
    return [letters[i : i + 1] for i in range(len(letters))] if text else list(letters)
