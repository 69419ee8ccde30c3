"""Counts that points have in common: sums of products over shared codes, and matches of windows."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled


@compiled
def add_common(names, starts, rows, values, others, begins, cols, weights, out):
    """Add values[s]·weights[t] to out[rows[s], cols[t]] for all s, t of a code on both sides.

    The entries of code names[p] run from starts[p] to starts[p + 1], those of others[q] from
    begins[q] to begins[q + 1]; both lists of codes rise, so one walk finds the codes they share.
    """
    p, q = 0, 0
    while p < len(names) and q < len(others):
        if names[p] < others[q]:
            p += 1
        elif names[p] > others[q]:
            q += 1
        else:
            first, last = begins[q], begins[q + 1]
            for s in range(starts[p], starts[p + 1]):
                line, v = out[rows[s]], values[s]
                for t in range(first, last):
                    line[cols[t]] += v * weights[t]
            p += 1
            q += 1


@compiled
def match_windows(x, y, length, foreign, table, first, stop):
    """Return Σ table[f, g, b, e] over windows of x from first to stop and all windows of y.

    Two windows have e equal letters below `foreign`; f letters of the one and g of the other are
    `foreign`, b positions of both. A window with more of them than the table knows counts nothing.
    Equal letters are counted down the diagonals: a step drops one position and adds one.
    """
    most = table.shape[0] - 1
    m = len(y) - length + 1
    total = 0.0
    if m < 1:
        return total
    strange = np.zeros(m, dtype=np.int64)
    for k in range(m):
        for j in range(length):
            strange[k] += y[k + j] == foreign
    before, now = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=np.int32)
    for u in range(first, stop):
        count = 0
        for j in range(length):
            count += x[u + j] == foreign
        if u == first:
            for k in range(m):
                for j in range(length):
                    now[k] += x[u + j] == y[k + j] and x[u + j] != foreign
        else:
            left, entered = x[u - 1], x[u + length - 1]
            # Foreign letters equal nothing: no letter of y is beyond `foreign`.
            left = left if left != foreign else foreign + 1
            entered = entered if entered != foreign else foreign + 1
            for k in range(1, m):
                now[k] = before[k - 1] - (left == y[k - 1]) + (entered == y[k + length - 1])
            now[0] = 0
            for j in range(length):
                now[0] += x[u + j] == y[j] and x[u + j] != foreign
        if count == 0 and most == 0:
            for k in range(m):
                total += table[0, 0, 0, now[k]] if strange[k] == 0 else 0.0
        elif count <= most:
            for k in range(m):
                if strange[k] <= most:
                    both = 0
                    if count > 0 and strange[k] > 0:
                        for j in range(length):
                            both += x[u + j] == foreign and y[k + j] == foreign
                    total += table[count, strange[k], both, now[k]]
        before, now = now, before
    return total


@compiled
def match_pairs(x, ends, left, y, stops, right, length, foreign, table):
    """Return `match_windows` of the strings left[i] of x and right[i] of y, for all i."""
    out = np.zeros(len(left))
    for i in range(len(left)):
        s = x[ends[left[i]] : ends[left[i] + 1]]
        t = y[stops[right[i]] : stops[right[i] + 1]]
        out[i] = match_windows(s, t, length, foreign, table, 0, max(0, len(s) - length + 1))
    return out


# ---- Rows of small codes compared column by column: ρ to the number of columns that differ ----


@compiled
def fill_agreement(X, Yt, rho, out):
    """Fill out[i, j] = Π_k (1 if X[i, k] = Yt[k, j] else rho); Yt is (c, m), j the fast axis."""
    n, c = X.shape
    m = Yt.shape[1]
    one = rho / rho if rho != 0 else rho + 1  # in the type of rho, as both arms of a choice
    for i in range(n):
        row, x, y = out[i], X[i, 0], Yt[0]
        for j in range(m):
            row[j] = one if x == y[j] else rho
        for k in range(1, c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] *= one if x == y[j] else rho


@compiled
def times_agreement(X, Yt, rho, out):
    """Multiply out[i, j] by Π_k (1 if X[i, k] = Yt[k, j] else rho)."""
    n, c = X.shape
    m = Yt.shape[1]
    one = rho / rho if rho != 0 else rho + 1
    for i in range(n):
        row = out[i]
        for k in range(c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] *= one if x == y[j] else rho


@compiled
def count_differences(X, Yt, out):
    """Fill out[i, j] with the number of columns k with X[i, k] ≠ Yt[k, j]."""
    n, c = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(c):
            x, y = X[i, k], Yt[k]
            for j in range(m):
                row[j] += 0.0 if x == y[j] else 1.0


# ---- Numbers for codes in the order in which they come first, by a hash table ----


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
