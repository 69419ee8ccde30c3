"""The preconditioner of conjugate gradients on a device: that of main memory, and stays there."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import RBF, KernelRidge, White
from mercer.models.ridge.cg import RidgeGram
from mercer.operators import Gram
from mercer.solvers import ConjugateGradients, Linear, NystromPreconditioner
from mercer.solvers.linear import device
from mercer.solvers.linear.cg import LowRankPreconditioner
from mercer.solvers.linear.device import DevicePreconditioner
from mercer.solvers.linear.pivoted import DeviceRows, pivot_rows

torch = pytest.importorskip("torch", reason="torch is not installed")
from tests.pretend_cuda import pretend_cuda, to_cuda  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
F, B = RNG.standard_normal((7, 300)), RNG.standard_normal((300, 2))


@pytest.mark.parametrize("ridge", [0.3, RNG.uniform(0.1, 1.0, 300)])
@pytest.mark.parametrize("entries", [1, 500, 2**26])
def test_it_is_that_of_main_memory(ridge, entries, monkeypatch):
    monkeypatch.setattr(device, "ENTRIES", entries)
    P, Q = NystromPreconditioner(F, ridge), DevicePreconditioner(torch.tensor(F), ridge)
    for R in (B, B[:, 0]):
        np.testing.assert_allclose(Q.solve(R), P.solve(R), rtol=1e-11, atol=1e-13)
    nothing = DevicePreconditioner(torch.empty(0, 300, dtype=torch.float64), ridge)
    np.testing.assert_allclose(nothing.solve(B), B / np.reshape(ridge, (-1, 1)), rtol=1e-14)


@pytest.mark.parametrize("storage", ["double", "single", "none"])
@pytest.mark.parametrize("kernel", [RBF(), RBF() + White(0.1)], ids=repr)
def test_rows_are_made_there(storage, kernel):
    with pretend_cuda() as log:
        K = RidgeGram(kernel, to_cuda(X), storage)
        log.copies.clear()
        assert isinstance(pivot_rows(K, 5, np.ones(300)), DeviceRows)
        P = LowRankPreconditioner(K, 0.1, rank=20, random_state=0)
        found = P.solve(B)
        assert max(log.copies) <= 2 * 8 * 300  # vectors, and blocks of pivots
    expected = LowRankPreconditioner(RidgeGram(kernel, X, storage), 0.1, rank=20, random_state=0)
    assert P.facts["rank"] == expected.facts["rank"]
    tol = 1e-3 if storage == "single" else 1e-9
    np.testing.assert_allclose(found, expected.solve(B), rtol=tol, atol=tol)


def test_a_fit_by_conjugate_gradients_copies_vectors_only():
    y = np.sin(X[:, 0])
    model = KernelRidge(RBF(), alpha=0.1, solver="cg", tol=1e-12, random_state=0)
    expected = model.fit(X, y).dual_coef_
    with pretend_cuda() as log:
        model.fit(to_cuda(X), to_cuda(y))
    assert max(log.copies) <= 8 * 50**2  # blocks of proposed pivots
    np.testing.assert_allclose(model.dual_coef_, expected, rtol=1e-7, atol=1e-9)


def test_a_gram_matrix_is_kept_and_multiplied_there():
    y = np.sin(X[:, 0])
    K = RBF()(X)
    with pretend_cuda() as log, mercer.config(memory="100kB"):  # the budget of main memory
        A = Gram(RBF(), to_cuda(X))
        np.testing.assert_allclose(A @ B, K @ B, rtol=1e-12)
        np.testing.assert_allclose(Gram(RBF(), to_cuda(X), to_cuda(X[:9])).T @ B, K[:9] @ B)
        found = ConjugateGradients().solve(Linear(A, y, ridge=1.0))
        assert A._matrix is not None and max(log.copies) <= 16 * 300
        np.testing.assert_array_equal(A.block([3, 1], slice(2, 5)), A.to_dense()[[3, 1], 2:5])
    np.testing.assert_allclose(found.value, np.linalg.solve(K + np.eye(300), y), atol=1e-7)
    with pretend_cuda(free=500_000) as log:  # half a matrix: in tiles
        A = Gram(RBF(), to_cuda(X))
        np.testing.assert_allclose(A @ B, K @ B, rtol=1e-12)
        assert A._matrix is None and max(log.copies) <= 16 * 300
