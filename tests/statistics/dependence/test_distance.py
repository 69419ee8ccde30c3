"""Distance correlation: the textbook's formula, laws of the measure, and its test."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.spatial.distance import cdist

import mercer
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import distance_correlation, distance_correlation_test, hsic


def columns(X):
    X = np.asarray(X, dtype=float)
    return X.reshape(len(X), -1)


def textbook(X, Y, exponent=1.0):
    def centred(X):
        a = cdist(X, X) ** exponent
        return a - a.mean(axis=0) - a.mean(axis=1)[:, None] + a.mean()

    A, B = centred(columns(X)), centred(columns(Y))
    return ((A * B).mean() / np.sqrt((A * A).mean() * (B * B).mean())) ** 0.5


def corrected(X, Y, exponent=1.0):
    def centred(X):
        a = cdist(X, X) ** exponent
        n = len(a)
        a = a - a.sum(axis=0) / (n - 2) - a.sum(axis=1)[:, None] / (n - 2)
        a += (cdist(X, X) ** exponent).sum() / ((n - 1) * (n - 2))
        return a * (1 - np.eye(n))

    A, B = centred(columns(X)), centred(columns(Y))
    return (A * B).sum() / np.sqrt((A * A).sum() * (B * B).sum())


def related(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.column_stack([X[:, 0] ** 2, rng.normal(size=n)]) + 0.3 * rng.normal(size=(n, 2))


@pytest.mark.parametrize("n, d, exponent", [(4, 1, 1.0), (30, 3, 1.0), (300, 7, 0.5), (50, 2, 1.9)])
def test_it_is_the_textbooks(n, d, exponent):
    X, Y = related(n, d)
    found = distance_correlation(X, Y, exponent=exponent)
    assert abs(found - textbook(X, Y, exponent)) < 1e-12
    found = distance_correlation(X, Y, "unbiased", exponent=exponent)
    assert abs(found - corrected(X, Y, exponent)) < 1e-12


def test_of_single_numbers_it_is_hsic_of_brownian_motion():
    x = np.abs(np.random.default_rng(0).normal(size=25))
    y = np.abs(np.sin(3 * x))

    def criterion(a, b):
        return hsic(a, b, mercer.kernels.Minimum(), mercer.kernels.Minimum())

    squared = criterion(x, y) / np.sqrt(criterion(x, x) * criterion(y, y))
    assert distance_correlation(x, y) ** 2 == pytest.approx(squared, rel=1e-10)


def test_laws():
    X, Y = related(40, 3)
    found = distance_correlation(X, Y)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    assert distance_correlation(Y, X) == pytest.approx(found, rel=1e-12)
    assert distance_correlation(5 - 3 * X @ turn, Y + 7) == pytest.approx(found, rel=1e-12)
    assert distance_correlation(1e300 * X, 1e-300 * Y) == pytest.approx(found, rel=1e-12)
    assert distance_correlation(X, 2 - X @ turn) == pytest.approx(1.0, rel=1e-12)
    assert distance_correlation(X, X, "unbiased") == pytest.approx(1.0, rel=1e-12)
    assert distance_correlation(X, np.full(40, 0.1)) == 0.0
    assert distance_correlation([1.0], [2.0]) == 0.0
    assert distance_correlation(sp.csr_array(X), Y) == pytest.approx(found, rel=1e-12)
    rng = np.random.default_rng(2)
    w = rng.integers(0, 4, 40)
    for estimator in ("biased", "unbiased"):
        repeated = distance_correlation(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0), estimator)
        weighted = distance_correlation(X, Y, estimator, sample_weight=w)
        assert weighted == pytest.approx(repeated, abs=1e-13)


def test_the_unbiased_one_is_0_on_average():
    rng = np.random.default_rng(3)
    found = [
        [distance_correlation(*rng.normal(size=(2, 20, 5)), e) for e in ("unbiased", "biased")]
        for _ in range(200)
    ]
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0)
    assert abs(mean[0]) < 4 * deviation[0] / 200**0.5
    assert mean[1] > 0.4  # of so few rows and so many columns


def test_the_test_shuffles_correlations():
    X, Y = related(25, 2)
    result = distance_correlation_test(X, Y, 49, 5)
    assert result.statistic == pytest.approx(textbook(X, Y), abs=1e-12)
    assert result.extra == {"exponent": 1.0}
    draws = np.random.default_rng(5).permuted(np.tile(np.arange(25), (49, 1)), axis=1)
    np.testing.assert_allclose(result.null, [textbook(X, Y[p]) for p in draws], atol=1e-12)
    unbiased = distance_correlation_test(X, Y, 49, 5, estimator="unbiased")
    np.testing.assert_allclose(unbiased.null, [corrected(X, Y[p]) for p in draws], atol=1e-12)
    assert "unbiased distance correlation, permutations of rows" in unbiased.method
    assert distance_correlation_test(X, np.ones(25), 9, 0).pvalue == 1.0
    w = np.random.default_rng(6).integers(0, 3, 25)
    weighted = distance_correlation_test(X, Y, 19, 0, sample_weight=w)
    repeated = distance_correlation_test(np.repeat(X, w, axis=0), np.repeat(Y, w, axis=0), 19, 0)
    assert weighted.pvalue == repeated.pvalue
    quick = distance_correlation_test(X, Y[::-1], 999, 0, early_stop=3, blocks=5)
    assert quick.stopped and "blocks" in quick.method


def test_level_is_exact():
    rng = np.random.default_rng(7)
    p = [distance_correlation_test(*rng.normal(size=(2, 7)), 19, rng).pvalue for _ in range(600)]
    counts = np.bincount(np.rint(20 * np.array(p)).astype(int), minlength=21)[1:]
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize(
    "change, message",
    [
        ({"exponent": 2.0}, r"exponent=2.0; give a number > 0 and < 2"),
        ({"exponent": 0}, "exponent=0"),
        ({"estimator": "best"}, "estimator"),
        ({"X": np.zeros((5, 1))}, "X has 5 rows and Y has 6"),
        ({"X": ["a"] * 6}, "where numbers belong"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"X": np.zeros(3), "Y": np.zeros(3), "estimator": "unbiased"}, "at least 4 observations"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"X": np.arange(6.0), "Y": np.arange(6.0)} | change
    for measure in (distance_correlation, distance_correlation_test):
        with pytest.raises(InvalidInput, match=message) as error:
            measure(**arguments)
        assert str(error.value).startswith(measure.__name__)


def test_memory_is_asked_for_first():
    x = np.arange(500.0)
    with mercer.config(memory="1 MB"), pytest.raises(MemoryBudgetExceeded, match="distances among"):
        distance_correlation(x, x)
