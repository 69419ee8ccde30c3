"""Two-sample tests: against hyppo where it is installed, and 100000 points inside 1 GB."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from timing import Row, best_of

from mercer import RBF
from mercer.engines import tiles
from mercer.statistics import mmd_test

__all__ = ["device_rows", "rows"]

HYPPO_REPS = 20  # permutations that are timed of hyppo's; the time of 200 is ten times that of them


def rows() -> list[Row]:
    """Time a test of 1000 + 1000 points and one of 50000 + 50000."""
    return [*against_hyppo(), *large()]


def samples(n: int, m: int, d: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return two samples."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)) + shift


def against_hyppo(n: int = 1000, d: int = 5, reps: int = 200, rounds: int = 5) -> list[Row]:
    """Permutation p-values of one statistic at the median length scale; the target is 300×.

    The limit is half of the Gram matrix, in tiles, and the product with 200 label vectors alone.
    """
    X, Y = samples(n, n, d)
    Z, V = np.vstack([X, Y]), (np.random.default_rng(1).random((2 * n, reps)) < 0.5).astype(float)
    kernel = RBF("median").fit_params(Z)
    K, product = kernel(Z), np.empty((2 * n, reps))
    mmd_test(X[:50], Y[:50])
    ours, gram, gemm = best_of(
        rounds,
        lambda: mmd_test(X, Y, None, reps, 0),
        lambda: tiles.matmul(kernel._bind(Z), V[:, :1]),
        lambda: np.matmul(K, V, out=product),
    )
    row = Row(
        f"MMD test {n}+{n} points, d={d}, {reps} permutations",
        ours,
        limit=gram + gemm / 2,
        limit_name="half of the Gram matrix and of the product",
    )
    note = f"target 300×; p={mmd_test(X, Y, None, reps, 0).pvalue:.3f}"
    if find_spec("hyppo") is not None:
        from hyppo.ksample import MMD

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MMD().test(X[:30], Y[:30], reps=5, auto=False)
            some, none, formula = best_of(
                1,
                lambda: MMD().test(X, Y, reps=HYPPO_REPS, workers=1, auto=False),
                lambda: MMD().test(X, Y, reps=1, workers=1, auto=False),
                lambda: MMD().test(X, Y),
            )
        each = (some - none) / (HYPPO_REPS - 1)
        row.peer, row.peer_name = none + (reps - 1) * each, "hyppo, from 20 permutations"
        note += f"; hyppo without permutations (chi-squared) {formula:.2f} s"
    row.note = note
    return [row]


LARGE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import mercer, two_sample
n, d, reps = map(int, sys.argv[2:5])
X, Y = two_sample.samples(n, n, d)
two_sample.mmd_test(X[:500], Y[:500], None, reps, 0)
def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(name))
try:
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
except OSError:
    pass
start = time.perf_counter()
with mercer.config(memory="800MB"):
    result = two_sample.mmd_test(X, Y, None, reps, 0)
print(json.dumps([time.perf_counter() - start, status("VmHWM"), result.pvalue]))
"""


def large(n: int = 50_000, d: int = 5, reps: int = 200) -> list[Row]:
    """Test 100000 points in a process of its own and read the peak of its whole memory."""
    command = [sys.executable, "-c", LARGE, str(Path(__file__).parent), *map(str, (n, d, reps))]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak, pvalue = json.loads(child.stdout)
    return [
        Row(
            f"MMD test {n}+{n} points, d={d}, {reps} permutations",
            seconds,
            note=f"peak of the process {peak:.0f} MB, target 1000; p={pvalue:.3f}",
        )
    ]


def device_rows(n: int = 50_000, d: int = 20, reps: int = 1000, device: str = "cuda") -> list[Row]:
    """Time a test of 2n points on a device; the limit is half of its products of that precision."""
    import torch

    table = []
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        X, Y = (torch.as_tensor(Z, device=device, dtype=dtype) for Z in samples(n, n, d))
        K = torch.rand((2000, 2 * n), device=device, dtype=dtype)
        V = torch.ones((2 * n, reps + 1), device=device, dtype=dtype)

        def test(X: torch.Tensor = X, Y: torch.Tensor = Y) -> object:
            return mmd_test(X, Y, None, reps, 0)

        def product(K: torch.Tensor = K, V: torch.Tensor = V) -> float:
            return float((K @ V)[0, 0])

        result, _ = test(), product()
        ours, band = best_of(2, test, product)
        table.append(
            Row(
                f"{name}: MMD test {n}+{n} points, d={d}, {reps} permutations",
                ours,
                limit=band * 2 * n / len(K) / 2,
                limit_name="half of the product",
                note=f"p={result.pvalue:.3f}",  # type: ignore[attr-defined]
            )
        )
        del X, Y, K, V
    return table
