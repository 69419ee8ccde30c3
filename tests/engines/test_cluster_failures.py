"""What goes wrong on a cluster: workers that go, rows that are others, errors of tasks."""

import threading
import time

import numpy as np
import pytest

import mercer
from mercer import RowBlocks
from mercer.engines.passes.base import MemoryPass, row_pass
from mercer.engines.passes.cluster import Cluster, ClusterPass, client_for
from mercer.errors import ClusterError, InvalidInput
from tests.engines.cluster_rows import (
    KERNEL,
    SMALL,
    STEPS,
    Broken,
    Flat,
    Slow,
    V,
    W,
    X,
    Y,
    Z,
    blocks,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


async def new_worker(address):
    """Start a worker in this process."""
    return await distributed.Worker(address, nthreads=1, dashboard=False)


def test_all_workers_die_and_others_come(small, monkeypatch):
    cluster, client = small
    rounds = []
    answers = Cluster._answers
    monkeypatch.setattr(Cluster, "_answers", lambda self: rounds.append(1) or answers(self))
    here = RowBlocks.from_arrays(X, Y, W, block_rows=70)
    passes = [ClusterPass(KERNEL, rows, Z, client) for rows in (blocks(), here)]
    before = [rows.pull(V, STEPS[2])[0] for rows in passes]
    (old,) = cluster.workers.values()
    cluster.sync(old.close, nanny=False, executor_wait=False)
    while old.address in client.nthreads():
        time.sleep(0.02)
    new = cluster.sync(new_worker, cluster.scheduler_address)
    client.wait_for_workers(1, timeout=30)
    for rows, expected in zip(passes, before, strict=True):
        np.testing.assert_array_equal(rows.pull(V, STEPS[2])[0], expected)
    assert rounds  # what was sent from here was lost, and sent again
    cluster.sync(new.close)


@pytest.mark.parametrize("progress", [False, True])
def test_a_client_closed_in_the_middle_of_a_pass(small, progress):
    _, client = small
    rows = ClusterPass(KERNEL, blocks(), Z, client)
    timer = threading.Timer(0.2, client.close)
    timer.start()
    with (
        mercer.config(progress=progress),
        pytest.raises(ClusterError, match=r"no longer answers.*checkpoint"),
    ):
        rows.pull(V, Slow(STEPS[2]))
    timer.join()


def test_a_checkpoint_of_other_rows_is_refused(current, tmp_path):
    other = X.copy()
    other[100:] = other[100:][::-1]
    how = {"solver": "falkon", "centers": Z, "checkpoint": tmp_path / "fit.ck"}
    first = mercer.KernelRidge(KERNEL, **how).fit(da.from_array(X, chunks=(150, 3)), Y)
    again = mercer.KernelRidge(KERNEL, **how).fit(da.from_array(X, chunks=(150, 3)), Y)
    np.testing.assert_array_equal(first.dual_coef_, again.dual_coef_)
    with pytest.raises(InvalidInput, match="of other data"):
        mercer.KernelRidge(KERNEL, **how).fit(da.from_array(other, chunks=(150, 3)), Y)


def test_chunks_without_a_seed_are_refused(small):
    _, client = small
    unseeded = dask.delayed(lambda: np.random.default_rng().random((40, 3)), pure=False)
    lazy = da.concatenate([da.from_delayed(unseeded(), (40, 3), float) for _ in range(2)])
    rows = ClusterPass(KERNEL, RowBlocks.from_dask(lazy), Z, client)
    rows.keeps = False
    with pytest.raises(InvalidInput, match="of the dask data changed between two passes"):
        for _ in range(2):
            rows.pull(V, Flat())


def test_what_is_wrong_with_a_block_is_said_with_its_rows(current):
    bad = X.copy()
    bad[333, 1] = np.nan
    rows = row_pass(KERNEL, RowBlocks.from_dask(da.from_array(bad, chunks=(100, 3)), Y), Z)
    with pytest.raises(InvalidInput, match="nan at row 333, column 1 of the dask data"):
        rows.pull(V, STEPS[2])
    with pytest.raises(InvalidInput, match="columns"):
        row_pass(KERNEL, RowBlocks.from_dask(da.ones((9, 5), chunks=(3, 5))), Z)


def test_an_error_of_a_task_reaches_the_user(current):
    rows = row_pass(KERNEL, blocks(), Z)
    with pytest.raises(ZeroDivisionError, match="a step that fails"):
        rows.pull(V, Broken(ZeroDivisionError("a step that fails")))
    with pytest.raises(ClusterError, match=r"no module 'wood'.*pip install"):
        rows.pull(V, Broken(ModuleNotFoundError("No module named 'wood'", name="wood")))


def test_generators_cannot_be_shared_out(current):
    rows = RowBlocks.from_generator(lambda: iter([X]))
    with mercer.config(engine="dask"), pytest.raises(InvalidInput, match="Parquet"):
        row_pass(KERNEL, rows, Z)


def test_without_a_client_blocks_are_computed_here():
    assert client_for(blocks()) is None
    got = row_pass(KERNEL, blocks(), Z).pull(V, STEPS[2])
    expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)
    with mercer.config(engine="dask"), pytest.raises(InvalidInput, match="opens no cluster"):
        row_pass(KERNEL, blocks(), Z)
    with pytest.raises(InvalidInput, match="Client"):
        ClusterPass(KERNEL, blocks(), Z)


def test_numpy_means_this_process(current):
    with mercer.config(engine="numpy"):
        assert client_for(blocks()) is None


def test_a_scheduler_without_workers_and_one_that_is_gone():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, **SMALL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(ClusterError, match="no workers"):
            ClusterPass(KERNEL, blocks(), Z, client)
        cluster.scale(1)
        client.wait_for_workers(1, timeout=30)
        rows = ClusterPass(KERNEL, blocks(), Z, client)
        rows.pull(V, STEPS[2])
        cluster.close()
        for _ in range(2):
            with pytest.raises(ClusterError, match="no longer answers"):
                rows.pull(V, STEPS[2])
