"""Aggregated two-sample tests, 5000 + 5000 points, d = 100, 20 kernels, beside MMDAgg's demo."""

from __future__ import annotations

import numpy as np
from timing import Row, best_of

from mercer.statistics import mmd_agg_test

__all__ = ["rows"]

# The authors' NumPy code, 20 kernels, wild bootstrap, 4000 draws, on 24 cores (Threadripper 3960X).
PUBLISHED = 43.1


def rows(n: int = 5000, d: int = 100) -> list[Row]:
    """Time the work of the demo and the default number of draws; the limit is the products."""
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(size=(n, d)), rng.uniform(size=(n, d)) + 0.01
    H = rng.standard_normal((1024, n)).astype(np.float32)
    table = []
    for draws, peer in ((4000, PUBLISHED), (999, None)):
        R = rng.choice(np.float32([-1, 1]), size=(n, draws + 1))
        (product,) = best_of(1, lambda R=R: H @ R)
        # Half of twenty products of n × n with n × B.
        limit = 20 * product * n / len(H) / 2
        (ours,) = best_of(1, lambda B=draws: mmd_agg_test(X, Y, n_permutations=B, rng=0))
        table.append(
            Row(
                f"aggregated MMD {n}+{n} d={d} 20 kernels B={draws}",
                ours,
                peer,
                "MMDAgg (published, 24 cores)" if peer else "",
                limit,
                "half of the products",
            )
        )
    return table
