"""Some of the rows or columns of row blocks: by position, at random, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.domains.base import Domain
from mercer.domains.block_draw import Arrivals, first_arrivals
from mercer.domains.block_parts import Source, View, make_block, take_points
from mercer.domains.block_values import Block, Place, column_names
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

    @abstractmethod
    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks in order."""

    @property
    @abstractmethod
    def has_weight(self) -> bool:
        """Whether the blocks carry weights."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of the points."""

    def take(self, index: Any, *, with_targets: bool = False, domain: Domain | None = None) -> Any:
        """Return the points at the given positions, in their order; blocks without any are skipped.

        Parameters
        ----------
        index : array of int
            Positions among all rows, from 0.
        with_targets : bool, default=False
            Whether to return ``(X, y, weight)``, with None for what the blocks do not carry.
        domain : Domain, optional
            That of the kernel the points are for; what it refuses is named by file and row.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.arange(8.0)[:, None], block_rows=3)
        >>> blocks.take([7, 0])[:, 0]
        array([7., 0.])
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
        if domain is not None:
            self._require(block.X, domain)
        found = tuple(
            None if A is None else A if np.array_equal(places, index) else take_points(A, back)
            for A in (block.X, block.y, block.weight)
        )
        return found if with_targets else found[0]

    def _require(self, X: Any, domain: Domain) -> None:
        """Refuse points that are not in the domain by their first place among all rows."""
        try:
            domain.check(X, "X")
        except InvalidInput:
            for block in self:
                block.points(domain)
            raise

    def sample(
        self,
        m: int,
        random_state: Any = None,
        *,
        with_targets: bool = False,
        domain: Domain | None = None,
    ) -> Any:
        """Return m random points without replacement, in the order of the rows; all where m ≥ n.

        Rows with weights are drawn in proportion to them, those of weight 0 never.

        Parameters
        ----------
        m : int
            How many.
        random_state : int, Generator, RandomState or None
            Seed.
        with_targets : bool, default=False
            Whether to return ``(X, y, weight)``, with None for what the blocks do not carry. The
            weights are such that their sums stand for those of all rows.
        domain : Domain, optional
            That of the kernel the points are for; what it refuses is named by file and row.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((50, 2)), np.arange(50), block_rows=20)
        >>> X, y, weight = blocks.sample(10, random_state=0, with_targets=True)
        >>> X.shape, y.shape, weight
        ((10, 2), (10,), None)
        """
        index, weight = self.draw(m, random_state)
        rows = self.take(index, with_targets=with_targets, domain=domain)
        return (*rows[:2], weight) if with_targets else rows

    def draw(
        self, m: int, random_state: Any = None, each: Callable[..., Any] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the positions of a `sample`, and its weights, None where the blocks carry none.

        Parameters
        ----------
        m : int
            How many.
        random_state : int, Generator, RandomState or None
            Seed.
        each : callable, optional
            ``each(blocks, work)`` returns what a function makes of every block; rows with weights
            take such a pass, here or on a cluster (`mercer.engines.cluster.each_block`).

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> weight = [0.0, 1.0, 0.0, 2.0, 0.0]
        >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((5, 1)), None, weight, block_rows=2)
        >>> index, weight = blocks.draw(2, random_state=0)
        >>> index.tolist(), weight.tolist()
        ([1, 3], [1.0, 2.0])
        """
        if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 1:
            raise InvalidInput(f"RowBlocks: sample of m={m!r} rows; give a whole number ≥ 1.")
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        try:
            rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"RowBlocks: sample with random_state={random_state!r}; give a whole number ≥ 0, a "
                "Generator, a RandomState, or None."
            ) from None
        if self.has_weight:
            work = Arrivals(int(rng.integers(2**63)), int(m))
            found = [work(block) for block in self] if each is None else each(self, work)
            return first_arrivals(found, int(m))
        n = self.n_rows
        return np.arange(n) if m >= n else np.sort(rng.choice(n, int(m), replace=False)), None

    def select(self, columns: Sequence[str]) -> Self:
        """Return the same rows with some of the columns of the points, by name, in this order.

        Parameters
        ----------
        columns : sequence of str
            Names.

        Examples
        --------
        >>> import pandas as pd
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(pd.DataFrame({"a": [1.0], "b": [2.0]}))
        >>> blocks.select(["b", "a"]).columns
        ('b', 'a')
        """
        if isinstance(columns, str):
            raise InvalidInput(
                f"RowBlocks: select({columns!r}); give a list of names: [{columns!r}]."
            )
        names = tuple(map(str, columns))
        known = self.columns
        if known is None:
            raise InvalidInput(
                "RowBlocks: select by name, but the columns have no names; give data frames or "
                "Parquet files, or choose columns before: X[:, index]."
            )
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
