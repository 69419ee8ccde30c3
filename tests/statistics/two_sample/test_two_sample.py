"""The two-sample test: its null by brute force, blocks, strata, weights, early stops, memory."""

import importlib.util
import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.stats import kstest, pearson3

import mercer
from mercer import RBF, FromFunction, Linear, White
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import k_sample_test, mmd, mmd_agg_test, mmd_split_test, mmd_test
from mercer.statistics.two_sample.discrepancy import DifferenceBound, Discrepancy, Wild
from mercer.statistics.two_sample.labels import labelled
from mercer.statistics.two_sample.test import label_moments

ESTIMATORS = ("biased", "unbiased")


def two(rng, n=9, m=7, shift=0.5, d=2):
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)) + shift


def all_values(X, Y, kernel, estimator):
    """MMD² of every way to share the points out."""
    Z, n = np.vstack([X, Y]), len(X)
    values = []
    for chosen in itertools.combinations(range(len(Z)), n):
        rest = np.setdiff1d(np.arange(len(Z)), chosen)
        values.append(mmd(Z[list(chosen)], Z[rest], kernel, estimator))
    return np.array(values)


# ---------------------------------------------------------------------------- permutations
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sizes", [(4, 3), (2, 5), (3, 3)])
def test_draws_follow_the_law_of_all_permutations(sizes, estimator, rng):
    X, Y = two(rng, *sizes)
    k = RBF(0.7)
    every = all_values(X, Y, k, estimator)
    result = mmd_test(X, Y, k, 4999, 0, estimator=estimator)
    levels = np.unique(every.round(10))
    assert set(np.unique(result.null.round(10))) <= set(levels)
    for level in levels:
        share = (result.null >= level - 1e-9).mean()
        wanted = (every >= level - 1e-9).mean()
        assert abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 4999) + 1e-12
    assert result.statistic == pytest.approx(mmd(X, Y, k, estimator), rel=1e-12)
    exact = (every >= result.statistic - 1e-12).mean()
    low, high = result.confidence_interval(0.9999)
    assert low <= exact <= high


def test_every_value_of_the_null_is_an_mmd(rng):
    """Each draw is taken through the double samples it stands for."""
    X, Y = two(rng, 6, 9)
    points = labelled([X, Y], RBF(), None, ["X", "Y"])
    for estimator in ESTIMATORS:
        statistic = Discrepancy(points, estimator)
        design = points.design(None, None)
        draws = design.draw(np.random.default_rng(0), 20)
        values = statistic.evaluate(draws)
        Z = np.vstack([X, Y])
        for labels, value in zip(draws, values, strict=True):
            wanted = mmd(Z[labels == 0], Z[labels == 1], RBF(), estimator)
            assert value == pytest.approx(wanted, rel=1e-10, abs=1e-13)


def test_both_estimators_agree_for_samples_of_one_size(rng):
    X, Y = two(rng, 12, 12)
    a, b = (mmd_test(X, Y, rng=5, estimator=e) for e in ESTIMATORS)
    assert a.pvalue == b.pvalue
    assert np.corrcoef(a.null, b.null)[0, 1] > 1 - 1e-9


def test_the_answer_does_not_depend_on_batches_tiles_threads_or_memory(rng):
    X, Y = two(rng, 60, 47)
    wanted = mmd_test(X, Y, RBF(), 199, 7)
    again = mmd_test(X, Y, RBF(), 199, 7)
    assert np.array_equal(wanted.null, again.null)
    with small_tiles(200):
        tiled = mmd_test(X, Y, RBF(), 199, 7)
    with mercer.config(memory=200_000):
        tight = mmd_test(X, Y, RBF(), 199, 7)
    with mercer.config(threads=1):
        single = mmd_test(X, Y, RBF(), 199, 7)
    K = RBF()(np.vstack([X, Y]))
    given = mmd_test(K[:60], K[60:], "precomputed", 199, 7)
    for other in (tiled, tight, single, given):
        np.testing.assert_allclose(other.null, wanted.null, atol=1e-12)
        assert other.pvalue == wanted.pvalue


def test_the_matrix_is_never_stored(rng):
    X, Y = two(rng, 2500, 2000, 0.0)
    mmd_test(X[:20], Y[:20], RBF(), 9)
    tracemalloc.start()
    try:
        with mercer.config(memory="10MB"):
            result = mmd_test(X, Y, RBF(), 99, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6 < 4500 * 4500
    assert 0 < result.pvalue <= 1


def test_a_function_is_called_once_for_each_pair():
    """A kernel in Python is slow: even with several batches its matrix is made once."""
    calls = []

    def k(a, b):
        calls.append(1)
        return float(min(a, b))

    X, Y = list(range(1, 21)), list(range(3, 33, 2))
    for options in ({}, {"early_stop": 5}, {"null": "wild"}):
        calls.clear()
        other = X if "null" in options else Y
        mmd_test(X, other, FromFunction(k), 199, 0, **options)
        N = len(X) + len(other)
        assert len(calls) < 1.5 * N * N


# ------------------------------------------------------------------------------ early stop
def test_early_stop_ends_the_same_draws_sooner(rng):
    X, Y = two(rng, 30, 25, 0.0)
    whole = mmd_test(X, Y, rng=3)
    early = mmd_test(X, Y, rng=3, early_stop=10)
    assert whole.pvalue > 0.1
    assert early.stopped and early.exceedances == 10 and early.n_permutations < 400
    assert np.allclose(early.null, whole.null[: early.n_permutations], atol=1e-12)
    assert early.pvalue == pytest.approx(10 / early.n_permutations)
    assert "early" in early.method
    far = mmd_test(X, Y + 2, rng=3, early_stop=10)
    assert not far.stopped and far.pvalue == 0.001


# ---------------------------------------------------------------------------------- blocks
def test_blocks_move_whole_to_the_places_of_blocks_of_their_length(rng):
    """Every null value is the MMD of a way to share the groups out."""
    groups = np.array(["a"] * 3 + ["b"] * 2 + ["c"] * 3 + ["d"] * 2 + ["e"] * 3)
    X, Y = rng.standard_normal((5, 2)), rng.standard_normal((8, 2))
    Z, k = np.vstack([X, Y]), RBF()
    legal = []
    for pair in itertools.product("ace", "bd"):
        own = np.isin(groups, pair)
        legal.append(mmd(Z[own], Z[~own], k))
    for blocks in (groups, (groups[:5], groups[5:]), list(groups)):
        result = mmd_test(X, Y, k, 299, 0, blocks=blocks)
        gaps = np.abs(result.null[:, None] - np.array(legal)).min(1)
        assert gaps.max() < 1e-12
        assert len(np.unique(result.null.round(9))) == 6
        assert "blocks move whole (5 of 5 can)" in result.method
    assert "(3 of 5 can)" in mmd_test(X, Y[:7], k, 9, 0, blocks=3).method
    with pytest.raises(InvalidInput, match=r"mmd_test: nothing can change places.*its mean"):
        mmd_test(X, Y, k, 9, 0, blocks=10)


def test_runs_are_those_of_the_rows_as_given(rng):
    """Rows of weight zero leave their run shorter, and the runs after it where they were."""
    X, Y = two(rng, 8, 8)
    wx, wy = np.ones(8), np.ones(8)
    wx[1], wy[6] = 0, 0
    runs = np.repeat([0, 1, 2, 3], 2)
    by_int = mmd_test(X, Y, RBF(), 199, 0, blocks=2, sample_weight=(wx, wy))
    by_name = mmd_test(X[wx > 0], Y[wy > 0], RBF(), 199, 0, blocks=(runs[wx > 0], runs[wy > 0]))
    np.testing.assert_allclose(by_int.null, by_name.null, atol=1e-13)


def test_names_of_blocks_may_repeat_in_the_two_samples(rng):
    X, Y = two(rng, 6, 6)
    apart = mmd_test(X, Y, RBF(), 99, 0, blocks=([0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]))
    named = mmd_test(X, Y, RBF(), 99, 0, blocks=([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]))
    runs = mmd_test(X, Y, RBF(), 99, 0, blocks=2)
    assert np.array_equal(apart.null, named.null)
    assert np.array_equal(apart.null, runs.null)
    with pytest.raises(InvalidInput, match="several samples"):
        mmd_test(X, Y, RBF(), 99, 0, blocks=np.arange(12) % 6)
    people = np.array(list("aabbccddbbee"))
    for given in (people, list(people), people.astype(object)):
        with pytest.raises(InvalidInput, match=r"block 'b' has rows in several.*strata="):
            mmd_test(X, Y, RBF(), 99, 0, blocks=given)
    with pytest.raises(InvalidInput, match=r"k_sample_test: the block '3' has rows"):
        k_sample_test(X, Y, blocks=np.arange(12) % 6 + 3, pairwise=True)
    zero = np.array([0, 0, 1, 1, 1, 1])  # rows left out do not move the names
    with pytest.raises(InvalidInput, match="block 'b' has rows in several samples"):
        mmd_test(X, Y, RBF(), 99, 0, blocks=people, sample_weight=(zero, None))


def test_strata_are_kept(rng):
    X, Y, k = *two(rng, 4, 4), RBF()
    strata = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    Z, legal = np.vstack([X, Y]), []
    for a in itertools.combinations([0, 1, 4, 5], 2):
        for b in itertools.combinations([2, 3, 6, 7], 2):
            own = np.isin(np.arange(8), a + b)
            legal.append(mmd(Z[own], Z[~own], k))
    for given in (strata, (strata[:4], strata[4:])):
        result = mmd_test(X, Y, k, 299, 0, strata=given)
        assert np.abs(result.null[:, None] - np.array(legal)).min(1).max() < 1e-12
        assert "strata" in result.method
    with pytest.raises(InvalidInput, match="stratum"):
        mmd_test(X, Y, k, 99, 0, strata=[0] * 4 + [1] * 4)


# --------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_counts_give_the_test_of_repeated_rows(estimator, rng):
    X, Y = two(rng, 8, 6)
    wx, wy = np.array([1, 0, 3, 2, 1, 0, 1, 4]), np.array([2, 1, 0, 1, 1, 5])
    long = np.repeat(X, wx, 0), np.repeat(Y, wy, 0)
    strata = rng.integers(0, 2, 14)
    for kinds in (None, strata):
        many = None if kinds is None else np.repeat(kinds, np.concatenate([wx, wy]))
        wanted = mmd_test(*long, rng=1, estimator=estimator, strata=many)
        found = mmd_test(
            X, Y, rng=1, estimator=estimator, strata=kinds, sample_weight=(wx, wy.astype(float))
        )
        np.testing.assert_allclose(found.null, wanted.null, atol=1e-12)
        assert found.pvalue == wanted.pvalue
        assert (found.sizes, wanted.sizes) == ((8, 6), (12, 10))  # rows given
        assert "counts" in found.method
    gamma = [
        mmd_test(*long, null="gamma", estimator=estimator),
        mmd_test(X, Y, null="gamma", estimator=estimator, sample_weight=(wx, wy)),
    ]
    assert gamma[0].pvalue == pytest.approx(gamma[1].pvalue, rel=1e-9)


def test_other_weights_move_with_their_rows(rng):
    X, Y, k = *two(rng, 3, 3), RBF()
    w = rng.random(6) + 0.6
    Z, legal = np.vstack([X, Y]), []
    for a in itertools.combinations(range(6), 3):
        own = np.isin(np.arange(6), a)
        legal.append(mmd(Z[own], Z[~own], k, sample_weight=(w[own], w[~own])))
    result = mmd_test(X, Y, k, 199, 0, sample_weight=(w[:3], w[3:]))
    assert np.abs(result.null[:, None] - np.array(legal)).min(1).max() < 1e-12
    assert "move with their rows" in result.method
    assert "valid if of one law in all samples" in result.method
    # Only the shares of weights that are no counts matter, in the test, too.
    other = mmd_test(X, Y, k, 199, 0, sample_weight=(w[:3] / 7, w[3:] / 7))
    np.testing.assert_allclose(other.null, result.null, atol=1e-13)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_one_sample_alone_are_counts(estimator, rng):
    """Importance weights of X would be carried to Y, where there are none."""
    X, Y = two(rng, 8, 9)
    w = rng.lognormal(size=8)
    cases = [
        lambda: mmd_test(X, Y, estimator=estimator, sample_weight=(w, None)),
        lambda: mmd_test(Y, X, estimator=estimator, sample_weight=(np.ones(9), w)),
        lambda: mmd_agg_test(X, Y, estimator=estimator, sample_weight=(w, None)),
        lambda: mmd_split_test(X, Y, estimator=estimator, sample_weight=(w, None)),
        lambda: k_sample_test(X, Y, X, sample_weight=(w, None, w)),
    ]
    for call in cases:
        with pytest.raises(InvalidInput, match=r"test: .* has no weights.*whole-number counts"):
            call()
    assert mmd_test(X, Y, rng=0, sample_weight=(np.arange(1, 9), None)).pvalue > 0
    assert np.isfinite(mmd(X, Y, sample_weight=(w, None)))


def test_weights_of_blocks_move_with_the_blocks(rng):
    X, Y = two(rng, 6, 6)
    w = np.array([1, 3, 2, 2, 1, 1, 3, 1, 4, 1, 0, 2])  # blocks of 4, 4, 2, 4, 5 and 2 rows
    labels = np.arange(12) // 2
    long = np.repeat(np.vstack([X, Y]), w, 0)
    cut = w[:6].sum()
    wanted = mmd_test(long[:cut], long[cut:], RBF(), 99, 2, blocks=np.repeat(labels, w))
    found = mmd_test(X, Y, RBF(), 99, 2, blocks=labels, sample_weight=(w[:6], w[6:]))
    np.testing.assert_allclose(found.null, wanted.null, atol=1e-12)
    assert len(np.unique(found.null.round(9))) == 6
    assert "copies move with their block" in found.method


# ------------------------------------------------------------------------------------ wild
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rank", [None, 12])
def test_signs_let_pairs_change_places(estimator, rank, rng):
    """Every null value is the MMD after swapping some pairs."""
    X, Y, k = *two(rng, 6, 6), RBF(0.8) + 0.2 * Linear()
    result = mmd_test(X, Y, k, 99, 4, estimator=estimator, null="wild", rank=rank)
    signs = 2.0 * np.random.default_rng(4).integers(0, 2, size=(99, 6)) - 1
    if rank:
        legal = []
        for swap in itertools.product([False, True], repeat=6):
            s = np.array(swap)[:, None]
            legal.append(mmd(np.where(s, Y, X), np.where(s, X, Y), k, estimator))
        assert np.abs(result.null[:, None] - np.array(legal)).min(1).max() < 1e-7
    else:
        for s, value in zip(signs, result.null, strict=True):
            keep = s[:, None] > 0
            wanted = mmd(np.where(keep, X, Y), np.where(keep, Y, X), k, estimator)
            assert value == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert result.statistic == pytest.approx(mmd(X, Y, k, estimator), rel=1e-7)
    assert "wild" in result.method


def test_tiles_of_the_paired_matrix(rng):
    X, Y = two(rng, 11, 11)
    k = RBF() + Linear()
    K = k(np.vstack([X, Y]))
    H = K[:11, :11] + K[11:, 11:] - K[:11, 11:] - K[11:, :11]
    bound = DifferenceBound(k._bind(np.vstack([X, Y])), 11)
    np.testing.assert_allclose(bound.tile(slice(0, 11), slice(0, 11)), H, atol=1e-13)
    points = labelled([X, Y], k, None, ["X", "Y"])
    for tiles in (7, 10**6):
        with small_tiles(tiles):
            wild = Wild(Discrepancy(points, "unbiased"), None)
            for _ in range(2):  # a second batch sees the sums of the first
                value = wild.evaluate(np.ones((1, 11)))
                assert value == pytest.approx(mmd(X, Y, k), rel=1e-10)


def test_wild_needs_pairs(rng):
    X, Y = two(rng, 8, 8)
    shared = mmd_test(X, Y, RBF(), 299, 0, null="wild", blocks=4)
    assert len(np.unique(shared.null.round(10))) <= 4
    with pytest.raises(InvalidInput, match="X has 8 points and Y has 7"):
        mmd_test(X, Y[:7], null="wild")
    with pytest.raises(InvalidInput, match="strata"):
        mmd_test(X, Y, null="wild", strata=np.zeros(16))
    with pytest.raises(InvalidInput, match="sample_weight"):
        mmd_test(X, Y, null="wild", sample_weight=(np.arange(1, 9), None))
    # Pairs of which both rows have weight zero are left out, others would be torn apart.
    none = np.array([1, 1, 0, 1, 1, 1, 0, 1])
    kept = mmd_test(X, Y, RBF(), 99, 0, null="wild", sample_weight=(none, none))
    wanted = mmd_test(X[none > 0], Y[none > 0], RBF(), 99, 0, null="wild")
    assert np.array_equal(kept.null, wanted.null) and kept.sizes == (8, 8)
    with pytest.raises(InvalidInput, match="weight 0"):
        mmd_test(X, Y, null="wild", sample_weight=(none, none[::-1]))


def test_blocks_of_pairs(rng):
    X, Y = two(rng, 8, 8)
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 3])
    wanted = mmd_test(X, Y, RBF(), 99, 0, null="wild", blocks=labels)
    for blocks in ((labels, labels + 7), np.concatenate([labels, labels + 7]), list(labels)):
        assert np.array_equal(
            mmd_test(X, Y, RBF(), 99, 0, null="wild", blocks=blocks).null, wanted.null
        )
    with pytest.raises(InvalidInput, match="not the same pairs"):
        mmd_test(X, Y, null="wild", blocks=(labels, labels[::-1]))
    with pytest.raises(InvalidInput, match=r"blocks has shape \(5,\)"):
        mmd_test(X, Y, null="wild", blocks=np.zeros(5))


def test_strata_of_two_samples_are_compared_by_value(rng):
    X, Y = two(rng, 4, 4)
    whole = mmd_test(X, Y, RBF(), 99, 0, strata=[0, 1, 0, 1] * 2)
    mixed = mmd_test(X, Y, RBF(), 99, 0, strata=([0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0]))
    assert np.array_equal(whole.null, mixed.null)


# ----------------------------------------------------------------------------------- gamma
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sizes", [(4, 5), (2, 6), (4, 4), (2, 2)])
@pytest.mark.parametrize("kernel", [RBF(0.6), Linear(), Linear() * Linear() + 5.0], ids=repr)
def test_moments_are_those_of_all_permutations(kernel, sizes, estimator, rng):
    X, Y = two(rng, *sizes)
    every = all_values(X, Y, kernel, estimator)
    result = mmd_test(X, Y, kernel, estimator=estimator, null="gamma")
    scale = every.std()
    assert result.extra["mean"] == pytest.approx(every.mean(), abs=1e-10 * scale)
    assert result.extra["variance"] == pytest.approx(every.var(), rel=1e-9)
    assert "approximate" in result.method and result.null is None
    low, high = result.confidence_interval()
    assert low == high == result.pvalue


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shift", [0.0, 0.25, 0.45])
def test_gamma_is_close_to_permutations(shift, estimator, rng):
    X, Y = two(rng, 60, 40, shift, d=3)
    drawn = mmd_test(X, Y, None, 9999, 0, estimator=estimator)
    fitted = mmd_test(X, Y, estimator=estimator, null="gamma")
    assert fitted.statistic == pytest.approx(drawn.statistic, rel=1e-10)
    assert abs(fitted.pvalue - drawn.pvalue) < 0.03
    assert fitted.extra["variance"] == pytest.approx(drawn.null.var(), rel=0.1)
    low = mmd_test(X, Y, estimator=estimator, null="gamma", rank=100, rng=0)
    assert low.pvalue == pytest.approx(fitted.pvalue, rel=1e-3)


def test_the_gamma_law_is_pearsons_third(rng):
    X, Y = two(rng, 20, 15)
    r = mmd_test(X, Y, null="gamma", estimator="biased")
    mean, deviation = r.extra["mean"], np.sqrt(r.extra["variance"])
    wanted = pearson3.sf(r.statistic, 2 * deviation / mean, mean, deviation)
    assert r.pvalue == pytest.approx(wanted, rel=1e-8)
    far = mmd_test(X, Y + 100, null="gamma")
    assert 0 < far.pvalue < 1e-4
    assert label_moments((2, 1), "biased", (0.0, 0.0, 0.0)) == (0.0, 0.0)


# ---------------------------------------------------------------------------------- normal
def test_the_cross_statistic(rng):
    X, Y, k = *two(rng, 9, 12), RBF()
    result = mmd_test(X, Y, k, rng=3, null="normal")
    split = np.random.default_rng(3)
    i, j = split.permutation(np.arange(9)), split.permutation(np.arange(9, 21)) - 9
    x, a, y, b = X[i[:4]], X[i[4:]], Y[j[:6]], Y[j[6:]]
    f = k(x, a).mean(1) - k(x, b).mean(1)
    g = k(y, a).mean(1) - k(y, b).mean(1)
    error = np.sqrt(f.var(ddof=1) / 4 + g.var(ddof=1) / 6)
    assert result.statistic == pytest.approx((f.mean() - g.mean()) / error, rel=1e-10)
    assert result.extra["mmd"] == pytest.approx(f.mean() - g.mean(), rel=1e-10)
    assert "approximate" in result.method
    K = k(np.vstack([X, Y]))
    given = mmd_test(K[:9], K[9:], "precomputed", rng=3, null="normal")
    assert given.statistic == pytest.approx(result.statistic, rel=1e-10)
    same = np.ones((6, 2))
    assert tuple(mmd_test(same, same, k, null="normal")) == (0.0, 1.0)
    with pytest.raises(InvalidInput, match="at least 4"):
        mmd_test(X[:3], Y, k, null="normal")


def test_the_cross_statistic_is_normal(rng):
    values = [
        mmd_test(*two(rng, 60, 50, 0.0), RBF(1.0), rng=rng, null="normal").statistic
        for _ in range(300)
    ]
    assert kstest(values, "norm").pvalue > 0.001


# ---------------------------------------------------------------------------------- errors
def test_what_does_not_fit_the_budget_is_refused_before_any_work(rng):
    X, Y = two(rng, 300, 300)
    with mercer.config(memory=300_000):
        with pytest.raises(MemoryBudgetExceeded, match="mmd_test: a factor of rank 200"):
            mmd_test(X, Y, RBF(), 9, rank=200)
        with pytest.raises(MemoryBudgetExceeded, match="mmd_test: labels for the 12000 rows"):
            mmd_test(X, Y, RBF(), 9, sample_weight=(np.full(300, 20), np.full(300, 20)))


@pytest.mark.parametrize("null", ["permutation", "wild", "gamma", "normal"])
def test_every_null_takes_every_kind_of_points(null, rng):
    import scipy.sparse as sp

    X, Y = two(rng, 14, 14)
    k = RBF(1.2) + 0.1 * White()
    wanted = mmd_test(X, Y, k, 99, 0, null=null)
    K = k(np.vstack([X, Y]))
    calls = [
        lambda: mmd_test(sp.csr_matrix(X), sp.csr_matrix(Y), k, 99, 0, null=null),
        lambda: mmd_test(K[:14], K[14:], "precomputed", 99, 0, null=null),
        lambda: mmd_test(list(X), list(Y), FromFunction(pair), 99, 0, null=null),
    ]
    rows = [tuple(x) for x in np.vstack([X, Y])]

    def pair(a, b):
        return K[rows.index(tuple(a)), rows.index(tuple(b))]

    if importlib.util.find_spec("torch"):

        def with_torch():
            with mercer.config(engine="torch"):
                return mmd_test(X, Y, k, 99, 0, null=null)

        calls.append(with_torch)
    for call in calls:
        found = call()
        assert found.statistic == pytest.approx(wanted.statistic, rel=1e-8)
        assert found.pvalue == pytest.approx(wanted.pvalue, rel=1e-6)


def test_wrong_options_are_named(rng):
    X, Y = two(rng)
    cases = [
        ({"null": "asymptotic"}, "null='asymptotic'"),
        ({"null": None}, "null"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"n_permutations": 9.5}, "n_permutations"),
        ({"early_stop": 0}, "early_stop"),
        ({"estimator": "u"}, "estimator"),
        ({"rng": "x"}, "rng"),
        ({"blocks": np.zeros(3)}, "16 rows"),
        ({"blocks": 0}, "blocks"),
        ({"strata": np.zeros((16, 2))}, "strata"),
        ({"strata": np.full(16, np.nan)}, "NaN"),
        ({"null": "gamma", "blocks": 2}, "blocks"),
        ({"null": "gamma", "early_stop": 2}, "early_stop"),
        ({"null": "normal", "rank": 3}, "rank"),
        ({"null": "normal", "sample_weight": (None, np.full(7, 2))}, "sample_weight"),
        ({"null": "gamma", "sample_weight": (None, np.full(7, 2.5))}, "whole numbers"),
    ]
    for options, words in cases:
        with pytest.raises(InvalidInput, match=f"mmd_test.*{words}"):
            mmd_test(X, Y, **options)


def test_a_result_reads_like_one_of_scipy(rng):
    X, Y = two(rng, 20, 15, 2.0)
    result = mmd_test(X, Y, rng=0)
    statistic, pvalue = result
    assert (statistic, pvalue) == (result.statistic, result.pvalue) == (result.statistic, 0.001)
    assert result.sizes == (20, 15) and result.n_permutations == len(result.null) == 999
    assert result.extra["characteristic"] is True
    assert mmd_test(X, Y, Linear(), rng=0).extra["characteristic"] is False
    assert "p-value" in result.summary()
