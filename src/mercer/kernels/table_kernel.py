"""A kernel proposed for a table, from what its columns hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mercer.domains import Categories, Graph, Table
from mercer.domains.columns import Tables
from mercer.domains.graph_input import is_networkx
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.categories import Categorical, Ordinal
from mercer.kernels.radial import RBF
from mercer.kernels.scales import median_distance

__all__ = ["ColumnKind", "auto_kernel", "column_kinds"]

LETTERS = 8  # letters of any kind that a column of sequences may have; capitals may be more
LONG = 6  # median length from which strings without spaces may be sequences
WORDS = 4  # mean number of words from which text is read word by word
IDENTITY = re.compile(r"(^|[_\W])(id|index|row|key|uuid|unnamed: ?\d*)$", re.IGNORECASE)
ALIKE = 0.5  # what rows share that differ in all categories


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
    columns = _read(frame)
    asked = _keys(categorical, [key for key, *_ in columns])
    return {
        key: _category(values) if key in asked else _kind(values, name, order)
        for key, values, name, order in columns
    }


def auto_kernel(frame: Any, *, categorical: Sequence[str | int] = ()) -> Kernel:
    r"""Return a kernel for the rows of a table, proposed from what its columns hold.

    Columns of one kind form a group, each with a kernel of its own whose diagonal is 1:

    - numbers: one `RBF` with a length scale for each column, :math:`\sqrt d` times the median
      distance of two values, so that years and milligrams count alike and no scaler is needed;
    - categories (text that repeats, truth values): one `Categorical` of all such columns, which is
      ½ for rows that differ in all of them;
    - each column of ordered categories: `Ordinal` with the order that the frame declares;
    - each column of text: `BagOfWords`; of strings over few letters: ``Spectrum(3).normalized()``;
      of graphs: ``WeisfeilerLehman(3).normalized()``.

    Every part takes missing values, also where the frame has none. Dates, constant columns and
    identifiers are left out; `column_kinds` says why. The groups are combined as

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
    columns = {key: (values, order) for key, values, _, order in _read(frame)}
    kinds = column_kinds(frame, categorical=categorical)

    def of(kind: str) -> list:
        return [key for key, found in kinds.items() if found.kind == kind]

    groups: list[Kernel] = []
    if of("number"):
        root = len(of("number")) ** 0.5
        scales = [_rounded(root * _spread(columns[key][0])) for key in of("number")]
        groups.append(RBF(scales).with_missing().on(of("number")))
    if of("category"):
        similarity = _rounded(ALIKE ** (1 / len(of("category"))))
        groups.append(Categorical(similarity).on(of("category")))
    for key, found in kinds.items():
        part = _own_kernel(found.kind, *columns[key])
        if part is not None:
            groups.append(part.on(key))
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


def _own_kernel(kind: str, values: np.ndarray, order: tuple | None) -> Kernel | None:
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


def _read(frame: Any) -> list[tuple[Any, np.ndarray, str, tuple | None]]:
    """Return key, values, name and declared order of each column."""
    try:
        X = Tables().check(frame, "frame")
    except InvalidInput as error:
        raise InvalidInput(f"auto_kernel: {error}") from None
    if not isinstance(X, Table):
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        return [(j, X[:, j], str(j), None) for j in range(X.shape[1])]
    keys: Any = X.names if X.named else range(len(X.names))
    return [
        (key, values, name, X.orders.get(name))
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


def _category(values: np.ndarray) -> ColumnKind:
    if values.dtype.kind in "mM":
        return ColumnKind("left out", "dates; write them as text to have categories")
    if len(Categories().check(values).keys) < 2:
        return ColumnKind("left out", "all values are equal")
    return ColumnKind("category", "as asked")


def _kind(values: np.ndarray, name: str, order: tuple | None) -> ColumnKind:
    if order is not None and len(order) > 1:
        return ColumnKind("ordinal", f"the frame declares the order of {len(order)} levels")
    if values.dtype.kind in "mM":
        return ColumnKind("left out", "dates; turn them into numbers, such as days")
    if values.dtype.kind in "fiu":
        return _kind_of_numbers(values.astype(float), name)
    present = [v for v in values.tolist() if v is not None]
    if not present:
        return ColumnKind("left out", "all values are missing")
    if values.dtype.kind == "b" or all(isinstance(v, bool | np.bool_) for v in present):
        distinct = len(set(present))
        if distinct == 1 and len(present) == len(values):
            return ColumnKind("left out", "all values are equal")
        return ColumnKind("category", "truth values")
    if all(isinstance(v, str) for v in present):
        return _kind_of_text(present, len(values), name)
    if all(isinstance(v, Graph) or is_networkx(v) for v in present):
        return ColumnKind("graph", "graphs")
    if all(hasattr(v, "__array__") or isinstance(v, list | tuple) for v in present):
        return ColumnKind(
            "left out", "arrays; choose SetKernel(k).on(column) or GlobalAlignment().on(column)"
        )
    try:
        distinct = len(Categories().check(present).keys)
    except InvalidInput:
        kinds = sorted({type(v).__name__ for v in present})
        return ColumnKind("left out", f"values of the kinds {', '.join(kinds[:4])}")
    if 2 * distinct <= len(present):
        return ColumnKind("category", f"{distinct} different values of several kinds")
    return ColumnKind("left out", "values of several kinds that hardly repeat")


def _kind_of_numbers(values: np.ndarray, name: str) -> ColumnKind:
    present = values[np.isfinite(values)]
    if np.isinf(values).any():
        return ColumnKind("left out", "infinite numbers")
    if not len(present):
        return ColumnKind("left out", "all values are missing")
    if present.min() == present.max():
        if len(present) < len(values):
            return ColumnKind("category", "one number or none: what counts is whether it is there")
        return ColumnKind("left out", "all values are equal")
    distinct = len(np.unique(present)) == len(values)
    if distinct and IDENTITY.search(name) and not (present % 1).any():
        return ColumnKind("left out", "an identifier: whole numbers, all different")
    return ColumnKind("number", "numbers")


def _kind_of_text(present: list[str], n: int, name: str) -> ColumnKind:
    distinct = len(set(present))
    if distinct == 1 and len(present) == n:
        return ColumnKind("left out", "all values are equal")
    rare = 2 * distinct > len(present)  # a value occurs less than twice, on average
    if not rare:
        return ColumnKind("category", f"{distinct} different texts in {len(present)}")
    words = np.mean([len(text.split()) for text in present])
    if words >= WORDS:
        return ColumnKind("text", f"{words:.0f} words a row, on average")
    letters = set("".join(present))
    length = float(np.median([len(text) for text in present]))
    capital = all("A" <= letter <= "Z" for letter in letters - set("*-"))
    if (
        length >= LONG
        and not any(letter.isspace() or letter.isdigit() for letter in letters)
        and (len(letters) <= LETTERS or capital)
    ):
        return ColumnKind("sequence", f"strings of {len(letters)} letters, {length:.0f} long")
    if distinct == len(present) and n > 1:
        return ColumnKind("left out", "an identifier: short texts, all different")
    return ColumnKind("category", f"{distinct} different texts in {len(present)}")


def _rounded(number: float) -> float:
    """Return a number of four digits: what is proposed is to be read."""
    return float(f"{number:.4g}")


def _spread(values: np.ndarray) -> float:
    """Return the median distance of two values that are there."""
    x = values.astype(float)
    return float(median_distance(x[np.isfinite(x)].reshape(-1, 1)))
