"""Sums over shuffled matrices: against plain indexing, by bands of rows, with read-only input."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.jit.tiles import add_shuffled, multiply_shuffled

RNG = np.random.default_rng(0)


def symmetric(n):
    A = RNG.standard_normal((n, n))
    return A + A.T


def twin(A, L, p):
    return float(np.tril(A * L[np.ix_(p, p)], -1).sum())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 33])
def test_it_is_the_sum_over_the_lower_half(n):
    A, L = symmetric(n), symmetric(n)
    P = np.array([RNG.permutation(n) for _ in range(5)])
    out = np.zeros(5)
    add_shuffled(A, L, 0, P, np.argsort(P, axis=1), out)
    np.testing.assert_allclose(out, [twin(A, L, p) for p in P], atol=1e-12 * n * n)


def test_bands_of_rows_add_up_and_the_upper_half_is_not_read():
    A, L = symmetric(12), symmetric(12)
    P = np.array([RNG.permutation(12) for _ in range(3)])
    Q, out = np.argsort(P, axis=1), np.full(3, 10.0)
    A = np.where(np.tri(12, k=-1, dtype=bool), A, np.nan)
    for start in (0, 5, 6):
        stop = {0: 5, 5: 6, 6: 12}[start]
        add_shuffled(A, L[start:stop], start, P, Q, out)
    want = [10 + twin(np.nan_to_num(A), L, p) for p in P]
    np.testing.assert_allclose(out, want, atol=1e-11)


def test_inputs_may_be_read_only():
    A, L, P = symmetric(6), symmetric(6), RNG.permutation(6)[None]
    Q = np.argsort(P, axis=1)
    for array in (A, L, P, Q):
        array.setflags(write=False)
    out = np.zeros(1)
    add_shuffled(A, L, 0, P, Q, out)
    np.testing.assert_allclose(out, twin(A, L, P[0]))


@pytest.mark.parametrize("n", [1, 2, 5, 33])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_products_of_several_are_summed_over_the_lower_half(n, count):
    K = np.stack([symmetric(n) for _ in range(count + 1)])
    P = np.array([[RNG.permutation(n) for _ in range(count)] for _ in range(4)])
    out = np.full(4, np.nan)
    multiply_shuffled(K, P, np.empty(n), out)
    for draw, found in zip(P, out, strict=True):
        moved = [M[np.ix_(p, p)] for M, p in zip(K[1:], draw, strict=True)]
        want = np.tril(np.prod([K[0], *moved], axis=0), -1).sum()
        np.testing.assert_allclose(found, want, atol=1e-11 * n * n)
