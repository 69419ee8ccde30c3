"""Sums over all local alignments of two strings, cell by cell, in numbers with an exponent."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled
from mercer.jit.tiles import BIG, LOG_BIG, NONE, SMALL, logarithm, lowered, shift_of

# Any piece of a local alignment is one itself, so what underflow loses is at most T²·2⁻¹⁰⁷⁴ a cell
# beside the sum T of all: nothing up to this T.
MOST = 1e290


@compiled
def _local_plain(x, y, E, costs, R):
    """Return the sum over local alignments in plain numbers, ∞ if too large; see `advance`."""
    m = len(y)
    M, X, Y = R[0], R[1], R[2]
    R[:, : m + 1] = 0.0
    given = E.shape[0] > 0
    match, other = np.exp(costs[0]), np.exp(costs[1])
    opened, longer = np.exp(costs[2]), np.exp(costs[3])
    total = 1.0
    for i in range(len(x)):
        corner = 1.0
        for j in range(m):
            factor = E[x[i], y[j]] if given else (match if x[i] == y[j] else other)
            above = 1.0 + M[j + 1] + X[j + 1] + Y[j + 1]
            X[j + 1] = opened * M[j + 1] + longer * X[j + 1]
            M[j + 1] = factor * corner
            Y[j + 1] = opened * (M[j] + X[j]) + longer * Y[j]
            total += M[j + 1]
            corner = above
        if total > MOST:
            return np.inf
    return total


@compiled
def local_start(R, G, e, total):
    """Set sums, derivatives and exponents to what they are before the first row."""
    R[:, :] = 0.0
    G[:, :] = 0.0
    e[:] = 0
    total[0], total[1], total[2] = 1.0, 0.0, 0.0


@compiled
def local_advance(x, y, first, stop, B, E, costs, R, G, e, total):
    """Add rows first to stop of the recursion of Saigo, Vert, Ueda and Akutsu (2004).

    R holds M, X, Y of the last row: sums that end in a pair, in a gap of x after it, in a gap of y;
    the three of a cell share the exponent in e. Factors lie between e⁻¹⁰⁰ ≈ 2⁻¹⁴⁴ and e¹⁰⁰, so what
    is dropped is below 2⁻²²³ of another one of its cell, and does not matter: a gap can be opened
    anew, or the other gap be taken, for more. G holds their derivatives in log β, none where it is
    shorter than R: a factor is exp of something linear in β, so it changes by its own logarithm.
    E = exp(B), B = βS; of shape (0, 0) letters match or not. costs: β times match, mismatch, and
    minus those of gaps. total: the sum over all alignments so far, its derivative, its exponent.
    """
    m, sloped = len(y), G.shape[1] == R.shape[1]
    M, X, Y = R[0], R[1], R[2]
    P, Q, S = G[0], G[1], G[2]
    given = E.shape[0] > 0
    match, other = np.exp(costs[0]), np.exp(costs[1])
    opened, longer = np.exp(costs[2]), np.exp(costs[3])
    u = z = p = q = s = 0.0
    for i in range(first, stop):
        corner, turn, at_corner = 0.0, 0.0, 0
        a, b, c, at_left = 0.0, 0.0, 0.0, 0  # M, X, Y to the left, and their derivatives p, q, s
        p = q = s = 0.0
        for j in range(m):
            if given:
                factor, score = E[x[i], y[j]], B[x[i], y[j]]
            elif x[i] == y[j]:
                factor, score = match, costs[0]
            else:
                factor, score = other, costs[1]
            at_above = e[j + 1]
            above = M[j + 1] + X[j + 1] + Y[j + 1]
            pair = factor * (corner + lowered(at_corner))  # the alignment may begin here
            gap = opened * M[j + 1] + longer * X[j + 1]
            skip = opened * (a + b) + longer * c
            if sloped:
                rise = P[j + 1] + Q[j + 1] + S[j + 1]
                s = opened * (p + q + costs[2] * (a + b)) + longer * (s + costs[3] * c)
                p = factor * turn + score * pair
                q = opened * (P[j + 1] + costs[2] * M[j + 1])
                q += longer * (Q[j + 1] + costs[3] * X[j + 1])
                turn = rise
            top = max(at_corner, at_above, at_left)
            u, z, c = lowered(top - at_corner), lowered(top - at_above), lowered(top - at_left)
            a, b, c = u * pair, z * gap, c * skip
            if sloped:
                p, q, s = u * p, z * q, lowered(top - at_left) * s
            at_left = top
            move = shift_of(max(a, b, c))
            if move > 0 or (move < 0 and top > 0):
                factor = SMALL if move > 0 else BIG
                a, b, c = a * factor, b * factor, c * factor
                p, q, s = p * factor, q * factor, s * factor
                at_left += move
            M[j + 1], X[j + 1], Y[j + 1], e[j + 1] = a, b, c, at_left
            if sloped:
                P[j + 1], Q[j + 1], S[j + 1] = p, q, s
            held = int(total[2])
            top = max(held, at_left)
            u, z = lowered(top - held), lowered(top - at_left)
            total[0] = u * total[0] + z * a
            total[1] = u * total[1] + z * p
            total[2] = top
            corner, at_corner = above, at_above


@compiled
def local_log_pairs(x, begins, left, y, ends, right, B, E, costs, R, G, e, total, out, slopes):
    """Write log k(x_l, y_r) for pairs of strings of two packed collections; slopes may be empty."""
    sloped = len(slopes) > 0
    for t in range(len(left)):
        one = x[begins[left[t]] : begins[left[t] + 1]]
        other = y[ends[right[t]] : ends[right[t] + 1]]
        if not sloped:
            value = _local_plain(one, other, E, costs, R)
            if value < MOST:
                out[t] = np.log(value)
                continue
        m = len(other)
        G_part = G[:, : m + 1] if sloped else G[:, :0]
        local_start(R[:, : m + 1], G_part, e[: m + 1], total)
        local_advance(
            one, other, 0, len(one), B, E, costs, R[:, : m + 1], G_part, e[: m + 1], total
        )
        out[t] = logarithm(total[0], total[2])
        if sloped:
            slopes[t] = total[1] / total[0]


# ---- Sums over all alignments of two series, cell by cell, in numbers with an exponent ----


# Two series of n + m ≤ 500 steps have fewer than 10¹⁹² alignments, so no partial sum overflows.
# What underflow loses is at most 2⁻¹⁰⁷⁴ a cell, times the alignments of the rest: below 10⁻¹²⁶ for
# a million cells, which is nothing beside a sum above 10⁻¹⁰⁰.
SHORT = 500
LEAST = 1e-100
FARTHEST = 1e15  # exponents v beyond count as this: exp(−v) is nothing, and its logarithm is finite


@compiled
def _exponent(x, y, i, j, precision):
    """Return v = ‖xᵢ − yⱼ‖²/2σ²; the precision is 1/(√2σ)."""
    total = 0.0
    for k in range(x.shape[1]):
        gap = (x[i, k] - y[j, k]) * precision
        total += gap * gap
    return total if total < FARTHEST else FARTHEST


@compiled
def _global_plain(x, y, precision, triangular, M):
    """Return the sum over alignments of two short series in plain numbers; see `advance`."""
    n, m = len(x), len(y)
    M[: m + 1] = 0.0
    M[0] = 1.0
    for i in range(n):
        low, high = 0, m
        if triangular > 0:
            low, high = max(0, i - triangular + 1), min(m, i + triangular)
        corner = M[low]
        left = M[low] = 0.0
        for j in range(low, high):
            w = np.exp(-_exponent(x, y, i, j, precision))
            if triangular > 0:
                w *= 1.0 - abs(i - j) / triangular
            above = M[j + 1]
            left = w / (2.0 - w) * (corner + above + left)
            M[j + 1], corner = left, above
    return M[m]


@compiled
def global_start(M, G, e):
    """Set sums, slopes and exponents to what they are before the first row."""
    M[:] = 0.0
    G[:] = 0.0
    e[:] = NONE
    M[0], e[0] = 1.0, 0


@compiled
def global_advance(x, y, first, stop, precision, triangular, M, G, e):
    """Add rows first to stop: M[j + 1]·2^(512 e[j + 1]) becomes the sum up to (row, j).

    M(i, j) = κᵢⱼ (M(i−1, j−1) + M(i−1, j) + M(i, j−1)) with κ = w/(2 − w), w = ω exp(−v),
    v = ‖x − y‖²/2σ² (Cuturi 2011). G holds derivatives in log σ, of the same exponents, by
    ∂log κ/∂log σ = 4v/(2 − w); none where it is shorter than M.
    """
    m, sloped = len(y), len(G) == len(M)
    for i in range(first, stop):
        low, high = 0, m
        if triangular > 0:
            low, high = max(0, i - triangular + 1), min(m, i + triangular)
        corner, at_corner, turn = M[low], e[low], 0.0
        M[low], e[low] = 0.0, NONE
        if sloped:
            turn = G[low]
            G[low] = 0.0
        left, at_left, slope = 0.0, NONE, 0.0
        for j in range(low, high):
            above, at_above = M[j + 1], e[j + 1]
            rise = G[j + 1] if sloped else 0.0
            v = _exponent(x, y, i, j, precision)
            q = int(v / LOG_BIG + 0.5)
            w = np.exp(q * LOG_BIG - v)
            if triangular > 0:
                w *= 1.0 - abs(i - j) / triangular
            rest = 2.0 - w if q == 0 else 2.0  # below 2⁻²⁵⁶ w is nothing beside 2
            top = max(at_corner, at_above, at_left)
            a, b, c = lowered(top - at_corner), lowered(top - at_above), lowered(top - at_left)
            kappa = w / rest
            total = a * corner + b * above + c * left
            if sloped:
                slope = kappa * (a * turn + b * rise + c * slope + 4.0 * v / rest * total)
            left = kappa * total
            at_left = top - q
            move = shift_of(left)
            if move != 0:
                if left == 0.0:
                    at_left = NONE
                else:
                    factor = SMALL if move > 0 else BIG
                    left *= factor
                    slope *= factor
                    at_left += move
            M[j + 1], e[j + 1] = left, at_left
            if sloped:
                G[j + 1] = slope
            corner, at_corner, turn = above, at_above, rise


@compiled
def global_log_pairs(x, begins, left, y, ends, right, precision, triangular, M, G, e, out, slopes):
    """Write log k(x_l, y_r) for pairs of series of two packed collections; slopes may be empty."""
    sloped = len(slopes) > 0
    for t in range(len(left)):
        one = x[begins[left[t]] : begins[left[t] + 1]]
        other = y[ends[right[t]] : ends[right[t] + 1]]
        n, m = len(one), len(other)
        if sloped:
            slopes[t] = 0.0
        if triangular > 0 and abs(n - m) >= triangular:
            out[t] = -np.inf
            continue
        if n + m <= SHORT and not sloped:
            value = _global_plain(one, other, precision, triangular, M)
            if value > LEAST:
                out[t] = np.log(value)
                continue
        G_part = G[: m + 1] if sloped else G[:0]
        global_start(M[: m + 1], G_part, e[: m + 1])
        global_advance(one, other, 0, n, precision, triangular, M[: m + 1], G_part, e[: m + 1])
        out[t] = logarithm(M[m], e[m])
        if sloped and M[m] > 0.0:
            slopes[t] = G[m] / M[m]
