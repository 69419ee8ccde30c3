"""What the workers of a cluster do with one block of rows: read and check it, pull, add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.block_parts import Part
from mercer.domains.row_blocks import Block
from mercer.engines.pages import keep_pages
from mercer.engines.passes import RowPass, Step, row_pass
from mercer.errors import InvalidInput
from mercer.settings import config

__all__ = ["Common", "Loaded", "Sealed", "add_up", "apply", "hold", "load", "look", "pull_block"]


class Sealed:
    """A value hidden from dask, which would look for work inside lists, tuples and dataclasses.

    Parameters
    ----------
    value : object
        Anything that can be pickled.
    """

    def __init__(self, value: Any):
        self.value = value


class Common:
    """What every worker holds during a fit.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    Z : canonical collection
        The centres.
    settings : dict
        Options of `mercer.config` that come along from the user's process.
    """

    def __init__(self, kernel: Any, Z: Any, settings: dict[str, Any]):
        self.kernel, self.Z, self.settings = kernel, Z, settings

    def over(self, block: Loaded) -> RowPass:
        """Return the pass over one block in memory."""
        return row_pass(self.kernel, block.X, self.Z, block.y, block.weight)


@dataclass(frozen=True, eq=False)
class Loaded:
    """A block that was checked: points in canonical form, targets (rows, t), weights."""

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None


def hold(sealed: Sealed) -> Any:
    """Return a value that was sent along, for other tasks to take."""
    return sealed.value


def apply(work: Callable[[Block], Any], part: Sealed, data: Any) -> Any:
    """Return what a function makes of a block.

    Parameters
    ----------
    work : callable
        A function of a `Block`.
    part : Sealed
        The `Part` that reads it.
    data : tuple (X, y, weight), or None
        What dask computed; None where the part reads it.
    """
    return work(_block(part, data))


def load(part: Sealed, data: Any, common: Common) -> Loaded:
    """Return a checked block; what is wrong with it is said with the place it comes from.

    Parameters
    ----------
    part, data
        As in `apply`.
    common : Common
        The kernel, the centres and the settings.
    """
    block = _block(part, data)
    domain = common.kernel.domain
    X = block.points(domain)
    try:
        X, _ = domain.match(X, common.Z)
        y = None if block.y is None else np.asarray(block.y, dtype=np.float64)
    except (TypeError, ValueError) as error:  # InvalidInput is a ValueError
        raise block.blamed(error) from None
    y = None if y is None else y.reshape(len(block), -1)
    w = None if block.weight is None else np.asarray(block.weight, dtype=np.float64)
    return Loaded(X, y, w)


def look(block: Loaded, common: Common) -> tuple[bool, bool, float]:
    """Return whether kernel values are float32, whether V is rounded, and the bytes of a row."""
    X, y, w = block.X, block.y, block.weight
    rows = common.kernel.domain.size(X)
    inner = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else getattr(X, "nbytes", 64 * rows)
    beside = sum(A.nbytes for A in (y, w) if A is not None)
    with config(**common.settings):
        found = common.over(block)
    return found.single, found.rounds, (inner + beside) / max(1, rows)


def pull_block(block: Loaded, given: tuple[np.ndarray | None, Step], common: Common) -> Any:
    """Return Kᵀ G and the sums over one block.

    A worker runs as many tasks at a time as it has threads, so a task takes one thread, and its
    share of half the memory of the worker; the other half is for the blocks.

    Parameters
    ----------
    block : Loaded
        The rows.
    given : tuple (V, step)
        What K is multiplied by, shape (m, columns) or None, and the step of the pass.
    common : Common
        The kernel, the centres and the settings.
    """
    V, step = given
    keep_pages()
    with config(threads=1, memory=_share(), **common.settings):
        return common.over(block).pull(V, step)


def add_up(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of what several blocks gave, in their order."""
    (out, sums), *others = parts
    out, sums = np.array(out), np.array(sums)  # what dask holds is not ours to change
    for G, s in others:
        out += G
        sums += s
    return out, sums


class _Given:
    """A reader of what is there already."""

    def __init__(self, data: tuple[Any, Any, Any]):
        self.data = data

    def __call__(self) -> tuple[Any, Any, Any]:
        return self.data


def _block(sealed: Sealed, data: Any) -> Block:
    part: Part = sealed.value
    return (part if data is None else replace(part, reader=_Given(data)))()


def _share() -> int | None:
    """Return the bytes of one task; None where nothing limits the worker."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        raise InvalidInput("a task of mercer ran outside of a dask worker") from None
    limit = worker.memory_manager.memory_limit
    return None if not limit else max(1, int(limit) // (2 * max(1, worker.state.nthreads)))
