"""The loop over tiles among threads: Ctrl-C, exceptions, BLAS, many callers, progress."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import mercer
from mercer import RBF, FromFunction, threads as progress
from mercer.engines import tiles
from mercer.engines.tiles import small_tiles


@pytest.fixture
def X(rng):
    return rng.standard_normal((37, 3))


# ------------------------------------------------------------------- interruption, exceptions
class Interrupting(RBF):
    """Raises in the middle of the work, on whatever thread computes the tile."""

    error: type = KeyboardInterrupt
    after = 3

    def _bind(self, X, Y=None):
        bound = super()._bind(X, Y)
        tile, count = bound.tile, iter(range(10**6))

        def counted(rows, cols):
            if next(count) == self.after:
                raise self.error("here")
            return tile(rows, cols)

        bound.tile = counted
        return bound


class Early(Interrupting):
    after = 1


class Broken(Interrupting):
    error = ZeroDivisionError


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("kernel", [Interrupting(), Broken()], ids=["Ctrl-C", "exception"])
def test_what_a_tile_raises_arrives_and_blas_is_restored(kernel, threads, X):
    before = {i["filepath"]: i["num_threads"] for i in threadpool_info()}
    running = threading.active_count()
    v = np.ones(37)
    with small_tiles(25), mercer.config(threads=threads):
        for call in (
            lambda: kernel(X),
            lambda: kernel.matmul(X, None, v),
            lambda: kernel.matmul(X, X[:9], v[:9]),
        ):
            with pytest.raises(kernel.error, match="here"):
                call()
        np.testing.assert_allclose(RBF()(X).diagonal(), 1.0)  # and work goes on
    after = {i["filepath"]: i["num_threads"] for i in threadpool_info()}
    assert {k: after[k] for k in before} == before
    assert threading.active_count() == running
    assert tiles.single_threaded_blas.limit is None


def test_the_rest_is_not_computed_after_an_exception(X):
    done = []

    class Slow(RBF):
        def _bind(self, X, Y=None):
            bound = super()._bind(X, Y)
            tile = bound.tile

            def slow(rows, cols):
                done.append(rows)
                if len(done) == 2:
                    raise RuntimeError("stop")
                time.sleep(0.002)
                return tile(rows, cols)

            bound.tile = slow
            return bound

    with small_tiles(4), mercer.config(threads=2), pytest.raises(RuntimeError, match="stop"):
        Slow()(X)  # 190 tiles
    assert len(done) < 60


def test_blas_is_as_before_after_ordinary_work(rng):
    X = rng.standard_normal((900, 4))
    before = [i["num_threads"] for i in threadpool_info()]
    with mercer.config(threads=2):
        RBF()(X)
    assert [i["num_threads"] for i in threadpool_info()][: len(before)] == before


def blas_threads():
    return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]


class Looking(RBF):
    """Notes how many threads BLAS has while a tile is computed."""

    seen: list = []

    def _profile(self, s, xp):
        self.seen.extend(blas_threads())
        return super()._profile(s, xp)


def test_blas_is_on_one_thread_inside_whoever_asks(rng):
    X = rng.standard_normal((700, 4))
    before = blas_threads()
    RBF()(X)  # the main thread asks first
    Looking.seen.clear()
    Looking().matmul(X, None, np.ones(700))
    worker = threading.Thread(target=lambda: Looking().matmul(X, None, np.ones(700)))
    worker.start()
    worker.join()
    assert set(Looking.seen) == {1}
    assert blas_threads() == before


def test_the_last_to_leave_restores_blas():
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with tiles.single_threaded_blas():
            inside.set()
            leave.wait(10)

    worker = threading.Thread(target=stay)
    with tiles.single_threaded_blas():
        worker.start()
        inside.wait(10)
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}  # the worker is still inside
    leave.set()
    worker.join()
    assert blas_threads() == before


@pytest.mark.parametrize("crowded", [False, True])
def test_fits_of_few_rows_have_one_thread_of_blas(rng, monkeypatch, crowded):
    """Of some more rows too, where other processes keep the cores busy; large ones have all."""
    monkeypatch.setattr(progress, "is_crowded", lambda: crowded)
    before = blas_threads()
    for rows, alone in ((progress.ALONE, True), (progress.ALONE + 1, crowded)):
        with progress.blas_for(rows):
            assert blas_threads() == ([1] * len(before) if alone else before)
        with progress.blas_for(rng.standard_normal((rows, 2))):
            assert blas_threads() == ([1] * len(before) if alone else before)
    for many in (progress.LOOKED + 1, iter([1])):  # no length: it may be long
        with progress.blas_for(many):
            assert blas_threads() == before
    seen = []
    model = mercer.KernelRidge(FromFunction(lambda a, b: seen.append(blas_threads()) or a @ b))
    model.fit(rng.standard_normal((3, 2)), np.arange(3.0))
    assert set(seen[0]) == {1} and blas_threads() == before


def test_blas_has_no_more_threads_than_are_allowed(rng, monkeypatch):
    """Of large matrices too; the least of several limits holds, and none outlasts its block."""
    monkeypatch.setattr(progress, "is_crowded", lambda: False)
    monkeypatch.setattr(progress.os, "cpu_count", lambda: 8)
    before = blas_threads()
    with mercer.config(threads=1), progress.blas_for(progress.LOOKED + 1):
        assert set(blas_threads()) == {1}
        with progress.blas_for(10), mercer.config(threads=2):
            assert set(blas_threads()) == {1}
    assert blas_threads() == before
    limited = progress.single_threaded_blas
    with limited(7):
        assert blas_threads() == [min(7, b) for b in before] and limited.limit == 7
        with limited(1):
            assert set(blas_threads()) == {1}
        assert blas_threads() == [min(7, b) for b in before]
    assert blas_threads() == before and limited.limit is None


@pytest.mark.parametrize("crowded", [False, True])
def test_brief_work_is_shared_where_cores_are_idle(monkeypatch, crowded):
    monkeypatch.setattr(progress, "is_crowded", lambda: crowded)
    with mercer.config(threads=3):
        assert progress.threads_for(progress.FEW_VALUES) == (1 if crowded else 3)
        assert progress.threads_for(progress.FEW_VALUES + 1) == 3
        X = np.random.default_rng(0).standard_normal((900, 3))
        one = RBF()(X)
    with mercer.config(threads=1):
        np.testing.assert_array_equal(RBF()(X), one)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what runs")
def test_a_machine_is_crowded_where_others_use_its_cores():
    spin = "import os, sys, time\nend = time.time() + 60\nwhile time.time() < end: pass"
    spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(os.cpu_count())]
    try:
        for _ in range(100):  # until they have started
            if found := progress.is_crowded():
                break
            time.sleep(0.05)
        assert found
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_limits_of_the_users_own_are_kept(rng):
    X = rng.standard_normal((700, 4))
    before = blas_threads()
    with threadpool_limits(1):
        worker = threading.Thread(target=lambda: RBF()(X))
        worker.start()
        worker.join()
        RBF()(X)
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


# ------------------------------------------------------------------------ many at a time
def test_several_threads_at_once(rng):
    X = rng.standard_normal((600, 4))
    expected = [RBF(s)(X) for s in (0.5, 1.0, 2.0, 4.0)]
    before = [i["num_threads"] for i in threadpool_info()]

    def work(s):
        with mercer.config(threads=2):
            return RBF(s)(X)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for got, want in zip(pool.map(work, (0.5, 1.0, 2.0, 4.0)), expected, strict=True):
                np.testing.assert_array_equal(got, want)
    assert [i["num_threads"] for i in threadpool_info()][: len(before)] == before


def test_work_inside_work(X):
    inner = RBF()

    def through_mercer(a, b):
        return float(inner(a[None, :], b[None, :])[0, 0])

    with small_tiles(16), mercer.config(threads=2):
        np.testing.assert_allclose(FromFunction(through_mercer)(X), RBF()(X), atol=1e-12)


def test_one_thread_failing_does_not_disturb_another(rng):
    X = rng.standard_normal((600, 4))
    expected = RBF()(X)

    def good(_):
        return RBF()(X)

    def bad(_):
        with mercer.config(threads=2), pytest.raises(KeyboardInterrupt):
            Early()(X)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(good if i % 2 else bad, i) for i in range(8)]
        for future in futures[1::2]:
            np.testing.assert_array_equal(future.result(), expected)
        for future in futures[::2]:
            future.result()
    assert tiles.single_threaded_blas.limit is None


# --------------------------------------------------------------------------------- progress
def test_progress_is_silent_unless_asked_and_short_work_too(X, capsys):
    RBF()(X)
    with mercer.config(progress=True):
        RBF()(X)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_of_long_work(threads, X, capsys, monkeypatch):
    clock = iter(np.arange(0.0, 1e4, 1.0))  # every look at the clock is a second later
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with small_tiles(36), mercer.config(progress=True, threads=threads):
        RBF()(X)
    out, err = capsys.readouterr()
    assert out == "" and "mercer: Gram" in err and "100 %" in err and err.endswith("\n")
    with small_tiles(36), mercer.config(progress=False):
        RBF()(X)
    assert capsys.readouterr().err == ""


def test_a_ticker_speaks_after_two_seconds_and_ends_its_line(capsys, monkeypatch):
    clock = iter(np.arange(0.0, 1e3, 1.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with mercer.config(progress=True):
        ticker = progress.Ticker("work")
    for k in range(5):
        ticker.tell(f"part {k}")
    ticker.close()
    said = capsys.readouterr().err
    assert "part 0" not in said and "part 4" in said and said.endswith("\n")
    quiet = progress.Ticker("work")
    quiet.tell("nothing")
    quiet.close()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_no_thread_can_be_started_the_caller_works(allowed, X, monkeypatch):
    v = np.ones(37)
    with small_tiles(25), mercer.config(threads=1):
        expected, product = RBF()(X), RBF().matmul(X, None, v)
    start, left = threading.Thread.start, iter([True] * allowed)

    def limited(self):
        if not next(left, False):
            raise RuntimeError("can't start new thread")  # as under RLIMIT_AS
        start(self)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        with small_tiles(25), mercer.config(threads=4):
            np.testing.assert_array_equal(RBF()(X), expected)
            np.testing.assert_array_equal(RBF().matmul(X, None, v), product)
            with pytest.raises(ZeroDivisionError):
                Broken()(X)
        assert list(progress.ahead(iter("abc"))) == list("abc")
        with progress.Pool(2) as pool:
            assert list(pool.map(abs, range(-9, 0))) == list(range(9, 0, -1))


def test_a_limit_of_the_address_space_leaves_room_for_fewer_threads(X, monkeypatch):
    resource = pytest.importorskip("resource")
    with open("/proc/self/statm") as told:
        used = int(told.read().split()[0]) * resource.getpagesize()
    with small_tiles(25), mercer.config(threads=1):
        expected = RBF()(X)
    for room, threads in ((0, 0), (1.5, 1), (3.5, 3), (99, 4)):
        limit = used + int(room * progress.ROOM)
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        with progress.Pool(4) as pool:
            assert pool.alone == (threads == 0) and abs(pool._max_workers - threads) <= 1
            assert pool.submit(threading.get_ident).result() != 0
        with small_tiles(25), mercer.config(threads=4):
            np.testing.assert_array_equal(RBF()(X), expected)
