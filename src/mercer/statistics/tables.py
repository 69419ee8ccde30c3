"""Two tables compared: one test of all columns, one of each, and how each column changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.checks import as_rng, check_number
from mercer.domains import Table
from mercer.errors import InvalidInput, figure, speaks, who
from mercer.features import TableEncoder, numbers, read_columns
from mercer.statistics.base import TestResult
from mercer.statistics.two_sample import holm, mmd_agg_test, mmd_test, witness

FAR = 1e6  # deviations beyond which a cell is as far as can be
NAMES = 10  # a text column of so many cells or more, most of them different, names rows
WHOLE = 4000  # rows up to which a column is tested with its whole kernel matrix
RANK = 64  # of the matrix of a column beyond; one column has few directions
SHOWN = 3  # categories whose shares are told
NAMED = 5  # columns that a verdict names

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
        The test of all columns together. Its ``extra["kernel"]`` is the kernel.
    columns : list of ColumnChange
        The columns, the most different first.
    witness : ndarray of shape (n + m,)
        For each row of A, then of B, how much denser A is than B around it: rows of A with large
        values, and rows of B with small ones, are the most telling.
    level : float
        p-values below this count as a difference.
    left_out : dict of str to str
        Columns that were not compared, and why.

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

    @property
    def pvalue(self) -> float:
        """The p-value of the tables as a whole."""
        return self.test.pvalue

    @property
    def differ(self) -> bool:
        """Whether the p-value of the tables as a whole is below the level."""
        return self.pvalue < self.level

    @property
    def verdict(self) -> str:
        """What was found, in a sentence or two."""
        n, m = self.test.sizes
        level, p = f"{self.level:g}", f"p-value {figure(self.pvalue)}"
        clear = [change.name for change in self.columns if change.adjusted < self.level]
        more = f" and {len(clear) - NAMED} more" if len(clear) > NAMED else ""
        names = ", ".join(map(repr, clear[:NAMED])) + more
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
    drop, categorical = ([n] if isinstance(n, str) else list(n) for n in (drop, categorical))
    (one, _), (two, _) = read_columns(A), read_columns(B)
    first, second = ({c.name: c for c in columns} for columns in (one, two))
    roles = {"blocks": blocks, "strata": strata}
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    asked = {"drop": drop, "categorical": categorical, **{r: (n,) for r, n in named.items()}}
    for role, names in asked.items():
        for name in names:
            if name not in first and name not in second:
                raise InvalidInput(
                    f"{who()}: {role} names {name!r}, which is no column of A or B; they have "
                    f"{', '.join(map(repr, list(first)[:8]))}."
                )
    left_out = {n: "only A has it" for n in first if n not in second}
    left_out |= {n: "only B has it" for n in second if n not in first}
    left_out |= dict.fromkeys(drop, "as asked")
    columns: dict[str, np.ndarray] = {}
    for name in first:
        if name in left_out or name in named.values():
            continue
        values, why = _joined(first[name], second[name], name in categorical)
        if why:
            left_out[name] = why
        else:
            columns[name] = values
    if not columns:
        why = "".join(f"; {n!r}: {reason}" for n, reason in list(left_out.items())[:5])
        raise InvalidInput(f"{who()}: A and B have no column that can be compared{why}.")
    options: dict[str, Any] = {"blocks": blocks} if blocks is not None else {}
    for role, name in named.items():
        if name not in first or name not in second:
            raise InvalidInput(f"{who()}: {role}={name!r} is a column of one table only.")
        labels = [*first[name].labels(), *second[name].labels()]
        if None in labels:
            raise InvalidInput(f"{who()}: column {name!r} is empty in a row, and {role} needs it.")
        options[role] = np.array(labels, dtype=object)
    vectors = table_vectors(columns, max_categories)
    n = len(one[0].values)
    return compare_vectors(vectors, n, kernel, n_permutations, rng, level, options, left_out)


def _joined(a: Any, b: Any, categorical: bool) -> tuple[np.ndarray, str]:
    """Return the cells of a column in both tables, and why they cannot be compared, or ""."""
    kinds = {
        column.kind for column in (a, b) if any(label is not None for label in column.labels())
    }
    if not kinds:
        return np.zeros(0), "it is empty"
    if kinds == {"number"} and not categorical:
        values = np.concatenate([numbers(a), numbers(b)])
        same = len(np.unique(values)) == 1
        return values, "it has the same value everywhere" if same else ""
    labels = [*a.labels(), *b.labels()]
    values = np.fromiter(labels, dtype=object, count=len(labels))
    distinct, present = len({*labels} - {None}), sum(label is not None for label in labels)
    if len({*labels}) == 1:
        return values, "it has the same value everywhere"
    if not categorical and present >= NAMES and distinct > present // 2:
        return values, f"{distinct} different texts, as names have (categorical keeps it)"
    return values, ""


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
    many = isinstance(kernel, str) and kernel == "auto"
    estimator = "unbiased" if min(n, len(X) - n) > 1 else "biased"
    # one seed for all: a column that is the whole table has the p-value of the table
    seed = int(as_rng(rng).integers(2**32)) if isinstance(rng, np.random.Generator) else rng
    result = (mmd_agg_test if many else mmd_test)(
        X[:n], X[n:], None if many else kernel, n_permutations, seed, estimator=estimator, **options
    )
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
    return TableComparison(result, changes, heights, level, dict(left_out or {}))


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
