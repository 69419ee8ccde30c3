"""Sums over all alignments of two series, cell by cell, in numbers with an exponent."""

from __future__ import annotations

import numpy as np

from mercer.jit.compile import compiled
from mercer.jit.scaled import BIG, LOG_BIG, NONE, SMALL, logarithm, lowered, shift_of

__all__ = ["advance", "log_pairs", "start"]

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
def _plain(x, y, precision, triangular, M):
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
def start(M, G, e):
    """Set sums, slopes and exponents to what they are before the first row."""
    M[:] = 0.0
    G[:] = 0.0
    e[:] = NONE
    M[0], e[0] = 1.0, 0


@compiled
def advance(x, y, first, stop, precision, triangular, M, G, e):
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
def log_pairs(x, begins, left, y, ends, right, precision, triangular, M, G, e, out, slopes):
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
            value = _plain(one, other, precision, triangular, M)
            if value > LEAST:
                out[t] = np.log(value)
                continue
        G_part = G[: m + 1] if sloped else G[:0]
        start(M[: m + 1], G_part, e[: m + 1])
        advance(one, other, 0, n, precision, triangular, M[: m + 1], G_part, e[: m + 1])
        out[t] = logarithm(M[m], e[m])
        if sloped and M[m] > 0.0:
            slopes[t] = G[m] / M[m]
