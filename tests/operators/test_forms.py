"""Quadratic forms over half of the tiles: against the whole matrix, inside the budget."""

import tracemalloc

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Linear, Polynomial, Precomputed, White
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput
from mercer.operators import sums

KERNELS = [RBF(1.3), Linear() + 0.5 * White(), (RBF(0.7) * Linear())]


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((53, 3))
    return X, rng.integers(0, 3, (53, 7)), rng.random(53)


@pytest.mark.parametrize("entries", [1, 30, 400, 53 * 53, 10**6])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_forms_sums_and_squares_are_those_of_the_matrix(kernel, entries, problem):
    X, V, t = problem
    K = kernel(X)
    with small_tiles(entries):
        q, Kt, s = sums.quadratic(kernel._bind(X), V, t, np.zeros(len(X)))
    np.testing.assert_allclose(q, np.einsum("ib,ij,jb->b", V, K, V), rtol=1e-12)
    np.testing.assert_allclose(Kt, K @ t, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(s, t @ (K * K) @ t, rtol=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_columns_of_any_dtype(dtype, problem):
    X, V, _ = problem
    V = (V > 0).astype(dtype)
    for given in (V, np.asfortranarray(V)):
        q, Kt, _ = sums.quadratic(RBF()._bind(X), given)
        v = V.astype(float)
        np.testing.assert_allclose(q, ((RBF()(X) @ v) * v).sum(0), rtol=1e-12)
        assert Kt is None


def test_no_columns_and_a_stored_matrix(problem):
    X, V, t = problem
    K = RBF()(X)
    before = K.copy()
    q, Kt, _ = sums.quadratic(Precomputed()._bind(K), V[:, :0], t)
    assert q.shape == (0,)
    np.testing.assert_allclose(Kt, K @ t, rtol=1e-12)
    assert np.array_equal(K, before)


def test_bits_do_not_depend_on_threads(rng):
    X, V = rng.standard_normal((1500, 2)), rng.random((1500, 5))
    answers = []
    for threads in (1, 2, 3):
        with mercer.config(threads=threads):
            answers.append(sums.quadratic(RBF()._bind(X), V, np.ones(1500), np.zeros(1500)))
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            assert np.array_equal(one, two)


def test_the_matrix_is_never_stored(rng):
    X, V = rng.standard_normal((3000, 2)), rng.integers(0, 2, (3000, 20), dtype=np.uint8)
    sums.quadratic(RBF()._bind(X[:100]), V[:100], np.ones(100))
    tracemalloc.start()
    try:
        with mercer.config(memory="8MB"):
            sums.quadratic(RBF()._bind(X), V, np.ones(3000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6 < 3000 * 3000


def test_half_of_the_function_is_asked_and_an_asymmetric_one_refused():
    calls = []

    def k(a, b):
        calls.append((a, b))
        return float(min(a, b))

    kernel, V = FromFunction(k), np.ones((40, 1))
    with small_tiles(16):
        q, _, _ = sums.quadratic(kernel._bind(tuple(range(1, 41))), V)
    assert q[0] == sum(min(i, j) for i in range(1, 41) for j in range(1, 41))
    assert len(calls) < 0.7 * 1600
    with pytest.raises(InvalidInput):
        sums.quadratic(FromFunction(lambda a, b: float(a))._bind(tuple(range(40))), V)


def test_squares_of_what_is_shifted_and_scaled(problem):
    X, V, t = problem
    K, s = Polynomial(2)(X), np.linspace(0, 3, len(X))
    wanted = t @ ((K - s[:, None] - s) / 4.0) ** 2 @ t
    with small_tiles(300):
        found = sums.quadratic(Polynomial(2)._bind(X), V[:, :0], t, s, 4.0)[2]
    assert found == pytest.approx(wanted, rel=1e-12)


def test_torch_gives_the_same(problem):
    pytest.importorskip("torch")
    from mercer.engines import TorchEngine

    X, V, t = problem
    s0 = np.linspace(0, 1, len(X))
    with mercer.config(engine="torch"), small_tiles(300):
        q, Kt, s = sums.quadratic(RBF()._bind(TorchEngine().asarray(X)), V, t, s0)
    p, Ks, r = sums.quadratic(RBF()._bind(X), V, t, s0)
    np.testing.assert_allclose(q, p, rtol=1e-10)
    np.testing.assert_allclose(Kt, Ks, rtol=1e-10)
    np.testing.assert_allclose(s, r, rtol=1e-10)
