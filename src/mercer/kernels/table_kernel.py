"""A kernel proposed for a table, from what its columns hold."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer.domains import Categories, Graph, Table
from mercer.domains.column_values import holds_dates, only_numbers
from mercer.domains.columns import Tables
from mercer.domains.graph_input import is_networkx
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.categories import HIGHEST, Categorical, Ordinal
from mercer.kernels.radial import RBF
from mercer.kernels.scales import median_distance

__all__ = ["ColumnKind", "auto_kernel", "column_kinds"]

LETTERS = 6  # letters of any kind that a column of sequences may have
LONG = 6  # median length from which strings without spaces may be sequences
PROTEIN = set("ACDEFGHIKLMNPQRSTVWY")  # amino acids; words in capitals have other letters soon
MANY = 200  # letters in all from which those of amino acids tell sequences
CAPITALS = 12  # median length from which capitals of any kind may be sequences
FEW = 20  # rows among which text that repeats is a category
WORDS = 4  # mean number of words from which text is read word by word
IDENTITY = re.compile(
    r"(?i:(^|[_\W])(id|row|key|uuid|unnamed: ?\d*)|^(row[_\W]?)?index)$|[a-z\d](ID|Id|UUID|Key)$"
)
ALIKE = 0.5  # what rows share that differ in all categories
LARGE = 1e150  # beyond it numbers have no squares


class Column(NamedTuple):
    """A column of a table: how it is called, what it holds, and what a frame declares of it."""

    key: Any
    values: np.ndarray
    name: str
    declared: tuple | None


class ColumnKind(NamedTuple):
    """What a column holds, and why it is taken for that."""

    kind: str
    reason: str


def column_kinds(frame: Any, *, categorical: Sequence[str | int] = ()) -> dict[Any, ColumnKind]:
    """Return for each column of a table what it holds, and why it is taken for that.

    Kinds are "number", "category", "ordinal", "text", "sequence", "graph", and "left out".

    Parameters
    ----------
    frame : data frame, Table, dict of columns, or 2-D array
        The table; columns of an array are called by their position.
    categorical : sequence of str or int, optional
        Columns, by name or position, that are categories whatever they look like.

    Returns
    -------
    dict of str (or int) to ColumnKind
        ``(kind, reason)`` by column.

    Examples
    --------
    >>> from mercer.kernels import column_kinds
    >>> kinds = column_kinds({"age": [31, 47, 52], "site": ["a", "b", "a"], "unit": ["mg"] * 3})
    >>> kinds["age"].kind, kinds["site"].kind, kinds["unit"]
    ('number', 'category', ColumnKind(kind='left out', reason='all values are equal'))
    """
    return _kinds(_read(frame), categorical)


def auto_kernel(frame: Any, *, categorical: Sequence[str | int] = ()) -> Kernel:
    r"""Return a kernel for the rows of a table, proposed from what its columns hold.

    Columns of one kind form a group, each with a kernel of its own whose diagonal is 1:

    - numbers: one `RBF` with a length scale for each column, :math:`\sqrt d` times the median
      distance of two values, so that years and milligrams count alike and no scaler is needed;
    - categories (text that repeats, truth values, what a frame declares to be a category): one
      `Categorical` of all such columns, which is ½ for rows that differ in all of them;
    - each column of ordered categories: `Ordinal` with the order that the frame declares;
    - each column of text: `BagOfWords`; of strings over few letters: ``Spectrum(3).normalized()``;
      of graphs: ``WeisfeilerLehman(3).normalized()``.

    Every part takes missing values, also where the frame has none; a row of which all numbers are
    missing has half of what a complete one would have. Dates, constant columns and identifiers are
    left out; `column_kinds` says why. The groups are combined as

    .. math:: k(x, x') = \prod_g \tfrac12\bigl(1 + k_g(x, x')\bigr),

    the sum of all products of groups: the effect of each, of each two together, and so on. A group
    that has nothing to say halves a similarity at most, where in a plain product it would hide all
    others. The weights ½ may be tuned, as everything else.

    *Valid when* always: sums and products of kernels with positive weights. The same frame gives
    the same kernel; printed, it is an expression that can be pasted and changed.

    Parameters
    ----------
    frame : data frame, Table, dict of columns, or 2-D array
        The rows, without the target.
    categorical : sequence of str or int, optional
        Columns, by name or position, that are categories whatever they look like.

    Returns
    -------
    Kernel
        A kernel on rows of such frames.

    Examples
    --------
    >>> from mercer import auto_kernel
    >>> k = auto_kernel({"age": [30.0, 40.0, 50.0], "site": ["a", "b", "a"]})
    >>> k.k1
    Constant(value=0.5) + 0.5 * RBF(length_scale=[10.0]).with_missing().on(['age'])
    >>> k.k2
    Constant(value=0.5) + 0.5 * Categorical(similarity=0.5).on(['site'])
    """
    columns = _read(frame)
    kinds = _kinds(columns, categorical)

    def of(kind: str) -> list:
        return [key for key, found in kinds.items() if found.kind == kind]

    groups: list[Kernel] = []
    if of("number"):
        root = len(of("number")) ** 0.5
        scales = [_rounded(root * _spread(c)) for c in columns if kinds[c.key].kind == "number"]
        groups.append(RBF(scales).with_missing().on(of("number")))
    if of("category"):
        groups.append(Categorical(_similarity(len(of("category")))).on(of("category")))
    for column in columns:
        part = _own_kernel(kinds[column.key].kind, column.declared)
        if part is not None:
            groups.append(part.on(column.key))
    if not groups:
        why = "; ".join(f"{key!r}: {found.reason}" for key, found in list(kinds.items())[:8])
        raise InvalidInput(
            f"auto_kernel: no column can be compared ({why or 'there is none'}); choose a kernel "
            "yourself, such as Categorical().on(column)."
        )
    if len(groups) == 1:
        return groups[0]
    factors = [0.5 + 0.5 * group for group in groups]
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def _own_kernel(kind: str, order: tuple | None) -> Kernel | None:
    """Return the kernel of a column that is a group by itself."""
    from mercer.kernels.graphs import WeisfeilerLehman
    from mercer.kernels.strings import Spectrum
    from mercer.kernels.text import BagOfWords

    if kind == "ordinal":
        levels = order or ()
        return Ordinal(levels, max(1.0, (len(levels) - 1) / 2))
    if kind == "text":
        return BagOfWords().with_missing()
    if kind == "sequence":
        return Spectrum(3).normalized().with_missing()
    if kind == "graph":
        return WeisfeilerLehman(3).normalized().with_missing()
    return None


def _read(frame: Any) -> list[Column]:
    """Return the columns of a table."""
    try:
        X = Tables().check(frame, "frame")
    except InvalidInput as error:
        raise InvalidInput(f"auto_kernel: {error}") from None
    if not isinstance(X, Table):
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        return [Column(j, X[:, j], str(j), None) for j in range(X.shape[1])]
    keys: Any = X.names if X.named else range(len(X.names))
    return [
        Column(key, values, name, X.declared.get(name))
        for key, values, name in zip(keys, X.columns, X.names, strict=True)
    ]


def _keys(categorical: Sequence[str | int], keys: list) -> set:
    """Return the columns that are asked to be categories, as they are called."""
    found = set()
    for key in [categorical] if isinstance(categorical, str) else categorical:
        place = isinstance(key, int | np.integer) and -len(keys) <= key < len(keys)
        if not place and key not in keys:
            raise InvalidInput(
                f"auto_kernel: categorical names the column {key!r}, which is not in the table; "
                f"its columns are {', '.join(map(repr, keys[:12]))}."
            )
        found.add(keys[int(key)] if place else key)
    return found


def _kinds(columns: list[Column], categorical: Sequence[str | int]) -> dict[Any, ColumnKind]:
    """Return what each column holds."""
    asked = _keys(categorical, [column.key for column in columns])
    found = {}
    for column in columns:
        order = column.declared or ()
        if column.key in asked:
            found[column.key] = _category(column, "category", "as asked")
        elif len(order) > 1:
            reason = f"the frame declares the order of {len(order)} levels"
            found[column.key] = _category(column, "ordinal", reason)
        elif column.declared is not None:
            found[column.key] = _category(column, "category", "the frame declares it")
        else:
            found[column.key] = _kind(column.values, column.name)
    return found


def _category(column: Column, kind: str, reason: str) -> ColumnKind:
    if holds_dates(column.values):
        return ColumnKind("left out", "dates; write them as text to have categories")
    if len(Categories().check({column.name: column.values}, "frame").keys) < 2:
        return ColumnKind("left out", "all values are equal")
    return ColumnKind(kind, reason)


def _kind(values: np.ndarray, name: str) -> ColumnKind:
    if holds_dates(values):
        return ColumnKind("left out", "dates; turn them into numbers, such as days")
    if values.dtype.kind in "fiu":
        return _kind_of_numbers(values, name)
    present = [v for v in values.tolist() if v is not None]
    if not present:
        return ColumnKind("left out", "all values are missing")
    if values.dtype.kind == "b" or all(isinstance(v, bool | np.bool_) for v in present):
        distinct = len(set(present))
        if distinct == 1 and len(present) == len(values):
            return ColumnKind("left out", "all values are equal")
        return ColumnKind("category", "truth values")
    if all(isinstance(v, str) for v in present):
        return _kind_of_text(present, len(values))
    if only_numbers(values):
        return _kind_of_numbers(values, name)
    if all(isinstance(v, Graph) or is_networkx(v) for v in present):
        return ColumnKind("graph", "graphs")
    if any(not isinstance(v, tuple) for v in present) and all(map(_is_array, present)):
        return ColumnKind(
            "left out", "arrays; choose SetKernel(k).on(column) or GlobalAlignment().on(column)"
        )
    names = sorted({type(v).__name__ for v in present})
    what = f"values of the kind{'s' * (len(names) > 1)} {', '.join(names[:4])}"
    try:
        distinct = len(Categories().check({name: present}).keys)
    except InvalidInput:
        return ColumnKind("left out", what)
    if 2 * distinct <= len(present):
        return ColumnKind("category", f"{distinct} different {what}")
    return ColumnKind("left out", f"{what} that hardly repeat")


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)


def _kind_of_numbers(values: np.ndarray, name: str) -> ColumnKind:
    x = values.astype(float)
    present = x[np.isfinite(x)]
    if np.isinf(x).any():
        return ColumnKind("left out", "infinite numbers")
    if not len(present):
        return ColumnKind("left out", "all values are missing")
    if present.min() == present.max():
        if len(present) < len(values):
            return ColumnKind("category", "one number or none: what counts is whether it is there")
        return ColumnKind("left out", "all values are equal")
    whole = len(present) == len(values) and not (present % 1).any()
    if whole and IDENTITY.search(name) and len(set(values.tolist())) == len(values):
        return ColumnKind("left out", "an identifier: whole numbers, all different")
    return ColumnKind("number", "numbers")


def _kind_of_text(present: list[str], n: int) -> ColumnKind:
    distinct = len(set(present))
    if distinct == 1 and len(present) == n:
        return ColumnKind("left out", "all values are equal")
    rare = 2 * distinct > len(present)  # a value occurs less than twice, on average
    if not rare:
        return ColumnKind("category", f"{distinct} different texts in {len(present)}")
    words = np.mean([len(text.split()) for text in present])
    if words >= WORDS:
        return ColumnKind("text", f"{words:.0f} words a row, on average")
    again = distinct < len(present) < FEW  # two strings of one table are rarely equal
    if not again and _are_sequences(present):
        length = np.median([len(text) for text in present])
        return ColumnKind("sequence", f"strings of few letters, {length:.0f} long")
    if distinct == len(present) and n > 1:
        return ColumnKind("left out", "an identifier: short texts, all different")
    return ColumnKind("category", f"{distinct} different texts in {len(present)}")


def _are_sequences(texts: list[str]) -> bool:
    """Whether texts are long ones of few letters, of amino acids, or very long ones of capitals."""
    whole = "".join(texts)
    letters = set(whole) - set("*-")
    length = np.median([len(text) for text in texts])
    if length < LONG or not letters or any(c.isspace() or c.isdigit() for c in letters):
        return False
    few = len({c.upper() for c in letters}) <= LETTERS
    protein = letters <= PROTEIN and len(whole) >= MANY
    capital = all("A" <= c <= "Z" for c in letters) and length >= CAPITALS
    return bool(few or protein or capital)


def _rounded(number: float) -> float:
    """Return a number of four digits: what is proposed is to be read."""
    return float(f"{number:.4g}")


def _similarity(columns: int) -> float:
    """Return ½^(1/columns), four digits of how far below one it is."""
    value = ALIKE ** (1 / columns)
    return min(HIGHEST, round(value, 3 - math.floor(math.log10(1 - value))))


def _spread(column: Column) -> float:
    """Return the median distance of two values that are there."""
    x = column.values.astype(float)
    if (np.abs(x) > LARGE).any():
        i = int(np.argmax(np.abs(x) > LARGE))
        raise InvalidInput(
            f"auto_kernel: column {column.key!r} holds {x[i]:g} at row {i}, a number without a "
            "square; correct the cell, or leave it empty if the number is not known."
        )
    return float(median_distance(x[np.isfinite(x)].reshape(-1, 1)))
