import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import KernelCenterer

import mercer
from mercer import RBF, center, distance, distance_to_set
from mercer.errors import InvalidInput

rng = np.random.default_rng(11)
X = rng.standard_normal((10, 3))
Y = rng.standard_normal((6, 3))

KERNELS = [RBF(), mercer.Matern(), mercer.Polynomial(2), mercer.Linear(), mercer.Cosine()]


# --------------------------------------------------------------------------------------- distance
@pytest.mark.parametrize("k", KERNELS, ids=repr)
def test_distance_is_the_formula(k):
    D = distance(k, X, Y)
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            xx, yy, xy = (k(a[None], b[None])[0, 0] for a, b in ((x, x), (y, y), (x, y)))
            assert D[i, j] == pytest.approx(np.sqrt(xx + yy - 2 * xy), rel=1e-9)


@pytest.mark.parametrize("k", [mercer.Polynomial(2), mercer.Linear()], ids=repr)
def test_distance_in_explicit_features(k):
    phi = k.features(X)
    want = np.linalg.norm(phi[:, None] - phi[None], axis=2)
    np.testing.assert_allclose(distance(k, X), want, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("k", KERNELS, ids=repr)
def test_distance_is_a_metric(k):
    D = distance(k, X)
    assert (D.diagonal() == 0).all()
    np.testing.assert_array_equal(D, D.T)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-9).all()


def test_distance_of_linear_kernel_is_euclidean_and_of_equal_points_zero():
    np.testing.assert_allclose(
        distance(mercer.Linear(), X, Y), np.linalg.norm(X[:, None] - Y, axis=2), rtol=1e-9
    )
    D = distance(RBF(), np.zeros((4, 2)))
    assert (D == 0).all() and not np.isnan(D).any()
    assert np.isfinite(distance(RBF(), X, X + 1e-12)).all()


SUMMED = 4.0 * mercer.Linear() + mercer.Linear().on([0, 1, 2])


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("form", ["dense", "sparse", "torch"])
@pytest.mark.parametrize(("k", "factor"), [(mercer.Linear(), 1.0), (SUMMED, 5**0.5)], ids=repr)
def test_distances_do_not_depend_on_where_the_points_are(offset, form, k, factor):
    make = {"dense": np.asarray, "sparse": sp.csr_array}.get(form)
    make = pytest.importorskip("torch").as_tensor if make is None else make
    A, B = X + offset, Y + offset
    near, other = A - offset, B - offset  # what is left of X and Y
    want = factor * np.linalg.norm(near[:, None] - other, axis=2)
    np.testing.assert_allclose(np.asarray(distance(k, make(A), make(B))), want, rtol=1e-9)
    own = np.asarray(distance(k, make(A)))
    np.testing.assert_array_equal(own, own.T)
    assert (own.diagonal() == 0).all()
    got = np.asarray(distance_to_set(k, make(A), make(B)))
    want = factor * np.linalg.norm(near - other.mean(0), axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-7)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize(
    "k",
    [RBF(1.0) + mercer.Linear(), RBF([1.0, 2.0, 3.0]) + (mercer.Laplacian() + mercer.Linear())],
    ids=repr,
)
def test_sums_with_a_part_that_has_features_keep_their_distances(k, offset):
    A, B = X + offset, Y + offset
    near, other = A - offset, B - offset  # what is left of X and Y
    got, want = distance_to_set(k, A, B), distance_to_set(k, near, other)
    np.testing.assert_allclose(got, want, rtol=1e-7)


def test_polynomial_distances_far_out_have_the_digits_that_features_leave():
    A = X + 1e4
    rows = [[Fraction(v) for v in row] for row in A.tolist()]

    def inner(p, q):
        return (sum(a * b for a, b in zip(p, q, strict=True)) + 1) ** 2

    want = [[float(inner(p, p) + inner(q, q) - 2 * inner(p, q)) ** 0.5 for q in rows] for p in rows]
    np.testing.assert_allclose(distance(mercer.Polynomial(2), A), want, rtol=1e-9)


def test_distances_that_are_rounding_are_told():
    def k(a, b):
        return float(a @ b)

    with pytest.warns(UserWarning, match="below the rounding error"):
        distance(k, X + 1e9)
    with pytest.warns(UserWarning, match="below the rounding error"):
        distance_to_set(k, X + 1e9, Y + 1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distance(k, X)
        distance(k, np.vstack([X, X]))  # equal points are at distance 0
        distance(RBF(), X, X + 1e-12)
        distance_to_set(RBF(), X[:1], X[:1])


def test_letters_without_a_feature_are_not_forgotten_where_features_are_subtracted():
    long = "a" * 20000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert distance(mercer.Spectrum(1), [long], [long + "b", long + "ab"])[0].tolist() == [
            1.0,
            2**0.5,
        ]
        assert distance_to_set(mercer.Spectrum(1), [long + "b"], [long])[0] == 1.0
        model = mercer.NearestBarycentre(mercer.Spectrum(1)).fit([long, long + "a"], [0, 1])
        np.testing.assert_allclose(model.distances([long + "b"]), [[1.0, 2**0.5]])


def test_distances_of_near_points_have_their_digits():
    for k in (RBF(0.7), mercer.Matern(1.1), 2.0 * RBF() + mercer.Constant(3.0)):
        near = X + 1e-9
        slope = distance(k, X[:1], X[:1] + 1e-3)[0, 0] / 1e-3
        got = distance(k, X, near).diagonal()
        np.testing.assert_allclose(got, slope * np.abs(near - X)[:, 0], rtol=1e-3)


def test_distance_of_objects_names_and_functions():
    def shared(a, b):
        return float(len(set(a) & set(b)))

    D = distance(shared, ["cat", "cart"], ["car"])
    np.testing.assert_allclose(D[:, 0], [np.sqrt(3 + 3 - 4), np.sqrt(4 + 3 - 6)])
    k = RBF("scale").fit_params(X)
    np.testing.assert_allclose(distance("rbf", X), distance(k, X))
    with pytest.raises(InvalidInput, match="fit_params"):
        distance("rbf", X, Y)


def test_distance_kinds():
    D = distance(RBF(), X.astype(np.float32))
    assert D.dtype == np.float32
    np.testing.assert_allclose(D, distance(RBF(), X), atol=1e-3)
    K = RBF()(X)
    before = K.copy()
    np.testing.assert_allclose(distance(mercer.Precomputed(), K), distance(RBF(), X), atol=1e-7)
    np.testing.assert_array_equal(K, before)
    with pytest.raises(InvalidInput, match="new points"):
        distance(mercer.Precomputed(), K[:2], K)
    torch = pytest.importorskip("torch")
    for other in (None, torch.as_tensor(Y)):
        D = distance(RBF(), torch.as_tensor(X), other)
        np.testing.assert_allclose(D.numpy(), distance(RBF(), X, None if other is None else Y))


# --------------------------------------------------------------------------------- distance to set
@pytest.mark.parametrize("k", [mercer.Polynomial(2), mercer.Linear()], ids=repr)
@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.0, 5.0, 0.5, 1.0]])
def test_distance_to_barycentre_in_explicit_features(k, weights):
    phi, psi = k.features(X), k.features(Y)
    centre = np.average(psi, axis=0, weights=weights)
    want = np.linalg.norm(phi - centre, axis=1)
    np.testing.assert_allclose(distance_to_set(k, X, Y, weights), want, rtol=1e-9)


def test_distance_to_set_by_double_loop():
    k = RBF()
    for x, got in zip(X, distance_to_set(k, X, Y), strict=True):
        one = x[None]
        want = 1 - 2 * k(one, Y).mean() + k(Y).mean()
        assert got == pytest.approx(np.sqrt(want), rel=1e-10)


def test_distance_to_set_degenerate():
    # The barycentre of one point is the point.
    np.testing.assert_allclose(distance_to_set(RBF(), X, Y[:1]), distance(RBF(), X, Y[:1])[:, 0])
    assert distance_to_set(mercer.Linear(), Y[:1], Y[:1])[0] == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(
        distance_to_set(RBF(), Y, Y, [2, 1, 1, 1, 1, 1]),
        distance_to_set(RBF(), Y, np.vstack([Y, Y[:1]])),
    )
    assert np.isfinite(distance_to_set("rbf", X, Y)).all()
    assert distance_to_set(RBF(), X.astype("f"), Y.astype("f")).dtype == np.float32
    for bad in ([1.0] * 5, [-1.0, 2, 2, 2, 2, 2], [0.0] * 6, [np.nan] * 6, ["a"] * 6):
        with pytest.raises(InvalidInput, match="weights"):
            distance_to_set(RBF(), X, Y, bad)
    with pytest.raises(InvalidInput, match="no points"):
        distance_to_set(RBF(), X, np.empty((0, 3)))
    with pytest.raises(InvalidInput, match="columns"):
        distance_to_set(RBF(), X[:, :2], Y)
    with pytest.raises(InvalidInput, match="new points"):
        distance_to_set(mercer.Precomputed(), np.ones((2, 3)), np.eye(3))


# ------------------------------------------------------------------------------------------ center
def test_center_equals_its_definition_and_scikit_learn():
    K, rows = RBF()(X), RBF()(Y, X)
    n = len(K)
    J = np.eye(n) - np.full((n, n), 1 / n)
    np.testing.assert_allclose(center(K), J @ K @ J, atol=1e-14)
    peer = KernelCenterer().fit(K)
    np.testing.assert_allclose(center(K), peer.transform(K.copy()), atol=1e-14)
    np.testing.assert_allclose(center(K, rows=rows), peer.transform(rows.copy()), atol=1e-14)
    np.testing.assert_allclose(center(K, rows=K), center(K), atol=1e-14)
    np.testing.assert_allclose(center(K).sum(0), 0, atol=1e-13)


@pytest.mark.parametrize("weights", [None, rng.uniform(0, 2, 10)])
def test_center_is_centring_of_features(weights):
    k = mercer.Polynomial(2)
    phi, psi = k.features(X), k.features(Y)
    mean = np.average(phi, axis=0, weights=weights)
    K, rows = k(X), k(Y, X)
    np.testing.assert_allclose(
        center(K, weights=weights), (phi - mean) @ (phi - mean).T, atol=1e-11
    )
    np.testing.assert_allclose(
        center(K, rows=rows, weights=weights), (psi - mean) @ (phi - mean).T, atol=1e-11
    )


def test_weight_is_repetition():
    twice = np.vstack([X, X[:1]])
    weights = np.r_[2.0, np.ones(9)]
    np.testing.assert_allclose(
        center(RBF()(X), weights=weights), center(RBF()(twice))[:10, :10], atol=1e-14
    )


def test_center_kinds_and_inputs_unchanged():
    K = RBF()(X)
    before = K.copy()
    K.setflags(write=False)
    out = center(K)
    np.testing.assert_array_equal(K, before)
    assert out is not K and center(K.astype(np.float32)).dtype == np.float32
    assert center([[3]]).tolist() == [[0.0]]
    assert center(K, rows=np.empty((0, 10))).shape == (0, 10)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(center(torch.as_tensor(before)).numpy(), out, atol=1e-14)
    np.testing.assert_allclose(
        center(torch.as_tensor(before), torch.as_tensor(before)).numpy(), out, atol=1e-14
    )


def test_center_bad_input():
    K = RBF()(X)
    with pytest.raises(InvalidInput, match="square"):
        center(K[:3])
    with pytest.raises(InvalidInput, match="columns"):
        center(K, rows=K[:, :4])
    with pytest.raises(InvalidInput, match="dimension"):
        center(np.arange(3))
    with pytest.raises(InvalidInput, match="weights"):
        center(K, weights=-np.ones(10))
    with pytest.raises(InvalidInput, match="weights"):
        center(K, weights=np.zeros(10))
    with pytest.raises(InvalidInput, match="finite"):
        center(np.full((2, 2), np.nan))
    with pytest.raises(InvalidInput):
        center(np.empty((0, 0)))
