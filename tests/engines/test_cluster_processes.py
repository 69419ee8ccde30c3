"""Workers that are processes: the answers of one process, also when one of them dies."""

import os
import signal
import sys
import threading

import numpy as np
import pytest

import mercer
from mercer import RowBlocks
from mercer.engines.passes.base import MemoryPass, row_pass
from mercer.engines.passes.cluster import ClusterPass
from mercer.errors import ClusterError, InvalidInput
from mercer.solvers.falkon.problem import Centred
from mercer.solvers.falkon.solver import Falkon
from tests.engines.cluster_rows import KERNEL, STEPS, Flat, M, N, Slow, V, W, X, Y, Z, blocks

pytest.importorskip("distributed")
pytest.importorskip("dask.array")


def test_a_pass_equals_that_of_one_process(processes):
    rows = row_pass(KERNEL, blocks(), Z)
    assert isinstance(rows, ClusterPass) and (rows.n, rows.m, rows.single) == (N, M, False)
    for step in STEPS[:3]:
        expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, step)
        for a, b in zip(rows.pull(V, step), expected, strict=True):
            assert a.dtype == np.float64 and a.flags.writeable
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_bits_depend_on_the_blocks_alone(current, processes):
    one = ClusterPass(KERNEL, blocks(), Z, current)
    again = row_pass(KERNEL, blocks(), Z)
    again.keeps = False  # blocks are made anew at every pass
    for step in STEPS[2:]:
        for a, b in zip(one.pull(V, step), again.pull(V, step), strict=True):
            np.testing.assert_array_equal(a, b)


def test_files_are_read_by_the_workers(processes, tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    rows = RowBlocks.from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=110)
    expected = MemoryPass(KERNEL, X, Z, Y).pull(V, STEPS[2])
    assert not isinstance(row_pass(KERNEL, rows, Z), ClusterPass)
    with mercer.config(engine="dask"):
        on_workers = row_pass(KERNEL, rows, Z)
        np.testing.assert_allclose(on_workers.pull(V, STEPS[2])[0], expected[0], rtol=1e-10)


def test_blocks_that_change_between_passes_are_refused(processes, tmp_path):
    path, other = tmp_path / "X.npy", np.concatenate([X] * 20)
    np.save(path, other)
    rows = RowBlocks.from_npy(path, block_rows=3000)
    with mercer.config(engine="dask"):
        files = row_pass(KERNEL, rows, Z)
        files.keeps = False  # as when blocks are too large to stay
        files.pull(V, Flat())
        other[6000:6010] = 0.0  # the ends of the file stay as they are
        np.save(path, other)
        with pytest.raises(InvalidInput, match=r"rows 6000 to 8999 of .*X\.npy.* changed between"):
            files.pull(V, Flat())
        os.remove(path)
        with pytest.raises(InvalidInput, match=r"machine .* sees no file '/.*X\.npy'.*all workers"):
            files.pull(V, Flat())


def test_a_worker_without_mercer_is_named_with_the_cure(processes):
    current, _ = processes

    def take_away():
        sys.modules["kept"], sys.modules["mercer"] = sys.modules["mercer"], None

    def give_back():
        sys.modules["mercer"] = sys.modules.pop("kept")

    bare = max(current.nthreads())
    current.run(take_away, workers=[bare])
    try:
        with pytest.raises(ClusterError, match=r"no mercer.*pip install 'mercer\[dask\]") as error:
            ClusterPass(KERNEL, blocks(), Z, current)
        assert bare in str(error.value)
    finally:
        current.run(give_back, workers=[bare])


# at the end of this file: it costs one of the processes
class KillIn:
    """A pass in the middle of which a process is killed; it remembers how much that one held."""

    def __init__(self, rows, process, address, at):
        self.rows, self.process, self.address, self.at, self.calls = rows, process, address, at, 0

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def pull(self, V, step):
        self.calls += 1
        if self.calls != self.at:
            return self.rows.pull(V, step)
        self.held = len(self.rows.cluster.client.has_what()[self.address])
        timer = threading.Timer(0.05, self.process.kill)
        timer.start()
        answer = self.rows.pull(V, Slow(step))
        timer.join()
        return answer


def test_a_worker_killed_in_the_middle_of_a_fit_costs_no_bit(processes, threads):
    client, started = processes

    def solve(rows):
        problem = Centred(rows, KERNEL(Z), alpha=1e-2, outputs=2)
        return Falkon(tol=1e-6).solve(problem).value[0]

    expected = solve(ClusterPass(KERNEL, blocks(), Z, threads))
    address, pid = max(client.run(os.getpid).items())
    (victim,) = [process for process in started if process.pid == pid]
    rows = KillIn(row_pass(KERNEL, blocks(), Z), victim, address, at=3)
    np.testing.assert_array_equal(solve(rows), expected)
    assert rows.calls > 3 and rows.held > 0  # blocks were on it
    assert victim.wait(timeout=10) == -signal.SIGKILL and address not in client.nthreads()
