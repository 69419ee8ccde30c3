"""`RowBlocks`: rows that come a block at a time, again at every pass, and need not fit memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["Block", "RowBlocks"]

BLOCK_ROWS = 2**16  # rows of a block cut from an array


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, their targets and weights.

    Parameters
    ----------
    start : int
        The number of the first row among all rows.
    X : collection
        The points.
    y : array of shape (rows,) or (rows, t), optional
        Targets.
    weight : array of shape (rows,), optional
        Weights.
    source : str, default=""
        Where they come from, in words, for messages.
    """

    start: int
    X: Any
    y: Any = None
    weight: Any = None
    source: str = ""


class RowBlocks:
    """Rows in blocks: one pass at a time, each from the first block to the last.

    Parameters
    ----------
    parts : sequence of callables
        Each returns ``(X, y, weight)`` of one block; called anew at every pass, by any process.
    rows : sequence of int
        The number of rows of each block.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((5, 2)), np.arange(5.0), block_rows=2)
    >>> [(block.start, len(block.X)) for block in blocks]
    [(0, 2), (2, 2), (4, 1)]
    """

    def __init__(self, parts: Sequence[Callable[[], tuple[Any, Any, Any]]], rows: Sequence[int]):
        self._parts, self._rows = list(parts), [int(r) for r in rows]
        self._map: Callable[[Any], Any] | None = None

    @classmethod
    def from_arrays(
        cls, X: Any, y: Any = None, sample_weight: Any = None, block_rows: int | None = None
    ) -> RowBlocks:
        """Return the rows of arrays or memory maps in blocks.

        Parameters
        ----------
        X : array of shape (n, d)
            The points.
        y : array of shape (n,) or (n, t), optional
            Targets.
        sample_weight : array of shape (n,), optional
            Weights.
        block_rows : int, optional
            Rows of a block.
        """
        n, step = len(X), block_rows or BLOCK_ROWS
        cuts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
        parts = [_Slice(X, y, sample_weight, cut) for cut in cuts]
        return cls(parts, [cut.stop - cut.start for cut in cuts])

    @property
    def n_rows(self) -> int:
        """Number of rows of all blocks."""
        return sum(self._rows)

    def with_targets(self, change: Callable[[Any], Any]) -> RowBlocks:
        """Return the same rows with targets changed block by block, such as labels to codes."""
        other = type(self)(self._parts, self._rows)
        other._map = change
        return other

    def __iter__(self) -> Iterator[Block]:
        start = 0
        for part, rows in zip(self._parts, self._rows, strict=True):
            X, y, w = part()
            if len(X) != rows:
                raise InvalidInput(
                    f"RowBlocks: the block at row {start} had {rows} rows and now has {len(X)}."
                )
            block = Block(start, X, y, w)
            yield block if self._map is None else replace(block, y=self._map(y))
            start += rows

    def take(self, index: Any) -> np.ndarray:
        """Return the points at the given positions, in one pass."""
        index = np.asarray(index)
        found: list[Any] = [None] * len(index)
        for block in self:
            inside = (index >= block.start) & (index < block.start + len(block.X))
            for i in np.flatnonzero(inside):
                found[i] = np.asarray(block.X[index[i] - block.start])
        return np.stack(found)


@dataclass(frozen=True, eq=False)
class _Slice:
    """A block of arrays."""

    X: Any
    y: Any
    weight: Any
    rows: slice

    def __call__(self) -> tuple[Any, Any, Any]:
        cut = self.rows
        y = None if self.y is None else self.y[cut]
        return self.X[cut], y, None if self.weight is None else self.weight[cut]
