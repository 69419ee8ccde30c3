"""HSIC: against loops over triples and quadruples, weights, factors, bounds, degenerate data."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Linear, Polynomial
from mercer.errors import InvalidInput
from mercer.statistics import hsic
from mercer.statistics.dependence.shuffled import (
    Banded,
    Contrast,
    Factored,
    Gathered,
    Mixed,
    Retiled,
    shuffles,
)
from mercer.statistics.factors import Factor, error_bound, exact_factor, pivoted_factor
from mercer.statistics.observations import effective
from mercer.statistics.samples import paired

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def own_numbers():
    """Let the numbers of a test not depend on the tests before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


X, Y = RNG.standard_normal((13, 3)), RNG.standard_normal((13, 6))
KX, KY = RBF(1.1), RBF(1.7)
EQUAL = FromFunction(lambda a, b: float(a == b))


def biased(K, L):
    H = np.eye(len(K)) - 1 / len(K)
    return np.trace(K @ H @ L @ H) / len(K) ** 2


def unbiased(K, L):
    n = len(K)
    K, L = K - np.diag(K.diagonal()), L - np.diag(L.diagonal())
    last = K.sum() * L.sum() / (n - 1) / (n - 2) - 2 * (K @ L).sum() / (n - 2)
    return (np.trace(K @ L) + last) / n / (n - 3)


FORMULAS = {"biased": biased, "unbiased": unbiased}


def test_biased_is_the_loop_over_quadruples():
    K, L = KX(X[:5]), KY(Y[:5])
    total = 0.0
    for i, j, q, r in product(range(5), repeat=4):
        total += K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q])
    assert hsic(X[:5], Y[:5], KX, KY) == pytest.approx(total / 5**4, rel=1e-12)


def test_unbiased_is_the_loop_over_different_quadruples():
    n = 6
    K, L = KX(X[:n]), KY(Y[:n])
    total = [
        K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]) for i, j, q, r in permutations(range(n), 4)
    ]
    got = hsic(X[:n], Y[:n], KX, KY, "unbiased")
    assert got == pytest.approx(np.mean(total), rel=1e-11)


@pytest.mark.parametrize("estimator", FORMULAS)
@pytest.mark.parametrize(
    "kernels", [(KX, KY), (Linear(), KY), (KX, Linear()), (Linear(), Linear())]
)
def test_whole_weights_repeat_rows(estimator, kernels):
    w = RNG.integers(0, 4, 13)
    g = np.repeat(np.arange(13), w)
    K, L = kernels[0](X)[np.ix_(g, g)], kernels[1](Y)[np.ix_(g, g)]
    want = FORMULAS[estimator](K, L)
    got = hsic(X, Y, *kernels, estimator, sample_weight=w)
    assert got == pytest.approx(want, rel=1e-10)
    assert hsic(X[g], Y[g], *kernels, estimator) == pytest.approx(want, rel=1e-10)
    halved = hsic(X, Y, *kernels, sample_weight=w / 2)  # the biased one knows shares only
    assert halved == pytest.approx(hsic(X, Y, *kernels, sample_weight=w), rel=1e-10)


def test_median_of_the_default_kernel_sees_weights():
    w = np.r_[np.full(6, 3), np.ones(7, int)]
    g = np.repeat(np.arange(13), w)
    assert hsic(X, Y, sample_weight=w) == pytest.approx(hsic(X[g], Y[g]), rel=1e-10)


def eigen_factor(K):
    values, U = np.linalg.eigh(K)
    return Factor(U * np.sqrt(np.maximum(values, 0)), 0.0)


@pytest.mark.parametrize("estimator", FORMULAS)
@pytest.mark.parametrize("weights", [None, "fractions"])
def test_every_way_to_shuffle_is_the_formula(estimator, weights):
    w = np.ones(13) if weights is None else effective(RNG.random(13) + 0.5)
    wide = estimator == "unbiased"
    pair = paired(X, Y, KX, KY, None if weights is None else w)
    P = np.array([np.arange(13), *(RNG.permutation(13) for _ in range(6))])
    K, L = KX(X), KY(Y)
    want = [
        hsic(K, L[np.ix_(p, p)], "precomputed", "precomputed", estimator, sample_weight=w)
        for p in P
    ]
    if weights is None:
        loops = [FORMULAS[estimator](K, L[np.ix_(p, p)]) for p in P]
        np.testing.assert_allclose(want, loops, atol=1e-15)
    ways = [
        Gathered(K.copy(), L.copy(), w, wide),
        Mixed(K.copy(), eigen_factor(L), w, wide),
        Factored(eigen_factor(K), eigen_factor(L), w, wide),
        Retiled(pair, w, wide),
        Banded(pair, w, wide),
    ]
    if weights is None:
        ways.append(Mixed(L.copy(), eigen_factor(K), w, wide, swapped=True))
    for way in ways:
        np.testing.assert_allclose(way.evaluate(P), want, atol=1e-14)
        assert way.observed == pytest.approx(want[0], abs=1e-14)


def test_fractional_weights_are_the_limit_of_counts():
    A = Contrast.of(KX(X) @ np.ones(13), np.ones(13), np.ones(13), True)
    B = Contrast.of(KX(X) @ np.ones(13), np.ones(13), np.ones(13) + 1e-9, True)
    np.testing.assert_allclose(A.dense(KX(X)), B.dense(KX(X)), atol=1e-10)


def test_the_cheapest_way_is_taken():
    n = 300
    x, y = RNG.standard_normal((n, 1)), RNG.standard_normal((n, 8))
    labels = [str(i % 3) for i in range(n)]
    assert isinstance(shuffles(paired(x, x, None, None, None), False), Factored)
    assert isinstance(shuffles(paired(y, labels, None, EQUAL, None), False), Mixed)
    assert isinstance(shuffles(paired(labels, y, EQUAL, None, None), False), Mixed)
    assert isinstance(shuffles(paired(y, y, None, None, None), False), Gathered)
    with mercer.config(memory=14 * n * n):
        assert isinstance(shuffles(paired(y, y, None, None, None), False), Banded)
    with mercer.config(memory=1_000_000):
        assert isinstance(shuffles(paired(y, y, None, None, None), False), Retiled)


def test_factors_are_exact_or_none():
    x = RNG.standard_normal((200, 1)) + 1e4
    line = exact_factor(Linear(), x, 5)
    assert line.rank == 1 and line.missing == 0
    smooth = exact_factor(RBF(1.0), x, 40)
    assert np.abs(smooth.F @ smooth.F.T - RBF(1.0)(x)).max() < 1e-11
    assert exact_factor(RBF(1.0), RNG.standard_normal((200, 8)), 40) is None
    assert exact_factor(RBF(1e6), x, 40) is None  # after centring nothing would be left to trust
    indefinite = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert exact_factor(mercer.Precomputed(), indefinite, 1) is None


def test_a_linear_kernel_far_from_the_origin_keeps_its_digits():
    x, y = RNG.standard_normal(100), RNG.standard_normal(100)
    want = hsic(x, y, "linear", "linear")
    assert hsic(x + 1e6, y - 1e7, "linear", "linear") == pytest.approx(want, rel=1e-7)
    assert want == pytest.approx(np.cov(x, y, bias=True)[0, 1] ** 2, rel=1e-12)


@pytest.mark.parametrize("estimator", FORMULAS)
@pytest.mark.parametrize("rank", [1, 3, 8, 30, 200])
def test_the_error_of_a_low_rank_is_within_its_bound(estimator, rank):
    x, y = RNG.standard_normal((60, 2)), RNG.standard_normal((60, 4))
    y[:, 0] += x[:, 0]
    rng, ones, wide = np.random.default_rng(rank), np.ones(60), estimator == "unbiased"
    a, b = (pivoted_factor(RBF(1.0), Z, rank, rng) for Z in (x, y))
    bound = error_bound(a, b, ones, wide)
    low = Factored(a, b, ones, wide)
    exact = Gathered(RBF(1.0)(x), RBF(1.0)(y), ones, wide)
    P = np.array([np.arange(60), RNG.permutation(60)])
    gap = exact.evaluate(P) - low.evaluate(P)
    assert (np.abs(gap) <= bound + 1e-15).all()
    if estimator == "biased":
        assert (gap >= -1e-15).all()
    if rank == 200:
        assert bound < 1e-12
    if rank == 8:
        assert bound > 1e-6  # it must be able to say that much is missing
        assert bound < 2 * error_bound(a, b, ones, False)


@pytest.mark.parametrize("n", [4, 5, 9])
def test_the_bound_holds_for_few_and_weighted_rows(n):
    rng = np.random.default_rng(n)
    for trial in range(60):
        F, G = rng.standard_normal((2, n, n)) * np.geomspace(1, 0.01, n)
        K, L = F @ F.T, G @ G.T
        r, s = rng.integers(0, n, 2)
        a, b = Factor(F[:, :r], (F[:, r:] ** 2).sum()), Factor(G[:, :s], (G[:, s:] ** 2).sum())
        w = [np.ones(n), rng.integers(1, 4, n).astype(float), effective(rng.random(n) + 0.5)]
        w = w[trial % 3]
        P = np.array([np.arange(n), *(rng.permutation(n) for _ in range(4))])
        for wide in (False, True):
            if wide and not w.sum() > 3:
                continue
            exact = Gathered(K.copy(), L.copy(), w, wide).evaluate(P)
            gap = np.abs(exact - Factored(a, b, w, wide).evaluate(P))
            assert (gap <= error_bound(a, b, w, wide) * (1 + 1e-9) + 1e-13).all()


def test_rank_and_memory_give_the_same_number():
    x, y = RNG.standard_normal((80, 3)), RNG.standard_normal((80, 3))
    want = hsic(x, y)
    assert hsic(x, y, rank=80, rng=0) == pytest.approx(want, rel=1e-9)
    assert hsic(x, y, rank=5, rng=0) < want
    with mercer.config(memory=90_000):
        assert hsic(x, y) == pytest.approx(want, rel=1e-10)
        assert hsic(x, y, estimator="unbiased") == pytest.approx(
            unbiased(*(RBF("median")(z) for z in (x, y))), rel=1e-8
        )


def test_any_points_and_symmetry():
    words = ["a", "bb", "a", "c", "bb", "a", "c", "c"]
    numbers = np.array([0, 1, 0, 2, 1, 0, 2, 2.0])
    assert hsic(words, numbers, EQUAL) == pytest.approx(hsic(numbers, words, None, EQUAL))
    K = EQUAL(words)
    assert hsic(words, words, EQUAL, EQUAL) == pytest.approx(biased(K, K))
    assert hsic(X, Y, Polynomial(2), KY) == pytest.approx(hsic(Y, X, KY, Polynomial(2)))
    assert hsic(X.astype(np.float32), Y) == pytest.approx(hsic(X, Y), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_units_do_not_matter(scale):
    assert hsic(X * scale, Y) == pytest.approx(hsic(X, Y), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e80, 1e150])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2, 0.0)])
def test_products_of_huge_and_tiny_kernel_values(scale, kernel):
    scale = scale if isinstance(kernel, Linear) else np.copysign(abs(scale) ** 0.5, scale)
    for estimator in FORMULAS:
        want = hsic(X, Y, kernel, kernel, estimator)
        assert hsic(X * scale, Y / scale, kernel, kernel, estimator) == pytest.approx(
            want, rel=1e-9
        )
        low = hsic(X * scale, Y / scale, kernel, kernel, estimator, rank=20, rng=0)
        assert low == pytest.approx(want, rel=1e-9)
        K = kernel(X * scale)
        given = hsic(K, Y / scale, "precomputed", kernel, estimator)
        assert given == pytest.approx(want, rel=1e-9)
    if scale > 1:
        with pytest.raises(InvalidInput, match="hsic: the statistic overflows"):
            hsic(X * scale, Y * scale, kernel, kernel)
    with pytest.raises(InvalidInput, match=r"hsic: .*overflows"):
        hsic(X * 1e200, Y, kernel, kernel)


def test_weights_that_are_no_counts_have_no_unit():
    w = RNG.random(13) + 0.2
    for kernels in ((KX, KY), (Linear(), Linear())):
        plain = hsic(X, Y, *kernels, "unbiased")
        for c in (0.15, 0.5, 2.5):
            even = hsic(X, Y, *kernels, "unbiased", sample_weight=np.full(13, c))
            assert even == pytest.approx(plain, rel=1e-9)
        a, b = (hsic(X, Y, *kernels, "unbiased", sample_weight=c * w) for c in (1.0, 1e-200))
        assert a == pytest.approx(b, rel=1e-9)
    v = effective(w)
    assert v.sum() == pytest.approx(w.sum() ** 2 / (w @ w))
    assert v @ v == pytest.approx(v.sum())
    with pytest.raises(InvalidInput, match="at least 4"):
        hsic(X, Y, estimator="unbiased", sample_weight=np.r_[np.full(3, 0.5), np.zeros(10)])


def test_the_unbiased_estimate_of_weighted_rows_has_little_bias():
    rng = np.random.default_rng(1)
    w, k = rng.lognormal(0, 0.7, 30), RBF(1.0)
    values = []
    for _ in range(600):
        x = rng.standard_normal((2, 30, 1))
        values.append([hsic(*x, k, k, e, sample_weight=w) for e in FORMULAS])
    bias, error = np.mean(values, axis=0), np.std(values, axis=0) / 600**0.5
    assert abs(bias[1]) < 4 * error[1] + 0.03 * bias[0]  # of independent variables it is 0
    assert bias[0] > 20 * error[0]


@pytest.mark.parametrize("constant", [0.0, 7.3, 1e12])
@pytest.mark.parametrize("kernel", [None, "linear", "polynomial"])
def test_a_constant_depends_on_nothing(constant, kernel):
    same = np.full((13, 2), constant)
    for estimator in FORMULAS:
        assert hsic(same, Y, kernel, None, estimator) == 0.0
        assert hsic(Y, same, None, kernel, estimator) == pytest.approx(0.0, abs=1e-15)


def test_few_rows():
    assert hsic([[1.0]], [[2.0]]) == 0.0
    assert hsic([[1.0], [2.0]], [[2.0], [5.0]]) > 0
    for n in (1, 2, 3):
        with pytest.raises(InvalidInput, match="at least 4 observations"):
            hsic(X[:n], Y[:n], estimator="unbiased")
    with pytest.raises(InvalidInput, match="at least 4"):
        hsic(X, Y, estimator="unbiased", sample_weight=np.r_[1, 1, 1, np.zeros(10)])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hsic(X, Y[:5]), "13 rows and Y has 5"),
        (lambda: hsic(np.zeros((0, 2)), np.zeros((0, 2))), "empty"),
        (lambda: hsic(X, np.where(Y > 1, np.nan, Y)), "NaN"),
        (lambda: hsic(["a", "b"], ["c", "d"]), "give a kernel"),
        (lambda: hsic(X, Y, estimator="mle"), "estimator='mle'"),
        (lambda: hsic(X, Y, rank=0), "rank=0"),
        (lambda: hsic(X, Y, rank=2.5), "rank=2.5"),
        (lambda: hsic(X, Y, rank=2, rng="x"), "rng='x'"),
        (lambda: hsic(X, Y, sample_weight=np.zeros(13)), "weight"),
        (lambda: hsic(X, Y, sample_weight=-np.ones(13)), "weight"),
        (lambda: hsic(X[:, :2], Y, "precomputed"), "square"),
    ],
)
def test_what_cannot_be_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
