"""Kernel choice by splitting samples: criteria by hand, parts that do not meet, level and power."""

import numpy as np
import pytest
from scipy import stats

from mercer import RBF, Laplacian, Linear
from mercer.errors import InvalidInput
from mercer.statistics import mmd, mmd_split_test, mmd_test


def two(n, m, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + shift


def power_criterion(K, n):
    """Return MMD²/σ by loops over points."""
    m = len(K) - n
    f = np.empty(n + m)
    for i in range(n):
        f[i] = (K[i, :n].sum() - K[i, i]) / (n - 1) - K[i, n:].mean()
    for j in range(n, n + m):
        f[j] = K[j, :n].mean() - (K[j, n:].sum() - K[j, j]) / (m - 1)
    square = f[:n].mean() - f[n:].mean()
    return square / np.sqrt(4 * f[:n].var() / n + 4 * f[n:].var() / m + 1e-8)


def test_mmd_criterion_and_parts():
    X, Y = two(16, 13, shift=0.7)
    kernels = [RBF(0.2), Laplacian(1.0), RBF(2.0), Linear()]
    result = mmd_split_test(X, Y, kernels, 99, 4)
    a, b = (w > 0 for w in result.extra["train"])
    assert (a.sum(), b.sum()) == (8, 6)
    assert result.sizes == (8, 7)
    Z = np.vstack([X[a], Y[b]])
    for k, criterion in zip(kernels[:3], result.extra["criteria"], strict=False):
        assert criterion == pytest.approx(power_criterion(k(Z), 8), rel=1e-9)
    best = int(np.argmax(result.extra["criteria"]))
    assert result.extra["kernel"] == kernels[best]
    assert result.statistic == pytest.approx(mmd(X[~a], Y[~b], kernels[best]), rel=1e-10)


def test_kernel_sees_the_train_part_alone():
    X, Y = two(30, 30, shift=0.5)
    first = mmd_split_test(X, Y, None, 9, 0)
    a, b = (w > 0 for w in first.extra["train"])
    X2, Y2 = X.copy(), Y.copy()
    X2[~a] += 100.0
    Y2[~b] *= -3.0
    second = mmd_split_test(X2, Y2, None, 9, 0)
    assert second.extra["kernel"] == first.extra["kernel"]
    np.testing.assert_array_equal(second.extra["criteria"], first.extra["criteria"])


def test_weights_are_repetitions():
    X, Y = two(12, 10, shift=0.5)
    w = (np.array([2, 1, 1, 0, 3, 1, 1, 2, 1, 1, 1, 1]), np.array([1, 1, 2, 1, 1, 0, 1, 3, 1, 1]))
    a = mmd_split_test(X, Y, None, 29, 2, sample_weight=w)
    b = mmd_split_test(np.repeat(X, w[0], axis=0), np.repeat(Y, w[1], axis=0), None, 29, 2)
    np.testing.assert_allclose(a.extra["criteria"], b.extra["criteria"], rtol=1e-9)
    assert a.pvalue == b.pvalue
    fractions = (np.linspace(0.5, 2, 12), np.linspace(2, 0.5, 10))
    result = mmd_split_test(X, Y, None, 29, 2, sample_weight=fractions)
    for train, w in zip(result.extra["train"], fractions, strict=True):
        assert set(np.unique(train / w)) == {0.0, 1.0}
    shares = tuple(w / 50 for w in fractions)
    other = mmd_split_test(X, Y, None, 29, 2, sample_weight=shares)
    assert other.pvalue == result.pvalue
    np.testing.assert_allclose(other.extra["criteria"], result.extra["criteria"], rtol=1e-9)


def test_mmd_deviation_is_that_of_many_samples():
    rng = np.random.default_rng(5)
    values, deviations = [], []
    for _ in range(150):
        x, y = rng.normal(size=70), rng.normal(size=90) + 1.0
        part = mmd_split_test(x, y, [RBF(1.0)], 1, rng, train_fraction=0.9)
        a, b = (w > 0 for w in part.extra["train"])
        value = mmd(x[a], y[b], RBF(1.0))
        values.append(value)
        deviations.append(value / part.extra["criteria"][0])
    assert np.mean(deviations) == pytest.approx(np.std(values), rel=0.25)


def test_level_is_in_the_band_of_chance():
    rng = np.random.default_rng(6)
    pvalues = []
    kernels = [RBF(0.2), RBF(1.0), RBF(4.0)]
    for _ in range(1000):
        x, y = rng.normal(size=24), rng.normal(size=24)
        pvalues.append(mmd_split_test(x, y, kernels, 99, rng).pvalue)
    for level in (0.05, 0.01):
        low, high = stats.binom.ppf([0.005, 0.995], 1000, level)
        assert low <= (np.array(pvalues) <= level + 1e-12).sum() <= high


def test_chosen_kernels_beat_the_median_distance():
    rng = np.random.default_rng(7)
    found = median = 0
    for _ in range(20):
        u = rng.uniform(size=2000)
        y = u[rng.uniform(size=2000) * 2 < 1 + np.cos(8 * np.pi * u)][:300]
        x = rng.uniform(size=300)
        found += mmd_split_test(x, y, None, 99, rng).pvalue <= 0.05
        median += mmd_test(x, y, None, 99, rng).pvalue <= 0.05
    assert found >= 15
    assert median <= 10


def test_blocks_are_not_split():
    X, Y = two(24, 18, shift=0.5)
    result = mmd_split_test(X, Y, None, 19, 0, blocks=3)
    for w in result.extra["train"]:
        runs = w.reshape(-1, 3)
        assert set(runs.sum(1)) == {0.0, 3.0}
    labels = np.tile(np.arange(6), 3), np.tile(np.arange(6), 3)
    result = mmd_split_test(X[:18], Y, None, 19, 0, blocks=labels)
    for w, own in zip(result.extra["train"], labels, strict=True):
        for label in range(6):
            assert len(set(w[own == label])) == 1


def test_other_data_and_designs():
    words = (["ab", "abc", "ba", "abab", "aa", "b"] * 3, ["cc", "ccc", "cd", "dd", "dcd"] * 3)

    def shared(a, b):
        return float(len(set(a) & set(b)))

    def same_length(a, b):
        return float(len(a) == len(b))

    result = mmd_split_test(*words, [same_length, shared], 99, 0)
    assert result.pvalue <= 0.05
    assert result.extra["criteria"][1] > result.extra["criteria"][0]
    X, Y = two(20, 20, shift=1.0)
    K = RBF(1.0)(np.vstack([X, Y]))
    a = mmd_split_test(K[:20], K[20:], ["precomputed"], 49, 1)
    b = mmd_split_test(X, Y, [RBF(1.0)], 49, 1)
    assert a.pvalue == b.pvalue
    np.testing.assert_allclose(a.extra["criteria"], b.extra["criteria"], rtol=1e-9)
    strata = np.tile([0, 1], 20)
    assert "strata" in mmd_split_test(X, Y, None, 19, 1, strata=strata).method
    assert mmd_split_test(X, Y, None, 999, 1, early_stop=3).n_permutations <= 999
    assert mmd_split_test(X, Y, None, 19, 1, null="wild").pvalue > 0
    same = np.ones((8, 2))
    assert mmd_split_test(same, same, None, 19, 0).pvalue == 1.0


def test_pairs_are_split_as_pairs():
    """Pair i has a mean of its own; x_i and y_i are exchangeable, and nothing else is."""
    rng = np.random.default_rng(8)
    a = np.linspace(-3, 3, 60)
    found = []
    for _ in range(400):
        x, y = a + 0.3 * rng.normal(size=(2, 60))
        result = mmd_split_test(x, y, [RBF(0.5)], 99, rng, null="wild")
        assert np.array_equal(*result.extra["train"])
        found.append(result.pvalue)
    assert stats.binom.ppf(0.005, 400, 0.05) <= (np.array(found) <= 0.05 + 1e-12).sum()
    assert (np.array(found) <= 0.05 + 1e-12).sum() <= stats.binom.ppf(0.995, 400, 0.05)


def test_signs_of_blocks_of_pairs():
    X, Y = two(24, 24, shift=0.5)
    labels = np.arange(24) // 3
    runs = mmd_split_test(X, Y, None, 49, 0, null="wild", blocks=3)
    assert set(runs.extra["train"][0].reshape(-1, 3).sum(1)) == {0.0, 3.0}
    assert len(np.unique(runs.null.round(9))) <= 8  # four blocks, and −s is as good as s
    for blocks in (labels, (labels, labels + 9), np.concatenate([labels, labels + 9])):
        same = mmd_split_test(X, Y, None, 49, 0, null="wild", blocks=blocks)
        assert same.pvalue == runs.pvalue
    with pytest.raises(InvalidInput, match="without weights"):
        mmd_split_test(X, Y, null="wild", sample_weight=(np.ones(24), None))
    with pytest.raises(InvalidInput, match="one size"):
        mmd_split_test(X, Y[:9], null="wild")


def test_its_own_name_is_in_its_errors():
    X, Y = two(24, 24)
    for options in (
        {"n_permutations": 0},
        {"estimator": "x"},
        {"null": "x"},
        {"early_stop": 0},
        {"blocks": 0},
        {"strata": np.zeros(3)},
        {"null": "gamma", "blocks": 2},
    ):
        with pytest.raises(InvalidInput, match=r"^mmd_split_test"):
            mmd_split_test(X, Y, **options)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"train_fraction": 0.0}, "train_fraction"),
        ({"train_fraction": 1.0}, "train_fraction"),
        ({"train_fraction": "half"}, "train_fraction"),
        ({"train_fraction": 0.05}, "chooses the kernel"),
        ({"train_fraction": 0.95}, "is tested"),
        ({"X": [1.0, 2.0]}, "needs 2"),
        ({"kernels": []}, "list of kernels"),
        ({"X": ["a", "b", "c"]}, "kernel"),
        ({"blocks": [1, 2]}, "blocks"),
        ({"blocks": 0}, "blocks"),
        ({"estimator": "x"}, "estimator"),
        ({"rng": "x"}, "rng"),
        ({"sample_weight": ([1.0], None)}, "weight"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"X": np.arange(8.0), "Y": np.arange(9.0)}
    with pytest.raises(InvalidInput, match=message):
        mmd_split_test(**{**arguments, **change})
