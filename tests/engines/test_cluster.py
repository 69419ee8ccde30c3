"""Passes on a cluster of two processes: the answers of one process, also when a worker dies."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, RowBlocks
from mercer.engines.cluster import ClusterPass, client_for, each_block
from mercer.engines.cluster_client import Cluster
from mercer.engines.passes import MemoryPass, row_pass
from mercer.engines.progress import Progress
from mercer.errors import ClusterError, InvalidInput
from mercer.solvers.falkon import Falkon
from mercer.solvers.falkon_problem import Centred
from mercer.solvers.falkon_steps import Products, Residuals, Sketch, Targets

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
N, M = 600, 12
X, Y, W = rng.standard_normal((N, 3)), rng.standard_normal((N, 2)), rng.random(N)
Z, V = X[:M].copy(), rng.standard_normal((M, 2))
KERNEL = RBF(1.3)
SMALL = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}


WORKER = (
    "import sys; from distributed.cli.dask_worker import main; "
    "main([sys.argv[1], '--no-nanny', '--nthreads', '1', '--no-dashboard'])"
)


@pytest.fixture(scope="module")
def scheduler():
    """Make a scheduler in this process; give its client, and a list for processes of workers."""
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
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **SMALL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        yield cluster, client


def blocks(rows=70):
    return RowBlocks.from_dask(
        da.from_array(X, chunks=(rows, 2)), da.from_array(Y, chunks=(77, 1)), W
    )


@dataclass(frozen=True)
class Flat:
    """A step that needs no targets."""

    width: int = 2
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        return F[:, :2], np.zeros(0)


STEPS = [
    Targets(2),
    Products(np.array([0.3, 0.0])),
    Residuals(np.array([0.1, -0.2]), (0, 1)),
    Sketch(8, 1),
]


# ------------------------------------------------------------------------------ the answers
def test_a_pass_equals_that_of_one_process(processes):
    rows = row_pass(KERNEL, blocks(), Z)
    assert isinstance(rows, ClusterPass) and (rows.n, rows.m, rows.single) == (N, M, False)
    for step in STEPS[:3]:
        expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, step)
        for a, b in zip(rows.pull(V, step), expected, strict=True):
            assert a.dtype == np.float64 and a.flags.writeable
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rows", [1000, (599, 1), (300, 0, 300), (0, 600), (60,) * 10])
def test_any_cut_of_the_rows(current, rows):
    expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, STEPS[2])
    got = row_pass(KERNEL, blocks(rows), Z).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_bits_depend_on_the_blocks_alone(current, processes):
    one = ClusterPass(KERNEL, blocks(), Z, current)
    again = row_pass(KERNEL, blocks(), Z)
    again.keeps = False  # blocks are made anew at every pass
    for step in STEPS[2:]:
        for a, b in zip(one.pull(V, step), again.pull(V, step), strict=True):
            np.testing.assert_array_equal(a, b)


def test_repeated_blocks_count_as_often_as_they_come(current):
    lazy, y = da.from_array(X, chunks=(100, 3)), da.from_array(Y, chunks=(100, 2))
    twice = RowBlocks.from_dask(da.concatenate([lazy, lazy]), da.concatenate([y, y]))
    got = row_pass(KERNEL, twice, Z).pull(V, STEPS[2])
    expected = MemoryPass(KERNEL, X, Z, Y, np.full(N, 2.0)).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_single_precision_stays_single(current):
    lazy = RowBlocks.from_dask(da.from_array(X.astype(np.float32), chunks=(200, 3)), Y)
    rows = row_pass(KERNEL, lazy, Z.astype(np.float32))
    expected = MemoryPass(KERNEL, X.astype(np.float32), Z.astype(np.float32), Y).pull(V, STEPS[1])
    assert rows.single
    np.testing.assert_allclose(rows.pull(V, STEPS[1])[0], expected[0], rtol=1e-5, atol=1e-5)


def test_frames_with_their_target(current):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y[:, 0], "w": W})
    rows = RowBlocks.from_dask(dd.from_pandas(frame, npartitions=4), "y", "w")
    got = row_pass(KERNEL, rows, Z).pull(None, Targets(1))
    expected = MemoryPass(KERNEL, X, Z, Y[:, :1], W).pull(None, Targets(1))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-11)


def test_files_are_read_by_the_workers(processes, tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    rows = RowBlocks.from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=110)
    expected = MemoryPass(KERNEL, X, Z, Y).pull(V, STEPS[2])
    assert not isinstance(row_pass(KERNEL, rows, Z), ClusterPass)
    with mercer.config(engine="dask"):
        on_workers = row_pass(KERNEL, rows, Z)
        np.testing.assert_allclose(on_workers.pull(V, STEPS[2])[0], expected[0], rtol=1e-10)


def test_rows_in_memory_are_sent(current):
    rows = RowBlocks.from_arrays(X, Y, W, block_rows=110).with_targets(np.negative)
    with mercer.config(engine="dask"):
        got = row_pass(KERNEL, rows, Z).pull(V, STEPS[2])
    expected = MemoryPass(KERNEL, X, Z, -Y, W).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_strings_in_memory_are_sent_and_known_again(current):
    words = [w * 3 for w in ("ab", "abc", "ba", "cab", "bca")] * 4
    rows, y = RowBlocks.from_arrays(words, np.arange(20.0), block_rows=6), np.arange(20.0)
    kernel = mercer.Spectrum(2)
    centres = kernel.domain.check(words[:3])
    list(rows)  # their checksums are taken here, and again by the workers
    with mercer.config(engine="dask"):
        got = row_pass(kernel, rows, centres).pull(None, Targets(1))
    expected = MemoryPass(kernel, kernel.domain.check(words), centres, y[:, None]).pull(
        None, Targets(1)
    )
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11)


def test_classes_by_a_pass(current):
    labels = np.array(list("abc"))[np.arange(N) % 3]
    rows = RowBlocks.from_dask(da.from_array(X, chunks=(100, 3)), labels)
    found = each_block(rows, _classes)
    assert [list(f) for f in found] == [["a", "b", "c"]] * 6


def _classes(block):
    return np.unique(block.y)


def test_falkon_on_the_cluster_equals_falkon_in_memory(current):
    answers = []
    for rows in (row_pass(KERNEL, X, Z, Y, W), row_pass(KERNEL, blocks(), Z)):
        problem = Centred(rows, KERNEL(Z), alpha=1e-2, offset=True, outputs=2)
        answers.append(Falkon(tol=1e-12).solve(problem).value)
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("estimator", ["ridge", "classifier", "logistic"])
def test_estimators_fit_and_answer_dask_data(current, estimator):
    how = {"solver": "falkon", "n_centers": M, "centers": Z, "tol": 1e-11}
    if estimator == "ridge":
        y, model = Y, mercer.KernelRidge(KERNEL, alpha=0.1, **how)
    else:
        y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "yes", "no")
        kind = mercer.KernelRidgeClassifier
        if estimator == "logistic":
            kind = mercer.KernelLogisticRegression
        model = kind(KERNEL, **how)
    here = clone(model).fit(X, y, sample_weight=W)
    lazy = da.from_array(X, chunks=(150, 3))
    model.fit(lazy, da.from_array(y, chunks=100), sample_weight=da.from_array(W, chunks=90))
    np.testing.assert_allclose(model.dual_coef_, here.dual_coef_, rtol=1e-7, atol=1e-8)
    answers = model.predict(lazy)
    assert isinstance(answers, da.Array) and answers.chunks[0] == (150,) * 4
    expected = here.predict(X)
    if estimator == "ridge":
        np.testing.assert_allclose(answers.compute(), expected, rtol=1e-8, atol=1e-8)
    else:
        assert list(model.classes_) == ["no", "yes"]
        np.testing.assert_array_equal(answers.compute(), expected)


# ---------------------------------------------------------------------------------- failures
@dataclass(frozen=True)
class Slow:
    """A step that takes its time: longer than it takes to kill a worker, or to close a client."""

    step: Any
    seconds: float = 0.1

    width = property(lambda self: self.step.width)
    n_sums = property(lambda self: self.step.n_sums)

    def __call__(self, F, y, w, xp):
        time.sleep(self.seconds)
        return self.step(F, y, w, xp)


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


def test_what_is_in_memory_travels_once_and_without_a_warning(small, monkeypatch):
    _, client = small
    y, w, many = rng.random(30_000), rng.random(30_000), rng.random((M, 120_000))
    lazy = da.zeros((30_000, 3), chunks=(10_000, 3))
    sizes, compute = [], client.compute

    def spy(wanted, **how):
        sizes.append(sum(len(cloudpickle.dumps(dict(one.dask))) for one in wanted))
        return compute(wanted, **how)

    monkeypatch.setattr(client, "compute", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (RowBlocks.from_dask(lazy, y, w), RowBlocks.from_dask(lazy).with_values(y, w)):
            passes = ClusterPass(KERNEL, rows, Z, client)
            passes.keeps = False
            got = [passes.pull(None, Targets(1))[1] for _ in range(2)]
            np.testing.assert_allclose(got[1][:2], [w.sum(), w @ y], rtol=1e-10)
        assert max(sizes) < 30_000  # bytes; y and w alone are 480 000
        few = ClusterPass(KERNEL, RowBlocks.from_dask(lazy[:4]), Z, client)
        few.pull(many, Flat())  # dask warns of 10 MB


def test_progress_counts_the_rows(small, monkeypatch):
    _, client = small
    steps = []

    class Counted(Progress):
        def step(self, rows=1):
            steps.append((rows, self.total))

    monkeypatch.setattr("mercer.engines.cluster.Progress", Counted)
    rows = ClusterPass(KERNEL, blocks(), Z, client)
    expected = rows.pull(V, STEPS[2])
    with mercer.config(progress=True):
        got = rows.pull(V, STEPS[2])
        assert len(steps) == 9 and sum(s for s, _ in steps) == N == steps[0][1]
        with pytest.raises(ZeroDivisionError, match="a step that fails"):
            rows.pull(V, Broken(ZeroDivisionError("a step that fails")))
    np.testing.assert_array_equal(got[0], expected[0])


def test_what_is_wrong_with_a_block_is_said_with_its_rows(current):
    bad = X.copy()
    bad[333, 1] = np.nan
    rows = row_pass(KERNEL, RowBlocks.from_dask(da.from_array(bad, chunks=(100, 3)), Y), Z)
    with pytest.raises(InvalidInput, match="nan at row 333, column 1 of the dask data"):
        rows.pull(V, STEPS[2])
    with pytest.raises(InvalidInput, match="columns"):
        row_pass(KERNEL, RowBlocks.from_dask(da.ones((9, 5), chunks=(3, 5))), Z)


@dataclass(frozen=True)
class Broken:
    """A step with an error of its own."""

    error: Exception
    width: int = 2
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        raise self.error


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


# ----------------------------------------- at the end of this file: it costs one of the processes
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
