"""Words for scales: "median" and "scale", weighted and not."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.svm import SVC

from mercer import RBF, Exponential, Laplacian, Linear, Matern, RationalQuadratic
from mercer.errors import InvalidInput
from mercer.kernels import scales
from mercer.kernels.scales import median_distance, standard_deviation, weighted_median

WORDY = [RBF, Matern, RationalQuadratic, Laplacian, Exponential]


def test_scale_is_scikit_learns_gamma(rng):
    X = rng.standard_normal((40, 3)) * [1.0, 5.0, 0.1] + 3
    y = (X[:, 0] > 3).astype(int)
    gamma = SVC(gamma="scale").fit(X, y)._gamma
    assert 0.5 / RBF("scale").fit_params(X).length_scale ** 2 == pytest.approx(gamma, rel=1e-12)
    sparse = sp.csr_array(np.where(X > 3, X, 0))
    gamma = SVC(gamma="scale").fit(sp.csr_matrix(sparse), y)._gamma
    got = RBF("scale").fit_params(sparse).length_scale
    assert 0.5 / got**2 == pytest.approx(gamma, rel=1e-10)


def test_median_is_the_median_distance(rng):
    X = rng.standard_normal((31, 4))
    assert RBF("median").fit_params(X).length_scale == pytest.approx(np.median(pdist(X)))
    assert Laplacian("median").fit_params(X).length_scale == pytest.approx(
        np.median(pdist(X, "cityblock"))
    )
    odd = X[:4]  # six distances: the mean of the middle two
    assert median_distance(odd) == pytest.approx(np.median(pdist(odd)))


@pytest.mark.parametrize("word", ["median", "scale"])
@pytest.mark.parametrize("cls", WORDY)
def test_a_weight_of_two_is_the_point_given_twice(cls, word, rng):
    X = rng.standard_normal((25, 3))
    w = rng.integers(0, 4, 25)
    repeated = cls(word).fit_params(np.repeat(X, w, axis=0)).length_scale
    assert cls(word).fit_params(X, w).length_scale == pytest.approx(repeated, rel=1e-12)
    ones = cls(word).fit_params(X, np.ones(25)).length_scale
    assert ones == pytest.approx(cls(word).fit_params(X).length_scale, rel=1e-12)


@pytest.mark.parametrize("word", ["median", "scale"])
@pytest.mark.parametrize(
    "X",
    [np.ones((1, 2)), np.ones((5, 2)), np.zeros((3, 1)), np.full((4, 2), 1e8), np.zeros((0, 2))],
    ids=["one point", "one value", "zeros", "far", "none"],
)
def test_degenerate_data_have_the_scale_one_somewhere(X, word):
    for cls in WORDY:
        scale = cls(word).fit_params(X).length_scale
        assert np.isfinite(scale) and scale > 0
    if len(X):
        assert np.isfinite(RBF(word)(X)).all()


def test_distances_of_repeated_points_do_not_count():
    X = np.array([[0.0], [0.0], [0.0], [0.0], [3.0]])
    assert median_distance(X) == 3.0


def test_many_points_are_thinned_evenly(rng):
    X = rng.standard_normal((3000, 2))
    full = np.median(pdist(X))
    assert median_distance(X) == pytest.approx(full, rel=0.05)
    assert median_distance(X) == median_distance(X)  # no randomness


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-12, 1e12, 1e200, 1e300])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("cls", [RBF, Laplacian])
def test_scales_follow_the_units(scale, kind, cls, rng):
    X = rng.standard_normal((20, 2))
    X[::3, 0] = 0
    for word in ("median", "scale"):
        a, b = (cls(word).fit_params(kind(Z)).length_scale for Z in (X, scale * X))
        assert b == pytest.approx(scale * a, rel=1e-10)
        np.testing.assert_allclose(cls(b)(kind(scale * X)), cls(a)(X), atol=1e-12)


@pytest.mark.parametrize("word", ["median", "scale"])
def test_the_ends_of_the_floats_still_give_a_length(word):
    for X in ([[-1.7e308], [1.7e308]], [[0.0], [5e-324]]):
        scale = RBF(word).fit_params(np.array(X)).length_scale
        assert 0 < scale < np.inf and scale != 1.0


def test_sparse_variance_counts_the_zeros(rng):
    X = np.where(rng.random((30, 4)) < 0.3, 5.0, 0.0)
    w = rng.integers(0, 4, 30)
    repeated = np.repeat(X, w, axis=0)
    assert standard_deviation(sp.csr_array(X), w) == pytest.approx(repeated.std(), rel=1e-13)
    twice = sp.csr_array((np.ones(2), np.zeros(2, int), [0, 2]), shape=(1, 2))  # 1 + 1, and 0
    assert standard_deviation(twice) == pytest.approx(1.0)
    for constant in (np.zeros((3, 2)), np.full((3, 2), 0.1)):
        weights = np.array([0.1, 0.7, 0.3])
        assert standard_deviation(sp.csr_array(constant), weights) == 1.0
        assert standard_deviation(constant, weights) == 1.0
    X[7] = 1e250  # a point without weight does not set the unit
    some = np.arange(30) != 7
    assert standard_deviation(X, some) == pytest.approx(X[some].std(), rel=1e-13)


def test_variance_far_from_the_origin(rng):
    X = rng.standard_normal((50, 2))
    assert standard_deviation(X + 1e8) == pytest.approx(standard_deviation(X), rel=1e-6)
    far = sp.csr_array(X + 1e8)  # E x² − (E x)² would be all rounding
    assert standard_deviation(far) == pytest.approx(X.std(), rel=1e-6)


def test_words_resolve_for_k_of_x_and_not_for_pairs(rng):
    X, Y = rng.standard_normal((9, 2)), rng.standard_normal((4, 2))
    k = RBF("median")
    np.testing.assert_array_equal(k(X), k.fit_params(X)(X))
    np.testing.assert_array_equal(k(X, X), k(X))
    with pytest.raises(InvalidInput, match="fit_params"):
        k(X, Y)
    with pytest.raises(InvalidInput, match="fit_params"):
        k.matmul(X, Y, np.ones(4))
    assert k.length_scale == "median"


def test_words_inside_compositions(rng):
    X = rng.standard_normal((9, 2))
    k = (2.0 * RBF("scale") + Matern("median") * Linear()).normalized()
    fitted = k.fit_params(X)
    assert fitted.kernel.k1.k2.length_scale == RBF("scale").fit_params(X).length_scale
    assert not fitted._words() and fitted.fit_params(X) is fitted
    assert len(fitted.theta) == len(k.theta) + 2


def test_bad_weights(rng):
    X = rng.standard_normal((5, 2))
    for bad in (np.ones(4), np.ones((5, 1)), 2.0):
        with pytest.raises(InvalidInput, match="sample_weight"):
            RBF("median").fit_params(X, bad)


def test_integers_and_float32(rng):
    X = rng.integers(0, 10, (20, 2))
    for word in ("median", "scale"):
        expected = RBF(word).fit_params(X.astype(float)).length_scale
        assert RBF(word).fit_params(X).length_scale == expected
        assert RBF(word).fit_params(X.astype(np.float32)).length_scale == pytest.approx(expected)


def sorted_median(X, w):
    """The weighted median by sorting every pair, each repeated by its whole weight."""
    rows, cols = np.triu_indices(len(X), 1)
    distances = np.repeat(pdist(X), w[rows] * w[cols])
    distances = distances[distances > 1e-12 * distances.max(initial=0.0)]
    return np.median(distances) if len(distances) else 1.0


@pytest.mark.parametrize("n", [2, 3, 4, 30, 300])
@pytest.mark.parametrize("data", ["normal", "grid", "two", "clusters", "far"])
def test_the_median_is_selected_and_not_sorted(n, data, rng):
    X = {
        "normal": rng.standard_normal((n, 2)),
        "grid": rng.integers(0, 3, (n, 2)).astype(float),
        "two": rng.integers(0, 2, (n, 1)).astype(float),
        "clusters": np.where(rng.random((n, 1)) < 0.5, 1e6, 0) + 1e-3 * rng.random((n, 1)),
        "far": 1e9 + rng.random((n, 2)),
    }[data]
    for w in (np.ones(n, int), rng.integers(0, 4, n)):
        assert median_distance(X, w) == pytest.approx(sorted_median(X, w), rel=1e-12)


@pytest.mark.parametrize("find", [median_distance, standard_deviation])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_scales_take_little_memory(find, kind, rng):
    X = kind(rng.standard_normal((20_000, 5)))
    find(X[:9])
    tracemalloc.start()
    try:
        find(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_one_pass_finds_the_median_of_many_points_and_the_rest_falls_back(rng, monkeypatch):
    """Weights, ties at the median, and a bracket that misses give what sorting gives."""
    found = []
    bracketed = scales._bracketed
    monkeypatch.setattr(scales, "_bracketed", lambda *a: found.append(bracketed(*a)) or found[-1])
    for X in (rng.standard_normal((400, 3)), rng.integers(0, 40, (400, 2)).astype(float)):
        for w in (np.ones(400, int), rng.integers(0, 4, 400)):
            assert median_distance(X, w) == pytest.approx(sorted_median(X, w), rel=1e-14)
    assert None not in found
    two = rng.integers(0, 2, (300, 1)).astype(float)  # every distance is 1
    assert median_distance(two) == 1.0 and found[-1] is None
    # Probes that see near pairs only: the bracket does not hold the median.
    monkeypatch.setattr(scales, "PROBES", 1)
    X = np.concatenate([[0.0, 1e-6], 1.0 + rng.random(200)])[:, None]
    assert median_distance(X) == pytest.approx(np.median(pdist(X)), rel=1e-12)
    assert found[-1] is None


def test_a_subset_depends_neither_on_order_nor_on_repetition(rng):
    X = rng.normal(size=(1500, 3)) * [1.0, 5.0, 0.1]
    whole = median_distance(X)
    assert median_distance(X[::-1].copy()) == pytest.approx(whole, rel=1e-12)
    assert median_distance(X[rng.permutation(1500)]) == pytest.approx(whole, rel=1e-12)
    assert median_distance(sp.csr_array(X)) == pytest.approx(whole, rel=1e-12)
    w = rng.integers(0, 4, 1500)
    repeated = np.repeat(X, w, axis=0)
    assert median_distance(X, w) == pytest.approx(median_distance(repeated), rel=1e-12)
    assert whole == pytest.approx(np.median(pdist(X)), rel=0.02)
    few, w = X[:400], rng.integers(1, 6, 400)  # few points, many copies: all of them decide
    assert median_distance(np.repeat(few, w, axis=0)) == pytest.approx(
        median_distance(few, w), rel=1e-12
    )


def test_weights_too_large_to_multiply_have_their_ratios():
    X = np.random.default_rng(0).normal(size=(30, 3))
    w = 1.0 + np.arange(30) % 3
    with np.errstate(all="raise"):
        assert median_distance(X, 1e300 * w) == median_distance(X, w)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-200])
def test_a_weighted_median_of_equal_weights_is_the_median(n, weight):
    x = np.random.default_rng(n).normal(size=n).round(1)
    found = weighted_median(x, np.full(n, weight))
    assert found == np.median(x)
    if weight == 1.0:  # by the way of unequal weights: one row once more, and a row beside it
        repeated = np.append(x, x[0])
        weights = np.ones(n)
        weights[0] = 2.0
        assert weighted_median(x, weights) == np.median(repeated)
