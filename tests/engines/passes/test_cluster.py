"""Passes on a cluster of two workers: the answers of one process, and what travels."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RowBlocks
from mercer.engines.passes.base import MemoryPass, row_pass
from mercer.engines.passes.cluster import ClusterPass, each_block
from mercer.solvers.falkon.problem import Centred
from mercer.solvers.falkon.solver import Falkon
from mercer.solvers.falkon.steps import RightSides
from mercer.threads import Progress
from tests.engines.cluster_rows import (
    KERNEL,
    STEPS,
    Broken,
    Flat,
    M,
    N,
    V,
    W,
    X,
    Y,
    Z,
    blocks,
    rng,
)

pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("rows", [1000, (599, 1), (300, 0, 300), (0, 600), (60,) * 10])
def test_any_cut_of_the_rows(current, rows):
    expected = MemoryPass(KERNEL, X, Z, Y, W).pull(V, STEPS[2])
    got = row_pass(KERNEL, blocks(rows), Z).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_repeated_blocks_count_as_often_as_they_come(current):
    lazy, y = da.from_array(X, chunks=(100, 3)), da.from_array(Y, chunks=(100, 2))
    twice = RowBlocks.from_dask(da.concatenate([lazy, lazy]), da.concatenate([y, y]))
    got = row_pass(KERNEL, twice, Z).pull(V, STEPS[2])
    expected = MemoryPass(KERNEL, X, Z, Y, np.full(N, 2.0)).pull(V, STEPS[2])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)


def test_rows_are_drawn_by_weight_where_they_are(current):
    w = np.where(np.arange(N) < 40, 1.0 + np.arange(N), 0.0)
    here = RowBlocks.from_arrays(X, Y, w, block_rows=150)
    there = RowBlocks.from_dask(da.from_array(X, chunks=(70, 3)), Y, da.from_array(w, chunks=90))
    for m in (10, 100):
        index, weight = here.draw(m, 3)
        assert len(index) == min(m, 40) and index.max() < 40
        for each in (None, each_block):
            found = there.draw(m, 3, each)
            np.testing.assert_array_equal(found[0], index)
            np.testing.assert_allclose(found[1], weight, rtol=1e-12)


def test_single_precision_stays_single(current):
    lazy = RowBlocks.from_dask(da.from_array(X.astype(np.float32), chunks=(200, 3)), Y)
    rows = row_pass(KERNEL, lazy, Z.astype(np.float32))
    expected = MemoryPass(KERNEL, X.astype(np.float32), Z.astype(np.float32), Y).pull(V, STEPS[1])
    assert rows.single
    np.testing.assert_allclose(rows.pull(V, STEPS[1])[0], expected[0], rtol=1e-5, atol=1e-5)


def test_frames_with_their_target(current):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y[:, 0], "w": W})
    rows = RowBlocks.from_dask(dd.from_pandas(frame, npartitions=4), "y", "w")
    got = row_pass(KERNEL, rows, Z).pull(None, RightSides(1))
    expected = MemoryPass(KERNEL, X, Z, Y[:, :1], W).pull(None, RightSides(1))
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-11)


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
        got = row_pass(kernel, rows, centres).pull(None, RightSides(1))
    expected = MemoryPass(kernel, kernel.domain.check(words), centres, y[:, None]).pull(
        None, RightSides(1)
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
    how = {"solver": "falkon", "centers": Z, "tol": 1e-11}
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
            got = [passes.pull(None, RightSides(1))[1] for _ in range(2)]
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

    monkeypatch.setattr("mercer.engines.passes.cluster.Progress", Counted)
    rows = ClusterPass(KERNEL, blocks(), Z, client)
    expected = rows.pull(V, STEPS[2])
    with mercer.config(progress=True):
        got = rows.pull(V, STEPS[2])
        assert len(steps) == 9 and sum(s for s, _ in steps) == N == steps[0][1]
        with pytest.raises(ZeroDivisionError, match="a step that fails"):
            rows.pull(V, Broken(ZeroDivisionError("a step that fails")))
    np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize("sizes", [(50,) * 12, (100,) * 4 + (25,) * 8, (600,)])
def test_each_worker_has_a_run_of_rows_and_keeps_it(current, sizes):
    lazy = [da.from_array(A, chunks=(sizes, *A.shape[1:])) for A in (X, Y, W)]
    rows = ClusterPass(KERNEL, RowBlocks.from_dask(*lazy), Z, current)
    rows.pull(V, STEPS[2])
    homes = rows._homes
    first, held = homes[0], np.array([home == homes[0] for home in homes])
    run = int(held.sum())
    assert len(homes) == len(sizes) and held[:run].all()  # the first has the first rows
    assert len(set(homes)) == min(2, len(sizes))
    assert abs(np.sum(sizes[:run]) - N / 2) <= 50 or len(sizes) == 1
    where = {str(key) for key in current.has_what()[first]}
    there = {str(key) for block in rows._blocks for key in block.__dask_keys__()}
    assert len(where & there) == run
    rows.pull(V, STEPS[2])
    assert rows._homes == homes
    assert len({str(key) for key in current.has_what()[first]} & there) == run


def test_scores_are_made_where_the_rows_are(current):
    y = np.where(X[:, 0] > 0.3, "yes", "no")
    for model, target in (
        (mercer.KernelRidge(KERNEL, solver="falkon", centers=Z), Y),
        (mercer.KernelRidgeClassifier(KERNEL, solver="falkon", centers=Z), y),
    ):
        model.fit(X, target)
        lazy = [da.from_array(A, chunks=(150, *A.shape[1:])) for A in (X, target, W)]
        assert model.score(*lazy) == pytest.approx(model.score(X, target, W), abs=1e-10)
