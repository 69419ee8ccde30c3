"""Tests by factors of low rank: exact at full rank, right errors, right level at any rank."""

import numpy as np
import pytest
from scipy.stats import binom

import mercer
from mercer import RBF, Laplacian
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import (
    hsic_agg_test,
    hsic_split_test,
    hsic_test,
    kci_test,
    ksd,
    ksd_test,
    mmd_agg_test,
    mmd_split_test,
)

KERNELS = [RBF(1.3), RBF(0.4), Laplacian(2.0)]


@pytest.fixture
def samples(rng):
    return rng.normal(size=(33, 2)), rng.normal(0.5, size=(28, 2))


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(50, 2))
    return x, x[:, :1] ** 2 + 0.5 * rng.normal(size=(50, 1))


def agree(a, b, tol=1e-7):
    np.testing.assert_allclose(b.extra["statistics"], a.extra["statistics"], rtol=tol, atol=1e-12)


# ------------------------------------------------------------------------------------ full rank
@pytest.mark.parametrize("null", ["permutation", "wild"])
@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_full_rank_is_exact_for_two_samples(samples, null, estimator, rng):
    X, Y = samples[0][:28], samples[1]
    options = {"kernels": KERNELS, "n_permutations": 29, "null": null, "estimator": estimator}
    a, b = mmd_agg_test(X, Y, **options, rng=1), mmd_agg_test(X, Y, **options, rank=99, rng=1)
    agree(a, b)
    assert b.extra["trace_error"].max() < 1e-8 and b.extra["rank"].max() <= 56
    assert "of rank 56" in b.method and b.extra["kernels"] == a.extra["kernels"]


def test_full_rank_is_exact_for_weights(samples, rng):
    X, Y = samples
    for weights in (
        [rng.integers(1, 4, len(X)), rng.integers(0, 3, len(Y))],
        [rng.uniform(0.5, 2, len(X)), rng.uniform(0.5, 2, len(Y))],
    ):
        options = {"kernels": KERNELS, "n_permutations": 9, "sample_weight": weights, "rng": 1}
        agree(mmd_agg_test(X, Y, **options), mmd_agg_test(X, Y, **options, rank=99))


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_full_rank_is_exact_for_pairs(pair, estimator, rng):
    options = {"kernels_x": KERNELS, "n_permutations": 9, "estimator": estimator, "rng": 1}
    for w in (None, rng.integers(0, 3, 50), rng.uniform(0.5, 2, 50)):
        a = hsic_agg_test(*pair, **options, sample_weight=w)
        b = hsic_agg_test(*pair, **options, sample_weight=w, rank=200)
        agree(a, b, 1e-6)
        assert b.extra["rank"].shape == (15, 2) == b.extra["trace_error"].shape


def test_full_rank_chooses_the_same_kernels(samples, pair, rng):
    X, Y = samples
    for w in (None, [rng.integers(1, 4, len(X)), rng.integers(1, 3, len(Y))]):
        options = {"n_permutations": 9, "sample_weight": w}
        a, b = (mmd_split_test(X, Y, rng=2, **options, rank=rank) for rank in (None, 99))
        np.testing.assert_allclose(a.extra["criteria"], b.extra["criteria"], rtol=1e-6)
        assert a.statistic == pytest.approx(b.statistic, rel=1e-6)
    for w in (None, rng.integers(1, 3, 50), rng.uniform(0.5, 2, 50)):
        options = {"n_permutations": 9, "sample_weight": w, "kernels_x": [RBF(1.0), RBF(0.3)]}
        a, b = (hsic_split_test(*pair, rng=2, **options, rank=rank) for rank in (None, 200))
        np.testing.assert_allclose(a.extra["criteria"], b.extra["criteria"], rtol=1e-5)
        assert a.statistic == pytest.approx(b.statistic, rel=1e-6)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_full_rank_is_exact_for_stein(rng, estimator):
    x = rng.normal(0.3, size=(60, 2))
    for w in (None, rng.integers(0, 3, 60), rng.uniform(0.5, 2, 60)):
        options = {"estimator": estimator, "sample_weight": w}
        exact = ksd(x, lambda x: -x, **options)
        assert ksd(x, lambda x: -x, **options, rank=500, rng=0) == pytest.approx(exact, rel=1e-8)


# ---------------------------------------------------------------------------------------- errors
def test_errors_bound_the_distance(samples, pair, rng):
    exact = mmd_agg_test(*samples, KERNELS, 9, 0)
    pairs = hsic_agg_test(*pair, KERNELS, n_permutations=9, rng=0)
    x = rng.normal(0.3, size=(80, 2))
    X, Y = samples[0][:28], samples[1]
    for rank in (1, 4, 12):
        low = mmd_agg_test(*samples, KERNELS, 9, 0, rank=rank)
        gap = np.abs(low.extra["statistics"] - exact.extra["statistics"])
        assert (gap <= low.extra["approximation_error"] + 1e-14).all()
        assert (low.extra["rank"] == rank).all() and (low.extra["trace_error"] > 0).all()
        for estimator in ("biased", "unbiased"):
            options = {"null": "wild", "estimator": estimator}
            wild = mmd_agg_test(X, Y, KERNELS, 9, 0, **options)
            low = mmd_agg_test(X, Y, KERNELS, 9, 0, **options, rank=rank)
            gap = np.abs(low.extra["statistics"] - wild.extra["statistics"])
            assert (gap <= low.extra["approximation_error"] + 1e-14).all()
        low = hsic_agg_test(*pair, KERNELS, n_permutations=9, rng=0, rank=rank)
        gap = np.abs(low.extra["statistics"] - pairs.extra["statistics"])
        assert (gap <= low.extra["approximation_error"] + 1e-14).all()
        for estimator in ("biased", "unbiased"):
            wanted = ksd(x, lambda x: -x, RBF(0.5), estimator)
            options = {"estimator": estimator, "rank": rank, "rng": 0}
            found = ksd_test(x, lambda x: -x, RBF(0.5), 9, **options)
            assert abs(found.statistic - wanted) <= found.extra["approximation_error"]
            assert found.extra["rank"] == rank and 0 < found.extra["trace_error"] < 1
    split = mmd_split_test(*samples, rng=0, n_permutations=9, rank=3)
    assert split.extra["rank"] == 3 and split.extra["trace_error"] > 0
    split = hsic_split_test(*pair, rng=0, n_permutations=9, rank=3)
    assert split.extra["rank"] == (3, 3)


# ----------------------------------------------------------------------------------------- level
def rejections(test, repeats=200):
    return sum(test(np.random.default_rng(seed)).pvalue <= 0.1 for seed in range(repeats))


def inside(count, repeats=200):
    low, high = binom.ppf([0.001, 0.999], repeats, 0.1)
    return low <= count <= high


def test_level_at_a_very_low_rank():
    def two(rng):
        X, Y = rng.normal(size=(15, 2)), rng.normal(size=(12, 2))
        return mmd_agg_test(X, Y, KERNELS, 19, rng, rank=2)

    def pairs(rng):
        X, Y = rng.normal(size=(16, 1)), rng.normal(size=(16, 1))
        return hsic_agg_test(X, Y, n_permutations=19, rng=rng, n_bandwidths=2, rank=2)

    def stein(rng):
        return ksd_test(rng.normal(size=(60, 1)), lambda x: -x, RBF(1.0), 19, rng, rank=3)

    for test in (two, pairs, stein):
        assert inside(rejections(test)), test.__name__


def test_power(samples, pair, rng):
    assert mmd_agg_test(*samples, rng=0, rank=10).pvalue < 0.05
    assert hsic_agg_test(*pair, rng=0, n_permutations=199, rank=10).pvalue < 0.05
    assert ksd_test(rng.normal(0.5, size=(200, 1)), lambda x: -x, rng=0, rank=5).pvalue == 0.001


# ------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("rank", [0, -1, 2.5, "all", True])
def test_bad_ranks(samples, pair, rank):
    for test, given in (
        (mmd_agg_test, samples),
        (mmd_split_test, samples),
        (hsic_agg_test, pair),
        (hsic_split_test, pair),
        (ksd_test, (samples[0], lambda x: -x)),
    ):
        with pytest.raises(InvalidInput, match="rank"):
            test(*given, rank=rank, n_permutations=9)


def test_memory(rng):
    X, Y = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 1))
    with mercer.config(memory="3MB"):
        with pytest.raises(MemoryBudgetExceeded, match="smaller rank"):
            mmd_agg_test(X, Y, KERNELS, rank=500)
        with pytest.raises(MemoryBudgetExceeded, match="smaller rank"):
            hsic_agg_test(X, Y, KERNELS, KERNELS, rank=500)
        with pytest.raises(MemoryBudgetExceeded, match="smaller rank"):
            ksd_test(X, lambda x: -x, rank=500)


def test_one_point_and_copies(rng):
    one = np.ones((5, 1))
    assert mmd_agg_test(one, one, KERNELS, 19, 0, rank=3).pvalue == 1.0
    assert hsic_agg_test(one, one, KERNELS, KERNELS, 19, 0, rank=3).pvalue == 1.0
    assert mmd_agg_test(one[:1], 2 * one, KERNELS, 19, 0, rank=3, estimator="biased").pvalue <= 1


# ------------------------------------------------------------------------------------ conditional
def chain(rng, n=80, d=1, direct=0.0):
    z = rng.normal(size=(n, d))
    x = np.sin(z[:, 0]) + 0.4 * rng.normal(size=n)
    return x, np.cos(z[:, 0]) + direct * x + 0.4 * rng.normal(size=n), z


def test_full_rank_is_exact_for_conditional_dependence(rng):
    x, y, z = chain(rng, 60)
    for w in (None, rng.integers(0, 3, 60), rng.uniform(0.5, 2, 60)):
        for null in ("gamma", "spectral", "permutation"):
            options = {"kernel_z": RBF(1.0), "ridge": 0.5, "null": null, "sample_weight": w}
            a = kci_test(x, y, z, **options, rng=0, n_permutations=99)
            b = kci_test(x, y, z, **options, rng=0, n_permutations=99, rank=60)
            assert a.statistic == pytest.approx(b.statistic, rel=1e-6)
            assert a.extra["explained_x"] == pytest.approx(b.extra["explained_x"], abs=2e-3)
            slack = 1e-6 if null == "gamma" else 0.15
            assert a.pvalue == pytest.approx(b.pvalue, abs=slack)
    for columns in (z, rng.normal(size=(60, 2))):
        a, b = (kci_test(x, y, columns, rng=0, rank=rank) for rank in (None, 60))
        assert a.pvalue == pytest.approx(b.pvalue, abs=0.02)
        assert a.extra["explained_y"] == pytest.approx(b.extra["explained_y"], abs=0.02)


def test_conditional_dependence_of_many_rows(rng, monkeypatch):
    monkeypatch.setattr("mercer.statistics.dependence.conditioning.TUNED", 100)
    monkeypatch.setattr("mercer.statistics.dependence.conditioning.LAW", 150)
    for direct, low, high in ((0.0, 0.05, 1.0), (0.8, 0.0, 0.01)):
        x, y, z = chain(rng, 300, 2, direct)
        whole = kci_test(x, y, z, rng=0)
        for null in ("gamma", "spectral", "permutation"):
            found = kci_test(x, y, z, rng=0, rank=60, null=null, n_permutations=199)
            assert low <= found.pvalue <= high
            assert found.extra["explained_x"] == pytest.approx(whole.extra["explained_x"], abs=0.1)
        assert len(found.extra["rank"]) == len(found.extra["trace_error"]) == 3
        assert "kernels of rank 60" in found.method


def test_part_of_the_rows_tells_the_law(rng, monkeypatch):
    from mercer.statistics.dependence import conditioning

    first, second = rng.normal(size=(600, 3)), rng.normal(size=(600, 2))
    w = rng.uniform(0.5, 2.0, 600)
    A, B = first @ first.T, second @ second.T
    law = np.outer(w, w) * A * B / w.sum()
    for some, tol in ((600, 1e-10), (200, 0.2)):
        monkeypatch.setattr(conditioning, "LAW", some)
        ranked = conditioning.RankedResiduals(first, second, w, False, rng)
        assert ranked.statistic == pytest.approx(float(w @ (A * B) @ w) / w.sum())
        mean, variance = ranked.moments()
        assert mean == pytest.approx(np.trace(law))
        assert variance == pytest.approx(2 * float((law**2).sum()), rel=tol)
        top = np.linalg.eigvalsh(law)[-6:], np.linalg.eigvalsh(ranked.law())[-6:]
        np.testing.assert_allclose(*top, rtol=2 * tol + 1e-8)


def test_conditional_bad_input(rng):
    x, y, z = chain(rng, 20)
    for rank in (0, 1.5, "all", True):
        with pytest.raises(InvalidInput, match="rank"):
            kci_test(x, y, z, rank=rank)
    assert kci_test(np.ones(20), y, z, RBF(1.0), rank=5).pvalue >= 0.0
    assert kci_test(x, y, np.ones(20), kernel_z=RBF(1.0), rank=5).pvalue >= 0.0
    with (
        mercer.config(memory="100kB"),
        pytest.raises(MemoryBudgetExceeded, match="smaller rank"),
    ):
        kci_test(*chain(rng, 500), rank=100)


def test_the_rank_that_is_told_is_the_rank_reached(rng):
    """Of ten rows no kernel has rank a million."""
    x, y = rng.normal(size=(2, 10, 1))
    many, draws = {"rank": 10**6}, {"n_permutations": 19, "rng": 0}
    for found in (
        hsic_test(x, y, **many, **draws),
        kci_test(x, y, rng.normal(size=10), rng=0, **many),
        mmd_agg_test(x, y, n_bandwidths=2, **many, **draws),
        hsic_agg_test(x, y, n_bandwidths=2, **many, **draws),
    ):
        largest = int(np.max(found.extra["rank"]))
        assert largest <= 20 and f"of rank {largest}" in found.method
