"""The loop over tiles: uneven tiles, the budget, the same bits, words, overflow."""

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, FromFunction, Laplacian, Linear, Matern, White
from mercer.engines import tiles
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.memory import human

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
            tiles.pull_theta(kernel._bind(X), folded, p),
            kernel.theta_vjp(X, W),
            rtol=1e-9,
            atol=1e-9,
        )
        np.testing.assert_allclose(
            tiles.pull_theta(kernel._bind(X, Y), lambda rows, cols: V[rows, cols], p),
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


def test_a_gradient_leaves_what_its_caller_holds(rng):
    X, W = rng.standard_normal((300, 3)), rng.standard_normal((300, 300))
    kernel, peaks = Matern(nu=1.5), []
    bound = kernel._bind(X)
    expected = tiles.pull_theta(bound, W, 1)
    for other in (0, 2_000_000):
        with mercer.config(memory=2_400_000):
            tracemalloc.start()
            try:
                got = tiles.pull_theta(bound, W, 1, other)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert peaks[0] > 500_000 > 400_000 > peaks[1]
    with mercer.config(memory=2_000_000), pytest.raises(MemoryBudgetExceeded):
        tiles.pull_theta(bound, W, 1, 2_000_000)


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
    assert human(size) == words


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
    with mercer.config(memory="1kB"), pytest.raises(MemoryBudgetExceeded) as caught:
        RBF()(np.zeros((100, 1)))
    cure = re.search(r"`with mercer\.config\(memory='(\w+)'\):`", str(caught.value))
    with mercer.config(memory=cure[1]):
        RBF()(np.zeros((100, 1)))
