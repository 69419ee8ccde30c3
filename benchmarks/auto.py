"""What "auto" takes beside the best of the ways that it chooses among, on problems drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from works.base import blobs, classes, regression, width

import mercer
from mercer import RBF, Matern

__all__ = ["compare"]

PATIENCE = 20.0  # seconds, beyond which a way is not tried on larger problems of its kind
Fit = Callable[[str], Any]


def ridge(n: int, d: int, rng: Any) -> tuple[Fit, tuple[str, ...]]:
    """Ridge regressions of a small, usual or large penalty."""
    X, y = regression(n, d)
    alpha, kernel = 10.0 ** rng.uniform(-3, 1), rng.choice([0, 1])
    k = RBF(width(d)) if kernel else Matern(width(d), nu=1.5)
    return lambda way: mercer.KernelRidge(k, alpha=alpha, solver=way, random_state=0).fit(X, y), (
        "cholesky",
        "cg",
    )


def logistic(n: int, d: int, rng: Any) -> tuple[Fit, tuple[str, ...]]:
    """Logistic regressions of two classes."""
    X, y = classes(n, d)
    alpha, k = 10.0 ** rng.uniform(-2, 1), RBF(width(d))
    return lambda way: mercer.KernelLogisticRegression(
        k, alpha=alpha, solver=way, random_state=0
    ).fit(X, y), ("cholesky", "cg")


def components(n: int, d: int, rng: Any) -> tuple[Fit, tuple[str, ...]]:
    """A few leading components."""
    X, k = blobs(n, d), int(rng.integers(2, 20))
    return lambda way: mercer.KernelPCA(k, RBF(width(d)), eigen_solver=way, random_state=0).fit(
        X
    ), ("dense", "subspace")


KINDS = {"ridge": (ridge, 30_000), "logistic": (logistic, 6000), "components": (components, 12_000)}


def compare(count: int, seed: int, only: str = "") -> None:
    """Time "auto" and each way on so many problems, and print how often it was near the best."""
    rng = np.random.default_rng(seed)
    names = [name for name in KINDS if only.lower() in name]
    lost = []
    for i in range(count):
        name = names[i % len(names)]
        make, most = KINDS[name]
        n = int(np.exp(rng.uniform(np.log(100), np.log(most))))
        d = int(np.exp(rng.uniform(np.log(2), np.log(60))))
        fit, ways = make(n, d, rng)
        times = _timed(fit, ("auto", *ways))
        best = min(times.values())
        lost.append(times["auto"] / best)
        told = "  ".join(f"{way} {1000 * t:9.1f} ms" for way, t in times.items())
        print(f"{name:12} n={n:6} d={d:3}  {told}  {lost[-1]:5.2f} × the best", flush=True)
    ratios = np.array(lost)
    print(
        f"\nseed {seed}, {count} problems: at most 1.2 × the best in {(ratios <= 1.2).mean():.1%}, "
        f"at most 2 × in {(ratios <= 2).mean():.1%}, worst {ratios.max():.2f} ×"
    )


def _timed(fit: Fit, ways: tuple[str, ...], rounds: int = 3) -> dict[str, float]:
    """Return the least seconds of each way, in turn; one that takes long is tried once."""
    best = dict.fromkeys(ways, np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(rounds + 1):
            for way in ways:
                if k > 1 and best[way] > PATIENCE / 10:
                    continue
                began = time.perf_counter()
                fit(way)
                took = time.perf_counter() - began
                best[way] = min(best[way], took) if k else (took if took > PATIENCE else np.inf)
    return best
