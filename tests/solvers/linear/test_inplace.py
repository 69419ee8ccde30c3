"""The in-place primitives: one buffer, factorised and taken back."""

import numpy as np
import pytest

from mercer.solvers.linear.inplace import fortran_float64, mirror, potrf, restore


def gram(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, n + 2))
    return X @ X.T


@pytest.mark.parametrize("order", ["C", "F"])
def test_contiguous_float64_is_used_as_it_stands_only_when_allowed(order):
    K = np.array(gram(5), order=order)
    assert np.shares_memory(fortran_float64(K, overwrite=True), K)
    copy = fortran_float64(K, overwrite=False)
    assert not np.shares_memory(copy, K) and copy.flags.f_contiguous
    np.testing.assert_array_equal(copy, K if order == "F" else K.T)


@pytest.mark.parametrize(
    "K",
    [
        gram(5).astype(np.float32),
        gram(10)[::2, ::2],
        gram(5).astype(">f8"),
        np.eye(5, dtype=int),
        np.broadcast_to(1.0, (5, 5)),
    ],
    ids=["float32", "strided", "big-endian", "int", "broadcast"],
)
def test_everything_else_is_copied(K):
    a = fortran_float64(K, overwrite=True)
    assert not np.shares_memory(a, K)
    assert a.flags.f_contiguous and a.dtype == np.float64 and a.dtype.isnative
    np.testing.assert_array_equal(a, K.T)


def test_read_only_memory_is_never_written():
    K = gram(5)
    K.flags.writeable = False
    before = K.copy()
    assert potrf(fortran_float64(K, overwrite=True))
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 200])
def test_restore_undoes_potrf_to_the_last_bit(n):
    K = gram(n)
    K = (K + K.T) / 2
    a = fortran_float64(K, overwrite=False)
    assert potrf(a)
    np.testing.assert_allclose(np.tril(a) @ np.tril(a).T, K, rtol=1e-10, atol=1e-10)
    restore(a, np.diagonal(K))
    np.testing.assert_array_equal(a, K)


@pytest.mark.parametrize("n", [1, 64, 130])
def test_mirror_copies_up_to_down_and_through_a_transpose_down_to_up(n):
    a = np.random.default_rng(0).standard_normal((n, n))
    down = a.copy()
    mirror(down)
    np.testing.assert_array_equal(down, np.triu(a) + np.triu(a, 1).T)
    up = a.copy()
    mirror(up.T)
    np.testing.assert_array_equal(up, np.tril(a) + np.tril(a, -1).T)


@pytest.mark.parametrize(
    ("where", "bad"),
    [((0, 0), np.nan), ((2, 2), np.inf), ((3, 1), np.nan), ((3, 1), np.inf), ((4, 4), -1.0)],
)
def test_potrf_never_calls_a_bad_matrix_good(where, bad):
    K = gram(5)
    K[where] = K[where[::-1]] = bad
    assert not potrf(fortran_float64(K, overwrite=False))
