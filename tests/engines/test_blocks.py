"""The loop over tiles: uneven tiles, the budget, threads, Ctrl-C, progress, many callers."""

import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

import mercer
from mercer import RBF, FromFunction, Laplacian, Linear, Matern, White
from mercer.engines import blocks, progress
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.testing.case import small_tiles

KERNELS = [RBF(), Matern(nu=0.5), Laplacian(), 2.0 * RBF() + White(0.1), Linear().normalized()]


@pytest.fixture
def X(rng):
    return rng.standard_normal((37, 3))


@pytest.fixture
def Y(rng):
    return rng.standard_normal((23, 3))


def tiles_of(kernel, X, Y=None, call=None):
    """Record the tiles that a call asks for."""
    seen = []
    bind = type(kernel)._bind

    def recording(self, *args):
        bound = bind(self, *args)
        tile = bound.tile
        bound.tile = lambda rows, cols: (seen.append((rows, cols)), tile(rows, cols))[1]
        return bound

    patch = pytest.MonkeyPatch()
    patch.setattr(type(kernel), "_bind", recording)
    try:
        (call or kernel)(X, Y)
    finally:
        patch.undo()
    return seen


# ---------------------------------------------------------------------------------- tiles
@pytest.mark.parametrize("entries", [1, 2, 7, 36, 100, 37 * 37 - 1, 37 * 37, 10_000])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_tiles_of_any_size_give_one_matrix(kernel, entries, X, Y, rng):
    K, C = kernel(X), kernel(X, Y)
    V, U = rng.standard_normal((37, 2)), rng.standard_normal((23, 2))
    W = rng.standard_normal((37, 37))
    pulled = kernel.theta_vjp(X, W)
    with small_tiles(entries):
        np.testing.assert_allclose(kernel(X), K, atol=1e-13)
        np.testing.assert_array_equal(kernel(X), kernel(X).T)
        np.testing.assert_allclose(kernel(X, Y), C, atol=1e-13)
        np.testing.assert_allclose(kernel.matmul(X, None, V), K @ V, atol=1e-12)
        np.testing.assert_allclose(kernel.matmul(X, Y, U), C @ U, atol=1e-12)
        np.testing.assert_allclose(kernel.theta_vjp(X, W), pulled, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("entries", [1, 7, 100, 37 * 37, 10_000])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_weights_may_be_made_tile_by_tile(kernel, entries, X, Y, rng):
    """Of a symmetric matrix tiles below the diagonal are not asked for, and may hold anything."""
    W, V = rng.standard_normal((37, 37)), rng.standard_normal((37, 23))
    both = np.where(np.tri(37, k=-1, dtype=bool), np.nan, W + W.T)
    np.fill_diagonal(both, W.diagonal())

    def folded(rows, cols):
        tile = both[rows, cols].copy()
        tile[np.isnan(tile)] = 0.0
        return tile

    p = len(kernel.theta)
    with small_tiles(entries):
        np.testing.assert_allclose(
            blocks.pull_theta(kernel._bind(X), folded, p),
            kernel.theta_vjp(X, W),
            rtol=1e-9,
            atol=1e-9,
        )
        np.testing.assert_allclose(
            blocks.pull_theta(kernel._bind(X, Y), lambda rows, cols: V[rows, cols], p),
            kernel.theta_vjp(X, V, Y),
            rtol=1e-9,
            atol=1e-9,
        )


def test_a_symmetric_matrix_is_computed_by_half(X):
    with small_tiles(64):
        seen = tiles_of(RBF(), X)
        assert all(rows.start <= cols.start for rows, cols in seen)
        covered = np.zeros((37, 37), dtype=int)
        for rows, cols in seen:
            covered[rows, cols] += 1
    assert (covered[np.triu_indices(37)] == 1).all()
    assert len(seen) >= 10 and len({r.stop - r.start for r, _ in seen}) > 1  # uneven


def test_every_entry_of_a_pair_is_computed_once(X, Y):
    with small_tiles(30):
        for call in (None, lambda A, B: RBF().matmul(A, B, np.ones(23))):
            covered = np.zeros((37, 23), dtype=int)
            for rows, cols in tiles_of(RBF(), X, Y, call):
                covered[rows, cols] += 1
            assert (covered == 1).all()


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 8, 35, 36, 37])
def test_sizes_around_the_edge_of_a_tile(n, rng):
    X = rng.standard_normal((n, 2))
    expected = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    with small_tiles(36):
        np.testing.assert_allclose(RBF()(X), expected, atol=1e-13)
        np.testing.assert_allclose(RBF().matmul(X, None, np.ones(n)), expected.sum(1), atol=1e-12)


# --------------------------------------------------------------------------------- the budget
def test_what_does_not_fit_is_refused_before_any_work(rng):
    X = rng.standard_normal((2000, 5))
    RBF()(X[:3])
    calls = []
    kernel = FromFunction(lambda a, b: calls.append(1) or 1.0)
    for k in (RBF(), kernel):
        tracemalloc.start()
        try:
            with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded) as info:
                k(X)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert info.value.needed == 2000 * 2000 * 8 and info.value.allowed == 1_000_000
        assert peak < 200_000 and not calls
        for words in ("2000 × 2000", "32.0 MB", "1.0 MB", "mercer.config(memory="):
            assert words in str(info.value)


def test_float32_needs_half(rng):
    X = rng.standard_normal((200, 2)).astype(np.float32)
    with mercer.config(memory=int(1.5 * 200 * 200 * 4)):
        assert RBF()(X).dtype == np.float32
        with pytest.raises(MemoryBudgetExceeded):
            RBF()(X.astype(float))


def test_a_product_that_cannot_fit_is_refused(rng):
    X = rng.standard_normal((500, 2))
    with (
        mercer.config(memory=20_000),
        pytest.raises(MemoryBudgetExceeded, match="right-hand sides"),
    ):
        RBF().matmul(X, None, np.ones((500, 40)))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=1.5), Laplacian(), RBF() + Linear()], ids=repr)
def test_products_stay_inside_the_budget(kernel, threads, rng):
    X = rng.standard_normal((3000, 4))  # the matrix would take 72 MB
    V = rng.standard_normal((3000, 2))
    kernel.matmul(X[:50], None, V[:50])
    budget = 8_000_000
    with mercer.config(memory=budget, threads=threads):
        tracemalloc.start()
        try:
            product = kernel.matmul(X, None, V)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak <= 1.1 * budget
    rows = rng.choice(3000, 5)
    np.testing.assert_allclose(product[rows], kernel(X[rows], X) @ V, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_matrix_takes_itself_and_little_more(threads, rng):
    X = rng.standard_normal((1500, 4))
    RBF()(X[:9])
    size = 1500 * 1500 * 8
    with mercer.config(memory=size + 6_000_000, threads=threads):
        tracemalloc.start()
        try:
            RBF()(X)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert size <= peak <= size + 6_600_000


def test_a_smaller_budget_only_makes_smaller_tiles(rng):
    X, v = rng.standard_normal((700, 3)), rng.standard_normal(700)
    expected = RBF()(X) @ v
    for memory in ("60kB", "200kB", "1MB", "1GB"):
        with mercer.config(memory=memory):
            np.testing.assert_allclose(RBF().matmul(X, None, v), expected, atol=1e-11)


# -------------------------------------------------------------------------------- determinism
@pytest.mark.parametrize("memory", ["2GB", "12MB"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_bits_do_not_depend_on_threads(kernel, memory, rng):
    X, Y = rng.standard_normal((901, 7)), rng.standard_normal((613, 7))
    V = rng.standard_normal((901, 3))
    W = rng.standard_normal((901, 901))
    results = []
    for threads in (1, 2, 3, 5, 16):
        with mercer.config(threads=threads, memory=memory):
            results.append(
                [
                    kernel(X),
                    kernel(X, Y),
                    kernel.matmul(X, None, V),
                    kernel.matmul(X, None, V[:, 0]),
                    kernel.matmul(Y, X, V),
                    kernel.theta_vjp(X, W),
                ]
            )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_bits_do_not_change_from_call_to_call(rng):
    X, v = rng.standard_normal((800, 5)), rng.standard_normal(800)
    first = RBF().matmul(X, None, v)
    for _ in range(5):
        np.testing.assert_array_equal(RBF().matmul(X, None, v), first)


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
    assert blocks.single_threaded_blas._inside == 0


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
        with blocks.single_threaded_blas:
            inside.set()
            leave.wait(10)

    worker = threading.Thread(target=stay)
    with blocks.single_threaded_blas:
        worker.start()
        inside.wait(10)
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}  # the worker is still inside
    leave.set()
    worker.join()
    assert blas_threads() == before


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
    assert blocks.single_threaded_blas._inside == 0


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


# ------------------------------------------------------------------------------------ words
@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2e9, "2.0 GB"),
        (5e13, "50.0 TB"),
        (3.2e7, "32.0 MB"),
    ],
)
def test_bytes_in_words(size, words):
    assert blocks.human(size) == words


def test_a_tile_that_is_not_finite_is_named():
    X = np.array([[0.0], [1.0], [400.0]])
    with pytest.raises(InvalidInput, match=r"is inf at row 2 of X and row 2 of Y"):
        mercer.Exponential()(X)
    with small_tiles(1), pytest.raises(InvalidInput, match=r"row 2 of X and row 2 of Y"):
        mercer.Exponential()(X)


# ----------------------------------------------------------------------------------- overflow
@pytest.mark.parametrize(
    "kernel",
    [Linear(), Linear() + RBF(), 2.0 * Linear(), mercer.Polynomial(1), Linear().on([0])],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "torch"])
@pytest.mark.parametrize("n", [2, 700])
def test_overflow_is_an_error_wherever_the_rows_live(kernel, kind, n, request):
    X = np.ones((n, 1))
    X[-1] = 1e200
    if kind == "sparse":
        X = sp.csr_array(X)
    elif kind == "torch":
        X = request.getfixturevalue("torch").as_tensor(X)
    for call in (
        lambda: kernel(X),
        lambda: kernel(X, X[-2:]),
        lambda: kernel.matmul(X, None, np.ones(n)),
        lambda: kernel.matmul(X, X[-2:], np.ones(2)),
    ):
        with pytest.raises(InvalidInput, match=rf"inf at row {n - 1} of X .*overflows"):
            call()


def test_overflow_of_sparse_features():
    k = mercer.FromFeatures(sp.csr_array)
    with pytest.raises(InvalidInput, match="overflows"):
        k(np.array([[1e200], [1.0]]))


def test_autograd_sees_its_own_overflow(torch):
    X = torch.tensor([[1e200]], dtype=torch.float64, requires_grad=True)
    assert torch.isinf(Linear()(X)).all()


def test_the_cure_for_too_little_memory_is_one_that_works():
    with (
        mercer.config(memory="1kB"),
        pytest.raises(MemoryBudgetExceeded, match=r"`with mercer\.config\(memory=\.\.\.\):`"),
    ):
        RBF()(np.zeros((100, 1)))


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
