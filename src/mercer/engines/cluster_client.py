"""The dask client of a fit: whether there is one, whether it can work, and errors in words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from mercer.errors import ClusterError, InvalidInput

__all__ = ["Cluster", "current_client"]

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
    """A client whose scheduler and workers are known to have this version of mercer.

    Parameters
    ----------
    client : distributed.Client
        The client.
    """

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
        from distributed import KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm.core import CommClosedError

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
            except (CancelledError, ClosedClientError, CommClosedError, TimeoutError) as error:
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
