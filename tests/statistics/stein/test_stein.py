"""The kernel Stein discrepancy against finite differences of k, and the level of its test."""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import mercer
from mercer import RBF, Laplacian, Linear, Matern, RationalQuadratic
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels import Radial
from mercer.statistics import ksd, ksd_test
from mercer.statistics.stein.kernel import SteinKernel, as_score

SIGMA = np.array([[2.0, 0.3], [0.3, 1.0]])
SMOOTH = [
    RBF(1.3),
    RBF([0.7, 2.0]),
    RBF(covariance=SIGMA),
    RationalQuadratic(1.1, 0.5),
    Matern(0.9, 2.5),
    Matern([1.2, 0.4], 1.5),
    Matern(1.0, 3.3),
    Matern(1.0, 1.3),
    Matern([1.0, 2.0], 2.0),
    Matern(1.0, np.inf),
    2.0 * RBF(1.0) + RationalQuadratic([1.0, 0.4], 0.7),
    RBF(1.0) * Matern([2.0, 0.5], 2.5) * RationalQuadratic(),
    (RBF(2.0) + 0.5) ** 3,
    RBF(covariance=SIGMA) ** 1,
]


def normal_score(x):
    return -x


def by_differences(k, X, S, h=1e-4):
    """Return u with every derivative of k a central difference."""
    n, d = X.shape
    eye = h * np.eye(d)

    def f(x, y):
        return float(k(x[None], y[None])[0, 0])

    u = np.empty((n, n))
    for i, x in enumerate(X):
        for j, y in enumerate(X):
            in_y = np.array([f(x, y + e) - f(x, y - e) for e in eye]) / (2 * h)
            in_x = np.array([f(x + e, y) - f(x - e, y) for e in eye]) / (2 * h)
            mixed = [
                f(x + e, y + e) - f(x + e, y - e) - f(x - e, y + e) + f(x - e, y - e) for e in eye
            ]
            u[i, j] = S[i] @ S[j] * f(x, y) + S[i] @ in_y + S[j] @ in_x + sum(mixed) / (4 * h * h)
    return u


@pytest.mark.parametrize("k", SMOOTH, ids=repr)
def test_stein_kernel_is_that_of_finite_differences(k):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2))
    X[3] = X[0]  # points that coincide

    def score(x):
        return -x @ np.linalg.inv(SIGMA)

    K = SteinKernel(k, score)(X)
    u = by_differences(k, X, score(X))
    # Differences of a rough kernel are poor where points meet; elsewhere they are good.
    apart = np.linalg.norm(X[:, None] - X[None], axis=2) > 0
    np.testing.assert_allclose(K[apart], u[apart], atol=5e-6)
    if not (isinstance(k, Matern) and k.nu < 2.5):
        np.testing.assert_allclose(K, u, atol=5e-6)
    np.testing.assert_allclose(SteinKernel(k, score).diag(X), np.diag(K), rtol=1e-12)
    # √s of a distance that is 0 but for rounding: half the digits.
    close = 1e-6 if isinstance(k, Matern) and k.nu < 2.5 else 1e-9
    assert K[0, 3] == pytest.approx(K[0, 0], rel=close)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    corner = SteinKernel(k, score)(X[:4], X[1:])
    np.testing.assert_allclose(corner, K[:4, 1:], rtol=close, atol=1e-11)


@pytest.mark.parametrize("nu", [1.2, 1.5, 2.5])
def test_trace_at_a_point_is_minus_twice_the_slope(nu):
    k = Matern(1.0, nu)
    # For Matérn the limit of tr ∇∇k at distance 0 is d ν/(ν−1)/ℓ².
    u = SteinKernel(k, np.zeros_like)(np.zeros((1, 3)))
    assert u[0, 0] == pytest.approx(3 * nu / (nu - 1), rel=1e-10)


@pytest.mark.parametrize("k", [RBF(0.8), RationalQuadratic(1.0, 0.5), Matern(1.0, 1.5)], ids=repr)
def test_mean_under_the_density_is_zero(k):
    # log p = −x⁴/4 + x/2 without its constant.
    def score(x):
        return -(x**3) + 0.5

    u = SteinKernel(k, score)

    def integrand(y, x):
        both = u(np.array([[x]]), np.array([[y]]))[0, 0]
        return both * np.exp(-(y**4) / 4 + y / 2)

    for x in (-1.0, 0.3, 2.0):
        mean, _ = integrate.quad(integrand, -4.5, 4.5, args=(x,), points=[x], limit=100)
        assert abs(mean) < 1e-5


def test_estimators_by_double_loops_and_weights_as_repetitions():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(9, 2))
    k = RBF(1.1)
    u = by_differences(k, X, -X)
    n = len(X)
    unbiased = sum(u[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    assert ksd(X, normal_score, k) == pytest.approx(unbiased, abs=1e-6)
    assert ksd(X, normal_score, k, "biased") == pytest.approx(u.mean(), abs=1e-6)
    w = np.array([2, 1, 0, 3, 1, 1, 0, 1, 2])
    for estimator in ("unbiased", "biased"):
        a = ksd(X, normal_score, k, estimator, sample_weight=w)
        b = ksd(np.repeat(X, w, axis=0), normal_score, k, estimator)
        assert a == pytest.approx(b, rel=1e-11)
        runs = np.arange(9) // 2  # of the rows as given; those of weight 0 are in them
        for blocks, repeated in ((None, None), (2, runs[np.repeat(np.arange(9), w)])):
            options = {"estimator": estimator, "n_permutations": 49, "rng": 3}
            a = ksd_test(X, normal_score, k, sample_weight=w, blocks=blocks, **options)
            b = ksd_test(np.repeat(X, w, axis=0), normal_score, k, blocks=repeated, **options)
            np.testing.assert_allclose(a.null, b.null, rtol=1e-9, atol=1e-14)
            assert a.pvalue == b.pvalue
    # The word "median" sees the weights too.
    a = ksd(X, normal_score, sample_weight=w)
    assert a == pytest.approx(ksd(np.repeat(X, w, axis=0), normal_score), rel=1e-9)


def test_null_is_that_of_signs():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, 1))
    K = SteinKernel(RBF(1.0), normal_score)(X)
    result = ksd_test(X, normal_score, RBF(1.0), 20, 5)
    signs = 2.0 * np.random.default_rng(5).integers(0, 2, size=(20, 8)) - 1
    off = K - np.diag(np.diag(K))
    np.testing.assert_allclose(result.null, [r @ off @ r / 56 for r in signs], rtol=1e-10)
    reached = sum(v >= result.statistic - 1e-12 for v in result.null)
    assert result.pvalue == (reached + 1) / 21
    labels = [0, 0, 1, 1, 1, 2, 3, 3]
    by_block = ksd_test(X, normal_score, RBF(1.0), 20, 5, blocks=labels)
    signs = 2.0 * np.random.default_rng(5).integers(0, 2, size=(20, 4)) - 1
    expected = [r @ off @ r / 56 for r in signs[:, labels]]
    np.testing.assert_allclose(by_block.null, expected, rtol=1e-10)
    # Rows of no weight have no block either; fractions stay with their rows.
    w = np.array([1, 0.5, 0, 1, 2.5, 1, 1, 1])
    weighted = ksd_test(X, normal_score, RBF(1.0), 20, 5, blocks=labels, sample_weight=w)
    assert weighted.pvalue > 0
    assert "stay" in weighted.method
    expected = (w @ K @ w - w**2 @ np.diag(K)) / (w.sum() ** 2 - w @ w)
    assert weighted.statistic == pytest.approx(expected, rel=1e-10)


def test_level_is_in_the_band_of_chance():
    rng = np.random.default_rng(4)
    pvalues = np.array(
        [
            ksd_test(rng.normal(size=(60, 1)), normal_score, RBF(1.0), 99, rng).pvalue
            for _ in range(1000)
        ]
    )
    for level in (0.05, 0.01):
        low, high = stats.binom.ppf([0.005, 0.995], 1000, level)
        assert low <= (pvalues <= level + 1e-12).sum() <= high
    assert pvalues.min() >= 0.01


@pytest.mark.parametrize("alternative", ["shifted", "heavy"])
def test_power(alternative):
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(50):
        x = rng.normal(size=100) + 0.5 if alternative == "shifted" else rng.standard_t(2, size=100)
        found += ksd_test(x, normal_score, n_permutations=199, rng=rng).pvalue <= 0.05
    assert found >= 40


def test_blocks_hold_the_level_of_dependent_points_better():
    rng = np.random.default_rng(6)
    plain = blocked = 0
    for _ in range(60):
        e = rng.normal(size=300)
        x = np.empty(300)
        x[0] = e[0]
        for i in range(1, 300):
            x[i] = 0.8 * x[i - 1] + 0.6 * e[i]  # stationary law N(0, 1)
        plain += ksd_test(x, normal_score, RBF(1.0), 99, rng).pvalue <= 0.05
        blocked += ksd_test(x, normal_score, RBF(1.0), 99, rng, blocks=25).pvalue <= 0.05
    assert plain > 15
    assert blocked < plain / 2


def test_densities_in_the_place_of_scores():
    rng = np.random.default_rng(7)
    x = rng.normal(1.0, 2.0, size=(50, 1))
    exact = -(x - 1) / 4
    np.testing.assert_allclose(as_score(stats.norm(1, 2))(x), exact, atol=1e-9)
    np.testing.assert_allclose(as_score(stats.multivariate_normal(1, 4))(x), exact, atol=1e-14)
    t = as_score(stats.t(5))(x)
    np.testing.assert_allclose(t, -6 * x / (5 + x**2), atol=1e-9)
    X = rng.normal(size=(40, 2)) @ np.linalg.cholesky(SIGMA).T
    p = stats.multivariate_normal([0.5, -1.0], SIGMA)
    exact = -(X - [0.5, -1.0]) @ np.linalg.inv(SIGMA)
    np.testing.assert_allclose(as_score(p)(X), exact, atol=1e-12)

    class Model:
        def score_samples(self, X):
            return p.logpdf(X)

    np.testing.assert_allclose(as_score(Model())(X), exact, atol=1e-8)
    kde = stats.gaussian_kde(X.T)
    step = np.array([1e-5, 0.0])
    moved = (kde.logpdf((X + step).T) - kde.logpdf((X - step).T)) / 2e-5
    np.testing.assert_allclose(as_score(kde)(X)[:, 0], moved, atol=1e-6)
    a = ksd_test(x, stats.norm(1, 2), rng=0)
    b = ksd_test(x, lambda x: -(x - 1) / 4, rng=0)
    assert a.pvalue == b.pvalue
    assert a.statistic == pytest.approx(b.statistic, abs=1e-8)
    assert a.sizes == (50,)
    assert isinstance(a.extra["kernel"], RBF)


def test_far_points_and_small_scales_keep_their_digits():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30, 2))
    near = ksd(X, normal_score, RBF(1.0))
    far = ksd(X + 1e6, lambda x: -(x - 1e6), RBF(1.0))
    assert far == pytest.approx(near, rel=1e-6)
    tiny = ksd(1e-8 * X, lambda x: -x / 1e-16, RBF(1e-8))
    assert tiny * 1e-16 == pytest.approx(near, rel=1e-9)


def test_weights_that_are_no_counts_have_no_unit():
    rng = np.random.default_rng(12)
    X, w = rng.normal(size=(20, 2)), rng.random(20) + 0.1
    for estimator in ("unbiased", "biased"):
        plain = ksd(X, normal_score, RBF(1.0), estimator)
        even = ksd(X, normal_score, RBF(1.0), estimator, sample_weight=np.full(20, 0.05))
        assert even == pytest.approx(plain, rel=1e-10)
        a, b = (
            ksd_test(X, normal_score, RBF(1.0), 49, 0, estimator=estimator, sample_weight=c * w)
            for c in (1.0, 1e-5)
        )
        assert a.statistic == pytest.approx(b.statistic, rel=1e-10)
        assert a.statistic == ksd(X, normal_score, RBF(1.0), estimator, sample_weight=w)
        np.testing.assert_allclose(a.null, b.null, rtol=1e-9, atol=1e-13)
    values = []
    for _ in range(400):  # the mean of the unbiased one is 0 for fixed weights
        values.append(ksd(rng.normal(size=(20, 1)), normal_score, RBF(1.0), sample_weight=w))
    assert abs(np.mean(values)) < 4 * np.std(values) / 20
    with pytest.raises(InvalidInput, match="two points"):
        ksd([[1.0], [2.0]], normal_score, sample_weight=[0.5, 0])
    assert np.isfinite(ksd([[1.0]], normal_score, RBF(1.0), sample_weight=[2]))


def test_huge_scores_are_answered_or_named():
    X = np.random.default_rng(13).normal(size=(15, 1))
    want = ksd_test(X, normal_score, RBF(1.0), 49, 0)
    for scale in (1e-150, 1e150):
        got = ksd_test(scale * X, lambda x, s=scale: -(x / s) / s, RBF(scale), 49, 0)
        assert got.pvalue == want.pvalue
        assert got.statistic * scale * scale == pytest.approx(want.statistic, rel=1e-6)
    largest = ksd(X, lambda x: np.full_like(x, 1.3e154), RBF(1e9), "biased")
    assert largest == pytest.approx(1.69e308, rel=1e-6)  # the sum over pairs is no number
    for call in (ksd, ksd_test):
        with pytest.raises(InvalidInput, match="overflows"):
            call(X, lambda x: -1e200 * x, RBF(1.0))


def test_counts_beyond_the_budget_are_named():
    w = np.ones(50)
    w[0] = 1e9
    with pytest.raises(MemoryBudgetExceeded, match="ksd_test"):
        ksd_test(np.arange(50.0), normal_score, sample_weight=w, rng=0)
    assert np.isfinite(ksd(np.arange(50.0), normal_score, sample_weight=w))


def test_words_say_what_was_done():
    x = np.random.default_rng(14).normal(size=30)
    early = ksd_test(x, normal_score, rng=0, early_stop=5)
    assert early.stopped and "stopped early" in early.method
    assert "blocks" in ksd_test(x, normal_score, rng=0, n_permutations=9, blocks=3).method
    with pytest.raises(InvalidInput, match="ksd_test: Lapl"):
        ksd_test(x, normal_score, Laplacian(1.0))
    with pytest.raises(InvalidInput, match="ksd: Lapl"):
        ksd(x, normal_score, Laplacian(1.0))


def test_kinds_of_input():
    rng = np.random.default_rng(9)
    x = rng.normal(size=40)
    expected = ksd(x[:, None], normal_score, RBF(1.0))
    assert ksd(x, normal_score, RBF(1.0)) == expected
    assert ksd(list(x), lambda x: -x[:, 0], RBF(1.0)) == expected
    single = ksd(x.astype(np.float32), normal_score, RBF(1.0))
    assert single == pytest.approx(expected, rel=1e-4)
    assert np.isfinite(ksd(x, normal_score, "rational_quadratic"))
    with mercer.config(memory="200KB"):
        assert ksd(x, normal_score, RBF(1.0)) == pytest.approx(expected, rel=1e-10)
    a = ksd_test(x, normal_score, rng=1)
    assert a.pvalue == ksd_test(x, normal_score, rng=np.random.default_rng(1)).pvalue
    early = ksd_test(x, normal_score, rng=1, early_stop=5)
    assert early.stopped
    assert early.n_permutations < 999


def test_tiles_are_those_of_the_whole():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(300, 3))
    whole = ksd_test(X, normal_score, n_permutations=19, rng=0)
    with mercer.config(memory="600KB"):  # u alone takes 720 kB
        tiled = ksd_test(X, normal_score, n_permutations=19, rng=0)
    np.testing.assert_allclose(tiled.null, whole.null, rtol=1e-9, atol=1e-14)


def test_identical_points_and_single_points():
    same = np.full((5, 2), 3.0)
    assert ksd(same, normal_score) == pytest.approx(18 + 2.0)  # ‖s‖² + d/ℓ² with ℓ = 1
    assert ksd_test(same, normal_score, rng=0).pvalue > 0
    assert ksd([[1.0]], normal_score, RBF(1.0), "biased") == pytest.approx(2.0)
    assert ksd_test([[1.0]], normal_score, RBF(1.0), 9, 0, estimator="biased").pvalue == 1.0
    with pytest.raises(InvalidInput, match="two points"):
        ksd([[1.0]], normal_score)
    with pytest.raises(InvalidInput, match="two points"):
        ksd_test([[1.0], [2.0]], normal_score, sample_weight=[1, 0])


class Unsloped(Radial):
    def __init__(self, length_scale=1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s, xp):
        return xp.exp(-s)


class Sloped(Unsloped):
    def _slope(self, s, xp):
        return -xp.exp(-s)


def test_a_kernel_of_the_user():
    X = np.random.default_rng(11).normal(size=(10, 2))
    expected = ksd(X, normal_score, RBF(0.5**0.5))
    assert ksd(X, normal_score, Sloped(1.0)) == pytest.approx(expected, rel=1e-10)
    with pytest.raises(InvalidInput, match="_slope"):
        ksd(X, normal_score, Unsloped(1.0))


@pytest.mark.parametrize(
    "score, message",
    [
        (lambda x: x[:, :1], "shape"),
        (lambda x: np.zeros(len(x)), "shape"),
        (lambda x: "no", "not an array of numbers"),
        (lambda x: np.full_like(x, np.nan), "not finite at row 0"),
        (3.0, "neither a function"),
        (np.zeros((5, 2)), "neither a function"),
        (dict, "neither a function"),
        (stats.norm(), "one value a point"),
        (stats.multivariate_normal([0.0]), "1 coordinates"),
        (stats.multivariate_normal([0.0, 0.0, 0.0]), "3 coordinates"),
        (stats.multivariate_normal([0, 0], [[1, 1], [1, 1]], allow_singular=True), "singular"),
    ],
)
def test_wrong_scores_are_named(score, message):
    X = np.random.default_rng(0).normal(size=(5, 2))
    with pytest.raises(InvalidInput, match=message):
        ksd(X, score)


@pytest.mark.parametrize(
    "law",
    [
        stats.expon(),
        stats.expon,
        stats.expon(5, 1e-6),
        stats.uniform(1e8, 1),
        stats.beta(1, 3),
        stats.beta(3, 1),
        stats.beta(0.5, 3),
        stats.truncnorm(-1, np.inf),
        stats.weibull_max(1.0),
        stats.gamma(1.5),  # goes to 0, but E s² is infinite: rejected 1 in 4 when it is true
    ],
)
def test_densities_that_do_not_vanish_at_an_end_are_refused(law):
    x = law.rvs(size=60, random_state=0)
    for call in (ksd, ksd_test):
        with pytest.raises(InvalidInput, match=r"(log \|x − end\||logit).*log-Jacobian"):
            call(x, law)


@pytest.mark.parametrize(
    "law",
    [
        stats.gamma(2),
        stats.gamma(3, 7, 0.5),
        stats.beta(2, 2),
        stats.invgamma(2),
        stats.lognorm(1),
        stats.laplace(),
        stats.rayleigh(),
    ],
)
def test_densities_that_vanish_at_their_ends_are_taken(law):
    assert ksd_test(law.rvs(size=60, random_state=0), law, n_permutations=99, rng=0).pvalue > 0.05


def test_an_exponential_law_on_the_log_scale_keeps_the_level():
    rng = np.random.default_rng(12)

    def rejected(scale):
        u = np.log(rng.exponential(scale, size=100))
        return ksd_test(u, lambda u: 1 - np.exp(u), n_permutations=99, rng=rng).pvalue <= 0.05

    assert np.mean([rejected(1.0) for _ in range(100)]) <= 0.12
    assert np.mean([rejected(2.0) for _ in range(20)]) >= 0.9


@pytest.mark.parametrize(
    "score",
    [
        stats.norm.logpdf,
        stats.norm(0, 2).logpdf,
        partial(stats.norm.logpdf, scale=2),
        mercer.KernelDensity().score_samples,
    ],
)
def test_log_densities_are_no_scores(score):
    with pytest.raises(InvalidInput, match="slope ∇ log p, not log p; give the density itself"):
        ksd_test(np.random.default_rng(0).normal(size=30), score)


def test_points_outside_the_support_are_named():
    with pytest.raises(InvalidInput, match="not finite at row 1"):
        ksd([0.5, 2.0, 0.1], stats.uniform())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kernel": Laplacian()}, "second derivatives"),
        ({"kernel": Matern(nu=0.5)}, "exceed 1"),
        ({"kernel": RBF() + Linear()}, "second derivatives"),
        ({"kernel": RBF() * Matern(nu=0.7)}, "exceed 1"),
        ({"kernel": "precomputed"}, "rows of numbers"),
        ({"kernel": "nonsense"}, "not a known name"),
        ({"estimator": "best"}, "'unbiased' or 'biased'"),
        ({"X": []}, "ksd"),
        ({"X": [[np.nan, 1.0]]}, "ksd_test"),
        ({"X": [["a", "b"]]}, "ksd_test"),
        ({"blocks": [1, 2]}, "blocks has shape"),
        ({"blocks": 0}, "blocks"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"rng": "seed"}, "rng"),
        ({"sample_weight": [1.0, -1, 1, 1, 1]}, "weight"),
        ({"sample_weight": [1.0]}, "weight"),
        ({"early_stop": 0}, "early_stop"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"X": np.random.default_rng(0).normal(size=(5, 2)), "score": normal_score}
    with pytest.raises(InvalidInput, match=message):
        ksd_test(**{**arguments, **change})


@pytest.mark.parametrize("rank", [None, 7])
def test_stays_in_main_memory(monkeypatch, rank):
    pytest.importorskip("torch")
    bind, met = SteinKernel._bind, []

    def seen(self, X, Y=None):
        met.append(type(X))
        return bind(self, X, Y)

    monkeypatch.setattr(SteinKernel, "_bind", seen)
    X = np.random.default_rng(5).normal(size=(30, 2))
    options = {"rng": 0, "n_permutations": 49, "rank": rank}
    wanted = ksd_test(X, lambda z: -z, **options)
    with mercer.config(engine="torch", device="cpu"):
        found = ksd_test(X, lambda z: -z, **options)
    assert set(met) == {np.ndarray}
    assert tuple(found) == tuple(wanted)
