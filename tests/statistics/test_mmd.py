"""Squared MMD and its witness: double loops, weights, kinds of data, low rank, degenerate input."""

import itertools
import warnings

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Laplacian, Linear, Polynomial, Precomputed, White
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MercerError
from mercer.statistics import mmd, mmd_test, witness

ESTIMATORS = ("biased", "unbiased")
KERNELS = [RBF(1.3), Linear(), Polynomial(2) + 0.3 * White(), Laplacian(0.5)]


def double_loop(K, n, estimator):
    """The formula, term by term, from the Gram matrix of all points."""
    N = len(K)
    less = estimator == "unbiased"

    def within(index):
        total = sum(K[i, j] for i in index for j in index if not (less and i == j))
        return total / (len(index) * (len(index) - less))

    between = sum(K[i, j] for i in range(n) for j in range(n, N)) / (n * (N - n))
    return within(range(n)) + within(range(n, N)) - 2 * between


@pytest.mark.parametrize("sizes", [(2, 2), (7, 5), (3, 19)])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_double_loop(estimator, kernel, sizes, rng):
    X, Y = rng.standard_normal((sizes[0], 3)), 0.5 + rng.standard_normal((sizes[1], 3))
    K = kernel(np.vstack([X, Y]))
    wanted = double_loop(K, len(X), estimator)
    for tiles in (5, 10**6):
        with small_tiles(tiles):
            found = mmd(X, Y, kernel, estimator)
    assert isinstance(found, float)
    assert found == pytest.approx(wanted, rel=1e-11, abs=1e-13 * abs(K).max())
    assert mmd(Y, X, kernel, estimator) == pytest.approx(wanted, rel=1e-11, abs=1e-12)
    given = mmd(K[: len(X)], K[len(X) :], "precomputed", estimator)
    assert given == pytest.approx(wanted, rel=1e-11, abs=1e-12)


def test_the_unbiased_one_is_unbiased(rng):
    """Over all ways to draw two samples of a population with replacement, the mean is exact."""
    P, Q = rng.standard_normal(3), rng.standard_normal(3) + 1
    k = RBF(0.8)
    K = k(np.concatenate([P, Q])[:, None])
    truth = K[:3, :3].mean() + K[3:, 3:].mean() - 2 * K[:3, 3:].mean()
    found, biased = [], []
    for i in itertools.product(range(3), repeat=2):
        for j in itertools.product(range(3), repeat=2):
            found.append(mmd(P[list(i)], Q[list(j)], k))
            biased.append(mmd(P[list(i)], Q[list(j)], k, "biased"))
    assert np.mean(found) == pytest.approx(truth, rel=1e-12)
    assert np.mean(biased) > truth + 0.01


def test_a_kernel_left_out_is_rbf_at_the_median_of_all_points(rng):
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((30, 2)) + 3
    k = RBF("median").fit_params(np.vstack([X, Y]))
    assert mmd(X, Y) == mmd(X, Y, k)
    assert mmd_test(X, Y, n_permutations=9).extra["kernel"] == k


# --------------------------------------------------------------------------------- witness
@pytest.mark.parametrize("kernel", [None, RBF(0.4), Linear()], ids=repr)
def test_the_squared_norm_of_the_witness_is_the_biased_mmd(kernel, rng):
    X, Y = rng.standard_normal((13, 2)), rng.standard_normal((9, 2)) + 1
    w = rng.random(13), rng.integers(0, 3, 9)
    for weights in (None, w, (None, w[1])):
        f = witness(X, Y, kernel, sample_weight=weights)
        square = mmd(X, Y, kernel, "biased", sample_weight=weights)
        assert f.norm() ** 2 == pytest.approx(square, rel=1e-10)
        gap = np.average(f(X), weights=None if weights is None else weights[0])
        gap -= np.average(f(Y), weights=None if weights is None else weights[1])
        assert gap == pytest.approx(square, rel=1e-10)


def test_the_witness_is_positive_where_x_is(rng):
    X, Y = rng.normal(-2, 0.5, 60), rng.normal(2, 0.5, 40)
    f = witness(X, Y)
    assert f(np.array([[-2.0]]))[0] > 0 > f(np.array([[2.0]]))[0]


def test_the_witness_of_a_matrix_has_values(rng):
    Z = rng.standard_normal((9, 2))
    K = RBF()(Z)
    f, g = witness(K[:4], K[4:], Precomputed()), witness(Z[:4], Z[4:], RBF())
    np.testing.assert_allclose(f(K), g(Z), atol=1e-14)


# --------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("given", [False, True])
def test_weights_are_repetitions(estimator, given, rng):
    X, Y = rng.standard_normal((8, 2)), rng.standard_normal((6, 2)) + 1
    wx, wy = np.array([1, 0, 3, 2, 1, 0, 1, 4]), np.array([2, 1, 0, 1, 1, 5])
    kernel = RBF(0.9)
    wanted = mmd(np.repeat(X, wx, 0), np.repeat(Y, wy, 0), kernel, estimator)
    if given:
        K = kernel(np.vstack([X, Y]))
        found = mmd(K[:8], K[8:], "precomputed", estimator, sample_weight=(wx, wy))
    else:
        found = mmd(X, Y, kernel, estimator, sample_weight=(wx, wy))
    assert found == pytest.approx(wanted, rel=1e-12)
    default = mmd(np.repeat(X, wx, 0), np.repeat(Y, wy, 0), None, estimator)
    assert mmd(X, Y, None, estimator, sample_weight=(wx, wy)) == pytest.approx(default, rel=1e-12)


def test_weights_that_are_no_counts(rng):
    X, Y = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    w, v = rng.random(5) + 0.5, rng.random(4) + 0.5
    K, k = RBF()(np.vstack([X, Y])), RBF()
    A, B, C = K[:5, :5], K[5:, 5:], K[:5, 5:]
    W, V = w.sum(), v.sum()
    A, B = A - np.diag(np.diag(A)), B - np.diag(np.diag(B))
    wanted = w @ A @ w / (W**2 - w @ w) + v @ B @ v / (V**2 - v @ v) - 2 * w @ C @ v / (W * V)
    assert mmd(X, Y, k, sample_weight=(w, v)) == pytest.approx(wanted, rel=1e-12)
    # Only shares matter, and equal ones are none.
    for a, b in ((1e-3, 1e-3), (0.1, 7.3), (50.5, 0.2)):
        assert mmd(X, Y, k, sample_weight=(a * w, b * v)) == pytest.approx(wanted, rel=1e-10)
        equal = mmd(X, Y, k, sample_weight=(np.full(5, a), np.full(4, b)))
        assert equal == pytest.approx(mmd(X, Y, k), rel=1e-10)
    biased = mmd(X, Y, k, "biased", sample_weight=(w, v))
    assert mmd(X, Y, k, "biased", sample_weight=(10 * w, v / 7)) == pytest.approx(biased, rel=1e-12)


# ---------------------------------------------------------------------------- kinds of data
def overlap(a, b):
    return float(len(set(a) & set(b)))


def test_strings():
    X, Y = ["abc", "bcd", "abd"], ["xyz", "xya"]
    K = np.array([[overlap(a, b) for b in X + Y] for a in X + Y])
    k = FromFunction(overlap)
    for estimator in ESTIMATORS:
        assert mmd(X, Y, k, estimator) == pytest.approx(double_loop(K, 3, estimator))
    f = witness(X, Y, k)
    assert f.norm() ** 2 == pytest.approx(mmd(X, Y, k, "biased"))
    result = mmd_test(X * 6, Y * 9, k, rng=0)
    assert result.pvalue == 0.001


def test_tables(rng):
    pandas = pytest.importorskip("pandas")
    frames = [
        pandas.DataFrame({"a": rng.standard_normal(n), "b": rng.choice(list("pq"), n)})
        for n in (12, 9)
    ]
    kernel = RBF(1.0).on("a")
    values = [frame[["a"]].to_numpy() for frame in frames]
    assert mmd(*frames, kernel) == pytest.approx(mmd(*values, RBF(1.0)), rel=1e-12)
    swapped = frames[1][["b", "a"]]
    assert mmd(frames[0], swapped, kernel) == pytest.approx(mmd(*values, RBF(1.0)), rel=1e-12)


def test_sparse_single_precision_and_torch(rng):
    import scipy.sparse as sp

    X, Y = rng.standard_normal((12, 3)), rng.standard_normal((9, 3)) + 1
    k, wanted = RBF(1.1), mmd(X, Y, RBF(1.1))
    assert mmd(sp.csr_matrix(X), sp.csr_matrix(Y), k) == pytest.approx(wanted, rel=1e-10)
    single = mmd(X.astype(np.float32), Y.astype(np.float32), k)
    assert single == pytest.approx(wanted, rel=1e-5)
    torch = pytest.importorskip("torch")
    assert mmd(torch.tensor(X), torch.tensor(Y), k) == pytest.approx(wanted, rel=1e-12)
    with mercer.config(engine="torch"):
        assert mmd(X, Y, k) == pytest.approx(wanted, rel=1e-10)
        assert mmd_test(X, Y, k, 99, 0).pvalue == mmd_test(X, Y, k, 99, 0).pvalue


# -------------------------------------------------------------------------------- low rank
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_low_rank_is_bounded(estimator, weighted, rng):
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((45, 3)) + 0.3
    weights = (rng.integers(0, 4, 60), rng.random(45) + 0.2) if weighted else None
    exact = mmd(X, Y, None, estimator, sample_weight=weights)
    bounds = []
    for rank in (1, 5, 20, 60, 105):
        r = mmd_test(X, Y, None, 9, 3, estimator=estimator, rank=rank, sample_weight=weights)
        bound = r.extra["approximation_error"]
        assert abs(exact - r.statistic) <= bound
        if estimator == "biased":
            assert r.statistic <= exact + 1e-12  # K − FᵀF is positive semidefinite
        bounds.append(bound)
    assert bounds[0] > 1e-3 > bounds[3] > bounds[4]
    assert bounds[4] < 1e-9


def test_the_rank_is_checked_and_repeatable(rng):
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((20, 2))
    assert mmd(X, Y, rank=7, rng=1) == mmd(X, Y, rank=7, rng=1)
    K = RBF()(np.vstack([X, Y]))
    full = mmd(K[:30], K[30:], "precomputed", rank=50)
    assert full == pytest.approx(mmd(X, Y, RBF()), abs=1e-9)
    for rank in (0, -1, 2.5, "3", True):
        with pytest.raises(InvalidInput, match="rank"):
            mmd(X, Y, rank=rank)


# ------------------------------------------------------------------------------ degenerate
def test_points_that_are_all_one():
    for X, Y in [
        (np.full((5, 2), 3.7), np.full((4, 2), 3.7)),
        (np.zeros((2, 1)), np.zeros((9, 1))),
    ]:
        for kernel in (None, RBF(0.3), Linear(), Polynomial(3), 0.3 * RBF() + 0.1):
            for estimator in ESTIMATORS:
                assert mmd(X, Y, kernel, estimator) == 0.0
                r = mmd_test(X, Y, kernel, 49, 0, estimator=estimator)
                assert (r.statistic, r.pvalue) == (0.0, 1.0)
            assert mmd_test(X, Y, kernel, null="gamma").pvalue == 1.0


def test_a_sample_of_one_point(rng):
    x, Y = rng.standard_normal((1, 2)), rng.standard_normal((6, 2))
    k = RBF()
    K = k(np.vstack([x, Y]))
    assert mmd(x, Y, k, "biased") == pytest.approx(double_loop(K, 1, "biased"))
    assert mmd(x, Y[:1], k, "biased") == pytest.approx(2 - 2 * K[0, 1])
    for first, second, name in [(x, Y, "X"), (Y, x, "Y")]:
        with pytest.raises(InvalidInput, match=f"mmd: the unbiased.*{name} has.*biased"):
            mmd(first, second, k)
    assert mmd_test(x, Y, k, estimator="biased", rng=0).pvalue > 1 / 7 - 0.05


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e120])
def test_the_unit_of_the_data_does_not_matter(scale, rng):
    X, Y = rng.standard_normal((15, 3)), rng.standard_normal((12, 3)) + 0.8
    one, other = mmd_test(X, Y, rng=0), mmd_test(scale * X, scale * Y, rng=0)
    assert other.statistic == pytest.approx(one.statistic, rel=1e-6)
    assert other.pvalue == one.pvalue


def test_wrong_input_is_named(rng):
    X, Y = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    cases = [
        (lambda: mmd(X, Y[:, :1]), "X has 2 columns and Y has 1"),
        (lambda: mmd(X[:0], Y), "X"),
        (lambda: mmd(X, []), "Y"),
        (lambda: mmd(X, Y, estimator="both"), "'unbiased' or 'biased'"),
        (lambda: mmd(X, Y, estimator=None), "'unbiased' or 'biased'"),
        (lambda: mmd(X, Y * np.nan), "NaN"),
        (lambda: mmd(X, Y, "no such kernel"), "mmd"),
        (lambda: mmd(["a", "b"], ["c", "d"]), "kernel"),
        (lambda: mmd(X, Y, sample_weight=np.ones(5)), "sample_weight"),
        (lambda: mmd(X, Y, sample_weight=(np.ones(4), None)), "weights of X"),
        (lambda: mmd(X, Y, sample_weight=(None, -np.ones(4))), "negative"),
        (lambda: mmd(X, Y, sample_weight=(None, np.zeros(4))), "weights of Y"),
        (lambda: mmd(X, Y, sample_weight=([0.2, 0, 0, 0, 0], None)), "two points or more"),
        (lambda: mmd(np.eye(5)[:3], np.eye(4)[:2], "precomputed"), "columns"),
        (lambda: mmd(X, Y, rng="seed", rank=2), "rng"),
        (lambda: witness(X, Y[:, :1]), "witness"),
        (lambda: mmd(1e200 * X, Y, Linear()), "overflows"),
        (lambda: mmd(1e200 * X, Y, Linear(), rank=2), "overflows"),
    ]
    for call, words in cases:
        with warnings.catch_warnings(), pytest.raises(MercerError, match=words):
            warnings.simplefilter("error")
            call()
