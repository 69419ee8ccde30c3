"""What solving takes, told before any work: sizes of a problem in, bytes and seconds out.

The costs of a way of solving stand beside its solver, as functions of facts, rates and a sketch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.engines import CACHED_ENTRIES, DEVICE_ENTRIES, KernelRate, Rates
from mercer.kernels import Kernel
from mercer.memory import free_memory
from mercer.settings import get_config

WORKSPACE = 5  # arrays of a tile's size for each thread
ITEM = {"double": 8, "single": 4, "none": 0}  # bytes of a value of K as it is kept


@dataclass(frozen=True)
class Facts:
    """Sizes of a problem.

    Parameters
    ----------
    n : int
        Points.
    outputs : int
        Columns of the target.
    columns : int
        Columns of the data, 0 where points are no rows of numbers.
    features : int or None
        Explicit features of the kernel, None where they are infinitely many.
    given : bool
        Whether the data are the Gram matrix.
    stream : bool
        Whether the rows come in blocks and are never all in memory.
    device : str or None
        The device of torch that computes; None for NumPy.
    budget : int
        Bytes that the fit may take.
    itemsize : int
        Bytes of a number of the data.
    nonzeros : int or None
        Features that are not zero, of all points, where those are few and stored so.
    stored : float or None
        Bytes of a point where it is stored sparse.
    block : int
        Rows of a block, where they come in blocks.
    workspace : int
        Arrays of the size of a tile that the kernel holds.
    """

    n: int
    outputs: int = 1
    columns: int = 0
    features: int | None = None
    given: bool = False
    stream: bool = False
    device: str | None = None
    budget: int = 0
    itemsize: int = 8
    nonzeros: int | None = None
    stored: float | None = None
    block: int = 0
    workspace: int = Kernel.workspace

    @property
    def row_bytes(self) -> float:
        """Bytes of a point in double precision."""
        return 8.0 * self.columns if self.stored is None else self.stored

    @property
    def gram_item(self) -> int:
        """Bytes of a value of K as products keep it; 0 where it is given, or made anew."""
        return 0 if self.given else ITEM[storage_for(self.n)]

    @property
    def tiles(self) -> int:
        """Bytes of tiles in flight."""
        if self.device is not None:
            return 8 * WORKSPACE * min(DEVICE_ENTRIES, self.n**2)
        return 8 * WORKSPACE * get_config().threads * min(CACHED_ENTRIES, self.n**2)

    @property
    def vectors(self) -> int:
        """Bytes of the points that a model keeps, of targets, weights and coefficients."""
        kept = 0 if self.stream or self.given else self.row_bytes
        return int(self.n * (kept + 48 * self.outputs + 48)) + 2**17


@dataclass(frozen=True)
class Cost:
    """What a way takes.

    Parameters
    ----------
    needed : float
        Bytes without which it cannot be done, beside the data.
    seconds : float or None
        Time; None where no rates are known.
    more : float, default=0.0
        Bytes that it takes as well where the budget has them: tiles, vectors, copies.
    """

    needed: float
    seconds: float | None
    more: float = 0.0

    def memory(self, budget: int) -> int:
        """Return the bytes expected at the peak."""
        return int(self.needed + min(self.more, max(0.0, budget - self.needed)))


def storage_for(n: int, like: Any = None) -> str:
    """Return how K is kept: the first of "double" and "single" in half the budget, or "none".

    The budget is that of the device of the tensor `like`, if it is on one.
    """
    half = free_memory(like) // 2
    return "double" if 8 * n * n <= half else "single" if 4 * n * n <= half else "none"


def gram_seconds(facts: Facts, rates: Rates, rate: KernelRate) -> float:
    """Return the time of the symmetric kernel matrix, in memory that is new."""
    return rate.seconds(0.5 * facts.n**2, facts.n) + 8.0 * facts.n**2 / rates.touch


def seconds_of(
    facts: Facts,
    rates: Rates | None,
    sketch: Any,
    *flops: float,
    entries: float = 0.0,
    reads: float = 0.0,
) -> float | None:
    """Return the time of operations of products, kernel values, and bytes of a stored matrix."""
    if rates is None:
        return None
    values = sketch.rate.seconds(entries, facts.n)
    return sum(flops) / rates.gemm + values + reads / rates.read
