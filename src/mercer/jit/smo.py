"""Loops of the box QP solver: steps on a small dense block, and the passes that feed it.

The variables of a block are sorted so that the first ``split`` belong to the first sum constraint
and the rest to the second (``split == len(a)`` where there is one).

A search for an extreme entry is written as `LANES` searches side by side, one for each position
in a chunk: the loop over the lanes has no dependence from one lane to the next, so it compiles to
vector instructions without any licence to reorder or to disregard NaN.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

LANES = 64
TAU = 1e-12  # stands for the curvature of a direction in which the objective is flat


@compiled
def _best_partner(G, down, low, q, qii, diagonal, start, stop, gains, at):
    """Return (largest gain, j): twice the decrease of the objective along e_i − e_j."""
    for k in range(LANES):
        gains[k], at[k] = 0.0, -1.0
    chunks = (stop - start) // LANES
    for c in range(chunks):
        first = start + c * LANES
        last = first + LANES
        g, d, r, s = G[first:last], down[first:last], q[first:last], diagonal[first:last]
        for k in range(LANES):
            t = g[k] + d[k] - low
            t = t if t > 0.0 else 0.0
            eta = qii + s[k] - 2.0 * r[k]
            eta = eta if eta > TAU else TAU
            gain = t * t / eta
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = c if better else at[k]
    best, where = 0.0, -1
    if chunks > 0:
        for k in range(LANES):
            if gains[k] > best:
                best, where = gains[k], start + int(at[k]) * LANES + k
    for j in range(start + chunks * LANES, stop):
        t = max(G[j] + down[j] - low, 0.0)
        gain = t * t / max(qii + diagonal[j] - 2.0 * q[j], TAU)
        if gain > best:
            best, where = gain, j
    return best, where


@compiled
def _advance(G, up, down, qi, qj, step, start, stop, low, at, high):
    """Add step·(qi − qj) to G[start:stop] and return what comes out of it.

    That is (min of G + up, where, max of G + down). up[i] is 0 where variable i may grow and +inf
    elsewhere, down[i] 0 where it may shrink and −inf elsewhere; low, at and high are work arrays of
    `LANES` entries.
    """
    for k in range(LANES):
        low[k], at[k], high[k] = np.inf, -1.0, -np.inf
    chunks = (stop - start) // LANES
    for c in range(chunks):
        first = start + c * LANES
        last = first + LANES
        g, u, d, r, s = (
            G[first:last],
            up[first:last],
            down[first:last],
            qi[first:last],
            qj[first:last],
        )
        for k in range(LANES):
            new = g[k] + step * (r[k] - s[k])
            g[k] = new
            v = new + u[k]
            lower = v < low[k]
            low[k] = v if lower else low[k]
            at[k] = c if lower else at[k]
            w = new + d[k]
            high[k] = w if w > high[k] else high[k]
    lowest, where, highest = np.inf, -1, -np.inf
    if chunks > 0:
        for k in range(LANES):
            if low[k] < lowest:
                lowest, where = low[k], start + int(at[k]) * LANES + k
            highest = max(highest, high[k])
    for i in range(start + chunks * LANES, stop):
        G[i] += step * (qi[i] - qj[i])
        if G[i] + up[i] < lowest:
            lowest, where = G[i] + up[i], i
        highest = max(highest, G[i] + down[i])
    return lowest, where, highest


@compiled
def _bar(k, a, lower, upper, kinks, up, down):
    """Set what is added to the gradient of variable k where it grows, and where it shrinks."""
    up[k] = np.inf if a[k] >= upper[k] else kinks[k] if a[k] >= 0.0 else -kinks[k]
    down[k] = -np.inf if a[k] <= lower[k] else kinks[k] if a[k] > 0.0 else -kinks[k]


@compiled
def _barriers(a, lower, upper, kinks, up, down):
    for k in range(len(a)):
        _bar(k, a, lower, upper, kinks, up, down)


@compiled
def _pass_on(G, up, down, split, qi, qj, step, low, where, high):
    """Add step·(qi − qj) to G; return (violation, i, lowest gradient at i, the same of sum two)."""
    low0, i0, high0 = np.inf, -1, -np.inf
    low1, i1, high1 = np.inf, -1, -np.inf
    for part in range(2):  # one call, so that it is compiled once
        start, stop = (0, split) if part == 0 else (split, len(G))
        if start == stop:
            continue
        lowest, i, highest = _advance(G, up, down, qi, qj, step, start, stop, low, where, high)
        if part == 0:
            low0, i0, high0 = lowest, i, highest
        else:
            low1, i1, high1 = lowest, i, highest
    return max(high0 - low0, high1 - low1), i0, low0, i1, low1


@compiled
def _move(i, j, eta, G, a, lower, upper, kinks, up, down):
    """Move along e_i − e_j to the minimum, to a kink or to the box; return the step.

    eta is the curvature on the way. Where a variable has a kink it goes no farther than 0.
    """
    step = (G[j] + down[j] - G[i] - up[i]) / max(eta, TAU)
    top = 0.0 if kinks[i] > 0.0 and a[i] < 0.0 else upper[i]
    bottom = 0.0 if kinks[j] > 0.0 and a[j] > 0.0 else lower[j]
    room_i, room_j = top - a[i], a[j] - bottom
    if step >= min(room_i, room_j):
        step = min(room_i, room_j)
        a[i] = top if room_i <= room_j else a[i] + step
        a[j] = bottom if room_j <= room_i else a[j] - step
    else:
        a[i] += step
        a[j] -= step
    _bar(i, a, lower, upper, kinks, up, down)
    _bar(j, a, lower, upper, kinks, up, down)
    return step


@compiled
def pair_steps(Q, G, a, lower, upper, split, kinks, tol, max_steps):
    """Move two variables at a time, keeping their sum, until no pair violates by more than tol.

    The pair is the most violating i and the j of largest second-order gain (working set selection
    2 of Fan, Chen and Lin, 2005), inside one sum constraint. G is the gradient on the block, kept
    up to date, as is a. To the objective belongs Σ kinks[k]·|a[k]|, kinks ≥ 0, whose slope is not
    in G: it is added where a variable may go. Returns (steps taken, violation left, smallest
    curvature seen).
    """
    n = len(a)
    if n == 0:
        return 0, -np.inf, np.inf
    up, down, diagonal = np.empty(n), np.empty(n), np.empty(n)
    low, at, high = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(n):
        diagonal[i] = Q[i, i]
    _barriers(a, lower, upper, kinks, up, down)
    steps, curvature, step, qi, qj = 0, np.inf, 0.0, Q[0], Q[0]
    while True:
        violation, i0, low0, i1, low1 = _pass_on(G, up, down, split, qi, qj, step, low, at, high)
        if violation <= tol or steps >= max_steps:
            return steps, violation, curvature
        gain, i, j = 0.0, i0, i1
        for part in range(2):
            k, lowest = (i0, low0) if part == 0 else (i1, low1)
            start, stop = (0, split) if part == 0 else (split, n)
            if k >= 0:
                better, where = _best_partner(
                    G, down, lowest, Q[k], diagonal[k], diagonal, start, stop, high, at
                )
                if better > gain:
                    gain, i, j = better, k, where
        if gain <= 0.0:
            return steps, violation, curvature
        qi, qj = Q[i], Q[j]
        eta = diagonal[i] + diagonal[j] - 2.0 * qi[j]
        step = _move(i, j, eta, G, a, lower, upper, kinks, up, down)
        curvature = min(curvature, eta)
        steps += 1


@compiled
def gathered_pair_steps(
    rows, at, used, store, slots, columns, diagonal, G, a, lower, upper, split, tol, max_steps
):
    """Do as `pair_steps`, with the rows of Q taken from store[slots][:, columns] when first needed.

    rows[at[i]] is row i of Q where at[i] ≥ 0; the first `used` of rows are taken. Returns (steps
    taken, violation left, smallest curvature seen, rows used); it stops when they are full.
    """
    n = len(a)
    up, down = np.empty(n), np.empty(n)
    low, where, high = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    kinks = np.zeros(n)
    _barriers(a, lower, upper, kinks, up, down)
    if used == 0:
        rows[0, :] = 0.0
    steps, curvature, step, qi, qj = 0, np.inf, 0.0, rows[0], rows[0]
    while True:
        violation, i0, low0, i1, low1 = _pass_on(G, up, down, split, qi, qj, step, low, where, high)
        full = used < n and used + 3 > len(rows)
        if violation <= tol or steps >= max_steps or full:
            return steps, violation, curvature, used
        gain, i, j = 0.0, i0, i1
        for part in range(2):
            k, lowest = (i0, low0) if part == 0 else (i1, low1)
            start, stop = (0, split) if part == 0 else (split, n)
            if k >= 0:
                used = _need(k, rows, at, used, store, slots, columns)
                q, own = rows[at[k]], diagonal[k]
                better, best = _best_partner(
                    G, down, lowest, q, own, diagonal, start, stop, high, where
                )
                if better > gain:
                    gain, i, j = better, k, best
        if gain <= 0.0:
            return steps, violation, curvature, used
        used = _need(j, rows, at, used, store, slots, columns)
        qi, qj = rows[at[i]], rows[at[j]]
        eta = diagonal[i] + diagonal[j] - 2.0 * qi[j]
        step = _move(i, j, eta, G, a, lower, upper, kinks, up, down)
        curvature = min(curvature, eta)
        steps += 1


@compiled
def _need(i, rows, at, used, store, slots, columns):
    """Put row i of Q among the rows, if it is not there; return how many there are."""
    if at[i] >= 0:
        return used
    source, target = store[slots[i]], rows[used]
    for k in range(len(columns)):
        target[k] = source[columns[k]]
    at[i] = used
    return used + 1


@compiled
def _worst_coordinate(G, up, down, inverse, gains, at, most):
    """Return (where the gain of moving one variable is largest, largest violation)."""
    n = len(G)
    for k in range(LANES):
        gains[k], at[k], most[k] = 0.0, -1.0, 0.0
    chunks = n // LANES
    for c in range(chunks):
        first = c * LANES
        last = first + LANES
        g, u, d, r = G[first:last], up[first:last], down[first:last], inverse[first:last]
        for k in range(LANES):
            t, s = g[k] + d[k], -g[k] - u[k]
            t = s if s > t else t
            t = t if t > 0.0 else 0.0
            most[k] = t if t > most[k] else most[k]
            gain = t * t * r[k]
            better = gain > gains[k]
            gains[k] = gain if better else gains[k]
            at[k] = c if better else at[k]
    best, where, violation = 0.0, -1, 0.0
    if chunks > 0:
        for k in range(LANES):
            violation = max(violation, most[k])
            if gains[k] > best:
                best, where = gains[k], int(at[k]) * LANES + k
    for i in range(chunks * LANES, n):
        t = max(G[i] + down[i], -G[i] - up[i])
        violation = max(violation, t)
        if t > 0.0 and t * t * inverse[i] > best:
            best, where = t * t * inverse[i], i
    return where, violation


@compiled
def coordinate_steps(Q, G, a, lower, upper, tol, max_steps):
    """Move one variable at a time, the one of largest gain; there is no sum to keep.

    Returns (steps taken, largest violation left, smallest curvature seen).
    """
    n = len(a)
    up, down, inverse = np.empty(n), np.empty(n), np.empty(n)
    gains, at, most = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    curvature = np.inf
    for i in range(n):
        inverse[i] = 1.0 / max(Q[i, i], TAU)
        curvature = min(curvature, Q[i, i])
    _barriers(a, lower, upper, np.zeros(n), up, down)
    steps = 0
    while True:
        i, violation = _worst_coordinate(G, up, down, inverse, gains, at, most)
        if violation <= tol or steps >= max_steps or i < 0:
            return steps, violation, curvature
        new = min(max(a[i] - G[i] * inverse[i], lower[i]), upper[i])
        step = new - a[i]
        a[i] = new
        up[i] = 0.0 if new < upper[i] else np.inf
        down[i] = 0.0 if new > lower[i] else -np.inf
        q = Q[i]
        for k in range(n):
            G[k] += step * q[k]
        steps += 1


@compiled
def take_block(store, slots, columns, out):
    """Fill out[i, j] = store[slots[i], columns[j]]."""
    take_rows(store, slots, columns, out, np.arange(len(slots)))


@compiled
def take_rows(store, slots, columns, out, rows):
    """Fill out[i, j] = store[slots[i], columns[j]] for the rows i given."""
    m = len(columns)
    for i in rows:
        source, target = store[slots[i]], out[i]
        for j in range(m):
            target[j] = source[columns[j]]


@compiled
def reuse_block(old, at, kept, new, out, start, stop):
    """Complete the rows kept[start:stop] of out; at[i] is the place of kept[i] in the old block.

    Rows of the new variables must be there already: entries between old and new are mirrored, in
    tiles that stay near the core.
    """
    m, tile = len(kept), 32
    for i in range(start, stop):
        row, target = old[at[i]], out[kept[i]]
        for j in range(m):
            target[kept[j]] = row[at[j]]
    for first in range(start, stop, tile):
        last = min(first + tile, stop)
        for begin in range(0, len(new), tile):
            for k in range(begin, min(begin + tile, len(new))):
                source, column = out[new[k]], new[k]
                for i in range(first, last):
                    out[kept[i], column] = source[kept[i]]


@compiled
def add_rows(f, store, slots, delta, columns, start, stop):
    """Add Σₖ delta[k]·store[slots[k], columns] to f[start:stop], in float64 and in one pass.

    An empty array of columns stands for all of them, as they lie; four rows go at a time.
    """
    width = 1024
    sums = np.empty(width)
    for c in range(start, stop, width):
        end = min(c + width, stop)
        part = sums[: end - c]
        part[:] = 0.0
        k = 0
        if len(columns) == 0:
            while k + 4 <= len(slots):
                r0, r1 = store[slots[k], c:end], store[slots[k + 1], c:end]
                r2, r3 = store[slots[k + 2], c:end], store[slots[k + 3], c:end]
                d0, d1, d2, d3 = delta[k], delta[k + 1], delta[k + 2], delta[k + 3]
                for j in range(len(part)):
                    part[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]
                k += 4
            while k < len(slots):
                row = store[slots[k], c:end]
                for j in range(len(part)):
                    part[j] += delta[k] * row[j]
                k += 1
        else:
            at = columns[c:end]
            while k < len(slots):
                row = store[slots[k]]
                for j in range(len(part)):
                    part[j] += delta[k] * row[at[j]]
                k += 1
        target = f[c:end]
        for j in range(len(part)):
            target[j] += part[j]
