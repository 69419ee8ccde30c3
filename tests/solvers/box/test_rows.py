"""Rows of a Gram matrix: fetched, evicted, added, inside the budget, in single precision."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.kernels import RBF, Linear, Polynomial, White
from mercer.operators import Dense, Gram
from mercer.solvers import SMO, Rows
from tests.solvers.boxes import classes, machine

MANY = 3200  # points from which rows are float32
N = 1600  # more points than are computed at once


def points(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def lazy(n=N, kernel=None, **options):
    kernel = RBF(2.0) if kernel is None else kernel
    return Gram(kernel, points(n, **options), keep=False)


def some_rows(n, k, seed=1):
    return np.random.default_rng(seed).permutation(n)[:k]


def small(n, rows, item=8):
    """A budget that holds about that many rows: they get half of it or more."""
    return mercer.config(memory=int(2 * rows * n * item))


@pytest.mark.parametrize("n", [1, 2, 40, N])
def test_rows_are_those_of_the_matrix(n):
    K = lazy(n)
    rows, expected = Rows(K), K.to_dense()
    for seed in range(4):
        at = some_rows(n, min(n, 30), seed)
        np.testing.assert_allclose(rows.store[rows.fetch(at)], expected[at], atol=1e-12)
    np.testing.assert_allclose(rows.diagonal, expected.diagonal(), atol=1e-12)
    assert rows.exact and rows.n == n and rows.capacity == n
    assert rows.computed <= n


def test_a_matrix_in_memory_is_used_as_it_lies():
    A = np.eye(7) + 1
    rows = Rows(Dense(A, symmetric=True))
    assert rows.store is A or np.shares_memory(rows.store, A)
    np.testing.assert_array_equal(rows.store[rows.fetch(np.array([3, 1]))], A[[3, 1]])
    rows = Rows(Gram("precomputed", A))
    np.testing.assert_array_equal(rows.store[rows.fetch(np.array([3, 1]))], A[[3, 1]])


def test_the_least_recently_used_make_room():
    K = lazy()
    expected = K.to_dense()
    with small(N, 40):
        rows = Rows(K)
        k = rows.capacity
        assert 2 <= k < 100
        first = np.arange(k)
        rows.fetch(first)
        assert rows.computed == k
        rows.fetch(first[::-1].copy())
        assert rows.computed == k  # all were there
        rows.fetch(first[: k // 2])  # these are now the younger half
        new = np.arange(k, k + 5)
        np.testing.assert_allclose(rows.store[rows.fetch(new)], expected[new], atol=1e-12)
        assert rows.computed == k + 5
        kept = rows.fetch(first[: k // 2])
        assert rows.computed == k + 5  # the younger half is still there
        np.testing.assert_allclose(rows.store[kept], expected[first[: k // 2]], atol=1e-12)
        rng = np.random.default_rng(0)
        for _ in range(60):  # whatever is asked for, what comes is right
            at = rng.permutation(N)[: rng.integers(0, k + 1)]
            slots = rows.fetch(at)
            assert len(np.unique(slots)) == len(at)
            np.testing.assert_allclose(rows.store[slots], expected[at], atol=1e-12)


def test_sums_of_rows_larger_than_the_store():
    K = lazy()
    expected = K.to_dense()
    coef = np.random.default_rng(0).standard_normal(N)
    at = some_rows(N, 700)
    columns = some_rows(N, 300, seed=5)
    with small(N, 50):
        rows = Rows(K)
        f = np.ones(N)
        rows.add(f, at, coef[:700])
        np.testing.assert_allclose(f, 1 + coef[:700] @ expected[at], atol=1e-10)
        g = np.ones(300)
        rows.add(g, at, coef[:700], columns)
        np.testing.assert_allclose(g, 1 + coef[:700] @ expected[at][:, columns], atol=1e-10)
        np.testing.assert_allclose(rows.product(at, coef[:700]), f - 1, atol=1e-10)
        np.testing.assert_allclose(rows.product(at, coef[:700], columns), g - 1, atol=1e-10)
        rows.add(f, at[:0], coef[:0])
        np.testing.assert_array_equal(rows.product(at[:0], coef[:0]), 0)


def test_threads_share_a_pass():
    from concurrent.futures import ThreadPoolExecutor

    K = lazy(MANY)
    at = some_rows(MANY, 900)
    coef = np.random.default_rng(0).standard_normal(900)
    alone, together = np.zeros(MANY), np.zeros(MANY)
    rows = Rows(K)
    rows.add(alone, at, coef)
    with ThreadPoolExecutor(3) as pool, mercer.config(threads=3):
        rows.add(together, at, coef, None, pool)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12 * abs(coef).sum())


@pytest.mark.parametrize(
    "kernel", [RBF(1.5), Polynomial(2), Linear(), RBF(2.0) + White(0.5)], ids=repr
)
def test_single_precision_rows_and_products_in_double(kernel):
    K = lazy(MANY, kernel)
    rows = Rows(K)
    assert not rows.exact and rows.store.dtype == np.float32
    at = some_rows(MANY, 50)
    expected = np.asarray(kernel(K.X[at], K.X))
    expected[np.arange(50), at] = np.asarray(kernel.diag(K.X))[at]  # white noise lives there
    got = rows.store[rows.fetch(at)]
    np.testing.assert_allclose(got, expected, atol=1e-5 * abs(expected).max())
    coef = np.random.default_rng(0).standard_normal(50)
    f = coef @ expected
    np.testing.assert_allclose(rows.product(at, coef), f, atol=1e-11 * abs(f).max())
    columns = np.r_[at[:10], some_rows(MANY, 400, seed=8)]
    np.testing.assert_allclose(
        rows.product(at, coef, columns), f[columns], atol=1e-11 * abs(f).max()
    )
    double = Rows(K, single=False)
    assert double.exact
    np.testing.assert_allclose(double.store[double.fetch(at)], expected, atol=1e-11)


def test_a_product_with_most_points_is_double_too():
    K = lazy(MANY)
    at = some_rows(MANY, MANY - 100)
    coef = np.random.default_rng(0).standard_normal(len(at))
    full = np.zeros(MANY)
    full[at] = coef
    expected = K @ full
    np.testing.assert_allclose(Rows(K).product(at, coef), expected, atol=1e-10)


@pytest.mark.parametrize("far", [1e6, 1e4])
def test_single_precision_is_refused_where_it_would_lose_the_data(far):
    """A column of 1e6 plus a little: in float32 the little is gone."""
    X = points(MANY)
    X[:, 0] = far * (1 + 1e-7 * X[:, 0])
    rows = Rows(Gram(RBF(0.05 * far * 1e-6), X, keep=False))
    assert rows.exact
    some = some_rows(MANY, 20)
    expected = np.asarray(RBF(0.05 * far * 1e-6)(X[some], X))
    np.testing.assert_allclose(rows.store[rows.fetch(some)], expected, atol=1e-9)


def test_a_single_outlier_does_not_spoil_the_others():
    """What float32 loses outside the sample shows in the certificate, not in the answer."""
    X, y = classes(0, MANY, 3, noise=1.0)
    X[7] = 1e7
    kernel = RBF(1.0)
    solution = SMO(tol=1e-3).solve(machine(Gram(kernel, X, keep=False), y, 1.0))
    points = np.flatnonzero(solution.value)
    f = np.asarray(kernel(X, X[points])) @ solution.value[points]
    G, bound = f - y, 1.0 * y
    down, up = solution.value > np.minimum(0, bound), solution.value < np.maximum(0, bound)
    assert solution.converged and G[down].max() - G[up].min() <= 1.01e-3


def test_sparse_points():
    X = sp.random(1700, 40, density=0.1, random_state=0, format="csr")
    for kernel in (Linear(), RBF(2.0)):
        rows = Rows(Gram(kernel, X, keep=False))
        at = some_rows(1700, 12)
        expected = np.asarray(kernel(X[at], X))
        np.testing.assert_allclose(rows.store[rows.fetch(at)], expected, atol=1e-6)


def test_points_that_are_no_vectors():
    words = ["a" * (i % 7) + "b" * (i % 5) for i in range(40)]

    def alike(s, t):
        return float(sum(s.count(c) * t.count(c) for c in "ab"))

    K = Gram(alike, words, keep=False)
    rows = Rows(K)
    np.testing.assert_allclose(rows.store[rows.fetch(np.arange(40))], K.to_dense())


def test_a_restriction_has_the_rows_and_columns_of_its_points():
    for n in (40, N, MANY):
        K = lazy(n)
        expected = K.to_dense()
        rows = Rows(K)
        rows.fetch(some_rows(n, 15, seed=9))
        chosen = np.sort(some_rows(n, n // 3))
        part = rows.restricted(chosen)
        at = some_rows(len(chosen), min(12, len(chosen)), seed=4)
        got = part.store[part.fetch(at)]
        assert got.shape == (len(at), len(chosen))
        np.testing.assert_allclose(got, expected[np.ix_(chosen[at], chosen)], atol=1e-5)
    expected = lazy(N).to_dense()
    with small(N, 40):
        rows = Rows(lazy(N))
        rows.fetch(some_rows(N, 10, seed=9))
        chosen = np.unique(np.r_[some_rows(N, 10, seed=9), some_rows(N, 300)])
        part = rows.restricted(chosen)
        at = np.arange(part.capacity)
        got = part.store[part.fetch(at)]
        np.testing.assert_allclose(got, expected[np.ix_(chosen[at], chosen)], atol=1e-12)


# ------------------------------------------------------------------------- memory
def test_a_budget_too_small_for_a_few_rows_is_refused_unallocated():
    K = lazy(2000)
    tracemalloc.start()
    try:
        with (
            mercer.config(memory=2000 * 8),
            pytest.raises(MemoryBudgetExceeded, match=r"memory budget") as caught,
        ):
            Rows(K)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert caught.value.needed > caught.value.allowed == 16_000


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("held", [12, 60, 400])
def test_the_answer_does_not_depend_on_the_rows_that_fit(held, offset):
    X, y = classes(1, N, 4, noise=1.0)
    K = Gram(RBF(1.5), X, keep=False)
    whole = SMO(tol=1e-4).solve(machine(K, y, 1.0, offset=offset))
    with small(N, held):
        tight = SMO(tol=1e-4, max_iter=400_000).solve(machine(K, y, 1.0, offset=offset))
    assert whole.converged and tight.converged, tight.message
    np.testing.assert_allclose(tight.dual, whole.dual, rtol=1e-4)
    np.testing.assert_allclose(tight.extra["product"], whole.extra["product"], atol=0.02)


def test_the_budget_holds_for_thousands_of_points():
    X, y = classes(2, 6000, 8, noise=1.0)
    kernel = RBF(3.0)
    SMO().solve(machine(Gram(kernel, X[:40], keep=False), y[:40], 1.0))  # compiled loops
    budget = 60_000_000
    tracemalloc.start()
    try:
        with mercer.config(memory=budget):
            solution = SMO().solve(machine(Gram(kernel, X, keep=False), y, 1.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert solution.converged
    assert 6000 * 6000 * 4 > 2 * budget  # the matrix would not fit
    assert peak <= 1.1 * budget, f"{peak / 1e6:.1f} MB"
