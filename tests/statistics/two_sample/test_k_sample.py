"""The k-sample test: against means in feature space, mmd_test, repeated rows, and pairs."""

import itertools

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Linear
from mercer.errors import InvalidInput
from mercer.statistics import k_sample_test, mmd, mmd_test
from mercer.statistics.two_sample.k_sample import holm


def samples(rng, *sizes, shift=0.0):
    return [rng.standard_normal((n, 2)) + i * shift for i, n in enumerate(sizes)]


def between(parts):
    """Σ n_g ‖mean_g − mean‖² in input space: the statistic of the linear kernel."""
    whole = np.vstack(parts).mean(0)
    return sum(len(part) * ((part.mean(0) - whole) ** 2).sum() for part in parts)


@pytest.mark.parametrize("sizes", [(5, 7), (4, 3, 6), (2, 1, 3, 5)])
def test_the_sum_of_squares_between_samples(sizes, rng):
    parts = samples(rng, *sizes, shift=0.4)
    result = k_sample_test(*parts, kernel=Linear(), n_permutations=199, rng=0)
    assert result.statistic == pytest.approx(between(parts), rel=1e-10)
    assert result.sizes == sizes
    Z, k = np.vstack(parts), RBF(0.8)
    K, cuts = k(Z), np.cumsum((0, *sizes))
    wanted = -K.sum() / len(Z)
    for i, j in itertools.pairwise(cuts):
        wanted += K[i:j, i:j].sum() / (j - i)
    assert k_sample_test(*parts, kernel=k, rng=0).statistic == pytest.approx(wanted, rel=1e-10)
    given = k_sample_test(*np.split(K, cuts[1:-1]), kernel="precomputed", rng=0)
    assert given.statistic == pytest.approx(wanted, rel=1e-10)


def test_draws_follow_the_law_of_all_permutations(rng):
    parts = samples(rng, 2, 2, 3, shift=0.5)
    Z = np.vstack(parts)
    every = []
    for order in itertools.permutations(range(7)):
        p = list(order)
        if p[:2] == sorted(p[:2]) and p[2:4] == sorted(p[2:4]) and p[4:] == sorted(p[4:]):
            every.append(between([Z[p[:2]], Z[p[2:4]], Z[p[4:]]]))
    result = k_sample_test(*parts, kernel=Linear(), n_permutations=4999, rng=1)
    assert np.abs(result.null[:, None] - np.array(every)).min(1).max() < 1e-10
    exact = (np.array(every) >= result.statistic - 1e-10).mean()
    low, high = result.confidence_interval(0.9999)
    assert low <= exact <= high


@pytest.mark.parametrize("options", [{}, {"blocks": 3}, {"early_stop": 7}, {"rank": 20}])
def test_two_samples_are_tested_as_by_mmd(options, rng):
    X, Y = samples(rng, 15, 12, shift=0.3)
    two = mmd_test(X, Y, rng=4, estimator="biased", **options)
    several = k_sample_test(X, Y, rng=4, **options)
    assert several.pvalue == two.pvalue
    np.testing.assert_allclose(several.null, two.null * 15 * 12 / 27, rtol=1e-9)


def test_weights_are_repetitions(rng):
    parts = samples(rng, 5, 4, 6, shift=0.3)
    weights = [rng.integers(0, 4, len(part)) + (np.arange(len(part)) == 0) for part in parts]
    long = [np.repeat(part, w, 0) for part, w in zip(parts, weights, strict=True)]
    wanted = k_sample_test(*long, rng=2)
    found = k_sample_test(*parts, rng=2, sample_weight=weights)
    np.testing.assert_allclose(found.null, wanted.null, atol=1e-10)
    assert found.pvalue == wanted.pvalue and found.sizes == (5, 4, 6)  # rows given
    moving = [w / 3 for w in weights]
    scaled = k_sample_test(*parts, kernel=RBF(), rng=2, sample_weight=moving)
    whole = k_sample_test(*parts, kernel=RBF(), rng=2, sample_weight=weights)
    assert scaled.statistic == pytest.approx(whole.statistic / 3, rel=1e-10)
    assert "move with" in scaled.method and "counts" in whole.method


def test_blocks_and_strata(rng):
    parts = samples(rng, 4, 6, 2)
    labels = [[0, 0, 1, 1], [0, 0, 0, 1, 1, 1], [5, 5]]
    result = k_sample_test(*parts, kernel=Linear(), rng=0, blocks=labels)
    Z, groups = np.vstack(parts), np.repeat(np.arange(5), [2, 2, 3, 3, 2])
    legal = []
    for order in itertools.permutations(range(5)):
        own = [np.isin(groups, order[:2]), np.isin(groups, order[2:4]), groups == order[4]]
        legal.append(between([Z[index] for index in own]))
    assert np.abs(result.null[:, None] - np.array(legal)).min(1).max() < 1e-10
    strata = rng.integers(0, 2, 12)
    strata[[0, 4, 10]], strata[[1, 5, 11]] = 0, 1
    kept = k_sample_test(*parts, kernel=Linear(), rng=0, strata=strata)
    assert "strata" in kept.method and 0 < kept.pvalue <= 1


def test_the_error_of_low_rank_is_bounded(rng):
    parts = samples(rng, 30, 25, 20, shift=0.4)
    exact = k_sample_test(*parts, rng=0, n_permutations=9).statistic
    for rank in (2, 10, 75):
        low = k_sample_test(*parts, rng=0, n_permutations=9, rank=rank)
        assert 0 <= exact - low.statistic + 1e-10
        assert exact - low.statistic <= low.extra["approximation_error"]
    assert low.extra["approximation_error"] < 1e-7


def test_pairs(rng):
    A, B, C = samples(rng, 25, 20, 22)
    result = k_sample_test(A, B, C + 1.5, rng=0, pairwise=True)
    pairs, adjusted = result.extra["pairwise"], result.extra["adjusted"]
    lines = result.summary().splitlines()[-3:]
    assert [line[11:].partition(":")[0] for line in lines] == ["0 and 1", "0 and 2", "1 and 2"]
    assert lines[0].startswith("pairs ") and f"{adjusted[1, 2]:.4g} adjusted" in lines[2]
    assert "pairs" not in k_sample_test(A, B, C, rng=0).summary()
    assert list(pairs) == [(0, 1), (0, 2), (1, 2)]
    assert result.pvalue == 0.001 == pairs[0, 2].pvalue == pairs[1, 2].pvalue
    assert adjusted[0, 2] == 0.003 and adjusted[1, 2] == 0.003 and adjusted[0, 1] > 0.05
    assert np.array_equal(adjusted, adjusted.T)
    kernel = result.extra["kernel"]
    assert pairs[0, 1].statistic == pytest.approx(mmd(A, B, kernel, "biased"), rel=1e-10)
    blocks = [np.arange(n) // 2 for n in (25, 20, 22)]
    weights = (None, np.repeat([1, 2], 10), None)
    k_sample_test(A, B, C, rng=0, pairwise=True, blocks=blocks, sample_weight=weights)
    weights = (None, np.full(20, 2), None)  # blocks of four beside those of two
    with pytest.raises(InvalidInput, match=r"k_sample_test \(samples 0 and 1\): nothing can"):
        k_sample_test(A, B, C, rng=0, pairwise=True, blocks=blocks, sample_weight=weights)
    words = [["ab", "ac", "bc"] * 3, ["ab", "bc"] * 4, ["xy", "yz"] * 4]
    common = FromFunction(lambda a, b: float(len(set(a) & set(b))))
    strings = k_sample_test(*words, kernel=common, rng=0, pairwise=True)
    assert strings.pvalue == 0.001 and strings.extra["adjusted"][0, 1] > 0.05


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])


def test_degenerate_and_wrong_input(rng):
    same = [np.full((n, 2), 1.3) for n in (3, 1, 4)]
    for kernel in (None, Linear(), 0.3 * RBF() + 0.1):
        assert tuple(k_sample_test(*same, kernel=kernel, n_permutations=19)) == (0.0, 1.0)
    ones = samples(rng, 1, 1, 1)
    assert k_sample_test(*ones, n_permutations=19).pvalue == 1.0
    A, B, C = samples(rng, 5, 4, 3)
    cases = [
        (lambda: k_sample_test(A), "got 1 sample"),
        (lambda: k_sample_test(), "got 0 samples"),
        (lambda: k_sample_test(A, B, C[:, :1]), "sample 2 has 1"),
        (lambda: k_sample_test(A, B[:0], C), "sample 1"),
        (lambda: k_sample_test(A, B, C, sample_weight=(None, None)), "tuple of 3"),
        (lambda: k_sample_test(A, B, C, blocks=np.zeros(5)), "12 rows"),
        (lambda: k_sample_test(A, B, C, n_permutations=0), "n_permutations"),
        (lambda: k_sample_test(A, B, C, early_stop=0), "early_stop"),
        (lambda: k_sample_test(A, B, C, rank=0), "rank"),
        (lambda: k_sample_test(A, B, C, rng="x"), "rng"),
    ]
    for call, words in cases:
        with pytest.raises(InvalidInput, match=f"k_sample_test.*{words}"):
            call()


def test_many_samples_and_little_memory(rng):
    parts = samples(rng, *[2] * 300)
    assert 0 < k_sample_test(*parts, n_permutations=9, rng=0).pvalue <= 1
    parts = samples(rng, 70, 60, 50)
    wanted = k_sample_test(*parts, kernel=RBF(), n_permutations=99, rng=0)
    with mercer.config(memory=200_000):
        found = k_sample_test(*parts, kernel=RBF(), n_permutations=99, rng=0)
    np.testing.assert_allclose(found.null, wanted.null, rtol=1e-9)
