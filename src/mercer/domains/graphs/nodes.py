"""Nodes of one graph: points that are known by their names."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from mercer.domains.base import Domain, Index
from mercer.domains.labels import is_hashable, is_missing
from mercer.domains.packed import Packed, as_positions, one_column
from mercer.domains.tables import short
from mercer.domains.vectors import to_host
from mercer.errors import InvalidInput, ModelFileError, refusal

BOOLS = (bool, np.bool_)


class NodeCollection(Packed):
    """Nodes in a row, a node as often as one likes.

    Parameters
    ----------
    ids : ndarray of int64, or tuple
        Numbers of nodes where the graph numbers them from 0, else their names.

    Examples
    --------
    >>> from mercer.domains import Nodes
    >>> points = Nodes(["Ann", "Bob"]).check(["Bob", "Ann", "Bob"])
    >>> points, points[0]
    (NodeCollection(3 points), 'Bob')
    """

    _arrays = ("ids",)

    def __init__(self, ids: np.ndarray | tuple):
        self.ids = ids
        if isinstance(ids, np.ndarray):
            ids.flags.writeable = False

    @classmethod
    def from_arrays(cls, ids: Any) -> Self:
        """Return the collection that a model file describes, or refuse what is malformed."""
        numbers = isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1
        if not numbers and not (isinstance(ids, tuple) and all(map(is_hashable, ids))):
            raise ModelFileError("nodes of it have neither numbers nor names")
        return cls(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: Index) -> Self:
        """Return the nodes at the given positions."""
        index = as_positions(index, len(self))
        if isinstance(self.ids, np.ndarray):
            return type(self)(self.ids[index])
        return type(self)(tuple(self.ids[i] for i in index.tolist()))

    def joined(self, other: Self) -> Self:
        """Return these nodes followed by those of another collection."""
        if isinstance(self.ids, np.ndarray) and isinstance(other.ids, np.ndarray):
            return type(self)(np.concatenate([self.ids, other.ids]))
        return type(self)((*self, *other))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and list(self) == list(other)  # type: ignore[call-overload]

    __hash__ = None  # type: ignore[assignment]

    def _point(self, i: int) -> Any:
        return self.ids[i].item() if isinstance(self.ids, np.ndarray) else self.ids[i]


class Nodes(Domain):
    """The nodes of a graph: a list, array or column of node ids, as the graph names them.

    Two graphs with the same node ids have the same points, so kernels on both add and multiply.

    Parameters
    ----------
    nodes : int or sequence
        How many nodes, which are then 0, 1, …; or their names, different from each other.
    """

    name = "nodes"

    def __init__(self, nodes: Any):
        self.nodes = int(nodes) if isinstance(nodes, int | np.integer) else tuple(nodes)

    def __len__(self) -> int:
        return self.nodes if isinstance(self.nodes, int) else len(self.nodes)

    @cached_property
    def _place(self) -> dict[Any, int]:
        names = () if isinstance(self.nodes, int) else self.nodes
        return {name: i for i, name in enumerate(names)}

    @cached_property
    def _ids(self) -> Any:
        """The nodes whatever their order: n for the numbers 0 to n − 1, however they came."""
        if isinstance(self.nodes, int):
            return self.nodes
        names = frozenset(self.nodes)
        flags = frozenset(name for name in names if isinstance(name, BOOLS))
        numbered = not flags and names == frozenset(range(len(names)))
        return len(names) if numbered else (names, flags)

    def check(self, X: Any, name: str = "X") -> NodeCollection:
        """Return the nodes, or say which entry is none of the graph."""
        if isinstance(X, NodeCollection):
            self.positions(X, name)
            return X
        points = one_column(to_host(X), name, "nodes")
        if not isinstance(points, list | tuple | range):
            raise refusal(
                "Nodes",
                f"{name} is {short(X)}, a {type(X).__name__}; give a list, an array or a "
                "column of nodes.",
            )
        if isinstance(self.nodes, int):
            return NodeCollection(self._numbers(points, name))
        places = self._places(points, name)
        return NodeCollection(tuple(self.nodes[place] for place in places))

    def _places(self, points: Any, name: str) -> list[int]:
        """Return where the names of nodes stand in the graph."""
        names: Any = self.nodes
        known, places = self._place, []
        for i, point in enumerate(points):
            try:
                place = known[point]
            except (KeyError, TypeError):
                raise self._unknown(point, i, name) from None
            if isinstance(point, BOOLS) != isinstance(names[place], BOOLS):  # True is 1 to a dict
                raise self._unknown(point, i, name)
            places.append(place)
        return places

    def _numbers(self, points: Any, name: str) -> np.ndarray:
        """Return whole numbers from 0 to n − 1."""
        for i, point in enumerate(points):
            whole = isinstance(point, int | np.integer) and not isinstance(point, bool)
            whole = whole or (isinstance(point, float | np.floating) and point == point // 1)
            if not whole or not 0 <= point < len(self):
                raise self._unknown(point, i, name)
        return np.array(points, dtype=np.int64)

    def positions(self, X: NodeCollection, name: str = "X") -> np.ndarray:
        """Return the places of checked nodes in the graph, or refuse nodes of another graph."""
        if not isinstance(self.nodes, int):
            return np.array(self._places(X, name), dtype=np.int64)
        if not isinstance(X.ids, np.ndarray):
            return self._numbers(X.ids, name)
        if len(X) and not 0 <= int(X.ids.min()) <= int(X.ids.max()) < len(self):
            i = int(np.argmax((X.ids < 0) | (X.ids >= len(self))))
            raise self._unknown(X[i], i, name)
        return X.ids

    def _unknown(self, point: Any, i: int, name: str) -> InvalidInput:
        if is_missing(point):
            return refusal(
                "Nodes",
                f"{name}[{i}] is missing ({point!r}); leave the row out, or let the kernel "
                "take missing values: kernel.with_missing().",
            )
        if isinstance(self.nodes, int):
            legal = f"nodes are the numbers 0 to {len(self) - 1}" if len(self) else "it has none"
        else:
            some = ", ".join(short(n) for n in self.nodes[:4])
            legal = f"nodes are {some}{', …' if len(self) > 4 else ''}"
        return refusal(
            "Nodes",
            f"{name}[{i}] = {short(point)} is no node of the graph; {legal}. Put a new "
            "node into the graph first, and fit again.",
        )

    def size(self, X: NodeCollection) -> int:
        """Return the number of points."""
        return len(X)

    def take(self, X: NodeCollection, index: Index) -> NodeCollection:
        """Return the nodes at the given positions."""
        return X.take(index)

    def sample(self, rng: np.random.Generator, n: int) -> NodeCollection:
        """Return n random nodes."""
        index = rng.integers(0, max(1, len(self)), n if len(self) else 0)
        if isinstance(self.nodes, int):
            return NodeCollection(index)
        return NodeCollection(tuple(self.nodes[i] for i in index.tolist()))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._ids == other._ids  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._ids)

    def __repr__(self) -> str:
        return (
            f"Nodes({self.nodes})" if isinstance(self.nodes, int) else f"Nodes({len(self)} names)"
        )
