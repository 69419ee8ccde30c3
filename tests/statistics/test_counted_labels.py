"""Rows that count many times: the law of their copies, room, and the question whether they do."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.stats import ks_2samp

import mercer
from mercer import RBF
from mercer.errors import InvalidInput
from mercer.statistics import k_sample_test, mmd_agg_test, mmd_test
from mercer.statistics.permutation import CountedRelabel
from mercer.statistics.two_sample import labels as label_vectors


def two(rng, n, m, shift=0.5, d=2):
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)) + shift


@pytest.mark.parametrize("strata", [None, np.array([0, 0, 1, 0, 1, 1, 2])])
def test_numbers_of_copies_have_the_moments_of_shuffled_labels(strata):
    """Copies of a stratum are N labels, shuffled: means, variances and covariances are known."""
    labels, counts = np.array([0, 0, 0, 1, 1, 2, 2]), np.array([3, 5, 2, 4, 1, 6, 3])
    design = CountedRelabel(labels, counts, strata=strata)
    drawn = design.draw(np.random.default_rng(0), 20000).astype(float)
    kinds = np.zeros(7, dtype=int) if strata is None else strata
    assert (drawn.sum(1) == counts).all() and (drawn >= 0).all()
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        c, N = counts[rows], counts[rows].sum()
        for sample in range(3):
            n = c[labels[rows] == sample].sum()
            part = drawn[:, sample, rows]
            assert (part.sum(1) == n).all()
            np.testing.assert_allclose(part.mean(0), n * c / N, atol=0.06)
            share = c / N
            wanted = np.diag(share) - np.outer(share, share)
            wanted = wanted * n * (N - n) / max(N - 1, 1)
            found = np.cov(part.T) if len(rows) > 1 else np.zeros((1, 1))
            np.testing.assert_allclose(found, wanted, atol=0.08)
    assert np.array_equal(design.labels.sum(0), counts)
    assert np.array_equal(design.labels.argmax(0), labels)


def test_draws_of_copies_do_not_depend_on_batches():
    design = CountedRelabel([0, 0, 1, 1], np.array([50, 9, 30, 20]), strata=[0, 1, 0, 1])
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    parts = np.concatenate([design.draw(rng, 2), design.draw(rng, 5)])
    assert np.array_equal(parts, design.draw(again, 7))
    with pytest.raises(InvalidInput, match="nothing can change places"):
        CountedRelabel([0, 0, 1, 1], np.full(4, 50), strata=[0, 0, 1, 1])


COUNTED = pytest.mark.filterwarnings("ignore:.*are these counts")


@COUNTED
@pytest.mark.parametrize("strata", [None, np.array([0, 1, 1, 0, 0, 1, 1])])
def test_many_copies_follow_the_law_of_repeated_rows(strata, rng, monkeypatch):
    """Numbers of copies are drawn in one case, and each copy shuffled in the other."""
    X, Y = two(rng, 4, 3)
    w = np.array([40, 7, 30, 25, 33, 9, 50])
    options = {"sample_weight": (w[:4], w[4:]), "strata": strata}
    found = mmd_test(X, Y, RBF(), 1999, 1, **options)
    monkeypatch.setattr(label_vectors, "MANY", 10**9)
    wanted = mmd_test(X, Y, RBF(), 1999, 2, **options)
    assert found.statistic == pytest.approx(wanted.statistic, rel=1e-12)
    assert not np.array_equal(found.null, wanted.null)
    assert ks_2samp(found.null, wanted.null).pvalue > 0.001
    assert found.method == wanted.method


@COUNTED
def test_many_copies_take_no_more_room_or_draws_than_few(rng):
    X, Y = two(rng, 300, 300, 0.0)
    mmd_test(X[:20], Y[:20], RBF(), 9)
    for count in (1000, 10**6):
        w = np.full(300, count)
        tracemalloc.start()
        try:
            with mercer.config(memory=2_000_000):
                result = mmd_test(X, Y, RBF(), 99, 0, sample_weight=(w, w))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2_000_000 and 0 < result.pvalue <= 1
    with pytest.raises(InvalidInput, match=r"count 3000000300 rows.*by their mean"):
        mmd_test(X, Y, sample_weight=(np.full(300, 10**7), None))


@COUNTED
def test_many_copies_in_batches_and_for_every_test(rng):
    X, Y = two(rng, 12, 9)
    w, v = rng.integers(30, 90, 12), rng.integers(30, 90, 9)
    wanted = mmd_test(X, Y, RBF(), 199, 7, sample_weight=(w, v))
    with mercer.config(memory=40_000):
        np.testing.assert_allclose(
            mmd_test(X, Y, RBF(), 199, 7, sample_weight=(w, v)).null, wanted.null, atol=1e-12
        )
    biased = mmd_test(X, Y, RBF(), 199, 7, sample_weight=(w, v), estimator="biased")
    same = k_sample_test(X, Y, kernel=RBF(), n_permutations=199, rng=7, sample_weight=(w, v))
    n, m = w.sum(), v.sum()
    np.testing.assert_allclose(same.null * (n + m) / (n * m), biased.null, rtol=1e-6, atol=1e-12)
    assert mmd_agg_test(X, Y, [RBF()], 199, 7, sample_weight=(w, v)).pvalue == wanted.pvalue


def test_large_whole_weights_ask_whether_they_are_counts(rng):
    X, Y = two(rng, 10, 10)
    survey = rng.integers(500, 3000, 10)
    calls = [
        lambda: mmd_test(X, Y, sample_weight=(survey, None), n_permutations=9),
        lambda: mmd_test(X, Y, sample_weight=(survey, survey), null="gamma"),
        lambda: mmd_agg_test(X, Y, [RBF()], 9, sample_weight=(survey, survey)),
        lambda: k_sample_test(X, Y, sample_weight=(survey, None), n_permutations=9),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match=r"test: are these counts\?.*by their mean") as seen:
            call()
        assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mmd_test(X, Y, sample_weight=(np.full(10, 20), None), n_permutations=9)
        mean = survey.mean()
        mmd_test(X, Y, sample_weight=(survey / mean, survey / mean), n_permutations=9)
