"""Series: sequences of vectors of one width and any length, packed once to values and offsets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.domains.base import Domain, Index
from mercer.domains.packed import Packed, check_offsets, one_column, spans
from mercer.domains.tables import Table, is_frame, short
from mercer.domains.vectors import refuse_odd_arrays, to_host
from mercer.errors import ModelFileError, refusal, speaks


class SeriesCollection(Packed):
    """Series one after another: rows ``offsets[i]`` to ``offsets[i + 1]`` of values are series i.

    Parameters
    ----------
    values : ndarray of float64 of shape (N, d)
        The vectors of all series.
    offsets : ndarray of int64 of shape (n + 1,)
        Where each series begins, and the end of the last.

    Examples
    --------
    >>> from mercer.domains import Series
    >>> series = Series().check([[1.0, 2.0, 2.0], [0.5]])
    >>> series, series.lengths.tolist(), series.width, series[1]
    (SeriesCollection(2 points), [3, 1], 1, (0.5,))
    """

    _arrays = ("values", "offsets")

    def __init__(self, values: np.ndarray, offsets: np.ndarray):
        self.values = values
        self.offsets = offsets
        for array in (values, offsets):
            array.flags.writeable = False

    @classmethod
    def from_arrays(cls, values: Any, offsets: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        legal = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 2
        if not legal or not values.shape[1] or not np.isfinite(values).all():
            raise ModelFileError("series of it are not rows of finite numbers")
        return cls(values, check_offsets(offsets, len(values), "series"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The length of each series."""
        return np.diff(self.offsets)

    @property
    def width(self) -> int:
        """How many numbers a vector of the series has."""
        return int(self.values.shape[1])

    def take(self, index: Index) -> Self:
        """Return the series at the given positions."""
        flat, offsets = spans(self.offsets, index)
        return type(self)(self.values[flat], offsets)

    def joined(self, other: Self) -> Self:
        """Return these series followed by those of another collection."""
        mine, theirs = Series().match(self, other)
        offsets = np.concatenate([mine.offsets, mine.offsets[-1] + theirs.offsets[1:]])
        return type(self)(np.concatenate([mine.values, theirs.values]), offsets)

    def _point(self, i: int) -> tuple:
        rows = self.values[self.offsets[i] : self.offsets[i + 1]]
        return tuple(rows[:, 0].tolist() if self.width == 1 else map(tuple, rows.tolist()))


class Series(Domain):
    """Series of numbers or of vectors of one width, of any length; an empty one is legal.

    Given as a list of arrays of shape (T,) or (T, d), as an array of shape (n, T) or a table of
    numbers, whose rows are series of equal length, or as an array of shape (n, T, d).
    """

    name = "series"

    @speaks("Series")
    def check(self, X: Any, name: str = "X") -> SeriesCollection:
        """Return the series packed, or say which is none."""
        if isinstance(X, SeriesCollection):
            return X
        X = to_host(X)
        refuse_odd_arrays(X, name)
        rows = _as_rows(X, name)
        if rows is not None:
            n, length = rows.shape[:2]
            values = rows.reshape(n * length, -1 if rows.size else max(1, rows.shape[2]))
            offsets = np.arange(n + 1, dtype=np.int64) * length
            packed = SeriesCollection(np.array(values, order="C"), offsets)
        else:
            points = one_column(X, name, "series")
            if not isinstance(points, list | tuple):
                raise refusal(
                    "Series",
                    f"{name} is a {type(X).__name__}; give a list of series, each an array "
                    "of shape (T,) or (T, d).",
                )
            packed = _pack([_one(p, f"{name}[{i}]") for i, p in enumerate(points)], name)
        if not np.isfinite(packed.values).all():
            at = int(np.argmin(np.isfinite(packed.values).all(axis=1)))
            i = int(np.searchsorted(packed.offsets, at, side="right")) - 1
            raise refusal(
                "Series",
                f"{name}[{i}] holds NaN or infinity at step {at - packed.offsets[i]}; drop "
                "or interpolate such steps.",
            )
        return packed

    def size(self, X: SeriesCollection) -> int:
        """Return the number of series."""
        return len(X)

    def take(self, X: SeriesCollection, index: Index) -> SeriesCollection:
        """Return the series at the given positions."""
        return X.take(index)

    def match(
        self, X: SeriesCollection, Y: SeriesCollection
    ) -> tuple[SeriesCollection, SeriesCollection]:
        """Return both with one width; empty series fit any."""
        if X.width == Y.width:
            return X, Y
        if not len(X.values):
            return SeriesCollection(np.zeros((0, Y.width)), X.offsets), Y
        if not len(Y.values):
            return X, SeriesCollection(np.zeros((0, X.width)), Y.offsets)
        raise refusal(
            "Series",
            f"the vectors of X have {X.width} numbers and those of Y {Y.width}; both must "
            "have the same.",
        )

    def sample(self, rng: np.random.Generator, n: int) -> list[np.ndarray]:
        """Return n random walks in the plane, of up to eight steps, some of them empty."""
        return [rng.standard_normal((rng.integers(0, 9), 2)).cumsum(0) for _ in range(n)]


def _as_rows(X: Any, name: str) -> np.ndarray | None:
    """Return a table or an array of series of equal length in the form (n, T, d); else None."""
    if is_frame(X) or isinstance(X, Table):
        table = Table.from_frame(X, name)
        if any(column.dtype.kind not in "fiub" for column in table.columns):
            return None
        X = table.numeric(name)
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        return None
    if X.ndim not in (2, 3):
        raise refusal(
            "Series",
            f"{name} is an array of shape {X.shape}; give a list of series, an array of "
            f"shape (n, T) or (n, T, d). One series x is [x].",
        )
    return X.astype(np.float64)[:, :, None] if X.ndim == 2 else X.astype(np.float64)


def _one(x: Any, name: str) -> np.ndarray:
    """Return one series in the form (T, d); (0, 0) for an empty one of no width."""
    if x is None or (isinstance(x, float) and x != x) or type(x).__name__ == "NAType":
        raise refusal(
            "Series",
            f"{name} is missing ({x!r}); leave the row out, or let the kernel take missing "
            "values: kernel.with_missing().",
        )
    try:
        values = np.asarray(to_host(x))
        good = values.dtype.kind in "fiub" and values.ndim in (1, 2)
    except (TypeError, ValueError):  # rows of several lengths
        good = False
    if not good:
        raise refusal(
            "Series",
            f"{name} is {short(x)}, a {type(x).__name__}; every point must be a series: "
            "an array of numbers of shape (T,) or (T, d).",
        )
    if values.ndim == 1:
        return values.astype(np.float64)[:, None] if len(values) else np.zeros((0, 0))
    if values.shape[1] == 0 and len(values):
        raise refusal("Series", f"{name} has vectors of no numbers; give at least one column.")
    return values.astype(np.float64)


def _pack(series: list[np.ndarray], name: str) -> SeriesCollection:
    widths = np.array([x.shape[1] for x in series if len(x)], dtype=int)
    if len(widths) and (widths != widths[0]).any():
        filled = [i for i, x in enumerate(series) if len(x)]
        i = filled[int(np.argmax(widths != widths[0]))]
        raise refusal(
            "Series",
            f"the vectors of {name}[{filled[0]}] have {widths[0]} numbers and those of "
            f"{name}[{i}] {series[i].shape[1]}; all series must have the same columns.",
        )
    width = int(widths[0]) if len(widths) else max([1, *(x.shape[1] for x in series)])
    offsets = np.zeros(len(series) + 1, dtype=np.int64)
    np.cumsum([len(x) for x in series], out=offsets[1:])
    filled_rows = [x for x in series if len(x)]
    values = np.concatenate(filled_rows) if filled_rows else np.zeros((0, width))
    return SeriesCollection(values, offsets)
