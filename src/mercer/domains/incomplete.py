"""Collections of points some of which, or some entries of which, are missing."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index, check_structure
from mercer.domains.labels import is_missing
from mercer.domains.packed import Packed, as_positions, one_column
from mercer.domains.points import Objects, concatenate, some_points
from mercer.domains.tables import Table
from mercer.domains.vectors import Numbers, Vectors, check_rows, is_torch, odd_point
from mercer.errors import ModelFileError, refusal


class IncompleteVectors(Domain):
    """Rows of numbers, NaN where one is missing; the canonical form is a dense array.

    Parameters
    ----------
    inner : Domain
        What the rows are once they are complete.
    """

    name = "vectors with missing entries"

    def __init__(self, inner: Domain):
        self.inner = inner

    def check(self, X: Any, name: str = "X") -> Any:
        """Return rows as a float array with NaN where an entry is missing."""
        if is_torch(X):
            if X.requires_grad:
                raise refusal(
                    "Vectors",
                    f"{name} is a tensor that asks for a gradient, which kernels that "
                    f"take missing values do not pass on; give {name}.detach(), or fill in what "
                    "is missing and use the kernel without with_missing().",
                )
            X = X.detach().cpu().numpy()
        if sp.issparse(X):
            X = check_structure(X, "Vectors", name).toarray()
        elif isinstance(X, dict):
            X = Table(X)
        if isinstance(self.inner, Numbers) and not hasattr(X, "columns") and _is_flat(X):
            X = np.array([np.nan if is_missing(v) else v for v in X], dtype=object).reshape(-1, 1)
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(float), np.nan)
        return check_rows(_with_nan(X), name, missing=True)

    def size(self, X: Any) -> int:
        """Return the number of rows."""
        return int(X.shape[0])

    def keep(self, X: Any) -> Any:
        """Return a copy."""
        return X.copy()

    def match(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Bring both to one width and one dtype."""
        return Vectors().match(X, Y)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return rows as those of the inner domain, a fifth of their entries missing."""
        X = np.array(self.inner.check(self.inner.sample(rng, n)))
        X[rng.random(X.shape) < 0.2] = np.nan
        return X


class IncompleteCollection(Packed):
    """The points that are there, and which are missing.

    Parameters
    ----------
    points : canonical collection
        The points that are there, in order.
    missing : ndarray of bool of shape (n,)
        Which are not.
    """

    _arrays = ("points", "missing")

    def __init__(self, points: Any, missing: np.ndarray):
        self.points = points
        self.missing = missing
        missing.flags.writeable = False

    @classmethod
    def from_arrays(cls, points: Any, missing: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        if not isinstance(missing, np.ndarray) or missing.dtype != bool or missing.ndim != 1:
            raise ModelFileError("points of it do not say which are missing")
        if not hasattr(points, "__len__") or len(points) != np.count_nonzero(~missing):
            raise ModelFileError("points of it are not as many as are not missing")
        return cls(points, missing)

    def __len__(self) -> int:
        return len(self.missing)

    @cached_property
    def places(self) -> np.ndarray:
        """How many points are there before each position, and in all."""
        return np.concatenate([[0], np.cumsum(~self.missing)])

    def take(self, index: Index) -> Self:
        """Return the points at the given positions."""
        index = as_positions(index, len(self))
        missing = self.missing[index]
        return type(self)(some_points(self.points, self.places[index[~missing]]), missing)

    def joined(self, other: Self) -> Self:
        """Return these points followed by those of another collection."""
        points = concatenate(Domain(), self.points, other.points)
        return type(self)(points, np.concatenate([self.missing, other.missing]))

    def complete(self, name: str) -> Any:
        """Return the points when none is missing, or say which is."""
        if self.missing.any():
            raise refusal(
                "Points",
                f"{name}[{int(np.argmax(self.missing))}] is missing; fill it in, leave the "
                "row out, or let the kernel take missing values: kernel.with_missing().",
            )
        return self.points

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._arrays}

    def _point(self, i: int) -> Any:
        if self.missing[i]:
            return None
        point = self.points[int(self.places[i])]
        return tuple(point.tolist()) if isinstance(point, np.ndarray) else point


class IncompletePoints(Domain):
    """Points of any domain, some of them missing: None, NaN, or NA of pandas.

    Parameters
    ----------
    inner : Domain
        What a point is that is there.
    """

    def __init__(self, inner: Domain):
        self.inner = inner

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the points are, for messages."""
        return f"{self.inner.name}, some of them missing"

    def check(self, X: Any, name: str = "X") -> IncompleteCollection:
        """Return the points that are there and which are not, or say what is none."""
        if isinstance(X, IncompleteCollection):
            points = self.inner.check(X.points, name)
            return X if points is X.points else IncompleteCollection(points, X.missing)
        entries = None
        if not isinstance(X, Packed):
            X = self.inner.check(X, name) if isinstance(self.inner, Objects) else X
            several = isinstance(self.inner, Objects) and len(getattr(X, "shape", (0,))) > 1
            entries = X if several else one_column(X, name, self.inner.name)
        if not isinstance(entries, list | tuple):
            points = self.inner.check(X, name)
            return IncompleteCollection(points, np.zeros(self.inner.size(points), dtype=bool))
        missing = np.fromiter(map(is_missing, entries), dtype=bool, count=len(entries))
        if not missing.any():
            return IncompleteCollection(self.inner.check(list(entries), name), missing)
        there = np.flatnonzero(~missing)
        # Another point stands in for a missing one, so that messages say the right position.
        first = entries[there[0]] if len(there) else None
        filled = [first if gone else v for v, gone in zip(entries, missing, strict=True)]
        points = self.inner.check(filled if len(there) else [], name)
        return IncompleteCollection(self.inner.take(points, there), missing)

    def take(self, X: IncompleteCollection, index: Index) -> IncompleteCollection:
        """Return the points at the given positions."""
        return X.take(index)

    def keep(self, X: IncompleteCollection) -> IncompleteCollection:
        """Return points that stay when those of the user change."""
        return IncompleteCollection(self.inner.keep(X.points), X.missing)

    def match(
        self, X: IncompleteCollection, Y: IncompleteCollection
    ) -> tuple[IncompleteCollection, IncompleteCollection]:
        """Bring the points of both to one form."""
        A, B = self.inner.match(X.points, Y.points)
        return IncompleteCollection(A, X.missing), IncompleteCollection(B, Y.missing)

    def sample(self, rng: np.random.Generator, n: int) -> list:
        """Return points of the inner domain, about a fifth of them missing."""
        points = list(self.inner.check(self.inner.sample(rng, n)))
        return [None if u < 0.2 else p for p, u in zip(points, rng.random(n), strict=True)]


def _is_flat(X: Any) -> bool:
    try:
        return np.ndim(X) == 1
    except ValueError:  # rows of different lengths, refused later
        return False


def _with_nan(X: Any) -> Any:
    """Return an array of objects with NaN for what is missing, other input as it is."""
    rows = isinstance(X, list | tuple) and odd_point(X) is None
    if rows and any(isinstance(row, list | tuple) for row in X):
        X = np.array(X, dtype=object)
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2:
        flat = [np.nan if is_missing(v) else v for v in X.ravel().tolist()]
        return np.fromiter(flat, dtype=object, count=len(flat)).reshape(X.shape)
    return X
