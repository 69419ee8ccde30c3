"""Neighbours in feature space against brute force, where rounding, ties and scales are unkind."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, Cosine, Laplacian, Linear, Matern, Periodic, Polynomial, RationalQuadratic
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput
from mercer.operators.neighbors import SPARE, find_nearest
from mercer.settings import config
from tests.models.words import alike, words

rng = np.random.default_rng(0)
METRIC = [RBF(0.7), Matern(1.3, nu=0.5), Matern(nu=2.5), RationalQuadratic(0.8, 2.0), Linear()]
OTHERS = [Polynomial(3), Cosine(), Laplacian(), Periodic(), RBF() + Linear(), 3.0 * RBF()]


SAME_ORDER = [
    2.0 * RBF(),
    RBF().on([0, 1]),
    RBF().normalized(),
    RBF() * RBF(2.0),
    RBF() + mercer.Constant(1.0),
    RBF() + mercer.White(0.1),
    (0.5 * RBF(0.01) * Matern() + 1.0) ** 2,
]


def search(kernel, Q, X, k):
    found, where = find(kernel, Q, X, k)
    return found**2, where


def find(kernel, Q, X, k):
    points = kernel.domain.check(X)
    queries = None if Q is None else kernel.domain.check(Q)
    return find_nearest(kernel, queries, points, np.asarray(kernel.diag(points)), k)


def distances(kernel, Q, X):
    """Squared distances by the definition, one pair at a time; none to oneself."""
    lengths = [[float(kernel([x])[0, 0]) for x in Z] for Z in (X if Q is None else Q, X)]
    D = np.array([[kernel([x], [y])[0, 0] for y in X] for x in (X if Q is None else Q)])
    D = np.maximum(np.add.outer(*lengths) - 2 * D, 0)
    if Q is None:
        np.fill_diagonal(D, np.inf)
    return D


def first(D, k):
    return np.argsort(D, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("kernel", METRIC + OTHERS, ids=repr)
def test_brute_force(kernel):
    X, Q = rng.standard_normal((21, 2)), rng.standard_normal((7, 2))
    for queries in (Q, None):
        D = distances(kernel, queries, X)
        for k in (1, 4, 20):
            with small_tiles(40):
                squared, where = search(kernel, queries, X, k)
            np.testing.assert_array_equal(where, first(D, k))
            np.testing.assert_allclose(squared, np.sort(D, axis=1)[:, :k], atol=1e-12)
            assert (np.diff(squared, axis=1) >= 0).all()


@pytest.mark.parametrize("kernel", [alike, lambda s, t: float(s == t)])
def test_words_by_a_function(kernel):
    kernel = mercer.FromFunction(kernel)
    X, Q = words(40), words(15, seed=1)
    for queries in (Q, None):
        squared, where = search(kernel, queries, X, 5)
        D = distances(kernel, queries, X)
        np.testing.assert_array_equal(where, first(D, 5))  # many ties: the first come first
        np.testing.assert_allclose(squared, np.sort(D, axis=1)[:, :5], rtol=1e-15)


def test_tables():
    X = mercer.domains.Table({"a": rng.integers(0, 3, 40), "b": rng.standard_normal(40)})
    kernel = RBF().on("a") * RBF().on("b") + Linear().on("b")
    D = mercer.distance(kernel, X) ** 2
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(search(kernel, None, X, 6)[1], first(D, 6))


# ------------------------------------------------------------------------------- equal distances
@pytest.mark.parametrize(
    ("kernel", "make"),
    [(kernel, np.asarray) for kernel in METRIC + OTHERS]
    + [(kernel, sp.csr_array) for kernel in METRIC + OTHERS if not isinstance(kernel, Periodic)],
)
def test_equal_points_are_at_distance_zero(kernel, make):
    X = 7.3 * rng.standard_normal((50, 9)) + 2.1
    X[31] = X[4]
    Q = X[[4, 17]]
    squared, where = search(kernel, make(Q), make(X), 2)
    assert squared[0].tolist() == [0.0, 0.0] and where[0].tolist() == [4, 31]
    assert squared[1, 0] == 0 and where[1, 0] == 17
    own = search(kernel, None, make(X), 1)
    assert own[0][4, 0] == 0 and own[1][4, 0] == 31 and own[1][31, 0] == 4


@pytest.mark.parametrize("kernel", METRIC, ids=repr)
@pytest.mark.parametrize("shift", [0.0, 1e4, 1e9])
def test_a_grid_has_many_ties_and_the_first_points_win(kernel, shift):
    """Distances on a grid are exact by differences, so that ties are ties, whatever the shift."""
    grid = np.array([[i, j, k] for i in range(6) for j in range(6) for k in range(6)], dtype=float)
    grid = grid[rng.permutation(len(grid))]
    D = ((grid[:, None] - grid[None]) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    for k in (1, 5, 20):
        with small_tiles(700):
            _, where = search(kernel, None, grid + shift, k)
        np.testing.assert_array_equal(where, first(D, k))


@pytest.mark.parametrize("kernel", METRIC, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_whole_numbers_around_a_centre_that_is_none(kernel, make):
    """The product rounds, differences do not; more ties than spare neighbours must be settled."""
    X = rng.integers(0, 5, (251, 4)).astype(float)
    Q = rng.integers(0, 5, (31, 4)).astype(float)
    D = ((Q[:, None] - X[None]) ** 2).sum(-1)
    for k in (1, 6):
        np.testing.assert_array_equal(search(kernel, make(Q), make(X), k)[1], first(D, k))


def test_far_clusters_of_near_points():
    """Within a cluster the product form is nothing but rounding."""
    centres = 1e6 * np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    X = np.repeat(centres, 30, axis=0) + rng.integers(-50, 51, (90, 2)) / 64
    X = X[rng.permutation(90)]
    D = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    for kernel in (Linear(), RBF(), Matern(), 2.0 * RBF(), RBF(3.0) * Matern() + 1.0):
        np.testing.assert_array_equal(search(kernel, None, X, 4)[1], first(D, 4))
    D = np.abs(X[:, None] - X[None]).sum(-1)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(search(Laplacian(), None, X, 4)[1], first(D, 4))


def test_more_copies_than_are_kept_in_spare():
    X = np.repeat(rng.standard_normal((3, 4)), 5 * SPARE, axis=0)
    order = rng.permutation(len(X))
    X = X[order]
    squared, where = search(RBF(), X[:7], X, 3)
    for i in range(7):
        same = np.flatnonzero((X == X[i]).all(1))
        assert where[i].tolist() == same[:3].tolist()
    assert (squared == 0).all()


# ---------------------------------------------------------------------------------------- scales
@pytest.mark.parametrize("kernel", [RBF(), Matern(), RationalQuadratic()], ids=repr)
def test_far_points_are_told_apart_where_the_kernel_is_zero(kernel):
    X = rng.standard_normal((40, 3))
    Q = 1e4 * rng.standard_normal((9, 3))
    _, where = search(kernel, Q, X, 4)
    D = ((Q[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(where, np.argsort(D, axis=1)[:, :4])


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e100, 1e150, 1e153])
@pytest.mark.parametrize(
    "kernel",
    [Linear(), 3.0 * Linear(), RBF(), Matern(), Laplacian(), RationalQuadratic()],
    ids=repr,
)
def test_extreme_scales_have_the_neighbours_of_moderate_ones(kernel, scale):
    X, Q = rng.standard_normal((80, 3)), rng.standard_normal((11, 3))
    for q in (Q, None):
        near, expected = search(kernel, q, X, 5)
        found, where = find(kernel, None if q is None else scale * q, scale * X, 5)
        np.testing.assert_array_equal(where, expected)
        if "Linear" in repr(kernel):
            np.testing.assert_allclose(found / scale, np.sqrt(near), rtol=1e-9)


def test_one_far_point_does_not_make_the_others_one():
    X = np.r_[rng.standard_normal((30, 2)), [[1e160, -1e160]]]
    expected = search(RBF(), X[:30], X[:30], 4)
    got = search(RBF(), X[:30], X, 4)
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-9)


def test_scales_that_overflow_are_refused():
    with pytest.raises(InvalidInput, match="length scale is too small"):
        search(RBF([1e-200, 1.0]), [[1.0, 1.0]], [[1e200, 1.0], [2.0, 1.0]], 1)


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.5, 2.5, 4.0])
def test_distances_of_near_points_keep_their_digits_and_their_order(nu):
    X = np.array([[0.0], [4e-9], [1.0], [2e-7], [0.0]])
    found, where = find(Matern(nu=nu), [[1e-9]], X, 5)
    assert where[0].tolist() == [0, 4, 1, 3, 2]
    assert (np.diff(found) >= 0).all() and found[0, 0] > 0
    power = min(nu, 1.0)
    np.testing.assert_allclose(found[0, 2] / found[0, 0], 3.0**power, rtol=1e-5)


@pytest.mark.parametrize("kernel", SAME_ORDER, ids=repr)
def test_kernels_that_rise_and_fall_with_an_rbf_have_its_neighbours(kernel):
    X = rng.standard_normal((200, 2))
    for Q in (1000 * rng.standard_normal((20, 2)), X[:20] + 1e-10, None):
        np.testing.assert_array_equal(search(kernel, Q, X, 3)[1], search(RBF(), Q, X, 3)[1])


def test_where_the_kernel_vanishes_and_the_order_is_chance_there_is_a_warning():
    X, Q = rng.standard_normal((20, 2)), np.array([[1e4, 0.0], [0.1, 0.0]])
    kernel = RBF() * Laplacian()
    with pytest.warns(UserWarning, match="1 of 2 points .row 0 is the first"):
        search(kernel, Q, X, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(kernel, Q[1:], X, 3)
        search(kernel, Q, X, 20)  # all of them: nothing to choose
        search(mercer.FromFunction(lambda s, t: float(s == t)), ["x"], ["a", "b"], 1)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e140])
def test_scales(scale):
    X, Q = scale * rng.standard_normal((40, 3)), scale * rng.standard_normal((9, 3))
    expected = np.argsort((((Q[:, None] - X[None]) / scale) ** 2).sum(-1), axis=1)[:, :6]
    for kernel in (Linear(), RBF(scale), RBF(2.5 * scale)):
        np.testing.assert_array_equal(search(kernel, Q, X, 6)[1], expected)


def test_near_points_far_from_the_origin():
    X = 1e8 + 1e-3 * rng.standard_normal((60, 2))
    D = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.fill_diagonal(D, np.inf)
    for kernel in (Linear(), RBF(1e-3), RBF(1.0)):
        squared, where = search(kernel, None, X, 5)
        np.testing.assert_array_equal(where, np.argsort(D, axis=1)[:, :5])
    np.testing.assert_allclose(squared, np.sort(D, axis=1)[:, :5], rtol=1e-5)


def test_distances_far_below_rounding_of_the_kernel_keep_their_digits():
    X = np.array([[0.0], [1e-12], [3e-12], [1.0]])
    squared, where = search(RBF(), None, X, 3)
    np.testing.assert_allclose(np.sqrt(squared[0, :2]), [1e-12, 3e-12], rtol=1e-12)
    assert where[0].tolist() == [1, 2, 3]


# ------------------------------------------------------------------------------------- machinery
def test_linear_with_a_matrix_and_rbf_with_a_covariance():
    A = rng.standard_normal((3, 3))
    A = A @ A.T + np.eye(3)
    X, Q = rng.standard_normal((50, 3)), rng.standard_normal((8, 3))
    for kernel in (Linear(A), RBF(covariance=A), RBF([0.5, 2.0, 1.0])):
        squared, where = search(kernel, Q, X, 7)
        D = mercer.distance(kernel, Q, X)
        np.testing.assert_array_equal(where, np.argsort(D, axis=1)[:, :7])
        np.testing.assert_allclose(np.sqrt(squared), np.sort(D, axis=1)[:, :7], rtol=1e-7)


def test_a_subclass_with_another_formula_is_not_taken_for_its_parent():
    class Hill(RBF):
        """A profile that falls, then rises to a second hill: the nearest in feature space."""

        def _profile(self, s, xp):
            return xp.exp(-0.5 * s) * (1 + xp.cos(3 * s)) / 2

        def _profile_in_place(self, s):
            return self._profile(s, np)

    X, Q = rng.uniform(-2, 2, (40, 1)), rng.uniform(-2, 2, (9, 1))
    _, where = search(Hill(), Q, X, 25)
    np.testing.assert_array_equal(where, first(-Hill()(Q, X), 25))


@pytest.mark.parametrize("kernel", [RBF(), Linear(), Polynomial(2)], ids=repr)
def test_sparse_rows_have_the_neighbours_of_dense_rows(kernel):
    X = sp.random_array((60, 20), density=0.2, random_state=np.random.default_rng(1), format="csr")
    Q = sp.random_array((15, 20), density=0.2, random_state=np.random.default_rng(2), format="csr")
    for queries in (Q, None):
        dense = None if queries is None else queries.toarray()
        got, expected = search(kernel, queries, X, 5), search(kernel, dense, X.toarray(), 5)
        np.testing.assert_array_equal(got[1], expected[1])
        np.testing.assert_allclose(got[0], expected[0], atol=1e-13)


def test_bits_do_not_depend_on_threads():
    X = np.round(rng.standard_normal((1200, 3)), 1)  # many ties
    for kernel in (RBF(), Laplacian()):
        answers = []
        for threads in (1, 2, 3):
            with config(threads=threads), small_tiles(3000):
                answers.append(search(kernel, None, X, 6))
        for squared, where in answers[1:]:
            np.testing.assert_array_equal(squared, answers[0][0])
            np.testing.assert_array_equal(where, answers[0][1])


def test_the_torch_engine_has_the_same_neighbours(torch):
    X, Q = rng.standard_normal((50, 3)), rng.standard_normal((8, 3))
    for kernel in (RBF(), Polynomial(2)):
        expected = search(kernel, Q, X, 4)
        with config(engine="torch"):
            got = search(kernel, Q, X, 4)
        np.testing.assert_array_equal(got[1], expected[1])
        np.testing.assert_allclose(got[0], expected[0], atol=1e-12)
