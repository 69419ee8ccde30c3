"""Sums over all local alignments of two strings, cell by cell, in numbers with an exponent."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled
from mercer.jit.scaled import BIG, SMALL, logarithm, lowered, shift_of

__all__ = ["advance", "log_pairs", "start"]


# Any piece of a local alignment is one itself, so what underflow loses is at most T²·2⁻¹⁰⁷⁴ a cell
# beside the sum T of all: nothing up to this T.
MOST = 1e290


@compiled
def _plain(x, y, E, costs, R):
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
def start(R, G, e, total):
    """Set sums, derivatives and exponents to what they are before the first row."""
    R[:, :] = 0.0
    G[:, :] = 0.0
    e[:] = 0
    total[0], total[1], total[2] = 1.0, 0.0, 0.0


@compiled
def advance(x, y, first, stop, B, E, costs, R, G, e, total):
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
def log_pairs(x, begins, left, y, ends, right, B, E, costs, R, G, e, total, out, slopes):
    """Write log k(x_l, y_r) for pairs of strings of two packed collections; slopes may be empty."""
    sloped = len(slopes) > 0
    for t in range(len(left)):
        one = x[begins[left[t]] : begins[left[t] + 1]]
        other = y[ends[right[t]] : ends[right[t] + 1]]
        if not sloped:
            value = _plain(one, other, E, costs, R)
            if value < MOST:
                out[t] = np.log(value)
                continue
        m = len(other)
        G_part = G[:, : m + 1] if sloped else G[:, :0]
        start(R[:, : m + 1], G_part, e[: m + 1], total)
        advance(one, other, 0, len(one), B, E, costs, R[:, : m + 1], G_part, e[: m + 1], total)
        out[t] = logarithm(total[0], total[2])
        if sloped:
            slopes[t] = total[1] / total[0]
