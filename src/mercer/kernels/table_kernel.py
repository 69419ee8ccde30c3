"""A kernel proposed for a table, from what its columns hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.categories import HIGHEST, Categorical, Ordinal
from mercer.kernels.column_contents import Column, kinds_of, read_columns
from mercer.kernels.radial import RBF
from mercer.kernels.scales import median_distance

__all__ = ["auto_kernel"]

ALIKE = 0.5  # what rows share that differ in all categories
LARGE = 1e150  # beyond it numbers have no squares


def auto_kernel(
    frame: Any,
    *,
    categorical: Sequence[str | int] = (),
    kinds: Mapping[Any, str] | None = None,
) -> Kernel:
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
    kinds : mapping of str or int to str, optional
        What columns hold, by name or position, where you know better: "number", "category",
        "text", "sequence" or "left out".

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
    columns = read_columns(frame)
    contents = kinds_of(columns, categorical, kinds)

    def of(kind: str) -> list:
        return [key for key, found in contents.items() if found.kind == kind]

    groups: list[Kernel] = []
    if of("number"):
        root = len(of("number")) ** 0.5
        scales = [_rounded(root * _spread(c)) for c in columns if contents[c.key].kind == "number"]
        groups.append(RBF(scales).with_missing().on(of("number")))
    if of("category"):
        groups.append(Categorical(_similarity(len(of("category")))).on(of("category")))
    for column in columns:
        part = _own_kernel(contents[column.key].kind, column.declared)
        if part is not None:
            groups.append(part.on(column.key))
    if not groups:
        why = "; ".join(f"{key!r}: {found.reason}" for key, found in list(contents.items())[:8])
        raise InvalidInput(
            f"auto_kernel: no column can be compared ({why or 'there is none'}); say what one "
            "holds, as in kinds={'column': 'sequence'}, or choose a kernel yourself, such as "
            "Categorical().on('column') or, for strings, Spectrum(3).on('column')."
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
