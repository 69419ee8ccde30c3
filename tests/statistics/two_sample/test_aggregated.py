"""Aggregated two-sample tests: statistics by mmd, one set of draws, level and power."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.spatial.distance import pdist

import mercer
from mercer import RBF, Laplacian, Linear, Matern
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import mmd, mmd_agg_test, mmd_split_test, mmd_test
from mercer.statistics.base import combined
from mercer.statistics.kernels import bandwidths
from mercer.statistics.two_sample import aggregated


def two(n, m, d=2, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift


# ------------------------------------------------------------------------------------ statistics
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
@pytest.mark.parametrize("weights", ["none", "counts", "fractions"])
def test_statistics_are_those_of_mmd(estimator, weights):
    X, Y = two(13, 9, shift=0.3)
    rng = np.random.default_rng(1)
    w = None
    if weights == "counts":
        w = (rng.integers(0, 4, 13), rng.integers(0, 4, 9))
    elif weights == "fractions":
        w = (rng.uniform(0.5, 2, 13), rng.uniform(0.5, 2, 9))
    kernels = [RBF(0.5), Linear(), Laplacian(2.0), Matern(1.0, 0.5), 2.0 * RBF([0.1, 3.0]), "rbf"]
    result = mmd_agg_test(X, Y, kernels, 19, 0, estimator=estimator, sample_weight=w)
    for kernel, statistic in zip(result.extra["kernels"], result.extra["statistics"], strict=True):
        expected = mmd(X, Y, kernel, estimator, sample_weight=w)
        assert statistic == pytest.approx(expected, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_counts_are_repeated_rows(estimator):
    X, Y = two(11, 8, shift=0.5)
    w = (np.array([1, 2, 0, 3, 1, 1, 1, 0, 2, 1, 1]), np.array([1, 1, 2, 0, 1, 3, 1, 1]))
    a = mmd_agg_test(X, Y, None, 49, 3, estimator=estimator, sample_weight=w)
    rows = np.repeat(X, w[0], axis=0), np.repeat(Y, w[1], axis=0)
    b = mmd_agg_test(*rows, None, 49, 3, estimator=estimator)
    np.testing.assert_allclose(a.null, b.null, atol=1e-9)
    assert a.pvalue == b.pvalue
    assert (a.sizes, b.sizes) == ((11, 8), (13, 10))  # rows given


def test_draws_are_those_of_one_kernel_tests():
    X, Y = two(14, 10, shift=0.4)
    kernels = [RBF(0.3), RBF(1.0), Laplacian(1.0)]
    together = mmd_agg_test(X, Y, kernels, 99, 7, null="permutation")
    T = []
    for i, kernel in enumerate(kernels):
        alone = mmd_test(X, Y, kernel, 99, 7)
        assert alone.pvalue == together.extra["pvalues"][i]
        T.append(np.concatenate([[alone.statistic], alone.null]))
    z = stats.zscore(np.array(T).T, axis=0).max(1)
    np.testing.assert_allclose(together.null, z[1:], atol=1e-8)
    assert together.statistic == pytest.approx(z[0], abs=1e-8)
    assert together.pvalue == (1 + (z[1:] >= z[0] - 1e-9).sum()) / 100
    # One kernel: the studentised test is the test.
    single = mmd_agg_test(X, Y, RBF(1.0), 99, 7, null="permutation")
    assert single.pvalue == mmd_test(X, Y, RBF(1.0), 99, 7).pvalue


def test_wild_draws_are_those_of_one_kernel_tests():
    X, Y = two(12, 12, shift=0.4)
    together = mmd_agg_test(X, Y, [RBF(0.3), RBF(1.0)], 99, 7, null="wild")
    for i, kernel in enumerate((RBF(0.3), RBF(1.0))):
        alone = mmd_test(X, Y, kernel, 99, 7, null="wild")
        assert alone.pvalue == together.extra["pvalues"][i]
    K = [RBF(s)(np.vstack([X, Y])) for s in (0.3, 1.0)]
    for k, statistic in zip(K, together.extra["statistics"], strict=True):
        H = k[:12, :12] + k[12:, 12:] - k[:12, 12:] - k[12:, :12]
        off = (H.sum() - np.trace(H)) / (12 * 11)
        assert statistic == pytest.approx(off, rel=1e-10)
    blocked = mmd_agg_test(X, Y, [RBF(0.3)], 49, 7, null="wild", blocks=3)
    assert len(np.unique(blocked.null.round(9))) <= 8  # four signs, and −r is as good as r


def test_combinations_by_hand():
    rng = np.random.default_rng(0)
    T = rng.normal(size=(20, 3))
    T[:, 2] = 5.0  # says nothing
    found = combined(T, 1e-12)
    z = stats.zscore(T[:, :2], axis=0)
    np.testing.assert_allclose(found.values, z.max(1))
    ranks = [(T[:, k] >= T[0, k]).sum() / 20 for k in range(2)]
    np.testing.assert_allclose(found.pvalues, [*ranks, 1.0])
    assert found.exceedances == (z.max(1)[1:] >= z.max(1)[0]).sum()
    assert found.largest == z[0].argmax()
    # Nothing but the order of rows changes when rows change places.
    order = rng.permutation(20)
    np.testing.assert_allclose(combined(T[order], 1e-12).values, found.values[order])
    for scale in (1e300, 1e-300):
        np.testing.assert_allclose(combined(scale * T, scale * 1e-12).values, found.values)


def test_single_precision_does_not_change_the_answer(monkeypatch):
    X, Y = two(40, 30, shift=0.3, seed=3)
    double = mmd_agg_test(X, Y, n_permutations=199, rng=5)
    monkeypatch.setattr(aggregated, "EXACT", 10)
    single = mmd_agg_test(X, Y, n_permutations=199, rng=5)
    np.testing.assert_allclose(single.null, double.null, atol=2e-3)
    assert single.pvalue == double.pvalue
    pair = mmd_agg_test(X[:30], Y, n_permutations=199, rng=5, null="wild")
    monkeypatch.setattr(aggregated, "EXACT", 1000)
    assert pair.pvalue == mmd_agg_test(X[:30], Y, n_permutations=199, rng=5, null="wild").pvalue


def test_tiles_and_batches_do_not_change_the_answer():
    X, Y = two(90, 70, shift=0.2, seed=4)
    whole = mmd_agg_test(X, Y, n_permutations=60, rng=1)
    with mercer.config(memory="400KB"):
        tight = mmd_agg_test(X, Y, n_permutations=60, rng=1)
    np.testing.assert_allclose(tight.null, whole.null, atol=1e-7)
    assert tight.pvalue == whole.pvalue


def test_little_memory():
    X, Y = two(1500, 1500)
    mmd_agg_test(X, Y, n_permutations=3, rng=0)  # compiled code is not counted
    tracemalloc.start()
    try:
        with mercer.config(memory="8MB"):
            mmd_agg_test(X, Y, n_permutations=9, rng=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6
    counts = np.ones(1500)
    counts[0] = 1e9
    with pytest.raises(MemoryBudgetExceeded, match=r"mmd_split_test: .* rows that the weights"):
        mmd_split_test(X, Y, n_permutations=9, sample_weight=(counts, None))
    with (
        pytest.warns(UserWarning, match="are these counts"),
        pytest.raises(InvalidInput, match=r"mmd_agg_test: .*count 1000002999 rows"),
    ):
        mmd_agg_test(X, Y, n_permutations=9, sample_weight=(counts, None))


# ---------------------------------------------------------------------------- level and power
def pvalues(make, sets=1000, **options):
    rng = np.random.default_rng(11)
    return np.array(
        [
            mmd_agg_test(*make(rng), None, 99, rng, n_bandwidths=4, **options).pvalue
            for _ in range(sets)
        ]
    )


def within_band(p):
    for level in (0.05, 0.01):
        low, high = stats.binom.ppf([0.005, 0.995], len(p), level)
        assert low <= (p <= level + 1e-12).sum() <= high
    assert p.min() >= 0.01


@pytest.mark.parametrize("null, n, m", [("permutation", 14, 11), ("wild", 16, 16)])
def test_level_is_in_the_band_of_chance(null, n, m):
    p = pvalues(lambda rng: (rng.normal(size=(n, 2)), rng.normal(size=(m, 2))), null=null)
    within_band(p)


def test_level_of_samples_that_were_sorted():
    """The default does not look at the order of rows; signs of pairs would."""
    p = pvalues(lambda rng: (np.sort(rng.normal(size=60)), np.sort(rng.normal(size=60))), 500)
    within_band(p)


def test_level_where_neighbours_decide_the_smallest_bandwidth(monkeypatch):
    monkeypatch.setattr("mercer.statistics.kernels.NEIGHBOURS", 0.5)

    def blobs(rng):
        Z = 10.0 * rng.integers(0, 3, size=(24, 2)) + rng.normal(size=(24, 2))
        return Z[:13], Z[13:]

    within_band(pvalues(blobs, 600))


def test_finds_what_differs_within_blobs_far_apart():
    """Gretton's blobs: 5 × 5 centres, of which those of one sample are round, the others not."""
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / 2**0.5
    for seed in range(4):
        rng = np.random.default_rng(seed)
        centres = 10.0 * rng.integers(0, 5, size=(2, 250, 2))
        X = centres[0] + rng.normal(size=(250, 2))
        Y = centres[1] + (rng.normal(size=(250, 2)) * [3.0, 1.0]) @ turn.T
        result = mmd_agg_test(X, Y, None, 99, 0)
        assert result.pvalue <= 0.05
        kernel = result.extra["kernel"]
        assert kernel.length_scale < 4


def test_finds_ripples_that_the_median_distance_does_not():
    rng = np.random.default_rng(12)

    def rippled(n):
        # density 1 + cos(2π·4x) on [0, 1], by rejection
        x = rng.uniform(size=8 * n)
        return x[rng.uniform(size=8 * n) * 2 < 1 + np.cos(8 * np.pi * x)][:n]

    found = median = 0
    for _ in range(40):
        x, y = rng.uniform(size=150), rippled(150)
        found += mmd_agg_test(x, y, None, 99, rng).pvalue <= 0.05
        median += mmd_test(x, y, None, 99, rng).pvalue <= 0.05
    assert found >= 32
    assert median <= 12


def test_power_for_a_shift_is_near_that_of_the_best_kernel():
    rng = np.random.default_rng(13)
    found = best = 0
    for _ in range(60):
        X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 0.6
        found += mmd_agg_test(X, Y, None, 99, rng).pvalue <= 0.05
        best += mmd_test(X, Y, RBF(2.0), 99, rng).pvalue <= 0.05
    assert best >= 40
    assert found >= best - 12


# ------------------------------------------------------------------------------------ bandwidths
def big_steps(n):
    return 100.0 * (np.arange(n) % 30)[:, None]


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_bandwidths_of_clusters_begin_within_them(metric):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2)) + big_steps(300)  # 30 clusters: 3 % of the pairs are within one
    d = np.sort(pdist(X, metric))
    assert d[int(0.05 * len(d))] > 90
    b = bandwidths(X, 6, metric)
    assert b[0] == pytest.approx(0.5 * d[int(np.ceil(5 / 300 * len(d))) - 1])
    assert b[0] < 2 and b[-1] == pytest.approx(2 * d[-1])
    # Weights that are no counts have no unit; of many rows a thousand decide.
    w = rng.uniform(0.5, 1.5, 300)
    np.testing.assert_allclose(bandwidths(X, 6, metric, w), bandwidths(X, 6, metric, 7 * w))
    many = rng.normal(size=(20000, 2)) + big_steps(20000)
    assert 0.05 < bandwidths(many, 6, metric)[0] < 2


def test_bandwidths():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    b = bandwidths(X, 7)
    d = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(50, 1)]
    assert b[0] == pytest.approx(0.5 * np.quantile(d, 0.05, method="inverted_cdf"), rel=2e-2)
    assert b[-1] == pytest.approx(2 * d.max())
    np.testing.assert_allclose(np.diff(np.log(b)), np.log(b[1] / b[0]))
    np.testing.assert_allclose(bandwidths(X[rng.permutation(50)], 7), b)
    np.testing.assert_allclose(bandwidths(1e200 * X, 7), 1e200 * b)
    np.testing.assert_allclose(bandwidths(1e-200 * X, 7), 1e-200 * b)
    np.testing.assert_allclose(bandwidths(sp.csr_array(X), 7), b)
    w = rng.integers(0, 3, 50)
    weighted = bandwidths(X, 7, weights=w.astype(float))
    np.testing.assert_allclose(weighted, bandwidths(np.repeat(X, w, axis=0), 7))
    twice = bandwidths(np.repeat(np.vstack([X] * 3) + big_steps(150), 2, axis=0), 7)
    doubled = bandwidths(np.vstack([X] * 3) + big_steps(150), 7, weights=np.full(150, 2.0))
    np.testing.assert_allclose(twice, doubled)
    np.testing.assert_allclose(bandwidths(np.zeros((4, 2)), 3), [0.5, 1.0, 2.0])
    assert len(bandwidths(X, 1)) == 1
    big = rng.normal(size=(3000, 2))
    np.testing.assert_allclose(bandwidths(big[rng.permutation(3000)], 5), bandwidths(big, 5))


# ------------------------------------------------------------------------------ kinds of input
def test_kinds_of_data():
    X, Y = two(12, 9, shift=1.0)
    expected = mmd_agg_test(X, Y, n_permutations=19, rng=0)
    for kind in (sp.csr_array, lambda A: A.tolist(), lambda A: A.astype(np.float32)):
        other = mmd_agg_test(kind(X), kind(Y), n_permutations=19, rng=0)
        assert other.pvalue == expected.pvalue
        assert other.statistic == pytest.approx(expected.statistic, rel=1e-3)
    words = ["ab", "abc", "ba", "abab", "aa", "b"], ["cc", "ccc", "cd", "dd", "dcd"]

    def shared(a, b):
        return float(len(set(a) & set(b)))

    def same_length(a, b):
        return float(len(a) == len(b))

    result = mmd_agg_test(*words, [shared, same_length], 99, 0)
    assert result.pvalue <= 0.05
    K = RBF(1.0)(np.vstack([X, Y]))
    given = mmd_agg_test(K[:12], K[12:], ["precomputed"], 49, 2)
    assert given.pvalue == mmd_agg_test(X, Y, [RBF(1.0)], 49, 2).pvalue
    # Kernels on numbers and on objects side by side.
    mixed = mmd_agg_test(X, Y, [RBF(1.0), lambda a, b: float(np.dot(a, b))], 49, 2)
    linear = mmd_agg_test(X, Y, [RBF(1.0), Linear()], 49, 2)
    np.testing.assert_allclose(mixed.extra["statistics"], linear.extra["statistics"], rtol=1e-9)
    assert mixed.pvalue == linear.pvalue


def test_designs():
    X, Y = two(12, 12, shift=0.5)
    strata = np.repeat([0, 1], 12) * 0 + np.tile([0, 1], 12)
    a = mmd_agg_test(X, Y, None, 49, 1, strata=strata)
    assert "strata" in a.method
    b = mmd_agg_test(X, Y, None, 49, 1, blocks=3)
    assert "blocks" in b.method
    assert mmd_agg_test(X, Y, None, 49, 1).pvalue == mmd_agg_test(X, Y, None, 49, 1).pvalue
    assert "permutations" in mmd_agg_test(X, Y, None, 9, 1).method
    long = two(60, 60)
    assert "permutations" in mmd_agg_test(*long, None, 9, 1).method
    assert "wild" in mmd_agg_test(*long, None, 9, 1, null="wild").method
    result = mmd_agg_test(X, Y, None, 49, 1)
    assert result.extra["kernel"] in result.extra["kernels"]
    assert len(result.extra["kernels"]) == 20
    low, high = result.confidence_interval()
    assert low <= result.pvalue <= high
    assert len(result.null) == 49


@pytest.mark.parametrize("null", ["permutation", "wild"])
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_degenerate_samples(null, estimator):
    same = np.ones((6, 2))
    result = mmd_agg_test(same, same, None, 19, 0, null=null, estimator=estimator)
    assert result.pvalue == 1.0
    assert np.isfinite(result.null).all()
    constant = mmd_agg_test(
        np.column_stack([np.arange(6.0), np.ones(6)]),
        np.column_stack([np.arange(6.0) + 20, np.ones(6)]),
        None,
        99,
        0,
        null=null,
        estimator=estimator,
    )
    assert 0 < constant.pvalue <= (0.2 if null == "wild" else 0.05)
    X, Y = two(8, 8, shift=2.0)
    extreme = mmd_agg_test(1e307 * X, -1e307 * Y, None, 19, 0, null=null, estimator=estimator)
    assert 0 < extreme.pvalue <= 1
    for scale in (1e-150, 1e150):
        X, Y = two(8, 8, shift=2.0)
        a = mmd_agg_test(scale * X, scale * Y, None, 19, 0, null=null, estimator=estimator)
        b = mmd_agg_test(X, Y, None, 19, 0, null=null, estimator=estimator)
        assert a.pvalue == b.pvalue


def test_samples_of_size_one():
    with pytest.raises(InvalidInput, match="two points"):
        mmd_agg_test([1.0], [2.0, 3.0])
    result = mmd_agg_test([1.0], [2.0, 3.0, 2.5], None, 19, 0, estimator="biased")
    assert 0 < result.pvalue <= 1


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kernels": []}, "list of kernels"),
        ({"kernels": [None, RBF()]}, "holds None"),
        ({"kernels": 3}, "list of kernels"),
        ({"kernels": ["nonsense"]}, "not a known name"),
        ({"kernels": [3]}, "neither a Kernel"),
        ({"X": ["a", "b"], "Y": ["c", "d"]}, "kernel"),
        ({"n_bandwidths": 0}, "n_bandwidths"),
        ({"families": ("cauchy",)}, "families"),
        ({"families": ()}, "families"),
        ({"families": 3}, "families"),
        ({"null": "gamma"}, "null"),
        ({"null": "auto"}, "give 'permutation' or 'wild'"),
        ({"null": "wild"}, "one size"),
        ({"null": "wild", "Y": np.zeros((5, 2)), "strata": np.zeros(10)}, "strata"),
        ({"null": "wild", "Y": np.zeros((5, 2)), "sample_weight": (None, [1, 2, 1, 1, 1])}, "weig"),
        ({"estimator": "best"}, "estimator"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"rng": "x"}, "rng"),
        ({"X": np.zeros((0, 2))}, "mmd_agg_test"),
        ({"X": np.full((3, 2), np.nan)}, "mmd_agg_test"),
        ({"X": np.zeros((3, 3))}, "columns"),
        ({"sample_weight": [1.0]}, "sample_weight"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    rng = np.random.default_rng(0)
    arguments = {"X": rng.normal(size=(5, 2)), "Y": rng.normal(size=(6, 2))}
    with pytest.raises(InvalidInput, match=message):
        mmd_agg_test(**{**arguments, **change})


def test_kernels_by_name_are_at_the_median_distance(rng):
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    by_name = mmd_agg_test(X, Y, ["rbf"], 19, 0)
    alone = mmd_agg_test(X, Y, [RBF("median")], 19, 0)
    assert by_name.statistic == alone.statistic and by_name.extra["kernel"] == alone.extra["kernel"]
