"""Exact ridge at n=30000 by conjugate gradients, against a factorisation in the same run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from timing import Row, best_of

import mercer
from mercer import RBF, KernelRidge

__all__ = ["rows"]


def rows(n: int = 30000, d: int = 10, small: int = 8000, rounds: int = 1) -> list[Row]:
    """Time fits to a relative residual of 1e-6; the factorisation is extrapolated from a small n.

    Its Gram matrix grows as n², the rest as n³.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + np.cos(X[:, 1] + X[:, 2]) + 0.1 * rng.standard_normal(n)
    k = RBF(4.0)
    out = []
    direct = min(_seconds(k, X[:small], y[:small], "cholesky")[0] for _ in range(2))
    (gram,) = best_of(2, lambda: k(X[:small]))
    factorised = gram * (n / small) ** 2 + (direct - gram) * (n / small) ** 3
    for name, memory in (("kept", None), ("in tiles", 1.2 * 4 * n * n)):
        with mercer.config(memory=int(memory) if memory else mercer.get_config().memory):
            best = min((_seconds(k, X, y, "cg") for _ in range(rounds)), key=lambda r: r[0])
        seconds, model = best
        extra = model.solution_.extra
        note = (
            f"{model.n_iter_} iterations, residual {model.solution_.residual:.0e}, rank "
            f"{extra['rank']}, storage {extra['storage']}"
        )
        work = f"ridge by cg n={n}, K {name}"
        out.append(Row(work, seconds, factorised, f"Cholesky from n={small}", note=note))
    return out


def _seconds(k: RBF, X: np.ndarray, y: np.ndarray, solver: str) -> tuple[float, KernelRidge]:
    model = KernelRidge(k, alpha=1.0, solver=solver, random_state=0)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    return time.perf_counter() - start, model
