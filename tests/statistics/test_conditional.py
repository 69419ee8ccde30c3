"""Conditional independence: against the plain formula, level and power, degenerate variables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma

from mercer import RBF, FromFunction
from mercer.errors import InvalidInput
from mercer.statistics import hsic, hsic_test, kci_test
from mercer.statistics.conditional import _left_out, _residuals
from mercer.statistics.shuffled_pairs import centred_matrix

RNG = np.random.default_rng(0)
EQUAL = FromFunction(lambda a, b: float(a == b))
NULLS = ["gamma", "spectral", "permutation"]


def fork(rng, n):
    """X ← Z → Y, along curves."""
    z, e = rng.standard_normal(n), rng.standard_normal((2, n))
    return np.sin(2 * z) + 0.5 * e[0], z**2 / 2 + np.tanh(z) + 0.5 * e[1], z


def linked(rng, n):
    """X → Y beside Z."""
    x, _, z = fork(rng, n)
    return x, z + 0.6 * x**2 + 0.5 * rng.standard_normal(n), z


def test_it_is_the_formula():
    x, y, z = RNG.standard_normal((3, 20))
    n, ridge, k = 20, 0.3, RBF(1.0)
    H = np.eye(n) - 1 / n
    Kx, Ky, Kz = (k(v[:, None]) for v in (x, y, z))
    R = ridge * np.linalg.inv(H @ Kz @ H + ridge * np.eye(n)) @ H
    A, B = R @ (Kx * Kz) @ R.T, R @ Ky @ R.T
    want = np.trace(A @ B) / n
    result = kci_test(x, y, z, k, k, k, ridge=ridge)
    assert result.statistic == pytest.approx(want, rel=1e-10)
    assert result.extra["ridges"] == (ridge, ridge)
    mean = (A.diagonal() * B.diagonal()).sum() / n
    variance = 2 * ((A * B) ** 2).sum() / n**2
    tail = gamma.sf(want, mean**2 / variance, scale=variance / mean)
    assert result.pvalue == pytest.approx(tail, rel=1e-8)
    assert "asymptotic" in result.method and result.null is None
    drawn = kci_test(x, y, z, k, k, k, 4000, 0, ridge=ridge, null="spectral")
    assert drawn.null.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.null.var() == pytest.approx(variance, rel=0.2)
    assert drawn.pvalue == pytest.approx(tail, abs=0.03) and "asymptotic" in drawn.method
    moved = kci_test(x, y, z, k, k, k, 30, 7, ridge=ridge, null="permutation")
    p = np.random.default_rng(7).permuted(np.tile(np.arange(n), (30, 1)), axis=1)[0]
    assert moved.null[0] == pytest.approx(np.trace(A @ B[np.ix_(p, p)]) / n, rel=1e-9)
    assert "approximate" in moved.method


def test_the_ridge_is_that_of_leaving_rows_out():
    n, z = 25, RNG.standard_normal((25, 1))
    F = np.column_stack([np.sin(2 * z[:, 0]), z[:, 0] ** 2]) + 0.3 * RNG.standard_normal((n, 2))
    F -= F.mean(axis=0)
    K = RBF(0.7)(z)
    values, U = np.linalg.eigh(centred_matrix(K.copy()))

    def left_out(ridge):
        total = 0.0
        for i in range(n):
            some = np.delete(np.arange(n), i)
            B = K[np.ix_(some, some)] + ridge * np.eye(n - 1)
            S = np.linalg.inv(B)
            mean = S.sum(axis=0) @ F[some] / S.sum()
            total += np.sum((F[i] - mean - K[i, some] @ S @ (F[some] - mean)) ** 2)
        return total

    chosen = _left_out(F @ F.T, np.maximum(values, 0), U)
    at = left_out(chosen)
    for factor in (1 / 3, 3):
        assert at <= left_out(chosen * factor)
    R = _residuals(F @ F.T, type("P", (), {"values": values, "vectors": U}), chosen)[0]
    assert R.sum() == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_level_of_the_asymptotic_nulls(null):
    rng = np.random.default_rng(1)
    p = [kci_test(*fork(rng, 60), null=null, n_permutations=99, rng=rng).pvalue for _ in range(200)]
    assert np.mean(np.array(p) <= 0.05) <= 0.07  # conservative at such sizes
    assert np.mean(np.array(p) <= 0.5) >= 0.2


def test_level_of_shuffled_residuals():
    rng = np.random.default_rng(2)
    options = {"null": "permutation", "n_permutations": 99}
    p = [kci_test(*fork(rng, 60), rng=rng, **options).pvalue for _ in range(200)]
    assert 0.01 <= np.mean(np.array(p) <= 0.05) <= 0.11  # said to be up to 9 %


@pytest.mark.parametrize("null", NULLS)
def test_power(null):
    rng = np.random.default_rng(3)
    options = {"null": null, "n_permutations": 99, "rng": 0}
    found = [kci_test(*linked(rng, 100), **options).pvalue <= 0.05 for _ in range(30)]
    assert np.mean(found) >= 0.9
    x, y, _ = fork(rng, 200)
    assert hsic_test(x, y, null="gamma").pvalue < 0.05  # dependent, but for Z


def test_a_discrete_condition_with_strata():
    rng = np.random.default_rng(4)
    z = rng.integers(0, 3, 90)
    x, y = 2 * z + rng.standard_normal((2, 90))
    words = [str(v) for v in z]
    options = {"null": "permutation", "strata": z, "rng": 0, "n_permutations": 199}
    assert kci_test(x, y, words, kernel_z=EQUAL, **options).pvalue > 0.05
    assert kci_test(x, y + x, words, kernel_z=EQUAL, **options).pvalue < 0.02
    assert kci_test(x, y + x, words, kernel_z=EQUAL).pvalue < 0.02


def test_a_constant_condition_leaves_hsic():
    x, y = RNG.standard_normal((2, 30))
    result = kci_test(x, y, np.zeros(30))
    assert result.statistic == pytest.approx(30 * hsic(x, y), rel=1e-9)
    assert result.extra["ridges"] == (np.inf, np.inf)


@pytest.mark.parametrize("null", NULLS)
def test_constants_depend_on_nothing(null):
    x, z = RNG.standard_normal((2, 20))
    result = kci_test(x, np.ones(20), z, null=null, n_permutations=9, rng=0)
    assert result.statistic == 0.0 and result.pvalue == 1.0
    result = kci_test(np.ones(20), x, np.ones(20), null=null, n_permutations=9, rng=0)
    assert result.statistic == 0.0 and result.pvalue == 1.0


def test_precomputed_and_repeated_rows():
    x, y, z = (RNG.standard_normal((16, 2)) for _ in range(3))
    k = RBF(1.5)
    want = kci_test(x, y, z, k, k, k)
    got = kci_test(k(x), k(y), k(z), "precomputed", "precomputed", "precomputed")
    assert got.pvalue == pytest.approx(want.pvalue, rel=1e-9)
    twice = kci_test(*(np.vstack([v, v]) for v in (x, y, z)), k, k, k)
    assert 0 < twice.pvalue <= 1


V = RNG.standard_normal((8, 1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kci_test(V, V, None), "hsic_test"),
        (lambda: kci_test(V, V[:5], V), "8 rows and Y has 5"),
        (lambda: kci_test(V, V, V[:5]), "Z has 5"),
        (lambda: kci_test(V[:3], V[:3], V[:3]), "at least 4"),
        (lambda: kci_test(V, V, V, null="exact"), "null='exact'"),
        (lambda: kci_test(V, V, V, ridge=0), "ridge=0"),
        (lambda: kci_test(V, V, V, ridge="gcv"), "ridge='gcv'"),
        (lambda: kci_test(V, V, V, strata=np.zeros(8)), "strata"),
        (lambda: kci_test(V, V, V * np.nan), "NaN"),
        (lambda: kci_test(V, V, ["a"] * 8), "give a kernel"),
        (lambda: kci_test(V, V, V, null="spectral", n_permutations=0), "n_permutations"),
    ],
)
def test_what_cannot_be_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
