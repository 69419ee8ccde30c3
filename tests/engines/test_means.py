"""Means over runs of rows and columns: against the matrix itself, with empty runs and any tile."""

from itertools import pairwise

import numpy as np
import pytest

from mercer import RBF, Constant
from mercer.engines import means
from mercer.engines.tiles import small_tiles

ENDS = np.array([0, 0, 3, 4, 4, 11, 11])
OTHER = np.array([0, 5, 5, 6])


def averages(ends):
    A = np.zeros((len(ends) - 1, ends[-1]))
    for i, (a, b) in enumerate(pairwise(ends)):
        A[i, a:b] = 1 / max(1, b - a)
    return A


@pytest.mark.parametrize("entries", [1, 2, 7, 30, 10**5])
def test_means_are_averages_of_rows_and_columns(rng, entries):
    X, Y = rng.standard_normal((11, 2)), rng.standard_normal((6, 2))
    k = 2.0 * RBF(0.7)
    bound = k._bind(X, Y)
    A, B = averages(ENDS), averages(OTHER)
    expected = A @ k(X, Y) @ B.T
    C = rng.standard_normal(expected.shape)
    slope = k.theta_vjp(X, A.T @ C @ B, Y)
    with small_tiles(entries):
        got = means.run_means(bound, slice(0, 6), slice(0, 3), ENDS, OTHER)
        np.testing.assert_allclose(got, expected, atol=1e-14)
        some = means.run_means(bound, slice(1, 5), slice(2, 3), ENDS, OTHER)
        np.testing.assert_allclose(some, expected[1:5, 2:3], atol=1e-14)
        assert means.run_means(bound, slice(3, 3), slice(0, 3), ENDS, OTHER).shape == (0, 3)
        pulled = means.pull_means(bound, slice(0, 6), slice(0, 3), ENDS, OTHER, C)
        np.testing.assert_allclose(pulled, slope, rtol=1e-11)


@pytest.mark.parametrize("together", [1, 4, 64])
def test_own_means_are_the_diagonal(rng, together, monkeypatch):
    monkeypatch.setattr(means, "TOGETHER", together)
    X = rng.standard_normal((11, 2))
    k = RBF(0.7)
    expected = averages(ENDS) @ k(X) @ averages(ENDS).T
    bound = k._bind(X)
    np.testing.assert_allclose(means.own_means(bound, ENDS), expected.diagonal(), atol=1e-14)
    c = rng.standard_normal(6)
    A = averages(ENDS)
    slope = k.theta_vjp(X, A.T @ np.diag(c) @ A)
    np.testing.assert_allclose(means.pull_own(bound, ENDS, c), slope, rtol=1e-11)
    assert means.own_means(Constant(1.0)._bind(X[:0]), np.array([0])).shape == (0,)


def test_a_tile_of_means_is_the_work_of_a_tile_of_the_kernel(rng):
    bound = RBF()._bind(rng.standard_normal((100, 2)))
    one = means.tile_entries(bound, np.arange(101), np.arange(101))
    ten = means.tile_entries(bound, np.arange(0, 101, 10), np.arange(0, 101, 10))
    assert one == 100 * ten
    assert means.tile_entries(bound, np.array([0, 100]), np.array([0, 100])) >= 1
