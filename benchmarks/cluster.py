"""Passes of Falkon over rows on a dask cluster: two single-thread workers against one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from timing import Row, best_of

from mercer import RBF, RowBlocks
from mercer.engines.passes.cluster import ClusterPass

__all__ = ["rows"]


@dataclass(frozen=True)
class Normal:
    """The step of a conjugate gradient iteration: G = F."""

    width: int = 1
    n_sums: int = 0

    def __call__(self, F: Any, y: Any, w: Any, xp: Any) -> tuple[Any, Any]:
        """Return F and no sums."""
        return F, np.zeros(0)


def rows(n: int = 1_000_000, d: int = 20, m: int = 2000, passes: int = 5) -> list[Row]:
    """Time passes, those of one worker and of two in turn; blocks stay on the workers."""
    import dask.array as da
    from distributed import Client, LocalCluster

    kernel = RBF(4.0)
    Z = np.random.default_rng(1).standard_normal((m, d))
    V = np.random.default_rng(2).standard_normal((m, 1))
    clusters = [
        LocalCluster(
            n_workers=count, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        for count in (1, 2)
    ]
    clients = [Client(cluster, set_as_default=False) for cluster in clusters]
    try:
        ways = []
        for client in clients:
            with client.as_current():
                X = da.random.default_rng(0).standard_normal((n, d), chunks=(n // 16, d))
                ways.append(ClusterPass(kernel, RowBlocks.from_dask(X), Z, client))
        first, second = (way.pull(V, Normal())[0] for way in ways)

        one, two = best_of(
            passes,
            *((lambda way=way: way.pull(V, Normal())) for way in ways),  # type: ignore[misc]
        )
    finally:
        for client, cluster in zip(clients, clusters, strict=True):
            client.close()
            cluster.close()
    note = f"best of {passes} iterations; same bits: {np.array_equal(first, second)}"
    work = f"pass on 2 workers n={n} d={d} m={m}"
    return [Row(work, two, one, "1 worker", note=note)]
