"""Passes on a cluster of two processes: the answers of one process, also when a worker dies."""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, RowBlocks
from mercer.engines.cluster import ClusterPass, client_for, each_block
from mercer.engines.passes import MemoryPass, row_pass
from mercer.errors import ClusterError, InvalidInput
from mercer.solvers.falkon import Falkon
from mercer.solvers.falkon_problem import Centred
from mercer.solvers.falkon_steps import Products, Residuals, Sketch, Targets

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
N, M = 600, 12
X, Y, W = rng.standard_normal((N, 3)), rng.standard_normal((N, 2)), rng.random(N)
Z, V = X[:M].copy(), rng.standard_normal((M, 2))
KERNEL = RBF(1.3)
LOCAL = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def current(client):
    """Make the client the current one."""
    client.wait_for_workers(2, timeout=60)
    with client.as_current():
        yield client


def blocks(rows=70, **chunks):
    return RowBlocks.from_dask(
        da.from_array(X, chunks=(rows, 2)), da.from_array(Y, chunks=(77, 1)), W
    )


@contextmanager
def extra_worker(client, code=""):
    """Start a worker that nobody starts again when it dies."""
    address, before = client.scheduler.address, set(client.nthreads())
    code += (
        "import sys; from distributed.cli.dask_worker import main; "
        "main([sys.argv[1], '--no-nanny', '--nthreads', '1', '--no-dashboard'])"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, address]
    process = subprocess.Popen(command, env=paths, stderr=subprocess.DEVNULL)
    try:
        client.wait_for_workers(len(before) + 1, timeout=60)
        process.address = (set(client.nthreads()) - before).pop()
        yield process
    finally:
        process.kill()
        process.wait()
        while process.address in client.nthreads():
            time.sleep(0.05)


STEPS = [
    Targets(2),
    Products(np.array([0.3, 0.0])),
    Residuals(np.array([0.1, -0.2]), (0, 1)),
    Sketch(8, 1),
]


# ------------------------------------------------------------------------------ the answers
@pytest.mark.parametrize("step", STEPS[:3], ids=lambda s: type(s).__name__)
def test_a_pass_equals_that_of_one_process(current, step):
    expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, step)
    rows = row_pass(KERNEL, blocks(), Z)
    assert isinstance(rows, ClusterPass) and (rows.n, rows.m, rows.single) == (N, M, False)
    got = rows.pull(V, step)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == np.float64 and a.flags.writeable
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rows", [1000, (599, 1), (300, 0, 300), (0, 600), (60,) * 10])
def test_any_cut_of_the_rows(current, rows):
    expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, STEPS[2])
    got = row_pass(KERNEL, blocks(rows), Z).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_bits_depend_on_the_blocks_alone(current):
    one = row_pass(KERNEL, blocks(), Z)
    again = row_pass(KERNEL, blocks(), Z)
    again.keeps = False  # blocks are made anew at every pass
    for step in STEPS:
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


def test_files_are_read_by_the_workers(current, tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    rows = RowBlocks.from_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=110)
    expected = MemoryPass(KERNEL, X, Z, Y).pull(V, STEPS[2])
    assert not isinstance(row_pass(KERNEL, rows, Z), ClusterPass)
    with mercer.config(engine="dask"):
        on_workers = row_pass(KERNEL, rows, Z)
        np.testing.assert_allclose(on_workers.pull(V, STEPS[2])[0], expected[0], rtol=1e-10)
        np.save(tmp_path / "X.npy", X + 1)
        on_workers.keeps, on_workers._blocks = False, None
        with pytest.raises(InvalidInput, match=r"X\.npy.*changed"):
            on_workers.pull(V, STEPS[2])


def test_rows_in_memory_are_sent(current):
    rows = RowBlocks.from_arrays(X, Y, W, block_rows=110).with_targets(np.negative)
    with mercer.config(engine="dask"):
        got = row_pass(KERNEL, rows, Z).pull(V, STEPS[2])
    expected = MemoryPass(KERNEL, X, Z, -Y, W).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


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
def test_a_worker_killed_in_the_middle_of_a_fit_costs_no_bit(current):
    def solve(callback=None):
        problem = Centred(row_pass(KERNEL, blocks(), Z), KERNEL(Z), alpha=1e-2, outputs=2)
        return Falkon(tol=1e-12, callback=callback).solve(problem).value[0]

    with extra_worker(current) as victim:
        answer = solve(lambda iteration, residual: victim.kill() if iteration == 2 else None)
    np.testing.assert_array_equal(answer, solve())


@dataclass(frozen=True)
class Slow:
    """A step that gives time to kill a worker while it works."""

    width: int = 2
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        time.sleep(0.15)
        return F, np.zeros(0)


def test_a_worker_killed_in_the_middle_of_a_pass(current):
    expected, _ = row_pass(KERNEL, blocks(), Z).pull(V, Slow())
    with extra_worker(current) as victim:
        rows = row_pass(KERNEL, blocks(), Z)
        rows.pull(V, STEPS[2])
        held = [len(keys) for address, keys in current.has_what().items()]
        assert min(held) > 0  # the blocks are shared out
        timer = threading.Timer(0.2, victim.kill)
        timer.start()
        got, _ = rows.pull(V, Slow())
        timer.join()
    np.testing.assert_array_equal(got, expected)


def test_all_workers_die_and_others_come():
    with (
        distributed.LocalCluster(n_workers=0, **LOCAL) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        with extra_worker(client):
            here = RowBlocks.from_arrays(X, Y, W, block_rows=70)
            passes = [ClusterPass(KERNEL, rows, Z, client) for rows in (blocks(), here)]
            before = [rows.pull(V, STEPS[2])[0] for rows in passes]
        with extra_worker(client):
            for rows, expected in zip(passes, before, strict=True):
                np.testing.assert_array_equal(rows.pull(V, STEPS[2])[0], expected)


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


def test_a_worker_without_mercer_is_named_with_the_cure(current):
    with extra_worker(current, "import sys; sys.modules['mercer'] = None; ") as bare:
        with pytest.raises(ClusterError, match=r"no mercer.*pip install 'mercer\[dask\]") as error:
            ClusterPass(KERNEL, blocks(), Z, current)
        assert bare.address in str(error.value)


def test_a_scheduler_without_workers_and_one_that_is_gone():
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
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
