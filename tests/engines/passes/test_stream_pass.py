"""Passes over blocks: the sums, their bits, the file and row of what is wrong, kill and resume."""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

import mercer
from mercer.engines.checkpoint import Checkpoint
from mercer.engines.passes.base import row_pass
from mercer.engines.passes.stream import StreamPass
from mercer.errors import InvalidInput
from mercer.threads import ahead

RowBlocks = mercer.RowBlocks


@dataclass(frozen=True)
class Squares:
    """The gradient of the weighted squares, their sum and the sum of weights."""

    width: int = 2
    n_sums: int = 2

    def __call__(self, F, y, w, xp):
        rest = F - y
        w = xp.ones(len(rest)) if w is None else w
        return w[:, None] * rest, xp.stack([(w[:, None] * rest**2).sum(), w.sum()])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    return X, rng.normal(size=(150, 2)), rng.integers(0, 3, 150).astype(float)


@pytest.fixture
def V():
    return np.random.default_rng(1).normal(size=(20, 2))


@pytest.mark.parametrize("size", [1, 7, 150])
def test_sums_equal_those_of_the_whole_matrix(data, V, size):
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    K = kernel(X, Z)
    rest = K @ V - y
    out, sums = row_pass(kernel, RowBlocks.from_arrays(X, y, w, block_rows=size), Z).pull(
        V, Squares()
    )
    np.testing.assert_allclose(out, K.T @ (w[:, None] * rest), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sums, [(w[:, None] * rest**2).sum(), w.sum()], rtol=1e-12)
    twice = row_pass(kernel, RowBlocks.from_arrays(np.repeat(X, 2, 0), np.repeat(y, 2, 0)), Z)
    doubled = row_pass(kernel, RowBlocks.from_arrays(X, y, np.full(150, 2.0)), Z)
    for ours, theirs in zip(twice.pull(V, Squares()), doubled.pull(V, Squares()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-10)


def test_bits_do_not_depend_on_threads_or_on_where_rows_come_from(data, V, tmp_path):
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    for name, A in (("X", X), ("y", y), ("w", w)):
        np.save(tmp_path / f"{name}.npy", A)
    paths = [tmp_path / f"{n}.npy" for n in "Xyw"]

    def made():
        for i in range(0, 150, 40):
            yield X[i : i + 40], y[i : i + 40], w[i : i + 40]

    sources = [
        RowBlocks.from_arrays(X, y, w, block_rows=40),
        RowBlocks.from_npy(*paths, block_rows=40),
        RowBlocks.from_generator(made),
        RowBlocks.from_arrays(X, block_rows=40).with_values(y, w),
    ]
    found = set()
    for threads in (1, 3):
        with mercer.config(threads=threads):
            for blocks in sources:
                out, sums = StreamPass(kernel, blocks, Z).pull(V, Squares())
                found.add(out.tobytes() + sums.tobytes())
    assert len(found) == 1


def test_tensors_and_single_precision(data, V):
    pytest.importorskip("torch")
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    expected = StreamPass(kernel, RowBlocks.from_arrays(X, y, w), Z).pull(V, Squares())
    with mercer.config(engine="torch", device="cpu"):
        rows = StreamPass(kernel, RowBlocks.from_arrays(X, y, w, block_rows=60), Z)
        found = rows.pull(V, Squares())
    assert not rows.single
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    single = RowBlocks.from_arrays(X.astype(np.float32), y, w, block_rows=60)
    rows = StreamPass(kernel, single, Z.astype(np.float32))
    assert rows.single
    np.testing.assert_allclose(rows.pull(V, Squares())[0], expected[0], atol=1e-3)


def test_kernels_on_other_domains(V):
    words = ["ab" * i + "ba" for i in range(30)]
    kernel = mercer.Spectrum(2)
    Z = kernel.domain.check(words[:20])
    y = np.zeros((30, 2))
    out, _ = StreamPass(kernel, RowBlocks.from_arrays(words, y, block_rows=7), Z).pull(V, Squares())
    K = kernel(words, words[:20])
    np.testing.assert_allclose(out, K.T @ (K @ V), rtol=1e-11)


def test_bad_rows_are_named_by_file(data, V, tmp_path):
    X, y, _ = data
    Z = X[:20].copy()
    X[77, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    blocks = RowBlocks.from_npy(tmp_path / "x.npy", tmp_path / "y.npy", block_rows=9)
    before = threading.active_count()
    with pytest.raises(InvalidInput, match=r"nan at row 77, column 1 of .*x\.npy'"):
        StreamPass(mercer.RBF(1.0), blocks, Z).pull(V, Squares())
    assert threading.active_count() == before  # the reader has ended
    with pytest.raises(InvalidInput, match=r"x\.npy' has 3 columns and the centres have 2"):
        StreamPass(mercer.RBF(1.0), blocks, Z[:, :2])
    labels = RowBlocks.from_arrays(X[:50], np.array(["a", "b"] * 25))
    with pytest.raises(InvalidInput, match="no numbers"):
        StreamPass(mercer.RBF(1.0), labels, Z).pull(V, Squares())


# ------------------------------------------------------------------------------- read ahead
def test_reading_ahead_keeps_order_errors_and_options():
    assert list(ahead(range(50))) == list(range(50))

    def broken():
        yield 1
        raise KeyError("here")

    items = ahead(broken())
    assert next(items) == 1
    with pytest.raises(KeyError, match="here"):
        next(items)

    def budget():
        yield mercer.get_config().memory

    with mercer.config(memory=12345):
        assert list(ahead(budget())) == [12345]


def test_reading_ahead_stops_with_its_caller():
    made, closed = [], []

    def endless():
        try:
            while True:
                made.append(1)
                yield np.zeros(3)
        finally:
            closed.append(1)

    before = threading.active_count()
    items = ahead(endless())
    next(items)
    items.close()
    assert threading.active_count() == before and closed == [1] and len(made) <= 3


def test_the_next_block_is_read_while_the_present_one_is_used():
    reading = threading.Event()

    def blocks():
        yield 0
        reading.set()
        yield 1

    items = ahead(blocks())
    next(items)
    assert reading.wait(10)
    items.close()


# --------------------------------------------------------------------------------- resuming
class Stop(Exception):
    pass


def stopping(blocks, at, error):
    """Blocks that fail when row `at` is reached, once."""
    left = [1]

    def rows():
        for block in blocks:
            if block.start >= at and left:
                left.pop()
                raise error
            yield block.X, block.y, block.weight

    return RowBlocks.from_generator(rows, n_rows=blocks.n_rows)


def test_a_pass_goes_on_from_its_sums_with_the_same_bits(data, V, tmp_path):
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    blocks = RowBlocks.from_arrays(X, y, w, block_rows=13)
    expected = StreamPass(kernel, blocks, Z).pull(V, Squares())
    path = tmp_path / "c"
    source = stopping(blocks, 60, Stop())
    rows = StreamPass(kernel, source, Z, Checkpoint(path, "k", every=0))
    with pytest.raises(Stop):
        rows.pull(V, Squares())
    read = []
    real = RowBlocks.iterate

    def counted(self, first=0):
        read.append(first)
        return real(self, first)

    rows = StreamPass(kernel, source, Z, Checkpoint(path, "k", every=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowBlocks, "iterate", counted)
        found = rows.pull(V, Squares())
    assert max(read) >= 1  # blocks before the checkpoint were not multiplied again
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()
    # Ctrl-C keeps the sums, however recent the last ones are
    source = stopping(blocks, 60, KeyboardInterrupt())
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        StreamPass(kernel, source, Z, Checkpoint(path, "k", every=1e9)).pull(V, Squares())
    assert path.exists()


@pytest.mark.parametrize("other", ["V", "step", "kernel", "centres", "data", "cuts"])
def test_sums_of_another_pass_are_not_taken_up(data, V, tmp_path, other):
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    path = tmp_path / "c"
    blocks = RowBlocks.from_arrays(X, y, w, block_rows=13)
    with pytest.raises(KeyboardInterrupt):
        rows = StreamPass(kernel, blocks, Z, Checkpoint(path, "k"))
        calls = []

        class Once(Squares):
            def __call__(self, *args):
                calls.append(1)
                if len(calls) == 6:
                    raise KeyboardInterrupt
                return super().__call__(*args)

        Once.__qualname__ = "Squares"
        rows.pull(V, Once())
    step = Squares()
    if other == "V":
        V = V + 1e-12
    elif other == "step":
        step = Squares(width=2, n_sums=np.int64(2))
    elif other == "kernel":
        kernel = mercer.RBF(1.6)
    elif other == "centres":
        Z = Z[::-1].copy()
    elif other == "data":
        X = X.copy()
        X[0] += 1e-12
        blocks = RowBlocks.from_arrays(X, y, w, block_rows=13)
    else:
        blocks = RowBlocks.from_arrays(X, y, w, block_rows=14)
    file = Checkpoint(path, "k")
    found = StreamPass(kernel, blocks, Z, file).pull(V, step)
    for ours, theirs in zip(found, StreamPass(kernel, blocks, Z).pull(V, step), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    assert len(file._partials) == 1  # what was not taken up is kept for its own pass


def test_sums_of_other_rows_are_refused_by_the_pass_after(data, V, tmp_path):
    X, y, w = data
    kernel, Z = mercer.RBF(1.5), X[:20].copy()
    source = stopping(RowBlocks.from_arrays(X, y, w, block_rows=13), 120, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        StreamPass(kernel, source, Z, Checkpoint(tmp_path / "c", "k")).pull(V, Squares())
    X = X.copy()
    X[80] += 1.0  # behind the first rows, which tell it from others, and behind in the pass
    blocks = RowBlocks.from_arrays(X, y, w, block_rows=13)
    rows = StreamPass(kernel, stopping(blocks, 1e9, Stop()), Z, Checkpoint(tmp_path / "c", "k"))
    with pytest.raises(InvalidInput, match="of other data: the block of rows from 78 on"):
        for _ in range(2):
            rows.pull(V, Squares())


def test_progress_says_how_long_it_takes(data, V, monkeypatch, capsys):
    X, y, w = data
    clock = [0.0]

    def ticking():
        clock[0] += 1.5
        return clock[0]

    monkeypatch.setattr("mercer.threads.time.monotonic", ticking)
    rows = StreamPass(mercer.RBF(1.0), RowBlocks.from_arrays(X, y, w, block_rows=15), X[:20].copy())
    with mercer.config(progress=True):
        rows.pull(V, Squares())
    said = capsys.readouterr().err
    assert "pass over blocks 50 %" in said and "s left" in said and said.endswith("\n")


FIT = """
import sys, time
import numpy as np
import mercer
from mercer.engines.checkpoint import Checkpoint
from mercer.engines.passes import row_pass
from mercer.solvers.falkon import Falkon
from mercer.solvers.falkon.problem import Centred

def fit(folder, pause):
    X = np.load(folder + "/X.npy")

    def rows():
        for block in mercer.RowBlocks.from_npy(folder + "/X.npy", folder + "/y.npy", block_rows=99):
            time.sleep(pause)
            yield block.X, block.y

    kernel, Z = mercer.RBF(2.0), X[:30]
    blocks = mercer.RowBlocks.from_generator(rows, n_rows=len(X))
    problem = Centred(row_pass(kernel, blocks, Z), kernel(Z), 1.0, True, 1)
    file = Checkpoint(folder + "/fit.checkpoint", "this fit", every=0)
    a, b = Falkon(tol=1e-10, max_iter=12, checkpoint=file).solve(problem).value
    return np.r_[a.ravel(), b]

if __name__ == "__main__":
    fit(sys.argv[1], 0.1)
"""


@pytest.mark.filterwarnings("ignore::mercer.errors.NotConverged")
def test_a_killed_fit_goes_on_and_ends_with_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.sin(X[:, 0]))
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    fit = runpy.run_path(str(script))["fit"]
    path = tmp_path / "fit.checkpoint"
    expected = fit(str(tmp_path), 0.0)
    path.unlink()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # in the middle of a pass, which takes a second
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE
    )
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if path.exists():
            break
        time.sleep(0.005)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL, process.stderr.read().decode()
    process.stderr.close()
    assert Checkpoint(path, "this fit")._partials  # a pass was under way
    np.testing.assert_array_equal(fit(str(tmp_path), 0.0), expected)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
