"""Bags of points: collections of several points each, packed to one collection and offsets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import Domain, Index
from mercer.domains.labels import is_missing
from mercer.domains.packed import Packed, check_offsets, one_column, spans
from mercer.domains.points import concatenate, some_points
from mercer.domains.tables import Table, short
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput, ModelFileError, refusal


class BagCollection(Packed):
    """Bags one after another: points ``offsets[i]`` to ``offsets[i + 1]`` are bag i.

    Parameters
    ----------
    points : canonical collection
        The points of all bags: an array, a CSR matrix, a `Table`, a `Packed` collection, a tuple.
    offsets : ndarray of int64 of shape (n + 1,)
        Where each bag begins, and the end of the last.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.domains import Bags, Vectors
    >>> bags = Bags(Vectors()).check([np.zeros((2, 1)), np.ones((1, 1))])
    >>> bags, bags.sizes.tolist(), bags[0]
    (BagCollection(2 points), [2, 1], ((0.0,), (0.0,)))
    """

    _arrays = ("points", "offsets")

    def __init__(self, points: Any, offsets: np.ndarray):
        self.points = points
        self.offsets = offsets
        offsets.flags.writeable = False

    @classmethod
    def from_arrays(cls, points: Any, offsets: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        array = isinstance(points, np.ndarray) and points.ndim >= 1
        if not array and not sp.issparse(points) and not isinstance(points, tuple | Table | Packed):
            raise ModelFileError("bags of it hold no points")
        return cls(points, check_offsets(offsets, _length(points), "bags"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """How many points each bag holds."""
        return np.diff(self.offsets)

    def take(self, index: Index) -> Self:
        """Return the bags at the given positions."""
        flat, offsets = spans(self.offsets, index)
        return type(self)(some_points(self.points, flat), offsets)

    def joined(self, other: Self) -> Self:
        """Return these bags followed by those of another collection."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        return type(self)(concatenate(Domain(), self.points, other.points), offsets)

    def _point(self, i: int) -> tuple:
        points = some_points(self.points, slice(int(self.offsets[i]), int(self.offsets[i + 1])))
        if isinstance(points, Table):
            return tuple(zip(*(column.tolist() for column in points.columns), strict=True))
        points = points.toarray() if sp.issparse(points) else points
        if isinstance(points, np.ndarray):
            return tuple(tuple(row) if isinstance(row, list) else row for row in points.tolist())
        return tuple(points)


class Bags(Domain):
    """Bags of points of one domain: a list of arrays, of lists of strings, of lists of graphs.

    The order inside a bag does not matter to kernels. A bag may be empty.

    Parameters
    ----------
    inner : Domain
        What a point of a bag is.
    """

    name = "bags"

    def __init__(self, inner: Domain):
        self.inner = inner

    def check(self, X: Any, name: str = "X") -> BagCollection:
        """Return the bags packed, or say which is none."""
        if isinstance(X, BagCollection):
            points = self.inner.check(X.points, name)
            return X if points is X.points else BagCollection(points, X.offsets)
        bags = self._listed(X, name)
        sizes = [self._size(bag, f"{name}[{i}]") for i, bag in enumerate(bags)]
        offsets = np.zeros(len(bags) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        filled = [bag for bag, size in zip(bags, sizes, strict=True) if size]
        flat = _flat(filled or bags)
        try:
            if flat is not None:
                points = self.inner.check(flat, f"the points of {name}")
                if self.inner.size(points) == offsets[-1]:
                    return BagCollection(points, offsets)
        except InvalidInput:
            if not filled:
                return BagCollection(self._none(), offsets)
            self._joined(self._each(bags, sizes, name))  # names the bag
            raise
        return BagCollection(self._joined(self._each(bags, sizes, name)), offsets)

    def _none(self) -> Any:
        """Return no points, where empty bags do not say what their points are: `match` may."""
        points = self.inner.check(self.inner.sample(np.random.default_rng(0), 1))
        return self.inner.take(points, slice(0, 0))

    def _listed(self, X: Any, name: str) -> list:
        several = isinstance(X, np.ndarray) and X.ndim > 1 and X.shape[1:] != (1,)
        bags = list(X) if several else one_column(X, name, "bags")
        if not isinstance(bags, list | tuple):
            raise refusal(
                "Bags",
                f"{name} is a {type(X).__name__}; give a list of bags, each of them a "
                f"collection of {self.inner.name}.",
            )
        # The order inside a bag does not matter, but a set has another one in every process.
        return [sorted(b, key=repr) if isinstance(b, set | frozenset) else b for b in bags]

    def _size(self, bag: Any, name: str) -> int:
        if is_torch(bag):
            raise refusal(
                "Bags",
                f"{name} is a torch tensor; bags are computed in main memory: pass "
                "bag.detach().cpu().numpy().",
            )
        if isinstance(bag, dict):
            return len(Table(bag))
        if is_missing(bag):
            raise refusal(
                "Bags",
                f"{name} is {bag!r}, a missing bag; leave the row out, or let the kernel "
                "take missing values: kernel.with_missing(). A bag of no points is [].",
            )
        held = hasattr(bag, "shape") or hasattr(bag, "__len__")
        if not held or isinstance(bag, str | bytes) or getattr(bag, "shape", None) == ():
            raise refusal(
                "Bags",
                f"{name} is {short(bag)}, a {type(bag).__name__}; a bag is a collection of "
                f"{self.inner.name}: put what belongs together into one list or array.",
            )
        return _length(bag)

    def _each(self, bags: list, sizes: list[int], name: str) -> dict[str, Any]:
        """Return the canonical points of each bag that has some, by its name in messages."""
        checked = {}
        for i, (bag, size) in enumerate(zip(bags, sizes, strict=True)):
            if size or not any(sizes):
                points = checked[f"{name}[{i}]"] = self.inner.check(bag, f"{name}[{i}]")
                if self.inner.size(points) != size:
                    raise refusal(
                        "Bags",
                        f"{name}[{i}] has {size} entries and is one collection of "
                        f"{self.inner.size(points)} {self.inner.name}; give one entry a point.",
                    )
        return checked

    def _joined(self, named: dict[str, Any]) -> Any:
        """Return all points in one collection, halves joined first, so that few are moved often."""
        parts = list(named.values())
        try:
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=False)
                rest = parts[len(parts) // 2 * 2 :]
                parts = [concatenate(self.inner, a, b) for a, b in pairs] + rest
        except InvalidInput:
            self._refuse_others(named)
            raise
        return parts[0]

    def _refuse_others(self, named: dict[str, Any]) -> None:
        """Say which bag has other points than the first."""
        (first, points), *others = named.items()
        for name, more in others:
            try:
                concatenate(self.inner, points, more)
            except InvalidInput as error:
                both = [_columns(points), _columns(more)]
                if None in both or both[0] == both[1]:
                    what = f"do not go together ({error})"
                else:
                    what = f"have the columns {both[0]} and {both[1]}"
                raise refusal(
                    "Bags",
                    f"the points of {first} and those of {name} {what}; all bags must hold "
                    "points of one kind, with the same columns.",
                ) from error

    def size(self, X: BagCollection) -> int:
        """Return the number of bags."""
        return len(X)

    def take(self, X: BagCollection, index: Index) -> BagCollection:
        """Return the bags at the given positions."""
        return X.take(index)

    def keep(self, X: BagCollection) -> BagCollection:
        """Return bags that stay when the user's arrays change."""
        return BagCollection(self.inner.keep(X.points), X.offsets)

    def match(self, X: BagCollection, Y: BagCollection) -> tuple[BagCollection, BagCollection]:
        """Bring the points of both to one form; empty bags alone fit any points."""
        if not Y.offsets[-1]:
            A, B = X.points, self.inner.take(X.points, slice(0, 0))
        elif not X.offsets[-1]:
            A, B = self.inner.take(Y.points, slice(0, 0)), Y.points
        else:
            A, B = self.inner.match(X.points, Y.points)
        pairs = ((X, A), (Y, B))
        return tuple(Z if P is Z.points else BagCollection(P, Z.offsets) for Z, P in pairs)  # type: ignore[return-value]

    def sample(self, rng: np.random.Generator, n: int) -> BagCollection:
        """Return n bags of up to four random points, some of them empty."""
        offsets = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(rng.integers(0, 5, n), out=offsets[1:])
        points = self.inner.check(self.inner.sample(rng, max(1, int(offsets[-1]))))
        return BagCollection(self.inner.take(points, slice(0, int(offsets[-1]))), offsets)


def _flat(bags: list) -> Any:
    """Return the points of all bags in the form of one bag, where that needs no look at them."""
    if all(isinstance(bag, list | tuple) for bag in bags):
        return [point for bag in bags for point in bag]
    arrays = bags and all(isinstance(bag, np.ndarray) for bag in bags)
    if arrays and len({(bag.dtype.kind, bag.shape[1:]) for bag in bags}) == 1:
        return np.concatenate(bags)
    return None


def _columns(points: Any) -> Any:
    """Return the names or the number of the columns of points; None where they have none."""
    if isinstance(points, Table):
        return list(points.names) if points.named else len(points.names)
    return points.shape[1] if len(getattr(points, "shape", ())) == 2 else None


def _length(points: Any) -> int:
    return int(points.shape[0]) if hasattr(points, "shape") else len(points)
