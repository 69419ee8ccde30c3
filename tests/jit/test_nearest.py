"""The compiled selection keeps what a stable sort would put first."""

import numpy as np
import pytest

from mercer.jit.tiles import CHUNK, keep_smallest, pair_squares, sort_kept


def select(T, c, sign, k, skip=None, width=None):
    n, m = T.shape
    values, where = np.full((n, k), np.inf), np.full((n, k), m)
    skip = np.full(n, -1) if skip is None else skip
    width = width or max(m, 1)
    for start in range(0, m, width):
        part = np.ascontiguousarray(T[:, start : start + width])
        keep_smallest(part, c[start : start + width], sign, start, skip, values, where)
    sort_kept(values, where)
    return values, where


def by_sorting(T, c, sign, k, skip=None):
    V = sign * T + c
    if skip is not None:
        V[np.flatnonzero(skip >= 0), skip[skip >= 0]] = np.inf
    where = np.argsort(V, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(V, where, 1), where


@pytest.mark.parametrize("k", [1, 2, 5, 64, 299, 300])
@pytest.mark.parametrize("width", [1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 300])
def test_equals_a_stable_sort(k, width):
    rng = np.random.default_rng(k * width)
    T, c = rng.standard_normal((9, 300)), rng.standard_normal(300)
    values, where = select(T, c, -2.0, k, None, width)
    expected, at = by_sorting(T, c, -2.0, k)
    np.testing.assert_array_equal(where, at)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("levels", [1, 2, 5])
@pytest.mark.parametrize("width", [3, 50, CHUNK, 1000])
def test_of_equal_values_the_smaller_columns_stay_in_order(levels, width):
    rng = np.random.default_rng(levels)
    T = rng.integers(0, levels, (20, 500)).astype(float)
    for k in (1, 4, 100, 500):
        got, expected = select(T, np.zeros(500), 1.0, k, None, width), by_sorting(T, 0.0, 1.0, k)
        np.testing.assert_array_equal(got[1], expected[1])
        np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize("order", [1, -1])
def test_rows_that_only_improve_or_only_get_worse(order):
    T = np.arange(700.0)[None, ::order].repeat(2, axis=0)
    for k in (1, 10, 700):
        np.testing.assert_array_equal(
            select(T, np.zeros(700), 1.0, k)[1], by_sorting(T, 0.0, 1.0, k)[1]
        )


def test_a_skipped_column_is_never_kept():
    rng = np.random.default_rng(0)
    T = rng.standard_normal((40, 200))
    skip = rng.integers(-1, 200, 40)
    T[np.arange(40), skip] -= 100.0  # it would come first
    got = select(T, np.zeros(200), 1.0, 199, skip, 37)
    expected = by_sorting(T, np.zeros(200), 1.0, 199, skip)
    np.testing.assert_array_equal(got[1], expected[1])
    assert not (got[1] == skip[:, None]).any()


def test_read_only_tiles_are_taken():
    T = np.arange(300.0).reshape(2, 150)
    c = np.zeros(150)
    T.setflags(write=False)
    c.setflags(write=False)
    assert select(T, c, -1.0, 2)[1].tolist() == [[149, 148]] * 2


def test_pair_squares_are_differences():
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((5, 3)) + 1e8, rng.standard_normal((7, 3)) + 1e8
    Y[2] = X[4]
    where = rng.integers(0, 7, (5, 4))
    where[4, 0] = 2
    out = np.empty((5, 4))
    pair_squares(X, Y, where, out)
    np.testing.assert_allclose(out, ((X[:, None] - Y[where]) ** 2).sum(-1), rtol=1e-14)
    assert out[4, 0] == 0
