"""Passes over rows: sums against the whole matrix, bits, splits of V, sparse G."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import mercer
from mercer import RBF, Polynomial
from mercer.engines.passes import base
from mercer.engines.passes.base import MemoryPass, Scattered, row_pass
from mercer.errors import InvalidInput, MemoryBudgetExceeded


@dataclass(frozen=True)
class Weighted:
    """G = w(F − y) beside F², sums of both."""

    width: int = 4
    n_sums: int = 3

    def __call__(self, F, y, w, xp):
        G = np.concatenate([w[:, None] * (F - y), F**2], 1)
        return G, np.array([w.sum(), F.sum(), (y**2).sum()])


@dataclass(frozen=True)
class Plain:
    """G = F."""

    width: int
    n_sums: int = 0

    def __call__(self, F, y, w, xp):
        return F, np.zeros(0)


@dataclass(frozen=True)
class Count:
    """No values wanted, no G made; how many rows there are."""

    width: int = 0
    n_sums: int = 1

    def __call__(self, F, y, w, xp):
        assert F is None
        return None, np.array([float(len(y))])


def rows(n, m, d=3, dtype=np.float64, t=2):
    rng = np.random.default_rng(n + m)
    X = rng.standard_normal((n, d)).astype(dtype)
    Z = X[rng.choice(n, m)]
    return X, Z, rng.standard_normal((n, t)), rng.uniform(0, 2, n), rng.standard_normal((m, t))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 3), (500, 40), (1300, 1), (3, 30)])
@pytest.mark.parametrize("size", [2**9, 2**21])
def test_sums_are_those_of_the_whole_matrix(n, m, size, monkeypatch):
    monkeypatch.setattr(base, "BYTES", size)
    X, Z, y, w, V = rows(n, m)
    K = RBF()(X, Z)
    F = K @ V
    out, sums = row_pass(RBF(), X, Z, y, w).pull(V, Weighted())
    expected = K.T @ np.concatenate([w[:, None] * (F - y), F**2], 1)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(sums, [w.sum(), F.sum(), (y**2).sum()], rtol=1e-11)
    assert out.dtype == np.float64


def test_no_values_no_G():
    X, Z, y, _w, _ = rows(50, 5)
    out, sums = row_pass(RBF(), X, Z, y).pull(None, Count())
    assert out.shape == (5, 0) and sums[0] == 50


def test_bits_do_not_depend_on_threads():
    X, Z, y, w, V = rows(30000, 60, dtype=np.float32)
    pull = row_pass(RBF(), X, Z, y, w).pull
    results = []
    for threads in (1, 2, 5):
        with mercer.config(threads=threads):
            results.append(pull(V, Weighted()))
    for out, sums in results[1:]:
        assert np.array_equal(out, results[0][0]) and np.array_equal(sums, results[0][1])


@pytest.mark.parametrize("entries", [0, np.inf])
def test_single_precision_rows_are_summed_in_double(entries, monkeypatch):
    """Coefficients that cancel: products in float32 would leave an error of some per cent."""
    monkeypatch.setattr(base, "COMPILED", entries)
    X, Z, _y, _w, V = rows(2001, 37, dtype=np.float32)
    V = 1e7 * V
    V[0] -= V.sum(0)
    bound = RBF(3.0)._bind(X, Z)
    K = bound.tile(slice(0, 2001), slice(0, 37)).astype(np.float64)
    own = row_pass(RBF(3.0), X, Z).pull(V, Plain(2))[0]
    exact = K.T @ (K @ V)
    np.testing.assert_allclose(own, exact, rtol=1e-8, atol=1e-8 * np.abs(exact).max())
    crude = K.T @ (K.astype(np.float32) @ V.astype(np.float32)).astype(float)
    assert np.abs(crude - exact).max() > 1e-7 * np.abs(exact).max()


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 31), (4, 32), (9, 33), (130, 100)])
def test_compiled_products(n, m):
    from mercer.jit.tiles import add_tile_rows, times_columns

    rng = np.random.default_rng(n)
    T = rng.standard_normal((n, m)).astype(np.float32)
    V, G = rng.standard_normal((3, m)), rng.standard_normal((n, 2))
    F, out = np.empty((n, 3)), np.ones((2, m))
    times_columns(T, V, F)
    add_tile_rows(T, G, out)
    np.testing.assert_allclose(F, T.astype(float) @ V.T, atol=1e-12)
    np.testing.assert_allclose(out, 1 + G.T @ T.astype(float), atol=1e-12)


def test_single_says_so():
    X, Z, *_ = rows(20, 3, dtype=np.float32)
    assert row_pass(RBF(), X, Z).single
    assert not row_pass(RBF(), X.astype(float), Z.astype(float)).single


@pytest.mark.parametrize("width", [1, 3, 5, 11, 40])
def test_scattered_is_its_dense_matrix(width):
    rng = np.random.default_rng(width)
    G = Scattered(width, rng.integers(0, width, 4), rng.standard_normal((4, 11)))
    T = rng.standard_normal((11, 6))
    expected = np.zeros((11, width))
    for start, values in zip(G.starts, G.values, strict=True):
        for i, value in enumerate(values):
            expected[i, (start + i) % width] += value
    np.testing.assert_allclose(G.dense(), expected)
    np.testing.assert_allclose(G.total(), expected.sum(0))
    out = np.ones((6, width), order="F")
    G.add_to(out, T)
    np.testing.assert_allclose(out, 1 + T.T @ expected)


def test_overflow_names_the_row():
    X = np.ones((50, 1))
    X[17] = 1e200
    with pytest.raises(InvalidInput, match="row 17"):
        row_pass(Polynomial(degree=3), X, X[:4]).pull(np.ones((4, 1)), Plain(1))


def test_budget_too_small_is_refused_before_work():
    X, Z, _y, _w, V = rows(3000, 800)
    pull = MemoryPass(RBF(), X, Z).pull
    with mercer.config(memory=20000), pytest.raises(MemoryBudgetExceeded, match="centres"):
        pull(V, Plain(2))


def test_small_budget_gives_the_same_sums():
    X, Z, y, w, V = rows(3000, 80)
    whole = row_pass(RBF(), X, Z, y, w).pull(V, Weighted())
    with mercer.config(memory=400000):
        small = row_pass(RBF(), X, Z, y, w).pull(V, Weighted())
    np.testing.assert_allclose(small[0], whole[0], rtol=1e-12, atol=1e-10)


def test_blocks_give_the_sums_of_memory():
    X, Z, y, w, V = rows(700, 25)
    blocks = mercer.RowBlocks.from_arrays(X, y, w, block_rows=90)
    out, sums = row_pass(RBF(), blocks, Z).pull(V, Weighted())
    expected = row_pass(RBF(), X, Z, y, w).pull(V, Weighted())
    np.testing.assert_allclose(out, expected[0], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(sums, expected[1], rtol=1e-12)


def test_strings_have_passes_too():
    from mercer import Spectrum

    X = ["abab", "abba", "baba", "aabb", "bbbb"]
    k, V = Spectrum(2), np.arange(2.0)[:, None]
    X = k.domain.check(X, "X")
    Z = k.domain.take(X, np.arange(2))
    K = k(X, Z)
    np.testing.assert_allclose(row_pass(k, X, Z).pull(V, Plain(1))[0], K.T @ K @ V)


def test_steps_can_be_sent():
    from mercer.losses import Logistic
    from mercer.solvers.falkon.steps import (
        Bends,
        CurvedSketch,
        Lengths,
        Products,
        Residuals,
        RightSides,
        RowSketch,
        Separate,
        Slopes,
        Softmax,
    )

    zero, risk = np.zeros(1), Separate(Logistic(), (0,))
    sketch = RowSketch(6, 1)
    for step in (
        RightSides(2),
        Products(zero),
        Residuals(zero, (0,), zero),
        sketch,
        Slopes(risk, zero),
        Slopes(Softmax(3), np.zeros(3), weights=True),
        Bends(risk, zero, zero, zero),
        Lengths(risk, zero, zero, (0.5, 0.1)),
        CurvedSketch(risk, zero, 0.0, sketch),
    ):
        again = pickle.loads(pickle.dumps(step))
        assert (again.width, again.n_sums) == (step.width, step.n_sums)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keeping_the_matrix_changes_no_bit(dtype, monkeypatch):
    X, Z, y, w, V = rows(3000, 50, dtype=dtype)
    kept = row_pass(RBF(), X, Z, y, w)
    kept.repeated = True
    results = [kept.pull(V, Weighted()) for _ in range(4)]
    monkeypatch.setattr(base, "STORED", 0)
    fresh = row_pass(RBF(), X, Z, y, w)
    results += [fresh.pull(V, Weighted()) for _ in range(2)]
    assert kept._store is not None and kept._store.full and fresh._store is None
    for out, sums in results:
        assert np.array_equal(out, results[0][0]) and np.array_equal(sums, results[0][1])


def test_an_interrupted_pass_is_made_again(monkeypatch):
    X, Z, y, w, V = rows(3000, 50)
    kept = row_pass(RBF(), X, Z, y, w)
    kept.repeated = True
    first = kept.pull(V, Weighted())

    @dataclass(frozen=True)
    class Broken:
        width: int = 1
        n_sums: int = 0

        def __call__(self, F, y, w, xp):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.pull(V, Broken())
    again = kept.pull(V, Weighted())
    assert np.array_equal(first[0], again[0])
