"""Quadratic forms of many matrices against dense products."""

import numpy as np
import pytest

import mercer
from mercer import RBF, Laplacian, Linear, Matern
from mercer.operators import many_forms, several, sources_of

KERNELS = [RBF(0.5), Laplacian(2.0), RBF(3.0), Linear(), Matern(1.0, 2.5), Matern(1.0, 0.5)]


def dense(kernels, Z):
    return np.array([k(Z) for k in kernels])


@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize("rows, columns", [(256, 1024), (8, 8), (7, 20)])
def test_forms_sums_and_diagonals(monkeypatch, dtype, tol, rows, columns):
    monkeypatch.setattr(several, "ROWS", rows)
    monkeypatch.setattr(several, "COLUMNS", columns)
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(41, 3))
    V, t = rng.normal(size=(41, 5)).astype(dtype), rng.normal(size=(41, 2))
    sources, order = sources_of(KERNELS, Z)
    assert sorted(order) == list(range(6))
    assert len(sources) == 4  # three share the Euclidean distance
    forms, sums, diagonals = many_forms(sources, 41, V, t)
    K = dense(KERNELS, Z)[order]
    hollow = K * (1 - np.eye(41))
    np.testing.assert_allclose(
        forms, np.einsum("ib,qij,jb->qb", V, hollow, V), rtol=tol, atol=tol * 500
    )
    np.testing.assert_allclose(sums, hollow @ t, rtol=tol, atol=tol * 50)
    np.testing.assert_allclose(diagonals, np.einsum("qii->qi", K), rtol=1e-6 if tol > 1e-9 else tol)


@pytest.mark.parametrize("rows, columns", [(256, 1024), (8, 16)])
def test_places(monkeypatch, rows, columns):
    monkeypatch.setattr(several, "ROWS", rows)
    monkeypatch.setattr(several, "COLUMNS", columns)
    rng = np.random.default_rng(1)
    n = 19
    Z, R = rng.normal(size=(2 * n, 2)), rng.choice([-1.0, 1.0], size=(n, 7))
    sources, order = sources_of(KERNELS, Z)
    places = ((0, 0, 1.0), (n, n, 1.0), (0, n, -1.0), (n, 0, -1.0))
    forms, _, diagonals = many_forms(sources, n, R, places=places)
    K = dense(KERNELS, Z)[order]
    H = K[:, :n, :n] + K[:, n:, n:] - K[:, :n, n:] - K[:, n:, :n]
    np.testing.assert_allclose(diagonals, np.einsum("qii->qi", H), atol=1e-12)
    hollow = H * (1 - np.eye(n))
    np.testing.assert_allclose(forms, np.einsum("ib,qij,jb->qb", R, hollow, R), atol=1e-10)


def test_memory_and_threads_do_not_change_the_answer():
    rng = np.random.default_rng(2)
    Z, V = rng.normal(size=(600, 2)), rng.normal(size=(600, 3))
    sources, _ = sources_of(KERNELS[:4], Z)
    with mercer.config(threads=1):
        one = many_forms(sources, 600, V, V)
    with mercer.config(threads=3):
        three = many_forms(sources, 600, V, V)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)
    with mercer.config(memory="500KB"):
        tight = many_forms(sources, 600, V, V)
    for a, b in zip(one, tight, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    with mercer.config(memory="1KB"), pytest.raises(mercer.errors.MemoryBudgetExceeded):
        many_forms(sources, 600, V, V)
