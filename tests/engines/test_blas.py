"""BLAS called by address and SciPy's products, against NumPy's on every layout."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.engines.blas import add_square, solve_rows, times

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("columns", [None, 0, 1, 3])
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (6, 6), (0, 4), (4, 0), (300, 41)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_times(shape, columns, order):
    A = np.asarray(RNG.standard_normal(shape), order=order)
    size = (shape[1],) if columns is None else (shape[1], columns)
    for B in (RNG.standard_normal(size), np.asfortranarray(RNG.standard_normal(size))):
        kept = A.copy(), B.copy()
        A.flags.writeable = B.flags.writeable = False
        out = times(A, B)
        assert out.shape == (A @ B).shape
        np.testing.assert_allclose(out, A @ B, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(A, kept[0])
        np.testing.assert_array_equal(B, kept[1])
        A.flags.writeable = True


def test_times_of_views_and_float32():
    A = RNG.standard_normal((12, 10))
    v = RNG.standard_normal(20)
    np.testing.assert_allclose(times(A, v[::2]), A @ v[::2], rtol=1e-12)
    np.testing.assert_allclose(times(A[::2], v[::2]), A[::2] @ v[::2], rtol=1e-12)
    np.testing.assert_allclose(times(A[:, ::2], v[::4]), A[:, ::2] @ v[::4], rtol=1e-12)
    single = A.astype(np.float32)
    assert times(single, v[:10].astype(np.float32)).dtype == np.float32


def test_add_square():
    T, out = RNG.standard_normal((9, 4)), np.zeros((4, 4), order="F")
    add_square(T, out)
    add_square(T, out)
    np.testing.assert_allclose(out, np.tril(2 * T.T @ T), rtol=1e-13, atol=1e-14)
    with pytest.raises(TypeError, match="F ordered"):
        add_square(T, np.zeros((4, 4)))


@pytest.mark.parametrize("transposed", [False, True])
def test_solve_rows(transposed):
    L = np.asfortranarray(np.tril(RNG.standard_normal((5, 5))) + 4 * np.eye(5))
    noise = np.asfortranarray(L + np.triu(RNG.standard_normal((5, 5)), 1))  # not to be read
    T = RNG.standard_normal((7, 5))
    expected = np.linalg.solve(L.T if transposed else L, T.T).T
    solve_rows(noise, T, transposed)
    np.testing.assert_allclose(T, expected, rtol=1e-11, atol=1e-12)
