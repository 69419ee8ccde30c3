"""Kernel choice by splitting pairs: criteria by hand, parts that do not meet, level and power."""

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import RBF, Laplacian
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import hsic, hsic_split_test, hsic_test


def test_weights_are_repetitions():
    x, y = np.random.default_rng(0).normal(size=(12, 2)).T
    w = np.array([2, 1, 1, 0, 3, 1, 1, 2, 1, 1, 1, 1])
    c = hsic_split_test(x, y, None, None, 29, 2, sample_weight=w)
    d = hsic_split_test(np.repeat(x, w), np.repeat(y, w), None, None, 29, 2)
    np.testing.assert_allclose(c.extra["criteria"], d.extra["criteria"], rtol=1e-8)
    assert c.pvalue == d.pvalue
    fractions = np.linspace(0.5, 2, 12)
    assert hsic_split_test(x, y, None, None, 9, 2, sample_weight=fractions).pvalue > 0


def test_hsic_criterion_and_parts():
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    y = x**2 + 0.5 * rng.normal(size=40)
    kx, ky = [RBF(0.3), RBF(1.0)], [RBF(0.5), Laplacian(2.0)]
    result = hsic_split_test(x, y, kx, ky, 99, 1)
    a = result.extra["train"] > 0
    assert a.sum() == 20
    assert result.sizes == (20,)
    assert "weights" not in result.method
    H, n = np.eye(20) - 1 / 20, 20
    for (k, l), criterion in zip(result.extra["kernels"], result.extra["criteria"], strict=True):
        # U-centred by the formula of Székely and Rizzo, against L centred.
        K = k(x[a, None]) - np.eye(n)
        r = K.sum(0)
        U = K - (r[:, None] + r) / (n - 2) + r.sum() / ((n - 1) * (n - 2))
        np.fill_diagonal(U, 0)
        rows = (U * (H @ l(y[a, None]) @ H)).sum(1) / (n - 3)
        assert rows.mean() == pytest.approx(hsic(x[a], y[a], k, l, "unbiased"), rel=1e-9)
        sigma = np.sqrt(4 * rows.var() / n + 1e-8)
        assert criterion == pytest.approx(rows.mean() / sigma, rel=1e-9)
    best = int(np.argmax(result.extra["criteria"]))
    assert result.extra["kernel"] == result.extra["kernels"][best]
    k, l = result.extra["kernel"]
    assert result.statistic == pytest.approx(hsic(x[~a], y[~a], k, l), rel=1e-9)


def test_hsic_deviation_is_that_of_many_samples():
    rng = np.random.default_rng(4)
    k = RBF(1.0)
    values, deviations = [], []
    for _ in range(150):
        x = rng.normal(size=80)
        y = x + rng.normal(size=80)
        part = hsic_split_test(x, y, [k], [k], 1, rng, train_fraction=0.9)
        a = part.extra["train"] > 0
        value = hsic(x[a], y[a], k, k, "unbiased")
        values.append(value)
        deviations.append(value / part.extra["criteria"][0])
    assert np.mean(deviations) == pytest.approx(np.std(values), rel=0.25)


def test_level_is_in_the_band_of_chance():
    rng = np.random.default_rng(6)
    pvalues = []
    for _ in range(1000):
        x, y = rng.normal(size=24), rng.normal(size=24)
        pvalues.append(hsic_split_test(x, y, [RBF(0.2), RBF(1.0)], [RBF(1.0)], 99, rng).pvalue)
    for level in (0.05, 0.01):
        low, high = stats.binom.ppf([0.005, 0.995], 1000, level)
        assert low <= (np.array(pvalues) <= level + 1e-12).sum() <= high


def test_chosen_kernels_beat_the_median_distance():
    rng = np.random.default_rng(7)
    waves = plain = 0
    for _ in range(20):
        x = rng.uniform(-1, 1, size=150)
        y = np.sin(16 * x) + 0.2 * rng.normal(size=150)
        waves += hsic_split_test(x, y, None, None, 99, rng).pvalue <= 0.05
        plain += hsic_test(x, y, None, None, 99, rng).pvalue <= 0.05
    assert waves >= 15
    assert plain <= 12


def test_blocks_are_not_split():
    X = np.random.default_rng(0).normal(size=(24, 2))
    result = hsic_split_test(X, X[:, :1], None, None, 19, 0, blocks=3)
    assert set(result.extra["train"].reshape(-1, 3).sum(1)) == {0.0, 3.0}


@pytest.mark.parametrize("design", ["gamma", "blocks", "strata", "counts", "fractions"])
def test_level_of_designs(design):
    rng = np.random.default_rng(8)
    cells = np.array([(i, j) for i in range(4) for j in range(4)], dtype=float).T

    def one():
        x, y = rng.normal(size=(2, 32))
        options = {
            "gamma": {"null": "gamma"},
            "blocks": {"blocks": 2},
            "strata": {"strata": np.arange(32) % 2},
            "counts": {"sample_weight": rng.multinomial(40, np.full(16, 1 / 16))},
            "fractions": {"sample_weight": np.exp(x)},
        }[design]
        x, y = cells if design == "counts" else (x, y)  # a table of counts
        kernels = [RBF(0.5), RBF(1.0)], [RBF(1.0)]
        return hsic_split_test(x, y, *kernels, 99, rng, **options).pvalue

    rejected = (np.array([one() for _ in range(300)]) <= 0.05 + 1e-12).sum()
    low, high = stats.binom.ppf([0.005, 0.995], 300, 0.05)
    assert low <= rejected <= high


def test_fractions_choose_and_are_tested():
    rng = np.random.default_rng(9)
    x = rng.uniform(-1, 1, size=80)
    y = np.sin(8 * x) + 0.3 * rng.normal(size=80)
    w = rng.random(80) + 0.3
    result = hsic_split_test(x, y, [RBF(0.1), RBF(5.0)], [RBF(0.5)], 99, 2, sample_weight=w)
    train = result.extra["train"]
    assert set(np.unique(train / w)) == {0.0, 1.0}
    a = train > 0
    k, l = result.extra["kernel"]
    assert k == RBF(0.1)
    expected = hsic(x[~a], y[~a], k, l, sample_weight=w[~a])
    assert result.statistic == pytest.approx(expected, rel=1e-10)
    assert "weights stay with X" in result.method and result.pvalue <= 0.05


def test_matrices_are_not_stored():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(900, 6))
    y = x + rng.normal(size=(900, 6))
    want = hsic_split_test(x, y, None, None, 9, 0)
    with mercer.config(memory="1MB"):  # a matrix of the part that chooses takes 1.6 MB
        got = hsic_split_test(x, y, None, None, 9, 0)
    np.testing.assert_allclose(got.extra["criteria"], want.extra["criteria"], rtol=1e-8)
    assert got.pvalue == want.pvalue
    w = np.ones(50)
    w[0] = 1e9
    with pytest.raises(MemoryBudgetExceeded, match="hsic_split_test"):
        hsic_split_test(np.arange(50.0), np.arange(50.0), sample_weight=w)


def test_words_and_owners():
    x, y = np.random.default_rng(11).normal(size=(2, 60))
    early = hsic_split_test(x, y, rng=0, early_stop=5)
    assert early.stopped and "stopped early" in early.method
    assert "strata" in hsic_split_test(x, y, None, None, 9, 0, strata=np.arange(60) % 3).method
    assert early.extra["kernel_x"] == early.extra["kernel"][0]
    for wrong in (
        {"n_permutations": 0},
        {"null": "normal"},
        {"estimator": "x"},
        {"early_stop": 0},
        {"strata": [1, 2]},
        {"null": "gamma", "early_stop": 3},
        {"blocks": 0},
    ):
        with pytest.raises(InvalidInput, match="hsic_split_test: "):
            hsic_split_test(x, y, **wrong)
    for scale in (1e-150, 1e150):
        a = hsic_split_test(scale * x, y / scale, ["linear"], ["linear"], 49, 0)
        assert a.pvalue == hsic_split_test(x, y, ["linear"], ["linear"], 49, 0).pvalue


def test_identical_points():
    same = np.ones((8, 2))
    assert hsic_split_test(same, same, None, None, 19, 0).pvalue == 1.0


def test_wrong_pairs_are_named():
    x = np.arange(8.0)
    with pytest.raises(InvalidInput, match="rows"):
        hsic_split_test(x, x[:5])
    with pytest.raises(InvalidInput, match="needs 4"):
        hsic_split_test(x[:6], x[:6])
    with pytest.raises(InvalidInput, match="weight"):
        hsic_split_test(x, x, sample_weight=[1.0])
