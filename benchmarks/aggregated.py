"""Aggregated two-sample tests, 5000 + 5000 points, d = 100, 20 kernels, beside MMDAgg's demo."""

from __future__ import annotations

import numpy as np
from timing import Row, best_of

from mercer.statistics import mmd_agg_test

__all__ = ["device_rows", "rows"]

# The authors' NumPy code, 20 kernels, wild bootstrap, 4000 draws, on 24 cores (Threadripper 3960X).
PUBLISHED = 43.1


def rows(n: int = 5000, d: int = 100) -> list[Row]:
    """Time the work of the demo, by signs of pairs, and permutations; the limit is the products."""
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(size=(n, d)), rng.uniform(size=(n, d)) + 0.01
    H = rng.standard_normal((1024, n)).astype(np.float32)
    table = []
    for null, draws, peer in (
        ("wild", 4000, PUBLISHED),
        ("wild", 999, None),
        ("permutation", 999, None),
    ):
        R = rng.choice(np.float32([-1, 1]), size=(n, draws + 1))
        (product,) = best_of(1, lambda R=R: H @ R)
        # Half of twenty products of N × N with N × B, N points or pairs.
        limit = 20 * product * n / len(H) / 2 * (1 if null == "wild" else 4)
        (ours,) = best_of(1, lambda B=draws, how=null: mmd_agg_test(X, Y, None, B, 0, null=how))
        table.append(
            Row(
                f"aggregated MMD {n}+{n} d={d} 20 kernels B={draws} {null}",
                ours,
                peer,
                "MMDAgg (published, 24 cores)" if peer else "",
                limit,
                "half of the products",
            )
        )
    return table


def device_rows(n: int = 5000, d: int = 100, draws: int = 2000, device: str = "cuda") -> list[Row]:
    """Time 20 kernels on a device, of one distance and of two; the target is 0.5 s.

    The limit is half of the products alone, of a matrix that lies there.
    """
    import torch

    table = []
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        make = {"device": device, "dtype": dtype}
        X, Y = torch.rand((n, d), **make), torch.rand((n, d), **make) + 0.01
        K, U = torch.rand((n, 2 * n), **make), torch.ones((2 * n, draws + 1), **make)

        def product(K: torch.Tensor = K, U: torch.Tensor = U) -> float:
            return float(sum((K @ U)[0, 0] for _ in range(20)))

        for families, count in ((("rbf",), 20), (("rbf", "laplacian"), 10)):
            for null in ("permutation", "wild"):

                def test(X=X, Y=Y, families=families, count=count, null=null) -> object:
                    return mmd_agg_test(
                        X,
                        Y,
                        n_permutations=draws,
                        rng=0,
                        n_bandwidths=count,
                        families=families,
                        null=null,
                    )

                test(), product()  # what is loaded once is not timed
                ours, limit = best_of(3, test, product)
                table.append(
                    Row(
                        f"{name}: MMD {n}+{n} d={d} 20 {'+'.join(families)} B={draws} {null}",
                        ours,
                        limit=limit / (1 if null == "permutation" else 4),
                        limit_name="half of the products",
                        note="target 0.5 s",
                    )
                )
        del X, Y, K, U
    return table
