"""Tests of independence: p-values by hand, level, power, time series, strata, weights, memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom

import mercer
from mercer import RBF, FromFunction, Linear
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.statistics import hsic, hsic_test

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_numbers():
    """Let the numbers of a test not depend on the tests before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


EQUAL = FromFunction(lambda a, b: float(a == b))
SETS = 1000


def within_band(pvalues):
    p = np.asarray(pvalues)
    for level in (0.05, 0.01):
        low, high = binom.interval(0.99, len(p), level)
        rejected = int((p <= level + 1e-12).sum())
        assert low <= rejected <= high, f"{rejected} of {len(p)} at {level}"


def test_the_null_is_what_the_statistic_makes_of_shuffled_rows():
    x, y = RNG.standard_normal((9, 2)), RNG.standard_normal((9, 2))
    for estimator in ("biased", "unbiased"):
        result = hsic_test(x, y, RBF(1.0), RBF(1.0), 20, 3, estimator=estimator)
        rng = np.random.default_rng(3)
        draws = rng.permuted(np.tile(np.arange(9), (20, 1)), axis=1)
        want = [hsic(x, y[p], RBF(1.0), RBF(1.0), estimator) for p in draws]
        np.testing.assert_allclose(result.null, want, atol=1e-14)
        reached = sum(v >= result.statistic - 1e-13 for v in want)
        assert result.pvalue == (reached + 1) / 21
        assert result.statistic == pytest.approx(hsic(x, y, RBF(1.0), RBF(1.0), estimator))
        assert result.sizes == (9,) and estimator in result.method


def test_the_pvalue_nears_that_of_all_permutations():
    x = RNG.standard_normal((5, 1))
    y = x + 0.8 * RNG.standard_normal((5, 1))
    k = RBF(1.0)
    at = hsic(x, y, k, k)
    every = [hsic(x, y[list(p)], k, k) for p in permutations(range(5))]
    exact = np.mean(np.array(every) >= at - 1e-13)
    drawn = hsic_test(x, y, k, k, 1999, 0)
    low, high = drawn.confidence_interval(0.999)
    assert low <= exact <= high


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_level(estimator):
    rng = np.random.default_rng(11)

    def one():
        x, y = rng.standard_normal((2, 15, 2))
        return hsic_test(x, y, RBF(1.0), RBF(2.0), 99, rng, estimator=estimator).pvalue

    within_band([one() for _ in range(SETS)])


def test_level_of_low_rank():
    rng = np.random.default_rng(1)

    def low():
        x, y = rng.standard_normal((2, 14, 2))
        return hsic_test(x, y, RBF(1.0), RBF(1.0), 99, rng, rank=3).pvalue

    within_band([low() for _ in range(300)])


@pytest.mark.parametrize("null", ["gamma", "moments"])
def test_level_of_formulas(null):
    rng = np.random.default_rng(2)

    def one():
        x, y = rng.standard_normal((2, 40, 2))
        return hsic_test(x, y, RBF(1.5), RBF(1.5), null=null).pvalue

    p = np.array([one() for _ in range(400)])
    assert 0.02 <= (p <= 0.05).mean() <= 0.09  # approximate: about the level
    assert p.min() > 0 and p.max() <= 1


def circle(rng, n):
    t = rng.uniform(0, 2 * np.pi, n)
    return np.cos(t) + 0.1 * rng.standard_normal(n), np.sin(t) + 0.1 * rng.standard_normal(n)


def square(rng, n):
    x = rng.standard_normal(n)
    return x, x**2 + rng.standard_normal(n)


def wave(rng, n):
    x = rng.uniform(-np.pi, np.pi, n)
    return x, np.sin(3 * x) + 0.5 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("make", "n", "kernel"), [(circle, 100, None), (square, 60, None), (wave, 100, RBF(0.4))]
)
@pytest.mark.parametrize("null", ["permutation", "gamma", "moments"])
def test_power_where_correlation_sees_little(make, n, kernel, null):
    rng = np.random.default_rng(3)
    sets = [make(rng, n) for _ in range(40)]
    options = {"n_permutations": 99, "rng": 0} if null == "permutation" else {}
    found = [hsic_test(x, y, kernel, kernel, null=null, **options).pvalue <= 0.05 for x, y in sets]
    assert np.mean(found) >= 0.9
    assert np.mean([abs(np.corrcoef(x, y)[0, 1]) for x, y in sets]) < 0.3


def series(rng, n, memory=0.8):
    e, out = rng.standard_normal(n + 50), np.zeros(n + 50)
    for t in range(1, n + 50):
        out[t] = memory * out[t - 1] + e[t]
    return out[50:]


def test_blocks_restore_the_level_of_time_series():
    rng = np.random.default_rng(4)
    plain, moved = [], []
    for _ in range(100):
        x, y = series(rng, 160), series(rng, 160)
        k = RBF(2.0)
        plain.append(hsic_test(x, y, k, k, 99, rng).pvalue)
        result = hsic_test(x, y, k, k, 99, rng, blocks=16)
        moved.append(result.pvalue)
    assert "blocks" in result.method
    assert np.mean(np.array(plain) <= 0.05) > 0.3
    assert np.mean(np.array(moved) <= 0.05) < 0.13


def test_strata_test_within_groups():
    rng = np.random.default_rng(5)
    group = np.repeat([0, 1], 40)
    x, y = 3 * group + rng.standard_normal((2, 80))
    assert hsic_test(x, y, rng=0).pvalue < 0.01
    within = hsic_test(x, y, rng=0, strata=group)
    assert within.pvalue > 0.05 and "within strata" in within.method
    y = y + (x - 3 * group)
    assert hsic_test(x, y, rng=0, strata=group).pvalue < 0.01


def test_whole_weights_are_the_test_of_repeated_rows():
    x, y = RNG.standard_normal((12, 3)), RNG.standard_normal((12, 3))
    w = RNG.integers(0, 3, 12)
    g = np.repeat(np.arange(12), w)
    k, strata = RBF(1.0), np.arange(12) % 2
    for options in ({}, {"strata": True}, {"null": "gamma"}, {"null": "moments"}):
        weighted, repeated = dict(options), dict(options)
        if "strata" in options:
            weighted["strata"], repeated["strata"] = strata, strata[g]
        a = hsic_test(x, y, k, k, 50, 0, sample_weight=w, **weighted)
        b = hsic_test(x[g], y[g], k, k, 50, 0, **repeated)
        assert a.statistic == pytest.approx(b.statistic, rel=1e-12) and a.pvalue == b.pvalue
    assert hsic_test(x, y, k, k, 9, 0, sample_weight=np.ones(12)).pvalue == (
        hsic_test(x, y, k, k, 9, 0).pvalue
    )


def test_blocks_follow_whole_weights():
    x, y = RNG.standard_normal((2, 12, 1))
    w = np.r_[np.ones(6, int), np.full(6, 2)]
    result = hsic_test(x, y, n_permutations=20, rng=0, sample_weight=w, blocks=3)
    g = np.repeat(np.arange(12), w)
    labels = np.repeat(np.arange(4), 3)[g]
    again = hsic_test(x, y, n_permutations=20, rng=0, sample_weight=w, blocks=np.arange(12) // 3)
    np.testing.assert_array_equal(result.null, again.null)
    kx, ky = RBF("median").fit_params(x, w), RBF("median").fit_params(y, w)
    plain = hsic_test(x[g], y[g], kx, ky, 20, 0, blocks=labels)
    np.testing.assert_allclose(result.null, plain.null, atol=1e-13)


def test_other_weights_stay_with_x():
    x, y = RNG.standard_normal((12, 2)), RNG.standard_normal((12, 2))
    w = RNG.random(12)
    k = RBF(1.0)
    result = hsic_test(x, y, k, k, 15, 3, sample_weight=w)
    draws = np.random.default_rng(3).permuted(np.tile(np.arange(12), (15, 1)), axis=1)
    want = [hsic(x, y[p], k, k, sample_weight=w) for p in draws]
    np.testing.assert_allclose(result.null, want, atol=1e-14)
    assert "stay with X" in result.method
    absent = hsic_test(x, y, k, k, 15, 3, sample_weight=np.where(w > 0.5, w, 0.0))
    some = w > 0.5
    assert absent.statistic == pytest.approx(hsic(x[some], y[some], k, k, sample_weight=w[some]))
    for null in ("gamma", "moments"):
        with pytest.raises(InvalidInput, match="whole numbers"):
            hsic_test(x, y, null=null, sample_weight=w)


def test_early_stopping_saves_draws_and_nothing_else():
    x, y = RNG.standard_normal((2, 50, 2))
    whole = hsic_test(x, y, n_permutations=999, rng=0)
    short = hsic_test(x, y, n_permutations=999, rng=0, early_stop=10)
    assert short.stopped and short.exceedances == 10 and short.n_permutations < 999
    np.testing.assert_allclose(short.null, whole.null[: short.n_permutations], atol=1e-15)
    assert short.pvalue == 10 / short.n_permutations


def test_it_is_repeatable_whatever_the_threads():
    x, y = RNG.standard_normal((2, 80, 6))
    results = []
    for threads in (1, 2, 5):
        with mercer.config(threads=threads):
            results.append(hsic_test(x, y, n_permutations=60, rng=1))
    for other in results[1:]:
        np.testing.assert_array_equal(other.null, results[0].null)


def test_low_rank_says_its_error():
    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((60, 2)), rng.standard_normal((60, 2))
    exact = hsic_test(x, y, n_permutations=20, rng=0)
    low = hsic_test(x, y, n_permutations=20, rng=0, rank=12)
    error = low.extra["approximation_error"]
    assert 0 < exact.statistic - low.statistic <= error < exact.statistic
    assert "rank 12" in low.method and "approximation_error" not in exact.extra


def test_a_small_budget_computes_values_again_and_gives_the_same():
    x, y = RNG.standard_normal((200, 5)), RNG.standard_normal((200, 6))
    for estimator in ("biased", "unbiased"):
        want = hsic_test(x, y, n_permutations=19, rng=0, estimator=estimator)
        with mercer.config(memory=400_000):
            got = hsic_test(x, y, n_permutations=19, rng=0, estimator=estimator)
        np.testing.assert_allclose(got.null, want.null, rtol=1e-9)
        assert (
            "memory budget" in got.method and "a rank" in got.method and got.pvalue == want.pvalue
        )
        with mercer.config(memory=560_000):  # one matrix takes 320 kB
            half = hsic_test(x, y, n_permutations=19, rng=0, estimator=estimator)
        np.testing.assert_allclose(half.null, want.null, rtol=1e-9)
        assert "each batch" in half.method and half.pvalue == want.pvalue
    want = hsic_test(x, y, null="gamma")
    K, L = RBF("median")(x), RBF("median")(y)
    with mercer.config(memory=600_000):
        got = hsic_test(x, y, null="gamma")
        given = hsic_test(K, L, "precomputed", "precomputed", 9, 0)
    assert got.pvalue == pytest.approx(want.pvalue, rel=1e-9)
    again = hsic_test(K, L, "precomputed", "precomputed", 9, 0)
    np.testing.assert_allclose(given.null, again.null, rtol=1e-9)


def test_twenty_thousand_rows_in_a_small_budget():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=20000)
    y = np.sin(6 * x) + 2 * rng.standard_normal(20000)
    with mercer.config(memory="100MB"):  # one of the matrices would take 3.2 GB
        result = hsic_test(x, y, n_permutations=19, rng=0, kernel_y=RBF(3.0))
        low = hsic_test(
            np.column_stack([x, rng.standard_normal((20000, 7))]),
            y,
            n_permutations=19,
            rng=0,
            rank=50,
        )
    assert result.pvalue == 0.05 and low.pvalue == 0.05
    assert low.extra["approximation_error"] > 0
    with mercer.config(memory="1MB"), pytest.raises(MemoryBudgetExceeded):
        hsic_test(x, y, rank=50)


def test_gamma_is_gretton_s_for_kernels_of_diagonal_one():
    x, y = RNG.standard_normal((30, 2)), RNG.standard_normal((30, 2))
    K, L, n = RBF(1.0)(x), RBF(1.0)(y), 30
    H = np.eye(n) - 1 / n
    Kc, Lc = H @ K @ H, H @ L @ H
    B = (Kc * Lc / 6) ** 2
    variance = 72 * (n - 4) * (n - 5) / n / (n - 1) / (n - 2) / (n - 3)
    variance *= (B.sum() - np.trace(B)) / n / (n - 1)
    mx, my = ((M.sum() - np.trace(M)) / n / (n - 1) for M in (K, L))
    result = hsic_test(x, y, RBF(1.0), RBF(1.0), null="gamma")
    assert result.extra["mean"] == pytest.approx((1 + mx * my - mx - my) / n, rel=1e-10)
    assert result.extra["variance"] == pytest.approx(variance, rel=1e-10)
    assert result.statistic == pytest.approx((Kc * Lc).sum() / n**2, rel=1e-10)
    assert result.confidence_interval() == (result.pvalue, result.pvalue)
    assert "asymptotic" in result.method
    # scaled kernels have scaled moments and the same p-value
    scaled = hsic_test(x, y, 5.0 * RBF(1.0), 0.1 * RBF(1.0), null="gamma")
    assert scaled.pvalue == pytest.approx(result.pvalue, rel=1e-8)


def test_the_kernels_used_are_told():
    x, y = RNG.standard_normal((40, 2)), RNG.standard_normal((40, 1))
    for null in ("permutation", "gamma", "moments"):
        result = hsic_test(x, y, kernel_y="linear", n_permutations=9, rng=0, null=null)
        assert result.extra["kernel_x"] == RBF("median").fit_params(x)
        assert not result.extra["characteristic"]
        assert hsic_test(x, y, n_permutations=9, rng=0, null=null).extra["characteristic"]
        assert result.method.startswith("biased HSIC")
    low = hsic_test(x, y, kernel_y="linear", n_permutations=9, rng=0, rank=5)
    assert low.extra["rank"] == (5, 1)
    share = low.extra["trace_error"]
    assert 0 < share[0] < 1 and share[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e60, 1e150])
def test_huge_and_tiny_values(scale):
    x = RNG.standard_normal((30, 2))
    y = x + 2 * RNG.standard_normal((30, 2))
    k = Linear()
    for options in (
        {},
        {"estimator": "unbiased"},
        {"rank": 2},
        {"null": "gamma"},
        {"null": "moments"},
    ):
        want = hsic_test(x, y, k, k, 99, 0, **options)
        got = hsic_test(scale * x, y / scale, k, k, 99, 0, **options)
        assert got.pvalue == pytest.approx(want.pvalue, rel=1e-9)
        assert got.statistic == pytest.approx(want.statistic, rel=1e-9)
        assert hsic_test(scale * x, y, k, RBF(2.0), 99, 0, **options).pvalue == pytest.approx(
            hsic_test(x, y, k, RBF(2.0), 99, 0, **options).pvalue, rel=1e-9
        )
        if scale > 1e100:
            with pytest.raises(InvalidInput, match="hsic_test: the statistic overflows"):
                hsic_test(scale * x, scale * y, k, k, 99, 0, **options)
        elif scale < 1:  # the statistic is next to 0, and so are all; what they rank is not
            assert hsic_test(scale * x, scale * y, k, k, 99, 0, **options).pvalue == pytest.approx(
                want.pvalue, rel=1e-9
            )
    with pytest.raises(InvalidInput, match=r"hsic_test: .*overflows"):
        hsic_test(1e200 * x, y, k, k)


def test_counts_beyond_the_budget_are_named():
    w = np.ones(50)
    w[0] = 1e9
    x = np.arange(50.0)
    with pytest.raises(MemoryBudgetExceeded, match="hsic_test: the 1000000049 rows"):
        hsic_test(x, x, sample_weight=w)
    assert hsic(x, x, sample_weight=w) > 0
    w[0] = 3000
    with mercer.config(memory="10MB"), pytest.raises(MemoryBudgetExceeded, match="hsic_test"):
        hsic_test(np.eye(50), np.eye(50), "precomputed", "precomputed", sample_weight=w)


@pytest.mark.parametrize("design", ["blocks", "strata", "counts", "fractions"])
def test_level_of_designs(design):
    rng = np.random.default_rng(12)

    def one():
        x, y = rng.standard_normal((2, 18, 2))
        options = {
            "blocks": {"blocks": 2},
            "strata": {"strata": np.arange(18) % 2},
            "counts": {"sample_weight": rng.integers(0, 2, 18)},
            "fractions": {"sample_weight": np.exp(x[:, 0])},
        }[design]
        if design == "strata":
            x, y = x + 3 * (np.arange(18) % 2)[:, None], y + 3 * (np.arange(18) % 2)[:, None]
        return hsic_test(x, y, RBF(1.0), RBF(2.0), 99, rng, **options).pvalue

    within_band([one() for _ in range(SETS // 2)])


@pytest.mark.parametrize("memory", [400_000, 560_000, 2**30])
def test_a_function_that_is_no_kernel_is_named(memory):
    lopsided = FromFunction(lambda a, b: float(a[0] - b[0] > 0))
    x, y = RNG.standard_normal((2, 200, 1))
    with mercer.config(memory=memory):
        for kernels in ((lopsided, None), (None, lopsided)):
            with pytest.raises(InvalidInput, match="symmetric"):
                hsic_test(x, y, *kernels, 9, 0)


def test_any_points():
    words = ["a", "bb", "a", "c"] * 10
    y = np.array([len(w) + (w == "c") for w in words]) + 0.3 * RNG.standard_normal(40)
    assert hsic_test(words, y, EQUAL, n_permutations=199, rng=0).pvalue == 0.005
    assert hsic_test(y, words, None, EQUAL, 199, 0).pvalue == 0.005
    K, L = EQUAL(words), RBF("median")(y[:, None])
    matrix = hsic_test(K, L, "precomputed", "precomputed", 199, 0)
    points = hsic_test(words, y, EQUAL, None, 199, 0)
    assert matrix.statistic == pytest.approx(points.statistic)
    assert hsic_test({"u": y, "v": y}, y, "linear", None, 99, 0).pvalue == 0.01


@pytest.mark.parametrize("null", ["permutation", "gamma", "moments"])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_constants_and_identical_rows_have_pvalue_one(null, kernel):
    y = RNG.standard_normal((20, 3))
    for same in (np.zeros((20, 1)), np.full((20, 3), 1e9)):
        for a, b, ka, kb in ((same, y, kernel, None), (y, same, None, kernel)):
            result = hsic_test(a, b, ka, kb, 19, 0, null=null)
            assert result.statistic == pytest.approx(0.0, abs=1e-15) and result.pvalue == 1.0


def test_one_row_and_two():
    assert hsic_test([[1.0]], [[2.0]], n_permutations=5, rng=0).pvalue == 1.0
    assert hsic_test([1.0, 2.0], [2.0, 1.0], n_permutations=5, rng=0).pvalue == 1.0
    assert hsic_test([1.0, 2.0], [2.0, 1.0], null="moments").pvalue == 1.0


A, B = RNG.standard_normal((8, 2)), RNG.standard_normal((8, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hsic_test(A, B[:5]), "8 rows and Y has 5"),
        (lambda: hsic_test(A, B, null="normal"), "null='normal'"),
        (lambda: hsic_test(A, B, estimator=1), "estimator=1"),
        (lambda: hsic_test(A[:3], B[:3], estimator="unbiased"), "at least 4"),
        (lambda: hsic_test(A[:5], B[:5], null="gamma"), "at least 6"),
        (lambda: hsic_test(A, B, null="gamma", estimator="unbiased"), "biased estimate"),
        (lambda: hsic_test(A, B, null="moments", blocks=2), "blocks is for"),
        (lambda: hsic_test(A, B, null="gamma", early_stop=2), "early_stop is for"),
        (lambda: hsic_test(A, B, null="gamma", rank=2), "rank is for"),
        (lambda: hsic_test(A, B, n_permutations=0), "n_permutations"),
        (lambda: hsic_test(A, B, n_permutations=-1, null="gamma"), "n_permutations"),
        (lambda: hsic_test(A, B, n_permutations="9", null="moments"), "n_permutations"),
        (lambda: hsic_test(A, B, early_stop=0, null="gamma"), "early_stop"),
        (lambda: hsic_test(A, B, null=["gamma"]), "null="),
        (lambda: hsic_test(A, B, blocks=0), "blocks"),
        (lambda: hsic_test(A, B, blocks=[1, 2]), "blocks"),
        (lambda: hsic_test(A, B, strata=[1, 2], sample_weight=np.full(8, 2)), "strata"),
        (lambda: hsic_test(A, B, strata=np.arange(8)), "nothing can change places"),
        (lambda: hsic_test(A, B, rng=-1), "rng=-1"),
        (lambda: hsic_test(["a"] * 8, B), "give a kernel"),
        (lambda: hsic_test(A, B * np.nan), "NaN"),
        (lambda: hsic_test(A[:0], B[:0]), "empty"),
        (lambda: hsic_test(A, B, sample_weight=np.zeros(8)), "weight"),
    ],
)
def test_what_cannot_be_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
