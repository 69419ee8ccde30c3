"""How fast this machine computes: products, factorisations, memory, and the values of a kernel.

Rates of the host are measured once, in some tenths of a second, and kept in a file of the user's
cache: of each processor, number of threads, BLAS and version there is one. A file that is damaged,
or cannot be written, is no error: they are measured anew. So are they where cores are busy or the
memory budget is small, and then not kept. Rates of a device are measured in each process, those of
a kernel on a few of the user's own points. Rates serve predictions of time only.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf

from mercer.domains import namespace
from mercer.engines import tiles as blocks
from mercer.engines.base import pick, to_device
from mercer.engines.files import replace_file
from mercer.settings import get_config
from mercer.threads import blas_versions, is_crowded, single_threaded_blas

PRODUCT, FACTOR, STORED = 1024, 2048, 3000  # edges of the matrices measured on the host
TOGETHER = 40  # bytes for each entry of all of them at a time
PAUSE = 0.05  # seconds after which threads of one BLAS have gone to sleep, and leave their cores
DEVICE_EDGE = 4096  # on a GPU
FEWEST, MOST = 3, 8  # runs of a measurement of the machine: most of them may be interrupted
PATIENCE = 0.015  # seconds after which the fewest are enough
LONG = 0.01  # seconds that a measurement of a kernel should take
SHORT = 2e-4  # the same where somebody waits for it
WHOLE = 0.08  # seconds after which no other one is begun
LARGEST = 2048  # points on each side of a tile measured
CACHE = ("MERCER_CACHE_DIR", "NUMBA_CACHE_DIR")  # variables that name the folder of the file


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
    symmetric : float, optional
        Bytes of a stored matrix that a product with a vector takes where half of it is read; that
        of `read` where nothing is given.
    """

    gemm: float
    gemm_single: float
    potrf: float
    read: float
    touch: float
    symmetric: float = 0.0

    def __post_init__(self) -> None:
        if not self.symmetric:
            object.__setattr__(self, "symmetric", self.read)


@dataclass(frozen=True)
class KernelRate:
    """What a kernel costs: seconds a value, and seconds a point that is prepared for it."""

    entry: float
    point: float = 0.0

    def seconds(self, entries: float, points: float = 0.0) -> float:
        """Return the time for so many values of so many points."""
        return entries * self.entry + points * self.point


def machine_rates(device: str | None = None) -> Rates:
    """Return the rates of the host or of a device, measured or read on the first call.

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
    threads, limit = get_config().threads, single_threaded_blas.limit
    largest = max(1, math.isqrt(get_config().memory // TOGETHER))
    return _measured(gpu, threads, limit, min(STORED, 1 << largest.bit_length() - 1))


@lru_cache(maxsize=16)
def _measured(device: str | None, threads: int, limit: int | None, largest: int) -> Rates:
    if device is not None:
        return _device_rates(device)
    path = _path(threads, limit)
    rates = _read(path)
    if rates is None:
        alone = not is_crowded()
        rates = _host_rates(largest)
        if alone and largest >= FACTOR and not is_crowded():
            _keep(path, rates)
    return rates


# ---- What is kept of the host ----


def _folder() -> Path:
    """Return the folder of the user for what can be made anew."""
    for name in CACHE:
        if given := os.environ.get(name):
            return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mercer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mercer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mercer"


def _path(threads: int, limit: int | None) -> Path | None:
    """Return the file of this machine; None where the user has no folder."""
    from mercer import __version__

    parts = [_processor(), os.cpu_count(), threads, limit, *blas_versions()]
    parts += [np.__version__, scipy.__version__, __version__, *(f.name for f in fields(Rates))]
    try:
        return _folder() / f"rates-{sha256(json.dumps(parts).encode()).hexdigest()[:16]}.json"
    except RuntimeError:  # nobody's home is known
        return None


def _processor() -> str:
    """Return the name of the processor, as far as the system tells."""
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return f"{platform.machine()} {platform.processor()}"


def _read(path: Path | None) -> Rates | None:
    """Return the rates of a file; None where it is not there, or not what was written."""
    try:
        there = path is not None and path.is_file()  # a pipe would be waited for
        held = json.loads(path.read_text()) if there and path is not None else None
        rates = Rates(**held) if isinstance(held, dict) else None
        good = rates is not None and all(
            type(rate) is float and 1.0 < rate < 1e18 for rate in vars(rates).values()
        )
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return rates if good else None


def _keep(path: Path | None, rates: Rates) -> None:
    """Write the file, where that is possible."""
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(path), [json.dumps(vars(rates)).encode()])


# ---- What is measured ----


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
    """Return the rates of NumPy and SciPy on matrices with no more rows than the largest."""
    product, factor = min(PRODUCT, largest), min(FACTOR, largest)
    A = np.random.default_rng(0).standard_normal((product, product))
    single = A.astype(np.float32)
    flops = 2.0 * product**3
    gemm = flops / _best(lambda: A @ A)
    gemm_single = flops / _best(lambda: single @ single)
    touch = 8.0 * largest**2 / _best(lambda: np.ones((largest, largest)))
    C, v = np.ones((largest, largest)), np.ones(largest)
    read = C.nbytes / _best(lambda: C @ v)
    time.sleep(PAUSE)  # two libraries that compute in turn fight for the cores
    symmetric = C.nbytes / _best(lambda: dsymv(1.0, C.T, v, lower=1))
    B = np.empty((factor, factor), order="F")

    def factorise() -> None:
        B.fill(0.5)
        np.einsum("ii->i", B)[...] = 2.0
        dpotrf(B, lower=1, clean=0, overwrite_a=1)

    refill = _best(lambda: B.fill(0.5))
    potrf = factor**3 / 3.0 / max(_best(factorise) - refill, 1e-9)
    gemm = max(gemm, potrf)
    return Rates(gemm, max(gemm_single, gemm), potrf, read, touch, max(symmetric, read))


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


def kernel_rate(kernel: Any, X: Any, random_state: int = 0, hasty: bool = False) -> KernelRate:
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
    hasty : bool, default=False
        Whether a measurement that takes a fiftieth of that time will do.
    """
    long = SHORT if hasty else LONG
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
        if size >= largest or compared > long or late:
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
