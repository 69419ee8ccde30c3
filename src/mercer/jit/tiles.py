"""The smallest entries of every row, kept while tiles of a matrix stream by.

A row keeps its k smallest entries as a sorted list or, if they are many, as a heap with the worst
on top: larger values are worse, and of equal values the larger column. A chunk of a row costs one
vectorised minimum (lanes side by side, as in `mercer.jit.smo`); only a chunk that holds something
better than the worst kept is looked at entry by entry, about k·log(n/k) times a row.
"""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled

# ---- Pairwise distances by differences: exact where the product form ‖x‖²+‖y‖²−2xᵀy would
# cancel.


@compiled
def squared_euclidean(X, Yt, unit, out):
    """Fill out[i, j] = Σ_k ((X[i, k] − Yt[k, j])·unit[k])²; Yt is (d, m), so that j is fast."""
    n, d = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(d):
            x, u = X[i, k], unit[k]
            y = Yt[k]
            for j in range(m):
                gap = (x - y[j]) * u
                row[j] += gap * gap


@compiled
def manhattan(X, Yt, unit, out):
    """Fill out[i, j] = Σ_k |X[i, k] − Yt[k, j]|·unit[k]."""
    n, d = X.shape
    m = Yt.shape[1]
    for i in range(n):
        row = out[i]
        row[:] = 0
        for k in range(d):
            x, u = X[i, k], unit[k]
            y = Yt[k]
            for j in range(m):
                row[j] += abs(x - y[j]) * u


@compiled
def manhattan_by_column(X, Yt, C, out):
    """Fill out[k] = Σ_ij C[i, j] |X[i, k] − Yt[k, j]|."""
    n, d = X.shape
    m = Yt.shape[1]
    for k in range(d):
        total = 0.0
        y = Yt[k]
        for i in range(n):
            x = X[i, k]
            part = 0.0
            for j in range(m):
                part += C[i, j] * abs(x - y[j])
            total += part
        out[k] = total


# ---- Products of float32 matrices with float64 vectors, in float64, without a copy of the
# matrix.


LANES = 32  # partial sums of a row: enough for the units that multiply, and a fixed order


@compiled
def times_columns(T, V, out):
    """Fill out[i, c] = Σ_j T[i, j] V[c, j]; V has a row for each right-hand side."""
    n, m = T.shape
    whole = m - m % LANES
    part = np.empty((4, LANES))
    p0, p1, p2, p3 = part[0], part[1], part[2], part[3]
    for c in range(V.shape[0]):
        v = V[c]
        for i in range(0, n, 4):
            # Four sums side by side hide the time that one addition waits for the last.
            last = n - 1
            r0, r1, r2, r3 = T[i], T[min(i + 1, last)], T[min(i + 2, last)], T[min(i + 3, last)]
            part[:] = 0.0
            for j in range(0, whole, LANES):
                for lane in range(LANES):
                    p0[lane] += r0[j + lane] * v[j + lane]
                    p1[lane] += r1[j + lane] * v[j + lane]
                    p2[lane] += r2[j + lane] * v[j + lane]
                    p3[lane] += r3[j + lane] * v[j + lane]
            for k in range(min(4, n - i)):
                total = 0.0
                for lane in range(LANES):
                    total += part[k, lane]
                for j in range(whole, m):
                    total += T[i + k, j] * v[j]
                out[i + k, c] = total


@compiled
def add_tile_rows(T, G, out):
    """Add Σ_i T[i, j] G[i, c] to out[c, j], four rows at a time."""
    n, m = T.shape
    whole = n - n % 4
    for c in range(G.shape[1]):
        sums = out[c]
        for i in range(0, whole, 4):
            g0, g1, g2, g3 = G[i, c], G[i + 1, c], G[i + 2, c], G[i + 3, c]
            r0, r1, r2, r3 = T[i], T[i + 1], T[i + 2], T[i + 3]
            for j in range(m):
                sums[j] += (r0[j] * g0 + r1[j] * g1) + (r2[j] * g2 + r3[j] * g3)
        for i in range(whole, n):
            g0 = G[i, c]
            r0 = T[i]
            for j in range(m):
                sums[j] += r0[j] * g0


# ---- nearest ----

CHUNK = 4 * LANES
LISTED = 24  # values a row keeps up to which a sorted list is written anew faster than a heap sinks


@compiled
def _lowest(row, c, sign, start, low):
    """Return the smallest sign·row[j] + c[j] of a chunk; low is a work array of `LANES`."""
    r, s = row[start : start + CHUNK], c[start : start + CHUNK]
    for k in range(LANES):
        a = sign * r[k] + s[k]
        b = sign * r[k + LANES] + s[k + LANES]
        d = sign * r[k + 2 * LANES] + s[k + 2 * LANES]
        e = sign * r[k + 3 * LANES] + s[k + 3 * LANES]
        a = a if a < b else b
        d = d if d < e else e
        low[k] = a if a < d else d
    for k in range(LANES // 2):
        a, b = low[k], low[k + LANES // 2]
        low[k] = a if a < b else b
    for k in range(LANES // 4):
        a, b = low[k], low[k + LANES // 4]
        low[k] = a if a < b else b
    lowest = low[0]
    for k in range(1, LANES // 4):
        lowest = min(lowest, low[k])
    return lowest


@compiled
def _sink(values, where, size, v, j):
    """Put (v, j) in the place of the top of a heap of the given size, and let it sink."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            values[right] > values[child]
            or (values[right] == values[child] and where[right] > where[child])
        ):
            child = right
        if values[child] < v or (values[child] == v and where[child] < j):
            break
        values[at], where[at] = values[child], where[child]
        at = child
    values[at], where[at] = v, j


@compiled
def _insert(values, where, v, j):
    """Put (v, j) into a sorted list, behind its equals; the last goes."""
    p = len(values) - 1
    while p > 0 and values[p - 1] > v:
        values[p], where[p] = values[p - 1], where[p - 1]
        p -= 1
    values[p], where[p] = v, j


@compiled
def _ceiling(row, c, sign, rank, low):
    """Return a number that more than `rank` entries do not exceed, not far above the least such.

    Of the entries j of one remainder modulo `LANES` the smallest is found, and of these smallest
    ones the one of that rank; inf where there are too few.
    """
    m = len(row)
    low[:] = np.inf
    for start in range(0, m - m % LANES, LANES):
        for k in range(LANES):
            v = sign * row[start + k] + c[start + k]
            low[k] = v if v < low[k] else low[k]
    for a in range(LANES):
        before = 0
        for b in range(LANES):
            before += low[b] < low[a]
        equal = 0
        for b in range(LANES):
            equal += low[b] == low[a]
        if before <= rank < before + equal:
            return low[a]
    return np.inf


@compiled
def keep_smallest(T, c, sign, first, skip, values, where):
    """Merge a tile into what the rows keep: v = sign·T[i, j] + c[j] at column first + j.

    values (r, k) and where (r, k) begin with +inf and a column beyond all others, and are sorted
    lists up to k = `LISTED`, and heaps beyond; skip[i] is a column that row i does not count, or
    −1. Tiles must come from left to right: then of equal values the first stays.
    """
    n, m = T.shape
    k = values.shape[1]
    listed = k <= LISTED
    worst = k - 1 if listed else 0
    low = np.empty(LANES)
    whole = m // CHUNK
    for i in range(n):
        row, kept, at = T[i], values[i], where[i]
        ceiling = np.inf
        if listed and kept[worst] == np.inf and m >= 2 * LANES:
            # A row that has nothing yet would take in every new least value of its first columns.
            ceiling = _ceiling(row, c, sign, k if first <= skip[i] < first + m else k - 1, low)
        for chunk in range(whole + 1):
            start = chunk * CHUNK
            stop = start + CHUNK
            if chunk == whole:
                stop = m
            else:
                lowest = _lowest(row, c, sign, start, low)
                if not (lowest < kept[worst] and lowest <= ceiling):
                    continue
            for j in range(start, stop):
                v = sign * row[j] + c[j]
                if v <= ceiling and v < kept[worst] and first + j != skip[i]:
                    if listed:
                        _insert(kept, at, v, first + j)
                    else:
                        _sink(kept, at, k, v, first + j)


@compiled
def sort_kept(values, where):
    """Sort every row by value, equal values by column: the second half of heapsort."""
    n, k = values.shape
    if k <= LISTED:
        return
    for i in range(n):
        kept, at = values[i], where[i]
        for size in range(k - 1, 0, -1):
            v, j = kept[size], at[size]
            kept[size], at[size] = kept[0], at[0]
            _sink(kept, at, size, v, j)


@compiled
def sort_rows(values, where):
    """Sort every row by value, equal values by column; rows that are nearly sorted in one pass."""
    n, k = values.shape
    for i in range(n):
        row, at = values[i], where[i]
        for p in range(1, k):
            v, j = row[p], at[p]
            q = p
            while q > 0 and (row[q - 1] > v or (row[q - 1] == v and at[q - 1] > j)):
                row[q], at[q] = row[q - 1], at[q - 1]
                q -= 1
            row[q], at[q] = v, j


@compiled
def pair_squares(X, Y, where, out):
    """Fill out[i, q] = Σ_k (X[i, k] − Y[where[i, q], k])²: by differences, so that 0 is 0."""
    n, k = where.shape
    d = X.shape[1]
    for i in range(n):
        for q in range(k):
            x, y = X[i], Y[where[i, q]]
            total = 0.0
            for t in range(d):
                gap = x[t] - y[t]
                total += gap * gap
            out[i, q] = total


# ---- Sums of groups of rows of a matrix, read once, and which of their means is nearest ----


WIDTH = 256  # points compared at a time


@compiled
def add_groups(K, rows, factors, ends, out, first, stop):
    """Add Σ factors[t]·K[rows[t]] over the t of each group c to out[c], in columns first to stop.

    The t of group c run from ends[c] to ends[c + 1]. Few enough columns let out[c] stay next to
    the core while the rows stream by.
    """
    for c in range(len(ends) - 1):
        total = out[c, first:stop]
        t, last = ends[c], ends[c + 1]
        while t + 4 <= last:
            a, b = K[rows[t], first:stop], K[rows[t + 1], first:stop]
            d, e = K[rows[t + 2], first:stop], K[rows[t + 3], first:stop]
            u, v, x, y = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
            for j in range(stop - first):
                total[j] += (u * a[j] + v * b[j]) + (x * d[j] + y * e[j])
            t += 4
        while t < last:
            a, u = K[rows[t], first:stop], factors[t]
            for j in range(stop - first):
                total[j] += u * a[j]
            t += 1


@compiled
def add_members(F, groups, factors, out):
    """Add factors[i]·F[i] to out[groups[i]] for all i: short rows, in the order they come."""
    n, d = F.shape
    for i in range(n):
        total, row, u = out[groups[i]], F[i], factors[i]
        for j in range(d):
            total[j] += u * row[j]


@compiled
def judge(
    inner, shift, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt, wrong,
    first, stop,
):  # fmt: skip
    """Compare points first to stop with k centres; ⟨φ(x_j), μ_c⟩ is inner[c, j − shift].

    v = ‖μ‖² − 2⟨φ(x), μ⟩ is known up to e = rounding·(‖μ‖² + 2|⟨φ(x), μ⟩| + size): the nearest is
    the first c with v_c − e_c ≤ min(v + e). A centre with ‖μ‖² = ∞ is none. A label −1 asks for the
    nearest alone.
    """
    low, place = np.empty(WIDTH), np.empty(WIDTH, dtype=np.int64)
    for start in range(first, stop, WIDTH):
        m = min(WIDTH, stop - start)
        at = start - shift
        low[:] = np.inf
        for c in range(len(squares)):
            s = squares[c]
            if s < np.inf:
                row = inner[c, at : at + m]
                for j in range(m):
                    t = 2.0 * row[j]
                    upper = (s - t) + rounding * (s + abs(t))
                    low[j] = upper if upper < low[j] else low[j]
        for j in range(m):
            low[j] += 2.0 * rounding * sizes[start + j]
        place[:] = 0
        for c in range(len(squares) - 1, -1, -1):
            s = squares[c]
            if s < np.inf:
                row = inner[c, at : at + m]
                for j in range(m):
                    t = 2.0 * row[j]
                    lower = (s - t) - rounding * (s + abs(t))
                    place[j] = c if lower <= low[j] else place[j]
        for j in range(m):
            i, c = start + j, place[j]
            b = labels[i] if labels[i] >= 0 else c
            s, t = squares[c], 2.0 * inner[c, at + j]
            x, y = squares[b], 2.0 * inner[b, at + j]
            e, f = rounding * (s + abs(t)), rounding * (x + abs(y))
            nearest[i] = c
            own[i] = max((x - y) + lengths[i], 0.0)
            least[i] = max((s - t) + lengths[i], 0.0)
            wrong[i] = (x - y) - f > low[j]
            doubt[i] = (max(e, f) if f < np.inf else e) + rounding * (3.0 * lengths[i] + sizes[i])


@compiled
def judge_rows(
    F, C, step, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt, wrong,
    first, stop,
):  # fmt: skip
    """Compare rows first to stop of F with the rows of C as `judge` does, `step` at a time."""
    for start in range(first, stop, step):
        last = min(start + step, stop)
        inner = np.dot(C, F[start:last].T)
        judge(
            inner, start, squares, lengths, labels, sizes, rounding, nearest, own, least, doubt,
            wrong, start, last,
        )  # fmt: skip


# ---- Numbers beyond the range of floats: v and a whole exponent e stand for v·2^(512e) ----


BIG = 2.0**512
SMALL = 2.0**-512
UPPER = 2.0**256
LOWER = 2.0**-256
LOG_BIG = 512.0 * np.log(2.0)
NONE = -(2**62)  # the exponent of zero: below that of every number


@compiled
def lowered(gap):
    """Return 2^(−512·gap) for a gap of exponents ≥ 0; two and more leave nothing that counts."""
    return 1.0 if gap == 0 else (SMALL if gap == 1 else 0.0)


@compiled
def shift_of(v):
    """Return by how much the exponent must rise for v to come near 1: −1, 0 or 1."""
    return 1 if v > UPPER else (-1 if v < LOWER else 0)


@compiled
def logarithm(v, e):
    """Return log(v·2^(512e))."""
    return np.log(v) + e * LOG_BIG if v > 0.0 else -np.inf


# ---- Sums of products of one matrix with the shuffled rows and columns of another ----
# Row r of the second matrix stays near the core while the permutations take their turns with it,
# so it is read once for a whole group of them, and of the first matrix only the lower half is
# read.


@compiled
def add_shuffled(A, rows, first, P, Q, out):
    """Add to out[t] the terms Aᵢⱼ L[pᵢ, pⱼ], j < i, of the rows first ≤ pᵢ of L that are given.

    rows holds consecutive rows of L from `first` on; P[t] is a permutation p and Q[t] its inverse.
    Over all rows of L the sum is that of the strict lower half.
    """
    for r in range(rows.shape[0]):
        other = rows[r]
        for t in range(P.shape[0]):
            p = P[t]
            i = Q[t, first + r]
            row = A[i]
            # Four sums side by side, or each addition would wait for the one before.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            even = i // 4 * 4
            for j in range(0, even, 4):
                a += row[j] * other[p[j]]
                b += row[j + 1] * other[p[j + 1]]
                c += row[j + 2] * other[p[j + 2]]
                d += row[j + 3] * other[p[j + 3]]
            for j in range(even, i):
                a += row[j] * other[p[j]]
            out[t] += (a + b) + (c + d)


@compiled
def multiply_shuffled(K, P, row, out):
    """Set out[t] to the sum over j < i of K[0, i, j] Π K[k, pᵢ, pⱼ], p the row P[t, k − 1].

    row is space for as many numbers as a matrix has rows.
    """
    for t in range(P.shape[0]):
        total = 0.0
        for i in range(K.shape[1]):
            row[:i] = K[0, i, :i]
            for k in range(P.shape[1]):
                p = P[t, k]
                other = K[k + 1, p[i]]
                for j in range(i):
                    row[j] *= other[p[j]]
            part = 0.0
            for j in range(i):
                part += row[j]
            total += part
        out[t] = total
