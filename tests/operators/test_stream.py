"""Folds over bands of rows: sums, budgets, threads."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction
from mercer.errors import MemoryBudgetExceeded
from mercer.operators import sums

rng = np.random.default_rng(3)
X, U = rng.standard_normal((1203, 3)), rng.standard_normal((17, 3))


def _square(bound, **options):
    def step(sums, rows, T):
        sums[0] += T.T @ T
        sums[1] += T.sum(0)

    return sums.fold(bound, ((17, 17), (17,)), step, **options)


def test_a_fold_is_the_sum_over_all_rows():
    bound, K = RBF(1.5)._bind(X, U), RBF(1.5)(X, U)
    for memory in ("1GB", 40_000, 100_000):
        with mercer.config(memory=memory):
            square, total = _square(bound)
        np.testing.assert_allclose(square, K.T @ K, rtol=1e-12)
        np.testing.assert_allclose(total, K.sum(0), rtol=1e-12)


@pytest.mark.parametrize("entries", [sums.ENTRIES, 500])
def test_bits_do_not_depend_on_threads(entries, monkeypatch):
    monkeypatch.setattr(sums, "ENTRIES", entries)
    monkeypatch.setattr(sums, "ROWS", 3)
    monkeypatch.setattr(sums, "ROUND", 2)
    many = rng.standard_normal((30_000, 3))
    answers = []
    for threads in (1, 2, 5):
        with mercer.config(threads=threads):
            answers.append(_square(RBF()._bind(many, U))[0])
    assert all(np.array_equal(answers[0], other) for other in answers[1:])


def test_a_fold_stays_inside_its_budget():
    many = rng.standard_normal((20_000, 2))
    bound = RBF()._bind(many, U[:, :2])
    with mercer.config(memory=300_000, threads=8):
        _square(bound)
        tracemalloc.start()
        _square(bound)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 330_000


def test_a_budget_too_small_for_one_row_is_refused():
    with mercer.config(memory=2000), pytest.raises(MemoryBudgetExceeded, match="inducing"):
        _square(RBF()._bind(X, U))


def test_no_rows_and_a_function_of_points():
    empty = sums.fold(RBF()._bind(X[:0], U), ((2, 2),), lambda *_: None)
    np.testing.assert_array_equal(empty[0], np.zeros((2, 2)))
    kernel = FromFunction(lambda a, b: float(a @ b))
    bound = kernel._bind(kernel.domain.check(X[:40]), kernel.domain.check(U))
    square, _ = _square(bound)
    np.testing.assert_allclose(square, U @ X[:40].T @ X[:40] @ U.T, rtol=1e-10)


def test_steps_may_overwrite_their_tile_but_not_the_data():
    K = RBF()(X[:30])
    kernel = mercer.Precomputed()
    before = K.copy()

    def step(rows, T):
        T *= 0
        return T.sum(1)

    sums.spread(kernel._bind(K), np.empty(30), step)
    np.testing.assert_array_equal(K, before)


def test_spread_writes_every_row():
    out = sums.spread(RBF()._bind(X, U), np.empty((len(X), 2)), lambda rows, T: T[:, :2])
    np.testing.assert_allclose(out, RBF()(X, U)[:, :2], rtol=1e-12)
