"""`Numbering`: columns for codes of 64 bits, in the order in which they come first."""

from __future__ import annotations

import numpy as np

__all__ = ["Numbering"]

STEP = 2**18  # codes of one call, some milliseconds
FEWEST = 12  # logarithm of the smallest table


class Numbering:
    """Numbers 0, 1, … for the different codes of an array.

    Sorting takes several times as long: most codes of strings and graphs occur once or twice.

    Parameters
    ----------
    codes : ndarray of uint64
        The codes.

    Attributes
    ----------
    columns : ndarray of int64
        The number of each code.
    size : int
        How many codes differ.
    """

    def __init__(self, codes: np.ndarray):
        from mercer.jit.counts import number

        self.size = 0
        self._make(FEWEST)
        self.columns = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), STEP):
            part = codes[start : start + STEP]
            needed = (2 * (self.size + len(part))).bit_length()
            if 1 << needed > len(self._table):
                self._grow(needed)
            out = self.columns[start : start + STEP]
            self.size = number(part, self._table, self._numbers, self._shift, self.size, out)

    def find(self, codes: np.ndarray) -> np.ndarray:
        """Return the numbers of other codes, −1 for those that are not among the first."""
        from mercer.jit.counts import place

        out = np.empty(len(codes), dtype=np.int64)
        for start in range(0, len(codes), STEP):
            part = slice(start, start + STEP)
            place(codes[part], self._table, self._numbers, self._shift, out[part])
        return out

    def _make(self, log: int) -> None:
        self._table = np.empty(1 << log, dtype=np.uint64)
        self._numbers = np.full(1 << log, -1, dtype=np.int64)
        self._shift = np.uint64(64 - log)

    def _grow(self, log: int) -> None:
        """Move the codes to a table with so many more places."""
        from mercer.jit.counts import number

        taken = self._numbers >= 0
        codes = np.empty(self.size, dtype=np.uint64)
        codes[self._numbers[taken]] = self._table[taken]
        self._make(log)
        out = np.empty(STEP, dtype=np.int64)
        count = 0
        for start in range(0, len(codes), STEP):
            part = codes[start : start + STEP]
            count = number(part, self._table, self._numbers, self._shift, count, out)
