"""How fast this machine computes: products, factorisations, memory, and the values of a kernel.

Rates are measured once in a process for each device and number of threads, in about a twentieth of
a second; those of a kernel on a few of the user's own points. They serve predictions of time only:
no result depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf

from mercer.domains.gram_rows import GramRows
from mercer.domains.vectors import is_torch
from mercer.engines import blocks
from mercer.engines.base import pick
from mercer.settings import get_config

__all__ = ["KernelRate", "Rates", "device_of", "kernel_rate", "machine_rates", "memory_budget"]

PRODUCT, FACTOR, STORED = 640, 1280, 1792  # edges of the matrices measured on the host
DEVICE_EDGE = 4096  # on a GPU
LONG = 0.01  # seconds that a measurement of a kernel should take
WHOLE = 0.08  # seconds after which no other one is begun
LARGEST = 1024  # points on each side of a tile measured
FREE = 0.95  # share of a device's free memory that may be planned with


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second.

    Parameters
    ----------
    gemm : float
        Operations of a product of float64 matrices.
    gemm_single : float
        The same of float32 matrices.
    potrf : float
        Operations of a Cholesky factorisation in place, n³/3 of them.
    read : float
        Bytes of a stored matrix read by a product with a vector.
    """

    gemm: float
    gemm_single: float
    potrf: float
    read: float


@dataclass(frozen=True)
class KernelRate:
    """What a kernel costs: seconds a value, and seconds a point that is prepared for it."""

    entry: float
    point: float = 0.0

    def seconds(self, entries: float, points: float = 0.0) -> float:
        """Return the time for so many values of so many points."""
        return entries * self.entry + points * self.point


def device_of(X: Any) -> str | None:
    """Return the device that the engine for X computes on, None for NumPy's memory."""
    if is_torch(X):
        return str(X.device)
    if get_config().engine == "torch" and (isinstance(X, np.ndarray) or hasattr(X, "toarray")):
        from mercer.engines.torch import chosen_device

        return chosen_device()
    return None


def memory_budget(device: str | None = None) -> int:
    """Return the bytes that a fit may take: of a GPU what it has free, else the budget."""
    if device is None or not device.startswith("cuda"):
        return get_config().memory
    import torch

    return int(FREE * torch.cuda.mem_get_info(device)[0])


def machine_rates(device: str | None = None) -> Rates:
    """Return the rates of the host or of a device, measured on the first call.

    Parameters
    ----------
    device : str or None
        A device of torch's; None for NumPy.

    Examples
    --------
    >>> from mercer.engines.rates import machine_rates
    >>> machine_rates() is machine_rates()
    True
    """
    gpu = device if device is not None and device.startswith("cuda") else None
    return _measured(gpu, get_config().threads)


@lru_cache(maxsize=16)
def _measured(device: str | None, threads: int) -> Rates:
    return _host_rates() if device is None else _device_rates(device)


def _best(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least time of a few runs, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def _host_rates() -> Rates:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((PRODUCT, PRODUCT))
    single = A.astype(np.float32)
    flops = 2.0 * PRODUCT**3
    gemm = flops / _best(lambda: A @ A)
    gemm_single = flops / _best(lambda: single @ single)
    B = np.full((FACTOR, FACTOR), 0.5, order="F")
    np.einsum("ii->i", B)[...] = 2.0

    def factorise() -> None:  # the strict upper triangle is left alone and refills the lower one
        dpotrf(B, lower=0, clean=0, overwrite_a=1)
        B[...] = 0.5
        np.einsum("ii->i", B)[...] = 2.0

    refill = _best(lambda: B.fill(0.5), 1)
    potrf = FACTOR**3 / 3.0 / max(_best(factorise, 2) - refill, 1e-9)
    C = np.ones((STORED, STORED))
    v = np.ones(STORED)
    return Rates(gemm, gemm_single, potrf, C.nbytes / _best(lambda: C @ v))


def _device_rates(device: str) -> Rates:
    import torch

    def done(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            work()
            torch.cuda.synchronize(device)

        return run

    n = DEVICE_EDGE
    A = torch.ones((n, n), dtype=torch.float64, device=device)
    single = A.float()
    v = torch.ones(n, dtype=torch.float64, device=device)
    gemm = 2.0 * n**3 / _best(done(lambda: A @ A), 2)
    gemm_single = 2.0 * n**3 / _best(done(lambda: single @ single), 2)
    read = A.element_size() * n * n / _best(done(lambda: A @ v))
    S = A * 0.5 + torch.eye(n, dtype=torch.float64, device=device)
    potrf = n**3 / 3.0 / _best(done(lambda: torch.linalg.cholesky(S)), 2)
    return Rates(gemm, gemm_single, potrf, read)


def kernel_rate(kernel: Any, X: Any, random_state: int = 0) -> KernelRate:
    """Return what values of a kernel cost on these points, from a tile of a few of them.

    The tile grows until it takes a hundredth of a second; so it does for a kernel of a nanosecond
    a value as for one of a millisecond. What it costs to prepare points is told apart from what it
    costs to compare them.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection
        Points to draw from.
    random_state : int, default=0
        Which points.
    """
    n = kernel.domain.size(X)
    if isinstance(kernel.domain, GramRows):  # given: a value is one that is read
        return KernelRate(8.0 / machine_rates().read)
    rng = np.random.default_rng(random_state)
    engine, take = pick(X), kernel.domain.take
    size, begun = 4, time.perf_counter()
    while True:
        left, right = (rng.choice(n, min(size, n), replace=False) for _ in range(2))
        A, B = engine.asarray(take(X, left)), engine.asarray(take(X, right))
        start = time.perf_counter()
        bound = kernel._bind(A, B)
        middle = time.perf_counter()
        engine.to_numpy(blocks.gram(bound)[-1:, -1:])  # waits for a device
        end = time.perf_counter()
        rate = KernelRate(
            max(end - middle, 1e-9) / (len(left) * len(right)),
            max(middle - start, 0.0) / (len(left) + len(right)),
        )
        if size >= min(n, LARGEST) or end - start > LONG or end - begun > WHOLE:
            return rate
        size = int(min(size * 4, LARGEST))
