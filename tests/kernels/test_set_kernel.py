"""The mean map between bags: the double sum, tiles, gradients, words, features, models, files."""

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, FromFunction, KernelRidge, Linear, Matern, Polynomial, SetKernel, White
from mercer.domains import Strings
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.kernels.counted import Counted, Counts
from mercer.statistics import mmd


class Letters(Counted):
    """How often two strings have the same letter."""

    domain = Strings()

    def __init__(self):
        super().__init__()

    def _counts(self, X):
        rows = np.repeat(np.arange(len(X)), X.lengths)
        return Counts(len(X), rows, X.codes.astype(np.uint64))


def bags_of(rng, sizes, d=2, dtype=float):
    return [rng.standard_normal((m, d)).astype(dtype) for m in sizes]


def brute(k, A, B):
    K = np.zeros((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            K[i, j] = k(a, b).mean() if len(a) and len(b) else 0.0
    return K


SIZES = [3, 0, 1, 7, 2, 40, 1, 0, 5]


@pytest.mark.parametrize("k", [RBF(0.7), Linear(), Polynomial(2), RBF() * Linear() + 1.0])
@pytest.mark.parametrize("entries", [1, 9, 50, 4000])
def test_the_double_sum_in_tiles_of_any_size(rng, k, entries):
    A, B = bags_of(rng, SIZES), bags_of(rng, [4, 0, 100, 2])
    s = SetKernel(k)
    with small_tiles(entries):
        np.testing.assert_allclose(s(A), brute(k, A, A), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(s(A, B), brute(k, A, B), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(s.diag(A), brute(k, A, A).diagonal(), rtol=1e-12, atol=1e-13)
        V = rng.standard_normal((len(A), 2))
        np.testing.assert_allclose(s.matmul(A, None, V), brute(k, A, A) @ V, rtol=1e-11)


def test_a_bag_of_one_point_is_the_point(rng):
    X = rng.standard_normal((8, 3))
    np.testing.assert_allclose(SetKernel(Matern())(X[:, None]), Matern()(X), rtol=1e-14)


def test_order_and_repetition_inside_a_bag_do_not_matter(rng):
    A = bags_of(rng, [4, 3, 6])
    shuffled = [rng.permutation(np.concatenate([a, a])) for a in A]
    np.testing.assert_allclose(SetKernel(RBF())(A, shuffled), SetKernel(RBF())(A), rtol=1e-12)


def test_the_distance_of_mean_maps_is_the_discrepancy(rng):
    A, B = bags_of(rng, [30, 20])
    K = SetKernel(RBF())([A, B])
    expected = K[0, 0] + K[1, 1] - 2 * K[0, 1]
    assert mmd(A, B, kernel=RBF(), estimator="biased") == pytest.approx(expected, rel=1e-9)


def test_normalized_is_the_cosine_between_mean_maps(rng):
    A = bags_of(rng, SIZES)
    K = SetKernel(RBF())(A)
    r = np.sqrt(K.diagonal())
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(K / np.outer(r, r))
    np.testing.assert_allclose(SetKernel(RBF()).normalized()(A), expected, atol=1e-14)


def test_a_small_memory_budget_gives_the_same_and_too_small_a_one_is_named(rng):
    A = bags_of(rng, [200, 300, 1, 250])
    expected = SetKernel(RBF())(A)
    with mercer.config(memory=400_000):
        np.testing.assert_allclose(SetKernel(RBF())(A), expected, rtol=1e-12)
    with mercer.config(memory=100), pytest.raises(MemoryBudgetExceeded):
        SetKernel(RBF())(A)


def test_kernels_that_count_average_their_counts(rng):
    words = ["".join(rng.choice(list("abc"), rng.integers(0, 6))) for _ in range(40)]
    bags = [words[i : i + rng.integers(0, 5)] for i in range(0, 40, 4)]
    s = SetKernel(Letters())
    expected = brute(Letters(), bags, bags)
    np.testing.assert_allclose(s(bags), expected, atol=1e-13)
    np.testing.assert_allclose(s(bags[:3], bags[2:]), expected[:3, 2:], atol=1e-13)
    np.testing.assert_allclose(s.diag(bags), expected.diagonal(), atol=1e-13)
    plain = SetKernel(1.0 * Letters())  # not counted: all pairs of points
    np.testing.assert_allclose(plain(bags), expected, atol=1e-13)


def test_features_are_the_means_of_features(rng):
    A = bags_of(rng, SIZES, d=3)
    s = SetKernel(Polynomial(2, 0.5))
    phi = s.features(A)
    assert s.n_features(A) == phi.shape[1]
    np.testing.assert_allclose(phi @ phi.T, s(A), atol=1e-12)
    np.testing.assert_array_equal(SetKernel(Linear()).features(A)[1], np.zeros(3))
    np.testing.assert_allclose(SetKernel(Linear()).features(A)[0], A[0].mean(0), atol=1e-15)
    sparse = [sp.csr_array(a) for a in A]
    np.testing.assert_allclose(SetKernel(Linear())(sparse), SetKernel(Linear())(A), atol=1e-12)


def test_words_are_resolved_on_all_points_with_the_weights_of_their_bags(rng):
    A = bags_of(rng, [5, 1, 9])
    assert SetKernel(RBF("median")).fit_params(A).kernel == RBF("median").fit_params(np.vstack(A))
    w = np.array([1.0, 0.0, 2.0])
    got = SetKernel(RBF("median")).fit_params(A, w).kernel
    assert got == RBF("median").fit_params(np.vstack(A), np.repeat(w, [5, 1, 9]))


def test_float32_points_give_float32_values(rng):
    A = bags_of(rng, [3, 2], dtype=np.float32)
    for k in (RBF(), Linear()):
        assert SetKernel(k)(A).dtype == np.float32 and SetKernel(k).diag(A).dtype == np.float32


def test_noise_belongs_to_the_points():
    bags = [np.zeros((2, 1)), np.zeros((4, 1))]
    np.testing.assert_allclose(SetKernel(White(1.0))(bags), np.diag([0.5, 0.25]))
    np.testing.assert_allclose(SetKernel(White(1.0))(bags, list(bags)), 0.0)


def test_sums_products_columns_and_nesting(rng):
    A = bags_of(rng, [3, 1, 2])
    K = SetKernel(RBF())(A)
    np.testing.assert_allclose((2.0 * SetKernel(RBF()) + 1.0)(A), 2 * K + 1)
    np.testing.assert_allclose(
        (SetKernel(RBF()) * SetKernel(Linear()))(A), K * SetKernel(Linear())(A)
    )
    nested = SetKernel(SetKernel(RBF()))([[A[0], A[1]], [A[2]]])
    np.testing.assert_allclose(nested[0, 1], (K[0, 2] + K[1, 2]) / 2)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, 2.0, 3.0], "visits": A})
    k = RBF().on("age") * SetKernel(RBF()).on("visits")
    np.testing.assert_allclose(k(frame), RBF()([[1.0], [2.0], [3.0]]) * K)


def test_what_cannot_be_put_into_bags():
    with pytest.raises(InvalidInput, match="precomputed"):
        SetKernel(mercer.Precomputed())
    with pytest.raises(InvalidInput, match="not a Kernel"):
        SetKernel("rbf")
    with pytest.raises(InvalidInput, match="bags"):
        SetKernel(RBF()) + RBF()
    with pytest.raises(InvalidInput, match="rows of numbers"):
        SetKernel(RBF()).gradient([np.zeros((1, 1))], None, [1.0])


def test_models_on_bags_and_their_files(rng, tmp_path):
    means = rng.uniform(-2, 2, 30)
    bags = [m + 0.3 * rng.standard_normal((rng.integers(1, 9), 1)) for m in means]
    model = KernelRidge(SetKernel(RBF("median")), alpha=1e-3).fit(bags[:20], means[:20])
    assert np.abs(model.predict(bags[20:]) - means[20:]).mean() < 0.5
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    words = [["ab", "c"], ["a"], [], ["bc", "bb"]] * 3
    model = KernelRidge(SetKernel(RBF()), alpha=0.1)
    with pytest.raises(InvalidInput, match=r"X\[0\]|points of X"):
        model.fit(words, range(12))
    letters = FromFunction(lambda a, b: float(len(set(a) & set(b))))
    assert KernelRidge(SetKernel(letters)).fit(words, range(12)).predict(words).shape == (12,)


@pytest.mark.parametrize("k", [RBF(), RBF("median"), Linear(), RBF().normalized(), RBF().on([1])])
def test_an_empty_bag_is_judged_alone_as_in_company(rng, k):
    A = [a.tolist() for a in bags_of(rng, SIZES)]
    model = KernelRidge(SetKernel(k), alpha=0.1).fit(A, np.arange(9.0))
    both = model.predict([[], A[0]])
    np.testing.assert_allclose(model.predict([[]]), both[:1])
    np.testing.assert_allclose(model.predict([[], ()]), [both[0]] * 2)
    assert SetKernel(RBF())([[]]).tolist() == [[0.0]] and SetKernel(RBF())([[]], A).shape == (1, 9)


def test_a_model_of_empty_bags_alone_meets_points_later(rng):
    model = KernelRidge(SetKernel(RBF("median"))).fit([[], []], [1.0, 2.0])
    np.testing.assert_array_equal(model.predict(bags_of(rng, [2, 0, 1])), 0.0)


def test_sets_are_bags():
    words = [{"ab", "cab"}, frozenset(["ca"]), set()]
    expected = brute(mercer.Spectrum(1), [["ab", "cab"], ["ca"], []], [["ab", "cab"], ["ca"], []])
    np.testing.assert_allclose(SetKernel(mercer.Spectrum(1))(words), expected)


def test_the_same_bags_of_arrays_given_again(rng):
    k = SetKernel(FromFunction(lambda a, b: float(a.sum() * b.sum())))
    model = KernelRidge(k).fit([[np.ones(2)], [np.zeros(3)], [np.ones(1)]], [0.0, 1.0, 2.0])
    again = [[np.ones(2)], [np.zeros(3)], [np.ones(1)]]
    np.testing.assert_array_equal(model.loo(again), model.loo())
    with pytest.raises(InvalidInput):
        model.loo([*again[:2], [np.full(1, 5.0)]])
