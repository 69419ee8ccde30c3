"""Permutation tests of independence: against hyppo, and against one pass over gathered memory."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from timing import Row, best_of

from mercer import RBF, get_config
from mercer.statistics import hsic_test

try:
    from hyppo.independence import Hsic
except ImportError:
    Hsic = None

__all__ = ["device_rows", "rows"]


def rows(n: int = 1000, shuffles: int = 200, rounds: int = 3) -> list[Row]:
    """Time tests with kernels at the median distance; the target is 15×."""
    rng = np.random.default_rng(0)
    return [
        _row(rng, n, 5, shuffles, rounds, "both matrices stored"),
        _row(rng, n, 1, shuffles, rounds, "a few features of each are the kernels, to rounding"),
        *_given(rng, 4 * n, 5, shuffles // 4, rounds),
    ]


def _row(rng, n: int, d: int, shuffles: int, rounds: int, note: str) -> Row:
    x = rng.standard_normal((n, d))
    y = x**2 + 3 * rng.standard_normal((n, d))
    hsic_test(x[:300], y[:300], n_permutations=20, rng=0)  # compiles
    (ours,) = best_of(rounds, lambda: hsic_test(x, y, n_permutations=shuffles, rng=0))
    work = f"HSIC test n={n} d={d}, {shuffles} permutations"
    limit = _gathering(n, shuffles, rounds)
    if Hsic is None:
        note += "; hyppo is not installed"
        return Row(work, ours, limit=limit, limit_name="8n²B bytes read", note=note)

    def theirs() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Hsic().test(x, y, reps=shuffles, workers=1, auto=False)

    (peer,) = best_of(1, theirs)
    return Row(work, ours, peer, "hyppo", limit, "8n²B bytes read", f"{note}; target 15×")


def _given(rng, n: int, d: int, shuffles: int, rounds: int) -> list[Row]:
    """Time a matrix that does not fit the caches, without the search for the median distance."""
    x, y = rng.standard_normal((2, n, d))
    k = RBF(2.0)
    (ours,) = best_of(rounds, lambda: hsic_test(x, y, k, k, shuffles, 0))
    limit = _gathering(n, shuffles, rounds)
    work = f"HSIC test n={n} d={d}, {shuffles} permutations"
    return [Row(work, ours, limit=limit, limit_name="8n²B bytes read", note="both Grams included")]


def _gathering(n: int, shuffles: int, rounds: int) -> float:
    """Return the time to read 8n² bytes from memory once a permutation, on all threads."""
    A = np.ones((max(n, 4000), max(n, 4000)))  # larger than the caches
    threads = get_config().threads
    cuts = np.array_split(A, threads)

    def read() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: part.sum(), cuts))

    (once,) = best_of(rounds, read)
    return once * shuffles * n**2 / A.size


def device_rows(n: int = 5000, d: int = 10, draws: int = 1000, device: str = "cuda") -> list[Row]:
    """Time shuffles of both matrices on a device; the limit reads and gathers each once a draw."""
    import torch

    rng = np.random.default_rng(0)
    table = []
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        X, Y = (
            torch.as_tensor(rng.standard_normal((n, d)), device=device, dtype=dtype)
            for _ in range(2)
        )
        A, p = torch.rand((n, n), device=device, dtype=dtype), torch.randperm(n, device=device)

        def test(X: torch.Tensor = X, Y: torch.Tensor = Y) -> object:
            return hsic_test(X, Y, RBF(2.0), RBF(2.0), draws, 0)

        def gather(A: torch.Tensor = A, p: torch.Tensor = p) -> float:
            return float(sum((A * A[p][:, p]).sum() for _ in range(20)))

        test(), gather()
        ours, some = best_of(2, test, gather)
        table.append(
            Row(
                f"{name}: HSIC n={n} d={d} {draws} permutations",
                ours,
                limit=some * draws / 20,
                limit_name="torch, gathered one by one",
            )
        )
    return table
