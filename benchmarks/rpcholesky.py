"""Randomly pivoted Cholesky: blocks of pivots against one pivot at a time, at equal error."""

from __future__ import annotations

import numpy as np
from timing import Row, best_of

from mercer import RBF
from mercer.operators import Gram
from mercer.solvers import rpcholesky

__all__ = ["rows"]

SCALE = 3.0


def rows() -> list[Row]:
    """Time everything; about a quarter of a minute on two cores, most of it one at a time."""
    return factor()


def points(n: int, d: int) -> Gram:
    """Return the Gram matrix of Gaussian points, never stored."""
    X = np.random.default_rng(0).standard_normal((n, d))
    return Gram(RBF(SCALE), X, keep=False)


def factor(n: int = 50_000, d: int = 10, rank: int = 1000, rounds: int = 3) -> list[Row]:
    """Rank 1000 of 50000 points; the target is 5×. The limit is r²n operations in products."""
    K = points(n, d)
    A, B = np.ones((n, rank // 2)), np.ones((rank // 2, 128))
    A @ B
    left = {}

    def timed(block: int | None) -> None:
        left[block] = rpcholesky(K, rank, 0, block=block).trace_error

    fast, product = best_of(rounds, lambda: timed(None), lambda: A @ B)
    (simple,) = best_of(1, lambda: timed(1))
    limit = product * (rank * rank * n) / (2 * n * (rank // 2) * 128)
    return [
        Row(
            f"rpcholesky n={n} d={d} rank={rank}",
            fast,
            simple,
            "one pivot at a time",
            limit,
            "products",
            note=f"target 5×; trace error {left[None]:.4f}, {left[1]:.4f}; {errors()}",
        )
    ]


def errors(n: int = 5000, d: int = 10, rank: int = 200, seeds: int = 10) -> str:
    """Return the trace errors of both over several seeds, and their difference, in words.

    z is the difference of the means over its standard error: within noise it is below 2 or so.
    """
    K = points(n, d)
    said, means, squares = [], [], []
    for name, block in (("blocks", None), ("one at a time", 1)):
        # Seeds of their own: with common ones the two samples would not be independent.
        first = 0 if block is None else seeds
        left = [
            rpcholesky(K, rank, seed, block=block).trace_error
            for seed in range(first, first + seeds)
        ]
        means.append(np.mean(left))
        squares.append(np.var(left, ddof=1) / seeds)
        said.append(f"{name} {means[-1]:.4f} ± {np.std(left, ddof=1):.4f}")
    z = (means[0] - means[1]) / np.sqrt(sum(squares))
    return f"trace error n={n} rank={rank} over {seeds} seeds: " + ", ".join(said) + f", z={z:.1f}"
