"""How fast this machine computes: products, factorisations, memory, and the values of a kernel.

Rates are measured once in a process for each device and number of threads, in about a twentieth of
a second; those of a kernel on a few of the user's own points. Where the memory budget is small the
matrices measured are smaller, and measured apart. Rates serve predictions of time only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf

from mercer.domains import namespace
from mercer.engines import tiles as blocks
from mercer.engines.base import pick, to_device
from mercer.settings import get_config

PRODUCT, FACTOR, STORED = 512, 1024, 1800  # edges of the matrices measured on the host
TOGETHER = 40  # bytes for each entry of all of them at a time
LARGE_FACTOR = 0.7  # of the rate of products, reached by factorisations of some thousand rows
DEVICE_EDGE = 4096  # on a GPU
FEWEST, MOST = 3, 8  # runs of a measurement of the machine: most of them may be interrupted
PATIENCE = 0.015  # seconds after which the fewest are enough
LONG = 0.01  # seconds that a measurement of a kernel should take
WHOLE = 0.08  # seconds after which no other one is begun
LARGEST = 2048  # points on each side of a tile measured


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
    touch : float
        Bytes of new memory written for the first time.
    """

    gemm: float
    gemm_single: float
    potrf: float
    read: float
    touch: float


@dataclass(frozen=True)
class KernelRate:
    """What a kernel costs: seconds a value, and seconds a point that is prepared for it."""

    entry: float
    point: float = 0.0

    def seconds(self, entries: float, points: float = 0.0) -> float:
        """Return the time for so many values of so many points."""
        return entries * self.entry + points * self.point


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
    largest = max(1, math.isqrt(get_config().memory // TOGETHER))
    return _measured(gpu, get_config().threads, min(STORED, 1 << largest.bit_length() - 1))


@lru_cache(maxsize=16)
def _measured(device: str | None, threads: int, largest: int) -> Rates:
    return _host_rates(largest) if device is None else _device_rates(device)


def _best(work: Callable[[], Any]) -> float:
    """Return the least time of some runs, after one that is not counted."""
    work()
    times: list[float] = []
    while len(times) < FEWEST or (len(times) < MOST and sum(times) < PATIENCE):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def _host_rates(largest: int) -> Rates:
    """Return the rates of NumPy on matrices with no more rows than the largest."""
    product, factor = min(PRODUCT, largest), min(FACTOR, largest)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((product, product))
    single = A.astype(np.float32)
    flops = 2.0 * product**3
    gemm = flops / _best(lambda: A @ A)
    gemm_single = flops / _best(lambda: single @ single)
    B = np.empty((factor, factor), order="F")

    def factorise() -> None:
        B.fill(0.5)
        np.einsum("ii->i", B)[...] = 2.0
        dpotrf(B, lower=1, clean=0, overwrite_a=1)

    refill = _best(lambda: B.fill(0.5))
    potrf = factor**3 / 3.0 / max(_best(factorise) - refill, 1e-9)
    start = time.perf_counter()
    C = np.ones((largest, largest))
    touch = C.nbytes / max(time.perf_counter() - start, 1e-9)
    v = np.ones(largest)
    read = C.nbytes / _best(lambda: C @ v)
    gemm = max(gemm, potrf)
    # A matrix worth planning for is larger than this one, and nearer to the rate of products.
    return Rates(gemm, max(gemm_single, gemm), max(potrf, LARGE_FACTOR * gemm), read, touch)


def _device_rates(device: str) -> Rates:
    """Return the rates of torch on a device."""

    def done(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            work()[-1:].cpu()  # waits for the device

        return run

    n = DEVICE_EDGE if device.startswith("cuda") else PRODUCT
    there = to_device(np.zeros(0), device)
    A, v = there.new_ones(n, n), there.new_ones(n)
    single = A.float()
    gemm = 2.0 * n**3 / _best(done(lambda: A @ A))
    gemm_single = 2.0 * n**3 / _best(done(lambda: single @ single))
    read = A.element_size() * n * n / _best(done(lambda: A @ v))
    S = A * 0.5
    S.diagonal().add_(1.0)
    potrf = n**3 / 3.0 / _best(done(lambda: namespace(S).linalg.cholesky(S)))
    return Rates(gemm, gemm_single, potrf, read, read)


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
    if not kernel.domain.holds_points:  # given: a value is one that is read
        return KernelRate(8.0 / machine_rates().read)
    rng = np.random.default_rng(random_state)
    largest = min(n, LARGEST, max(1, math.isqrt(get_config().memory // 64)))
    _tile(kernel, X, rng, min(2, largest))  # what is loaded and compiled at first is not counted
    size, begun = min(4, largest), time.perf_counter()
    while True:
        tiles = [_tile(kernel, X, rng, size) for _ in range(2)]  # one may have been interrupted
        prepared, compared = (max(min(pair), 1e-9) for pair in zip(*tiles, strict=True))
        late = time.perf_counter() - begun > WHOLE
        if size >= largest or compared > LONG or late:
            return KernelRate(compared / size**2, prepared / (2 * size))
        size = min(4 * size, largest)


def _tile(kernel: Any, X: Any, rng: np.random.Generator, size: int) -> tuple[float, float]:
    """Return the seconds that it took to prepare some points, and to compare them."""
    n, engine, take = kernel.domain.size(X), pick(X), kernel.domain.take
    A, B = (engine.asarray(take(X, rng.choice(n, size, replace=False))) for _ in range(2))
    start = time.perf_counter()
    bound = kernel._bind(A, B)
    ones = bound.ones((size, 1))
    whole = bound.product(ones) is not None  # sparse features: a product would make no values
    middle = time.perf_counter()
    done = blocks.gram(bound) if whole else blocks.matmul(bound, ones)
    engine.to_numpy(done[-1:, -1:])  # waits for a device
    return middle - start, time.perf_counter() - middle
