"""What the workers of a cluster do with one block of rows: read and check it, pull, add."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains.blocks.block import Block, checksum
from mercer.domains.blocks.parts import Part
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
    """A block that was checked: points in canonical form, targets (rows, t), weights.

    With it goes the checksum of what was read, by the first row, so that a block that reads
    differently when it is made again is found out.
    """

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    read: dict[int, int]


def hold(sealed: Sealed) -> Any:
    """Return a value that was sent along, for other tasks to take."""
    return sealed.value


def apply(work: Callable[[Block], Any], part: Sealed, data: Any) -> Any:
    """Return what a function makes of a block, and the checksum of what was read.

    Parameters
    ----------
    work : callable
        A function of a `Block`.
    part : Sealed
        The `Part` that reads it.
    data : tuple (X, y, weight), or None
        What dask computed; None where the part reads it.
    """
    block, read = _block(part, data)
    return work(block), read


def load(part: Sealed, data: Any, common: Common) -> Loaded:
    """Return a checked block; what is wrong with it is said with the place it comes from.

    Parameters
    ----------
    part, data
        As in `apply`.
    common : Common
        The kernel, the centres and the settings.
    """
    block, read = _block(part, data)
    domain = common.kernel.domain
    X = block.points(domain)
    try:
        X, _ = domain.match(X, common.Z)
        y = None if block.y is None else np.asarray(block.y, dtype=np.float64)
    except (TypeError, ValueError) as error:  # InvalidInput is a ValueError
        raise block.blamed(error) from None
    y = None if y is None else y.reshape(len(block), -1)
    w = None if block.weight is None else np.asarray(block.weight, dtype=np.float64)
    return Loaded(X, y, w, read)


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
    """Return Kᵀ G and the sums over one block, and its checksum.

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
        return *common.over(block).pull(V, step), block.read


def add_up(parts: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, dict[int, int]]:
    """Return the sums of what several blocks gave, in their order, and all their checksums."""
    (out, sums, read), *others = parts
    out, sums, read = np.array(out), np.array(sums), dict(read)  # dask's own are left alone
    for G, s, r in others:
        out += G
        sums += s
        read |= r
    return out, sums, read


class _Given:
    """A reader of what is there already."""

    def __init__(self, data: tuple[Any, Any, Any]):
        self.data = data

    def __call__(self) -> tuple[Any, Any, Any]:
        return self.data


def _block(sealed: Sealed, data: Any) -> tuple[Block, dict[int, int]]:
    """Return a block, and under its first row the checksum of what was read for it."""
    part: Part = sealed.value
    reader: Any = part.reader
    if data is not None:
        reader = _Given(reader.beside(data))
    _see_files(reader)
    block = replace(part, reader=reader, view=None)()
    read = {part.start: checksum(block.X, block.y, block.weight)}
    return block if part.view is None else part.view(block), read


def _see_files(reader: Any) -> None:
    """Refuse files that are not where this worker runs."""
    for mark in getattr(reader, "marks", ()):
        if not os.path.exists(mark.path):
            raise InvalidInput(
                f"RowBlocks: the worker on the machine {socket.gethostname()!r} sees no file "
                f"{mark.path!r}. Files of a cluster must be on a path that all workers can read, "
                "such as a shared disk; if it was there before, it is gone."
            )


def _share() -> int | None:
    """Return the bytes of one task; None where nothing limits the worker."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        raise InvalidInput("a task of mercer ran outside of a dask worker") from None
    limit = worker.memory_manager.memory_limit
    return None if not limit else max(1, int(limit) // (2 * max(1, worker.state.nthreads)))
