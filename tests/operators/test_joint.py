"""Sums over tiles of several matrices and over shuffled ones, in any budget, on any threads."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import RBF
from mercer.operators import inverses, joint, joint_rows, shuffled, shuffled_factors

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 5, 500])
@pytest.mark.parametrize("memory", [300_000, 2**30])
def test_tiles_cover_every_place_once(n, memory):
    X, Y = RNG.standard_normal((n, 3)), RNG.standard_normal((n, 2))
    bounds = [RBF(1.0)._bind(X), RBF(2.0)._bind(Y)]

    def step(tiles, rows, cols):
        return [np.vdot(*tiles), tiles[0].sum()]

    K, L = RBF(1.0)(X), RBF(2.0)(Y)
    with mercer.config(memory=memory):
        got = joint(bounds, 2, step)
    np.testing.assert_allclose(got, [(K * L).sum(), K.sum()], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 5, 700])
@pytest.mark.parametrize("memory", [400_000, 2**30])
def test_sums_along_rows(n, memory):
    X, Y = RNG.standard_normal((n, 3)), RNG.standard_normal((n, 2))
    bounds = [RBF(1.0)._bind(X), RBF(2.0)._bind(Y)]

    def step(tiles, rows, cols):
        assert tiles[0].shape == (rows.stop - rows.start, cols.stop - cols.start)
        return np.stack([(tiles[0] * tiles[1]).sum(axis=1), tiles[0] @ X[cols, 0]], axis=1)

    K, L = RBF(1.0)(X), RBF(2.0)(Y)
    answers = []
    for threads in (1, 3):
        with mercer.config(memory=memory, threads=threads):
            answers.append(joint_rows(bounds, 2, step))
    np.testing.assert_array_equal(*answers)
    want = np.column_stack([(K * L).sum(axis=1), K @ X[:, 0]])
    np.testing.assert_allclose(answers[0], want, rtol=1e-10, atol=1e-12)


def test_bits_do_not_depend_on_threads():
    X = RNG.standard_normal((900, 3))
    A = RNG.standard_normal((120, 120))
    P = np.array([RNG.permutation(120) for _ in range(100)])
    answers = []
    for threads in (1, 3):
        with mercer.config(threads=threads):
            one = joint([RBF(1.0)._bind(X)], 1, lambda tiles, rows, cols: [tiles[0].sum()])
            answers.append([one, shuffled(A, A, P), shuffled_factors(A[:, :9], A[:, 9:14], P)])
    for a, b in zip(*answers, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [0, 1, 17, 40])
def test_shuffled_sums_are_those_of_indexing(size):
    n = 21
    A, L = RNG.standard_normal((2, n, n))
    A, L = A + A.T, L + L.T
    P = np.array([RNG.permutation(n) for _ in range(size)], dtype=int).reshape(size, n)
    want = [np.tril(A * L[np.ix_(p, p)], -1).sum() for p in P]
    np.testing.assert_allclose(shuffled(A, L, P), want, atol=1e-11)
    F, G = RNG.standard_normal((n, 4)), RNG.standard_normal((n, 3))
    want = [np.sum((F.T @ G[p]) ** 2) for p in P]
    np.testing.assert_allclose(shuffled_factors(F, G, P), want, rtol=1e-12)
    for p, q in zip(P, inverses(P), strict=True):
        assert (p[q] == np.arange(n)).all()
