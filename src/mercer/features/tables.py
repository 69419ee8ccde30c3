"""Columns of a table to vectors: numbers standardised, categories at unit distance, text mapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import RowBlocks, to_host
from mercer.domains.blocks import Block, no_weight
from mercer.errors import InvalidInput, naming, speaks, who
from mercer.estimator import defaults_of, set_params, takes_blocks
from mercer.features.coordinates import PrincipalCoordinates
from mercer.features.named_columns import (
    NamedColumn,
    category_codes,
    listed,
    numbers,
    ordered_columns,
    read_columns,
    tell_of_far_cell,
    tell_of_names,
)
from mercer.kernels import Kernel, StreamedMoments, moments
from mercer.memory import require_memory
from mercer.settings import get_config

_HALF = 2.0**-0.5
_BLOCKS = 4  # so many are read, encoded, held and multiplied at once
_CATEGORY = 2000  # bytes of memory that a category is worth at least
_NO_MOMENTS = (0.0, 0.0, 1.0)  # of a column that holds no numbers
_KINDS = ("number", "category", "kernel", "left out")
_SAMPLE = 20_000  # rows of blocks that coordinates are found from


def _has_maps(encoder: Any) -> bool:
    """Whether the columns that a kernel compares have coordinates, and no others."""
    return all(
        isinstance(map, PrincipalCoordinates) == (kind == "kernel")
        for map, kind in zip(encoder._maps, encoder.kinds_, strict=True)
    )


def _has_gaps(encoder: Any) -> bool:
    """Whether only columns of numbers have indicators of what is missing."""
    pairs = zip(encoder._gaps, encoder.kinds_, strict=True)
    return all(kind == "number" for gap, kind in pairs if gap)


def _is_map(value: Any) -> bool:
    return isinstance(value, PrincipalCoordinates | None)


def _has_categories(known: Any) -> bool:
    distinct = type(known) is tuple and len(set(known)) == len(known)
    return distinct and all(c is None or isinstance(c, str) for c in known)


class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Turn a table with columns of mixed kinds into vectors that a kernel can compare.

    A column of numbers becomes :math:`(x - \text{mean})/\text{std}`, a missing number being
    replaced by the median first; a constant column becomes 0. A column of categories (text, truth
    values, or a categorical type) becomes its indicator vector divided by :math:`\sqrt 2`, so that
    two different categories are at distance 1. Missing is a category of its own. A category that
    was not seen in ``fit``, or was too rare to keep, becomes the zero vector: it is at distance
    :math:`1/\sqrt 2` of every known category and 0 of every other unknown one.

    A column with a kernel of its own, of text, strings or graphs, becomes principal coordinates:
    its projections on the directions of variance in the feature space, which 1000 landmarks at most
    span, the largest first, and then its distance from their span. They are scaled so that two rows
    are at a mean squared distance of 1.

    Parameters
    ----------
    categorical : sequence of str or int, or str, optional
        Columns, by name or position, to be read as categories although they hold numbers.
    max_categories : int, default=100
        The most frequent categories kept of each column; the others count as unknown.
    kernels : dict of str or int to Kernel or None, optional
        Kernels of columns, by name or position, such as
        ``{"notes": BagOfWords().with_missing()}``; None leaves a column out.
    indicators : bool, default=False
        Whether a column of numbers, some of which were missing in ``fit``, has a coordinate more:
        1 where its number is missing, 0 elsewhere.

    Attributes
    ----------
    columns_ : tuple of str
        Names of the columns, in order; ``x0, x1, ...`` when fitted on an array.
    kinds_ : tuple of str
        For each column ``"number"``, ``"category"``, ``"kernel"`` or ``"left out"``.
    fill_, mean_, scale_ : ndarray of shape (n_columns,)
        Median, mean and standard deviation of each column of numbers (0, 0, 1 for others).
    categories_ : tuple of tuple
        For each column its categories as text, ``None`` standing for missing; empty for others.
    maps_ : tuple
        For each column with a kernel what turns its values into coordinates; None for others.
    gaps_ : ndarray of bool, shape (n_columns,)
        The columns that have an indicator of what is missing.

    Examples
    --------
    >>> from mercer.domains import Table
    >>> from mercer.features import TableEncoder
    >>> table = Table({"age": [30, 40, 50], "site": ["a", "b", "a"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.transform(table).round(3)
    array([[-1.225,  0.707,  0.   ],
           [ 0.   ,  0.   ,  0.707],
           [ 1.225,  0.707,  0.   ]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'site=a', 'site=b']
    """

    _parameters = {
        "max_categories": checks.Whole(1, says="give a whole number >= 1"),
        "indicators": checks.Flag(),
    }
    _state = state.worded(
        {
            "n_features_in_": state.SizeOf("d"),
            "columns_": state.Tuple("d", lambda name: isinstance(name, str)),
            "named_": state.Such(bool),
            "kinds_": state.Tuple("d", lambda kind: kind in _KINDS),
            "fill_": state.Doubles("d"),
            "mean_": state.Doubles("d"),
            "scale_": state.Doubles("d"),
            "categories_": state.Tuple("d", _has_categories),
            "maps_": state.Spare(state.Tuple("d", _is_map)),
            "gaps_": state.Spare(state.Array("d", kind="b")),
        },
        state.PARTS_MISFIT,
        lacks=state.PARTS_MISFIT,
    )
    _rules = (
        (state.PARTS_MISFIT, lambda encoder: len(set(encoder.columns_)) == encoder.n_features_in_),
        (state.PARTS_MISFIT, _has_maps),
        (state.PARTS_MISFIT, _has_gaps),
    )
    _learned = tuple(_state)

    set_params = set_params

    @naming
    def __init__(
        self,
        categorical: Sequence[str | int] | None = None,
        max_categories: int = 100,
        kernels: Mapping[Any, Kernel | None] | None = None,
        indicators: bool = False,
    ):
        self.categorical = categorical
        self.max_categories = max_categories
        self.kernels = kernels
        self.indicators = indicators

    @speaks("TableEncoder", unless_spoken=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableEncoder:
        """Learn the kind, scale and categories of each column.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows; weight 2 is a row that occurs twice.

        Returns
        -------
        TableEncoder
            The encoder itself.
        """
        checks.check_parameters(self)
        if isinstance(X, RowBlocks):
            return self._fit_blocks(
                X if sample_weight is None else X.with_values(None, sample_weight)
            )
        columns, named = read_columns(X)
        weight = _weights(sample_weight, len(columns[0].values))
        names = [c.name for c in columns]
        forced, own = self._forced(names), self._own(names)
        kinds, found, categories, gaps = [], [], [], []
        for column in columns:
            kind = _own_kind(column.name, own) or column.kind
            if kind == "number" and column.name in forced:
                kind = "category"
            kinds.append(kind)
            known: tuple[str | None, ...] = ()
            if kind == "category":
                count = _counted({}, column.labels(), weight)
                if column.name not in forced:
                    tell_of_names(column.name, len(count), len(column.values))
                known = _frequent(count, int(self.max_categories))
            categories.append(known)
            if kind == "number":
                tell_of_far_cell(column)
            x = numbers(column) if kind == "number" else np.empty(0)
            found.append(moments(x, weight) if kind == "number" else _NO_MOMENTS)
            gaps.append(_Gaps().add(x, weight if len(x) else None))
        maps = _mapped(columns, own, weight)
        return self._keep(tuple(names), named, kinds, found, categories, maps, gaps)

    def _keep(
        self,
        names: tuple[str, ...],
        named: bool,
        kinds: list,
        found: list,
        categories: list,
        maps: list,
        gaps: list,
    ) -> TableEncoder:
        self.columns_, self.named_, self.kinds_ = names, named, tuple(kinds)
        self.fill_, self.mean_, self.scale_ = map(np.array, zip(*found, strict=True))
        self.categories_ = tuple(categories)
        self.maps_ = tuple(maps)
        self.gaps_ = np.array([bool(self.indicators) and gap.some for gap in gaps])
        self.n_features_in_ = len(names)
        return self

    def _fit_blocks(self, blocks: RowBlocks) -> TableEncoder:
        """Fit on rows in blocks: the first pass says what a column holds, the others count it."""
        first, named = read_columns(blocks.first().X)
        names, known = tuple(c.name for c in first), partial(_arranged, first, named)
        own = self._own(list(names))
        texts, most, weight = self._forced(list(names)) - set(own), 0, 0.0
        streams = {n: StreamedMoments() for n in names if n not in texts and n not in own}
        gaps = {n: _Gaps() for n in names}
        for block, columns in _blocks_of_columns(blocks, known, own):
            most = max(most, len(block))
            weight += len(block) if block.weight is None else float(block.weight.sum())
            texts |= {c.name for c in columns if c.kind == "category"}
            _add_numbers(columns, streams, texts, block.weight, gaps)
        if not weight:
            raise no_weight()
        streams = {n: stream for n, stream in streams.items() if n not in texts}
        counts: dict[str, dict[str | None, float]] = {n: {} for n in names if n in texts}
        for turn in range(1, StreamedMoments.PASSES if streams else 2):
            for stream in streams.values():
                stream.end_of_pass()
            for block, columns in _blocks_of_columns(blocks, known, own):
                _add_numbers(columns, streams, texts, block.weight)
                for column in columns if turn == 1 else ():
                    if column.name in counts:
                        _counted(counts[column.name], column.labels(), block.weight)
                        _require_few(counts[column.name], column.name)
        for stream in streams.values():
            stream.end_of_pass()
        limit = int(self.max_categories)
        categories = [_frequent(counts[n], limit) if n in texts else () for n in names]
        maps: list[PrincipalCoordinates | None] = [None] * len(names)
        if any(kernel is not None for kernel in own.values()):
            some, _, weights = blocks.sample(_SAMPLE, 0, with_targets=True)
            maps = _mapped(known(some), own, weights)
        lengths = [len(one) for one in maps if one is not None]
        told = [gaps[n] if n in streams else _Gaps() for n in names]
        marks = sum(gap.some for gap in told) if self.indicators else 0
        _require_room(most, len(streams) + marks + sum(map(len, categories)) + sum(lengths))
        kinds = [_own_kind(n, own) or ("category" if n in texts else "number") for n in names]
        found = [streams[n].result() if n in streams else _NO_MOMENTS for n in names]
        return self._keep(names, named, kinds, found, categories, maps, told)

    def _own(self, names: list[str]) -> dict[str, Kernel | None]:
        """Return the kernels of columns by name."""
        if not isinstance(self.kernels, Mapping | None):
            raise InvalidInput(
                f"TableEncoder: kernels={self.kernels!r}; give a dict from column to kernel."
            )
        for key, kernel in (self.kernels or {}).items():
            if not isinstance(kernel, Kernel | None):
                raise InvalidInput(
                    f"TableEncoder: kernels gives the column {key!r} {kernel!r}; give a kernel, "
                    "such as BagOfWords().with_missing(), or None to leave the column out."
                )
        return {_column_name(k, names, "kernels"): v for k, v in (self.kernels or {}).items()}

    @takes_blocks
    @speaks("TableEncoder", unless_spoken=True)
    def transform(self, X: Any) -> np.ndarray:
        """Return the rows of a table as vectors.

        Columns are found by name when both this table and the one of ``fit`` have names: their
        order is free, further columns are ignored, and those that are left out need not be there.
        Otherwise they are taken by position.

        Parameters
        ----------
        X : data frame, Table, dict of columns, 2-D array or RowBlocks
            The table.

        Returns
        -------
        ndarray of shape (n_rows, n_vector_columns)
            The vectors, float64.
        """
        check_is_fitted(self)
        columns, named = read_columns(X)
        columns = ordered_columns(columns, named, self.columns_, self.named_, set(self.left_out))
        out = np.zeros((len(columns[0].values), self._width))
        start = 0
        for j, (column, width, map) in enumerate(
            zip(columns, self.widths, self._maps, strict=True)
        ):
            part = out[:, start : start + width]
            if map is not None:
                part[:] = map(column.values.tolist())
            elif self.kinds_[j] != "left out" and column.kind:  # dates and the like are refused
                if self.kinds_[j] == "number":
                    x = numbers(column, self.columns_[j])
                    part[:, 0] = self._standardised(x, j)
                    if self._gaps[j]:
                        part[:, 1] = np.isnan(x)
                else:
                    codes = category_codes(column, self.categories_[j])
                    known = np.flatnonzero(codes >= 0)
                    part[known, codes[known]] = _HALF
            start += width
        return out

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the vectors' coordinates.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns, checked against those of ``fit``.

        Returns
        -------
        ndarray of str
            ``"age"`` for numbers, ``"site=a"`` for categories, ``"site=<missing>"`` for missing,
            ``"notes[0]"`` for coordinates, ``"age=<missing>"`` for the indicator of a number.
        """
        check_is_fitted(self)
        names: Sequence[str] = self.columns_
        if input_features is not None:
            names = [str(n) for n in input_features]
            if self.named_ and tuple(names) != self.columns_:
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(names)}"
                )
        out: list[str] = []
        for name, kind, known, map, gap in zip(
            names, self.kinds_, self.categories_, self._maps, self._gaps, strict=True
        ):
            if kind == "number":
                out.extend([name, f"{name}=<missing>"] if gap else [name])
            elif map is not None:
                out.extend(f"{name}[{i}]" for i in range(len(map)))
            else:
                out.extend(f"{name}={'<missing>' if c is None else c}" for c in known)
        return np.asarray(out, dtype=object)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns; absent when fitted on an array, as everywhere in scikit-learn."""
        if not getattr(self, "named_", False):
            raise AttributeError("TableEncoder was not fitted on a table with column names")
        return np.asarray(self.columns_, dtype=object)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # a pickle of before has the defaults of parameters that came since
        super().__setstate__({**defaults_of(type(self)), **state})  # type: ignore[misc, arg-type]

    def _check_state(self) -> None:
        state.check_state(self, fitted=True)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are not read, and need not be there in other rows."""
        check_is_fitted(self)
        return tuple(n for n, k in zip(self.columns_, self.kinds_, strict=True) if k == "left out")

    @property
    def widths(self) -> tuple[int, ...]:
        """How many coordinates of the vectors each column has."""
        check_is_fitted(self)
        return tuple(
            1 + int(gap) if kind == "number" else len(known if map is None else map)
            for kind, known, map, gap in zip(
                self.kinds_, self.categories_, self._maps, self._gaps, strict=True
            )
        )

    @property
    def _width(self) -> int:
        return sum(self.widths)

    @property
    def _maps(self) -> tuple[PrincipalCoordinates | None, ...]:
        """`maps_`; none of an encoder from a file of version 0.1.0."""
        return getattr(self, "maps_", None) or (None,) * len(self.kinds_)

    @property
    def _gaps(self) -> np.ndarray:
        """`gaps_`; none of an encoder that was fitted before there were indicators."""
        gaps = getattr(self, "gaps_", None)
        return np.zeros(len(self.kinds_), dtype=bool) if gaps is None else gaps

    def _forced(self, names: list[str]) -> set[str]:
        forced = set()
        asked: Any = [self.categorical] if isinstance(self.categorical, str) else self.categorical
        if not isinstance(asked, Iterable | None) or getattr(asked, "ndim", 1) != 1:
            raise InvalidInput(
                f"TableEncoder: categorical={asked!r}; give names or positions of columns."
            )
        for key in asked if asked is not None else ():
            forced.add(_column_name(key, names, "categorical"))
        return forced

    def _standardised(self, x: np.ndarray, j: int) -> np.ndarray:
        x = np.where(np.isnan(x), self.fill_[j], x)
        if self.scale_[j] == 0.0:
            return np.zeros_like(x)
        with np.errstate(over="ignore"):
            z = (x - self.mean_[j]) / self.scale_[j]
        if not np.isfinite(z).all():
            i = int(np.flatnonzero(~np.isfinite(z))[0])
            raise InvalidInput(
                f"TableEncoder: column {self.columns_[j]!r} holds {x[i]:g} at row {i}, "
                f"too far from the values of fit (about {self.mean_[j]:g}) to be standardised."
            )
        return z

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class _Gaps:
    """Whether numbers of a column are missing, and others are there, in rows that count."""

    def __init__(self) -> None:
        self.seen: set[bool] = set()

    def add(self, x: np.ndarray, weight: np.ndarray | None) -> _Gaps:
        """Look at some numbers."""
        missing = np.isnan(x) if weight is None else np.isnan(x[weight > 0])
        self.seen |= set(np.unique(missing).tolist())
        return self

    @property
    def some(self) -> bool:
        """Whether there is a gap to be told from a number."""
        return len(self.seen) == 2


def _own_kind(name: str, own: Mapping[str, Kernel | None]) -> str:
    """Return the kind of a column of which a kernel is told, "" of others."""
    if name not in own:
        return ""
    return "left out" if own[name] is None else "kernel"


def _mapped(
    columns: list[NamedColumn], own: Mapping[str, Kernel | None], weight: np.ndarray | None
) -> list[PrincipalCoordinates | None]:
    """Return the coordinates of each column with a kernel, None for others."""
    kernels = [own.get(c.name) for c in columns]
    return [
        None if kernel is None else PrincipalCoordinates.of(kernel, c.values.tolist(), weight)
        for c, kernel in zip(columns, kernels, strict=True)
    ]


def _column_name(key: Any, names: list[str], option: str) -> str:
    """Return the name of a column that an option gives by name or position."""
    if isinstance(key, int | np.integer) and -len(names) <= key < len(names):
        return names[key]
    if key in names:
        return str(key)
    raise InvalidInput(
        f"TableEncoder: {option} names the column {key!r}, "
        f"which is not in the table; {listed('its columns are', names)}."
    )


def _arranged(known: list[NamedColumn], by_name: bool, X: Any) -> list[NamedColumn]:
    """Return the columns of a block, in the order of the first block."""
    columns, named = read_columns(X)
    return ordered_columns(columns, named, tuple(c.name for c in known), by_name)


def _blocks_of_columns(
    blocks: RowBlocks, known: Callable[[Any], list[NamedColumn]], own: Mapping[str, Any]
) -> Iterator[tuple[Block, list[NamedColumn]]]:
    """Yield each block and its columns but for `own` ones; refusals name file and row."""
    for block in blocks:
        try:
            columns = [column for column in known(block.X) if column.name not in own]
            for column in columns:
                if column.kind == "number":
                    numbers(column)
        except (InvalidInput, TypeError) as error:
            raise block.blamed(error) from error
        yield block, columns


def _add_numbers(
    columns: list[NamedColumn],
    streams: dict[str, StreamedMoments],
    texts: set[str],
    weight: np.ndarray | None,
    gaps: Mapping[str, _Gaps] | None = None,
) -> None:
    for column in columns:
        if column.name not in texts:
            x = numbers(column)
            streams[column.name].add(x, weight)
            if gaps is not None:
                gaps[column.name].add(x, weight)


def _require_room(rows: int, width: int) -> None:
    """Refuse blocks that would not fit the memory budget when they are encoded."""
    fits = max(1, get_config().memory // (_BLOCKS * 8 * width))
    require_memory(
        _BLOCKS * 8 * rows * width,
        f"a block of {rows} rows, each of them {width} numbers when its categories are encoded,",
        f"Make the RowBlocks with block_rows={fits}, or lower max_categories",
    )


def _weights(sample_weight: Any, n: int) -> np.ndarray | None:
    if sample_weight is None or (isinstance(sample_weight, int | float) and sample_weight > 0):
        return None
    try:
        weight = checks.as_reals(to_host(sample_weight, "sample_weight"))
    except (OverflowError, TypeError, ValueError):
        weight = np.full(1, np.nan)
    if weight.shape != (n,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidInput(
            f"TableEncoder: sample_weight must hold {n} finite numbers >= 0, one for each row."
        )
    if not weight.any():
        raise InvalidInput("TableEncoder: all sample_weight are zero; leave out no more than some.")
    return weight


def _counted(
    count: dict[str | None, float], labels: Sequence[str | None], weight: np.ndarray | None
) -> dict[str | None, float]:
    """Add to the weight of each category that of its rows, and return all."""
    if weight is None:
        for key, rows in Counter(labels).items():
            count[key] = count.get(key, 0.0) + rows
        return count
    for key, w in zip(labels, weight, strict=True):
        if w > 0:
            count[key] = count.get(key, 0.0) + w
    return count


def _frequent(count: dict[str | None, float], most: int) -> tuple[str | None, ...]:
    kept = sorted(count, key=lambda k: (-count[k], k is None, k or ""))[:most]
    return tuple(sorted(kept, key=lambda k: (k is None, k or "")))


def _require_few(count: Sized, name: str) -> None:
    """Refuse more categories than the memory budget lets a column have."""
    most = max(1000, get_config().memory // _CATEGORY)
    if len(count) > most:
        raise InvalidInput(
            f"{who()}: column {name!r} holds more than {most} different texts, as names or "
            "identifiers do, too many to count under this memory budget; leave the column out: "
            f"drop=[{name!r}]."
        )
