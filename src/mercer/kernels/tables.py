"""What the columns of a table hold: numbers, categories, text, strings, graphs, identifiers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from mercer.domains import Categories, Graph, Table, Tables, is_missing
from mercer.domains.graphs import is_networkx
from mercer.domains.tables import holds_dates, holds_spans, is_date, only_numbers
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.categories import HIGHEST, Categorical, Ordinal
from mercer.kernels.radial import RBF
from mercer.kernels.scales import CONSTANT, median_distance, weighted_median

ASKED = ("number", "category", "text", "sequence", "left out")  # what a user may say of a column
MOSTLY = 0.95  # share of rows that decides: a few cells may hold something else
LETTERS = 6  # letters, whatever their case, that a column of sequences may have
SHORTEST = 6  # median length from which strings of few letters may be sequences
PROTEIN = set("ACDEFGHIKLMNPQRSTVWY")  # amino acids; words have other letters soon
MANY = 200  # letters in all from which those of amino acids tell sequences
UPPER = re.compile("[A-Z*-]*[A-Z][A-Z*-]*")
CAPITALS = 12  # median length from which capitals of any kind may be sequences
LONG = 20  # median length from which strings of any letters are
DIGITS = 0.25  # share of digits from which long strings are keys, such as UUIDs, or dates
FEW = 20  # rows among which text that repeats is a category
WORDS = 4  # mean number of words from which text is read word by word
COUNTED = 10  # rows from which consecutive numbers are those of the rows
IDENTITY = re.compile(
    r"(?i:(^|[_\W])(id|row|key|uuid|unnamed: ?\d*)|^(row[_\W]?)?index)$|[a-z\d](ID|Id|UUID|Key)$"
)


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


def column_kinds(
    frame: Any,
    *,
    categorical: Sequence[str | int] = (),
    kinds: Mapping[Any, str] | None = None,
) -> dict[Any, ColumnKind]:
    """Return for each column of a table what it holds, and why it is taken for that.

    Kinds are "number", "category", "ordinal", "text", "sequence", "graph", and "left out".

    Text that repeats is a category. Other text is "text" from four words a row on. It is a
    sequence when almost all rows (95 %) are strings of few letters, or of those of amino acids,
    whatever their case, or are long (20 letters or more, few of them digits) and without blanks.
    Short texts that all differ are identifiers. So are whole numbers, all different, whose column
    is called an id, and those of a column that counts ten rows or more, in any order. They are left
    out, and so are dates, and texts, most of them different, that are dates. Empty text is looked
    at as missing.

    Parameters
    ----------
    frame : data frame, Table, dict of columns, or 2-D array
        The table; columns of an array are called by their position.
    categorical : sequence of str or int, optional
        Columns, by name or position, that are categories whatever they look like.
    kinds : mapping of str or int to str, optional
        What columns hold, by name or position, where you know better: "number", "category",
        "text", "sequence" or "left out".

    Returns
    -------
    dict of str (or int) to ColumnKind
        ``(kind, reason)`` by column.

    Examples
    --------
    >>> from mercer.kernels import column_kinds
    >>> found = column_kinds({"age": [31, 47, 52], "site": ["a", "b", "a"], "unit": ["mg"] * 3})
    >>> found["age"].kind, found["site"].kind, found["unit"]
    ('number', 'category', ColumnKind(kind='left out', reason='all values are equal'))
    >>> column_kinds({"tag": ["GAT", "TAC", "CAT"]}, kinds={"tag": "sequence"})["tag"].kind
    'sequence'
    """
    return kinds_of(read_columns(frame), categorical, kinds)


def read_columns(frame: Any) -> list[Column]:
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


def kinds_of(
    columns: list[Column],
    categorical: Sequence[str | int],
    kinds: Mapping[Any, str] | None = None,
) -> dict[Any, ColumnKind]:
    """Return what each column holds."""
    keys = [column.key for column in columns]
    names = [categorical] if isinstance(categorical, str) else categorical
    if not isinstance(names, Sequence | Set | np.ndarray) or np.ndim(names) == 0:
        raise InvalidInput(
            f"auto_kernel: categorical={categorical!r}; give names or positions of columns."
        )
    if not isinstance(kinds, Mapping | None):
        raise InvalidInput(f"auto_kernel: kinds={kinds!r}; give a dict from column to kind.")
    asked = {_key(name, keys, "categorical"): "category" for name in names}
    for name, kind in (kinds or {}).items():
        key = _key(name, keys, "kinds")
        if kind not in ASKED:
            raise InvalidInput(
                f"auto_kernel: kinds says {kind!r} of the column {name!r}; say one of "
                f"{', '.join(map(repr, ASKED))}."
            )
        if asked.setdefault(key, kind) != kind:
            raise InvalidInput(
                f"auto_kernel: the column {name!r} is asked to be {asked[key]!r} and {kind!r}; "
                "say one of them."
            )
    found = {}
    for column in columns:
        order = column.declared or ()
        if column.key in asked:
            found[column.key] = _as_asked(column, asked[column.key])
        elif len(order) > 1:
            reason = f"the frame declares the order of {len(order)} levels"
            found[column.key] = _category(column, "ordinal", reason)
        elif column.declared is not None:
            found[column.key] = _category(column, "category", "the frame declares it")
        else:
            found[column.key] = _kind(column.values, column.name)
    return found


def _key(name: Any, keys: list, option: str) -> Any:
    """Return how a column is called that is given by name or position."""
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        called = str(name)
        place = -len(keys) <= name < len(keys)
        if place and (called not in keys or keys.index(called) == name):
            return keys[int(name)]
        hint = f" Did you mean {called!r}?" if called in keys else ""
    elif name in keys:
        return name
    else:
        hint = ""
    raise InvalidInput(
        f"auto_kernel: {option} names the column {name!r}, which is not in the table; its columns "
        f"are {', '.join(map(repr, keys[:12]))}.{hint}"
    )


def _as_asked(column: Column, kind: str) -> ColumnKind:
    """Return the kind that is asked for, or that there is nothing to compare."""
    values, why = column.values, "as asked"
    if kind == "left out":
        return ColumnKind(kind, why)
    if kind == "category":
        return _category(column, kind, why)
    if kind == "number":
        if values.dtype.kind not in "fiub" and not only_numbers(values):
            raise InvalidInput(
                f"auto_kernel: kinds says that column {column.key!r} holds numbers, and it holds "
                "others; convert it first."
            )
        found = _kind_of_numbers(values)
        return ColumnKind(kind, why) if found.kind == kind else found
    present = [v for v in values.tolist() if not is_missing(v)]
    if not all(isinstance(v, str) for v in present):
        raise InvalidInput(
            f"auto_kernel: kinds says that column {column.key!r} holds {kind}, and it holds values "
            "that are no strings; write them as text first."
        )
    nothing = _nothing(present, len(values))
    return ColumnKind("left out", nothing) if nothing else ColumnKind(kind, why)


def _category(column: Column, kind: str, reason: str) -> ColumnKind:
    if holds_dates(column.values):
        return ColumnKind("left out", "dates; write them as text to have categories")
    if len(Categories().check({column.name: column.values}, "frame").keys) < 2:
        return ColumnKind("left out", "all values are equal")
    return ColumnKind(kind, reason)


def _nothing(present: list, n: int) -> str:
    """Return why there is nothing to compare among values, or ""."""
    if not present:
        return "all values are missing"
    return "all values are equal" if len(present) == n and len(set(present)) == 1 else ""


def _kind(values: np.ndarray, name: str) -> ColumnKind:
    if holds_dates(values):
        what = "durations" if holds_spans(values) else "dates"
        return ColumnKind("left out", f"{what}; turn them into numbers, such as days")
    if values.dtype.kind in "fiu":
        return _kind_of_numbers(values, name)
    present = [v for v in values.tolist() if v is not None]
    if not present:
        return ColumnKind("left out", "all values are missing")
    types = set(map(type, present))
    if values.dtype.kind == "b" or types <= {bool, np.bool_}:
        nothing = _nothing(present, len(values))
        return (
            ColumnKind("left out", nothing) if nothing else ColumnKind("category", "truth values")
        )
    if all(issubclass(t, str) for t in types):
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


def _kind_of_numbers(values: np.ndarray, name: str | None = None) -> ColumnKind:
    """Return the kind of a column of numbers, which is no identifier where no name is given."""
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
    why = None if name is None else identifier(values, name)
    return ColumnKind("number", "numbers") if why is None else _identity(why)


def _identity(why: str) -> ColumnKind:
    return ColumnKind("left out", f"an identifier: it {why}")


def identifier(values: np.ndarray, name: str) -> str | None:
    """Return by what a column of numbers is known to number the rows, None where it does not."""
    ends = counting(values)
    if ends is not None:
        return f"counts from {ends[0]:.0f} to {ends[1]:.0f}, another number in every row"
    x = values.astype(float)
    whole = np.isfinite(x).all() and not (x % 1).any()
    if whole and IDENTITY.search(name) and len(set(values.tolist())) == len(values):
        return "is called an id, and holds whole numbers that all differ"
    return None


def counting(values: np.ndarray) -> tuple[float, float] | None:
    """Return first and last of consecutive whole numbers, one in each of ten rows or more.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column, in any order.
    """
    n = len(values)
    if values.dtype == object or n < COUNTED:
        return None
    low, high = float(values.min()), float(values.max())
    if not (high - low == n - 1 and low % 1 == 0 and max(-low, high) < 2**53):
        return None
    seen = np.zeros(n, dtype=bool)
    seen[(values - low).astype(np.int64)] = True
    return (low, high) if seen.all() and bool((values % 1 == 0).all()) else None


def _kind_of_text(texts: list[str], n: int) -> ColumnKind:
    blank = {text for text in set(texts) if not text.strip()}  # as good as missing
    present = [text for text in texts if text not in blank] if blank else texts
    nothing = _nothing(present, n)
    if nothing:
        return ColumnKind("left out", nothing)
    distinct = len(set(present))
    repeats = ColumnKind("category", f"{distinct} different texts in {len(present)}")
    if 2 * distinct <= len(present):
        return repeats
    if 2 * sum(map(is_date, present)) > len(present):
        return ColumnKind("left out", "dates as text; turn them into numbers, such as days")
    words = np.mean([len(text.split()) for text in present])
    if words >= WORDS:
        return ColumnKind("text", f"{words:.0f} words a row, on average")
    again = distinct < len(present) < FEW  # two strings of one table are rarely equal
    what = "" if again else _sequences(present)
    if what:
        return ColumnKind("sequence", what)
    if distinct < len(present):
        return repeats
    if n > 1 and all(map(_is_number, present)):
        return ColumnKind("left out", "numbers written as text; convert them to numbers")
    return ColumnKind("left out", "an identifier: texts that all differ")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _sequences(texts: list[str]) -> str:
    """Return what makes strings sequences, "" for others; a few rows may be otherwise."""
    needed = MOSTLY * len(texts)
    solid = [text for text in texts if not any(c.isspace() for c in text)]
    if len(solid) < needed:
        return ""
    length = float(np.median([len(text) for text in solid]))
    plain = [text for text in solid if not any(c.isdigit() for c in text)]
    letters = [set(text.upper()) - set("*-") for text in plain]
    common = Counter(c for text in plain for c in text.upper() if c not in "*-")
    few = {c for c, _ in common.most_common(LETTERS)}
    size = sum(common.values())
    digits = sum(c.isdigit() for text in solid for c in text)
    of_keys = digits >= DIGITS * sum(map(len, solid))
    tests: tuple[tuple[str, bool, list[str], list[bool]], ...] = (
        ("few letters", length >= SHORTEST and size > 0, plain, [x <= few for x in letters]),
        (
            "letters of amino acids",
            length >= SHORTEST and size >= MANY,
            plain,
            [x <= PROTEIN for x in letters],
        ),
        ("capitals", length >= CAPITALS, plain, [bool(UPPER.fullmatch(t)) for t in plain]),
        ("many letters", length >= LONG and not of_keys, solid, [True] * len(solid)),
    )
    for what, possible, rows, legal in tests:
        if possible and sum(legal) >= needed:
            cases = _differ([row for row, fits in zip(rows, legal, strict=True) if fits])
            return f"strings of {what}, {length:.0f} long{cases}"
    return ""


def _differ(texts: list[str]) -> str:
    """Return a word of warning where a letter occurs in both cases."""
    letters = set().union(*texts)
    if any(c != c.upper() and c.upper() in letters for c in letters):
        return "; lower and upper case letters differ"
    return ""


# ---- A kernel proposed for a table, from what its columns hold ----


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
    return kernel_on_columns(frame, categorical=categorical, kinds=kinds)


def kernel_on_columns(
    frame: Any,
    *,
    categorical: Sequence[str | int] = (),
    kinds: Mapping[Any, str] | None = None,
    own: Mapping[Any, Kernel] | None = None,
) -> Kernel:
    """Return what `auto_kernel` proposes, with the kernels that some columns are to have."""
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
        part = (own or {}).get(column.key)
        part = part or own_kernel(contents[column.key].kind, column.declared)
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


def own_kernel(kind: str, order: tuple | None = None) -> Kernel | None:
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


def moments(x: np.ndarray, weight: np.ndarray | None) -> tuple[float, float, float]:
    """Median, mean and standard deviation of x with its missing values set to the median."""
    w = np.ones_like(x) if weight is None else weight
    use = ~np.isnan(x) & (w > 0)
    if not use.any():
        return 0.0, 0.0, 0.0
    fill = weighted_median(x[use], w[use])
    x = np.where(np.isnan(x), fill, x)[w > 0]
    w = w[w > 0] / w.sum()
    # in units of the largest value, so that squares of 1e200 do not overflow
    unit = float(np.abs(x).max()) or 1.0
    x = x / unit
    mean = float(w @ x)
    scale = float(np.sqrt(w @ (x - mean) ** 2))
    constant = float(np.ptp(x)) <= CONSTANT
    return fill, unit * mean, 0.0 if constant else unit * scale
