"""Blocks that a function of the user makes, anew at every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.domains.block_parts import Source, make_block
from mercer.domains.block_values import Block, Place, as_points
from mercer.errors import InvalidInput

__all__ = ["StreamSource"]


class StreamSource(Source):
    """Blocks of a generator function.

    Parameters
    ----------
    f : callable
        ``f()`` returns a fresh iterator over X, (X, y) or (X, y, weight).
    n_rows : int, optional
        How many rows a pass gives.
    """

    def __init__(self, f: Callable[[], Any], n_rows: int | None):
        if not callable(f):
            raise InvalidInput(
                f"RowBlocks: from_generator got a {type(f).__name__}; give the function itself, "
                "not what it returns: it is called again at every pass."
            )
        if n_rows is not None and (
            isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 1
        ):
            raise InvalidInput(f"RowBlocks: n_rows={n_rows!r}; give a whole number ≥ 1, or None.")
        self.name = f"{getattr(f, '__name__', type(f).__name__)}()"
        super().__init__(f"from {self.name}", None if n_rows is None else int(n_rows))
        self.f = f

    def read(self, first: int) -> Iterator[Block]:
        """Yield the blocks in order, counted."""
        start, number, kept = 0, 0, None
        for item in self._iterator():
            block, columns = self._block(item, number, start)
            if not len(block):
                continue
            kept = columns if kept is None else kept
            if columns != kept:
                raise InvalidInput(
                    f"RowBlocks: {block.source} has {_in_words(*columns)}, block 0 has "
                    f"{_in_words(*kept)}; all blocks must have the same columns and targets."
                )
            if self.rows is not None and start + len(block) > self.rows:
                raise self._other_rows(f"more than {self.rows}")
            if number >= first:
                yield block
            start, number = start + len(block), number + 1
        if not start:
            again = (
                ": the function must return a fresh iterator at every call, not one that is used up"
            )
            raise InvalidInput(
                f"RowBlocks {self.what}: no rows{again if self.seen else '; give at least one'}."
            )
        if self.rows is not None and start != self.rows:
            raise self._other_rows(str(start))
        self.rows = start

    def _iterator(self) -> Iterator[Any]:
        made = self.f()
        if isinstance(made, np.ndarray) or not hasattr(made, "__iter__"):
            raise InvalidInput(
                f"RowBlocks {self.what}: the function returned a {type(made).__name__}; let it "
                "yield blocks: X, (X, y) or (X, y, weight)."
            )
        return iter(made)

    def _block(self, item: Any, number: int, start: int) -> tuple[Block, tuple]:
        """Return a block, and the width and names of its columns."""
        values = item if isinstance(item, tuple) else (item,)
        if not 1 <= len(values) <= 3:
            raise InvalidInput(
                f"RowBlocks {self.what}: block {number} is a tuple of {len(values)}; give X, "
                "(X, y) or (X, y, weight)."
            )
        X = as_points(values[0])
        labels = X.names if getattr(X, "named", False) else None
        place = Place(f"block {number} of {self.name}", 0, labels)
        block = make_block(start, (X, *values[1:], None, None)[:3], place)
        carried = (None if block.y is None else block.y.shape[1:], block.weight is not None)
        return block, (tuple(getattr(X, "shape", ())[1:]), labels, carried)

    def _other_rows(self, came: str) -> InvalidInput:
        return InvalidInput(
            f"RowBlocks {self.what}: {came} rows in this pass, and {self.rows} were given or "
            "counted before; every pass must give the same rows."
        )


def _in_words(
    shape: tuple, labels: tuple[str, ...] | None, carried: tuple[tuple | None, bool]
) -> str:
    columns = f"rows of shape {shape}" if labels is None else f"columns {list(labels)}"
    targets = "no target" if carried[0] is None else "a target"
    targets += f" of shape {carried[0]}" if carried[0] else ""
    return f"{columns}, {targets}, {'a' if carried[1] else 'no'} weight"
