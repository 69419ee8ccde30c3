"""`RowBlocks`: rows that come a block at a time, again at every pass, and need not fit memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.domains.base import Domain, is_dask
from mercer.domains.blocks.block import Block, BlockPlace, checksum, column_names, judged
from mercer.domains.blocks.files import files_in_words, folders_of
from mercer.domains.blocks.parts import (
    Arrivals,
    BlockPart,
    BlockView,
    PartSource,
    RowSource,
    StreamSource,
    Weighing,
    array_parts,
    first_arrivals,
    make_block,
    rows_digest,
    take_points,
)
from mercer.domains.tables import Table
from mercer.errors import InvalidInput


@dataclass(frozen=True)
class _InTurn:
    """Two changes, one after the other."""

    first: Callable[[Any], Any]
    then: Callable[[Any], Any]

    def __call__(self, X: Any) -> Any:
        return self.then(self.first(X))


@dataclass(frozen=True)
class _Named:
    """Rows of numbers as a table of named columns."""

    names: tuple[str, ...]

    def __call__(self, X: Any) -> Table:
        return Table(dict(zip(self.names, np.asarray(X).T, strict=True)))


@dataclass(frozen=True)
class _Selected:
    """Some columns of a table, by name."""

    names: tuple[str, ...]

    def __call__(self, X: Table) -> Table:
        return X.select(self.names)


class RowBlocks:
    """Rows in blocks: one pass at a time, each from the first block to the last.

    Made by `from_parquet`, `from_npy`, `from_arrays`, `from_generator` or `from_dask`. Estimators
    with ``solver="falkon"`` take them in place of X: ``fit(blocks)`` where the blocks carry the
    target, ``fit(blocks, y)`` otherwise, and ``predict(blocks)``. Memory is that of a few blocks.
    A file that is missing, damaged, of another width, or that changes between two passes is refused
    by name.

    Parameters
    ----------
    source : RowSource
        Where blocks come from.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_columns : int or None
        Number of columns of the points; None where they are no rows of numbers.
    columns : tuple of str or None
        Their names, where they have any.
    has_target : bool
        Whether the blocks carry targets.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((5, 2)), np.arange(5.0), block_rows=2)
    >>> blocks
    RowBlocks(5 rows, 2 columns, 3 blocks, with targets; from arrays)
    >>> [(block.start, len(block)) for block in blocks]
    [(0, 2), (2, 2), (4, 1)]
    """

    def __init__(self, source: RowSource):
        if not isinstance(source, RowSource):
            raise InvalidInput(
                f"RowBlocks: got a {type(source).__name__}; blocks are made by "
                "RowBlocks.from_parquet(path, target='y'), from_npy(path), from_arrays(X, y), "
                "from_dask(X, y), or from_generator(f), for CSV files with "
                "f = lambda: pandas.read_csv(path, chunksize=50000)."
            )
        self._source = source
        self._view = BlockView()
        self._facts: tuple[int | None, tuple[str, ...] | None, bool, bool] | None = None

    # -- where rows come from -----------------------------------------------------------------
    @classmethod
    def from_arrays(
        cls, X: Any, y: Any = None, sample_weight: Any = None, *, block_rows: int | None = None
    ) -> RowBlocks:
        """Return the rows of arrays, memory maps, frames or lists in blocks.

        Anything with a shape that gives rows by slices will do, such as ``numpy.memmap``, a sparse
        CSR matrix, or a dataset of an HDF5 file; lists of strings or graphs too.

        Parameters
        ----------
        X : collection of n points
            The points.
        y : array of shape (n,) or (n, t), optional
            Targets.
        sample_weight : array of shape (n,), optional
            Weights.
        block_rows : int, optional
            Rows of a block; from the memory budget by default.
        """
        parts = array_parts(X, y, sample_weight, block_rows)
        return cls(PartSource(parts, "from arrays"))

    @classmethod
    def from_npy(
        cls,
        X_path: Any,
        y_path: Any = None,
        weight_path: Any = None,
        *,
        block_rows: int | None = None,
    ) -> RowBlocks:
        """Return the rows of ``.npy`` files in blocks; files are never read whole.

        Parameters
        ----------
        X_path : path-like or sequence of them
            A file with an array of shape (n, d), a folder of such files (in the order of their
            names), or a list of paths.
        y_path : path-like or sequence of them, optional
            Targets, likewise; their rows follow those of X, cut into files as you like.
        weight_path : path-like or sequence of them, optional
            Weights, likewise.
        block_rows : int, optional
            Rows of a block; from the memory budget by default.
        """
        from mercer.domains.blocks.npy import npy_parts

        parts, files = npy_parts(X_path, y_path, weight_path, block_rows)
        what = f"from {files_in_words(X_path, files, '.npy')}"
        return cls(PartSource(parts, what, folders_of(X_path)))

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        target: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        *,
        drop: Sequence[str] = (),
        block_rows: int | None = None,
    ) -> RowBlocks:
        """Return the rows of Parquet files in blocks of row groups; needs pyarrow.

        Parameters
        ----------
        path : path-like or sequence of them
            A file, a folder of files (in the order of their names), or a list of paths.
        target : str or sequence of str, optional
            The column of targets, numbers or labels; a list of columns gives several outputs.
        columns : sequence of str, optional
            The columns of the points; by default all but target and weight. Where one of them
            holds text or categories the blocks are tables, for `TableRegressor`,
            `TableClassifier` and kernels on columns.
        weight : str, optional
            The column of weights.
        drop : sequence of str, default=()
            In place of `columns`: those to leave out, such as an identifier.
        block_rows : int, optional
            Rows of a block; from the memory budget by default. Larger row groups are cut.
        """
        from mercer.domains.blocks.parquet import parquet_parts

        parts, files = parquet_parts(path, target, columns, weight, drop, block_rows)
        what = f"from {files_in_words(path, files, 'Parquet')}"
        return cls(PartSource(parts, what, folders_of(path)))

    @classmethod
    def from_generator(cls, f: Callable[[], Any], n_rows: int | None = None) -> RowBlocks:
        """Return blocks that a function makes anew at every pass.

        Parameters
        ----------
        f : callable
            ``f()`` returns a fresh iterator, each time over the same blocks: X, (X, y) or
            (X, y, weight). Blocks of some thousand rows are best. It may be called by a thread that
            reads ahead.
        n_rows : int, optional
            Number of rows of all blocks; counted in a pass of its own where it is not given.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> def rows():
        ...     for seed in range(3):
        ...         yield np.random.default_rng(seed).normal(size=(100, 2))
        >>> mercer.RowBlocks.from_generator(rows).n_rows
        300
        """
        return cls(StreamSource(f, n_rows))

    @classmethod
    def from_dask(cls, X: Any, y: Any = None, sample_weight: Any = None) -> RowBlocks:
        """Return the chunks of dask arrays or data frames as blocks, computed at their turn.

        Parameters
        ----------
        X : dask array of shape (n, d), or dask data frame
            The points.
        y : dask array, series or frame, array, or names of columns of X, optional
            Targets.
        sample_weight : as y, optional
            Weights.
        """
        from mercer.domains.blocks.dask import DaskSource

        if not is_dask(X):
            raise InvalidInput(
                f"RowBlocks: from_dask got a {type(X).__name__}; give a dask array or data frame, "
                "or use from_arrays."
            )
        source = DaskSource(X, y, sample_weight)
        rows = cls(source)
        rows._facts = source.facts
        return rows

    # -- facts --------------------------------------------------------------------------------
    @property
    def n_rows(self) -> int:
        """Number of rows of all blocks; of a generator counted in a pass, once."""
        if self._source.rows is None:
            for _ in self._source.blocks():
                pass
        rows: Any = self._source.rows
        return rows

    @property
    def n_columns(self) -> int | None:
        """Number of columns of the points, None where they are no rows of a table."""
        return self._known()[0]

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of the points, None where they have none."""
        return self._known()[1]

    @property
    def has_target(self) -> bool:
        """Whether the blocks carry targets."""
        return self._known()[2]

    @property
    def has_weight(self) -> bool:
        """Whether the blocks carry weights."""
        return self._known()[3]

    def _known(self) -> tuple[int | None, tuple[str, ...] | None, bool, bool]:
        """Return what the first block says of all."""
        if self._facts is None:
            block = self.first()
            shape: tuple[int, ...] = getattr(block.X, "shape", ())
            d, names = int(shape[1]) if len(shape) == 2 else None, block.place.columns
            self._facts = (d, names, block.y is not None, block.weight is not None)
        return self._facts

    def first(self) -> Block:
        """Return the first block, read anew."""
        blocks = iter(self)
        try:
            return next(blocks)
        finally:
            blocks.close()  # type: ignore[attr-defined]

    @property
    def parts(self) -> list[BlockPart]:
        """Readers of the blocks, each picklable and independent, for workers of a cluster.

        ``part()`` returns the `Block`, checked; ``part.rows`` and ``part.start`` say which rows.
        """
        source = self._source
        if not isinstance(source, PartSource):
            raise InvalidInput(
                f"RowBlocks {source.what}: a generator gives its blocks one after the other, so "
                "they cannot be shared out; write them to .npy or Parquet files for a cluster."
            )
        view = self._view
        return [replace(part, view=view.of(part.start, part.rows)) for part in source.parts]

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that the rows are read from, none where they are not from files."""
        return tuple(mark.path for mark in self._source.marks())

    @property
    def folders(self) -> tuple[str, ...]:
        """Paths of the folders that were given to be read, with all their files."""
        return self._source.folders

    def fingerprint(self) -> str:
        """Return what tells these rows from most others: ends of files, first rows, y in memory."""
        held = checksum(self._view.y, self._view.weight)
        return f"{rows_digest(self, self._source.marks())}-{held}"

    @property
    def seen(self) -> dict[int, int]:
        """Checksums of the blocks that were read so far, by their first row."""
        return self._source.seen

    def cuts(self) -> tuple[int, ...]:
        """Return the first row of each block; of a generator nothing is known before a pass."""
        source = self._source
        return tuple(p.start for p in source.parts) if isinstance(source, PartSource) else ()

    # -- passes -------------------------------------------------------------------------------
    def __iter__(self) -> Iterator[Block]:
        return self.iterate()

    def iterate(self, first: int = 0) -> Iterator[Block]:
        """Yield the blocks in order, those before number `first` left out.

        Parameters
        ----------
        first : int, default=0
            How many blocks to leave out.
        """
        for block in self._source.blocks(first):
            yield self._view.of(block.start, len(block))(block)

    # -- some of the rows or columns: by position, at random, by name ---------------------------
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
        values, view = self._source.take_rows(places), self._view.at(places)
        if not with_targets:
            values = values[0], None, None
            view = BlockView(columns=view.columns, points=view.points)
        block = view(make_block(0, values, BlockPlace("the rows taken")))
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
            take such a pass, here or on a cluster (`mercer.engines.passes.cluster.each_block`).

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

    def select(self, columns: Sequence[str]) -> RowBlocks:
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
        if self._view.points is not None:  # tables that the points were turned into
            return self.with_points(_Selected(names))
        other = copy(self)
        index = tuple(known.index(name) for name in names)
        before = self._view.columns
        chosen = index if before is None else tuple(before[j] for j in index)
        other._view = replace(self._view, columns=chosen)
        facts: Any = self._facts
        other._facts = (len(names), names, *facts[2:])
        return other

    # -- other views of the same rows ----------------------------------------------------------
    def as_tables(self) -> RowBlocks:
        """Return the same rows as tables, where they are numbers whose columns have names.

        Examples
        --------
        >>> import pandas as pd
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(pd.DataFrame({"a": [1.0], "b": [2.0]}))
        >>> blocks.as_tables().columns
        ('a', 'b')
        """
        names, X = self.columns, self.first().X
        if names is None or not isinstance(X, np.ndarray):
            return self
        return self.with_points(_Named(names))

    def with_targets(self, change: Callable[[Any], Any] | Weighing) -> RowBlocks:
        """Return the same rows with targets changed block by block, such as labels to codes.

        Parameters
        ----------
        change : callable, or Weighing
            From the targets of a block to what replaces them; or to what multiplies the weights.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((3, 1)), np.array([1.0, 10.0, 100.0]))
        >>> blocks.with_targets(np.log10).first().y
        array([0., 1., 2.])
        """
        other = copy(self)
        other._view = replace(self._view, changes=(*self._view.changes, change))
        if isinstance(change, Weighing):
            other._facts = (*self._known()[:3], True)
        return other

    def with_points(self, change: Callable[[Any], Any]) -> RowBlocks:
        """Return the same rows with points changed block by block, such as text to vectors.

        What the function refuses is named by file and row. The columns have no names then, unless
        they are those of tables.

        Parameters
        ----------
        change : callable
            From the points of a block to what replaces them, one for each.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.array([[1.0], [10.0], [100.0]]))
        >>> blocks.with_points(np.log10).first().X[:, 0]
        array([0., 1., 2.])
        """
        other, before = copy(self), self._view.points
        both = change if before is None else _InTurn(before, change)
        other._view, other._facts = replace(self._view, points=both), None
        return other

    def with_values(self, y: Any = None, sample_weight: Any = None) -> RowBlocks:
        """Return the same points with targets or weights from memory, one for each row.

        Parameters
        ----------
        y : array of shape (n,) or (n, t), optional
            Targets, in place of those of the blocks.
        sample_weight : array of shape (n,), optional
            Weights, likewise.

        Examples
        --------
        >>> import numpy as np
        >>> import mercer
        >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((3, 1)))
        >>> blocks.with_values([4.0, 5.0, 6.0]).first().y
        array([4., 5., 6.])
        """
        other, n = copy(self), self.n_rows
        y, w = (
            None if A is None else judged(A, name, n, BlockPlace(owner))
            for A, name, owner in ((y, "target", "y"), (sample_weight, "weight", "sample_weight"))
        )
        if y is not None:
            other._view = replace(self._view, y=y, changes=())
        if w is not None:
            other._view = replace(other._view, weight=w)
        other._facts = None
        return other

    def __repr__(self) -> str:
        source, facts = self._source, self._facts
        parts = ["not counted yet" if source.rows is None else f"{source.rows} rows"]
        if isinstance(source, PartSource):
            with suppress(InvalidInput):  # a file that is gone
                facts = self._known()
            parts.append(f"{len(source.parts)} block" + "s" * (len(source.parts) != 1))
        if facts is not None and facts[0] is not None:
            parts.insert(1, f"{facts[0]} column" + "s" * (facts[0] != 1))
        if facts is not None and facts[2]:
            parts.append("with targets" + " and weights" * facts[3])
        return f"RowBlocks({', '.join(parts)}; {source.what})"
