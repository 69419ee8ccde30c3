"""Some of the rows or columns of row blocks: by position, at random, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.domains.block_parts import Source, View, make_block, take_points
from mercer.domains.block_values import Place, column_names
from mercer.errors import InvalidInput

__all__ = ["ChoiceMixin"]


class ChoiceMixin(ABC):
    """Takes rows and columns out of row blocks."""

    _source: Source
    _view: View
    _facts: tuple[int | None, tuple[str, ...] | None, bool, bool] | None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows of all blocks."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of the points."""

    def take(self, index: Any, *, with_targets: bool = False) -> Any:
        """Return the points at the given positions, in their order; blocks without any are skipped.

        Parameters
        ----------
        index : array of int
            Positions among all rows, from 0.
        with_targets : bool, default=False
            Whether to return ``(X, y, weight)``, with None for what the blocks do not carry.
        """
        index, n = np.asarray(index), self.n_rows
        if index.ndim != 1 or not len(index) or index.dtype.kind not in "iu":
            raise InvalidInput(
                "RowBlocks: take wants a 1-D array of at least one position, got "
                f"{index.dtype} of shape {index.shape}."
            )
        if index.min() < 0 or index.max() >= n:
            bad = int(index[(index < 0) | (index >= n)][0])
            raise InvalidInput(f"RowBlocks: take of position {bad}; positions are 0 to {n - 1}.")
        places, back = np.unique(index, return_inverse=True)
        source = self._source
        values = source.take_rows(places) if with_targets else (source.take(places), None, None)
        view = self._view.at(places) if with_targets else View(columns=self._view.columns)
        block = view(make_block(0, values, Place("the rows taken")))
        found = tuple(
            None if A is None else A if np.array_equal(places, index) else take_points(A, back)
            for A in (block.X, block.y, block.weight)
        )
        return found if with_targets else found[0]

    def sample(self, m: int, random_state: Any = None, *, with_targets: bool = False) -> Any:
        """Return m random points without replacement, in the order of the rows; all where m ≥ n.

        Parameters
        ----------
        m : int
            How many.
        random_state : int, Generator, RandomState or None
            Seed.
        with_targets : bool, default=False
            Whether to return ``(X, y, weight)``, with None for what the blocks do not carry.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((50, 2)), np.arange(50), block_rows=20)
        >>> X, y, weight = blocks.sample(10, random_state=0, with_targets=True)
        >>> X.shape, y.shape, weight
        ((10, 2), (10,), None)
        """
        if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 1:
            raise InvalidInput(f"RowBlocks: sample of m={m!r} rows; give a whole number ≥ 1.")
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        rng = np.random.default_rng(random_state)
        n = self.n_rows
        index = np.arange(n) if m >= n else np.sort(rng.choice(n, int(m), replace=False))
        return self.take(index, with_targets=with_targets)

    def select(self, columns: Sequence[str]) -> Self:
        """Return the same rows with some of the columns of the points, by name, in this order.

        Parameters
        ----------
        columns : sequence of str
            Names.
        """
        names = tuple(map(str, columns))
        known = self.columns
        if known is None:
            raise InvalidInput("RowBlocks: select by name, but the columns have no names.")
        missing = [name for name in names if name not in known]
        if missing or not names or len(set(names)) < len(names):
            wrong = f"{missing[0]!r} is no column" if missing else "give each name once"
            known_names = column_names(known, missing[0] if missing else "")
            raise InvalidInput(f"RowBlocks: select: {wrong}; {known_names}.")
        other = copy(self)
        index = tuple(known.index(name) for name in names)
        before = self._view.columns
        chosen = index if before is None else tuple(before[j] for j in index)
        other._view = replace(self._view, columns=chosen)
        facts: Any = self._facts
        other._facts = (len(names), names, *facts[2:])
        return other
