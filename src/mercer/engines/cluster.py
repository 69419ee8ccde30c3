"""`ClusterPass`: passes over row blocks on the workers of a dask client.

Each block of rows stays on a worker. A pass sends V down, m numbers a column, lets every worker
pull its blocks with the in-memory code, adds the results in a tree on the workers and brings one
m × width array back. K is never a dask array. The tree depends on the blocks alone, so the same
blocks give the same bits on any number of workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.dask_rows import DaskPart
from mercer.domains.row_blocks import RowBlocks
from mercer.engines import cluster_tasks as tasks
from mercer.engines.cluster_client import Cluster, current_client
from mercer.engines.passes import RowPass, Step
from mercer.errors import InvalidInput
from mercer.settings import get_config

__all__ = ["ClusterPass", "client_for"]

FAN_IN = 8  # results that one task adds
RETRIES = 2  # of a task that failed, as when a file could not be read
HELD = 0.4  # share of the workers' memory that blocks may take; more is read anew at every pass


def client_for(rows: RowBlocks) -> Any:
    """Return the dask client that passes over these rows should use; None for this process.

    Dask data go to the current client, where there is one; other rows with ``engine="dask"``.

    Parameters
    ----------
    rows : RowBlocks
        The rows.
    """
    wanted = get_config().engine
    if wanted == "dask":
        client = current_client()
        if client is None:
            raise InvalidInput(
                "config(engine='dask'): there is no client of dask.distributed. mercer opens no "
                "cluster by itself: client = distributed.Client(...) first, or engine='auto'."
            )
        return client
    return current_client() if wanted != "numpy" and _of_dask(rows) else None


def _of_dask(rows: RowBlocks) -> bool:
    return all(isinstance(part, DaskPart) for part in rows._parts)


class ClusterPass(RowPass):
    """Rows in blocks on the workers of a dask client.

    Workers and scheduler need the same version of mercer. A worker that dies costs the time to make
    its blocks again from their source. Blocks stay on the workers where they fit 40 % of their
    memory together; otherwise every pass reads them anew.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : RowBlocks
        The rows; of dask data, or of files that the workers can read.
    Z : canonical collection of m points
        The centres, sent to every worker once.
    client : distributed.Client, optional
        Where; by default the current client.
    """

    def __init__(self, kernel: Any, rows: RowBlocks, Z: Any, client: Any = None):
        client = current_client() if client is None else client
        if client is None:
            raise InvalidInput(
                "ClusterPass: there is no client of dask.distributed; open one with "
                "distributed.Client(...)."
            )
        self.kernel, self.Z = kernel, Z
        self.n, self.m = rows.n_rows, kernel.domain.size(Z)
        if self.n == 0:
            raise InvalidInput("ClusterPass: there are no rows; give at least one.")
        self.cluster = Cluster(client)
        self._parts: list[Any] = list(rows._parts)
        self._rows, self._map = list(rows._rows), rows._map
        settings = get_config()
        self._settings = {"engine": "torch" if settings.engine == "torch" else "auto"}
        self._settings["device"] = settings.device
        self.keeps = self._size(rows) <= HELD * self.cluster.memory
        self._blocks: list[Any] | None = None
        self._common: Any = None

    def _size(self, rows: RowBlocks) -> float:
        columns = getattr(rows, "n_columns", None) or 0
        return 8.0 * self.n * (columns + 2)

    def _prepare(self) -> None:
        """Send the centres to all workers, and lay the blocks out."""
        import dask

        client = self.cluster.client
        common = tasks.Broadcast(self.kernel, self.Z, self._settings)
        self._common = client.scatter(common, broadcast=True, hash=False)
        load = dask.delayed(tasks.load, pure=False)
        starts = np.concatenate([[0], np.cumsum(self._rows)])
        blocks = []
        for part, start, rows in zip(self._parts, starts, self._rows, strict=False):
            lazy = isinstance(part, DaskPart)
            origin = tasks.Origin(int(start), rows, self._map, None if lazy else part)
            blocks.append(load(origin, part.delayed if lazy else None, self._common))
        if self.keeps:
            blocks = list(client.persist(blocks, optimize_graph=False, retries=RETRIES))
        self._blocks = blocks

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums: V goes down, one array of m rows comes up."""
        return self.cluster.attempt(lambda: self._pull(V, step), self._forget)

    def _forget(self) -> None:
        """Lay everything out anew: centres that were sent died with all workers that had them."""
        self._blocks = self._common = None

    def _pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        import dask

        client = self.cluster.client
        if self._blocks is None:
            self._prepare()
        sent = None if V is None else client.scatter(V, broadcast=True, hash=False)
        pull = dask.delayed(tasks.pull_block, pure=False)
        add = dask.delayed(tasks.add_up, pure=False)
        sealed = _Sealed(step)
        level = [pull(block, sent, sealed, self._common) for block in self._blocks or ()]
        while len(level) > 1:
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        future = client.compute(level[0], optimize_graph=False, retries=RETRIES)
        try:
            out, sums = future.result()
        except BaseException:
            future.cancel()
            raise
        return np.array(out), np.array(sums)


class _Sealed:
    """A step, hidden from dask, which would look for work inside a dataclass."""

    def __init__(self, step: Step):
        self.step = step

    def __call__(self) -> Step:
        return self.step
