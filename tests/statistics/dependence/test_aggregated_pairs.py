"""Aggregated tests of independence: criteria by hsic, one set of shuffles, level and power."""

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import RBF, Laplacian, Linear
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import hsic, hsic_agg_test, hsic_test


def related(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, x[:, :1] ** 2 + rng.normal(size=(n, 1))


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
def test_criteria_are_those_of_hsic(estimator, weights):
    X, Y = related(14)
    rng = np.random.default_rng(1)
    w = {"none": None, "counts": rng.integers(0, 3, 14), "fractions": rng.uniform(0.5, 2, 14)}
    kx, ky = [RBF(0.5), Linear(), "laplacian"], [RBF(2.0), Laplacian(1.0)]
    result = hsic_agg_test(X, Y, kx, ky, 9, 0, estimator=estimator, sample_weight=w[weights])
    assert len(result.extra["kernels"]) == 6
    for (a, b), statistic in zip(result.extra["kernels"], result.extra["statistics"], strict=True):
        expected = hsic(X, Y, a, b, estimator, sample_weight=w[weights])
        assert statistic == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_shuffles_are_those_of_one_pair_tests():
    X, Y = related(20)
    kx, ky = [RBF(0.5), RBF(2.0)], [RBF(1.0), Laplacian(1.0)]
    together = hsic_agg_test(X, Y, kx, ky, 79, 3)
    T = []
    for i, (a, b) in enumerate(together.extra["kernels"]):
        alone = hsic_test(X, Y, a, b, 79, 3)
        assert alone.pvalue == together.extra["pvalues"][i]
        T.append(np.concatenate([[alone.statistic], alone.null]))
    z = stats.zscore(np.array(T).T, axis=0).max(1)
    np.testing.assert_allclose(together.null, z[1:], atol=1e-8)
    assert together.pvalue == (1 + (z[1:] >= z[0] - 1e-9).sum()) / 80
    assert together.sizes == (20,)


def test_counts_are_repeated_rows_and_budgets_do_not_matter():
    X, Y = related(15)
    w = np.array([1, 2, 0, 1, 1, 3, 1, 1, 0, 1, 2, 1, 1, 1, 1])
    a = hsic_agg_test(X, Y, None, None, 29, 3, sample_weight=w)
    rows = np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0)
    b = hsic_agg_test(*rows, None, None, 29, 3)
    np.testing.assert_allclose(a.null, b.null, atol=1e-8)
    assert a.pvalue == b.pvalue
    X, Y = related(120)
    whole = hsic_agg_test(X, Y, None, None, 9, 3, n_bandwidths=2)
    with mercer.config(memory="500KB"):  # all four matrices take 460 kB
        tight = hsic_agg_test(X, Y, None, None, 9, 3, n_bandwidths=2)
    np.testing.assert_allclose(tight.null, whole.null, atol=1e-8)


def test_level_is_in_the_band_of_chance():
    rng = np.random.default_rng(5)
    pvalues = np.array(
        [
            hsic_agg_test(
                rng.normal(size=20), rng.exponential(size=20), None, None, 99, rng, n_bandwidths=2
            ).pvalue
            for _ in range(1000)
        ]
    )
    for level in (0.05, 0.01):
        low, high = stats.binom.ppf([0.005, 0.995], 1000, level)
        assert low <= (pvalues <= level + 1e-12).sum() <= high


def test_finds_waves_that_the_median_distance_does_not():
    rng = np.random.default_rng(6)
    found = median = 0
    for _ in range(25):
        x = rng.uniform(-1, 1, size=100)
        y = np.sin(16 * x) + 0.2 * rng.normal(size=100)
        found += hsic_agg_test(x, y, None, None, 99, rng).pvalue <= 0.05
        median += hsic_test(x, y, None, None, 99, rng).pvalue <= 0.05
    assert found >= 20
    assert median <= 12


def test_finds_links_within_clusters_far_apart():
    pvalues = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        u = rng.normal(size=250)
        v = 0.97 * u + 0.25 * rng.normal(size=250)
        x, y = (10.0 * rng.integers(0, 20, size=250) + inner for inner in (u, v))
        pvalues.append(hsic_agg_test(x, y, None, None, 99, 0).pvalue)
    assert np.mean(pvalues) <= 0.15  # 0.6 with bandwidths that begin between clusters


def test_designs_and_kinds_of_data():
    X, Y = related(24)
    for options in ({"blocks": 3}, {"strata": np.tile([0, 1], 12)}):
        result = hsic_agg_test(X, Y, None, None, 49, 1, **options)
        assert 0 < result.pvalue <= 1
    assert "strata" in hsic_agg_test(X, Y, None, None, 9, 1, strata=np.tile([0, 1], 12)).method
    a = hsic_agg_test(X, Y, None, None, 19, 1)
    assert a.pvalue == hsic_agg_test(X, Y, None, None, 19, 1).pvalue
    words = ["ab", "abc", "ba", "abab", "aa", "b", "cc", "ccc"] * 3

    def shared(a, b):
        return float(len(set(a) & set(b)))

    result = hsic_agg_test(words, [len(w) for w in words], [shared], None, 99, 0)
    assert result.pvalue <= 0.05
    K = RBF(1.0)(X)
    given = hsic_agg_test(K, Y, ["precomputed"], [RBF(1.0)], 19, 0)
    assert given.pvalue == hsic_agg_test(X, Y, [RBF(1.0)], [RBF(1.0)], 19, 0).pvalue


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_degenerate_variables(estimator):
    x = np.arange(8.0)
    result = hsic_agg_test(np.ones(8), x, None, None, 19, 0, estimator=estimator)
    assert result.pvalue == 1.0
    assert np.isfinite(result.null).all()
    for scale in (1e-150, 1e150):
        a = hsic_agg_test(scale * x, x**2, None, None, 19, 0, estimator=estimator)
        assert a.pvalue == hsic_agg_test(x, x**2, None, None, 19, 0, estimator=estimator).pvalue
    if estimator == "unbiased":
        with pytest.raises(InvalidInput, match="4 observations"):
            hsic_agg_test(x[:3], x[:3], estimator=estimator)
    else:
        assert hsic_agg_test([1.0], [2.0], None, None, 5, 0).pvalue == 1.0


def test_huge_and_tiny_values_and_counts():
    X, Y = related(20)
    want = hsic_agg_test(X, Y, [Linear(), RBF(1.0)], [Linear()], 49, 0)
    for scale in (1e-150, 1e150):
        kernels = [Linear(), RBF(scale)]
        got = hsic_agg_test(scale * X, Y / scale, kernels, [Linear()], 49, 0)
        assert got.pvalue == want.pvalue
        np.testing.assert_allclose(got.null, want.null, rtol=1e-6)
        assert got.extra["statistics"][0] == pytest.approx(want.extra["statistics"][0], rel=1e-9)
    with pytest.raises(InvalidInput, match="hsic_agg_test: the statistic overflows"):
        hsic_agg_test(1e150 * X, 1e150 * Y, [Linear()], [Linear()], 9, 0)
    w = np.ones(20)
    w[0] = 1e9
    with pytest.raises(MemoryBudgetExceeded, match="hsic_agg_test"):
        hsic_agg_test(X, Y, sample_weight=w)


def test_runs_are_those_of_the_rows_as_given():
    X, Y = related(24)
    w = np.tile([1, 2, 0], 8)
    for weights in (w, w + 0.5 * (w > 0)):
        a = hsic_agg_test(X, Y, [RBF(1.0)], [RBF(1.0)], 29, 1, blocks=3, sample_weight=weights)
        labels = np.arange(24) // 3
        b = hsic_agg_test(X, Y, [RBF(1.0)], [RBF(1.0)], 29, 1, blocks=labels, sample_weight=weights)
        np.testing.assert_array_equal(a.null, b.null)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kernels_x": []}, "list of kernels"),
        ({"kernels_y": [None]}, "holds None"),
        ({"X": ["a", "b", "c", "d"]}, "kernel"),
        ({"Y": [1.0, 2.0]}, "rows"),
        ({"families": "cosine"}, "families"),
        ({"n_bandwidths": 1.5}, "n_bandwidths"),
        ({"estimator": "x"}, "estimator"),
        ({"n_permutations": -1}, "n_permutations"),
        ({"rng": "seed"}, "rng"),
        ({"Y": [1.0, np.nan, 2.0, 3.0]}, "hsic_agg_test"),
        ({"sample_weight": [0, 0, 0, 0]}, "weight"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"X": [1.0, 2.0, 3.0, 4.0], "Y": [1.0, 0.0, 2.0, 5.0]}
    with pytest.raises(InvalidInput, match=message):
        hsic_agg_test(**{**arguments, **change})
