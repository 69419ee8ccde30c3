"""The Cholesky factor in blocks, run by torch on the CPU, against LAPACK's."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput, NotPositiveDefinite
from mercer.solvers import factor
from mercer.solvers.linear import device

torch = pytest.importorskip("torch")
from tests.pretend_cuda import pretend_cuda, to_cuda  # noqa: E402


@pytest.fixture(params=[1, 7, 64, 4096])
def block(request, monkeypatch):
    monkeypatch.setattr(device, "BLOCK", request.param)
    monkeypatch.setattr(device, "STRIP", 5)
    monkeypatch.setattr(device.potrf_in_place, "__defaults__", (request.param,))
    monkeypatch.setattr(device.restore_in_place, "__defaults__", (request.param,))
    return request.param


def gram(n):
    return mercer.RBF(0.7)(np.random.default_rng(0).standard_normal((n, 3)))


@pytest.mark.parametrize("ridge", [0.3, "rows"])
def test_everything_equals_lapack(block, ridge):
    n = 50
    K = gram(n)
    ridge = np.linspace(0.1, 1.0, n) if ridge == "rows" else ridge
    f, g = factor(K, ridge), factor(torch.as_tensor(K), ridge)
    B = np.random.default_rng(1).standard_normal((n, 3))
    for name in ("solve", "half_solve", "matmul"):
        for rhs in (B, B[:, 0]):
            want = getattr(f, name)(rhs)
            got = getattr(g, name)(rhs)
            assert isinstance(got, np.ndarray) and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
            tensor = getattr(g, name)(torch.as_tensor(rhs))
            assert isinstance(tensor, torch.Tensor)
            np.testing.assert_allclose(tensor.numpy(), got, rtol=1e-11, atol=1e-13)
    assert g.logdet() == pytest.approx(f.logdet(), rel=1e-12)
    assert g.trace() == pytest.approx(f.trace(), rel=1e-12)
    assert g.smallest_eigenvalue() == pytest.approx(f.smallest_eigenvalue(), rel=1e-6)
    np.testing.assert_allclose(np.asarray(g.inverse()), f.inverse(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(g.inverse_diagonal(), f.inverse_diagonal(), rtol=1e-10)


def test_factor_lives_in_the_memory_of_the_matrix(block):
    K = torch.as_tensor(gram(30))
    kept = K.clone()
    where = K.data_ptr()
    f = factor(K, 0.1, overwrite=True)
    assert f._a.data_ptr() == where
    upper = torch.triu(torch.ones_like(K), 1).bool()
    assert torch.equal(f._a[upper], kept[upper])  # K itself is left above the diagonal
    factor(kept, 0.1)
    np.testing.assert_array_equal(kept.numpy(), gram(30))  # without leave nothing is written


def test_singular_matrices_get_the_jitter_of_lapack(block):
    K = np.ones((20, 20))
    f, g = factor(K), factor(torch.as_tensor(K))
    assert g.jitter == f.jitter > 0
    B = np.ones(20)
    np.testing.assert_allclose(K @ g.solve(B), B, rtol=1e-4)


def test_indefinite_matrices_are_refused_with_their_eigenvalue(block):
    K = gram(40) - 0.5 * np.eye(40)
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue") as caught:
        factor(torch.as_tensor(K), owner="the kernel")
    low = np.linalg.eigvalsh(K)[0]
    assert caught.value.smallest_eigenvalue == pytest.approx(low, rel=1e-2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_wrong_shapes_are_refused(bad):
    K = gram(5)
    K[1, 2] = K[2, 1] = bad
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        factor(torch.as_tensor(K))
    with pytest.raises(InvalidInput, match="not square"):
        factor(torch.ones(3, 2))
    with pytest.raises(InvalidInput, match=r"give \(5,\)"):
        factor(torch.eye(5)).solve(np.ones(4))


def test_single_precision_is_factorised_in_double():
    K = gram(30).astype(np.float32)
    f = factor(torch.as_tensor(K), 0.1)
    b = np.ones(30)
    np.testing.assert_allclose((K.astype(float) + 0.1 * np.eye(30)) @ f.solve(b), b, atol=1e-11)


def test_bad_ridges_and_matrices_are_refused_as_by_lapack():
    K = gram(8)
    for ridge in (-0.5, np.ones(3), "x", np.nan):
        with pytest.raises(InvalidInput):
            factor(torch.as_tensor(K), ridge)
    lop = K.copy()
    lop[0, 5] += 0.3
    with pytest.raises(InvalidInput, match="not symmetric"):
        factor(torch.as_tensor(lop), 1.0)
    ridge = torch.full((8,), 0.5, dtype=torch.float64)
    np.testing.assert_allclose(
        factor(torch.as_tensor(K), ridge).solve([1.0] * 8), factor(K, 0.5).solve([1.0] * 8)
    )


def test_the_diagonal_of_the_inverse_needs_no_second_matrix(monkeypatch):
    n = 80
    K = gram(n)
    f = factor(K, 0.3)
    with pretend_cuda():
        g = factor(to_cuda(K), 0.3)
    with pretend_cuda(limit=8 * n * n / 5):  # a strip and a block
        found = g.inverse_diagonal()
    np.testing.assert_allclose(found, f.inverse_diagonal(), rtol=1e-10)
    monkeypatch.setattr(device.potri_in_place, "__defaults__", (10,))
    with pretend_cuda(limit=8 * n * n):
        np.testing.assert_allclose(g.inverse().cpu(), f.inverse(), rtol=1e-9, atol=1e-12)


def test_leave_one_out_fits_where_the_fit_does():
    X = np.random.default_rng(0).standard_normal((200, 2))
    y = np.sin(X[:, 0])
    model = mercer.KernelRidge(mercer.RBF(), alpha=0.1, solver="cholesky")
    expected = model.fit(X, y).loo()
    with pretend_cuda(free=int(1.6 * 8 * 200**2)), mercer.config(engine="torch", device="cuda"):
        found = model.fit(X, y).loo()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
