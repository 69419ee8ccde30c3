"""Ctrl-C: heard at once, whatever works; nothing is changed, and the same work goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg
from scipy.linalg import blas, lapack as scipys

import mercer
from mercer import RBF, doors, lapack, threads
from mercer.engines import tiles
from mercer.engines.tiles import small_tiles
from mercer.solvers.linear import inplace
from mercer.threads import inheriting, listening, single_threaded_blas, workers
from tools.torture import interrupts

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(8)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by os.kill")


def interrupt(after=0.0):
    """Send Ctrl-C to this process, after some seconds."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


# ------------------------------------------------------------------------------ waiting threads
def test_listening_is_a_call():
    assert listening(divmod, 7, 2) == (3, 1)
    assert listening(int, "ff", base=16) == 255
    with pytest.raises(KeyError, match="lacking"):
        listening({}.__getitem__, "lacking")
    with np.errstate(divide="ignore"):
        assert listening(np.geterr)["divide"] == "ignore"
    with mercer.config(threads=3):
        assert listening(mercer.get_config).threads == 3


def test_threads_inherit_options():
    with workers(1) as pool, np.errstate(divide="ignore"), mercer.config(threads=3):
        assert pool.submit(inheriting(np.geterr)).result()["divide"] == "ignore"
        assert pool.submit(inheriting(mercer.get_config)).result().threads == 3
        assert pool.submit(np.geterr).result()["divide"] == "warn"


def test_another_thread_makes_the_call_itself():
    with ThreadPoolExecutor(1) as pool:
        one, other = pool.submit(
            lambda: (threading.get_ident(), listening(threading.get_ident))
        ).result()
    assert one == other != threading.get_ident() != listening(threading.get_ident)


def test_ctrl_c_does_not_wait_for_a_call():
    done, kept = threading.Event(), np.ones(3)

    def work(array):
        done.wait(20)
        array += 1

    begin = time.monotonic()
    interrupt(0.05)
    with pytest.raises(KeyboardInterrupt):
        listening(work, kept)
    assert time.monotonic() - begin < 5
    assert (kept == 1).all()
    done.set()


@pytest.mark.parametrize(
    ("owner", "name", "last"), [(threading.Thread, "start", 1), (tiles.Progress, "step", 5)]
)
def test_ctrl_c_among_bands_leaves_the_rest_undone(monkeypatch, owner, name, last):
    X, called, done, before = np.zeros((300, 3)), [], [], threading.active_count()
    call = getattr(owner, name)

    def counted(self, *args):
        call(self, *args)
        called.append(args)
        if len(called) == last:
            raise KeyboardInterrupt

    class Slow(RBF):
        def _profile(self, s, xp):
            done.append(1)
            time.sleep(0.001)
            return super()._profile(s, xp)

    monkeypatch.setattr(owner, name, counted)
    with small_tiles(4), mercer.config(threads=2), pytest.raises(KeyboardInterrupt):
        Slow()(X)  # 150 bands, and all but a few of 11,325 tiles are left
    assert last <= len(called) <= last + 1 and len(done) < 3000
    assert tiles.single_threaded_blas.limit is None
    assert threading.active_count() <= before  # nobody goes on


def test_bands_of_tiles_end_with_the_tile_at_work(monkeypatch):
    """Of a band of many tiles none is begun once another has failed, or Ctrl-C was heard."""
    made = []

    def slow(bound, rows, cols, make=tiles.make_tile):
        made.append(cols)
        if len(made) == 3:
            raise KeyboardInterrupt
        time.sleep(0.05)
        return make(bound, rows, cols)

    monkeypatch.setattr(tiles, "make_tile", slow)
    X = RNG.normal(size=(400, 2))
    with mercer.config(threads=2), small_tiles(40 * 40), pytest.raises(KeyboardInterrupt):
        RBF()(X)
    assert len(made) < 8  # of about fifty, ten in a band


def test_tasks_that_take_long_are_told_to_stop():
    stop, begin = threading.Event(), time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers(2, stop) as pool:
        for _ in range(4):
            pool.submit(stop.wait, 20)
        raise KeyboardInterrupt
    assert time.monotonic() - begin < 5


def test_sums_over_parts_stop_with_the_first(monkeypatch):
    from mercer.operators import sums

    done = []

    def work(part):
        done.append(part)
        if part == 0:
            raise KeyboardInterrupt
        time.sleep(0.005)

    monkeypatch.setattr(sums, "LIGHT", 0)
    with mercer.config(threads=2), pytest.raises(KeyboardInterrupt):
        sums._share(work, list(range(400)), 10)
    assert len(done) < 50


# ------------------------------------------------------------------------------------- BLAS
class Library:
    """A BLAS that is set to some threads, and interrupted when it is asked for one of its calls."""

    def __init__(self, interrupted=0):
        self.num_threads, self.calls, self.interrupted = 4, 0, interrupted

    def set_num_threads(self, threads):
        self.calls += 1
        if self.calls == self.interrupted:
            raise KeyboardInterrupt
        self.num_threads = threads


@pytest.mark.parametrize("call", [0, 1, 2])
def test_blas_gets_its_threads_back(call, monkeypatch):
    library = Library(call)
    monkeypatch.setattr(threads, "_libraries", lambda: [library])
    held = threads._LimitedBLAS()
    try:
        with held():
            assert library.num_threads == 1
    except KeyboardInterrupt:
        assert call
    with held():
        assert library.num_threads == 1
    assert library.num_threads == 4 and held.limit is None


def test_a_block_whose_end_is_lost_is_left_all_the_same():
    # Ctrl-C between the last line of a block and __exit__: the context is only dropped
    context = single_threaded_blas()
    context.__enter__()
    assert single_threaded_blas.limit == 1
    del context
    assert single_threaded_blas.limit is None


# ----------------------------------------------------------------------- LAPACK by its address
@pytest.fixture
def long(monkeypatch):
    """Everything takes long."""
    if lapack._routine("dpotrf") is None:
        pytest.skip("this SciPy has no addresses of LAPACK; its wrappers are called")
    monkeypatch.setattr(lapack, "LONG", 0.0)


def same(one, other):
    """The same arrays to the bit, of the same layout."""
    one, other = (x if isinstance(x, tuple) else (x,) for x in (one, other))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
        if isinstance(a, np.ndarray):
            assert a.shape == b.shape and a.dtype == b.dtype and a.flags.f_contiguous


def definite(n):
    A = RNG.standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("name", ["dpotrf", "dpotri", "dtrtri", "dlauum", "dpstrf"])
def test_a_factorisation_is_scipys(name, lower, order, long):
    A = np.array(definite(23), order=order)
    options = [{}] if name != "dpotrf" else [{"clean": 0}, {"clean": 1}]
    for option in options:
        kept = A.copy(order="K")
        same(
            getattr(lapack, name)(A, lower=lower, **option),
            getattr(scipys, name)(A, lower=lower, **option),
        )
        np.testing.assert_array_equal(A, kept)
    if name != "dpstrf":
        word = {"overwrite_a" if name == "dpotrf" else "overwrite_c": 1}
        one, other = A.copy(order="K"), A.copy(order="K")
        found = getattr(lapack, name)(one, lower=lower, **word)
        same(found, getattr(scipys, name)(other, lower=lower, **word))
        np.testing.assert_array_equal(one, other)
        assert np.shares_memory(found[0], one) == (order == "F")


def test_threads_that_wait_for_the_lock_are_let_on(monkeypatch):
    """Of 300 rows SciPy is asked in the main thread, where nobody waits; the bits are the same."""
    if lapack._routine("dpotrf") is None:
        pytest.skip("this SciPy has no addresses of LAPACK; its wrappers are called")
    A, asked, run = definite(300), [], lapack._run
    monkeypatch.setattr(
        lapack, "_run", lambda name, *given: (asked.append(name), run(name, *given))[1]
    )
    here = lapack.dpotrf(A, lower=1), lapack.eigh(A)
    assert not asked
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(lambda: (lapack.dpotrf(A, lower=1), lapack.eigh(A))).result()
        assert pool.submit(lapack.dpotrf, A[:20, :20]).result()[1] == 0
    assert asked == ["dpotrf", "dsyevr", "dsyevr"]  # the first asks how much room it wants
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one[0], other[0])


def test_what_has_no_factor_says_so(long):
    A = np.asfortranarray(np.diag([1.0, 2.0, -1.0, 1.0]))
    same(lapack.dpotrf(A, lower=1), scipys.dpotrf(A, lower=1))
    assert lapack.dpotrf(A, lower=1)[1] == 3
    with pytest.raises(np.linalg.LinAlgError):
        lapack.cho_factor(A, lower=True)


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_solutions_are_scipys(lower, order, long):
    A = definite(14)
    c = scipys.dpotrf(A, lower=lower)[0]
    B = np.array(RNG.standard_normal((14, 5)), order=order)
    same(lapack.dpotrs(c, B, lower=lower), scipys.dpotrs(c, B, lower=lower))
    factor = lapack.cho_factor(A, bool(lower))
    np.testing.assert_allclose(A @ lapack.cho_solve(factor, B), B, atol=1e-10)
    np.testing.assert_allclose(A @ lapack.cho_solve(factor, B[:, 0]), B[:, 0], atol=1e-10)
    for name in ("dtrsm", "dtrmm"):
        for side in (0, 1):
            rhs = B if side == 0 else np.array(B.T, order=order)
            for trans_a in (0, 1):
                how = {"side": side, "lower": lower, "trans_a": trans_a}
                ours, theirs = getattr(lapack, name), getattr(blas, name)
                same(ours(0.5, c, rhs, **how), theirs(0.5, c, rhs, **how))
                one, other = rhs.copy(order="K"), rhs.copy(order="K")
                same(
                    ours(2.0, c, one, overwrite_b=1, **how),
                    theirs(2.0, c, other, overwrite_b=1, **how),
                )
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_are_scipys(order, long):
    A, B = (np.array(RNG.standard_normal(s), order=order) for s in ((9, 6), (6, 11)))
    C = np.array(RNG.standard_normal((9, 11)), order=order)
    same(lapack.dgemm(1.5, A, B), blas.dgemm(1.5, A, B))
    same(lapack.dgemm(1.0, A, A, trans_a=1), blas.dgemm(1.0, A, A, trans_a=1))
    same(lapack.dgemm(1.0, A, A, trans_b=1), blas.dgemm(1.0, A, A, trans_b=1))
    same(lapack.dgemm(1.0, A, B, -0.5, C), blas.dgemm(1.0, A, B, -0.5, C))
    one, other = C.copy(order="K"), C.copy(order="K")
    same(
        lapack.dgemm(1.0, A, B, 2.0, one, overwrite_c=1),
        blas.dgemm(1.0, A, B, 2.0, other, overwrite_c=1),
    )
    np.testing.assert_array_equal(one, other)
    for trans in (0, 1):
        for lower in (0, 1):
            how = {"trans": trans, "lower": lower}
            same(lapack.dsyrk(0.5, A, **how), blas.dsyrk(0.5, A, **how))
            S = np.array(definite(6 if trans else 9), order=order)
            same(lapack.dsyrk(-1.0, A, 1.0, S, **how), blas.dsyrk(-1.0, A, 1.0, S, **how))
    np.testing.assert_array_equal(lapack.product(A, B), A @ B)
    for one, other in zip(lapack.heard(np.linalg.svd, A), np.linalg.svd(A), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (31, 8), (8, 31), (90, 90)])
def test_singular_values_are_scipys(shape, order, long):
    A = np.array(RNG.standard_normal(shape), order=order)
    kept = A.copy()
    with single_threaded_blas():  # as that of few rows is
        same(lapack.svd(A), linalg.svd(A, full_matrices=False))
    np.testing.assert_array_equal(A, kept)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 2, 7, 60, 130])
def test_eigenvectors_are_scipys(n, order, long):
    A = np.array(definite(n) - 3 * np.eye(n), order=order)
    kept = A.copy()
    for how in (
        {},
        {"driver": "evd"},
        {"eigvals_only": True},
        {"eigvals_only": True, "driver": "evd"},
        {"subset_by_index": [0, n // 2]},
        {"subset_by_index": [n - 1, n - 1]},
    ):
        theirs = {**how, "driver": "evr"} if n == 1 else how  # older SciPy has no "evd" of one row
        with single_threaded_blas():  # as that of few rows is
            same(lapack.eigh(A, **how), linalg.eigh(A, **theirs))
    np.testing.assert_array_equal(A, kept)
    again = A.copy(order="K")
    with single_threaded_blas():
        same(lapack.eigh(again, overwrite_a=True, check_finite=False), linalg.eigh(A))
    A[0, 0] = np.nan
    with pytest.raises(ValueError, match="infs or NaNs"):
        lapack.eigh(A)


def test_ctrl_c_does_not_wait_for_a_factorisation(long, monkeypatch):
    model = mercer.KernelRidge(RBF(), 0.1)
    X = RNG.standard_normal((30, 2))
    expected = model.fit(X, X[:, 0]).dual_coef_
    monkeypatch.setattr(inplace, "MANY", 0)
    end, routine, before = threading.Event(), lapack._routine, dict(vars(model))

    def slow(name):
        return lambda *args: (end.wait(20), routine(name)(*args))

    monkeypatch.setattr(lapack, "_routine", slow)
    interrupt(0.05)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 1])
    assert vars(model) == before
    monkeypatch.undo()
    np.testing.assert_array_equal(model.fit(X, X[:, 0]).dual_coef_, expected)
    end.set()


# ------------------------------------------------------------------------ imports and estimators
def test_a_door_that_was_interrupted_opens_later(monkeypatch):
    module = sys.modules["mercer.losses"]
    load, _ = doors.door("mercer.losses")
    read = doors._read_stub

    def interrupted(module):
        read(module)
        raise KeyboardInterrupt

    monkeypatch.setattr(doors, "_read_stub", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load("Hinge")
    monkeypatch.undo()
    assert load("Hinge") is module.Hinge


def test_an_interrupt_while_a_fit_is_forgotten_forgets_nothing(monkeypatch):
    X = RNG.standard_normal((20, 2))
    model = mercer.KernelRidge().fit(X, X[:, 0])
    before = dict(vars(model))

    def names():
        yield "dual_coef_"
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model), "_learned", property(lambda self: names()))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 1])
    assert vars(model) == before


ENDING = """
import os, signal, sys, threading, time
from mercer.solvers.linear import inplace
from mercer.threads import listening

def work():
    time.sleep(0.8)
    print("ended", flush=True)

threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    listening(work)
except KeyboardInterrupt:
    if sys.argv[1] == "not caught":
        raise
sys.exit(5)
"""


@pytest.mark.parametrize(
    ("what", "code", "said"), [("caught", 5, "ended\n"), ("not caught", -signal.SIGINT, "")]
)
def test_a_process_ends_after_its_libraries_or_by_the_signal(what, code, said):
    # OpenBLAS waits for ever for threads of its own that work for one that is no more
    done = subprocess.run(
        [sys.executable, "-c", ENDING, what],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (code, said), done.stderr


SCRIPT = """
import importlib.abc, os, signal, sys, time
import numpy as np
import mercer

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numba.core.typing" and not hasattr(self, "sent"):
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
X = np.random.default_rng(0).standard_normal((60, 2))
model = mercer.SVC()
try:
    model.fit(X, X[:, 0] > 0)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", len(vars(model)) == len(model.get_params(deep=False)))
print(model.fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.9)
"""


def test_numba_survives_ctrl_c_while_it_is_imported():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "interrupted True\nTrue\n", done.stderr


def test_the_campaign_of_interrupts():
    names = interrupts._names()
    assert len(names) == len(set(names)) > 200
    rows = list(interrupts.interrupts(0, 1, names.index("estimator KernelRidge")))
    assert len(rows) == interrupts.TRIALS + 1
    assert {row["fault"] for row in rows} <= {"", "late"}, rows  # how soon is not for a test
