"""Whether a device answers as main memory does: every kernel of vectors, estimators and tests."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from timing import Row

import mercer
from mercer import (
    RBF,
    GaussianProcessRegressor,
    KernelDensity,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
)
from mercer.domains.vectors import to_host
from mercer.statistics import hsic_test, mmd_test
from mercer.testing import kernel_examples

__all__ = ["compared"]

ROWS, NEW, COLUMNS = 800, 200, 5
DOUBLE, SINGLE = 1e-10, 1e-5  # differences allowed, of the largest number of an answer
# Where alpha is small few centres carry large coefficients, and the rounding of float32 kernel
# values is seen: the answer is that of the equations to `tol`, but these are not known better.
# In float64, and in float32 where alpha is 10, nothing is allowed beyond what all else is.
ROUNDED = 1e-3
SMALL: dict[str, Any] = {"solver": "falkon", "n_centers": 100, "random_state": 0, "tol": 1e-13}


def compared(device: str) -> Iterator[Row]:
    """Return a row for each piece of work and precision: time on the device, and the difference.

    Parameters
    ----------
    device : str
        As torch calls it.
    """
    for dtype in ("float64", "float32"):
        yield _kernels(device, dtype)
        for name, work in WORK.items():
            allowed = DOUBLE if dtype == "float64" else SINGLE
            if dtype == "float32" and name.endswith("Falkon"):
                allowed = ROUNDED
            yield _row(name, work, device, dtype, allowed)


def _row(name: str, work: Callable, device: str, dtype: str, allowed: float) -> Row:
    import torch

    def there(A: np.ndarray) -> Any:
        A = A.astype(dtype) if A.dtype.kind == "f" else A
        return torch.as_tensor(A, device=device)

    def here(A: np.ndarray) -> np.ndarray:
        return A.astype(dtype) if A.dtype.kind == "f" else A

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mercer.errors.NotConverged)
        expected = work(here)
        start = time.perf_counter()
        found = work(there)
        seconds = time.perf_counter() - start
    error = max(_difference(a, b) for a, b in zip(found, expected, strict=True))
    return Row(f"{name}, {dtype}", seconds, note=_verdict(error, allowed))


def _difference(a: Any, b: Any) -> float:
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300))


def _verdict(error: float, allowed: float) -> str:
    verdict = "" if error <= allowed else "  TOO LARGE"
    return f"largest difference {error:.0e} of the largest number (allowed {allowed:.0e}){verdict}"


def _kernels(device: str, dtype: str) -> Row:
    import torch

    rng = np.random.default_rng(0)
    worst, which, checked, others = 0.0, "", 0, 0
    start = time.perf_counter()
    for example in kernel_examples():
        X = example.sample(rng, 33)
        if not isinstance(X, np.ndarray) or X.dtype.kind != "f" or X.ndim != 2:
            others += 1
            continue
        X = X.astype(dtype)
        K = example.kernel(X)
        error = _difference(to_host(example.kernel(torch.as_tensor(X, device=device))), K)
        checked += 1
        worst, which = max((worst, which), (error, " ".join(repr(example.kernel).split())))
    note = _verdict(worst, DOUBLE if dtype == "float64" else SINGLE)
    work = f"{checked} kernels of vectors ({others} of other points), {dtype}"
    return Row(work, time.perf_counter() - start, note=f"{note}, of {which}")


# ----------------------------------------------------------------------------------- the work
_RNG = np.random.default_rng(0)
X, Q = _RNG.standard_normal((ROWS, COLUMNS)), _RNG.standard_normal((NEW, COLUMNS))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * _RNG.standard_normal(ROWS)
LABELS = (Y > 0.3).astype(int)
WEIGHTS = 0.5 + _RNG.integers(0, 3, ROWS)


def _ridge(**options: Any) -> Callable:
    def work(place: Callable) -> list:
        model = KernelRidge(RBF(2.0), **{"alpha": 0.1, "fit_intercept": True} | options)
        model.fit(place(X), place(Y), sample_weight=WEIGHTS)
        left_out = [model.loo()] if options["solver"] == "cholesky" else []
        return [model.predict(place(Q)), *left_out]

    return work


def _logistic(**options: Any) -> Callable:
    def work(place: Callable) -> list:
        model = KernelLogisticRegression(RBF(2.0), **options)
        return [model.fit(place(X), place(LABELS)).predict_proba(place(Q))]

    return work


def _process(place: Callable) -> list:
    model = GaussianProcessRegressor(RBF(np.full(COLUMNS, 2.0)), noise=0.1, optimizer=None)
    model.fit(place(X), place(Y))
    mean, deviation = model.predict(place(Q), return_std=True)
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    return [mean, deviation, value, gradient]


def _components(how: str) -> Callable:
    def work(place: Callable) -> list:
        model = KernelPCA(5, kernel=RBF(2.0), eigen_solver=how, random_state=0, tol=1e-12)
        return [np.abs(model.fit(place(X)).transform(place(Q)))]

    return work


def _density(place: Callable) -> list:
    return [KernelDensity().fit(place(X)).score_samples(place(Q))]


def _two_samples(place: Callable) -> list:
    result = mmd_test(place(X), place(X[:500] + 0.5), n_permutations=199, rng=0)
    return [result.statistic, result.pvalue]


def _pairs(place: Callable) -> list:
    result = hsic_test(place(X[:300]), place(Y[:300, None]), n_permutations=199, rng=0)
    return [result.statistic, result.pvalue]


WORK: dict[str, Callable] = {
    "KernelRidge, Cholesky and leave-one-out": _ridge(solver="cholesky"),
    "KernelRidge, conjugate gradients": _ridge(solver="cg", tol=1e-13),
    "KernelRidge, Falkon": _ridge(**SMALL),
    "KernelRidge, Falkon, alpha=10": _ridge(**SMALL, alpha=10.0),
    "KernelLogisticRegression": _logistic(),
    "KernelLogisticRegression, Falkon": _logistic(**SMALL),
    "KernelLogisticRegression, Falkon, alpha=10": _logistic(**SMALL, alpha=10.0),
    "GaussianProcessRegressor": _process,
    "KernelPCA, dense": _components("dense"),
    "KernelPCA, subspace iteration": _components("subspace"),
    "KernelDensity": _density,
    "mmd_test": _two_samples,
    "hsic_test": _pairs,
}
