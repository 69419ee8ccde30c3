"""Plans against fits: time and memory foretold, and what the fit then took."""

from __future__ import annotations

import time
import warnings

import numpy as np
from timing import Row

from mercer import (
    RBF,
    SVC,
    SVR,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    Polynomial,
    SpectralClustering,
)

__all__ = ["rows"]

K = RBF(3.0)
CASES = {
    "ridge": (lambda: KernelRidge(K, solver="cholesky"), 6000),
    "ridge, conjugate gradients": (lambda: KernelRidge(K, solver="cg", random_state=0), 8000),
    "ridge, falkon": (lambda: KernelRidge(K, solver="falkon", random_state=0), 30_000),
    "ridge, primal": (lambda: KernelRidge(Polynomial(3)), 20_000),
    "ridge, alpha by loo": (lambda: KernelRidge(K, alpha="loo"), 2000),
    "logistic": (lambda: KernelLogisticRegression(K), 4000),
    "components": (lambda: KernelPCA(10, K), 6000),
    "clusters": (lambda: KernelKMeans(8, K, random_state=0), 6000),
    "spectral clusters": (lambda: SpectralClustering(8, K, random_state=0), 4000),
    "process": (lambda: GaussianProcessRegressor(K), 2000),
    "svc": (lambda: SVC(K), 10_000),
    "svr": (lambda: SVR(K), 6000),
}


def rows(only: str = "") -> list[Row]:
    """Plan and fit each case once; about half a minute on two cores."""
    rng = np.random.default_rng(0)
    out = []
    for name, (make, n) in CASES.items():
        if only not in name:
            continue
        X = rng.standard_normal((n, 10))
        y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
        y = y > 0 if name in ("logistic", "svc") else y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make().fit(X[:200], y[:200])  # what is loaded and compiled at first
            make().plan(X[:200], y[:200])
            start = time.perf_counter()
            plan = make().plan(X, y)
            planning = time.perf_counter() - start
            start = time.perf_counter()
            make().fit(X, y)
            took = time.perf_counter() - start
        expected = float(plan.seconds or 0.0)
        note = f"target a factor of 3; {plan!r}, itself made in {1000 * planning:.0f} ms"
        out.append(Row(f"plan of {name}, n={n}", took, expected, "the time foretold", note=note))
    return out
