"""Numbers for codes in the order in which they come first, by a hash table."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["number", "place"]

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: Knuth's multiplicative hashing


@compiled
def number(codes, table, numbers, shift, count, out):
    """Write the number of each code to out, the next one to a code that is new; return the count.

    A code c is looked for from place c·SPREAD/2^shift on, one place after another; −1 in `numbers`
    is a free place. The table has 2^(64 − shift) places and stays half free.
    """
    last = len(table) - 1
    for i in range(len(codes)):
        code = codes[i]
        at = np.int64((code * SPREAD) >> shift)
        while numbers[at] >= 0 and table[at] != code:
            at = (at + 1) & last
        if numbers[at] < 0:
            table[at] = code
            numbers[at] = count
            count += 1
        out[i] = numbers[at]
    return count


@compiled
def place(codes, table, numbers, shift, out):
    """Write the number of each code to out, −1 where it has none."""
    last = len(table) - 1
    for i in range(len(codes)):
        code = codes[i]
        at = np.int64((code * SPREAD) >> shift)
        while numbers[at] >= 0 and table[at] != code:
            at = (at + 1) & last
        out[i] = numbers[at]
