"""Moments over permutations: against all n! of them, against draws, and laws that have them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import gamma, pearson3

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.statistics import hsic_test
from mercer.statistics.dependence.moments import (
    ShuffleMoments,
    gamma_tail,
    invariants,
    pearson_tail,
    permutation_moments,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_numbers():
    """Let the numbers of a test not depend on the tests before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


def centred(n, hollow=False):
    A = RNG.standard_normal((n, n)) + 0.3 * np.outer(np.arange(n), np.arange(n))
    A = A + A.T
    H = np.eye(n) - 1 / n
    A = H @ A @ H
    if hollow:  # U-centred: 0 on the diagonal and in every row
        r = A.sum(axis=1) - A.diagonal()
        A = A - (r[:, None] + r) / (n - 2) + r.sum() / (n - 1) / (n - 2)
        np.fill_diagonal(A, 0)
    return A


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("hollow", [False, True])
def test_they_are_those_of_all_permutations(n, hollow):
    if hollow and n < 4:  # nothing but 0 is U-centred
        return
    A, L = centred(n, hollow), centred(n)
    every = np.array([(A * L[np.ix_(p, p)]).sum() for p in map(list, permutations(range(n)))])
    got = permutation_moments(invariants(A.copy()), invariants(L.copy()), n)
    size = np.linalg.norm(A) * np.linalg.norm(L)
    assert got.mean == pytest.approx(every.mean(), abs=1e-12 * size)
    assert got.variance == pytest.approx(every.var(), abs=1e-12 * size**2)
    third = ((every - every.mean()) ** 3).mean()
    assert got.third == pytest.approx(third, abs=1e-12 * size**3)


def test_they_are_those_of_kazi_aoual():
    n = 30
    A, L = centred(n), centred(n)

    def parts(B):
        return np.trace(B), (B**2).sum(), (B.diagonal() ** 2).sum()

    (t, t2, s2), (u, u2, v2) = parts(A), parts(L)
    first = 2 * ((n - 1) * t2 - t**2) * ((n - 1) * u2 - u**2) / ((n - 1) ** 2 * (n + 1) * (n - 2))
    left = n * (n + 1) * s2 - (n - 1) * (t**2 + 2 * t2)
    right = n * (n + 1) * v2 - (n - 1) * (u**2 + 2 * u2)
    variance = first + left * right / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    got = permutation_moments(invariants(A.copy()), invariants(L.copy()), n)
    assert got.mean == pytest.approx(t * u / (n - 1), rel=1e-12)
    assert got.variance == pytest.approx(variance, rel=1e-10)


def test_they_are_those_of_many_draws():
    n = 40
    x, y = RNG.standard_normal((n, 2)), RNG.standard_normal((n, 3))
    for estimator in ("biased", "unbiased"):
        exact = hsic_test(x, y, null="moments", estimator=estimator)
        drawn = hsic_test(x, y, n_permutations=20000, rng=0, estimator=estimator)
        assert exact.statistic == pytest.approx(drawn.statistic, rel=1e-9)
        spread = exact.extra["variance"] ** 0.5
        assert abs(drawn.null.mean() - exact.extra["mean"]) < 5 * spread / 20000**0.5
        assert drawn.null.var() == pytest.approx(exact.extra["variance"], rel=0.06)
        z = (drawn.null - exact.extra["mean"]) / spread
        assert (z**3).mean() == pytest.approx(exact.extra["skewness"], abs=0.15)
        low, high = drawn.confidence_interval(0.999)
        assert low - 0.01 < exact.pvalue < high + 0.01
        assert exact.null is None and "approximate" in exact.method


def test_small_tails_agree_with_draws():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(30)
    y = 0.75 * x + rng.standard_normal(30)
    exact = hsic_test(x, y, null="moments").pvalue
    drawn = hsic_test(x, y, n_permutations=20000, rng=0).pvalue
    assert exact == pytest.approx(drawn, rel=0.25) and 0.001 < drawn < 0.05


def test_a_mean_that_drowns_the_spread_does_not_harm():
    n = 8
    A, L = centred(n), centred(n)
    big = np.eye(n) - 1 / n
    plain = permutation_moments(invariants(A.copy()), invariants(L.copy()), n)
    moved = permutation_moments(invariants(A + 1e6 * big), invariants(L + 1e6 * big), n)
    assert moved.variance == pytest.approx(plain.variance, rel=1e-8)
    assert moved.third == pytest.approx(plain.third, rel=1e-7)


def test_blocks_of_rows_do_not_matter():
    A = centred(50)
    want = invariants(A.copy())
    with mercer.config(memory=20_000):
        got = invariants(A.copy())
    for name, value in want.items():
        assert got[name] == pytest.approx(value, rel=1e-10, abs=1e-9), name


def test_tails_are_those_of_the_laws_and_never_0():
    m = ShuffleMoments(2.0, 4.0, 8.0)
    assert m.skewness == 1.0
    assert pearson_tail(5.0, m) == pytest.approx(pearson3.sf(1.5, 1.0))
    assert gamma_tail(5.0, 2.0, 4.0) == pytest.approx(gamma.sf(5.0, 1.0, scale=2.0))
    assert pearson_tail(1e9, m) > 0 and gamma_tail(1e9, 2.0, 4.0) > 0
    assert pearson_tail(1.0, ShuffleMoments(1.0, 0.0, 0.0)) == 1.0
    assert gamma_tail(1.0, 0.0, 0.0) == 1.0


def test_too_large_for_the_budget_is_said_before_any_work():
    x = RNG.standard_normal((300, 5))
    with mercer.config(memory=500_000), pytest.raises(MemoryBudgetExceeded, match="gamma"):
        hsic_test(x, x, null="moments")
