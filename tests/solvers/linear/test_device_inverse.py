"""The inverse in the memory of a factor on a device: blocks of any size, upper triangle kept."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mercer.solvers import factor  # noqa: E402
from mercer.solvers.linear.device import invert_triangle_in_place, potri_in_place  # noqa: E402


def problem(n):
    rng = np.random.default_rng(n)
    B = rng.standard_normal((n, n))
    K = B @ B.T + np.eye(n)
    upper = np.triu(rng.standard_normal((n, n)), 1)
    return K, torch.tensor(np.linalg.cholesky(K) + upper), upper


@pytest.mark.parametrize(("n", "block"), [(0, 4), (1, 4), (7, 3), (48, 16), (50, 16), (33, 100)])
def test_blocks(n, block):
    K, A, upper = problem(n)
    L = np.tril(A.numpy())
    invert_triangle_in_place(A, block)
    np.testing.assert_allclose(np.tril(A.numpy()) @ L, np.eye(n), atol=1e-12 * max(n, 1))
    np.testing.assert_array_equal(np.triu(A.numpy(), 1), upper)
    _, A, upper = problem(n)
    potri_in_place(A, block)
    np.testing.assert_allclose(np.tril(A.numpy()), np.tril(np.linalg.inv(K)), atol=1e-11)
    np.testing.assert_array_equal(np.triu(A.numpy(), 1), upper)


def test_factor_becomes_its_inverse_where_it_lies():
    K, _, _ = problem(20)
    T = torch.tensor(K)
    f = factor(T, 0.5, overwrite=True)
    held = f.on_host()
    out = f.into_inverse()
    assert out.data_ptr() == T.data_ptr()
    np.testing.assert_allclose(
        np.tril(out), np.tril(np.linalg.inv(K + 0.5 * np.eye(20))), rtol=1e-9
    )
    np.testing.assert_allclose(held.matrix(), K + 0.5 * np.eye(20), rtol=1e-14)
    np.testing.assert_allclose(
        held.solve(np.ones(20)), factor(K, 0.5).solve(np.ones(20)), rtol=1e-11
    )
