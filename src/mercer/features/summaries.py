"""What an encoder learns of a column: median, mean and deviation, or its frequent categories.

Of a column in memory at once; of one that comes in blocks pass after pass, in little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.kernels import weighted_median
from mercer.settings import get_config

_CONSTANT = 1e-13  # numbers that differ by less, relatively, are the same number
_HALVES = 1e-12  # as much is rounding of a sum of weights
_CATEGORY = 2000  # bytes of memory that a category is worth at least


def moments(x: np.ndarray, weight: np.ndarray | None) -> tuple[float, float, float]:
    """Median, mean and standard deviation of x with its missing values set to the median."""
    w = np.ones_like(x) if weight is None else weight
    use = ~np.isnan(x) & (w > 0)
    if not use.any():
        return 0.0, 0.0, 0.0
    fill = weighted_median(x[use], w[use])
    x = np.where(np.isnan(x), fill, x)[w > 0]
    w = w[w > 0] / w.sum()
    # in units of the largest value, so that squares of 1e200 do not overflow
    unit = float(np.abs(x).max()) or 1.0
    x = x / unit
    mean = float(w @ x)
    scale = float(np.sqrt(w @ (x - mean) ** 2))
    constant = float(np.ptp(x)) <= _CONSTANT
    return fill, unit * mean, 0.0 if constant else unit * scale


class Tally:
    """How often each category occurs, in weights; added up column by column or block by block."""

    def __init__(self, name: str):
        self.name = name
        self.count: dict[str | None, float] = {}

    def add(self, labels: Sequence[str | None], weight: np.ndarray | None) -> None:
        """Count some rows; those of weight 0 are left out."""
        count = self.count
        weights: Iterable[float] = [1.0] * len(labels) if weight is None else weight
        for key, w in zip(labels, weights, strict=True):
            if w > 0:
                count[key] = count.get(key, 0.0) + w

    def require_few(self) -> None:
        """Refuse more categories than the memory budget lets a column have."""
        most = max(1000, get_config().memory // _CATEGORY)
        if len(self.count) > most:
            raise InvalidInput(
                f"{who()}: column {self.name!r} holds more than {most} different texts, as names "
                f"or identifiers do, too many to count under this memory budget; leave the column "
                f"out: drop=[{self.name!r}]."
            )

    def frequent(self, most: int) -> tuple[str | None, ...]:
        """Return the most frequent categories, sorted, missing last."""
        count = self.count
        kept = sorted(count, key=lambda k: (-count[k], k is None, k or ""))[:most]
        return tuple(sorted(kept, key=lambda k: (k is None, k or "")))


class StreamedMoments:
    """`moments` of a column that comes in blocks: give all of them at each of `PASSES` passes.

    The first pass finds the range, the next two mean and deviation. The median is exact too:
    doubles are sorted as their bits are, sign first, and each pass counts rows by the next bits of
    those that agree with the median so far, as a radix sort does.
    """

    #: The bits that a pass counts by, from the left; none at the first.
    BITS = (0, 11, 11, 11, 11, 11, 9)
    PASSES = len(BITS)

    def __init__(self) -> None:
        self.turn = 0
        self.low, self.high = np.inf, -np.inf
        self.present = self.absent = 0.0  # weights
        self.sum = self.squares = 0.0  # in units of the largest value
        self.below = [0.0, 0.0]  # weight below the lower and the upper median
        self.prefix = [0, 0]  # their bits so far
        self.hist: dict[int, np.ndarray] = {}
        self.left = 64  # bits that are still open

    def add(self, x: np.ndarray, weight: np.ndarray | None) -> None:
        """Take in a block: numbers, NaN where missing."""
        w = np.ones_like(x) if weight is None else np.asarray(weight, dtype=np.float64)
        lost = np.isnan(x)
        use = ~lost & (w > 0)
        if self.turn == 0:
            self.absent += float(w[lost].sum())
        x, w = x[use], w[use]
        if not len(x):
            return
        if self.turn == 0:
            self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))
            self.present += float(w.sum())
            return
        if self.turn == 1:
            self.sum += float(w @ (x / self.unit))
        elif self.turn == 2:
            self.squares += float(w @ (x / self.unit - self._mean()) ** 2)
        key = np.ascontiguousarray(x).view(np.uint64)
        key = np.where(key >> 63 != 0, ~key, key | np.uint64(2**63))
        width = self.BITS[self.turn]
        digit = ((key >> np.uint64(self.left - width)) & np.uint64(2**width - 1)).astype(np.intp)
        head = key >> np.uint64(self.left) if self.left < 64 else np.zeros_like(key)
        for prefix in set(self.prefix):
            here = head == np.uint64(prefix)
            found = np.bincount(digit[here], weights=w[here], minlength=2**width)
            self.hist[prefix] = self.hist.get(prefix, 0.0) + found

    def end_of_pass(self) -> None:
        """Draw the conclusion of a pass."""
        width = self.BITS[self.turn]
        if width and self.present:
            # as `weighted_median`: where the weight reaches a half, and where it is beyond
            halves = (0.5 * self.present * (1 - _HALVES), 0.5 * self.present * (1 + _HALVES))
            for i, half in enumerate(halves):
                hist = self.hist[self.prefix[i]]
                some = np.flatnonzero(hist)
                reached = self.below[i] + np.cumsum(hist[some])
                at = int(np.searchsorted(reached, half, side="right" if i else "left"))
                at = min(at, len(some) - 1)
                self.below[i] = float(reached[at] - hist[some[at]])
                self.prefix[i] = (self.prefix[i] << width) + int(some[at])
        self.left -= width
        self.hist = {}
        self.turn += 1

    @property
    def unit(self) -> float:
        """The largest absolute value."""
        return max(-self.low, self.high) or 1.0

    def _mean(self) -> float:
        return self.sum / self.present

    def result(self) -> tuple[float, float, float]:
        """Return median, mean and standard deviation, after the last pass."""
        if not self.present:
            return 0.0, 0.0, 0.0
        low, high = (_from_bits(prefix) for prefix in self.prefix)
        fill, unit, total = 0.5 * low + 0.5 * high, self.unit, self.present + self.absent
        mean = (self.sum + self.absent * (fill / unit)) / total
        squares = self.squares + self.present * (self._mean() - mean) ** 2
        squares += self.absent * (fill / unit - mean) ** 2
        constant = (self.high - self.low) / unit <= _CONSTANT
        return fill, unit * mean, 0.0 if constant else unit * float(np.sqrt(squares / total))


def _from_bits(key: int) -> float:
    bits = key - 2**63 if key >= 2**63 else 2**64 - 1 - key
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])
