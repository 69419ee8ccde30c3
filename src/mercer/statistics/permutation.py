"""The one loop that draws nulls: ways to shuffle, and how often shuffled data reach a statistic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from mercer.checks import check_index
from mercer.domains import namespace
from mercer.errors import InvalidInput, speaks, who
from mercer.memory import named_when_full
from mercer.operators import Place, with_first
from mercer.statistics.base import TestResult, check_finite
from mercer.threads import Ticker

FIRST = 64  # draws of the first batch where drawing may end early; each further one is double
MOST = 4096  # draws looked at together
FEWER = "Use fewer rows, or a rank"
STUCK = (
    "{}: nothing can change places: no two rows or blocks of one length and one stratum lie in "
    "different places or samples. Give blocks of equal length, one row for each block, such as its "
    "mean, or fewer strata."
)


class Design(Protocol):
    """A way to shuffle that leaves the law of the data as it is when the hypothesis is true."""

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` independent draws, one a row."""


class Shuffle:
    """Permutations of n rows: place i receives row p[i].

    Rows of one block move together and keep their order: blocks of one length change places, and
    only within their stratum.

    Parameters
    ----------
    n : int
        Number of rows.
    blocks : int or array of shape (n,), optional
        The length of runs of consecutive rows, of which a shorter last one stays; or a label for
        each row.
    strata : array of shape (n,), optional
        A label for each row.
    """

    @speaks("Shuffle", unless_spoken=True)
    def __init__(self, n: int, *, blocks: Any = None, strata: Any = None):
        self.n = n
        self.plain = blocks is None and strata is None
        units = _Units(n, blocks, strata, [n], None)
        order = np.argsort(units.of, kind="stable")
        starts = np.cumsum(units.lengths) - units.lengths
        # The rows of alike blocks, a block a row.
        self.groups = [
            order[starts[group][:, None] + np.arange(units.lengths[group[0]])]
            for group in units.groups
            if len(group) > 1
        ]
        if n > 1 and not self.groups:
            raise InvalidInput(STUCK.format(who()))

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` permutations, one draw a row."""
        p = np.broadcast_to(np.arange(self.n), (size, self.n)).copy()
        if self.plain:
            return rng.permuted(p, axis=1, out=p)
        # One draw after the other, so that the draws do not depend on how many are asked at once.
        for row in p:
            for group in self.groups:
                row[group] = group[rng.permutation(len(group))]
        return p


class Relabel:
    """Labels of rows, shuffled; all rows of a block keep one label.

    Blocks of one length change labels, as for `Shuffle`, so that samples keep their sizes: the law
    of the data stays as it is even where the blocks of one sample are longer than those of another.

    Parameters
    ----------
    labels : array of integers of shape (n,)
        Which sample a row belongs to.
    blocks : int or array of shape (n,), optional
        Rows of one sample that move together; runs of a given length begin anew in each sample.
    strata : array of shape (n,), optional
        Labels change places only within a stratum.
    counts : array of integers of shape (n,), optional
        How many rows each row stands for in the length of its block.
    names : array of shape (n,), optional
        What the block of each row is called, for messages.
    """

    @speaks("Relabel", unless_spoken=True)
    def __init__(
        self,
        labels: Any,
        *,
        blocks: Any = None,
        strata: Any = None,
        counts: np.ndarray | None = None,
        names: np.ndarray | None = None,
    ):
        self.labels = np.asarray(labels)
        n, sizes = len(self.labels), np.unique(self.labels, return_counts=True)[1].tolist()
        units = _Units(n, blocks, strata, sizes, counts)
        self.heads, self.of = units.heads, units.of
        own = self.labels[self.heads]
        torn = np.flatnonzero(self.labels != own[self.of])
        if len(torn):
            name = f"of row {torn[0]}" if names is None else f"'{names[torn[0]]}'"
            raise InvalidInput(
                f"{who()}: the block {name} has rows in several samples, and blocks move whole. "
                "Compare within such labels by strata=, or give one array of blocks for each "
                "sample, where a label that occurs in two is two blocks."
            )
        self.groups = [group for group in units.groups if (own[group] != own[group[0]]).any()]
        if len(sizes) > 1 and not self.groups:
            raise InvalidInput(STUCK.format(who()))

    @property
    def moving(self) -> int:
        """Number of rows or blocks whose label can change."""
        return sum(len(group) for group in self.groups)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` labels, one draw a row."""
        own = np.broadcast_to(self.labels[self.heads], (size, len(self.heads))).copy()
        if self.moving == len(self.heads) and len(self.groups) == 1:
            rng.permuted(own, axis=1, out=own)
        else:
            for row in own:
                for group in self.groups:
                    row[group] = row[group][rng.permutation(len(group))]
        return own if len(self.heads) == len(self.labels) else own[:, self.of]


class Signs:
    """Random signs, one for each row or block: the wild bootstrap."""

    @speaks("Signs", unless_spoken=True)
    def __init__(self, n: int, *, blocks: Any = None):
        units = _Units(n, blocks, None, [n], None)
        self.n, self.of, self.count = n, units.of, len(units.heads)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` rows of +1 and −1."""
        signs = 2.0 * rng.integers(0, 2, size=(size, self.count)) - 1.0
        return signs if self.count == self.n else signs[:, self.of]


@dataclass(frozen=True, eq=False)
class Null:
    """Statistics of shuffled data.

    Parameters
    ----------
    values : ndarray of shape (n_drawn,) or (n_drawn, q)
        In the order in which they were drawn.
    exceedances : int or None
        Draws that reached the statistic; None for several statistics at once.
    n_drawn : int
        Number of draws.
    stopped : bool
        Whether the draws ended at the exceedance agreed on before.
    pvalue : float or None
        (k + 1)/(B + 1), or h/l when stopped at the h-th exceedance, the l-th draw.
    observed : float or ndarray of shape (q,)
        The statistic of the data.
    """

    values: np.ndarray
    exceedances: int | None
    n_drawn: int
    stopped: bool
    pvalue: float | None
    observed: Any = None


@speaks("resample", unless_spoken=True)
def resample(
    observed: Any,
    evaluate: Callable[[np.ndarray], np.ndarray],
    design: Design,
    n_permutations: int,
    rng: np.random.Generator,
    *,
    early_stop: int | None = None,
    largest_batch: int | None = None,
    resolution: float = 0.0,
    data: np.ndarray | None = None,
) -> Null:
    """Draw a null and say how often it reaches the statistic.

    The data themselves are one of the arrangements that the hypothesis makes equally likely, hence
    (k + 1)/(B + 1): it is never 0, and at most u with probability at most u. A draw that equals the
    statistic up to rounding reaches it. Batches do not change the draws.

    Parameters
    ----------
    observed : float, array of shape (q,) or None
        The statistic of the data; None to evaluate `data` together with the first batch, which
        saves a pass over a matrix that is not stored.
    evaluate : callable
        Draws, one a row → their statistics, shape (b,) or (b, q).
    design : Design
        What is drawn.
    n_permutations : int
        B, the largest number of draws.
    rng : Generator
        Source of randomness.
    early_stop : int, optional
        h: stop at the h-th draw that reaches the statistic (Besag and Clifford, Biometrika 78,
        1991). Large p-values then cost few draws.
    largest_batch : int, optional
        Most draws to evaluate together.
    resolution : float, default=0.0
        Error of a statistic by rounding; differences below it are ties.
    data : array, optional
        The draw that leaves the data as they are, when `observed` is None.

    Returns
    -------
    Null
        The draws and the p-value.
    """
    B = check_index(n_permutations, "n_permutations", 1)
    if early_stop is not None:
        check_index(early_stop, "early_stop", 1)
    most = min(MOST, largest_batch or MOST)
    batch = most if early_stop is None else min(FIRST, most)
    values: list[np.ndarray] = []
    drawn = reached = 0
    stopped = False
    ticker = Ticker(who())
    while drawn < B and not stopped:
        size = min(batch, B - drawn)
        # Overflows are named below.
        with np.errstate(over="ignore", invalid="ignore"), named_when_full(who(), FEWER):
            draws = design.draw(rng, size)
            if observed is None and data is not None:
                found = np.asarray(evaluate(with_first(data, draws)), dtype=float)
                observed, found = found[0], found[1:]
            else:
                found = np.asarray(evaluate(draws), dtype=float)
        check_finite(observed)
        check_finite(found)
        if np.ndim(observed) > 0:
            if early_stop is not None:
                raise InvalidInput(f"{who()}: early_stop is for one statistic, not for several.")
        else:
            slack = max(resolution, 1e-12 * float(np.abs(found).max(initial=abs(observed))))
            hits = np.flatnonzero(found >= observed - slack)
            if early_stop is not None and reached + len(hits) >= early_stop:
                last = int(hits[early_stop - reached - 1])
                found, hits, stopped = found[: last + 1], hits[: early_stop - reached], True
            reached += len(hits)
        values.append(found)
        drawn += len(found)
        ticker.tell(f"{drawn} of {B} permutations")
        batch = min(2 * batch, most)
    ticker.close()
    whole = np.concatenate(values)
    if np.ndim(observed) > 0:
        return Null(whole, None, drawn, False, None, observed)
    pvalue = reached / drawn if stopped else (reached + 1) / (drawn + 1)
    return Null(whole, reached, drawn, stopped, pvalue, float(observed))


def state_of(rng: np.random.Generator) -> tuple[Any, Any]:
    """Return what `generator_at` needs to make the draws that come now once more.

    Parameters
    ----------
    rng : Generator
        Left as it is.
    """
    return type(rng.bit_generator), rng.bit_generator.state


def generator_at(state: tuple[Any, Any]) -> np.random.Generator:
    """Return a generator that draws what another drew from a state on.

    Parameters
    ----------
    state : tuple
        What `state_of` returned.
    """
    bits = state[0]()
    bits.state = state[1]
    return np.random.Generator(bits)


def drawn_result(drawn: Null, method: str, sizes: tuple[int, ...], extra: dict) -> TestResult:
    """Return the result of a test whose null was drawn."""
    return TestResult(
        drawn.observed,
        cast(float, drawn.pvalue),
        drawn.values,
        method + (", stopped early" if drawn.stopped else ""),
        drawn.n_drawn,
        sizes,
        drawn.exceedances,
        drawn.stopped,
        extra,
    )


# ------------------------------------------------------------------------------------- blocks
def row_labels(values: Any, sizes: Sequence[int], name: str) -> np.ndarray | None:
    """Return blocks or strata as a whole number for each row of all samples, as they were given.

    Blocks of two samples are never one block where they are given apart: their names may repeat.

    Parameters
    ----------
    values : int, array, sequence of arrays or None
        A label for each row, in one array or one a sample; or, of blocks, the length of runs of
        consecutive rows, begun anew in each sample.
    sizes : sequence of int
        Rows of each sample.
    name : {"blocks", "strata"}
        Which argument.
    """
    if values is None:
        return None
    total, several = int(np.sum(sizes)), len(sizes) > 1
    own = np.repeat(np.arange(len(sizes)), sizes)
    listed = isinstance(values, tuple | list)
    if name == "blocks" and not listed and np.ndim(values) == 0 and not isinstance(values, str):
        length = min(check_index(values, name, 1), max(total, 1))
        return own * total + np.concatenate([np.arange(size) for size in sizes]) // length
    apart = several and listed and len(values) == len(sizes)
    try:
        apart = apart and all(np.ndim(part) == 1 for part in values)
        flat = np.concatenate([*map(np.asarray, values)]) if apart else np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{who()}: {name} is ragged; give a label for each row.") from None
    if flat.shape != (total,):
        raise InvalidInput(
            f"{who()}: {name} has shape {flat.shape}; give a label for each of the {total} rows"
            + (" of all samples, or one array for each sample" if several else "")
            + (", or one number, the length of runs of rows." if name == "blocks" else ".")
        )
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise InvalidInput(f"{who()}: {name} holds NaN or infinity; give every row a label.")
    codes = np.unique(flat.astype(str) if flat.dtype == object else flat, return_inverse=True)[1]
    return codes.reshape(-1) + (own * total if apart and name == "blocks" else 0)


class _Units:
    """Rows or blocks of rows that move as one, in groups that may change places.

    `of` is the unit of each row, `heads` the first row and `lengths` the rows of each unit; units
    of one group have one length and one stratum.
    """

    def __init__(
        self, n: int, blocks: Any, strata: Any, sizes: Sequence[int], counts: np.ndarray | None
    ):
        kinds = row_labels(strata, sizes, "strata")
        self.heads = self.of = np.arange(n)
        if blocks is not None:
            codes = np.asarray(row_labels(blocks, sizes, "blocks"))
            _, self.heads, self.of = np.unique(codes, return_index=True, return_inverse=True)
        kinds = np.zeros(n, dtype=int) if kinds is None else kinds
        torn = np.flatnonzero(kinds != kinds[self.heads][self.of])
        if len(torn):
            raise InvalidInput(
                f"{who()}: the block of row {torn[0]} has rows in several strata; a block lies in "
                "one stratum."
            )
        self.lengths = np.bincount(self.of, minlength=len(self.heads))
        if counts is not None:
            self.lengths = np.bincount(self.of, counts, len(self.heads)).astype(np.int64)
        alike = np.unique(
            kinds[self.heads] * (self.lengths.max(initial=0) + 1) + self.lengths,
            return_inverse=True,
        )[1].reshape(-1)
        order = np.argsort(alike, kind="stable")
        self.groups = np.split(order, np.flatnonzero(np.diff(alike[order])) + 1) if n else []


# ---- Labels for the copies of rows that count many times, drawn as numbers of copies ----


MOST_COPIES = 10**9  # numpy's hypergeometric law takes fewer


class CountedRelabel:
    """How many copies of each row go to each sample, when all copies change labels at random.

    Labels shuffled copy by copy give sample 0 a number of copies of each row that follows the
    multivariate hypergeometric law; of the copies left, sample 1 takes so many, and so on. That
    takes as long for a million copies of a row as for two. Labels change only within strata.
    """

    @speaks("Relabel", unless_spoken=True)
    def __init__(self, labels: Any, counts: np.ndarray, *, strata: Any = None):
        total = int(counts.sum())
        if total >= MOST_COPIES:
            raise InvalidInput(
                f"{who()}: whole-number weights are counts, and these count {total} rows; at most "
                f"{MOST_COPIES} can be shuffled. Divide weights that are no counts by their mean."
            )
        self.counts = counts
        self.groups = Relabel(labels, strata=strata).groups
        # The draw that leaves the data as they are; a draw has as many rows as there are samples.
        own = np.arange(int(np.max(labels)) + 1)[:, None] == labels
        self.labels = np.where(own, counts, 0).astype(np.int32)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` draws, each with the copies of all rows in each sample: (size, k, n)."""
        drawn = np.broadcast_to(self.labels, (size, *self.labels.shape)).copy()
        totals = [self.labels[:, group].sum(1) for group in self.groups]
        # One draw after the other, so that the draws do not depend on how many are asked at once.
        for one in drawn:
            for group, sizes in zip(self.groups, totals, strict=True):
                left = self.counts[group]
                for sample, taken in enumerate(sizes[:-1]):
                    share = rng.multivariate_hypergeometric(left, taken, method="marginals")
                    one[sample, group] = share
                    left = left - share
                one[-1, group] = left
        return drawn


# ---- Draws made on a device, where those of a host would take longer than what is done with
# them.


MANY = 2**22  # labels in all draws up to which a host draws them, the same for all engines
CHUNK = 256  # draws of one seed; fixed, so that batches do not change the draws


class DeviceDraws:
    """Draws of a design in which any row may change places with any other.

    A random order of the rows is that of independent random numbers. These have 63 bits: that two
    of some thousand agree, and the order prefers one, is an event of probability 1e-12. A generator
    on the device takes its seeds from that of the user, so a seed fixes the draws, on one kind of
    device; they are others than NumPy's from the same seed, and as valid.
    """

    def __init__(self, design: Any, place: Place):
        self.design, self.place = design, place

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Return `size` draws, one a row, as a tensor."""
        parts = [
            self._chunk(min(CHUNK, size - start), int(rng.integers(2**63)))
            for start in range(0, size, CHUNK)
        ]
        return namespace(parts[0]).concatenate(parts)

    def _chunk(self, size: int, seed: int) -> Any:
        design, place = self.design, self.place
        if isinstance(design, Signs):
            return place.signs(size, design.n, seed)
        if isinstance(design, Shuffle):
            return place.orders(size, design.n, seed)
        order = place.orders(size, len(design.labels), seed)
        return place.tensor(np.asarray(design.labels))[order]


def drawn_there(design: Any, place: Place | None, draws: int) -> Any:
    """Return the design, or the same made on a device where that pays."""
    if place is None or not place.remote or not plain(design):
        return design
    size = design.n if isinstance(design, Shuffle | Signs) else len(design.labels)
    return DeviceDraws(design, place) if size * draws > MANY else design


def plain(design: Any) -> bool:
    """Whether any row of a design may change places with any other."""
    if isinstance(design, Shuffle):
        return design.plain
    if isinstance(design, Signs):
        return design.count == design.n
    if not isinstance(design, Relabel):
        return False
    return len(design.groups) == 1 and design.moving == len(design.heads) == len(design.labels)
