"""`Packed`: a collection of points that are not rows of numbers, held in a few flat arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Index
from mercer.domains.tables import Table, is_frame
from mercer.errors import InvalidInput, ModelFileError


class Packed:
    """Points of varying size, packed one after another: strings, graphs, bags, series.

    A subclass says which of its attributes are the arrays (``_arrays``), how to take points from
    them (`take`), how to put two collections together (`joined`), and what one point is
    (``_point``). It is immutable: nothing writes to its arrays after they were made. Two
    collections are equal when they hold equal points in the same order.
    """

    #: Names of the attributes that make up the collection: constructor arguments of the same name.
    _arrays: tuple[str, ...] = ()

    def __len__(self) -> int:
        raise InvalidInput(f"{type(self).__name__}: a packed collection must define __len__.")

    @property
    def shape(self) -> tuple[int]:
        """The number of points, as an array of objects would say it."""
        return (len(self),)

    def take(self, index: Index) -> Self:
        """Return the points at the given positions (a slice, positions, or a mask)."""
        raise InvalidInput(f"{type(self).__name__}: a packed collection must define take.")

    def joined(self, other: Self) -> Self:
        """Return these points followed by those of another collection."""
        raise InvalidInput(f"{type(self).__name__}: a packed collection must define joined.")

    def _point(self, i: int) -> Any:
        """Return point i as a user would write it; hashable, equal for equal points."""
        raise InvalidInput(f"{type(self).__name__}: a packed collection must define _point.")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            key = self._only(key)
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            n = len(self)
            if not -n <= key < n:
                raise IndexError(f"{type(self).__name__}: no point {key}; there are {n}.")
            return self._point(int(key) % n)
        return self.take(key)

    def _only(self, key: tuple) -> Any:
        """Return i of X[i, ...], as scikit-learn indexes what has a shape."""
        if len(key) == 2 and key[1] is Ellipsis:
            return key[0]
        raise IndexError(
            f"{type(self).__name__}: X[{', '.join(map(repr, key))}] asks for several dimensions, "
            "and a collection has one; use X[i], or X[[i, j]] for several points."
        )

    def __iter__(self) -> Iterator[Any]:
        return (self._point(i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        pairs = [(getattr(self, n), getattr(other, n)) for n in self._arrays]
        return all(_same(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} points)"


def as_positions(index: Index, n: int) -> np.ndarray:
    """Return a slice, positions or a mask as positions ≥ 0 of n points."""
    if isinstance(index, slice):
        return np.arange(n)[index]
    index = np.asarray(index)
    if index.size == 0:
        return np.zeros(0, dtype=np.int64)
    return np.arange(n)[index.reshape(-1)]


def spans(offsets: np.ndarray, index: Index) -> tuple[Any, np.ndarray]:
    """Return the flat positions of chosen runs, one run after another, and their own offsets.

    Run i of a packed array is ``flat[offsets[i] : offsets[i + 1]]``. The positions of neighbouring
    runs are a slice, so that nothing is copied.
    """
    if isinstance(index, slice) and (index.step or 1) == 1:
        start, stop, _ = index.indices(len(offsets) - 1)
        own = offsets[start : max(start, stop) + 1]
        return slice(int(own[0]), int(own[-1])), own - own[0]
    index = as_positions(index, len(offsets) - 1)
    lengths = np.diff(offsets)[index]
    ends = np.zeros(len(index) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    shift = offsets[:-1][index] - ends[:-1]
    return np.arange(ends[-1]) + np.repeat(shift, lengths), ends


def check_offsets(offsets: Any, size: int, what: str) -> np.ndarray:
    """Return offsets read from a model file, or refuse them."""
    legal = isinstance(offsets, np.ndarray) and offsets.dtype == np.int64 and offsets.ndim == 1
    if not legal or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != size:
        raise ModelFileError(f"{what} of it do not fit their offsets")
    # Compared, not subtracted: a difference of hostile integers can wrap around.
    if (offsets[1:] < offsets[:-1]).any():
        raise ModelFileError(f"{what} of it have offsets that fall")
    return offsets


def one_column(X: Any, name: str, what: str) -> Any:
    """Return the points of a collection given as one column: of a frame, a table or an array.

    What is no table is returned as it is. A list or an object array becomes a list, so that points
    which are sequences themselves stay whole.
    """
    if is_frame(X):
        X = Table.from_frame(X, name)
    if isinstance(X, Table):
        if len(X.names) != 1:
            raise InvalidInput(
                f"{what.capitalize()}: {name} has the columns {_shown(X.names)}; choose the one "
                f"that holds {what} with kernel.on(column)."
            )
        return X.columns[0].tolist()
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1:
            raise InvalidInput(
                f"{what.capitalize()}: {name} is an array of shape {X.shape}; give one "
                f"dimension, an entry for each point, or choose a column with kernel.on(column)."
            )
        return X.tolist()
    for method in ("to_pylist", "to_list", "tolist"):  # columns of arrow, polars, pandas
        if hasattr(X, method) and hasattr(X, "__len__") and not isinstance(X, Packed):
            return list(getattr(X, method)())
    return X


def _shown(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal: arrays, matrices, collections, and tuples of such."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and bool(np.array_equal(a, b))
    if type(a) is not type(b):
        return False
    if sp.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
