"""Operators against the dense matrix, the budget, and bad input."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, FromFunction, Linear, Polynomial, Precomputed, White
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotAKernel
from mercer.operators import Centered, Dense, Diagonal, Gram, LowRank, Scaled, Sum, as_operator

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = rng.standard_normal((17, 3))
S = rng.standard_normal((40, 40))
S = S @ S.T


def operators():
    yield "gram kept", Gram(RBF(), X), RBF()(X)
    yield "gram lazy", Gram(RBF(), X, keep=False), RBF()(X)
    yield "gram cross", Gram(RBF(), X, Y, keep=False), RBF()(X, Y)
    yield "gram cross kept", Gram(RBF(), X, Y), RBF()(X, Y)
    yield "gram noise", Gram(RBF() + White(0.5), X, keep=False), (RBF() + White(0.5))(X)
    yield "gram sparse", Gram(Linear(), sp.csr_array(X), keep=False), X @ X.T
    yield "gram given", Gram(Precomputed(), S, keep=False), S
    function = FromFunction(lambda a, b: float(a @ b))
    yield "gram function", Gram(function, X, keep=False), X @ X.T
    yield "gram name", Gram("rbf", X), RBF("scale")(X)
    yield "dense", Dense(X), X
    yield "sum", Sum(Dense(S), Diagonal(np.arange(40.0))), S + np.diag(np.arange(40.0))
    yield "scaled", Scaled(Dense(X), -2.0), -2 * X
    yield "sugar", 2.0 * Dense(S) + np.eye(40), 2 * S + np.eye(40)
    yield "diagonal", Diagonal(np.arange(4.0)), np.diag(np.arange(4.0))
    yield "low rank", LowRank(X), X @ X.T
    H = np.eye(40) - 1 / 40
    yield "centred", Centered(Gram(RBF(), X, keep=False)), H @ RBF()(X) @ H


CASES = {name: (A, D) for name, A, D in operators()}


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_its_matrix(name):
    A, D = CASES[name]
    n, m = D.shape
    assert A.shape == D.shape
    np.testing.assert_allclose(A.to_dense(), D, atol=1e-10)
    for V in (rng.standard_normal(m), rng.standard_normal((m, 3))):
        np.testing.assert_allclose(A @ V, D @ V, atol=1e-10)
    for V in (rng.standard_normal(n), rng.standard_normal((n, 2))):
        np.testing.assert_allclose(A.T @ V, D.T @ V, atol=1e-10)
    np.testing.assert_allclose(A.diagonal(), np.diagonal(D), atol=1e-10)
    rows = np.array([2, 0, 2]) % n
    np.testing.assert_allclose(A.rows(rows), D[rows], atol=1e-10)
    np.testing.assert_allclose(A.rows(slice(1, 3)), D[1:3], atol=1e-10)
    np.testing.assert_allclose(A.rows([-1]), D[[-1]], atol=1e-10)
    np.testing.assert_allclose(A.block([0, 1], slice(None, None, 2)), D[:2, ::2], atol=1e-10)
    np.testing.assert_allclose(A.T.to_dense(), D.T, atol=1e-10)
    if A.symmetric:
        np.testing.assert_allclose(D, D.T, atol=1e-10)
    if A.psd:
        assert np.linalg.eigvalsh(D).min() > -1e-9 * np.abs(D).max()
    assert type(A).__name__ in repr(A)


def test_facts():
    assert Gram(RBF(), X).psd and Gram(RBF(), X).symmetric
    assert not Gram(RBF(), X, Y).symmetric
    assert not Scaled(Gram(RBF(), X), -1.0).psd
    assert not Diagonal([1.0, -1.0]).psd
    assert not Dense(np.array([[1.0, 2.0], [0.0, 1.0]])).symmetric


def test_gram_keeps_the_matrix_only_when_it_fits():
    want = RBF()(X).sum(1)
    with mercer.config(memory="25kB", threads=1):
        K = Gram(RBF(), X)  # 12.8 kB: more than half of the budget
        np.testing.assert_allclose(K @ np.ones(40), want)
        assert K._matrix is None
    K = Gram(RBF(), X)
    K @ np.ones(40)
    assert K._matrix is not None


def test_product_stays_inside_the_budget():
    points = rng.standard_normal((3000, 4))
    V = np.ones((3000, 2))
    Gram(RBF(), points[:700], keep=False) @ V[:700]
    with mercer.config(memory="8MB"):
        tracemalloc.start()
        out = Gram(RBF(), points) @ V
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8.8e6
    np.testing.assert_allclose(out[:50], RBF()(points[:50], points) @ V, rtol=1e-9)


def test_budget_is_checked_before_any_work():
    with mercer.config(memory="1MB"):
        K = Gram(RBF(), rng.standard_normal((2000, 2)))
        tracemalloc.start()
        with pytest.raises(MemoryBudgetExceeded) as info:
            K.to_dense()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert info.value.needed == 2000 * 2000 * 8 and info.value.allowed == 10**6
    assert peak < 200_000


def test_float32_stays_float32():
    K = Gram(RBF(), X.astype(np.float32), keep=False)
    assert K.dtype == np.float32
    assert (K @ np.ones(40, np.float32)).dtype == np.float32


def test_bad_input():
    with pytest.raises(InvalidInput, match="cannot multiply"):
        Gram(RBF(), X) @ np.ones(3)
    with pytest.raises(InvalidInput, match="outside"):
        Dense(X).rows([99])
    with pytest.raises(InvalidInput, match="shapes"):
        Sum(np.eye(2), np.eye(3))
    with pytest.raises(InvalidInput, match="2 dimensions"):
        Dense(np.ones(3))
    with pytest.raises(InvalidInput, match="numbers"):
        as_operator(np.array([["a"]]))
    with pytest.raises(InvalidInput, match="symmetric"):
        Centered(X)
    with pytest.raises(InvalidInput, match="whole numbers"):
        Dense(X).rows([0.5])
    with pytest.raises(InvalidInput, match="mask"):
        Dense(X).rows(np.array([True]))
    with pytest.raises(InvalidInput, match="finite"):
        Scaled(X, np.nan)
    with pytest.raises(InvalidInput, match="vector"):
        Diagonal(np.eye(2))


@pytest.mark.parametrize("kernel", [Precomputed(), 2.0 * Precomputed()], ids=repr)
@pytest.mark.parametrize("shape", [(600, 17), (5, 17), (1, 1)])
def test_the_transpose_of_given_rows_multiplies_without_the_matrix(kernel, shape):
    rows = rng.standard_normal(shape)
    positions = rng.integers(0, shape[1], 9)
    A, D = Gram(kernel, rows, positions, keep=False), kernel(rows, positions)
    for V in (rng.standard_normal(shape[0]), rng.standard_normal((shape[0], 2))):
        np.testing.assert_allclose(A.T @ V, D.T @ V, atol=1e-12)
    single = Gram(kernel, rows.astype(np.float32), positions, keep=False)
    assert (single.T @ np.ones(shape[0], np.float32)).dtype == np.float32


def test_a_block_asks_the_diagonal_of_its_own_points_only():
    asked = []

    class Watched(RBF):
        def _diag(self, X):
            asked.append(len(X))
            return super()._diag(X)

    K = Gram(Watched() + White(0.5), X, keep=False)
    D = (RBF() + White(0.5))(X)
    for i, j in ([3, 1, 3], [1, 3, 7]), ([0, 1], [2, 3]), ([-1], slice(None)), ([], [1]):
        np.testing.assert_allclose(K.block(i, j), D[i if i else slice(0)][:, j], atol=1e-14)
    assert max(asked) <= 2


def test_a_block_of_an_asymmetric_function_is_refused():
    K = Gram(FromFunction(lambda a, b: float(a[0])), X, keep=False)
    with pytest.raises(NotAKernel, match="symmetric"):
        K.block(slice(0, 3), slice(0, 4))
    with pytest.raises(NotAKernel, match="symmetric"):
        K @ np.ones(40)


@pytest.mark.filterwarnings("error")
def test_what_overflows_is_refused_without_a_warning():
    """A product of finite numbers, in tiles, and a diagonal; NaN that is given is handed back."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(InvalidInput, match="a product with the kernel matrix holds NaN"):
        Gram(FromFunction(lambda a, b: 1e200), X, X[:5]).times(np.full(5, 1e200))
    with pytest.raises(InvalidInput, match=r"k\(x, x\) is inf at row 0"):
        Gram(Polynomial(2), 1e150 * X).diagonal()
    assert np.isnan(Gram(RBF(), X).times(np.full(40, np.nan))).all()
