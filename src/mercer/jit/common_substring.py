"""The longest run of letters that two strings share."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

__all__ = ["add_runs"]


@compiled
def _extend(letter, t, runs, longer):
    """Write how long the runs that end with this letter are, given those one letter before.

    ``runs[j]`` is that of a run which ends before letter j of t. Return the longest.
    """
    best = np.int32(0)
    for j in range(len(t)):
        run = runs[j] + np.int32(1) if t[j] == letter else np.int32(0)
        longer[j + 1] = run
        best = max(best, run)
    return best


@compiled
def add_runs(x, x_offsets, left, y, y_offsets, right, runs, out, at, row, budget):
    """Write the longest common run of pairs to out, from pair `at` and letter `row` of s on.

    Stop when about `budget` pairs of letters are done and return where to go on; `runs`, two rows
    that take turns, and out hold what was done of the last pair.
    """
    for i in range(at, len(left)):
        s = x[x_offsets[left[i]] : x_offsets[left[i] + 1]]
        t = y[y_offsets[right[i]] : y_offsets[right[i] + 1]]
        m = len(t)
        if row == 0:
            runs[:, : m + 1] = 0
            out[i] = 0.0
        while row < len(s):
            turn = row % 2
            out[i] = max(out[i], _extend(s[row], t, runs[turn, :m], runs[1 - turn, : m + 1]))
            row += 1
            budget -= m + 8
            if budget < 0 and row < len(s):
                return i, row
        row = 0
        if budget < 0:
            return i + 1, 0
    return len(left), 0
