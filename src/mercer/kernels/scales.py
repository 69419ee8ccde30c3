"""Data-driven length scales: the median heuristic and scikit-learn's gamma="scale"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Domain, RowBlocks, beside, namespace, to_host
from mercer.domains.blocks import Block, no_weight
from mercer.engines.passes import each_block
from mercer.errors import InvalidInput
from mercer.memory import on_gpu, require_memory
from mercer.settings import get_config

# ---- Data-driven length scales of rows on a GPU: all n × d numbers are looked at where they lie.


DEVICE_ENTRIES = 2**24  # numbers of a chunk of rows


def spread_on_device(
    X: Any, w: np.ndarray | None, most: int, line: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return at most so many rows, evenly spread along a line, and how often each was met.

    The rows are those that `median_distance` takes of an array.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows.
    w : ndarray of shape (n,) or None
        Weights; None for ones.
    most : int
        Rows wanted; all are returned where there are no more.
    line : ndarray of shape (d,)
        The direction of the line.

    Returns
    -------
    rows : ndarray of shape (m, d)
        In main memory.
    counts : ndarray of shape (m,)
        Weights of the rows.
    """
    X = X.detach()
    kept = None if w is None else np.flatnonzero(w)
    if (len(X) if kept is None else len(kept)) <= most:
        if w is None or kept is None:
            return to_host(X), np.ones(len(X))
        return to_host(X[kept]), w[kept]
    n, xp = len(X), namespace(X)
    require_memory(
        48 * n,  # positions on the line, their order, and the room to sort them
        f"the median distance of {n} points",
        "Give the length scale as a number, or those of some points",
        X,
    )
    wide = X[:0].double()
    largest = max(float(part.abs().max()) for _, part in _chunks(X)) or 1.0
    direction, place = beside(line / largest, wide), wide.new_empty(n)
    for rows, part in _chunks(X):
        place[rows] = part.double() @ direction
    place, order = place.sort(stable=True)
    # Copies lie at one place up to rounding; few different points are taken whole, with counts.
    higher = place.float().diff() > 0
    del place
    share = (wide.new_ones(n) if w is None else beside(w, wide)[order]).cumsum(0)
    if int(higher.sum()) < most:
        ends = higher.nonzero()[:, 0]
        last = xp.concatenate([ends, ends.new_full((1,), n - 1)])
        counts = share[last].diff(prepend=share.new_zeros(1))
        last, counts = last[counts > 0], counts[counts > 0]
    else:
        wanted = (np.arange(most) + 0.5) / most * float(share[-1])
        found = xp.searchsorted(share, beside(wanted, share))
        last, counts = found.unique(return_counts=True)
    return to_host(X[order[last]]), to_host(counts).astype(float)


def deviation_on_device(X: Any, w: np.ndarray | None) -> tuple[float, int]:
    """Return the standard deviation of all entries over 2ᵉ, and e; 0 if all are equal."""
    X = X.detach()
    weights = None if w is None else beside(w, X[:0].double())

    def parts() -> Iterator[tuple[Any, Any]]:
        for rows, part in _chunks(X):
            if weights is None:
                yield part, None
                continue
            counted = weights[rows] > 0
            yield part[counted], weights[rows][counted]

    ends = [(float(part.min()), float(part.max())) for part, _ in parts() if len(part)]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not low < high:
        return 0.0, 0
    exponent = int(np.frexp(max(-low, high))[1])
    total = X.shape[1] * (float(len(X)) if weights is None else float(weights.sum()))

    def mean_of(power: int, centre: float) -> float:
        found = 0.0
        for part, share in parts():
            moved = _over(part.double(), exponent).sub_(centre).pow_(power).sum(1)
            found += float(moved.sum() if share is None else moved @ share)
        return found / total

    mean = mean_of(1, 0.0)
    return mean_of(2, mean) ** 0.5, exponent


def _over(part: Any, exponent: int) -> Any:
    """Return x/2ᵉ, in two steps as 2ᵉ may be no number; x is not changed."""
    half = exponent // 2
    return part * 2.0**-half * 2.0 ** (half - exponent)


def _chunks(X: Any) -> Iterator[tuple[slice, Any]]:
    step = max(1, DEVICE_ENTRIES // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        yield slice(start, start + step), X[start : start + step]


# ---- Rows in blocks: their length scales are those of the same rows in memory ----


ROW = 96  # bytes a row that are held while all rows are looked at
BLOCK_ENTRIES = 2**16  # numbers of a block looked at together


def all_are_seen(rows: RowBlocks) -> bool:
    """Whether a quarter of the memory budget holds what length scales need of each row."""
    return ROW * rows.n_rows <= get_config().memory // 4


class BlockRows:
    """Vectors in blocks, as `median_distance` and `standard_deviation` look at them.

    Some numbers of each row are brought together, and the rest is computed of these in the order
    of the rows: no bit depends on how the rows are cut into blocks, nor on where these are.
    """

    def __init__(self, rows: RowBlocks, domain: Domain):
        self.rows, self.domain = rows, domain
        d = rows.n_columns
        self.shape = (rows.n_rows, rows.first().points(domain).shape[1] if d is None else d)

    def spread(self, most: int, line: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return at most so many rows, evenly spread along a line, and how often each was met."""
        found = each_block(self.rows, _Largest(self.domain))
        w = _weights([weight for _, weight in found])
        index = np.flatnonzero(w)
        if len(index) > most:
            unit = max(largest for largest, _ in found) or 1.0
            place = np.concatenate(each_block(self.rows, _Places(self.domain, line / unit)))
            index, counts = spread_places(place, w, most)
        else:
            counts = w[index]
        return self.domain.check(self.rows.take(index, domain=self.domain), "X"), counts

    def deviation(self) -> tuple[float, int]:
        """Return the standard deviation of all entries over 2ᵉ, and e; 0 if all are equal."""
        found = each_block(self.rows, _RowMoments(self.domain))
        w = _weights([weight for *_, weight in found])
        low, high = min(block[1] for block in found), max(block[2] for block in found)
        if not low < high:
            return 0.0, 0
        kept, w = w > 0, w[w > 0] / w.sum()
        mean, rest, squares, exponent = (
            np.concatenate(parts)[kept]
            for parts in zip(*(block[0] for block in found), strict=True)
        )
        e = int(exponent.max())
        mean, rest = np.ldexp(mean, exponent - e), np.ldexp(rest, exponent - e)
        squares = np.ldexp(squares, 2 * (exponent - e))
        # np.sum adds in one order whatever the threads, a product of BLAS does not
        rest += mean - np.sum(w * mean)
        variance = np.sum(w * (squares + rest**2)) - np.sum(w * rest) ** 2
        return float(np.sqrt(variance)), e


def _weights(parts: list[np.ndarray]) -> np.ndarray:
    w = np.concatenate(parts)
    if not (w > 0).any():
        raise no_weight()
    return w


def _weight(block: Block) -> np.ndarray:
    if block.weight is None:
        return np.ones(len(block))
    return np.asarray(to_host(block.weight), dtype=np.float64)


def _slices(X: Any) -> list[slice]:
    """Return slices of a few rows, one at least."""
    n, d = X.shape
    width = X.nnz // max(1, n) if sp.issparse(X) else d
    step = max(1, BLOCK_ENTRIES // max(1, width))
    return [slice(start, start + step) for start in range(0, max(1, n), step)]


@dataclass(frozen=True)
class _Largest:
    """The largest absolute value of a block, and its weights."""

    domain: Domain

    def __call__(self, block: Block) -> tuple[float, np.ndarray]:
        X = to_host(block.points(self.domain))
        values = X.data if sp.issparse(X) else X
        largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        return largest, _weight(block)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the rows of a block lie on a line."""

    domain: Domain
    line: np.ndarray

    def __call__(self, block: Block) -> np.ndarray:
        X = to_host(block.points(self.domain))
        return np.concatenate([np.asarray(X[rows] @ self.line).reshape(-1) for rows in _slices(X)])


@dataclass(frozen=True)
class _RowMoments:
    """The moments of each row of a block, the ends of rows that count, and the weights."""

    domain: Domain

    def __call__(self, block: Block) -> tuple[list[np.ndarray], float, float, np.ndarray]:
        X, weight = to_host(block.points(self.domain)), _weight(block)
        found = list(zip(*(_row_moments(X[rows]) for rows in _slices(X)), strict=True))
        *moments, low, high = map(np.concatenate, found)
        low, high = low[weight > 0].min(initial=np.inf), high[weight > 0].max(initial=-np.inf)
        return moments, float(low), float(high), weight


def _row_moments(X: Any) -> tuple[np.ndarray, ...]:
    """Return mean, what its rounding left and variance of each row over 2ᵉ and 4ᵉ, e, and ends.

    The mean of numbers far from 0 is rounded more coarsely than they differ.
    """
    n, d = X.shape
    if not sp.issparse(X):
        low, high = X.min(axis=1).astype(np.float64), X.max(axis=1).astype(np.float64)
        exponent = np.frexp(np.maximum(-low, high))[1]
        X = np.ldexp(np.ascontiguousarray(X, dtype=np.float64), -exponent[:, None])
        mean = X.mean(axis=1)
        X -= mean[:, None]
        rest, squares = X.mean(axis=1), np.square(X).mean(axis=1)
        return mean, rest, squares - rest**2, exponent, low, high
    X = X.copy()
    X.sum_duplicates()
    stored = np.diff(X.indptr)
    row = np.repeat(np.arange(n), stored)
    low, high = (end(axis=1).toarray().reshape(n).astype(np.float64) for end in (X.min, X.max))
    exponent = np.frexp(np.maximum(-low, high))[1]
    values = np.ldexp(X.data.astype(np.float64), -exponent[row])
    mean = np.bincount(row, values, n) / d
    values -= mean[row]
    rest = (np.bincount(row, values, n) - (d - stored) * mean) / d
    squares = (np.bincount(row, values**2, n) + (d - stored) * mean**2) / d
    return mean, rest, squares - rest**2, exponent, low, high


# ---- scales ----


SUBSAMPLE = 1000
WORK = 4e8  # coordinates compared in one pass over all pairs
ENTRIES = 4096  # numbers looked at together: memory stays small whatever the data
BINS = 1024
PROBES = 4000  # distances that tell about where the median is
CONSTANT = 1e-13  # numbers that differ by less, relatively, are the same number
HALVES = 1e-12  # as much is rounding of a sum of weights
SHARE = 0.02  # of the distances, on either side of that of the probes, among which it is looked for


def point_weights(n: int, sample_weight: Any) -> np.ndarray:
    """Return a weight for each of n points, ones where none are given."""
    if sample_weight is None:
        return np.ones(n)
    w = np.asarray(to_host(sample_weight, "sample_weight"), dtype=float)
    if w.shape != (n,):
        raise InvalidInput(
            f"sample_weight has shape {w.shape}, expected ({n},): one for each point."
        )
    return w


def exponent_of(largest: float) -> int:
    """Return e such that numbers up to this, over 2ᵉ, are at most 1: no square overflows."""
    return int(np.frexp(largest)[1])


def _restored(value: float, exponent: int) -> float:
    """Return value·2ᵉ, a positive float even where it would leave their range."""
    info = np.finfo(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.clip(np.ldexp(value, exponent), info.smallest_subnormal, info.max))


def scale_meant(word: str, X: Any, sample_weight: Any) -> float:
    """Return the length scale that a word stands for on these points: "median" or "scale"."""
    if word == "median":
        return median_distance(X, sample_weight)
    # exp(−γs) with scikit-learn's γ = 1/(d·Var X) is ℓ = √(d·Var X / 2) in our form.
    return (X.shape[1] / 2) ** 0.5 * standard_deviation(X, sample_weight)


# ------------------------------------------------------------------------------------ median
def median_distance(X: Any, sample_weight: Any = None, metric: str | float = "euclidean") -> float:
    """Return the weighted median of the distances between distinct points; 1 when there are none.

    Pairs count with the product of their weights and coinciding points not at all, so repeating a
    point is the same as weighting it. Beyond 1000 points (of more than 400 columns
    fewer, down to 200) a subset decides that is evenly spread along a line; it depends neither on
    the order of the points nor on whether one is weighted or given several times. A metric is one
    of SciPy's names, or the p of an ℓₚ distance.
    """
    most = min(SUBSAMPLE, max(200, int((WORK / max(1, X.shape[1])) ** 0.5)))
    if isinstance(X, BlockRows):
        X, w = X.spread(most, _line(X.shape[1]))
    elif on_gpu(X):
        given = None if sample_weight is None else point_weights(X.shape[0], sample_weight)
        X, w = spread_on_device(X, given, most, _line(X.shape[1]))
    else:
        X, w = to_host(X), point_weights(X.shape[0], sample_weight)
    if np.count_nonzero(w) > most:
        index, w = spread_rows(X, w, most)
        X = X[index]
    elif not w.all():
        X, w = X[w > 0], w[w > 0]
    if sp.issparse(X):
        X = X[:, np.unique(X.indices)].toarray()  # empty columns add nothing
    X = X.astype(np.float64)
    exponent = exponent_of(np.abs(X).max(initial=0.0))
    # only ratios of weights matter, and products of large ones overflow
    w = np.ldexp(w, -exponent_of(w.max(initial=0.0)))
    pairs = Pairs(np.ldexp(X, -exponent), w, metric)
    largest, probes = 0.0, []
    stride = max(1, len(w) * (len(w) - 1) // (2 * PROBES))
    for d, v in pairs:
        largest = max(largest, float(d.max(initial=0.0)))
        probes.append(np.stack([d[::stride], v[::stride]]))
    if not largest > 0:
        return 1.0
    # Coincidence is judged on the scale of the data, so rounding does not count as a distance.
    least = 1e-12 * largest
    found = _bracketed(pairs, probes, least)
    if found is not None:
        return _restored(found, exponent)
    half = 0.5 * sum(float(v[d > least].sum()) for d, v in pairs)
    low = select_distance(pairs, half * (1 - HALVES), least, largest)
    # The mean of the middle two where the weights split evenly.
    below, high = 0.0, largest
    for d, v in pairs:
        below += float(v[(d > least) & (d <= low)].sum())
        high = min(high, float(d[d > low].min(initial=largest)))
    high = low if below >= half * (1 + HALVES) else high
    return _restored(0.5 * (low + high), exponent)


def spread_rows(X: Any, w: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of points evenly spread along a line, and how often each was met."""
    n, d = X.shape
    line = _line(d)
    step = max(1, ENTRIES // max(1, d))
    blocks = [slice(start, start + step) for start in range(0, n, step)]
    largest = max(float(np.abs(_entries_of(X[rows])).max(initial=0.0)) for rows in blocks) or 1.0
    place = np.empty(n)
    for rows in blocks:
        place[rows] = np.asarray(X[rows] @ (line / largest)).reshape(-1)
    return spread_places(place, w, most)


def spread_places(place: np.ndarray, w: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of points whose places on a line are evenly spread, and their counts."""
    order = np.argsort(place, kind="stable")
    share = np.cumsum(w[order])
    # Copies lie at one place up to rounding; few different points are taken whole, with counts.
    step_up = np.diff(place[order].astype(np.float32)) > 0
    if np.count_nonzero(step_up) < most:
        last = np.append(np.flatnonzero(step_up), len(place) - 1)
        counts = np.diff(share[last], prepend=0.0)
        return order[last][counts > 0], counts[counts > 0]
    wanted = (np.arange(most) + 0.5) / most * share[-1]
    found, met = np.unique(np.searchsorted(share, wanted), return_counts=True)
    return order[found], met.astype(float)


def _line(d: int) -> np.ndarray:
    """Return a fixed direction without structure: parts of multiples of the golden ratio."""
    return 0.5 + np.mod(np.arange(1, d + 1) * 0.6180339887498949, 1.0)


def _entries_of(X: Any) -> np.ndarray:
    return np.asarray(X.data if sp.issparse(X) else X)


class Pairs:
    """The distances of pairs i < j and the products of their weights, some rows at a time."""

    def __init__(self, X: np.ndarray, w: np.ndarray, metric: str | float):
        self.X, self.w = X, w
        # SciPy has loops of their own for these, and no others for the rest.
        names: dict[Any, Any] = {1.0: "cityblock", 2.0: "euclidean"}
        name = names.get(metric, metric)
        named = isinstance(name, str)
        self.metric: dict = {"metric": name} if named else {"metric": "minkowski", "p": name}

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        from scipy.spatial.distance import cdist

        n = len(self.X)
        step = max(1, ENTRIES // max(1, n))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            later = np.arange(start, n)[None, :] > np.arange(start, rows.stop)[:, None]
            distances = cdist(self.X[rows], self.X[start:], **self.metric)
            weights = self.w[rows][:, None] * self.w[None, start:]
            yield distances[later], weights[later]


def _bracketed(pairs: Pairs, probes: list[np.ndarray], least: float) -> float | None:
    """Return the median when a few percent of the distances, around that of the probes, hold it.

    One pass instead of those of `_select`, which is for what this leaves: None.
    """
    d, v = np.concatenate(probes, axis=1)
    probes.clear()
    d, v = d[d > least], v[d > least]
    if not len(d):
        return None
    order = np.argsort(d)
    share = np.cumsum(v[order])
    ends = np.searchsorted(share, share[-1] * np.array([0.5 - SHARE, 0.5 + SHARE]))
    low, high = d[order[np.minimum(ends, len(d) - 1)]]
    del d, v, order, share
    n = len(pairs.w)
    alike = bool((pairs.w == pairs.w[0]).all())  # then distances alone are kept
    most = int(1.25 * 2 * SHARE * n * (n - 1) / 2) + 16
    total = below = 0.0
    count, kept = 0, np.empty((1 if alike else 2, most))
    for d, v in pairs:
        total += float(v[d > least].sum())
        below += float(v[(d > least) & (d <= low)].sum())
        inside = (d > low) & (d <= high)
        d, v = d[inside], v[inside]
        if count + len(d) > most:  # many distances are equal, or nearly
            return None
        kept[0, count : count + len(d)] = d
        kept[1:, count : count + len(d)] = v
        count += len(d)
    half = 0.5 * total
    if below >= half * (1 - HALVES) or not count:
        return None
    if alike:
        each = float(pairs.w[0]) ** 2
        d = kept[0, :count]
        d.sort()
        first = int(np.ceil((half * (1 - HALVES) - below) / each)) - 1
        reached = below + each * (first + 1)
    else:
        order = np.argsort(kept[0, :count])
        d, v = kept[:, order]
        np.cumsum(v, out=v)
        first = int(np.searchsorted(v, half * (1 - HALVES) - below))
        reached = below + v[min(first, count - 1)]
    if first + 1 >= count:
        return None
    second = first if reached >= half * (1 + HALVES) else first + 1
    return float(0.5 * (d[first] + d[second]))


def select_distance(pairs: Pairs, target: float, low: float, high: float) -> float:
    """Return the least distance d in (low, high] with a weight of target or more in (low, d].

    Histograms narrow the interval until what is left of it can be sorted.
    """
    while True:
        edges = np.linspace(low, high, BINS + 1)
        weight, count = np.zeros(BINS), np.zeros(BINS, dtype=int)
        for d, v in pairs:
            inside = (d > low) & (d <= high)
            bins = np.searchsorted(edges, d[inside], side="left") - 1
            weight += np.bincount(bins, v[inside], BINS)
            count += np.bincount(bins, minlength=BINS)
        filled = np.flatnonzero(count)
        reached = filled[np.cumsum(weight[filled]) >= target]
        k = int(reached[0]) if len(reached) else int(filled[-1])
        target -= float(weight[:k].sum())
        narrower = edges[k + 1] - edges[k] < high - low
        low, high = float(edges[k]), float(edges[k + 1])
        if count[k] <= ENTRIES:
            break
        if not narrower or np.nextafter(low, high) >= high:
            return high
    kept = [(d[inside], v[inside]) for d, v in pairs for inside in [(d > low) & (d <= high)]]
    distances, weights = (np.concatenate(part) for part in zip(*kept, strict=True))
    order = np.argsort(distances)
    position = int(np.searchsorted(np.cumsum(weights[order]), target))
    return float(distances[order[min(position, len(order) - 1)]])


def weighted_median(x: np.ndarray, w: np.ndarray) -> float:
    """Return the weighted median: for whole weights, the median of the repeated values."""
    if w.min() == w.max():  # the middle, which needs no sorting
        low, high = (len(x) - 1) // 2, len(x) // 2
        x = np.partition(x, (low, high))
        return float(0.5 * x[low] + 0.5 * x[high])
    order = np.argsort(x, kind="stable")
    x, reached = x[order], np.cumsum(w[order])
    half = 0.5 * reached[-1]
    low = int(np.searchsorted(reached, half * (1 - HALVES)))
    high = min(int(np.searchsorted(reached, half * (1 + HALVES), side="right")), len(x) - 1)
    return float(0.5 * x[low] + 0.5 * x[high])


# --------------------------------------------------------------------------------- deviation
def standard_deviation(X: Any, sample_weight: Any = None) -> float:
    """Return that of all entries of X, the number behind gamma="scale"; 1 if all are equal.

    In two passes, the mean first, since E x² − (E x)² cancels; of sparse rows the entries that
    are not stored count as the zeros they are.
    """
    if on_gpu(X) or isinstance(X, BlockRows):
        if isinstance(X, BlockRows):
            value, exponent = X.deviation()
        else:
            given = None if sample_weight is None else point_weights(X.shape[0], sample_weight)
            value, exponent = deviation_on_device(X, given)
        return _restored(value, exponent) if value else 1.0
    X, w = to_host(X), point_weights(X.shape[0], sample_weight)
    if sample_weight is None and isinstance(X, np.ndarray) and 0 < X.size <= ENTRIES:
        low, high = float(X.min()), float(X.max())
        if not low < high:
            return 1.0
        if 1e-100 < max(-low, high) < 1e100:  # beyond, squares need the exponent taken out
            return float(X.std(dtype=np.float64))
    low, high, total = np.inf, -np.inf, 0.0
    for values, weights, zeros in _entries(X, w, 0):
        low, high = min(low, values.min(initial=low)), max(high, values.max(initial=high))
        low, high = (min(low, 0.0), max(high, 0.0)) if zeros else (low, high)
        total += float(weights.sum()) + zeros
    if not low < high:
        return 1.0
    exponent = exponent_of(max(-low, high))
    mean = sum(float(v @ x) for x, v, _ in _entries(X, w, exponent)) / total
    squares = (v @ (x - mean) ** 2 + z * mean**2 for x, v, z in _entries(X, w, exponent))
    return _restored(float(np.sqrt(sum(map(float, squares)) / total)), exponent)


def _entries(
    X: Any, w: np.ndarray, exponent: int
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield entries of X over 2ᵉ, a weight for each, and the weight of zeros that are not stored.

    Some rows at a time; those without weight are left out.
    """
    d = X.shape[1]
    width = X.nnz // max(1, X.shape[0]) if sp.issparse(X) else d  # entries stored in a row
    step = max(1, ENTRIES // max(1, width))
    for start in range(0, X.shape[0], step):
        part = w[start : start + step]
        rows, part = X[start : start + step][part > 0], part[part > 0]
        if sp.issparse(rows):
            rows.sum_duplicates()
            stored = np.diff(rows.indptr)
            values, zeros = rows.data, float(part @ (d - stored))
            weights = np.repeat(part, stored)
        else:
            values, weights, zeros = rows.ravel(), np.repeat(part, d), 0.0
        yield np.ldexp(values.astype(np.float64), -exponent), weights, zeros
