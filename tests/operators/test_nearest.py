"""Nearest columns in tiles: what the whole matrix sorted would say, in any number of threads."""

import tracemalloc

import numpy as np
import pytest

from mercer import RBF, FromFunction, Laplacian, Linear, Precomputed
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.operators import nearest
from mercer.settings import config

rng = np.random.default_rng(0)
X, Q = rng.standard_normal((83, 3)), rng.standard_normal((41, 3))


@pytest.mark.parametrize("k", [1, 6, 83])
@pytest.mark.parametrize("kernel", [RBF(), Linear(), Laplacian()], ids=repr)
def test_equals_sorting_the_matrix_bit_by_bit(kernel, k):
    c = kernel.diag(X)
    with small_tiles(64):
        values, where = nearest(kernel._bind(Q, X), k, -2.0, c)
        V = -2.0 * kernel(Q, X) + c
    expected = np.argsort(V, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(where, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(V, expected, 1))


def test_threads_and_tiles_do_not_change_the_bits():
    big = rng.standard_normal((1500, 4))
    answers = []
    for threads in (1, 2, 3):
        with config(threads=threads), small_tiles(2000):
            answers.append(nearest(RBF()._bind(big), 7, -1.0, np.zeros(1500), np.arange(1500)))
    for values, where in answers[1:]:
        np.testing.assert_array_equal(values, answers[0][0])
        np.testing.assert_array_equal(where, answers[0][1])


def test_a_symmetric_matrix_is_searched_on_both_sides_of_its_diagonal():
    with small_tiles(50):
        _, where = nearest(RBF()._bind(X), 3, -1.0, np.zeros(83), np.arange(83))
    K = RBF()(X)
    np.fill_diagonal(K, -1)
    np.testing.assert_array_equal(where, np.argsort(-K, axis=1, kind="stable")[:, :3])


def test_half_of_a_symmetric_matrix_is_enough_where_tiles_run_in_turn():
    calls = []

    def near(a, b):
        calls.append(1)
        return float(max(0, 3 - abs(a - b)))  # many ties

    points = tuple(rng.integers(0, 9, 60).tolist())
    K = np.array([[near(a, b) for b in points] for a in points])
    np.fill_diagonal(K, -1)
    calls.clear()
    with small_tiles(50):
        _, where = nearest(FromFunction(near)._bind(points), 8, -1.0, np.zeros(60), np.arange(60))
    np.testing.assert_array_equal(where, np.argsort(-K, axis=1, kind="stable")[:, :8])
    assert len(calls) < 0.7 * 60 * 60


def test_the_matrix_is_never_stored():
    big, kernel = rng.standard_normal((4000, 2)), RBF()
    nearest(kernel._bind(big[:50], big), 3, -1.0, np.zeros(4000))  # compiled before it is measured
    matrix = 4000 * 4000 * 8
    with config(memory=matrix // 8):
        bound = kernel._bind(big.copy(), big)
        tracemalloc.start()
        nearest(bound, 3, -1.0, np.zeros(4000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < matrix // 8


def test_too_many_neighbours_for_the_budget_are_refused_before_they_are_allocated():
    big = rng.standard_normal((3000, 2))
    with config(memory=10**6), pytest.raises(MemoryBudgetExceeded, match="3000 neighbours"):
        nearest(RBF()._bind(big), 3000, -1.0, np.zeros(3000))


def test_ties_of_a_given_matrix_go_to_the_first_columns():
    K = rng.integers(0, 4, (60, 300)).astype(float)
    with small_tiles(90):
        _, where = nearest(Precomputed()._bind(K, np.arange(300)), 9, -1.0, np.zeros(300))
    np.testing.assert_array_equal(where, np.argsort(-K, axis=1, kind="stable")[:, :9])


def test_a_kernel_without_a_finite_value_is_named():
    bound = FromFunction(lambda a, b: float("nan"))._bind(("a",), ("b",))
    with pytest.raises(InvalidInput, match="finite"):
        nearest(bound, 1, -1.0, np.zeros(1))


def test_torch_gives_the_same_neighbours(torch):
    kernel = RBF()
    there = kernel._bind(torch.as_tensor(Q), torch.as_tensor(X))
    _, where = nearest(there, 5, -1.0, np.zeros(83))
    np.testing.assert_array_equal(where, nearest(kernel._bind(Q, X), 5, -1.0, np.zeros(83))[1])
