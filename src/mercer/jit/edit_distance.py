"""Levenshtein's distance of pairs of strings, 64 letters of one at a time.

In the table of distances of beginnings, neighbours differ by −1, 0 or 1. Myers (1999) keeps the
differences down a column of 64 rows as bits of two words and takes all of them to the next column
with some twenty operations; Hyyrö (2003) gives the form for blocks of rows, used here. A block
hands the differences along its last row to the block below.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_distances"]

SLOTS = 256  # of a table of the letters of a block, of which there are at most 64
EMPTY = np.uint32(0xFFFFFFFF)
ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def _note(s, keys, masks):
    """Write down for each letter at which positions of s it stands, as bits."""
    keys[:] = EMPTY
    masks[:] = 0
    for i in range(len(s)):
        slot = s[i] & (SLOTS - 1)
        while keys[slot] != EMPTY and keys[slot] != s[i]:
            slot = (slot + 1) & (SLOTS - 1)
        keys[slot] = s[i]
        masks[slot] |= ONE << np.uint64(i)


@compiled
def _block(s, t, steps, keys, masks):
    """Take up to 64 letters of s through t; steps are the differences along the row above.

    They become those along the last row of the block; return their sum.
    """
    _note(s, keys, masks)
    last = ONE << np.uint64(len(s) - 1)
    up, down = ALL, np.uint64(0)
    total = 0
    for j in range(len(t)):
        slot = t[j] & (SLOTS - 1)
        while keys[slot] != t[j] and keys[slot] != EMPTY:
            slot = (slot + 1) & (SLOTS - 1)
        equal = masks[slot]
        above = steps[j]
        vertical = equal | down
        if above < 0:
            equal |= ONE
        across = (((equal & up) + up) ^ up) | equal
        rise = down | (ALL ^ (across | up))
        fall = up & across
        step = 0
        if rise & last:
            step = 1
        elif fall & last:
            step = -1
        rise <<= ONE
        fall <<= ONE
        if above < 0:
            fall |= ONE
        elif above > 0:
            rise |= ONE
        up = fall | (ALL ^ (vertical | rise))
        down = rise & vertical
        steps[j] = step
        total += step
    return total


@compiled
def add_distances(x, x_offsets, left, y, y_offsets, right, steps, out, at, row, budget):
    """Write distances of pairs to out, from pair `at` and letter `row` of s on.

    Stop when about `budget` columns of 64 rows are done and return where to go on; `steps` holds
    what was done of the last pair.
    """
    keys = np.empty(SLOTS, dtype=np.uint32)
    masks = np.empty(SLOTS, dtype=np.uint64)
    for i in range(at, len(left)):
        s = x[x_offsets[left[i]] : x_offsets[left[i] + 1]]
        t = y[y_offsets[right[i]] : y_offsets[right[i] + 1]]
        if row == 0:
            steps[: len(t)] = 1
            out[i] = len(t)
        while row < len(s):
            stop = min(row + 64, len(s))
            out[i] = stop + _block(s[row:stop], t, steps[: len(t)], keys, masks)
            row = stop
            budget -= len(t) + SLOTS // 8
            if budget < 0 and row < len(s):
                return i, row
        row = 0
        if budget < 0:
            return i + 1, 0
    return len(left), 0
