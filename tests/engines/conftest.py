"""Clusters for tests: workers that are threads, a worker that may be broken, and processes."""

import os
import subprocess
import sys

import pytest

from tests.engines.cluster_rows import SMALL

WORKER = (
    "import sys; from distributed.cli.dask_worker import main; "
    "main([sys.argv[1], '--no-nanny', '--nthreads', '1', '--no-dashboard'])"
)


@pytest.fixture(scope="module")
def scheduler():
    """Make a scheduler in this process; give its client, and a list for processes of workers."""
    distributed = pytest.importorskip("distributed")
    started = []
    where = {"n_workers": 0, "processes": False, "protocol": "tcp://", "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**where, **SMALL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client, started
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def processes(scheduler):
    """Make the client of two workers current, processes that nobody starts again when they die."""
    client, started = scheduler
    command = [sys.executable, "-c", WORKER, client.scheduler.address]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(2 - len(client.nthreads())):
        started.append(subprocess.Popen(command, env=paths, stderr=subprocess.DEVNULL))
    client.wait_for_workers(2, timeout=60)
    with client.as_current():
        yield client, started


@pytest.fixture(scope="module")
def threads():
    """Make a cluster of two workers that are threads of this process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, processes=False, **SMALL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def current(threads):
    """Make the client of the threads the current one."""
    with threads.as_current():
        yield threads


@pytest.fixture
def small():
    """Make a cluster of one worker in this process, which may be broken, and its client."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **SMALL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield cluster, client


@pytest.fixture(autouse=True)
def idle_cores(request, monkeypatch):
    """Let work be shared among threads also while other tests keep the cores busy."""
    if "crowded" not in request.node.name:
        monkeypatch.setattr("mercer.threads.is_crowded", lambda: False)
