"""Common subsequences: the Gram matrix of 200 strings of 200 letters, and of 1000 of 100 letters.

The figure: at least 100 times faster than a dynamic programme in NumPy, row by row. The limit is
that of 2(p − 1) fused multiply-adds for each pair of letters, at the rate of a product of matrices.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.signal import lfilter
from timing import Row, best_of

from mercer.kernels import Subsequence

__all__ = ["rows"]


def row_by_row(s: np.ndarray, t: np.ndarray, p: int, lam: float) -> float:
    """The recursion for one pair, vectorised along t: the scan along a row is a linear filter."""
    n, m = len(s), len(t)
    same = (s[:, None] == t[None, :]).astype(float)
    below = np.ones((n + 1, m + 1))
    for _ in range(p - 1):
        D = np.zeros((n + 1, m + 1))
        for i in range(n):
            along = lfilter((1.0,), (1.0, -lam), same[i] * below[i, :-1])
            D[i + 1, 1:] = lam * D[i, 1:] + along
        below = D
    return lam ** (2 * p) * float((same * below[:-1, :-1]).sum())


def by_tables(s: np.ndarray, t: np.ndarray, p: int, lam: float) -> float:
    """The recursion for one pair, a level at a time: two filters of whole tables."""
    same = (s[:, None] == t[None, :]).astype(float)
    below = np.ones((len(s) + 1, len(t) + 1))
    for _ in range(p - 1):
        along = lfilter((1.0,), (1.0, -lam), same * below[:-1, :-1], axis=1)
        below[1:, 1:] = lfilter((1.0,), (1.0, -lam), along, axis=0)
        below[0], below[:, 0] = 0.0, 0.0
    return lam ** (2 * p) * float((same * below[:-1, :-1]).sum())


def rows(rounds: int = 3, p: int = 4, lam: float = 0.5, sampled: int = 12) -> list[Row]:
    """Time Gram matrices and a gradient; peers compute some pairs, counted up to all of them."""
    rng = np.random.default_rng(0)

    def strings(n: int, letters: int) -> list[str]:
        return ["".join(row) for row in rng.choice(list("acdefghiklmnpqrstvwy"), (n, letters))]

    few, many = strings(200, 200), strings(1000, 100)
    k = Subsequence(p, lam)
    K = k(few)
    W = np.ones(K.shape)
    k.theta_vjp(few[:2], W[:2, :2])  # compiles
    points = [np.array([*map(ord, s)]) for s in few]
    pairs = [(i, (7 * i + 3) % 200) for i in range(sampled)]
    gap = 0.0
    for peer in (row_by_row, by_tables):
        values = np.array([peer(points[i], points[j], p, lam) for i, j in pairs])
        gap = max(gap, max(abs(v / K[i, j] - 1) for v, (i, j) in zip(values, pairs, strict=True)))

    def some(peer) -> None:
        for i, j in pairs:
            peer(points[i], points[j], p, lam)

    A = rng.standard_normal((1500, 1500))
    mine, more, slope, rowwise, tables, product = best_of(
        rounds,
        lambda: k(few),
        lambda: k(many),
        lambda: k.theta_vjp(few, W),
        partial(some, row_by_row),
        partial(some, by_tables),
        lambda: A @ A,
    )
    all_pairs, letters = 200 * 201 // 2, 200 * 200
    rate = len(A) ** 3 / product
    fused = all_pairs * letters * 2 * (p - 1) / rate
    ratio = (1000 * 1001 // 2 * 100 * 100) / (all_pairs * letters)
    cells = p * all_pairs * letters / mine
    work = f"subsequences p={p}, 200 strings of 200 letters"
    limit = "fused multiply-adds at the rate of a matrix product"
    return [
        Row(
            work,
            mine,
            rowwise / sampled * all_pairs,
            "NumPy row by row",
            fused,
            limit,
            note=f"target 100×; {cells / 1e9:.1f}e9 cells/s; largest difference {gap:.0e}",
        ),
        Row(work, mine, tables / sampled * all_pairs, "SciPy's filters of whole tables"),
        Row(f"{work}, gradient in the decay", slope),
        Row(
            f"subsequences p={p}, 1000 strings of 100 letters",
            more,
            limit=mine * ratio,
            limit_name="predicted from 200 strings",
            note=f"{p * 1000 * 1001 // 2 * 10**4 / more / 1e9:.1f}e9 cells/s",
        ),
    ]
