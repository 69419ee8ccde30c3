"""The rows of dask arrays and data frames, cut into blocks that are computed when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.domains.base import is_dask
from mercer.domains.blocks.block import BlockPlace, as_points
from mercer.domains.blocks.parts import BlockPart, PartSource, joined_rows, take_points
from mercer.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class DaskPart:
    """The recipe of one block: called, it computes the block where dask computes.

    Parameters
    ----------
    delayed : Delayed
        Gives ``(X, y, weight)``; y or weight None where there are none, or in memory here.
    y, weight : arrays of the block's rows, optional
        Those in memory here.
    """

    delayed: Any
    y: Any = None
    weight: Any = None

    def __call__(self) -> tuple[Any, Any, Any]:
        """Return the points, targets and weights of the block."""
        return self.beside(self.delayed.compute())

    def at(self, index: np.ndarray) -> DaskPart:
        """Return the recipe with the values in memory of some of its rows alone."""
        y, w = (None if A is None else A[index] for A in (self.y, self.weight))
        return replace(self, y=y, weight=w)

    def beside(self, data: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """Return what dask computed with what is in memory."""
        return _together(data, self.y, self.weight)


class DaskSource(PartSource):
    """The blocks of dask data: the chunks of the rows of X; those of no rows are left out.

    Nothing is computed but the lengths of chunks that dask does not know.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        The points.
    y : dask array, series or frame, array of n rows, or names of columns of X, optional
        Targets, in chunks of any size. Columns that are named are no longer columns of the points.
    sample_weight : as y, one column, optional
        Weights.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None):
        import dask

        X, y, sample_weight = _without_named(X, y, sample_weight)
        sample_weight = _one_column(sample_weight)
        if X.ndim != 2:
            raise InvalidInput(
                f"RowBlocks: the dask data X have {X.ndim} dimension(s); give (points, columns): "
                "X.reshape(-1, 1) or X.to_frame() for one column."
            )
        names = tuple(map(str, X.columns)) if _is_frame(X) else None
        given = {"y": y, "sample_weight": sample_weight}
        for name, values in given.items():
            _check_shape(values, name)
        pieces, rows, held = _blocks(X, y, sample_weight)
        targets, weights = (
            [None] * len(rows) if inside else _beside(values, rows, name)
            for inside, (name, values) in zip(held, given.items(), strict=True)
        )
        starts = np.cumsum([0, *rows]).tolist()
        together = dask.delayed(_together, pure=False)
        parts = []
        for i, size in enumerate(rows):
            if size:
                both = (targets[i], weights[i])
                here = [v if isinstance(v, np.ndarray) else None for v in both]
                lazy = [None if isinstance(v, np.ndarray) else v for v in both]
                reader = DaskPart(together(pieces[i], *lazy), *here)
                place = BlockPlace("the dask data", starts[i], names)
                parts.append(BlockPart(reader, starts[i], size, place))
        super().__init__(parts, "from dask")
        width = len(names) if names is not None else int(X.shape[1])
        #: What the first block would say: columns, names, whether there are targets and weights.
        self.facts = (width, names, y is not None, sample_weight is not None)

    def take_rows(self, index: np.ndarray) -> tuple[Any, Any, Any]:
        """Return points, targets and weights at ascending positions; no others leave dask."""
        import dask

        some = dask.delayed(_rows_at, pure=False)
        readers, lazy = [], []
        for part in self.parts:
            here = index[slice(*np.searchsorted(index, [part.start, part.stop]))] - part.start
            if len(here):
                reader: Any = part.reader
                readers.append(reader.at(here))
                lazy.append(some(reader.delayed, here))
        rows = zip(readers, dask.compute(*lazy), strict=True)
        return joined_rows(reader.beside(data) for reader, data in rows)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "map_partitions") and hasattr(X, "npartitions")


def _without_named(X: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    """Take the columns that y and w name out of a frame."""
    named = {
        what: given if isinstance(given, list) else [given]
        for what, given in (("y", y), ("sample_weight", w))
        if _is_name(given, X)
    }
    if not named:
        return X, y, w
    if not _is_frame(X) or X.ndim != 2:
        raise InvalidInput(
            f"RowBlocks: the dask data: {' and '.join(named)} given as names of columns, but X is "
            f"a {type(X).__name__}; give a dask data frame, or the values."
        )
    for what, names in named.items():
        missing = [name for name in names if name not in X.columns]
        if missing:
            raise InvalidInput(
                f"RowBlocks: the dask data: {what}={missing[0]!r} is no column; there are "
                f"{', '.join(map(repr, X.columns))}."
            )
    if len(named.get("sample_weight", ())) > 1:
        raise InvalidInput(
            f"RowBlocks: the dask data: sample_weight={w!r} names {len(w)} columns; give one."
        )
    left = {name for names in named.values() for name in names}
    y = X[y] if "y" in named else y
    w = X[named["sample_weight"][0]] if "sample_weight" in named else w
    return X[[name for name in X.columns if name not in left]], y, w


def _is_name(given: Any, X: Any) -> bool:
    """Whether targets or weights are given as the name of a column, or as a list of such names.

    Labels are a list of text too, longer than a frame is wide.
    """
    columns = list(getattr(X, "columns", ()))
    if isinstance(given, list):
        return 0 < len(given) <= len(columns) and all(isinstance(name, str) for name in given)
    return isinstance(given, str) or (isinstance(given, int | np.integer) and given in columns)


def _one_column(w: Any) -> Any:
    """Return weights in one column as a vector of them."""
    if getattr(w, "ndim", 1) != 2 or w.shape[1] != 1:
        return w
    return w[w.columns[0]] if hasattr(w, "columns") else w[:, 0]


def partitions(X: Any) -> list[Any]:
    """Return the partitions of a frame, delayed.

    Dask reads several files as one partition where few of their columns are wanted, depending on
    what is made of them; that step is left out, so that all ways to ask see the same partitions.
    """
    delayed: list[Any] = X.simplify().to_delayed(optimize_graph=False)
    return delayed


def _blocks(X: Any, y: Any, w: Any) -> tuple[list[Any], list[int], list[bool]]:
    """Return the blocks ``(X, y, w)``, delayed, their numbers of rows, and whether y and w are in.

    Frames with the same rows in each partition are read together; other values are left out.
    """
    import dask

    if not _is_frame(X):
        X = _known(X)
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        alone = dask.delayed(_triple, pure=True)
        rows = [int(r) for r in X.chunks[0]]
        return [alone(piece) for piece in X.to_delayed().ravel()], rows, [False, False]
    with_X = [_is_frame(v) and v.npartitions == X.npartitions for v in (y, w)]
    frames = [v if inside else None for inside, v in zip(with_X, (y, w), strict=True)]
    # not aligned by the index: rows belong together by their order, as in arrays
    options = {"align_dataframes": False, "meta": (None, "object")}
    try:
        pieces = partitions(X.map_partitions(_triple, *frames, **options))
        sizes = np.array(dask.compute([dask.delayed(_lengths, pure=True)(p) for p in pieces])[0])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"RowBlocks: dask cannot compute the data frame: {type(error).__name__}: {error}. "
            "Every file must have the columns that are asked for; and of Parquet files persist all "
            "columns, or none, and choose columns afterwards."
        ) from error
    held = [
        inside and bool((sizes[:, 0] == sizes[:, j]).all()) for j, inside in enumerate(with_X, 1)
    ]
    return pieces, sizes[:, 0].tolist(), held


def _known(X: Any) -> Any:
    """Return an array of which the sizes of all chunks are known."""
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        return X.copy().compute_chunk_sizes()  # it works in place: the caller's stays as it is
    return X


def _beside(values: Any, rows: Sequence[int], name: str) -> list[Any]:
    """Return what belongs to each block of rows: of dask's values delayed, of others a slice."""
    if values is None:
        return [None] * len(rows)
    if _is_frame(values):
        values = values.to_dask_array()
    n = sum(rows)
    values = _known(values) if is_dask(values) else np.asarray(values)
    if values.shape[0] != n:
        raise InvalidInput(
            f"RowBlocks: the dask data X have {n} rows and {name} has {values.shape[0]}; "
            "inconsistent numbers of samples."
        )
    if n == 0:
        return [None] * len(rows)
    if isinstance(values, np.ndarray):
        return np.split(values, np.cumsum(rows)[:-1])
    # dask takes no chunks of nothing among others: those of no rows are left out, and put back
    chunks = (tuple(r for r in rows if r), *values.shape[1:])
    made = iter(values.rechunk(chunks).to_delayed().ravel())
    return [next(made) if r else None for r in rows]


def _check_shape(values: Any, name: str) -> None:
    """Refuse targets or weights with too many axes."""
    axes = 1 if values is None else values.ndim if is_dask(values) else np.ndim(values)
    if axes not in ((1, 2) if name == "y" else (1,)):
        legal = "(n,) or (n, outputs)" if name == "y" else "(n,)"
        raise InvalidInput(
            f"RowBlocks: the dask data: {name} has shape ({', '.join('…' * axes)}); legal is "
            f"{legal}."
        )


def _triple(X: Any, y: Any = None, w: Any = None) -> tuple[Any, Any, Any]:
    return X, y, w


def _together(data: tuple[Any, Any, Any], y: Any, w: Any) -> tuple[Any, Any, Any]:
    """Return a block with targets or weights that are not in it."""
    return data[0], data[1] if y is None else y, data[2] if w is None else w


def _lengths(data: tuple[Any, Any, Any]) -> tuple[int, ...]:
    return tuple(0 if A is None else len(A) for A in data)


def _rows_at(data: tuple[Any, Any, Any], index: np.ndarray) -> tuple[Any, Any, Any]:
    y, w = (None if A is None else np.asarray(A)[index] for A in data[1:])
    return take_points(as_points(data[0]), index), y, w
