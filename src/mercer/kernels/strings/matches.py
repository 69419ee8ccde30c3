"""`MatchedWindows`: sums over pairs of windows of a number that depends on where they agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.errors import InvalidInput
from mercer.kernels.bound import Bound
from mercer.kernels.counted import ADDITION_NS, PRODUCT_NS, Counted, CountedBound
from mercer.kernels.strings.paired import CALL_NS, PAIR_NS, Paired, PairedBound, require_finite
from mercer.kernels.strings.windows import CountedWindows
from mercer.settings import get_config

__all__ = ["MatchedWindows", "as_float", "windows_of"]

CURE = "Use a smaller length"  # where values are too large for a float
OCCURRENCE_BYTES = 40  # of a part of a window, while it is named, sorted and stored


class MatchedWindows(CountedWindows, Paired):
    """A kernel Σᵤᵥ g(u, v) over windows of two strings, in two ways of which the cheaper is taken.

    One counts the parts that windows share, of which a window has many: ``_parts``, as in
    `Counted`. The other compares all windows of two strings, as in `Paired`: an author writes
    ``_matches`` and ``_table``, from which the compiled loop reads g.
    """

    _pace = 2.0
    #: Nanoseconds to name a part of a window, to sort it and to store it.
    _occurrence_ns: float = 120.0

    def _spread(self, X: StringCollection) -> tuple[float, float]:
        """Return how many parts a window of X has, and how many parts there may be in all."""
        raise InvalidInput(f"{type(self).__name__}: define _spread(X).")

    def _matches(self, X: StringCollection) -> tuple[np.ndarray, int]:
        """Return the letters of X as numbers, and the number of a foreign letter."""
        raise InvalidInput(f"{type(self).__name__}: define _matches(X).")

    def _table(self, foreign: bool) -> np.ndarray:
        """Return a table of g, which has room for foreign letters where there are some.

        g is table[f, g, b, e] for windows with f and g foreign letters, b of them in one place,
        and e places where letters that are not foreign agree.
        """
        raise InvalidInput(f"{type(self).__name__}: define _table(foreign).")

    def _bind(self, X: StringCollection, Y: StringCollection | None = None) -> Bound:
        other = X if Y is None else Y
        entries = len(X) * len(other) / (2 if Y is None else 1)
        counted = self._counting_pays(X, Y, entries)
        return CountedBound(self, X, Y) if counted else PairedBound(self, X, Y)

    def _diag(self, X: StringCollection) -> np.ndarray:
        base: Any = Counted if self._counting_pays(X, None, len(X)) else Paired
        return base._diag(self, X)

    def _counting_pays(
        self, X: StringCollection, Y: StringCollection | None, entries: float
    ) -> bool:
        """Whether to count parts takes less time than to compare windows, and fits the memory."""
        sides = (X, X if Y is None else Y)
        windows = [float(windows_of(Z, self.length)) for Z in sides]
        if not min(windows):
            return False  # all values are zero, without a look at any part
        means = [w / max(1, len(Z)) for w, Z in zip(windows, sides, strict=True)]
        spread, parts = self._spread(X)
        occurrences = spread * (windows[0] if Y is None else sum(windows))
        if occurrences * OCCURRENCE_BYTES > get_config().memory / 2:
            return False
        shared = spread**2 * means[0] * means[1] / max(parts, 1.0)
        entry = min(PRODUCT_NS * parts, ADDITION_NS * shared)
        pair = PAIR_NS + self._pace * means[0] * means[1]
        return self._occurrence_ns * occurrences + entries * entry <= entries * pair

    def _pairs(
        self, X: StringCollection, left: np.ndarray, Y: StringCollection, right: np.ndarray
    ) -> np.ndarray:
        from mercer.jit.counts import match_pairs, match_windows

        if int(min(X.lengths[left].max(initial=0), Y.lengths[right].max(initial=0))) < self.length:
            return np.zeros(len(left))
        rows, left = np.unique(left, return_inverse=True)
        cols, right = np.unique(right, return_inverse=True)
        X, Y = X.take(rows), Y.take(cols)
        (x, foreign), (y, _) = self._matches(X), self._matches(Y)
        table = self._table(bool((x == foreign).any() or (y == foreign).any()))
        # One kind of array, so that the loop is compiled once.
        x, y, table = np.array(x, dtype=np.int64), np.array(y, dtype=np.int64), np.array(table)
        if len(left) > 1:
            args = x, X.offsets, left, y, Y.offsets, right, self.length, foreign, table
            return require_finite(self, match_pairs(*args), X, Y, CURE)
        windows = max(0, len(x) - self.length + 1)
        step = max(1, int(CALL_NS / (self._pace * max(1, len(y)))))
        total = 0.0  # in calls short enough to be interrupted
        for first in range(0, windows, step):
            stop = min(first + step, windows)
            total += match_windows(x, y, self.length, foreign, table, first, stop)
        return require_finite(self, np.array([total]), X, Y, CURE)


def windows_of(X: StringCollection, length: int) -> int:
    """Return how many windows of a length there are."""
    return int(np.maximum(X.lengths - (length - 1), 0).sum())


def as_float(number: int) -> float:
    """Return a whole number as a float, ∞ beyond the largest."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")
