"""What the workers of a cluster do with one block of rows: read and check it, pull, add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines.passes import MemoryPass, Step
from mercer.errors import InvalidInput
from mercer.settings import config

__all__ = ["Broadcast", "Origin", "add_up", "load", "pull_block"]


class Broadcast:
    """What every worker holds during a fit: the kernel, the centres, and the settings.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The centres.
    settings : dict
        Options of `mercer.config` that came along from the user's process.
    """

    # dask looks for work to do inside lists, tuples and dataclasses; this is none of them
    def __init__(self, kernel: Any, Z: Any, settings: dict[str, Any]):
        self.kernel, self.Z, self.settings = kernel, Z, settings


class Origin:
    """Where a block comes from, and how its targets are changed.

    Parameters
    ----------
    start, rows : int
        The number of its first row among all, and how many there are.
    change : callable, optional
        Applied to the targets.
    read : callable, optional
        Reads ``(X, y, weight)``; None where dask computes them.
    """

    def __init__(
        self,
        start: int,
        rows: int,
        change: Callable[[Any], Any] | None,
        read: Callable[[], Any] | None,
    ):
        self.start, self.rows, self.change, self.read = start, rows, change, read

    @property
    def name(self) -> str:
        """The block in words."""
        return f"the block of rows {self.start} to {self.start + self.rows - 1}"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A block that was checked."""

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    name: str


def load(origin: Origin, data: Any, common: Broadcast) -> Loaded:
    """Return a checked block; whatever is wrong with it is said with its name.

    Parameters
    ----------
    origin : Origin
        Where it comes from.
    data : tuple (X, y, weight), or None
        What dask computed; None where the origin reads it.
    common : Broadcast
        The kernel, the centres and the settings.
    """
    X, y, weight = origin.read() if origin.read is not None else data
    try:
        if len(X) != origin.rows:
            raise InvalidInput(f"it had {origin.rows} rows and now has {len(X)}")
        X = common.kernel.domain.check(X, "X")
        X, _ = common.kernel.domain.match(X, common.Z)
        y = None if y is None else _targets(y if origin.change is None else origin.change(y))
        weight = None if weight is None else _weights(weight)
    except InvalidInput as error:
        raise InvalidInput(f"{origin.name}: {error}") from None
    return Loaded(X, y, weight, origin.name)


def pull_block(block: Loaded, V: np.ndarray | None, step: Any, common: Broadcast) -> Any:
    """Return Kᵀ G and the sums over one block.

    A worker runs as many tasks at a time as it has threads, so a task takes one thread, and of the
    memory that is left beside the blocks its share.

    Parameters
    ----------
    block : Loaded
        The rows.
    V : ndarray of shape (m, columns), or None
        What K is multiplied by.
    step : callable
        Returns the step of the pass.
    common : Broadcast
        The kernel, the centres and the settings.
    """
    made: Step = step()
    with config(threads=1, memory=_share(), **common.settings):
        part = MemoryPass(common.kernel, block.X, common.Z, block.y, block.weight)
        return part.pull(V, made)


def add_up(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of what several blocks gave, in their order."""
    (out, sums), *others = parts
    out, sums = np.array(out), np.array(sums)  # what dask holds is not ours to change
    for G, s in others:
        out += G
        sums += s
    return out, sums


def _share() -> int | None:
    """Return the bytes of one task: half of the worker's limit, divided among its threads."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # called outside of a worker
        return None
    limit = worker.memory_manager.memory_limit
    return None if not limit else max(1, int(limit) // (2 * max(1, worker.state.nthreads)))


def _targets(y: Any) -> np.ndarray:
    try:
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"y holds no numbers ({error})") from error
    _refuse_odd(y, "y")
    return y.reshape(len(y), -1)


def _weights(weight: Any) -> np.ndarray:
    try:
        w = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"sample_weight holds no numbers ({error})") from error
    _refuse_odd(w, "sample_weight")
    if (w < 0).any():
        i = int(np.argmax(w < 0))
        raise InvalidInput(f"sample_weight is {w[i]:g} at its row {i}; weights are ≥ 0")
    return w


def _refuse_odd(A: np.ndarray, name: str) -> None:
    finite = np.isfinite(A).reshape(len(A), -1).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise InvalidInput(f"{name} contains NaN or inf at its row {i}; drop or fill such rows")
