"""`ClusterPass`: passes over row blocks on the workers of a dask client.

Each block of rows stays on a worker. A pass sends V down, m numbers a column, lets every worker
pull its blocks with the in-memory code, adds the results in a tree on the workers and brings one
m × width array back. K is never a dask array. The tree depends on the blocks alone, so the same
blocks give the same bits on any number of workers.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from mercer.domains import RowBlocks
from mercer.domains.blocks import ArrayReader, Block, BlockPart, DaskPart, DaskSource, checksum
from mercer.engines.passes.base import RowPass, Step, row_pass
from mercer.errors import ClusterError, InvalidInput
from mercer.settings import config, get_config
from mercer.threads import Progress, keep_pages

# ---- The dask client of a fit: whether there is one, whether it can work, and errors in words ----


T = TypeVar("T")

PATIENCE = 30  # seconds in which workers that died may be replaced
MEMORY = "Most often workers die of too little memory: give them more, or make blocks smaller."
ROUNDS = 5  # of work that lost with a worker what only that worker had


def current_client() -> Any:
    """Return the client of dask.distributed in force here; None where nobody opened one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        return None


def _install() -> str:
    import mercer

    return f"pip install 'mercer[dask]=={mercer.__version__}'"


class Cluster:
    """A client whose scheduler and workers are known to have this version of mercer."""

    def __init__(self, client: Any):
        if getattr(client, "asynchronous", False):
            raise InvalidInput(
                "mercer on a cluster: the client is asynchronous; give a Client that waits, "
                "Client(asynchronous=False)."
            )
        self.client = client
        self.memory = self.attempt(self._ask)

    def __str__(self) -> str:
        address = getattr(getattr(self.client, "scheduler", None), "address", "")
        return f"the dask cluster {address}".rstrip()

    def _ask(self) -> float:
        """Ask scheduler and workers for their version of mercer; return their memory together."""

        # A function of a function is sent as its code, so that it runs where mercer is not.
        def version() -> str:
            try:
                import mercer
            except ImportError as error:
                return f"no mercer ({error})"
            return f"mercer {mercer.__version__}"

        def facts(dask_worker: Any) -> tuple[str, float]:
            limit = dask_worker.memory_manager.memory_limit
            return version(), float(limit) if limit else float("inf")

        found = self.client.run(facts)
        if not found:
            raise ClusterError(
                f"{self} has no workers; start some, and wait for them with "
                "client.wait_for_workers(1)."
            )
        mine = version()
        versions = {f"the worker {address}": fact[0] for address, fact in found.items()}
        versions["the scheduler"] = self.client.run_on_scheduler(version)
        for where, theirs in versions.items():
            if theirs != mine:
                raise ClusterError(
                    f"{self}: {where} has {theirs}, and this process has {mine}. Install "
                    f"the same version everywhere: {_install()}."
                )
        return sum(fact[1] for fact in found.values())

    def attempt(self, work: Callable[[], T], forget: Callable[[], None] | None = None) -> T:
        """Return what `work` returns, tried again when a worker took data or a connection along.

        Errors of a task pass as they are; those of the cluster are said in words.

        Parameters
        ----------
        work : callable
            The work.
        forget : callable, optional
            Called before another attempt where data that were sent to workers are gone.
        """
        from distributed import KilledWorker, client as clients
        from distributed.comm.core import CommClosedError

        # older releases of distributed cancel the work of a client that is closed
        closed = getattr(clients, "ClosedClientError", CancelledError)
        for attempt in range(ROUNDS):
            if self.client.status != "running":
                raise self._gone(f"its client is {self.client.status}")
            try:
                return work()
            except KilledWorker as error:
                self._ask()  # a worker that came later may lack mercer, and die of what it is sent
                raise ClusterError(f"{self}: {error}. {MEMORY}") from error
            except ModuleNotFoundError as error:
                raise ClusterError(
                    f"{self}: a worker has no module {error.name!r}. Install mercer, and what "
                    f"your kernel needs, on all of them: {_install()}."
                ) from error
            except (CancelledError, closed, CommClosedError, TimeoutError) as error:
                if not self._answers():
                    raise self._gone(type(error).__name__) from error
                if forget is not None and isinstance(error, CancelledError):
                    forget()
                time.sleep(0.2 * 2**attempt)  # until the scheduler knows of the worker's end
        raise ClusterError(f"{self}: workers died {ROUNDS} times in one pass. {MEMORY}")

    def _gone(self, why: str) -> ClusterError:
        return ClusterError(
            f"{self} no longer answers ({why}). Open a new Client and fit again; a fit with "
            "checkpoint=path goes on from where it was."
        )

    def _answers(self) -> bool:
        """Whether the scheduler is there and has workers, or has some again after a while."""
        if self.client.status != "running":
            return False
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except (CancelledError, OSError, TimeoutError):
            return False
        return self.client.status == "running"


# ---- What the workers of a cluster do with one block of rows: read and check it, pull, add ----


class Sealed:
    """A value hidden from dask, which would look for work inside lists, tuples and dataclasses."""

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
    """Return what a function makes of a block, and the checksum of what was read."""
    block, read = _block(part, data)
    return work(block), read


def load_block(part: Sealed, data: Any, common: Common) -> Loaded:
    """Return a checked block; what is wrong with it is said with the place it comes from."""
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
    part: BlockPart = sealed.value
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


# ---- cluster ----


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
    >>> from mercer.engines.passes.cluster import each_block
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


def _each_block(client: Any, parts: Sequence[BlockPart], work: Callable[[Block], Any]) -> list[Any]:
    import dask

    do = dask.delayed(apply, pure=False)
    held = _held(work)  # it may be a model
    lazy = [do(held, part, data) for part, data in _laid_out(client, parts)]
    with _large_graphs():
        return list(client.gather(client.compute(lazy, optimize_graph=False, retries=RETRIES)))


def _compare(rows: RowBlocks, parts: Sequence[BlockPart], read: dict[int, int]) -> None:
    """Refuse blocks that workers read differently than they were read before, here or there."""
    for part in parts:
        if part.start in read:
            rows._source.compare(part.start, part.rows, part.place, read[part.start])


def _laid_out(client: Any, parts: Sequence[BlockPart]) -> list[tuple[Any, Any]]:
    """Return the parts with what dask computes for them.

    What is in memory here, rows or values beside them, is sent to the workers once; in a graph it
    would go through the scheduler at every pass.
    """
    sealed: list[Any] = []
    for part in parts:
        if isinstance(part.reader, DaskPart):
            part = replace(part, reader=replace(part.reader, delayed=None))
        sealed.append(Sealed(part))
    here = [i for i, part in enumerate(parts) if _in_memory(part)]
    sent = client.scatter([sealed[i] for i in here], hash=False) if here else []
    for i, future in zip(here, sent, strict=True):
        sealed[i] = future
    return [
        (s, getattr(part.reader, "delayed", None)) for s, part in zip(sealed, parts, strict=True)
    ]


def _in_memory(part: BlockPart) -> bool:
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
        asked = dask.delayed(look, pure=False)(first, self._common)
        return _result(self.cluster.client, asked)

    def _loading(self, parts: Sequence[BlockPart]) -> list[Any]:
        """Return the loaded blocks, not computed yet."""
        import dask

        client = self.cluster.client
        if self._common is None:
            common = Common(self.kernel, self.Z, self._settings)
            with _large_graphs():
                self._common = client.persist(_held(common), optimize_graph=False)
        laid = _laid_out(client, parts)
        self._homes = _homes(client, parts, laid)
        load, made = dask.delayed(load_block, pure=False), []
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
        pull, add = (dask.delayed(f, pure=False) for f in (pull_block, add_up))
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


def _homes(client: Any, parts: Sequence[BlockPart], laid: Sequence[tuple[Any, Any]]) -> list[str]:
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

    return dask.delayed(hold, pure=False)(Sealed(value))


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
