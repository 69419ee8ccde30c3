"""`ClusterPass`: passes over row blocks on the workers of a dask client.

Each block of rows stays on a worker. A pass sends V down, m numbers a column, lets every worker
pull its blocks with the in-memory code, adds the results in a tree on the workers and brings one
m × width array back. K is never a dask array. The tree depends on the blocks alone, so the same
blocks give the same bits on any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.domains.blocks.block import Block
from mercer.domains.blocks.dask import DaskPart, DaskSource
from mercer.domains.blocks.parts import ArrayReader, Part
from mercer.domains.blocks.rows import RowBlocks
from mercer.engines import cluster_tasks as tasks
from mercer.engines.cluster_client import Cluster, current_client
from mercer.engines.passes import RowPass, Step
from mercer.engines.progress import Progress
from mercer.errors import InvalidInput
from mercer.settings import get_config

__all__ = ["ClusterPass", "client_for", "each_block"]

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
    return current_client() if wanted != "numpy" and isinstance(rows._source, DaskSource) else None


def each_block(rows: RowBlocks, work: Callable[[Block], Any]) -> list[Any]:
    """Return what a function makes of every block, in their order, computed where the rows are.

    Only the answers travel: the classes of a target, say, or sums.

    Parameters
    ----------
    rows : RowBlocks
        The rows.
    work : callable
        A function of a `Block`; picklable.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> from mercer.engines.cluster import each_block
    >>> blocks = mercer.RowBlocks.from_arrays(np.zeros((5, 1)), list("abbab"), block_rows=3)
    >>> [found.tolist() for found in each_block(blocks, lambda block: np.unique(block.y))]
    [['a', 'b'], ['a', 'b']]
    """
    client = client_for(rows)
    if client is None:
        return [work(block) for block in rows]
    cluster = Cluster(client)
    parts = rows.parts
    found = cluster.attempt(lambda: _each_block(client, parts, work))
    for _, read in found:
        _compare(rows, parts, read)
    return [answer for answer, _ in found]


def _each_block(client: Any, parts: Sequence[Part], work: Callable[[Block], Any]) -> list[Any]:
    import dask

    do = dask.delayed(tasks.apply, pure=False)
    held = _held(work)  # it may be a model
    lazy = [do(held, part, data) for part, data in _laid_out(client, parts)]
    with _large_graphs():
        return list(client.gather(client.compute(lazy, optimize_graph=False, retries=RETRIES)))


def _compare(rows: RowBlocks, parts: Sequence[Part], read: dict[int, int]) -> None:
    """Refuse blocks that workers read differently than they were read before, here or there."""
    for part in parts:
        if part.start in read:
            rows._source.compare(part.start, part.rows, part.place, read[part.start])


def _laid_out(client: Any, parts: Sequence[Part]) -> list[tuple[Any, Any]]:
    """Return the parts with what dask computes for them.

    What is in memory here, rows or values beside them, is sent to the workers once; in a graph it
    would go through the scheduler at every pass.
    """
    sealed: list[Any] = []
    for part in parts:
        if isinstance(part.reader, DaskPart):
            part = replace(part, reader=replace(part.reader, delayed=None))
        sealed.append(tasks.Sealed(part))
    here = [i for i, part in enumerate(parts) if _in_memory(part)]
    sent = client.scatter([sealed[i] for i in here], hash=False) if here else []
    for i, future in zip(here, sent, strict=True):
        sealed[i] = future
    return [
        (s, getattr(part.reader, "delayed", None)) for s, part in zip(sealed, parts, strict=True)
    ]


def _in_memory(part: Part) -> bool:
    """Whether a part carries rows, targets or weights along."""
    beside = (
        getattr(holder, name, None)
        for holder in (part.view, part.reader)
        for name in ("y", "weight")
    )
    return isinstance(part.reader, ArrayReader) or any(A is not None for A in beside)


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
        The rows; of dask data, of files that the workers can read, or in memory here.
    Z : canonical collection of m points
        The centres; every worker gets them once.
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
        self.kernel, self.Z, self.rows = kernel, Z, rows
        self.parts, self.n, self.m = rows.parts, rows.n_rows, kernel.domain.size(Z)
        self.cluster = Cluster(client)
        settings = get_config()
        engine = "torch" if settings.engine == "torch" else "auto"
        self._settings = {"engine": engine, "device": settings.device}
        self._blocks: list[Any] | None = None
        self._homes: list[str] = []
        self._common: Any = None
        self.single, self.rounds, row_bytes = self.cluster.attempt(self._look, self._forget)
        self.keeps = self.n * row_bytes <= HELD * self.cluster.memory

    def _look(self) -> Any:
        """Ask of the first block what there is to know of all."""
        import dask

        first = self._loading(self.parts[:1])[0]
        asked = dask.delayed(tasks.look, pure=False)(first, self._common)
        return _result(self.cluster.client, asked)

    def _loading(self, parts: Sequence[Part]) -> list[Any]:
        """Return the loaded blocks, not computed yet."""
        import dask

        client = self.cluster.client
        if self._common is None:
            common = tasks.Common(self.kernel, self.Z, self._settings)
            with _large_graphs():
                self._common = client.persist(_held(common), optimize_graph=False)
        laid = _laid_out(client, parts)
        self._homes = _homes(client, parts, laid)
        load, made = dask.delayed(tasks.load, pure=False), []
        for home, (part, data) in zip(self._homes, laid, strict=True):
            with _at(home):
                made.append(load(part, data, self._common))
        return made

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums: V goes down, one array of m rows comes up."""
        out, sums, read = self.cluster.attempt(lambda: self._pull(V, step), self._forget)
        _compare(self.rows, self.parts, read)
        return np.array(out), np.array(sums)

    def _forget(self) -> None:
        """Lay everything out anew: rows that were sent from here died with the worker."""
        self._blocks = self._common = None

    def _pull(self, V: np.ndarray | None, step: Step) -> Any:
        import dask

        client = self.cluster.client
        if self._blocks is None:
            self._blocks = self._loading(self.parts)
            if self.keeps:
                how = {"optimize_graph": False, "retries": RETRIES}
                with _large_graphs():
                    self._blocks = list(client.persist(self._blocks, **how))
        given = _held((None if V is None else np.asarray(V), step))
        pull, add = (dask.delayed(f, pure=False) for f in (tasks.pull_block, tasks.add_up))
        leaves = []
        for home, block in zip(self._homes, self._blocks, strict=True):
            with _at(home):
                leaves.append(pull(block, given, self._common))
        level = leaves
        while len(level) > 1:
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        watch = self._watch if get_config().progress else None
        return _result(client, level[0], leaves, watch)

    def _watch(self, leaves: Sequence[Any]) -> None:
        """Say how far the pass is, until the last block is done or one fails."""
        from distributed import as_completed

        progress = Progress(self.n, "pass over blocks on the cluster")
        rows = {leaf.key: part.rows for leaf, part in zip(leaves, self.parts, strict=True)}
        for leaf in as_completed(leaves):
            if leaf.status != "finished":
                return
            progress.step(rows[leaf.key])
            leaf.release()  # what is added up is not held any longer than without this


def _homes(client: Any, parts: Sequence[Part], laid: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return the worker of every block, "" for any: each gets a run of rows by its threads.

    Left to itself the scheduler may give one worker a third more than another, and sends blocks to
    and fro. Data that are on workers already stay there.
    """
    from distributed import futures_of

    threads = client.nthreads()
    if futures_of([data for pair in laid for data in pair]) or not threads:
        return [""] * len(parts)
    rows = np.array([part.rows for part in parts])
    middle = (np.cumsum(rows) - 0.5 * rows) / rows.sum()
    ends = np.cumsum(list(threads.values())) / sum(threads.values())
    return [list(threads)[i] for i in np.searchsorted(ends[:-1], middle)]


def _at(home: str) -> Any:
    """Have tasks made by a worker, or by others where it is gone."""
    import dask

    where = {"workers": [home], "allow_other_workers": True} if home else {}
    return dask.annotate(**where)


def _held(value: Any) -> Any:
    """Return a value as a task: sent to one worker once, and by it to those that ask for it.

    Unlike what is scattered, it is not lost with the worker: the scheduler can make it again.
    """
    import dask

    return dask.delayed(tasks.hold, pure=False)(tasks.Sealed(value))


def _large_graphs() -> Any:
    """Keep dask from a warning about V or the centres, which are as large as they are."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})


def _result(
    client: Any,
    lazy: Any,
    leaves: Sequence[Any] = (),
    watch: Callable[[Sequence[Any]], None] | None = None,
) -> Any:
    """Compute on the workers; Ctrl-C, and whatever else ends the wait, ends the work there too."""
    wanted = [lazy, *leaves] if watch is not None else [lazy]
    with _large_graphs():
        futures = client.compute(wanted, optimize_graph=False, retries=RETRIES)
    try:
        if watch is not None:
            watch(futures[1:])
        return futures[0].result()
    except BaseException:
        with suppress(Exception):  # a client that is closed cannot; the first error is the cause
            client.cancel(futures)
        raise
