"""Changed factorisations against fresh ones, and the compiled loop against its NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import MemoryBudgetExceeded, NotPositiveDefinite, speaking_for
from mercer.jit.steps import rank_one
from mercer.settings import config
from mercer.solvers import factor
from mercer.solvers.linear.cholesky import append_rows, delete_rows, drift, factor_again


def matrix(rng, n, ridge=0.1):
    A = rng.standard_normal((n, n))
    return A @ A.T / n + ridge * np.eye(n)


def same(f, A, tol=1e-12):
    L = f.lower()
    np.testing.assert_allclose(L @ L.T, A, rtol=tol, atol=tol * np.abs(A).max())
    np.testing.assert_allclose(f.matmul(np.eye(len(A))), A, rtol=1e-15, atol=1e-15)
    assert drift(f) < 1e-13
    assert f._a.flags.f_contiguous and f.jitter == 0.0


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (40, 3), (3, 40), (300, 1)])
def test_append(rng, n, k):
    A = matrix(rng, n + k)
    f = factor(A[:n, :n])
    before = f._a.copy()
    same(append_rows(f, A[:n, n:], A[n:, n:]), A)
    np.testing.assert_array_equal(f._a, before)


@pytest.mark.parametrize("index", [[0], [39], [7], [0, 39], [3, 17, 4], list(range(1, 40))])
def test_delete(rng, index, monkeypatch):
    from mercer.solvers.linear import cholesky

    A, keep = matrix(rng, 40), np.delete(np.arange(40), index)
    f = factor(A)
    before = f._a.copy()
    for few in (0.0, 1.0):  # factorised again, and row by row
        monkeypatch.setattr(cholesky, "_FEW", few)
        same(delete_rows(f, np.array(index)), A[np.ix_(keep, keep)])
    monkeypatch.setattr(cholesky, "_CHUNK", 80)
    same(delete_rows(f, np.array(index)), A[np.ix_(keep, keep)])
    np.testing.assert_array_equal(f._a, before)


def test_every_second_row(rng):
    A, keep = matrix(rng, 90), np.arange(1, 90, 2)
    same(delete_rows(factor(A), np.arange(0, 90, 2)), A[np.ix_(keep, keep)])


def numpy_rank_one(L, x):
    """The update by columns, LLᵀ + xxᵀ."""
    L, x = L.copy(), x.copy()
    for j in range(len(x)):
        new = np.hypot(L[j, j], x[j])
        c, s = L[j, j] / new, x[j] / new
        L[j, j] = new
        a, b = L[j + 1 :, j].copy(), x[j + 1 :].copy()
        L[j + 1 :, j], x[j + 1 :] = c * a + s * b, c * b - s * a
    return L


def test_the_loop_is_its_numpy_twin(rng):
    L, x = np.linalg.cholesky(matrix(rng, 12)), rng.standard_normal(12)
    rows = np.ascontiguousarray(L.T)
    rank_one(rows, x.copy(), 0, 12)
    np.testing.assert_allclose(rows.T, numpy_rank_one(L, x), rtol=1e-13, atol=1e-15)
    rows = np.ascontiguousarray(L.T)
    y = x.copy()
    rank_one(rows, y, 0, 5)
    rank_one(rows, y, 5, 12)
    np.testing.assert_allclose(rows.T, numpy_rank_one(L, x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 1e8, 1e150])
def test_scales(rng, scale):
    A = matrix(rng, 30)
    f = delete_rows(factor(scale * A), np.array([4]))
    keep = np.delete(np.arange(30), 4)
    same(f, scale * A[np.ix_(keep, keep)], 1e-12)


def test_a_thousand_changes_do_not_drift(rng):
    A = matrix(rng, 60, 1e-3)
    order = list(range(30))
    f = factor(A[:30, :30])
    for step in range(1000):
        if step % 2:
            i = int(rng.integers(len(order)))
            order.pop(i)
            f = delete_rows(f, np.array([i]))
        else:
            new = int(rng.choice(np.setdiff1d(np.arange(60), order)))
            f = append_rows(f, A[order][:, [new]], A[[new]][:, [new]])
            order.append(new)
    L, exact = f.lower(), A[np.ix_(order, order)]
    np.testing.assert_allclose(L @ L.T, exact, atol=1e-13)
    np.testing.assert_allclose(f.lower(), np.linalg.cholesky(exact), rtol=1e-10, atol=1e-12)


def test_jitter_and_singular_rows_are_factorised_again(rng):
    B = rng.standard_normal((8, 3))
    A = B @ B.T  # of rank 3: needs jitter
    f = factor(A[:6, :6])
    assert f.jitter > 0
    for g, M in [
        (append_rows(f, A[:6, 6:], A[6:, 6:]), A),
        (delete_rows(f, np.array([1])), np.delete(np.delete(A[:6, :6], 1, 0), 1, 1)),
        (append_rows(factor(A[:3, :3]), A[:3, 3:], A[3:, 3:]), A),
        (factor_again(f), A[:6, :6]),
    ]:
        L = g.lower()
        np.testing.assert_allclose(L @ L.T, M + g.jitter * np.eye(len(M)), atol=1e-12)
        assert drift(g) < 1e-12


def test_refusals(rng):
    A = matrix(rng, 30)
    f = factor(A)
    with pytest.raises(NotPositiveDefinite, match=r"^owner"), speaking_for("owner"):
        append_rows(f, 5 * np.ones((30, 1)), np.ones((1, 1)))
    with config(memory=3000):
        for change in (
            lambda: append_rows(f, A[:, :1], A[:1, :1]),
            lambda: delete_rows(f, np.array([0])),
            lambda: factor_again(f),
        ):
            with pytest.raises(MemoryBudgetExceeded, match="owner"), speaking_for("owner"):
                change()


def test_drift_sees_a_wrong_factor(rng):
    f = factor(matrix(rng, 20))
    f._a[7, 3] += 1e-9
    assert drift(f) > 1e-11
    assert drift(factor_again(f)) < 1e-14
