"""Two tables compared: one test of all columns, one of each, and how each column changed."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_index, check_number
from mercer.domains import Table, to_host
from mercer.domains.tables import holds_dates, is_date, is_frame
from mercer.errors import InvalidInput, figure, speaks, users_level, who
from mercer.features import NamedColumn, TableEncoder, numbers, read_columns
from mercer.kernels import as_kernel, column_kinds
from mercer.statistics.base import TestResult
from mercer.statistics.two_sample import holm, mmd_agg_test, mmd_test, witness

FAR = 1e6  # deviations beyond which a cell is as far as can be
NAMES = 10  # a text column of so many cells or more, most of them different, names rows
WHOLE = 4000  # rows up to which a column is tested with its whole kernel matrix
RANK = 64  # of the matrix of a column beyond; one column has few directions
SHOWN = 3  # categories whose shares are told
NAMED = 5  # columns that a verdict names
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")  # as text
DIGITS = 300  # of whole numbers that are kept to the last

# ---- Rows as vectors: numbers by their quartiles, categories at unit distance, gaps as such ----


@dataclass(frozen=True, eq=False)
class TableVectors:
    """Rows of a table as vectors, and which entries of them each column has."""

    X: np.ndarray  # (n, d)
    spans: dict[str, slice]
    encoder: TableEncoder
    columns: dict[str, np.ndarray]  # numbers with NaN, or text with None
    gaps: dict[str, np.ndarray] = field(default_factory=dict)  # where numbers are missing
    flags: dict[str, str] = field(default_factory=dict)  # columns that say where another has none


def table_vectors(
    columns: Mapping[str, np.ndarray], max_categories: int = 100, robust: bool = True
) -> TableVectors:
    """Turn columns of numbers and of text into vectors.

    For tests (`robust`) numbers are scaled by their quartiles, so that a single wild cell does not
    hide the others, and cells that are missing count: a column of numbers that has some gets a
    second column that says where.
    """
    columns, gaps, flags = dict(columns), {}, {}
    for name, values in list(columns.items()) if robust else ():
        if values.dtype != object and np.isnan(values).any():
            gaps[name] = np.isnan(values)
            flag = f"{name} missing"
            while flag in columns:
                flag += "'"
            flags[flag] = name
            columns[flag] = np.array(["no", "yes"], dtype=object)[gaps[name].astype(int)]
    texts = tuple(n for n, c in columns.items() if c.dtype == object)
    encoder = TableEncoder(categorical=texts, max_categories=max_categories)
    table = Table(columns)
    X = encoder.fit(table).transform(table)
    spans, start = {}, 0
    for name, known in zip(encoder.columns_, encoder.categories_, strict=True):
        width = len(known) or 1
        spans[name] = slice(start, start + width)
        if robust and not known:
            X[:, start] = _by_quartiles(columns[name])
        start += width
    return TableVectors(X, spans, encoder, columns, gaps, flags)


def _by_quartiles(values: np.ndarray) -> np.ndarray:
    """Numbers less their median, in units that are the deviation of a normal column."""
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.349 or float(np.nanstd(values)) or 1.0
    filled = np.where(np.isnan(values), middle, values)
    return np.clip((filled - middle) / spread, -FAR, FAR)


# ---- What is found: of each column, and of the tables ----


@dataclass(frozen=True, eq=False)
class ColumnChange:
    """How a column of one table differs from that of another, and whether chance explains it.

    ``str(change)`` says it in words.

    Parameters
    ----------
    name : str
        The column; ``"age missing"`` stands for the missing cells of the numbers ``"age"``.
    kind : {"number", "category", "missing"}
        What was compared: numbers, categories, or which cells are missing.
    pvalue : float
        Of the column alone, on the cells that are there.
    adjusted : float
        The same, adjusted for the number of columns by Holm's method.
    deviations : float
        How many standard deviations of its null the statistic is above chance.
    a, b : dict
        The column in each table: ``mean`` and ``quartiles`` of numbers (None where all are
        missing), ``shares`` of categories among all rows, and ``missing``, the share of cells that
        are.

    Examples
    --------
    >>> from mercer.statistics import ColumnChange
    >>> change = {"a": {"missing": 0.0}, "b": {"missing": 0.25}}
    >>> print(ColumnChange("age missing", "missing", 0.001, 0.003, 9.0, **change))
    0 % → 25 % of the cells are missing
    """

    name: str
    kind: str
    pvalue: float
    adjusted: float
    deviations: float
    a: dict[str, Any]
    b: dict[str, Any]

    def __str__(self) -> str:
        a, b = self.a, self.b
        if self.kind == "missing":
            return f"{_percent(a['missing'], b['missing'])} of the cells are missing"
        if self.kind == "number":
            if a["mean"] is None or b["mean"] is None:
                return f"all cells of {'A' if a['mean'] is None else 'B'} are missing"
            ends = [", ".join(map(figure, side["quartiles"])) for side in (a, b)]
            means = f"mean {figure(a['mean'])} → {figure(b['mean'])}"
            return f"{means}; quartiles {ends[0]} → {ends[1]}"
        known = {**a["shares"], **b["shares"]}
        moved = {key: (a["shares"].get(key, 0.0), b["shares"].get(key, 0.0)) for key in known}
        if a["missing"] or b["missing"]:
            moved["(missing)"] = a["missing"], b["missing"]
        first = sorted(moved, key=lambda key: -abs(moved[key][0] - moved[key][1]))
        told = "; ".join(f"{key} {_percent(*moved[key])}" for key in first[:SHOWN])
        more = len(first) - SHOWN
        return told + (f"; and {more} more" if more > 0 else "")


def _percent(a: float, b: float) -> str:
    return f"{figure(100 * a)} % → {figure(100 * b)} %"


@dataclass(frozen=True, eq=False)
class TableComparison:
    """What a comparison of two tables found; printed, it is a report.

    Parameters
    ----------
    test : TestResult
        The test of all columns together. Its ``extra["kernel"]`` is the kernel, and
        ``test.explain()`` the shares of columns and pairs (of one kernel, not of "auto").
    columns : list of ColumnChange
        The columns, the most different first.
    witness : ndarray of shape (n + m,)
        For each row of A, then of B, how much denser A is than B around it: rows of A with large
        values, and rows of B with small ones, are the most telling.
    level : float
        p-values below this count as a difference.
    left_out : dict of str to str
        Columns that were not compared, and why.
    apart : dict of str to tuple of str
        Columns of categories that have no value in both tables, which chance does not explain, and
        a value of A and of B: a difference whatever the p-value, such as a unit that was added.

    Examples
    --------
    >>> import mercer
    >>> ages = [31, 47, 52, 38, 60, 44, 29, 55]
    >>> found = mercer.compare({"age": ages}, {"age": [a + 40 for a in ages]}, rng=0)
    >>> found.differ
    True
    >>> print(found.columns[0])
    mean 44.5 → 84.5; quartiles 36.25, 45.5, 52.75 → 76.25, 85.5, 92.75
    """

    test: TestResult
    columns: list[ColumnChange]
    witness: np.ndarray
    level: float = 0.05
    left_out: dict[str, str] = field(default_factory=dict)
    apart: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def pvalue(self) -> float:
        """The p-value of the tables as a whole."""
        return self.test.pvalue

    @property
    def differ(self) -> bool:
        """Whether the p-value of the whole is below the level, or a column is `apart`."""
        return self.pvalue < self.level or bool(self.apart)

    @property
    def verdict(self) -> str:
        """What was found, in a sentence or two."""
        n, m = self.test.sizes
        level, p = f"{self.level:g}", f"p-value {figure(self.pvalue)}"
        clear = [
            c.name for c in self.columns if c.adjusted < self.level and c.name not in self.apart
        ]
        more = f" and {len(clear) - NAMED} more" if len(clear) > NAMED else ""
        names = ", ".join(map(repr, clear[:NAMED])) + more
        if self.apart:
            told = "; ".join(
                f"no value of {name!r} is in both, such as {a!r} in A and {b!r} in B"
                for name, (a, b) in list(self.apart.items())[:NAMED]
            )
            rest = f"; and so {len(self.apart) - NAMED} more" if len(self.apart) > NAMED else ""
            below = "below" if self.pvalue < self.level else "not below"
            where = f" A difference also shows in {names}." if clear else ""
            return f"The tables differ: {told}{rest} ({p} of all columns, {below} {level}).{where}"
        if self.differ:
            where = f"A difference shows in {names}."
            if not clear:
                where = (
                    "No single column shows it clearly: several change a little, or columns go "
                    "together in another way."
                )
            return f"The tables differ ({p}, below {level}). {where}"
        if 1 / math.comb(n + m, min(n, m)) >= self.level:
            return (
                f"{n} and {m} rows are too few to tell: no difference, however large, has a "
                f"p-value below {level}."
            )
        if clear:
            return (
                f"As a whole the tables do not differ clearly ({p}, not below {level}), but alone "
                f"a difference shows in {names}."
            )
        return (
            f"No difference was found ({p}, not below {level}). That is no proof that there is "
            "none: more rows show smaller ones."
        )

    def __repr__(self) -> str:
        width = max(map(len, ("p-value", *(change.name for change in self.columns))))
        lines = [
            self.verdict,
            f"{'p-value':{width}}  {figure(self.pvalue)}, {self.test.method}",
        ]
        lines += [
            f"{change.name:{width}}  {change} (adjusted p-value {figure(change.adjusted)})"
            for change in self.columns
        ]
        lines += [f"{name:{width}}  left out: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)


# ---- The comparison ----


@speaks("compare")
def compare(
    A: Any,
    B: Any,
    kernel: Any = None,
    n_permutations: int = 999,
    rng: Any = None,
    *,
    level: float = 0.05,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    max_categories: int = 100,
    blocks: str | int | None = None,
    strata: str | None = None,
) -> TableComparison:
    """Say whether two tables come from one distribution, and how each column changed.

    Rows become vectors: numbers in units of their quartiles over both tables, so that one wild
    cell does not hide the others; categories at unit distance; where a number is missing a second
    column says so. All columns together are tested by `mmd_test`, and each alone on the cells that
    are there, with p-values adjusted for the number of columns.

    Parameters
    ----------
    A, B : data frame, Table, dict of columns or 2-D array
        The tables. Columns that both have are compared.
    kernel : Kernel, str or callable, optional
        The kernel of the vectors; RBF at the median distance when left out. "auto" aggregates many
        kernels, as `mmd_agg_test` does.
    n_permutations : int, default=999
        Draws that every p-value rests on.
    rng : None, int or Generator
        Source of randomness.
    level : float, default=0.05
        p-values below this count as a difference.
    drop : sequence of str, optional
        Columns not to compare, such as ids and dates.
    categorical : sequence of str, optional
        Columns that are categories although they hold numbers, or names of rows.
    max_categories : int, default=100
        The most frequent categories kept of each column; the others count as one.
    blocks : str or int, optional
        Rows that are shuffled as one: a column that names them, such as a patient, or the length
        of runs in a series.
    strata : str, optional
        A column: rows are shuffled only among rows with the same value.

    Returns
    -------
    TableComparison
        With `verdict`, `columns`, `pvalue` and `witness`; printed, it is a report.

    See Also
    --------
    mmd_test : the test, for points of any kind.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> rng = np.random.default_rng(0)
    >>> def month(shift):
    ...     town = rng.choice(["north", "south"], 100)
    ...     return {"amount": rng.normal(20 + shift, 5, 100), "town": town}
    >>> found = mercer.compare(month(0), month(4), rng=0)
    >>> print(found.verdict)
    The tables differ (p-value 0.006, below 0.05). A difference shows in 'amount'.
    >>> found.columns[0].name, bool(found.columns[0].a["mean"] < found.columns[0].b["mean"])
    ('amount', True)
    """
    check_number(level, "level", 0, 1)
    check_index(max_categories, "max_categories", 1)
    least = 1 / (check_index(n_permutations, "n_permutations", 1) + 1)
    if least >= level:
        raise InvalidInput(
            f"{who()}: level={level:g} can never be reached: the smallest p-value of "
            f"{n_permutations} permutations is {figure(least)}; give "
            f"n_permutations={math.ceil(1 / level)} or more."
        )
    many = isinstance(kernel, str) and kernel == "auto"
    if kernel is not None and not many and not as_kernel(kernel).domain.holds_points:
        raise InvalidInput(
            f"{who()}: kernel={kernel!r} needs a Gram matrix, and the rows of tables are made "
            "vectors here; give a kernel of vectors such as 'rbf', or use mmd_test."
        )
    drop, categorical = ([n] if isinstance(n, str) else list(n) for n in (drop, categorical))
    (first, dates, declared), (second, others, also) = map(_read, (A, B))
    dates, declared = dates | others, declared | also
    roles = {"blocks": blocks, "strata": strata}
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    asked = {"drop": drop, "categorical": categorical, **{r: (n,) for r, n in named.items()}}
    for role, names in asked.items():
        for name in names:
            if name not in {*first, *second, *dates}:
                raise InvalidInput(
                    f"{who()}: {role} names {name!r}, which is no column of A or B; they have "
                    f"{', '.join(map(repr, list(first)[:8]))}."
                )
    left_out = {n: "only A has it" for n in first if n not in second}
    left_out |= {n: "only B has it" for n in second if n not in first}
    left_out |= dict.fromkeys(sorted(dates), "dates; turn them into numbers, such as days")
    left_out |= dict.fromkeys(drop, "as asked")
    columns: dict[str, np.ndarray] = {}
    for name in first:
        if name in left_out or name in named.values():
            continue
        said = "category" if name in categorical else "declared" if name in declared else ""
        values, why = _joined(first[name], second[name], said)
        if why:
            left_out[name] = why
        else:
            columns[name] = values
    if not columns:
        why = "".join(f"; {n!r}: {reason}" for n, reason in list(left_out.items())[:5])
        raise InvalidInput(f"{who()}: A and B have no column that can be compared{why}.")
    options: dict[str, Any] = {"blocks": blocks} if blocks is not None else {}
    for role, name in named.items():
        if name in dates:
            raise InvalidInput(f"{who()}: {role}={name!r} holds dates; write them as text first.")
        if name not in first or name not in second:
            raise InvalidInput(f"{who()}: {role}={name!r} is a column of one table only.")
        labels = [*first[name].labels(), *second[name].labels()]
        if None in labels:
            raise InvalidInput(f"{who()}: column {name!r} is empty in a row, and {role} needs it.")
        options[role] = np.array(labels, dtype=object)
    vectors = table_vectors(columns, max_categories)
    n = len(next(iter(first.values())).values)
    return compare_vectors(vectors, n, kernel, n_permutations, rng, level, options, left_out)


def _read(X: Any) -> tuple[dict[str, NamedColumn], set[str], set[str]]:
    """Return the columns of a table, the names of those with dates, and of declared categories."""
    X = to_host(X)
    if not (isinstance(X, Table | Mapping) or is_frame(X)) or hasattr(X, "tocsr"):
        return {c.name: c for c in read_columns(X)[0]}, set(), set()
    table = Table.from_frame(X)
    dates = {n for n in table.names if holds_dates(table[n])}
    if dates:
        if len(dates) == len(table.names):
            return {}, dates, set()
        table = table.select([n for n in table.names if n not in dates])
    return {c.name: c for c in read_columns(table)[0]}, dates, set(table.declared)


def _joined(a: NamedColumn, b: NamedColumn, said: str) -> tuple[np.ndarray, str]:
    """Return the cells of a column in both tables, and why they cannot be compared, or "".

    It is `said` to be a "category", or "declared" to be one by a frame.
    """
    if not said:
        a, b = _as_numbers(a), _as_numbers(b)
    one, two = a.labels(), b.labels()
    kinds = {
        c.kind for c, labels in ((a, one), (b, two)) if any(label is not None for label in labels)
    }
    if not kinds:
        return np.zeros(0), "it is empty"
    if kinds == {"number"} and said != "category":
        values = np.concatenate([numbers(a), numbers(b)])
        distinct = np.unique(values)
        if len(distinct[~np.isnan(distinct)]) == 1 and len({*one, *two} - {None}) > 1:
            return values, (
                "its values differ by less than float64 tells apart; subtract a common number "
                "first (categorical compares them as categories)"
            )
        return values, "it has the same value everywhere" if len(distinct) == 1 else ""
    values = np.fromiter([*one, *two], dtype=object, count=len(one) + len(two))
    if len({*one, *two}) == 1:
        return values, "it has the same value everywhere"
    if len(kinds) > 1 and not said:
        _warn(
            f"column {a.name!r} holds numbers in one table and text in the other; it is compared "
            "as text."
        )
    elif len(kinds) == 1 and said != "category" and _names_rows(one, two):
        present = [v for v in (*one, *two) if v is not None]
        odd = [v for v in present if not _is_written(v)]
        if len(odd) <= len(present) / 10 and not said:
            _warn(
                f"column {a.name!r} holds text such as {odd[0]!r} among numbers, and is left out; "
                "correct or empty such cells."
            )
            return values, f"numbers, but for cells such as {odd[0]!r}"
        return values, _many(present)
    return values, ""


def _warn(text: str) -> None:
    warnings.warn(f"{who()}: {text}", UserWarning, stacklevel=users_level())


def _as_numbers(column: NamedColumn) -> NamedColumn:
    """Return a column of numbers that are written as text as numbers, any other as it is."""
    if column.kind == "number":
        return column
    cells = [None if v is None or not v.strip() else v for v in column.labels()]
    if not all(v is None or _is_written(v) for v in cells):
        return column
    exact = [None if v is None else _exact(v) for v in cells]
    return NamedColumn(column.name, np.fromiter(exact, dtype=object, count=len(exact)), "number")


def _is_written(text: str) -> bool:
    """Whether a text is a number."""
    return NUMBER.fullmatch(text.strip()) is not None


def _exact(text: str) -> int | float:
    """Return the number that is written, whole ones with all their digits."""
    text = text.strip()
    return int(text) if len(text) < DIGITS and text.lstrip("+-").isdigit() else float(text)


def _names_rows(*tables: Sequence[str | None]) -> bool:
    """Whether most texts of all tables differ, or all those of each table."""
    found = [[v for v in cells if v is not None] for cells in tables]
    both = [v for present in found for v in present]
    return (len(both) >= NAMES and len(set(both)) > len(both) // 2) or all(
        len(present) == len(set(present)) >= NAMES for present in found
    )


def _many(present: list[str]) -> str:
    """Return what a column of mostly different texts seems to be."""
    count = len(set(present))
    if sum(map(is_date, present)) > len(present) / 2:
        return f"{count} different dates; turn them into numbers, such as days"
    kind = column_kinds({"": [*dict.fromkeys(present)]})[""].kind
    if kind == "text":
        return f"{count} different texts of several words (categorical compares whole cells)"
    if kind == "sequence":
        return f"{count} different sequences of letters (categorical compares whole cells)"
    return f"{count} different texts, as names have (categorical keeps it)"


def compare_vectors(
    vectors: TableVectors,
    n: int,
    kernel: Any,
    n_permutations: int,
    rng: Any,
    level: float = 0.05,
    options: Mapping[str, Any] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> TableComparison:
    """Compare the first n rows with the others; `options` are how `mmd_test` shuffles them."""
    X, options = vectors.X, dict(options or {})
    apart = _apart(vectors, n, level, bool(options))
    many = isinstance(kernel, str) and kernel == "auto"
    estimator = "unbiased" if min(n, len(X) - n) > 1 else "biased"
    # one seed for all: a column that is the whole table has the p-value of the table
    seed = int(as_rng(rng).integers(2**32)) if isinstance(rng, np.random.Generator) else rng
    result = (mmd_agg_test if many else mmd_test)(
        X[:n], X[n:], None if many else kernel, n_permutations, seed, estimator=estimator, **options
    )
    result = by_column(result, vectors)
    heights = witness(X[:n], X[n:], result.extra["kernel"])(X)
    found = []
    for name, span in vectors.spans.items():
        rows = np.arange(len(X))
        if name in vectors.gaps:
            rows = rows[~vectors.gaps[name]]
        first = int((rows < n).sum())
        pvalue, away = 1.0, 0.0
        if min(first, len(rows) - first) >= 1:  # else a table without any value
            Z = X[rows, span]
            alone = mmd_test(
                Z[:first],
                Z[first:],
                None if many else kernel,
                n_permutations,
                seed,
                estimator="unbiased" if min(first, len(rows) - first) > 1 else "biased",
                rank=None if len(rows) <= WHOLE else RANK,
                **{k: v if np.ndim(v) == 0 else v[rows] for k, v in options.items()},
            )
            # How far beyond chance, in standard deviations: comparable over columns.
            null = np.zeros(1) if alone.null is None else alone.null
            spread = float(null.std())
            pvalue = alone.pvalue
            away = (alone.statistic - float(null.mean())) / spread if spread > 0 else 0.0
        found.append((name, pvalue, away))
    adjusted = holm([pvalue for _, pvalue, _ in found])
    changes = [
        ColumnChange(name, kind, pvalue, float(least), away, *sides)
        for (name, pvalue, away), least in zip(found, adjusted, strict=True)
        for kind, *sides in [_described(vectors, name, n)]
    ]
    changes.sort(key=lambda change: (change.pvalue, -change.deviations))
    return TableComparison(result, changes, heights, level, dict(left_out or {}), apart)


def by_column(result: TestResult, vectors: TableVectors) -> TestResult:
    """Return the result of a test of vectors that explains itself by columns of the table."""
    if result.origin is None:
        return result
    spans = {name: range(span.start, span.stop) for name, span in vectors.spans.items()}
    return replace(result, origin=partial(result.origin, groups=spans))


def _apart(
    vectors: TableVectors, n: int, level: float, grouped: bool
) -> dict[str, tuple[str, str]]:
    """Return the categories without a value in both tables, and a value of A and of B of each.

    Rows that are shuffled at random seldom leave all rows of each value on one side. Of d values
    at most 2^d halves of all rows do, and no more than choose the values on the smaller side: where
    all rows differ that is every half. Where one table holds numbers and the other none, there are
    two values. Rows that are shuffled in groups count for less: then only this last is told.
    """
    found = {}
    for name, values in vectors.columns.items():
        if values.dtype != object or name in vectors.flags:
            continue
        one, two = (
            [v for v in part.tolist() if v is not None] for part in (values[:n], values[n:])
        )
        if not one or not two or set(one) & set(two):
            continue
        shares = [np.mean([*map(_is_written, part)]) for part in (one, two)]
        count = 2 if sorted(shares) == [0, 1] else len({*one, *two})
        few, total = min(len(one), len(two)), len(one) + len(two)
        ways = min(
            count * math.log(2),
            math.log(few + 1) + _log_choices(count, min(few, count // 2)),
        )
        chance = ways - _log_choices(total, few) + math.log(len(vectors.spans))
        if chance < math.log(level) and (sorted(shares) == [0, 1] or not grouped):
            found[name] = one[0], two[0]
    return found


def _log_choices(n: int, k: int) -> float:
    """Return the logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _described(vectors: TableVectors, name: str, n: int) -> tuple[str, dict, dict]:
    """Return the kind of a column, and what it is like in each table."""
    if name in vectors.flags:
        gaps = vectors.gaps[vectors.flags[name]]
        return "missing", {"missing": float(gaps[:n].mean())}, {"missing": float(gaps[n:].mean())}
    values = vectors.columns[name]
    kind = "category" if values.dtype == object else "number"
    described = _shares if kind == "category" else _moments
    return kind, described(values[:n]), described(values[n:])


def _moments(values: np.ndarray) -> dict[str, Any]:
    present = values[~np.isnan(values)]
    told: dict[str, Any] = {"mean": None, "quartiles": None}
    if len(present):
        ends = np.quantile(present, [0.25, 0.5, 0.75]).tolist()
        told = {"mean": float(present.mean()), "quartiles": ends}
    return {**told, "missing": 1 - len(present) / len(values)}


def _shares(values: np.ndarray) -> dict[str, Any]:
    labels, counts = np.unique([str(v) for v in values if v is not None], return_counts=True)
    shares = {str(k): float(c / len(values)) for k, c in zip(labels, counts, strict=True)}
    return {"shares": shares, "missing": float(np.mean([v is None for v in values]))}
