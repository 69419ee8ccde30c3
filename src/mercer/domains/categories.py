"""Categories: rows of values that are equal or not, held as stable codes of 64 bits."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.labels import code_of, is_hashable, is_missing
from mercer.domains.packed import Packed
from mercer.domains.tables import Table, is_frame, rows_of_objects, short
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput, ModelFileError, refusal

# No value has it: those of values are hashes of bytes that begin with another letter.
MISSING = np.frombuffer(b"missing.", dtype="<i8")[0]


class CategoryCollection(Packed):
    """Rows of categories: equal values have equal codes, in every collection and every process.

    Parameters
    ----------
    codes : ndarray of int64 of shape (n, c)
        The code of each value: a hash of 64 bits.
    keys : ndarray of int64 of shape (u,)
        The codes that may occur, rising.
    values : ndarray of object of shape (u,)
        What they stand for; None is missing.
    order : tuple or None
        The levels from low to high, where a frame says them.
    labels : tuple of str
        What the columns are called in messages; () where nobody said.

    Examples
    --------
    >>> from mercer.domains import Categories
    >>> sites = Categories().check(["here", "there", None, "here"])
    >>> sites[0] == sites[3], sites[1], sites[2]
    (True, ('there',), (None,))
    """

    _arrays = ("codes", "keys", "values")

    def __init__(
        self,
        codes: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        order: tuple | None = None,
        labels: tuple[str, ...] = (),
    ):
        self.codes = codes
        self.keys = keys
        self.values = values
        self.order = order
        self.labels = labels
        for array in (codes, keys, values):
            array.flags.writeable = False

    @classmethod
    def from_arrays(cls, codes: Any, keys: Any, values: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        legal = all(isinstance(a, np.ndarray) and a.dtype == np.int64 for a in (codes, keys))
        if not legal or codes.ndim != 2 or codes.shape[1] < 1:
            raise ModelFileError("categories of it are not rows of codes")
        if not isinstance(values, np.ndarray) or values.ndim != 1:
            raise ModelFileError("categories of it have no values")
        try:
            known = codes_of(values.tolist())
        except InvalidInput:
            known = None
        if known is None or not np.array_equal(known, keys) or (keys[1:] <= keys[:-1]).any():
            raise ModelFileError("categories of it have codes that are not those of their values")
        if not np.isin(codes, keys).all():
            raise ModelFileError("categories of it have codes without a value")
        return cls(codes, keys, values.astype(object))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.codes.shape[1]

    def take(self, index: Index) -> Self:
        """Return the rows at the given positions."""
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = index.astype(np.intp) if index.size == 0 else index
        return type(self)(self.codes[index], self.keys, self.values, self.order, self.labels)

    def joined(self, other: Self) -> Self:
        """Return these rows followed by those of another collection."""
        keys, first = np.unique(np.concatenate([self.keys, other.keys]), return_index=True)
        values = np.concatenate([self.values, other.values])[first]
        codes = np.concatenate([self.codes, other.codes])
        return type(self)(codes, keys, values, self.order, self.labels)

    def where(self, key: int) -> str:
        """Say in which column and row a code stands first."""
        row, column = np.argwhere(self.codes == key)[0].tolist()
        return f"{self.labels[column] if self.labels else 'X'} holds it at row {row}"

    def _point(self, i: int) -> tuple:
        return tuple(self.values[np.searchsorted(self.keys, self.codes[i])])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CategoryCollection) and np.array_equal(self.codes, other.codes)

    __hash__ = None  # type: ignore[assignment]


class Categories(Domain):
    """Rows of values that are equal or not: text, numbers, truth values, tuples of these.

    1, 1.0 and True are one value and "1" is another. Missing (None, NaN, NA of pandas) is a value
    of its own. A list or a 1-D array is one column.
    """

    name = "categories"

    def check(self, X: Any, name: str = "X") -> CategoryCollection:
        """Return the codes of the values, or say which is none."""
        if isinstance(X, CategoryCollection):
            return X
        columns, labels, order = _columns(X, name)
        if not columns:
            raise refusal("Categories", f"{name} has no columns; give at least one.")
        seen: dict[int, Any] = {}
        codes = np.empty((len(columns[0]), len(columns)), dtype=np.int64)
        for j, (column, label) in enumerate(zip(columns, labels, strict=True)):
            codes[:, j] = _coded(column, label, seen)
        keys = np.sort(np.fromiter(seen, dtype=np.int64, count=len(seen)))
        values = np.fromiter((seen[key] for key in keys.tolist()), dtype=object, count=len(keys))
        return CategoryCollection(codes, keys, values, order, tuple(labels))

    def take(self, X: CategoryCollection, index: Index) -> CategoryCollection:
        """Return the rows at the given positions."""
        return X.take(index)

    def match(
        self, X: CategoryCollection, Y: CategoryCollection
    ) -> tuple[CategoryCollection, CategoryCollection]:
        """Return both, or refuse rows of another number of columns."""
        if X.width != Y.width:
            raise refusal(
                "Categories",
                f"X has {X.width} columns and Y has {Y.width}; both must have the "
                "same columns in the same order.",
            )
        return X, Y

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n rows of two columns: text with missing entries, and numbers."""
        out = np.empty((n, 2), dtype=object)
        out[:, 0] = rng.choice(np.array(["here", "there", "", None], dtype=object), n)
        out[:, 1] = rng.integers(0, 3, n)
        return out


def codes_of(values: list) -> np.ndarray:
    """Return the codes of a list of values, missing ones among them."""
    codes = [int(MISSING) if is_missing(v) else _signed(code_of(v)) for v in values]
    return np.array(codes, dtype=np.int64)


def _signed(code: int) -> int:
    return code - 2**64 if code >= 2**63 else code


def _columns(X: Any, name: str) -> tuple[list[np.ndarray], list[str], tuple | None]:
    """Return the columns, a name of each for messages, and the order of the only one."""
    if isinstance(X, dict) and not sp.issparse(X):
        X = Table(X)
    if isinstance(X, Table) or is_frame(X):
        table = Table.from_frame(X, name)
        order = table.orders.get(table.names[0]) if len(table.names) == 1 else None
        labels = [f"column {n!r} of {name}" for n in table.names]
        return list(table.columns), labels, order
    if is_torch(X) or sp.issparse(X):
        cure = f"{name}.cpu().numpy()" if is_torch(X) else f"{name}.toarray()"
        raise refusal("Categories", f"{name} is a {type(X).__name__}; pass {cure}.")
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise refusal(
            "Categories",
            f"{name} is {short(X)}, a {type(X).__name__}; give a list, an array or a "
            "column of values.",
        )
    rows = rows_of_objects(X)
    if rows is None and isinstance(X, list | tuple) and len(X) and _are_rows(X):
        rows = np.array(X)  # rows of numbers
    if rows is None and isinstance(X, np.ndarray) and X.ndim == 2:
        rows = X
    if rows is not None:
        labels = [f"column {j} of {name}" for j in range(rows.shape[1])]
        return [rows[:, j] for j in range(rows.shape[1])], labels, None
    if isinstance(X, np.ndarray) and X.ndim != 1:
        raise refusal(
            "Categories", f"{name} has shape {X.shape}; give one column, or rows of several."
        )
    table = Table({name: X})
    return list(table.columns), [name], table.orders.get(name)


def _are_rows(X: Any) -> bool:
    return all(isinstance(row, list | tuple) for row in X) and len({len(row) for row in X}) == 1


def _coded(column: np.ndarray, label: str, seen: dict[int, Any]) -> np.ndarray:
    """Return the codes of a column, and note in `seen` what they stand for."""
    if column.dtype.kind in "mM":
        raise refusal(
            "Categories",
            f"{label} holds dates or times; write them as text, for example with "
            ".astype(str), or as a number of days.",
        )
    if column.dtype.kind != "O":
        values, where = np.unique(column, return_inverse=True)
        distinct = values.tolist()
    else:
        listed = column.tolist()
        try:
            positions: dict[Any, int] = {v: i for i, v in enumerate(dict.fromkeys(listed))}
            where = np.fromiter(map(positions.__getitem__, listed), np.intp, len(listed))
        except TypeError:
            bad = next(v for v in listed if not is_hashable(v))
            raise refusal(
                "Categories",
                f"{label} holds {short(bad)}, a {type(bad).__name__}, which cannot be "
                "compared as a whole; give text, numbers or tuples of these.",
            ) from None
        distinct = list(positions)
    try:
        codes = codes_of(distinct)
    except InvalidInput as error:
        text = str(error).replace("the label", "the value").replace("labels are", "legal are")
        raise refusal("Categories", f"{label}: {text}") from None
    for code, value in zip(codes.tolist(), distinct, strict=True):
        seen.setdefault(code, None if is_missing(value) else value)
    return codes[where.reshape(-1)]
